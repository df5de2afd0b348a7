//! What asking a language server costs beyond the server's own time, printed beside its goals (issue 11).
//! Only what was shown is judged.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::figures::figure;

const CALLS: u32 = 10;
const ROUNDS: u32 = 6;

/// The least of several times: whatever else runs only adds.
fn least(times: &[Duration]) -> Duration {
    times.iter().copied().min().unwrap()
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
    let mut alone = Alone::start(&it.scene.place, "direct");
    alone.introduce(&it.scene.place);
    let direct = least(&[(); 6].map(|()| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| drop(alone.definition(&it.scene.place)));
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
    let (mut ours, mut direct) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut it = Code::new(json!({}), &[("main.toy", MAIN), ("area.toy", AREA)]).await;
        // The search path of the login shell is asked once.
        it.call("code_nav", json!({"op": "hover", "path": "none.toy", "symbol": "x"})).await;
        let begun = Instant::now();
        let result = it.nav("definition", "main.toy", 2, "area").await;
        ours.push(begun.elapsed());
        assert!(result.contains("area.toy:1: def area"), "{result}");
        let begun = Instant::now();
        let mut alone = Alone::start(&it.scene.place, &format!("direct-{round}"));
        alone.introduce(&it.scene.place);
        assert!(alone.definition(&it.scene.place).to_string().contains("area.toy"));
        direct.push(begun.elapsed());
        drop(alone);
        it.finish().await;
    }
    figure(
        "the first definition of a server that is started for it, prompt and model included",
        &format!("{:?}; directly {:?}", least(&ours), least(&direct)),
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

/// The scripted server without anybody between.
struct Alone {
    child: Child,
    answers: BufReader<ChildStdout>,
    asked: u64,
}

impl Alone {
    #[expect(clippy::disallowed_methods, reason = "what it costs without us")]
    fn start(place: &Place, heard: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_bridle-lsp-scripted"))
            .env("LSP_HEARD", place.workspace().join(format!("heard-{heard}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers, asked: 0 }
    }

    fn tell(&mut self, message: &Value) {
        let text = message.to_string();
        let pipe = self.child.stdin.as_mut().unwrap();
        write!(pipe, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.tell(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                self.answers.read_line(&mut line).unwrap();
                match line.trim().strip_prefix("Content-Length: ") {
                    Some(number) => length = number.parse().unwrap(),
                    None if line.trim().is_empty() => break,
                    None => {}
                }
            }
            let mut text = vec![0; length];
            self.answers.read_exact(&mut text).unwrap();
            let message: Value = serde_json::from_slice(&text).unwrap();
            if message["id"] == id && message.get("method").is_none() {
                return message["result"].clone();
            }
        }
    }

    fn introduce(&mut self, place: &Place) {
        let root = format!("file://{}", place.workspace().display());
        let folders = json!([{"uri": root, "name": "w"}]);
        let capabilities = json!({"textDocument": {}});
        self.ask(
            "initialize",
            json!({"processId": null, "rootUri": root, "workspaceFolders": folders,
                "capabilities": capabilities}),
        );
        self.tell(&json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}));
        let document = json!({"uri": format!("{root}/main.toy"), "languageId": "toy", "version": 1,
            "text": MAIN});
        let params = json!({"textDocument": document});
        self.tell(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": params}));
    }

    fn definition(&mut self, place: &Place) -> Value {
        let uri = format!("file://{}/main.toy", place.workspace().display());
        let position = json!({"line": 1, "character": 23});
        self.ask(
            "textDocument/definition",
            json!({"textDocument": {"uri": uri}, "position": position}),
        )
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
