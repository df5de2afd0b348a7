//! Images: from a prompt to the model's wire, the same in every process, and what becomes of those
//! that cannot be shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bridle_model_server::{Answer, ModelServer, ModelSpec, Reply, Script};
use bridle_tests::Client;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::outputs::peak;
use crate::scene::Scene;

/// A GIF of 2 times 3 pixels, and another one.
const GIF: &str = "R0lGODlhAgADAAAAAA==";
const OTHER: &str = "R0lGODlhAgADAAAAAQ==";

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

async fn prompt(client: &mut Client, session: &str, blocks: &[Value]) {
    let prompt = json!({"sessionId": session, "prompt": blocks});
    assert_eq!(client.request("session/prompt", prompt).await.stop_reason(), "end_turn");
}

async fn choose(client: &mut Client, session: &str, model: &str) {
    let set = json!({"sessionId": session, "configId": "model", "value": model});
    client.request("session/set_config_option", set).await.ok();
}

async fn restart(scene: &Scene, mut client: Client, session: &str) -> Client {
    client.signal(Signal::KILL);
    client.wait().await;
    let mut client = scene.client().await;
    client.load(&scene.place, session).await.ok();
    client
}

/// The messages of each request without cache breakpoints, without the bracket at their end.
fn conversations(scene: &Scene) -> Vec<String> {
    let plain = |request: Value| {
        let all = request["messages"].to_string();
        let all = all.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
        all.strip_suffix(']').unwrap().to_owned()
    };
    scene.requests().into_iter().map(plain).collect()
}

fn sent(data: &str) -> String {
    format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"image/gif","data":"{data}"}}}}"#
    )
}

/// Image blocks and embedded images are what the model sees, and a new process sends the same bytes
/// before what is new.
#[tokio::test]
async fn an_image_reaches_the_model_and_stays_the_same_after_a_restart() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..4 {
        scene.model.push(Answer::new().thinking("I look.").text("I see."));
    }
    let resource = json!({"uri": "file:///w/shot.gif", "blob": OTHER, "mimeType": "image/gif"});
    let blocks = [text("look"), image(GIF), json!({"type": "resource", "resource": resource})];
    prompt(&mut client, &session, &blocks).await;
    prompt(&mut client, &session, &[text("and now?")]).await;
    let mut client = restart(&scene, client, &session).await;
    let shown = client.trace().updates_of(&session, "user_message_chunk");
    let shown: Vec<_> =
        shown.iter().filter_map(|chunk| chunk["content"]["data"].as_str()).collect();
    assert_eq!(shown, [GIF, OTHER], "a client that loads the session sees them, too");
    prompt(&mut client, &session, &[text("still there?")]).await;
    prompt(&mut client, &session, &[image(GIF)]).await;
    let trace = client.finish(&scene.place).await;
    scene.assert_lawful();
    let all = conversations(&scene);
    for part in ["/w/shot.gif", &sent(GIF), &sent(OTHER)] {
        assert!(all[0].contains(part), "{part} is missing in {}", all[0]);
    }
    for pair in all.windows(2) {
        assert!(pair[1].starts_with(&pair[0]), "{}\n{}", pair[0], pair[1]);
    }
    assert!(all[3].ends_with(&format!(r#"[{}]}}"#, sent(GIF))), "an image is a prompt: {}", all[3]);
    assert_eq!(scene.events(&session, "request/header").len(), 1, "one series");
    assert_eq!(trace.text(&session).matches("I see.").count(), 4, "two of them replayed");
}

/// The file of an image is gone: the session goes on with a note in its place, in a new series, and
/// for good, also when the file comes back.
#[tokio::test]
async fn a_lost_image_is_a_note_for_ever() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..4 {
        scene.model.push(Answer::new().thinking("I look.").text("I see."));
    }
    prompt(&mut client, &session, &[text("look"), image(GIF)]).await;
    let blobs: Vec<_> = scene
        .place
        .stored_files()
        .into_iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "blobs"))
        .collect();
    let [blob] = blobs.as_slice() else { panic!("{blobs:?}") };
    let bytes = fs_err::read(blob).unwrap();
    fs_err::remove_file(blob).unwrap();
    prompt(&mut client, &session, &[text("in this process it is known")]).await;
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("go on")]).await;
    let told = client.trace().text(&session);
    for part in ["An image of this session cannot be read", "An image of the conversation is lost"]
    {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    fs_err::write(blob, bytes).unwrap();
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("is it back?")]).await;
    client.finish(&scene.place).await;
    scene.assert_lawful();
    let all = conversations(&scene);
    let shown: Vec<_> = all.iter().map(|body| body.contains(GIF)).collect();
    assert_eq!(shown, [true, true, false, false]);
    assert!(all[2].contains("cannot be shown: its file cannot be read.]"), "{}", all[2]);
    assert!(all[3].starts_with(&all[2]), "{}\n{}", all[2], all[3]);
    let reasons = scene.events(&session, "request/header");
    let reasons: Vec<_> = reasons.iter().map(|header| &header["data"]["reason"]).collect();
    assert_eq!(reasons, ["start", "image-lost"]);
}

