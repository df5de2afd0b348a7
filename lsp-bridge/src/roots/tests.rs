//! Roots in folders on the disk.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::ServerTable;

/// Folders and files on the disk; a path that ends in `/` is a folder.
struct Tree(TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(TempDir::new().unwrap());
        for (path, text) in files {
            let place = tree.at(path);
            if path.ends_with('/') {
                fs::create_dir_all(place).unwrap();
            } else {
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, text).unwrap();
            }
        }
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        canonical(self.0.path()).join(path)
    }

    /// The root for a file, below this tree; the whole tree is the session's root.
    fn root(&self, server: &str, file: &str) -> String {
        self.root_in(server, file, &[""])
    }

    fn root_in(&self, server: &str, file: &str, session_roots: &[&str]) -> String {
        let servers = ServerTable::built_in().servers();
        let definition = servers.iter().find(|it| it.name == server).unwrap();
        let roots: Vec<_> = session_roots.iter().map(|root| self.at(root)).collect();
        let Some(root) = root_of(&self.at(file), definition, &roots) else {
            return "none".to_owned();
        };
        root.strip_prefix(self.at("")).unwrap().to_str().unwrap().to_owned()
    }
}

const MEMBER: &str = "[package]\nname = \"m\"\n";

/// Fault 14: projects in folders of a session that is none itself.
#[test]
fn a_project_below_the_sessions_root_is_found_from_the_file() {
    let tree = Tree::new(&[
        ("a/b/rs/Cargo.toml", MEMBER),
        ("a/b/rs/src/main.rs", ""),
        ("a/py/pyproject.toml", ""),
        ("a/py/x/y.py", ""),
        ("loose.py", ""),
    ]);
    assert_eq!(tree.root("rust-analyzer", "a/b/rs/src/main.rs"), "a/b/rs");
    assert_eq!(tree.root("ty", "a/py/x/y.py"), "a/py");
    assert_eq!(tree.root("ty", "loose.py"), "", "without a marker it is the session's root");
    assert_eq!(tree.root("ty", "a/py/new/not-yet.py"), "a/py", "the file need not exist");
}

/// Fault 15: one server for the packages of a workspace.
#[test]
fn a_member_belongs_to_its_workspace() {
    let tree = Tree::new(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/a/Cargo.toml", MEMBER),
        ("crates/a/src/lib.rs", ""),
        ("crates/b/Cargo.toml", MEMBER),
        ("crates/b/src/lib.rs", ""),
        ("fuzz/Cargo.toml", "[package]\nname = \"f\"\n[workspace]\n"),
        ("fuzz/src/main.rs", ""),
        ("web/package-lock.json", "{}"),
        ("web/packages/one/package.json", "{}"),
        ("web/packages/one/tsconfig.json", "{}"),
        ("web/packages/one/src/i.ts", ""),
        ("web/packages/one/package-lock.json", "{}"),
        ("cpp/build/compile_commands.json", "[]"),
        ("cpp/src/CMakeLists.txt", ""),
        ("cpp/src/a.cpp", ""),
        ("java/pom.xml", "<project>\n  <modules>\n"),
        ("java/m/pom.xml", "<project>\n"),
        ("java/m/src/A.java", ""),
        ("net/All.sln", ""),
        ("net/one/One.csproj", ""),
        ("net/one/A.cs", ""),
    ]);
    assert_eq!(tree.root("rust-analyzer", "crates/a/src/lib.rs"), "");
    assert_eq!(tree.root("rust-analyzer", "crates/b/src/lib.rs"), "");
    assert_eq!(tree.root("rust-analyzer", "fuzz/src/main.rs"), "fuzz", "a workspace of its own");
    assert_eq!(tree.root("typescript", "web/packages/one/src/i.ts"), "web", "the outermost");
    assert_eq!(tree.root("clangd", "cpp/src/a.cpp"), "cpp", "its database is in `build`");
    assert_eq!(tree.root("jdtls", "java/m/src/A.java"), "java");
    assert_eq!(tree.root("roslyn", "net/one/A.cs"), "net");
}

#[test]
fn a_workspace_is_one_by_what_its_manifest_says() {
    for (manifest, root) in [
        (MEMBER, "a"),
        ("[package]\n# [workspace]\n", "a"),
        ("[package]\nname = \"[workspace]\"\n", "a"),
        ("[workspace]\n", ""),
        ("  [workspace] # all\n", ""),
        ("[package]\n\n[workspace.dependencies]\n", ""),
    ] {
        let tree = Tree::new(&[("Cargo.toml", manifest), ("a/Cargo.toml", MEMBER)]);
        assert_eq!(tree.root("rust-analyzer", "a/src/lib.rs"), root, "{manifest}");
    }
    let odd = Tree::new(&[("Cargo.toml/", ""), ("a/Cargo.toml", MEMBER)]);
    assert_eq!(odd.root("rust-analyzer", "a/src/lib.rs"), "a", "a folder of that name");
}

