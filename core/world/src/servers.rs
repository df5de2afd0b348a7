//! What every bridge to programs of others does around one, whatever protocol it speaks: its process is
//! followed to its end, what it says of itself is written down, and its keys are blanked in all of it.

mod journal;
mod process;
mod secrets;

pub use journal::{Journal, Voice};
pub use process::{End, ServerProcess};
pub use secrets::Secrets;