/// What a route does not take is told to the model and to the person; another route may take it.
#[tokio::test]
async fn an_image_that_a_model_does_not_take_is_told() {
    let scene = Scene::new(Script::new()).await;
    let launch = scene.place.acp(&scene.model.url());
    let launch = launch.env("DEEPSEEK_BASE_URL", scene.model.deepseek_url());
    let launch = launch.env("DEEPSEEK_API_KEY", "sk-test");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    choose(&mut client, &session, "deepseek/deepseek-v4-pro").await;
    prompt(&mut client, &session, &[text("look"), image(GIF)]).await;
    prompt(&mut client, &session, &[text("once more")]).await;
    let told = client.trace().text(&session);
    let title = "deepseek/deepseek-v4-pro is not shown an image";
    assert_eq!(told.matches(title).count(), 1, "{told}");
    choose(&mut client, &session, "anthropic/claude-opus-5-5").await;
    // 4 MiB of zeros behind the same picture.
    let large = format!("R0lGODlhAgADAAAA{}", "AAAA".repeat(1_400_000));
    prompt(&mut client, &session, &[text("look"), image(&large)]).await;
    let trace = client.finish(&scene.place).await;
    scene.assert_lawful();
    let all = conversations(&scene);
    assert!(all[0].contains("cannot be shown: the model reads none.]"), "{}", all[0]);
    assert!(all[1].starts_with(&all[0]));
    assert!(all[2].contains(GIF) && all[2].contains("bytes; 5242880 are the most.]"));
    let told = trace.text(&session);
    assert!(told.contains("anthropic/claude-opus-5-5 is not shown an image"), "{told}");
    assert!(told.contains("are the most; it cannot be made smaller: it "), "{told}");
}

/// An image that the provider refuses although it looks sound costs the session nothing but itself.
#[tokio::test]
async fn an_image_that_the_provider_refuses_is_a_note_from_then_on() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    let refusal = "messages.0.content.1.image.source.base64: Could not process image";
    scene.model.push(Reply::error(400).saying(refusal));
    for _ in 0..3 {
        scene.model.push(Answer::new().thinking("I look.").text("I see."));
    }
    prompt(&mut client, &session, &[text("look"), image(GIF)]).await;
    prompt(&mut client, &session, &[text("go on"), image(OTHER)]).await;
    let told = client.trace().text(&session);
    assert!(told.contains("The provider refused an image"), "{told}");
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("still there?")]).await;
    // It took the other one until now.
    scene.model.push(Reply::error(400).saying(refusal));
    scene.model.push(Answer::new().text("I saw."));
    prompt(&mut client, &session, &[text("and now?")]).await;
    client.finish(&scene.place).await;
    scene.assert_lawful();
    let all = conversations(&scene);
    let shown: Vec<_> = all.iter().map(|body| (body.contains(GIF), body.contains(OTHER))).collect();
    let (none, other) = ((false, false), (false, true));
    assert_eq!(shown, [(true, false), none, other, other, other, none]);
    assert!(all[3].starts_with(&all[2]) && all[2].starts_with(&all[1]), "{all:#?}");
    assert!(all[1].contains("cannot be shown: the provider refused it.]"), "{}", all[1]);
    let headers = scene.events(&session, "request/header");
    let reasons: Vec<_> = headers.iter().map(|header| &header["data"]["reason"]).collect();
    assert_eq!(reasons, ["start", "images-given-up"], "what no answer has seen breaks no series");
}

