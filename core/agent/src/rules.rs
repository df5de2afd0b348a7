//! Permission rules that a user writes: one line each, `read PATTERN`, `write PATTERN`,
//! `run COMMAND` or `tool NAME`, in a list that says whether it allows, asks or denies.
//!
//! A name is that which the model calls a tool by; `*` stands for any letters of it. Paths are the real ones, links resolved; `*` and `?` stand within one name, `**` for any number
//! of names. To an allowing rule they never stand for a name that begins with a dot, because those
//! hold what other programs execute or obey. A command is matched word by word ([`words`]).

mod words;

use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::Access;
use words::CommandRule;

/// The most rules of one list.
const MAX_RULES: usize = 1000;

/// The rules of a user as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesConfig {
    /// What runs without a question where the mode would ask.
    #[serde(default)]
    pub allow: Vec<String>,
    /// What asks, also where the mode would not.
    #[serde(default)]
    pub ask: Vec<String>,
    /// What never runs.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Some rules could not be read: nothing is allowed by a rule, and whatever may change
    /// something asks.
    #[serde(default)]
    pub faulty: bool,
}

/// The rules of a user.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The strictest first.
    rules: Arc<[Rule]>,
    faulty: bool,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub effect: Effect,
    target: Target,
    text: String,
}

/// What a rule does to a call that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It runs where the mode would ask.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Read(Pattern),
    Write(Pattern),
    Run(CommandRule),
    Tool(String),
}

/// A rule that says nothing definite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It begins with none of the known words.
    #[error(
        "`{0}` is no rule; a rule is `read PATTERN`, `write PATTERN`, `run COMMAND` or `tool NAME`"
    )]
    Form(String),
    /// A pattern that could match in ways that nobody sees.
    #[error(
        "`{0}`: the path must be absolute, without `.`, `..`, empty parts or a slash at the end"
    )]
    Path(String),
    /// `**` beside something else in one part of a path.
    #[error("`{0}`: `**` stands alone between slashes")]
    Stars(String),
    /// There are too many.
    #[error("more than {MAX_RULES} rules in one list")]
    TooMany,
}

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`RuleError`] for the first bad one.
    pub fn new(config: &RulesConfig) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        // Of several that match the first counts.
        for (effect, texts) in [
            (Effect::Deny, &config.deny),
            (Effect::Ask, &config.ask),
            (Effect::Allow, &config.allow),
        ] {
            if texts.len() > MAX_RULES {
                return Err(RuleError::TooMany);
            }
            for text in texts.iter().filter(|_| effect != Effect::Allow || !config.faulty) {
                rules.push(Rule::parse(effect, text)?);
            }
        }
        Ok(Self { rules: rules.into(), faulty: config.faulty })
    }

    /// All of them, the strictest first.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether all that the user wrote is in force.
    pub(crate) fn are_whole(&self) -> bool {
        !self.faulty
    }

    /// The strictest rule about an access of a call. `searches` says that a read goes through
    /// whatever lies below its place.
    pub(crate) fn strongest(&self, tool: &str, access: &Access, searches: bool) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.is_about(tool, access, searches))
    }

    /// The strictest rule that denies reading a file or asks before it, by whatever tool.
    pub(crate) fn about_reading(&self, path: &Path) -> Option<&Rule> {
        self.rules.iter().find(|rule| match &rule.target {
            Target::Read(pattern) => rule.effect != Effect::Allow && pattern.matches(path, false),
            Target::Write(_) | Target::Run(_) | Target::Tool(_) => false,
        })
    }
}

