//! The list behind a surface: long, shared with projections, and grown at its end.
//!
//! It is cut into chunks that are shared once they are full, so that an append beside a living
//! projection copies one chunk and not the list. A change elsewhere may cost the whole list.

use std::ops::Range;
use std::sync::Arc;

use crate::event::Event;

/// How many nodes a full chunk holds.
const CHUNK: usize = 64;

/// The events on a surface in their order. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// Chunks of [`CHUNK`] nodes each.
    full: Arc<Vec<Chunk>>,
    /// The nodes behind them, fewer than [`CHUNK`].
    tail: Chunk,
}

type Chunk = Arc<Vec<Arc<Event>>>;

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.full.len().saturating_mul(CHUNK).saturating_add(self.tail.len())
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Arc<Event>> {
        let chunk = self.full.get(index / CHUNK).unwrap_or(&self.tail);
        chunk.get(index % CHUNK).filter(|_| index < self.len())
    }

    pub(crate) fn first(&self) -> Option<&Arc<Event>> {
        self.get(0)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Event>> + Clone {
        self.full.iter().chain(std::iter::once(&self.tail)).flat_map(|chunk| chunk.iter())
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        Arc::make_mut(&mut self.tail).push(event);
        if self.tail.len() == CHUNK {
            Arc::make_mut(&mut self.full).push(std::mem::take(&mut self.tail));
        }
    }

    /// Puts the event in the place of a node.
    pub(crate) fn set(&mut self, index: usize, event: Arc<Event>) {
        let tail = &mut self.tail;
        let chunk = Arc::make_mut(&mut self.full).get_mut(index / CHUNK).unwrap_or(tail);
        if let Some(node) = Arc::make_mut(chunk).get_mut(index % CHUNK) {
            *node = event;
        }
    }

    /// Puts the event in the place of these nodes; of none, before the node that stands there.
    pub(crate) fn replace(&mut self, span: Range<usize>, event: Arc<Event>) {
        if span.len() == 1 {
            self.set(span.start, event);
            return;
        }
        let before = self.iter().take(span.start);
        let behind = self.iter().skip(span.end);
        let nodes: Vec<_> = before.chain([&event]).chain(behind).cloned().collect();
        *self = Self::default();
        nodes.into_iter().for_each(|node| self.push(node));
    }
}
