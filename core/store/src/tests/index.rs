//! Whatever stands where the index should be, and whatever happens to it, lists and searches say
//! what the logs say, and nothing that is not ours is touched.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use rusqlite::Connection;

use super::full_disk::SmallDisk;
use super::sample::{folded, forged, quick_folder, without_index};
use crate::{FileStore, SearchQuery, SessionStore as _};

fn store_with_logs(state: &Path, rng: &mut Rng) -> FileStore {
    let store = FileStore::new(state);
    for n in 1..=6 {
        forged(&store, n, 2, rng);
    }
    store
}

fn index_of(state: &Path) -> PathBuf {
    state.join("index.sqlite")
}

/// Both answers are those of the logs; also again, when the first one has changed something.
fn assert_true(store: &FileStore, context: &str) {
    for _ in 0..2 {
        let (truth, said) = (folded(store), store.list().unwrap());
        assert_eq!(said.sessions, truth.sessions, "{context}");
        assert_eq!(said.unreadable.len(), truth.unreadable.len(), "{context}");
        let query = SearchQuery { text: "read".to_owned(), limit: 30, ..SearchQuery::default() };
        let (truth, said) =
            (without_index(store).search(&query).unwrap(), store.search(&query).unwrap());
        assert!(!truth.hits.is_empty(), "{context}");
        assert_eq!(said.hits, truth.hits, "{context}");
    }
}

/// Name, kind and content of everything in the state folder, the sessions left out.
fn snapshot(state: &Path) -> Vec<(PathBuf, String)> {
    let describe = |path: &Path| {
        let kind = fs_err::symlink_metadata(path).unwrap().file_type();
        let content = if kind.is_file() { fs_err::read(path).unwrap() } else { Vec::new() };
        format!("{kind:?} {content:?}")
    };
    let names = fs_err::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = names
        .filter(|path| !path.ends_with("sessions") && !path.ends_with("index.lock"))
        .map(|path| (path.clone(), describe(&path)))
        .collect();
    all.sort();
    all
}

