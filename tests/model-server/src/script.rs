//! Which reply answers which request: the queue first, then a directive in the prompt, then rules
//! by the prompt's text, then the default.

use std::collections::VecDeque;

use serde_json::Value;

use crate::{Answer, ModelSpec, Reply, directive};

/// What a server answers when its script says nothing else.
pub(crate) const DEFAULT_TEXT: &str = "All good: this is the scripted reply.";

/// The largest request body, in bytes; larger ones are refused with 413.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// The replies of a server, and what it accepts.
#[derive(Clone)]
pub struct Script {
    pub(crate) queue: VecDeque<Reply>,
    pub(crate) models: Vec<ModelSpec>,
    pub(crate) key: Option<String>,
    pub(crate) caches: bool,
    pub(crate) largest_body: usize,
    rules: Vec<Rule>,
    default: Option<Reply>,
}

#[derive(Clone)]
struct Rule {
    needle: String,
    steps: Vec<Reply>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            models: Vec::new(),
            key: None,
            caches: false,
            largest_body: MAX_BODY,
            rules: Vec::new(),
            default: None,
        }
    }
}

impl Script {
    /// A script that answers every prompt with a short text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses requests with more bytes than this with 413, as whatever stands before a provider may.
    pub fn largest_body(self, bytes: usize) -> Self {
        Self { largest_body: bytes, ..self }
    }

    /// Appends a reply to the queue. The queue is used up first, one reply per accepted request.
    pub fn reply(mut self, reply: impl Into<Reply>) -> Self {
        self.queue.push_back(reply.into());
        self
    }

    /// Answers prompts that contain `needle`. Step k is used once k rounds of tool results have
    /// followed the prompt; the last step repeats. The first rule that fits wins. The prompt is
    /// the newest user text, of several in a message the last that a rule fits: what an agent tells
    /// beside a prompt stands before it. One beside tool results that fits no rule is passed over.
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

    /// Counts input as a provider with a prompt cache would; see the breakpoints of a request.
    pub fn caching(self) -> Self {
        Self { caches: true, ..self }
    }

    /// The reply to a conversation.
    ///
    /// # Errors
    /// A sentence for the author of a directive that cannot be read.
    pub(crate) fn pick(&mut self, messages: &[Value]) -> Result<Reply, String> {
        if let Some(reply) = self.queue.pop_front() {
            return Ok(reply);
        }
        let mut rounds = 0;
        for content in messages.iter().rev().filter_map(user_content) {
            let texts = texts_of(content);
            if let Some(steps) = directive::parse(&texts.join("\n"))? {
                return Ok(self.step(&steps, rounds));
            }
            let rule_of = |text: &&str| self.rules.iter().find(|rule| text.contains(&rule.needle));
            if let Some(rule) = texts.iter().rev().find_map(rule_of) {
                return Ok(self.step(&rule.steps, rounds));
            }
            // A text beside tool results may be a mere remark, so the prompt before it still
            // counts; any other text is the newest prompt.
            let is_round = holds_tool_result(content);
            if texts.iter().any(|text| !text.is_empty()) && !is_round {
                break;
            }
            rounds += usize::from(is_round);
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

fn user_content(message: &Value) -> Option<&Value> {
    let is_user = message.get("role").and_then(Value::as_str) == Some("user");
    message.get("content").filter(|_| is_user)
}

fn texts_of(content: &Value) -> Vec<&str> {
    if let Some(text) = content.as_str() {
        return vec![text];
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
}

fn holds_tool_result(content: &Value) -> bool {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().any(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"))
}
