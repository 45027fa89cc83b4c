//! Creates a folder with the device's entries of sysfs and /dev, as a kernel would present them. When a
//! program looks for the kernel's files, the library redirects it to this folder (`soft-so/src/files.rs`).
//!
//! The folder belongs to the fabric, whose addresses it contains, and is removed with the fabric. A process
//! that looks for one of the files creates the folder if it is missing. Names and contents of the files are
//! the kernel's (Documentation/ABI/stable/sysfs-class-infiniband). The folder has no counters: the counters
//! of a port would have to cover all processes of the fabric, and nothing is counted without `--stats`.

use crate::device::{self, GidType};
use crate::fabric::folder;
use crate::identity::{FabricPlace, Identity};
use crate::thread::uncancelled;
use doorbell_abi::cm::RDMA_USER_CM_ABI_VERSION;
use doorbell_launch::Link;
use doorbell_launch::modes::NamedMode;
use doorbell_launch::sealed::check_file_size;
use doorbell_launch::tree::{self, Contents, TreeEntry};
use doorbell_launch::trust::user;
use doorbell_verbs::LinkLayer;
use rustix::fs::{FileType, lstat};
use std::ffi::{CStr, CString};
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Once, OnceLock};

/// The kernel's folders of RDMA devices, of their character devices' class, and of the device files.
const DEVICES: &str = "sys/class/infiniband";
const VERBS: &str = "sys/class/infiniband_verbs";
const FILES: &str = "dev/infiniband";

/// The target of the device files: a character device that may be opened and does nothing. The library itself
/// handles an open of rdma_cm's file.
const NULL: &str = "/dev/null";

/// Version of the ABI between libibverbs and the kernel, and version of the driver's ABI, as sysfs shows
/// them.
const ABI: &str = "6";
const DRIVER_ABI: &str = "1";

/// An upper bound on the bytes of each file.
const LONGEST: u64 = 4096;

/// The path of the folder, whether or not the folder exists; `None` if this process cannot be on a fabric.
pub fn path() -> Option<&'static CStr> {
    static PATH: OnceLock<Option<CString>> = OnceLock::new();
    let find = || {
        let link = Link::own().name();
        let path = FabricPlace::own().ok()?.path().ok()?.join(format!("{}{link}", folder::SHOWN_PREFIX));
        CString::new(path.into_os_string().into_vec()).ok()
    };
    PATH.get_or_init(find).as_deref()
}

/// Returns the folder's path, and creates the folder if it is missing. The folder stays until this process
/// exits, because the folder may be the process's working directory. If the folder cannot be created, the
/// path is returned nevertheless. Errno is unchanged.
pub fn folder() -> Option<&'static CStr> {
    let path = path()?;
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    if !folder::is_pinned() || !is_there(path) {
        let _ = make(path);
    }
    *errno = before;
    Some(path)
}

/// Whether a folder of this user exists at this path. `false` if the folder belongs to another user.
fn is_there(path: &CStr) -> bool {
    let is_folder = |mode| FileType::from_raw_mode(mode) == FileType::Directory;
    lstat(path).is_ok_and(|found| found.st_uid == user() && is_folder(found.st_mode))
}

fn make(path: &CStr) -> io::Result<()> {
    // A cancelled thread would leave the folder half created.
    let made =
        uncancelled(|| check_file_size(LONGEST).and_then(|()| folder::pin(|fabric| install(fabric, path))));
    static ONCE: Once = Once::new();
    // SAFETY: a function of this library, which is never unloaded.
    ONCE.call_once(|| unsafe {
        let _ = libc::atexit(remove_at_exit);
    });
    made
}

/// Tries to remove the fabric's folder when the program exits. A program that looks for the device without
/// opening it is no member of the fabric, and its exit would otherwise leave the folder behind.
extern "C" fn remove_at_exit() {
    let _ = folder::unpin_and_remove();
}

/// Puts the complete folder in place by one rename, unless the folder exists.
fn install(fabric: &Path, path: &CStr) -> io::Result<()> {
    if is_there(path) {
        return Ok(());
    }
    let mode = Permissions::from_mode(0o700);
    let prefix = format!("{}new-", folder::SHOWN_PREFIX);
    let new = tempfile::Builder::new().prefix(&prefix).permissions(mode.clone()).tempdir_in(fabric)?;
    std::fs::set_permissions(new.path(), mode)?;
    tree::write(&contents(device::link_layer(), Identity::own()), new.path())?;
    let to = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    match std::fs::rename(new.path(), to) {
        // Another process was first.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST)) => Err(error),
        _ => Ok(()),
    }
}

