//! Old results of tools that are large: their beginning and end stay, the middle goes. No model is
//! asked for that.

use bridle_session::{Content, Message, Projection, Seq, ToolResult};

use crate::cut::without_middle;

/// A text of a result that is larger than this is cut (bytes).
const LARGE: usize = 4 * 1024;
/// What stays of its beginning and of its end (bytes).
const BEGINNING: usize = 1_536;
const END: usize = 512;

/// A result that stands in the place of its longer form.
#[derive(Clone, Debug)]
pub(crate) struct Pruned {
    /// The longer form.
    pub(crate) seq: Seq,
    /// The shorter one.
    pub(crate) result: ToolResult,
    /// By how much it is shorter: an estimate in tokens, before correction.
    pub(crate) saved: u64,
}

/// The large results among these nodes, cut.
pub(crate) fn prunable(surface: &Projection, covers: &[Seq]) -> Vec<Pruned> {
    let (Some(first), Some(last)) = (covers.first(), covers.last()) else { return Vec::new() };
    let behind = surface.entries().skip_while(|(seq, _)| seq != first);
    let mut span = behind.scan(false, |is_over, entry| {
        let was_over = std::mem::replace(is_over, entry.0 == *last);
        (!was_over).then_some(entry)
    });
    std::iter::from_fn(|| span.next()).filter_map(|(seq, message)| pruned(seq, message)).collect()
}

fn pruned(seq: Seq, message: Message<'_>) -> Option<Pruned> {
    let Message::ToolResult(result) = message else { return None };
    let is_large = |part: &Content| matches!(part, Content::Text { text } if text.len() > LARGE);
    if !result.content.iter().any(is_large) {
        return None;
    }
    let content = result.content.iter().map(|part| match part {
        Content::Text { text } if text.len() > LARGE => Content::text(cut(text)),
        part => part.clone(),
    });
    let shorter = ToolResult { content: content.collect(), ..result.clone() };
    let saved = message.tokens().checked_sub(Message::ToolResult(&shorter).tokens())?;
    Some(Pruned { seq, result: shorter, saved })
}

/// A text of a result without its middle.
fn cut(text: &str) -> String {
    without_middle(text, BEGINNING, END, |bytes| {
        format!(
            "[… {bytes} bytes were left out here when the conversation was shortened; run the tool \
             again if you need them …]"
        )
    })
}
