//! What `[lsp]` resolves to, and how its faults are told.

use std::path::Path;

use expect_test::{Expect, expect};

use super::super::file::{FileKind, Setting, parse};
use super::*;

fn settle(text: &str) -> (LspConfig, Vec<Row>, Vec<String>) {
    let variables = [("HOME".into(), "/home/u".into()), ("TOOLS".into(), "/opt/tools".into())];
    let environment = Environment::new(variables, [("A_TOKEN".to_owned(), "t0k3n".to_owned())]);
    let layer = parse(text, Path::new("c.toml"), FileKind::Config);
    let (mut winners, mut rows, mut problems) = (LspWinners::default(), Vec::new(), layer.problems);
    for entry in layer.entries {
        let Setting::Lsp(setting) = entry.setting else { panic!("{:?}", entry.setting) };
        winners.set(setting, entry.source);
    }
    let state = Some(Path::new("/state"));
    let config = winners.settle(state, &environment, &mut rows, &mut problems);
    (config, rows, problems)
}

fn check(text: &str, expected: &Expect) {
    let (_, rows, problems) = settle(text);
    let mut out = String::new();
    rows.iter().for_each(|row| out += &format!("{} = {}  # {}\n", row.key, row.value, row.source));
    problems.iter().for_each(|problem| out += &format!("! {problem}\n"));
    expected.assert_eq(&out);
}

#[test]
fn without_a_word_of_the_user_nothing_is_trusted() {
    let (config, rows, problems) = settle("");
    assert!(config.enabled && config.settings.trusted.is_empty());
    assert_eq!(config.settings.servers, ServerTable::built_in().servers());
    assert_eq!(config.settings.log.as_deref(), Some(Path::new("/state/lsp.log")));
    assert!(rows.is_empty() && problems.is_empty(), "{problems:?}");
}

#[test]
fn what_the_user_says_holds() {
    let text = r#"
        [lsp]
        enabled = false
        trusted = ["~/src", "/work"]
        after_edit = false
        max_servers = 2
        rest_after_s = 180
        max_memory_mib = 300
        [lsp.ty]
        enabled = false
        [lsp.rust-analyzer]
        command = "${TOOLS}/ra"
        args = ["--x=${NO:-y}"]
        env = { T = "${A_TOKEN}" }
        [lsp.mine]
        command = "m"
        files = { ".mine" = "mine" }
    "#;
    let (config, ..) = settle(text);
    let settings = &config.settings;
    assert!(!config.enabled && !settings.after_edit);
    assert_eq!(settings.trusted, [Path::new("/home/u/src"), Path::new("/work")]);
    assert_eq!((settings.most, settings.idle_limit), (2, Duration::from_secs(180)));
    assert_eq!(settings.memory_limit, 300 * 1024 * 1024);
    assert_eq!(config.switched_off, ["ty"]);
    let find = |name: &str| settings.servers.iter().find(|it| it.name == name);
    assert_eq!(find("ty"), None);
    let server = find("rust-analyzer").unwrap();
    assert_eq!(server.command, ["/opt/tools/ra", "--x=y"]);
    assert_eq!(server.environment.pairs, [("T".to_owned(), "t0k3n".to_owned())]);
    assert!(!format!("{config:?}").contains("t0k3n"));
    assert_eq!(find("mine").unwrap().source, "your configuration");
    check(
        text,
        &expect![[r#"
            lsp.mine = (new)  # c.toml:15
            lsp.rust-analyzer = (changed)  # c.toml:11
            lsp.ty = (off)  # c.toml:9
            lsp.trusted = /home/u/src  # c.toml:4
            lsp.trusted = /work  # c.toml:4
            lsp.after_edit = false  # c.toml:5
            lsp.max_servers = 2  # c.toml:6
            lsp.rest_after_s = 180  # c.toml:7
            lsp.max_memory_mib = 300  # c.toml:8
            lsp.enabled = false  # c.toml:3
        "#]],
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_the_rest_is_used() {
    check(
        r#"
        [lsp]
        enable = true
        max_servers = 0
        trusted = ["src", "/", 3, "~other/x", "/work"]
        [lsp.ty]
        comand = "x"
        [lsp.rust-analyser]
        enabled = false
        [lsp.pyright]
        env = { KEY = 7 }
        [lsp.gopls]
        args = ["${A_TOKEN}"]
        [lsp.clangd]
        command = "./clangd"
        [lsp.zls]
        command = "${NOWHERE}/zls"
        [lsp.""]
        command = "x"
        [lsp.mine]
        command = "m"
        "#,
        &expect![[r#"
            lsp.trusted = /work  # c.toml:5
            ! c.toml:3: unknown key `enable`, ignored; did you mean `enabled`?
            ! c.toml:4: `max_servers` must be a whole number from 1; ignored
            ! c.toml:5: `trusted` must be a list of absolute folders, or of ones such as "~/src"; ignored
            ! c.toml:5: `trusted` names the whole machine, ignored; name folders
            ! c.toml:5: `trusted` must be a list of absolute folders, or of ones such as "~/src"; ignored
            ! c.toml:5: `trusted` must be a list of absolute folders, or of ones such as "~/src"; ignored
            ! c.toml:7: lsp.ty: unknown field `comand`, expected one of `command`, `args`, `env`, `files`, `workspace`, `package`, `whole_with`, `purpose`, `settings`, `initialization`, `enabled`, `start_timeout_s`; it is left out
            ! c.toml:11: lsp.pyright: invalid type: integer `7`, expected a string; it is left out
            ! c.toml:18: a language server has a name; ignored
            ! c.toml:14: lsp.clangd: `command` is the name of a program on the search path, or an absolute path; it is left out
            ! c.toml:12: lsp.gopls: A_TOKEN looks like a secret: it may stand in `env`, not in `args`; it is left out
            ! c.toml:20: lsp.mine: Bridle does not know a server of that name, so it needs a `command` and `files`; it is left out
            ! c.toml:8: lsp.rust-analyser: Bridle does not know a server of that name, so it needs a `command` and `files` (did you mean `rust-analyzer`?); it is left out
            ! c.toml:16: lsp.zls: the variable NOWHERE is not set; it is left out
        "#]],
    );
    check(
        "lsp = true\n",
        &expect![[r#"
            ! c.toml:1: `lsp` must be a table; ignored
        "#]],
    );
}

/// Keys that a server is given are known as such, by the name here or by the name where they are from.
#[test]
fn keys_of_a_server_are_known() {
    let text = r#"
        [lsp.mine]
        command = "m"
        files = { ".mine" = "mine" }
        env = { LICENCE_KEY = "written-here", T = "x ${A_TOKEN}", U = "not-secret" }
    "#;
    let environment = Environment::new([], [("A_TOKEN".to_owned(), "t0k3n-t0k3n".to_owned())]);
    let patch: ServerPatch =
        toml::from_str::<toml::Value>(text).unwrap()["lsp"]["mine"].clone().try_into().unwrap();
    let secrets = filled(&patch, &environment).unwrap().secrets;
    let shown = secrets.blank("written-here t0k3n-t0k3n not-secret").into_owned();
    assert_eq!(shown, "[secret] [secret] not-secret");
}
