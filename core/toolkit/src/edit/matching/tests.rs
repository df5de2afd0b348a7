//! Replacements in memory, and random ones.
#![expect(clippy::string_slice, reason = "a bad offset must fail the test")]

use super::*;

fn one<'a>(old_text: &'a str, new_text: &'a str) -> Replacement<'a> {
    Replacement { old_text, new_text, all: false }
}

fn applied(body: &str, replacements: &[Replacement<'_>]) -> String {
    apply(body, replacements).unwrap().body
}

#[test]
fn several_edits_match_the_file_as_it_was() {
    assert_eq!(applied("a b c", &[one("c", "a"), one("a", "x")]), "x b a");
    let all = Replacement { all: true, ..one("a", "bb") };
    assert_eq!(apply("a-a-a", &[all]).unwrap().regions, 3);
}

#[test]
fn problems() {
    let problem = |body, replacements: &[_]| apply(body, replacements).unwrap_err();
    assert_eq!(problem("a", &[one("", "x")]), Problem::Empty(0));
    assert_eq!(problem("a", &[one("a", "b"), one("x", "x")]), Problem::Same(1));
    assert_eq!(problem("a", &[one("a", "b"), one("z", "y")]), Problem::NotFound(1));
    assert_eq!(problem("a\na", &[one("a", "b")]), Problem::Ambiguous(0, vec![1, 2]));
    assert_eq!(problem("aaa", &[one("aa", "b")]), Problem::Ambiguous(0, vec![1, 1]));
    assert_eq!(problem("abc", &[one("bc", "x"), one("ab", "y")]), Problem::Overlap(0, 1));
    assert_eq!(problem("xyz", &[one("x", "xy"), one("yz", "z")]), Problem::NoChange);
}

#[test]
fn line_feeds_match_any_line_end_and_the_ends_stay() {
    let body = "one\r\ntwo\r\nthree\nfour\r\n";
    assert_eq!(applied(body, &[one("two\nthree\n", "2\n3\n")]), "one\r\n2\r\n3\nfour\r\n");
    assert_eq!(applied(body, &[one("two", "2\nand")]), "one\r\n2\r\nand\r\nthree\nfour\r\n");
    // The repeated lines keep their own ends, the added one takes its neighbour's.
    let added = one("two\nthree\n", "two\nnew\nthree\n");
    assert_eq!(applied(body, &[added]), "one\r\ntwo\r\nnew\r\nthree\nfour\r\n");
    assert_eq!(applied(body, &[one("\ntwo", "")]), "one\r\nthree\nfour\r\n");
    let edits = [one("two\nthree", "x"), one("four", "y")];
    assert_eq!(apply(body, &edits).unwrap().steps, [Step::LineEnds, Step::Exact]);
}

#[test]
fn carriage_returns_that_are_written_out_are_meant() {
    assert_eq!(applied("a\r\nb\r\n", &[one("a\r\nb", "a\nb")]), "a\nb\r\n");
    assert_eq!(applied("a\nb\n", &[one("a\nb", "a\r\nb")]), "a\r\nb\n");
    // Written out, but the file has line feeds: taken as line ends.
    assert_eq!(applied("a\nb\n", &[one("a\r\nb", "c\nd")]), "c\nd\n");
}

#[test]
fn the_end_of_a_file_without_a_line_end() {
    assert_eq!(applied("a\r\nb", &[one("b", "b\nc")]), "a\r\nb\r\nc");
    assert_eq!(applied("b", &[one("b", "b\nc\n")]), "b\nc\n");
    assert_eq!(applied("a\nb\n", &[one("b\n", "b")]), "a\nb");
}

#[test]
fn looser_steps_come_one_after_the_other_and_find_one_place() {
    let step = |body, edit| {
        let applied = apply(body, &[edit]).unwrap();
        (applied.body, applied.steps[0])
    };
    let body = "if x {  \r\n\tsay(“it’s”)\n}\n";
    let edit = one("if x {\n\tsay(“", "if y {\n\tsay(“");
    assert_eq!(step(body, edit).1, Step::TrailingSpace);
    // The line that is repeated stays as it is, the one that changes is as it is written.
    let edit = one("if x {\n\tsay(\"it's\")\n", "if y {\n\tsay(\"it's\")\n");
    let after = "if y {\r\n\tsay(“it’s”)\n}\n".to_owned();
    assert_eq!(step(body, edit), (after, Step::LookAlikes));
    // A tighter step wins, and one that finds two places ends the search.
    assert_eq!(step("a-b a–b", one("a–b", "c")), ("a-b c".to_owned(), Step::Exact));
    assert_eq!(step("a-b a–b", one("a-b", "c")), ("c a–b".to_owned(), Step::Exact));
    let two = apply("a–b a—b", &[one("a-b", "c")]);
    assert_eq!(two, Err(Problem::Ambiguous(0, vec![1, 1])));
    // White space within a line counts, and so does what is only white space.
    assert_eq!(apply("a  b", &[one("a b", "c")]), Err(Problem::NotFound(0)));
    assert_eq!(apply("a \nb", &[one("\t\n", "c")]), Err(Problem::NotFound(0)));
    // What is asked for ends within a line.
    assert_eq!(apply("ab", &[one("a  ", "c")]), Err(Problem::NotFound(0)));
}

const CASES: usize = 60_000;

/// A file of few different lines, with every kind of line end.
fn random_body(random: &mut fastrand::Rng) -> String {
    let mut body = String::new();
    for _ in 0..random.usize(1..12) {
        body.push_str(random.choice(["a", "ab", "äö", "😀", "", "x y", "\r"]).unwrap());
        body.push_str(random.choice(["\n", "\r\n", "\r\n", ""]).unwrap());
    }
    body
}

/// A region between characters that splits no CR LF.
fn random_region(random: &mut fastrand::Rng, body: &str) -> Range<usize> {
    let splits = |at: &usize| {
        body.is_char_boundary(*at)
            && !(body[..*at].ends_with('\r') && body[*at..].starts_with('\n'))
    };
    let places: Vec<usize> = (0..=body.len()).filter(splits).collect();
    let (a, b) = (*random.choice(&places).unwrap(), *random.choice(&places).unwrap());
    a.min(b)..a.max(b)
}

/// Whatever is edited: bytes outside the region stay, the region reads as the new text does,
/// and a file with one kind of line end gets no other.
#[test]
fn random_edits_touch_nothing_else() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut edited = 0;
    for case in 0..CASES {
        let body = random_body(&mut random);
        let region = random_region(&mut random, &body);
        let old_text = sought(&body[region.clone()], Step::LineEnds).into_owned();
        let pieces = ["a", "😀", "\n", "\n\n", "new", &old_text, ""];
        let new_text: String =
            (0..random.usize(0..4)).map(|_| *random.choice(&pieces).unwrap()).collect();
        if old_text.contains('\r') || new_text.contains('\r') {
            continue;
        }
        let Ok(applied) = apply(&body, &[one(&old_text, &new_text)]) else { continue };
        edited += 1;
        let at = format!("seed {seed}, case {case}: {body:?} {old_text:?} -> {new_text:?}");
        let (head, tail) = (&body[..region.start], &body[region.end..]);
        let out = &applied.body;
        assert!(out.starts_with(head) && out.ends_with(tail), "{at}: {out:?}");
        let middle = &out[head.len()..out.len() - tail.len()];
        assert_eq!(sought(middle, Step::LineEnds), new_text, "{at}");
        let feeds = body.matches('\n').count();
        let pairs = body.matches("\r\n").count();
        if feeds > 0 && feeds == pairs {
            assert_eq!(out.matches('\n').count(), out.matches("\r\n").count(), "{at}");
        }
        if pairs == 0 && !body.contains('\r') {
            assert!(!out.contains('\r'), "{at}");
        }
    }
    println!("seed {seed}: {edited} edits applied of {CASES} tried");
    assert!(edited >= 10_000, "the generator makes too few edits that apply");
}

