//! `terminal`: a shell that stays. What lives from call to call, what a program on it can be told, how
//! it ends, and what is asked before anything is typed.

use std::time::Duration;

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, DEADLINE, Permission, Place, Process, wait_until_gone};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::outputs::{MARGIN, peak};
use crate::scene::Scene;

/// A session whose user has switched the tool on.
struct Typist {
    scene: Scene,
    client: Client,
    session: String,
}

impl Typist {
    async fn new() -> Self {
        Self::in_mode("ask").await
    }

    async fn in_mode(mode: &str) -> Self {
        let scene = Scene::new(Script::new()).await;
        scene.place.configure("config.toml", format!("terminal = true\nmode = \"{mode}\"\n"));
        let (client, session) = scene.session().await;
        Self { scene, client, session }
    }

    /// One prompt with these calls one after the other; what the model reads of each.
    async fn types<const N: usize>(&mut self, calls: [Value; N]) -> [String; N] {
        let mut results = Vec::new();
        for call in calls {
            self.push(call);
            assert_eq!(self.client.prompt(&self.session, "go").await.stop_reason(), "end_turn");
            results.push(text(&self.scene.last_results()));
        }
        results.try_into().unwrap()
    }

    fn push(&self, call: Value) {
        self.scene.model.push(Answer::new().tool_call("terminal", call));
        self.scene.model.push(Answer::new().text("done"));
    }

    async fn mode(&mut self, mode: &str) {
        let params = json!({"sessionId": self.session, "modeId": mode});
        self.client.request("session/set_mode", params).await.ok();
    }

    fn questions(&self) -> usize {
        self.client.trace().calls("session/request_permission").len()
    }

    async fn finish(self) {
        self.client.finish(&self.scene.place).await;
        self.scene.assert_lawful();
    }
}

/// The text of one result.
fn text(result: &str) -> String {
    match serde_json::from_str(result).unwrap() {
        Value::String(text) => text,
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    }
}

fn command(command: &str) -> Value {
    json!({ "command": command })
}

#[tokio::test]
async fn directory_variables_and_functions_live_on() {
    let mut typist = Typist::new().await;
    let long = format!("echo {} | wc -c", "é".repeat(7_000));
    let [begun, state, lines, quoted, failed, long, other] = typist
        .types([
            command("mkdir sub && cd sub && x=5; greet() { echo \"hello $1\"; }"),
            command(
                "pwd; echo $x; greet 'you there'; stty size; echo $TERM; env | grep -c API_KEY",
            ),
            command("for i in 1 2\ndo echo line $i\ndone\ncat <<'END'\n$x \\n 'q'\nEND"),
            command("printf '%s\\n' \"a'b\" 'c\\d' $'e\\tf' !!"),
            command("(exit 7)"),
            command(&long),
            json!({"command": "pwd; echo x=$x", "name": "other"}),
        ])
        .await;
    assert!(
        begun.contains("[this is a new shell in ") && begun.contains("[exit code 0]"),
        "{begun}"
    );
    let here = "/sub\n5\nhello you there\n50 200\ndumb\n0\n[exit code 1]\n";
    assert!(state.ends_with(here) && !state.contains("new shell"), "{state}");
    assert_eq!(lines, "line 1\nline 2\n$x \\n 'q'\n[exit code 0]\n");
    assert_eq!(quoted, "a'b\nc\\d\ne\tf\n!!\n[exit code 0]\n");
    assert_eq!(failed, "(no output)\n[exit code 7]\n");
    assert_eq!(long, "14001\n[exit code 0]\n");
    assert!(!other.contains("/sub\n") && other.contains("x=\n"), "{other}");
    typist.finish().await;
}

#[tokio::test]
async fn a_program_that_reads_the_terminal_is_answered() {
    let mut typist = Typist::new().await;
    let text = |text: &str| json!({ "text": text });
    let [asks, answered, secret, hidden, python, sum, over, refused] = typist
        .types([
            command("read -p 'name? ' who; echo hello $who"),
            text("Ann"),
            command("read -sp 'password? ' secret; echo ${#secret}"),
            text("hunter2"),
            command("python3 -iq"),
            text("print(6 * 7)"),
            json!({"key": "ctrl-d"}),
            text("nobody reads this"),
        ])
        .await;
    assert!(asks.contains("name? ") && asks.contains("it may wait for `text`"), "{asks}");
    assert_eq!(answered, "hello Ann\n[exit code 0]\n");
    assert!(secret.contains("password? "), "{secret}");
    assert_eq!(hidden, "7\n[exit code 0]\n");
    assert!(python.contains(">>>"), "{python}");
    assert!(sum.contains("42"), "{sum}");
    assert!(over.contains("[exit code 0]"), "{over}");
    assert!(refused.contains("Nothing runs in the terminal `main`"), "{refused}");
    typist.finish().await;
}