#[test]
fn no_root_lies_above_the_sessions() {
    let tree = Tree::new(&[
        ("Cargo.toml", "[workspace]\n"),
        ("a/Cargo.toml", MEMBER),
        ("a/src/lib.rs", ""),
        ("b/src/lib.rs", ""),
        ("b/deep/session/x.rs", ""),
    ]);
    assert_eq!(tree.root_in("rust-analyzer", "a/src/lib.rs", &["a"]), "a");
    assert_eq!(tree.root_in("rust-analyzer", "a/src/lib.rs", &["a/src"]), "a/src");
    assert_eq!(tree.root_in("rust-analyzer", "b/src/lib.rs", &["a"]), "none");
    assert_eq!(tree.root_in("rust-analyzer", "a/../b/src/lib.rs", &["a"]), "none");
    assert_eq!(tree.root_in("rust-analyzer", "ab/lib.rs", &["a"]), "none", "not by its letters");
    // A file in two of the roots is one of the inner one.
    let roots = ["b", "b/deep/session"];
    assert_eq!(tree.root_in("ty", "b/deep/session/x.rs", &roots), "b/deep/session");
}

/// Fault 16: what lies in one checkout is not answered from another.
#[test]
fn a_worktree_and_a_clone_are_answered_from_their_own_files() {
    let workspace = "[workspace]\n";
    let tree = Tree::new(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("Cargo.toml", workspace),
        ("src/lib.rs", ""),
        (".worktrees/topic/.git", "gitdir: /r/.git/worktrees/topic\n"),
        (".worktrees/topic/Cargo.toml", workspace),
        (".worktrees/topic/crates/a/src/lib.rs", ""),
        (".worktrees/bare/.git", "gitdir: /r/.git/worktrees/bare\n"),
        (".worktrees/bare/lib.rs", ""),
        ("clone/.git/HEAD", ""),
        ("clone/deep/a.rs", ""),
        ("module/.git", "gitdir: ../.git/modules/module\n"),
        ("module/src/lib.rs", ""),
    ]);
    assert_eq!(tree.root("rust-analyzer", "src/lib.rs"), "");
    let topic = ".worktrees/topic";
    assert_eq!(tree.root("rust-analyzer", ".worktrees/topic/crates/a/src/lib.rs"), topic);
    assert_eq!(tree.root("rust-analyzer", ".worktrees/bare/lib.rs"), ".worktrees/bare");
    assert_eq!(tree.root("rust-analyzer", "clone/deep/a.rs"), "clone");
    assert_eq!(tree.root("rust-analyzer", "module/src/lib.rs"), "", "a submodule is a part");
    // Two sessions in two worktrees have two roots.
    let file = ".worktrees/topic/crates/a/src/lib.rs";
    assert_eq!(tree.root_in("rust-analyzer", file, &[topic]), topic);
}

#[test]
fn links_are_followed_before_anything_is_judged() {
    let tree = Tree::new(&[
        ("real/Cargo.toml", MEMBER),
        ("real/src/lib.rs", ""),
        ("session/src/a.py", ""),
        ("outside/pyproject.toml", ""),
        ("outside/b.py", ""),
    ]);
    symlink(tree.at("real"), tree.at("link")).unwrap();
    symlink(tree.at("outside"), tree.at("session/out")).unwrap();
    symlink(tree.at("outside/b.py"), tree.at("session/b.py")).unwrap();
    // One folder has one root, whatever it is called and whichever of its names the session has.
    for (file, root) in [
        ("real/src/lib.rs", "real"),
        ("link/src/lib.rs", "real"),
        ("real/src/lib.rs", "link"),
        ("link/src/lib.rs", "link"),
        ("link/src/new.rs", "link"),
    ] {
        assert_eq!(tree.root_in("rust-analyzer", file, &[root]), "real", "{file} in {root}");
    }
    for file in ["session/out/b.py", "session/b.py"] {
        assert_eq!(tree.root_in("ty", file, &["session"]), "none", "{file}");
    }
}

#[test]
fn a_star_stands_for_any_letters() {
    for (pattern, name) in [
        ("*.sln", "All.sln"),
        ("*.sln", ".sln"),
        ("eslint.config.*", "eslint.config.mjs"),
        ("a*b*c", "abbc"),
        ("a*b*c", "axbyc"),
        ("*", ""),
        ("é*", "éß"),
    ] {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in
        [("*.sln", "All.slnx"), ("a*b*c", "acb"), ("x", "xx"), ("*.sln", "sln"), ("", "x")]
    {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}
