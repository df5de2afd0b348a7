//! What comes first: results of parallel calls, and a request whose provider is replaced.

use std::sync::Arc;

use bridle_agent::{Access, OnStream, Tool, TurnOutcome};
use bridle_model::ModelSource;
use expect_test::expect;
use tokio::sync::Notify;

use super::at;
use crate::rig::{Rig, ScriptedModel, Setting, TestTool, calls, kinds, text};

/// The orders in which three can finish.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[tokio::test]
async fn parallel_tools_finishing_in_every_order() {
    let mut told = Vec::new();
    for order in ORDERS {
        let gates = [(); 3].map(|()| (Arc::new(Notify::new()), Arc::new(Notify::new())));
        let names = ["one", "two", "three"];
        let tools = names.iter().zip(&gates).map(|(name, (go, done))| {
            let (go, done) = (Arc::clone(go), Arc::clone(done));
            TestTool::new(name, Access::ReadInside("/ws".into()), move |_| {
                let (go, done) = (Arc::clone(&go), Arc::clone(&done));
                async move {
                    go.notified().await;
                    done.notify_one();
                    Ok("done".to_owned())
                }
            }) as Arc<dyn Tool>
        });
        let mut rig = Rig::new(tools.collect()).await;
        rig.model.push(calls(&[("c1", "one", "{}"), ("c2", "two", "{}"), ("c3", "three", "{}")]));
        rig.model.push(text("Done."));
        rig.prompt("go");
        for place in order {
            let (go, done) = &gates[place];
            go.notify_one();
            done.notified().await;
        }
        let (seen, _) = rig.until_end("go").await;
        let ends: Vec<_> = seen.iter().filter(|line| line.contains("completed")).collect();
        let log = kinds(&rig.log().await);
        let results: Vec<_> = log.iter().filter(|kind| kind.starts_with("tool/result")).collect();
        let request = rig.model.requests().pop().unwrap();
        told.push(format!("{ends:#?}\n{results:#?}\n{request}\n"));
    }
    assert!(told.iter().all(|page| *page == told[0]), "{told:#?}");
    expect![[r#"
        [
            "call c1 completed done one",
            "call c2 completed done two",
            "call c3 completed done three",
        ]
        [
            "tool/result c1",
            "tool/result c2",
            "tool/result c3",
        ]
        system
        user: go
        assistant: <one c1> <two c2> <three c3>
        result c1: done
        result c2: done
        result c3: done
    "#]]
    .assert_eq(&told[0]);
}

/// The request goes where its header says; the next one goes to whoever is there then.
#[tokio::test]
async fn a_provider_replaced_between_header_and_dispatch() {
    let (reached, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (at_hand, on) = (Arc::clone(&reached), Arc::clone(&go));
    let extra = at::<OnStream>(move |input, next| {
        let (at_hand, on) = (Arc::clone(&at_hand), Arc::clone(&on));
        Box::pin(async move {
            at_hand.notify_one();
            on.notified().await;
            next.run(input).await
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.model.push(text("From the old one."));
    rig.prompt("go");
    reached.notified().await;
    rig.process.unmount("models").await;
    let new = ScriptedModel::new(rig.clock.clone());
    rig.process.provide::<dyn ModelSource>("models", Arc::new(new.clone())).await;
    go.notify_one();
    let (seen, outcome) = rig.until_end("go").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(seen.contains(&"text answer-1-1-1 From the old one.".to_owned()), "{seen:#?}");
    assert!(new.requests().is_empty());
    new.push(text("From the new one."));
    go.notify_one();
    assert_eq!(rig.run("and now?").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests().len(), 1);
    expect![[r#"
        system
        user: go
        assistant: From the old one.
        user: and now?"#]]
    .assert_eq(&new.requests().join("\n"));
    let log = kinds(&rig.log().await);
    let headers: Vec<_> = log.iter().filter(|kind| kind.starts_with("request/header")).collect();
    assert_eq!(headers, ["request/header 1 start"]);
}
