//! Capabilities: given up for good, so that not even root keeps one.

use std::io;

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Gives up every capability of this thread, and the way back to them through programs that have
/// some by themselves.
///
/// # Errors
/// When capabilities would be left. A plain user, who has none, may not narrow what programs can
/// give; that those give nothing is then up to the second step.
pub(super) fn drop_all() -> io::Result<()> {
    clear_ambient_capability_set()?;
    // Each by itself, because the kernel knows no call for all; nobody looks first which are there.
    for one in every_capability() {
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // One more than this kernel has.
            Err(Errno::INVAL) => break,
            // Not there, or not known, and no right to change anything either.
            Err(Errno::PERM) if capability_is_in_bounding_set(one) != Ok(true) => {}
            Err(Errno::PERM) if !geteuid().is_root() => break,
            Err(error) => return Err(error.into()),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let left = capabilities(None)?;
    if !(left.permitted | left.inheritable).is_empty() {
        return Err(io::Error::other("capabilities are left"));
    }
    set_no_new_privs(true)?;
    Ok(())
}

/// Each capability that there can be, whether it has a name here or not.
fn every_capability() -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number))
}
