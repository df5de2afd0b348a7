//! Everything a client must see of one session, in order.
//!
//! The agent's updates, the questions that follow them and the answers to prompts pass through
//! this one task, so an answer always comes after the last update of its turn. It waits for a
//! credit before each update; while it waits the agent's bounded stream fills and the turn slows
//! down.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::SentRequest;
use agent_client_protocol::v1::schema::{PromptResponse, SessionId, SessionUpdate, StopReason};
use agent_client_protocol::{Error, JsonRpcRequest};
use bridle_agent::{
    AgentGone, AgentUpdate, Fill, Meter, Notice, NoticeLevel, TurnOutcome, UpdateReceiver,
};
use bridle_mcp::Running;
use bridle_session::{MessageId, Usage};
use tokio::sync::{mpsc, oneshot};

use super::commands::{self, LocalCommand, Status};
use super::link::Link;
use super::options::{self, Chosen};
use super::pieces::Pieces;
use super::session::{Wanted, show};
use super::skills::KnownSkills;
use super::speaking::Speaking;
use super::steering::Steering;
use super::terminals::Terminals;
use super::turns::{LocalPrompt, Turns};
use super::{errors, to_acp};
use crate::composition::App;
use crate::language_servers::{self, look};

/// How many updates of the agent may wait here.
pub(super) const UPDATE_QUEUE: usize = 256;

/// How many bytes of text and data they may hold together, so that sessions that nobody reads cost little,
/// also many of them. One update that is larger may wait alone.
pub(super) const UPDATE_BYTES: u32 = 512 * 1024;

/// How many questions may wait here.
pub(super) const QUESTION_QUEUE: usize = 64;

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
    pub(super) servers: Arc<Running>,
    pub(super) skills: KnownSkills,
    pub(super) cwd: PathBuf,
    pub(super) chosen: Chosen,
    /// Tokens in the context after the last request.
    pub(super) meter: Meter,
    /// What fills the context.
    pub(super) fill: Fill,
    /// The tokens of the turns whose prompts are answered.
    pub(super) settled: Usage,
    pub(super) updates: UpdateReceiver,
    pub(super) questions: mpsc::Receiver<Ask>,
    pub(super) pieces: Pieces,
    pub(super) speaking: Speaking,
    /// `None` for a client that takes no terminals.
    pub(super) terminals: Option<Terminals>,
}

impl Outbox {
    /// Runs until the agent has ended and everything it said is sent.
    pub(super) async fn run(mut self) {
        loop {
            let Self { updates, questions, turns, pieces, skills, .. } = &mut self;
            let next = next(updates, questions, turns, pieces, skills).await;
            let Some(next) = next else { break };
            match next {
                Next::Update(update) => {
                    for update in self.pieces.push(update) {
                        self.deliver(update).await;
                    }
                }
                Next::Due => self.flush().await,
                Next::Ask(Ask(send)) => {
                    self.flush().await;
                    send(&self.link);
                }
                Next::Local => {
                    self.flush().await;
                    self.answer_locals().await;
                }
                Next::Skills => {
                    self.flush().await;
                    self.tell_skills().await;
                }
            }
        }
        self.flush().await;
    }

    /// There are other skills than before.
    async fn tell_skills(&mut self) {
        self.send_all([commands::available(&self.skills.listing())]).await;
        let news = self.skills.news();
        if let Some((title, rest)) = news.split_first() {
            let detail = (!rest.is_empty()).then(|| rest.join("\n\n"));
            self.send_notice(NoticeLevel::Warning, title, detail.as_deref()).await;
        }
    }

    /// Sends what waits of a message.
    async fn flush(&mut self) {
        if let Some(piece) = self.pieces.flush() {
            self.deliver(piece).await;
        }
    }

