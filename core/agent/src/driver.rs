//! The driver: phases, turns, steps.
