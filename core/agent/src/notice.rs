//! What a person is told beside the messages, in the same words live, on a replay and in an
//! export.

use bridle_session::{AssistantAttempt, LlmRetry, TurnEndReason};

use crate::transcript::Shown;
use crate::update::NoticeLevel;

/// Something that a person is told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How bad.
    pub level: NoticeLevel,
    /// One line.
    pub title: String,
    /// More, if there is more.
    pub detail: Option<String>,
}

impl Notice {
    fn new(level: NoticeLevel, title: impl Into<String>) -> Self {
        Self { level, title: title.into(), detail: None }
    }

    fn with(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

impl Shown<'_> {
    /// What is told about it; `None` for what speaks for itself.
    pub fn notice(&self) -> Option<Notice> {
        let notice = |title: &str| Notice::new(NoticeLevel::Warning, title);
        let info = |title: String| Notice::new(NoticeLevel::Info, title);
        Some(match self {
            Self::TurnEnded(reason) => return ended(reason),
            Self::NotSent(_) => {
                notice("This message was not sent: the session broke off before its turn came.")
                    .with("Send it again if it still holds.")
            }
            Self::Queued(_) => info("This message waits for its turn.".to_owned()),
            Self::Lost(gap) => {
                notice(&gap.lost.notice()).with("What was said and done there cannot be shown.")
            }
            Self::Unsettled(_) => notice("This answer is not complete."),
            Self::AttemptFailed(attempt) => failed(attempt),
            Self::Retry(retry) => info(again(retry)),
            Self::Mode(mode) => info(format!("Mode: {mode}")),
            Self::Model(route) => info(format!("Model: {route}")),
            Self::TurnStarted(_)
            | Self::Prompt(_)
            | Self::Context { .. }
            | Self::Thought { .. }
            | Self::Text { .. }
            | Self::Call(_)
            | Self::Answered { .. }
            | Self::Title(_) => return None,
        })
    }
}

fn ended(reason: &TurnEndReason) -> Option<Notice> {
    let warning = |title: &str| Notice::new(NoticeLevel::Warning, title);
    Some(match reason {
        TurnEndReason::Completed => return None,
        TurnEndReason::Blocked { message, .. } => {
            warning("This turn was stopped.").with(message.as_str())
        }
        TurnEndReason::MaxTokens => warning("The answer was cut at the model's output limit."),
        TurnEndReason::Refused => warning("The model refused."),
        TurnEndReason::Aborted { .. } => Notice::new(NoticeLevel::Info, "This turn was cancelled."),
        TurnEndReason::Error { failure } => {
            Notice::new(NoticeLevel::Error, "This turn failed.").with(failure.message.as_str())
        }
        TurnEndReason::Interrupted => warning("This turn was broken off: Bridle was stopped."),
        TurnEndReason::Forked => {
            Notice::new(NoticeLevel::Info, "The session was forked here, in mid-turn.")
        }
    })
}

fn failed(attempt: &AssistantAttempt) -> Notice {
    let title = format!("Attempt {} of this request failed.", attempt.attempt);
    Notice::new(NoticeLevel::Warning, title).with(attempt.failure.message.as_str())
}

fn again(retry: &LlmRetry) -> String {
    let seconds = std::time::Duration::from_millis(retry.delay_ms).as_secs_f64();
    format!("Attempt {} followed after {seconds:.1} s ({}).", retry.attempt, retry.code)
}
