//! The whole of a large output, in a file that its reader gave.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bridle_world::process::{CommandSpec, Finished, HEAD_LIMIT, SPOOL_LIMIT, TAIL_LIMIT};
use tokio_util::sync::CancellationToken;

use crate::rig::{Rig, text};

async fn spooled(command: &str, file: &Arc<File>) -> Finished {
    let rig = Rig::new();
    let spec = CommandSpec { spool: Some(Arc::clone(file)), ..rig.spec(command) };
    rig.processes.run(spec, CancellationToken::new(), |_| ()).await.unwrap()
}

fn file() -> Arc<File> {
    Arc::new(tempfile::tempfile().unwrap())
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[tokio::test]
async fn what_is_kept_in_memory_is_not_spooled() {
    let file = file();
    let size = HEAD_LIMIT + TAIL_LIMIT;
    let finished = spooled(&format!("head -c {size} /dev/zero"), &file).await;
    assert_eq!((finished.output.omitted_bytes(), finished.spooled.bytes), (0, 0));
    assert!(content(&file).is_empty());
}

#[tokio::test]
async fn what_is_omitted_is_in_the_spool_with_every_byte_before_and_after() {
    for size in [HEAD_LIMIT + TAIL_LIMIT + 1, 300_000, 3_000_001] {
        let file = file();
        // Bytes that are not UTF-8 and lines without an end are as good as any.
        let command = format!("yes $'\\xff\\xfe\\x80 \\xe2\\x82\\xac \\e[31m' | head -c {size}");
        let finished = spooled(&command, &file).await;
        let line = b"\xff\xfe\x80 \xe2\x82\xac \x1b[31m\n";
        let expected: Vec<u8> = line.iter().copied().cycle().take(size).collect();
        assert!(content(&file) == expected, "{size}: another content");
        assert_eq!(finished.spooled.bytes, size as u64);
        assert_eq!(finished.spooled.fault, None);
        assert!(finished.output.omitted_bytes() > 0);
    }
}

#[tokio::test]
async fn a_spool_has_a_limit_and_the_output_goes_on_behind_it() {
    let file = file();
    let command = "head -c 70000000 /dev/zero | tr '\\0' 'x'; echo; echo last";
    let finished = spooled(command, &file).await;
    assert_eq!(finished.spooled.bytes, SPOOL_LIMIT);
    assert_eq!(finished.spooled.fault, None);
    assert_eq!(file.metadata().unwrap().len(), SPOOL_LIMIT);
    assert_eq!(finished.output.total_bytes(), 70_000_006);
    assert!(text(&finished).ends_with("x\nlast\n"));
}

#[tokio::test]
async fn a_disk_that_refuses_costs_the_spool_and_not_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read-only");
    fs_err::write(&path, "").unwrap();
    let file = Arc::new(fs_err::File::open(&path).unwrap().into_parts().0);
    let finished = spooled("yes | head -c 3000000", &file).await;
    assert_eq!((finished.exit_code, finished.spooled.bytes), (Some(0), 0));
    let fault = finished.spooled.fault.unwrap();
    assert!(fault.contains("Bad file descriptor"), "{fault}");
    assert_eq!(finished.output.total_bytes(), 3_000_000);
}
