//! What a request is assembled from: sections, variables, and context that is told when it changes.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bridle_agent::{
    Access, ContextInput, ContextPart, ContextSource, Mode, PromptSection, PromptVariable,
    TurnOutcome,
};
use bridle_model::{Chunk, StopReason};
use bridle_session::Usage;

use crate::rig::{Extra, Play, Rig, Setting, TestTool, calls, kinds, ok, route, text, text_block};

/// A source that says what the test wrote down last; `Err` never answers.
#[derive(Clone)]
struct Said(Arc<Mutex<Result<Option<String>, ()>>>);

impl Said {
    fn new(text: &str) -> Self {
        Self(Arc::new(Mutex::new(Ok(Some(text.to_owned())))))
    }

    fn now(&self, text: Option<&str>) {
        *self.0.lock().unwrap() = Ok(text.map(str::to_owned));
    }
}

#[async_trait]
impl ContextSource for Said {
    fn name(&self) -> &str {
        "weather"
    }

    async fn collect(&self, now: &ContextInput) -> Option<String> {
        let said = self.0.lock().unwrap().clone();
        let Ok(said) = said else { return std::future::pending().await };
        said.map(|said| said.replace("MODE", now.mode.id()))
    }
}

async fn rig(source: &Said) -> Rig {
    let source = source.clone();
    let extra = Extra::new(move |setup| {
        setup.add::<dyn ContextSource>("weather", Arc::new(source.clone()))
    });
    let tools: Vec<Arc<dyn bridle_agent::Tool>> =
        vec![TestTool::new("look", Access::ReadInside("/ws".into()), ok)];
    Rig::start(Setting { extra, tools, ..Setting::default() }).await
}

fn last(rig: &Rig) -> String {
    rig.model.requests().pop().unwrap()
}

#[tokio::test]
async fn context_is_told_once_and_again_when_it_changes() {
    let source = Said::new("sun");
    let mut rig = rig(&source).await;
    for prompt in ["a", "b"] {
        rig.model.push(text("Fine."));
        rig.run(prompt).await;
    }
    assert_eq!(last(&rig), "system\nuser: sun\nuser: a\nassistant: Fine.\nuser: b");
    source.now(Some("rain"));
    rig.model.push(calls(&[("c1", "look", "{}")]));
    rig.model.push(text("Fine."));
    rig.run("c").await;
    assert!(last(&rig).ends_with("user: rain\nuser: c\nassistant: <look c1>\nresult c1: fine"));
    source.now(None);
    for prompt in ["d", "e"] {
        rig.model.push(text("Fine."));
        rig.run(prompt).await;
    }
    let gone = "user: [weather: what was said under this name does not hold any more.]\nuser: d";
    assert_eq!(last(&rig).matches("[weather").count(), 1);
    assert!(last(&rig).contains(gone), "{}", last(&rig));
    let log = kinds(&rig.log().await);
    let series = log.iter().filter(|kind| kind.starts_with("request/header"));
    assert_eq!(series.count(), 1, "what is appended changes no prefix");
}

#[tokio::test]
async fn context_that_changes_between_two_steps_is_told_before_the_next() {
    let source = Said::new("in MODE");
    let mut rig = rig(&source).await;
    rig.model.push(calls(&[("c1", "look", "{}")]));
    let mut answer = text("Fine.");
    let hold = Arc::new(tokio::sync::Notify::new());
    answer.insert(0, Play::Hold(Arc::clone(&hold)));
    rig.model.push(answer);
    rig.prompt("a");
    rig.model.held.notified().await;
    rig.agent.set_mode(Mode::Plan).await.unwrap();
    hold.notify_one();
    rig.until_end("a").await;
    rig.model.push(text("Fine."));
    rig.run("b").await;
    assert_eq!(
        last(&rig),
        "system\nuser: in ask\nuser: a\nassistant: <look c1>\nresult c1: fine\n\
         assistant: Fine.\nuser: in plan\nuser: b"
    );
}