/// A GIF like no other.
fn gif(number: u8) -> String {
    STANDARD.encode([b"GIF89a\x02\0\x03\0\0\0".as_slice(), &[number]].concat())
}

/// Which of these GIFs each request shows.
fn gifs(scene: &Scene) -> Vec<Vec<u8>> {
    let all = conversations(scene);
    let shown = |body: String| (0..30).filter(|it| body.contains(&gif(*it))).collect();
    all.into_iter().map(shown).collect()
}

fn refusals(scene: &Scene) -> Vec<&'static str> {
    scene.model.violations().iter().map(|violation| violation.rule).collect()
}

/// A provider that takes fewer images than is known of it: the oldest go, by an event and in a new series,
/// for good; the newest stay, as many as it takes, and the turn succeeds.
#[tokio::test]
async fn a_provider_that_takes_fewer_images_is_shown_the_newest() {
    let model = ModelSpec::new("claude-sonnet-5-5", 1_000_000, 128_000);
    let script = Script::new().model(ModelSpec { most_images: 4, ..model });
    let scene = Scene::new(script.otherwise(Answer::new().thinking("I look.").text("Seen."))).await;
    let (mut client, session) = scene.session().await;
    for number in 0..5 {
        prompt(&mut client, &session, &[text("look"), image(&gif(number))]).await;
    }
    let told = client.trace().text(&session);
    for part in ["The provider takes fewer images", "0 document pages + 5 images > 4"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("still there?")]).await;
    // More at once than it takes.
    let mut many: Vec<Value> = (5..11).map(|number| image(&gif(number))).collect();
    many.insert(0, text("and these"));
    prompt(&mut client, &session, &many).await;
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("still there?")]).await;
    client.finish(&scene.place).await;
    assert_eq!(refusals(&scene), ["image-count"; 2], "nothing else was refused");
    let expected: [&[u8]; 10] = [
        &[0],
        &[0, 1],
        &[0, 1, 2],
        &[0, 1, 2, 3],
        &[0, 1, 2, 3, 4],
        &[3, 4],
        &[3, 4],
        &[3, 4, 5, 6, 7, 8, 9, 10],
        &[7, 8, 9, 10],
        &[7, 8, 9, 10],
    ];
    assert_eq!(gifs(&scene), expected);
    let all = conversations(&scene);
    let note = "cannot be shown: later images take up the room there is.]";
    assert_eq!(all[5].matches(note).count(), 3, "{}", all[5]);
    assert!(all[6].starts_with(&all[5]) && all[9].starts_with(&all[8]));
    let offloads = scene.events(&session, "image/offload");
    let (first, second) = (&offloads[0]["data"], &offloads[1]["data"]);
    assert_eq!((&first["reason"], &first["of_last"]), (&json!("room"), &json!(1)));
    assert_eq!(first["messages"].as_array().unwrap().len(), 3);
    assert_eq!((&second["reason"], &second["of_last"]), (&json!("room"), &json!(2)));
    assert_eq!(offloads.len(), 2);
    let headers = scene.events(&session, "request/header");
    let reasons: Vec<_> = headers.iter().map(|header| &header["data"]["reason"]).collect();
    assert_eq!(reasons, ["start", "images-given-up", "images-given-up"]);
}

