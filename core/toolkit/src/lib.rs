//! The tools that a model is offered and the context sources of a session.
//!
//! One file per tool; each plans a call (check, resolve, preview) and runs it through
//! `bridle-world`. Each is a plugin of its own. Nothing here decides whether a call is allowed.

mod apply_patch;
mod arguments;
mod ask_user;
mod blocking;
mod contexts;
mod delete;
mod diff;
mod edit;
mod exit_plan;
mod file_tool;
mod glob;
mod jobs;
mod keeper;
mod list;
mod move_file;
mod prompt;
mod read;
mod read_rules;
mod references;
mod sandbox;
mod search;
mod seen;
mod shell;
mod skills;
mod target;
mod terminal;
#[cfg(test)]
mod testing;
mod todo;
mod write;

use bridle_compose::Plugins;
use bridle_world::files::LocalFiles;

use apply_patch::PatchArguments;
use ask_user::AskUserPlugin;
use contexts::{EnvironmentPlugin, FileChangesPlugin, InstructionsPlugin};
use delete::DeleteArguments;
use edit::EditArguments;
use exit_plan::ExitPlanPlugin;
use file_tool::FilePlugin;
use glob::GlobArguments;
use jobs::JobsPlugin;
use keeper::CheckpointsPlugin;
use list::ListArguments;
use move_file::MoveArguments;
use prompt::SystemPromptPlugin;
use read::ReadPlugin;
use references::ReferencesPlugin;
use sandbox::SandboxPlugin;
use search::SearchArguments;
use seen::SeenTextsPlugin;
use shell::ShellPlugin;
use skills::SkillsPlugin;
use terminal::TerminalPlugin;
use todo::TodoPlugin;
use write::WriteArguments;

pub use contexts::{InstructionFile, InstructionFiles};
#[cfg(fuzzing)]
pub use edit::fuzz_edit;
pub use prompt::system_prompt;
#[cfg(fuzzing)]
pub use skills::fuzz_skill;
pub use skills::{Listing, Rank, Skill, Skills};

/// The name of every tool that these plugins can offer a model.
pub const TOOL_NAMES: [&str; 16] = [
    "apply_patch",
    "ask_user",
    "delete",
    "edit",
    "exit_plan_mode",
    "glob",
    "job",
    "list",
    "move",
    "read",
    "search",
    "shell",
    "skill",
    "terminal",
    "todo",
    "write",
];

/// Adds the plugins of the built-in tools, contexts and system prompt, and of this host's files.
///
/// All but `local-files` and `system-prompt` need the `Roots` of a session.
#[must_use]
pub fn plugins(plugins: Plugins) -> Plugins {
    plugins
        .with(LocalFiles)
        .with(SeenTextsPlugin)
        .with(ReadPlugin)
        .with(FilePlugin::<ListArguments>::new())
        .with(FilePlugin::<GlobArguments>::new())
        .with(FilePlugin::<SearchArguments>::new())
        .with(FilePlugin::<EditArguments>::new())
        .with(FilePlugin::<WriteArguments>::new())
        .with(FilePlugin::<MoveArguments>::new())
        .with(FilePlugin::<DeleteArguments>::new())
        .with(FilePlugin::<PatchArguments>::new())
        .with(CheckpointsPlugin)
        .with(FileChangesPlugin)
        .with(JobsPlugin)
        .with(SandboxPlugin)
        .with(ShellPlugin)
        .with(TerminalPlugin)
        .with(TodoPlugin)
        .with(ExitPlanPlugin)
        .with(AskUserPlugin)
        .with(EnvironmentPlugin)
        .with(InstructionsPlugin)
        .with(ReferencesPlugin)
        .with(SkillsPlugin)
        .with(SystemPromptPlugin)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use bridle_world::Roots;
    use expect_test::expect_file;

    use crate::testing::file_tools;

    fn roots() -> Arc<Roots> {
        Arc::new(Roots::new(PathBuf::from("/ws"), Vec::new()))
    }

    #[tokio::test]
    async fn what_a_model_is_told_of_the_file_tools() {
        let mut shown = String::new();
        for tool in file_tools(roots(), Arc::default()).await {
            let spec = tool.spec();
            shown.push_str(&format!(
                "## {}\n\n{}\n\n{}\n\n",
                spec.name, spec.description, spec.input_schema
            ));
            let schema: serde_json::Value = serde_json::from_str(spec.input_schema.get()).unwrap();
            assert_eq!(schema["type"], "object");
            assert!(schema["properties"].is_object() && schema["required"].is_array());
        }
        expect_file!["tools.snapshot.md"].assert_eq(&shown);
    }

    #[tokio::test]
    async fn an_outline_survives_any_arguments() {
        for tool in file_tools(roots(), Arc::default()).await {
            let name = tool.spec().name.clone();
            for arguments in ["", "{", "[]", "{\"path\": 3}", "{\"path\": \"a\", \"pattern"] {
                assert_eq!(tool.outline(arguments).title, name, "{arguments}");
            }
            let display = tool.outline("{\"path\": \"a\\nb\", \"pattern\": \"p\"}");
            assert!(display.title.len() > name.len() && !display.title.contains('\n'));
            assert_eq!(display.locations[0].path, PathBuf::from("/ws/a\nb"));
        }
    }
}
