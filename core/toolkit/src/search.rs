//! `search`: lines by a regular expression.

use bridle_agent::{Display, ToolFailure, ToolKind};
use bridle_world::Roots;
use bridle_world::files::FileError;
use bridle_world::search::{ContentQuery, PassedOver, Pattern, SearchError, search_content};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, fenced, one_line, shown};

/// The most hits that are returned.
const MAX_HITS: usize = 200;
/// The most lines that are shown before and after each hit.
const MAX_CONTEXT: u8 = 10;
/// The most bytes of hits that are returned; with the note on the rest below
/// [`bridle_agent::RESULT_LIMIT`].
const MAX_TEXT_BYTES: usize = 60 * 1024;
/// What a line's number and the signs around it take, at most for files of a usual length.
const LINE_NUMBER_BYTES: usize = 15;

const DESCRIPTION: &str = "\
Finds lines that match a regular expression (Rust syntax, within one line, case-sensitive unless \
it begins with (?i)) or hold a text, shown as path:line: text, sorted by path; lines beside them as \
path-line- text. Files in other encodings than UTF-8 are searched as far as `read` can read them. \
Binary files, files over 16 MiB, files named by ignore files and .git are left out, links are not followed. At most 200 lines.";

/// Arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArguments {
    /// The regular expression, or the text where literal is set.
    pattern: String,
    /// Take pattern as a plain text. Without it: as a regular expression.
    literal: Option<bool>,
    /// How many lines before and after each match are shown, at most 10. Without it: none.
    context: Option<u8>,
    /// The folder or file to search. Without it: the working directory.
    path: Option<String>,
    /// Only files that match one of these globs; one that begins with ! leaves out the files and
    /// folders that match it. Without a / in it, by name at any depth.
    globs: Option<Vec<String>>,
}

impl Arguments for SearchArguments {
    const TOOL: &'static str = "search";
}

impl FileArguments for SearchArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Search";
    const KIND: ToolKind = ToolKind::Search;

    type Value = Hits;

    fn render(found: &Hits) -> String {
        let mut text = String::new();
        let mut count = 0;
        let with_context = found.hits.iter().any(|hit| !hit.matches);
        let mut before: Option<&Hit> = None;
        for hit in &found.hits {
            let follows = |before: &Hit| before.path == hit.path && before.line + 1 == hit.line;
            if with_context && before.is_some_and(|before| !follows(before)) {
                text.push_str("--\n");
            }
            let mark = if hit.matches { ':' } else { '-' };
            text.push_str(&format!("{}{mark}{}{mark} {}\n", hit.path, hit.line, hit.text));
            count += usize::from(hit.matches);
            before = Some(hit);
        }
        let total = found.total;
        if count == 0 {
            let cut = if found.total_is_exact { "" } else { " in the part that was searched" };
            text.push_str(&format!("No line matches {}{cut}.\n", found.pattern));
        } else if count < total || !found.total_is_exact {
            let at_least = if found.total_is_exact { "" } else { "at least " };
            text.push_str(&format!(
                "[{count} of {at_least}{total} matching lines; narrow the pattern, path or globs]\n"
            ));
        }
        if found.too_large > 0 {
            let files = files(found.too_large);
            text.push_str(&format!("[not searched, because over 16 MiB: {files}]\n"));
        }
        if found.undecoded > 0 {
            let files = files(found.undecoded);
            text.push_str(&format!(
                "[in no encoding that can be told, so that only ASCII was sought there: {files}]\n"
            ));
        }
        found.notes.iter().for_each(|note| text.push_str(&format!("[{note}]\n")));
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let target = Target::resolve(world, self.path.as_deref().unwrap_or("."))?;
        let (pattern, globs) = (self.pattern, self.globs.unwrap_or_default());
        let (literal, context) = (self.literal.unwrap_or_default(), self.context.unwrap_or(0));
        if context > MAX_CONTEXT {
            return Err(ToolFailure::bad_arguments(format!(
                "context is {context}; at most {MAX_CONTEXT} lines are shown. Nothing was searched."
            )));
        }
        Ok(Box::new(PlannedSearch { target, pattern, literal, context: context.into(), globs }))
    }
}

/// Lines that match.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Hits {
    pattern: String,
    hits: Vec<Hit>,
    total: usize,
    total_is_exact: bool,
    /// How many files were not searched because of their size.
    too_large: usize,
    /// How many files could be searched for ASCII only, because of their encoding.
    undecoded: usize,
    /// What else was not searched.
    notes: Vec<String>,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Hit {
    /// Relative to the working directory where it lies below it.
    path: String,
    /// From 1.
    line: u64,
    /// Whether it matches; otherwise it stands beside a line that does.
    matches: bool,
    text: String,
}