/// A request with too many bytes, most of them of images, is sent again with the newer ones, and nothing
/// else of the conversation is lost.
#[tokio::test]
async fn a_request_that_images_make_too_large_is_sent_with_the_newer_ones() {
    let script = Script::new().largest_body(1 << 20);
    let scene = Scene::new(script.otherwise(Answer::new().thinking("I look.").text("Seen."))).await;
    let (mut client, session) = scene.session().await;
    for side in [300, 301, 302] {
        let block = image(&STANDARD.encode(png(side, 300, true)));
        prompt(&mut client, &session, &[text("look"), block]).await;
    }
    let mut client = restart(&scene, client, &session).await;
    prompt(&mut client, &session, &[text("still there?")]).await;
    client.finish(&scene.place).await;
    assert_eq!(refusals(&scene), ["body-size"]);
    let requests = scene.requests();
    for request in &requests[3..] {
        if !request.is_null() {
            assert_eq!(sizes(request), ["image/png 302x300"]);
        }
    }
    assert_eq!(requests.len(), 5);
    assert_eq!(scene.events(&session, "image/offload").len(), 1);
    assert_eq!(scene.events(&session, "compaction/start").len(), 0);
}

/// A person who shortens the conversation of a provider that takes fewer images gets a summary.
#[tokio::test]
async fn images_that_are_too_many_stop_no_summary() {
    let model = ModelSpec::new("claude-sonnet-5-5", 1_000_000, 128_000);
    let summary = Answer::new().text("SUMMARY: they look.");
    let script = Script::new().rule("is shortened now", [summary]);
    let scene = Scene::new(script.otherwise(Answer::new().text(&"Seen. ".repeat(500)))).await;
    let (mut client, session) = scene.session().await;
    for number in 0..6 {
        prompt(&mut client, &session, &[text("look"), image(&gif(number))]).await;
    }
    client.signal(Signal::KILL);
    client.wait().await;
    // Another server, which takes less.
    let strict = Script::new().model(ModelSpec { most_images: 4, ..model });
    let strict = strict.rule("is shortened now", [Answer::new().text("SUMMARY: they look.")]);
    let scene = Scene { model: ModelServer::start(strict).await.unwrap(), ..scene };
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    prompt(&mut client, &session, &[text("/compact")]).await;
    prompt(&mut client, &session, &[text("go on")]).await;
    client.finish(&scene.place).await;
    assert_eq!(refusals(&scene), ["image-count"]);
    let last = scene.requests().pop().unwrap().to_string();
    assert!(last.contains("SUMMARY: they look."), "{last}");
}

/// A PNG file: of one colour, or of none that packs well.
fn png(width: u32, height: u32, is_noise: bool) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut colour = |()| if is_noise { random.u8(..) } else { 90 };
    let picture = RgbImage::from_fn(width, height, |_, _| Rgb([(); 3].map(&mut colour)));
    let mut file = std::io::Cursor::new(Vec::new());
    DynamicImage::from(picture).write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

/// A PNG file of one grey, which packs very well.
fn plain_png(width: u32, height: u32, grey: u8) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let picture = RgbImage::from_pixel(width, height, Rgb([grey; 3]));
    DynamicImage::from(picture).write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

/// What stands behind each chunk of a PNG.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

/// The sizes and formats of the images of a request, unpacked, in its order.
fn sizes(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let blocks: Vec<&Value> =
        messages.flat_map(|message| message["content"].as_array().unwrap()).collect();
    let nested = |block: &&Value| block["content"].as_array().cloned().unwrap_or_default();
    let all = blocks.iter().flat_map(|block| {
        std::iter::once((*block).clone()).chain(nested(block)).collect::<Vec<_>>()
    });
    let images = all.filter(|block| block["type"] == "image");
    let size = |block: Value| {
        let bytes = STANDARD.decode(block["source"]["data"].as_str().unwrap()).unwrap();
        let picture = image::load_from_memory(&bytes).unwrap();
        let kind = block["source"]["media_type"].as_str().unwrap();
        format!("{kind} {}x{}", picture.width(), picture.height())
    };
    images.map(size).collect()
}

