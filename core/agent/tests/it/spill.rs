//! Results that are too large for the log.

use std::sync::Arc;

use bridle_agent::{Access, Mode, RESULT_LIMIT, Tool, ToolFailure, TurnOutcome, replay};
use bridle_session::{BlobRef, Content, EventData, Session, ToolResult};
use bridle_store::{BlobStore, StoreError};

use crate::rig::{Rig, TestTool, calls, line, text};

/// A text of exactly this many bytes, of which no two parts are alike; with characters of two
/// bytes at every place where one could be cut.
fn large(bytes: usize) -> String {
    let mut text: String = (0..).map(|n| format!("{n} é")).take(bytes / 4).collect();
    text.truncate(text.floor_char_boundary(bytes));
    text.push_str(&" ".repeat(bytes - text.len()));
    text
}

fn returning(text: String) -> Vec<Arc<dyn Tool>> {
    vec![TestTool::new("read", Access::ReadInside("/ws".into()), move |_| {
        let text = text.clone();
        async move { Ok(text) }
    })]
}

/// The only result of the log, and how long its line is.
fn result(log: &Session) -> (ToolResult, usize) {
    let mut results = log.events().iter().filter_map(|event| match &event.data {
        EventData::ToolResult(result) => Some((result.clone(), event.to_line().unwrap().len())),
        _ => None,
    });
    let result = results.next().unwrap();
    assert!(results.next().is_none());
    result
}

async fn after_one_call(mut rig: Rig) -> Rig {
    rig.model.push(calls(&[("c1", "read", "{}")]));
    rig.model.push(text("Done."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    rig
}

#[tokio::test]
async fn a_large_result_is_a_blob_with_a_preview() {
    let whole = large(1_000_000);
    let mut rig = after_one_call(Rig::new(returning(whole.clone())).await).await;
    let (kept, line_bytes) = result(&rig.log().await);
    let [Content::Blob { blob, preview, .. }] = kept.content.as_slice() else { panic!("{kept:?}") };
    assert!(line_bytes < 20_000, "{line_bytes}");
    assert_eq!((blob.bytes, rig.blob(blob)), (1_000_000, whole.clone().into_bytes()));
    assert_eq!(rig.log().await.blobs(), [blob.hash.clone()].into());

    let (head, tail) = preview.split_once("\n[... ").unwrap();
    let (omitted, tail) = tail.split_once(" bytes omitted ...]\n").unwrap();
    let (tail, place) = tail.split_once("\n[The whole of it, 1000000 bytes, ").unwrap();
    assert!(place.starts_with("is kept with the session, where no tool can read it"), "{place}");
    assert!(whole.starts_with(head) && whole.ends_with(tail), "{preview}");
    assert_eq!(omitted.parse::<usize>().unwrap(), 1_000_000 - head.len() - tail.len());
    assert!(head.len() > 4_000 && tail.len() > 12_000);

    // A new process reads the same log, and the model the same bytes.
    let before = rig.model.requests();
    let mut rig = rig.reopened(&Mode::ALL).await;
    rig.model.push(text("Again."));
    rig.run("more").await;
    let resumed = rig.model.requests().remove(0);
    assert!(resumed.starts_with(&before[1]) && resumed.contains(head), "{resumed}");
}

#[tokio::test]
async fn a_result_within_the_limit_is_kept_as_it_is() {
    let whole = large(RESULT_LIMIT);
    let mut rig = after_one_call(Rig::new(returning(whole.clone())).await).await;
    assert_eq!(result(&rig.log().await).0.content, [Content::text(whole)]);
    let over = large(RESULT_LIMIT + 1);
    let mut rig = after_one_call(Rig::new(returning(over)).await).await;
    let (kept, _) = result(&rig.log().await);
    assert!(matches!(kept.content[..], [Content::Blob { .. }]), "{kept:?}");
}

#[tokio::test]
async fn a_large_failure_is_kept_and_shown_in_part() {
    let whole = large(1_000_000);
    let failing = TestTool::new("read", Access::ReadInside("/ws".into()), {
        let whole = whole.clone();
        move |_| {
            let failure = ToolFailure::failed(whole.clone());
            async move { Err(failure) }
        }
    });
    let mut rig = after_one_call(Rig::new(vec![failing]).await).await;
    let log = rig.log().await;
    let (kept, line_bytes) = result(&log);
    let [Content::Blob { blob, preview, .. }] = kept.content.as_slice() else { panic!("{kept:?}") };
    assert_eq!(rig.blob(blob), whole.into_bytes());
    // The preview is there twice: for the model and for the person.
    assert!(line_bytes < 40_000, "{line_bytes}");
    assert!(kept.presentation.unwrap().get().contains("bytes omitted"));
    let unshown = Session::replay((**log.header()).clone(), unshown(&log)).unwrap();
    let shown: Vec<_> = replay(&unshown).iter().map(|update| format!("{update:?}")).collect();
    assert!(shown.iter().any(|update| update.contains(&format!("{preview:?}"))));
}

/// The log, its result without what a client was shown.
fn unshown(log: &Session) -> Vec<bridle_session::Event> {
    let mut events: Vec<_> = log.events().iter().map(|event| (**event).clone()).collect();
    for event in &mut events {
        if let EventData::ToolResult(result) = &mut event.data {
            result.presentation = None;
        }
    }
    events
}

/// A disk that is full.
struct Full;

impl BlobStore for Full {
    fn put(&self, _: &[u8]) -> Result<BlobRef, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn scratch(&self) -> Result<std::fs::File, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn put_file(&self, _: &std::fs::File) -> Result<BlobRef, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        Err(StoreError::NoBlob(blob.hash.clone()))
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_kept_says_so() {
    let rig = Rig::with_blobs(returning(large(1_000_000)), Arc::new(Full)).await;
    let mut rig = after_one_call(rig).await;
    let log = rig.log().await;
    let (kept, line_bytes) = result(&log);
    let [Content::Text { text }] = kept.content.as_slice() else { panic!("{kept:?}") };
    assert!(line_bytes < 20_000 && text.contains(" bytes omitted ...]\n"), "{text}");
    assert!(
        text.ends_with(
            "\n[What is omitted is lost: it could not be stored, because no storage space.]"
        ),
        "{text}"
    );
    assert_eq!(log.blobs(), [].into());
    assert_eq!(replay(&log).iter().map(line).filter(|line| line.starts_with("call")).count(), 1);
}
