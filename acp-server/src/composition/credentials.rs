//! Keys that commands print: taken when they are first needed, kept in memory for the life of the
//! process, and taken anew when a provider refuses one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bridle_model::{Chunk, FailureCode, ModelAdapter, ModelFailure, ModelRequest, Secret};
use bridle_world::process::run_for_credential;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio_util::sync::CancellationToken;

/// How long a command may take; it may ask a person to unlock something.
const LIMIT: Duration = Duration::from_secs(60);

/// The keys so far, by the command that printed them.
#[derive(Clone, Default)]
pub(super) struct CommandKeys(Arc<Mutex<HashMap<Vec<String>, Secret>>>);

impl CommandKeys {
    /// The key that `command` prints; it is run if it has not been.
    ///
    /// # Errors
    /// `Auth`, with the program and what is wrong.
    pub(super) async fn get(&self, command: &[String]) -> Result<Secret, ModelFailure> {
        if let Some(key) = self.lock().get(command) {
            return Ok(key.clone());
        }
        let Some((program, arguments)) = command.split_first() else {
            return Err(ModelFailure::new(FailureCode::Auth, "credential_command is empty"));
        };
        let printed = run_for_credential(program, arguments, LIMIT).await;
        let key = Secret::new(printed.map_err(|error| {
            let message = format!("credential_command: {program} {error}");
            ModelFailure::new(FailureCode::Auth, message)
        })?);
        self.lock().insert(command.to_vec(), key.clone());
        Ok(key)
    }

    fn forget(&self, command: &[String], refused: &Secret) {
        let mut keys = self.lock();
        if keys.get(command).is_some_and(|key| key.expose() == refused.expose()) {
            keys.remove(command);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<String>, Secret>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an adapter with a key.
pub(super) type MakeAdapter =
    dyn Fn(Secret) -> Result<Box<dyn ModelAdapter>, ModelFailure> + Send + Sync;

/// An adapter whose key a command printed: when the provider refuses the key, the command is run
/// once more, and if it prints another one, the request is sent again.
pub(super) struct Renewing {
    pub(super) keys: CommandKeys,
    pub(super) command: Vec<String>,
    pub(super) key: Secret,
    pub(super) make: Arc<MakeAdapter>,
}

impl ModelAdapter for Renewing {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        let first = match (self.make)(self.key.clone()) {
            Ok(adapter) => adapter.stream(request.clone(), token.clone()),
            Err(failure) => return stream::iter([Err(failure)]).boxed(),
        };
        let again = Again {
            keys: self.keys.clone(),
            command: self.command.clone(),
            refused: self.key.clone(),
            make: Arc::clone(&self.make),
            request,
            token,
        };
        stream::unfold((first, Some(again)), |(mut chunks, again)| async move {
            let item = chunks.next().await?;
            match (item, again) {
                (Err(failure), Some(again)) if failure.status == Some(401) => {
                    let mut renewed = again.stream(failure).await;
                    renewed.next().await.map(|item| (item, (renewed, None)))
                }
                // Whatever came after the key was taken has nothing to do with it.
                (item, _) => Some((item, (chunks, None))),
            }
        })
        .boxed()
    }

    fn list(
        &self,
    ) -> Option<futures::future::BoxFuture<'_, Result<Vec<bridle_model::ListedModel>, ModelFailure>>>
    {
        None
    }
}

/// What is needed to send a request a second time.
struct Again {
    keys: CommandKeys,
    command: Vec<String>,
    refused: Secret,
    make: Arc<MakeAdapter>,
    request: ModelRequest,
    token: CancellationToken,
}

impl Again {
    async fn stream(
        self,
        refusal: ModelFailure,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        self.keys.forget(&self.command, &self.refused);
        let key = tokio::select! {
            biased;
            () = self.token.cancelled() => Err(ModelFailure::cancelled()),
            key = self.keys.get(&self.command) => key,
        };
        let failed = |failure| stream::iter([Err(failure)]).boxed();
        match key {
            Ok(key) if key.expose() == self.refused.expose() => failed(refusal),
            Ok(key) => match (self.make)(key) {
                Ok(adapter) => adapter.stream(self.request, self.token),
                Err(failure) => failed(failure),
            },
            Err(failure) => failed(failure),
        }
    }
}
