//! Keys: how they are kept, where they come from, and where alone they go.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bridle_model_server::{ModelServer, Script};
use bridle_tests::{Client, Launch, Place};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::scene::Scene;

const KEY: &str = "sk-marker-login-2208";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program that stays at `place` and prints what `body` does.
fn script(place: &Place, name: &str, body: &str) -> String {
    let path = place.user_home().join(name);
    fs_err::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.display().to_string()
}

/// A provider row with the address of the model, and more.
fn provider(model: &ModelServer, more: &str) -> String {
    format!("[providers.anthropic]\nbase_url = \"{}\"\n{more}\n", model.url())
}

fn exec(place: &Place) -> Launch {
    place.launch(["exec", "go"])
}

fn mode(path: &Path) -> u32 {
    fs_err::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_key_from_a_pipe_is_kept_privately_used_and_removed() {
    let scene = Scene::new(Script::new().key(KEY)).await;
    scene.place.configure("config.toml", provider(&scene.model, ""));
    let credentials = scene.place.bridle_home().join("credentials.toml");
    let open = ["/bin/sh", "-c", "umask 000; exec \"$@\"", "sh"];
    let login = scene.place.launch(["login", "anthropic"]).through(open);
    let output = login.output_of(&format!("  {KEY}\n")).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(mode(&credentials), 0o600);
    assert!(!text(&output.stderr).contains(KEY) && output.stdout.is_empty());

    let output = exec(&scene.place).output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.model.requests()[0].header("x-api-key"), Some(KEY));
    let shown = scene.place.launch(["config", "show"]).output().await;
    assert!(!text(&shown.stdout).contains(KEY) && text(&shown.stdout).contains("(set)"));

    let output = scene.place.launch(["logout", "anthropic"]).output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!fs_err::read_to_string(&credentials).unwrap().contains(KEY));
    let output = exec(&scene.place).output().await;
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("bridle login"), "{}", text(&output.stderr));
    assert_eq!(scene.model.requests().len(), 1);
}

/// A terminal: the end of the person, and the end of the program.
fn terminal() -> (OwnedFd, std::fs::File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
    let options = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(name, options, Mode::empty()).unwrap();
    rustix::fs::fcntl_setfl(&person, OFlags::NONBLOCK).unwrap();
    (person, program.into())
}

fn shows_what_is_typed(terminal: &std::fs::File) -> bool {
    tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ECHO)
}

/// At a terminal a key is typed unseen, and whatever ends the question leaves the terminal as it
/// was.
#[tokio::test]
async fn a_key_typed_at_a_terminal_is_not_shown() {
    let scene = Scene::new(Script::new().key(KEY)).await;
    scene.place.configure("config.toml", provider(&scene.model, ""));
    let credentials = scene.place.bridle_home().join("credentials.toml");
    for (typed, code) in [("sk-half\x03", 130), (&*format!("{KEY}!\x7f\n"), 0)] {
        let (person, program) = terminal();
        let mut login = scene.place.launch(["login", "anthropic"]).command();
        let login = login.stdin(program.try_clone().unwrap()).spawn().unwrap();
        let muted = async {
            while shows_what_is_typed(&program) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(bridle_tests::DEADLINE, muted).await.expect("it never asks");
        rustix::io::write(&person, typed.as_bytes()).unwrap();
        let ended = tokio::time::timeout(bridle_tests::DEADLINE, login.wait_with_output()).await;
        let output = ended.expect("it ends").unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("Key of anthropic (it is not shown)"));
        assert!(shows_what_is_typed(&program), "the terminal stays mute");
        let mut shown = [0; 4096];
        let count = rustix::io::read(&person, &mut shown).unwrap_or(0);
        let shown = text(&shown[..count]) + &text(&output.stderr);
        assert!(!shown.contains("sk-"), "{shown}");
        assert_eq!(credentials.exists(), code == 0);
    }
    let output = exec(&scene.place).output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.model.requests()[0].header("x-api-key"), Some(KEY));
}

#[tokio::test]
async fn a_key_that_is_none_changes_nothing() {
    let place = Place::new();
    let before = place.configure("credentials.toml", "# mine\n");
    for (arguments, input, code) in [
        (["login", "anthropic"], "", 1),
        (["login", "anthropic"], "two words\n", 1),
        (["login", "nobody"], KEY, 2),
        (["login", "openai"], KEY, 2),
    ] {
        let output = place.launch(arguments).output_of(input).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains(KEY));
        assert_eq!(fs_err::read_to_string(&before).unwrap(), "# mine\n");
    }
    fs_err::write(&before, "[broken\n").unwrap();
    let output = place.launch(["login", "anthropic"]).output_of(KEY).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mend it"), "{}", text(&output.stderr));
    assert_eq!(fs_err::read_to_string(&before).unwrap(), "[broken\n");
}

