//! Modes and rules together, access by access.

use bridle_session::ToolCallId;

use super::*;
use crate::display::Display;
use crate::mode::{Mode, Sandboxing};

fn rules(lines: &[&str]) -> ModeTable {
    let mut config = RulesConfig::default();
    for line in lines {
        let (effect, rule) = line.split_once(' ').unwrap();
        let list = match effect {
            "allow" => &mut config.allow,
            "ask" => &mut config.ask,
            _ => &mut config.deny,
        };
        list.push(rule.to_owned());
    }
    ModeTable { rules: Rules::new(&config).unwrap() }
}

fn judge(table: &ModeTable, mode: Mode, accesses: Vec<Access>) -> (char, Option<String>) {
    let display = Display::new("x", ToolKind::Other);
    let (id, name) = (ToolCallId::new("1"), "t".to_owned());
    let call = CallInfo { id, name, arguments: "{}".to_owned(), accesses, display, mode };
    let judged = table.rule(&call);
    let letter = match judged.ruling {
        Ruling::Allow => 'a',
        Ruling::Ask(_) => '?',
        Ruling::Deny(_) | Ruling::Cancel => 'd',
    };
    (letter, judged.rule)
}

fn write(path: &str) -> Access {
    Access::WriteInside(path.into())
}

fn run(command: &str, network: bool) -> Access {
    let (command, sandboxing) = (command.to_owned(), Sandboxing::Unavailable);
    Access::Run { command, network, unconfined: false, reason: None, sandboxing }
}

fn external(changed: bool) -> Access {
    Access::External { server: "s".into(), changed }
}

/// One letter per mode in the order of `Mode::ALL`.
fn row(table: &ModeTable, access: &Access) -> String {
    Mode::ALL.map(|mode| judge(table, mode, vec![access.clone()]).0).into_iter().collect()
}

#[test]
fn rules_and_modes_make_one_table() {
    for (lines, access, expected) in [
        (&[][..], write("/w/a"), "dd?aa"),
        (&["allow write /w/**"], write("/w/a"), "ddaaa"),
        (&["ask write /w/**"], write("/w/a"), "dd???"),
        (&["deny write /w/**"], write("/w/a"), "ddddd"),
        (&["allow write /w/**", "ask write /w/a"], write("/w/a"), "dd???"),
        (&["allow write /w/a", "ask write /w/a", "deny write /*/a"], write("/w/a"), "ddddd"),
        (&["allow read /w/**"], write("/w/a"), "dd?aa"),
        (&["allow read /etc/**"], Access::ReadOutside("/etc/x".into()), "aaaaa"),
        (&["deny read /w/**"], Access::ReadInside("/w/a".into()), "ddddd"),
        (&["deny read /w/**"], write("/w/a"), "ddddd"),
        (&["allow write /w/**"], Access::WriteOutside("/w/.git/config".into()), "dd??a"),
        (&["deny write /w/**"], Access::WriteOutside("/w/.git/config".into()), "ddddd"),
        (&["allow run git status"], run("git status", false), "ddaaa"),
        (&["allow run git status"], run("git status", true), "dd??a"),
        (&["allow run git status"], run("git status; rm -rf /", false), "dd??a"),
        (&["deny run rm ..."], run("git status; rm -rf /", false), "ddddd"),
        (&["allow tool t"], external(false), "ddaaa"),
        (&["allow tool u"], external(false), "dd??a"),
        (&["allow tool t"], external(true), "dd??a"),
        (&["deny tool t"], external(true), "ddddd"),
        (&["deny tool t"], write("/w/a"), "ddddd"),
    ] {
        assert_eq!(row(&rules(lines), &access), expected, "{lines:?} on {access:?}");
    }
}

#[test]
fn the_rule_that_decided_is_named() {
    let table = rules(&["allow write /w/a", "deny write /w/b", "ask write /w/c"]);
    let judged = |accesses| judge(&table, Mode::Ask, accesses);
    let named = |rule: &str| Some(rule.to_owned());
    assert_eq!(judged(vec![write("/w/a")]), ('a', named("allow write /w/a")));
    assert_eq!(judged(vec![write("/w/a"), write("/w/b")]), ('d', named("deny write /w/b")));
    assert_eq!(judged(vec![write("/w/a"), write("/w/x")]), ('?', None));
    assert_eq!(judged(vec![write("/w/x"), write("/w/c")]), ('?', named("ask write /w/c")));
}

#[test]
fn rules_that_could_not_be_read_let_nothing_through() {
    let config = RulesConfig { faulty: true, ..RulesConfig::default() };
    let table = ModeTable { rules: Rules::new(&config).unwrap() };
    assert_eq!(row(&table, &write("/w/a")), "dd???");
    assert_eq!(row(&table, &Access::ReadInside("/w/a".into())), "aaaaa");
    assert_eq!(row(&table, &Access::ReadOutside("/w/a".into())), "?????");
}
