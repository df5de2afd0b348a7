//! What every bridge to programs of others does around one, whatever protocol it speaks: its process is
//! followed to its end, what it says of itself is written down, its keys are blanked in all of it, and what
//! acts on its readers unseen is written out.

mod journal;
mod process;
mod secrets;
mod written;

pub use journal::{Journal, Voice};
pub use process::{End, ServerProcess};
pub use secrets::Secrets;
pub use written::written_out;
