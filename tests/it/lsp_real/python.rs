//! Python: ty and pyright.

use serde_json::json;

use super::{Breaks, FUNCTION, Live, Truth, answers_are_true, installed, places, set};

const SHAPES: &str = "\
from abc import ABC, abstractmethod
from collections.abc import Sequence


class Form(ABC):
    @abstractmethod
    def fläche(self) -> float: ...


class Kreis(Form):
    def __init__(self, radius: float) -> None:
        self.radius = radius

    def fläche(self) -> float:
        return 3.0 * self.radius


def gesamtfläche(formen: Sequence[Form]) -> float:
    return sum(form.fläche() for form in formen)
";

const REPORT: &str = "\
from collections.abc import Sequence

from formen import Form, gesamtfläche


def bericht(formen: Sequence[Form]) -> float:
    return len(\"𝒳𝒳é\") + gesamtfläche(formen)
";

const MAIN: &str = "\
from bericht import bericht
from formen import Kreis, gesamtfläche

kreis = Kreis(1.0)
summe: float = gesamtfläche([kreis])
print(bericht([kreis]), summe)
";

pub(super) fn truth(server: &'static str) -> Truth {
    Truth {
        server,
        files: vec![
            ("pyproject.toml", "[project]\nname = \"formen\"\nversion = \"1\"\n".to_owned()),
            ("formen.py", SHAPES.to_owned()),
            ("bericht.py", REPORT.to_owned()),
            ("main.py", MAIN.to_owned()),
        ],
        definition: "formen.py:18",
        references: &["formen.py:18", "bericht.py:3", "bericht.py:7", "main.py:2", "main.py:5"],
        call: ("bericht.py", 7),
        hover: "Sequence[Form]",
        variable: ("kreis", "main.py", 5, "formen.py:10"),
        implementations: None,
        incoming: &["bericht.py:7", "main.py:5"],
        outline: &["Form", "Kreis", "fläche", "gesamtfläche"],
        breaks: Breaks {
            file: "main.py",
            sound: "kreis = Kreis(1.0)",
            first: ("kreis = Kreis(\"𝒳\")", "main.py:4"),
            second: ("kreis = Kreis(1.0)\nnichts = gibt_es_nicht", "gibt_es_nicht"),
        },
    }
}

#[tokio::test]
async fn ty_answers_what_is_true() {
    let Some(program) = installed("ty", ".venv/bin/ty") else { return };
    answers_are_true(&truth("ty"), &[program.parent().unwrap().to_owned()]).await;
}

/// What a command changes is known to the server with the next question.
#[tokio::test]
async fn ty_hears_of_what_commands_change() {
    let Some(program) = installed("ty", ".venv/bin/ty") else { return };
    let truth = truth("ty");
    let mut live = Live::open(&truth.files, &[program.parent().unwrap().to_owned()]).await;
    let (call, line) = truth.call;
    let before = live.nav("references", FUNCTION, call, line).await;
    assert_eq!(places(&before), set(truth.references), "{before}");
    let command = "printf 'import formen\\n\\nformen.gesamtfläche([])\\n' > neu.py; rm main.py";
    live.ask("shell", json!({"command": command})).await;
    let after = live.nav("references", FUNCTION, call, line).await;
    let mut expected = set(truth.references);
    expected.retain(|place| !place.starts_with("main.py"));
    expected.insert("neu.py:3".to_owned());
    assert_eq!(places(&after), expected, "{after}");
    live.client.finish(&live.scene.place).await;
}

#[tokio::test]
async fn pyright_answers_what_is_true() {
    let Some(program) = installed("pyright", "node_modules/.bin/pyright-langserver") else {
        return;
    };
    answers_are_true(&truth("pyright"), &[program.parent().unwrap().to_owned()]).await;
}
