//! The command line itself: what is accepted, what is a usage error, what `--help` promises.

use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(line.split(' '))
}

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn what_is_not_understood_is_a_usage_error() {
    for line in [
        "bridle",
        "bridle --verbose acp",
        "bridle acp --unknown",
        "bridle exec",
        "bridle exec --permissions everything x",
        "bridle sessions show ../../etc/passwd",
        "bridle sessions show last --last 0",
        "bridle sessions list --since yesterday",
        "bridle sessions verify",
        "bridle sessions verify --all last",
        "bridle sessions export last --format pdf",
        "bridle sessions fork last --at -1",
        "bridle sessions rename last",
        "bridle sessions rm",
        "bridle sessions search",
        "bridle sessions search --limit 0 x",
        "bridle sesions list",
    ] {
        let error = parse(line).err().unwrap();
        assert!(error.use_stderr(), "{line}");
    }
}

#[test]
fn the_names_that_others_rely_on_are_accepted() {
    for line in [
        "bridle acp",
        "bridle acp login",
        "bridle acp --model anthropic/claude-sonnet-5-5 login anthropic",
        "bridle acp --model anthropic/claude-sonnet-5-5",
        "bridle exec --json --permissions auto --model deepseek/deepseek-flash --cwd /tmp x",
        "bridle exec -",
        "bridle sessions list --folder . --since 7d --before 2026-11-30 --json",
        "bridle sessions show last --last 2 --json",
        "bridle sessions show 01a2",
        "bridle sessions verify --all --json",
        "bridle sessions export last --format html -o a.html --force",
        "bridle sessions export --all --since 2w --format markdown -o folder",
        "bridle sessions fork last --at 3 --title x --json",
        "bridle sessions rename last title",
        "bridle sessions rm last 01a2 --yes",
        "bridle sessions gc --dry-run --json",
        "bridle sessions search some words --since 1d --limit 3 --json",
        "bridle sessions path last",
        "bridle sessions verify 01a2313b-6f57-74ab-a469-e7b658bf25e8",
        "bridle config show",
        "bridle config path",
        "bridle doctor",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

/// S29: what looks like an option and stands where a value or the prompt is expected is never one.
#[test]
fn a_value_that_looks_like_an_option_sets_nothing() {
    for line in [
        "bridle exec --permissions=full-access",
        "bridle exec x --permissions=full-access y",
        "bridle exec --model --permissions=full-access x",
        "bridle exec --cwd --permissions=full-access x",
        "bridle exec --permissions= x",
        "bridle acp --model --login",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    for (line, prompt) in [
        ("bridle exec -- --permissions=full-access", "--permissions=full-access"),
        ("bridle exec --cwd=--permissions=full-access x", "x"),
        ("bridle exec --model=--permissions=full-access -- -", "-"),
    ] {
        let all = Arguments::command().try_get_matches_from(line.split(' ')).unwrap();
        let exec = all.subcommand_matches("exec").unwrap();
        assert_eq!(exec.get_one::<String>("prompt").map(String::as_str), Some(prompt), "{line}");
        assert!(!exec.contains_id("permissions"), "{line}");
    }
}

#[test]
fn help_names_every_exit_code_and_is_no_error() {
    for line in ["bridle --help", "bridle exec --help"] {
        let help = parse(line).err().unwrap();
        assert!(!help.use_stderr());
        let text = help.to_string();
        for exit in [Exit::Done, Exit::Failed, Exit::Usage, Exit::Blocked, Exit::Cancelled] {
            let line = format!("\n  {} ", exit as u8);
            assert!(text.contains(&line), "{exit:?} is missing in: {text}");
        }
    }
}
