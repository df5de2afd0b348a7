//! What a list of sessions shows of one.

use serde::{Deserialize, Serialize};

use super::{Fold, Title, UsageTotals};
use crate::content::{Content, UserSource};
use crate::event::Event;
use crate::id::{EventCount, TurnNumber, UnixMillis};
use crate::vocabulary::{EventData, UserMessage};

/// How much of the first line is kept, in characters.
const FIRST_LINE: usize = 200;

/// A session in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The title.
    pub title: Title,
    /// The first line with text of what a person said first, at most 200 characters of it.
    pub first_line: Option<String>,
    /// Whether a person has said anything. True where events are lost: a session that lost
    /// something is not an empty one.
    pub has_human_message: bool,
    /// The time of the last event.
    pub last_time: Option<UnixMillis>,
    /// The length of the log, lost events included.
    pub events: EventCount,
    /// The number of the last turn: how many there were.
    pub turns: TurnNumber,
    /// What it cost.
    pub usage: UsageTotals,
}

impl Fold for Summary {
    const NAME: &'static str = "summary";
    const VERSION: u32 = 3;

    fn apply(&mut self, event: &Event) {
        self.title.apply(event);
        self.usage.apply(event);
        self.events = EventCount(event.seq.next().0);
        self.last_time = Some(event.time);
        match &event.data {
            EventData::TurnStart(start) => self.turns = start.turn,
            EventData::TurnEnd(end) => self.turns = end.turn,
            EventData::UserMessage(message) if message.source == UserSource::Human => {
                self.has_human_message = true;
                if self.first_line.is_none() {
                    self.first_line = first_line(message);
                }
            }
            _ => (),
        }
    }

    fn lose(&mut self) {
        self.has_human_message = true;
    }
}

fn first_line(message: &UserMessage) -> Option<String> {
    let mut texts = message.content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text),
        _ => None,
    });
    let line = texts.find_map(|text| text.lines().map(str::trim).find(|line| !line.is_empty()))?;
    Some(line.chars().take(FIRST_LINE).collect())
}
