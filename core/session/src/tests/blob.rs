//! Names of blobs: strict, and never overlooked.

use super::sample::*;
use crate::*;

#[test]
fn only_the_digits_of_a_sha256_name_a_blob() {
    let good = "0123456789abcdef".repeat(4);
    assert_eq!(BlobHash::parse(&good).unwrap().as_str(), good);
    assert_eq!(BlobHash::of_digest(&[0x0f; 32]).as_str(), "0f".repeat(32));
    let bad = [
        String::new(),
        good.to_uppercase(),
        format!("{good}0"),
        good.replace('f', ""),
        good.replacen("01", "..", 1),
        good.replacen("01", "//", 1),
        good.replacen('0', "g", 1),
        good.replacen("012", "\u{e9}0", 1),
        good.replacen('0', "/", 1),
    ];
    for text in bad {
        assert_eq!(BlobHash::parse(&text), None, "{text}");
        let json = serde_json::json!({ "hash": text, "bytes": 1 }).to_string();
        let error = serde_json::from_str::<BlobRef>(&json).unwrap_err().to_string();
        assert!(error.contains("64 lower-case hex digits"), "{error}");
    }
}

#[test]
fn a_session_names_every_blob_that_its_events_need() {
    let hash = |byte: u8| BlobHash::of_digest(&[byte; 32]);
    let blob = |byte: u8| BlobRef { hash: hash(byte), bytes: 1 };
    let image = |byte: u8| Content::Image { blob: blob(byte), mime_type: "image/png".into() };
    let text = |byte: u8| Content::Blob {
        blob: blob(byte),
        mime_type: "text/plain".into(),
        preview: "…".into(),
    };
    let said = |content: Vec<Content>| UserMessage { content, ..user_message("u") };
    let mut session = session([
        Draft::new(InboxSpliced::queued(said(vec![image(1)]), InputQueue::NextTurn)),
        Draft::new(said(vec![Content::text("x"), image(2)])),
        calls("a", &["c1"]),
        Draft::new(ToolResult { content: vec![text(3)], ..tool_result("c1", "x") }),
        Draft::new(FileObserved { path: "/a".into(), hash: Some(hash(4).to_string()) }),
        Draft::new(FileKept {
            path: "/a".into(),
            left: None,
            before: FileBefore::File { blob: blob(7), mode: 0o644 },
        }),
    ]);
    // A newer version's event, and a replaced result: the log still shows the first.
    let line = format!(
        r#"{{"seq":6,"time":9,"type":"x/y","data":{{"of":["{}-1"],"no":"{}0"}},"ignorable":true}}"#,
        hash(5),
        hash(6)
    );
    let events = lines(&session).into_iter().chain([line]);
    session = Session::replay(header(), events.map(|l| Event::from_line(&l).unwrap())).unwrap();
    append(&mut session, replacing(result("c1", "cut"), &[3])).unwrap();
    assert_eq!(session.blobs(), [1, 2, 3, 5, 7].map(hash).into());
}
