//! The folders a session works in, and where a path stands towards them.
//!
//! A path is resolved to the place that the kernel would reach, every link followed by hand, also
//! when the last part does not exist yet; only then is it judged, component by component. There
//! is no lexical fallback: what cannot be resolved is an error. Later opens of a resolved path
//! follow no link at all (`files`), so the place that was judged is the place that is used.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::git::would_be_in_git;
use crate::names::{name_of, path_text};
use crate::protected_names::protected_name;

/// The most links that one path may lead through; the kernel's own limit.
const MAX_LINKS: usize = 40;

/// The canonical working directory and further roots of a session.
#[derive(Clone, Debug)]
pub struct Roots {
    cwd: PathBuf,
    extra: Vec<PathBuf>,
    excluded: Vec<PathBuf>,
    /// Where results lie that were too large for the model to be shown whole.
    results: Option<PathBuf>,
    /// Where the placeholders of confined commands are on record.
    records: Option<PathBuf>,
    /// Folders outside that may be read like the roots, as they are now.
    readable: Arc<RwLock<Vec<PathBuf>>>,
}

/// Where a resolved path stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Under a root, links resolved.
    Inside(PathBuf),
    /// Elsewhere, links resolved.
    Outside(PathBuf),
}

impl Placement {
    /// The resolved path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Inside(path) | Self::Outside(path) => path,
        }
    }
}

