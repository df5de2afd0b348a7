//! The handle by which an active plugin gives things to its scope and owns what it set up.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::effects::{Effect, EffectFailure, Effects, UndoError};
use crate::hook::{Around, HookPoint, Observer};
use crate::needs::ServiceKey;
use crate::scope::Scope;
use crate::tables::{Duplicate, Id, Place, Registration};

/// One activation of one row. Clones may outlive it: what they register after the row was
/// retracted is undone at once and refused.
#[derive(Clone)]
pub struct Activation(Arc<Shared>);

struct Shared {
    row: Arc<str>,
    owner: Id,
    scope: Scope,
    token: CancellationToken,
    /// `None` once the row is retracted.
    effects: Mutex<Option<Effects>>,
}

impl Activation {
    pub(crate) fn new(row: Arc<str>, scope: &Scope) -> Self {
        Self(Arc::new(Shared {
            row,
            owner: scope.next_id(),
            scope: scope.clone(),
            token: scope.token().child_token(),
            effects: Mutex::new(Some(Effects::default())),
        }))
    }

    /// The scope of the row: for lookups, and as the parent of further scopes.
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Cancelled when the row is retracted, before its effects are undone.
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    /// Contributes `value` under a name that nothing else of its kind has in this scope; the one
    /// of a nearer scope hides it.
    ///
    /// # Errors
    /// [`Duplicate::Name`]; [`Duplicate::Retracted`] when the row is not active any more.
    pub fn register<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        value: Arc<T>,
    ) -> Result<Registration, Duplicate> {
        self.contribute(Some(name), value, Place::Back)
    }

    /// [`Activation::register`], owned by this row until it is retracted.
    ///
    /// # Errors
    /// As [`Activation::register`].
    pub fn add<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        value: Arc<T>,
    ) -> Result<(), Duplicate> {
        let registration = self.register(name, value)?;
        self.own(format!("{} {name}", ServiceKey::of::<T>()), registration)
    }

    /// Listens at a hook point, inside of whatever listens there already.
    ///
    /// # Errors
    /// [`Duplicate::Retracted`].
    pub fn hook<P: HookPoint>(&self, listener: Arc<dyn Around<P>>) -> Result<(), Duplicate> {
        self.listen(P::NAME, listener, Place::Back)
    }

    /// Listens at a hook point, outside of whatever listens there in this scope.
    ///
    /// # Errors
    /// [`Duplicate::Retracted`].
    pub fn hook_first<P: HookPoint>(&self, listener: Arc<dyn Around<P>>) -> Result<(), Duplicate> {
        self.listen(P::NAME, listener, Place::Front)
    }

    /// Is told of each `E` that happens in this scope or below it.
    ///
    /// # Errors
    /// [`Duplicate::Retracted`].
    pub fn observe<E: 'static>(&self, observer: Arc<dyn Observer<E>>) -> Result<(), Duplicate> {
        self.listen("observer", observer, Place::Back)
    }

    /// Owns `guard` until the row is retracted; dropping it undoes what it stands for.
    ///
    /// # Errors
    /// [`Duplicate::Retracted`] when the row is not active any more; the guard is dropped then.
    pub fn own(
        &self,
        label: impl Into<Cow<'static, str>>,
        guard: impl Send + 'static,
    ) -> Result<(), Duplicate> {
        self.keep(Effect::guard(label.into(), guard))
    }

    /// Runs `undo` to its end when the row is retracted.
    ///
    /// # Errors
    /// [`Duplicate::Retracted`] when the row is not active any more; `undo` begins at once then, and
    /// goes on as a task of the tree of scopes.
    pub fn on_retract<F>(
        &self,
        label: impl Into<Cow<'static, str>>,
        undo: impl FnOnce() -> F + Send + 'static,
    ) -> Result<(), Duplicate>
    where
        F: Future<Output = Result<(), UndoError>> + Send + 'static,
    {
        self.keep(Effect::call(label.into(), undo))
    }

    pub(crate) fn owner(&self) -> Id {
        self.0.owner
    }

    /// Undoes everything, newest first. Whatever is registered from now on is refused.
    pub(crate) async fn retract(&self) -> Vec<EffectFailure> {
        self.0.token.cancel();
        let effects = self.effects().take().unwrap_or_default();
        let failures = effects.undo(&self.0.row).await;
        // What the plugin kept a guard of itself goes, too.
        self.0.scope.tables().withdraw_contributions(self.0.owner);
        failures
    }

    fn listen<T: ?Sized + Send + Sync + 'static>(
        &self,
        label: &'static str,
        listener: Arc<T>,
        place: Place,
    ) -> Result<(), Duplicate> {
        let registration = self.contribute(None, listener, place)?;
        self.own(label, registration)
    }

    fn contribute<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        value: Arc<T>,
        place: Place,
    ) -> Result<Registration, Duplicate> {
        // Held so that a retraction cannot come between the check and the entry.
        let effects = self.effects();
        if effects.is_none() {
            return Err(self.retracted());
        }
        let (tables, id) = (self.0.scope.tables(), self.0.scope.next_id());
        if tables.contribute((id, self.0.owner), name, value, place) {
            return Ok(Registration::new::<T>(tables, id));
        }
        Err(Duplicate::Name {
            scope: self.0.scope.name().to_owned(),
            kind: ServiceKey::of::<T>(),
            name: name.unwrap_or_default().to_owned(),
        })
    }

    fn keep(&self, effect: Effect) -> Result<(), Duplicate> {
        if let Some(effects) = &mut *self.effects() {
            effects.push(effect);
            return Ok(());
        }
        let row = Arc::clone(&self.0.row);
        let mut undoing = Box::pin(async move {
            if let Err(failure) = effect.undo(&row).await {
                tracing::error!(%failure, "a late effect");
            }
        });
        // A guard is gone when this returns; what has to be awaited goes on as a task.
        if undoing.as_mut().now_or_never().is_none() {
            self.0.scope.tasks().spawn(undoing);
        }
        Err(self.retracted())
    }

    fn retracted(&self) -> Duplicate {
        Duplicate::Retracted { row: self.0.row.to_string() }
    }

    fn effects(&self) -> MutexGuard<'_, Option<Effects>> {
        self.0.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a plugin is given while it is activated: an [`Activation`] that can also provide services.
pub struct Setup(Activation);

impl Setup {
    pub(crate) fn new(activation: Activation) -> Self {
        Self(activation)
    }

    /// Provides the service of this type in this scope. It is withdrawn before the row's effects
    /// are undone, and whoever needs it is retracted first.
    ///
    /// # Errors
    /// [`Duplicate::Service`] when the scope has one.
    pub fn provide<S: ?Sized + Send + Sync + 'static>(
        &self,
        service: Arc<S>,
    ) -> Result<(), Duplicate> {
        let scope = self.0.scope();
        if scope.tables().provide(scope.next_id(), self.0.owner(), service) {
            return Ok(());
        }
        let service = ServiceKey::of::<S>();
        Err(Duplicate::Service { scope: scope.name().to_owned(), service })
    }
}

impl std::ops::Deref for Setup {
    type Target = Activation;

    fn deref(&self) -> &Activation {
        &self.0
    }
}
