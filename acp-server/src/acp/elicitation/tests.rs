//! What a form holds, where the texts are a model's.

use bridle_agent::{FormOption, FormQuestion};
use serde_json::json;

use super::*;

fn question(label: &str) -> FormQuestion {
    FormQuestion {
        header: "Pick".into(),
        text: "Which\u{1b}[31m one?".into(),
        options: vec![FormOption { label: label.into(), description: None }],
        multi_select: false,
        own_words: true,
    }
}

#[test]
fn what_cannot_be_seen_is_shown_escaped_and_the_answer_is_the_original() {
    let asked = [question("a\u{202e}b")];
    let form = serde_json::to_value(request(SessionId::new("s"), &asked)).unwrap();
    assert_eq!(form["message"], "Which\\u{1b}[31m one?");
    let shown = form["requestedSchema"]["properties"]["question_0"]["oneOf"][0]["const"].clone();
    assert_eq!(shown, "a\\u{202e}b");
    let response = json!({"action": "accept", "content": {"question_0": shown}});
    let FormReply::Answered(answers) = reply(&asked, Ok(serde_json::from_value(response).unwrap()))
    else {
        panic!("a fitting answer");
    };
    assert_eq!(answers[0].chosen, ["a\u{202e}b"]);
}

#[test]
fn words_are_bounded() {
    let asked = [question("a")];
    let content = json!({"question_0_custom": "x".repeat(MAX_WORDS + 1)});
    let response = json!({"action": "accept", "content": content});
    let response = serde_json::from_value(response).unwrap();
    assert_eq!(reply(&asked, Ok(response)), FormReply::ClientError);
}
