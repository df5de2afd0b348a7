//! Work that must go on in workspace-write without the network, and sandboxes in sandboxes.

use bridle_world::sandbox::{Policy, Tier};

use super::TIERS;
use super::place::{Place, USERS, User, is_root};
use crate::order::{Order, Outcome};
use crate::rig::probe;

/// Says that a check cannot run here, and whether so.
fn is_missing(program: &str, user: User) -> bool {
    let mut there = Place::new(user).as_user("/bin/sh");
    there.args(["-c", "test -x \"$(command -v $0)\"", program]);
    let missing = !there.status().unwrap().success();
    if missing {
        let whose = if user == User::Own { "" } else { "-plain" };
        println!("SKIP daily-{program}{whose}: this user has no {program}");
    }
    missing
}

/// Runs `command` as each user in both tiers, where it must succeed.
fn works(program: &str, prepare: &str, command: &str) {
    for user in USERS {
        if is_missing(program, user) {
            continue;
        }
        for tier in TIERS {
            let mut place = Place::new(user);
            place.shell(prepare);
            place.look();
            let outcome = place.run(tier, command);
            let ended = (outcome.error, outcome.code);
            assert_eq!(ended, (None, Some(0)), "{user:?} {tier:?}: {}", outcome.output);
        }
    }
}

#[test]
fn cargo_builds_and_tests() {
    works(
        "cargo",
        "mkdir src; printf '[package]\\nname = \"p\"\\nedition = \"2024\"\\n[workspace]\\n' >Cargo.toml; \
         echo '#[test] fn t() {}' >src/lib.rs",
        "CARGO_HOME=$PWD/.home cargo test --offline -q",
    );
}

#[test]
fn npm_runs_and_installs_from_a_folder() {
    works(
        "npm",
        "mkdir dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' >dep/package.json; \
         echo '{\"name\":\"p\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"node -e 1\"},\
         \"dependencies\":{\"dep\":\"file:dep\"}}' >package.json",
        "npm install --offline --no-audit --cache $TMPDIR/npm && npm run t && test -e node_modules/dep",
    );
}

