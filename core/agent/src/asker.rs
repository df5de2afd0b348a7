//! Asking a person what only they can know. An answer is theirs or there is none: whatever is not
//! clearly one is told apart, and nothing is chosen in their place.

use async_trait::async_trait;
use serde_json::Value;

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

/// What another program asks the person, in its own words.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignQuestion {
    /// Who asks, for the person.
    pub who: String,
    /// What it says. Nobody has checked it.
    pub message: String,
    /// What it wants.
    pub wants: Wanted,
}

/// What another program wants of the person.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Values for the fields of an object: its JSON Schema.
    Fields(Value),
    /// That they open an address and do there what it takes.
    Visit {
        /// Of the web.
        url: String,
        /// What the program calls this visit.
        id: String,
    },
}

/// What came of another program's question.
#[derive(Clone, Debug, PartialEq)]
pub enum ForeignReply {
    /// The person agreed: with values that fit what was wanted, or to the visit (`null`).
    Accepted(Value),
    /// The person said no.
    Declined,
    /// The person put it away, or nobody knows what they made of it.
    Dismissed,
    /// Nobody was shown it: why, as a part of a sentence for the person.
    Unshown(String),
}

/// What a client can show a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shows {
    /// Forms.
    pub forms: bool,
    /// Addresses to be opened.
    pub visits: bool,
}

/// Whoever shows forms to the person of a session.
#[async_trait]
pub trait Asker: Send + Sync + 'static {
    /// Shows the questions and waits for what comes of them, however long a person takes.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping it takes the form away again.
    async fn ask(&self, questions: Vec<FormQuestion>) -> FormReply;

    /// What can be shown at all.
    fn shows(&self) -> Shows {
        Shows::default()
    }

    /// Shows what another program asks, and that it does, and waits for what comes of it.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping it takes the question away again.
    async fn relay(&self, _question: ForeignQuestion) -> ForeignReply {
        ForeignReply::Unshown("nobody can be asked here".to_owned())
    }
}
