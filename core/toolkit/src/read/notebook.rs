//! A Jupyter notebook as its cells: their sources whole, their outputs clipped.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The largest notebook (bytes) that is shown as cells.
pub(super) const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The most lines and bytes of one output that are shown.
const OUTPUT_LINES: usize = 20;
const OUTPUT_BYTES: usize = 2 * 1024;

/// Format 4 and later, as far as it is shown.
#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    source: Value,
    execution_count: Option<u64>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    /// Of a stream.
    text: Option<Value>,
    /// Of a result, by media type.
    #[serde(default)]
    data: Map<String, Value>,
    ename: Option<String>,
    evalue: Option<String>,
}

/// The text of the cells, or `None` for what is no notebook.
pub(super) fn cells(bytes: &[u8]) -> Option<String> {
    let notebook: Notebook = serde_json::from_slice(bytes).ok()?;
    let mut shown = String::new();
    for (number, cell) in (1..).zip(&notebook.cells) {
        let ran = cell.execution_count.map(|count| format!(", run {count}")).unwrap_or_default();
        shown.push_str(&format!("[cell {number}: {}{ran}]\n", cell.cell_type));
        push_lines(&mut shown, &joined(&cell.source));
        for output in &cell.outputs {
            push_output(&mut shown, output);
        }
        shown.push('\n');
    }
    Some(shown)
}

fn push_output(shown: &mut String, output: &Output) {
    if let Some(name) = &output.ename {
        let value = output.evalue.as_deref().unwrap_or_default();
        shown.push_str("[error]\n");
        push_clipped(shown, &format!("{name}: {value}"));
        return;
    }
    let text = output.text.as_ref().or_else(|| output.data.get("text/plain"));
    if let Some(text) = text {
        shown.push_str("[output]\n");
        push_clipped(shown, &joined(text));
    }
    for kind in output.data.keys().filter(|kind| *kind != "text/plain") {
        shown.push_str(&format!("[output as {kind}, not shown]\n"));
    }
}

fn push_clipped(shown: &mut String, text: &str) {
    let mut room = OUTPUT_BYTES;
    let fits = |line: &&str| {
        let fits = line.len() <= room;
        room = room.saturating_sub(line.len());
        fits
    };
    let kept: usize =
        text.split_inclusive('\n').take(OUTPUT_LINES).take_while(fits).map(str::len).sum();
    // Of a first line that is too long its beginning is shown.
    let kept = if kept > 0 { kept } else { text.floor_char_boundary(OUTPUT_BYTES) };
    let (head, rest) = text.split_at(kept);
    push_lines(shown, head);
    if !rest.is_empty() {
        shown.push_str(&format!("[{} more bytes of this output]\n", rest.len()));
    }
}

fn push_lines(shown: &mut String, text: &str) {
    shown.push_str(text);
    if !text.is_empty() && !text.ends_with('\n') {
        shown.push('\n');
    }
}

/// Texts are one string, or several to be put together.
fn joined(text: &Value) -> String {
    match text {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.to_string(),
    }
}
