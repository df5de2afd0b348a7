//! What the supervisor costs: a command under it beside the same command started plainly.
//! The supervisor is this program, which holds all of Bridle, as it is in the product.

use std::process::Stdio;
use std::time::{Duration, Instant};

use bridle_world::process::{CommandSpec, Environment, Processes};
use tokio_util::sync::CancellationToken;

use crate::figures::{median, millis, say};

/// How often each is done; the median counts.
const ROUNDS: usize = 200;

pub(crate) fn run() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let environment = Environment::from_variables([]);
        let processes = Processes::new(Processes::THIS_BINARY.into(), environment);
        let (mut plain, mut supervised) = (Vec::new(), Vec::new());
        // Turn and turn about, so that whatever else the machine does meets both.
        for _ in 0..ROUNDS {
            plain.push(plainly().await);
            supervised.push(under_supervision(&processes).await);
        }
        let (plain, supervised) = (median(plain), median(supervised));
        let ratio = supervised.as_secs_f64() / plain.as_secs_f64();
        say("bash -c true, started plainly", millis(plain), "");
        say("bash -c true, under the supervisor", millis(supervised), "");
        say("supervised to plain", format!("{ratio:.2} times"), "<= 2 times");
    });
}

async fn plainly() -> Duration {
    let start = Instant::now();
    let mut command = tokio::process::Command::new("/bin/bash");
    let command = command.args(["-c", "true"]).env_clear().current_dir("/").stdin(Stdio::null());
    let output = command.output().await.unwrap();
    assert!(output.status.success());
    start.elapsed()
}

async fn under_supervision(processes: &Processes) -> Duration {
    let start = Instant::now();
    let command = "true".to_owned();
    let spec =
        CommandSpec { command, cwd: "/".into(), timeout: None, spool: None, confinement: None };
    let finished = processes.run(spec, CancellationToken::new(), |_| ()).await.unwrap();
    assert_eq!(finished.exit_code, Some(0));
    start.elapsed()
}
