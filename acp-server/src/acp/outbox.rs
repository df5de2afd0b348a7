//! Everything a client must see of one session, in order.
//!
//! The agent's updates, the questions that follow them and the answers to prompts pass through
//! this one task, so an answer always comes after the last update of its turn. It waits for a
//! credit before each update; while it waits the agent's bounded stream fills and the turn slows
//! down. Pieces of a message that have queued up are sent as one; nothing is ever held back to
//! wait for more.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::SentRequest;
use agent_client_protocol::v1::schema::{PromptResponse, SessionId, SessionUpdate, StopReason};
use agent_client_protocol::{Error, JsonRpcRequest};
use bridle_agent::{AgentGone, AgentUpdate, Meter, NoticeLevel, TurnOutcome};
use bridle_session::MessageId;
use tokio::sync::{mpsc, oneshot};

use super::commands::{self, LocalCommand, Status};
use super::link::Link;
use super::options::{self, Chosen};
use super::session::{Wanted, show};
use super::speaking::Speaking;
use super::steering::Steering;
use super::turns::{LocalPrompt, Turns};
use super::{errors, to_acp};
use crate::composition::App;

/// How many updates of the agent may wait here.
pub(super) const UPDATE_QUEUE: usize = 256;

/// How many questions may wait here.
pub(super) const QUESTION_QUEUE: usize = 64;

/// Pieces of a message are joined up to about this many bytes.
const JOIN_LIMIT: usize = 8 * 1024;

/// A question to the person, on its way out.
pub(super) struct Ask(Box<dyn FnOnce(&Link) + Send>);

impl Ask {
    /// The question, and where the request that was sent comes back.
    fn new<R: JsonRpcRequest + Send>(
        request: R,
    ) -> (Self, oneshot::Receiver<SentRequest<R::Response>>) {
        let (reply, sent) = oneshot::channel();
        let send = move |link: &Link| {
            // A turn that was cancelled meanwhile asks no more. If it is cancelled just now, the
            // dropped request withdraws itself.
            if !reply.is_closed() {
                drop(reply.send(link.ask(request)));
            }
        };
        (Self(Box::new(send)), sent)
    }
}

/// Asks the client behind all that it must see first. `None` when the outbox has ended.
///
/// # Cancel safety
/// Cancel safe: dropping it withdraws the question.
pub(super) async fn ask<R: JsonRpcRequest + Send>(
    outbox: &mpsc::Sender<Ask>,
    request: R,
) -> Option<Result<R::Response, Error>> {
    let (ask, sent) = Ask::new(request);
    outbox.send(ask).await.ok()?;
    Some(sent.await.ok()?.block_task().await)
}

/// The outbox of one session.
pub(super) struct Outbox {
    pub(super) app: Arc<App>,
    pub(super) link: Link,
    pub(super) session: SessionId,
    pub(super) turns: Arc<Turns>,
    pub(super) cwd: PathBuf,
    pub(super) chosen: Chosen,
    /// Tokens in the context after the last request.
    pub(super) meter: Meter,
    pub(super) updates: mpsc::Receiver<AgentUpdate>,
    pub(super) questions: mpsc::Receiver<Ask>,
    pub(super) speaking: Speaking,
}

impl Outbox {
    /// Runs until the agent has ended and everything it said is sent.
    pub(super) async fn run(mut self) {
        while let Some(next) = next(&mut self.updates, &mut self.questions, &self.turns).await {
            match next {
                Next::Update(update) => self.deliver(update).await,
                Next::Ask(Ask(send)) => send(&self.link),
                Next::Local => self.answer_locals().await,
            }
        }
    }

    async fn deliver(&mut self, update: AgentUpdate) {
        let mut next = Some(update);
        while let Some(update) = next {
            self.link.room().await;
            self.send_notes().await;
            let (update, rest) = join(update, &mut self.updates);
            next = rest;
            self.deliver_one(update).await;
        }
    }

    async fn deliver_one(&mut self, update: AgentUpdate) {
        self.speaking.hear(&update);
        match update {
            AgentUpdate::Replay(replay) => self.show_again(replay).await,
            AgentUpdate::Mode(mode) => {
                self.chosen.mode = mode;
                self.send_chosen().await;
            }
            AgentUpdate::Model(route) => {
                self.chosen.route = Some(route);
                self.send_chosen().await;
            }
            AgentUpdate::Effort(effort) => {
                self.chosen.effort = effort;
                self.send_chosen().await;
            }
            AgentUpdate::Notice { level, title, detail } => {
                self.send_notice(level, &title, detail.as_deref()).await;
            }
            AgentUpdate::Joined { prompt } => self.turns.steerings(|all| all.joined(&prompt)),
            AgentUpdate::TurnEnded { prompt, outcome } => {
                match self.turns.steerings(|all| all.take(&prompt)) {
                    Some(steering) => self.end_steering(steering, outcome).await,
                    None => self.end_turn(&prompt, outcome),
                }
                self.answer_locals().await;
            }
            AgentUpdate::Usage(meter) => {
                self.meter = meter.clone();
                self.send_all(to_acp::updates(AgentUpdate::Usage(meter))).await;
            }
            update => self.send_all(to_acp::updates(update)).await,
        }
    }