impl Rule {
    /// Reads one rule.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(effect: Effect, text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let target = match word {
            _ if rest.is_empty() => return Err(RuleError::Form(text.to_owned())),
            "read" => Target::Read(Pattern::parse(rest)?),
            "write" => Target::Write(Pattern::parse(rest)?),
            "run" => Target::Run(CommandRule::parse(rest)),
            "tool" if !rest.contains(' ') => Target::Tool(rest.to_owned()),
            _ => return Err(RuleError::Form(text.to_owned())),
        };
        Ok(Self { effect, target, text: text.to_owned() })
    }

    /// The rule without its effect, as a list holds it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of a rule about tools, as it was written: `*` stands for any letters of it.
    pub fn tool(&self) -> Option<&str> {
        match &self.target {
            Target::Tool(name) => Some(name),
            Target::Read(_) | Target::Write(_) | Target::Run(_) => None,
        }
    }

    /// Whether it is about the tool of this name.
    pub fn names(&self, tool: &str) -> bool {
        self.tool().is_some_and(|name| name_matches(name, tool))
    }

    fn is_about(&self, tool: &str, access: &Access, searches: bool) -> bool {
        let allows = self.effect == Effect::Allow;
        match (&self.target, access) {
            (
                Target::Read(pattern),
                Access::ReadInside(path) | Access::ReadOutside(path) | Access::ReadMasked(path),
            ) => {
                pattern.matches(path, allows) || (searches && !allows && pattern.may_be_below(path))
            }
            // A change shows what was there before.
            (Target::Read(pattern), Access::WriteInside(path) | Access::WriteOutside(path)) => {
                !allows && pattern.matches(path, false)
            }
            (Target::Write(pattern), Access::WriteInside(path) | Access::WriteOutside(path)) => {
                pattern.matches(path, allows)
            }
            (Target::Run(rule), Access::Run { command, .. }) if allows => rule.is(command),
            (Target::Run(rule), Access::Run { command, .. }) => rule.may_be(command),
            // What is known of a call's files and command is judged by that.
            (Target::Tool(name), access) => {
                name_matches(name, tool)
                    && (!allows || matches!(access, Access::External { changed: false, .. }))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.effect, self.text)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// A pattern of absolute paths, part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<String>);

impl Pattern {
    fn parse(text: &str) -> Result<Self, RuleError> {
        let below = text.strip_prefix('/').ok_or_else(|| RuleError::Path(text.to_owned()))?;
        let parts: Vec<_> = below.split('/').map(str::to_owned).collect();
        if parts.iter().any(|part| matches!(part.as_str(), "" | "." | "..")) {
            return Err(RuleError::Path(text.to_owned()));
        }
        if parts.iter().any(|part| part.contains("**") && part != "**") {
            return Err(RuleError::Stars(text.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Whether it matches a path. Where it allows, wildcards leave names with a dot out, and a
    /// name that is not UTF-8 matches nothing.
    fn matches(&self, path: &Path, allows: bool) -> bool {
        let Some(parts) = parts_of(path, allows) else { return false };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        parts_match(&self.0, &parts, allows)
    }

    /// Whether something below a folder could match it.
    fn may_be_below(&self, folder: &Path) -> bool {
        let fixed: Vec<_> = self.0.iter().take_while(|part| !part.contains(['*', '?'])).collect();
        let folder = parts_of(folder, false).unwrap_or_default();
        fixed.iter().zip(&folder).all(|(part, name)| *part == name)
    }
}

fn parts_of(path: &Path, strict: bool) -> Option<Vec<String>> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let text = |name: &std::ffi::OsStr| match name.to_str() {
        Some(name) => Some(name.to_owned()),
        None if strict => None,
        None => Some(name.to_string_lossy().into_owned()),
    };
    names.map(text).collect()
}

fn parts_match(pattern: &[String], parts: &[&str], allows: bool) -> bool {
    let hidden = |name: &str| allows && name.starts_with('.');
    match (pattern.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((stars, rest)), None) => stars == "**" && parts_match(rest, parts, allows),
        (None, Some(_)) => false,
        (Some((stars, rest)), Some((name, more))) if stars == "**" => {
            parts_match(rest, parts, allows)
                || (!hidden(name) && parts_match(pattern, more, allows))
        }
        (Some((part, rest)), Some((name, more))) => {
            let literal = part == name;
            let fits =
                literal || (name_matches(part, name) && (!hidden(name) || part.starts_with('.')));
            fits && parts_match(rest, more, allows)
        }
    }
}

/// `*` stands for any characters, `?` for one.
fn name_matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = pattern.strip_prefix(first).unwrap_or_default();
    let mut characters = name.chars();
    match first {
        '*' => {
            name_matches(rest, name)
                || (characters.next().is_some() && name_matches(pattern, characters.as_str()))
        }
        '?' => characters.next().is_some() && name_matches(rest, characters.as_str()),
        _ => characters.next() == Some(first) && name_matches(rest, characters.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, allows: bool) -> bool {
        Pattern::parse(pattern).unwrap().matches(Path::new(path), allows)
    }

    #[test]
    fn patterns_stand_for_whole_paths() {
        for (pattern, path) in [
            ("/a/b", "/a/b"),
            ("/a/*", "/a/b"),
            ("/a/**", "/a/b/c/d"),
            ("/a/**", "/a"),
            ("/a/**/d", "/a/d"),
            ("/a/**/*.rs", "/a/b/c/x.rs"),
            ("/a/?.t*t", "/a/x.txt"),
            ("/a/.git/*", "/a/.git/config"),
            ("/a/.e*", "/a/.env"),
        ] {
            assert!(matches(pattern, path, true), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/a/b", "/a/b/c"),
            ("/a/*", "/a/b/c"),
            ("/a/*", "/ab/c"),
            ("/a/b", "/A/b"),
            ("/a/**", "/ab"),
            ("/a/*.rs", "/a/b/x.rs"),
        ] {
            assert!(!matches(pattern, path, false), "{pattern} {path}");
        }
    }

    #[test]
    fn only_a_rule_that_refuses_reaches_hidden_names_by_a_wildcard() {
        for path in ["/a/.git/hooks/pre-commit", "/a/.env", "/a/b/.npmrc"] {
            assert!(!matches("/a/**", path, true), "{path}");
            assert!(matches("/a/**", path, false), "{path}");
        }
        assert!(!matches("/a/*", "/a/.env", true) && matches("/a/*", "/a/.env", false));
    }

    #[test]
    fn a_search_is_about_what_lies_below_its_folder() {
        let rule = Rule::parse(Effect::Deny, "read /w/secrets/**").unwrap();
        let about = |path: &str, searches| {
            rule.is_about("search", &Access::ReadInside(path.into()), searches)
        };
        assert!(about("/w", true) && about("/w/secrets/a", true) && about("/w/secrets", true));
        assert!(!about("/w/src", true) && !about("/w", false));
    }

    #[test]
    fn a_rule_may_be_about_several_tools() {
        let rule = |text| Rule::parse(Effect::Deny, text).unwrap();
        let all = rule("tool mcp__files__*");
        assert!(all.names("mcp__files__read") && all.names("mcp__files__"));
        assert!(!all.names("mcp__file__read") && !all.names("read"));
        assert!(rule("tool read").names("read") && !rule("tool read").names("reads"));
        let access = Access::External { server: "files".to_owned(), changed: false };
        assert!(all.is_about("mcp__files__read", &access, false));
        assert!(!rule("write /a").names("write"));
    }

    #[test]
    fn what_says_nothing_definite_is_no_rule() {
        let error = |text| Rule::parse(Effect::Allow, text).unwrap_err();
        for text in ["", "read", "write  ", "delete /x", "tool a b", "readx /a"] {
            assert!(matches!(error(text), RuleError::Form(_)), "{text}");
        }
        for text in ["read a/b", "write ~/x", "read /a/../b", "write /a/", "read /a//b", "read /"] {
            assert!(matches!(error(text), RuleError::Path(_)), "{text}");
        }
        assert!(matches!(error("read /a/x**"), RuleError::Stars(_)));
        assert_eq!(
            Rule::parse(Effect::Deny, "run  rm ...").unwrap().to_string(),
            "deny run  rm ..."
        );
    }
}
