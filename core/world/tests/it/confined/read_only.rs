//! Commands that may change nothing but temporary files.

use super::place::USERS;
use super::{TIERS, rich};

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
