//! What the system prompt is made of: sections in a fixed order, and the variables they name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One part of the system prompt, contributed to a scope under its name. The parts stand in the
/// order of their ranks, those of one rank by name, with an empty line between them: so the prompt
/// is the same whichever row became active first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// Its name, for errors.
    pub name: String,
    /// Where it stands; the lowest comes first.
    pub rank: u16,
    /// The text, without a line end at its end. `{{name}}` stands for the variable of that name.
    pub text: String,
    /// Whether the text names variables. Text from outside Bridle should not: its braces are its
    /// own.
    pub has_variables: bool,
}

impl PromptSection {
    /// The rank of what says who the agent is.
    pub const IDENTITY: u16 = 100;

    /// A section whose text names variables.
    pub fn template(name: impl Into<String>, rank: u16, text: impl Into<String>) -> Self {
        Self { name: name.into(), rank, text: text.into(), has_variables: true }
    }

    /// A section whose text is taken as it is.
    pub fn verbatim(name: impl Into<String>, rank: u16, text: impl Into<String>) -> Self {
        Self { has_variables: false, ..Self::template(name, rank, text) }
    }
}

/// What a name in a section stands for, contributed to a scope. Of two with one name the nearer
/// counts. A value that changes while a session lasts begins a new request series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptVariable {
    /// The name, as it stands between the braces.
    pub name: String,
    /// What takes its place; not looked at again.
    pub value: String,
}

/// Why there is no system prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PromptError {
    /// A section names what nothing provides.
    #[error(
        "the section \"{section}\" of the system prompt names the variable {{{{{variable}}}}}, \
         which nothing provides; `bridle config show` lists the parts that are active"
    )]
    UnknownVariable { section: String, variable: String },
    /// A section opens a name and does not close it.
    #[error("the section \"{section}\" of the system prompt has a {{{{ without its }}}}")]
    Unclosed { section: String },
}

/// The whole prompt; empty when nothing contributes to it.
pub(crate) fn render(
    mut sections: Vec<Arc<PromptSection>>,
    variables: &[Arc<PromptVariable>],
) -> Result<String, PromptError> {
    // Of two with one name the nearer, which comes later, stays.
    let values: BTreeMap<&str, &str> =
        variables.iter().map(|variable| (&*variable.name, &*variable.value)).collect();
    sections.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
    let texts = sections.iter().map(|section| match section.has_variables {
        true => expand(section, &values),
        false => Ok(section.text.clone()),
    });
    let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

fn expand(section: &PromptSection, values: &BTreeMap<&str, &str>) -> Result<String, PromptError> {
    let mut rest = section.text.as_str();
    let mut text = String::with_capacity(rest.len());
    while let Some((before, opened)) = rest.split_once("{{") {
        let Some((name, after)) = opened.split_once("}}") else {
            return Err(PromptError::Unclosed { section: section.name.clone() });
        };
        let value = values.get(name).ok_or_else(|| PromptError::UnknownVariable {
            section: section.name.clone(),
            variable: name.to_owned(),
        })?;
        text.push_str(before);
        text.push_str(value);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Vec<Arc<PromptVariable>> {
        let variable = |name: &str, value: &str| {
            Arc::new(PromptVariable { name: name.to_owned(), value: value.to_owned() })
        };
        vec![variable("who", "far"), variable("what", "{{who}}"), variable("who", "near")]
    }

    fn rendered(sections: &[PromptSection]) -> Result<String, PromptError> {
        render(sections.iter().cloned().map(Arc::new).collect(), &variables())
    }

    #[test]
    fn sections_stand_by_rank_and_name_whatever_came_first() {
        let sections = [
            PromptSection::verbatim("b", 2, "third"),
            PromptSection::verbatim("a", 2, "second"),
            PromptSection::verbatim("z", 1, "first"),
            PromptSection::verbatim("empty", 1, ""),
        ];
        assert_eq!(rendered(&sections).unwrap(), "first\n\nsecond\n\nthird");
    }

    #[test]
    fn a_variable_is_expanded_once_and_the_nearest_counts() {
        let section = PromptSection::template("s", 1, "{{who}} {{what}}{}");
        assert_eq!(rendered(&[section]).unwrap(), "near {{who}}{}");
    }

    #[test]
    fn text_from_outside_keeps_its_braces() {
        let section = PromptSection::verbatim("s", 1, "{{who}} {{");
        assert_eq!(rendered(&[section]).unwrap(), "{{who}} {{");
    }

    #[test]
    fn a_name_that_nothing_provides_is_an_error_that_names_it() {
        let error = rendered(&[PromptSection::template("s", 1, "{{nobody}}")]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("\"s\"") && said.contains("{{nobody}}"), "{said}");
        let error = rendered(&[PromptSection::template("s", 1, "a {{ b")]).unwrap_err();
        assert_eq!(error, PromptError::Unclosed { section: "s".to_owned() });
    }
}
