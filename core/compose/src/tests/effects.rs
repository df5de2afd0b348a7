//! How effects are undone: in reverse, to the end, also after a failure, a cancel or a late set-up.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::ledger::{Ledger, plain, plugins, row, standing};
use crate::{ActivateError, Activation, Duplicate, Plugin, Plugins, Row, Scope, Setup, TaskSet};

#[tokio::test(start_paused = true)]
async fn a_close_undoes_everything_newest_first_and_reports_what_sticks() {
    let ledger = Ledger::default();
    let scope = Scope::root("process", plugins(&ledger), TaskSet::new());
    let rows = [("one", "undo"), ("two", "undo-panic"), ("three", "none")];
    for (id, fault) in rows {
        let scope = scope.child(id);
        scope.mount(vec![row(id, "gives-a", fault, 1)]).await;
    }
    assert_eq!(ledger.story(), ["+one", "+two", "+three"]);
    let failures: Vec<_> = scope.close().await.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        [
            "one: effect 2 could not be undone: it sticks",
            "two: effect 2 could not be undone: panicked: as planned",
        ]
    );
    let book = ledger.book();
    assert!(book.live.is_empty() && book.wrong.is_empty(), "{:?}", book.wrong);
}

#[tokio::test(start_paused = true)]
async fn a_half_activated_row_is_rolled_back() {
    let ledger = Ledger::default();
    let scope = Scope::root("process", plugins(&ledger), TaskSet::new());
    for (fault, reason) in [("half", "half of it was enough"), ("panic", "panicked: as planned")] {
        scope.mount(vec![row("a", "gives-a", fault, 3), plain("a-to-b")]).await;
        assert_eq!(ledger.story(), ["+a", "-a"]);
        let standing = standing(&scope).await;
        assert_eq!(standing, [format!("a failed: {reason}"), "a-to-b waits for [A]".to_owned()]);
        assert!(scope.tables().is_empty());
    }
    assert!(ledger.book().live.is_empty() && ledger.book().wrong.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_operation_goes_on_when_its_caller_goes_away() {
    let ledger = Ledger::default();
    let tasks = TaskSet::new();
    let scope = Scope::root("process", plugins(&ledger), tasks.clone());
    {
        let mount = scope.mount(vec![row("a", "gives-a", "none", 5)]);
        tokio::pin!(mount);
        assert!(futures::poll!(&mut mount).is_pending());
    }
    // The next operation waits for the one that was left.
    scope.mount(Vec::new()).await;
    assert_eq!(standing(&scope).await, ["a"]);
    {
        let close = scope.close();
        tokio::pin!(close);
        assert!(futures::poll!(&mut close).is_pending());
    }
    tasks.close().await;
    assert!(ledger.book().live.is_empty());
}

/// Hands its activation to the test, as a plugin does that goes on setting up in a task.
struct Slow(std::sync::Mutex<Option<oneshot::Sender<Activation>>>);

#[async_trait]
impl Plugin for Slow {
    const NAME: &'static str = "slow";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let sender = self.0.lock().unwrap().take();
        sender.unwrap().send((**setup).clone()).ok();
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_close_is_cleaned_up() {
    let (sender, receiver) = oneshot::channel();
    let tasks = TaskSet::new();
    let plugins = Plugins::new().with(Slow(std::sync::Mutex::new(Some(sender))));
    let scope = Scope::root("process", plugins, tasks.clone());
    scope.mount(vec![Row::new("slow")]).await;
    let late = receiver.await.unwrap();
    late.add::<str>("early", Arc::from("x")).unwrap();
    let kept = late.register::<str>("kept", Arc::from("y")).unwrap();
    assert_eq!(scope.all::<str>().len(), 2);

    scope.close().await;
    assert!(late.token().is_cancelled());
    assert!(scope.all::<str>().is_empty(), "also what the plugin kept the guard of");
    drop(kept);

    let retracted = Duplicate::Retracted { row: "slow".to_owned() };
    assert_eq!(late.add::<str>("late", Arc::from("z")).unwrap_err(), retracted);
    let guard = Arc::new(());
    assert_eq!(late.own("a guard", Arc::clone(&guard)).unwrap_err(), retracted);
    assert_eq!(Arc::strong_count(&guard), 1, "undone at once");
    let (undone, was_undone) = oneshot::channel();
    let undo = || async { undone.send(()).map_err(|()| "nobody waits".into()) };
    assert_eq!(late.on_retract("a call", undo).unwrap_err(), retracted);
    tasks.close().await;
    was_undone.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_scope_takes_no_rows_and_neither_do_those_below() {
    let ledger = Ledger::default();
    let scope = Scope::root("process", plugins(&ledger), TaskSet::new());
    let child = scope.child("session");
    scope.close().await;
    assert!(scope.close().await.is_empty(), "a second close is nothing");
    scope.mount(vec![plain("gives-a")]).await;
    child.mount(vec![plain("gives-a")]).await;
    scope.child("late").mount(vec![plain("gives-a")]).await;
    assert!(ledger.story().is_empty());
}
