//! The frame of a request: system prompt, tools, route, and the series they begin or continue.
//!
//! Inside a series the prefix of every request is byte-identical to the one before. Whatever
//! changes it is noticed here, before the request, and begins a new series with its reason in the
//! log. Design: request series.

use bridle_model::{
    CacheMiss, CacheWatch, Effort, ImageShelf, ModelRequest, PrefixGuard, PrefixStep, PreparedCall,
    RequestCache, Shown,
};
use bridle_session::{
    Draft, EventData, Message, RequestContext, RequestHeader, Route, Seq, SeriesNumber, Session,
    SurfaceOp, SystemMessage, Usage, UserMessage,
};

use super::Driver;
use crate::recorder::RecordError;

/// What the requests of the current series have in common.
#[derive(Debug)]
pub(super) struct Frame {
    series: SeriesNumber,
    route: Option<Route>,
    pub(super) tools: Vec<String>,
    /// Reasoning from before this event belongs to an earlier series and is not sent back.
    since: Seq,
    limits: Option<RequestContext>,
    /// Sees whether each request is the one before it with more at its end.
    prefix: PrefixGuard,
    /// How the last request stood to the one before it.
    step: PrefixStep,
    cache: CacheWatch,
    /// The images of the series, and up to where the person was told of those not shown.
    pub(super) shelf: ImageShelf,
    /// Those that the last request has shown.
    pub(super) shown: Shown,
    pub(super) told_images: Seq,
    /// What is kept of the last request, so that the next one costs only what is new.
    kept: RequestCache,
    /// Why a series began that the person has not been told of.
    began: Option<&'static str>,
}

impl Frame {
    /// The frame of a stored session's last request.
    pub(super) fn of(session: &Session) -> Self {
        let header = session.events().iter().rev().find_map(|event| match &event.data {
            EventData::RequestHeader(header) => Some((event.seq, header)),
            _ => None,
        });
        Self {
            series: header.map(|(_, header)| header.series).unwrap_or_default(),
            route: header.map(|(_, header)| header.route.clone()),
            tools: header.map(|(_, header)| header.tools.clone()).unwrap_or_default(),
            since: header.map(|(seq, _)| seq).unwrap_or_default(),
            limits: session.state().context.clone(),
            prefix: PrefixGuard::new(),
            step: PrefixStep::First,
            cache: CacheWatch::default(),
            shelf: ImageShelf::default(),
            shown: Shown::default(),
            told_images: Seq::default(),
            kept: RequestCache::default(),
            began: None,
        }
    }

    /// Why a series began, once.
    pub(super) fn take_began(&mut self) -> Option<&'static str> {
        self.began.take()
    }

    /// Whether thinking goes on or off against the last request. Levels in between change nothing
    /// that reasoning is bound to.
    fn switches_thinking(&self, level: Option<Effort>) -> bool {
        let was_off =
            |limits: &RequestContext| limits.thinking.as_deref() == Some(Effort::Off.id());
        let is_off = level == Some(Effort::Off);
        self.limits.as_ref().is_some_and(|limits| was_off(limits) != is_off)
    }
}

impl Driver {
    /// Brings system prompt, input and header onto the log for a request on `call`'s route, and
    /// makes that request. `input` is drained: a retry admits nothing twice.
    pub(super) fn frame(
        &mut self,
        call: &PreparedCall,
        attempt: u32,
        input: &mut Vec<UserMessage>,
    ) -> Result<ModelRequest, RecordError> {
        let system_changed = self.reconcile_system()?;
        for message in input.drain(..) {
            self.recorder.append(message)?;
        }
        let level = call.level(self.effort);
        let reason = self.reason_to_begin(call, level, system_changed);
        if let Some(reason) = reason {
            self.begin_series(call, reason)?;
        }
        self.record_limits(call, level)?;
        let request = self.model_request(level);
        let step = self.frame.prefix.follow(&request);
        // A retry is the same request again: it stands to the last answer as the first try did.
        if attempt == 1 || step != PrefixStep::Grown {
            self.frame.step = step;
        }
        let broken = matches!(step, PrefixStep::ToolsChanged | PrefixStep::MessagesChanged);
        if reason.is_some() || !broken {
            return Ok(request);
        }
        // Whatever changed the prefix without saying so: reasoning that is bound to the old one
        // would make the provider refuse this request and every later one.
        tracing::error!(?step, "the prefix of a series has changed");
        self.begin_series(call, "prefix-changed")?;
        let request = self.model_request(level);
        self.frame.prefix.follow(&request);
        Ok(request)
    }

