//! A server whose protocol is not ours: it takes what it is told and asked, and we take what it says.

use super::*;

/// What is wrong comes and goes with edits, in the edited file and in others, however it reports; it ends as it
/// is told to, and has nothing to complain of.
#[tokio::test]
async fn a_server_of_others_follows_edits_and_ends() {
    for pushes in ["", "push"] {
        let files =
            [("a b/main.toy", "def tótal\n\"𝒳𝒳é\" ; é tótal(1)\n"), ("user.toy", "needs tótal\n")];
        let mut it = Code::sound(pushes, &files).await;
        let mode = json!({"sessionId": it.session, "modeId": "auto"});
        it.client.request("session/set_mode", mode).await.ok();
        let main = "a b/main.toy";
        for file in [main, "user.toy"] {
            let result = it.check(file).await;
            assert!(result.contains(&format!("No errors or warnings: {file} (toy)")), "{result}");
        }
        it.call("read", json!({"path": main})).await;
        let edit = |old: &str, new: &str| json!({"path": main, "edits": [{"old_text": old, "new_text": new}]});
        let result = it.call("edit", edit("def tótal", "def größe\nundefined x")).await;
        assert!(result.contains("Since this change there are 2 new errors"), "{result}");
        assert!(result.contains("main.toy:2: error: x is undefined"), "{result}");
        assert!(result.contains("user.toy:1: error: tótal is needed and not defined"), "{result}");
        let result = it.call("edit", edit("größe\nundefined x", "tótal")).await;
        assert!(!result.contains("Since this change"), "{result}");
        let result = it.nav("references", main, 2, "tótal").await;
        assert!(result.contains("3 references in 2 files (toy, complete"), "{result}");
        // A file that it hears of by itself.
        it.call("shell", json!({"command": "echo 'def more' > new.toy; rm user.toy"})).await;
        let result = it.call("code_symbols", json!({"op": "search", "query": "more"})).await;
        assert!(result.contains("new.toy:1: function more"), "{result}");
        let result = it.check(main).await;
        assert!(result.contains(&format!("No errors or warnings: {main} (toy)")), "{result}");
        it.client.close_stdin().await;
        let (status, trace) = it.client.wait().await;
        assert!(status.success());
        assert!(!trace.stderr().contains("was lost"), "{}", trace.stderr());
        let log = fs_err::read_to_string(it.scene.place.bridle_home().join("state/lsp.log"));
        assert_eq!(log.unwrap_or_default(), "", "it says nothing");
    }
}