struct PlannedSearch {
    target: Target,
    pattern: String,
    literal: bool,
    context: usize,
    globs: Vec<String>,
}

impl FileCall<Hits> for PlannedSearch {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        let verb = format!("Search {} in", one_line(&self.pattern));
        self.target.display(&verb, ToolKind::Search, None)
    }

    fn shown(&self, found: &Hits) -> Option<String> {
        Some(fenced("", &SearchArguments::render(found)))
    }

    fn run(&self, token: &CancellationToken) -> Result<Hits, ToolFailure> {
        self.target.require_present()?;
        let query = ContentQuery {
            place: &self.target.path,
            excluded: self.target.roots().excluded(),
            pattern: match self.literal {
                true => Pattern::Literal(&self.pattern),
                false => Pattern::Regex(&self.pattern),
            },
            context: self.context,
            globs: &self.globs,
            limit: MAX_HITS,
        };
        let found = search_content(&query, token).map_err(|error| failure(&self.target, error))?;
        let mut notes = not_looked_into(self.target.roots(), &found.unreadable);
        // Those in a folder are nothing that anybody asked for.
        if found.binary > 0 && !self.target.path.is_dir() {
            let binary = "is binary: it was searched up to its first NUL at most";
            notes.push(format!("{} {binary}", self.target.shown));
        }
        let mut room = MAX_TEXT_BYTES;
        let hits = found.hits.into_iter().map_while(|hit| {
            let path = shown(self.target.roots(), &hit.path);
            room = room.checked_sub(path.len() + hit.text.len() + LINE_NUMBER_BYTES)?;
            Some(Hit { path, line: hit.line, matches: hit.matches, text: hit.text })
        });
        Ok(Hits {
            pattern: self.pattern.clone(),
            hits: hits.collect(),
            total: found.total,
            total_is_exact: !found.at_least,
            too_large: found.too_large,
            undecoded: found.undecoded,
            notes,
        })
    }
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// What is said of files and folders that could not be looked into.
pub(crate) fn not_looked_into(roots: &Roots, passed: &PassedOver) -> Vec<String> {
    let named = passed.some.iter();
    let mut notes: Vec<String> = named
        .map(|(path, why)| format!("not looked into: {}: {why}", shown(roots, path)))
        .collect();
    let more = passed.count - passed.some.len();
    if more > 0 {
        notes.push(format!("and {more} more that cannot be read"));
    }
    notes
}

