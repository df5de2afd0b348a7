//! What one scope knows by type: its services, and what was contributed to it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::needs::{Bound, ServiceKey};

/// A number that is given once in a tree of scopes: to an activation, a service, a contribution.
pub(crate) type Id = u64;

/// A registration that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Duplicate {
    /// The scope has a provider of this service.
    #[error("{scope} already has a provider of {service}")]
    Service {
        /// The scope's name.
        scope: String,
        /// The service.
        service: ServiceKey,
    },
    /// The scope has a contribution of this kind and name.
    #[error("{scope} already has {kind} {name:?}")]
    Name {
        /// The scope's name.
        scope: String,
        /// What kind of contribution.
        kind: ServiceKey,
        /// The name.
        name: String,
    },
    /// Whoever registers has been retracted meanwhile.
    #[error("{row} is not active any more")]
    Retracted {
        /// The row.
        row: String,
    },
}

/// Where a contribution goes among those of its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Front,
    Back,
}

/// The tables of one scope.
#[derive(Default)]
pub(crate) struct Tables(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    services: HashMap<TypeId, Provided>,
    contributions: HashMap<TypeId, Vec<Contributed>>,
}

struct Provided {
    id: Id,
    owner: Id,
    /// An `Arc<S>`.
    value: Box<dyn Any + Send + Sync>,
}

struct Contributed {
    id: Id,
    owner: Id,
    name: Option<Arc<str>>,
    /// An `Arc<T>`.
    value: Box<dyn Any + Send + Sync>,
}

/// One contribution as it is looked up.
pub(crate) struct Found<T: ?Sized> {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) value: Arc<T>,
}

impl Tables {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No lock is held over foreign code, so a panic cannot leave the tables half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a service; `false` when there is one of its type.
    #[must_use]
    pub(crate) fn provide<S: ?Sized + Send + Sync + 'static>(
        &self,
        id: Id,
        owner: Id,
        value: Arc<S>,
    ) -> bool {
        let mut inner = self.lock();
        let free = !inner.services.contains_key(&TypeId::of::<S>());
        if free {
            inner
                .services
                .insert(TypeId::of::<S>(), Provided { id, owner, value: Box::new(value) });
        }
        free
    }

    /// The service and its id.
    pub(crate) fn service<S: ?Sized + Send + Sync + 'static>(&self) -> Option<(Id, Arc<S>)> {
        let inner = self.lock();
        let provided = inner.services.get(&TypeId::of::<S>())?;
        let value = provided.value.downcast_ref::<Arc<S>>()?;
        Some((provided.id, Arc::clone(value)))
    }

    /// The id of the service of this type, unless `but` owns it.
    pub(crate) fn service_id(&self, key: ServiceKey, but: Id) -> Option<Id> {
        let inner = self.lock();
        let provided = inner.services.get(&key.id())?;
        (provided.owner != but).then_some(provided.id)
    }

    /// Whether `owner` provides the service.
    pub(crate) fn provides(&self, key: ServiceKey, owner: Id) -> bool {
        self.lock().services.get(&key.id()).is_some_and(|provided| provided.owner == owner)
    }

    /// Adds a contribution; `false` when one of its kind has its name.
    #[must_use]
    pub(crate) fn contribute<T: ?Sized + Send + Sync + 'static>(
        &self,
        (id, owner): (Id, Id),
        name: Option<&str>,
        value: Arc<T>,
        place: Place,
    ) -> bool {
        let mut inner = self.lock();
        let list = inner.contributions.entry(TypeId::of::<T>()).or_default();
        if name.is_some() && list.iter().any(|other| other.name.as_deref() == name) {
            return false;
        }
        let new = Contributed { id, owner, name: name.map(Arc::from), value: Box::new(value) };
        match place {
            Place::Front => list.insert(0, new),
            Place::Back => list.push(new),
        }
        true
    }

    /// What was contributed of this kind, in order.
    pub(crate) fn contributions<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Found<T>> {
        let inner = self.lock();
        let list = inner.contributions.get(&TypeId::of::<T>());
        let found = list.into_iter().flatten().filter_map(|item| {
            let value = Arc::clone(item.value.downcast_ref::<Arc<T>>()?);
            Some(Found { name: item.name.clone(), value })
        });
        found.collect()
    }

    /// Hides the services of an owner: from now on nobody finds them. Says which they were.
    pub(crate) fn withdraw_services(&self, owner: Id) -> Vec<Bound> {
        let gone: Vec<_> = {
            let mut inner = self.lock();
            inner.services.extract_if(|_, provided| provided.owner == owner).collect()
        };
        // Outside the lock: the last owner of a service may run code when it goes.
        gone.into_iter().map(|(_, provided)| Bound(provided.id)).collect()
    }

    /// Takes away whatever an owner still has here.
    pub(crate) fn withdraw_contributions(&self, owner: Id) {
        let mut gone = Vec::new();
        for list in self.lock().contributions.values_mut() {
            gone.extend(list.extract_if(.., |item| item.owner == owner));
        }
        drop(gone);
    }

    fn remove(&self, kind: TypeId, id: Id) {
        let gone = self
            .lock()
            .contributions
            .get_mut(&kind)
            .and_then(|list| Some(list.remove(list.iter().position(|item| item.id == id)?)));
        drop(gone);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.services.is_empty() && inner.contributions.values().all(Vec::is_empty)
    }
}

/// One contribution; dropping it takes the contribution back.
#[derive(Debug)]
#[must_use = "dropping a registration takes it back"]
pub struct Registration {
    tables: Weak<Tables>,
    kind: TypeId,
    id: Id,
}

impl Registration {
    pub(crate) fn new<T: ?Sized + 'static>(tables: &Arc<Tables>, id: Id) -> Self {
        Self { tables: Arc::downgrade(tables), kind: TypeId::of::<T>(), id }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(tables) = self.tables.upgrade() {
            tables.remove(self.kind, self.id);
        }
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}
