//! The tools that a model is offered and the context sources of a session.
//!
//! One file per tool; each plans a call (check, resolve, preview) and runs it through
//! `bridle-world`. Nothing here decides whether a call is allowed.

mod arguments;
mod blocking;
mod contexts;
mod diff;
mod edit;
mod glob;
mod list;
mod prompt;
mod read;
mod search;
mod shell;
mod target;
#[cfg(test)]
mod testing;
mod write;

use std::sync::Arc;

use bridle_agent::{ContextSource, Tool};
use bridle_compose::SystemClock;
use bridle_world::Roots;
use bridle_world::process::Processes;

#[cfg(fuzzing)]
pub use edit::fuzz_edit;
pub use prompt::system_prompt;

/// What the tools of a session work on.
#[derive(Clone, Debug)]
pub struct ToolWorld {
    /// The session's folders.
    pub roots: Arc<Roots>,
    /// Where commands run.
    pub processes: Processes,
}

/// The built-in tools for one session.
pub fn tools(world: &ToolWorld) -> Vec<Arc<dyn Tool>> {
    let mut tools = file_tools(&world.roots);
    tools.push(shell::tool(world));
    tools
}

fn file_tools(roots: &Arc<Roots>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::Read::new(roots.clone())),
        Arc::new(list::List::new(roots.clone())),
        Arc::new(glob::Glob::new(roots.clone())),
        Arc::new(search::Search::new(roots.clone())),
        Arc::new(edit::Edit::new(roots.clone())),
        Arc::new(write::Write::new(roots.clone())),
    ]
}

/// The context sources for one session: environment, then AGENTS.md of each root.
pub fn contexts(world: &ToolWorld) -> Vec<Arc<dyn ContextSource>> {
    vec![
        Arc::new(contexts::Environment::new(world.roots.clone(), Arc::new(SystemClock))),
        Arc::new(contexts::Instructions::new(world.roots.clone())),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use expect_test::expect_file;

    use super::*;

    #[test]
    fn what_a_model_is_told_of_the_file_tools() {
        let roots = Arc::new(Roots::new(PathBuf::from("/ws"), Vec::new()));
        let mut shown = String::new();
        for tool in file_tools(&roots) {
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

    #[test]
    fn an_outline_survives_any_arguments() {
        let roots = Arc::new(Roots::new(PathBuf::from("/ws"), Vec::new()));
        for tool in file_tools(&roots) {
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
