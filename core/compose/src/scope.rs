//! A scope: where services, contributions and rows live, with a parent that it falls back on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use crate::effects::EffectFailure;
use crate::hook::{Around, HookPoint, Hooks, Observer, tell};
use crate::needs::ServiceKey;
use crate::plugin::{Given, Plugins, Row};
use crate::reconcile::{RowStatus, Rows};
use crate::tables::{Id, Tables};
use crate::tasks::TaskSet;

/// A scope; clones are handles to the same one. Close it when it has done its work: dropping the
/// last handle undoes nothing that must be awaited.
#[derive(Clone)]
pub struct Scope(Arc<Node>);

pub(crate) struct Node {
    name: Arc<str>,
    parent: Option<Scope>,
    children: Mutex<Vec<Weak<Node>>>,
    tables: Arc<Tables>,
    /// Held for the whole of an operation on the rows. A parent's operation takes it of its
    /// children, never the other way round.
    rows: tokio::sync::Mutex<Rows>,
    plugins: Arc<Plugins>,
    ids: Arc<AtomicU64>,
    tasks: TaskSet,
    token: CancellationToken,
}

impl Scope {
    /// The outermost scope. Operations on it and on the scopes below it run in `tasks`, so that
    /// none is cut off when its caller goes away.
    pub fn root(name: &str, plugins: Plugins, tasks: TaskSet) -> Self {
        let token = tasks.token().child_token();
        Self(Arc::new(Node {
            name: name.into(),
            parent: None,
            children: Mutex::default(),
            tables: Arc::default(),
            rows: tokio::sync::Mutex::default(),
            plugins: Arc::new(plugins),
            ids: Arc::default(),
            tasks,
            token,
        }))
    }

    /// A scope below this one. It sees what this one has, and can hide it by its own.
    pub fn child(&self, name: &str) -> Self {
        let child = Self(Arc::new(Node {
            name: name.into(),
            parent: Some(self.clone()),
            children: Mutex::default(),
            tables: Arc::default(),
            rows: tokio::sync::Mutex::default(),
            plugins: Arc::clone(&self.0.plugins),
            ids: Arc::clone(&self.0.ids),
            tasks: self.0.tasks.clone(),
            token: self.0.token.child_token(),
        }));
        let mut children = self.lock_children();
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.0));
        drop(children);
        child
    }

    /// What a person calls it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The plugins that rows here can name.
    pub fn plugins(&self) -> &Plugins {
        &self.0.plugins
    }

    /// Cancelled when the scope begins to close.
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    /// The tasks of the tree of scopes.
    pub fn tasks(&self) -> &TaskSet {
        &self.0.tasks
    }

    /// The nearest provider of a service.
    pub fn get<S: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        self.find().map(|(_, service)| service)
    }

    /// What is contributed of a kind, outer scopes first, each in the order of registration; of
    /// several with one name only the nearest, in its own place.
    pub fn all<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Arc<T>> {
        let mut nearest = Vec::new();
        let mut hidden = Vec::new();
        for scope in self.outwards() {
            let found = scope.0.tables.contributions::<T>();
            let names: Vec<_> = found.iter().filter_map(|item| item.name.clone()).collect();
            let visible = found
                .into_iter()
                .rev()
                .filter(|item| item.name.as_ref().is_none_or(|name| !hidden.contains(name)));
            nearest.extend(visible.map(|item| item.value));
            hidden.extend(names);
        }
        nearest.reverse();
        nearest
    }

    /// The listeners at a hook point as seen from here.
    pub fn hooks<P: HookPoint>(&self) -> Hooks<P> {
        Hooks::new(self.all::<dyn Around<P>>())
    }

    /// Tells the observers of `E` here and in the scopes above. What one of them breaks stays
    /// with it.
    pub fn tell<E: 'static>(&self, event: &E) {
        tell(&self.all::<dyn Observer<E>>(), event);
    }

    /// Puts rows into this scope, in order, and activates what can be. A row with the id of one
    /// that is there takes its place. Says what could not be undone on the way.
    ///
    /// # Cancel safety
    /// Cancel safe: the operation goes on.
    pub async fn mount(&self, rows: Vec<Row>) -> Vec<EffectFailure> {
        self.operate(|scope, table, failures| {
            Box::pin(async move {
                for row in rows {
                    let plugin = scope.0.plugins.find(row.plugin());
                    scope.put(table, row, plugin, failures).await;
                }
            })
        })
        .await
    }

    /// Provides a service that its caller owns, as a row of its own.
    ///
    /// # Cancel safety
    /// Cancel safe: the operation goes on.
    pub async fn provide<S: ?Sized + Send + Sync + 'static>(
        &self,
        id: &str,
        service: Arc<S>,
    ) -> Vec<EffectFailure> {
        let row = Row::new(id);
        self.operate(|scope, table, failures| {
            Box::pin(async move {
                scope.put(table, row, Some(Arc::new(Given(service))), failures).await;
            })
        })
        .await
    }

    /// Takes a row out; whatever needs it is retracted first.
    ///
    /// # Cancel safety
    /// Cancel safe: the operation goes on.
    pub async fn unmount(&self, id: &str) -> Vec<EffectFailure> {
        let id = id.to_owned();
        self.operate(|scope, table, failures| {
            Box::pin(async move { scope.take(table, &id, failures).await })
        })
        .await
    }

    /// How every row stands, in order.
    pub async fn rows(&self) -> Vec<RowStatus> {
        self.0.rows.lock().await.status(self)
    }

    /// Closes the scopes below, then retracts every row, newest first. Rows can be put in no
    /// more. Says what could not be undone.
    ///
    /// # Cancel safety
    /// Cancel safe: the operation goes on.
    pub async fn close(&self) -> Vec<EffectFailure> {
        // Before the wait for the rows, so that an activation that takes long can end.
        self.0.token.cancel();
        let scope = self.clone();
        let closing = self.0.tasks.spawn(async move {
            let failures = scope.close_all().await;
            if let Some(parent) = &scope.0.parent {
                parent.lock_children().retain(|child| !child.ptr_eq(&Arc::downgrade(&scope.0)));
            }
            failures
        });
        closing.await.unwrap_or_default()
    }

    /// The nearest provider of a service, with its id.
    pub(crate) fn find<S: ?Sized + Send + Sync + 'static>(&self) -> Option<(Id, Arc<S>)> {
        self.outwards().find_map(|scope| scope.0.tables.service())
    }

    /// The id of the nearest provider that `but` does not own.
    pub(crate) fn provider(&self, key: ServiceKey, but: Id) -> Option<Id> {
        self.outwards().find_map(|scope| scope.0.tables.service_id(key, but))
    }

    pub(crate) fn next_id(&self) -> Id {
        self.0.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn tables(&self) -> &Arc<Tables> {
        &self.0.tables
    }

    pub(crate) fn rows_lock(&self) -> &tokio::sync::Mutex<Rows> {
        &self.0.rows
    }

    pub(crate) fn children(&self) -> Vec<Scope> {
        self.lock_children().iter().filter_map(Weak::upgrade).map(Scope).collect()
    }

    fn outwards(&self) -> impl Iterator<Item = &Scope> {
        std::iter::successors(Some(self), |scope| scope.0.parent.as_ref())
    }

    fn lock_children(&self) -> MutexGuard<'_, Vec<Weak<Node>>> {
        self.0.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Scope").field(&self.0.name).finish()
    }
}
