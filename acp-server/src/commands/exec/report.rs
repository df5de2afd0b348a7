//! What `exec` prints: for a person, progress as it happens and the answer at the end; for a
//! program, one JSON event a line.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::client::{ClientError, Host, Verdict};
use crate::commands::Exit;
use crate::text;

/// The client half of `exec`.
pub(super) struct Report<'a> {
    json: bool,
    out: &'a mut (dyn Write + Send),
    progress: &'a mut (dyn Write + Send),
    session: String,
    /// The message that is coming in, by id; the last one is the answer.
    message: Option<String>,
    text: String,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        json: bool,
        out: &'a mut (dyn Write + Send),
        progress: &'a mut (dyn Write + Send),
    ) -> Self {
        let (session, text) = (String::new(), String::new());
        Self { json, out, progress, session, message: None, text }
    }

    /// The id of the session; empty before it is open.
    pub(super) fn session_id(&self) -> &str {
        &self.session
    }

    /// The session is open.
    pub(super) fn opened(&mut self, id: &str) -> io::Result<()> {
        id.clone_into(&mut self.session);
        self.event(&json!({"type": "session", "sessionId": id}))?;
        self.note("session", id)
    }

    /// Prints the answer or the failure; `denied` is the number of calls that were refused.
    pub(super) fn finish(
        mut self,
        result: &Result<String, ClientError>,
        denied: usize,
        exit: Exit,
        shown: impl FnOnce(&str) -> String,
    ) -> io::Result<()> {
        match result {
            Ok(stop) if self.json => {
                let answer = std::mem::take(&mut self.text);
                let event = json!({
                    "type": "result", "sessionId": self.session, "stopReason": stop,
                    "answer": answer, "denied": denied, "exitCode": exit as u8,
                });
                self.event(&event)?;
            }
            Err(error) if self.json => {
                let code = match error {
                    ClientError::Rpc { code, .. } => Some(*code),
                    _ => None,
                };
                let event = json!({
                    "type": "error", "sessionId": self.session, "code": code,
                    "message": error.to_string(), "exitCode": exit as u8,
                });
                self.event(&event)?;
            }
            Ok(stop) => {
                if !self.text.is_empty() {
                    writeln!(self.out, "{}", shown(&self.text))?;
                }
                self.last_words(stop, denied)?;
            }
            Err(error) => self.note("error", &error.to_string())?,
        }
        self.out.flush()
    }

    fn last_words(&mut self, stop: &str, denied: usize) -> io::Result<()> {
        match stop {
            "end_turn" => {}
            "max_tokens" => self.note("stopped", "the answer was cut at the model's limit")?,
            "max_turn_requests" => self.note("stopped", "a limit ended the turn")?,
            other => self.note("stopped", other)?,
        }
        if denied > 0 {
            let text = format!("calls that were not permitted: {denied}; see --permissions");
            self.note("denied", &text)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        if self.json { writeln!(self.out, "{event}") } else { Ok(()) }
    }

    fn note(&mut self, word: &str, text: &str) -> io::Result<()> {
        writeln!(self.progress, "{word:>9}  {}", text::unbroken(text))
    }

    /// A message that turned out not to be the last: progress.
    fn flush_message(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() || self.json {
            return Ok(());
        }
        writeln!(self.progress, "{}", text::visible_block(&text))
    }

    fn message_chunk(&mut self, update: &Value) -> io::Result<()> {
        let id = text_at(update, "/messageId").map(str::to_owned);
        if id != self.message {
            self.flush_message()?;
            self.message = id;
        }
        self.text.push_str(text_at(update, "/content/text").unwrap_or_default());
        Ok(())
    }

    fn tool_call(&mut self, update: &Value) -> io::Result<()> {
        let title = text_at(update, "/title").unwrap_or("tool call");
        self.flush_message()?;
        self.note("tool", title)
    }

    fn tool_update(&mut self, update: &Value) -> io::Result<()> {
        if text_at(update, "/status") != Some("failed") {
            return Ok(());
        }
        // A refused change still shows its diff; the reason is the text behind it.
        let contents = update.get("content").and_then(Value::as_array);
        let texts = contents.into_iter().flatten();
        let reason = texts.rev().find_map(|content| text_at(content, "/content/text"));
        self.note("failed", reason.unwrap_or("no reason was given"))
    }

    fn notice(&mut self, update: &Value) -> io::Result<()> {
        let word = text_at(update, "/severity").unwrap_or("note");
        self.note(word, text_at(update, "/title").unwrap_or_default())?;
        match text_at(update, "/description") {
            Some(detail) => writeln!(self.progress, "{}", text::visible_block(detail)),
            None => Ok(()),
        }
    }
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

impl Host for Report<'_> {
    fn update(&mut self, update: &Value) -> io::Result<()> {
        self.event(&json!({"type": "update", "update": update}))?;
        match text_at(update, "/sessionUpdate") {
            Some("agent_message_chunk") => self.message_chunk(update),
            Some("tool_call") => self.tool_call(update),
            Some("tool_call_update") => self.tool_update(update),
            Some("notice") => self.notice(update),
            _ => Ok(()),
        }
    }

    fn permission(&mut self, request: &Value) -> Verdict {
        let title = text_at(request, "/toolCall/title").unwrap_or("a tool call").to_owned();
        let call = request.get("toolCall").cloned().unwrap_or_default();
        let event = json!({"type": "permission", "toolCall": call, "outcome": "denied"});
        // The verdict is no in any case; a failing output shows at the next update.
        drop(self.event(&event).and_then(|()| self.note("denied", &title)));
        Verdict::Nobody
    }
}
