//! Which fabric a process is on. Programs tell each other addresses and QP numbers by ways of their own, which cross
//! users, namespaces and names of fabrics: so each fabric has other ones, and what is sent to another's leads nowhere.

use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Names the registry for programs that must not meet others of the same user.
pub(crate) const FABRIC_VARIABLE: &str = "DOORBELL_FABRIC";

/// Numbers that tell a fabric from others. The same in all its processes, and whenever it is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

/// LIDs that a port may have: of one receiver (IB specification vol. 1, 4.1.1).
const LIDS: u32 = 0xbfff;

impl Identity {
    /// Of the fabric with this name.
    fn of(name: &str) -> Identity {
        let hash = Sha256::digest(name);
        let mut identity = [0; 16];
        identity.copy_from_slice(&hash[..16]);
        Identity(identity)
    }

    /// That of this process's fabric.
    pub(crate) fn own() -> &'static Identity {
        static OWN: OnceLock<Identity> = OnceLock::new();
        // A name that no fabric can have is refused when the device is opened.
        OWN.get_or_init(|| Identity::of(&name().unwrap_or_default()))
    }

    fn number(&self, at: usize) -> u32 {
        u32::from(self.0[at]) << 16 | u32::from(self.0[at + 1]) << 8 | u32::from(self.0[at + 2])
    }

    /// LID of the port, on InfiniBand.
    pub(crate) fn lid(&self) -> u16 {
        (1 + self.number(0) % LIDS) as u16
    }

    /// GUID of the node: locally administered.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let [a, b, c] = [self.0[3], self.0[4], self.0[5]];
        [0x02, 0xdb, 0xe1, 0xff, 0xfe, a, b, c]
    }

    /// Subnet prefix of GIDs, on InfiniBand: site-local (4.1.1).
    pub(crate) fn prefix(&self) -> [u8; 8] {
        let [a, b] = [self.0[6], self.0[7]];
        [0xfe, 0xc0, 0, 0, 0, 0, a, b]
    }

    /// IPv4 address of the port, on Ethernet: of the loopback network.
    pub(crate) fn ipv4(&self) -> std::net::Ipv4Addr {
        // Neither the network's own addresses nor those that every host has.
        std::net::Ipv4Addr::new(127, 1 + self.0[8] % 254, self.0[9], 1 + self.0[10] % 254)
    }

    /// Where the numbers of processes and QPs begin.
    pub(crate) fn first(&self, of: u32) -> u32 {
        self.number(11) % of
    }
}

/// Whether a fabric can have this name.
pub(crate) fn is_fabric_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

/// This user, whose processes alone meet.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// The name of this process's fabric among all: with its user, and the namespace of process numbers.
pub(crate) fn name() -> io::Result<String> {
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
    let name = format!("{}{namespace}", prefix());
    let Some(fabric) = std::env::var_os(FABRIC_VARIABLE) else { return Ok(name) };
    match fabric.to_str().filter(|fabric| is_fabric_name(fabric)) {
        Some(fabric) => Ok(format!("{name}-{fabric}")),
        None => {
            let why = format!("{FABRIC_VARIABLE} is {fabric:?}: only letters, digits, - and _ can be in it");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// What the names of this user's fabrics begin with.
pub(crate) fn prefix() -> String {
    format!("doorbell-{}-", user())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fabrics_have_other_addresses() {
        let [one, other] = ["doorbell-1000-4026531836", "doorbell-1000-4026531836-ci"].map(Identity::of);
        assert_eq!(one, Identity::of("doorbell-1000-4026531836"));
        assert_ne!(one.lid(), other.lid());
        assert_ne!(one.guid(), other.guid());
        assert_ne!(one.prefix(), other.prefix());
        assert_ne!(one.ipv4(), other.ipv4());
        assert_ne!(one.first(1 << 14), other.first(1 << 14));
    }

    #[test]
    fn addresses_are_those_of_a_port() {
        for name in 0..1000 {
            let identity = Identity::of(&format!("fabric-{name}"));
            assert!((1..=0xbfff).contains(&identity.lid()));
            assert!(identity.ipv4().is_loopback() && identity.ipv4() != std::net::Ipv4Addr::LOCALHOST);
        }
    }
}
