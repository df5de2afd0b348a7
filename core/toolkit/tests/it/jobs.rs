//! Commands in the background: started by `shell`, looked after by `job`, ended with the session.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bridle_agent::{AgentUpdate, Grant, ToolContext};
use bridle_compose::{Clock, Sleep, SystemClock};
use bridle_session::{EventData, JobOutcome, ToolErrorCode};
use serde_json::{Value, json};

use crate::rig::{Done, Rig, context};

async fn started(rig: &Rig, command: &str) -> String {
    let arguments = json!({ "command": command, "background": true });
    let outcome = rig.call("shell", arguments).await.unwrap();
    let id = outcome.value.get("job").and_then(Value::as_str).unwrap().to_owned();
    assert!(outcome.text().starts_with(&format!("Runs in the background as {id}.")));
    id
}

async fn act(rig: &Rig, action: &str, id: &str) -> Done {
    rig.call("job", json!({ "action": action, "id": id })).await.unwrap()
}

/// Makes a named pipe, by which a command waits for the test.
fn gate(rig: &Rig, name: &str) -> std::path::PathBuf {
    let path = rig.folder.path().join(name);
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path
}

async fn open(path: &Path) {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || fs_err::write(path, "go\n").unwrap()).await.unwrap();
}

/// Reads a gate: the first line comes when the command stands, the thread ends when nothing of it
/// holds the gate any more.
async fn standing(path: std::path::PathBuf) -> std::thread::JoinHandle<usize> {
    let (up, stands) = tokio::sync::oneshot::channel();
    let reader = std::thread::spawn(move || {
        let mut lines = BufReader::new(fs_err::File::open(path).unwrap()).lines();
        up.send(lines.next().unwrap().unwrap()).unwrap();
        lines.count()
    });
    assert_eq!(stands.await.unwrap(), "up");
    reader
}

/// What the log says of jobs, and of what the model was told.
fn facts(log: &[bridle_session::Event]) -> Vec<String> {
    let facts = log.iter().filter_map(|event| match &event.data {
        EventData::JobStarted(job) => Some(format!("started {}: {}", job.id, job.title)),
        EventData::JobEnded(job) => Some(format!("ended {}: {:?}", job.id, job.outcome)),
        EventData::InboxSpliced(_) => Some("told".to_owned()),
        _ => None,
    });
    facts.collect()
}

/// A yes to the network of a job holds longer than one call.
#[tokio::test]
async fn who_lets_a_job_have_the_network_is_told_how_long() {
    let rig = Rig::new().await;
    for (background, needs, told) in [
        (true, json!(["network"]), true),
        (false, json!(["network"]), false),
        (true, json!([]), false),
    ] {
        let arguments = json!({
            "command": "true", "background": background, "needs": needs, "reason": "to fetch"
        });
        let title = rig.plan("shell", arguments).await.unwrap().display().title;
        assert_eq!(title.contains("later commands can use its network"), told, "{title}");
    }
    rig.closed().await;
}

#[tokio::test]
async fn a_job_runs_beside_the_turn_and_its_output_is_given_once() {
    let mut rig = Rig::new().await;
    let (first, second) = (gate(&rig, "first"), gate(&rig, "second"));
    let command = "echo one; read x <first; echo two; read x <second; echo three; exit 4";
    let id = started(&rig, command).await;
    // The command is past its line once it reads the gate; `wait` sees the end only.
    open(&first).await;
    let mut seen = String::new();
    while !seen.contains("two\n") {
        // Nothing here waits, so the job's task must be given its turn.
        tokio::task::yield_now().await;
        let outcome = act(&rig, "output", &id).await;
        assert_eq!(outcome.value["jobs"][0]["running"], true);
        let shown = outcome.text();
        let (output, facts) = shown.split_at(shown.rfind('[').unwrap());
        assert_eq!(facts, format!("[{id} runs]\n"));
        seen += output.trim_start_matches("(no new output)\n");
    }
    assert_eq!(seen, "one\ntwo\n");
    // It waits before the command can end.
    let (outcome, ()) = tokio::join!(act(&rig, "wait", &id), open(&second));
    assert_eq!(outcome.text(), "three\n[exit code 4]\n");
    assert_eq!(
        (&outcome.value["jobs"][0]["facts"]["exit_code"], &outcome.value["jobs"][0]["running"]),
        (&json!(4), &json!(false))
    );
    assert_eq!(act(&rig, "output", &id).await.text(), "(no new output)\n[exit code 4]\n");

    let mut notices = Vec::new();
    while let Ok(update) = rig.updates.try_recv() {
        if let AgentUpdate::Notice { title, .. } = update {
            notices.push(title);
        }
    }
    let begun = format!("Runs in the background, as long as the session at most: {command}");
    assert_eq!(notices, [begun.as_str(), "A background command ended with code 4."]);
    let log = rig.closed().await;
    let expected = [
        format!("started {id}: {command}"),
        format!("ended {id}: {:?}", JobOutcome::Exited { code: 4 }),
    ];
    assert_eq!(facts(&log), expected, "who waited is not told again");
}

