//! Questions as a form of the client (`elicitation/create`), and what it sends back checked against
//! the questions: only what was offered is an answer. What MCP servers ask is in [`foreign`].

mod foreign;

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope,
    EnumOption, MultiSelectPropertySchema, SessionId, StringPropertySchema,
};
use agent_client_protocol::{Error, ErrorCode};
use async_trait::async_trait;
use bridle_agent::{
    Asker, ForeignQuestion, ForeignReply, FormAnswer, FormOption, FormQuestion, FormReply, Shows,
    Wanted,
};
use tokio::sync::mpsc;

use super::outbox::{Ask, ask};
use crate::text;

/// The longest answer in a person's own words, in bytes.
const MAX_WORDS: usize = 64 * 1024;

/// Asks through the outbox of its session, as questions about calls are asked.
pub(super) struct ClientAsker {
    session: SessionId,
    /// What the client shows: it is never sent anything else.
    shows: Shows,
    outbox: mpsc::Sender<Ask>,
}

impl ClientAsker {
    pub(super) fn new(session: SessionId, shows: Shows, outbox: mpsc::Sender<Ask>) -> Self {
        Self { session, shows, outbox }
    }
}

#[async_trait]
impl Asker for ClientAsker {
    async fn ask(&self, questions: Vec<FormQuestion>) -> FormReply {
        if !self.shows.forms {
            return FormReply::NoForms;
        }
        let request = request(self.session.clone(), &questions);
        match ask(&self.outbox, request).await {
            Some(response) => reply(&questions, response),
            None => FormReply::ClientError,
        }
    }

    fn shows(&self) -> Shows {
        self.shows
    }

    async fn relay(&self, question: ForeignQuestion) -> ForeignReply {
        let unshown = |why: &str| ForeignReply::Unshown(why.to_owned());
        match question.wants {
            Wanted::Fields(_) if !self.shows.forms => return unshown("this client shows no forms"),
            Wanted::Visit { .. } if !self.shows.visits => {
                return unshown("this client shows no addresses to be opened");
            }
            _ => {}
        }
        let Some(request) = foreign::request(self.session.clone(), &question) else {
            return unshown("its fields are none that a client shows");
        };
        match ask(&self.outbox, request).await {
            Some(response) => foreign::reply(&question.wants, response),
            None => ForeignReply::Dismissed,
        }
    }
}

/// The name of the field that holds what is chosen, or the words where nothing can be chosen.
fn choice_field(index: usize) -> String {
    format!("question_{index}")
}

/// The name of the field for the person's own words beside options.
fn words_field(index: usize) -> String {
    format!("question_{index}_custom")
}

fn request(session: SessionId, questions: &[FormQuestion]) -> CreateElicitationRequest {
    let mut schema = ElicitationSchema::new();
    for (index, question) in questions.iter().enumerate() {
        schema = with_fields(schema, index, question, questions.len() == 1);
    }
    let message = match questions {
        [only] => text::visible_block(&only.text).into_owned(),
        _ => "Please answer these questions.".to_owned(),
    };
    let scope = ElicitationSessionScope::new(session);
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
}

/// Nothing is required: a question may be left open, and is then reported as open.
fn with_fields(
    schema: ElicitationSchema,
    index: usize,
    question: &FormQuestion,
    is_only: bool,
) -> ElicitationSchema {
    let title = text::visible(&question.header).into_owned();
    // The text of the only question is the message of the form.
    let description = (!is_only).then(|| text::visible_block(&question.text).into_owned());
    let field = choice_field(index);
    let options: Vec<_> = question.options.iter().map(option).collect();
    if question.multi_select && !options.is_empty() {
        let choices = MultiSelectPropertySchema::titled(options);
        let choices = choices.title(title).description(description);
        return with_words(schema.property(field, choices, false), index, question);
    }
    let field_schema = StringPropertySchema::new().title(title).description(description);
    if options.is_empty() {
        return schema.property(field, field_schema, false);
    }
    with_words(schema.property(field, field_schema.one_of(options), false), index, question)
}

fn with_words(
    schema: ElicitationSchema,
    index: usize,
    question: &FormQuestion,
) -> ElicitationSchema {
    if !question.own_words {
        return schema;
    }
    let words = StringPropertySchema::new().title("Other".to_owned()).description(
        "Your own words, instead of the choice above or beside it (optional)".to_owned(),
    );
    schema.property(words_field(index), words, false)
}

fn option(option: &FormOption) -> EnumOption {
    let label = text::visible(&option.label).into_owned();
    let description = option.description.as_deref().map(|d| text::visible_block(d).into_owned());
    EnumOption::new(label.clone(), label).description(description)
}

fn reply(
    questions: &[FormQuestion],
    response: Result<CreateElicitationResponse, Error>,
) -> FormReply {
    match response.map(|response| response.action) {
        Ok(ElicitationAction::Accept(accepted)) => {
            match answers(questions, accepted.content.unwrap_or_default()) {
                Some(answers) => FormReply::Answered(answers),
                None => {
                    tracing::warn!("the client sent back a form that does not fit the questions");
                    FormReply::ClientError
                }
            }
        }
        Ok(ElicitationAction::Decline) => FormReply::Declined,
        Ok(ElicitationAction::Cancel) => FormReply::Dismissed,
        Ok(_) => FormReply::ClientError,
        // The client has no such method after all, so no person can see a form.
        Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => FormReply::NoForms,
        Err(error) => {
            tracing::warn!(code = i32::from(error.code), "the client failed to show a form");
            FormReply::ClientError
        }
    }
}

/// The answers, one for each question; `None` when anything in the content was not asked for.
fn answers(
    questions: &[FormQuestion],
    mut content: BTreeMap<String, ElicitationContentValue>,
) -> Option<Vec<FormAnswer>> {
    let mut answers = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let field = content.remove(&choice_field(index));
        answers.push(if question.options.is_empty() {
            FormAnswer { chosen: Vec::new(), words: words(field)? }
        } else {
            let chosen = field.map_or_else(|| Some(Vec::new()), |value| chosen(question, value))?;
            let other = if question.own_words { content.remove(&words_field(index)) } else { None };
            FormAnswer { chosen, words: words(other)? }
        });
    }
    content.is_empty().then_some(answers)
}

/// The labels that a value names, in the order of the options.
fn chosen(question: &FormQuestion, value: ElicitationContentValue) -> Option<Vec<String>> {
    let named = match value {
        ElicitationContentValue::StringArray(names) if question.multi_select => names,
        // An empty choice is none.
        ElicitationContentValue::String(name) if !question.multi_select => {
            [name].into_iter().filter(|name| !name.is_empty()).collect()
        }
        _ => return None,
    };
    let is_named = |option: &&FormOption| {
        let label = text::visible(&option.label);
        named.iter().any(|name| *name == label)
    };
    let chosen: Vec<_> =
        question.options.iter().filter(is_named).map(|option| option.label.clone()).collect();
    (chosen.len() == named.len()).then_some(chosen)
}

/// A person's own words, if there are any; `None` for what is no text, or too much.
#[expect(clippy::option_option, reason = "the outer one says whether the value can be used")]
fn words(value: Option<ElicitationContentValue>) -> Option<Option<String>> {
    match value {
        None => Some(None),
        Some(ElicitationContentValue::String(words)) if words.len() <= MAX_WORDS => {
            let words = words.trim();
            Some((!words.is_empty()).then(|| words.to_owned()))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