#[tokio::test]
async fn what_does_not_end_is_looked_at_again_and_interrupted() {
    let mut typist = Typist::new().await;
    let gate = typist.scene.place.workspace().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let hang = json!({"command": "echo early; read x <gate; echo late", "timeout_s": 1});
    let [hung, refused] = typist.types([hang, command("echo more")]).await;
    assert!(hung.contains("still runs after 1 s; a call without input waits on"), "{hung}");
    assert!(refused.contains("still runs in the terminal `main`; nothing was typed"), "{refused}");
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go\n").unwrap()).await.unwrap();
    let [late, idle, sleeping, interrupted] = typist
        .types([
            json!({"timeout_s": 60}),
            json!({}),
            json!({"command": "sleep 86400", "timeout_s": 1}),
            json!({"key": "ctrl-c"}),
        ])
        .await;
    assert!(format!("{hung}{late}").contains("early\n"), "{hung}{late}");
    assert!(late.ends_with("late\n[exit code 0]\n"), "{late}");
    assert_eq!(idle, "(no output)\n[nothing runs]\n");
    assert!(sleeping.contains("`sleep 86400` still runs after 1 s"), "{sleeping}");
    assert!(interrupted.contains("[exit code 130]"), "{interrupted}");
    let trap = "bash -c 'trap \"echo caught\" INT; echo set; while :; do sleep 1; done'";
    let [trapped] = typist.types([json!({"command": trap, "timeout_s": 1})]).await;
    assert!(trapped.contains("still runs"), "{trapped}");
    let mut all = trapped;
    while !all.contains("set\n") {
        all.push_str(&typist.types([json!({"timeout_s": 1})]).await[0]);
    }
    let [ignored, killed] = typist.types([json!({"key": "ctrl-c"}), json!({"close": true})]).await;
    assert!(ignored.contains("caught") && ignored.contains("still runs"), "{ignored}");
    assert!(killed.contains("[closed]"), "{killed}");
    let left = typist.scene.place.processes();
    assert!(left.iter().all(|process| !process.command.starts_with("sleep")), "{left:?}");
    typist.finish().await;
}

/// Whatever a command does to the prompt, it is known when the next one has ended.
#[tokio::test]
async fn a_shell_keeps_saying_when_it_is_at_its_prompt() {
    let mut typist = Typist::new().await;
    let [unset, set, new, after] = typist
        .types([
            command("unset PROMPT_COMMAND; echo went on"),
            command("PROMPT_COMMAND=true"),
            command("PS1='$ '; printf() { :; }; x=1"),
            command("echo x=$x; false"),
        ])
        .await;
    assert!(unset.contains("readonly variable") && unset.contains("went on"), "{unset}");
    assert!(unset.contains("[exit code 0]"), "{unset}");
    assert!(set.contains("readonly variable") && set.contains("[exit code 1]"), "{set}");
    assert!(new.contains("[exit code 0]"), "{new}");
    assert!(after.contains("x=1") && after.contains("[exit code 1]"), "{after}");
    typist.finish().await;
}

#[tokio::test]
async fn a_shell_that_ends_is_said_and_the_next_is_a_new_one() {
    let mut typist = Typist::new().await;
    let [ended, new, gone] = typist
        .types([
            command("x=1; echo last words; exit 3"),
            command("echo x=$x"),
            json!({"name": "nobody"}),
        ])
        .await;
    let said = "last words\nexit\n[this is a new shell in ";
    assert!(ended.contains(said), "{ended}");
    assert!(
        ended.contains("[the shell has ended: exit code 3; the next `command` opens a new one]")
    );
    assert!(new.starts_with("x=\n[this is a new shell in "), "{new}");
    assert!(new.contains("; the last: exit code 3]") && new.contains("[exit code 0]"), "{new}");
    assert!(gone.contains("There is no terminal `nobody` open; a `command` opens it."), "{gone}");
    typist.finish().await;
}

