//! What a person can type: one file per command.
