//! A stored session as every readable form shows it: its head, and what was seen in sections, one
//! for each turn and one for what stands between two turns. How that looks is the renderers' job.

use bridle_agent::{Call, Entry, Shown, ToolStatus, transcript};
use bridle_session::{
    Content, Header, Seq, Session, TurnEndReason, TurnNumber, UnixMillis, UsageTotals, UserMessage,
};

/// A whole session.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) header: &'a Header,
    pub(super) title: Option<&'a str>,
    /// What the models that answered have used.
    pub(super) usage: &'a UsageTotals,
    pub(super) updated_at: UnixMillis,
    pub(super) turns: usize,
    pub(super) calls: Calls,
    pub(super) sections: Vec<Section<'a>>,
}

/// How many tool calls there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) all: usize,
    /// Of them those that did not succeed.
    pub(super) failed: usize,
}

/// One turn, or what stands between two.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// Which turn; `None` for what stands between two.
    pub(super) turn: Option<TurnNumber>,
    /// Its first event.
    pub(super) first: Seq,
    pub(super) started_at: UnixMillis,
    /// When and how the turn ended; `None` while it is open.
    pub(super) ended: Option<(UnixMillis, &'a TurnEndReason)>,
    pub(super) calls: Calls,
    pub(super) entries: Vec<Entry<'a>>,
}

impl<'a> Report<'a> {
    pub(super) fn of(session: &'a Session) -> Self {
        let mut report = Self {
            header: session.header(),
            title: session.state().summary.title.text.as_deref(),
            usage: &session.state().summary.usage,
            updated_at: session.last_time(),
            turns: 0,
            calls: Calls::default(),
            sections: Vec::new(),
        };
        let mut in_turn = false;
        // The first title repeats the first prompt.
        let mut titles = 0;
        for entry in transcript(session) {
            titles += usize::from(matches!(entry.shown, Shown::Title(_)));
            if titles == 1 && matches!(entry.shown, Shown::Title(_)) {
                continue;
            }
            let starts = matches!(entry.shown, Shown::TurnStarted(_));
            let ends = matches!(entry.shown, Shown::TurnEnded(_));
            if starts || !in_turn && report.sections.last().is_none_or(|last| last.turn.is_some()) {
                report.sections.push(Section::begin(&entry));
            }
            in_turn = (in_turn || starts) && !ends;
            report.take(entry);
        }
        report
    }

    fn take(&mut self, entry: Entry<'a>) {
        if matches!(entry.shown, Shown::TurnStarted(_)) {
            self.turns = self.turns.saturating_add(1);
        }
        self.calls.take(&entry.shown);
        if let Some(section) = self.sections.last_mut() {
            section.take(entry);
        }
    }

    /// Leaves only the last so many turns, and what stands between and behind them.
    pub(super) fn keep_last(&mut self, turns: usize) {
        let starts = self.sections.iter().enumerate().rev();
        let mut starts = starts.filter(|(_, section)| section.turn.is_some());
        if let Some((first, _)) = turns.checked_sub(1).and_then(|before| starts.nth(before)) {
            self.sections.drain(..first);
        }
    }
}

impl<'a> Section<'a> {
    fn begin(entry: &Entry<'a>) -> Self {
        let turn = match entry.shown {
            Shown::TurnStarted(turn) => Some(turn),
            _ => None,
        };
        Self {
            turn,
            first: entry.seq,
            started_at: entry.time,
            ended: None,
            calls: Calls::default(),
            entries: Vec::new(),
        }
    }

    fn take(&mut self, entry: Entry<'a>) {
        self.calls.take(&entry.shown);
        match entry.shown {
            Shown::TurnStarted(_) => return,
            Shown::TurnEnded(reason) => self.ended = Some((entry.time, reason)),
            _ => {}
        }
        self.entries.push(entry);
    }

    /// What a person asked for first.
    pub(super) fn prompt(&self) -> Option<&'a UserMessage> {
        self.entries.iter().find_map(|entry| match entry.shown {
            Shown::Prompt(message) | Shown::NotSent(message, _) | Shown::Queued(message) => {
                Some(message)
            }
            _ => None,
        })
    }
}

impl Calls {
    fn take(&mut self, shown: &Shown<'_>) {
        if let Shown::Call(Call { status, .. }) = shown {
            self.all = self.all.saturating_add(1);
            let failed = usize::from(*status == ToolStatus::Failed);
            self.failed = self.failed.saturating_add(failed);
        }
    }
}

/// The first line of what a message says.
pub(super) fn first_line(message: &UserMessage) -> &str {
    let texts = message.content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.flat_map(str::lines).map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
