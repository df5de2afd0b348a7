//! What servers say, as those read it who read it.

use bridle_model_server::Script;
use serde_json::{Value, json};

use super::Imported;

/// Letters that colour a terminal, turn the direction of writing, and that nobody sees.
const HIDDEN: &str = "a\u{1b}[31mb\u{202e}c\u{e0041}d\u{7f}e";
const SEEN: &str = r"a\u{1b}[31mb\u{202e}c\u{e0041}d\u{7f}e";

/// Every text in a value.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => {
            found.extend(fields.keys().cloned());
            fields.values().for_each(|item| texts(item, found));
        }
        _ => {}
    }
}

/// The texts of a value, none of which hides anything.
fn seen(value: &Value) -> String {
    let mut found = Vec::new();
    texts(value, &mut found);
    for text in &found {
        let hides = |letter: char| HIDDEN.contains(letter) && !letter.is_ascii_graphic();
        assert!(!text.contains(hides) && !text.contains('\0'), "{text:?}");
    }
    found.join("\n")
}

/// S10, S31: what a server says of itself and of its tools, and what a tool answers, has nothing in it that
/// the model reads and the person does not see, or that a terminal obeys; it is written out, not lost.
#[tokio::test]
async fn what_cannot_be_seen_is_written_out() {
    let (instructions, tool) = (format!("instructions={HIDDEN}"), format!("tool=t{HIDDEN}"));
    let mut it = Imported::new(Script::new(), &[&instructions, &tool]).await;
    it.call("mcp__s__echo", json!({"text": format!("{HIDDEN}\0\r\nnext\tline")})).await;
    let request = it.scene.requests().pop().unwrap();
    let tools = seen(&request["tools"]);
    assert!(tools.contains(&format!("The scripted tool t{SEEN}.")), "{tools}");
    // What the model said itself goes back as it was.
    let mut messages = request["messages"].clone();
    for message in messages.as_array_mut().unwrap() {
        let blocks = message["content"].as_array_mut().unwrap();
        blocks.retain(|block| block["type"] != "tool_use");
    }
    let messages = seen(&messages);
    assert!(messages.contains(&format!("not checked by anybody):\n{SEEN}")), "{messages}");
    assert!(messages.contains(&format!("{SEEN}\\u{{0}}\r\nnext\tline")), "{messages}");
    let found = it.call("find_tools", json!({"words": "scripted"})).await;
    assert!(
        found.contains("The scripted tool t") || found.contains("more; other words"),
        "{found}"
    );
    let results = it.scene.events(&it.session, "tool/result");
    assert!(seen(&json!(results)).contains(SEEN), "the log says the same");
    let shown = it.client.trace().updates_of(&it.session, "tool_call_update");
    let shown: Vec<_> = shown.iter().map(|it| json!([it["title"], it["content"]])).collect();
    assert!(seen(&json!(shown)).contains(SEEN), "{shown:#?}");
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// Of what a server says of itself the model reads so much, in each request the same.
#[tokio::test]
async fn the_instructions_of_a_server_are_clipped() {
    let words: String = (0..500).map(|number| format!("word-{number:03} ä ")).collect();
    let mut it = Imported::new(Script::new(), &[&format!("instructions={words}")]).await;
    it.say().await;
    it.say().await;
    for request in it.scene.requests() {
        let mut found = Vec::new();
        texts(&request["messages"], &mut found);
        let mut about = found.iter().filter(|text| text.contains("word-000"));
        let text = about.next().expect("it says something about itself");
        assert_eq!(about.count(), 0, "once");
        let said = text.split_once("not checked by anybody):\n").unwrap().1;
        let (said, rest) = said.split_once(" [...]").expect("a mark that it goes on");
        assert!(words.starts_with(said), "{said}");
        assert!((2_000..=2_048).contains(&said.len()), "{} bytes", said.len());
        assert_eq!(rest.trim(), "</context>");
    }
    it.client.finish(&it.scene.place).await;
}
