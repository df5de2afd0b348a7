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
    assert!(apply(body, &[one("two\nthree", "x")]).unwrap().line_ends);
    assert!(!apply(body, &[one("three\nfour", "x")]).unwrap().line_ends);
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

const CASES: usize = 20_000;

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
        let old_text = with_line_feeds(&body[region.clone()]).into_owned();
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
        assert_eq!(with_line_feeds(middle), new_text, "{at}");
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
    assert!(edited >= 1_000, "the generator makes too few edits that apply");
}
