//! Asking a person. Whatever is not a clear yes is a no.

use async_trait::async_trait;
use bridle_session::ToolCallId;

use crate::display::Display;

/// A question about exactly one call. It is self-contained: some clients decide from it alone.
#[derive(Clone, Debug)]
pub struct Question {
    /// The call.
    pub call: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// The argument text as the model wrote it.
    pub arguments: String,
    /// What a yes would mean.
    pub subject: Subject,
    /// What is shown; the title begins with what makes the call special.
    pub display: Display,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Whether the call may run.
    Call,
    /// Whether the plan that the call presents shall be carried out.
    Plan,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this call, once.
    AllowOnce,
    /// No.
    Reject,
    /// The client cancelled the turn instead of answering.
    Cancelled,
    /// The client failed to answer; counts as no.
    ClientError,
    /// There is nobody to ask; counts as no.
    NoApprover,
}

impl Answer {
    /// The word under which the log keeps who decided.
    pub fn decided_by(self) -> &'static str {
        match self {
            Self::AllowOnce | Self::Reject => "client",
            Self::Cancelled => "cancelled",
            Self::ClientError => "client-error",
            Self::NoApprover => "no-approver",
        }
    }
}

/// Whoever answers questions for a session.
#[async_trait]
pub trait Approver: Send + Sync + 'static {
    /// Asks and waits for the answer, however long a person takes.
    ///
    /// # Cancel safety
    /// Cancel safe: the driver drops it when the turn is cancelled; the question is withdrawn.
    async fn ask(&self, question: Question) -> Answer;
}
