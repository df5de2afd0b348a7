//! What it takes to find out what a session is told beside its prompts, in a large repository: the
//! environment and the instructions, and the skills, before the first step and before a later one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridle_agent::{ContextInput, ContextSource, Mode, Observed};
use bridle_compose::{Clock, Plugins, Row, Scope, SystemClock, TaskSet};
use bridle_session::{StepNumber, TurnNumber};
use bridle_world::Roots;
use bridle_world::process::{Environment, Processes};
use serde_json::json;

use crate::figures::{median, millis, say};

/// Files of the repository, in folders of a hundred, each folder with instructions of its own.
const FILES: usize = 40_000;

pub(crate) fn run(quick: bool) {
    let rounds = if quick { 5 } else { 25 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(folder.path()).unwrap();
        plant(&base);
        for (what, touched) in [("nothing", 0), ("1,000 files in 400 folders", 1_000)] {
            let now = ContextInput {
                turn: TurnNumber(1),
                step: StepNumber(1),
                mode: Mode::Ask,
                observed: observed(&base, touched),
                told: Arc::default(),
            };
            let rows = ["environment", "instructions"].map(Row::new);
            let what = format!("discovery in 40,000 files, {what} touched");
            measure(&what, &base, &rows, &now, rounds).await;
        }
        let now = ContextInput {
            turn: TurnNumber(1),
            step: StepNumber(1),
            mode: Mode::Ask,
            observed: Observed::default(),
            told: Arc::default(),
        };
        for (what, count) in [("no skill", 0), ("200 skills of 20 KB", 200)] {
            plant_skills(&base, count);
            let what = format!("skills in 40,000 files, {what}");
            measure(&what, &base, &[skills()], &now, rounds).await;
        }
    });
}

/// Says what these rows take the first time and the next time, where the system has all of it in memory;
/// and the first time where it has to read the files, though it still knows their names. Those only the
/// whole machine forgets, which is not for a figure to order.
async fn measure(what: &str, base: &Path, rows: &[Row], now: &ContextInput, rounds: usize) {
    let (mut first, mut later, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let known = sources(base, rows).await;
        first.push(ask(&known, now).await);
        later.push(ask(&known, now).await);
        forget(base);
        unread.push(ask(&sources(base, rows).await, now).await);
    }
    say(&format!("{what}, in the cache"), millis(median(first)), "a target of 30 ms");
    say("the same before the next step", millis(median(later)), "");
    say("the same at first, files not in the cache", millis(median(unread)), "");
}

/// Has the system read the files anew that are looked into: writes them to the disk, without which it
/// forgets nothing, and lets go of what they hold.
fn forget(base: &Path) {
    let folders = [base.to_owned(), base.join(".git"), base.join(".agents/skills")];
    let below = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    let below = below.flatten().map(|entry| entry.path());
    let named = |folder: PathBuf| ["AGENTS.md", "SKILL.md"].map(|name| folder.join(name));
    let files = below.flat_map(|path| named(path.clone()).into_iter().chain([path]));
    for file in files.filter(|file| file.is_file()) {
        let file = std::fs::File::open(file).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

fn plant(base: &Path) {
    std::fs::create_dir_all(base.join(".git")).unwrap();
    std::fs::write(base.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(base.join("AGENTS.md"), "x".repeat(8 * 1024)).unwrap();
    for file in 0..FILES {
        let folder = base.join(format!("d{:03}", file / 100));
        if file.is_multiple_of(100) {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("AGENTS.md"), format!("Of folder {file}.\n")).unwrap();
        }
        std::fs::write(folder.join(format!("f{file:05}.rs")), "").unwrap();
    }
}

fn plant_skills(base: &Path, count: usize) {
    for number in 0..count {
        let folder = base.join(format!(".agents/skills/skill-{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        let head = format!("---\nname: skill-{number}\ndescription: What it is for.\n---\n");
        std::fs::write(folder.join("SKILL.md"), head + &"body ".repeat(4_000)).unwrap();
    }
}

/// The row as a user has it who says nothing else.
fn skills() -> Row {
    let config = json!({
        "project": [".bridle/skills", ".agents/skills"],
        "user": [],
        "catalogue_bytes": 8_192,
        "off": [],
    });
    Row::new("skills").with(config)
}

fn observed(base: &Path, count: usize) -> Observed {
    let path = |n: usize| {
        let file = n * FILES / count;
        base.join(format!("d{:03}/f{file:05}.rs", file / 100))
    };
    Arc::new((0..count).map(|n| (path(n), String::new())).collect::<BTreeMap<_, _>>())
}

async fn sources(base: &Path, rows: &[Row]) -> Vec<Arc<dyn ContextSource>> {
    let scope = Scope::root("session", bridle_toolkit::plugins(Plugins::new()), TaskSet::new());
    scope.provide("roots", Arc::new(Roots::new(base.to_owned(), Vec::new()))).await;
    scope.provide::<dyn Clock>("clock", Arc::new(SystemClock)).await;
    let nothing = Environment::from_variables([]);
    scope.provide("processes", Arc::new(Processes::new("/no-supervisor".into(), nothing))).await;
    let rows = rows.iter().cloned();
    scope.mount(std::iter::once(Row::new("local-files")).chain(rows).collect()).await;
    scope.all()
}

async fn ask(sources: &[Arc<dyn ContextSource>], now: &ContextInput) -> Duration {
    let begun = Instant::now();
    for source in sources {
        assert!(!source.collect_parts(now).await.is_empty());
    }
    begun.elapsed()
}
