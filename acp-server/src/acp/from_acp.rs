//! From the protocol's content blocks to the session's content.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource, ResourceLink,
};
use bridle_session::Content;

use super::errors;

/// The content of a prompt, in order. Links keep their URI as it is, with line ranges and schemes
/// unknown here; the toolkit and the model make sense of them.
///
/// # Errors
/// When the prompt is empty or holds what was not advertised: images and audio.
pub(super) fn content(method: &str, blocks: Vec<ContentBlock>) -> Result<Vec<Content>, Error> {
    let empty =
        |content: &Content| matches!(content, Content::Text { text } if text.trim().is_empty());
    let content: Vec<Content> =
        blocks.into_iter().map(|block| part(method, block)).collect::<Result<_, _>>()?;
    if content.iter().all(empty) {
        return Err(errors::invalid_params(&format!("{method}: the prompt is empty")));
    }
    Ok(content)
}

fn part(method: &str, block: ContentBlock) -> Result<Content, Error> {
    match block {
        ContentBlock::Text(text) => Ok(Content::text(text.text)),
        ContentBlock::ResourceLink(ResourceLink { uri, name, .. }) => {
            Ok(Content::Link { uri, name })
        }
        ContentBlock::Resource(resource) => Ok(resource_part(resource)),
        ContentBlock::Image(_) => Err(refused(method, "images")),
        ContentBlock::Audio(_) => Err(refused(method, "audio")),
        // The reader replaces kinds that this SDK does not know; a later SDK may know more.
        _ => Err(refused(method, "this kind of content")),
    }
}

fn resource_part(resource: EmbeddedResource) -> Content {
    match resource.resource {
        EmbeddedResourceResource::TextResourceContents(text) => {
            Content::Resource { uri: text.uri, mime_type: text.mime_type, text: text.text }
        }
        EmbeddedResourceResource::BlobResourceContents(blob) => Content::Link {
            name: format!(
                "embedded {} data, which was not passed on",
                blob.mime_type.as_deref().unwrap_or("binary")
            ),
            uri: blob.uri,
        },
        _ => Content::text("[An embedded resource of an unknown kind was left out here.]"),
    }
}

fn refused(method: &str, what: &str) -> Error {
    errors::invalid_params(&format!("{method}: {what} cannot be taken; promptCapabilities says so"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(blocks: Value) -> Result<Vec<Content>, Error> {
        content("session/prompt", serde_json::from_value(blocks).unwrap())
    }

    #[test]
    fn every_block_reaches_the_session() {
        let content = read(json!([
            {"type": "text", "text": "look at"},
            {"type": "resource_link", "uri": "file:///w/a%20b.rs#L10:20", "name": "a b.rs"},
            {"type": "resource_link", "uri": "zed:///agent/thread/1?name=x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///w/c.md", "text": "# C",
                "mimeType": "text/markdown"}},
            {"type": "resource", "resource": {"uri": "file:///w/d.png", "blob": "AAAA",
                "mimeType": "image/png"}},
        ]));
        assert_eq!(
            content.unwrap(),
            [
                Content::text("look at"),
                Content::Link { uri: "file:///w/a%20b.rs#L10:20".into(), name: "a b.rs".into() },
                Content::Link { uri: "zed:///agent/thread/1?name=x".into(), name: "x".into() },
                Content::Resource {
                    uri: "file:///w/c.md".into(),
                    mime_type: Some("text/markdown".into()),
                    text: "# C".into(),
                },
                Content::Link {
                    uri: "file:///w/d.png".into(),
                    name: "embedded image/png data, which was not passed on".into(),
                },
            ]
        );
    }

    #[test]
    fn empty_prompts_images_and_audio_are_refused_in_words() {
        for (blocks, says) in [
            (json!([]), "the prompt is empty"),
            (json!([{"type": "text", "text": ""}]), "the prompt is empty"),
            (json!([{"type": "text", "text": " \n\t\u{a0}"}]), "the prompt is empty"),
            (json!([{"type": "image", "data": "AA", "mimeType": "image/png"}]), "images"),
            (json!([{"type": "audio", "data": "AA", "mimeType": "audio/wav"}]), "audio"),
        ] {
            let error = read(blocks).unwrap_err();
            assert_eq!(i32::from(error.code), -32602);
            assert!(error.message.contains(says), "{}", error.message);
        }
    }
}