/// The files that present the device on a fabric.
fn contents(link: LinkLayer, identity: &Identity) -> Contents {
    let mut contents = Contents::new();
    let device = format!("{DEVICES}/{}", device::NAME);
    let mut file = |path: String, text: String| {
        contents.insert(path.into(), TreeEntry::File(text + "\n"));
    };
    let guid = words(&identity.guid());
    file(format!("{device}/node_guid"), guid.clone());
    file(format!("{device}/sys_image_guid"), guid);
    for (name, text) in [
        ("board_id", device::NAME.to_owned()),
        ("fw_ver", env!("CARGO_PKG_VERSION").to_owned()),
        ("hca_type", device::NAME.to_owned()),
        ("hw_rev", format!("0x{:x}", device::HW_VERSION)),
        ("node_desc", device::NAME.to_owned()),
        ("node_type", format!("{}: CA", device::NODE_CA)),
    ] {
        file(format!("{device}/{name}"), text);
    }
    port(&format!("{device}/ports/{}", device::PORT), link, &mut file);
    addresses(&format!("{device}/ports/{}", device::PORT), link, identity, &mut file);
    file(format!("{VERBS}/abi_version"), ABI.into());
    let verbs = format!("{VERBS}/{}", device::DEVICE_FILE);
    file(format!("{verbs}/abi_version"), DRIVER_ABI.into());
    file(format!("{verbs}/ibdev"), device::NAME.into());
    let cm = device::CM_CLASS.trim_start_matches('/');
    let (major, minor) = device::cm_numbers();
    file(format!("{cm}/abi_version"), RDMA_USER_CM_ABI_VERSION.to_string());
    file(format!("{cm}/dev"), format!("{major}:{minor}"));
    // The device has no node of its own, and no bus.
    file(format!("{device}/device/numa_node"), "-1".into());
    // A link to the network interface with the port's addresses.
    let interface = device::INTERFACE.to_string_lossy();
    contents.insert(
        format!("{device}/device/net/{interface}").into(),
        TreeEntry::Link(format!("/sys/class/net/{interface}").into()),
    );
    let same = TreeEntry::Link(format!("../../infiniband/{}/device", device::NAME).into());
    contents.insert(format!("{verbs}/device").into(), same);
    for name in [device::DEVICE_FILE, device::CM_FILE] {
        contents.insert(format!("{FILES}/{name}").into(), TreeEntry::Link(NULL.into()));
    }
    contents
}

fn port(port: &str, link: LinkLayer, file: &mut impl FnMut(String, String)) {
    let layer = match link {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    };
    for (name, text) in [
        ("cap_mask", format!("0x{:08x}", device::port_caps(link))),
        ("lid_mask_count", "0".to_owned()),
        ("link_layer", layer.to_owned()),
        ("phys_state", format!("{}: LinkUp", device::LINK_UP)),
        ("pkeys/0", format!("0x{:04x}", device::DEFAULT_PKEY)),
        ("rate", device::RATE.to_owned()),
        ("sm_sl", "0".to_owned()),
        ("state", "4: ACTIVE".to_owned()),
    ] {
        file(format!("{port}/{name}"), text);
    }
}

/// Adds the port's files whose contents depend on the fabric's identity.
fn addresses(port: &str, link: LinkLayer, identity: &Identity, file: &mut impl FnMut(String, String)) {
    let lid = device::lid_of(link, identity);
    for name in ["lid", "sm_lid"] {
        file(format!("{port}/{name}"), format!("0x{lid:x}"));
    }
    for (index, (gid, kind)) in device::gids_of(link, identity).into_iter().enumerate() {
        file(format!("{port}/gids/{index}"), words(&gid.0));
        let text = if kind == GidType::RoceV2 { "RoCE v2" } else { "IB/RoCE v1" };
        file(format!("{port}/gid_attrs/types/{index}"), text.into());
        if link == LinkLayer::Ethernet {
            // The port's addresses are in the loopback network.
            file(format!("{port}/gid_attrs/ndevs/{index}"), device::INTERFACE.to_string_lossy().into());
        }
    }
}

/// Formats bytes as the kernel writes GUIDs and GIDs.
fn words(bytes: &[u8]) -> String {
    let word = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(2).map(word).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_the_kernel_writes_them() {
        for (link, gids) in [(LinkLayer::Infiniband, 1), (LinkLayer::Ethernet, 4)] {
            let contents = contents(link, Identity::own());
            let port = format!("{DEVICES}/doorbell0/ports/1");
            let text = |name: &str| match contents.get(Path::new(&format!("{port}/{name}"))) {
                Some(TreeEntry::File(text)) => text.clone(),
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(text("state"), "4: ACTIVE\n");
            assert_eq!(text("lid"), format!("0x{:x}\n", device::lid_of(link, Identity::own())));
            let gid = text(&format!("gids/{}", gids - 1));
            assert!(gid.len() == 40 && gid.trim().split(':').all(|word| word.len() == 4), "{gid}");
            let all = contents.keys().filter(|path| path.starts_with(format!("{port}/gids")));
            assert_eq!(all.count(), gids);
            let longest = contents.values().map(|entry| format!("{entry:?}").len()).max();
            assert!(longest.is_some_and(|longest| (longest as u64) < LONGEST));
        }
    }
}
