//! What the demo prints while it runs, and what it remembers of it for the checks.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::client::{Host, Verdict};
use crate::text;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Prints one turn for a person and says yes to every question.
pub(super) struct Transcript<W> {
    out: W,
    color: bool,
    /// The kind of text that the current line belongs to; empty at the start of a line.
    open: &'static str,
    /// The titles of the calls, by id; results come in another order.
    titles: HashMap<String, String>,
    asked: Vec<String>,
    stop_reason: String,
    thoughts: bool,
    text: bool,
    diff: bool,
}

impl<W: Write + IsTerminal> Transcript<W> {
    /// Colours only where a person looks at a terminal and has not asked for none.
    pub(super) fn new(out: W) -> Self {
        let color = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            out,
            color,
            open: "",
            titles: HashMap::new(),
            asked: Vec::new(),
            stop_reason: String::new(),
            thoughts: false,
            text: false,
            diff: false,
        }
    }
}

impl<W> Transcript<W> {
    /// The titles of all questions.
    pub(super) fn asked(&self) -> &[String] {
        &self.asked
    }

    pub(super) fn stop_reason(&self) -> &str {
        &self.stop_reason
    }

    /// What a client should have been shown and was not.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        [("thoughts", self.thoughts), ("text", self.text), ("a diff", self.diff)]
            .into_iter()
            .filter_map(|(what, shown)| (!shown).then_some(what))
            .collect()
    }
}

impl<W: Write> Transcript<W> {
    pub(super) fn title(&mut self, text: &str) -> io::Result<()> {
        self.break_line()?;
        let text = self.styled(BOLD, text);
        writeln!(self.out, "\n{text}")
    }

    pub(super) fn fact(&mut self, name: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "  {name:<16} {}", text::unbroken(text))
    }

    pub(super) fn prompt(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "  you      {text}")
    }

    pub(super) fn end_of_turn(&mut self, stop: &str) -> io::Result<()> {
        stop.clone_into(&mut self.stop_reason);
        self.break_line()?;
        writeln!(self.out, "  end      {}", text::unbroken(stop))
    }

    pub(super) fn check(&mut self, name: &str, fault: Option<&str>) -> io::Result<()> {
        match fault {
            None => writeln!(self.out, "  {}  {name}", self.styled(GREEN, "ok  ")),
            Some(fault) => {
                let mark = self.styled(RED, "FAIL");
                writeln!(self.out, "  {mark}  {name}: {}", text::unbroken(fault))
            }
        }
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn break_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.open).is_empty() { Ok(()) } else { writeln!(self.out) }
    }

    /// A piece of streamed text, as it comes.
    fn stream(&mut self, speaker: &'static str, style: &str, update: &Value) -> io::Result<()> {
        let piece = text::unbroken(text_at(update, "/content/text"));
        if self.open != speaker {
            self.break_line()?;
            write!(self.out, "  {speaker:<8} ")?;
            self.open = speaker;
        }
        let piece = if style.is_empty() { piece } else { self.styled(style, &piece) };
        write!(self.out, "{piece}")?;
        self.out.flush()
    }

    fn tool(&mut self, update: &Value) -> io::Result<()> {
        let title = text::unbroken(text_at(update, "/title"));
        self.break_line()?;
        writeln!(self.out, "  calls    {title}")?;
        self.titles.insert(text_at(update, "/toolCallId").to_owned(), title);
        Ok(())
    }

    fn tool_end(&mut self, update: &Value) -> io::Result<()> {
        let mark = match text_at(update, "/status") {
            "completed" => self.styled(GREEN, "done    "),
            "failed" => self.styled(RED, "failed  "),
            _ => return Ok(()),
        };
        self.break_line()?;
        let title = self.titles.get(text_at(update, "/toolCallId"));
        writeln!(self.out, "  {mark} {}", title.map_or("a call", String::as_str))?;
        for content in update.get("content").and_then(Value::as_array).into_iter().flatten() {
            match text_at(content, "/type") {
                "diff" => self.diff(content)?,
                _ => self.output(text_at(content, "/content/text"))?,
            }
        }
        Ok(())
    }

    /// The first lines of what a tool shows.
    fn output(&mut self, text: &str) -> io::Result<()> {
        const MAX_LINES: usize = 8;
        let text = text::visible_block(text);
        for line in text.lines().filter(|line| !line.starts_with("```")).take(MAX_LINES) {
            let line = self.styled(DIM, line);
            writeln!(self.out, "           {line}")?;
        }
        Ok(())
    }

    fn diff(&mut self, content: &Value) -> io::Result<()> {
        let (old, new) = (text_at(content, "/oldText"), text_at(content, "/newText"));
        for change in TextDiff::from_lines(old, new).iter_all_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ("-", RED),
                ChangeTag::Insert => ("+", GREEN),
                ChangeTag::Equal => (" ", DIM),
            };
            let line = format!("{sign} {}", text::unbroken(change.value().trim_end_matches('\n')));
            let line = self.styled(style, &line);
            writeln!(self.out, "           {line}")?;
        }
        Ok(())
    }
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl<W: Write + Send> Host for Transcript<W> {
    fn update(&mut self, update: &Value) -> io::Result<()> {
        let contents = update.get("content").and_then(Value::as_array);
        self.diff |= contents.into_iter().flatten().any(|c| text_at(c, "/type") == "diff");
        match text_at(update, "/sessionUpdate") {
            "agent_thought_chunk" => {
                self.thoughts = true;
                self.stream("thinks", DIM, update)
            }
            "agent_message_chunk" => {
                self.text = true;
                self.stream("says", "", update)
            }
            "tool_call" => self.tool(update),
            "tool_call_update" => self.tool_end(update),
            "notice" => {
                self.break_line()?;
                let title = text::unbroken(text_at(update, "/title"));
                writeln!(self.out, "  notes    {title}")
            }
            _ => Ok(()),
        }
    }

    fn permission(&mut self, request: &Value) -> Verdict {
        let title = text_at(request, "/toolCall/title").to_owned();
        let line = self.styled(YELLOW, &format!("allow this once? {}", text::unbroken(&title)));
        self.asked.push(title);
        // A failing output shows at the next update.
        drop(self.break_line().and_then(|()| writeln!(self.out, "  asks     {line}  -> yes")));
        Verdict::Allow
    }
}
