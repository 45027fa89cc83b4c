//! Who has which port: claimed for an address of a host, in one of rdma_cm's port spaces.
//!
//! The fabric's folder has a file of locks for each host and port space, and each address of a port is bytes there; a wildcard
//! is all of a port's. The locks of a process go when it ends, however that is.

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

/// Ports that a program gets which asks for none.
const EPHEMERAL: Range<u16> = 32768..61000;
/// Bytes of a port: one for each address of IPv4, and as many for those of IPv6.
const OF_PORT: u64 = 1 << 33;

const IN_USE: Errno = Errno(libc::EADDRINUSE);

/// What this process has claimed.
#[derive(Debug)]
pub(super) struct Claims {
    held: BTreeMap<u32, Held>,
    files: BTreeMap<Space, File>,
}

/// A claim.
#[derive(Clone, Copy, Debug)]
struct Held {
    space: Space,
    address: SocketAddr,
    /// Whether others may have it as well that say the same (`RDMA_OPTION_ID_REUSEADDR`).
    is_shared: bool,
}

impl Held {
    fn conflicts(&self, other: &Held) -> bool {
        let (one, two) = (self.address.ip().to_canonical(), other.address.ip().to_canonical());
        let is_same = one == two || one.is_unspecified() || two.is_unspecified();
        let may_share = self.is_shared && other.is_shared;
        self.space == other.space && self.address.port() == other.address.port() && is_same && !may_share
    }

    /// Its bytes in the file.
    fn range(&self) -> Range<u64> {
        let port = u64::from(self.address.port()) * OF_PORT;
        let at = match self.address.ip().to_canonical() {
            ip if ip.is_unspecified() => return port..port + OF_PORT,
            IpAddr::V4(ip) => u64::from(u32::from(ip)),
            IpAddr::V6(ip) => {
                let [a, b] = [u128::from(ip) as u64, (u128::from(ip) >> 64) as u64];
                // Addresses with the same 32 bits are taken for the same, which refuses one too many.
                let mixed = (a ^ b.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                OF_PORT / 2 + (mixed >> 32)
            }
        };
        port + at..port + at + 1
    }
}

impl Claims {
    pub(super) const fn new() -> Claims {
        Claims { held: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// Claims an address for an id; port 0 stands for any that is free. Returns the address with its port.
    ///
    /// # Errors
    /// `EADDRINUSE`, and what the file system says.
    pub(super) fn take(
        &mut self,
        folder: &File,
        id: u32,
        (space, address, is_shared): (Space, SocketAddr, bool),
    ) -> Result<SocketAddr, Errno> {
        let with_port = |port| Held { space, address: SocketAddr::new(address.ip(), port), is_shared };
        if address.port() != 0 {
            return self.claim(folder, id, with_port(address.port()));
        }
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

    fn claim(&mut self, folder: &File, id: u32, new: Held) -> Result<SocketAddr, Errno> {
        if self.held.iter().any(|(of, held)| *of != id && held.conflicts(&new)) {
            return Err(IN_USE);
        }
        if !locks::lock(self.file(folder, new.space)?, new.range(), new.is_shared)? {
            return Err(IN_USE);
        }
        self.held.insert(id, new);
        Ok(new.address)
    }

    /// No other may have the address of an id that listens.
    pub(super) fn take_alone(&mut self, folder: &File, id: u32) -> Result<(), Errno> {
        let Some(held) = self.held.get(&id).copied().filter(|held| held.is_shared) else { return Ok(()) };
        self.claim(folder, id, Held { is_shared: false, ..held }).map(drop)
    }

    /// Gives up what an id has claimed.
    pub(super) fn give_up(&mut self, id: u32) {
        let Some(gone) = self.held.remove(&id) else { return };
        let Some(file) = self.files.get(&gone.space) else { return };
        let _ = locks::unlock(file, gone.range());
        // A lock is of bytes, not of an id: others of this process that share some have theirs again.
        let alone = Held { is_shared: false, ..gone };
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

    #[test]
    fn a_port_is_one_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        // Each has files of its own, as another process.
        let (mut one, mut other) = (Claims::new(), Claims::new());
        let tcp = |text: &str| (Space::Tcp, address(text), false);
        assert_eq!(one.take(&folder, 1, tcp("127.0.0.1:7000")), Ok(address("127.0.0.1:7000")));
        for process in [&mut one, &mut other] {
            assert_eq!(process.take(&folder, 2, tcp("127.0.0.1:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("0.0.0.0:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("[::]:7000")), Err(IN_USE));
            assert_eq!(process.take(&folder, 2, tcp("[::ffff:127.0.0.1]:7000")), Err(IN_USE));
        }
        assert!(other.take(&folder, 3, tcp("127.0.0.2:7000")).is_ok(), "another address");
        assert!(other.take(&folder, 4, (Space::Udp, address("127.0.0.1:7000"), false)).is_ok());
        assert!(other.take(&folder, 5, tcp("[::1]:7000")).is_ok());
        one.give_up(1);
        assert!(other.take(&folder, 6, tcp("127.0.0.1:7000")).is_ok(), "it was given up");
        drop(other);
        assert!(one.take(&folder, 7, tcp("0.0.0.0:7000")).is_ok(), "the other has ended");
        let free = one.take(&folder, 8, tcp("0.0.0.0:0")).expect("there are free ones");
        assert!(EPHEMERAL.contains(&free.port()));
    }

    #[test]
    fn who_says_so_shares_until_one_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = File::open(folder.path()).expect("it opens");
        let (mut one, mut other) = (Claims::new(), Claims::new());
        let shared = (Space::Tcp, address("127.0.0.1:7001"), true);
        assert!(one.take(&folder, 1, shared).is_ok() && one.take(&folder, 2, shared).is_ok());
        assert!(other.take(&folder, 1, shared).is_ok());
        assert_eq!(one.take_alone(&folder, 1), Err(IN_USE));
        other.give_up(1);
        assert_eq!(one.take_alone(&folder, 1), Err(IN_USE), "its own other one");
        one.give_up(2);
        assert_eq!(other.take(&folder, 3, (Space::Tcp, shared.1, false)), Err(IN_USE), "it is locked still");
        assert_eq!(one.take_alone(&folder, 1), Ok(()));
        assert_eq!(other.take(&folder, 1, shared), Err(IN_USE));
    }
}
