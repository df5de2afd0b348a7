//! What the supervisor and the sandbox cost: a command under them beside the same command started
//! plainly, and beside another sandbox. The supervisor is this program, which holds all of Bridle,
//! as it is in the product.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bridle_world::process::{CommandSpec, Environment, Processes, ServerSpec};
use bridle_world::sandbox::{Access, DEFAULT_PROCESSES, Network, Policy, Protected, Tier};
use tokio_util::sync::CancellationToken;

use crate::figures::{median, millis, say};

/// How often each is done; the median counts.
const ROUNDS: usize = 200;

/// How often a project is built with and without walls.
const BUILDS: usize = 11;

/// What is started: a program that does nothing, and a command that does nothing.
const STARTED: [&[&str]; 2] = [&["/bin/true"], &["/bin/bash", "-c", "true"]];

/// A project of files in C, built as by a makefile.
const BUILD: &str = "rm -f *.o program
for file in *.c; do cc -O1 -c $file || exit; done
cc -o program *.o && ./program";

/// How many files it has, and how many functions each of them.
const SOURCES: (usize, usize) = (6, 150);

/// Another sandbox.
const OTHER: &str = "/usr/bin/bwrap";

/// How many entries the folder has in which what is protected is looked for.
const ENTRIES: usize = 50_000;

/// How many of them lie in one folder.
const TOGETHER: usize = 10;

pub(crate) fn run(quick: bool) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let base = fs_err::canonicalize(place.path()).unwrap();
    for name in ["ws", "records", "tmp"] {
        fs_err::create_dir(base.join(name)).unwrap();
    }
    let processes = Processes::new(Processes::THIS_BINARY.into(), Environment::from_variables([]));
    runtime.block_on(async {
        let second = processes.confined_at_most(Tier::Landlock);
        let tiers = [
            ("full", &processes, processes.sandbox().await.tier() == Tier::Full, "< 3 ms"),
            ("second", &second, second.sandbox().await.tier() == Tier::Landlock, "< 1.6 ms"),
        ];
        for words in STARTED {
            beside_each_other(words, &processes, &tiers, &base).await;
        }
        for (name, processes, stands, _) in tiers {
            let what = format!("a build in the {name} tier to the same without");
            let ratio = match stands {
                true => builds(processes, &base, if quick { BUILDS / 2 } else { BUILDS }).await,
                false => None,
            };
            let ratio = ratio.map_or_else(absent, |ratio| format!("{ratio:.3} times"));
            say(&what, ratio, "<= 1.05 times");
        }
        second.close().await;
        processes.close().await;
    });
    looks(&processes, &base.join("ws"), if quick { ENTRIES / 10 } else { ENTRIES });
}

/// A tier: its name, what confines in it, whether it stands on this machine, what it may cost.
type Tiers<'a> = [(&'a str, &'a Processes, bool, &'a str); 2];

fn absent() -> String {
    "not on this machine".to_owned()
}

async fn beside_each_other(words: &[&str], processes: &Processes, tiers: &Tiers<'_>, base: &Path) {
    let (mut plain, mut supervised, mut other) = (Vec::new(), Vec::new(), Vec::new());
    let mut confined = [Vec::new(), Vec::new()];
    let other_is_there = Path::new(OTHER).exists();
    // Turn and turn about, so that whatever else the machine does meets all of them.
    for _ in 0..ROUNDS {
        plain.push(plainly(words, base).await);
        supervised.push(under_supervision(processes, base, words, None).await);
        for ((_, processes, stands, _), times) in tiers.iter().zip(&mut confined) {
            if *stands {
                let policy = Some(policy(processes, base));
                times.push(under_supervision(processes, base, words, policy).await);
            }
        }
        if other_is_there {
            other.push(beside(words, base).await);
        }
    }
    let what = words.join(" ");
    let (plain, supervised) = (median(plain), median(supervised));
    let ratio = |time: Duration| time.as_secs_f64() / plain.as_secs_f64();
    say(&format!("{what}, started plainly"), millis(plain), "");
    say(&format!("{what}, under the supervisor"), millis(supervised), "");
    say("supervised to plain", format!("{:.2} times", ratio(supervised)), "<= 2 times");
    let [full, second] = confined;
    let mut rows = vec![("in bubblewrap".to_owned(), other, "more than in the full tier")];
    for ((name, _, _, target), times) in tiers.iter().zip([full, second]).rev() {
        // The targets are for a program, of which a shell is another.
        let target = if words.len() == 1 { target } else { "" };
        rows.insert(0, (format!("confined in the {name} tier"), times, target));
    }
    for (how, times, target) in rows {
        let time = (!times.is_empty()).then(|| median(times));
        let figure = |time| format!("{}, {:.2} times plain", millis(time), ratio(time));
        say(&format!("{what}, {how}"), time.map_or_else(absent, figure), target);
    }
}