#[tokio::test]
async fn a_cancel_interrupts_what_runs_and_ends_what_does_not_listen() {
    let mut typist = Typist::new().await;
    for (trap, said) in [
        ("", "what ran was interrupted, the shell stays"),
        ("trap '' INT; ", "the shell was ended with everything in it"),
    ] {
        let run = format!("x=kept; {trap}touch up; sleep 86400");
        typist.push(command(&run));
        let turn = typist.client.begin_prompt(&typist.session, "go").await;
        typist.scene.place.appears("up").await;
        typist.client.cancel(&typist.session).await;
        assert_eq!(typist.client.reply(&turn).await.stop_reason(), "cancelled");
        let left = typist.scene.place.processes();
        assert!(left.iter().all(|process| !process.command.starts_with("sleep")), "{left:?}");
        // What was pushed for the rest of the cancelled turn answers this one.
        typist.client.prompt(&typist.session, "and?").await.ok();
        let request = typist.scene.requests().pop().unwrap()["messages"].to_string();
        assert!(request.contains(said), "{request}");
        let [state] = typist.types([command("echo x=$x; rm -f up")]).await;
        assert_eq!(state.contains("x=kept"), trap.is_empty(), "{state}");
    }
    typist.finish().await;
}

/// A shell that runs one short command after another is interrupted, too: an interrupt that comes between
/// two of them reaches neither.
#[tokio::test]
async fn a_cancel_between_two_commands_is_not_lost() {
    let mut typist = Typist::new().await;
    for round in 0..10 {
        typist.push(command("x=kept; touch up; while :; do /bin/true; done"));
        let turn = typist.client.begin_prompt(&typist.session, "go").await;
        typist.scene.place.appears("up").await;
        typist.client.cancel(&typist.session).await;
        assert_eq!(typist.client.reply(&turn).await.stop_reason(), "cancelled");
        typist.client.prompt(&typist.session, "and?").await.ok();
        let [state] = typist.types([command("echo x=$x; rm -f up")]).await;
        assert!(state.contains("x=kept"), "round {round}: {state}");
    }
    typist.finish().await;
}

fn sleepers(place: &Place) -> Vec<Process> {
    let is_one = |process: &Process| process.command.ends_with("sleep 86400");
    place.processes().into_iter().filter(is_one).collect()
}

/// However the session ends, nothing of a terminal is left.
#[tokio::test]
async fn a_terminal_ends_with_its_session() {
    for by in ["close", "end of input", "SIGTERM", "kill -9"] {
        let mut typist = Typist::new().await;
        let [up] = typist
            .types([command(
                "sleep 86400 & setsid sleep 86400 & (setsid nohup sleep 86400 >/dev/null 2>&1 &); \
                 trap '' HUP TERM; echo up",
            )])
            .await;
        assert!(up.contains("up"), "{up}");
        // A shell says so before all that it has put behind itself has begun.
        let all_sleep = async {
            while sleepers(&typist.scene.place).len() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, all_sleep).await.expect("three sleepers");
        let processes = typist.scene.place.processes();
        match by {
            "close" => {
                let params = json!({"sessionId": typist.session});
                typist.client.request("session/close", params).await.ok();
                let left = typist.scene.place.processes();
                assert!(left.iter().all(|it| !it.command.contains("sleep")), "{by}: {left:?}");
                typist.client.close_stdin().await;
            }
            "end of input" => typist.client.close_stdin().await,
            "SIGTERM" => typist.client.signal(Signal::TERM),
            _ => typist.client.signal(Signal::KILL),
        }
        typist.client.wait().await;
        if by == "kill -9" {
            for process in &processes {
                assert!(wait_until_gone(process, Duration::from_secs(10)), "{process:?} survives");
            }
        }
        assert_eq!(typist.scene.place.processes(), [], "survivors of {by}");
    }
}

/// Neither a command nor a closed session keeps the agent's end of a terminal.
#[tokio::test]
async fn the_end_of_a_terminal_that_the_agent_holds_is_nobody_elses() {
    let mut typist = Typist::new().await;
    let held = |typist: &Typist| {
        let folder = format!("/proc/{}/fd", typist.client.pid());
        let entries = fs_err::read_dir(folder).unwrap().flatten();
        let targets = entries.filter_map(|entry| fs_err::read_link(entry.path()).ok());
        targets.filter(|target| target.ends_with("ptmx")).count()
    };
    let look = "readlink /proc/self/fd/*; readlink /proc/$PPID/fd/* || true";
    let [own] = typist.types([command(look)]).await;
    assert!(!own.contains("ptmx"), "{own}");
    assert_eq!(held(&typist), 2);
    typist.scene.model.push(Answer::new().tool_call("shell", command(look)));
    typist.scene.model.push(Answer::new().text("done"));
    typist.client.prompt(&typist.session, "go").await.ok();
    let others = typist.scene.last_results();
    assert!(others.contains("pipe:") && !others.contains("ptmx"), "{others}");
    let params = json!({"sessionId": typist.session});
    typist.client.request("session/close", params).await.ok();
    assert_eq!(held(&typist), 0);
    typist.finish().await;
}

