//! `[permissions]`: the lists of rules. A rule that cannot be read is told to the policy, too.

use bridle_agent::{Effect, Rule};
use toml::Spanned;
use toml::de::DeValue;

use super::{Reader, Setting};

impl Reader<'_> {
    /// The lists of permission rules. What cannot be read might have refused something, so every
    /// fault is told to the policy, too.
    pub(super) fn permissions(&mut self, value: &Spanned<DeValue<'_>>) {
        let before = self.problems.len();
        match value.get_ref().as_table() {
            Some(table) => {
                for (key, value) in table {
                    let name = key.get_ref().as_ref();
                    match name {
                        "allow" => self.rules(name, Effect::Allow, value),
                        "ask" => self.rules(name, Effect::Ask, value),
                        "deny" => self.rules(name, Effect::Deny, value),
                        _ => self.unknown(key.span().start, "key", name, &["allow", "ask", "deny"]),
                    }
                }
            }
            None => self.wrong_type("permissions", "a table", value),
        }
        if self.problems.len() > before || value.span().is_empty() {
            self.entry(value.span().start, Setting::FaultyRules);
        }
    }

    fn rules(&mut self, key: &str, effect: Effect, list: &Spanned<DeValue<'_>>) {
        let Some(items) = list.get_ref().as_array() else {
            return self.wrong_type(key, "a list of rules in quotes", list);
        };
        for item in items {
            match item.get_ref().as_str().map(|text| Rule::parse(effect, text)) {
                Some(Ok(rule)) => self.entry(item.span().start, Setting::Rule(rule)),
                Some(Err(error)) => self.problem(
                    item.span().start,
                    &format!("{error}; until it is right, no rule allows anything and changes ask"),
                ),
                None => self.wrong_type(key, "a list of rules in quotes", item),
            }
        }
    }
}
