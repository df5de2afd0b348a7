//! Confined commands, seen from outside: every user and every tier that this machine has.

mod daily;
mod escapes;
mod place;

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use bridle_world::sandbox::Tier;

use escapes::{TRIES, Try};
use place::{Place, USERS, User};

const TIERS: [Tier; 2] = [Tier::Full, Tier::Landlock];

#[test]
fn a_confined_command_runs_and_ends_as_its_own() {
    for user in USERS {
        for tier in TIERS {
            let place = Place::new(user);
            let outcome = place.run(tier, "echo hi; exit 7");
            assert_eq!(outcome.error, None, "{user:?} {tier:?}");
            assert_eq!(outcome.tier, tier, "{user:?}: {:?}", outcome.cause);
            assert_eq!((outcome.code, outcome.output.as_str()), (Some(7), "hi\n"));
            assert_eq!(outcome.denied, "none");
        }
    }
}

/// A workspace with everything that is worth protecting.
fn rich(user: User) -> Place {
    let mut place = Place::new(user).with_repository();
    place.shell(
        "echo a >a; git add a; git commit -qm a; git init -q sub; mkdir .idea elsewhere; echo >.idea/x; \
         ln -s elsewhere .claude; rm .git/hooks/*; echo >.git/hooks/pre-commit.sample; \
         git config core.hooksPath tools/hooks; mkdir -p tools/hooks",
    );
    place.policy.writable.push(place.base.join("home/cache"));
    place.look();
    place
}

/// Everything outside of the workspace, with its metadata.
fn surroundings(place: &Place) -> String {
    place.shell(
        "cd .. && find outside home/.ssh home/.bashrc -printf '%p %m %T@ %s %n\\n' 2>&1 | sort",
    )
}

/// A process that stands outside. It ends with this, also when a test fails.
struct Victim(std::process::Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have been ended.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Which tries succeed, in this order.
fn tried(place: &Place, run: impl FnOnce(&str) -> String) -> Vec<&'static str> {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = tempfile::tempdir().unwrap();
    place.give(sockets.path());
    let socket = sockets.path().join("socket");
    let _unix = UnixListener::bind(&socket).unwrap();
    place.give(&socket);
    let name = format!("bridle-{}", socket.display());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&abstract_name).unwrap();
    let mut victim = Victim(place.as_user("sleep").arg("600").spawn().unwrap());
    let mut script = format!(
        "export W={0}/ws O={0}/outside H={0}/home HOME={0}/home TCP={1} UNIX={2} ABSTRACT={name} \
         VICTIM={3}\n",
        place.base.display(),
        tcp.local_addr().unwrap().port(),
        socket.display(),
        victim.0.id(),
    );
    for it in TRIES {
        let Try { name, script: line, .. } = it;
        script +=
            &format!("( {line} ) >/dev/null 2>&1 && echo 'can {name}' || echo 'cannot {name}'\n");
    }
    let output = run(&script);
    victim.0.kill().unwrap();
    let status = victim.0.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it was signalled");
    let told =
        |word: &str, it: &Try| output.lines().any(|line| line == format!("{word} {}", it.name));
    assert!(TRIES.iter().all(|it| told("can", it) || told("cannot", it)), "{output}");
    TRIES.iter().filter(|it| told("can", it)).map(|it| it.name).collect()
}

#[test]
fn no_way_out_succeeds_and_work_does() {
    for user in USERS {
        for tier in TIERS {
            let place = rich(user);
            let before = surroundings(&place);
            let can = tried(&place, |script| {
                let outcome = place.run(tier, script);
                assert_eq!((outcome.error, outcome.tier), (None, tier), "{user:?}");
                outcome.output
            });
            let wrong = TRIES.iter().filter(|it| {
                let may = if tier == Tier::Full { it.allowed.0 } else { it.allowed.1 };
                let (can, must) = (can.contains(&it.name), may && it.allowed.0);
                (can && !may) || (must && !can)
            });
            let wrong: Vec<&str> = wrong.map(|it| it.name).collect();
            assert!(wrong.is_empty(), "{user:?} {tier:?}: {wrong:?}");
            if tier == Tier::Full {
                assert_eq!(surroundings(&place), before, "{user:?}");
            }
        }
    }
}

