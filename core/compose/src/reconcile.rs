//! The rows of a scope, and how they are brought to what they should be: active where their needs
//! are met, retracted where one has gone or was taken over.
//!
//! One operation at a time works on a scope's rows and ends when nothing is left to do. A provider
//! is withdrawn in four steps: nobody finds it any more; its consumers here are retracted; those in
//! the scopes below are; then its own effects are undone.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::activation::{Activation, Setup};
use crate::effects::{EffectFailure, panic_text};
use crate::needs::{Bound, ServiceKey};
use crate::plugin::{Factory, Ready, Row};
use crate::scope::Scope;

/// How often one operation may retract a row before it is taken for one that can never settle.
const MAX_RETRACTIONS: u32 = 8;

/// The rows of one scope, in the order in which they were put in.
#[derive(Default)]
pub(crate) struct Rows {
    entries: Vec<Entry>,
}

struct Entry {
    row: Row,
    plugin: Option<Arc<dyn Factory>>,
    state: State,
    /// Retractions in the present operation.
    retractions: u32,
}

enum State {
    /// Not active, and not tried with its needs as they are.
    Idle,
    Active {
        activation: Activation,
        bound: Vec<Bound>,
    },
    /// Tried with these providers.
    Failed {
        reason: String,
        bound: Vec<Bound>,
    },
}

/// How a row stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowStatus {
    /// The row's name.
    pub id: String,
    /// Its plugin's name.
    pub plugin: String,
    /// What it provides where it is active.
    pub provides: Vec<ServiceKey>,
    /// Whether it works, and why not.
    pub state: RowState,
}

/// Whether a row works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    /// It is active.
    Active,
    /// It waits for these services.
    Pending(Vec<ServiceKey>),
    /// It was tried, and failed for this reason.
    Failed(String),
    /// It is switched off.
    Disabled,
}

impl Rows {
    pub(crate) fn status(&self, scope: &Scope) -> Vec<RowStatus> {
        self.entries.iter().map(|entry| entry.status(scope)).collect()
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.row.id == id)
    }

    /// The newest active row that `wanted` wants.
    fn newest(&self, wanted: impl Fn(&Activation, &[Bound], &Entry) -> bool) -> Option<usize> {
        let active = self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let State::Active { activation, bound } = &entry.state else { return None };
            wanted(activation, bound, entry).then_some((activation.owner(), index))
        });
        active.max().map(|(_, index)| index)
    }
}

impl Entry {
    /// Whether it is to be activated now, with its needs as they are met now. A row that failed
    /// is tried again when its providers are others.
    fn try_next(&mut self, scope: &Scope) -> Option<(Arc<dyn Factory>, Ready)> {
        let plugin = self.plugin.clone().filter(|_| !self.row.disabled)?;
        if matches!(self.state, State::Active { .. }) {
            return None;
        }
        let Some(ready) = plugin.bind(scope) else {
            self.state = State::Idle;
            return None;
        };
        if matches!(&self.state, State::Failed { bound, .. } if *bound == ready.bound) {
            return None;
        }
        if self.retractions > MAX_RETRACTIONS {
            let reason = "its own consumers replace what it needs".to_owned();
            self.state = State::Failed { reason, bound: ready.bound };
            return None;
        }
        Some((plugin, ready))
    }

    fn status(&self, scope: &Scope) -> RowStatus {
        let provides = self.plugin.as_ref().map(|plugin| plugin.provides()).unwrap_or_default();
        let state = match (&self.state, &self.plugin) {
            _ if self.row.disabled => RowState::Disabled,
            (State::Active { .. }, _) => RowState::Active,
            (State::Failed { reason, .. }, _) => RowState::Failed(reason.clone()),
            (State::Idle, None) => {
                RowState::Failed(format!("there is no plugin named {:?}", self.row.plugin()))
            }
            (State::Idle, Some(plugin)) => {
                let missing = |key: &ServiceKey| scope.provider(*key, NOBODY).is_none();
                RowState::Pending(plugin.needs().into_iter().filter(missing).collect())
            }
        };
        let provides = if state == RowState::Active { provides } else { Vec::new() };
        let plugin = self.row.plugin().to_owned();
        RowStatus { id: self.row.id.clone(), plugin, provides, state }
    }
}

/// An owner that does not exist: ids are counted from 0 and never get here.
const NOBODY: u64 = u64::MAX;

type Failures = Vec<EffectFailure>;