/// A path that cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no text.
    #[error("the path is empty")]
    Empty,
    /// The text holds a NUL character.
    #[error("the path contains a NUL character")]
    Nul,
    /// The text begins with `~`, which only a shell expands.
    #[error("`~` is not expanded; give an absolute path, or `./{0}` for a file of that very name")]
    Tilde(String),
    /// `..` stands after a part that does not exist.
    #[error("{}: `..` after a part that does not exist", path_text(.0))]
    ParentOfMissing(PathBuf),
    /// `..` or a further part stands after something that is not a folder.
    #[error("{} is not a folder", path_text(.0))]
    NotAFolder(PathBuf),
    /// The links go round in circles.
    #[error("{}: too many links", path_text(.0))]
    TooManyLinks(PathBuf),
    /// Two names in one folder share the text: one holds it, one is shown as it.
    #[error("{} names two files: one is called that, the other one's name has characters that are shown so", path_text(.0))]
    Ambiguous(PathBuf),
    /// The file system refused to say.
    #[error("{}: {source}", path_text(.path))]
    Io {
        /// The part that could not be looked at.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Roots {
    /// Roots from canonical, absolute folders.
    pub fn new(cwd: PathBuf, extra: Vec<PathBuf>) -> Self {
        Self {
            cwd,
            extra,
            excluded: Vec::new(),
            results: None,
            records: None,
            readable: Arc::default(),
        }
    }

    /// Takes absolute folders out of the roots again, wherever they lie: Bridle's own home and
    /// state. Everything in them is [`Placement::Outside`]. They are resolved here, need not exist
    /// yet, and are taken as they are when they cannot be resolved.
    pub fn excluding(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let resolved = folders.into_iter().map(|folder| follow(&folder).unwrap_or(folder));
        self.excluded.extend(resolved);
        self
    }

    /// Names the folder of kept results. Its files may be read like files in the roots although
    /// they are outside, and nothing else of it ([`Roots::is_result`]).
    pub fn with_results(mut self, folder: PathBuf) -> Self {
        self.results = Some(follow(&folder).unwrap_or(folder));
        self
    }

    /// Names the folder in which the placeholders of confined commands are on record.
    pub fn with_records(mut self, folder: PathBuf) -> Self {
        self.records = Some(folder);
        self
    }

    /// Names the canonical folders outside whose files may be read like files in the roots, in the place
    /// of those named before; for every copy of these roots.
    pub fn set_readable(&self, folders: Vec<PathBuf>) {
        *self.readable.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Whether a resolved path lies in one of the folders that [`Roots::set_readable`] named. One above a
    /// folder that was taken out of the roots does not open that.
    pub fn is_readable(&self, resolved: &Path) -> bool {
        let readable = self.readable.read().unwrap_or_else(PoisonError::into_inner);
        readable.iter().filter(|folder| resolved.starts_with(folder)).any(|folder| {
            let mut closed = self.excluded.iter().filter(|closed| resolved.starts_with(closed));
            closed.all(|closed| folder.starts_with(closed))
        })
    }

    /// The empty folders that stand only while confined commands run, to keep names from being taken.
    /// Blocks.
    pub fn placeholders(&self) -> HashSet<PathBuf> {
        self.records.as_deref().map(crate::sandbox::standing).unwrap_or_default()
    }

    /// Whether a resolved path is that of a kept result: a file named by a SHA-256 in a folder
    /// named by its first two digits. Nobody guesses such a name, so a model knows only those
    /// that it was told.
    pub fn is_result(&self, resolved: &Path) -> bool {
        let below = self.results.as_ref().and_then(|folder| resolved.strip_prefix(folder).ok());
        let parts = below.map(|below| below.iter().map(OsStr::to_str).collect::<Vec<_>>());
        let Some([Some(folder), Some(name)]) = parts.as_deref() else { return false };
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        name.len() == 64
            && name.chars().all(is_hex)
            && folder.len() == 2
            && name.starts_with(folder)
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// All roots, the working directory first.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.cwd.as_path()).chain(self.extra.iter().map(PathBuf::as_path))
    }

    /// The folders taken out of the roots.
    pub fn excluded(&self) -> &[PathBuf] {
        &self.excluded
    }

    /// Whether a resolved path lies at or below a folder that was taken out of the roots.
    pub fn is_excluded(&self, resolved: &Path) -> bool {
        self.excluded.iter().any(|folder| resolved.starts_with(folder))
    }

    /// Resolves the path as a model or client wrote it: absolute, or relative to the working
    /// directory. The last parts need not exist. Names with what cannot be seen are written as
    /// [`crate::name_text`] shows them. Blocks on the file system.
    ///
    /// # Errors
    /// [`ResolveError`]; the path must not be used then.
    pub fn resolve(&self, text: &str) -> Result<Placement, ResolveError> {
        if text.is_empty() {
            return Err(ResolveError::Empty);
        }
        if text.contains('\0') {
            return Err(ResolveError::Nul);
        }
        if text == "~" || text.starts_with("~/") {
            return Err(ResolveError::Tilde(text.to_owned()));
        }
        Ok(self.place(follow(&self.cwd.join(text))?))
    }

    /// Judges a path that is already resolved.
    pub fn place(&self, resolved: PathBuf) -> Placement {
        let inside =
            self.all().any(|root| resolved.starts_with(root)) && !self.is_excluded(&resolved);
        if inside { Placement::Inside(resolved) } else { Placement::Outside(resolved) }
    }

    /// The protected name ([`protected_names`]) that a resolved path lies at or below, looking
    /// only at the part below the root that holds it. A folder that is one of git under another
    /// name, or would become one, counts as `.git`. Looks at the disk.
    ///
    /// [`protected_names`]: crate::protected_names()
    pub fn protected(&self, resolved: &Path) -> Option<&'static str> {
        let root = self.all().find(|root| resolved.starts_with(root))?;
        let below = resolved.ancestors().take_while(|path| *path != root);
        let named = below.filter_map(|path| {
            // A root below such a name is itself free.
            let folder = path.parent()?.strip_prefix(root).ok()?;
            protected_name(folder, path.file_name()?)
        });
        named.last().or_else(|| would_be_in_git(root, resolved).then_some(".git"))
    }
}

/// The place that an absolute path leads to.
fn follow(path: &Path) -> Result<PathBuf, ResolveError> {
    let mut walk = Walk { at: PathBuf::from("/"), missing: false, links: 0, todo: VecDeque::new() };
    walk.prepend(path);
    while let Some(name) = walk.todo.pop_front() {
        match name.as_encoded_bytes() {
            b"." => walk.require_folder()?,
            b".." => walk.up()?,
            _ => walk.down(name)?,
        }
    }
    Ok(walk.at)
}