#[tokio::test]
async fn endless_output_of_a_terminal_takes_no_memory() {
    let mut typist = Typist::new().await;
    let megabytes = bridle_tests::rounds(20, 100);
    typist.types([command("yes | head -c 1000000")]).await;
    let before = peak(&typist.client);
    let loud = format!("yes 'a line of it' | head -c {megabytes}MB; echo; echo last");
    let [large] = typist.types([json!({"command": loud, "timeout_s": 300})]).await;
    let after = peak(&typist.client);
    println!("{megabytes} MB of a terminal: {before} KiB at most before, {after} KiB after");
    assert!(after < before + MARGIN, "memory grows from {before} to {after} KiB");
    assert!(large.contains("bytes, ") && large.contains("omitted ...]"), "{large:.300}");
    assert!(large.ends_with("last\n[exit code 0]\n"), "{:.300}", large);
    typist.finish().await;
}

/// Every line that is typed is a question of its own, whole however it is typed; a look and the keys
/// that end something are none.
#[tokio::test]
async fn each_line_that_is_typed_is_asked_about() {
    let mut typist = Typist::new().await;
    typist
        .types([
            json!({"command": "cat >out", "timeout_s": 1}),
            json!({"text": "one ", "enter": false, "timeout_s": 1}),
            json!({"text": "two", "timeout_s": 1}),
        ])
        .await;
    typist.client.set_permission(Permission::Reject);
    let [typed, _, _] = typist
        .types([json!({"text": "three", "timeout_s": 1}), json!({"key": "ctrl-d"}), json!({})])
        .await;
    assert!(typed.contains("The person declined this call."), "{typed}");
    assert_eq!(typist.scene.place.read("out"), "one two\n");
    let trace = typist.client.finish(&typist.scene.place).await;
    let asked: Vec<_> = trace
        .calls("session/request_permission")
        .iter()
        .map(|ask| ask["params"]["toolCall"]["title"].as_str().unwrap().to_owned())
        .collect();
    let expected = ["cat >out", "one ", "one two", "three"].map(|line| format!("terminal: {line}"));
    assert_eq!(asked.len(), expected.len(), "{asked:?}");
    for (asked, expected) in asked.iter().zip(&expected) {
        assert!(asked.contains(expected.trim_end()), "{asked} for {expected}");
    }
}

/// A shell has a sandbox for as long as it lives: that of the call that opened it.
#[tokio::test]
async fn a_terminal_is_confined_as_a_command_is() {
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = fs_err::canonicalize(outside.path()).unwrap().join("file");
    let write = format!("echo x >{}", file.display());
    let mut typist = Typist::in_mode("auto").await;
    let [works, refused, again] = typist
        .types([
            command(
                "echo in >in; cat in >/dev/stderr; sleep 86400 & jobs; kill %1; echo t >/dev/tty",
            ),
            command(&write),
            json!({"command": write, "needs": ["unconfined"]}),
        ])
        .await;
    let jobs = works.starts_with("in\n[1] ") && works.contains("[1]+  Running ");
    assert!(jobs && works.contains("\nt\n"), "{works}");
    let what = format!("its sandbox refused it to change {}", file.display());
    assert!(refused.contains("[exit code 1]\n") && refused.contains(&what), "{refused}");
    assert!(refused.contains("`close` it and open it again with `needs`"), "{refused}");
    assert!(again.contains("was opened without these `needs`"), "{again}");
    assert!(!file.exists());
    assert_eq!(typist.questions(), 0);

    let free = json!({"command": write, "needs": ["unconfined"], "name": "free"});
    typist.types([free, json!({"command": "echo y", "name": "free"})]).await;
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "x\n");
    assert_eq!(typist.questions(), 2, "each line that is typed there is asked about");

    typist.mode("read-only").await;
    let [less, _, anew, gone] = typist
        .types([
            command("echo more >in"),
            json!({"close": true}),
            command("echo more >in"),
            json!({"command": "echo z", "name": "free"}),
        ])
        .await;
    assert!(less.contains("was opened when more was allowed"), "{less}");
    assert!(anew.contains("its sandbox refused it to change "), "{anew}");
    assert!(gone.contains("Denied by the permission mode"), "{gone}");
    assert_eq!(typist.scene.place.read("in"), "in\n");
    typist.finish().await;
}

#[tokio::test]
async fn the_tool_is_not_offered_unless_the_user_says_so() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("hello"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    let tools = scene.requests()[0]["tools"].to_string();
    assert!(tools.contains("\"shell\"") && !tools.contains("\"terminal\""), "{tools:.300}");
    client.finish(&scene.place).await;
}