/// What a search error means to the model.
pub(crate) fn failure(target: &Target, error: SearchError) -> ToolFailure {
    match error {
        SearchError::Place(FileError::Special { kind, .. }) => ToolFailure::failed(format!(
            "{} is {kind}. Only files and folders are searched.",
            target.shown
        )),
        SearchError::Place(error) => target.failure(&error),
        SearchError::Cancelled => ToolFailure::aborted("The search was cancelled."),
        SearchError::Pattern(why) => ToolFailure::failed(format!(
            "The pattern cannot be used: {why}. It is a Rust regular expression over single lines; \
             escape (, [, {{, ., *, + and ? with a backslash to match them as they are."
        )),
        SearchError::Glob(why) => ToolFailure::failed(format!("The glob cannot be used: {why}.")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::Workspace;

    #[tokio::test]
    async fn hits_are_shown_with_path_and_line() {
        let ws = Workspace::new(&[("src/a.rs", "x\nneedle 1\n"), ("b.md", "Needle 2"), ("c", "")]);
        let text = ws.text("search", json!({ "pattern": "(?i)needle" })).await;
        expect![[r#"
            b.md:1: Needle 2
            src/a.rs:2: needle 1
        "#]]
        .assert_eq(&text);
        let arguments =
            json!({ "pattern": "(?i)needle", "path": "src", "globs": ["*.rs", "!b.*"] });
        assert_eq!(ws.text("search", arguments).await, "src/a.rs:2: needle 1\n");
        let text = ws.text("search", json!({ "pattern": "absent" })).await;
        assert_eq!(text, "No line matches absent.\n");
        let text = ws.text("glob", json!({ "pattern": "*.rs" })).await;
        assert_eq!(text, "src/a.rs\n");
        let text = ws.text("glob", json!({ "pattern": "*.py" })).await;
        assert_eq!(text, "No file matches *.py.\n");
    }

    #[tokio::test]
    async fn lines_beside_a_hit_and_literal_texts() {
        let ws = Workspace::new(&[("a", "one\nf(x)\nthree\nfour\nfive\nf(x)\n")]);
        let arguments = json!({ "pattern": "f(x)", "literal": true, "context": 1 });
        expect![[r#"
            a-1- one
            a:2: f(x)
            a-3- three
            --
            a-5- five
            a:6: f(x)
        "#]]
        .assert_eq(&ws.text("search", arguments).await);
        let error = ws.error("search", json!({ "pattern": "x", "context": 11 })).await;
        expect!["context is 11; at most 10 lines are shown. Nothing was searched."]
            .assert_eq(&error);
    }

    /// A name that is not UTF-8 is shown in one way by every tool, and every tool takes it so.
    #[tokio::test]
    async fn names_that_are_not_utf_8_can_be_used() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;

        let ws = Workspace::new(&[]);
        let folder = ws.roots.cwd().join(OsStr::from_bytes(b"d\xfe"));
        fs_err::create_dir(&folder).unwrap();
        let file = folder.join(OsStr::from_bytes(b"bad\xffname"));
        fs_err::write(&file, "needle\n").unwrap();
        let shown = r"d\xfe/bad\xffname";
        let text = ws.text("glob", json!({ "pattern": "*" })).await;
        assert_eq!(text, format!("{shown}\n"));
        let text = ws.text("search", json!({ "pattern": "needle" })).await;
        assert_eq!(text, format!("{shown}:1: needle\n"));
        assert_eq!(ws.text("list", json!({ "path": "." })).await, "d\\xfe/\n");
        let text = ws.text("list", json!({ "path": r"d\xfe" })).await;
        assert_eq!(text, "bad\\xffname  7\n");
        let error = ws.error("read", json!({ "path": r"d\xfe/bad\xffnam" })).await;
        assert!(error.ends_with(r"There is `bad\xffname`."), "{error}");
        let edits = json!([{ "old_text": "needle", "new_text": "thread" }]);
        for (tool, arguments) in [
            ("glob", json!({ "pattern": "*", "path": r"d\xfe" })),
            ("search", json!({ "pattern": "needle", "path": shown })),
            ("list", json!({ "path": r"d\xfe" })),
            ("read", json!({ "path": shown })),
            ("edit", json!({ "path": shown, "edits": edits })),
            ("write", json!({ "path": shown, "content": "new" })),
        ] {
            let outcome = ws.run(tool, arguments).await.unwrap();
            // What is stored and sent is JSON.
            let stored = serde_json::to_string(&outcome.display).unwrap();
            assert!(stored.contains(r"d\\xfe"), "{stored}");
        }
        assert_eq!(fs_err::read(&file).unwrap(), b"new");
    }

    #[tokio::test]
    async fn caps_are_named() {
        let ws = Workspace::new(&[("many", &"needle\n".repeat(300))]);
        let text = ws.text("search", json!({ "pattern": "needle" })).await;
        assert!(text.ends_with("[200 of 300 matching lines; narrow the pattern, path or globs]\n"));
        ws.put("many", "needle\n".repeat(20_000));
        let text = ws.text("search", json!({ "pattern": "needle" })).await;
        assert!(text.contains("[200 of at least 10000 matching lines"), "{text}");
        for n in 0..300 {
            ws.put(&format!("f{n:03}.txt"), "");
        }
        let text = ws.text("glob", json!({ "pattern": "f*.txt" })).await;
        assert!(text.ends_with("f199.txt\n[200 of 300 files; narrow the glob]\n"), "{text}");
    }

    #[tokio::test]
    async fn wide_hits_are_cut_by_size() {
        let wide = format!("needle{}\n", "😀".repeat(400));
        let ws = Workspace::new(&[("many", &wide.repeat(150))]);
        let text = ws.text("search", json!({ "pattern": "needle" })).await;
        assert!(text.len() <= 66 * 1024 && text.contains(" of 150 matching lines;"), "{text}");
    }

    /// What was asked for and not looked at is said.
    #[tokio::test]
    async fn what_was_not_searched_is_named() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

        let ws = Workspace::new(&[("tree/bin", "needle\0"), ("text", "needle")]);
        let error = ws.error("search", json!({ "pattern": "x", "path": "/dev/null" })).await;
        expect!["/dev/null is a device. Only files and folders are searched."].assert_eq(&error);
        ws.fifo("fifo");
        let error = ws.error("search", json!({ "pattern": "x", "path": "fifo" })).await;
        expect!["fifo is a FIFO. Only files and folders are searched."].assert_eq(&error);
        for file in ["fifo", "text"] {
            let error = ws.error("glob", json!({ "pattern": "*", "path": file })).await;
            assert_eq!(error, format!("{file} is not a folder. Use `read` for a file."));
        }
        let text = ws.text("search", json!({ "pattern": "needle", "path": "tree/bin" })).await;
        expect![[r#"
            No line matches needle.
            [tree/bin is binary: it was searched up to its first NUL at most]
        "#]]
        .assert_eq(&text);
        let text = ws.text("search", json!({ "pattern": "needle", "path": "tree" })).await;
        assert_eq!(text, "No line matches needle.\n");
        for glob in ["../*", "/base/ws/*.rs", "a/../b"] {
            let error = ws.error("glob", json!({ "pattern": glob })).await;
            assert!(error.contains("name that folder as `path`"), "{error}");
            let globs = json!({ "pattern": "x", "globs": [format!("!{glob}")] });
            let error = ws.error("search", globs).await;
            assert!(error.contains("name that folder as `path`"), "{error}");
        }
        // A folder that nobody can look into by its path, not even root.
        let mut folder = openat(CWD, ws.roots.cwd(), OFlags::PATH, Mode::empty()).unwrap();
        for _ in 0..17 {
            let name = "d".repeat(250);
            mkdirat(&folder, &name, Mode::RWXU).unwrap();
            folder = openat(&folder, &name, OFlags::PATH, Mode::empty()).unwrap();
        }
        for (tool, arguments) in
            [("search", json!({ "pattern": "absent" })), ("glob", json!({ "pattern": "absent" }))]
        {
            let text = ws.text(tool, arguments).await;
            let note = text.lines().last().unwrap();
            assert!(note.starts_with("[not looked into: ddd"), "{text}");
            assert!(note.ends_with("File name too long (os error 36)]"), "{text}");
        }
    }

    /// What `read` shows of a file, `search` finds in it.
    #[tokio::test]
    async fn texts_in_other_encodings_are_searched() {
        let ws = Workspace::new(&[]);
        ws.put("latin.txt", b"one\nStra\xdfe und Br\xfccke\n");
        let utf16: Vec<u8> =
            "\u{feff}a\nStraße\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        ws.put("utf16.txt", &utf16);
        ws.put("utf8.txt", "Straße\n");
        ws.put("large.txt", [&b"x\n".repeat(50_000)[..], b"Stra\xdfe\n"].concat());
        ws.put("damaged.txt", ["grün blau weiß Straße ".as_bytes(), b"\xe9\n"].concat());
        for pattern in ["Straße", "Stra.e", "(?i)STRASSE|straße"] {
            let text = ws.text("search", json!({ "pattern": pattern, "path": "." })).await;
            let expected = "\
damaged.txt:1: grün blau weiß Straße \u{fffd}
large.txt:50001: Straße
latin.txt:2: Straße und Brücke
utf16.txt:2: Straße
utf8.txt:1: Straße
[in no encoding that can be told, so that only ASCII was sought there: 1 file]
";
            assert_eq!(text, expected, "{pattern}");
        }
        // An ASCII pattern finds the same lines, and shows them as they are.
        let text = ws.text("search", json!({ "pattern": "Br.?cke|one", "context": 1 })).await;
        assert!(text.starts_with("latin.txt:1: one\nlatin.txt:2: Straße und Brücke\n["), "{text}");
        let text = ws.text("search", json!({ "pattern": "und", "path": "latin.txt" })).await;
        assert_eq!(text, "latin.txt:2: Straße und Brücke\n");
        let text = ws.text("search", json!({ "pattern": "a", "path": "utf16.txt" })).await;
        assert_eq!(text, "utf16.txt:1: a\nutf16.txt:2: Straße\n");
    }

    #[tokio::test]
    async fn bad_patterns_and_places_are_said() {
        let ws = Workspace::new(&[]);
        let error = ws.error("search", json!({ "pattern": "foo(" })).await;
        assert!(error.starts_with("The pattern cannot be used: "), "{error}");
        assert!(error.contains("unclosed group"), "{error}");
        let error = ws.error("glob", json!({ "pattern": "[" })).await;
        assert!(error.starts_with("The glob cannot be used: "), "{error}");
        let error = ws.error("search", json!({ "pattern": "x", "path": "absent" })).await;
        expect!["/base/ws/absent does not exist."].assert_eq(&error);
    }
}
