//! HTML in the making. What is not a literal of this program can only get in as text, as a number
//! or through [`super::super::prose`], so no content of a session becomes markup.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bridle_session::BlobRef;
use bridle_store::BlobStore;

use super::super::prose;
use crate::text::visible_block;

/// The most bytes of an image that a page takes in.
const MAX_IMAGE: u64 = 16 * 1024 * 1024;

/// The images that every browser shows and none runs.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(super) struct Html<'a> {
    out: String,
    blobs: &'a dyn BlobStore,
}

impl<'a> Html<'a> {
    pub(super) fn new(blobs: &'a dyn BlobStore) -> Self {
        Self { out: String::new(), blobs }
    }

    /// Markup of ours.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.out.push_str(markup);
        self
    }

    /// Any text, in an element or in a quoted attribute. What a reader could not see is written
    /// out.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for c in visible_block(text).chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                c => self.out.push(c),
            }
        }
        self
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        // Writing to a string cannot fail.
        write!(self.out, "{number}").unwrap_or_default();
        self
    }

    /// Markdown of a model or a tool.
    pub(super) fn prose(&mut self, markdown: &str) -> &mut Self {
        self.out.push_str(&prose::html(&visible_block(markdown)));
        self
    }

    /// A stored image, inside the page; what keeps it out is said in its place.
    pub(super) fn image(&mut self, blob: &BlobRef, mime_type: &str) -> &mut Self {
        match self.load(blob, mime_type) {
            Ok((mime_type, bytes)) => {
                self.raw("<img alt=\"Image\" src=\"data:").raw(mime_type).raw(";base64,");
                STANDARD.encode_string(bytes, &mut self.out);
                self.raw("\">")
            }
            Err(why) => {
                self.raw("<p class=\"attached\">Image (").text(mime_type).raw(") not shown: ");
                self.text(&why).raw("</p>")
            }
        }
    }

    fn load(&self, blob: &BlobRef, mime_type: &str) -> Result<(&'static str, Vec<u8>), String> {
        let known = IMAGES.into_iter().find(|known| *known == mime_type);
        let known = known.ok_or("not a format that a page takes in")?;
        if blob.bytes > MAX_IMAGE {
            return Err(format!("it has {} bytes", blob.bytes));
        }
        Ok((known, self.blobs.get(blob).map_err(|error| error.to_string())?))
    }

    pub(super) fn into_string(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_in_elements_and_attributes() {
        let store = bridle_store::MemoryStore::new();
        let mut html = Html::new(&store);
        html.raw("<p title=\"").text("\" onclick='x'").raw("\">").text("<b>&\u{202e}\u{1b}");
        let expected = r#"<p title="&quot; onclick=&#39;x&#39;">&lt;b&gt;&amp;\u{202e}\u{1b}"#;
        assert_eq!(html.into_string(), expected);
    }

    #[test]
    fn an_image_is_in_the_page_or_its_absence_is_said() {
        let store = bridle_store::MemoryStore::new();
        let blob = store.put(b"png").unwrap();
        let shown = |mime_type: &str, blob: &BlobRef| {
            let mut html = Html::new(&store);
            html.image(blob, mime_type);
            html.into_string()
        };
        let expected = "<img alt=\"Image\" src=\"data:image/png;base64,cG5n\">";
        assert_eq!(shown("image/png", &blob), expected);
        for (mime_type, bytes) in [("image/svg+xml", 3), ("image/png", 4), ("image/png", u64::MAX)]
        {
            let html = shown(mime_type, &BlobRef { bytes, ..blob.clone() });
            assert!(html.contains("not shown") && !html.contains("<img"), "{html}");
        }
    }
}