#[tokio::test]
async fn the_model_is_told_of_an_end_that_nobody_waited_for() {
    let mut rig = Rig::new().await;
    let id = started(&rig, "exit 3").await;
    loop {
        match rig.updates.recv().await.unwrap() {
            AgentUpdate::Notice { title, .. } if title.contains("ended with code 3") => break,
            _ => {}
        }
    }
    // The driver takes one thing after the other: what it was told before this is on the log.
    rig.agent.status().await.unwrap();
    let log = rig.closed().await;
    assert_eq!(facts(&log)[2], "told");
    let told = format!("{log:?}");
    let expected = format!("The background job {id} (`exit 3`) has ended: exit code 3.");
    assert!(told.contains(&expected), "{told}");
}

#[tokio::test]
async fn a_kill_ends_the_whole_tree_of_a_job() {
    let rig = Rig::new().await;
    let gate = gate(&rig, "gate");
    let id = started(&rig, "exec 9>gate; setsid sleep 600 & echo up >&9; sleep 600").await;
    let reader = standing(gate).await;
    let outcome = act(&rig, "kill", &id).await;
    assert!(outcome.text().ends_with("[ended by signal 15]\n"), "{}", outcome.text());
    assert_eq!(outcome.value["jobs"][0]["facts"]["cancelled"], true);
    assert_eq!(reader.join().unwrap(), 0, "something holds the gate");
    let log = rig.closed().await;
    let ended = format!("ended {id}: {:?}", JobOutcome::Killed { signal: 15 });
    assert_eq!(facts(&log)[1], ended);
}

#[tokio::test]
async fn a_session_that_is_closed_ends_its_jobs_and_says_so_on_its_log() {
    let rig = Rig::new().await;
    let gate = gate(&rig, "gate");
    let command = "exec 9>gate; setsid sleep 600 & trap '' TERM; echo up >&9; sleep 600";
    let id = started(&rig, command).await;
    let reader = standing(gate).await;
    let shell = rig.tool("shell");
    let log = rig.closed().await;
    let facts = facts(&log);
    assert!(facts[1].starts_with(&format!("ended {id}: Killed")), "{facts:?}");
    assert_eq!(facts[2..], ["told"], "to be read when the session is loaded again");
    assert_eq!(reader.join().unwrap(), 0, "something holds the gate");
    // A call that was on its way starts nothing that nobody would end.
    let arguments = json!({ "command": "touch made", "background": true });
    let planned = shell.plan(arguments, &context()).await.unwrap();
    assert!(planned.run(Grant::for_tests(), context()).await.is_err());
}

/// A clock on which a wait of seven seconds is over at once.
struct Hasty;

impl Clock for Hasty {
    fn now(&self) -> SystemTime {
        SystemClock.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let seven = duration == Duration::from_secs(7);
        if seven { Box::pin(std::future::ready(())) } else { SystemClock.sleep(duration) }
    }
}

#[tokio::test]
async fn a_wait_is_bounded_and_can_be_cancelled_and_the_job_goes_on() {
    let rig = Rig::on(Arc::new(Hasty)).await;
    let id = started(&rig, "sleep 600").await;
    let arguments = json!({ "action": "wait", "id": id, "timeout_s": 7 });
    let outcome = rig.call("job", arguments).await.unwrap();
    assert_eq!(outcome.text(), format!("(no new output)\n[{id} runs]\n"));

    let planned = rig.plan("job", json!({ "action": "wait", "id": id })).await.unwrap();
    let context = ToolContext { ..context() };
    context.token.cancel();
    let failure = planned.run(Grant::for_tests(), context).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Aborted);
    assert_eq!(failure.message, format!("The wait was cancelled; {id} goes on."));
    rig.closed().await;
}

#[tokio::test]
async fn a_job_may_have_a_time_out() {
    let rig = Rig::on(Arc::new(Hasty)).await;
    let arguments = json!({ "command": "sleep 600", "background": true, "timeout_s": 7 });
    let id = rig.call("shell", arguments).await.unwrap().value["job"].clone();
    let outcome = act(&rig, "wait", id.as_str().unwrap()).await;
    assert!(outcome.text().contains("[timed out after 7 s and was ended"), "{}", outcome.text());
    rig.closed().await;
}

