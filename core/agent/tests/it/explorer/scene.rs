//! What everybody around the driver shares: what waits for a move, what happened so far, and which
//! laws were broken. Single-threaded by construction; the lock is never held across a wait.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bridle_agent::Mode;
use bridle_model::{Chunk, FailureCode, ModelFailure, StopReason};
use bridle_session::{Block, Seq, SeriesNumber, Session, ToolCallId, Usage};
use bridle_store::MemoryStore;
use tokio::sync::{mpsc, oneshot};

use super::schedule::{Kind, Point, Reply, Say};
use crate::rig::{failure, header};

/// Every panic of a schedule carries this text, so that nobody is told of it.
pub(super) const PLANNED: &str = "as the schedule says";

/// How much a stream may have to say before the driver listens.
const UNHEARD: usize = 256;

#[derive(Clone)]
pub(super) struct Scene(Arc<Mutex<State>>);

pub(super) struct State {
    /// What the driver says that it has recorded.
    pub(super) mirror: Session,
    pub(super) store: MemoryStore,
    pub(super) thorough: bool,
    /// The mode at the beginning.
    pub(super) mode: Mode,
    pub(super) broken: Vec<String>,
    pub(super) now: Duration,
    sleeps: Vec<(Duration, oneshot::Sender<()>)>,
    gates: Vec<(Kind, oneshot::Sender<Reply>)>,
    armed: VecDeque<(Point, Reply)>,
    pub(super) deaf: bool,
    pub(super) streams: Vec<Stream>,
    /// How many calls were ever said: their arguments and ids.
    calls: usize,
    /// What the last request of the series was made of.
    pub(super) last_request: Option<(SeriesNumber, Vec<Seq>)>,
    pub(super) asked: HashMap<ToolCallId, u32>,
    /// Bodies that ran, by their arguments.
    pub(super) ran: HashSet<String>,
    /// Whether a hook, the approver or the model may have cancelled, nobody knows just when.
    pub(super) cancels: bool,
}

/// A stream that somebody listens to.
pub(super) struct Stream {
    says: mpsc::Sender<Item>,
    index: u32,
    open: Option<Block>,
    pub(super) calls: usize,
}

pub(super) enum Item {
    Chunk(Chunk),
    Fail(ModelFailure),
    Panic,
    Break,
}

impl Scene {
    pub(super) fn new(store: MemoryStore, thorough: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            mirror: Session::new(header()),
            store,
            thorough,
            mode: Mode::Ask,
            broken: Vec::new(),
            now: Duration::ZERO,
            sleeps: Vec::new(),
            gates: Vec::new(),
            armed: VecDeque::new(),
            deaf: false,
            streams: Vec::new(),
            calls: 0,
            last_request: None,
            asked: HashMap::new(),
            ran: HashSet::new(),
            cancels: false,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Waits for the move of its kind. Nobody to make one any more is a no.
    pub(super) async fn gate(&self, kind: Kind) -> Reply {
        let (sender, reply) = oneshot::channel();
        self.lock().gates.push((kind, sender));
        reply.await.unwrap_or(Reply::No)
    }

    /// What this passage of a hook point does.
    pub(super) async fn passage(&self, point: Point) -> Reply {
        let armed = {
            let mut state = self.lock();
            let at = state.armed.iter().position(|(armed, _)| *armed == point);
            at.and_then(|at| state.armed.remove(at)).map(|(_, reply)| reply)
        };
        match armed {
            None => Reply::Yes,
            Some(Reply::Wait) => self.gate(Kind::Hook).await,
            Some(Reply::Panic) => panic!("{PLANNED}"),
            Some(reply) => reply,
        }
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        let (sender, over) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.sleeps.len() > 64 {
                state.sleeps.retain(|(_, sleeper)| !sleeper.is_closed());
            }
            let due = state.now + duration;
            state.sleeps.push((due, sender));
        }
        over.await.ok();
    }
}

