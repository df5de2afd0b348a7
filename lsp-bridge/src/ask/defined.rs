//! Whether what a server that takes declarations for definitions has found is a definition, before it knows the
//! project: proved by what it says besides, or not known.

use serde_json::Value;

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

/// The place of an answer that names one.
fn only(result: &Value) -> Option<Place> {
    let mut places = places(result).ok()?;
    if places.elsewhere + places.unread > 0 || places.list.len() > 1 {
        return None;
    }
    places.list.pop()
}
