//! Claims of ports. A claim covers one address of a host, or a wildcard address, in one of rdma_cm's port
//! spaces.
//!
//! The fabric's folder has a lock file for each host and port space. For each port, the file has one lockable
//! byte for each address. A wildcard claim locks all bytes of the port, or all bytes of one address family.
//! The locks of a process end when the process exits, for whatever reason.

use super::address::{self, Host, PREFIX};
use super::id::Space;
use crate::errno::Errno;
use crate::fabric::locks;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Ports from which a program that binds port 0 gets one.
const EPHEMERAL: Range<u16> = 32768..61000;
/// Bytes of a port: one byte for each IPv4 address, and 2^32 bytes for the hashes of IPv6 addresses.
const OF_PORT: u64 = 1 << 33;

/// Another claim conflicts.
pub(super) const IN_USE: Errno = Errno(libc::EADDRINUSE);

/// The claims of this process.
#[derive(Debug)]
pub(super) struct Claims {
    held: BTreeMap<u32, PortClaim>,
    files: BTreeMap<Space, File>,
}

/// The claim of a port at an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortClaim {
    pub(super) space: Space,
    pub(super) address: SocketAddr,
    /// Whether the claim may coexist with other shared claims (`RDMA_OPTION_ID_REUSEADDR`).
    pub(super) is_shared: bool,
    /// Whether an IPv6 wildcard covers only IPv6 (`RDMA_OPTION_ID_AFONLY`).
    pub(super) is_v6_only: bool,
}

impl PortClaim {
    fn conflicts(&self, other: &PortClaim) -> bool {
        let [one, two] = [self, other].map(PortClaim::addresses);
        let may_share = self.is_shared && other.is_shared;
        let is_same = one.start < two.end && two.start < one.end;
        self.space == other.space && self.address.port() == other.address.port() && is_same && !may_share
    }