/// However an image comes in, one that is larger than its provider takes is shown smaller, with its scale,
/// from the same two files; the log says so once, and another process sends the same bytes.
#[tokio::test]
async fn an_image_that_is_too_large_is_shown_smaller_however_it_comes_in() {
    let scene = Scene::new(Script::new()).await;
    let mut client = scene.client().await;
    let servers = [crate::mcp::server(&scene, "s", &[])];
    let new = json!({"cwd": scene.place.workspace(), "mcpServers": servers});
    let opened = client.request("session/new", new).await.ok();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    client.set_permission(bridle_tests::Permission::Allow);
    let file = png(9_000, 90, false);
    scene.place.write("shot.png", &file);
    let data = STANDARD.encode(&file);
    let resource = json!({"uri": "file:///w/shot.png", "blob": data, "mimeType": "image/png"});
    scene.model.push(Answer::new().tool_call("read", json!({"path": "shot.png"})));
    scene.model.push(Answer::new().tool_call("mcp__s__image", json!({"text": data})));
    for _ in 0..3 {
        scene.model.push(Answer::new().thinking("I look.").text("I see."));
    }
    let blocks = [
        text("look at @shot.png"),
        image(&data),
        json!({"type": "resource", "resource": resource}),
    ];
    prompt(&mut client, &session, &blocks).await;
    let all = scene.requests();
    assert_eq!(sizes(all.last().unwrap()), ["image/png 2000x20"; 5]);
    let note = "[This image has 9000 × 90 pixels and is shown with 2000 × 20; positions in it times \
                4.500 are those in the file.]";
    assert_eq!(all.last().unwrap().to_string().matches(note).count(), 5);
    let logged = scene.events(&session, "image/scaled");
    let [scaled] = logged.as_slice() else { panic!("{logged:#?}") };
    assert_eq!(scaled["data"]["from"], json!({"width": 9000, "height": 90}));
    assert_eq!(scaled["data"]["to"], json!({"width": 2000, "height": 20}));
    assert_eq!(blobs(&scene), 2, "the file as it came in and the one that is shown");
    client.signal(Signal::KILL);
    client.wait().await;
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    let shown = client.trace().updates_of(&session, "user_message_chunk");
    let shown = shown.iter().filter(|chunk| chunk["content"]["data"] == data.as_str()).count();
    assert_eq!(shown, 2, "a person sees what came in");
    prompt(&mut client, &session, &[text("still there?")]).await;
    client.finish(&scene.place).await;
    scene.assert_lawful();
    let all = conversations(&scene);
    for pair in all.windows(2) {
        assert!(pair[1].starts_with(&pair[0]), "{}\n{}", pair[0], pair[1]);
    }
}

/// Too many bytes, too many others beside it, a model with smaller limits: each is a reason.
#[tokio::test]
async fn an_image_is_made_as_small_as_its_model_needs_it() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..2 {
        scene.model.push(Answer::new().thinking("I look.").text("I see."));
    }
    let heavy = png(1_500, 1_200, true);
    assert!(heavy.len() > 4 << 20);
    prompt(&mut client, &session, &[image(&STANDARD.encode(&heavy))]).await;
    assert_eq!(sizes(&scene.requests()[0]), ["image/jpeg 1500x1200"]);
    let wide = image(&STANDARD.encode(png(2_500, 50, false)));
    prompt(&mut client, &session, &vec![wide; 21]).await;
    let shown = sizes(&scene.requests()[1]);
    assert_eq!(shown.len(), 22);
    assert!(shown[1..].iter().all(|size| size == "image/png 2000x40"), "{shown:?}");
    let trace = client.finish(&scene.place).await;
    assert!(!trace.text(&session).contains("is not shown"), "{trace}");
    scene.assert_lawful();
}

