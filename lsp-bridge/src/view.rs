//! Places as a model reads them: `path:line: source`, never more than fits, and what was left out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_agent::Location;
use bridle_world::files::Files;
use bridle_world::search::IgnoreRules;

use crate::answer::Place;
use crate::desk::Desk;
use crate::reply::Completeness;
use crate::source::Source;
use crate::symbol::quoted;
use crate::tool::Told;

/// The most characters that an answer has.
pub(crate) const MAX_CHARS: usize = 16_000;

/// For how many files with further places their number is said.
const MAX_COUNTED: usize = 20;

/// The most places outside of the session's folders that are shown.
const MAX_EXTERNAL: usize = 20;

/// Which part of a list is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

impl Page {
    /// What the model asks for, within bounds. A limit of 0 is for the counts alone.
    pub(crate) fn of(limit: Option<usize>, offset: Option<usize>) -> Self {
        Self { limit: limit.unwrap_or(100).min(1_000), offset: offset.unwrap_or(0) }
    }

    /// That a list of this length has nothing of it, as a line; empty where it has.
    pub(crate) fn is_behind(&self, count: usize) -> String {
        match count > 0 && self.offset >= count {
            true => {
                format!("None is shown: offset {} is behind the last of {count}\n", self.offset)
            }
            false => String::new(),
        }
    }
}

/// Whether what ignore files leave out is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignored {
    Shown,
    LeftOut,
}

/// One line of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) place: Place,
    /// What stands before the source, e.g. what it is.
    pub(crate) label: Option<String>,
}

/// Texts of files, each read once.
struct Texts<'a> {
    files: &'a Arc<dyn Files>,
    known: HashMap<PathBuf, Option<Source>>,
}

impl Texts<'_> {
    fn line(&mut self, path: &Path, line: usize) -> Option<String> {
        let files = self.files;
        let read = || Source::read(&**files, path).ok();
        let source = self.known.entry(path.to_owned()).or_insert_with(read);
        source.as_ref().and_then(|source| source.line(line)).map(quoted)
    }
}

/// How far an answer can be trusted, in words.
pub(crate) fn trust(completeness: &Completeness) -> String {
    match completeness {
        Completeness::Complete => "complete".to_owned(),
        Completeness::Loading(what) => {
            format!("still loading ({what}): may be incomplete or wrong, ask again later")
        }
        Completeness::Checking(what) => {
            format!("still checking ({what}): there may be more, ask again later")
        }
        Completeness::Found(what) => format!("still loading ({what}): there may be more"),
        Completeness::Partial(why) | Completeness::Unchecked(why) => {
            format!("may be incomplete: {why}")
        }
        Completeness::Sick(why) => {
            format!("the server says that it failed: {why}; do not rely on it")
        }
    }
}

/// How many more there are that are in no file of this machine, as the end of who was asked.
pub(crate) fn in_no_file(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 more is in no file".to_owned(),
        _ => format!("; {count} more are in no file"),
    }
}

/// That there is nothing of the kind; or that this is not known. `who` was asked.
pub(crate) fn nothing(what: &str, who: &str, completeness: &Completeness, note: &str) -> Told {
    let unknown = "Whether there are any is unknown";
    let text = match completeness {
        Completeness::Complete => format!("No {what} (confirmed by {who}).{note}\n"),
        Completeness::Partial(why) => {
            format!("No {what} that {who} knows; {why}. {unknown}.{note}\n")
        }
        unsure => format!("No {what} yet: {who} is {}. {unknown}.{note}\n", trust(unsure)),
    };
    Told { text, ..Told::default() }
}

/// A list of places: `what` in the singular and plural.
pub(crate) async fn list(
    desk: &Arc<DeskView>,
    rows: Vec<Row>,
    what: (&'static str, &'static str),
    who: String,
    page: Page,
    ignored: Ignored,
) -> Told {
    let desk = Arc::clone(desk);
    let rendering = tokio::task::spawn_blocking(move || {
        let mut rows = canonical(rows);
        let mut left_out = 0;
        if ignored == Ignored::LeftOut {
            let rules = IgnoreRules::default();
            let root_of = |path: &Path| desk.roots.iter().find(|root| path.starts_with(root));
            rows.retain(|row| {
                let path = &row.place.path;
                let stays = root_of(path).is_none_or(|root| !rules.leaves_out(root, path));
                left_out += usize::from(!stays);
                stays
            });
        }
        desk.render(&rows, left_out, what, &who, page)
    });
    rendering.await.unwrap_or_default()
}

