//! The order of listeners and observers, and who hears what.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::{Activation, Around, HookPoint, Next, Observer, Plugins, Scope, TaskSet};

/// A point at which a number becomes a text.
struct Print;

impl HookPoint for Print {
    const NAME: &'static str = "print";
    type Input = u32;
    type Output = String;
}

/// Puts its brackets around what is printed, or decides itself.
struct Brackets(&'static str, bool);

#[async_trait]
impl Around<Print> for Brackets {
    async fn around(&self, number: u32, next: Next<'_, Print>) -> String {
        if self.1 {
            return format!("{} decides", self.0);
        }
        format!("{}({})", self.0, next.run(number + 1).await)
    }
}

async fn print(scope: &Scope) -> String {
    scope.hooks::<Print>().run(1, |number| async move { number.to_string() }).await
}

fn at(scope: &Scope) -> Activation {
    Activation::new("test".into(), scope)
}

#[tokio::test]
async fn listeners_stand_around_in_order_and_a_scope_decides_who_listens() {
    let process = Scope::root("process", Plugins::new(), TaskSet::new());
    let (session, other) = (process.child("session"), process.child("other"));
    assert_eq!(print(&session).await, "1");
    let (outer, inner) = (at(&process), at(&session));
    inner.hook::<Print>(Arc::new(Brackets("s1", false))).unwrap();
    outer.hook::<Print>(Arc::new(Brackets("p1", false))).unwrap();
    inner.hook::<Print>(Arc::new(Brackets("s2", false))).unwrap();
    inner.hook_first::<Print>(Arc::new(Brackets("s0", false))).unwrap();
    assert_eq!(print(&session).await, "p1(s0(s1(s2(5))))");
    assert_eq!(print(&other).await, "p1(2)");
    inner.hook_first::<Print>(Arc::new(Brackets("x", true))).unwrap();
    assert_eq!(print(&session).await, "p1(x decides)");
    assert!(inner.retract().await.is_empty());
    assert_eq!(print(&session).await, "p1(2)");
    outer.retract().await;
    assert!(process.hooks::<Print>().is_empty());
}

#[tokio::test]
async fn what_an_observer_breaks_stays_with_it() {
    struct Breaks;
    impl Observer<u32> for Breaks {
        fn observe(&self, _: &u32) {
            panic!("as planned");
        }
    }
    struct Adds(Mutex<u32>);
    impl Observer<u32> for Adds {
        fn observe(&self, number: &u32) {
            *self.0.lock().unwrap() += number;
        }
    }
    let process = Scope::root("process", Plugins::new(), TaskSet::new());
    let session = process.child("session");
    let sum = Arc::new(Adds(Mutex::new(0)));
    let (outer, inner) = (at(&process), at(&session));
    outer.observe::<u32>(Arc::new(Breaks)).unwrap();
    inner.observe::<u32>(Arc::clone(&sum) as _).unwrap();
    session.tell(&2_u32);
    session.tell(&3_u64);
    process.tell(&4_u32);
    assert_eq!(*sum.0.lock().unwrap(), 2);
}
