//! The one place that finds or builds the binary under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

/// The binary: what `BRIDLE_BIN` names, else a debug build made now, once per test process.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("BRIDLE_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

#[expect(clippy::disallowed_methods, reason = "the tests start programs as a person would")]
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args(["build", "--quiet", "--package", "bridle", "--bin", "bridle"])
        .args(["--message-format", "json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "the binary does not build:\n{stdout}");
    stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the executable")
}
