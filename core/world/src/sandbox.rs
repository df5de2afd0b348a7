//! What needs unsafe code: the process hardening and, later, confinement.
