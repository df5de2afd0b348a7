//! What the supervisor and the sandbox cost: a command under them beside the same command started
//! plainly, and beside another sandbox. The supervisor is this program, which holds all of Bridle,
//! as it is in the product.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bridle_world::process::{CommandSpec, Environment, Processes};
use bridle_world::sandbox::{Access, Network, Policy, Protected, Tier};
use tokio_util::sync::CancellationToken;

use crate::figures::{median, millis, say};

/// How often each is done; the median counts.
const ROUNDS: usize = 200;

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
        beside_each_other(&processes, &base).await;
        processes.close().await;
    });
    looks(&processes, &base.join("ws"), if quick { ENTRIES / 10 } else { ENTRIES });
}

async fn beside_each_other(processes: &Processes, base: &Path) {
    let second = processes.confined_at_most(Tier::Landlock);
    let tiers = (processes.sandbox().await.tier(), second.sandbox().await.tier());
    let (mut plain, mut supervised, mut other) = (Vec::new(), Vec::new(), Vec::new());
    let (mut full, mut landlock) = (Vec::new(), Vec::new());
    let other_is_there = Path::new(OTHER).exists();
    // Turn and turn about, so that whatever else the machine does meets all of them.
    for _ in 0..ROUNDS {
        plain.push(plainly(&["/bin/bash"], base).await);
        supervised.push(under_supervision(processes, base, None).await);
        if tiers.0 == Tier::Full {
            full.push(under_supervision(processes, base, Some(policy(processes, base))).await);
        }
        if tiers.1 == Tier::Landlock {
            landlock.push(under_supervision(&second, base, Some(policy(&second, base))).await);
        }
        if other_is_there {
            other.push(beside(base).await);
        }
    }
    second.close().await;
    let (plain, supervised) = (median(plain), median(supervised));
    let ratio = |time: Duration| time.as_secs_f64() / plain.as_secs_f64();
    say("bash -c true, started plainly", millis(plain), "");
    say("bash -c true, under the supervisor", millis(supervised), "");
    say("supervised to plain", format!("{:.2} times", ratio(supervised)), "<= 2 times");
    for (what, times, target) in [
        ("bash -c true, confined in the full tier", full, "< 3 ms"),
        ("bash -c true, confined in the second tier", landlock, "< 1.6 ms"),
        ("bash -c true, in bubblewrap", other, "more than in the full tier"),
    ] {
        if times.is_empty() {
            say(what, "not on this machine", target);
        } else {
            let time = median(times);
            say(what, format!("{}, {:.2} times plain", millis(time), ratio(time)), target);
        }
    }
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
        records: base.join("records"),
    }
}

/// In the other sandbox, with the same walls as far as it has them.
async fn beside(base: &Path) -> Duration {
    let ws = base.join("ws");
    let ws = ws.to_str().unwrap();
    let walls = "--new-session --die-with-parent --ro-bind / / --dev /dev --tmpfs /tmp --tmpfs /run \
                 --unshare-all --cap-drop ALL --proc /proc --bind";
    let mut command = vec![OTHER];
    command.extend(walls.split_whitespace());
    command.extend([ws, ws, "/bin/bash"]);
    plainly(&command, base).await
}

async fn plainly(starters: &[&str], base: &Path) -> Duration {
    let start = Instant::now();
    let mut command = tokio::process::Command::new(starters[0]);
    command.args(&starters[1..]).args(["-c", "true"]).env_clear().stdin(Stdio::null());
    let output = command.current_dir(base.join("ws")).output().await.unwrap();
    assert!(output.status.success());
    start.elapsed()
}

async fn under_supervision(
    processes: &Processes,
    base: &Path,
    confinement: Option<Policy>,
) -> Duration {
    let start = Instant::now();
    let spec = CommandSpec {
        command: "true".to_owned(),
        cwd: base.join("ws"),
        timeout: None,
        spool: None,
        confinement,
    };
    let finished = processes.run(spec, CancellationToken::new(), |_| ()).await.unwrap();
    assert_eq!(finished.exit_code, Some(0));
    start.elapsed()
}
