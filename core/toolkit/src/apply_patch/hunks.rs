//! Putting the hunks of an update into a text, line by line.
//!
//! A hunk is looked for behind the one before it and behind its headers, in the steps of `edit`.
//! Without a header it must fit in one place only. Lines that it keeps stay as they are in the
//! file; lines that it inserts get the line end of their neighbours.

use super::parse::{Hunk, HunkLine};
use crate::edit::{Step, sought};

/// A text with the hunks in it, and the loosest step that was needed.
pub(super) fn patched(body: &str, hunks: &[Hunk]) -> Result<(String, Step), String> {
    let lines: Vec<&str> = body.split_inclusive('\n').collect();
    let (mut out, mut done, mut loosest) = (String::with_capacity(body.len()), 0, Step::Exact);
    for (index, hunk) in hunks.iter().enumerate() {
        let place = find(&lines, done, hunk).map_err(|why| format!("hunk {}: {why}", index + 1))?;
        loosest = loosest.max(place.step);
        out.extend(lines.iter().take(place.start).skip(done).copied());
        done = place.start;
        for line in &hunk.lines {
            match line {
                HunkLine::Keep(_) => {
                    out.push_str(lines.get(done).copied().unwrap_or_default());
                    done += 1;
                }
                HunkLine::Remove(_) => done += 1,
                HunkLine::Insert(text) => insert(&mut out, text, lines.get(done).copied()),
            }
        }
    }
    out.extend(lines.iter().skip(done).copied());
    // What had no last line end gets none.
    if !body.is_empty() && !body.ends_with('\n') && out.ends_with('\n') {
        out.pop();
        if out.ends_with('\r') {
            out.pop();
        }
    }
    Ok((out, loosest))
}

fn insert(out: &mut String, text: &str, next: Option<&str>) {
    let end_in = |text: &str| {
        let (line, _) = text.rsplit_once('\n')?;
        Some(if line.ends_with('\r') { "\r\n" } else { "\n" })
    };
    let end = end_in(out).or_else(|| next.and_then(end_in)).unwrap_or("\n");
    if !out.is_empty() && !out.ends_with('\n') {
        out.push_str(end);
    }
    out.push_str(text);
    out.push_str(end);
}

struct Place {
    start: usize,
    step: Step,
}

fn find(lines: &[&str], from: usize, hunk: &Hunk) -> Result<Place, String> {
    let mut from = from;
    for header in &hunk.headers {
        let at = lines.iter().skip(from).position(|line| line.trim() == header.trim());
        from += 1 + at.ok_or_else(|| format!("there is no line `{header}` behind line {from}"))?;
    }
    let wanted: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Keep(text) | HunkLine::Remove(text) => Some(text.as_str()),
            HunkLine::Insert(_) => None,
        })
        .collect();
    if wanted.is_empty() {
        let start = if hunk.headers.is_empty() { lines.len() } else { from };
        return Ok(Place { start, step: Step::Exact });
    }
    for step in [Step::Exact, Step::TrailingSpace, Step::LookAlikes] {
        let wanted: Vec<String> = wanted.iter().map(|line| as_seen(line, step)).collect();
        let mut starts = (from..=lines.len().saturating_sub(wanted.len())).filter(|start| {
            let here = lines.iter().skip(*start).take(wanted.len());
            let fits = here.len() == wanted.len()
                && here.zip(&wanted).all(|(line, wanted)| as_seen(line, step) == *wanted);
            fits && (!hunk.at_end || start + wanted.len() == lines.len())
        });
        let Some(start) = starts.next() else { continue };
        if hunk.headers.is_empty()
            && let Some(other) = starts.next()
        {
            return Err(format!(
                "it fits at line {} and at line {}; add lines around it, or an `@@` line that \
                 stands before it",
                start + 1,
                other + 1
            ));
        }
        return Ok(Place { start, step });
    }
    let first = wanted.first().copied().unwrap_or_default();
    Err(format!("its lines, which begin with `{first}`, are not in the file behind line {from}"))
}

/// A line without its end, as a step sees it.
fn as_seen(line: &str, step: Step) -> String {
    let content = line.strip_suffix('\n').unwrap_or(line);
    let content = content.strip_suffix('\r').unwrap_or(content);
    match step {
        Step::Exact | Step::LineEnds => content.to_owned(),
        step => sought(content, step).trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply_patch::parse::{FileChange, parse};

    fn patched_by(body: &str, hunks: &str) -> Result<String, String> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{hunks}*** End Patch");
        match parse(&patch).unwrap().remove(0) {
            FileChange::Update { hunks, .. } => patched(body, &hunks).map(|(body, _)| body),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hunks_keep_what_they_do_not_name() {
        let body = "a \r\nb\r\nc\nd";
        assert_eq!(patched_by(body, " a\n-b\n+B\n+B2\n").unwrap(), "a \r\nB\r\nB2\r\nc\nd");
        assert_eq!(patched_by(body, "-d\n+D\n").unwrap(), "a \r\nb\r\nc\nD");
        assert_eq!(patched_by(body, "+e\n").unwrap(), "a \r\nb\r\nc\nd\ne");
        assert_eq!(patched_by(body, "@@ b\n+new\n").unwrap(), "a \r\nb\r\nnew\r\nc\nd");
        assert_eq!(patched_by("", "+x\n").unwrap(), "x\n");
        assert_eq!(patched_by("x\n", "-x\n").unwrap(), "");
    }

    #[test]
    fn a_hunk_fits_in_one_place_or_behind_its_header() {
        let body = "f1\nx\nf2\nx\n";
        assert!(patched_by(body, "-x\n+y\n").unwrap_err().contains("at line 2 and at line 4"));
        assert_eq!(patched_by(body, "@@ f2\n-x\n+y\n").unwrap(), "f1\nx\nf2\ny\n");
        assert_eq!(patched_by(body, "-x\n+y\n*** End of File\n").unwrap(), "f1\nx\nf2\ny\n");
        assert!(patched_by(body, "@@ f3\n-x\n").unwrap_err().contains("no line `f3`"));
        assert!(patched_by(body, "-z\n").unwrap_err().contains("are not in the file"));
        // In their order.
        assert!(patched_by(body, " f2\n+a\n@@\n f1\n+b\n").is_err());
    }
}