/// The rows under the places of their files, links followed, each once: some servers find a file by every
/// way that leads to it. Blocks.
fn canonical(mut rows: Vec<Row>) -> Vec<Row> {
    let mut known: HashMap<PathBuf, PathBuf> = HashMap::new();
    for row in &mut rows {
        let path = &mut row.place.path;
        let real = known.entry(path.clone());
        let real = real.or_insert_with(|| fs_err::canonicalize(&*path).unwrap_or(path.clone()));
        path.clone_from(real);
    }
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert((row.place.clone(), row.label.clone())));
    rows
}

/// What of a session its answers are shown with.
pub(crate) struct DeskView {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    files: Arc<dyn Files>,
}

impl DeskView {
    pub(crate) fn of(desk: &Desk) -> Arc<Self> {
        Arc::new(Self {
            cwd: desk.roots.cwd().to_owned(),
            roots: desk.project.roots.to_vec(),
            files: Arc::clone(&desk.project.files),
        })
    }

    fn shown(&self, path: &Path) -> String {
        bridle_world::path_text(path.strip_prefix(&self.cwd).unwrap_or(path))
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Blocks.
    fn render(
        &self,
        rows: &[Row],
        left_out: usize,
        (one, many): (&str, &str),
        who: &str,
        page: Page,
    ) -> Told {
        let mut told = Told::default();
        let files: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.place.path).collect();
        let name = if rows.len() == 1 { one } else { many };
        let plural = if files.len() == 1 { "" } else { "s" };
        let mut text = format!("{} {name} in {} file{plural} ({who})\n", rows.len(), files.len());
        text.push_str(&page.is_behind(rows.len()));
        let mut texts = Texts { files: &self.files, known: HashMap::new() };
        let (mut shown, mut external, mut hidden) = (0, 0, 0);
        for row in rows.iter().skip(page.offset).take(page.limit) {
            let Place { path, range } = &row.place;
            let is_inside = self.is_inside(path);
            shown += 1;
            external += usize::from(!is_inside);
            if !is_inside && external > MAX_EXTERNAL {
                hidden += 1;
                continue;
            }
            let line = range.start.line;
            let source = texts.line(path, line).unwrap_or_default();
            let label = row.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
            let flag = if is_inside { "" } else { " (external)" };
            let row = format!("{}:{}{flag}: {label}{source}\n", self.shown(path), line + 1);
            if text.len() + row.len() > MAX_CHARS - 1_000 {
                shown -= 1;
                break;
            }
            text.push_str(&row);
            let number = u32::try_from(line + 1).ok();
            told.locations.push(Location { path: path.clone(), line: number });
        }
        if hidden > 0 {
            text.push_str(&format!(
                "{hidden} more outside of the session's folders are not shown\n"
            ));
        }
        if left_out > 0 {
            text.push_str(&format!("{left_out} more in files that ignore files leave out\n"));
        }
        let next = page.offset + shown;
        text.push_str(&self.rest(rows.get(next..).unwrap_or_default(), next));
        Told { text, ..told }
    }

    /// What is not shown: how many in which files.
    fn rest(&self, rows: &[Row], next: usize) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let mut counts: BTreeMap<&Path, usize> = BTreeMap::new();
        for row in rows {
            *counts.entry(&row.place.path).or_default() += 1;
        }
        let files = counts.len();
        let named = counts.iter().take(MAX_COUNTED);
        let named = named.map(|(path, count)| format!("{} ({count})", self.shown(path)));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match files.saturating_sub(MAX_COUNTED) {
            0 => String::new(),
            more => format!(", and {more} more files"),
        };
        let count = rows.len();
        format!("{count} more are not shown (offset {next} goes on): {named}{more}\n")
    }
}
