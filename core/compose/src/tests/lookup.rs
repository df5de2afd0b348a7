//! What a scope finds, and what it says of its rows and plugins.

use std::sync::Arc;

use super::ledger::{A, Ledger, plain, plugins, row, standing};
use crate::{Plugins, Row, RowState, Scope, ServiceKey, TaskSet};

trait Speaks: Send + Sync {
    fn say(&self) -> &'static str;
}

struct Says(&'static str);

impl Speaks for Says {
    fn say(&self) -> &'static str {
        self.0
    }
}

fn speaker(text: &'static str) -> Arc<dyn Speaks> {
    Arc::new(Says(text))
}

#[tokio::test(start_paused = true)]
async fn the_nearest_provider_is_found_and_a_second_one_is_refused() {
    let process = Scope::root("process", Plugins::new(), TaskSet::new());
    let (one, other) = (process.child("one"), process.child("other"));
    assert!(one.get::<dyn Speaks>().is_none());
    process.provide("voice", speaker("outer")).await;
    one.provide("voice", speaker("inner")).await;
    let said = |scope: &Scope| scope.get::<dyn Speaks>().map(|voice| voice.say());
    assert_eq!([&process, &one, &other].map(said), [Some("outer"), Some("inner"), Some("outer")]);

    process.provide("second", speaker("second")).await;
    let rows = process.rows().await;
    let reason = "process already has a provider of dyn Speaks".replace("dyn ", "");
    assert_eq!(rows[1].state, RowState::Failed(reason));
    assert_eq!(said(&process), Some("outer"));

    one.unmount("voice").await;
    assert_eq!(said(&one), Some("outer"), "what was hidden is seen again");
}

#[tokio::test(start_paused = true)]
async fn contributions_come_outer_scopes_first_and_a_name_hides_its_like() {
    let process = Scope::root("process", plugins(&Ledger::default()), TaskSet::new());
    let session = process.child("session");
    let add = |scope: &Scope, name: &str, text: &str| {
        let activation = crate::Activation::new("test".into(), scope);
        activation.add::<str>(name, text.into()).map(|()| activation)
    };
    let _kept = [
        add(&session, "b", "inner b").unwrap(),
        add(&process, "a", "outer a").unwrap(),
        add(&process, "b", "outer b").unwrap(),
        add(&session, "c", "inner c").unwrap(),
    ];
    let texts = |scope: &Scope| {
        scope.all::<str>().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(texts(&session), "outer a, inner b, inner c");
    assert_eq!(texts(&process), "outer a, outer b");
    let error = add(&session, "b", "again").map(drop).unwrap_err();
    assert_eq!(error.to_string(), r#"session already has str "b""#);
}

#[tokio::test(start_paused = true)]
async fn rows_say_how_they_stand() {
    let scope = Scope::root("process", plugins(&Ledger::default()), TaskSet::new());
    let off = Row { disabled: true, ..plain("uses-c") };
    let bad = Row::new("b-to-a").with(serde_json::json!({ "flavour": "sweet" }));
    scope.provide("given-b", Arc::new(())).await;
    scope
        .mount(vec![
            plain("gives-a"),
            row("again", "gives-a", "none", 0),
            plain("ab-to-c"),
            off,
            Row::new("no-such-plugin"),
            bad,
        ])
        .await;
    assert_eq!(
        standing(&scope).await,
        [
            "given-b",
            "gives-a",
            "again failed: process already has a provider of A",
            "ab-to-c waits for [B]",
            "uses-c is off",
            r#"no-such-plugin failed: there is no plugin named "no-such-plugin""#,
            "b-to-a waits for [B]",
        ]
    );
    scope.mount(vec![plain("a-to-b")]).await;
    let bad = standing(&scope).await.remove(6);
    let reason =
        "b-to-a failed: config: unknown field `flavour`, expected one of `name`, `fault`, `yields`";
    assert_eq!(bad, reason);
    assert_eq!(scope.rows().await[1].provides, [ServiceKey::of::<A>()]);
}

#[test]
fn a_plugin_says_what_it_takes() {
    let plugins = plugins(&Ledger::default());
    let info = plugins.infos().find(|info| info.name == "ab-to-c").unwrap();
    assert_eq!(format!("{:?} -> {:?}", info.needs, info.provides), "[A, B] -> [C]");
    let schema = serde_json::to_value(&info.config).unwrap();
    assert_eq!(schema["properties"]["yields"]["type"], "integer");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn a_row_is_data() {
    let row: Row =
        serde_json::from_str(r#"{"id":"a","plugin":"gives-a","config":{"x":1}}"#).unwrap();
    assert_eq!((row.plugin(), row.disabled), ("gives-a", false));
    assert!(serde_json::from_str::<Row>(r#"{"id":"a","colour":1}"#).is_err());
}
