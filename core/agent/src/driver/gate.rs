//! The gate: whether one planned call may run, once.
//!
//! The policy first, then the hooks, then a person where one of them says so, and after every yes
//! the guards, which can only say no. Whatever is not a clear yes is a no; the grant it yields is
//! consumed by exactly the call that was shown.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bridle_session::{ApprovalAsked, ApprovalDecided, EventData, ToolErrorCode};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::calls::aborted_before;
use super::halt::Halt;
use crate::approval::{Answer, Approver, Question, Subject};
use crate::display::Display;
use crate::hooks::{CallInfo, ToolPre};
use crate::mode::Ruling;
use crate::plant::Plant;
use crate::policy::{CallGuard, Judgement, PermissionPolicy};
use crate::tool::{Access, Grant, ToolFailure};

/// What the model is told of a check that broke.
const CHECK_FAILED: &str = "A check of this call failed inside Bridle, so it may not run.";

/// What the gate says.
pub(super) enum Passage {
    /// It runs, with this grant.
    Run(Grant),
    /// It does not.
    Refuse(Box<ToolFailure>),
}

impl Driver {
    /// Judges one call by the policy and the mode in force now and by the hooks, asking a person
    /// where they say so.
    pub(super) async fn judge(
        &mut self,
        call: &Arc<CallInfo>,
        token: &CancellationToken,
    ) -> Result<Passage, Halt> {
        // The calls before it may have ended by a cancel: nobody is asked about it any more.
        if token.is_cancelled() {
            return Ok(Passage::Refuse(Box::new(aborted_before())));
        }
        let passage = match self.ruling(call, token).await? {
            Ruling::Allow => Passage::Run(self.grant(call)),
            Ruling::Deny(reason) => Passage::Refuse(denied(reason)),
            Ruling::Ask(specials) => self.ask(call, &specials, token).await?,
            Ruling::Cancel if token.is_cancelled() => Passage::Refuse(Box::new(aborted_before())),
            Ruling::Cancel => {
                self.control.cancel("hook");
                Passage::Refuse(Box::new(aborted_before()))
            }
        };
        match passage {
            Passage::Run(grant) => Ok(self.guard(call, grant, token).await),
            refused => Ok(refused),
        }
    }