/// The files of a scene's blobs.
fn blobs(scene: &Scene) -> usize {
    let files = scene.place.stored_files().into_iter();
    files.filter(|path| path.components().any(|part| part.as_os_str() == "blobs")).count()
}

/// A cancel is heard while pictures are made smaller, not behind the last one; what was made by then is
/// known by its event, and nothing else is there. The next prompt has all of them.
#[tokio::test]
async fn a_cancel_while_pictures_are_made_smaller() {
    const PICTURES: usize = 12;
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("Seen."))).await;
    let (mut client, session) = scene.session().await;
    let picture = |number| image(&STANDARD.encode(plain_png(6_000, 4_000, number)));
    let blocks: Vec<Value> = (0..PICTURES as u8).map(picture).collect();
    let params = json!({"sessionId": session, "prompt": blocks});
    let turn = client.begin("session/prompt", params).await;
    while blobs(&scene) <= PICTURES {
        client.request("session/list", json!({})).await.ok();
    }
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    let mut client = restart(&scene, client, &session).await;
    let made = scene.events(&session, "image/scaled").len();
    assert!((1..PICTURES).contains(&made), "{made} were made");
    assert_eq!(blobs(&scene), PICTURES + made, "nothing is there without a name");
    assert_eq!(scene.requests().len(), 0);
    prompt(&mut client, &session, &[text("and now?")]).await;
    client.finish(&scene.place).await;
    scene.assert_lawful();
    assert_eq!(sizes(&scene.requests()[0]), ["image/png 2000x1333"; PICTURES]);
    assert_eq!(scene.events(&session, "image/scaled").len(), PICTURES);
}

/// What says that it is huge, and what cannot be unpacked, costs nothing but a note to both.
#[tokio::test]
async fn an_image_that_cannot_be_made_smaller_is_told() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..2 {
        scene.model.push(Answer::new().text("I see."));
    }
    let mut bomb = png(8, 8, false);
    bomb.splice(16..24, [0, 1, 0, 0, 0, 1, 0, 0]);
    let whole = png(9_000, 9, true);
    let cut = &whole[..whole.len() / 2];
    // By its own words four rows, and in truth thousands.
    let mut deep = plain_png(6_000, 4_000, 7);
    deep.splice(16..24, [0, 0, 0x23, 0x28, 0, 0, 0, 4]);
    let sum = crc32(&deep[12..29]).to_be_bytes();
    deep.splice(29..33, sum);
    // It says that it is a JPEG.
    let wrong = json!({"type": "image", "data": STANDARD.encode(&whole), "mimeType": "image/jpeg"});
    let before = peak(&client);
    let blocks =
        [text("look"), image(&STANDARD.encode(&bomb)), image(&STANDARD.encode(cut)), wrong];
    prompt(&mut client, &session, &blocks).await;
    prompt(&mut client, &session, &[text("and now?"), image(&STANDARD.encode(&deep))]).await;
    let none = image(&STANDARD.encode("hello"));
    let refused = json!({"sessionId": session, "prompt": [text("look"), none]});
    let refused = client.request("session/prompt", refused).await.error();
    assert!(refused.to_string().contains("an image cannot be taken"), "{refused}");
    let more = peak(&client).saturating_sub(before);
    assert!(more < 64 << 10, "{more} KiB of memory were taken");
    let told = client.finish(&scene.place).await.text(&session);
    scene.assert_lawful();
    let all = conversations(&scene);
    for part in ["65536 × 65536 pixels are more than the 64000000", "it cannot be unpacked ("] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let note = "cannot be shown: its longer side has";
    assert_eq!(all[0].matches(note).count(), 2, "{}", all[0]);
    assert!(all[1].starts_with(&all[0]));
    let made = scene.events(&session, "image/scaled");
    assert_eq!(
        made.len(),
        2,
        "the one of another kind, and the one that is no larger than it says"
    );
}
