//! Situations in which the mode, the repository and the sandbox are told.

use super::*;

#[tokio::test]
async fn the_mode_when_it_changes() {
    let mut stage = Stage::new(&[]).await;
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user:
            hi
    "#]]);
    for mode in ["auto", "plan"] {
        let set = json!({"sessionId": stage.session, "modeId": mode});
        stage.client.request("session/set_mode", set).await.ok();
        stage.prompt(mode).await;
    }
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: auto
        user:
            auto
        assistant:
            Fine.
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: plan
        user:
            <plan_mode>
            The session is in plan mode: nothing may be changed, neither by a tool nor by a command. Look at what matters, work out a plan that is concrete enough to be carried out without further questions, and hand it in with `exit_plan_mode`. The user reads it and decides.
            </plan_mode>
        user:
            plan
    "#]]);
    stage.end().await;
}

impl Stage {
    /// A real repository, of which everything is known that is found out in the background.
    async fn in_repository() -> Self {
        let mut stage = Self::new(&[("a", "one\n")]).await;
        stage.git("init -q -b main .").await;
        stage.git("add a").await;
        stage.git("-c user.name=n -c user.email=a@b commit -qm one").await;
        stage.until_told("without uncommitted changes").await;
        stage
    }

    async fn git(&self, arguments: &str) {
        let git = self.scene.place.launch(arguments.split(' ')).replacing_program("git");
        let output = git.output().await;
        assert!(output.status.success(), "git {arguments}: {output:?}");
    }

    /// Prompts until the newest word of the environment says this, and looks away.
    async fn until_told(&mut self, text: &str) {
        for _ in 0..1_000 {
            self.prompt("and now?").await;
            self.sent();
            let newest = self.seen.iter().rfind(|line| line.contains("Git repository: "));
            if newest.is_some_and(|line| line.contains(text)) {
                return;
            }
        }
        panic!("not told: {text}: {:#?}", self.seen);
    }
}

#[tokio::test]
async fn the_branch_when_it_changes() {
    let mut stage = Stage::in_repository().await;
    stage.git("checkout -q -b side").await;
    stage.prompt("a branch").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context environment
            Working directory: /ws
            Git repository: yes, on branch side, without uncommitted changes
            Permission mode: ask
        user:
            a branch
    "#]]);
    stage.git("checkout -q --detach").await;
    stage.prompt("none").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context environment
            Working directory: /ws
            Git repository: yes, not on a branch, without uncommitted changes
            Permission mode: ask
        user:
            none
    "#]]);
    stage.end().await;
}

/// Of changes that git sees, once it has said so; a prompt waits for it never.
#[tokio::test]
async fn uncommitted_changes_when_they_are_known() {
    let mut stage = Stage::in_repository().await;
    stage.put("a", "two\n");
    stage.until_told("with uncommitted changes").await;
    stage.prompt("still").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user:
            still
    "#]]);
    stage.git("checkout -q a").await;
    stage.until_told("without uncommitted changes").await;
    stage.end().await;
}

/// S14: a pointer to another repository makes nothing of that one this one's.
#[tokio::test]
async fn a_pointer_to_another_repository() {
    let files = [
        ("trusted/.git/HEAD", "ref: refs/heads/main\n"),
        ("trusted/AGENTS.md", "Of the trusted one.\n"),
        ("evil/.git", "gitdir: ../trusted/.git\n"),
        ("evil/AGENTS.md", "Of the evil one.\n"),
    ];
    let mut stage = Stage::in_folder(&files, "evil", &[]).await;
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws/evil
            Git repository: yes, on branch main
            Permission mode: ask
        user context AGENTS.md
            Of the evil one.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    stage.end().await;
}

/// How far commands are confined is told once a command has found it out, and not again.
#[tokio::test]
async fn the_sandbox_once_it_is_known() {
    let mut stage = Stage::new(&[]).await;
    let set = json!({"sessionId": stage.session, "modeId": "auto"});
    stage.client.request("session/set_mode", set).await.ok();
    stage.calls("shell", json!({"command": "true"}));
    stage.prompt("go").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: auto
        user context skills (those of the program)
        user:
            go
        assistant calls shell {"command":"true"}
        user result: (no output)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: auto
    "#]]);
    stage.prompt("on").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user:
            on
    "#]]);
    let request = stage.scene.requests().pop().unwrap().to_string();
    assert_eq!(request.matches("Sandbox of commands: ").count(), 1);
    stage.end().await;
}

/// What another process does not know yet has not changed, so nothing is told again.
#[tokio::test]
async fn nothing_again_after_a_resume() {
    let mut stage = Stage::in_repository().await.resumed().await;
    for prompt in ["first", "second"] {
        stage.prompt(prompt).await;
        let sent = stage.sent();
        assert_eq!(sent, format!("assistant:\n    Fine.\nuser:\n    {prompt}\n"));
    }
    stage.end().await;
}
