//! Permission modes and the table that rules on a call. Design: permissions and the sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{Access, Confinement};

/// What a session may do without asking; the later, the more.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing is changed.
    ReadOnly,
    /// Nothing is changed; the model plans.
    Plan,
    /// Every change and every command asks.
    Ask,
    /// Changes inside the roots run.
    Auto,
    /// Everything runs. Only the user's own configuration enables it.
    FullAccess,
}

impl Mode {
    /// All modes, in the order clients show them.
    pub const ALL: [Self; 5] =
        [Self::ReadOnly, Self::Plan, Self::Ask, Self::Auto, Self::FullAccess];

    /// The id on the wire, in the log and in configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::FullAccess => "full-access",
        }
    }

    /// The mode with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// The name a person reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "Read only",
            Self::Plan => "Plan",
            Self::Ask => "Ask",
            Self::Auto => "Auto",
            Self::FullAccess => "Full access",
        }
    }

    /// One sentence for a person.
    pub fn description(self) -> &'static str {
        match self {
            Self::ReadOnly => "Reads, searches and runs commands that change nothing",
            Self::Plan => "Reads and plans; changes nothing",
            Self::Ask => "Asks before every change and every command",
            Self::Auto => "Edits files and runs commands in the workspace; asks for more",
            Self::FullAccess => "Asks nothing",
        }
    }
}

/// How far a command can be confined where it would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandboxing {
    /// As far as is promised.
    Full,
    /// It cannot write outside its workspace, but protected files in it and keys are in its reach.
    Partial,
    /// Not at all.
    Unavailable,
}

/// What the gate says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Allow,
    /// A person decides; the texts say what is special about the call, most important first, and
    /// are empty for an ordinary one.
    Ask(Vec<String>),
    /// It does not run; the text tells the model why and what would help.
    Deny(String),
    /// It does not run, and the turn is cancelled.
    Cancel,
}

impl Ruling {
    /// The stricter of the two: cancel beats deny beats ask beats allow. Two questions are one
    /// that says both.
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Cancel, _) | (_, Self::Cancel) => Self::Cancel,
            (denied @ Self::Deny(_), _) | (_, denied @ Self::Deny(_)) => denied,
            (Self::Ask(mut texts), Self::Ask(more)) => {
                let new = more.into_iter().filter(|text| !texts.contains(text)).collect::<Vec<_>>();
                texts.extend(new);
                Self::Ask(texts)
            }
            (asked @ Self::Ask(_), _) | (_, asked @ Self::Ask(_)) => asked,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }
}

impl Mode {
    /// Rules on a call that would touch `accesses`: deny beats ask beats allow. A call that
    /// touches nothing is allowed.
    pub fn rule(self, accesses: &[Access]) -> Ruling {
        let rulings = accesses.iter().map(|access| self.rule_one(access));
        rulings.fold(Ruling::Allow, Ruling::strictest)
    }

    fn rule_one(self, access: &Access) -> Ruling {
        match (self, access) {
            (Self::Plan, Access::LeavePlan) => Ruling::Ask(Vec::new()),
            (_, Access::LeavePlan) => Ruling::Deny(format!(
                "The session is not planning: its mode is \"{}\". There is no plan to hand in; go \
                 on with the task itself.",
                self.id()
            )),
            (Self::FullAccess, _) | (_, Access::ReadInside(_)) => Ruling::Allow,
            (_, Access::ReadOutside(path)) => {
                ask(format!("reads outside the workspace: {}", path.display()))
            }
            (_, Access::ReadMasked(path)) => ask(format!(
                "reads what is kept from commands, keys or Bridle's own files: {}",
                path.display()
            )),
            (Self::ReadOnly | Self::Plan, Access::WriteInside(_) | Access::WriteOutside(_)) => {
                self.deny("files may not be changed")
            }
            (Self::ReadOnly | Self::Plan, Access::External { .. }) => {
                self.deny("tools of MCP servers may not be used")
            }
            (Self::ReadOnly | Self::Plan, Access::Run { network, unconfined, sandboxing, .. }) => {
                if *network || *unconfined {
                    self.deny("a command may neither use the network nor leave the sandbox")
                } else if *sandboxing == Sandboxing::Unavailable {
                    self.deny("commands may run only in a sandbox, and none works on this machine")
                } else {
                    Ruling::Allow
                }
            }
            (Self::Auto, Access::WriteInside(_)) => Ruling::Allow,
            (_, Access::WriteInside(_)) => Ruling::Ask(Vec::new()),
            (_, Access::WriteOutside(path)) => ask(format!(
                "writes a protected place or outside the workspace: {}",
                path.display()
            )),
            (_, Access::External { server, changed: false }) => {
                ask(format!("uses the MCP server {server}"))
            }
            (_, Access::External { server, changed: true }) => ask(format!(
                "uses the MCP server {server}; this tool, or the program behind it, is not what it was when it was \
                 permitted"
            )),
            (_, Access::Run { network, unconfined, reason, sandboxing, .. }) => {
                self.rule_command(*network, *unconfined, reason.as_deref(), *sandboxing)
            }
        }
    }

