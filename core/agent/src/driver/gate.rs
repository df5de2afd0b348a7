//! The gate: whether one planned call may run, once.
//!
//! Mode table first, then a person where the table says so. Whatever is not a clear yes is a no;
//! the grant it yields is consumed by exactly the call that was shown.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bridle_session::{ApprovalAsked, ApprovalDecided, ToolErrorCode};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::calls::{Call, aborted_before};
use super::halt::Halt;
use crate::approval::{Answer, Question};
use crate::display::Display;
use crate::mode::Ruling;
use crate::tool::{Access, Grant, PlannedCall, ToolFailure};

/// What the gate says.
pub(super) enum Verdict {
    /// It runs, with this grant.
    Run(Grant),
    /// It does not.
    Refuse(Box<ToolFailure>),
}

impl Driver {
    /// Judges one call by the mode in force now, asking a person where that says so.
    pub(super) async fn judge(
        &mut self,
        call: &Call,
        planned: &dyn PlannedCall,
        token: &CancellationToken,
    ) -> Result<Verdict, Halt> {
        let accesses = planned.access();
        match self.mode.rule(&accesses, self.sandboxing) {
            Ruling::Allow => Ok(Verdict::Run(grant(&accesses))),
            Ruling::Deny(reason) => Ok(Verdict::Refuse(denied(reason))),
            Ruling::Ask(specials) => {
                let display = question_display(planned.display(), &specials);
                self.ask(call, display, grant(&accesses), token).await
            }
        }
    }

    async fn ask(
        &mut self,
        call: &Call,
        display: Display,
        grant: Grant,
        token: &CancellationToken,
    ) -> Result<Verdict, Halt> {
        let title = display.title.clone();
        self.recorder.append(ApprovalAsked { call: call.id.clone(), title })?;
        let question = Question {
            call: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            display,
        };
        let approver = Arc::clone(&self.approver);
        let cancelled = token.clone();
        let asked = async move {
            // A cancel withdraws the question: some clients never answer it.
            tokio::select! {
                biased;
                () = cancelled.cancelled() => Answer::Cancelled,
                answer = AssertUnwindSafe(approver.ask(question)).catch_unwind() => {
                    answer.unwrap_or(Answer::ClientError)
                }
            }
        };
        let answer = self.drive(asked).await;
        // An answer that crossed with a cancel is no permission any more.
        let answer = if token.is_cancelled() { Answer::Cancelled } else { answer };
        self.recorder.append(ApprovalDecided {
            call: call.id.clone(),
            allowed: answer == Answer::AllowOnce,
            by: answer.decided_by().to_owned(),
        })?;
        Ok(match answer {
            Answer::AllowOnce => Verdict::Run(grant),
            Answer::Cancelled => {
                // A client that answers "cancelled" means the turn.
                self.control.cancel("client");
                Verdict::Refuse(Box::new(aborted_before()))
            }
            Answer::Reject => Verdict::Refuse(denied(
                "The person declined this call. Do not try to reach the same effect another way; \
                 ask what they want instead."
                    .to_owned(),
            )),
            Answer::ClientError => Verdict::Refuse(denied(
                "Permission was not given: the client failed to answer the question.".to_owned(),
            )),
            Answer::NoApprover => Verdict::Refuse(denied(
                "Permission is needed and there is nobody to ask. Go on without this call, or say \
                 what you would have done."
                    .to_owned(),
            )),
        })
    }
}

/// Exactly what the accesses that were shown need.
fn grant(accesses: &[Access]) -> Grant {
    let mut wants = (false, false);
    for access in accesses {
        if let Access::Run { network, unconfined, .. } = access {
            wants = (wants.0 || *network, wants.1 || *unconfined);
        }
    }
    Grant::new(wants.0, wants.1)
}

fn denied(message: String) -> Box<ToolFailure> {
    Box::new(ToolFailure { code: ToolErrorCode::Denied, message, display: None })
}

/// The question says first what is special about the call.
fn question_display(mut display: Display, specials: &[String]) -> Display {
    if let Some(first) = specials.first() {
        display.title = format!("{first}: {}", display.title);
        let list: Vec<_> = specials.iter().map(|special| format!("- {special}")).collect();
        let list = list.join("\n");
        display.text = Some(match display.text {
            Some(text) => format!("{list}\n\n{text}"),
            None => list,
        });
    }
    display
}