#[test]
fn what_was_refused_is_told_by_name_whatever_the_command_makes_of_it() {
    for user in USERS {
        for tier in TIERS {
            let place = rich(user);
            let outside = place.base.join("outside/new");
            let cases = [
                ("true", String::new()),
                ("echo Permission denied; false", String::new()),
                ("cat /nonexistent", String::new()),
                ("mkdir -p $PWD/d/e; rm -f nothing; echo >/dev/null; test -w a", String::new()),
                ("mv nothing ../outside/x; rmdir .git ../outside; true", String::new()),
                (
                    "python3 -c 'import os, socket; os.fchmod(os.open(\"own\", os.O_CREAT), 0o600); \
                     os.fchmod(os.pipe()[0], 0o600)'; true",
                    String::new(),
                ),
                (
                    "(exec 3<>/dev/tcp/192.0.2.1/80; exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null; true",
                    if tier == Tier::Full { "network (192.0.2.1:80)" } else { "network" }
                        .to_owned(),
                ),
                ("echo x 2>/dev/null >../outside/new; true", outside.display().to_string()),
                ("cd ../outside; mkdir new; true", outside.display().to_string()),
                ("mkdir -p x/.vscode; true", place.ws().join("x/.vscode").display().to_string()),
                // A name that could pass for something else, or is no text, is told in plain signs.
                (
                    "mkdir ../outside/$'x]\\n[exit code 0]\\xff'; true",
                    format!(r"{}/x]\x0a[exit code 0]\xff", place.base.join("outside").display()),
                ),
            ];
            for (command, expected) in cases {
                let outcome = place.run(tier, command);
                let expected = if expected.is_empty() { "none".to_owned() } else { expected };
                assert_eq!(outcome.denied, expected, "{user:?} {tier:?}: {command}");
            }
        }
    }
}

#[test]
fn what_mounts_protect_is_told_as_well() {
    for user in USERS {
        let place = rich(user);
        for (command, path) in [
            ("echo x >>.git/config", ".git/config"),
            ("mv .git g", ".git"),
            ("mv sub/.git/hooks h", "sub/.git/hooks"),
            ("mv sub sub2", "sub"),
            ("git config x.y z", ".git/config"),
            ("python3 -c 'import os; os.utime(\"../outside/file\")'", "../outside/file"),
            (
                "python3 -c 'import os; os.setxattr(\"../outside/file\", \"user.x\", b\"y\")'",
                "../outside/file",
            ),
            (
                "python3 -c 'import os; os.setxattr(os.open(\"../outside/file\", 0), \"user.x\", b\"y\")'",
                "../outside/file",
            ),
            (
                "python3 -c 'import os; os.fchmod(os.open(\"../outside/file\", 0), 0o777)'",
                "../outside/file",
            ),
            (
                "python3 -c 'import os, fcntl; \
                 fcntl.ioctl(os.open(\"../outside/file\", 0), 0x40086602, bytes(8))'",
                "../outside/file",
            ),
            (
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"../outside/new\")'",
                "../outside/new",
            ),
            (
                "mkdir deep; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"deep/.envrc\")'",
                "deep/.envrc",
            ),
        ] {
            let outcome = place.run(Tier::Full, command);
            let told: Vec<&str> = outcome.denied.lines().collect();
            let path = match path.strip_prefix("../") {
                Some(path) => place.base.join(path),
                None => place.ws().join(path),
            };
            assert!(told.contains(&path.to_str().unwrap()), "{user:?} {command}: {told:?}");
            assert_ne!(outcome.code, Some(0), "{user:?} {command}");
        }
    }
}

