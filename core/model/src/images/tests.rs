//! Which images are shown: within the limits, and the same ones for ever.

use bridle_session::{
    AssistantMessage, Block, Draft, EventData, Header, ImageOffload, ImageScaled, MessageId,
    PixelSize, Route, Session, SessionId, TimedBlock, TurnNumber, TurnStart, UnixMillis, Usage,
    UserMessage, UserSource,
};

use super::*;

const LIMITS: ImageLimits = ImageLimits {
    count: 6,
    bytes: 400,
    total_bytes: 1_000,
    side: 1_000,
    crowd: 3,
    crowd_side: 300,
};

/// A PNG of so many pixels and bytes.
fn png(side: u32, bytes: usize) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR".to_vec();
    file.extend(side.to_be_bytes());
    file.extend(1_u32.to_be_bytes());
    file.resize(bytes.max(24), 0);
    file
}

struct Told {
    session: Session,
    files: HashMap<BlobHash, Vec<u8>>,
    shelf: ImageShelf,
    /// Whether what is too large can be made smaller.
    scales: bool,
}

impl Told {
    fn new() -> Self {
        let mut session = Session::new(Header {
            format: Header::FORMAT,
            id: SessionId::new("01234567-0123-7123-8123-0123456789ab"),
            created_at: UnixMillis(0),
            cwd: "/p".into(),
            extra_roots: Vec::new(),
            parent: None,
            origin: "test".to_owned(),
            delegation_depth: 0,
            terms: Default::default(),
        });
        let start = TurnStart { turn: TurnNumber(1) };
        session.append(Draft::new(start), UnixMillis(1)).unwrap();
        Self { session, files: HashMap::new(), shelf: ImageShelf::default(), scales: false }
    }

    fn append(&mut self, data: impl Into<EventData>) -> Seq {
        self.session.append(Draft::new(data), UnixMillis(1)).unwrap().seq
    }

    /// A message with these files as images.
    fn say(&mut self, files: &[Vec<u8>]) -> Seq {
        let mut content = vec![Content::text("look")];
        for file in files {
            let hash = BlobHash::of_digest(&digest(file));
            self.files.insert(hash.clone(), file.clone());
            let blob = BlobRef { hash, bytes: file.len() as u64 };
            content.push(Content::Image { blob, mime_type: "image/png".to_owned() });
        }
        let id = MessageId::new("u");
        self.append(UserMessage { id, content, source: UserSource::Human })
    }

    fn answer(&mut self) -> Seq {
        let time = UnixMillis(1);
        let block = Block::Text { text: "I see.".to_owned() };
        self.append(AssistantMessage {
            id: MessageId::new("a"),
            blocks: vec![TimedBlock { started_at: time, ended_at: time, block, raw: None }],
            route: Route::parse("p/m").unwrap(),
            stop: "end-turn".to_owned(),
            usage: Usage::default(),
            interrupted: false,
        })
    }