/// A source that answers when the other one has been asked, too.
struct Together(&'static str, Arc<tokio::sync::Barrier>);

#[async_trait]
impl ContextSource for Together {
    fn name(&self) -> &str {
        self.0
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        // The second one that comes is the first that goes on.
        self.1.wait().await;
        Some(format!("said by {}", self.0))
    }
}

#[tokio::test]
async fn sources_are_asked_together_and_told_in_their_order() {
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let extra = Extra::new(move |setup| {
        let one = Together("one", Arc::clone(&barrier));
        let two = Together("two", Arc::clone(&barrier));
        setup.add::<dyn ContextSource>("one", Arc::new(one))?;
        setup.add::<dyn ContextSource>("two", Arc::new(two))
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.model.push(text("Fine."));
    rig.run("a").await;
    assert_eq!(last(&rig), "system\nuser: said by one\nuser: said by two\nuser: a");
}

#[tokio::test]
async fn what_leaves_the_surface_is_told_again() {
    let source = Said::new("sun");
    let mut rig = rig(&source).await;
    rig.model.push(vec![
        Play::Chunk(Chunk::Start { usage: Default::default() }),
        Play::Chunk(Chunk::Stop(StopReason::Refusal)),
    ]);
    assert_eq!(rig.run("a").await.1, TurnOutcome::Refusal);
    rig.model.push(text("Fine."));
    rig.run("b").await;
    assert!(last(&rig).ends_with("user: sun\nuser: b"), "{}", last(&rig));
    assert!(!last(&rig).contains("user: a"));
}

/// A source that says what the test wrote down last, part by part.
#[derive(Clone, Default)]
struct Parts(Arc<Mutex<Vec<(&'static str, &'static str)>>>);

#[async_trait]
impl ContextSource for Parts {
    fn name(&self) -> &str {
        "rules"
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        None
    }

    async fn collect_parts(&self, _: &ContextInput) -> Vec<ContextPart> {
        let parts = self.0.lock().unwrap().clone();
        let part = |(name, text): (&str, &str)| ContextPart {
            name: name.to_owned(),
            text: text.to_owned(),
            notice: text.ends_with('!').then(|| format!("{name} says {text}")),
        };
        parts.into_iter().map(part).collect()
    }
}

impl Parts {
    async fn rig(&self) -> Rig {
        let source = self.clone();
        let extra = Extra::new(move |setup| {
            setup.add::<dyn ContextSource>("rules", Arc::new(source.clone()))
        });
        Rig::start(Setting { extra, ..Setting::default() }).await
    }

    fn now(&self, parts: &[(&'static str, &'static str)]) {
        *self.0.lock().unwrap() = parts.to_vec();
    }
}

/// Each part is told for itself, with what a person has to know of it, and withdrawn for itself.
#[tokio::test]
async fn parts_of_a_source_are_told_each_for_itself() {
    let source = Parts::default();
    let mut rig = source.rig().await;
    let mut begin = 0;
    let mut told = async |rig: &mut Rig, parts: &[(&'static str, &'static str)]| {
        source.now(parts);
        rig.model.push(text("Fine."));
        let shown = rig.run("x").await.0;
        let all = last(rig);
        let new = all.split_at(begin).1.trim_start_matches("\nassistant: Fine.\n").to_owned();
        begin = all.len();
        let notices = shown.into_iter().filter(|line| line.starts_with("notice"));
        (new, notices.collect::<Vec<_>>())
    };
    let (new, notices) = told(&mut rig, &[("a", "one"), ("b", "two!")]).await;
    assert_eq!(new, "system\nuser: one\nuser: two!\nuser: x");
    assert_eq!(notices, ["notice b says two!"]);
    let (new, notices) = told(&mut rig, &[("b", "two!"), ("a", "1")]).await;
    assert_eq!((new.as_str(), notices.len()), ("user: 1\nuser: x", 0));
    let (new, _) = told(&mut rig, &[("c", "three")]).await;
    let gone = |name| {
        format!("user: [rules: {name}: what was said under this name does not hold any more.]\n")
    };
    assert_eq!(new, format!("{}{}user: three\nuser: x", gone("a"), gone("b")));
    assert_eq!(told(&mut rig, &[("c", "three")]).await.0, "user: x");
    assert_eq!(told(&mut rig, &[("a", "one"), ("c", "three")]).await.0, "user: one\nuser: x");
}

/// A part is told as long as its message is on the surface, whatever took the message away.
#[tokio::test]
async fn a_part_that_leaves_the_surface_is_told_again_and_the_others_are_not() {
    let source = Parts::default();
    let mut rig = source.rig().await;
    source.now(&[("a", "one")]);
    rig.model.push(text("Fine."));
    rig.run("x").await;
    source.now(&[("a", "one"), ("b", "two")]);
    rig.model.push(vec![
        Play::Chunk(Chunk::Start { usage: Default::default() }),
        Play::Chunk(Chunk::Stop(StopReason::Refusal)),
    ]);
    assert_eq!(rig.run("refused").await.1, TurnOutcome::Refusal);
    rig.model.push(text("Fine."));
    rig.run("y").await;
    let all = last(&rig);
    assert!(all.ends_with("user: two\nuser: y") && !all.contains("refused\n"), "{all}");
    assert_eq!((all.matches("user: one").count(), all.matches("user: two").count()), (1, 1));
}

#[tokio::test]
async fn a_source_that_does_not_answer_costs_neither_the_turn_nor_its_cancel() {
    let source = Said(Arc::new(Mutex::new(Err(()))));
    let mut rig = rig(&source).await;
    rig.prompt("a");
    rig.agent.status().await.unwrap();
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    rig.model.push(text("Fine."));
    rig.clock.watches.add_permits(1);
    let (shown, outcome) = rig.run("b").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(shown.contains(&"notice The context \"weather\" could not be read".to_owned()));
    assert_eq!(last(&rig), "system\nuser: b");
}

/// An answer whose prompt had so many tokens in the provider's cache, and left so many there.
fn cached(cache_read: u64, cache_write: u64) -> Vec<Play> {
    let usage = Usage { cache_read, cache_write, ..Usage::default() };
    let mut answer = text_block(0, "Fine.");
    answer.push(Play::Chunk(Chunk::Usage(usage)));
    answer.push(Play::Chunk(Chunk::Stop(StopReason::EndTurn)));
    answer
}

#[tokio::test]
async fn what_is_read_anew_through_our_doing_is_told() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(cached(0, 1000));
    rig.run("a").await;
    rig.model.push(cached(1000, 20));
    let (shown, _) = rig.run("b").await;
    assert!(!shown.iter().any(|line| line.starts_with("notice")), "{shown:#?}");
    rig.agent.set_route(route("two")).await.unwrap();
    rig.model.push(cached(0, 1040));
    let (shown, _) = rig.run("c").await;
    let told = "notice 1020 tokens were read anew and not from the provider's cache: a new series \
                began";
    assert!(shown.contains(&told.to_owned()), "{shown:#?}");
    rig.model.push(cached(0, 1060));
    let (shown, _) = rig.run("d").await;
    assert!(!shown.iter().any(|line| line.starts_with("notice")), "not ours: {shown:#?}");
}

async fn with_sections(sections: Vec<PromptSection>) -> Rig {
    let extra = Extra::new(move |setup| {
        for section in &sections {
            setup.add(&section.name, Arc::new(section.clone()))?;
        }
        let value = "the best".to_owned();
        let variable = PromptVariable { name: "praise".to_owned(), value };
        setup.add("praise", Arc::new(variable))
    });
    Rig::start(Setting { extra, ..Setting::default() }).await
}

#[tokio::test]
async fn a_section_that_names_an_unknown_variable_fails_the_turn_before_any_request() {
    let mut rig = with_sections(vec![PromptSection::template("s", 1, "You are {{who}}.")]).await;
    let TurnOutcome::Failed(failure) = rig.run("a").await.1 else { panic!("must fail") };
    assert!(failure.message.contains("{{who}}"), "{failure:?}");
    assert!(rig.model.requests().is_empty());
}

#[tokio::test]
async fn sections_and_variables_make_the_system_prompt() {
    let sections = vec![
        PromptSection::verbatim("z", 1, "First {{x}}."),
        PromptSection::template("a", 900, "You are {{praise}}."),
    ];
    let mut rig = with_sections(sections).await;
    rig.model.push(text("Fine."));
    rig.run("a").await;
    let log = rig.log().await;
    let system = log.events().iter().find_map(|event| match &event.data {
        bridle_session::EventData::SystemMessage(message) => Some(message.text.clone()),
        _ => None,
    });
    assert_eq!(system.unwrap(), "First {{x}}.\n\nbe good\n\nYou are the best.");
}
