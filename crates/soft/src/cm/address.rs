//! Conversions of socket addresses, and the hosts of the fabric that have these addresses.
//!
//! Every address of this machine leads to the device. A process that is given an address of its own acts as a
//! separate host. It has only this address and the addresses of the loopback network, and none of the
//! machine's other addresses. The loopback network is private to each host.

use crate::errno::{EINVAL, Errno};
use crate::fabric::locks;
use doorbell_abi::cm::Address;
use doorbell_launch::is_of_one_host;
use doorbell_launch::say::say;
use doorbell_launch::variables::IP;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Prefix of the names of all files that rdma_cm creates in the fabric's folder.
pub(super) const PREFIX: &str = crate::fabric::folder::CM_PREFIX;

/// The address in a program's `sockaddr`; `None` for `AF_UNSPEC`.
///
/// # Errors
/// `EINVAL` for a family other than IPv4 and IPv6.
pub(super) fn parse(bytes: &Address) -> Result<Option<SocketAddr>, Errno> {
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match i32::from(family) {
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET => Ok(Some(SocketAddr::new(Ipv4Addr::from(word(4)).into(), port))),
        libc::AF_INET6 => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[8..24]);
            let (flow, scope) = (u32::from_ne_bytes(word(4)), u32::from_ne_bytes(word(24)));
            Ok(Some(SocketAddrV6::new(ip.into(), port, flow, scope).into()))
        }
        _ => Err(EINVAL),
    }
}

/// Converts an address to a program's `sockaddr`; all zeros for `None`.
pub(super) fn to_bytes(address: Option<SocketAddr>) -> Address {
    let mut bytes = Address::default();
    let Some(address) = address else { return bytes };
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => {
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Checks that a link-local address names its interface.
///
/// # Errors
/// `EINVAL` if the address names no interface, `ENODEV` if the interface does not exist.
pub(super) fn check_link(address: SocketAddr) -> Result<(), Errno> {
    let SocketAddr::V6(v6) = address else { return Ok(()) };
    if !v6.ip().is_unicast_link_local() {
        return Ok(());
    }
    let mut name = [0; libc::IF_NAMESIZE];
    match v6.scope_id() {
        0 => Err(EINVAL),
        // This calls libc, because rustix needs a socket for this call.
        // SAFETY: room for a name.
        scope if unsafe { libc::if_indextoname(scope, name.as_mut_ptr()) }.is_null() => {
            Err(Errno(libc::ENODEV))
        }
        _ => Ok(()),
    }
}

/// Gives a link-local address `from` the interface of `to`. Other addresses stay as they are.
pub(super) fn on_link_of(to: SocketAddr, mut from: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(to), SocketAddr::V6(from)) = (to, &mut from)
        && from.ip().is_unicast_link_local()
    {
        from.set_scope_id(to.scope_id());
    }
    from
}

/// The wildcard address of the family of `address`, with port 0.
pub(super) fn any_like(address: SocketAddr) -> SocketAddr {
    let any = if address.ip().to_canonical().is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(any, 0)
}

/// A host of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// The host of all processes that have no address of their own.
    Machine,
    /// The host of all processes that were given this address.
    Of(IpAddr),
}

impl Host {
    /// The host of this process.
    pub(super) fn own() -> Host {
        static OWN: OnceLock<Host> = OnceLock::new();
        *OWN.get_or_init(|| match std::env::var(IP) {
            Err(_) => Host::Machine,
            Ok(text) => match text.parse::<IpAddr>() {
                Ok(ip) if is_of_one_host(ip) => Host::Of(ip.to_canonical()),
                _ => {
                    say(format_args!(
                        "{IP} is {text:?}, but must be the IP address of one host, outside the loopback \
                         network; this process uses the machine's addresses"
                    ));
                    Host::Machine
                }
            },
        })
    }

    /// Whether the host has this address. The address is not a wildcard.
    pub(super) fn has(self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback()
            || match self {
                Host::Machine => interfaces().contains(&ip),
                Host::Of(own) => own == ip,
            }
    }

    /// The part of a file name that identifies the host.
    pub(super) fn name(self) -> String {
        match self {
            Host::Machine => "machine".into(),
            Host::Of(ip) => ip.to_string(),
        }
    }

    /// The host that has this address, as seen from this host; `None` if no host has it.
    pub(super) fn find(self, ip: IpAddr, folder: &File) -> Option<Host> {
        let ip = ip.to_canonical();
        if ip.is_unspecified() || self.has(ip) {
            return Some(self);
        }
        if is_up(folder, ip) {
            return Some(Host::Of(ip));
        }
        // If this host is the machine, the first check has already covered the machine's addresses.
        (self != Host::Machine && Host::Machine.has(ip)).then_some(Host::Machine)
    }

    /// The source address of messages from this host to the address `to`.
    pub(super) fn source(self, to: IpAddr) -> IpAddr {
        let to = to.to_canonical();
        match self {
            _ if to.is_loopback() => to,
            Host::Of(own) => own,
            Host::Machine => {
                let all = interfaces();
                let loopback =
                    if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
                let like = || all.iter().find(|ip| ip.is_ipv4() == to.is_ipv4()).copied();
                if all.contains(&to) { to } else { like().unwrap_or(loopback) }
            }
        }
    }

