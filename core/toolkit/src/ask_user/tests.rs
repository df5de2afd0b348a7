//! What can be asked, and what each kind of reply means to the model.

use bridle_agent::read_arguments;
use bridle_session::ToolErrorCode;
use expect_test::expect;

use super::*;
use crate::testing::{context, run};

struct Says(FormReply);

#[async_trait]
impl Asker for Says {
    async fn ask(&self, _: Vec<FormQuestion>) -> FormReply {
        self.0.clone()
    }
}

async fn ask(arguments: Value, reply: FormReply) -> Result<ToolOutcome, ToolFailure> {
    let spec = AskUserArguments::spec(DESCRIPTION);
    let tool = AskUser { asker: Arc::new(Says(reply)), spec };
    run(tool.plan(read_arguments(tool.spec(), &arguments.to_string())?, &context()).await?).await
}

fn colour() -> Value {
    json!({"questions": [{"header": "Colour", "question": "Which colour?", "options": [
        {"label": "Red", "description": "like a rose"}, {"label": "Blue"}]}]})
}

fn text(outcome: &ToolOutcome) -> &str {
    outcome.value["text"].as_str().unwrap()
}

#[tokio::test]
async fn an_answer_is_told_and_the_turn_goes_on() {
    let answer = FormAnswer { chosen: vec!["Red".into()], words: Some("a dark one".into()) };
    let outcome = ask(colour(), FormReply::Answered(vec![answer])).await.unwrap();
    assert_eq!(text(&outcome), "The user answered:\n- Colour: Red; in their own words: a dark one");
    assert!(!outcome.conclude && outcome.display.message.is_none());
}

#[tokio::test]
async fn whatever_is_no_answer_says_that_nothing_was_chosen() {
    for reply in [FormReply::Declined, FormReply::Dismissed] {
        let outcome = ask(colour(), reply).await.unwrap();
        assert!(text(&outcome).contains("No option was chosen"), "{}", text(&outcome));
        assert!(!outcome.conclude);
    }
    let failure = ask(colour(), FormReply::ClientError).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Failed);
    assert!(failure.message.contains("No option was chosen"));
    let open = vec![FormAnswer::default()];
    let outcome = ask(colour(), FormReply::Answered(open)).await.unwrap();
    assert!(text(&outcome).ends_with("Colour: no answer; nothing was chosen"));
}

#[tokio::test]
async fn without_forms_the_questions_are_said_and_the_turn_ends() {
    let outcome = ask(colour(), FormReply::NoForms).await.unwrap();
    assert!(outcome.conclude);
    expect![[r"
        **Colour**

        Which colour?

        - Red: like a rose
        - Blue

        *One of these, or your own words.*"]]
    .assert_eq(&outcome.display.message.unwrap());
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_its_place() {
    let with = |question: Value| json!({ "questions": [question] });
    let option = json!({"label": "a"});
    for (arguments, says) in [
        (json!({"questions": []}), "`questions`: expected at least 1 items"),
        (
            json!({"questions": vec![json!({"header": "h", "question": "q"}); 5]}),
            "`questions`: expected at most 4 items",
        ),
        (with(json!({"header": "", "question": "q"})), "`questions[0].header`"),
        (with(json!({"header": "a\nb", "question": "q"})), "`questions[0].header`"),
        (with(json!({"header": "h", "question": " "})), "`questions[0].question`"),
        (with(json!({"header": "h", "question": "q", "own_words": false})), "no answer"),
        (
            with(json!({"header": "h", "question": "q", "options": [option, option]})),
            "two options with one label",
        ),
        (
            with(json!({"header": "h", "question": "q", "options": vec![option.clone(); 9]})),
            "at most 8",
        ),
    ] {
        let failure = ask(arguments, FormReply::NoForms).await.unwrap_err();
        assert_eq!(failure.code, ToolErrorCode::BadArguments);
        assert!(failure.message.contains(says), "{}", failure.message);
    }
}
