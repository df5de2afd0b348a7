//! When rows are activated, retracted and moved over, by what they need.

use super::ledger::{A, Ledger, plain, plugins, row, standing};
use crate::{Row, Scope, TaskSet};

fn scope(ledger: &Ledger) -> Scope {
    Scope::root("process", plugins(ledger), TaskSet::new())
}

fn nothing_wrong(ledger: &Ledger) {
    let book = ledger.book();
    assert!(book.wrong.is_empty(), "{:?}", book.wrong);
}

#[tokio::test(start_paused = true)]
async fn rows_wait_for_what_they_need_in_any_order() {
    let ledger = Ledger::default();
    let scope = scope(&ledger);
    scope.mount(["uses-c", "ab-to-c", "a-to-b"].map(plain).into()).await;
    assert!(ledger.story().is_empty());
    scope.mount(vec![plain("gives-a")]).await;
    assert_eq!(ledger.story(), ["+gives-a", "+a-to-b", "+ab-to-c", "+uses-c"]);
    scope.close().await;
    assert_eq!(ledger.story(), ["-uses-c", "-ab-to-c", "-a-to-b", "-gives-a"]);
    nothing_wrong(&ledger);
}

#[tokio::test(start_paused = true)]
async fn consumers_go_before_their_provider_and_come_back_with_another() {
    let ledger = Ledger::default();
    let process = scope(&ledger);
    process.mount(["gives-a", "a-to-b"].map(plain).into()).await;
    let session = process.child("session");
    session.mount(["ab-to-c", "uses-c"].map(plain).into()).await;
    ledger.story();

    process.unmount("gives-a").await;
    assert_eq!(ledger.story(), ["-uses-c", "-ab-to-c", "-a-to-b", "-gives-a"]);
    assert_eq!(standing(&session).await, ["ab-to-c waits for [A, B]", "uses-c waits for [C]"]);

    process.mount(vec![row("other", "gives-a", "none", 1)]).await;
    assert_eq!(ledger.story(), ["+other", "+a-to-b", "+ab-to-c", "+uses-c"]);

    // A row in the place of another: the consumers move over.
    process.mount(vec![row("other", "gives-a", "none", 0)]).await;
    let moved = ["-uses-c", "-ab-to-c", "-a-to-b", "-other"];
    let back = ["+other", "+a-to-b", "+ab-to-c", "+uses-c"];
    assert_eq!(ledger.story(), [moved, back].concat());
    nothing_wrong(&ledger);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_comes_nearer_takes_over() {
    let ledger = Ledger::default();
    let process = scope(&ledger);
    process.mount(vec![plain("gives-a")]).await;
    let session = process.child("session");
    session.mount(vec![plain("a-to-b")]).await;
    session.mount(vec![row("near", "gives-a", "none", 0)]).await;
    assert_eq!(ledger.story(), ["+gives-a", "+a-to-b", "+near", "-a-to-b", "+a-to-b"]);
    assert_eq!(session.get::<A>().unwrap().token.row, "near");
    session.unmount("near").await;
    assert_eq!(ledger.story(), ["-a-to-b", "-near", "+a-to-b"]);
    nothing_wrong(&ledger);
}

#[tokio::test(start_paused = true)]
async fn a_row_can_wrap_the_service_of_an_outer_scope() {
    let ledger = Ledger::default();
    let process = scope(&ledger);
    process.mount(vec![plain("gives-a")]).await;
    let session = process.child("session");
    session.mount(["wraps-a", "a-to-b"].map(plain).into()).await;
    assert_eq!(ledger.story(), ["+gives-a", "+wraps-a", "+a-to-b"]);
    assert_eq!(session.get::<A>().unwrap().token.row, "wraps-a");
    process.unmount("gives-a").await;
    assert_eq!(ledger.story(), ["-a-to-b", "-wraps-a", "-gives-a"]);
    nothing_wrong(&ledger);
}

#[tokio::test(start_paused = true)]
async fn rows_that_undo_each_other_are_stopped() {
    let ledger = Ledger::default();
    let process = scope(&ledger);
    process.mount(vec![plain("gives-a")]).await;
    let session = process.child("session");
    // `b-to-a` hides the A that made its own B.
    session.mount(["a-to-b", "b-to-a"].map(plain).into()).await;
    let standing = standing(&session).await;
    assert!(standing.iter().any(|row| row.contains("replace what it needs")), "{standing:?}");
    process.close().await;
    nothing_wrong(&ledger);
    assert!(ledger.book().live.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_row_is_tried_again_with_other_providers_only() {
    let ledger = Ledger::default();
    let scope = scope(&ledger);
    scope.mount(vec![plain("gives-a"), row("b", "a-to-b", "half", 0)]).await;
    scope.mount(vec![Row { disabled: true, ..plain("uses-c") }]).await;
    assert_eq!(ledger.story(), ["+gives-a", "+b", "-b"], "nothing has changed for it");
    scope.mount(vec![plain("gives-a")]).await;
    assert_eq!(ledger.story(), ["-gives-a", "+gives-a", "+b", "-b"]);
    scope.mount(vec![row("b", "a-to-b", "none", 0)]).await;
    assert_eq!(ledger.story(), ["+b"]);
}
