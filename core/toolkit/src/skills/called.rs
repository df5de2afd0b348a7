//! A skill that the person calls: a message that begins with `/name` brings the skill's body with it, as
//! a message of its own before it. The message itself stays as it was typed.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{PreStep, SKILL, StepDecision, StepInput};
use bridle_compose::{Around, Next};
use bridle_session::{Content, MessageId, UserMessage, UserSource};

use super::front_matter::is_name;
use super::{Listing, Skill, Skills, body};

/// Listens for names of skills in what people say.
pub(super) struct Called(pub(super) Arc<Skills>);

#[async_trait]
impl Around<PreStep> for Called {
    async fn around(&self, input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        if input.messages.iter().all(|message| called(message).is_none()) {
            return next.run(input).await;
        }
        let listing = self.0.refresh().await;
        let mut messages = Vec::new();
        let mut told: Vec<&Skill> = Vec::new();
        for message in input.messages {
            if let Some(skill) = called(&message).and_then(|name| find(&listing, name))
                && !told.contains(&skill)
            {
                told.push(skill);
                let id = format!("skill-{}-{}-{}", input.turn, input.step, skill.name);
                messages.push(UserMessage {
                    id: MessageId::new(id),
                    content: vec![Content::text(self.text(skill.clone()).await)],
                    source: UserSource::Context { name: format!("{SKILL}{}", skill.name) },
                });
            }
            messages.push(message);
        }
        next.run(StepInput { messages, ..input }).await
    }
}

impl Called {
    async fn text(&self, skill: Skill) -> String {
        let (skills, name) = (Arc::clone(&self.0), skill.name.clone());
        let read = tokio::task::spawn_blocking(move || body::body(&skills.world, &skill)).await;
        let body = match read {
            Ok(Ok(body)) => body,
            Ok(Err(why)) => format!("[The skill could not be read: {why}]"),
            Err(error) => {
                tracing::error!(%error, "reading a skill failed");
                "[The skill could not be read.]".to_owned()
            }
        };
        format!(
            "The user calls the skill `{name}`. Do what it says; what stands behind /{name} in the \
             user's message are its arguments.\n{body}"
        )
    }
}

fn find<'a>(listing: &'a Listing, name: &str) -> Option<&'a Skill> {
    listing.find(name).filter(|skill| skill.for_person)
}

/// What could be the name of a skill: the first word of what a person says, behind a slash.
fn called(message: &UserMessage) -> Option<&str> {
    let text = Content::first_text(&message.content)?;
    if message.source != UserSource::Human {
        return None;
    }
    let name = text.split_whitespace().next()?.strip_prefix('/')?;
    is_name(name).then_some(name)
}
