//! A stored session in a new driver.

use std::sync::Arc;

use bridle_agent::{Access, JobFact, Mode, TurnOutcome, replay};
use bridle_session::{
    Content, Event, EventCount, EventData, Header, JobId, JobStarted, MessageId, Parent, SessionId,
    UserMessage, UserSource,
};
use expect_test::expect;

use crate::rig::{Rig, TestTool, calls, kinds, line, ok, route, text};

#[tokio::test]
async fn a_resumed_session_is_set_as_it_was_and_continues_its_series() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.run("first").await;
    rig.agent.set_mode(Mode::Auto).await.unwrap();
    rig.agent.set_route(route("one")).await.unwrap();
    let mut rig = rig.reopened(&Mode::ALL).await;
    let status = rig.agent.status().await.unwrap();
    assert_eq!((status.mode, status.route), (Mode::Auto, Some(route("one"))));
    assert_eq!((status.title.as_deref(), status.meter.used), (Some("first"), 15));
    rig.model.push(text("Two."));
    assert_eq!(rig.run("second").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests(), ["system\nuser: first\nassistant: One.\nuser: second"]);
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| kind.starts_with("request/header")).count(), 1);
}

#[tokio::test]
async fn a_stored_session_brings_back_no_mode_that_the_user_took_away() {
    let rig = Rig::new(Vec::new()).await;
    rig.agent.set_mode(Mode::FullAccess).await.unwrap();
    let rig = rig.reopened(&[Mode::ReadOnly, Mode::Ask]).await;
    assert_eq!(rig.agent.status().await.unwrap().mode, Mode::Ask);
}

#[tokio::test]
async fn a_job_that_ended_with_its_process_is_told_to_person_and_model() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.run("first").await;
    let (id, title) = (JobId::new("job-1"), "npm start".to_owned());
    rig.agent.record_job(JobFact::Started(JobStarted { id, title })).unwrap();
    let mut rig = rig.reopened(&Mode::ALL).await;
    rig.model.push(text("Two."));
    let (lines, _) = rig.run("second").await;
    let told = "The background job job-1 (`npm start`) is lost: it ended with the process that ran \
                it, and nobody saw how. Start it again if it is still needed.";
    assert!(lines.contains(&format!("notice {told}")), "{lines:?}");
    let request = rig.model.requests().pop().unwrap();
    assert!(request.ends_with(&format!("user: {told}\nuser: second")), "{request}");
    let mut rig = rig.reopened(&Mode::ALL).await;
    rig.model.push(text("Three."));
    let (lines, _) = rig.run("third").await;
    assert!(!lines.iter().any(|line| line.contains("job-1")), "once: {lines:?}");
}

#[tokio::test]
async fn what_the_model_was_not_told_is_told_whenever_the_next_prompt_comes() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.run("first").await;
    let (id, title) = (JobId::new("job-1"), "npm start".to_owned());
    rig.agent.record_job(JobFact::Started(JobStarted { id, title })).unwrap();
    let source = UserSource::Context { name: "job".to_owned() };
    let (id, content) = (MessageId::new("job-0-ended"), vec![Content::text("job-0 has ended")]);
    rig.agent.inject(UserMessage { id, content, source }).unwrap();
    // Opened and closed twice without a prompt.
    let rig = rig.reopened(&Mode::ALL).await.reopened(&Mode::ALL).await;
    let mut rig = rig.reopened(&Mode::ALL).await;
    rig.model.push(text("Two."));
    rig.run("second").await;
    let request = rig.model.requests().pop().unwrap();
    let (_, new) = request.split_once("One.").unwrap();
    assert_eq!(new.matches("job-0 has ended").count(), 1, "{request}");
    assert_eq!(new.matches("job-1 (`npm start`) is lost").count(), 1, "{request}");
    let mut rig = rig.reopened(&Mode::ALL).await;
    rig.model.push(text("Three."));
    rig.run("third").await;
    let request = rig.model.requests().pop().unwrap();
    assert_eq!(request.matches("job-0 has ended").count(), 1, "once: {request}");
}

#[tokio::test]
async fn a_fork_inside_a_turn_goes_on_by_itself() {
    let write = TestTool::new("write", Access::WriteInside("f".into()), ok);
    let mut rig = Rig::with(vec![write], Mode::FullAccess, 5).await;
    rig.model.push(calls(&[("c1", "write", "{}"), ("c2", "write", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("first");
    rig.prompt("second");
    rig.model.push(text("Second."));
    rig.until_end("second").await;
    let parent = rig.log().await;
    let taken_up = |event: &&Arc<Event>| matches!(event.data, EventData::ToolCall(_));
    let at = parent.events().iter().find(taken_up).unwrap().seq;
    let header = Header {
        id: SessionId::new("00000000-0000-7000-8000-000000000001"),
        parent: Some(Parent { id: parent.header().id.clone(), inherited: EventCount(at.0 + 1) }),
        ..(**parent.header()).clone()
    };
    let child = parent.fork(header, at).unwrap();
    let shown: Vec<_> = replay(&child).iter().map(line).collect();
    expect![[r#"
        [
            "title first",
            "user first",
            "call c1 failed write",
            "call c2 failed write",
            "notice The session was forked here, in mid-turn.",
            "user second",
            "notice This message was not sent: the session broke off before its turn came.",
        ]
    "#]]
    .assert_debug_eq(&shown);
    let mut rig = Rig::over(child).await;
    rig.model.push(text("Fine."));
    assert_eq!(rig.run("third").await.1, TurnOutcome::EndTurn);
    expect![[r#"
        system
        user: first
        assistant: <write c1> <write c2>
        result c1: The outcome of this call is unknown here: this session was forked from another while it was under way, so its effect may be complete, partial or absent. Look at the current state before you repeat it.
        result c2: This call was not run here: this session was forked from another before it began. The other session may have run it. Look at the current state before you call the tool again.
        user: third"#]].assert_eq(&rig.model.requests()[0]);
}
