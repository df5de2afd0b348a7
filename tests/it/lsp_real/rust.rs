//! Rust: rust-analyzer, where one really answers. Rustup puts a program of that name on the search path
//! that is none.

use serde_json::json;

use super::{Breaks, Live, PATIENCE, Truth, answers_are_true, skip};

const SHAPES: &str = "\
pub trait Form {
    fn fläche(&self) -> f64;
}

pub struct Kreis(pub f64);

impl Form for Kreis {
    fn fläche(&self) -> f64 {
        3.0 * self.0
    }
}

pub fn gesamtfläche(formen: &[Kreis]) -> f64 {
    formen.iter().map(|form| form.fläche()).sum()
}
";

const REPORT: &str = "\
use crate::formen::{Kreis, gesamtfläche};

pub fn bericht(formen: &[Kreis]) -> f64 {
    (\"𝒳𝒳é\".len() as f64) + gesamtfläche(formen)
}
";

const MAIN: &str = "\
mod bericht;
mod formen;

fn main() {
    let kreis = formen::Kreis(1.0);
    let summe = formen::gesamtfläche(&[kreis]);
    println!(\"{summe} {}\", bericht::bericht(&[]));
}
";

/// Whether what is called rust-analyzer is one.
#[expect(clippy::disallowed_methods, reason = "asked once, outside of the agent")]
fn is_there() -> bool {
    let version = std::process::Command::new("rust-analyzer").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

fn files() -> Vec<(&'static str, String)> {
    vec![
        ("Cargo.toml", "[package]\nname = \"formen\"\nedition = \"2024\"\n".to_owned()),
        ("src/formen.rs", SHAPES.to_owned()),
        ("src/bericht.rs", REPORT.to_owned()),
        ("src/main.rs", MAIN.to_owned()),
    ]
}

/// What `cargo check` finds and rust-analyzer itself does not: told when it was made, whether in the edited file
/// or where that is used, and not any more when it is mended; and nothing is clean before it is checked.
#[tokio::test]
async fn what_only_the_compiler_finds_comes_and_goes() {
    if !is_there() {
        return skip("rust-analyzer", "none on this machine answers");
    }
    let mut live = Live::open(&files(), &[]).await;
    let (main, shapes) = ("src/main.rs", "src/formen.rs");
    for file in [main, shapes] {
        live.ask("read", json!({"path": file})).await;
    }
    // Before it knows the project, it may be silent for seconds.
    live.nav("references", "Kreis", main, 5).await;
    let mut told = live.problems(main).await;
    for _ in 0..PATIENCE {
        if told.contains(": unknown: ") {
            told = live.problems(main).await;
        }
    }
    assert!(told.starts_with("No errors"), "{told}");
    let (sound, broken) = ("&[kreis]);", "&[kreis]);\n    drop(summe);\n    drop(kreis);");
    for _ in 0..2 {
        live.edit(main, sound, broken).await;
        let told = live.problems(main).await;
        assert!(told.contains("src/main.rs:8: error: use of moved value: `kreis`"), "{told}");
        assert!(told.contains("rustc E0382"), "{told}");
        live.edit(main, broken, sound).await;
        let told = live.problems(main).await;
        assert!(told.starts_with("No errors or warnings: src/main.rs"), "{told}");
    }
    // In a file that is not edited, and that nothing is told of before.
    let (ours, theirs) =
        ("pub struct Kreis(pub f64);", "#[derive(Debug)]\npub struct Kreis(pub f64);");
    live.edit(shapes, ours, theirs).await;
    live.edit(
        main,
        "println!(\"{summe} {}\",",
        "println!(\"{summe} {:?} {}\", formen::Kreis(1.0),",
    )
    .await;
    let told = live.problems(main).await;
    assert!(told.starts_with("No errors or warnings: src/main.rs"), "{told}");
    live.edit(shapes, theirs, ours).await;
    let told = live.problems(main).await;
    assert!(told.contains("src/main.rs:7: error:") && told.contains("E0277"), "{told}");
    live.scene.assert_lawful();
    live.client.finish(&live.scene.place).await;
    assert_eq!(live.scene.place.processes().len(), 0, "something is left");
}

#[tokio::test]
async fn rust_analyzer_answers_what_is_true() {
    if !is_there() {
        return skip("rust-analyzer", "none on this machine answers");
    }
    let truth = Truth {
        server: "rust-analyzer",
        files: files(),
        definition: "src/formen.rs:13",
        references: &["src/formen.rs:13", "src/bericht.rs:1", "src/bericht.rs:4", "src/main.rs:6"],
        call: ("src/bericht.rs", 4),
        hover: "formen: &[Kreis]",
        variable: ("kreis", "src/main.rs", 6, "src/formen.rs:5"),
        implementations: Some(("fläche", "src/formen.rs", 2, &["src/formen.rs:8"])),
        incoming: &["src/bericht.rs:4", "src/main.rs:6"],
        outline: &["Form", "Kreis", "fläche", "gesamtfläche"],
        breaks: Breaks {
            file: "src/main.rs",
            sound: "formen::Kreis(1.0);",
            first: ("formen::Kreis(\"𝒳\");", "src/main.rs:5"),
            second: ("formen::Kreis(1.0);\n    gibt_es_nicht();", "gibt_es_nicht"),
        },
    };
    answers_are_true(&truth, &[]).await;
}
