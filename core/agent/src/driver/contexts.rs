//! Runtime context: every source is asked before each step, all at once, and the model is told
//! what has changed since it was told last.
//!
//! What it was told last is read from the surface, so whatever takes a message off the surface
//! makes the source speak again.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bridle_session::{Content, Message, MessageId, Projection, UserMessage, UserSource};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::context::{ContextInput, ContextPart, ContextSource};
use crate::reference::came_with_prompt;
use crate::update::NoticeLevel;

/// How long one source may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Driver {
    /// What the sources have to say that the model has not read yet, in the order of the sources.
    pub(super) async fn changed_contexts(
        &mut self,
        now: ContextInput,
        token: &CancellationToken,
    ) -> Result<Vec<UserMessage>, Halt> {
        let sources = self.scope.all::<dyn ContextSource>();
        let clock = Arc::clone(&self.clock);
        let asked = join_all(sources.iter().map(|source| {
            let patience = clock.sleep(PATIENCE);
            async {
                tokio::select! {
                    biased;
                    parts = AssertUnwindSafe(source.collect_parts(&now)).catch_unwind() => parts.ok(),
                    () = patience => None,
                }
            }
        }));
        let answers = self.unless_cancelled(asked, token).await?;
        let mut messages = Vec::new();
        let mut notices = Vec::new();
        for (source, answer) in sources.iter().zip(answers) {
            let Some(parts) = answer else {
                notices.push(format!("The context \"{}\" could not be read", source.name()));
                continue;
            };
            for News { name, text, notice } in news(source.name(), parts, &now.told) {
                messages.push(UserMessage {
                    id: MessageId::new(format!("context-{}-{}-{name}", now.turn, now.step)),
                    content: vec![Content::text(text)],
                    source: UserSource::Context { name },
                });
                notices.extend(notice);
            }
        }
        for title in notices {
            self.notice(NoticeLevel::Warning, title, None).await;
        }
        Ok(messages)
    }
}

/// What the model is told of a source.
struct News {
    /// The name under which the log has it.
    name: String,
    text: String,
    notice: Option<String>,
}

/// Stands between the name of a source and that of a part of what it says.
const OF_A_PART: &str = ": ";

/// Whether the log has something of `source` under `name`.
pub(super) fn is_of(name: &str, source: &str) -> bool {
    name.strip_prefix(source).is_some_and(|part| part.is_empty() || part.starts_with(OF_A_PART))
}

/// What a source says otherwise than it was told: first what does not hold any more.
fn news(source: &str, parts: Vec<ContextPart>, told: &BTreeMap<String, String>) -> Vec<News> {
    let logged = |part: &ContextPart| match part.name.as_str() {
        "" => source.to_owned(),
        name => format!("{source}{OF_A_PART}{name}"),
    };
    let parts: Vec<_> = parts.into_iter().map(|part| (logged(&part), part)).collect();
    let own = told.iter().filter(|(name, _)| is_of(name, source));
    let gone = own.filter(|(name, text)| {
        **text != withdrawn(name) && !parts.iter().any(|(now, _)| now == *name)
    });
    let gone =
        gone.map(|(name, _)| News { name: name.clone(), text: withdrawn(name), notice: None });
    let mut news: Vec<_> = gone.collect();
    for (name, ContextPart { text, notice, .. }) in parts {
        if told.get(&name) != Some(&text) {
            news.push(News { name, text, notice });
        }
    }
    news
}

/// What each source said last of what the model reads.
pub(super) fn told_last(surface: &Projection) -> BTreeMap<String, String> {
    let said = surface.messages().filter_map(|message| match message {
        Message::User(message) => match (&message.source, message.content.as_slice()) {
            (UserSource::Context { name }, [Content::Text { text }]) if !came_with_prompt(name) => {
                Some((name.clone(), text.clone()))
            }
            _ => None,
        },
        _ => None,
    });
    said.collect()
}

fn withdrawn(source: &str) -> String {
    format!("[{source}: what was said under this name does not hold any more.]")
}
