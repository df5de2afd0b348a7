//! What is protected, where no mount can keep it: told when it has changed, put aside when it is new.

use bridle_world::sandbox::Tier;

use super::place::{Place, USERS, User};
use super::{TIERS, rich};

/// Whoever owns a folder can make it one that nobody can look into, and open it again.
#[test]
fn what_cannot_be_looked_into_stays_as_it_is() {
    for user in USERS {
        let place = rich(user);
        for (close, path) in [("000", "sub"), ("400", "sub"), ("300", "sub"), ("000", ".git")] {
            let was = place.shell(&format!("stat -c %a {path}; cat sub/.git/config .git/config"));
            place.look_and_run(&format!("chmod {close} {path}"));
            let opened = place.look_and_run(&format!(
                "chmod 755 {path}; mv {path} s; chmod 755 s; echo x >>sub/.git/config; echo x >>.git/config; echo x >here"
            ));
            assert_eq!(opened.error, None, "{user:?} {close}");
            place.shell(&format!("rm here; chmod 755 {path}"));
            let is = place.shell(&format!("stat -c %a {path}; cat sub/.git/config .git/config"));
            assert_eq!(is, was, "{user:?} {close} {path}");
        }
    }
}

/// A folder can be made one of git by its parts, under any name; so can the workspace.
#[test]
fn what_a_new_git_folder_obeys_is_put_aside() {
    for user in USERS {
        let mut place = Place::new(user);
        place.look();
        let bare = "mkdir objects refs; echo ref: refs/heads/x >HEAD; echo '[core]' >config";
        let outcome = place.run(Tier::Full, &format!("{bare}; mkdir sub; cd sub; {bare}"));
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{}", outcome.output);
        let from: Vec<_> = outcome.put_aside.iter().map(|it| it.0.clone()).collect();
        assert_eq!(from, ["config", "sub/config"].map(|name| place.ws().join(name)), "{user:?}");
        place.shell("rm -f *.put-aside-* sub/*.put-aside-*; echo '[user]' >sub/config");
        // A git folder stays one for the next command, whatever is moved away of it.
        place.look();
        place.run(Tier::Full, "cd sub; mv HEAD h; mv objects o; mv refs r; mv config c");
        place.look();
        place.run(Tier::Full, "cd sub; echo x >>config; mv h HEAD");
        assert_eq!(place.shell("cat sub/config; ls sub"), "[user]\nHEAD\nconfig\nobjects\nrefs\n");
    }
}

/// Packages may have all kinds of names in them, and lose them when they leave.
#[test]
fn what_is_moved_out_of_the_packages_is_put_aside() {
    let mut place = Place::new(User::Own).with_repository();
    place.shell("mkdir -p node_modules/p/.vscode; echo x >node_modules/p/.vscode/tasks.json");
    place.look();
    let outcome = place.run(Tier::Full, "mv node_modules/p vendor");
    let from: Vec<_> = outcome.put_aside.iter().map(|it| it.0.clone()).collect();
    assert_eq!((outcome.code, from), (Some(0), vec![place.ws().join("vendor/.vscode")]));
}

/// A file has as many names as its user gave it, of which a wall can hold those that it knows.
#[test]
fn a_change_by_another_hard_link_is_told() {
    let mut place = Place::new(User::Own).with_repository();
    place.shell("ln .git/config other");
    place.look();
    let outcome = place.run(Tier::Full, "ln .git/config third; echo >>other");
    assert_eq!(outcome.altered, [place.ws().join(".git/config")]);
    assert_eq!(place.run(Tier::Full, "echo >a").altered, Vec::<std::path::PathBuf>::new());
    assert_eq!(place.shell("ls"), "a\nother\n");
}

/// Where the path is too long to be known, nothing new can be made.
#[test]
fn nothing_is_made_where_its_path_cannot_be_told() {
    let place = rich(User::Own);
    let outcome = place.run(
        Tier::Full,
        "d=$(printf 'd%.0s' {1..200}); for i in {1..30}; do mkdir $d 2>/dev/null || break; cd -P $d; \
         done; mkdir .vscode || mkdir x; ls -A | grep -cx -e .vscode -e x",
    );
    assert!(outcome.output.ends_with("0\n"), "{}", outcome.output);
}