/// Makes a package that can be installed without the network.
const WHEEL: &str = r#"python3 -c '
import zipfile
with zipfile.ZipFile("p-1-py3-none-any.whl", "w") as z:
    z.writestr("p.py", "")
    z.writestr("p-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: p\nVersion: 1\n")
    z.writestr("p-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("p-1.dist-info/RECORD", "")
'"#;

#[test]
fn pip_installs_and_python_forks() {
    works(
        "pip",
        WHEEL,
        "python3 -m pip install -q --no-index --no-cache-dir --disable-pip-version-check --target out *.whl; \
         test -e out/p.py && python3 -c 'import multiprocessing as m; \
         p = m.Process(target=print); p.start(); p.join(); exit(p.exitcode)'",
    );
}

#[test]
fn go_builds_and_tests_with_a_module_beside() {
    works(
        "go",
        "mkdir dep; printf 'module example.com/dep\\n\\ngo 1.18\\n' >dep/go.mod; \
         printf 'package dep\\n\\nfunc One() int { return 1 }\\n' >dep/dep.go; \
         printf 'module p\\n\\ngo 1.18\\n\\nrequire example.com/dep v0.0.0\\n\\n\
         replace example.com/dep => ./dep\\n' >go.mod; \
         printf 'package p\\n\\nimport (\\n\\t\"testing\"\\n\\n\\t\"example.com/dep\"\\n)\\n\\n\
         func TestOne(t *testing.T) {\\n\\tif dep.One() != 1 {\\n\\t\\tt.Fail()\\n\\t}\\n}\\n' >p_test.go",
        "export GOPROXY=off GOTOOLCHAIN=local GOCACHE=$TMPDIR/cache GOPATH=$TMPDIR/path; \
         go vet ./... && go test ./...",
    );
}

#[test]
fn make_runs_a_compiler() {
    works(
        "make",
        "printf 'int main(void) { return 0; }\\n' >main.c; printf 'main: main.c\\n\\tcc -o $@ $<\\n' >Makefile",
        "make && ./main",
    );
}

#[test]
fn a_linked_worktree_and_a_submodule_can_be_worked_in() {
    for tier in TIERS {
        let mut place = Place::new(User::Own).with_repository();
        place.shell(
            "echo a >a; git add a; git commit -qm a; git worktree add -q tree; \
             git clone -q . ../lib && git -c protocol.file.allow=always submodule add -q ../lib lib; \
             git commit -qm lib",
        );
        place.look();
        let outcome = place.run(
            tier,
            "for d in tree lib; do (cd $d && git config --get user.email || true; echo $d >b; \
             git add b && git -c user.email=a@b -c user.name=a commit -qm b) || exit 1; done; \
             git status --short",
        );
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{tier:?}: {}", outcome.output);
        if tier == Tier::Full {
            for command in [
                "echo x >tree/.git",
                "echo x >lib/.git",
                "echo x >>.git/modules/lib/config",
                "echo x >.git/modules/lib/hooks/x",
                "echo x >.git/worktrees/tree/commondir",
                "rm lib/.git",
                "rm -r .git/worktrees/tree",
            ] {
                let outcome = place.run(tier, command);
                assert_ne!(outcome.code, Some(0), "{command}");
            }
        }
    }
}

/// Has a host that is itself confined run `command` confined.
fn nested(place: &Place, outer: Tier, command: &str) -> Outcome {
    // The outer one gives it another `/tmp` already.
    let order = Order {
        look: false,
        at_most: Tier::Full,
        policy: Policy { temporary: None, ..place.policy.clone() },
        cwd: place.ws(),
        command: command.to_owned(),
    };
    fs_err::write(place.ws().join("order"), serde_json::to_string(&order).unwrap()).unwrap();
    place.give(&place.ws());
    let outcome = place.run(outer, &format!("{} confined <order", probe().display()));
    assert_eq!((&outcome.error, outcome.code), (&None, Some(0)), "{}", outcome.output);
    serde_json::from_str(&outcome.output).unwrap_or_else(|_| panic!("{}", outcome.output))
}

#[test]
fn inside_a_sandbox_the_second_tier_stands_and_says_that_it_cannot_see() {
    for user in USERS {
        for outer in TIERS {
            let mut place = Place::new(user);
            place.policy.writable.push(place.base.join("records"));
            let outcome = nested(&place, outer, "echo x >made; echo x >../outside/new");
            assert_eq!((outcome.error, outcome.tier), (None, Tier::Landlock), "{user:?} {outer:?}");
            assert!(outcome.cause.is_some());
            assert_eq!((outcome.code, outcome.denied.as_str()), (Some(1), "suspected"));
            assert_eq!(place.shell("ls made; ls ../outside"), "made\nfile\n");
        }
    }
}

#[test]
fn where_user_namespaces_cannot_be_made_the_second_tier_stands_and_says_why() {
    if !is_root() {
        println!("SKIP root-without-setfcap: needs root");
        return;
    }
    let place = Place::new(User::Own);
    let outcome = place.run_with(
        &["setpriv", "--bounding-set=-setfcap", "--inh-caps=-setfcap"],
        Tier::Full,
        "echo x >made; echo x >../outside/new",
    );
    assert_eq!((outcome.error, outcome.tier), (None, Tier::Landlock));
    let cause = outcome.cause.unwrap();
    assert!(cause.contains("uid_map"), "{cause}");
    assert_eq!(place.shell("ls made; ls ../outside"), "made\nfile\n");
}

/// Starts a program under a filter like that of a container without privileges: no namespaces and no
/// mounts, and the newest call for processes does not exist.
const CONTAINER: &str = r#"
import ctypes, os, struct, sys
def step(code, yes, no, value): return struct.pack("HBBI", code, yes, no, value)
load = lambda place: step(0x20, 0, 0, place)
refuse = lambda error: step(0x06, 0, 0, 0x50000 | error)
code = [load(0)]
for number in (165, 166, 155, 272, 308, 428, 429, 430, 431, 432, 442):
    code += [step(0x15, 0, 1, number), refuse(1)]
code += [step(0x15, 0, 1, 435), refuse(38)]
code += [step(0x15, 0, 3, 56), load(16), step(0x45, 0, 1, 0x7E020000), refuse(1)]
code += [step(0x06, 0, 0, 0x7FFF0000)]
steps = ctypes.create_string_buffer(b"".join(code))
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
program = Program(len(code), ctypes.addressof(steps))
prctl = ctypes.CDLL(None, use_errno=True).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn in_a_container_the_second_tier_stands_and_says_why() {
    for user in USERS {
        let place = Place::new(user);
        let script = place.base.join("container.py");
        fs_err::write(&script, CONTAINER).unwrap();
        let outcome = place.run_with(
            &["/usr/bin/env", "python3", script.to_str().unwrap()],
            Tier::Full,
            "echo x >made; echo x >../outside/new",
        );
        assert_eq!((outcome.error, outcome.tier), (None, Tier::Landlock), "{user:?}");
        let cause = outcome.cause.unwrap();
        assert!(cause.contains("no namespaces"), "{cause}");
        let refused = place.base.join("outside/new").display().to_string();
        assert_eq!((outcome.code, outcome.denied), (Some(1), refused), "{user:?}");
        assert_eq!(place.shell("ls made; ls ../outside"), "made\nfile\n");
    }
}

#[test]
fn a_policy_that_cannot_be_put_in_force_runs_nothing() {
    for user in USERS {
        let place = Place::new(user);
        let outcome = place.run(Tier::None, "touch made");
        assert!(outcome.error.unwrap().starts_with("sandbox: "), "{user:?}");
        for tier in TIERS {
            let mut place = Place::new(user);
            place.policy.roots.push(place.base.join("gone"));
            place.policy.records = place.base.join("gone");
            place.look();
            let outcome = place.run(tier, "touch made");
            if tier == Tier::Full {
                let error = outcome.error.unwrap();
                assert!(error.starts_with("sandbox: ") && error.contains("gone"), "{error}");
                assert_eq!(place.shell("ls"), "");
            }
        }
    }
}

/// Programs that clean a workspace up meet folders there that are none of theirs.
#[test]
fn git_stashes_and_cleans_what_is_not_its_own() {
    for user in USERS {
        let mut place = Place::new(user).with_repository();
        place.shell("echo a >a; git add a; git commit -qm a; echo x >>a; mkdir d; echo b >d/b");
        place.look();
        let outcome = place.run(
            Tier::Full,
            "git stash -qu && test ! -e d -a $(wc -l <a) = 1 && git stash pop -q && test -e d/b && \
             git clean -qfd && test ! -e d && git checkout -q a && git status --short && \
             ! mkdir .vscode/x && ! ln -sT d .vscode",
        );
        assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{user:?}: {}", outcome.output);
        assert!(!outcome.denied.lines().any(|it| it.ends_with("/.git")), "{}", outcome.denied);
        assert_eq!(place.shell("ls -A"), ".git\na\n");
    }
}

/// What git would have to write into its configuration, or into a new one, is told by name.
#[test]
fn git_is_refused_by_name_what_takes_another_configuration() {
    let mut place = Place::new(User::Own).with_repository();
    place.shell(
        "echo a >a; git add a; git commit -qm a; git branch x; git init -q --bare ../outside/r; \
         git remote add origin ../outside/r; git push -q origin x",
    );
    place.look();
    for (command, path) in [
        ("git branch --set-upstream-to=origin/x x", ".git/config"),
        ("git branch -m x y; git branch -d y", ".git/config"),
        ("git clone -q . c", "c/.git"),
        ("git worktree add w", "w/.git"),
        ("git -c protocol.file.allow=always submodule add $PWD/../outside/r s", "s/.git"),
    ] {
        let outcome = place.run(Tier::Full, command);
        let told: Vec<&str> = outcome.denied.lines().collect();
        let path = place.ws().join(path);
        assert!(told.contains(&path.to_str().unwrap()), "{command}: {told:?} {}", outcome.output);
    }
}

/// Where no other program looks for repositories, git may make them.
#[test]
fn git_makes_repositories_in_the_temporary_folder() {
    for user in USERS {
        for tier in TIERS {
            let mut place = Place::new(user).with_repository();
            place.shell("echo a >a; git add a; git commit -qm a");
            place.look();
            let outcome = place.run(
                tier,
                "git clone -q . $TMPDIR/c && git init -q $TMPDIR/i && \
                 git worktree add -q -b x $TMPDIR/w && cd $TMPDIR/w && echo b >b && git add b && \
                 git -c user.email=a@b -c user.name=a commit -qm b && cd - && git merge -q x && \
                 git worktree remove $TMPDIR/w && test -e b",
            );
            let ended = (outcome.error, outcome.code);
            assert_eq!(ended, (None, Some(0)), "{user:?} {tier:?}: {}", outcome.output);
            assert_eq!(outcome.altered, Vec::<std::path::PathBuf>::new(), "{user:?} {tier:?}");
        }
    }
}
