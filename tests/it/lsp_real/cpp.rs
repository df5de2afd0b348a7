//! C++: clangd.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Breaks, FUNCTION, Live, Truth, answers_are_true, installed, places, set};

const HEADER: &str = "\
#pragma once
#include \"form.hpp\"

double gesamtfläche(const Form *const *formen, int anzahl);
";

const SHAPE: &str = "\
#pragma once

struct Form {
  virtual double fläche() const = 0;
};

struct Kreis : Form {
  double radius;
  explicit Kreis(double r) : radius(r) {}
  double fläche() const override { return 3 * radius; }
};
";

const SHAPES: &str = "\
#include \"formen.hpp\"

double gesamtfläche(const Form *const *formen, int anzahl) {
  double summe = 0;
  for (int i = 0; i < anzahl; ++i) summe += formen[i]->fläche();
  return summe;
}
";

const REPORT: &str = "\
#include \"formen.hpp\"

double bericht(const Form *const *formen, int anzahl) {
  return sizeof(\"𝒳𝒳é\") + gesamtfläche(formen, anzahl);
}
";

const MAIN: &str = "\
#include \"formen.hpp\"

int main() {
  Kreis kreis(1.0);
  const Form *formen[] = {&kreis};
  return gesamtfläche(formen, 1) > 3;
}
";

/// How each of these files is compiled.
fn database(files: &[&str]) -> String {
    let entry = |file: &str| {
        format!(
            "{{\"directory\": \"${{workspace}}\", \"file\": \"{file}\", \"arguments\": [\"c++\", \
             \"-std=c++17\", \"-c\", \"{file}\"]}}"
        )
    };
    let entries: Vec<_> = files.iter().map(|file| entry(file)).collect();
    format!("[{}]\n", entries.join(",\n"))
}

const FILES: [&str; 3] = ["formen.cpp", "bericht.cpp", "main.cpp"];

/// Files that take long to read.
const MORE: [&str; 6] = ["a.cpp", "b.cpp", "c.cpp", "d.cpp", "e.cpp", "f.cpp"];

/// A class that a header defines, in a project of more files.
pub(super) fn truth_of_many_files() -> Truth {
    let mut truth = truth();
    truth.files.retain(|(name, _)| *name != "compile_commands.json");
    truth.files.push(("compile_commands.json", database(&[&FILES[..], &MORE].concat())));
    truth.files.extend(MORE.map(|name| (name, "#include <string>\n".to_owned())));
    Truth { call: ("main.cpp", 4), definition: "form.hpp:7", ..truth }
}

pub(super) fn truth() -> Truth {
    Truth {
        server: "clangd",
        files: vec![
            ("compile_commands.json", database(&FILES)),
            ("form.hpp", SHAPE.to_owned()),
            ("formen.hpp", HEADER.to_owned()),
            ("formen.cpp", SHAPES.to_owned()),
            ("bericht.cpp", REPORT.to_owned()),
            ("main.cpp", MAIN.to_owned()),
        ],
        definition: "formen.cpp:3",
        references: &["formen.hpp:4", "formen.cpp:3", "bericht.cpp:4", "main.cpp:6"],
        call: ("bericht.cpp", 4),
        hover: "anzahl",
        variable: ("kreis", "main.cpp", 5, "form.hpp:7"),
        implementations: Some(("fläche", "form.hpp", 4, &["form.hpp:10"])),
        incoming: &["bericht.cpp:4", "main.cpp:6"],
        outline: &["gesamtfläche"],
        breaks: Breaks {
            file: "main.cpp",
            sound: "Kreis kreis(1.0);",
            first: ("Kreis kreis(\"𝒳\");", "main.cpp:4"),
            second: ("Kreis kreis(1.0);\n  gibt_es_nicht();", "gibt_es_nicht"),
        },
    }
}

#[tokio::test]
async fn clangd_answers_what_is_true() {
    let Some(program) = installed("clangd", ".venv/bin/clangd") else { return };
    answers_are_true(&truth(), &[program.parent().unwrap().to_owned()]).await;
}

/// Without a list of the project's files clangd answers of what it was shown, and that is said.
#[tokio::test]
async fn clangd_without_a_database_is_not_believed_to_know_the_project() {
    let Some(program) = installed("clangd", ".venv/bin/clangd") else { return };
    let mut truth = truth();
    truth.files.retain(|(name, _)| *name != "compile_commands.json");
    truth.files.push(("compile_flags.txt", "-std=c++17\n".to_owned()));
    let mut live = Live::open(&truth.files, &[program.parent().unwrap().to_owned()]).await;
    let (call, line) = truth.call;
    let references = live.nav("references", FUNCTION, call, line).await;
    assert!(
        references.contains("may be incomplete: without compile_commands.json"),
        "{references}"
    );
    live.client.finish(&live.scene.place).await;
}

/// A folder that is reached through a link: clangd takes one file under two names for two files.
#[tokio::test]
async fn clangd_knows_a_linked_project_whole() {
    let Some(program) = installed("clangd", ".venv/bin/clangd") else { return };
    let truth = truth();
    let tools = [program.parent().unwrap().to_owned()];
    let by_link = |workspace: &Path| {
        let link = workspace.with_file_name("linked");
        symlink(workspace, &link).unwrap();
        link
    };
    let mut live = Live::open_by(&truth.files, &tools, by_link).await;
    let (call, line) = truth.call;
    let references = live.nav("references", FUNCTION, call, line).await;
    assert_eq!(places(&references), set(truth.references), "{references}");
    live.client.finish(&live.scene.place).await;
}
