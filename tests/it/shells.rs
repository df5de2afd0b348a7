//! Commands as a person meets them: they never wait for a person, show what they write while they
//! run, and work where their session does.

use std::io::Write as _;

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, DEADLINE};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::scene::{Scene, call_then_done};

/// B070: what would wait for a key ends by itself, long before its time-out.
#[tokio::test]
async fn interactive_programs_do_not_wait_for_a_person() {
    let repository = "git init -q . && git config user.email a@b && git config user.name n && \
                      for i in $(seq 100); do git commit -q --allow-empty -m $i; done";
    for (command, expected) in [
        ("read x; echo read $?", "read 1"),
        ("cat; echo cat $?", "cat 0"),
        ("cat </dev/tty; echo tty $?", "tty 1"),
        ("python3 -c 'input()'; echo python $?", "EOFError"),
        (
            "git log --format=%s | tail -1; git log | wc -l; git rebase -i --root; echo rebase $?",
            "1\n",
        ),
        ("git commit --allow-empty; echo commit $?", "commit 1"),
        ("git -c credential.helper= ls-remote https://127.0.0.1:9/x; echo remote $?", "remote 128"),
        ("$EDITOR file; echo editor $?; $PAGER /dev/null; echo pager $?", "pager 0"),
    ] {
        let command = format!("({repository}) >/dev/null 2>&1; {command}");
        let scene = Scene::new(call_then_done("shell", json!({"command": command}))).await;
        // A sandbox lets nobody make the folder a repository.
        scene.place.configure("config.toml", "[sandbox]\nat_most = \"none\"\n");
        let (mut client, session) = scene.session().await;
        client.prompt(&session, "go").await.ok();
        let results = scene.last_results();
        assert!(!results.contains("timed out"), "{command}: {results}");
        let expected = expected.replace('\n', "\\n");
        assert!(results.contains(&expected), "{command}: {results}");
        client.finish(&scene.place).await;
    }
}

/// B071: output is seen before the command ends. Each line is written only after the client has
/// seen the one before it.
#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    // Opened once: who opened it for each line could meet a writer that has not closed it yet.
    let command = "exec 3<gate; for i in 1 2 3 4 5; do echo line-$i; read x <&3; done; echo all";
    let scene = Scene::new(call_then_done("shell", json!({"command": command}))).await;
    let gate = scene.place.workspace().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    let open = move || fs_err::OpenOptions::new().write(true).open(gate).unwrap();
    let mut gate = tokio::task::spawn_blocking(open).await.unwrap();
    for line in 1..=5 {
        shows(&client, &session, &format!("line-{line}\n")).await;
        gate.write_all(b"go\n").unwrap();
    }
    client.reply(&turn).await.ok();
    assert!(scene.last_results().contains("line-5\\nall\\n[exit code 0]"));
    client.finish(&scene.place).await;
}

/// Waits until some update of a tool call shows `text`.
async fn shows(client: &Client, session: &str, text: &str) {
    let has = |update: &Value| {
        update["sessionUpdate"] == "tool_call_update"
            && update["content"].to_string().contains(text.trim_end())
    };
    client.wait_for(text, |trace| trace.updates(session).iter().any(has).then_some(())).await;
}

/// B073: two sessions of one agent, which was started elsewhere.
#[tokio::test]
async fn a_command_runs_in_the_folder_of_its_session() {
    let script = Script::new().rule(
        "where",
        [Answer::new().tool_call("shell", json!({"command": "pwd -P"})), Answer::new().text("ok")],
    );
    let scene = Scene::new(script).await;
    let launch = scene.place.acp(&scene.model.url()).cwd("/");
    let mut client = Client::ready(&launch).await;
    for name in ["one", "two"] {
        let cwd = scene.place.write(&format!("{name}/file"), "").parent().unwrap().to_owned();
        let params = json!({"cwd": cwd, "mcpServers": []});
        let result = client.request("session/new", params).await.ok();
        let session = result["sessionId"].as_str().unwrap().to_owned();
        client.prompt(&session, "where").await.ok();
        let cwd = fs_err::canonicalize(cwd).unwrap();
        let results = scene.last_results();
        assert!(results.contains(&format!("{}\\n", cwd.display())), "{results}");
    }
    client.finish(&scene.place).await;
}

/// Commands have the `PATH` of the login shell, and what its profile prints is nobody's business.
#[tokio::test]
async fn a_program_that_only_the_login_shell_finds_is_found() {
    let scene = Scene::new(call_then_done("shell", json!({"command": "only-in-a-terminal"}))).await;
    // Confined commands have a `/tmp` of their own, and this home is in the machine's.
    scene.place.configure("config.toml", "[sandbox]\nat_most = \"none\"\n");
    let profile = "echo welcome; PATH=\"$HOME/tools:$PATH\"; export PATH\n";
    fs_err::write(scene.place.user_home().join(".bash_profile"), profile).unwrap();
    let tools = scene.place.user_home().join("tools");
    fs_err::create_dir_all(&tools).unwrap();
    executable(&tools.join("only-in-a-terminal"), "#!/bin/sh\necho found\n");
    let launch = scene.place.acp(&scene.model.url()).env("SHELL", "/bin/bash");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    client.prompt(&session, "go").await.ok();
    let results = scene.last_results();
    assert!(results.contains("found\\n[exit code 0]") && !results.contains("welcome"), "{results}");
    client.finish(&scene.place).await;
    let doctor = |shell: &str| {
        let launch = scene.place.launch(["doctor"]).env("SHELL", shell);
        async move { String::from_utf8(launch.output().await.stdout).unwrap() }
    };
    let said = doctor("/bin/bash").await;
    assert!(said.contains("ok    commands have the PATH of the login shell /bin/bash"), "{said}");
    let said = doctor("/bin/false").await;
    assert_eq!(said.matches("did not tell its PATH").count(), 1, "{said}");
}

