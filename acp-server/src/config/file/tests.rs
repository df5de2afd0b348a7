//! The form of a configuration file, and how its faults are told.

use std::path::Path;

use expect_test::{Expect, expect};

use super::{FileKind, Setting, parse};

fn check(text: &str, kind: FileKind, expected: &Expect) {
    let layer = parse(text, Path::new("c.toml"), kind);
    let mut out = String::new();
    for entry in &layer.entries {
        let shown = match &entry.setting {
            Setting::ApiKey(provider, _) => format!("ApiKey({provider})"),
            other => format!("{other:?}"),
        };
        out += &format!("{shown} from {}\n", entry.source);
    }
    layer.problems.iter().for_each(|problem| out += &format!("! {problem}\n"));
    expected.assert_eq(&out);
}

#[test]
fn every_key_is_read_with_its_line() {
    check(
        "model = \"deepseek/deepseek-flash\"\nmode = \"auto\"\nfull_access = true\n\n\
         [providers.anthropic]\napi_key = \"k\"\nbase_url = \"http://127.0.0.1:1\"\n",
        FileKind::Config,
        &expect![[r#"
            FullAccess(true) from c.toml:3
            Mode(Auto) from c.toml:2
            Model("deepseek/deepseek-flash") from c.toml:1
            ApiKey(anthropic) from c.toml:6
            BaseUrl("anthropic", "http://127.0.0.1:1") from c.toml:7
        "#]],
    );
}

#[test]
fn a_sandbox_takes_absolute_folders_and_known_tiers() {
    check(
        "[sandbox]\nat_most = \"landlock\"\nwritable = [\"/cache\", \"relative\", 3, \"/./\"]\nmax_processes = 64\n",
        FileKind::Config,
        &expect![[r#"
            SandboxTier(Landlock) from c.toml:2
            MaxProcesses(64) from c.toml:4
            Writable("/cache") from c.toml:3
            ! c.toml:3: `writable` must be a list of absolute folders; ignored
            ! c.toml:3: `writable` must be a list of absolute folders; ignored
            ! c.toml:3: `writable` names the whole machine, ignored; name folders
        "#]],
    );
    check(
        "[sandbox]\nat_most = \"ful\"\nwritable = \"/cache\"\nnetwork = true\nmax_processes = 0\n",
        FileKind::Config,
        &expect![[r#"
            ! c.toml:2: unknown tier `ful`, ignored; did you mean `full`?
            ! c.toml:3: `writable` must be a list of folders; ignored
            ! c.toml:4: unknown key `network`, ignored; known are at_most, max_processes, writable
            ! c.toml:5: `max_processes` must be a whole number from 1; ignored
        "#]],
    );
    check(
        "sandbox = false\n",
        FileKind::Config,
        &expect![[r#"
        ! c.toml:1: `sandbox` must be a table; ignored
    "#]],
    );
}

#[test]
fn a_broken_line_does_not_lose_the_others() {
    check(
        "model = \"anthropic/x\"\nmode = = \"auto\"\nfull_access = true\n",
        FileKind::Config,
        &expect![[r#"
            FullAccess(true) from c.toml:3
            Model("anthropic/x") from c.toml:1
            ! c.toml:2: extra `=`, expected nothing; the rest of the file is used
            ! c.toml:2: unexpected key or value, expected newline, `#`; the rest of the file is used
        "#]],
    );
}

#[test]
fn unknown_names_and_wrong_types_are_named_with_a_hint() {
    check(
        "modle = \"x\"\nfull_access = \"yes\"\nmode = \"aks\"\nmodel = 3\nsomething = 1\n\
         [providers.antropic]\napi_key = \"k\"\n[providers.deepseek]\napikey = \"k\"\n\
         base_url = \"\"\n",
        FileKind::Config,
        &expect![[r#"
            ! c.toml:1: unknown key `modle`, ignored; did you mean `model`?
            ! c.toml:2: `full_access` must be true or false; ignored
            ! c.toml:3: unknown mode `aks`, ignored; did you mean `ask`?
            ! c.toml:4: `model` must be a text in quotes; ignored
            ! c.toml:5: unknown key `something`, ignored; known are model, thinking, fallback, mode, full_access, apply_patch, terminal, ca_file, budget, compaction, idle_timeout_s, permissions, sandbox, instructions, mcp, lsp, skills, sessions, models, providers
            ! c.toml:6: unknown provider `antropic`, ignored; did you mean `anthropic`?
            ! c.toml:9: unknown key `apikey`, ignored; did you mean `api_key`?
        "#]],
    );
}

#[test]
fn the_form_of_session_logs_is_zstd_or_none() {
    check(
        "[sessions]\ncompression = \"none\"\n",
        FileKind::Config,
        &expect![[r#"
            Compression(None) from c.toml:2
        "#]],
    );
    check(
        "[sessions]\ncompression = \"gzip\"\ncompresion = \"none\"\n",
        FileKind::Config,
        &expect![[r#"
            ! c.toml:2: unknown compression `gzip`, ignored; known are zstd, none
            ! c.toml:3: unknown key `compresion`, ignored; did you mean `compression`?
        "#]],
    );
    check(
        "sessions = 1\n",
        FileKind::Config,
        &expect![[r#"
            ! c.toml:1: `sessions` must be a table; ignored
        "#]],
    );
}

#[test]
fn budgets_levels_commands_and_models_are_read_and_their_faults_named() {
    check(
        "thinking = \"high\"\nfallback = \"deepseek/x\"\n[budget]\nturn_steps = 5\n\
         session_cost = 1.5\ncurrency = \"EUR\"\n[providers.anthropic]\n\
         credential_command = [\"pass\", \"x\"]\napi_key_variable = \"MY_KEY\"\n",
        FileKind::Config,
        &expect![[r#"
            Budget("currency", String("EUR")) from c.toml:6
            Budget("session_cost", Number(1.5)) from c.toml:5
            Budget("turn_steps", Number(5)) from c.toml:4
            Fallback("deepseek/x") from c.toml:2
            KeyVariable("anthropic", "MY_KEY") from c.toml:9
            KeyCommand("anthropic", ["pass", "x"]) from c.toml:8
            Thinking(High) from c.toml:1
        "#]],
    );
    check(
        "thinking = \"hihg\"\n[budget]\nturn_steps = 0\nturn_cost = \"1\"\nturn_step = 3\n\
         currency = \"usd\"\n[providers.anthropic]\ncredential_command = \"pass x\"\n\
         [models.opus]\nwindow = 1\n[models.\"anthropic/x\"]\nwindov = 1\n",
        FileKind::Config,
        &expect![[r#"
            ! c.toml:1: unknown thinking level `hihg`, ignored; did you mean `high`?
            ! c.toml:3: `turn_steps` must be a whole number from 1; ignored
            ! c.toml:4: `turn_cost` must be a number above 0; ignored
            ! c.toml:5: unknown key `turn_step`, ignored; did you mean `turn_steps`?
            ! c.toml:6: `currency` must be three capital letters, as in "USD"; ignored
            ! c.toml:8: `credential_command` must be a list of texts; ignored
            ! c.toml:9: `opus` names no model; write provider/model; ignored
            ! c.toml:12: model anthropic/x: unknown field `windov`, expected one of `name`, `window`, `max_output`, `thinking`, `levels`, `default_level`, `inputs`, `system_messages`, `prices`; ignored
        "#]],
    );
}

#[test]
fn credentials_hold_keys_only() {
    check(
        "model = \"anthropic/x\"\n[providers.deepseek]\napi_key = \"k\"\nbase_url = \"http://h\"\n",
        FileKind::Credentials,
        &expect![[r#"
            ApiKey(deepseek) from c.toml:3
            ! c.toml:1: `model` belongs in config.toml; ignored
            ! c.toml:4: `base_url` belongs in config.toml; ignored
        "#]],
    );
}

#[test]
fn the_built_in_defaults_have_no_fault() {
    let layer = parse(include_str!("../builtin.toml"), Path::new("b"), FileKind::BuiltIn);
    assert_eq!(layer.problems, Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_key_in_a_file_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials.toml");
    fs_err::write(&path, "[providers.anthropic]\napi_key = \"k\"\n").unwrap();
    for (mode, problems) in [(0o600, 0), (0o644, 1), (0o640, 1)] {
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let layer = super::read(&path, FileKind::Credentials);
        assert_eq!(layer.entries.len(), 1 - problems, "its key is not used");
        assert_eq!(layer.problems.len(), problems, "{mode:o}: {:?}", layer.problems);
    }
}

#[test]
fn a_folder_in_the_place_of_the_file_is_a_problem_not_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let layer = super::read(folder.path(), FileKind::Config);
    let [entry] = layer.entries.as_slice() else { panic!("{:?}", layer.entries) };
    assert!(matches!(entry.setting, Setting::FaultyRules), "it may have held rules");
    assert!(layer.problems.concat().contains("is not a regular file"), "{:?}", layer.problems);
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_a_problem_and_a_missing_file_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    assert_eq!(super::read(&path, FileKind::Config).problems, Vec::<String>::new());
    std::os::unix::fs::symlink("gone/config.toml", &path).unwrap();
    let problems = super::read(&path, FileKind::Config).problems.concat();
    assert!(problems.contains("config.toml: is a link to nothing"), "{problems}");
}

#[test]
fn rules_under_another_name_are_rules_that_could_not_be_read() {
    check(
        "ca_file = \"/no/ca.pem\"\n[permission]\ndeny = [\"run rm\"]\n",
        FileKind::Config,
        &expect![[r#"
            CaFile("/no/ca.pem") from c.toml:1
            FaultyRules from c.toml:2
            ! c.toml:1: `ca_file`: there is no file /no/ca.pem
            ! c.toml:2: unknown key `permission`, ignored; did you mean `permissions`?
        "#]],
    );
}

#[test]
fn rules_are_read_and_what_is_no_rule_is_named_and_told_to_the_policy() {
    check(
        "[permissions]\nallow = [\n  \"write /w/**\",\n  \"write w\",\n  3,\n]\ndeny = \"run rm\"\n\
         alow = []\n",
        FileKind::Config,
        &expect![[r#"
            Rule(Rule { effect: Allow, target: Write(Pattern(["w", "**"])), text: "write /w/**" }) from c.toml:3
            FaultyRules from c.toml:1
            ! c.toml:4: `w`: the path must be absolute, without `.`, `..`, empty parts or a slash at the end; until it is right, no rule allows anything and changes ask
            ! c.toml:5: `allow` must be a list of rules in quotes; ignored
            ! c.toml:7: `deny` must be a list of rules in quotes; ignored
            ! c.toml:8: unknown key `alow`, ignored; did you mean `allow`?
        "#]],
    );
    check(
        "[permissions]\ndeny = [\"run rm\", \"read /x\n]\n",
        FileKind::Config,
        &expect![[r#"
        FaultyRules from c.toml:1
        Rule(Rule { effect: Deny, target: Run(CommandRule { text: "rm", words: Some(["rm"]), open: false }), text: "run rm" }) from c.toml:2
        Rule(Rule { effect: Deny, target: Read(Pattern(["x"])), text: "read /x" }) from c.toml:2
        ! c.toml:2: invalid basic string, expected `"`; the rest of the file is used
    "#]],
    );
    check(
        "[permissions]\ndeny = [\"run rm ...\"]\n",
        FileKind::Config,
        &expect![[r#"
        Rule(Rule { effect: Deny, target: Run(CommandRule { text: "rm", words: Some(["rm"]), open: true }), text: "run rm ..." }) from c.toml:2
    "#]],
    );
}
