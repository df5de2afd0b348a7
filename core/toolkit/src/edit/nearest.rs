//! Where a text that was not found might have been meant.

/// The most lines of a file that are looked at.
const MAX_FILE_LINES: usize = 100_000;
/// The most lines of the sought text that are compared.
const MAX_OLD_LINES: usize = 20;
/// The most regions, and lines of each, that are shown.
const MAX_REGIONS: usize = 3;
const MAX_SHOWN_LINES: usize = 8;
/// The most characters of a shown line.
const MAX_LINE_CHARS: usize = 200;

/// The regions that are most like `wanted`, with line numbers, as text for the model; empty when
/// nothing is like it.
pub(super) fn nearest_regions(body: &str, wanted: &str) -> String {
    let file: Vec<&str> = body.lines().take(MAX_FILE_LINES).collect();
    let wanted: Vec<&str> =
        wanted.lines().skip_while(|line| line.trim().is_empty()).take(MAX_OLD_LINES).collect();
    let mut ranked: Vec<(usize, usize)> = (0..file.len())
        .map(|start| (score(&file, start, &wanted), start))
        .filter(|(score, _)| *score > 0)
        .collect();
    ranked.sort_by_key(|(score, start)| (std::cmp::Reverse(*score), *start));
    let mut chosen: Vec<usize> = Vec::new();
    for (_, start) in ranked {
        let apart = |other: &usize| other.abs_diff(start) >= wanted.len();
        if chosen.len() < MAX_REGIONS && chosen.iter().all(apart) {
            chosen.push(start);
        }
    }
    chosen.sort_unstable();
    chosen
        .into_iter()
        .map(|start| region(&file, start, wanted.len()))
        .collect::<Vec<_>>()
        .join("…\n")
}

/// How much the lines from `start` are like the wanted ones: equal lines count most, and without
/// an equal or similar first line there is no likeness.
fn score(file: &[&str], start: usize, wanted: &[&str]) -> usize {
    let likeness =
        |offset: usize| file.get(start + offset).zip(wanted.get(offset)).map(|(a, b)| alike(a, b));
    let first = likeness(0).unwrap_or_default();
    if first == 0 {
        return 0;
    }
    first + (1..wanted.len()).filter_map(likeness).sum::<usize>()
}

/// 3 for lines equal but for outer white space, 1 for lines that share most of their beginning
/// and end, 0 otherwise. Blank lines are like nothing.
fn alike(a: &str, b: &str) -> usize {
    let (a, b) = (a.trim(), b.trim());
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    if a == b {
        return 3;
    }
    let longest = a.chars().count().max(b.chars().count());
    let head = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let tail = a.chars().rev().zip(b.chars().rev()).take_while(|(x, y)| x == y).count();
    usize::from((head + tail) * 10 >= longest * 6)
}

fn region(file: &[&str], start: usize, lines: usize) -> String {
    let shown = file.iter().enumerate().skip(start).take(lines.clamp(1, MAX_SHOWN_LINES));
    shown
        .map(|(index, line)| {
            let line: String = line.chars().take(MAX_LINE_CHARS).collect();
            format!("{:>6}\t{line}\n", index + 1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_places_with_their_lines() {
        let body = "fn a() {\n    one();\n}\nfn b() {\n    two();\n}\n";
        let found = nearest_regions(body, "fn b() {\n  two( );\n}");
        assert!(found.contains("     4\tfn b() {\n     5\t    two();\n"), "{found}");
        assert_eq!(nearest_regions(body, "zebra"), "");
        assert_eq!(nearest_regions("", "x"), "");
    }
}