/// How long a build takes with walls, as a part of how long the same takes without; none without a
/// compiler.
async fn builds(processes: &Processes, base: &Path, rounds: usize) -> Option<f64> {
    let ws = base.join("ws");
    let (files, functions) = SOURCES;
    for file in 0..files {
        let mut text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n".to_owned();
        for function in 0..functions {
            text.push_str(&format!(
                "int f{file}_{function}(int x) {{ for (int i = 0; i < x; i++) x ^= i * {function}; return x; }}\n"
            ));
        }
        if file == 0 {
            text.push_str("int main(void) { printf(\"%d\", f0_0(3)); return 0; }\n");
        }
        fs_err::write(ws.join(format!("{file}.c")), text).unwrap();
    }
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let mut times = Vec::new();
        for confinement in [None, Some(policy(processes, base))] {
            let spec = CommandSpec {
                command: BUILD.to_owned(),
                cwd: ws.clone(),
                timeout: None,
                spool: None,
                confinement,
            };
            let start = Instant::now();
            let done = processes.run(spec, CancellationToken::new(), |_| ()).await.unwrap();
            if done.exit_code != Some(0) {
                return None;
            }
            times.push(start.elapsed().as_secs_f64());
        }
        ratios.push(times[1] / times[0]);
    }
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

/// What is protected in a folder, found for the first time and then again.
fn looks(processes: &Processes, root: &Path, entries: usize) {
    for count in 0..entries / TOGETHER {
        let folder = root.join((count % 100).to_string()).join(count.to_string());
        fs_err::create_dir_all(&folder).unwrap();
        for file in 1..TOGETHER {
            fs_err::write(folder.join(file.to_string()), "").unwrap();
        }
    }
    let look = || {
        let start = Instant::now();
        assert!(processes.lookout().below(root).is_ok());
        start.elapsed()
    };
    let first = median((0..3).map(|_| look()).collect());
    // What has just changed is not relied on.
    std::thread::sleep(Duration::from_secs(4));
    look();
    let again = median((0..9).map(|_| look()).collect());
    let what = format!("what is protected among {entries} entries");
    say(&format!("{what}, read"), millis(first), "");
    say(&format!("{what}, remembered"), millis(again), "");
}

/// What a session in `ws` lets its commands do, with the look that each of them costs.
fn policy(processes: &Processes, base: &Path) -> Policy {
    let root = base.join("ws");
    let protected: Protected = processes.lookout().below(&root).unwrap();
    Policy {
        access: Access::WorkspaceWrite,
        roots: vec![root],
        writable: Vec::new(),
        protected,
        masked: Vec::new(),
        temporary: Some(base.join("tmp")),
        network: Network::Off,
        processes: DEFAULT_PROCESSES,
        records: base.join("records"),
    }
}

/// In the other sandbox, with the same walls as far as it has them.
async fn beside(words: &[&str], base: &Path) -> Duration {
    let ws = base.join("ws");
    let ws = ws.to_str().unwrap();
    let walls = "--new-session --die-with-parent --ro-bind / / --dev /dev --tmpfs /tmp --tmpfs /run \
                 --unshare-all --cap-drop ALL --proc /proc --bind";
    let mut command = vec![OTHER];
    command.extend(walls.split_whitespace());
    command.extend([ws, ws]);
    command.extend(words);
    plainly(&command, base).await
}

async fn plainly(words: &[&str], base: &Path) -> Duration {
    let start = Instant::now();
    let mut command = tokio::process::Command::new(words[0]);
    command.args(&words[1..]).env_clear().stdin(Stdio::null());
    let output = command.current_dir(base.join("ws")).output().await.unwrap();
    assert!(output.status.success());
    start.elapsed()
}

async fn under_supervision(
    processes: &Processes,
    base: &Path,
    words: &[&str],
    confinement: Option<Policy>,
) -> Duration {
    let start = Instant::now();
    let spec = ServerSpec {
        program: words[0].into(),
        arguments: words[1..].iter().map(Into::into).collect(),
        environment: Vec::new(),
        cwd: base.join("ws"),
        confinement,
    };
    let token = CancellationToken::new();
    let (running, _) = processes.server(spec, &token).await.unwrap().unwrap();
    let finished = running.finish(token, |_| ()).await.unwrap();
    assert_eq!(finished.exit_code, Some(0));
    start.elapsed()
}
