//! Asking a person what only they can know. An answer is theirs or there is none: whatever is not
//! clearly one is told apart, and nothing is chosen in their place.

use async_trait::async_trait;

/// One question of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormQuestion {
    /// A few words that name it.
    pub header: String,
    /// The question.
    pub text: String,
    /// What can be chosen, with distinct labels; may be empty where words are taken.
    pub options: Vec<FormOption>,
    /// Whether more than one option may be chosen.
    pub multi_select: bool,
    /// Whether the person may answer in their own words, instead of or beside an option.
    pub own_words: bool,
}

/// One answer that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormOption {
    /// The answer itself.
    pub label: String,
    /// What it means.
    pub description: Option<String>,
}

/// The answer to one question; both empty when the person left it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormAnswer {
    /// The labels that were chosen, in the order of the options.
    pub chosen: Vec<String>,
    /// The person's own words.
    pub words: Option<String>,
}

/// What came of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormReply {
    /// The form was sent: one answer for each question.
    Answered(Vec<FormAnswer>),
    /// The person said that they do not answer.
    Declined,
    /// The person put the form away.
    Dismissed,
    /// The client failed, or sent back what does not fit the form.
    ClientError,
    /// There is nobody who could be shown a form.
    NoForms,
}

/// Whoever shows forms to the person of a session.
#[async_trait]
pub trait Asker: Send + Sync + 'static {
    /// Shows the questions and waits for what comes of them, however long a person takes.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping it takes the form away again.
    async fn ask(&self, questions: Vec<FormQuestion>) -> FormReply;
}
