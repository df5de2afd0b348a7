//! The addresses of the internet that a waiting call reaches for.

use std::net::SocketAddr;

use libc::seccomp_notif;

use super::filter::ReachBy;
use super::memory::copy;
use super::network::{self, MAX_ADDRESS};

/// How many messages of one call are looked at.
const MAX_MESSAGES: u64 = 16;

/// Every address that `call` names, as far as it can be read.
pub(super) fn addresses_of(call: &seccomp_notif, by: ReachBy) -> Vec<SocketAddr> {
    let [_, second, third, ..] = call.data.args;
    let argument = |place: u32| call.data.args.get(place as usize).copied().unwrap_or_default();
    let of_message = |at| named_by(call.pid, at);
    match by {
        ReachBy::Address { at, length } => {
            address(call.pid, argument(at), argument(length)).into_iter().collect()
        }
        ReachBy::Message => of_message(second).into_iter().collect(),
        ReachBy::Messages => {
            let all = 0..third.min(MAX_MESSAGES);
            let places = all.map(|it| second.wrapping_add(it * size_of::<libc::mmsghdr>() as u64));
            places.filter_map(of_message).collect()
        }
    }
}

/// The address that the message at `at` names, if it names any. A message begins with where its address
/// is and how long, the latter in 32 bits.
fn named_by(pid: u32, at: u64) -> Option<SocketAddr> {
    let mut beginning = [0; 12];
    let count = copy(pid, at, &mut beginning)?;
    let (place, length) = beginning.get(..count)?.split_first_chunk()?;
    let length = u32::from_ne_bytes(*length.first_chunk()?);
    match u64::from_ne_bytes(*place) {
        0 => None,
        place => address(pid, place, length.into()),
    }
}

/// The address in the structure at `at`.
fn address(pid: u32, at: u64, length: u64) -> Option<SocketAddr> {
    let mut structure = [0; MAX_ADDRESS];
    let length = usize::try_from(length).ok()?.min(MAX_ADDRESS);
    let count = copy(pid, at, structure.get_mut(..length)?)?;
    network::address(structure.get(..count)?)
}
