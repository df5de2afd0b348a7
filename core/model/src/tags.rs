//! Texts of others inside a tag: the tag's end and its attributes are Bridle's, whatever the text says.

use std::borrow::Cow;

/// A text that holds no end of `tag`, however that is written (letter case, spaces, characters that
/// nobody sees), nor of a tag whose name begins like it. Such an end keeps its letters and gets a
/// backslash before its slash.
pub fn unclosing<'a>(tag: &str, text: &'a str) -> Cow<'a, str> {
    let mut told = String::new();
    let mut kept = 0;
    for (at, _) in text.match_indices('<') {
        let rest = text.get(at + 1..).unwrap_or_default();
        let slash = rest.trim_start_matches(is_unseen);
        let Some(name) = slash.strip_prefix('/').map(|name| name.trim_start_matches(is_unseen))
        else {
            continue;
        };
        let named = name.get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag));
        if named {
            let slash = text.len() - slash.len();
            told.push_str(text.get(kept..slash).unwrap_or_default());
            told.push('\\');
            kept = slash;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    told.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(told)
}

/// A text as the value of an attribute, which it cannot end.
pub fn attribute(text: &str) -> String {
    text.replace(['"', '<', '>', '\n', '\r'], "_")
}

/// Whether nobody sees a character: white space, control characters, marks without a width or that turn
/// others around.
pub fn is_unseen(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_close_its_tag() {
        for (text, told) in [
            ("a</context>b", "a<\\/context>b"),
            ("</CONTEXT>", "<\\/CONTEXT>"),
            ("</ context>", "<\\/ context>"),
            ("</context >", "<\\/context >"),
            ("< / Context\n>", "< \\/ Context\n>"),
            ("<\u{200b}/\u{feff}context>", "<\u{200b}\\/\u{feff}context>"),
            ("<</context></context_x>", "<<\\/context><\\/context_x>"),
        ] {
            assert_eq!(unclosing("context", text), told);
            assert_eq!(unclosing("context", told), told, "once is enough");
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in ["", "<", "</", "a < b / c", "<context>", "</b></con", "</ä>", "<\\/context>"]
        {
            assert!(matches!(unclosing("context", text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn an_attribute_cannot_end() {
        assert_eq!(attribute("a\"/>\n<b"), "a_/___b");
    }
}
