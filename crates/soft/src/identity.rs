//! The identity of a process's fabric, and the addresses derived from it. Programs exchange addresses and QP
//! numbers by their own means, even with programs of other users, namespaces and fabrics. Each fabric has
//! addresses of its own, so that a message to an address of another fabric reaches no process.

use doorbell_launch::trust::{FoundName, find_name, names, user};
use doorbell_launch::variables::{FABRIC, MEET, is_fabric_name};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The folder that holds the folders of fabrics, unless the fabric may span PID namespaces.
const SHARED_MEMORY: &str = "/dev/shm";

/// A number that distinguishes a fabric from other fabrics. It is a hash of the fabric's name, so it is equal
/// in all processes of the fabric, even after the fabric is created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

/// Number of LIDs that a port may have: the unicast LIDs (IB specification vol. 1, 4.1.1).
const LIDS: u32 = 0xbfff;

impl Identity {
    /// The identity of the fabric with this name.
    fn of(name: &str) -> Identity {
        let hash = Sha256::digest(name);
        let mut identity = [0; 16];
        identity.copy_from_slice(&hash[..16]);
        Identity(identity)
    }

    /// The identity of this process's fabric.
    pub(crate) fn own() -> &'static Identity {
        static OWN: OnceLock<Identity> = OnceLock::new();
        // An invalid fabric name is ignored here, because opening the device refuses it.
        OWN.get_or_init(|| {
            Identity::of(&FabricPlace::own().and_then(|place| place.name()).unwrap_or_default())
        })
    }

    fn number(&self, at: usize) -> u32 {
        u32::from(self.0[at]) << 16 | u32::from(self.0[at + 1]) << 8 | u32::from(self.0[at + 2])
    }

    /// LID of the port, on InfiniBand.
    pub(crate) fn lid(&self) -> u16 {
        (1 + self.number(0) % LIDS) as u16
    }

    /// GUID of the node, which is locally administered.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let [a, b, c] = [self.0[3], self.0[4], self.0[5]];
        [0x02, 0xdb, 0xe1, 0xff, 0xfe, a, b, c]
    }

    /// Subnet prefix of GIDs on InfiniBand, a site-local prefix (4.1.1).
    pub(crate) fn prefix(&self) -> [u8; 8] {
        let [a, b] = [self.0[6], self.0[7]];
        [0xfe, 0xc0, 0, 0, 0, 0, a, b]
    }

    /// IPv4 address of the port on Ethernet, in the loopback network.
    pub(crate) fn ipv4(&self) -> std::net::Ipv4Addr {
        // The ranges exclude the network's own addresses, and 127.0.0.0/16 with the loopback addresses that
        // every host has.
        std::net::Ipv4Addr::new(127, 1 + self.0[8] % 254, self.0[9], 1 + self.0[10] % 254)
    }

    /// Whether the port may have this GID, on InfiniBand or Ethernet.
    pub(crate) fn has_gid(&self, gid: [u8; 16]) -> bool {
        gid[8..] == self.guid() || gid == self.ipv4().to_ipv6_mapped().octets()
    }

    /// The first number for the fabric's processes or QPs, which is below `of`.
    pub(crate) fn first(&self, of: u32) -> u32 {
        self.number(11) % of
    }
}

/// The place where the processes of a fabric find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FabricPlace {
    /// The folder that holds the fabrics' folders.
    pub(crate) folder: PathBuf,
    /// The prefix of the names of this user's fabrics in that folder.
    pub(crate) prefix: String,
    /// The rest of this fabric's name.
    rest: String,
    /// Whether the fabric's processes may be in several PID namespaces, so that a PID does not identify a
    /// peer.
    pub(crate) is_joined: bool,
}

impl FabricPlace {
    /// The place of a fabric of one PID namespace. `namespace` is the inode number of the namespace.
    fn within(namespace: u64, fabric: Option<&str>) -> FabricPlace {
        let rest = namespace.to_string() + &fabric.map_or(String::new(), |fabric| format!("-{fabric}"));
        let prefix = format!("doorbell-{}-", user());
        FabricPlace { folder: SHARED_MEMORY.into(), prefix, rest, is_joined: false }
    }

