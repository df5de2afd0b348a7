//! What sessions cost: one long one written, opened and read at its end, many listed, and the same
//! events in SQLite beside it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridle_session::{
    AssistantMessage, Block, Content, Draft, Event, Header, MessageId, Route, Session, SessionId,
    StepEnd, StepNumber, StepStart, TimedBlock, TitleSet, ToolCall, ToolCallId, ToolResult,
    TurnEnd, TurnEndReason, TurnNumber, TurnStart, UnixMillis, Usage, UserMessage, UserSource,
};
use bridle_store::{FileStore, SearchQuery, SessionStore as _};
use fastrand::Rng;
use rusqlite::Connection;

use crate::figures::{millis, say};

/// Events between two flushes.
const BATCH: usize = 20;

pub(crate) fn run(quick: bool) {
    let (events, sessions) = if quick { (500, 100) } else { (10_000, 2_000) };
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::with_seed(7);
    let session = work(0, events, 33, &mut rng);
    let lines: Vec<String> =
        session.events().iter().map(|event| event.to_line().unwrap()).collect();
    describe(&lines);
    let (ours, bytes) = write(folder.path(), session.events(), session.header());
    read(folder.path(), &session);
    derive(&mut rng);
    beside(&folder.path().join("events.sqlite"), &lines, ours, bytes);
    list(&folder.path().join("many"), sessions, &mut rng);
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The processor time of all threads so far, in the kernel's ticks of 10 ms.
fn cpu() -> Duration {
    let stat = fs_err::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// The fastest of a few runs, and what one took of all processors on average: on a busy machine
/// that is the truer figure.
fn best<T>(runs: u32, mut run: impl FnMut() -> T) -> Time {
    let before = cpu();
    let time = |_| {
        let start = Instant::now();
        drop(run());
        start.elapsed()
    };
    let clock = (0..runs).map(time).min().unwrap();
    Time { clock, processor: (cpu() - before) / runs }
}

struct Time {
    clock: Duration,
    processor: Duration,
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!(
            "{} ({:.0} of processor)",
            millis(self.clock),
            self.processor.as_secs_f64() * 1e3
        ))
    }
}

fn describe(lines: &[String]) {
    let mut sizes: Vec<usize> = lines.iter().map(String::len).collect();
    sizes.sort_unstable();
    let large = sizes.iter().filter(|size| **size >= 30_000).count() * 100 / sizes.len();
    let total: usize = sizes.iter().sum();
    let (median, total) = (sizes[sizes.len() / 2], megabytes(total as u64));
    println!(
        "{} events, {total} of JSON, median {median} B, {large} % of 30 KB and more",
        lines.len()
    );
}

fn write(state: &Path, events: &[Arc<Event>], header: &Header) -> (Duration, u64) {
    let store = FileStore::new(state);
    let (start, before) = (Instant::now(), cpu());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let writer = store.create(header).unwrap();
    for batch in events.chunks(BATCH) {
        for event in batch {
            writer.append(Arc::clone(event)).unwrap();
        }
        runtime.block_on(writer.flush()).unwrap();
    }
    drop(writer);
    let (wall, used) = (start.elapsed(), cpu() - before);
    let bytes = fs_err::metadata(store.log_path(&header.id).unwrap()).unwrap().len();
    say("written, a flush per 20 events: processor", millis(used), "< 600 ms");
    say("written, a flush per 20 events: clock", millis(wall), "");
    say("on the disk", megabytes(bytes), "< 25 MB");
    (wall, bytes)
}

fn read(state: &Path, session: &Session) {
    let store = FileStore::new(state);
    let id = &session.header().id;
    let read = best(5, || store.read(id).unwrap());
    say("read and folded", read, "< 250 ms");
    let opened = best(5, || store.open(id).unwrap());
    say("opened for writing and folded", opened, "< 250 ms");
    let tail = best(5, || store.tail(id, 50).unwrap());
    say("last page: 50 events", tail, "< 20 ms");
}

fn derive(rng: &mut Rng) {
    let mut session = Session::new(header(1));
    while session.projection().messages().count() < 10_000 {
        append(&mut session, human("a question"));
    }
    let mut held = session.projection();
    let time = best(50, || {
        append(&mut session, human(&prose(rng, 100)));
        held = session.projection();
    });
    say("one append and its projection at 10,000 nodes", time, "O(new nodes)");
    drop(held);
}

