//! The network of a command that is to have none: a loopback of its own, on which its processes reach
//! each other and nothing else, and what can be told of the addresses that it tries.

#![expect(
    unsafe_code,
    reason = "an interface is switched on by requests that have no safe wrapper"
)]

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};

use rustix::net::{AddressFamily, SocketType, socket};

/// Where names are asked for.
const NAMES: u16 = 53;

/// How much of the list of sockets is read, in bytes. Those that listen stand at its beginning.
const MAX_SOCKETS: u64 = 1024 * 1024;

/// How long the structure of an address of the internet is at most, in bytes.
pub(super) const MAX_ADDRESS: usize = 28;

/// Switches on the loopback of this process's network, which it must be allowed to.
pub(super) fn raise_loopback() -> io::Result<()> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the structure is the one that this request reads; its name ends with a zero.
    match unsafe { libc::ioctl(any.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The address of the internet in the structure that a call takes.
pub(super) fn address(structure: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*structure.first_chunk()?));
    let port = u16::from_be_bytes(*structure.get(2..)?.first_chunk()?);
    let address: IpAddr = match family {
        libc::AF_INET => IpAddr::from(*structure.get(4..)?.first_chunk::<4>()?),
        libc::AF_INET6 => Ipv6Addr::from(*structure.get(8..)?.first_chunk::<16>()?).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// Whether an address leads out of a command's own loopback, or would if somebody there answered.
/// At that of names nobody can, because the port takes privileges.
pub(super) fn leads_out(address: SocketAddr) -> bool {
    !is_own(address) || address.port() == NAMES || !listens(address.port())
}

/// Whether an address that leads out of a command's own loopback is one at which somebody answers
/// here, where this process is. Otherwise the command has lost nothing.
pub(crate) fn is_missed(address: SocketAddr) -> bool {
    !is_own(address) || address.port() == NAMES || listens(address.port())
}

/// Whether this machine is meant.
fn is_own(address: SocketAddr) -> bool {
    address.ip().is_loopback() || address.ip().is_unspecified()
}

/// Whether some program listens for TCP at a port of this process's network.
fn listens(port: u16) -> bool {
    /// The state of a socket that does.
    const LISTENING: &str = "0A";
    let end = format!(":{port:04X}");
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|list| {
        let mut text = String::new();
        let read = fs_err::File::open(list)
            .and_then(|file| file.take(MAX_SOCKETS).read_to_string(&mut text));
        read.is_ok()
            && text.lines().any(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let is_port = fields.next().is_some_and(|local| local.ends_with(&end));
                is_port && fields.nth(1) == Some(LISTENING)
            })
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn addresses_are_read_as_the_system_reads_them() {
        let mut four = vec![2, 0, 0, 80, 192, 0, 2, 1];
        assert_eq!(address(&four), Some("192.0.2.1:80".parse().unwrap()));
        four.truncate(7);
        assert_eq!(address(&four), None);
        let mut six = vec![10, 0, 1, 187, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.push(1);
        assert_eq!(address(&six), Some("[::1]:443".parse().unwrap()));
        six.splice(18..20, [255, 255]);
        assert_eq!(address(&six), Some("0.0.0.1:443".parse().unwrap()));
        assert_eq!(address(b"\x01\x00/run/socket"), None);
        assert_eq!(address(b""), None);
    }

    #[test]
    fn a_port_is_missed_when_somebody_listens_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert!(is_missed(at) && !leads_out(at));
        // The end of a connection that has this port does not listen.
        let end = TcpStream::connect(at).unwrap().local_addr().unwrap();
        assert!(!is_missed(end) && leads_out(end));
        for address in ["192.0.2.1:80", "127.0.0.53:53"] {
            let address = address.parse().unwrap();
            assert!(is_missed(address) && leads_out(address));
        }
    }
}
