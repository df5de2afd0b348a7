//! A stored session in a new driver.

use bridle_agent::{Mode, TurnOutcome};

use crate::rig::{Rig, kinds, route, text};

#[tokio::test]
async fn a_resumed_session_is_set_as_it_was_and_continues_its_series() {
    let mut rig = Rig::new(Vec::new());
    rig.model.push(text("One."));
    rig.run("first").await;
    rig.agent.set_mode(Mode::Auto).await.unwrap();
    rig.agent.set_route(route("one")).await.unwrap();
    let mut rig = rig.reopened(&Mode::ALL).await;
    let status = rig.agent.status().await.unwrap();
    assert_eq!((status.mode, status.route), (Mode::Auto, Some(route("one"))));
    assert_eq!((status.title.as_deref(), status.used), (Some("first"), 15));
    rig.model.push(text("Two."));
    assert_eq!(rig.run("second").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests(), ["system\nuser: first\nassistant: One.\nuser: second"]);
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| kind.starts_with("request/header")).count(), 1);
}

#[tokio::test]
async fn a_stored_session_brings_back_no_mode_that_the_user_took_away() {
    let rig = Rig::new(Vec::new());
    rig.agent.set_mode(Mode::FullAccess).await.unwrap();
    let rig = rig.reopened(&[Mode::ReadOnly, Mode::Ask]).await;
    assert_eq!(rig.agent.status().await.unwrap().mode, Mode::Ask);
}