/// The same lines in SQLite, as its users would keep them.
fn beside(path: &Path, lines: &[String], ours: Duration, our_bytes: u64) {
    let mut database = Connection::open(path).unwrap();
    let tables = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE event (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)";
    database.execute_batch(tables).unwrap();
    let start = Instant::now();
    for (number, batch) in lines.chunks(BATCH).enumerate() {
        let change = database.transaction().unwrap();
        for (place, line) in batch.iter().enumerate() {
            let row = ((number * BATCH + place) as i64, line);
            change.execute("INSERT INTO event VALUES (?1, ?2)", row).unwrap();
        }
        change.commit().unwrap();
    }
    let wall = start.elapsed();
    database.close().unwrap();
    let bytes = fs_err::metadata(path).unwrap().len();
    let times = wall.as_secs_f64() / ours.as_secs_f64();
    say("SQLite (WAL, FULL, 20 a transaction): clock", millis(wall), &format!("{times:.2} × ours"));
    let times = bytes as f64 / our_bytes as f64;
    say("SQLite: on the disk", megabytes(bytes), &format!("{times:.1} × ours"));
    let replayed = best(3, || {
        let database = Connection::open(path).unwrap();
        let mut select = database.prepare("SELECT line FROM event ORDER BY seq").unwrap();
        let lines = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let events = lines.map(|line| Event::from_line(&line.unwrap()).unwrap());
        Session::replay(header(0), events).unwrap()
    });
    say("SQLite: read and folded", replayed, "");
}

fn list(state: &Path, sessions: u64, rng: &mut Rng) {
    let store = FileStore::new(state);
    let mut bytes = 0;
    for n in 0..sessions {
        let session = work(n, 40, 2, rng);
        drop(store.seed(&session).unwrap());
        bytes += fs_err::metadata(store.log_path(&session.header().id).unwrap()).unwrap().len();
    }
    println!("{sessions} sessions of 40 events, {} on the disk", megabytes(bytes));
    let start = Instant::now();
    assert_eq!(store.list().unwrap().sessions.len() as u64, sessions);
    say("listed, making the index", millis(start.elapsed()), "");
    // Logs that changed a moment ago are looked at again.
    while start.elapsed() < Duration::from_secs(5) {
        store.list().unwrap();
    }
    let warm = best(10, || store.list().unwrap());
    say("listed with the index", warm, "< 30 ms");
    let query = SearchQuery { text: "parse err".to_owned(), limit: 20, ..SearchQuery::default() };
    let start = Instant::now();
    store.search(&query).unwrap();
    say("searched, making the index of words", millis(start.elapsed()), "");
    let warm = best(5, || store.search(&query).unwrap());
    say("searched with the index", warm, "");
    fs_err::remove_file(state.join("index.sqlite")).unwrap();
    fs_err::create_dir(state.join("index.sqlite")).unwrap();
    let cold = best(3, || store.list().unwrap());
    say("listed without the index", cold, "< 300 ms");
    let cold = best(1, || store.search(&query).unwrap());
    say("searched without the index", cold, "");
}

fn header(n: u64) -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::parse(&format!("01980000-0000-7000-8000-{n:012x}")).unwrap(),
        created_at: UnixMillis(1_700_000_000_000),
        cwd: "/home/someone/src/project".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "acp".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

fn append(session: &mut Session, draft: Draft) {
    let time = UnixMillis(session.last_time().0 + 37);
    session.append(draft, time).unwrap();
}

/// A session of an agent that reads, edits and runs: at least this many events. Of a hundred
/// results, `large` are of 30 KB and more.
fn work(n: u64, events: usize, large: usize, rng: &mut Rng) -> Session {
    let mut session = Session::new(header(n));
    append(&mut session, Draft::new(TitleSet { title: prose(rng, 40).replace('\n', " ") }));
    for turn in (1..).map(TurnNumber) {
        append(&mut session, Draft::new(TurnStart { turn }));
        append(&mut session, human(&prose(rng, 600)));
        for step in (1..8).map(StepNumber) {
            append(&mut session, Draft::new(StepStart { turn, step }));
            calls(&mut session, large, rng);
            append(&mut session, Draft::new(StepEnd { turn, step }));
            if session.events().len() >= events {
                break;
            }
        }
        append(&mut session, Draft::new(TurnEnd { turn, reason: TurnEndReason::Completed }));
        if session.events().len() >= events {
            return session;
        }
    }
    session
}

