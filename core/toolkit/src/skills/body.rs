//! What a skill says, as the model reads it: wrapped in a tag that names the skill and where it lies, and
//! that the text in it cannot close.

use std::path::Path;

use bridle_model::{attribute, unclosing};
use bridle_world::files::{FileError, Text};
use bridle_world::path_text;

use super::Skill;
use super::bundled::BUNDLED;
use super::front_matter::split;
use super::shelf::MAX_SKILL_BYTES;
use crate::file_tool::FileWorld;
use crate::read::NOT_UTF_8;

/// The most of one text that is told, in bytes.
const MAX_TOLD: usize = 64 * 1024;

/// The body of a skill. Blocks on the file system.
///
/// # Errors
/// Why it could not be read, as a sentence.
pub(super) fn body(world: &FileWorld, skill: &Skill) -> Result<String, String> {
    let Skill { name, rank, file, .. } = skill;
    let text = match file {
        Some(file) => read(world, file)?,
        None => {
            let bundled = BUNDLED.iter().find(|bundled| bundled.name == name);
            bundled.map_or_else(String::new, |bundled| bundled.text.to_owned())
        }
    };
    let (_, body) = split(&text).map_err(|why| format!("The skill `{name}` {why}."))?;
    let folder = file
        .as_deref()
        .and_then(Path::parent)
        .map(|folder| format!(" folder=\"{}\"", attribute(&path_text(folder))));
    let folder = folder.unwrap_or_default();
    Ok(wrapped(
        "skill",
        &format!("name=\"{name}\" from=\"{rank}\"{folder}"),
        body.trim(),
        file.as_deref(),
    ))
}

/// Another file of a skill's folder. Blocks on the file system.
///
/// # Errors
/// As [`body`].
pub(super) fn file(world: &FileWorld, skill: &Skill, path: &Path) -> Result<String, String> {
    let text = read(world, path)?;
    let named = format!("name=\"{}\" path=\"{}\"", skill.name, attribute(&path_text(path)));
    Ok(wrapped("skill_file", &named, &text, Some(path)))
}

fn read(world: &FileWorld, path: &Path) -> Result<String, String> {
    let bytes = world.files.read(path, MAX_SKILL_BYTES).map_err(|error| match error {
        FileError::TooLarge { .. } => format!("{error}; use `read` for a part of it."),
        _ => format!("{error}."),
    })?;
    match Text::readable(&bytes) {
        Ok((text, false)) => Ok(text.into_owned()),
        Ok((text, true)) => Ok(format!("{}\n[{NOT_UTF_8}]\n", text.trim_end())),
        Err(why) => Err(format!("{} is no text ({why}); use `read`.", path_text(path))),
    }
}

fn wrapped(tag: &str, attributes: &str, text: &str, path: Option<&Path>) -> String {
    let end = text.floor_char_boundary(MAX_TOLD);
    let (told, cut) = (text.get(..end).unwrap_or_default(), text.len() - end);
    let told = unclosing("skill", told);
    let note = match (cut, path) {
        (0, _) => String::new(),
        (cut, Some(path)) => {
            format!("\n[Cut here: {cut} more bytes. `read` {} for the rest.]", path_text(path))
        }
        (cut, None) => format!("\n[Cut here: {cut} more bytes.]"),
    };
    let line_end = if told.ends_with('\n') { "" } else { "\n" };
    format!("<{tag} {attributes}>\n{told}{line_end}</{tag}>{note}")
}
