//! Asking the model for the summary that an open compaction wants: a request like any other, whose
//! answer nobody is shown while it comes and in which no tool is called.

use std::panic::AssertUnwindSafe;

use bridle_model::{
    Assembled, Assembler, Chunk, ModelFailure, ModelRequest, PreparedCall, StopReason,
};
use bridle_session::{Block, Usage};
use futures::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::driver::halt::Halt;
use crate::driver::request::broken;
use crate::hooks::{OnStream, StreamInput};

/// A summary, or why there is none; and what it cost.
type Summarised = (Result<String, ModelFailure>, Option<Usage>);

impl Driver {
    /// Sends the request for the summary that the open compaction asks for.
    pub(super) async fn summarise(
        &mut self,
        call: PreparedCall,
        token: &CancellationToken,
    ) -> Result<Summarised, Halt> {
        let request = self.model_request(call.level(self.effort));
        let request = self.illustrated(&call, request, token).await?;
        let mut assembler = Assembler::new();
        let ended = self.listen(call, request, &mut assembler, token).await;
        let usage = Some(assembler.usage()).filter(|usage| *usage != Usage::default());
        let summary = ended.and_then(|()| text_of(&assembler.finish()).map_err(useless));
        Ok((summary, usage))
    }

    /// Takes in an answer that nobody is shown while it comes.
    async fn listen(
        &mut self,
        call: PreparedCall,
        request: ModelRequest,
        assembler: &mut Assembler,
        token: &CancellationToken,
    ) -> Result<(), ModelFailure> {
        let hooks = self.scope.hooks::<OnStream>();
        let input = StreamInput { call, request, token: token.child_token() };
        let opening = hooks.run(input, async |input| input.call.stream(input.request, input.token));
        let cancelled = |_| ModelFailure::cancelled();
        let mut chunks = self.unless_cancelled(opening, token).await.map_err(cancelled)?;
        loop {
            let next = AssertUnwindSafe(chunks.next()).catch_unwind();
            match self.unless_cancelled(next, token).await.map_err(cancelled)? {
                Ok(Some(Ok(chunk))) => {
                    assembler.push(&chunk, self.recorder.now());
                    if matches!(chunk, Chunk::Stop(_)) {
                        return Ok(());
                    }
                }
                Ok(Some(Err(failure))) => return Err(failure),
                Ok(None) => return Err(broken("the summary ended without an end mark")),
                Err(_) => {
                    tracing::error!("the model adapter panicked");
                    return Err(broken("the model adapter failed inside Bridle"));
                }
            }
        }
    }
}

/// The text of a summary, or why the answer holds none.
fn text_of(answer: &Assembled) -> Result<String, &'static str> {
    if matches!(answer.stop, Some(StopReason::MaxTokens | StopReason::ContextFull)) {
        return Err("it was cut off because it was too long");
    }
    if answer.stop == Some(StopReason::Refusal) {
        return Err("the model refused to write it");
    }
    // What is said before a call is no summary, but what is about to be looked at.
    if answer.blocks.iter().any(|timed| matches!(timed.block, Block::ToolCall { .. })) {
        return Err("tools were called in its place");
    }
    let texts = answer.blocks.iter().filter_map(|timed| match &timed.block {
        Block::Text { text } => Some(text.trim()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    match text.trim() {
        "" => Err("it was empty"),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn useless(why: &str) -> ModelFailure {
    broken(&format!("the summary was of no use: {why}"))
}
