//! What must hold after the demo. Each check looks at the world, not at what was printed.

use bridle_model_server::Violation;
use bridle_session::{EventData, SessionId};
use bridle_store::SessionStore as _;

use super::sample::{AFTER, COMMAND, FILE, MARK, Sample};
use super::server::Ended;
use super::transcript::Transcript;

/// Everything there is to look at.
pub(super) struct Outcome<'a, W> {
    pub(super) sample: &'a Sample,
    pub(super) transcript: &'a Transcript<W>,
    pub(super) session: SessionId,
    pub(super) ended: anyhow::Result<Ended>,
    pub(super) violations: Vec<Violation>,
}

/// One thing that must hold; `fault` says why it does not.
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) fault: Option<String>,
}

impl<W> Outcome<'_, W> {
    pub(super) fn checks(&self) -> Vec<Check> {
        let check = |name, result: Result<(), String>| Check { name, fault: result.err() };
        vec![
            check("the file changed on disk", self.file_changed()),
            check("the change and the command were asked for", self.asked()),
            check("the command ran", self.command_ran()),
            check("thoughts, text and the diff were shown", self.shown()),
            check("the turn ended by itself", self.turn_ended()),
            check("the log verifies", self.log_verifies()),
            check("the strict model accepted every request", self.no_violations()),
            check("the agent ended with its input and left no process", self.ended_well()),
        ]
    }

    fn file_changed(&self) -> Result<(), String> {
        let text = fs_err::read_to_string(self.sample.workspace().join(FILE));
        let text = text.map_err(|error| error.to_string())?;
        hold(text == AFTER, || format!("{FILE} holds {text:?}"))
    }

    fn asked(&self) -> Result<(), String> {
        let asked = self.transcript.asked();
        let about = |what: &str| asked.iter().any(|title| title.contains(what));
        hold(about(FILE) && about(COMMAND), || format!("the questions were {asked:?}"))
    }

    fn command_ran(&self) -> Result<(), String> {
        let text = fs_err::read_to_string(self.sample.workspace().join(MARK));
        let text = text.map_err(|error| error.to_string())?;
        hold(text == "ok: Hello, world!\n", || format!("{MARK} holds {text:?}"))
    }

    fn shown(&self) -> Result<(), String> {
        let missing = self.transcript.missing();
        hold(missing.is_empty(), || format!("not shown: {}", missing.join(", ")))
    }

    fn turn_ended(&self) -> Result<(), String> {
        let stop = self.transcript.stop_reason();
        hold(stop == "end_turn", || format!("the stop reason is {stop:?}"))
    }

    fn log_verifies(&self) -> Result<(), String> {
        let log = self.sample.store().read(&self.session).map_err(|error| error.to_string())?;
        let torn = log.recovery.torn_bytes;
        hold(torn == 0, || format!("{torn} bytes are torn"))?;
        hold(log.session.repair().is_empty(), || "a turn or a call has no end".to_owned())?;
        let count = |wanted: fn(&EventData) -> bool| {
            log.session.events().iter().filter(|event| wanted(&event.data)).count()
        };
        let results = count(|data| matches!(data, EventData::ToolResult(r) if r.error.is_none()));
        let allowed = count(|data| matches!(data, EventData::ApprovalDecided(a) if a.allowed));
        hold(results == 4 && allowed == 2, || {
            format!("it holds {results} good tool results and {allowed} permissions")
        })
    }

    fn no_violations(&self) -> Result<(), String> {
        hold(self.violations.is_empty(), || format!("{:?}", self.violations))
    }

    fn ended_well(&self) -> Result<(), String> {
        match &self.ended {
            Err(error) => Err(format!("{error:#}")),
            Ok(ended) if !ended.success => Err("its exit code is not 0".to_owned()),
            Ok(ended) if ended.left_processes => Err("a process is left".to_owned()),
            Ok(_) => Ok(()),
        }
    }
}

fn hold(holds: bool, fault: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault()) }
}
