//! Tells the person what a request is sent as, where that is not what it was before or not what
//! was chosen.

use bridle_model::PreparedCall;
use bridle_session::{Content, JobStarted, MessageId, UserMessage, UserSource};

use super::Driver;
use crate::update::NoticeLevel;

impl Driver {
    /// Tells about the frame of the request that goes out next.
    pub(super) async fn tell_frame(&mut self, call: &PreparedCall) {
        // A compaction has told of itself.
        let told = ["start", "compacted"];
        if let Some(reason) = self.frame.take_began().filter(|reason| !told.contains(reason)) {
            self.tell_series(call, reason).await;
        }
        let level = call.level(self.effort);
        if let (Some(wanted), true) = (self.effort, level != self.effort && level != self.told)
            && let Some(level) = level
        {
            let title = format!(
                "{} does not take the thinking level {wanted}; {level} is asked for.",
                call.route()
            );
            self.notice(NoticeLevel::Info, title, None).await;
        }
        self.told = level;
    }

    /// Tells the person, and the model before its next step, of jobs that an earlier process ran.
    pub(super) async fn tell_lost_jobs(&mut self, jobs: Vec<JobStarted>) {
        for JobStarted { id, title } in jobs {
            let text = format!(
                "The background job {id} (`{title}`) is lost: it ended with the process that ran \
                 it, and nobody saw how. Start it again if it is still needed."
            );
            self.notice(NoticeLevel::Warning, text.as_str(), None).await;
            self.inject(UserMessage {
                id: MessageId::new(format!("{id}-lost")),
                content: vec![Content::text(text)],
                source: UserSource::Context { name: "job".to_owned() },
            });
        }
    }

    async fn tell_series(&self, call: &PreparedCall, reason: &str) {
        let route = call.route();
        let (level, title) = match (&self.route, reason) {
            (Some(chosen), "model-changed") if chosen != route => (
                NoticeLevel::Warning,
                format!("{chosen} does not answer; {route} answers in its place."),
            ),
            (_, "model-changed") => (NoticeLevel::Info, format!("From here on {route} answers.")),
            (_, "thinking-changed") => (NoticeLevel::Info, "Thinking goes on or off here.".into()),
            (_, "tools-changed") => (NoticeLevel::Info, "The tools have changed.".into()),
            (_, "system-changed") => (NoticeLevel::Info, "The system prompt has changed.".into()),
            (_, "image-lost") => {
                (NoticeLevel::Info, "An image of the conversation is lost.".into())
            }
            (_, "images-given-up") => {
                (NoticeLevel::Info, "The oldest images of the conversation are given up.".into())
            }
            (_, "damaged") => (NoticeLevel::Info, "A part of the conversation is lost.".into()),
            _ => (NoticeLevel::Warning, "The earlier part of the conversation has changed.".into()),
        };
        let detail = "The model reads the conversation anew, and without the reasoning behind the \
                      earlier answers.";
        self.notice(level, title, Some(detail.to_owned())).await;
    }
}
