//! The lists of a server: all pages, and no more than can be kept.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::connection::{Connection, Unavailable};
use crate::request::Reply;

/// The most pages that are read.
const MAX_PAGES: usize = 50;

/// The most items that are kept.
const MAX_ITEMS: usize = 2_000;

/// The most bytes of all items together.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// What a server lists.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) items: Vec<Value>,
    /// Why this is not all of it, for a person.
    pub(crate) fault: Option<String>,
}

impl Pages {
    /// Asks `method` for all that it lists under `field`.
    ///
    /// # Errors
    /// [`Unavailable`] when the server does not answer, or refuses.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ask(
        connection: &Connection,
        method: &str,
        field: &str,
    ) -> Result<Self, Unavailable> {
        let mut pages = Self::default();
        let (mut cursors, mut bytes) = (HashSet::new(), 0);
        let mut cursor = None::<String>;
        for _ in 0..MAX_PAGES {
            let params = cursor.as_ref().map_or_else(|| json!({}), |it| json!({"cursor": it}));
            let mut asked = connection.ask(method, params).await?;
            let reply = asked.reply().await;
            asked.done();
            let mut page = match reply {
                Reply::Result(page) => page,
                Reply::Refused(why) | Reply::Visits(_, why) | Reply::Fault(_, why) => {
                    return Err(Unavailable::new(format!("it lists no {field}: {why}")));
                }
            };
            let Some(items) = page.get_mut(field).and_then(Value::as_array_mut) else {
                return Ok(pages.cut(format!("its list of {field} is none")));
            };
            for item in items {
                bytes += item.to_string().len();
                if pages.items.len() == MAX_ITEMS || bytes > MAX_BYTES {
                    return Ok(pages.cut(format!(
                        "it lists more than {MAX_ITEMS} {field} or {MAX_BYTES} bytes of them; the rest \
                         was left out"
                    )));
                }
                pages.items.push(item.take());
            }
            // An empty cursor is one, too.
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            match &cursor {
                None => return Ok(pages),
                Some(next) if cursors.insert(next.clone()) => {}
                Some(_) => {
                    return Ok(
                        pages.cut(format!("its list of {field} never ends; a page came again"))
                    );
                }
            }
        }
        Ok(pages.cut(format!(
            "its list of {field} has more than {MAX_PAGES} pages; the rest was left out"
        )))
    }

    fn cut(self, fault: String) -> Self {
        Self { fault: Some(fault), ..self }
    }
}