    /// Lets the guards look at a call that may run otherwise. One that fails, or that is left with
    /// a cancel, has not let it through.
    async fn guard(
        &mut self,
        call: &Arc<CallInfo>,
        grant: Grant,
        token: &CancellationToken,
    ) -> Passage {
        for guard in self.scope.all::<dyn CallGuard>() {
            let call = Arc::clone(call);
            let checked = async move { guard.check(&call).await };
            let checked = AssertUnwindSafe(checked).catch_unwind();
            match self.unless_cancelled(checked, token).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(reason))) => return Passage::Refuse(denied(reason)),
                Ok(Err(_)) => return Passage::Refuse(denied(CHECK_FAILED.to_owned())),
                Err(_) => return Passage::Refuse(Box::new(aborted_before())),
            }
        }
        Passage::Run(grant)
    }

    /// The strictest of what the policy and the hooks say: no hook makes a call run that the policy
    /// does not let run.
    async fn ruling(
        &mut self,
        call: &Arc<CallInfo>,
        token: &CancellationToken,
    ) -> Result<Ruling, Halt> {
        let Some(policy) = self.scope.get::<dyn PermissionPolicy>() else {
            return Ok(Ruling::Deny(
                "No permission policy is active, so nothing may run. The person can see why with \
                 `bridle config show`."
                    .to_owned(),
            ));
        };
        let Judgement { ruling, rule } = policy.rule(call);
        if let Some(rule) = rule {
            let (call, by) = (call.id.clone(), format!("rule: {rule}"));
            match ruling {
                Ruling::Allow => {
                    self.recorder.append(ApprovalDecided { call, allowed: true, by })?;
                }
                Ruling::Deny(_) => {
                    self.recorder.append(ApprovalDecided { call, allowed: false, by })?;
                }
                // The question names the rule.
                Ruling::Ask(_) | Ruling::Cancel => {}
            }
        }
        let hooks = self.scope.hooks::<ToolPre>();
        if hooks.is_empty() {
            return Ok(ruling);
        }
        let inner = ruling.clone();
        let hooked = hooks.run(Arc::clone(call), async move |_| inner);
        let hooked = AssertUnwindSafe(hooked).catch_unwind();
        let hooked = match self.decided("tool-pre", hooked, token).await {
            Ok(hooked) => hooked,
            // A cancel leaves hooks that never answer; the call then was not let through.
            Err(Halt::Cancelled) => return Ok(Ruling::Cancel),
            Err(Halt::Failed(_)) => Ok(Ruling::Deny(CHECK_FAILED.to_owned())),
        };
        Ok(ruling.strictest(hooked.unwrap_or_else(|_| {
            tracing::error!(tool = call.name, "a tool-pre hook panicked");
            Ruling::Deny(CHECK_FAILED.to_owned())
        })))
    }

    /// Exactly what the accesses that were shown need in the mode in force now.
    fn grant(&self, call: &CallInfo) -> Grant {
        Grant::new(self.mode.confinement(&call.accesses))
    }

    /// Why a call may not run any more that could when it was planned: the mode may have become
    /// stricter while a person was asked.
    fn forbidden_by_now(&self, call: &CallInfo) -> Option<String> {
        if self.mode == call.mode || subject(&call.accesses) == Subject::Plan {
            return None;
        }
        let policy = self.scope.get::<dyn PermissionPolicy>()?;
        let call = CallInfo { mode: self.mode, ..call.clone() };
        match policy.rule(&call).ruling {
            Ruling::Deny(reason) => Some(reason),
            Ruling::Allow | Ruling::Ask(_) | Ruling::Cancel => None,
        }
    }

    async fn ask(
        &mut self,
        call: &CallInfo,
        specials: &[String],
        token: &CancellationToken,
    ) -> Result<Passage, Halt> {
        if Plant::ReusedPermission.is_in() && self.has_said_yes() {
            return Ok(Passage::Run(self.grant(call)));
        }
        let display = question_display(call.display.clone(), specials);
        let title = display.title.clone();
        let subject = subject(&call.accesses);
        self.recorder.append(ApprovalAsked { call: call.id.clone(), title })?;
        let question = Question {
            call: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            subject,
            display,
        };
        let approver = self.scope.get::<dyn Approver>();
        let cancelled = token.clone();
        let asked = async move {
            // A cancel withdraws the question: some clients never answer it.
            tokio::select! {
                biased;
                () = cancelled.cancelled() => Answer::Cancelled,
                answer = AssertUnwindSafe(put(approver, question)).catch_unwind() => {
                    answer.unwrap_or(Answer::ClientError)
                }
            }
        };
        let answer = self.drive(asked).await;
        // An answer that crossed with a cancel is no permission any more.
        let answer = if token.is_cancelled() { Answer::Cancelled } else { answer };
        let forbidden = self.forbidden_by_now(call).filter(|_| answer == Answer::AllowOnce);
        self.recorder.append(ApprovalDecided {
            call: call.id.clone(),
            allowed: answer == Answer::AllowOnce && forbidden.is_none(),
            by: match forbidden {
                Some(_) => format!("mode {}", self.mode.id()),
                None => answer.decided_by().to_owned(),
            },
        })?;
        if let Some(reason) = forbidden {
            return Ok(Passage::Refuse(denied(reason)));
        }
        Ok(match answer {
            Answer::AllowOnce => Passage::Run(self.grant(call)),
            Answer::Cancelled => {
                // A client that answers "cancelled" means the turn.
                self.control.cancel("client");
                Passage::Refuse(Box::new(aborted_before()))
            }
            no => Passage::Refuse(match subject {
                Subject::Call => denied(refusal(no).to_owned()),
                Subject::Plan => still_planning(no, &call.display),
            }),
        })
    }
}

/// What the model is told of a call that may not run.
fn refusal(no: Answer) -> &'static str {
    match no {
        Answer::ClientError => {
            "Permission was not given: the client failed to answer the question."
        }
        Answer::NoApprover => {
            "Permission is needed and there is nobody to ask. Go on without this call, or say what \
             you would have done."
        }
        _ => {
            "The person declined this call. Do not try to reach the same effect another way; ask \
             what they want instead."
        }
    }
}

/// A plan that is not to be carried out (yet); what the person was shown of it stays.
fn still_planning(no: Answer, plan: &Display) -> Box<ToolFailure> {
    let message = match no {
        Answer::ClientError => {
            "The plan was not approved: the client failed to answer. The session is still in plan \
             mode. Give the plan as your answer."
        }
        Answer::NoApprover => {
            "Nobody is there who could review the plan, so the session stays in plan mode and \
             nothing may be changed. Give the whole plan as your answer."
        }
        _ => {
            "The person wants to keep planning. The session is still in plan mode: nothing may be \
             changed. Ask what the plan lacks unless you know it, improve the plan, and hand it in \
             again."
        }
    };
    let text = match &plan.text {
        Some(plan) => format!("{plan}\n\n*{message}*"),
        None => message.to_owned(),
    };
    let display = Some(Display { text: Some(text), ..plan.clone() });
    Box::new(ToolFailure { display, ..ToolFailure::new(ToolErrorCode::Denied, message) })
}

fn subject(accesses: &[Access]) -> Subject {
    if accesses.contains(&Access::LeavePlan) { Subject::Plan } else { Subject::Call }
}

impl Driver {
    /// Whether a person has allowed any call so far.
    fn has_said_yes(&self) -> bool {
        let mut events = self.recorder.session().events().iter();
        events.any(|event| matches!(&event.data, EventData::ApprovalDecided(said) if said.allowed))
    }
}

async fn put(approver: Option<Arc<dyn Approver>>, question: Question) -> Answer {
    match approver {
        Some(approver) => approver.ask(question).await,
        None => Answer::NoApprover,
    }
}

fn denied(message: String) -> Box<ToolFailure> {
    Box::new(ToolFailure::new(ToolErrorCode::Denied, message))
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