    /// Why the request cannot be one more of the current series.
    fn reason_to_begin(
        &self,
        call: &PreparedCall,
        level: Option<Effort>,
        system_changed: bool,
    ) -> Option<&'static str> {
        let Some(route) = &self.frame.route else { return Some("start") };
        let tools = self.assembly.specs.iter().map(|spec| &spec.name);
        match () {
            () if route != call.route() => Some("model-changed"),
            () if self.recorder.session().state().shortened => Some("compacted"),
            () if self.recorder.session().state().series_broken => Some("damaged"),
            () if system_changed => Some("system-changed"),
            () if self.images_unshown().is_some() => self.images_unshown(),
            () if self.assembly.specs_changed || !tools.eq(&self.frame.tools) => {
                Some("tools-changed")
            }
            () if self.frame.switches_thinking(level) => Some("thinking-changed"),
            () => None,
        }
    }

    /// Logs what the route can take and is asked for, where that is not what it was before.
    fn record_limits(
        &mut self,
        call: &PreparedCall,
        level: Option<Effort>,
    ) -> Result<(), RecordError> {
        let limits = RequestContext {
            window: call.limits().window,
            max_output: call.limits().max_output,
            prices: call.prices().cloned(),
            thinking: level.map(|level| level.id().to_owned()),
        };
        if self.frame.limits.as_ref() != Some(&limits) {
            self.recorder.append(limits.clone())?;
            self.frame.limits = Some(limits);
        }
        Ok(())
    }

    /// Takes the counts of the answer to the last request; what it read anew through our doing.
    pub(super) fn missed_cache(&mut self, usage: &Usage) -> Option<CacheMiss> {
        let (step, now) = (self.frame.step, self.recorder.now());
        let miss = self.frame.cache.answered(step, usage, now)?;
        tracing::info!(%miss, "a cached prompt was read anew");
        (step != PrefixStep::Grown).then_some(miss)
    }

    /// The request as the log has it now: for the next answer, or for the summary that an open
    /// compaction asks for.
    pub(super) fn model_request(&self, level: Option<Effort>) -> ModelRequest {
        let session = self.recorder.session();
        let (projection, since) = match session.instructed() {
            None => (session.projection(), self.frame.since),
            // Where a part is left out, no reasoning stands behind what it was made for.
            Some(projection) => match session.open_compaction() {
                Some((event, start)) if start.omits.is_some() => (projection, event.seq),
                _ => (projection, self.frame.since),
            },
        };
        let specs = std::sync::Arc::clone(&self.assembly.specs);
        ModelRequest::new(projection, specs, level, since).with_cache(&self.frame.kept)
    }

    pub(super) fn begin_series(
        &mut self,
        call: &PreparedCall,
        reason: &'static str,
    ) -> Result<(), RecordError> {
        self.offer_all(call.limits().window);
        let tools: Vec<_> = self.assembly.specs.iter().map(|spec| spec.name.clone()).collect();
        self.frame.series = self.frame.series.next();
        self.frame.began = Some(reason);
        let header = self.recorder.append(RequestHeader {
            series: self.frame.series,
            reason: reason.to_owned(),
            route: call.route().clone(),
            tools: tools.clone(),
        })?;
        self.assembly.specs_changed = false;
        self.frame.shelf = ImageShelf::default();
        self.frame.since = header.seq;
        self.frame.route = Some(call.route().clone());
        self.frame.tools = tools;
        Ok(())
    }

    /// Puts the system prompt first, or replaces one that an older version of Bridle wrote.
    /// Says whether it changed.
    fn reconcile_system(&mut self) -> Result<bool, RecordError> {
        let projection = self.recorder.session().projection();
        let current = match projection.entries().next() {
            Some((seq, Message::System(message))) => Some((seq, message.text.as_str())),
            _ => None,
        };
        let data = SystemMessage { text: self.assembly.system_prompt.clone() };
        match current {
            // Nothing contributes to the prompt any more: the one that is there stays.
            _ if data.text.is_empty() => Ok(false),
            Some((_, text)) if text == data.text => Ok(false),
            Some((seq, _)) => {
                let op = SurfaceOp::Replace { first: seq, last: seq, covers: vec![seq] };
                self.recorder
                    .append_draft(Draft { data: data.into(), surface: Some(op) })
                    .map(|_| true)
            }
            None => self.recorder.append(data).map(|_| true),
        }
    }
}
