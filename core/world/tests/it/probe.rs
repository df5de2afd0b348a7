//! The program that the tests of `bridle-world` drive: it can be a supervisor, and the host of
//! commands where a test needs that host to be a process of its own.

#[path = "order.rs"]
mod order;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bridle_world::process::{
    CommandSpec, DEFAULT_TIMEOUT, Environment, Finished, ProcessError, Processes,
};
use bridle_world::sandbox::{Sandbox, Verdict};
use bridle_world::{sandbox, supervisor};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    if let Some(code) = supervisor::run_if_requested() {
        return code;
    }
    // Like the product, and before any thread: the runtime is built below.
    let secrets = sandbox::take_secrets(|name| name.ends_with("_API_KEY"));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match (arguments.as_slice(), secrets) {
        (["host", command], Ok(_)) => host(&[command]),
        (["crowd", command, count], Ok(_)) => {
            host(&vec![*command; count.parse().unwrap_or(0)]).and_then(|()| children())
        }
        (["secrets"], Ok(taken)) => secrets_mode(&taken),
        (["threads"], Ok(_)) => threads(),
        (["confined"], Ok(_)) => confined(),
        (_, Err(error)) => Err(std::io::Error::other(error)),
        _ => Err(std::io::Error::other(
            "host COMMAND | crowd COMMAND COUNT | secrets | threads | confined",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string()).ok();
            ExitCode::FAILURE
        }
    }
}

/// Runs all `commands` at once, and prints what they wrote.
fn host(commands: &[&str]) -> std::io::Result<()> {
    let processes =
        Processes::new(PathBuf::from(Processes::THIS_BINARY), Environment::from_process());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let calls: Vec<_> = commands.iter().map(|command| call(&processes, command)).collect();
        let mut running = tokio::task::JoinSet::new();
        for call in calls {
            running.spawn(call);
        }
        while let Some(text) = running.join_next().await {
            say(&text.map_err(std::io::Error::other)??)?;
        }
        processes.close().await;
        Ok(())
    })
}

fn call(
    processes: &Processes,
    command: &str,
) -> impl Future<Output = std::io::Result<String>> + use<> {
    let processes = processes.clone();
    let spec = CommandSpec {
        command: command.to_owned(),
        cwd: Path::new("/").to_owned(),
        timeout: Some(DEFAULT_TIMEOUT),
        spool: None,
        confinement: None,
    };
    async move {
        let finished = processes.run(spec, CancellationToken::new(), |_| ()).await;
        finished.map(|it| it.output.text(str::to_owned)).map_err(std::io::Error::other)
    }
}

/// Prints how many children this process has, ended ones included.
fn children() -> std::io::Result<()> {
    let mut count = 0;
    for task in fs_err::read_dir("/proc/self/task")? {
        let list = fs_err::read_to_string(task?.path().join("children"))?;
        count += list.split_whitespace().count();
    }
    say(&format!("children: {count}"))
}

/// Prints what was taken, then a command's environment, then stays until its input ends.
fn secrets_mode(taken: &[(String, String)]) -> std::io::Result<()> {
    sandbox::set_not_dumpable()?;
    for (name, value) in taken {
        let left = std::env::var(name).is_ok();
        say(&format!("taken: {name} {value} left: {left}"))?;
    }
    host(&["env; cat /proc/$PPID/environ"])?;
    say("ready")?;
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// Tries to take secrets beside a second thread.
fn threads() -> std::io::Result<()> {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let taken = sandbox::take_secrets(|name| name == "PATH");
    say(&format!("refused: {} path: {}", taken.is_err(), std::env::var("PATH").is_ok()))?;
    drop(stop);
    thread.join().map(drop).map_err(|_| std::io::Error::other("the thread panicked"))
}

/// Runs the command of the order on its input, and prints how it ended as a line of JSON.
fn confined() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut order: order::Order = serde_json::from_str(&text)?;
    if let [root] = &order.policy.roots[..]
        && order.look
    {
        order.policy.protected = sandbox::Protected::below(root).map_err(std::io::Error::other)?;
    }
    let processes =
        Processes::new(PathBuf::from(Processes::THIS_BINARY), Environment::from_process())
            .confined_at_most(order.at_most);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let end = runtime.block_on(async {
        let spec = CommandSpec {
            command: order.command,
            cwd: order.cwd,
            timeout: Some(DEFAULT_TIMEOUT),
            spool: None,
            confinement: Some(order.policy),
        };
        let sandbox = processes.sandbox().await.clone();
        let end = processes.run(spec, CancellationToken::new(), |_| ()).await;
        outcome(&sandbox, end)
    });
    say(&serde_json::to_string(&end)?)
}

fn outcome(sandbox: &Sandbox, end: Result<Finished, ProcessError>) -> order::Outcome {
    let mut outcome = order::Outcome {
        tier: sandbox.tier(),
        cause: sandbox.cause().map(str::to_owned),
        code: None,
        output: String::new(),
        error: None,
        denied: "none".to_owned(),
        altered: Vec::new(),
        put_aside: Vec::new(),
        left: 0,
        unlimited: sandbox.unlimited().map(str::to_owned),
    };
    match end {
        Ok(finished) => {
            outcome.code = finished.exit_code;
            outcome.output = finished.output.text(str::to_owned);
            outcome.left = finished.left;
            outcome.altered = finished.altered;
            outcome.put_aside = finished.put_aside.into_iter().map(|it| (it.from, it.to)).collect();
            match finished.denied {
                Verdict::None => {}
                Verdict::Suspected => outcome.denied = "suspected".to_owned(),
                Verdict::Confirmed { what } => {
                    let what: Vec<String> = what.iter().map(ToString::to_string).collect();
                    outcome.denied = what.join("\n");
                }
            }
        }
        Err(error) => {
            let kind = match &error {
                ProcessError::Sandbox { .. } => "sandbox",
                ProcessError::Program { .. } => "program",
                ProcessError::WorkingDirectory { .. } => "working directory",
                ProcessError::Supervisor { .. } => "supervisor",
            };
            outcome.error = Some(format!("{kind}: {error}"));
        }
    }
    outcome
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
