//! TypeScript 7, which is a server itself, and 5 behind typescript-language-server.

use super::{Breaks, Truth, answers_are_true, installed};

const SHAPES: &str = "\
export interface Form {
  fläche(): number;
}

export class Kreis implements Form {
  constructor(readonly radius: number) {}

  fläche(): number {
    return 3 * this.radius;
  }
}

export function gesamtfläche(formen: Form[]): number {
  return formen.reduce((summe, form) => summe + form.fläche(), 0);
}
";

const REPORT: &str = "\
import { Form, gesamtfläche } from \"./formen\";

export function bericht(formen: Form[]): string {
  return \"𝒳𝒳é\" + gesamtfläche(formen);
}
";

const MAIN: &str = "\
import { bericht } from \"./bericht\";
import { Kreis, gesamtfläche } from \"./formen\";

export const kreis = new Kreis(1);
export const summe: number = gesamtfläche([kreis]);
export const text = bericht([kreis]);
";

const CONFIG: &str = r#"{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022",
  "module": "esnext", "moduleResolution": "bundler", "types": []}, "include": ["src"]}
"#;

pub(super) fn truth(server: &'static str) -> Truth {
    Truth {
        server,
        files: vec![
            ("tsconfig.json", CONFIG.to_owned()),
            ("src/formen.ts", SHAPES.to_owned()),
            ("src/bericht.ts", REPORT.to_owned()),
            ("src/main.ts", MAIN.to_owned()),
        ],
        definition: "src/formen.ts:13",
        references: &[
            "src/formen.ts:13",
            "src/bericht.ts:1",
            "src/bericht.ts:4",
            "src/main.ts:2",
            "src/main.ts:5",
        ],
        call: ("src/bericht.ts", 4),
        hover: "formen: Form[]",
        variable: ("kreis", "src/main.ts", 5, "src/formen.ts:5"),
        implementations: Some(("fläche", "src/formen.ts", 2, &["src/formen.ts:8"])),
        incoming: &["src/bericht.ts:4", "src/main.ts:5"],
        outline: &["Form", "Kreis", "fläche", "gesamtfläche"],
        breaks: Breaks {
            file: "src/main.ts",
            sound: "new Kreis(1);",
            first: ("new Kreis(\"𝒳\");", "src/main.ts:4"),
            second: ("new Kreis(1);\ngibtEsNicht();", "gibtEsNicht"),
        },
    }
}

#[tokio::test]
async fn typescript_7_answers_what_is_true() {
    let Some(program) = installed("typescript", "node_modules/.bin/tsc") else { return };
    answers_are_true(&truth("typescript"), &[program.parent().unwrap().to_owned()]).await;
}

#[tokio::test]
async fn an_older_typescript_answers_what_is_true() {
    let path = "typescript-5/node_modules/.bin/typescript-language-server";
    let Some(program) = installed("typescript-language-server", path) else { return };
    let truth = truth("typescript-language-server");
    answers_are_true(&truth, &[program.parent().unwrap().to_owned()]).await;
}
