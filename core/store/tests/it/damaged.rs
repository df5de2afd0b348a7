//! One sound log, and everything that can have become of it.

use bridle_session::{
    Content, Draft, Header, MessageId, Session, SessionId, UnixMillis, UserMessage, UserSource,
};
use bridle_store::{FileStore, SessionStore as _};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// The session that all of them claim to be.
pub(crate) const ID: &str = "01980000-0000-7000-8000-000000000001";

/// What one frame may not unpack to.
const TOO_LARGE: usize = 257 << 20;

/// The frames of a sound log: the header's, then five of two events each.
struct Sound {
    header: Vec<u8>,
    frames: Vec<Vec<u8>>,
    lines: Vec<String>,
}

impl Sound {
    async fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let store = FileStore::new(state.path());
        let mut session = Session::new(header());
        let writer = store.create(session.header()).unwrap();
        writer.flush().await.unwrap();
        let log = store.log_path(&session.header().id).unwrap();
        let header = fs_err::read(&log).unwrap();
        let (mut frames, mut written) = (Vec::new(), header.len());
        for batch in 0..5 {
            for number in 0..2 {
                let text = format!("message {number} of batch {batch}");
                let draft = said(&text);
                let time = UnixMillis(session.last_time().0 + 1);
                writer.append(session.append(draft, time).unwrap()).unwrap();
            }
            writer.flush().await.unwrap();
            let bytes = fs_err::read(&log).unwrap();
            frames.push(bytes[written..].to_vec());
            written = bytes.len();
        }
        let lines = session.events().iter().map(|event| event.to_line().unwrap()).collect();
        Self { header, frames, lines }
    }

    /// The log whose frames are these.
    fn with(&self, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
        [self.header.clone()].into_iter().chain(frames).flatten().collect()
    }

    fn whole(&self) -> Vec<u8> {
        self.with(self.frames.clone())
    }

    /// The log with one frame replaced.
    fn replacing(&self, at: usize, frame: Vec<u8>) -> Vec<u8> {
        let mut frames = self.frames.clone();
        frames[at] = frame;
        self.with(frames)
    }

    /// The log with another header.
    fn under(&self, header: &str) -> Vec<u8> {
        [frame(header.as_bytes())].into_iter().chain(self.frames.clone()).flatten().collect()
    }

    fn plain(&self) -> String {
        let header = serde_json::to_string(&header()).unwrap();
        let lines = [&header].into_iter().chain(&self.lines);
        lines.flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

fn header() -> Header {
    Header {
        format: 1,
        id: SessionId::parse(ID).unwrap(),
        created_at: UnixMillis(1_700_000_000_000),
        cwd: "/work/project".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".into(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

fn said(text: &str) -> Draft {
    Draft::new(UserMessage {
        id: MessageId::new(text),
        content: vec![Content::text(text)],
        source: UserSource::Human,
    })
}

fn frame(content: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(3).unwrap();
    compressor.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    compressor.compress(content).unwrap()
}

/// A header line with one field set.
fn header_with(field: &str, value: serde_json::Value) -> String {
    let mut header = serde_json::to_value(header()).unwrap();
    header[field] = value;
    format!("{header}\n")
}

fn flipped(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 0b0001_0000;
    bytes
}

/// Every damaged file with its name.
pub(crate) async fn files() -> Vec<(&'static str, Vec<u8>)> {
    let sound = Sound::new().await;
    let mut files = headers(&sound);
    files.extend(contents(&sound));
    files.extend(places(&sound));
    files.extend(plain(&sound.plain()));
    files
}

/// What can be wrong at the start.
fn headers(sound: &Sound) -> Vec<(&'static str, Vec<u8>)> {
    let parent =
        serde_json::json!({"id": "01980000-0000-7000-8000-000000000002", "inherited": 1000});
    let other = serde_json::json!("01980000-0000-7000-8000-000000000002");
    vec![
        ("empty.jsonl.zst", Vec::new()),
        ("cut-header.jsonl.zst", sound.header[..sound.header.len() / 2].to_vec()),
        ("wrong-magic.jsonl.zst", flipped(sound.whole(), 0)),
        ("foreign.jsonl.zst", b"SQLite format 3\0 and then its pages".to_vec()),
        ("foreign-lines.jsonl.zst", sound.under("{\"type\":\"user\",\"message\":\"hello\"}\n")),
        ("newer-header.jsonl.zst", sound.under(&header_with("format", 2.into()))),
        ("newer-name.jsonl.zst", sound.whole()),
        ("other-id.jsonl.zst", sound.under(&header_with("id", other))),
        ("lying-parent.jsonl.zst", sound.under(&header_with("parent", parent))),
    ]
}

/// Whole frames that hold something else than event lines.
fn contents(sound: &Sound) -> Vec<(&'static str, Vec<u8>)> {
    let lines = |from: usize, to: usize, end: &str| sound.lines[from..to].join(end);
    let event = |kind: &str, ignorable: bool| {
        let line = serde_json::json!({
            "seq": 4, "time": 1, "type": kind, "data": {"n": 1}, "ignorable": ignorable
        });
        format!("{line}\n{}\n", sound.lines[5])
    };
    let unopened =
        r#"{"seq":4,"time":1,"type":"turn/end","data":{"turn":7,"reason":{"kind":"completed"}}}"#;
    let huge = sound.lines[4].replace("message 0", &"huge ".repeat(400_000));
    let holding = |content: &str| sound.replacing(2, frame(content.as_bytes()));
    vec![
        ("two-objects-on-a-line.jsonl.zst", holding(&(lines(4, 6, "") + "\n"))),
        ("line-without-end.jsonl.zst", holding(&lines(4, 6, "\n"))),
        ("huge-line.jsonl.zst", holding(&format!("{huge}\n{}\n", sound.lines[5]))),
        ("too-large-to-unpack.jsonl.zst", sound.replacing(2, frame(&vec![b' '; TOO_LARGE]))),
        ("unknown-required.jsonl.zst", holding(&event("future/required", false))),
        ("unknown-ignorable.jsonl.zst", holding(&event("future/ignorable", true))),
        ("does-not-fit.jsonl.zst", holding(&format!("{unopened}\n{}\n", sound.lines[5]))),
    ]
}

/// Bytes that are wrong, missing, doubled or in another order.
fn places(sound: &Sound) -> Vec<(&'static str, Vec<u8>)> {
    let frames = &sound.frames;
    let (whole, last) = (sound.whole(), frames[4].len());
    let zeroed = |at: usize| vec![0; frames[at].len()];
    let order = |order: &[usize]| sound.with(order.iter().map(|at| frames[*at].clone()));
    let mut zeroed_tail = whole.clone();
    let len = zeroed_tail.len();
    zeroed_tail[len - last / 2..].fill(0);
    let mut nul_run = frames.clone();
    nul_run.insert(3, vec![0; 300]);
    let garbage: Vec<u8> = (0..200_u32).map(|n| (n * n % 251) as u8).collect();
    vec![
        ("sound.jsonl.zst", whole.clone()),
        ("cut-tail.jsonl.zst", whole[..len - last / 2].to_vec()),
        ("zeroed-tail.jsonl.zst", zeroed_tail),
        ("nul-run-at-the-end.jsonl.zst", [whole.clone(), vec![0; 512]].concat()),
        ("garbage-at-the-end.jsonl.zst", [whole.clone(), garbage].concat()),
        ("bit-flip-at-the-end.jsonl.zst", flipped(whole, len - last / 2)),
        ("bit-flip.jsonl.zst", sound.replacing(2, flipped(frames[2].clone(), 20))),
        ("zeroed-middle.jsonl.zst", sound.replacing(2, zeroed(2))),
        ("nul-run.jsonl.zst", sound.with(nul_run)),
        ("missing-frame.jsonl.zst", order(&[0, 1, 3, 4])),
        ("duplicated-frame.jsonl.zst", order(&[0, 1, 2, 2, 3, 4])),
        ("swapped-frames.jsonl.zst", order(&[0, 2, 1, 3, 4])),
    ]
}

/// The same on plain lines.
fn plain(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let joined = |at: usize| {
        let mut lines = lines.clone();
        lines[at] = lines[at].trim_end();
        lines.concat()
    };
    let replaced = |at: usize, by: &str| {
        let mut lines = lines.clone();
        lines[at] = by;
        lines.concat()
    };
    let nul_run = "\0".repeat(lines[4].len());
    vec![
        ("plain-two-objects-on-a-line.jsonl", joined(4).into()),
        ("plain-cut-line.jsonl", text[..text.len() - 30].into()),
        ("plain-cut-line-and-next-append.jsonl", replaced(4, &lines[4][..40]).into()),
        ("plain-nul-run.jsonl", replaced(4, &nul_run).into()),
        ("plain-nul-run-at-the-end.jsonl", format!("{text}{nul_run}").into()),
        ("plain-wrong-first-line.jsonl", text[1..].into()),
    ]
}