    /// The source address of messages from this host to the address `to`; `None` if no host has this address.
    /// Multicast groups are reachable from every host.
    pub(super) fn source_if_found(self, to: IpAddr, folder: &File) -> Option<IpAddr> {
        let is_own = !to.is_multicast() && self.find(to, folder)? == self;
        Some(if is_own { to.to_canonical() } else { self.source(to) })
    }

    /// Announces this host to other processes while the returned file is open. [`Host::Machine`] needs no
    /// announcement and returns `None`.
    pub(super) fn announce(self, folder: &File) -> io::Result<Option<File>> {
        let Host::Of(ip) = self else { return Ok(None) };
        let file = open(folder, &host_file(ip), true)?;
        locks::lock(&file, 0..1, true)?;
        Ok(Some(file))
    }
}

fn host_file(ip: IpAddr) -> String {
    format!("{PREFIX}host-{ip}")
}

/// Whether a living process has this address as its own.
fn is_up(folder: &File, ip: IpAddr) -> bool {
    open(folder, &host_file(ip), false).is_ok_and(|file| locks::is_locked(&file, 0..1).unwrap_or(false))
}

/// The path of a file in an open folder.
pub(super) fn path(folder: &File, name: &str) -> PathBuf {
    format!("/proc/thread-self/fd/{}/{name}", folder.as_raw_fd()).into()
}

/// Opens a file for locks on its bytes, in an open folder.
pub(super) fn open(folder: &File, name: &str, make: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(make)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path(folder, name))
}

/// The addresses of this machine's interfaces, without the loopback network. This calls libc, because rustix
/// lacks getifaddrs(3).
fn interfaces() -> Vec<IpAddr> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: room for a pointer.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Vec::new();
    }
    let (mut all, mut at) = (Vec::new(), first);
    while !at.is_null() {
        // SAFETY: the entry belongs to the list, which exists until it is freed below; its address is null or
        // matches its family.
        unsafe {
            all.extend(ip_of((*at).ifa_addr));
            at = (*at).ifa_next;
        }
    }
    // SAFETY: from getifaddrs(3), not used after this.
    unsafe { libc::freeifaddrs(first) };
    all.retain(|ip| !ip.is_loopback());
    all
}

/// # Safety
/// Null, or an address that matches its family.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or an address with at least a family.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: of this family.
            let v4 = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: of this family.
            let v6 = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_bytes() {
        for text in ["10.1.2.3:7471", "[fe80::1234]:1", "[::]:0"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(parse(&to_bytes(Some(address))), Ok(Some(address)));
        }
        let mut bytes = to_bytes(Some("1.2.3.4:5".parse().expect("an address")));
        assert_eq!(bytes[2..8], [0, 5, 1, 2, 3, 4], "in network byte order");
        bytes[..2].copy_from_slice(&27u16.to_ne_bytes());
        assert_eq!(parse(&bytes), Err(EINVAL), "AF_IB");
        assert_eq!(parse(&to_bytes(None)), Ok(None));
    }

    #[test]
    fn an_address_of_one_link_says_which() {
        let link = |scope| SocketAddrV6::new("fe80::1".parse().expect("an address"), 7, 0, scope).into();
        let expected = [(0, Err(EINVAL)), (1, Ok(())), (0x7fff_fff0, Err(Errno(libc::ENODEV)))];
        for (scope, expected) in expected {
            assert_eq!(check_link(link(scope)), expected, "interface {scope}");
        }
        assert_eq!(check_link("[fd00::1]:7".parse().expect("an address")), Ok(()));
        assert_eq!(on_link_of(link(1), link(0)), link(1));
        assert!(!is_of_one_host("fe80::1".parse().expect("an address")));
    }

    #[test]
    fn hosts_have_their_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let one = Host::Of(ip("10.77.0.1"));
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        assert!(one.has(ip("10.77.0.1")) && one.has(ip("::ffff:10.77.0.1")) && one.has(ip("127.8.9.1")));
        assert!(!one.has(ip("10.77.0.2")) && !Host::Machine.has(ip("10.77.0.1")));
        assert_eq!(one.find(ip("10.77.0.2"), &folder), None);
        let other = Host::Of(ip("10.77.0.2"));
        let up = other.announce(&folder).expect("it can be said");
        assert_eq!(one.find(ip("10.77.0.2"), &folder), Some(other));
        drop(up);
        assert_eq!(one.find(ip("10.77.0.2"), &folder), None, "its process has ended");
        assert_eq!(one.find(ip("0.0.0.0"), &folder), Some(one));
        assert_eq!(Host::Machine.find(ip("::1"), &folder), Some(Host::Machine));
        assert_eq!(one.source(ip("10.77.0.2")), ip("10.77.0.1"));
        assert_eq!(one.source(ip("127.0.0.1")), ip("127.0.0.1"));
        let found = ["10.77.0.1", "10.77.0.2", "239.1.2.3"].map(|to| one.source_if_found(ip(to), &folder));
        assert_eq!(found, [Some(ip("10.77.0.1")), None, Some(ip("10.77.0.1"))]);
    }
}
