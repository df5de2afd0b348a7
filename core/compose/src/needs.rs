//! Services by type: what a plugin needs, as a tuple of the very handles it is given.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use crate::scope::Scope;
use crate::tables::Id;

/// Names a service or a kind of contribution by its Rust type.
#[derive(Clone, Copy)]
pub struct ServiceKey {
    id: TypeId,
    name: &'static str,
}

impl ServiceKey {
    /// The key of `S`, usually a `dyn Trait`.
    pub fn of<S: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<S>(), name: std::any::type_name::<S>() }
    }

    pub(crate) fn id(self) -> TypeId {
        self.id
    }
}

impl PartialEq for ServiceKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ServiceKey {}

/// The type's own name without its path: a person reads it.
impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.name.split('<').next().unwrap_or_default();
        f.write_str(head.rsplit("::").next().unwrap_or(self.name))
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What a plugin cannot do without: `()`, or a tuple of `Arc`s of services.
///
/// A plugin gets exactly what it named here, so it cannot come to depend on a service whose going
/// it would not notice.
pub trait Needs: Sized + Send + 'static {
    /// The services, in order.
    fn keys() -> Vec<ServiceKey>;

    /// The nearest provider of each, seen from `scope`; `None` when one is missing.
    #[doc(hidden)]
    fn resolve(scope: &Scope) -> Option<(Self, Vec<Bound>)>;
}

/// Which provider a need was bound to.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound(pub(crate) Id);

macro_rules! needs {
    ($($service:ident),*) => {
        impl<$($service: ?Sized + Send + Sync + 'static),*> Needs for ($(Arc<$service>,)*) {
            fn keys() -> Vec<ServiceKey> {
                vec![$(ServiceKey::of::<$service>()),*]
            }

            #[expect(non_snake_case, reason = "each value is named like its type")]
            #[allow(unused_variables, reason = "the empty tuple looks nothing up")]
            fn resolve(scope: &Scope) -> Option<(Self, Vec<Bound>)> {
                $(let $service = scope.find::<$service>()?;)*
                let bound = vec![$(Bound($service.0)),*];
                Some((($($service.1,)*), bound))
            }
        }
    };
}

needs!(A);
needs!(A, B);
needs!(A, B, C);
needs!(A, B, C, D);
needs!(A, B, C, D, E);
needs!(A, B, C, D, E, F);
needs!(A, B, C, D, E, F, G);
needs!(A, B, C, D, E, F, G, H);

impl Needs for () {
    fn keys() -> Vec<ServiceKey> {
        Vec::new()
    }

    fn resolve(_: &Scope) -> Option<(Self, Vec<Bound>)> {
        Some(((), Vec::new()))
    }
}