    async fn deliver(&mut self, update: AgentUpdate) {
        self.link.room().await;
        self.send_notes().await;
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
            AgentUpdate::Compaction(id, compaction) if self.link.client.compaction => {
                self.send_all([to_acp::compaction(id, compaction)]).await;
            }
            AgentUpdate::Compaction(_, compaction) => {
                let Notice { level, title, detail } = compaction.notice();
                self.send_notice(level, &title, detail.as_deref()).await;
            }
            AgentUpdate::Todo(items) => {
                self.send_all([to_acp::plan(items, &self.link.client)]).await;
            }
            AgentUpdate::Fill(fill) => self.fill = fill,
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
            update => {
                let updates = match self.terminals.as_mut() {
                    Some(terminals) => terminals.updates(update),
                    None => to_acp::updates(update),
                };
                self.send_all(updates).await;
            }
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
        let cancellation = wanted.cancellation();
        match show(&self.app, &self.link, &self.session, replay, &cancellation).await {
            Err(error) => wanted.refuse(error),
            Ok(()) => {
                let about = (&*self.app, &self.chosen, self.link.client);
                wanted.opened(&self.session.0, about);
            }
        }
        self.send_all([commands::available(&self.skills.listing())]).await;
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
        if self.link.client.notices {
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

    fn end_turn(&mut self, prompt: &MessageId, outcome: TurnOutcome) {
        let used = self.meter.total.since(self.settled);
        self.settled = self.meter.total;
        let Some(responder) = self.turns.take(prompt) else {
            tracing::error!(%prompt, "a turn ended that nobody waits for");
            return;
        };
        let result = to_acp::stop_reason(outcome)
            .map(|reason| PromptResponse::new(reason).usage(to_acp::usage(used)))
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
                    let text = self.local_text(command).await;
                    self.send_all([to_acp::own_message(&own_id(), text)]).await;
                    StopReason::EndTurn
                }
            };
            answer(responder.respond(PromptResponse::new(reason)));
        }
    }

    async fn local_text(&self, command: LocalCommand) -> String {
        match command {
            LocalCommand::Help => commands::help(&self.skills.listing()),
            LocalCommand::Mcp => self.servers.standing(),
            LocalCommand::Lsp => {
                let looked = look(&self.app, vec![self.cwd.clone()]).await;
                let servers = self.app.language_servers();
                let lsp = &self.app.settings().lsp;
                language_servers::standing(lsp, servers.as_deref(), &looked, &self.cwd)
            }
            LocalCommand::Status => commands::status(&Status {
                session: &self.session.0,
                cwd: &self.cwd,
                chosen: &self.chosen,
                meter: &self.meter,
                fill: &self.fill,
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
    /// A piece of a message has waited long enough.
    Due,
    Ask(Ask),
    Local,
    /// There are other skills.
    Skills,
}

/// The agent's updates first: when it asks, what it said before is in the stream and must be seen
/// before the question. `None` when the agent has ended and its stream is empty.
async fn next(
    updates: &mut UpdateReceiver,
    questions: &mut mpsc::Receiver<Ask>,
    turns: &Turns,
    pieces: &mut Pieces,
    skills: &mut KnownSkills,
) -> Option<Next> {
    tokio::select! {
        biased;
        update = updates.recv() => update.map(Next::Update),
        () = pieces.due() => Some(Next::Due),
        Some(ask) = questions.recv() => Some(Next::Ask(ask)),
        () = turns.local() => Some(Next::Local),
        () = skills.changed() => Some(Next::Skills),
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
    use bridle_agent::update_queue;
    use bridle_compose::SystemClock;

    use super::*;

    #[tokio::test]
    async fn a_question_waits_for_the_updates_before_it() {
        let (sender, mut updates) = update_queue(4, 64);
        let (asker, mut questions) = mpsc::channel(4);
        let mut skills = KnownSkills::of(None).await;
        let (turns, mut pieces) = (Turns::default(), Pieces::new(Arc::new(SystemClock)));
        for text in ["1", "2"] {
            let piece = AgentUpdate::MessageChunk { id: own_id(), text: text.into() };
            sender.send(piece).await.unwrap();
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
            let next = next(&mut updates, &mut questions, &turns, &mut pieces, &mut skills).await;
            let next = next.unwrap();
            order.push(match next {
                Next::Update(_) => "update",
                Next::Ask(_) => "question",
                Next::Due | Next::Local | Next::Skills => "something else",
            });
        }
        assert_eq!(order, ["update", "update", "question"]);
        drop(sender);
        let next = next(&mut updates, &mut questions, &turns, &mut pieces, &mut skills).await;
        assert!(next.is_none());
    }
}
