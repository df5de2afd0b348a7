//! What a model may write, and what it is told.

use bridle_agent::{SessionChange, read_arguments};
use bridle_session::ToolErrorCode;
use expect_test::{Expect, expect};

use super::*;
use crate::testing::{context, run};

async fn write(arguments: serde_json::Value) -> Result<ToolOutcome, ToolFailure> {
    let tool = Todo { spec: TodoArguments::spec(DESCRIPTION) };
    run(tool.plan(read_arguments(tool.spec(), &arguments.to_string())?, &context()).await?).await
}

#[tokio::test]
async fn a_call_writes_the_whole_list() {
    let outcome = write(json!({"items": [
        {"text": " look ", "status": "completed"},
        {"text": "write\nit", "status": "in_progress"},
    ]}))
    .await
    .unwrap();
    let item = |text: &str, status| TodoItem { text: text.to_owned(), status };
    let items =
        vec![item("look", TodoStatus::Completed), item("write\nit", TodoStatus::InProgress)];
    assert_eq!(outcome.changes, [SessionChange::Todo(items)]);
    assert_eq!(outcome.display.title, "To-do list: 1 of 2 done");
    assert_eq!(outcome.display.text.unwrap(), "☑ look  \n▶ write\\nit");
    let text = outcome.value["text"].as_str().unwrap();
    assert_eq!(text, "The list has 0 pending, 1 in progress, 1 completed.");
    let outcome = write(json!({"items": []})).await.unwrap();
    assert_eq!(outcome.changes, [SessionChange::Todo(Vec::new())]);
}

#[tokio::test]
async fn two_items_in_progress_are_kept_and_remarked_on() {
    let item = json!({"text": "x", "status": "in_progress"});
    let outcome = write(json!({"items": [item, item]})).await.unwrap();
    let text = outcome.value["text"].as_str().unwrap();
    assert!(text.ends_with("Keep only the item that you are working on in progress."), "{text}");
}

async fn refused(arguments: serde_json::Value, expected: Expect) {
    let failure = write(arguments).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::BadArguments);
    expected.assert_eq(&failure.message);
}

#[tokio::test]
async fn a_list_that_cannot_be_kept_leaves_the_old_one() {
    refused(
        json!({"items": [{"text": " ", "status": "pending"}]}),
        expect!["`items[0].text` is empty or longer than 1000 bytes. The list is as it was."],
    )
    .await;
    let many = vec![json!({"text": "x", "status": "pending"}); 101];
    refused(
        json!({ "items": many }),
        expect![
            "The list has 101 items; at most 100 are kept. Join small ones. The list is as it was."
        ],
    )
    .await;
    let failure = write(json!({"items": [{"text": "x", "status": "done"}]})).await.unwrap_err();
    assert!(failure.message.contains(r#""pending", "in_progress", "completed""#), "{failure}");
}
