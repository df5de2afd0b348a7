//! What a person is shown of language servers: `bridle lsp`, `/lsp`, `config show` and `doctor`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use bridle_model_server::Script;

use crate::scene::Scene;

/// A program of the user's that says nothing and ends.
fn program(scene: &Scene, name: &str, script: &str) -> PathBuf {
    let folder = scene.place.user_home().join("tools");
    fs_err::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

struct Ran {
    code: i32,
    out: String,
    error: String,
}

/// Runs `bridle` with the user's programs alone on the search path.
async fn bridle(scene: &Scene, arguments: &[&str]) -> Ran {
    let tools = scene.place.user_home().join("tools");
    let output = scene.place.launch(arguments).env("PATH", tools).output().await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        error: text(output.stderr),
    }
}

#[tokio::test]
async fn what_is_on_the_machine_is_listed_with_its_files() {
    let scene = Scene::new(Script::new()).await;
    let clangd = program(&scene, "clangd", "exit 1");
    let listed = bridle(&scene, &["lsp", "list"]).await;
    assert_eq!(listed.code, 0, "{}", listed.error);
    let line = listed.out.lines().find(|line| line.starts_with("clangd")).unwrap();
    assert!(line.contains(".c ") && line.ends_with(clangd.to_str().unwrap()), "{line}");
    assert!(!listed.out.contains("rust-analyzer"), "{}", listed.out);
    assert!(listed.out.contains("81 more are known"), "{}", listed.out);
    assert!(listed.out.contains("none starts before `trusted`"), "{}", listed.out);
    let all = bridle(&scene, &["lsp", "list", "--all"]).await.out;
    assert!(all.contains("rust-analyzer  .rs  not there: `rust-analyzer` is not on"), "{all}");
    // A file that exists in no project, and one that no server is for.
    let file = bridle(&scene, &["lsp", "list", "src/a.cpp"]).await.out;
    let workspace = fs_err::canonicalize(scene.place.workspace()).unwrap();
    let root = format!("in {} (not trusted)", workspace.display());
    assert!(file.starts_with("clangd") && file.contains(&root), "{file}");
    let none = bridle(&scene, &["lsp", "list", "a.nothing"]).await.out;
    assert!(none.starts_with("no server is for "), "{none}");
    let ordered = bridle(&scene, &["lsp", "list", "a.py"]).await.out;
    let ty = ordered.find("ty  ").unwrap();
    assert!(ty < ordered.find("\npyright  ").unwrap(), "{ordered}");
    assert!(ordered.contains("    pip install ty\n"), "{ordered}");
}

#[tokio::test]
async fn what_the_user_says_is_shown_and_its_faults_are_told() {
    let scene = Scene::new(Script::new()).await;
    let mine = program(&scene, "mine", "exit 0");
    program(&scene, "clangd", "exit 1");
    program(&scene, "zls", "exit 1");
    let workspace = scene.place.workspace();
    let config = format!(
        "[lsp]\ntrusted = [{workspace:?}]\nmax_servers = 2\n[lsp.clangd]\nenabled = false\n\
         [lsp.mine]\ncommand = {mine:?}\nfiles = {{ \".c\" = \"c\" }}\nenv = {{ T = \"${{OUTER_KEY}}\" }}\n\
         [lsp.zlz]\nargs = [\"x\"]\n",
    );
    scene.place.configure("config.toml", config);
    let tools = scene.place.user_home().join("tools");
    let launch = |arguments: &[&str]| {
        let launch = scene.place.launch(arguments).env("PATH", &tools);
        launch.env("OUTER_KEY", "k3y-from-outside")
    };
    let output = launch(&["lsp", "list"]).output().await;
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "a fault is told: {error}");
    assert!(out.starts_with("mine  .c  "), "{out}");
    assert!(out.contains("\nclangd  (off)\n") && !out.contains("none starts"), "{out}");
    let fault = "lsp.zlz: Bridle does not know a server of that name, so it needs a `command` and `files` \
                 (did you mean `zls`?)";
    assert!(error.contains(fault), "{error}");
    let file = launch(&["lsp", "list", "a.c"]).output().await;
    let file = String::from_utf8_lossy(&file.stdout).into_owned();
    assert!(file.starts_with("mine") && !file.contains("not trusted"), "{file}");
    let shown = launch(&["config", "show"]).output().await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for row in [
        "lsp.clangd = (off)  # ",
        "lsp.mine = (new)  # ",
        "lsp.max_servers = 2  # ",
        "lsp.enabled = true  # built in",
        "lsp.trusted = /",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    assert!(!shown.contains("k3y-from-outside"), "{shown}");
}