    /// Shows the session again, up to what the client has been sent, and answers the load.
    async fn show_again(&self, mut replay: Vec<AgentUpdate>) {
        let Some(responder) = self.turns.take_replay() else {
            tracing::error!("a replay that nobody waits for");
            return;
        };
        self.speaking.complete(&mut replay);
        let wanted = Wanted::Replay(responder);
        match show(&self.app, &self.link, &self.session, replay).await {
            Err(error) => wanted.refuse(error),
            Ok(()) => wanted.opened(&self.app, &self.chosen),
        }
        self.send_all([commands::available()]).await;
    }

    async fn send_chosen(&self) {
        self.send_all(options::changed(&self.app, &self.chosen)).await;
    }

    async fn send_all(&self, updates: impl IntoIterator<Item = SessionUpdate>) {
        for update in updates {
            self.link.room().await;
            self.link.update(&self.session, update);
        }
    }

    async fn send_notice(&self, level: NoticeLevel, title: &str, detail: Option<&str>) {
        if self.link.shows.notices {
            self.send_all([to_acp::notice(level, title, detail)]).await;
        } else {
            self.turns.note(to_acp::notice_message(level, title, detail));
            self.send_notes().await;
        }
    }

    /// Sends the notes that waited for a turn, if one is open.
    async fn send_notes(&self) {
        self.send_all(self.turns.take_notes()).await;
    }

    fn end_turn(&self, prompt: &MessageId, outcome: TurnOutcome) {
        let Some(responder) = self.turns.take(prompt) else {
            tracing::error!(%prompt, "a turn ended that nobody waits for");
            return;
        };
        let result = to_acp::stop_reason(outcome)
            .map(PromptResponse::new)
            .map_err(|failure| errors::turn_failed(&failure));
        answer(responder.respond_with_result(result));
    }

    async fn end_steering(&self, steering: Steering, outcome: TurnOutcome) {
        if let Some(failure) = steering.end(outcome) {
            self.send_notice(NoticeLevel::Error, &failure.message, None).await;
        }
    }

    /// Answers the local commands that are at the front. Everything that they tell is known here:
    /// the agent, which may wait for this task, is not asked.
    async fn answer_locals(&self) {
        while let Some(LocalPrompt { command, responder }) = self.turns.next_local() {
            let reason = match command {
                None => StopReason::Cancelled,
                Some(command) => {
                    let text = self.local_text(command);
                    self.send_all([to_acp::own_message(&own_id(), text)]).await;
                    StopReason::EndTurn
                }
            };
            answer(responder.respond(PromptResponse::new(reason)));
        }
    }

    fn local_text(&self, command: LocalCommand) -> String {
        match command {
            LocalCommand::Help => commands::help(),
            LocalCommand::Status => commands::status(&Status {
                session: &self.session.0,
                cwd: &self.cwd,
                chosen: &self.chosen,
                meter: &self.meter,
                problems: &self.app.settings().problems,
            }),
        }
    }
}

impl Drop for Outbox {
    /// Answers the prompts that are left, whether the agent ended or this task panicked: nobody
    /// else will.
    fn drop(&mut self) {
        let closing = self.turns.is_closing();
        // A dropped responder answers with an error.
        self.turns.steerings(|all| drop(std::mem::take(all)));
        while let Some(responder) = self.turns.take_replay() {
            let error = errors::agent_gone(AgentGone::Closed);
            answer(responder.respond_with_error(error));
        }
        for responder in self.turns.take_all() {
            answer(responder.respond_with_result(if closing {
                Ok(PromptResponse::new(StopReason::Cancelled))
            } else {
                Err(errors::internal("the session ended unexpectedly; open it again"))
            }));
        }
    }
}

/// What an outbox handles next.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is not kept")]
enum Next {
    Update(AgentUpdate),
    Ask(Ask),
    Local,
}