    /// A command in `ask` or `auto`.
    fn rule_command(
        self,
        network: bool,
        unconfined: bool,
        reason: Option<&str>,
        sandboxing: Sandboxing,
    ) -> Ruling {
        let mut texts = Vec::new();
        match sandboxing {
            Sandboxing::Unavailable => texts.push("runs without a sandbox".to_owned()),
            _ if unconfined => texts.push("asks to leave the sandbox".to_owned()),
            Sandboxing::Full | Sandboxing::Partial => {}
        }
        if network {
            texts.push("asks for the network".to_owned());
        }
        if texts.is_empty() && self == Self::Auto {
            return Ruling::Allow;
        }
        if sandboxing == Sandboxing::Partial && !unconfined {
            texts.push("runs in a sandbox that protects neither `.git` nor your keys".to_owned());
        }
        texts.extend(reason.map(|reason| format!("the model's reason: {}", quoted(reason))));
        Ruling::Ask(texts)
    }

    /// How a command that may run in this mode is confined, when it touches `accesses`.
    pub(crate) fn confinement(self, accesses: &[Access]) -> Confinement {
        let mut confinement = match self {
            Self::FullAccess => return Confinement::Unconfined,
            // What these modes let run asked for nothing more.
            Self::ReadOnly | Self::Plan => return Confinement::ReadOnly,
            Self::Ask | Self::Auto => Confinement::Workspace { network: false },
        };
        for access in accesses {
            let Access::Run { network, unconfined, sandboxing, .. } = access else { continue };
            if *unconfined || *sandboxing == Sandboxing::Unavailable {
                return Confinement::Unconfined;
            }
            if *network {
                confinement = Confinement::Workspace { network: true };
            }
        }
        confinement
    }

    fn deny(self, what: &str) -> Ruling {
        let instead = match self {
            Self::Plan => "put it into the plan, which you hand in with `exit_plan_mode`",
            _ => "say what you would do, or ask the person to change the mode",
        };
        Ruling::Deny(format!(
            "Denied by the permission mode \"{}\": {what}. Do not try another way; {instead}.",
            self.id()
        ))
    }
}

/// A model's words within a question: one short line in a code span, so that they can neither
/// push the command out of sight nor pass for it (fault B025).
fn quoted(text: &str) -> String {
    const LIMIT: usize = 200;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    let mut short: String = line.chars().take(LIMIT).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    format!("`{short}`")
}