/// An answer with three calls, and their results.
fn calls(session: &mut Session, large: usize, rng: &mut Rng) {
    let at = session.events().len();
    let calls: Vec<_> = (0..3)
        .map(|call| (ToolCallId::new(format!("toolu_{at}_{call}")), code(rng, 1_000)))
        .collect();
    let time = session.last_time();
    let text = Block::Text { text: prose(rng, 700) };
    let blocks = std::iter::once(text).chain(calls.iter().map(|(id, arguments)| {
        let (id, name, arguments) = (id.clone(), "edit".to_owned(), arguments.clone());
        Block::ToolCall { id, name, arguments }
    }));
    append(
        session,
        Draft::new(AssistantMessage {
            id: MessageId::new(format!("msg_{at}")),
            blocks: blocks
                .map(|block| TimedBlock { started_at: time, ended_at: time, block, raw: None })
                .collect(),
            route: Route::parse("anthropic/claude-sonnet-5-5").unwrap(),
            stop: "tool_use".to_owned(),
            usage: Usage { input: 12, output: 900, cache_read: 40_000, cache_write: 2_000 },
            interrupted: false,
        }),
    );
    for (id, arguments) in calls {
        let name = "edit".to_owned();
        append(session, Draft::new(ToolCall { id: id.clone(), name: name.clone(), arguments }));
        let len = if rng.usize(..100) < large { rng.usize(30_000..110_000) } else { 1_200 };
        let content = vec![Content::text(code(rng, len))];
        append(
            session,
            Draft::new(ToolResult { id, name, content, error: None, presentation: None }),
        );
    }
}

fn human(text: &str) -> Draft {
    Draft::new(UserMessage {
        id: MessageId::new("m"),
        content: vec![Content::text(text)],
        source: UserSource::Human,
    })
}

/// What a program and its output look like: lines that are alike and differ in names and numbers.
fn code(rng: &mut Rng, len: usize) -> String {
    let mut text = String::new();
    while text.len() < len {
        let indent = "    ".repeat(rng.usize(..5));
        let line = match rng.usize(..7) {
            0 => format!(
                "{indent}let {} = self.{}({}, {});\n",
                name(rng),
                name(rng),
                name(rng),
                rng.u16(..)
            ),
            1 => format!(
                "{indent}fn {}(&mut self, {}: &{}) -> Result<{}, Error> {{\n",
                name(rng),
                name(rng),
                name(rng),
                name(rng)
            ),
            2 => format!(
                "2026-11-{:02}T{:02}:{:02}:{:02}.{:06}Z INFO {}: {} took {} us\n",
                rng.u8(1..30),
                rng.u8(..24),
                rng.u8(..60),
                rng.u8(..60),
                rng.u32(..1_000_000),
                name(rng),
                name(rng),
                rng.u16(..)
            ),
            3 => format!(
                "{indent}if {}.{}().is_some_and(|{}| {} == {}) {{\n",
                name(rng),
                name(rng),
                name(rng),
                name(rng),
                rng.u8(..)
            ),
            4 => format!("{indent}// {}", prose(rng, 60)),
            5 => format!("{indent}}}\n\n"),
            _ => format!("test {}::{} ... ok\n", name(rng), name(rng)),
        };
        text.push_str(&line);
    }
    text.truncate(len);
    text
}

fn prose(rng: &mut Rng, len: usize) -> String {
    let mut text = String::new();
    while text.len() < len {
        let word = WORDS[rng.usize(..WORDS.len()).min(rng.usize(..WORDS.len()))];
        text.push_str(word);
        text.push(if rng.usize(..12) == 0 { '.' } else { ' ' });
    }
    text.push('\n');
    text
}

/// A name of two words, the common ones more often. A program has few of them.
fn name(rng: &mut Rng) -> String {
    let first = rng.usize(..WORDS.len()).min(rng.usize(..WORDS.len()));
    format!("{}_{}", WORDS[first], WORDS[first * 7 % WORDS.len()])
}

const WORDS: [&str; 96] = [
    "the", "a", "log", "event", "session", "read", "write", "file", "is", "of", "to", "and", "in",
    "that", "it", "for", "line", "test", "error", "path", "name", "index", "value", "state",
    "turn", "step", "call", "result", "text", "parse", "token", "frame", "bytes", "offset", "len",
    "hash", "lock", "disk", "folder", "store", "query", "match", "search", "list", "row", "table",
    "column", "cursor", "buffer", "queue", "batch", "flush", "sync", "open", "close", "retry",
    "model", "request", "response", "stream", "chunk", "block", "message", "user", "agent", "tool",
    "shell", "edit", "diff", "patch", "branch", "commit", "merge", "build", "check", "lint",
    "format", "config", "option", "default", "limit", "timeout", "signal", "process", "thread",
    "task", "future", "channel", "sender", "receiver", "mutex", "atomic", "barrier", "clock",
    "time", "zone",
];