struct Walk {
    at: PathBuf,
    missing: bool,
    links: usize,
    todo: VecDeque<OsString>,
}

impl Walk {
    fn prepend(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::Normal(_) | Component::ParentDir | Component::CurDir => {
                    self.todo.push_front(part.as_os_str().to_owned());
                }
                Component::RootDir | Component::Prefix(_) => self.at = PathBuf::from("/"),
            }
        }
    }

    fn require_folder(&self) -> Result<(), ResolveError> {
        if self.missing || self.at.is_dir() {
            return Ok(());
        }
        Err(ResolveError::NotAFolder(self.at.clone()))
    }

    fn up(&mut self) -> Result<(), ResolveError> {
        if self.missing {
            return Err(ResolveError::ParentOfMissing(self.at.clone()));
        }
        self.require_folder()?;
        self.at.pop();
        Ok(())
    }

    fn down(&mut self, name: OsString) -> Result<(), ResolveError> {
        let next = self.at.join(&name);
        if self.missing {
            self.at = next;
            return Ok(());
        }
        let other = name_of(&name)
            .map(|name| self.at.join(name))
            .filter(|other| fs_err::symlink_metadata(other).is_ok());
        let next = match other {
            Some(_) if fs_err::symlink_metadata(&next).is_ok() => {
                return Err(ResolveError::Ambiguous(next));
            }
            Some(other) => other,
            None => next,
        };
        match fs_err::symlink_metadata(&next) {
            Ok(metadata) if metadata.is_symlink() => self.through_link(next),
            Ok(_) => {
                self.at = next;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.at = next;
                self.missing = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(ResolveError::NotAFolder(self.at.clone()))
            }
            Err(source) => Err(ResolveError::Io { path: next, source }),
        }
    }

    /// A dangling link is followed like any other: its target, not its name, is the place.
    fn through_link(&mut self, link: PathBuf) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(ResolveError::TooManyLinks(link));
        }
        let target =
            fs_err::read_link(&link).map_err(|source| ResolveError::Io { path: link, source })?;
        self.prepend(&target);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Fixture {
        _dir: tempfile::TempDir,
        base: PathBuf,
        roots: Roots,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        for folder in ["ws/sub", "ws-evil", "outside"] {
            fs_err::create_dir_all(base.join(folder)).unwrap();
        }
        fs_err::write(base.join("ws/file"), "x").unwrap();
        fs_err::write(base.join("outside/secret"), "x").unwrap();
        let roots = Roots::new(base.join("ws"), Vec::new());
        Fixture { _dir: dir, base, roots }
    }

    impl Fixture {
        fn inside(&self, text: &str, expected: &str) {
            let path = self.base.join(expected);
            assert_eq!(self.roots.resolve(text).unwrap(), Placement::Inside(path), "{text}");
        }

        fn outside(&self, text: &str, expected: &str) {
            let path = self.base.join(expected);
            assert_eq!(self.roots.resolve(text).unwrap(), Placement::Outside(path), "{text}");
        }
    }

    #[test]
    fn paths_that_stay_inside() {
        let f = fixture();
        f.inside("file", "ws/file");
        f.inside("./sub/../file", "ws/file");
        f.inside(".", "ws");
        f.inside("sub/", "ws/sub");
        f.inside("new/deep/file", "ws/new/deep/file");
        f.inside("../ws/file", "ws/file");
        f.inside(f.base.join("ws/file").to_str().unwrap(), "ws/file");
    }

    #[test]
    fn paths_that_leave() {
        let f = fixture();
        f.outside("../outside/secret", "outside/secret");
        f.outside("../ws-evil/x", "ws-evil/x");
        f.outside("sub/../../outside/new", "outside/new");
        f.outside("..", "");
    }

    #[test]
    fn links_are_judged_by_their_target() {
        let f = fixture();
        let ws = f.base.join("ws");
        symlink(f.base.join("outside/secret"), ws.join("direct")).unwrap();
        symlink("direct", ws.join("chained")).unwrap();
        symlink("../outside", ws.join("folder")).unwrap();
        symlink("../outside/new.txt", ws.join("dangling")).unwrap();
        symlink("sub", ws.join("inner")).unwrap();
        f.outside("direct", "outside/secret");
        f.outside("chained", "outside/secret");
        f.outside("folder/secret", "outside/secret");
        f.outside("folder/new/file", "outside/new/file");
        f.outside("dangling", "outside/new.txt");
        f.inside("inner/new", "ws/sub/new");
        // `..` after a link goes to the parent of the target, as the kernel does it.
        f.outside("folder/../ws-evil", "ws-evil");
        let through_proc = format!("/proc/self/root{}", f.base.join("outside/secret").display());
        f.outside(&through_proc, "outside/secret");
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_reached_by_its_text() {
        use std::os::unix::ffi::OsStrExt as _;

        let f = fixture();
        let folder = f.base.join("ws").join(OsStr::from_bytes(b"d\xff"));
        fs_err::create_dir(&folder).unwrap();
        fs_err::write(folder.join("x"), "").unwrap();
        for (text, path) in [(r"d\xff/x", folder.join("x")), (r"d\xff/new", folder.join("new"))] {
            assert_eq!(f.roots.resolve(text).unwrap(), Placement::Inside(path));
        }
        f.inside(r"new\xff", r"ws/new\xff");
        symlink("../outside", f.base.join("ws").join(OsStr::from_bytes(b"l\xff"))).unwrap();
        f.outside(r"l\xff/new", "outside/new");
        fs_err::write(f.base.join(r"ws/d\xff"), "").unwrap();
        let error = f.roots.resolve(r"d\xff/x").unwrap_err();
        assert!(matches!(error, ResolveError::Ambiguous(_)), "{error}");
    }

    #[test]
    fn what_cannot_be_resolved_is_an_error() {
        let f = fixture();
        symlink("loop", f.base.join("ws/loop")).unwrap();
        let error = |text: &str| f.roots.resolve(text).unwrap_err();
        assert!(matches!(error(""), ResolveError::Empty));
        assert!(matches!(error("a\0b"), ResolveError::Nul));
        assert!(matches!(error("~/x"), ResolveError::Tilde(_)));
        assert!(matches!(error("new/../file"), ResolveError::ParentOfMissing(_)));
        assert!(matches!(error("file/x"), ResolveError::NotAFolder(_)));
        assert!(matches!(error("file/.."), ResolveError::NotAFolder(_)));
        assert!(matches!(error("loop"), ResolveError::TooManyLinks(_)));
    }

    #[test]
    fn excluded_folders_are_outside_even_below_a_root() {
        let f = fixture();
        symlink("ws", f.base.join("home")).unwrap();
        let named = [f.base.join("ws/sub"), f.base.join("home/state")];
        let roots = f.roots.clone().excluding(named);
        for (text, real) in [("sub/x", "ws/sub/x"), ("state/new", "ws/state/new")] {
            let placement = roots.resolve(text).unwrap();
            assert_eq!(placement, Placement::Outside(f.base.join(real)));
        }
    }

    #[test]
    fn a_kept_result_is_known_by_its_whole_name() {
        let f = fixture();
        let roots = f.roots.clone().with_results(f.base.join("outside"));
        let hash = "ab".repeat(32);
        let at = |path: &str| roots.is_result(&f.base.join("outside").join(path));
        assert!(at(&format!("ab/{hash}")));
        for path in [format!("cd/{hash}"), hash.clone(), format!("ab/{hash}/x"), "ab".to_owned()] {
            assert!(!at(&path), "{path}");
        }
        assert!(!at(&format!("ab/{hash}.new")) && !at("secret") && !at(""));
        assert!(!f.roots.is_result(&f.base.join("outside/ab").join(&hash)));
        let placed = roots.resolve(&format!("../outside/ab/{hash}")).unwrap();
        assert!(matches!(placed, Placement::Outside(_)), "nobody may write there: {placed:?}");
    }

    #[test]
    fn a_readable_folder_opens_itself_and_nothing_that_was_taken_out() {
        let f = fixture();
        let (own, keys) = (f.base.join("outside/own"), f.base.join("outside/keys"));
        let roots = f.roots.clone().excluding([own.clone(), keys.clone()]);
        assert!(!roots.is_readable(&own.join("skills/a/x")));
        roots.set_readable(vec![own.join("skills"), f.base.join("outside")]);
        assert!(roots.is_readable(&own.join("skills/a/x")), "within what was taken out");
        assert!(roots.is_readable(&f.base.join("outside/secret")));
        for path in [own.join("config.toml"), keys.join("id"), f.base.join("ws-evil/x")] {
            assert!(!roots.is_readable(&path), "{}", path.display());
        }
        roots.set_readable(Vec::new());
        assert!(!roots.is_readable(&own.join("skills/a/x")));
        let place = roots.resolve("../outside/own/skills/a/x").unwrap();
        assert!(matches!(place, Placement::Outside(_)), "nobody may write there: {place:?}");
    }

    #[test]
    fn protected_names_at_any_depth_and_in_any_case() {
        let f = fixture();
        let protected = |text: &str| f.roots.protected(f.roots.resolve(text).unwrap().path());
        assert_eq!(protected(".git/hooks/pre-commit"), Some(".git"));
        assert_eq!(protected("vendor/sub/.GIT/config"), Some(".git"));
        assert_eq!(protected(".mcp.json"), Some(".mcp.json"));
        assert_eq!(protected(".bashrc"), Some(".bashrc"));
        assert_eq!(protected(".ssh/authorized_keys"), Some(".ssh"));
        assert_eq!(protected(".Config/gh/hosts.yml"), Some(".config/gh"));
        assert_eq!(protected(".config/other"), None);
        assert_eq!(protected("gh/x"), None);
        assert_eq!(protected("AGENTS.md"), None);
        assert_eq!(protected(".gitignore"), None);
        assert_eq!(protected("src/main.rs"), None);
    }

    #[test]
    fn a_folder_of_git_is_one_under_any_name_also_before_it_is_whole() {
        let f = fixture();
        let protected = |text: &str| f.roots.protected(f.roots.resolve(text).unwrap().path());
        let base = f.roots.cwd().to_owned();
        fs_err::create_dir_all(base.join("bare/objects")).unwrap();
        fs_err::create_dir_all(base.join("bare/refs")).unwrap();
        assert_eq!(protected("bare/hooks/post-update"), None);
        assert_eq!(protected("bare/HEAD"), Some(".git"));
        fs_err::write(base.join("bare/HEAD"), "").unwrap();
        for name in ["bare/config", "bare/hooks/post-update", "bare/objects/deep/x"] {
            assert_eq!(protected(name), Some(".git"), "{name}");
        }
        assert_eq!(protected("bare.rs"), None);
        fs_err::write(base.join("config"), "").unwrap();
        fs_err::create_dir(base.join("refs")).unwrap();
        assert_eq!(protected("src/main.rs"), None);
        fs_err::create_dir(base.join("objects")).unwrap();
        assert_eq!(protected("src/main.rs"), Some(".git"), "the root is one");
    }

    #[test]
    fn a_root_below_a_protected_name_is_itself_free() {
        let roots = Roots::new(PathBuf::from("/home/u/.claude/work"), Vec::new());
        assert_eq!(roots.protected(Path::new("/home/u/.claude/work/a")), None);
        assert_eq!(roots.protected(Path::new("/home/u/.claude/work/.git/a")), Some(".git"));
    }
}
