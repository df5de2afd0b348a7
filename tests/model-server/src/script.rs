//! Which reply answers which request: the queue first, then a directive in the prompt, then rules
//! by the prompt's text, then the default.

use std::collections::VecDeque;

use serde_json::Value;

use crate::{Answer, ModelSpec, Reply, directive};

/// What a server answers when its script says nothing else.
pub(crate) const DEFAULT_TEXT: &str = "All good: this is the scripted reply.";

/// The replies of a server, and what it accepts.
#[derive(Clone, Default)]
pub struct Script {
    pub(crate) queue: VecDeque<Reply>,
    pub(crate) models: Vec<ModelSpec>,
    pub(crate) key: Option<String>,
    rules: Vec<Rule>,
    default: Option<Reply>,
}

#[derive(Clone)]
struct Rule {
    needle: String,
    steps: Vec<Reply>,
}

impl Script {
    /// A script that answers every prompt with a short text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a reply to the queue. The queue is used up first, one reply per accepted request.
    pub fn reply(mut self, reply: impl Into<Reply>) -> Self {
        self.queue.push_back(reply.into());
        self
    }

    /// Answers prompts that contain `needle`. Step k is used once k rounds of tool results have
    /// followed the prompt; the last step repeats. The first rule that fits wins.
    pub fn rule<R: Into<Reply>>(
        mut self,
        needle: &str,
        steps: impl IntoIterator<Item = R>,
    ) -> Self {
        let steps = steps.into_iter().map(Into::into).collect();
        self.rules.push(Rule { needle: needle.to_owned(), steps });
        self
    }

    /// The reply to every request for which there is no other.
    pub fn otherwise(self, reply: impl Into<Reply>) -> Self {
        Self { default: Some(reply.into()), ..self }
    }

    /// Adds a model, or replaces the known one with its id, in both dialects.
    pub fn model(mut self, model: ModelSpec) -> Self {
        self.models.push(model);
        self
    }

    /// The only API key that is accepted; without this, every non-empty key is.
    pub fn key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// The reply to a conversation.
    ///
    /// # Errors
    /// A sentence for the author of a directive that cannot be read.
    pub(crate) fn pick(&mut self, messages: &[Value]) -> Result<Reply, String> {
        if let Some(reply) = self.queue.pop_front() {
            return Ok(reply);
        }
        let Some((text, rounds)) = prompt(messages) else { return Ok(self.fallback()) };
        if let Some(steps) = directive::parse(&text)? {
            return Ok(self.step(&steps, rounds));
        }
        if let Some(rule) = self.rules.iter().find(|rule| text.contains(&rule.needle)) {
            return Ok(self.step(&rule.steps, rounds));
        }
        Ok(self.fallback())
    }

    fn step(&self, steps: &[Reply], rounds: usize) -> Reply {
        steps.get(rounds).or(steps.last()).cloned().unwrap_or_else(|| self.fallback())
    }

    fn fallback(&self) -> Reply {
        self.default.clone().unwrap_or_else(|| Answer::new().text_in(8, DEFAULT_TEXT).into())
    }
}

/// The newest prompt, and the number of rounds of tool results since.
///
/// A text beside tool results is a remark of the client rather than a prompt, so it only counts
/// when it carries a directive.
fn prompt(messages: &[Value]) -> Option<(String, usize)> {
    let mut rounds = 0;
    for message in messages.iter().rev() {
        if message.get("role").and_then(Value::as_str) != Some("user") {
            continue;
        }
        let content = message.get("content").unwrap_or(&Value::Null);
        let text = text_of(content);
        let is_round = holds_tool_result(content);
        if !text.is_empty() && (!is_round || text.contains(directive::OPENING)) {
            return Some((text, rounds));
        }
        rounds += usize::from(is_round);
    }
    None
}

fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> =
        blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

fn holds_tool_result(content: &Value) -> bool {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().any(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"))
}