/// Fault 8: a program that is no server says why.
#[tokio::test]
async fn a_server_that_does_not_answer_is_told_with_its_last_words() {
    let scene = Scene::new(Script::new()).await;
    program(&scene, "rust-analyzer", "echo 'error: Unknown binary rust-analyzer' >&2; exit 1");
    let checked = bridle(&scene, &["lsp", "check"]).await;
    assert_eq!(checked.code, 1);
    assert!(checked.out.starts_with("FAIL  rust-analyzer: "), "{}", checked.out);
    assert!(checked.out.contains("Unknown binary rust-analyzer"), "{}", checked.out);
    let doctor = bridle(&scene, &["doctor"]).await;
    let line = doctor.out.lines().find(|line| line.contains("language server rust-analyzer (.rs)"));
    let line = line.unwrap_or_else(|| panic!("{}", doctor.out));
    assert!(line.starts_with("note  ") && line.contains("Unknown binary"), "{line}");
    let named = bridle(&scene, &["lsp", "check", "gopls", "nosuch"]).await;
    assert_eq!(named.code, 1);
    let told = "FAIL  gopls: `gopls` is not on the search path; go install";
    assert!(named.out.starts_with(told), "{}", named.out);
    assert!(named.error.contains("there is no server nosuch"), "{}", named.error);
    let log = bridle(&scene, &["lsp", "log", "--server", "ty"]).await;
    assert!(log.error.contains("no language server ty said anything"), "{}", log.error);
}

/// What a program that is no server says, wherever it says it, is told and written down.
#[tokio::test]
async fn what_a_program_says_that_is_no_server_is_told_and_written_down() {
    let scene = Scene::new(Script::new()).await;
    program(&scene, "clangd", "echo 'usage: clangd FILE'; echo 'no such option' >&2; exit 3");
    program(&scene, "zls", "exit 4");
    let checked = bridle(&scene, &["lsp", "check"]).await;
    assert_eq!(checked.code, 1);
    for told in ["it exited with code 3", "is no message: usage: clangd FILE", "no such option"] {
        assert!(checked.out.contains(told), "{told}: {}", checked.out);
    }
    let log = bridle(&scene, &["lsp", "log"]).await.out;
    for told in
        ["no such option", "usage: clangd FILE", "it was tried out in vain: it exited with code 4"]
    {
        assert!(log.contains(told), "{told}: {log}");
    }
    let log = bridle(&scene, &["lsp", "log", "--server", "zls"]).await.out;
    assert!(log.contains("code 4") && !log.contains("code 3"), "{log}");
}

#[tokio::test]
async fn a_session_shows_which_servers_there_are() {
    let scene = Scene::new(Script::new()).await;
    let clangd = program(&scene, "clangd", "exit 1");
    let tools = scene.place.user_home().join("tools");
    let launch = scene.place.acp(&scene.model.url()).env("PATH", tools);
    let (mut client, session) = bridle_tests::Client::in_session(&scene.place, &launch).await;
    client.prompt(&session, "/lsp").await.ok();
    let told = client.trace().text(&session);
    assert!(told.contains("None starts here: "), "{told}");
    assert!(told.contains("- clangd (.c"), "{told}");
    assert!(told.contains(&format!("): not asked yet, `{}`", clangd.display())), "{told}");
    assert!(!told.contains("rust-analyzer"), "{told}");
    assert!(scene.requests().is_empty(), "no model was asked");
    client.finish(&scene.place).await;
}
