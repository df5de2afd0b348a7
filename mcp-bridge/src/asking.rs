//! What a server asks the person of its session (elicitation): shown while a call of it is under way, one
//! question of a session at a time, and never answered in the person's place. What cannot be shown is
//! declined, and the person is told that it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bridle_agent::{Asker, ForeignQuestion, ForeignReply, Wanted};
use bridle_compose::Clock;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, UrlElicitationCapability,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, watch};
use url::Url;

use crate::clip::clipped;

/// How long a person may take. A server that waits longer has most likely given up itself.
const DECIDING_LIMIT: Duration = Duration::from_secs(600);

/// How many questions of a server the person is told of that they were not shown: it may go on asking.
const MAX_UNSHOWN: usize = 5;

/// How much of such a question is told, in bytes.
const MAX_TOLD: usize = 300;

/// A question that the person was not shown and that was declined therefore, for them.
#[derive(Debug)]
pub(crate) struct Unshown {
    pub(crate) title: String,
    pub(crate) detail: String,
}

/// The person of a session, whom all its servers share.
#[derive(Clone)]
pub(crate) struct Person {
    /// `None` where there is nobody.
    asker: Option<Arc<dyn Asker>>,
    /// Where what they were not shown is told.
    unshown: mpsc::Sender<Unshown>,
    clock: Arc<dyn Clock>,
    /// One question at a time.
    turn: Arc<Mutex<()>>,
}

/// The questions of one server.
#[derive(Clone)]
pub(crate) struct Asking {
    who: Arc<str>,
    person: Person,
    /// How many calls of the server are under way.
    calls: Arc<watch::Sender<usize>>,
    /// How many of its questions wait for the person.
    open: Arc<watch::Sender<usize>>,
    /// How many questions were told of that were not shown.
    told: Arc<AtomicUsize>,
}

impl Person {
    /// And what they were not shown.
    pub(crate) fn new(
        asker: Option<Arc<dyn Asker>>,
        clock: Arc<dyn Clock>,
    ) -> (Self, mpsc::Receiver<Unshown>) {
        let (unshown, told) = mpsc::channel(MAX_UNSHOWN);
        (Self { asker, unshown, clock, turn: Arc::default() }, told)
    }
}

impl Asking {
    /// Of the server that a person calls `server`.
    pub(crate) fn new(server: &str, person: Person) -> Self {
        let who = format!("The MCP server {server}").into();
        let (calls, open, told) = (Arc::default(), Arc::default(), Arc::default());
        Self { who, person, calls, open, told }
    }

    /// What the server may ask for.
    pub(crate) fn capability(&self) -> Option<ElicitationCapability> {
        let shows = self.person.asker.as_ref()?.shows();
        let mut capability = ElicitationCapability::default();
        capability.form = shows.forms.then(FormElicitationCapability::default);
        capability.url = shows.visits.then(UrlElicitationCapability::default);
        (shows.forms || shows.visits).then_some(capability)
    }

    /// A call begins, or ends.
    pub(crate) fn begun(&self) {
        self.calls.send_modify(|calls| *calls += 1);
    }

    /// See [`Asking::begun`].
    pub(crate) fn ended(&self) {
        self.calls.send_modify(|calls| *calls = calls.saturating_sub(1));
    }

