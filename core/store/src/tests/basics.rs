//! What every store promises, checked on both.

use bridle_session::{Draft, EventCount, Session, SessionId, TitleSet, UnixMillis};

use super::sample::{header, id, lines, said, say, turn_start};
use crate::{FileStore, MemoryStore, SessionStore, StoreError};

/// Runs `check` on a file store in a fresh folder and on a memory store.
async fn on_both<F>(check: impl Fn(Box<dyn SessionStore>) -> F)
where
    F: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    check(Box::new(FileStore::new(folder.path()))).await;
    check(Box::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn what_is_flushed_is_read_back() {
    on_both(|store| async move {
        let mut session = Session::new(header(1));
        let writer = store.create(session.header()).unwrap();
        for text in ["one", "two \u{2028} \0 \"x\"", "three"] {
            writer.append(say(&mut session, text)).unwrap();
        }
        writer.flush().await.unwrap();
        let read = store.read(&id(1)).unwrap();
        assert_eq!(lines(&read.session), lines(&session));
        assert_eq!(read.session.header(), session.header());
        drop(writer);
        let mut opened = store.open(&id(1)).unwrap();
        assert_eq!(lines(&opened.session), lines(&session));
        opened.writer.append(say(&mut opened.session, "four")).unwrap();
        opened.writer.flush().await.unwrap();
        assert_eq!(store.read(&id(1)).unwrap().session.len(), EventCount(4));
    })
    .await;
}

#[tokio::test]
async fn nothing_exists_before_the_first_flush() {
    on_both(|store| async move {
        let mut session = Session::new(header(1));
        let writer = store.create(session.header()).unwrap();
        writer.append(say(&mut session, "one")).unwrap();
        drop(writer);
        assert!(matches!(store.read(&id(1)), Err(StoreError::NotFound(_))));
        assert!(matches!(store.open(&id(1)), Err(StoreError::NotFound(_))));
        assert!(store.list().unwrap().sessions.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_header_alone_survives_and_is_not_listed() {
    on_both(|store| async move {
        let writer = store.create(&header(1)).unwrap();
        writer.flush().await.unwrap();
        drop(writer);
        assert!(store.open(&id(1)).unwrap().session.is_empty());
        let listing = store.list().unwrap();
        assert!(listing.sessions.is_empty() && listing.unreadable.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_session_has_one_writer() {
    on_both(|store| async move {
        let writer = store.create(&header(1)).unwrap();
        writer.flush().await.unwrap();
        match store.open(&id(1)) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("a second writer got {other:?}"),
        }
        assert!(store.read(&id(1)).is_ok());
        drop(writer);
        drop(store.open(&id(1)).unwrap());
        assert!(store.open(&id(1)).is_ok());
    })
    .await;
}

#[tokio::test]
async fn dropping_the_writer_of_a_log_writes_what_is_queued() {
    on_both(|store| async move {
        let mut session = Session::new(header(1));
        let writer = store.create(session.header()).unwrap();
        writer.flush().await.unwrap();
        writer.append(say(&mut session, "one")).unwrap();
        drop(writer);
        assert_eq!(store.read(&id(1)).unwrap().session.len(), EventCount(1));
    })
    .await;
}

#[tokio::test]
async fn an_event_out_of_order_ends_the_handle_and_not_the_log() {
    on_both(|store| async move {
        let mut session = Session::new(header(1));
        let writer = store.create(session.header()).unwrap();
        writer.append(say(&mut session, "one")).unwrap();
        writer.flush().await.unwrap();
        say(&mut session, "kept back");
        let late = say(&mut session, "late");
        assert!(matches!(writer.append(late), Err(StoreError::Lost(_))));
        assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
        drop(writer);
        assert_eq!(store.read(&id(1)).unwrap().session.len(), EventCount(1));
    })
    .await;
}

#[tokio::test]
async fn a_list_shows_titles_and_the_newest_first() {
    on_both(|store| async move {
        for n in 1..=3 {
            let mut session = Session::new(header(n));
            let writer = store.create(session.header()).unwrap();
            let title = TitleSet { title: format!("title {n}") };
            let drafts = [turn_start(1), said("hello"), Draft::new(title)];
            for (step, draft) in drafts.into_iter().enumerate() {
                let time = UnixMillis(1_000 * n + step as u64);
                writer.append(session.append(draft, time).unwrap()).unwrap();
            }
            writer.flush().await.unwrap();
        }
        let listing = store.list().unwrap();
        let rows: Vec<_> = listing
            .sessions
            .iter()
            .map(|row| (row.header.id.clone(), row.title().unwrap().to_owned(), row.updated_at().0))
            .collect();
        let row = |n: u64| (id(n), format!("title {n}"), 1_000 * n + 2);
        assert_eq!(rows, [row(3), row(2), row(1)]);
    })
    .await;
}

#[tokio::test]
async fn an_id_is_never_used_twice() {
    on_both(|store| async move {
        let first = store.create(&header(1)).unwrap();
        first.flush().await.unwrap();
        drop(first);
        let second = store.create(&header(1)).unwrap();
        assert!(matches!(second.flush().await, Err(StoreError::Io(_))));
        assert!(store.read(&id(1)).unwrap().session.is_empty());
    })
    .await;
}

#[test]
fn an_id_that_is_not_ours_names_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path());
    for text in ["..", "../../etc", "", "01980000-0000-7000-8000-00000000000G", "a/b"] {
        let id = SessionId::new(text);
        assert!(matches!(store.read(&id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.open(&id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.verify(&id), Err(StoreError::NotFound(_))));
        assert!(matches!(store.log_path(&id), Err(StoreError::NotFound(_))));
    }
    assert!(matches!(store.open(&id(9)), Err(StoreError::NotFound(_))));
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0);
}
