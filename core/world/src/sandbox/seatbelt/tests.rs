//! The profile as text: what it says, in which order, and that it is one.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::*;
use crate::sandbox::Protected;

fn policy() -> Policy {
    Policy {
        access: Access::WorkspaceWrite,
        roots: vec!["/Users/u/my (1) ws".into()],
        writable: vec!["/Users/u/.cargo".into()],
        protected: Protected {
            present: vec!["/Users/u/my (1) ws/.git/config".into()],
            ..Protected::default()
        },
        masked: vec!["/Users/u/.ssh".into()],
        temporary: Some("/private/tmp/bridle".into()),
        network: Network::Off,
        processes: 64,
        records: "/".into(),
    }
}

#[test]
fn what_may_be_written_comes_before_what_in_it_may_not() {
    let text = profile(&policy()).unwrap();
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let allowed = place(r#"(allow file-write* (subpath "/Users/u/my (1) ws"))"#);
    assert!(allowed < place(r#"(deny file-write* (subpath "/Users/u/my (1) ws/.git/config"))"#));
    let named =
        r##"(deny file-write* (regex #"^/Users/u/my \(1\) ws/(.*/)?\.[zZ][eE][dD](/.*)?$"))"##;
    assert!(allowed < place(named));
    place(r#"(deny file-read* file-write* (subpath "/Users/u/.ssh"))"#);
    assert!(!text.contains("network"));
}

#[test]
fn read_only_allows_the_temporary_folder_only() {
    let text = profile(&Policy { access: Access::ReadOnly, ..policy() }).unwrap();
    let writes: Vec<&str> =
        text.lines().filter(|line| line.starts_with("(allow file-write*")).collect();
    assert_eq!(writes, [r#"(allow file-write* (subpath "/private/tmp/bridle"))"#]);
}

#[test]
fn a_path_cannot_end_the_string_it_stands_in() {
    let mut policy = policy();
    policy.roots = vec![r#"/a") (allow default) ("\"#.into()];
    let text = profile(&policy).unwrap();
    assert!(text.contains(r#"(subpath "/a\") (allow default) (\"\\")"#), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("(allow default)")));
}

#[test]
fn with_network_programs_of_the_host_are_still_not_reached() {
    let text = profile(&Policy { network: Network::On, ..policy() }).unwrap();
    assert!(text.ends_with("(deny network-outbound (remote unix-socket))\n"), "{text}");
}

/// What a profile is written in.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    List(Vec<Form>),
    Word(String),
    Text(String),
    Expression(String),
}

impl Form {
    fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            other => panic!("{other:?} is no word"),
        }
    }

    fn list(&self) -> &[Form] {
        match self {
            Self::List(forms) => forms,
            other => panic!("{other:?} is no list"),
        }
    }
}

/// Reads forms until the list ends, or the text.
fn read(text: &mut std::iter::Peekable<std::str::Chars<'_>>, is_within: bool) -> Vec<Form> {
    let mut forms = Vec::new();
    loop {
        match text.next() {
            None => {
                assert!(!is_within, "a list has no end");
                return forms;
            }
            Some(')') => {
                assert!(is_within, "a list ends that has not begun");
                return forms;
            }
            Some('(') => forms.push(Form::List(read(text, true))),
            Some('"') => {
                let mut string = String::new();
                loop {
                    match text.next().expect("a string has no end") {
                        '"' => break,
                        '\\' => string.push(text.next().expect("a string has no end")),
                        letter => string.push(letter),
                    }
                }
                forms.push(Form::Text(string));
            }
            Some('#') => {
                assert_eq!(text.next(), Some('"'));
                // Nothing in it can hide its end.
                let expression = text.by_ref().take_while(|it| *it != '"').collect();
                forms.push(Form::Expression(expression));
            }
            Some(blank) if blank.is_whitespace() => {}
            Some(letter) => {
                let mut word = letter.to_string();
                while let Some(next) =
                    text.next_if(|it| !it.is_whitespace() && !"()\"".contains(*it))
                {
                    word.push(next);
                }
                forms.push(Form::Word(word));
            }
        }
    }
}

/// A rule: whether it allows, what, and where (everywhere without any place).
struct Rule {
    allows: bool,
    what: Vec<String>,
    places: Vec<Place>,
}

/// Where a rule holds.
enum Place {
    Below(PathBuf),
    At(PathBuf),
    Matching(RegexMatcher),
    /// At something that is no path.
    Elsewhere,
}

impl Place {
    fn read(form: &Form) -> Self {
        let [kind, at] = form.list() else { panic!("{form:?} is no place") };
        let absolute = |path: &str| {
            assert!(path.starts_with('/'), "{path}");
            PathBuf::from(path)
        };
        match (kind.word(), at) {
            ("subpath", Form::Text(path)) => Self::Below(absolute(path)),
            ("literal", Form::Text(path)) => Self::At(absolute(path)),
            ("regex", Form::Expression(text)) => {
                assert!(text.starts_with("^/") && text.ends_with('$'), "{text}");
                // As POSIX has it, any letter may be the end of a line.
                let mut builder = RegexMatcherBuilder::new();
                Self::Matching(builder.dot_matches_new_line(true).build(text).unwrap())
            }
            ("target" | "remote", Form::Word(_)) => Self::Elsewhere,
            other => panic!("{other:?} is no place"),
        }
    }

    fn has(&self, path: &str) -> bool {
        match self {
            Self::Below(folder) => Path::new(path).starts_with(folder),
            Self::At(file) => Path::new(path) == file,
            Self::Matching(expression) => expression.is_match(path.as_bytes()).unwrap(),
            Self::Elsewhere => false,
        }
    }
}

/// What rules are about.
const WHAT: [&str; 13] = [
    "default",
    "process-exec",
    "process-fork",
    "process-info*",
    "signal",
    "sysctl-read",
    "ipc-posix-sem",
    "pseudo-tty",
    "file-read*",
    "file-write*",
    "network-outbound",
    "network-inbound",
    "system-socket",
];

/// The rules of a profile, each of which is well formed.
fn rules(profile: &str) -> Vec<Rule> {
    let forms = read(&mut profile.chars().peekable(), false);
    let mut rules = Vec::new();
    for (number, form) in forms.iter().enumerate() {
        let form = form.list();
        match (form[0].word(), number) {
            ("version", 0) => assert_eq!(form[1..], [Form::Word("1".to_owned())]),
            ("import", 2) => assert_eq!(form[1..], [Form::Text("system.sb".to_owned())]),
            (word @ ("allow" | "deny"), 1..) => {
                let (what, places): (Vec<_>, Vec<_>) =
                    form[1..].iter().partition(|it| matches!(it, Form::Word(_)));
                let what: Vec<_> = what.into_iter().map(|it| it.word().to_owned()).collect();
                let is_known = |it: &String| WHAT.contains(&it.as_str());
                assert!(!what.is_empty() && what.iter().all(is_known), "{what:?}");
                let places = places.into_iter().map(Place::read).collect();
                rules.push(Rule { allows: word == "allow", what, places });
            }
            other => panic!("{other:?} is no rule at its place"),
        }
    }
    rules
}

/// Whether this may be done at this path: the last rule about it counts.
fn lets(rules: &[Rule], what: &str, path: &str) -> bool {
    let is_about = |rule: &&Rule| {
        let names = rule.what.iter().any(|it| it == what || it == "default");
        names && (rule.places.is_empty() || rule.places.iter().any(|it| it.has(path)))
    };
    rules.iter().rfind(is_about).is_some_and(|rule| rule.allows)
}

/// Whatever a path holds, the profile is one, and means the path.
#[test]
fn every_profile_is_well_formed_and_means_its_paths() {
    let odd = [
        "/Users/u/plain",
        "/a\") (allow default) (\"",
        "/back\\slash\\",
        "/a.b+c*(d)|[e]{f}^$",
        "/two\nlines",
        "/ends with \\\"",
        "/日本 語#;'",
    ];
    let (write, read_only) = (Access::WorkspaceWrite, Access::ReadOnly);
    let mut cases = odd.map(|root| (root, write, Network::Off)).to_vec();
    cases.extend([(odd[0], write, Network::On), (odd[1], read_only, Network::Off)]);
    for (root, access, network) in cases {
        let protected =
            Protected { present: vec![format!("{root}/held").into()], ..Protected::default() };
        let masked = vec![format!("{root}/masked").into()];
        let roots = vec![root.into()];
        let text =
            profile(&Policy { access, network, roots, masked, protected, ..policy() }).unwrap();
        let rules = rules(&text);
        let writes = |path: &str| lets(&rules, "file-write*", &format!("{root}/{path}"));
        let is_writable = access == write;
        assert_eq!(
            (writes("src/a.rs"), writes(".git/objects/ab")),
            (is_writable, is_writable),
            "{text}"
        );
        for kept in [
            "held",
            ".git",
            ".git/config",
            ".GIT/hooks/x",
            "deep/er/.git/modules/m/config",
            ".vscode/tasks.json",
            "deep/.VsCode",
            ".mcp.json",
            "masked/id",
        ] {
            assert!(!writes(kept), "{kept}: {text}");
        }
        assert!(!lets(&rules, "file-write*", "/etc/passwd"), "{text}");
        assert!(!lets(&rules, "file-read*", &format!("{root}/masked/id")), "{text}");
        assert!(lets(&rules, "file-read*", "/etc/passwd"), "{text}");
        assert!(lets(&rules, "file-write*", "/private/tmp/bridle/x"), "{text}");
        assert_eq!(lets(&rules, "network-outbound", ""), network == Network::On, "{text}");
    }
}

/// The whole of one, for whoever knows macOS. `UPDATE_EXPECT=1` writes it anew.
#[test]
fn the_profile_is_the_one_that_was_looked_at() {
    let text = profile(&policy()).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/sandbox/seatbelt/profile.sb");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs_err::write(path, &text).unwrap();
    }
    assert_eq!(text, fs_err::read_to_string(path).unwrap());
}