    /// How many questions wait for the person, now and from now on: the clocks of calls stand still
    /// meanwhile.
    pub(crate) fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Asks. Outside of a call nobody expects a question, so that the answer is no; when the calls end, the
    /// question goes with them.
    pub(crate) async fn ask(&self, asked: ElicitRequestParams) -> ElicitResult {
        let mut calls = self.calls.subscribe();
        let said = message(&asked).to_owned();
        let Some(asker) = &self.person.asker else {
            return self.declined(&said, "nobody can be asked here");
        };
        if *calls.borrow() == 0 {
            return self.declined(&said, "no call of it was under way");
        }
        let question = match self.question(asked) {
            Ok(question) => question,
            Err(why) => return self.declined(&said, why),
        };
        let _open = Open::new(&self.open);
        let answered = async {
            let _turn = self.person.turn.lock().await;
            asker.relay(question).await
        };
        let reply = tokio::select! {
            biased;
            // The sender lives as long as this.
            _ = calls.wait_for(|calls| *calls == 0) => ForeignReply::Dismissed,
            reply = answered => reply,
            () = self.person.clock.sleep(DECIDING_LIMIT) => ForeignReply::Dismissed,
        };
        match reply {
            ForeignReply::Accepted(content) => {
                let accepted = ElicitResult::new(ElicitationAction::Accept);
                match content.is_null() {
                    true => accepted,
                    false => accepted.with_content(content),
                }
            }
            ForeignReply::Declined => ElicitResult::new(ElicitationAction::Decline),
            ForeignReply::Dismissed => ElicitResult::new(ElicitationAction::Cancel),
            ForeignReply::Unshown(why) => self.declined(&said, &why),
        }
    }

    /// The answer to a question that says this and was not shown, of which the person is told.
    fn declined(&self, said: &str, why: &str) -> ElicitResult {
        self.tell_unshown(said, why);
        ElicitResult::new(ElicitationAction::Decline)
    }

    /// Tells the person that they were not shown a question that says this.
    pub(crate) fn tell_unshown(&self, said: &str, why: &str) {
        if self.told.fetch_add(1, Ordering::Relaxed) >= MAX_UNSHOWN {
            return;
        }
        let title = format!("{} asked you something, which was declined: {why}", self.who);
        let detail = match said.trim() {
            "" => "It said nothing about it that can be read.".to_owned(),
            said => format!("Its own words: {}", clipped(said, MAX_TOLD)),
        };
        // Whoever tells it may be behind, or not be there; the server has its answer all the same.
        self.person.unshown.try_send(Unshown { title, detail }).ok();
    }

    /// The question.
    ///
    /// # Errors
    /// Why it is not shown, whoever asks.
    fn question(&self, asked: ElicitRequestParams) -> Result<ForeignQuestion, &'static str> {
        let (message, wants) = match asked {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let fields = serde_json::to_value(requested_schema);
                let mut fields = fields.map_err(|_| "its fields cannot be read")?;
                name_choices(&mut fields);
                (message, Wanted::Fields(fields))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, elicitation_id, .. } => {
                // What a browser would do with anything else is not for a server to say.
                let address = Url::parse(&url).ok();
                let address = address.filter(|it| matches!(it.scheme(), "http" | "https"));
                let address = address.ok_or("its address is none of the web")?;
                (message, Wanted::Visit { url: address.into(), id: elicitation_id })
            }
            _ => return Err("it is of a kind that is not known"),
        };
        Ok(ForeignQuestion { who: self.who.to_string(), message, wants })
    }
}

/// What a question says.
pub(crate) fn message(asked: &ElicitRequestParams) -> &str {
    match asked {
        ElicitRequestParams::FormElicitationParams { message, .. }
        | ElicitRequestParams::UrlElicitationParams { message, .. } => message,
        _ => "",
    }
}

/// Gives choices that have names in the way of old (`enum` with `enumNames`) the form of today, which is
/// the one that clients show.
fn name_choices(schema: &mut Value) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    let fields = fields.into_iter().flatten().filter_map(|(_, field)| field.as_object_mut());
    for field in fields {
        let Some(Value::Array(names)) = field.remove("enumNames") else { continue };
        let Some(Value::Array(values)) = field.get("enum") else { continue };
        if names.len() != values.len() {
            continue;
        }
        let choices = values.iter().zip(&names);
        let choices = choices.map(|(value, name)| json!({"const": value, "title": name})).collect();
        field.remove("enum");
        field.insert("oneOf".to_owned(), choices);
    }
}

/// A question that waits.
struct Open<'a>(&'a watch::Sender<usize>);

impl<'a> Open<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}
