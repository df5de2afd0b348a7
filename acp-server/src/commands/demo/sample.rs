//! The demo's workspace, and what its scripted model does in it.

use std::io;
use std::path::{Path, PathBuf};

use bridle_model_server::{Answer, Script};
use bridle_store::FileStore;
use serde_json::json;

/// The key that the demo's model asks for. It opens nothing else.
pub(super) const KEY: &str = "demo-key";

/// The model that the demo asks for.
pub(super) const MODEL: &str = "anthropic/claude-sonnet-5-5";

/// What the person types.
pub(super) const PROMPT: &str = "The greeting has a typo. Fix it and run the test.";

/// The file with the typo, before and after.
pub(super) const FILE: &str = "greet.sh";
const BEFORE: &str = "#!/bin/sh\n# Greets whoever is named.\necho \"Helo, $1!\"\n";
pub(super) const AFTER: &str = "#!/bin/sh\n# Greets whoever is named.\necho \"Hello, $1!\"\n";

/// The file that the test writes when it passes: the proof that the command ran.
pub(super) const MARK: &str = "test-passed.txt";

/// The command that the model runs.
pub(super) const COMMAND: &str = "sh test.sh";

const TEST: &str = "#!/bin/sh
# Passes when the greeting is right, and leaves a mark.
said=$(sh greet.sh world)
if [ \"$said\" = \"Hello, world!\" ]; then
    echo \"ok: $said\" | tee test-passed.txt
else
    echo \"not ok: $said\"
    exit 1
fi
";

const README: &str = "# Sample\n\n`greet.sh NAME` greets. `test.sh` checks that it does.\n";

/// A folder with a workspace and a home of its own, so that nothing of the user's is read or
/// changed.
pub(super) struct Sample {
    folder: PathBuf,
    workspace: PathBuf,
}

impl Sample {
    /// Creates the folder, readable by this user only. It is not removed.
    pub(super) fn create() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("bridle-demo-").tempdir()?.keep();
        let folder = fs_err::canonicalize(folder)?;
        let workspace = folder.join("workspace");
        fs_err::create_dir(&workspace)?;
        for (name, text) in [(FILE, BEFORE), ("test.sh", TEST), ("README.md", README)] {
            fs_err::write(workspace.join(name), text)?;
        }
        Ok(Self { folder, workspace })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The `BRIDLE_HOME` of the demo.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The sessions of the demo's home.
    pub(super) fn store(&self) -> FileStore {
        FileStore::new(self.home().join("state"))
    }
}

/// What the model says and calls, one answer for each request of the turn.
pub(super) fn script() -> Script {
    let look = Answer::new()
        .thinking_in(4, "A typo in a greeting: find it first, then change exactly that line.")
        .text_in(3, "I will look for it first.")
        .tool_call("read", json!({"path": FILE}))
        .tool_call("search", json!({"pattern": "Helo"}));
    let fix = Answer::new().text_in(2, "There it is.").tool_call(
        "edit",
        json!({"path": FILE, "edits": [{"old_text": "Helo", "new_text": "Hello"}]}),
    );
    let test =
        Answer::new().text_in(2, "Now the test.").tool_call("shell", json!({"command": COMMAND}));
    let done = Answer::new().text_in(4, "The greeting says \"Hello\" now, and the test passes.");
    Script::new().key(KEY).rule(PROMPT, [look, fix, test, done])
}
