//! The walk that both searches share.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::rules::Rules;
use super::{MAX_COLLECTED, MAX_VISITED, SearchError};

/// The most threads of one walk.
const MAX_THREADS: usize = 4;

/// The most of what could not be looked into that is named.
const MAX_NAMED: usize = 3;

/// Files and folders that could not be looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// How many.
    pub count: usize,
    /// Some of them, and why.
    pub some: Vec<(PathBuf, String)>,
}

/// What a walk collected.
pub(super) struct Collected<T> {
    pub(super) items: Vec<T>,
    pub(super) unreadable: PassedOver,
    /// Whether it stopped at a limit, so that there may be more.
    pub(super) stopped: bool,
}

/// Where found items go.
pub(super) struct Collector<T> {
    items: Mutex<Vec<T>>,
    unreadable: Mutex<PassedOver>,
    full: AtomicBool,
}

impl<T> Collector<T> {
    /// Whether there is room for more.
    pub(super) fn add(&self, item: T) -> bool {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() >= MAX_COLLECTED {
            self.full.store(true, Ordering::Relaxed);
            return false;
        }
        items.push(item);
        true
    }

    /// Notes what could not be looked into, unless it is not there any more.
    pub(super) fn pass_over(&self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.count += 1;
        if unreadable.some.len() < MAX_NAMED {
            unreadable.some.push((path.to_owned(), error.to_string()));
        }
    }
}

/// What an error of the walk is about.
fn place_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } => place_of(err),
        _ => None,
    }
}

/// Walks `folder` on several threads for `time` at most, and shows `visit` every entry that is not a
/// folder.
pub(super) fn walk<T: Send>(
    folder: &Path,
    excluded: &[PathBuf],
    token: &CancellationToken,
    time: Duration,
    visit: impl Fn(&DirEntry, &Collector<T>) + Sync,
) -> Result<Collected<T>, SearchError> {
    let begun = Instant::now();
    let collector = Collector {
        items: Mutex::new(Vec::new()),
        unreadable: Mutex::default(),
        full: AtomicBool::new(false),
    };
    let visited = AtomicUsize::new(0);
    builder(folder, excluded).build_parallel().run(|| {
        Box::new(|entry| {
            let count = visited.fetch_add(1, Ordering::Relaxed);
            if token.is_cancelled() || count >= MAX_VISITED {
                return WalkState::Quit;
            }
            if begun.elapsed() >= time {
                collector.full.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    if let (Some(path), Some(why)) = (place_of(&error), error.io_error()) {
                        collector.pass_over(path, why);
                    }
                    return WalkState::Continue;
                }
            };
            if entry.file_type().is_some_and(|kind| !kind.is_dir()) {
                visit(&entry, &collector);
            }
            if collector.full.load(Ordering::Relaxed) {
                WalkState::Quit
            } else {
                WalkState::Continue
            }
        })
    });
    if token.is_cancelled() {
        return Err(SearchError::Cancelled);
    }
    let stopped = collector.full.into_inner() || visited.into_inner() > MAX_VISITED;
    let items = collector.items.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut unreadable = collector.unreadable.into_inner().unwrap_or_else(PoisonError::into_inner);
    unreadable.some.sort();
    Ok(Collected { items, unreadable, stopped })
}

fn builder(folder: &Path, excluded: &[PathBuf]) -> WalkBuilder {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
    let excluded = excluded.to_vec();
    let rules = Rules::default();
    let mut builder = WalkBuilder::new(folder);
    builder.standard_filters(false).follow_links(false).threads(threads).filter_entry(
        move |entry| {
            let path = entry.path();
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            // What was asked for by name is searched, whatever it is.
            entry.depth() == 0
                || (entry.file_name() != ".git"
                    && !(is_folder && excluded.iter().any(|folder| path == folder))
                    && !rules.ignored(path, is_folder))
        },
    );
    builder
}

/// A glob over paths relative to the searched folder. Without a `/` it is matched against the
/// file name, at any depth; with one, against the whole relative path, where `*` stops at `/`.
pub(super) struct PathGlob {
    matcher: GlobMatcher,
    name_only: bool,
}

impl PathGlob {
    pub(super) fn new(glob: &str) -> Result<Self, SearchError> {
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        let leads_out = |part| matches!(part, Component::RootDir | Component::ParentDir);
        if Path::new(glob).components().any(leads_out) {
            return Err(SearchError::Glob(
                "it is compared with what lies below the folder that is looked in, so it can \
                 neither be absolute nor hold `..`; name that folder as `path`"
                    .to_owned(),
            ));
        }
        let matcher = GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .map_err(|error| SearchError::Glob(error.to_string()))?
            .compile_matcher();
        Ok(Self { matcher, name_only: !glob.contains('/') })
    }

    pub(super) fn matches(&self, folder: &Path, path: &Path) -> bool {
        if self.name_only {
            return path.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        path.strip_prefix(folder).is_ok_and(|relative| self.matcher.is_match(relative))
    }
}

/// Several globs: a path matches at least one of those without a leading `!`, if there are any, and
/// none of those with one, nor lies in a folder that does.
pub(super) struct PathGlobs {
    wanted: Vec<PathGlob>,
    unwanted: Vec<PathGlob>,
}

impl PathGlobs {
    pub(super) fn new(globs: &[String]) -> Result<Self, SearchError> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for glob in globs {
            match glob.strip_prefix('!') {
                // Whoever writes a folder with a slash at its end means what is in it.
                Some(glob) => unwanted.push(PathGlob::new(glob.strip_suffix('/').unwrap_or(glob))?),
                None => wanted.push(PathGlob::new(glob)?),
            }
        }
        Ok(Self { wanted, unwanted })
    }

    pub(super) fn matches(&self, folder: &Path, path: &Path) -> bool {
        let below = |path: &&Path| path.starts_with(folder) && *path != folder;
        let is_unwanted = |path: &Path| self.unwanted.iter().any(|glob| glob.matches(folder, path));
        (self.wanted.is_empty() || self.wanted.iter().any(|glob| glob.matches(folder, path)))
            && (self.unwanted.is_empty() || !path.ancestors().take_while(below).any(is_unwanted))
    }
}
