//! Situations in which another model answers, takes less, or has more tools.

use super::*;

impl Stage {
    async fn choose(&mut self, model: &str) {
        let set = json!({"sessionId": self.session, "configId": "model", "value": model});
        self.client.request("session/set_config_option", set).await.ok();
        // Another request from its first line on.
        self.seen.clear();
    }
}

/// A conversation with reasoning, a call and an image, where two providers can be asked.
async fn begun() -> Stage {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("Fine."))).await;
    let launch = scene.place.acp(&scene.model.url()).env("DEEPSEEK_API_KEY", "sk-test");
    let launch = launch.env("DEEPSEEK_BASE_URL", scene.model.deepseek_url());
    let (client, session) = Client::in_session(&scene.place, &launch).await;
    let mut stage = Stage { scene, client, session, seen: Vec::new() };
    stage.put("a.txt", "one\n");
    stage.scene.place.write("shot.gif", b"GIF89a\x02\0\x03\0\0\0\0");
    let call = Answer::new().thinking("I look.").text("Let me see.");
    stage.scene.model.push(call.tool_call("read", json!({"path": "a.txt"})));
    stage.scene.model.push(Answer::new().thinking("I saw.").text("It says one."));
    stage.prompt("Look at a.txt and @shot.gif").await;
    stage
}

/// It goes to another provider, which reads no images.
#[tokio::test]
async fn a_conversation_that_changes_its_provider() {
    let mut stage = begun().await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user context @shot.gif
            shot.gif: image/gif, 2 x 3 pixels, 13 bytes.
        user image image/gif
        user:
            Look at a.txt and @shot.gif
        assistant thinking
        assistant:
            Let me see.
        assistant calls read {"path":"a.txt"}
        user result: 1	one
    "#]]);
    stage.choose("deepseek/deepseek-v4-pro").await;
    stage.prompt("And you?").await;
    stage.check(expect![[r#"
        model deepseek-v4-pro
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user context @shot.gif
            shot.gif: image/gif, 2 x 3 pixels, 13 bytes.
        user:
            [Here is an image (image/gif, 13 bytes) that you cannot be shown: the model reads none.]
        user:
            Look at a.txt and @shot.gif
        assistant thinking
        assistant:
            Let me see.
        assistant calls read {"path":"a.txt"}
        user result: 1	one
        assistant thinking
        assistant:
            It says one.
        user:
            And you?
    "#]]);
    stage.end().await;
}

/// It comes back, without the reasoning of before.
#[tokio::test]
async fn a_conversation_that_comes_back_to_its_provider() {
    let mut stage = begun().await;
    stage.choose("deepseek/deepseek-v4-pro").await;
    stage.prompt("And you?").await;
    stage.choose("anthropic/claude-sonnet-5-5").await;
    stage.prompt("And you again?").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user context @shot.gif
            shot.gif: image/gif, 2 x 3 pixels, 13 bytes.
        user image image/gif
        user:
            Look at a.txt and @shot.gif
        assistant:
            Let me see.
        assistant calls read {"path":"a.txt"}
        user result: 1	one
        assistant:
            It says one.
        user:
            And you?
        assistant:
            Fine.
        user:
            And you again?
    "#]]);
    stage.end().await;
}

/// A provider that takes fewer images than are there.
#[tokio::test]
async fn images_that_are_given_up() {
    let mut stage = Stage::new(&[]).await;
    for name in ["one.gif", "two.gif", "three.gif"] {
        let file = [b"GIF89a\x02\0\x03\0\0\0".as_slice(), name.as_bytes()].concat();
        stage.scene.place.write(name, file);
    }
    stage.prompt("@one.gif").await;
    stage.prompt("@two.gif").await;
    stage.sent();
    let refusal = "Too much media: 0 document pages + 3 images > 2";
    stage.scene.model.push(bridle_model_server::Reply::error(400).saying(refusal));
    stage.seen.clear();
    stage.prompt("@three.gif").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user context @one.gif
            one.gif: image/gif, 2 x 3 pixels, 19 bytes.
        user:
            [Here is an image (image/gif, 19 bytes) that you cannot be shown: later images take up the room there is.]
        user:
            @one.gif
        assistant:
            Fine.
        user context @two.gif
            two.gif: image/gif, 2 x 3 pixels, 19 bytes.
        user:
            [Here is an image (image/gif, 19 bytes) that you cannot be shown: later images take up the room there is.]
        user:
            @two.gif
        assistant:
            Fine.
        user context @three.gif
            three.gif: image/gif, 2 x 3 pixels, 21 bytes.
        user image image/gif
        user:
            @three.gif
    "#]]);
    let told = stage.end().await;
    assert!(told.contains("The provider takes fewer images"), "{told}");
}

/// A server with tools and something to say of itself.
#[tokio::test]
async fn a_server_that_brings_tools() {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("Fine."))).await;
    let mut client = scene.client().await;
    let servers = json!([crate::mcp::server(&scene, "s", &["tool=own", "instructions=Be brief."])]);
    let new = json!({"cwd": scene.place.workspace(), "mcpServers": servers});
    let opened = client.request("session/new", new).await.ok();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let mut stage = Stage { scene, client, session, seen: Vec::new() };
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools ask_user call_tool code_diagnostics code_nav code_symbols delete edit exit_plan_mode find_tools glob job list mcp__s__aside mcp__s__ask mcp__s__bash mcp__s__beat mcp__s__both mcp__s__crash mcp__s__cut mcp__s__data mcp__s__echo mcp__s__env mcp__s__fail mcp__s__forget mcp__s__grow mcp__s__html mcp__s__huge mcp__s__idless mcp__s__image mcp__s__leak mcp__s__link mcp__s__log mcp__s__mute mcp__s__none mcp__s__odd mcp__s__own mcp__s__pull mcp__s__refuse mcp__s__resume mcp__s__slow mcp__s__status-401 mcp__s__status-429 mcp__s__status-500 mcp__s__visit mcp__s__work move read search shell skill todo write
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context skills (those of the program)
        user context mcp
            MCP servers of this session:
            - s: 33 tools. It says about itself (not checked by anybody):
            Be brief.
        user:
            hi
    "#]]);
    stage.end().await;
}

/// Files that are not as the model saw them last.
#[tokio::test]
async fn files_that_have_changed_meanwhile() {
    let mut stage = Stage::new(&[("a", "one\n"), ("b", "two\n")]).await;
    stage.prompt("@a and @b").await;
    stage.sent();
    stage.put("a", "other\n");
    fs_err::remove_file(stage.scene.place.workspace().join("b")).unwrap();
    stage.prompt("and now?").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context file changes
            Not as you last read or changed them; read one again before you change it or rely on what it said:
            a (changed)
            b (not there any more)
        user:
            and now?
    "#]]);
    stage.end().await;
}
