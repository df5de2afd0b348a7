//! Commands and the words they are made of.
//!
//! A command is a text for a shell, so only a *plain* one can be compared word by word: words and
//! quoted texts that the shell hands on as they are, nothing that it expands, redirects, joins or
//! ends a command at. An allowing rule matches a plain command with its words, or any command that
//! is its text letter by letter. A rule that asks or denies also matches where its words stand
//! somewhere in a command that is not plain; it is no wall, because a shell can say everything in
//! many ways.

/// What a rule says of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandRule {
    text: String,
    /// The words, unless the text is not plain and stands for itself only.
    words: Option<Vec<String>>,
    /// More words may follow: the rule ends with `...`.
    open: bool,
}

impl CommandRule {
    pub(super) fn parse(text: &str) -> Self {
        let (text, open) = match text.strip_suffix(" ...") {
            Some(text) => (text.trim_end(), true),
            None => (text, false),
        };
        Self { text: text.to_owned(), words: plain_words(text), open }
    }

    /// Whether the command is what the rule says, without any doubt.
    pub(super) fn is(&self, command: &str) -> bool {
        let command = command.trim_matches([' ', '\t', '\n']);
        if command == self.text {
            return true;
        }
        let (Some(rule), Some(words)) = (&self.words, plain_words(command)) else { return false };
        if self.open { words.starts_with(rule) } else { words == *rule }
    }

    /// Whether the command is, or seems to contain, what the rule says.
    pub(super) fn may_be(&self, command: &str) -> bool {
        if self.is(command) {
            return true;
        }
        // A quoted text may be a command of its own, as in `sh -c "..."`.
        let is_one = |words: Vec<String>| !words.iter().any(|word| word.contains([' ', '\t']));
        if plain_words(command).is_some_and(is_one) {
            return false;
        }
        let rule = rough_words(&self.text);
        let words = rough_words(command);
        !rule.is_empty() && words.windows(rule.len()).any(|window| window == rule)
    }
}

/// The words of a plain command; `None` when the shell would do more than hand them on.
fn plain_words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = command.trim_matches([' ', '\t']).chars();
    let mut word: Option<String> = None;
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let (text, after) = rest.as_str().split_once(character)?;
                let expands = character == '"' && text.contains(['$', '`', '\\', '!']);
                if expands || text.chars().any(char::is_control) {
                    return None;
                }
                word.get_or_insert_default().push_str(text);
                rest = after.chars();
            }
            plain if plain.is_ascii_alphanumeric() || "%+@:,./-_=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    // An assignment in front of a command changes what the command does.
    let assigns = words.first().is_none_or(|first| first.contains('='));
    (!assigns).then_some(words)
}

/// Everything in a text that could be a word, whatever stands between.
fn rough_words(text: &str) -> Vec<&str> {
    let joins = |character: char| character.is_alphanumeric() || "%+@:,./-_=".contains(character);
    text.split(|character| !joins(character)).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_one_by_one() {
        let rule = CommandRule::parse("git log --oneline");
        for command in ["git log --oneline", " git  log\t--oneline ", "'git' log \"--oneline\""] {
            assert!(rule.is(command), "{command}");
        }
        for command in ["git log", "git log --oneline -1", "git log--oneline", "Git log --oneline"]
        {
            assert!(!rule.is(command) && !rule.may_be(command), "{command}");
        }
        let open = CommandRule::parse("cargo test ...");
        assert!(open.is("cargo test") && open.is("cargo test -p 'a b'"));
        assert!(!open.is("cargo testing") && !open.is("cargo"));
    }

    #[test]
    fn what_a_shell_would_expand_or_join_is_never_allowed_by_words() {
        let open = CommandRule::parse("git status ...");
        for command in [
            "git status; rm x",
            "git status && rm x",
            "git status | sh",
            "git status > x",
            "git status $(rm x)",
            "git status `rm x`",
            "git status \"$HOME\"",
            "git status *",
            "git status ~",
            "git status {a,b}",
            "git status\nrm x",
            "git status & rm x",
            "git status # x",
            "git status \\x",
            "git status 'a",
            "git status \u{202e}x",
            "git status \u{a0}x",
            "FOO=1 git status",
            "git status !x",
            "git status 'a\u{1b}'",
            "git status [a]",
            "(git status)",
            "git status <x",
            "git status ?",
            "git status \r",
        ] {
            assert!(!open.is(command), "{command:?}");
        }
    }

    #[test]
    fn the_same_text_is_the_same_command() {
        let rule = CommandRule::parse("cargo build && cargo test");
        assert!(rule.is("cargo build && cargo test") && !rule.is("cargo build &&  cargo test"));
        assert!(!CommandRule::parse("FOO=1 make ...").is("FOO=1 make x"));
    }

    #[test]
    fn a_refusal_looks_into_commands_that_are_not_plain() {
        let rule = CommandRule::parse("rm -rf ...");
        for command in [
            "rm -rf x",
            "cd a && rm -rf b",
            "bash -c \"rm  -rf $x\"",
            "(rm -rf x)",
            "sh -c 'rm -rf x'",
        ] {
            assert!(rule.may_be(command), "{command}");
        }
        for command in ["rm -r x", "echo rm -rf", "charm -rf; x"] {
            assert!(!rule.may_be(command), "{command}");
        }
    }
}
