//! What a person is told beside the messages, in the same words live, on a replay and in an
//! export.

use std::time::Duration;

use bridle_session::{EventData, GoalChange, JobOutcome, LlmRetry, TurnEndReason};

use crate::transcript::{Shown, Unsent};
use crate::update::{Compaction, NoticeLevel};

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
            Self::NotSent(_, why) => return Some(not_sent(*why)),
            Self::Queued(_) => info("This message waits for its turn.".to_owned()),
            Self::Lost(gap) => {
                notice(&gap.lost.notice()).with("What was said and done there cannot be shown.")
            }
            Self::Unsettled(_) => notice("This answer is not complete."),
            Self::Told(data) => return told(data),
            // The summary is long; whoever shows it gives it a place of its own.
            Self::Compacted(_, done @ Compaction::Done { .. }) => {
                Notice { detail: None, ..done.notice() }
            }
            Self::Compacted(_, compaction) => compaction.notice(),
            Self::TurnStarted(_)
            | Self::Prompt(_)
            | Self::Context { .. }
            | Self::Thought { .. }
            | Self::Text { .. }
            | Self::Call(_)
            | Self::Answered { .. }
            | Self::Title(_)
            | Self::Todo(_) => return None,
        })
    }
}

fn not_sent(why: Unsent) -> Notice {
    let because = match why {
        Unsent::Discarded => "the session broke off before its turn came",
        Unsent::Cancelled => "it was cancelled before its turn came",
        Unsent::TurnEnded => "its turn ended before the model was asked",
    };
    let notice =
        Notice::new(NoticeLevel::Warning, format!("This message was not sent: {because}."));
    match why {
        Unsent::Discarded => notice.with("Send it again if it still holds."),
        Unsent::Cancelled | Unsent::TurnEnded => notice,
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

fn told(data: &EventData) -> Option<Notice> {
    let info = |title: String| Notice::new(NoticeLevel::Info, title);
    let warning = |title: String| Notice::new(NoticeLevel::Warning, title);
    Some(match data {
        EventData::AssistantAttempt(attempt) => {
            warning(format!("Attempt {} of this request failed.", attempt.attempt))
                .with(attempt.failure.message.as_str())
        }
        EventData::LlmRetry(retry) => info(again(retry)),
        EventData::PermissionMode(mode) => info(format!("Mode: {}", mode.mode)),
        EventData::SandboxMode(mode) => info(format!("Sandbox: {}", mode.mode)),
        EventData::PlanMode(plan) if plan.active => info("Planning began.".to_owned()),
        EventData::PlanMode(_) => info("Planning ended.".to_owned()),
        EventData::ModelSelected(selected) => info(format!("Model: {}", selected.route)),
        EventData::ThinkingSelected(selected) => {
            info(format!("Thinking level: {}", selected.level))
        }
        EventData::GoalChange(GoalChange { goal: Some(goal) }) => info(format!("Goal: {goal}")),
        EventData::GoalChange(GoalChange { goal: None }) => info("No goal any more.".to_owned()),
        EventData::JobStarted(job) => {
            info(format!("Runs in the background, as long as the session at most: {}", job.title))
        }
        EventData::JobEnded(job) => info(job_ended(job.outcome)),
        EventData::FeedbackRecord(feedback) => info(format!("Feedback: {}", feedback.text)),
        EventData::SeedEnd(_) => {
            info("What stands above was inherited from the session that this is a fork of.".into())
        }
        _ => return None,
    })
}

impl Compaction {
    /// What is told about it.
    pub fn notice(&self) -> Notice {
        match self {
            Self::Began { tokens, window: 0 } => Notice::new(
                NoticeLevel::Info,
                format!("The conversation is being shortened ({tokens} tokens)."),
            ),
            Self::Began { tokens, window } => Notice::new(
                NoticeLevel::Info,
                format!("The conversation is being shortened ({tokens} of {window} tokens)."),
            ),
            Self::Done { before, after, summary } => {
                let how = match summary {
                    Some(_) => "a summary of what stands above",
                    None => "long results of tools above in part",
                };
                let title = format!(
                    "From here on the model reads {how}: about {after} tokens, {before} before."
                );
                let notice = Notice::new(NoticeLevel::Info, title);
                match summary {
                    Some(summary) => notice.with(summary.as_str()),
                    None => notice,
                }
            }
            Self::Failed { message } => {
                let title = "The conversation was not shortened.";
                Notice::new(NoticeLevel::Warning, title).with(message.as_str())
            }
            Self::Cancelled => {
                let title = "Shortening the conversation was cancelled; it is as it was.";
                Notice::new(NoticeLevel::Warning, title)
            }
        }
    }
}

fn job_ended(outcome: JobOutcome) -> String {
    match outcome {
        JobOutcome::Exited { code } => format!("A background command ended with code {code}."),
        JobOutcome::Killed { signal } => {
            format!("A background command was ended by signal {signal}.")
        }
        JobOutcome::Lost => "Nobody saw how a background command ended.".to_owned(),
    }
}

fn again(retry: &LlmRetry) -> String {
    let seconds = Duration::from_millis(retry.delay_ms).as_secs_f64();
    format!("Attempt {} followed after {seconds:.1} s ({}).", retry.attempt, retry.code)
}