impl State {
    pub(super) fn break_law(&mut self, law: impl Into<String>) {
        if self.broken.len() < 8 {
            self.broken.push(law.into());
        }
    }

    pub(super) fn waiting(&mut self, kind: Kind) -> usize {
        self.gates.retain(|(_, gate)| !gate.is_closed());
        self.gates.iter().filter(|(waits, _)| *waits == kind).count()
    }

    pub(super) fn sleeping(&mut self) -> usize {
        self.sleeps.retain(|(_, sleeper)| !sleeper.is_closed());
        self.sleeps.len()
    }

    pub(super) fn live_streams(&mut self) -> usize {
        self.streams.retain(|stream| !stream.says.is_closed());
        self.streams.len()
    }

    /// Lets the n-th that waits go on.
    pub(super) fn go(&mut self, kind: Kind, n: usize, reply: Reply) {
        let waiting = self.waiting(kind);
        if waiting == 0 {
            return;
        }
        let mut of_kind = self.gates.iter().enumerate().filter(|(_, (waits, _))| *waits == kind);
        let at = of_kind.nth(n % waiting).map(|(at, _)| at).unwrap();
        if kind == Kind::Question && reply == Reply::Cancelled {
            self.cancels = true;
        }
        self.gates.remove(at).1.send(reply).ok();
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    pub(super) fn arm(&mut self, point: Point, reply: Reply) {
        if point == Point::ToolPre && reply == Reply::Cancelled {
            self.cancels = true;
        }
        self.armed.push_back((point, reply));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        let (due, rest) =
            std::mem::take(&mut self.sleeps).into_iter().partition(|(due, _)| *due <= now);
        self.sleeps = rest;
        let due: Vec<(Duration, oneshot::Sender<()>)> = due;
        for (_, sleeper) in due {
            sleeper.send(()).ok();
        }
    }

    pub(super) fn listen(&mut self) -> mpsc::Receiver<Item> {
        let (says, listened) = mpsc::channel(UNHEARD);
        self.streams.push(Stream { says, index: 0, open: None, calls: 0 });
        listened
    }

    /// The newest stream says something.
    pub(super) fn say(&mut self, say: Say) {
        self.live_streams();
        let calls = &mut self.calls;
        if let Some(stream) = self.streams.last_mut() {
            stream.say(say, calls);
        }
        if matches!(say, Say::Fail(code) if CODES[usize::from(code) % CODES.len()] == FailureCode::Cancelled)
        {
            self.cancels = true;
        }
    }
}

const CODES: [FailureCode; 13] = [
    FailureCode::Auth,
    FailureCode::Billing,
    FailureCode::InvalidRequest,
    FailureCode::UnknownModel,
    FailureCode::ContextOverflow,
    FailureCode::RateLimited,
    FailureCode::Overloaded,
    FailureCode::Server,
    FailureCode::Transport,
    FailureCode::Silent,
    FailureCode::MalformedResponse,
    FailureCode::Cancelled,
    FailureCode::Overloaded,
];

const STOPS: [StopReason; 6] = [
    StopReason::EndTurn,
    StopReason::ToolUse,
    StopReason::MaxTokens,
    StopReason::ContextFull,
    StopReason::Pause,
    StopReason::Refusal,
];

/// What is special about a call.
const ARGUMENTS: [&str; 16] = [
    r#""body":"now""#,
    r#""body":"last""#,
    r#""body":"leave""#,
    r#""body":"wait""#,
    r#""body":"wait""#,
    r#""body":"wait""#,
    r#""body":"deaf""#,
    r#""body":"loud""#,
    r#""body":"fail""#,
    r#""body":"panic""#,
    r#""plan":"wait","body":"wait""#,
    r#""plan":"wait","body":"now""#,
    r#""plan":"fail""#,
    r#""plan":"panic""#,
    r#""body":"#,
    r#""body":"now""#,
];

impl Stream {
    fn item(&self, item: Item) {
        self.says.try_send(item).ok();
    }