#[tokio::test]
async fn jobs_are_listed_and_there_is_a_most() {
    let rig = Rig::new().await;
    let list = rig.call("job", json!({ "action": "list" })).await.unwrap();
    assert_eq!(list.text(), "There are no jobs.\n");
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(started(&rig, "sleep 600").await);
    }
    let arguments = json!({ "command": "sleep 600", "background": true });
    let failure = rig.call("shell", arguments).await.unwrap_err();
    assert!(failure.message.starts_with("8 jobs are running, which is the most"), "{failure}");
    let list = rig.call("job", json!({ "action": "list" })).await.unwrap();
    let lines = ids.iter().map(|id| format!("{id}: runs, 0 bytes of output: sleep 600\n"));
    assert_eq!(list.text(), lines.collect::<String>());
    rig.closed().await;
}

/// A job whose output is larger than what memory keeps.
const LOUD: &str = "echo begin; yes abc | head -c 1000000; echo end";

#[tokio::test]
async fn large_output_of_a_job_is_kept_whole_and_to_be_had_once_it_has_ended() {
    let rig = Rig::new().await;
    let gate = gate(&rig, "gate");
    let id = started(&rig, &format!("{LOUD}; read x <gate; echo last")).await;
    let mut running = act(&rig, "output", &id).await;
    while !running.text().contains("end\n") {
        tokio::task::yield_now().await;
        running = act(&rig, "output", &id).await;
    }
    assert!(running.text().contains("bytes omitted; the whole can be read once it has ended ...]"));
    assert!(running.blob().is_none());
    open(&gate).await;
    let ended = act(&rig, "wait", &id).await;
    assert_eq!(ended.text(), "last\n[exit code 0]\n");
    let whole = rig.blobs.get(ended.blob().unwrap()).unwrap();
    assert_eq!(whole.len(), 1_000_015);
    assert!(whole.starts_with(b"begin\nabc\n") && whole.ends_with(b"abc\nend\nlast\n"));
    let again = act(&rig, "output", &id).await;
    assert_eq!(again.text(), "(no new output)\n[exit code 0]\n");
    assert_eq!(again.blob(), ended.blob());
    rig.closed().await;
}

#[tokio::test]
async fn output_of_a_job_that_was_never_looked_at_says_what_is_left_out() {
    let rig = Rig::new().await;
    let id = started(&rig, LOUD).await;
    let ended = act(&rig, "wait", &id).await;
    assert!(
        ended.text().starts_with("[... 954954 bytes omitted ...]\nabc\n"),
        "{:.80}",
        ended.text()
    );
    assert_eq!(ended.blob().unwrap().bytes, 1_000_010);
    rig.closed().await;
}

#[tokio::test]
async fn the_files_of_jobs_are_bounded_and_the_oldest_goes_first() {
    let rig = Rig::new().await;
    let mut ids = Vec::new();
    for _ in 0..9 {
        let id = started(&rig, LOUD).await;
        // Listed, not looked at: a look would make a blob of it.
        while !rig
            .call("job", json!({ "action": "list" }))
            .await
            .unwrap()
            .text()
            .contains(&format!("{id}: exit"))
        {
            tokio::task::yield_now().await;
        }
        ids.push(id);
    }
    let first = act(&rig, "output", &ids[0]).await;
    let lost =
        "[what is omitted is lost: it could not be stored, because newer jobs took its place]\n";
    assert!(first.text().ends_with(lost), "{:.200}", first.text());
    assert!(first.blob().is_none());
    for id in &ids[1..] {
        assert_eq!(act(&rig, "output", id).await.blob().unwrap().bytes, 1_000_010);
    }
    rig.closed().await;
}

#[tokio::test]
async fn bad_arguments_are_refused_with_what_there_is() {
    let rig = Rig::new().await;
    let refused = async |arguments: Value| {
        let failure = rig.call("job", arguments).await.unwrap_err();
        format!("{:?}: {}", failure.code, failure.message)
    };
    assert_eq!(
        refused(json!({ "action": "output" })).await,
        "BadArguments: `output` needs the `id` of a job. There are no jobs."
    );
    let id = started(&rig, "sleep 600").await;
    assert_eq!(
        refused(json!({ "action": "kill", "id": "job-x" })).await,
        format!("Failed: There is no job \"job-x\". The jobs are: {id}.")
    );
    assert_eq!(
        refused(json!({ "action": "wait", "id": id, "timeout_s": 601 })).await,
        "BadArguments: The arguments of `job` do not fit at `timeout_s`: expected at most 600, found 601. Nothing was done."
    );
    let gone = json!({ "command": "true", "background": true });
    let planned = rig.plan("shell", gone).await.unwrap();
    fs_err::remove_dir_all(rig.folder.path()).unwrap();
    let failure = planned.run(Grant::for_tests(), context()).await.unwrap_err();
    assert!(failure.message.contains("create the folder first"), "{failure}");
    let log = rig.closed().await;
    let started = facts(&log).into_iter().filter(|fact| fact.starts_with("started")).count();
    assert_eq!(started, 1, "what did not start is on the log");
}
