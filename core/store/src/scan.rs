//! The summary of a log without a fold: frames, envelopes and positions are checked, and only the
//! few events that a summary is made of are decoded.
//!
//! Whether the events fit each other shows when the log is folded; where a scan finds anything
//! odd, its caller folds.

use bridle_session::{
    AssistantMessage, DecodeError, Event, EventData, EventLine, Fold as _, Header, MessageId,
    Route, Summary, UnknownEvent, Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::log::LogText;

/// Adds to `summary` what stands in the log from `start` on, or all of it; where it ends, and the
/// header if it was read. `None` when something is damaged, missing or malformed.
pub(crate) fn summarise(
    log: &LogText<'_>,
    start: Option<usize>,
    summary: &mut Summary,
) -> Option<(Option<Header>, usize)> {
    let read = log.each_line(start, |line| {
        let line = EventLine::read(line).map_err(|error| error.to_string())?;
        if line.seq.0 != summary.events.0 {
            return Err("an event is missing".to_owned());
        }
        summary.apply(&shallow(line).map_err(|error| error.to_string())?);
        Ok(())
    });
    let (header, end) = read.ok().filter(|(_, end)| !end.damaged)?;
    Some((header, end.offset))
}

/// The event as far as a summary looks at it: of an answer what it cost, of what has none of the
/// summary's types only that it was there.
fn shallow(line: EventLine<'_>) -> Result<Event, DecodeError> {
    #[derive(Deserialize)]
    struct Cost {
        route: Route,
        usage: Usage,
    }
    let data = match &*line.type_name {
        "title/set" | "turn/start" | "user/message" => return line.decode(),
        "assistant/message" => {
            let Cost { route, usage } = serde_json::from_str(line.data.get())?;
            EventData::AssistantMessage(AssistantMessage {
                id: MessageId::new(""),
                blocks: Vec::new(),
                route,
                stop: String::new(),
                usage,
                interrupted: false,
            })
        }
        name => EventData::Unknown(UnknownEvent {
            type_name: name.into(),
            data: RawValue::NULL.to_owned(),
        }),
    };
    let EventLine { seq, time, surface, ignorable, .. } = line;
    Ok(Event { seq, time, data, surface, ignorable })
}