#[tokio::test]
async fn a_credentials_file_that_others_can_read_is_not_used() {
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", provider(&scene.model, ""));
    let file = format!("[providers.anthropic]\napi_key = \"{KEY}\"\n");
    let path = scene.place.configure("credentials.toml", file);
    for open in [0o644, 0o640, 0o604] {
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(open)).unwrap();
        let output = exec(&scene.place).output().await;
        assert_ne!(output.status.code(), Some(0), "{open:o}");
        assert!(text(&output.stderr).contains("chmod 600"), "{}", text(&output.stderr));
    }
    assert_eq!(scene.requests().len(), 0);
}

/// A stored key is not sent to an address that a variable names.
#[tokio::test]
async fn a_stored_key_does_not_follow_a_variable_to_another_host() {
    let scene = Scene::new(Script::new()).await;
    let file = format!("[providers.anthropic]\napi_key = \"{KEY}\"\n");
    scene.place.configure("credentials.toml", file);
    let launch = exec(&scene.place).env("ANTHROPIC_BASE_URL", scene.model.url());
    let output = launch.output().await;
    assert_ne!(output.status.code(), Some(0));
    let told = text(&output.stderr);
    assert!(told.contains("was given for another address"), "{told}");
    assert!(!told.contains(KEY));
    assert_eq!(scene.requests().len(), 0);
    let output = launch.env("ANTHROPIC_API_KEY", "its-own").output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.model.requests()[0].header("x-api-key"), Some("its-own"));
}

/// The command runs once for many requests, without a shell, and anew when its key is refused.
#[tokio::test]
async fn a_command_prints_the_key_and_is_asked_again_when_it_is_refused() {
    let scene = Scene::new(Script::new().key("key-3")).await;
    let body = "echo run >> $HOME/runs; printenv > $HOME/environment; \
                echo key-$(wc -l < $HOME/runs | tr -d ' '); echo noise-of-$1 >&2";
    let program = script(&scene.place, "print-key", body);
    let command = format!("credential_command = [{program:?}, \"$HOME; id\"]");
    scene.place.configure("config.toml", provider(&scene.model, &command));
    let runs =
        || fs_err::read_to_string(scene.place.user_home().join("runs")).unwrap().lines().count();
    let launch = scene.place.launch(["acp"]).env("OTHER_API_KEY", KEY);
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    // The first key is refused, and so is the second: no third try.
    assert_eq!(client.prompt(&session, "one").await.code(), -32000);
    assert_eq!((runs(), scene.requests().len()), (2, 2));
    // The second one is kept, and refused again; then the third one works, and stays.
    assert_eq!(client.prompt(&session, "two").await.stop_reason(), "end_turn");
    assert_eq!(client.prompt(&session, "three").await.stop_reason(), "end_turn");
    assert_eq!((runs(), scene.requests().len()), (3, 5));
    let trace = client.finish(&scene.place).await;
    let log = serde_json::to_string(&scene.log(&session)).unwrap();
    for place in [trace.to_string(), trace.stderr().to_owned(), log] {
        assert!(!place.contains("key-3") && !place.contains("noise-of"), "{place}");
    }
    let environment = fs_err::read_to_string(scene.place.user_home().join("environment")).unwrap();
    assert!(!environment.contains(KEY), "{environment}");
}

#[tokio::test]
async fn a_command_that_fails_says_so_and_not_what_it_printed() {
    let scene = Scene::new(Script::new()).await;
    let broken = script(&scene.place, "broken", &format!("echo {KEY}; echo {KEY} >&2; exit 3"));
    let silent = script(&scene.place, "silent", "true");
    for (program, reason) in [
        (broken.as_str(), "exit status: 3"),
        (silent.as_str(), "printed no key"),
        ("/no/such/program", "cannot be started"),
    ] {
        let command = format!("credential_command = [{program:?}]");
        scene.place.configure("config.toml", provider(&scene.model, &command));
        let output = exec(&scene.place).output().await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(reason) && !told.contains(KEY), "{told}");
    }
    assert_eq!(scene.requests().len(), 0);
}

/// A proxy of the environment is used for other hosts, and not where NO_PROXY says so.
#[tokio::test]
async fn a_proxy_carries_the_requests() {
    let scene = Scene::new(Script::new()).await;
    let launch = exec(&scene.place)
        .env("ANTHROPIC_BASE_URL", "http://model.invalid")
        .env("ANTHROPIC_API_KEY", KEY)
        .env("HTTP_PROXY", scene.model.url());
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.requests().len(), 1, "the model server stood in for the proxy");
    let around = scene.place.launch(["models", "--refresh"]);
    let around = around
        .env("ANTHROPIC_BASE_URL", "http://model.invalid")
        .env("ANTHROPIC_API_KEY", KEY)
        .env("HTTP_PROXY", scene.model.url())
        .env("NO_PROXY", "model.invalid");
    let output = around.output().await;
    assert_eq!(output.status.code(), Some(1), "there is no such host");
    assert_eq!(scene.requests().len(), 1);
}
