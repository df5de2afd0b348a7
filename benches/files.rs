//! What the file tools take, from a call's plan to its result: a search of a large tree beside `rg`
//! in the same run, a read of a large file, an edit of a very large one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridle_agent::{Grant, Observed, Progress, Tool, ToolContext, read_arguments};
use bridle_compose::{Plugins, Row, Scope, TaskSet};
use bridle_store::{BlobStore, MemoryStore};
use bridle_world::Roots;
use bridle_world::files::ContentHash;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::figures::{median, millis, say};

/// Files of the tree, in folders of a hundred.
const FILES: usize = 40_000;
/// Lines of each of them, of about 40 bytes.
const LINES: usize = 80;
/// One file in so many has the rare word.
const RARE: usize = 2_000;

pub(crate) fn run(quick: bool) {
    let rounds = if quick { 5 } else { 15 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(folder.path()).unwrap();
        plant(&base.join("tree"));
        let tools = Tools::new(base.clone()).await;
        searches(&tools, rounds).await;
        reads(&tools, rounds * 4).await;
        edits(&tools, rounds * 2).await;
    });
}

/// Writes the tree that is searched.
fn plant(tree: &Path) {
    let mut random = fastrand::Rng::with_seed(7);
    for file in 0..FILES {
        let folder = tree.join(format!("d{:03}", file / 100));
        if file.is_multiple_of(100) {
            std::fs::create_dir_all(&folder).unwrap();
        }
        let mut text = String::new();
        for line in 0..LINES {
            let value = random.u64(..);
            text.push_str(&format!("    let common_{line} = value({value:016x});\n"));
        }
        if file.is_multiple_of(RARE) {
            text.push_str("// needle_42\n");
        }
        std::fs::write(folder.join(format!("f{file:05}.rs")), text).unwrap();
    }
}

async fn searches(tools: &Tools, rounds: usize) {
    let place = tools.base.join("tree");
    let rare = json!({ "pattern": "needle_[0-9]+", "path": "tree" });
    let absent = json!({ "pattern": "(?i)absent_word", "path": "tree" });
    let rg = |pattern: &str| ripgrep(pattern, &place);
    for (name, arguments, pattern) in [
        ("a search of 40,000 files, 20 hits", rare, "needle_[0-9]+"),
        ("the same without any, case-insensitive", absent, "(?i)absent_word"),
    ] {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            own.push(tools.time("search", &arguments).await);
            theirs.extend(rg(pattern));
        }
        let own = median(own);
        if theirs.is_empty() {
            say(name, millis(own), "");
            println!("SKIP search-beside-rg: there is no rg on this machine");
            continue;
        }
        let theirs = median(theirs);
        let ratio = own.as_secs_f64() / theirs.as_secs_f64();
        let figure = format!("{} ({ratio:.2} times rg's {})", millis(own), millis(theirs));
        say(name, figure, "<= 1.0 times rg");
    }
    let many = json!({ "pattern": "common_[0-9]+", "path": "tree" });
    let mut times = Vec::new();
    for _ in 0..rounds {
        times.push(tools.time("search", &many).await);
    }
    say("a search that stops, 200 hits shown", millis(median(times)), "< 25 ms");
}

/// How long `rg` takes for the same; `None` where there is none.
fn ripgrep(pattern: &str, place: &Path) -> Option<Duration> {
    let begun = Instant::now();
    let mut command = Command::new("rg");
    command.args(["--line-number", "--hidden", "--glob", "!.git", pattern]).arg(place);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().map(|_| begun.elapsed())
}

async fn reads(tools: &Tools, rounds: usize) {
    let line = "a line of a large file, as long as lines are\n";
    std::fs::write(tools.base.join("large"), line.repeat((1 << 20) / line.len())).unwrap();
    let mut times = Vec::new();
    for _ in 0..rounds {
        times.push(tools.time("read", &json!({ "path": "large" })).await);
    }
    say("a read of 1 MiB", millis(median(times)), "< 3 ms");
}

async fn edits(tools: &Tools, rounds: usize) {
    let path = tools.base.join("huge");
    let mut text = String::new();
    while text.len() < 10 << 20 {
        text.push_str(&format!("{:08} a line of a very large file\n", text.len()));
    }
    text.insert_str(text.len() / 2, "\nround 0;\n");
    std::fs::write(&path, text).unwrap();
    let mut times = Vec::new();
    for round in 0..rounds {
        let (old, new) = (format!("round {round};"), format!("round {};", round + 1));
        let edits = json!([{ "old_text": old, "new_text": new }]);
        times.push(tools.time("edit", &json!({ "path": "huge", "edits": edits })).await);
    }
    say("an edit of one line of 10 MiB, durable", millis(median(times)), "< 60 ms");
    let bytes = std::fs::read(&path).unwrap();
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let beside = path.with_extension("new");
        let mut file = std::fs::File::create(&beside).unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        file.sync_all().unwrap();
        std::fs::rename(&beside, &path).unwrap();
        std::fs::File::open(&tools.base).unwrap().sync_all().unwrap();
        times.push(begun.elapsed());
    }
    say("of it, writing and syncing alone", millis(median(times)), "");
}

/// The tools of a session in a folder.
struct Tools {
    base: PathBuf,
    tools: Vec<Arc<dyn Tool>>,
}

impl Tools {
    async fn new(base: PathBuf) -> Self {
        let scope = Scope::root("session", bridle_toolkit::plugins(Plugins::new()), TaskSet::new());
        scope.provide("roots", Arc::new(Roots::new(base.clone(), Vec::new()))).await;
        scope.provide::<dyn BlobStore>("blobs", Arc::new(MemoryStore::new())).await;
        scope
            .mount(["local-files", "seen-texts", "search", "read", "edit"].map(Row::new).into())
            .await;
        Self { base, tools: scope.all() }
    }

    /// How long a call takes, from its arguments to what the model reads.
    async fn time(&self, tool: &str, arguments: &Value) -> Duration {
        let observed = self.observed(arguments);
        let token = CancellationToken::new();
        let context = ToolContext { token, progress: Progress::none(), observed };
        let tool = self.tools.iter().find(|candidate| candidate.spec().name == tool).unwrap();
        let begun = Instant::now();
        let arguments = read_arguments(tool.spec(), &arguments.to_string()).unwrap();
        let planned = tool.plan(arguments, &context).await.unwrap();
        let outcome = planned.run(Grant::for_tests(), context).await.unwrap();
        let content = tool.render(&outcome.value);
        let took = begun.elapsed();
        assert!(!content.is_empty());
        took
    }

    /// The model has seen the file that a call is about.
    fn observed(&self, arguments: &Value) -> Observed {
        let path = self.base.join(arguments["path"].as_str().unwrap());
        let Ok(bytes) = std::fs::read(&path) else { return Observed::default() };
        Arc::new([(path, ContentHash::of(&bytes).to_hex())].into())
    }
}