    /// The claim's bytes, relative to the first byte of its port.
    fn addresses(&self) -> Range<u64> {
        const V6: u64 = OF_PORT / 2;
        let at = match self.address.ip().to_canonical() {
            IpAddr::V4(ip) if ip.is_unspecified() => return 0..V6,
            IpAddr::V6(ip) if ip.is_unspecified() => return if self.is_v6_only { V6 } else { 0 }..OF_PORT,
            IpAddr::V4(ip) => u64::from(u32::from(ip)),
            IpAddr::V6(ip) => {
                let [a, b] = [u128::from(ip) as u64, (u128::from(ip) >> 64) as u64];
                // IPv6 addresses with equal 32-bit hashes count as equal. A collision makes a valid claim
                // fail.
                let mixed = (a ^ b.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                V6 + (mixed >> 32)
            }
        };
        at..at + 1
    }

    /// The claim's bytes in the file of locks.
    fn range(&self) -> Range<u64> {
        let (port, addresses) = (u64::from(self.address.port()) * OF_PORT, self.addresses());
        port + addresses.start..port + addresses.end
    }
}

impl Claims {
    pub(super) const fn new() -> Claims {
        Claims { held: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// Claims an address for an id; port 0 stands for any free port. Returns the address with the claimed
    /// port.
    ///
    /// # Errors
    /// `EADDRINUSE` if another claim conflicts; `EADDRNOTAVAIL` if port 0 was given and no port is free;
    /// errors of the file system.
    pub(super) fn take(&mut self, folder: &File, id: u32, asked: PortClaim) -> Result<SocketAddr, Errno> {
        if asked.address.port() != 0 {
            return self.claim(folder, id, asked);
        }
        let with_port = |port| PortClaim { address: SocketAddr::new(asked.address.ip(), port), ..asked };
        let begin = RandomState::new().hash_one(id) as usize;
        for at in 0..EPHEMERAL.len() {
            let port = EPHEMERAL.start + ((begin + at) % EPHEMERAL.len()) as u16;
            match self.claim(folder, id, with_port(port)) {
                Err(IN_USE) => {}
                taken => return taken,
            }
        }
        Err(Errno(libc::EADDRNOTAVAIL))
    }

    fn claim(&mut self, folder: &File, id: u32, new: PortClaim) -> Result<SocketAddr, Errno> {
        if self.held.iter().any(|(of, held)| *of != id && held.conflicts(&new)) {
            return Err(IN_USE);
        }
        if !locks::lock(self.file(folder, new.space)?, new.range(), new.is_shared)? {
            return Err(IN_USE);
        }
        self.held.insert(id, new);
        Ok(new.address)
    }

    /// Makes the claim of an id that begins to listen exclusive.
    pub(super) fn take_alone(&mut self, folder: &File, id: u32) -> Result<(), Errno> {
        let Some(held) = self.held.get(&id).copied().filter(|held| held.is_shared) else { return Ok(()) };
        self.claim(folder, id, PortClaim { is_shared: false, ..held }).map(drop)
    }

    /// Releases the claim of an id.
    pub(super) fn give_up(&mut self, id: u32) {
        let Some(gone) = self.held.remove(&id) else { return };
        let Some(file) = self.files.get(&gone.space) else { return };
        let _ = locks::unlock(file, gone.range());
        // A lock belongs to bytes, not to an id. The unlocked bytes that other claims of this process cover
        // are locked again.
        let alone = PortClaim { is_shared: false, ..gone };
        for held in self.held.values().filter(|held| held.conflicts(&alone)) {
            let _ = locks::lock(file, held.range(), held.is_shared);
        }
    }

    fn file(&mut self, folder: &File, space: Space) -> Result<&File, Errno> {
        let entry = match self.files.entry(space) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let name = format!("{PREFIX}ports-{}-{}", space.name(), Host::own().name());
        Ok(entry.insert(address::open(folder, &name, true)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn tcp(text: &str) -> PortClaim {
        PortClaim { space: Space::Tcp, address: address(text), is_shared: false, is_v6_only: false }
    }

    #[test]
    fn a_port_is_one_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        // Each value has files of its own, as two processes would have.
        let (mut one, mut other) = (Claims::new(), Claims::new());
        assert_eq!(one.take(&folder, 1, tcp("127.0.0.1:7000")), Ok(address("127.0.0.1:7000")));
        for process in [&mut one, &mut other] {
            assert_eq!(process.take(&folder, 2, tcp("127.0.0.1:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("0.0.0.0:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("[::]:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("[::ffff:127.0.0.1]:7000")), Err(IN_USE));
        }
        assert!(other.take(&folder, 3, tcp("127.0.0.2:7000")).is_ok(), "another address");
        assert!(other.take(&folder, 4, PortClaim { space: Space::Udp, ..tcp("127.0.0.1:7000") }).is_ok());
        assert!(other.take(&folder, 5, tcp("[::1]:7000")).is_ok());
        one.give_up(1);
        assert!(other.take(&folder, 6, tcp("127.0.0.1:7000")).is_ok(), "it was given up");
        drop(other);
        assert!(one.take(&folder, 7, tcp("0.0.0.0:7000")).is_ok(), "the other has ended");
        let free = one.take(&folder, 8, tcp("0.0.0.0:0")).expect("there are free ones");
        assert!(EPHEMERAL.contains(&free.port()));
    }

    #[test]
    fn a_wildcard_is_of_both_families_or_of_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        let alone = |text| PortClaim { is_v6_only: true, ..tcp(text) };
        for (one, two, may) in [
            (tcp("0.0.0.0:7002"), tcp("[::]:7002"), false),
            (tcp("0.0.0.0:7002"), alone("[::]:7002"), true),
            (tcp("127.0.0.1:7002"), alone("[::]:7002"), true),
            (tcp("0.0.0.0:7002"), tcp("[::1]:7002"), true),
            (tcp("[::1]:7002"), alone("[::]:7002"), false),
            (alone("[::]:7002"), tcp("[::]:7002"), false),
        ] {
            let (mut process, mut other) = (Claims::new(), Claims::new());
            assert!(process.take(&folder, 1, one).is_ok());
            assert_eq!(other.take(&folder, 2, two).is_ok(), may, "{one:?} {two:?}, another process");
            drop(other);
            assert_eq!(process.take(&folder, 2, two).is_ok(), may, "{one:?} {two:?}");
        }
    }

    #[test]
    fn who_says_so_shares_until_one_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        let (mut one, mut other) = (Claims::new(), Claims::new());
        let shared = PortClaim { is_shared: true, ..tcp("127.0.0.1:7001") };
        assert!(one.take(&folder, 1, shared).is_ok() && one.take(&folder, 2, shared).is_ok());
        assert!(other.take(&folder, 1, shared).is_ok());
        assert_eq!(one.take_alone(&folder, 1), Err(IN_USE));
        other.give_up(1);
        assert_eq!(one.take_alone(&folder, 1), Err(IN_USE), "its own other one");
        one.give_up(2);
        assert_eq!(other.take(&folder, 3, tcp("127.0.0.1:7001")), Err(IN_USE), "it is locked still");
        assert_eq!(one.take_alone(&folder, 1), Ok(()));
        assert_eq!(other.take(&folder, 1, shared), Err(IN_USE));
    }
}