#[test]
fn what_no_wall_kept_is_told() {
    for user in USERS {
        let place = rich(user);
        for (command, path) in [
            ("echo >>.git/config", ".git/config"),
            ("echo x >.git/hooks/pre-commit; rm .git/hooks/pre-commit", ".git/hooks"),
            ("chmod 700 .idea", ".idea"),
            ("rm .claude", ".claude"),
        ] {
            let outcome = place.run(Tier::Landlock, command);
            assert_eq!(outcome.altered, [place.ws().join(path)], "{user:?} {command}");
        }
        let outcome = place.run(Tier::Landlock, "echo b >b; git add b; git commit -qm b");
        assert_eq!((outcome.code, outcome.altered), (Some(0), Vec::new()), "{user:?}");
        // Whatever is allowed outside may come while a command runs in the full tier, too.
        let outcome = place.run(Tier::Full, "echo x >>.git/config; echo b >c");
        assert_eq!(outcome.altered, Vec::<std::path::PathBuf>::new());
    }
}

/// Makes a folder of a protected name by changing the name while it is looked at, as often as it
/// takes.
const RACE: &str = r#"
import ctypes, mmap, os, sys
made, other = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])
place = mmap.mmap(-1, 4096)
place[:len(made) + 1] = made + b"\0"
address = ctypes.addressof(ctypes.c_char.from_buffer(place))
differs = [i for i in range(len(made)) if made[i] != other[i]][0]
if os.fork() == 0:
    while True:
        place[differs] = other[differs]
        place[differs] = made[differs]
mkdir = ctypes.CDLL(None).mkdir
while not os.path.isdir(made):
    mkdir(ctypes.c_void_p(address), 0o755)
    if os.path.isdir(other):
        os.rmdir(other)
"#;

#[test]
fn a_protected_name_that_is_won_by_a_race_is_put_aside_whole_and_told() {
    for user in USERS {
        for tier in TIERS {
            let mut place = rich(user);
            place.shell("mkdir -p deep");
            fs_err::write(place.ws().join("race.py"), RACE).unwrap();
            place.look();
            let outcome = place.run(
                tier,
                "python3 race.py deep/.git deep/_git && cp -r .git/* deep/.git && \
                 echo 'echo ran' >deep/.git/hooks/post-checkout && chmod -R 555 deep",
            );
            assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{}", outcome.output);
            assert_eq!(outcome.altered, Vec::<std::path::PathBuf>::new(), "{user:?} {tier:?}");
            let [(from, to)] = &outcome.put_aside[..] else { panic!("{:?}", outcome.put_aside) };
            assert_eq!(*from, place.ws().join("deep/.git"));
            assert_eq!(place.shell("ls -d deep/.git*"), format!("deep/{}\n", name(to)));
            let kept = fs_err::read_to_string(to.join("hooks/post-checkout")).unwrap();
            assert_eq!(kept, "echo ran\n");
            assert_eq!(place.shell("cd deep; git rev-parse --git-dir"), ws_git(&place));
        }
    }
}

fn name(path: &std::path::Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn ws_git(place: &Place) -> String {
    format!("{}\n", place.ws().join(".git").display())
}

#[test]
fn what_comes_to_a_protected_name_is_told_in_caches_and_put_aside_in_the_workspace() {
    for user in USERS {
        let mut place = rich(user);
        place.shell("mkdir -p node_modules/a");
        place.look();
        let cache = place.base.join("home/cache");
        let outcome = place.run(
            Tier::Landlock,
            "mkdir ../home/cache/.vscode node_modules/a/.idea && touch ../home/cache/.vscode/x \
             node_modules/a/.idea/x && ! mkdir node_modules/a/.git",
        );
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{}", outcome.output);
        assert_eq!(outcome.altered, [cache.join(".vscode")], "{user:?}");
        assert_eq!(outcome.put_aside, [], "{user:?}");
    }
}