impl Scope {
    /// Runs one operation on the rows and brings this scope, and those below it, to rest.
    pub(crate) async fn operate<F>(&self, operation: F) -> Failures
    where
        F: for<'a> FnOnce(&'a Scope, &'a mut Rows, &'a mut Failures) -> BoxFuture<'a, ()>
            + Send
            + 'static,
    {
        let scope = self.clone();
        let task = self.tasks().spawn(async move {
            let mut failures = Failures::new();
            let mut rows = scope.rows_lock().lock().await;
            if scope.token().is_cancelled() {
                tracing::warn!(scope = scope.name(), "rows were put into a closed scope");
                return failures;
            }
            operation(&scope, &mut rows, &mut failures).await;
            scope.settle(&mut rows, &mut failures).await;
            failures
        });
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an operation on a scope failed");
            Failures::new()
        })
    }

    /// Puts a row in, in the place of one with its id.
    pub(crate) async fn put(
        &self,
        rows: &mut Rows,
        row: Row,
        plugin: Option<Arc<dyn Factory>>,
        failures: &mut Failures,
    ) {
        let entry = |row| Entry { row, plugin, state: State::Idle, retractions: 0 };
        let Some(index) = rows.position(&row.id) else {
            rows.entries.push(entry(row));
            return;
        };
        self.retract(rows, index, failures).await;
        if let Some(old) = rows.entries.get_mut(index) {
            *old = entry(row);
        }
    }

    /// Takes a row out.
    pub(crate) async fn take(&self, rows: &mut Rows, id: &str, failures: &mut Failures) {
        if let Some(index) = rows.position(id) {
            self.retract(rows, index, failures).await;
            rows.entries.remove(index);
        }
    }

    /// Closes the scopes below, then retracts every row, newest first.
    pub(crate) fn close_all(&self) -> BoxFuture<'_, Failures> {
        async move {
            let mut failures = Failures::new();
            let mut rows = self.rows_lock().lock().await;
            for child in self.children() {
                child.token().cancel();
                failures.extend(child.close_all().await);
            }
            while let Some(index) = rows.newest(|_, _, _| true) {
                self.retract(&mut rows, index, &mut failures).await;
            }
            failures
        }
        .boxed()
    }

    /// Retracts and activates until nothing is left to do, here and below.
    fn settle<'a>(&'a self, rows: &'a mut Rows, failures: &'a mut Failures) -> BoxFuture<'a, ()> {
        async move {
            rows.entries.iter_mut().for_each(|entry| entry.retractions = 0);
            loop {
                if let Some(index) = self.stale(rows) {
                    self.retract(rows, index, failures).await;
                } else if !self.activate_next(rows, failures).await {
                    break;
                }
            }
            for child in self.children() {
                let mut rows = child.rows_lock().lock().await;
                child.settle(&mut rows, failures).await;
            }
        }
        .boxed()
    }

    /// The newest active row of which a need is met by another provider than before, or by none.
    fn stale(&self, rows: &Rows) -> Option<usize> {
        rows.newest(|activation, bound, entry| {
            let needs = entry.plugin.iter().flat_map(|plugin| plugin.needs());
            let now = needs.map(|key| self.provider(key, activation.owner()).map(Bound));
            !now.eq(bound.iter().copied().map(Some))
        })
    }

    /// Withdraws what a row provides, retracts whoever needs it, and undoes its effects.
    fn retract<'a>(
        &'a self,
        rows: &'a mut Rows,
        index: usize,
        failures: &'a mut Failures,
    ) -> BoxFuture<'a, ()> {
        async move {
            let Some(entry) = rows.entries.get_mut(index) else { return };
            entry.retractions = entry.retractions.saturating_add(1);
            let State::Active { activation, .. } = std::mem::replace(&mut entry.state, State::Idle)
            else {
                return;
            };
            let gone = self.tables().withdraw_services(activation.owner());
            if !gone.is_empty() {
                self.retract_consumers(rows, &gone, failures).await;
            }
            failures.extend(activation.retract().await);
        }
        .boxed()
    }

    /// Retracts the rows that were given one of these services, those of the scopes below first,
    /// then newest first: a row never depends on one that came after it.
    fn retract_consumers<'a>(
        &'a self,
        rows: &'a mut Rows,
        gone: &'a [Bound],
        failures: &'a mut Failures,
    ) -> BoxFuture<'a, ()> {
        async move {
            for child in self.children() {
                let mut rows = child.rows_lock().lock().await;
                child.retract_consumers(&mut rows, gone, failures).await;
            }
            let consumes = |_: &Activation, bound: &[Bound], _: &Entry| {
                bound.iter().any(|provider| gone.contains(provider))
            };
            while let Some(index) = rows.newest(consumes) {
                self.retract(rows, index, failures).await;
            }
        }
        .boxed()
    }

    /// Activates the first row that can be; `false` when there is none, or when the scope closes.
    async fn activate_next(&self, rows: &mut Rows, failures: &mut Failures) -> bool {
        for entry in &mut rows.entries {
            if self.token().is_cancelled() {
                return false;
            }
            if let Some((plugin, ready)) = entry.try_next(self) {
                entry.state = self.activate(&entry.row, &*plugin, ready, failures).await;
                return true;
            }
        }
        false
    }

    /// Activates a row; of one that fails everything is rolled back.
    async fn activate(
        &self,
        row: &Row,
        plugin: &dyn Factory,
        ready: Ready,
        failures: &mut Failures,
    ) -> State {
        let Ready { bound, activate } = ready;
        let activation = Activation::new(row.id.as_str().into(), self);
        let (config, setup) = (row.config.clone(), Setup::new(activation.clone()));
        let activating = async move { activate(config, setup).await };
        let reason = match AssertUnwindSafe(activating).catch_unwind().await {
            Ok(Ok(())) => self.unkept_promise(plugin, &activation),
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(format!("panicked: {}", panic_text(&*panic))),
        };
        let Some(reason) = reason else { return State::Active { activation, bound } };
        tracing::warn!(row = row.id, reason, "a row could not be activated");
        self.tables().withdraw_services(activation.owner());
        failures.extend(activation.retract().await);
        State::Failed { reason, bound }
    }

    fn unkept_promise(&self, plugin: &dyn Factory, activation: &Activation) -> Option<String> {
        let unkept = |key: &ServiceKey| !self.tables().provides(*key, activation.owner());
        let key = plugin.provides().into_iter().find(unkept)?;
        Some(format!("it promises {key} and does not provide it"))
    }
}
