//! Results that are too large to be read: what the model gets of them, where the rest is, and what they
//! take.

use bridle_model_server::Script;
use serde_json::json;

use super::Imported;
use crate::outputs::peak;

/// How much more memory any of them may take, in KiB.
const MARGIN: u64 = 100 * 1024;

/// M12: the model reads the two ends of a large result and is told where all of it is; one that no line can
/// hold is an error at once. Neither fills the memory.
#[tokio::test]
async fn a_large_result_fills_neither_the_window_nor_the_memory() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.call("mcp__s__echo", json!({"text": "small"})).await;
    let before = peak(&it.client);
    for size in [200_000_u64, 5_000_000] {
        let read = it.call("mcp__s__huge", json!({"text": size.to_string()})).await;
        assert!(read.len() < 70_000, "{} bytes", read.len());
        assert!(read.contains("first xx") && read.contains("xx last"), "{read:.300}");
        assert!(read.contains("[The whole of it, "), "{read:.300}");
        let result = it.scene.events(&it.session, "tool/result").pop().unwrap();
        let blob = &result["data"]["content"][0]["blob"];
        let hash = blob["hash"].as_str().unwrap_or_else(|| panic!("no blob: {result:.300}"));
        let blobs = it.scene.place.sessions().with_file_name("blobs");
        let whole = fs_err::read_to_string(blobs.join(hash.get(..2).unwrap()).join(hash)).unwrap();
        assert_eq!(whole.matches('x').count() as u64, size);
    }
    let read = it.call("mcp__s__huge", json!({"text": "40000000"})).await;
    assert!(read.contains("16777216 are the most"), "{read:.300}");
    let after = peak(&it.client);
    println!("large results of servers: {before} KiB at most before, {after} KiB after");
    assert!(after < before + MARGIN, "memory grows from {before} to {after} KiB");
    it.client.finish(&it.scene.place).await;
}