    /// What is selected once all that is missing was read, in order: a width, or why not.
    fn select(&mut self, since: Seq) -> Vec<(Place, Result<u32, String>)> {
        let images = loop {
            let projection = self.session.projection();
            let images = Images::select(&projection, since, Some(&LIMITS), &self.shelf);
            if !images.too_large().is_empty() {
                let large = images.too_large().to_vec();
                large.into_iter().for_each(|(_, blob)| self.shrink(blob));
                continue;
            }
            if images.missing().is_empty() {
                break images;
            }
            for (_, blob) in images.missing() {
                self.shelf.put(blob.hash.clone(), Image::read(&self.files[&blob.hash]));
            }
        };
        let mut all: Vec<_> = images.places.into_iter().collect();
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(place, image)| (place, image.map(|image| image.width))).collect()
    }

    /// What stands for a file that is too large.
    fn shrink(&mut self, blob: BlobRef) {
        let whole = Image::read(&self.files[&blob.hash]).ok().filter(|_| self.scales);
        let Some(whole) = whole else {
            return self.shelf.put_stiff(blob.hash, "it is stiff".to_owned());
        };
        let small = png(whole.width.min(LIMITS.crowd_side), 24 + whole.width as usize % 200);
        let hash = BlobHash::of_digest(&digest(&small));
        let kept = BlobRef { hash: hash.clone(), bytes: small.len() as u64 };
        self.files.insert(hash, small);
        self.append(ImageScaled {
            image: blob.hash,
            from: PixelSize { width: whole.width, height: 1 },
            blob: kept,
            mime_type: "image/png".to_owned(),
            to: PixelSize { width: whole.width.min(LIMITS.crowd_side), height: 1 },
            first_of_several: false,
        });
    }

    fn outline(&mut self, since: Seq) -> String {
        let line = |(_, image): (Place, Result<u32, String>)| match image {
            Ok(width) => format!("{width}"),
            Err(why) => why,
        };
        self.select(since).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A name for a file, its own as long as the test has few.
fn digest(file: &[u8]) -> [u8; 32] {
    *blake3::hash(file).as_bytes()
}

#[test]
fn an_image_that_does_not_fit_is_given_up_with_the_reason() {
    let mut told = Told::new();
    told.say(&[png(1_001, 24), png(200, 301), b"no image".to_vec(), png(201, 300), png(202, 300)]);
    told.say(&[
        png(301, 24),
        png(203, 24),
        png(204, 24),
        png(205, 150),
        png(206, 24),
        png(207, 24),
    ]);
    expect_test::expect![[r#"
        its longer side has 1001 pixels; 1000 are the most
        as Base64 it has 404 bytes; 400 are the most
        it is neither PNG nor JPEG nor GIF nor WebP
        201
        202
        301
        an earlier one is so large that 3 images are the most
        an earlier one is so large that 3 images are the most
        earlier images take up the room there is
        an earlier one is so large that 3 images are the most
        an earlier one is so large that 3 images are the most"#]]
    .assert_eq(&told.outline(Seq(0)));

    let mut told = Told::new();
    told.say(&[png(1, 300), png(2, 300), png(3, 24), png(301, 24), png(4, 150), png(5, 24)]);
    told.say(&[png(6, 24), png(7, 24)]);
    expect_test::expect![[r#"
        1
        2
        3
        its longer side has 301 pixels; 300 are the most
        earlier images take up the room there is
        5
        6
        7"#]]
    .assert_eq(&told.outline(Seq(0)));
    told.say(&[png(8, 24)]);
    assert!(told.outline(Seq(0)).ends_with("\n6 images are the most"));
}

/// Within a series each choice is for good, whatever comes behind it.
#[test]
fn what_was_chosen_stays_chosen() {
    const ROUNDS: usize = 200;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..ROUNDS {
        let mut told = Told { scales: round % 2 == 0, ..Told::new() };
        let mut before = Vec::new();
        let since = Seq(random.u64(0..12));
        for _ in 0..random.usize(1..9) {
            let files: Vec<_> = (0..random.usize(0..4))
                .map(|_| png(random.u32(0..1_200), random.usize(24..350)))
                .collect();
            told.say(&files);
            if told.scales {
                // As the driver does it: no answer before what it is an answer to was sent.
                told.select(since);
            }
            if random.bool() {
                told.answer();
            }
            if told.session.len().0 <= since.0 {
                continue;
            }
            let now = told.select(since);
            let context = format!("seed {seed}, round {round} of {ROUNDS}");
            assert!(now.starts_with(&before), "{context}: {before:?}, then {now:?}");
            let shown: Vec<u32> = now.iter().filter_map(|(_, image)| image.clone().ok()).collect();
            assert!(shown.len() <= LIMITS.count as usize, "{context}");
            let most = if shown.len() > LIMITS.crowd as usize { 300 } else { 1_000 };
            assert!(shown.iter().all(|width| *width <= most), "{context}: {shown:?}");
            // What a resumed session finds is the same, with nothing on the shelf.
            told.shelf = ImageShelf::default();
            assert_eq!(told.select(since), now, "{context}");
            before = now;
        }
    }
}

#[test]
fn a_new_series_gives_up_the_oldest_and_nothing_that_was_just_said() {
    let mut told = Told::new();
    for side in 1..=5 {
        told.say(&[png(side, 24)]);
        told.answer();
    }
    told.say(&[png(6, 24), png(7, 24), png(8, 24)]);
    let since = Seq(told.session.len().0);
    expect_test::expect![[r#"
        later images take up the room there is
        later images take up the room there is
        3
        4
        5
        6
        7
        8"#]]
    .assert_eq(&told.outline(since));
    let first = told.outline(Seq(0));
    assert!(first.starts_with("1\n2\n3\n4\n5\n6\n6 images are the most"), "{first}");
}

#[test]
fn a_lost_image_and_a_model_without_eyes_have_a_note() {
    let mut told = Told::new();
    let lost = told.say(&[png(1, 24)]);
    told.say(&[png(2, 24)]);
    let (reason, of_last) = (OffloadReason::Lost, None);
    told.append(ImageOffload { messages: vec![lost], reason, of_last });
    assert_eq!(told.outline(Seq(0)), "its file cannot be read\n2");
    let blind = Images::select(&told.session.projection(), Seq(0), None, &told.shelf);
    assert!(blind.missing().is_empty());
    assert_eq!(blind.at(lost, 1).unwrap_err(), Some("the model reads none"));
    assert_eq!(blind.given_up().count(), 2);
    assert_eq!(blind.at(lost, 0).unwrap_err(), None, "no image");
}

/// What a provider did not take of a message is a note, and the rest of it is shown.
#[test]
fn a_part_of_a_message_can_be_given_up() {
    let mut told = Told::new();
    let (old, new) = (told.say(&[png(1, 24)]), told.say(&[png(2, 24), png(3, 24), png(4, 24)]));
    let offload = |of_last| {
        let (messages, reason) = (vec![old, new], OffloadReason::Room);
        ImageOffload { messages, reason, of_last: Some(of_last) }
    };
    told.append(offload(2));
    let later = "later images take up the room there is";
    assert_eq!(told.outline(Seq(0)), format!("{later}\n{later}\n{later}\n4"));
    // It only becomes more.
    told.append(offload(1));
    assert_eq!(told.outline(Seq(0)), format!("{later}\n{later}\n{later}\n4"));
    let images = Images::select(&told.session.projection(), Seq(0), Some(&LIMITS), &told.shelf);
    assert_eq!((images.shown().len(), images.shown().bytes()), (1, 32));
    assert_eq!(images.given_up().count(), 0, "the log says it");
    told.append(ImageOffload { messages: vec![new], reason: OffloadReason::Lost, of_last: None });
    assert!(told.outline(Seq(0)).ends_with("its file cannot be read"));
}

/// A crowd is no reason to give one up, and what an answer has seen stays as it saw it.
#[test]
fn what_is_too_large_is_shown_smaller_from_the_first_time_on() {
    let mut told = Told { scales: true, ..Told::new() };
    told.say(&[png(1_500, 24), png(301, 350), png(200, 24), png(900, 24), png(5, 24)]);
    assert_eq!(told.outline(Seq(0)), "300\n300\n200\n300\n5");
    let scaled =
        told.session.events().iter().filter(|it| matches!(it.data, EventData::ImageScaled(_)));
    assert_eq!(scaled.count(), 3);
    let images = Images::select(&told.session.projection(), Seq(0), Some(&LIMITS), &told.shelf);
    let note = images.note(Seq(1), 1).unwrap();
    assert!(
        note.starts_with("[This image has 1500 × 1 pixels and is shown with 300 × 1;"),
        "{note}"
    );
    assert!(note.contains("times 5.000 are"), "{note}");
    assert_eq!(images.note(Seq(1), 3), None);

    let mut old = Told::new();
    old.say(&[png(1_500, 24)]);
    let before = old.outline(Seq(0));
    assert!(before.ends_with("1000 are the most"), "{before}");
    let images = Images::select(&old.session.projection(), Seq(0), Some(&LIMITS), &old.shelf);
    let (_, why) = images.given_up().next().unwrap();
    assert!(why.ends_with("1000 are the most; it cannot be made smaller: it is stiff"), "{why}");
    old.answer();
    (old.scales, old.shelf) = (true, ImageShelf::default());
    let later = old.outline(Seq(0));
    assert!(
        later.starts_with("its longer side has 1500 pixels") && !later.contains('\n'),
        "{later}"
    );
    assert_eq!(old.outline(Seq(3)), "300", "another series may");
}
