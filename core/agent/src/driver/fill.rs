//! How full the window is, and of what: the provider's count where there is one, and estimates in
//! proportion to it.

use super::Driver;
use crate::compaction::{Fill, tokens_of};
use crate::update::AgentUpdate;

impl Driver {
    /// The size of the context in tokens when so much of its estimate is gone: the counted size, in
    /// the proportion of the estimates.
    pub(super) fn size_without(&self, gone: u64) -> u64 {
        let session = self.recorder.session();
        let surface = session.projection();
        let all: u64 = surface.messages().map(|message| message.tokens()).sum();
        let all = all.saturating_add(tokens_of(self.assembly.specs.iter())).max(1);
        let size = session.state().context_size.tokens();
        size.saturating_mul(all.saturating_sub(gone)) / all
    }

    /// An estimate, corrected by how right those of this session were.
    pub(super) fn corrected(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.percent()) / 100
    }

    pub(super) fn percent(&self) -> u64 {
        self.recorder.session().state().context_size.percent()
    }

    /// What fills the context now.
    pub(super) fn fill(&self) -> Fill {
        let session = self.recorder.session();
        let fill = Fill::of(&session.projection(), &self.assembly.specs);
        fill.scaled(session.state().context_size.tokens())
    }

    /// Tells what fills the context, for whoever shows it.
    pub(super) async fn tell_fill(&self) {
        let fill = self.fill();
        if fill != Fill::default() {
            self.send(AgentUpdate::Fill(fill)).await;
        }
    }
}

/// The estimate that is so many tokens once it is corrected.
pub(super) fn uncorrected(tokens: u64, percent: u64) -> u64 {
    tokens.saturating_mul(100) / percent.max(1)
}