    fn chunk(&self, chunk: Chunk) {
        self.item(Item::Chunk(chunk));
    }

    fn end_block(&mut self) {
        if let Some(block) = self.open.take() {
            self.chunk(Chunk::BlockEnd { index: self.index, block });
            self.index += 1;
        }
    }

    fn say(&mut self, say: Say, calls: &mut usize) {
        match say {
            Say::Start => self.chunk(Chunk::Start { usage: usage(7, 0) }),
            Say::Usage => self.chunk(Chunk::Usage(usage(7, 3))),
            Say::EndBlock => self.end_block(),
            Say::Text | Say::Thought | Say::HalfCall => self.go_on(say, calls),
            Say::Call(tool, special) => {
                self.end_block();
                self.call(tool, special, calls);
            }
            Say::Stop(reason) => {
                self.end_block();
                self.chunk(Chunk::Usage(usage(7, 5)));
                self.chunk(Chunk::Stop(STOPS[usize::from(reason) % STOPS.len()]));
            }
            Say::Fail(code) => {
                self.item(Item::Fail(failure(CODES[usize::from(code) % CODES.len()])));
            }
            Say::Panic => self.item(Item::Panic),
            Say::Break => self.item(Item::Break),
        }
    }

    /// More of an open block, or the beginning of one.
    fn go_on(&mut self, say: Say, calls: &mut usize) {
        let fits = matches!(
            (&self.open, say),
            (Some(Block::Text { .. }), Say::Text)
                | (Some(Block::Thinking { .. }), Say::Thought)
                | (Some(Block::ToolCall { .. }), Say::HalfCall)
        );
        if !fits {
            self.end_block();
            self.begin(say, calls);
        }
        let index = self.index;
        let piece = format!("piece {index} ");
        match &mut self.open {
            Some(Block::Text { text }) => {
                text.push_str(&piece);
                self.chunk(Chunk::TextDelta { index, text: piece });
            }
            Some(Block::Thinking { text, .. }) => {
                text.push_str(&piece);
                self.chunk(Chunk::ThinkingDelta { index, text: piece });
            }
            _ => self.chunk(Chunk::ArgumentsDelta { index, json: "{".to_owned() }),
        }
    }

    fn begin(&mut self, say: Say, calls: &mut usize) {
        use bridle_model::BlockKind;
        let index = self.index;
        let (kind, block) = match say {
            Say::Text => (BlockKind::Text, Block::Text { text: String::new() }),
            Say::Thought => {
                let signature = Some("signed".to_owned());
                (BlockKind::Thinking, Block::Thinking { text: String::new(), signature })
            }
            _ => {
                *calls += 1;
                let (id, name) = (ToolCallId::new(format!("half-{calls}")), "look".to_owned());
                let arguments = "{".to_owned();
                let kind = BlockKind::ToolCall { id: id.clone(), name: name.clone() };
                (kind, Block::ToolCall { id, name, arguments })
            }
        };
        self.chunk(Chunk::BlockStart { index, kind });
        self.open = Some(block);
    }

    fn call(&mut self, tool: u8, special: u8, calls: &mut usize) {
        let index = self.index;
        *calls += 1;
        self.calls += 1;
        // Some models count from the beginning in each answer.
        let id = if special == 15 { "again".to_owned() } else { format!("call-{calls}") };
        let id = ToolCallId::new(id);
        let name = ["look", "put", "run", "nope"][usize::from(tool) % 4].to_owned();
        let special = ARGUMENTS[usize::from(special) % ARGUMENTS.len()];
        let arguments = format!(r#"{{"n":{calls},{special}}}"#);
        let kind = bridle_model::BlockKind::ToolCall { id: id.clone(), name: name.clone() };
        self.chunk(Chunk::BlockStart { index, kind });
        self.chunk(Chunk::ArgumentsDelta { index, json: arguments.clone() });
        self.chunk(Chunk::BlockEnd { index, block: Block::ToolCall { id, name, arguments } });
        self.index += 1;
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}
