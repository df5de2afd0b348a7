//! `[permissions]`: the lists of rules. A rule that cannot be read is told to the policy, too; one about
//! a tool that there is not, to the person alone.

use bridle_agent::{Effect, Rule};
use bridle_toolkit::TOOL_NAMES;
use toml::Spanned;
use toml::de::DeValue;

use super::{Reader, Setting, nearest};

/// How the names of tools of MCP servers begin, and the tools that come with such servers.
const IMPORTED: &str = "mcp__";
const WITH_SERVERS: [&str; 4] = ["call_tool", "find_tools", "list_resources", "read_resource"];

impl Reader<'_> {
    /// The lists of permission rules. What cannot be read might have refused something, so every
    /// fault is told to the policy, too.
    pub(super) fn permissions(&mut self, value: &Spanned<DeValue<'_>>) {
        let before = self.problems.len();
        let mut unknown = Vec::new();
        match value.get_ref().as_table() {
            Some(table) => {
                for (key, value) in table {
                    let name = key.get_ref().as_ref();
                    match name {
                        "allow" => self.rules(name, Effect::Allow, value, &mut unknown),
                        "ask" => self.rules(name, Effect::Ask, value, &mut unknown),
                        "deny" => self.rules(name, Effect::Deny, value, &mut unknown),
                        _ => self.unknown(key.span().start, "key", name, &["allow", "ask", "deny"]),
                    }
                }
            }
            None => self.wrong_type("permissions", "a table", value),
        }
        if self.problems.len() > before || value.span().is_empty() {
            self.entry(value.span().start, Setting::FaultyRules);
        }
        for (start, fault) in unknown {
            self.problem(start, &fault);
        }
    }

    /// The rules of one list; where one is about no tool, and what to do about that, goes to `unknown`.
    fn rules(
        &mut self,
        key: &str,
        effect: Effect,
        list: &Spanned<DeValue<'_>>,
        unknown: &mut Vec<(usize, String)>,
    ) {
        let Some(items) = list.get_ref().as_array() else {
            return self.wrong_type(key, "a list of rules in quotes", list);
        };
        for item in items {
            match item.get_ref().as_str().map(|text| Rule::parse(effect, text)) {
                Some(Ok(rule)) => {
                    let fault = about_nothing(&rule);
                    unknown.extend(fault.map(|fault| (item.span().start, fault)));
                    self.entry(item.span().start, Setting::Rule(rule));
                }
                Some(Err(error)) => self.problem(
                    item.span().start,
                    &format!("{error}; until it is right, no rule allows anything and changes ask"),
                ),
                None => self.wrong_type(key, "a list of rules in quotes", item),
            }
        }
    }
}

/// What is wrong with a rule about a tool that there never is. Those of MCP servers come and go.
fn about_nothing(rule: &Rule) -> Option<String> {
    let name = rule.tool()?;
    let known: Vec<_> =
        TOOL_NAMES.into_iter().chain(bridle_lsp::TOOL_NAMES).chain(WITH_SERVERS).collect();
    if name.starts_with(IMPORTED) || known.iter().any(|tool| rule.names(tool)) {
        return None;
    }
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "those of MCP servers are `mcp__SERVER__TOOL`".to_owned(),
    };
    Some(format!("`{}` is about no tool; {hint}", rule.text()))
}