    /// The place of this process's fabric.
    pub(crate) fn own() -> io::Result<FabricPlace> {
        let fabric = fabric()?;
        let Some(folder) = std::env::var_os(MEET) else {
            return Ok(FabricPlace::within(pid_namespace("self"), fabric.as_deref()));
        };
        let rest = fabric.ok_or_else(|| {
            let why = format!(
                "{MEET} is set without {FABRIC}; set {FABRIC} to the name of the fabric that meets there"
            );
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        Ok(FabricPlace { folder: folder.into(), prefix: "doorbell-fabric-".into(), rest, is_joined: true })
    }

    /// Finds the fabric's own folder, or the path at which it can be created. In a folder of all users,
    /// another user may have taken the first path, and the fabric then uses another path.
    pub(crate) fn find(&self) -> io::Result<FoundName> {
        let first = self.folder.join(format!("{}{}", self.prefix, self.rest));
        match self.is_joined {
            true => find_name(std::iter::once(first)),
            false => find_name(names(&first)),
        }
        .map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// The path of the fabric's own folder.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        Ok(self.find()?.path)
    }

    /// The name that identifies the fabric. It is equal in all processes of the fabric, whatever path leads
    /// to the folder.
    fn name(&self) -> io::Result<String> {
        if !self.is_joined {
            return Ok(format!("{}{}", self.prefix, self.rest));
        }
        let folder = std::fs::metadata(&self.folder)?;
        Ok(format!("{}{}-{}-{}", self.prefix, folder.dev(), folder.ino(), self.rest))
    }
}

/// The inode number of a process's PID namespace; 0 if it is unknown.
fn pid_namespace(process: &str) -> u64 {
    std::fs::metadata(format!("/proc/{process}/ns/pid")).map_or(0, |namespace| namespace.ino())
}

/// The PID namespaces in which this user may have a fabric without `--meet`: the namespaces of all processes
/// that this process sees, and of all fabrics in shared memory.
fn pid_namespaces() -> BTreeSet<u64> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    };
    let prefix = FabricPlace::within(0, None).prefix;
    let of_fabric = |name: String| {
        let rest = name.strip_prefix(&prefix)?;
        rest.split(['-', '.']).next()?.parse().ok()
    };
    let seen = names("/proc").map(|process| pid_namespace(&process));
    seen.chain(names(SHARED_MEMORY).filter_map(of_fabric)).filter(|namespace| *namespace != 0).collect()
}

/// Says where the port with an address may be, after a path that leads to no port of this fabric, and which
/// options connect the programs. `has` says whether the port of a fabric has the address.
pub(crate) fn elsewhere(has: impl Fn(&Identity) -> bool) -> String {
    let (Ok(own), Ok(fabric)) = (FabricPlace::own(), fabric()) else { return String::new() };
    let here = pid_namespace("self");
    let is_there = |namespace: &u64| {
        let names = [None, fabric.as_deref()].map(|fabric| FabricPlace::within(*namespace, fabric).name());
        names.into_iter().flatten().any(|name| has(&Identity::of(&name)))
    };
    let (peer, advice) = match pid_namespaces().into_iter().find(is_there) {
        Some(namespace) => {
            let peer = match namespace == here {
                true => "programs that run with another --fabric or --meet".into(),
                false => format!("programs that run without --meet in PID namespace {namespace}"),
            };
            (peer, "Run both programs with")
        }
        None => (
            "no program that this process knows".into(),
            "If it belongs to a program under `doorbell run` that has another --fabric or --meet, or is in \
             another PID namespace, such as another container, run both programs with",
        ),
    };
    let own = match own.is_joined {
        true => format!("runs with --meet {} --fabric {}", own.folder.display(), own.rest),
        false => format!("runs without --meet in PID namespace {here}"),
    };
    format!(
        ". The address belongs to {peer}. This process {own}. {advice} one --meet FOLDER and one \
         --fabric NAME"
    )
}

/// The fabric's name, if it has one.
fn fabric() -> io::Result<Option<String>> {
    let Some(fabric) = std::env::var_os(FABRIC) else { return Ok(None) };
    match fabric.to_str().filter(|fabric| is_fabric_name(fabric)) {
        Some(fabric) => Ok(Some(fabric.to_owned())),
        None => {
            let why =
                format!("{FABRIC} is {fabric:?}, but a fabric's name has 1 to 100 letters, digits, - and _");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
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
    fn a_joined_fabric_is_told_by_its_folder_and_its_name() {
        let place = |folder: &std::path::Path, rest: &str, is_joined| {
            let place =
                FabricPlace { folder: folder.into(), prefix: "p-".into(), rest: rest.into(), is_joined };
            Identity::of(&place.name().expect("the folder is there"))
        };
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let link = other.path().join("link");
        std::os::unix::fs::symlink(one.path(), &link).expect("a link");
        let joined = place(one.path(), "ci", true);
        assert_eq!(place(&link, "ci", true), joined, "by another path");
        assert_ne!(place(one.path(), "cd", true), joined);
        assert_ne!(place(other.path(), "ci", true), joined);
        assert_ne!(place(one.path(), "ci", false), joined);
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
