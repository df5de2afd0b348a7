//! What asking a language server costs beyond the server's own time, printed beside its goals (issue 11).
//! Only what was shown is judged.

use std::time::{Duration, Instant};

use super::*;
use crate::figures::figure;
use crate::lsp_direct::{Direct, least};

const CALLS: u32 = 10;
const ROUNDS: u32 = 6;

/// The scripted server without anybody between, `main.toy` open.
fn alone(place: &Place, heard: &str) -> Direct {
    let heard = place.workspace().join(format!("heard-{heard}"));
    let program = Path::new(env!("CARGO_BIN_EXE_bridle-lsp-scripted"));
    let mut server = Direct::start(program, &[], &place.workspace(), Some(("LSP_HEARD", &heard)));
    server.introduce(&json!({}));
    server.open("main.toy", "toy", MAIN);
    server
}

fn definition(server: &mut Direct) -> Value {
    server.definition("main.toy", 1, 23)
}

/// One prompt in which the model makes so many of these calls; how long one took.
async fn timed(it: &mut Code, tool: &str, arguments: impl Fn(u32) -> Value) -> Duration {
    let call = |answer: Answer, number: u32| answer.tool_call(tool, arguments(number));
    it.scene.model.push((0..CALLS).fold(Answer::new(), call));
    it.scene.model.push(Answer::new().text("done"));
    let begun = Instant::now();
    let turn = it.client.prompt(&it.session, "go").await;
    assert_eq!(turn.stop_reason(), "end_turn");
    begun.elapsed() / CALLS
}

/// A warm server, beside calls of the same tool that ask nobody, and beside whoever speaks with the server
/// directly.
#[tokio::test]
async fn what_a_question_costs() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let (mut asked, mut unasked) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Each call is another one: one that repeats itself is told so.
        let at = |number: u32, symbol: &str| {
            json!({"op": "definition", "path": "main.toy", "line": 2, "symbol": symbol,
                "offset": round * CALLS + number})
        };
        unasked.push(timed(&mut it, "code_nav", |number| at(number, "")).await);
        asked.push(timed(&mut it, "code_nav", |number| at(number, "area#2")).await);
    }
    assert_eq!(it.heard("textDocument/definition").len(), (ROUNDS * CALLS) as usize);
    let mut alone = alone(&it.scene.place, "direct");
    let direct = least(&[(); 6].map(|()| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| drop(definition(&mut alone)));
        begun.elapsed() / CALLS
    }));
    drop(alone);
    let (asked, unasked) = (least(&asked), least(&unasked));
    figure(
        "a question to a warm language server beyond its own time and that of any call (goal: 1 ms)",
        &format!(
            "{:?}; asked {asked:?}, not asked {unasked:?}, the server {direct:?}",
            asked.saturating_sub(unasked).saturating_sub(direct)
        ),
    );
    it.finish().await;
}

/// From nothing to a correct definition, beside whoever starts the server directly.
#[tokio::test]
async fn what_the_first_definition_costs() {
    let (mut ours, mut unasked, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut it = Code::new(json!({}), &[("main.toy", MAIN), ("area.toy", AREA)]).await;
        // What starts programs is started once, and the search path of the login shell is asked for.
        it.call("shell", json!({"command": "true"})).await;
        let begun = Instant::now();
        it.nav("definition", "main.toy", 2, "").await;
        unasked.push(begun.elapsed());
        let begun = Instant::now();
        let result = it.nav("definition", "main.toy", 2, "area").await;
        ours.push(begun.elapsed());
        assert!(result.contains("area.toy:1: def area"), "{result}");
        let begun = Instant::now();
        let mut alone = alone(&it.scene.place, &format!("direct-{round}"));
        assert!(definition(&mut alone).to_string().contains("area.toy"));
        direct.push(begun.elapsed());
        drop(alone);
        it.finish().await;
    }
    figure(
        "the first definition of a server that is started for it, beyond any call",
        &format!(
            "{:?}; directly {:?}",
            least(&ours).saturating_sub(least(&unasked)),
            least(&direct)
        ),
    );
}

/// An edit that tells what it has made wrong, beside one that does not.
#[tokio::test]
async fn what_errors_after_an_edit_cost() {
    let mut times = Vec::new();
    for all in ["", "after_edit = false"] {
        let mut it = Code::with(json!({}), &[("main.toy", "def zero\n")], all, "").await;
        it.check("main.toy").await;
        it.call("read", json!({"path": "main.toy"})).await;
        let (mut edits, mut text) = (Vec::new(), "def zero".to_owned());
        for round in 0..ROUNDS {
            let next = format!("undefined name{round}");
            let edit = json!({"path": "main.toy", "edits": [{"old_text": text, "new_text": next}]});
            it.scene.model.push(Answer::new().tool_call("edit", edit));
            it.scene.model.push(Answer::new().text("done"));
            let begun = Instant::now();
            it.client.prompt(&it.session, "go").await.ok();
            edits.push(begun.elapsed());
            let told = it.scene.last_results();
            assert_eq!(
                told.contains(&format!("name{round} is undefined")),
                all.is_empty(),
                "{told}"
            );
            text = next;
        }
        times.push(least(&edits));
        it.finish().await;
    }
    figure(
        "new errors in the result of an edit (goal: 20 ms beyond the server's own answer)",
        &format!(
            "{:?}; with them {:?}, without {:?}",
            times[0].saturating_sub(times[1]),
            times[0],
            times[1]
        ),
    );
}
