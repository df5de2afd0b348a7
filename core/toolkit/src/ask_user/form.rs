//! The questions of `ask_user`: what a model may send, and how they and their answers read as text.

use std::collections::HashSet;

use bridle_agent::{FormAnswer, FormOption, FormQuestion, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::Arguments;

/// The most questions of one call.
const MAX_QUESTIONS: usize = 4;
/// The most options of one question.
const MAX_OPTIONS: usize = 8;
/// The longest header or label, in characters.
const MAX_LABEL: usize = 80;
/// The longest question or description, in bytes.
const MAX_TEXT: usize = 4_000;

/// Arguments of `ask_user`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskUserArguments {
    /// One to four questions.
    #[schemars(length(min = 1, max = 4))]
    questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    /// One to three words that name what it is about.
    header: String,
    /// The question, with what the user needs to know to answer it.
    question: String,
    /// The options, at most eight. None: the user answers in words.
    #[serde(default)]
    options: Vec<Choice>,
    /// Several options may be chosen. Without it: one.
    #[serde(default)]
    multi_select: bool,
    /// Whether the user may answer in their own words. Without it: yes.
    #[serde(default = "yes")]
    own_words: bool,
}

/// One option.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// The answer, in a few words.
    label: String,
    /// What it means or costs.
    description: Option<String>,
}

fn yes() -> bool {
    true
}

impl Arguments for AskUserArguments {
    const TOOL: &'static str = "ask_user";
}

impl AskUserArguments {
    /// The questions as they can be put.
    ///
    /// # Errors
    /// `BadArguments`, naming the question, for what could not be shown or answered.
    pub(super) fn checked(self) -> Result<Vec<FormQuestion>, ToolFailure> {
        if !(1..=MAX_QUESTIONS).contains(&self.questions.len()) {
            return Err(refused(format!("`questions` must be 1 to {MAX_QUESTIONS}")));
        }
        let checked = self.questions.into_iter().enumerate();
        checked.map(|(index, question)| question.checked(index)).collect()
    }
}

impl Question {
    fn checked(self, index: usize) -> Result<FormQuestion, ToolFailure> {
        let place = format!("questions[{index}]");
        let header = short(&self.header, &format!("{place}.header"))?;
        let text = long(&self.question, &format!("{place}.question"))?;
        if self.options.len() > MAX_OPTIONS {
            return Err(refused(format!("`{place}.options` may be at most {MAX_OPTIONS}")));
        }
        if self.options.is_empty() && !self.own_words {
            return Err(refused(format!(
                "`{place}` has neither `options` nor `own_words`, so it has no answer"
            )));
        }
        let options: Vec<_> = self
            .options
            .into_iter()
            .map(|option| option.checked(&place))
            .collect::<Result<_, _>>()?;
        let labels: HashSet<_> = options.iter().map(|option| &option.label).collect();
        if labels.len() < options.len() {
            return Err(refused(format!("`{place}` has two options with one label")));
        }
        let (multi_select, own_words) = (self.multi_select, self.own_words);
        Ok(FormQuestion { header, text, options, multi_select, own_words })
    }
}

impl Choice {
    fn checked(self, place: &str) -> Result<FormOption, ToolFailure> {
        let label = short(&self.label, &format!("{place}.options[].label"))?;
        let description = self
            .description
            .filter(|text| !text.trim().is_empty())
            .map(|text| long(&text, &format!("{place}.options[].description")))
            .transpose()?;
        Ok(FormOption { label, description })
    }
}

fn short(text: &str, place: &str) -> Result<String, ToolFailure> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_LABEL || text.chars().any(char::is_control) {
        return Err(refused(format!("`{place}` must be one line of 1 to {MAX_LABEL} characters")));
    }
    Ok(text.to_owned())
}

fn long(text: &str, place: &str) -> Result<String, ToolFailure> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_TEXT {
        return Err(refused(format!("`{place}` must be 1 to {MAX_TEXT} bytes")));
    }
    Ok(text.to_owned())
}

fn refused(reason: String) -> ToolFailure {
    ToolFailure::bad_arguments(format!("{reason}; nobody was asked."))
}

/// The questions as Markdown, for whoever is shown no form.
pub(super) fn text(questions: &[FormQuestion]) -> String {
    let numbered = questions.len() > 1;
    let one = |(index, question): (usize, &FormQuestion)| {
        let number = if numbered { format!("{}. ", index + 1) } else { String::new() };
        let mut text = format!("**{number}{}**\n\n{}\n", question.header, question.text);
        for option in &question.options {
            text.push_str(&format!("\n- {}", option.label));
            if let Some(description) = &option.description {
                text.push_str(&format!(": {description}"));
            }
        }
        let hint = match (question.options.is_empty(), question.multi_select, question.own_words) {
            (true, _, _) => None,
            (false, true, true) => Some("Any of these, or your own words."),
            (false, true, false) => Some("Any of these."),
            (false, false, true) => Some("One of these, or your own words."),
            (false, false, false) => Some("One of these."),
        };
        if let Some(hint) = hint {
            text.push_str(&format!("\n\n*{hint}*"));
        }
        text.trim_end().to_owned()
    };
    questions.iter().enumerate().map(one).collect::<Vec<_>>().join("\n\n")
}

/// The answers as the model reads them.
pub(super) fn answers(questions: &[FormQuestion], answers: &[FormAnswer]) -> String {
    let line = |(question, answer): (&FormQuestion, &FormAnswer)| {
        let mut said = Vec::new();
        if !answer.chosen.is_empty() {
            said.push(answer.chosen.join("; "));
        }
        said.extend(answer.words.as_ref().map(|words| format!("in their own words: {words}")));
        let said = match said.is_empty() {
            true => "no answer; nothing was chosen".to_owned(),
            false => said.join("; "),
        };
        format!("- {}: {said}", question.header)
    };
    let lines: Vec<_> = questions.iter().zip(answers).map(line).collect();
    format!("The user answered:\n{}", lines.join("\n"))
}
