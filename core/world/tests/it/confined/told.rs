//! What a command was refused, as the host hears of it: by what was refused, never by words.

use bridle_world::sandbox::Tier;

use super::place::{self, Place, USERS, User};
use super::{TIERS, rich};

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
                // What is open is no setting of the kernel, and no file of its folder either.
                (
                    "echo x >/dev/stdout; echo x >/proc/self/fd/1; echo x >/dev/fd/1; \
                     echo x > >(cat); mkdir /proc/x; rm /proc/version; chmod 600 /proc/self/comm; true",
                    String::new(),
                ),
                (
                    "python3 -c 'import socket; socket.socketpair()[0].sendmsg([b\"x\"])'",
                    String::new(),
                ),
                (
                    "python3 -c 'import socket; \
                     socket.socket(2, 2).sendmsg([b\"x\"], [], 0, (\"192.0.2.1\", 9))' 2>/dev/null; true",
                    if tier == Tier::Full { "network (192.0.2.1:9)" } else { "network" }.to_owned(),
                ),
                (
                    "echo 1 2>/dev/null >/proc/self/oom_score_adj; true",
                    "/proc/self/oom_score_adj".to_owned(),
                ),
                (
                    "echo 1 2>/dev/null >/proc/$$/oom_score_adj; true",
                    "/proc/self/oom_score_adj".to_owned(),
                ),
                (
                    "v=$(cat /proc/sys/vm/swappiness); echo $v 2>/dev/null >/proc/sys/vm/swappiness; \
                     true",
                    // Not for others in any case.
                    if user == User::Own && place::is_root() {
                        "/proc/sys/vm/swappiness"
                    } else {
                        ""
                    }
                    .to_owned(),
                ),
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

/// Sends three messages in one call, of which the first names no address.
const MESSAGES: &str = r#"
import ctypes, socket, struct
def address(text, port):
    return ctypes.create_string_buffer(struct.pack("=HH4s8x", 2, socket.htons(port), socket.inet_aton(text)))
class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("length", ctypes.c_uint32), ("parts", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("flags", ctypes.c_long), ("sent", ctypes.c_uint32)]
names = [None, address("192.0.2.1", 9), address("192.0.2.2", 53)]
messages = (Message * 3)()
for message, name in zip(messages, names):
    if name: message.name, message.length = ctypes.addressof(name), 16
any = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for first in range(3):
    ctypes.CDLL(None).sendmmsg(any.fileno(), ctypes.byref(messages, 64 * first), 3 - first, 0)
"#;

#[test]
fn each_address_of_many_messages_is_told() {
    let place = Place::new(User::Own);
    let outcome = place.run(Tier::Full, &format!("python3 - <<'E'\n{MESSAGES}E"));
    assert_eq!((outcome.error, outcome.code), (None, Some(0)), "{}", outcome.output);
    assert_eq!(outcome.denied, "network (192.0.2.1:9)\nnetwork (192.0.2.2:53)");
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