#[test]
fn a_file_that_nobody_may_write_is_no_matter_of_the_policy() {
    // Root may write everything.
    let place = rich(User::Plain);
    if place::is_root() {
        let outcome = place.run(Tier::Full, "echo x >a/b; mkdir a; echo x >/proc/version");
        assert_eq!(outcome.denied, "none");
    }
}

#[test]
fn placeholders_are_gone_when_a_command_has_ended() {
    for user in USERS {
        let mut place = Place::new(user);
        place.look();
        assert!(!place.policy.protected.absent.is_empty());
        let outcome = place.run(Tier::Full, "ls -A; mkdir .git/x .vscode/x; touch y");
        assert!(outcome.output.contains(".git\n"), "{}", outcome.output);
        assert_eq!(place.shell("ls -A"), "y\n");
        assert_eq!(place.shell("ls -A ../records"), "lock\nspare\n");
    }
}

/// What a mask would hide cannot be made where it is not, nor lose its place by the way to it.
#[test]
fn no_way_to_what_is_masked_can_be_taken_over() {
    for user in USERS {
        let mut place = Place::new(user);
        place.shell("mkdir -p .local/x/keys; echo key >.local/x/keys/id");
        place.look();
        place.policy.masked.push(place.ws().join(".local/x/keys"));
        let roots = place.policy.roots.clone();
        let absent = [".config/bridle", ".state"].map(|name| place.ws().join(name));
        place.policy.protected.keep_absent(absent.into_iter(), &roots);
        let outcome = place.run(
            Tier::Full,
            "for c in 'echo x >.config/bridle/config.toml' 'mkdir .config/bridle/x' \
             'mv .config .c' 'rmdir .config/bridle' 'ln -sT .. .state' 'mv .local .l' \
             'mv .local/x .local/y' 'cat .local/x/keys/id'; \
             do (eval \"$c\") 2>/dev/null && echo \"can $c\"; done; echo x >.config/other",
        );
        assert_eq!((outcome.code, outcome.output.as_str()), (Some(0), ""), "{user:?}");
        assert_eq!(place.shell("find . -type f | sort"), "./.config/other\n./.local/x/keys/id\n");
        assert_eq!(place.shell("ls -A .config"), "other\n");
    }
}

/// A second command finds the placeholders of a first, which go before it has ended.
#[test]
fn placeholders_stand_as_long_as_any_command_needs_them() {
    for user in USERS {
        let mut place = Place::new(user);
        place.shell("git init -q --template= .; mkfifo a b c d");
        place.look();
        let outcome = std::thread::scope(|scope| {
            let first = scope.spawn(|| place.run(Tier::Full, "echo >a; cat b"));
            // The first runs, so what the second finds are its placeholders.
            place.shell("cat a");
            let mut second = place.policy.clone();
            second.protected = bridle_world::sandbox::Protected::below(&place.ws()).unwrap();
            let script = "echo >c; cat d; \
                          mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; mkdir .vscode/x";
            let second = scope.spawn(|| place.run_under(&[], second, Tier::Full, script));
            place.shell("cat c; echo >b");
            assert_eq!(first.join().unwrap().code, Some(0));
            place.shell("echo >d");
            second.join().unwrap()
        });
        assert_ne!(outcome.code, Some(0), "{user:?}: {}", outcome.output);
        assert_eq!(place.shell("echo .[^.]*; ls .git"), ".git\nHEAD\nconfig\nobjects\nrefs\n");
    }
}

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
fn in_read_only_mode_nothing_changes_but_temporary_files() {
    for user in USERS {
        for tier in TIERS {
            let mut place = rich(user);
            place.policy.access = bridle_world::sandbox::Access::ReadOnly;
            let before = place.shell("find . | sort; stat -c '%a %Y' a");
            let outcome = place.run(
                tier,
                "for c in 'echo x >a' 'chmod 777 a' 'touch -d 2001-01-01 a' 'rm a' 'mkdir d' \
                 'git add -A' 'mv a b' 'ln a c' 'echo x >../home/cache/x'; \
                 do (eval \"$c\") 2>/dev/null && echo \"can $c\"; done; \
                 cat a && git log --oneline | grep -c . && f=$(mktemp) && echo x >$f && cat $f",
            );
            assert_eq!(outcome.output, "a\n1\nx\n", "{user:?} {tier:?}");
            assert_eq!(place.shell("find . | sort; stat -c '%a %Y' a"), before);
        }
    }
}