/// The same on the bytes of files: with and without a mark, in several encodings, with any mixture
/// of line ends and with or without a last one. Every byte that is not replaced stays.
#[test]
fn random_files_keep_every_byte_that_is_not_replaced() {
    use bridle_world::files::Text;

    const FILES: usize = 12_000;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let utf16 = |text: &str, to: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to).collect();
    /// Mark, encoder, letters that it has.
    type Encoding<'a> = (&'a [u8], &'a dyn Fn(&str) -> Vec<u8>, &'a str);
    let encodings: [Encoding<'_>; 5] = [
        (b"", &|text| text.into(), "äß😀"),
        (b"\xef\xbb\xbf", &|text| text.into(), "äß😀"),
        (b"\xff\xfe", &|text| utf16(text, u16::to_le_bytes), "äß😀"),
        (b"\xfe\xff", &|text| utf16(text, u16::to_be_bytes), "äß😀"),
        // Latin-1: one byte for each of these.
        (b"", &|text| text.chars().map(|c| u8::try_from(c).unwrap()).collect(), "äöüß"),
    ];
    let (mut edited, mut latin) = (0, 0);
    for case in 0..FILES {
        let (mark, encode, letters) = random.choice(&encodings).unwrap();
        let mut side = || -> String {
            let words = ["Die Straße führt ", "über Brücken", letters, "x", "\t", "  ", "ö"];
            let mut text = String::new();
            for _ in 0..random.usize(0..20) {
                text.push_str(random.choice(&words).unwrap());
                text.push_str(random.choice(["\n", "\r\n", "\r", "", ""]).unwrap());
            }
            text
        };
        let (head, tail) = (side(), side());
        let (old, new) = ("<target>", random.choice(["", "done", "größer", "zwei  "]).unwrap());
        let bytes = [mark.to_vec(), encode(&format!("{head}{old}{tail}"))].concat();
        let at = format!("seed {seed}, case {case}: {bytes:?}");
        // A guess of the encoding may be wrong, or refused; what it does not touch still stays.
        let Ok(text) = Text::parse(&bytes) else { continue };
        let applied = apply(&text.body, &[one(old, new)]).unwrap();
        let Ok(after) = text.with_body(&applied.body) else { continue };
        let (kept_head, kept_tail) = ([mark.to_vec(), encode(&head)].concat(), encode(&tail));
        assert!(after.starts_with(&kept_head) && after.ends_with(&kept_tail), "{at}");
        if text.encoding().is_none_or(|name| name.starts_with("UTF") || name == "windows-1252") {
            // A file of ASCII alone is one of UTF-8, whatever else it might be.
            let middle = if text.encoding().is_none() { new.into() } else { encode(new) };
            assert_eq!(after, [kept_head, middle, kept_tail].concat(), "{at}");
            latin += usize::from(text.encoding() == Some("windows-1252"));
        }
        edited += 1;
    }
    println!("seed {seed}: {edited} of {FILES} files edited, {latin} of them in windows-1252");
    assert!(edited >= 10_000 && latin >= 500, "too few: {edited}, {latin}");
}
