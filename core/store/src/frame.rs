//! Zstandard frames: one header frame, then one frame per batch of event lines.
