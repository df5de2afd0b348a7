//! What a server that takes declarations for definitions has found: a definition or a declaration, proved by what
//! it says besides, or not known.

use serde_json::{Value, json};

use super::{Asking, DEFINITION, LIMIT, is_empty, read};
use crate::answer::{Place, places};
use crate::definition::Hasty;
use crate::position::byte_at;

/// Where a name is declared; where its definition is not known, the answer to both questions.
const DECLARATION: &str = "textDocument/declaration";

/// What clangd knows of a name from the file alone, with what it includes.
const SYMBOL_INFO: &str = "textDocument/symbolInfo";

impl Asking<'_> {
    /// Whether this answer to this question is known to be the definition, whatever the server learns yet.
    pub(super) async fn has_defined(&self, params: &Value, result: &Value) -> bool {
        let may_declare = self.life.definition.hasty == Some(Hasty::Declarations);
        // One that is done meanwhile is asked again anyway.
        let is_asked = self.question.method == DEFINITION && !is_empty(result);
        if !may_declare || !is_asked || self.finds() || !self.life.supports(DECLARATION) {
            return false;
        }
        let Some(defined) = only(result) else { return false };
        let Some(declared) = self.also(DECLARATION, params).await.as_ref().and_then(only) else {
            return false;
        };
        if declared != defined {
            return self.has_same_name(&declared, &defined).await;
        }
        let known = self.also(SYMBOL_INFO, params).await;
        let known = known.as_ref().and_then(|known| known.pointer("/0/definitionRange"));
        known.and_then(only) == Some(defined)
    }

    /// The answer to this question, with the definition in it where the question stands on that: asked there, such
    /// a server names the declaration.
    pub(super) async fn of_definition(&self, params: &Value, result: Value) -> Value {
        let may_declare = self.life.definition.hasty == Some(Hasty::Declarations);
        if !may_declare || self.question.method != DEFINITION || is_empty(&result) {
            return result;
        }
        let position = params.get("position");
        let range = json!({"start": position, "end": position});
        let asked = json!({"uri": params.pointer("/textDocument/uri"), "range": range});
        let Some(asked) = only(&asked) else { return result };
        if only(&result).is_some_and(|answered| holds(&answered, &asked)) {
            return result;
        }
        let known = self.also(SYMBOL_INFO, params).await;
        let defined = known.as_ref().and_then(|known| known.pointer("/0/definitionRange"));
        let is_here = |one: &&Value| only(one).is_some_and(|defined| holds(&defined, &asked));
        defined.filter(is_here).cloned().unwrap_or(result)
    }

    /// The answer to another question about the same place in the same text.
    async fn also(&self, method: &str, params: &Value) -> Option<Value> {
        self.life.ask(method, params.clone(), LIMIT, self.token).await.ok()
    }

    /// Whether both places have the same name: what a server remembers of a file that it has not looked at again
    /// may have moved.
    async fn has_same_name(&self, one: &Place, other: &Place) -> bool {
        let name = self.text_at(one).await;
        name.is_some() && name == self.text_at(other).await
    }

    async fn text_at(&self, place: &Place) -> Option<String> {
        let source = read(&self.project.files, &place.path).await.ok()?;
        let at = |position| byte_at(&source.text, position, self.life.encoding);
        let text = source.text.get(at(place.range.start)..at(place.range.end))?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Whether `one` begins and ends around `other`.
fn holds(one: &Place, other: &Place) -> bool {
    let around = one.range.start <= other.range.start && other.range.end <= one.range.end;
    one.path == other.path && around
}

/// The place of an answer that names one.
fn only(result: &Value) -> Option<Place> {
    let mut places = places(result).ok()?;
    if places.elsewhere + places.unread > 0 || places.list.len() > 1 {
        return None;
    }
    places.list.pop()
}