/// Changes of metadata that have no path in the file system's own rules: by the newest calls, which
/// take a structure, and by requests to the file system.
const NOTE: &str = r#"
import ctypes, fcntl, os
call = ctypes.CDLL(None).syscall
value = ctypes.create_string_buffer(b"x")
attribute = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 1)
nothing = (ctypes.c_uint64 * 3)()
file = os.open("a", os.O_RDONLY)
def request(number, words):
    try: return fcntl.ioctl(file, number, (ctypes.c_uint32 * words)()) and 0
    except OSError: return -1
for name, result in [
    ("setxattrat", call(463, -100, b"a", 0, b"user.new", ctypes.byref(attribute), ctypes.c_size_t(16))),
    ("removexattrat", call(466, -100, b"a", 0, b"user.kept")),
    ("file_setattr", call(469, -100, b"a", ctypes.byref(nothing), 24, 0)),
    ("flags", request(0x40086602, 2)),
    ("project", request(0x401c5820, 7)),
    ("version", request(0x40087602, 2)),
]:
    if result == 0: print("can", name)
print("tried")
"#;

#[test]
fn in_read_only_mode_what_is_noted_of_a_file_stays() {
    for user in USERS {
        for tier in TIERS {
            let mut place = rich(user);
            place.policy.access = bridle_world::sandbox::Access::ReadOnly;
            place.shell("python3 -c 'import os; os.setxattr(\"a\", \"user.kept\", b\"x\")'");
            let outcome = place.run(tier, &format!("python3 - <<'E'\n{NOTE}E"));
            assert_eq!(outcome.output, "tried\n", "{user:?} {tier:?}");
        }
    }
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

#[test]
#[expect(clippy::disallowed_methods, reason = "another sandbox is what ours is compared with")]
fn bubblewrap_refuses_nothing_that_is_allowed_here() {
    if !std::path::Path::new("/usr/bin/bwrap").exists() {
        println!("SKIP bubblewrap: bwrap is not installed");
        return;
    }
    let place = rich(User::Own);
    let base = place.base.display();
    let can = tried(&place, |script| {
        let mut theirs = std::process::Command::new("/usr/bin/bwrap");
        let flags = format!(
            "--new-session --die-with-parent --ro-bind / / --dev /dev --bind {base}/tmp /tmp --tmpfs /run \
             --bind {base}/ws {base}/ws --bind {base}/home/cache {base}/home/cache \
             --tmpfs {base}/home/.ssh --ro-bind {base}/ws/.git/config {base}/ws/.git/config \
             --ro-bind {base}/ws/.git/hooks {base}/ws/.git/hooks --unshare-all --cap-drop ALL --proc /proc",
        );
        theirs.args(flags.split_whitespace()).args(["/bin/bash", "-c", script]);
        let output = theirs.current_dir(place.ws()).env("TMPDIR", "/tmp").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let stricter = TRIES.iter().filter(|it| it.allowed.0 && !can.contains(&it.name));
    assert_eq!(stricter.map(|it| it.name).collect::<Vec<_>>(), Vec::<&str>::new());
    // And it lets through what is refused here, so the tries do try something.
    for name in ["git-attributes", "tasks", "user-namespace", "move-sub", "keys-of-the-kernel"] {
        assert!(can.contains(&name), "{name}: {can:?}");
    }
}
