//! What the supervisor costs: a command under it beside the same command started plainly.
//!
//! `cargo bench -p bridle --bench spawn` prints figures beside their target and judges none. The
//! supervisor is this program, which holds all of Bridle, as it is in the product.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for the people who work on it, which starts processes both ways"
)]

use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use bridle_world::process::{CommandSpec, Environment, Processes};
use bridle_world::supervisor;
use tokio_util::sync::CancellationToken;

/// How often each is done; the median counts.
const ROUNDS: usize = 200;

fn main() -> ExitCode {
    if let Some(code) = supervisor::run_if_requested() {
        return code;
    }
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
        let plain = print("bash -c true, started plainly", &mut plain);
        let supervised = print("bash -c true, under the supervisor", &mut supervised);
        let ratio = supervised.as_secs_f64() / plain.as_secs_f64();
        println!("supervised to plain: {ratio:.2} (target: at most 2)");
    });
    ExitCode::SUCCESS
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

fn print(what: &str, times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!("{what}: {median:.2?}");
    median
}
