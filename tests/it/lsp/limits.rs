//! What a server may take of the machine, and settings that become others while servers run.

use super::*;

/// The most questions until something has happened that needs a while.
const PATIENCE: usize = 1_000;

const LIMIT: &str = "max_memory_mib = 400";

impl Code {
    /// Asks until this holds of the answer.
    async fn ask_until(&mut self, holds: impl Fn(&Self, &str) -> bool) -> String {
        for _ in 0..PATIENCE {
            let result = self.nav("hover", "main.toy", 1, "main").await;
            if holds(self, &result) {
                return result;
            }
        }
        panic!("it never came to that");
    }

    fn log(&self) -> String {
        fs_err::read_to_string(self.scene.place.bridle_home().join("state/lsp.log")).unwrap()
    }
}

/// L12: a server that holds more memory than it may is ended and started again; what a child of it holds is
/// its own.
#[tokio::test]
async fn a_server_that_takes_too_much_memory_is_started_again() {
    for takes in ["allocate", "child"] {
        let rules = json!([{"on": "textDocument/hover", "nth": 2, "do": ["good", {takes: 600}]}]);
        let mut it = Code::with(json!({"rules": rules}), &[("main.toy", MAIN)], LIMIT, "").await;
        let result = it.ask_until(|it, _| it.heard("initialize").len() == 2).await;
        assert!(result.contains("def main"), "{takes}: {result}");
        let log = it.log();
        assert!(log.contains("MiB of memory, more than the 400 that"), "{takes}: {log}");
        assert_eq!(it.heard("shutdown").len(), 0, "{takes}");
        it.finish().await;
    }
}

/// L12: one that does so in each of its lives is given up, and the model and the person are told why.
#[tokio::test]
async fn a_server_that_takes_too_much_memory_again_and_again_is_given_up() {
    let rules = json!([{"on": "initialize", "do": [{"allocate": 600}, "good"]}]);
    let mut it = Code::with(json!({"rules": rules}), &[("main.toy", MAIN)], LIMIT, "").await;
    let result = it.ask_until(|_, result| result.contains("lost 4 times")).await;
    assert!(result.contains("MiB of memory, more than the 400 that `max_memory_mib`"), "{result}");
    assert_eq!(it.heard("started").len(), 4);
    it.client.prompt(&it.session, "/lsp").await;
    let told = it.client.trace().text(&it.session);
    assert!(told.contains("more than the 400 that `max_memory_mib` allows"), "{told}");
    it.finish().await;
}

/// L12: a server that nobody asks ends, and the next question starts it again.
#[tokio::test]
async fn a_server_that_nobody_asks_ends() {
    let mut it = Code::with(json!({}), &[("main.toy", MAIN)], "rest_after_s = 1", "").await;
    it.nav("hover", "main.toy", 1, "main").await;
    it.scene.place.appears("heard.exit.1").await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    assert_eq!(it.heard("initialize").len(), 2);
    let log = fs_err::read_to_string(it.scene.place.bridle_home().join("state/lsp.log"));
    assert!(!log.unwrap_or_default().contains("it was lost"));
    it.finish().await;
}

/// Servers that were switched off when the program began are there once the user says so, for sessions that
/// begin then; and are gone again.
#[tokio::test]
async fn servers_are_switched_on_and_off_while_the_program_runs() {
    let off = "enabled = false";
    let mut it = Code::with(json!({}), &[("main.toy", MAIN)], off, "").await;
    let path = it.scene.place.bridle_home().join("config.toml");
    let config = fs_err::read_to_string(&path).unwrap();
    let again = json!({"methodId": "configured-key"});
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("code_nav") && it.heard("started").is_empty(), "{result}");
    fs_err::write(&path, config.replace(off, "enabled = true")).unwrap();
    it.client.request("authenticate", again.clone()).await.ok();
    it.session = it.client.new_session(&it.scene.place).await;
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("def main"), "{result}");
    fs_err::write(&path, &config).unwrap();
    it.client.request("authenticate", again).await.ok();
    it.scene.place.appears("heard.exit.1").await;
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("no language server is known"), "{result}");
    assert_eq!(it.heard("started").len(), 1);
    it.finish().await;
}

/// What is read again when somebody authenticates holds for servers that run, too.
#[tokio::test]
async fn settings_that_are_read_again_reach_the_servers() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN)]).await;
    let path = it.scene.place.bridle_home().join("config.toml");
    let config = fs_err::read_to_string(&path).unwrap();
    let again = json!({"methodId": "configured-key"});
    it.nav("hover", "main.toy", 1, "main").await;
    // Nothing that concerns it: it stays.
    fs_err::write(&path, config.replace("[lsp]", "[lsp]\nmax_servers = 3\nrest_after_s = 900"))
        .unwrap();
    it.client.request("authenticate", again.clone()).await.ok();
    it.nav("hover", "main.toy", 1, "main").await;
    assert_eq!((it.heard("exit").len(), it.heard("initialize").len()), (0, 1));
    // Another one of that name.
    let settings = "initialization = { colour = \"red\" }\n";
    fs_err::write(&path, format!("{config}{settings}")).unwrap();
    it.client.request("authenticate", again.clone()).await.ok();
    it.scene.place.appears("heard.exit.1").await;
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("def main"), "{result}");
    let told = &it.heard("initialize")[1]["params"]["initializationOptions"];
    assert_eq!(*told, json!({"colour": "red"}));
    // A folder that is not trusted any more.
    let elsewhere = it.scene.place.write("trusted/only/here", "");
    let (workspace, only) = (it.scene.place.workspace(), elsewhere.parent().unwrap().to_owned());
    let trusted = |path: &Path| format!("trusted = [\"{}\"]", path.display());
    fs_err::write(&path, config.replace(&trusted(&workspace), &trusted(&only))).unwrap();
    it.client.request("authenticate", again).await.ok();
    it.scene.place.appears("heard.exit.2").await;
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("the user has not said that"), "{result}");
    assert_eq!(it.heard("started").len(), 2);
    it.finish().await;
}
