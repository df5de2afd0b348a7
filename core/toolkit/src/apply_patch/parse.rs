//! The text of a patch: which files, and what is to become of each.

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
}

/// One place of an update.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines that stand somewhere before it, outermost first.
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<HunkLine>,
    /// Whether it ends where the file does.
    pub(super) at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HunkLine {
    Keep(String),
    Remove(String),
    Insert(String),
}

/// Reads a patch.
///
/// # Errors
/// What is wrong, with its line from 1.
pub(super) fn parse(patch: &str) -> Result<Vec<FileChange>, String> {
    let mut lines = patch.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
    match lines.next() {
        Some((_, line)) if line.trim() == "*** Begin Patch" => {}
        _ => return Err("line 1: it must be `*** Begin Patch`".to_owned()),
    }
    let mut changes = Vec::new();
    let mut ended = false;
    for (number, line) in lines {
        if ended && !line.trim().is_empty() {
            return Err(format!("line {number}: something stands behind `*** End Patch`"));
        }
        let wrong = |what: &str| Err(format!("line {number}: {what}"));
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            let path = path.trim().to_owned();
            changes.push(FileChange::Add { path, content: String::new() });
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            changes.push(FileChange::Delete { path: path.trim().to_owned() });
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let path = path.trim().to_owned();
            changes.push(FileChange::Update { path, to: None, hunks: Vec::new() });
        } else if line.trim() == "*** End Patch" {
            ended = true;
        } else if !ended {
            match changes.last_mut() {
                Some(FileChange::Add { content, .. }) => match line.strip_prefix('+') {
                    Some(text) => content.extend([text, "\n"]),
                    None => return wrong("each line of an added file begins with `+`"),
                },
                Some(FileChange::Update { to, hunks, .. }) => {
                    if let Err(what) = take(line, to, hunks) {
                        return wrong(what);
                    }
                }
                Some(FileChange::Delete { .. }) | None => {
                    return wrong("a line that names a file is expected, as `*** Update File: …`");
                }
            }
        }
    }
    if ended { Ok(changes) } else { Err("it lacks `*** End Patch`".to_owned()) }
}

/// Takes in a line of an update.
fn take(line: &str, to: &mut Option<String>, hunks: &mut Vec<Hunk>) -> Result<(), &'static str> {
    if let Some(path) = line.strip_prefix("*** Move to: ").filter(|_| hunks.is_empty()) {
        *to = Some(path.trim().to_owned());
        return Ok(());
    }
    if let Some(header) = line.strip_prefix("@@") {
        if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
            hunks.push(Hunk::default());
        }
        let header = header.strip_suffix("@@").unwrap_or(header).trim();
        if let Some(hunk) = hunks.last_mut().filter(|_| !header.is_empty()) {
            hunk.headers.push(header.to_owned());
        }
        return Ok(());
    }
    if hunks.is_empty() {
        hunks.push(Hunk::default());
    }
    let Some(hunk) = hunks.last_mut() else { return Ok(()) };
    if line == "*** End of File" {
        hunk.at_end = true;
        return Ok(());
    }
    let text = |prefix| line.strip_prefix(prefix).map(str::to_owned);
    hunk.lines.push(if let Some(text) = text('+') {
        HunkLine::Insert(text)
    } else if let Some(text) = text('-') {
        HunkLine::Remove(text)
    } else if let Some(text) = text(' ') {
        HunkLine::Keep(text)
    } else if line.is_empty() {
        // The space before an empty line is often lost.
        HunkLine::Keep(String::new())
    } else {
        return Err("a line of a hunk begins with a space, `-`, `+` or `@@`");
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_and_what_is_none() {
        let patch = "*** Begin Patch\n*** Add File: a\n+x\n+\n*** Delete File: b\n\
                     *** Update File: c\n*** Move to: d\n@@ fn f()\n keep\n-old\n+new\n\n\
                     *** End of File\n*** End Patch\n";
        let hunk = Hunk {
            headers: vec!["fn f()".into()],
            lines: vec![
                HunkLine::Keep("keep".into()),
                HunkLine::Remove("old".into()),
                HunkLine::Insert("new".into()),
                HunkLine::Keep(String::new()),
            ],
            at_end: true,
        };
        let expected = [
            FileChange::Add { path: "a".into(), content: "x\n\n".into() },
            FileChange::Delete { path: "b".into() },
            FileChange::Update { path: "c".into(), to: Some("d".into()), hunks: vec![hunk] },
        ];
        assert_eq!(parse(patch).unwrap(), expected);
        for (patch, why) in [
            ("", "line 1"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3"),
            ("*** Begin Patch\n*** Update File: a\n@@\n?\n*** End Patch", "line 4"),
            ("*** Begin Patch\nx\n*** End Patch", "line 2"),
            ("*** Begin Patch\n*** Delete File: a", "lacks"),
        ] {
            assert!(parse(patch).unwrap_err().contains(why), "{patch}");
        }
    }
}