#[test]
fn there_is_no_index_before_a_list_and_then_only_its_owner_may_read_it() {
    let folder = quick_folder();
    let store = store_with_logs(folder.path(), &mut Rng::with_seed(1));
    drop(store.open(&super::sample::id(1)).unwrap());
    store.read(&super::sample::id(2)).unwrap();
    assert_eq!(snapshot(folder.path()), []);
    assert_true(&store, "made");
    let mode = fs_err::metadata(index_of(folder.path())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(snapshot(folder.path()).len(), 1, "a closed index leaves nothing beside it");
    let empty = quick_folder();
    assert!(FileStore::new(empty.path()).list().unwrap().sessions.is_empty());
    assert_eq!(snapshot(empty.path()), []);
}

fn other_database(path: &Path, application: i32, mode: &str) {
    let other = Connection::open(path).unwrap();
    let sql = format!(
        "PRAGMA journal_mode = {mode}; PRAGMA application_id = {application};
         CREATE TABLE session (key INTEGER PRIMARY KEY, precious TEXT);
         INSERT INTO session (precious) VALUES ('kept');"
    );
    other.execute_batch(&sql).unwrap();
}

#[test]
fn what_is_not_ours_is_left_alone_and_the_logs_answer() {
    type Put = fn(&Path);
    let places: [(&str, Put); 8] = [
        ("another application", |path| other_database(path, 0x1234_5678, "WAL")),
        ("another application, not shared", |path| other_database(path, 7, "DELETE")),
        ("a nameless database", |path| other_database(path, 0, "WAL")),
        ("a text", |path| fs_err::write(path, "a shopping list\n".repeat(90)).unwrap()),
        ("a short text", |path| fs_err::write(path, "eggs").unwrap()),
        ("a folder", |path| fs_err::create_dir(path).unwrap()),
        ("a dangling link", |path| symlink("nowhere", path).unwrap()),
        ("a link to a file", |path| {
            let file = path.with_file_name("file");
            fs_err::write(&file, "precious").unwrap();
            symlink(file, path).unwrap();
        }),
    ];
    for (name, put) in places {
        let folder = quick_folder();
        let store = store_with_logs(folder.path(), &mut Rng::with_seed(1));
        put(&index_of(folder.path()));
        let before = snapshot(folder.path());
        assert_true(&store, name);
        assert_eq!(snapshot(folder.path()), before, "{name}");
    }
}

#[test]
fn an_older_or_empty_index_is_made_anew_and_a_newer_one_left_alone() {
    let folder = quick_folder();
    let store = store_with_logs(folder.path(), &mut Rng::with_seed(1));
    let path = index_of(folder.path());
    let rows = || {
        let there = Connection::open(&path).unwrap();
        there.query_row("SELECT count(*) FROM session", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_true(&store, "new");
    assert_eq!(rows(), 6);
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 0").unwrap();
    assert_true(&store, "older");
    assert_eq!(rows(), 6);
    fs_err::write(&path, "").unwrap();
    assert_true(&store, "empty");
    assert_eq!(rows(), 6);
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 99; DELETE FROM session").unwrap();
    drop(newer);
    assert_true(&store, "newer");
    assert_eq!(rows(), 0);
}

#[test]
fn an_index_that_another_holds_is_not_waited_for_long() {
    let folder = quick_folder();
    let mut rng = Rng::with_seed(1);
    let store = store_with_logs(folder.path(), &mut rng);
    assert_true(&store, "free");
    for hold in [
        "BEGIN IMMEDIATE; UPDATE session SET row = row",
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE session SET row = row",
    ] {
        let other = Connection::open(index_of(folder.path())).unwrap();
        other.execute_batch(hold).unwrap();
        forged(&store, 7, 1, &mut rng);
        assert_true(&store, hold);
        drop(other);
        assert_true(&store, "free again");
    }
}

#[test]
fn an_index_that_cannot_be_written_or_made_costs_nothing_but_time() {
    let folder = quick_folder();
    let mut rng = Rng::with_seed(1);
    let store = store_with_logs(folder.path(), &mut rng);
    let log_of_sqlite = folder.path().join("index.sqlite-wal");
    fs_err::create_dir(&log_of_sqlite).unwrap();
    assert_true(&store, "cannot be made");
    fs_err::remove_dir(&log_of_sqlite).unwrap();
    assert_true(&store, "can be made");
    fs_err::create_dir(&log_of_sqlite).unwrap();
    forged(&store, 7, 1, &mut rng);
    assert_true(&store, "cannot be opened");

    let Some(disk) = SmallDisk::mount() else {
        println!("SKIP store::index_on_full_disk: needs root and tmpfs");
        return;
    };
    let store = store_with_logs(&disk.at, &mut rng);
    let filler = disk.fill();
    assert_true(&store, "cannot be made on a full disk");
    fs_err::remove_file(filler).unwrap();
    disk.remount("size=2m");
    assert_true(&store, "fits");
    assert!(index_of(&disk.at).exists());
    forged(&store, 7, 1, &mut rng);
    let filler = disk.fill();
    assert_true(&store, "full");
    fs_err::remove_file(filler).unwrap();
    disk.remount("ro");
    assert_true(&store, "read-only");
    disk.remount("rw");
    fs_err::remove_file(index_of(&disk.at)).unwrap();
    disk.remount("ro");
    assert_true(&store, "cannot be made on a read-only disk");
}

#[test]
fn a_damaged_index_never_gives_a_wrong_answer() {
    const CASES: usize = 210;
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    let folder = quick_folder();
    let store = store_with_logs(folder.path(), &mut rng);
    assert_true(&store, "sound");
    let path = index_of(folder.path());
    let sound = fs_err::read(&path).unwrap();
    let mut remade = 0;
    for case in 0..CASES {
        let mut bytes = sound.clone();
        match case % 3 {
            0 => bytes.truncate(rng.usize(..bytes.len())),
            1 => {
                let at = rng.usize(..bytes.len());
                bytes[at] ^= 1 << rng.u32(..8);
            }
            _ => {
                let from = rng.usize(..bytes.len());
                let to = rng.usize(from..bytes.len()).min(from + 5_000);
                bytes[from..to].fill_with(|| rng.u8(..));
            }
        }
        fs_err::write(&path, &bytes).unwrap();
        assert_true(&store, &format!("seed {seed}, case {case}"));
        remade += usize::from(fs_err::read(&path).unwrap() != bytes);
        for suffix in ["", "-wal", "-shm"] {
            drop(fs_err::remove_file(format!("{}{suffix}", path.display())));
        }
    }
    println!("seed {seed}: {CASES} damaged indexes, {remade} of them made anew or mended");
    assert!(remade > CASES / 3, "{remade}");
}

#[test]
fn a_changed_word_that_sqlite_does_not_notice_hides_no_hit() {
    let folder = quick_folder();
    let store = store_with_logs(folder.path(), &mut Rng::with_seed(1));
    assert_true(&store, "sound");
    let path = index_of(folder.path());
    let sound = fs_err::read(&path).unwrap();
    let places: Vec<_> = (0..sound.len()).filter(|at| sound[*at..].starts_with(b"read")).collect();
    assert!(!places.is_empty());
    for at in places {
        let mut bytes = sound.clone();
        bytes[at + 3] = b'l';
        fs_err::write(&path, &bytes).unwrap();
        assert_true(&store, &format!("at byte {at}"));
    }
}

#[test]
fn an_index_may_be_deleted_at_any_time() {
    let folder = quick_folder();
    let mut rng = Rng::with_seed(1);
    let store = store_with_logs(folder.path(), &mut rng);
    let path = index_of(folder.path());
    let file = store.index.as_ref().unwrap();
    for round in 0..3 {
        assert_true(&store, "made");
        // One process has it open, another deletes it, with or without what SQLite keeps beside
        // it, and a third makes it anew.
        let (mut open, rows) = file.open().unwrap();
        let rows: Vec<_> = rows.into_values().collect();
        fs_err::remove_file(&path).unwrap();
        if round == 1 {
            drop(fs_err::remove_file(folder.path().join("index.sqlite-wal")));
            drop(fs_err::remove_file(folder.path().join("index.sqlite-shm")));
        }
        forged(&store, 10 + round, 1, &mut rng);
        assert_true(&store, "deleted");
        drop(open.keep(&rows, &[super::sample::id(1)]));
        assert_true(&store, "the old one was written to");
        drop(open);
        assert_true(&store, "the old one was closed");
    }
}

#[test]
fn nothing_of_a_removed_session_is_left_in_any_file() {
    let folder = quick_folder();
    let store = store_with_logs(folder.path(), &mut Rng::with_seed(1));
    let query = SearchQuery { text: "read".to_owned(), limit: 30, ..SearchQuery::default() };
    assert!(!store.search(&query).unwrap().hits.is_empty());
    // The index keeps the id of each session as text, and words in the same pages.
    let id = super::sample::id(3);
    let holds = |path: PathBuf| {
        let bytes = fs_err::read(path).unwrap();
        bytes.windows(id.as_str().len()).any(|window| window == id.as_str().as_bytes())
    };
    assert!(holds(index_of(folder.path())));
    store.remove(&id).unwrap();
    let left = fs_err::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<_> =
        left.filter(|path| path.is_file()).filter(|path| holds(path.clone())).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!folder.path().join("sessions").join(id.as_str()).exists());
    assert_true(&store, "made again");
}