fn ask(text: String) -> Ruling {
    Ruling::Ask(vec![text])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(network: bool, unconfined: bool, sandboxing: Sandboxing) -> Access {
        Access::Run { command: "ls".to_owned(), network, unconfined, reason: None, sandboxing }
    }

    /// One letter per mode in the order of `Mode::ALL`: allow, ask, deny.
    fn row(access: &Access) -> String {
        Mode::ALL
            .into_iter()
            .map(|mode| match mode.rule(std::slice::from_ref(access)) {
                Ruling::Allow => 'a',
                Ruling::Ask(_) => '?',
                Ruling::Deny(_) | Ruling::Cancel => 'd',
            })
            .collect()
    }

    #[test]
    fn the_table_of_the_design_holds() {
        use Sandboxing::{Full, Partial, Unavailable};
        let place = std::path::PathBuf::from("/x");
        let external = Access::External { server: "s".into(), changed: false };
        for (access, letters) in [
            (Access::ReadInside(place.clone()), "aaaaa"),
            (Access::ReadOutside(place.clone()), "????a"),
            (Access::ReadMasked(place.clone()), "????a"),
            (Access::WriteInside(place.clone()), "dd?aa"),
            (Access::WriteOutside(place), "dd??a"),
            (run(false, false, Full), "aa?aa"),
            (run(false, false, Partial), "aa?aa"),
            (run(false, false, Unavailable), "dd??a"),
            (run(true, false, Full), "dd??a"),
            (run(true, false, Unavailable), "dd??a"),
            (run(false, true, Full), "dd??a"),
            (run(false, true, Unavailable), "dd??a"),
            (external, "dd??a"),
            (Access::LeavePlan, "d?ddd"),
        ] {
            assert_eq!(row(&access), letters, "{access:?}");
        }
    }

    #[test]
    fn a_grant_is_what_the_mode_and_the_question_were() {
        use Confinement::{ReadOnly, Unconfined, Workspace};
        use Sandboxing::{Full, Partial, Unavailable};
        let workspace = |network| Workspace { network };
        for (access, granted) in [
            (
                run(false, false, Full),
                [ReadOnly, ReadOnly, workspace(false), workspace(false), Unconfined],
            ),
            (
                run(true, false, Partial),
                [ReadOnly, ReadOnly, workspace(true), workspace(true), Unconfined],
            ),
            (run(true, true, Full), [ReadOnly, ReadOnly, Unconfined, Unconfined, Unconfined]),
            (
                run(false, false, Unavailable),
                [ReadOnly, ReadOnly, Unconfined, Unconfined, Unconfined],
            ),
        ] {
            let given = Mode::ALL.map(|mode| mode.confinement(std::slice::from_ref(&access)));
            assert_eq!(given, granted, "{access:?}");
        }
    }

    #[test]
    fn the_strictest_access_decides() {
        let run = run(true, false, Sandboxing::Unavailable);
        let accesses = [Access::ReadInside("/x".into()), Access::WriteInside("/x".into()), run];
        assert!(matches!(Mode::Plan.rule(&accesses), Ruling::Deny(_)));
        let Ruling::Ask(texts) = Mode::Ask.rule(&accesses) else {
            panic!("must ask");
        };
        assert_eq!(texts, ["runs without a sandbox", "asks for the network"]);
    }

    #[test]
    fn a_model_cannot_dress_up_the_question() {
        let lines = "\n".repeat(40) + &"x".repeat(3000);
        let reason = Some(format!("list\n\n```sh\nls -l\n```\n{lines}"));
        let command = "ls".to_owned();
        let sandboxing = Sandboxing::Full;
        let access = Access::Run { command, network: false, unconfined: false, reason, sandboxing };
        let Ruling::Ask(texts) = Mode::Ask.rule(&[access]) else {
            panic!("must ask");
        };
        let reason = texts.last().unwrap();
        assert!(reason.starts_with("the model's reason: `list '''sh ls -l ''' xxx"), "{reason}");
        assert!(reason.chars().count() < 250 && !reason.contains('\n'), "{reason}");
    }

    #[test]
    fn a_question_about_an_unconfined_command_says_so_first() {
        let asked = |run| match Mode::Ask.rule(&[run]) {
            Ruling::Ask(texts) => texts,
            other => panic!("must ask: {other:?}"),
        };
        let first = |run| asked(run).first().cloned().unwrap_or_default();
        assert_eq!(first(run(true, false, Sandboxing::Unavailable)), "runs without a sandbox");
        assert_eq!(first(run(true, true, Sandboxing::Full)), "asks to leave the sandbox");
        assert_eq!(first(run(true, false, Sandboxing::Full)), "asks for the network");
        let partial = "runs in a sandbox that protects neither `.git` nor your keys";
        assert_eq!(first(run(false, false, Sandboxing::Partial)), partial);
        assert_eq!(first(run(false, false, Sandboxing::Full)), "");
    }
}
