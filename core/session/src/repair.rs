//! Repair of a log whose process died in mid-turn.