/// The profile of the login shell runs while the model thinks: here no command ever asks for it.
#[tokio::test]
async fn the_login_shell_is_asked_before_the_first_command() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("hello"))).await;
    let gate = scene.place.user_home().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let profile = scene.place.user_home().join(".bash_profile");
    fs_err::write(profile, "echo asked >\"$HOME/gate\"\n").unwrap();
    let launch = scene.place.acp(&scene.model.url()).env("SHELL", "/bin/bash");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    let (heard, asked) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || heard.send(fs_err::read_to_string(gate).unwrap()));
    client.prompt(&session, "go").await.ok();
    assert_eq!(tokio::time::timeout(DEADLINE, asked).await.unwrap().unwrap(), "asked\n");
    client.finish(&scene.place).await;
}

fn executable(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::write(path, text).unwrap();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// B067: the result of a command names the files of the workspace that it changed, with what they held
/// and hold, so that an editor looks at them again.
#[tokio::test]
async fn what_a_command_changed_is_shown_with_its_result() {
    let command = "sed -i s/old/new/ changed; rm gone; echo made >made; head -c 9 /dev/zero >data";
    for (command, status) in
        [(command.to_owned(), "completed"), (format!("{command}; false"), "failed")]
    {
        let scene = Scene::new(call_then_done("shell", json!({"command": command}))).await;
        scene.place.write("changed", "the old\n");
        scene.place.write("gone", "was here\n");
        scene.place.write("kept", "old\n");
        let (mut client, session) = scene.session().await;
        client.prompt(&session, "go").await.ok();
        let trace = client.finish(&scene.place).await;
        let call = trace.tool_calls(&session).remove(0);
        assert_eq!(call["status"], status);
        let root = fs_err::canonicalize(scene.place.workspace()).unwrap();
        let path = |name: &str| json!(root.join(name));
        let mut named: Vec<_> =
            call["locations"].as_array().unwrap().iter().map(|at| &at["path"]).collect();
        named.sort_by_key(|path| path.to_string());
        assert_eq!(named, ["changed", "data", "gone", "made"].map(path).iter().collect::<Vec<_>>());
        let content = call["content"].as_array().unwrap();
        let diff = |name: &str| {
            content.iter().find(|part| part["type"] == "diff" && part["path"] == path(name))
        };
        let texts =
            |name: &str| diff(name).map(|diff| (diff["oldText"].clone(), diff["newText"].clone()));
        assert_eq!(texts("changed"), Some((json!("the old\n"), json!("the new\n"))));
        assert_eq!(texts("gone"), Some((json!("was here\n"), json!(""))));
        assert_eq!(texts("made"), Some((Value::Null, json!("made\n"))));
        assert_eq!(texts("data"), None);
        assert!(
            content.iter().any(|part| part["type"] == "content"),
            "the output is gone: {content:?}"
        );
    }
}

/// S10: sequences that would make a terminal do something, in output and in names of files.
#[tokio::test]
async fn escape_sequences_are_shown_as_text_or_not_at_all() {
    let name = "\u{1b}]0;owned\u{7}\u{1b}[2Jred\u{9b}31m";
    let command =
        "ls; printf '\\033]52;c;eA==\\007\\033[2Jcleared\\n'; printf '\\302\\23331mmore\\n'";
    let calls = Answer::new()
        .tool_call("shell", json!({"command": command}))
        .tool_call("read", json!({"path": name}))
        .tool_call("write", json!({"path": format!("{name}2"), "content": "x"}))
        .tool_call("list", json!({}));
    let scene = Scene::new(Script::new().reply(calls).reply(Answer::new().text("done"))).await;
    scene.place.write(name, "text");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    let trace = client.finish(&scene.place).await;
    let asked = trace.calls("session/request_permission");
    assert_eq!(asked.len(), 2, "{asked:?}");
    let asked = asked.into_iter().map(|ask| ask["params"]["toolCall"].clone());
    for mut shown in trace.tool_calls(&session).into_iter().chain(asked) {
        // What the model sent and the paths themselves are data.
        for data in ["rawInput", "rawOutput", "locations"] {
            shown.as_object_mut().unwrap().remove(data);
        }
        for part in shown["content"].as_array_mut().into_iter().flatten() {
            part.as_object_mut().unwrap().remove("path");
        }
        let shown = shown.to_string();
        let control = |character: char| character == '\u{9b}';
        assert!(
            !shown.contains("\\u001b") && !shown.contains("\\u0007") && !shown.contains(control),
            "{shown}"
        );
    }
    assert!(scene.requests().pop().unwrap()["messages"].to_string().contains("cleared"));
    assert!(!trace.stderr().contains('\u{1b}'), "{}", trace.stderr());
}
