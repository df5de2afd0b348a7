//! `ask_user`: questions that only the person can answer.
//!
//! They are put as a form where the client shows forms. Where it does not, they are told as text and
//! the turn ends, so that the person's next message is the answer. No answer is never taken for one.

mod form;

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Asker, Display, FormAnswer, FormQuestion, FormReply, Grant, Outlives, PlannedCall,
    Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::{Content, Header};
use serde_json::{Value, json};

use crate::arguments::{Arguments as _, text_of};
use crate::target::one_line;
use form::AskUserArguments;

const DESCRIPTION: &str = "\
Asks the user one to four questions and waits for the answers. Use it when the task has several \
sensible readings or a choice is the user's to make, and you cannot find the answer yourself. Give \
each question short, distinct options, the best one first; the user can also answer in their own \
words. Never ask for passwords or keys. Do not ask whether you may go on.";

/// Puts the tool into the scope of a session that a person opened. Another agent's session has
/// nobody to ask.
pub(crate) struct AskUserPlugin;

#[async_trait]
impl Plugin for AskUserPlugin {
    const NAME: &'static str = AskUserArguments::TOOL;
    type Config = ();
    type Needs = (Arc<Header>, Arc<dyn Asker>);

    async fn activate(
        &self,
        (): (),
        (header, asker): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        if header.delegation_depth > 0 {
            return Ok(());
        }
        let spec = AskUserArguments::spec(DESCRIPTION);
        let tool: Arc<dyn Tool> = Arc::new(AskUser { asker, spec });
        Ok(setup.add(Self::NAME, tool)?)
    }
}

struct AskUser {
    asker: Arc<dyn Asker>,
    spec: ToolSpec,
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        text_of(value)
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let questions = AskUserArguments::decode(arguments)?.checked()?;
        Ok(Box::new(Questions { asker: Arc::clone(&self.asker), questions }))
    }

    fn outlives(&self, _: &str, read: &[Content]) -> Option<Outlives> {
        let [Content::Text { text }] = read else { return None };
        let is_answer = ![DECLINED, DISMISSED, TOLD].contains(&text.as_str());
        is_answer.then(|| Outlives::Answer(text.clone()))
    }

    fn outline(&self, _: &str) -> Display {
        Display::new("Question", ToolKind::Other)
    }
}

struct Questions {
    asker: Arc<dyn Asker>,
    questions: Vec<FormQuestion>,
}

#[async_trait]
impl PlannedCall for Questions {
    fn display(&self) -> Display {
        let headers: Vec<_> = self.questions.iter().map(|q| one_line(&q.header)).collect();
        let title = format!("Question: {}", headers.join(", "));
        Display { text: Some(form::text(&self.questions)), ..Display::new(title, ToolKind::Other) }
    }

    fn access(&self) -> Vec<Access> {
        Vec::new()
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let reply = tokio::select! {
            biased;
            () = context.token.cancelled() => {
                return Err(ToolFailure::aborted("Cancelled before the user answered."));
            }
            reply = self.asker.ask(self.questions.clone()) => reply,
        };
        match reply {
            FormReply::Answered(answers) => Ok(self.answered(&answers)),
            FormReply::Declined => Ok(self.unanswered("declined", DECLINED)),
            FormReply::Dismissed => Ok(self.unanswered("dismissed", DISMISSED)),
            FormReply::ClientError => Err(ToolFailure::failed(CLIENT_ERROR)),
            FormReply::NoForms => Ok(self.told()),
        }
    }
}

const DECLINED: &str = "\
The user declined to answer. No option was chosen: do not act as if one had been. Go on with what \
does not depend on it, or say what you need.";

const DISMISSED: &str = "\
The user closed the questions without an answer. No option was chosen: do not act as if one had \
been. Go on with what does not depend on it, or say what you need.";

const CLIENT_ERROR: &str = "\
The questions could not be answered: the client failed, or sent back what does not fit them. No \
option was chosen. Ask in your answer, as text, if you cannot go on without it.";

const TOLD: &str = "\
The questions are shown to the user as text, and the turn ends here. The user's next message is the \
answer.";

impl Questions {
    fn outcome(&self, mut value: Value, told_model: &str, shown: &str) -> ToolOutcome {
        let mut display = self.display();
        let questions = display.text.take().unwrap_or_default();
        display.text = Some(format!("{questions}\n\n{shown}"));
        display.raw_output = Some(value.clone());
        if let Some(value) = value.as_object_mut() {
            value.insert("text".to_owned(), told_model.into());
        }
        ToolOutcome::new(value, display)
    }

    fn answered(&self, answers: &[FormAnswer]) -> ToolOutcome {
        let text = form::answers(&self.questions, answers);
        let answers = answers.iter().map(|a| json!({"chosen": a.chosen, "words": a.words}));
        let value = json!({"outcome": "answered", "answers": answers.collect::<Vec<_>>()});
        self.outcome(value, &text, &text)
    }

    fn unanswered(&self, outcome: &str, text: &str) -> ToolOutcome {
        let shown = format!("*{outcome}*");
        self.outcome(json!({ "outcome": outcome }), text, &shown)
    }

    /// The questions as a message, behind which the turn ends.
    fn told(&self) -> ToolOutcome {
        let value = json!({"outcome": "told", "text": TOLD});
        let mut display = self.display();
        display.message.clone_from(&display.text);
        let outcome = ToolOutcome::new(value, display);
        ToolOutcome { conclude: true, ..outcome }
    }
}

#[cfg(test)]
mod tests;