/// The agent's updates first: when it asks, what it said before is in the stream and must be seen
/// before the question. `None` when the agent has ended and its stream is empty.
async fn next(
    updates: &mut mpsc::Receiver<AgentUpdate>,
    questions: &mut mpsc::Receiver<Ask>,
    turns: &Turns,
) -> Option<Next> {
    tokio::select! {
        biased;
        update = updates.recv() => update.map(Next::Update),
        Some(ask) = questions.recv() => Some(Next::Ask(ask)),
        () = turns.local() => Some(Next::Local),
    }
}

/// Joins a piece of a message with the pieces of the same message that wait behind it. The first
/// update that does not fit comes back as the second value.
fn join(
    update: AgentUpdate,
    queue: &mut mpsc::Receiver<AgentUpdate>,
) -> (AgentUpdate, Option<AgentUpdate>) {
    let mut joined = update;
    loop {
        let room = match &joined {
            AgentUpdate::MessageChunk { text, .. } | AgentUpdate::ThoughtChunk { text, .. } => {
                text.len() < JOIN_LIMIT
            }
            _ => false,
        };
        if !room {
            return (joined, None);
        }
        let Ok(next) = queue.try_recv() else {
            return (joined, None);
        };
        match (&mut joined, next) {
            (
                AgentUpdate::MessageChunk { id, text },
                AgentUpdate::MessageChunk { id: next_id, text: more },
            )
            | (
                AgentUpdate::ThoughtChunk { id, text },
                AgentUpdate::ThoughtChunk { id: next_id, text: more },
            ) if *id == next_id => text.push_str(&more),
            (_, next) => return (joined, Some(next)),
        }
    }
}

/// A new id for a message that Bridle itself gives.
pub(super) fn own_id() -> MessageId {
    MessageId::new(uuid::Uuid::now_v7().to_string())
}

/// An answer that the connection does not take any more has nobody to read it.
pub(super) fn answer(sent: Result<(), agent_client_protocol::Error>) {
    if let Err(error) = sent {
        tracing::debug!(code = i32::from(error.code), "an answer could not be sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str, text: &str) -> AgentUpdate {
        AgentUpdate::MessageChunk { id: MessageId::new(id), text: text.into() }
    }

    #[tokio::test]
    async fn queued_pieces_of_one_message_are_joined_and_nothing_is_reordered() {
        let (sender, mut queue) = mpsc::channel(8);
        let thought = AgentUpdate::ThoughtChunk { id: MessageId::new("a"), text: "t".into() };
        for update in [text("a", "2"), text("a", "3"), text("b", "4"), thought] {
            sender.send(update).await.unwrap();
        }
        let (first, rest) = join(text("a", "1"), &mut queue);
        assert!(matches!(first, AgentUpdate::MessageChunk { text, .. } if text == "123"));
        let (second, rest) = join(rest.unwrap(), &mut queue);
        assert!(matches!(second, AgentUpdate::MessageChunk { text, .. } if text == "4"));
        let (third, rest) = join(rest.unwrap(), &mut queue);
        assert!(matches!(third, AgentUpdate::ThoughtChunk { text, .. } if text == "t"));
        assert!(rest.is_none());
    }

    #[tokio::test]
    async fn a_question_waits_for_the_updates_before_it() {
        let (sender, mut updates) = mpsc::channel(4);
        let (asker, mut questions) = mpsc::channel(4);
        let turns = Turns::default();
        for piece in ["1", "2"] {
            sender.send(text("a", piece)).await.unwrap();
        }
        let question = bridle_agent::Question {
            call: bridle_session::ToolCallId::new("c"),
            name: "edit".into(),
            arguments: "{}".into(),
            subject: bridle_agent::Subject::Call,
            display: bridle_agent::Display::new("edit", bridle_agent::ToolKind::Edit),
        };
        let request = to_acp::question(SessionId::new("s"), question);
        asker.send(Ask::new(request).0).await.ok().unwrap();
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(match next(&mut updates, &mut questions, &turns).await.unwrap() {
                Next::Update(_) => "update",
                Next::Ask(_) => "question",
                Next::Local => "local",
            });
        }
        assert_eq!(order, ["update", "update", "question"]);
        drop(sender);
        assert!(next(&mut updates, &mut questions, &turns).await.is_none());
    }

    #[tokio::test]
    async fn joining_is_bounded() {
        let (sender, mut queue) = mpsc::channel(64);
        for _ in 0..32 {
            sender.send(text("a", &"x".repeat(1_000))).await.unwrap();
        }
        let (first, _) = join(text("a", ""), &mut queue);
        let AgentUpdate::MessageChunk { text, .. } = first else { panic!("a chunk stays a chunk") };
        assert!(text.len() < JOIN_LIMIT + 1_000, "{}", text.len());
    }
}
