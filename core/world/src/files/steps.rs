//! The steps of a change in their order. A sync leaves no trace that a test could look at, and no
//! test could act between two steps, so the tests of this crate look and act here; in a product
//! this does nothing.

/// Notes a step.
pub(super) fn took(step: &'static str) {
    #[cfg(test)]
    tests::took(step);
    #[cfg(not(test))]
    let _ = step;
}

#[cfg(test)]
pub(super) use tests::{at, taken};

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    type Action = Box<dyn FnOnce()>;

    thread_local! {
        static TAKEN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
        static ACTION: RefCell<Option<(&'static str, Action)>> = const { RefCell::new(None) };
    }

    pub(super) fn took(step: &'static str) {
        TAKEN.with_borrow_mut(|taken| taken.push(step));
        let due = ACTION.with_borrow_mut(|action| action.take_if(|(at, _)| *at == step));
        if let Some((_, action)) = due {
            action();
        }
    }

    /// The steps of this thread since the last call.
    pub(in crate::files) fn taken() -> Vec<&'static str> {
        TAKEN.take()
    }

    /// Acts once after the next such step of this thread.
    pub(in crate::files) fn at(step: &'static str, action: impl FnOnce() + 'static) {
        ACTION.set(Some((step, Box::new(action))));
    }
}
