//! Rust: rust-analyzer, where one really answers. Rustup puts a program of that name on the search path
//! that is none.

use super::{Breaks, Truth, answers_are_true, skip};

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

#[tokio::test]
async fn rust_analyzer_answers_what_is_true() {
    if !is_there() {
        return skip("rust-analyzer", "none on this machine answers");
    }
    let truth = Truth {
        server: "rust-analyzer",
        files: vec![
            ("Cargo.toml", "[package]\nname = \"formen\"\nedition = \"2024\"\n".to_owned()),
            ("src/formen.rs", SHAPES.to_owned()),
            ("src/bericht.rs", REPORT.to_owned()),
            ("src/main.rs", MAIN.to_owned()),
        ],
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
