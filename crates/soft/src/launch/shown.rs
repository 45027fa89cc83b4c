//! What a kernel would show of the device in sysfs and /dev, as files of a folder: the library leads the program there that
//! looks for the kernel's (`soft-so/src/files.rs`).
//!
//! Names and texts are those of the kernel (Documentation/ABI/stable/sysfs-class-infiniband). There are no counters: nothing is
//! counted without `--stats`. The folder stays, so there is not one for each name of a fabric: of those that have one GUIDs, LIDs and
//! GIDs are not shown.

use super::folder::{Contents, Entry};
use crate::device::{self, GidType, Shape};
use crate::identity::Identity;
use doorbell_abi::cm::RDMA_USER_CM_ABI_VERSION;
use doorbell_verbs::LinkLayer;

/// Where the kernel has devices, their character devices' classes, and these themselves.
const DEVICES: &str = "sys/class/infiniband";
const VERBS: &str = "sys/class/infiniband_verbs";
const FILES: &str = "dev/infiniband";

/// A file that is a character device, may be opened, and is of no other use: commands go to the library, which opens that of
/// rdma_cm itself.
const NULL: &str = "/dev/null";

/// Version of the ABI between libibverbs and the kernel, and of that of its driver.
const ABI: &str = "6";
const DRIVER_ABI: &str = "1";

/// Adds what is shown of a device of this shape.
pub(super) fn add(contents: &mut Contents, shape: &Shape) {
    let device = format!("{DEVICES}/{}", device::NAME);
    let mut file = |path: String, text: String| {
        contents.insert(path.into(), Entry::File(text + "\n"));
    };
    if let Some(identity) = &shape.identity {
        let guid = words(&identity.guid());
        file(format!("{device}/node_guid"), guid.clone());
        file(format!("{device}/sys_image_guid"), guid);
    }
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
    port(&format!("{device}/ports/{}", device::PORT), shape, &mut file);
    file(format!("{VERBS}/abi_version"), ABI.into());
    let verbs = format!("{VERBS}/{}", device::DEVICE_FILE);
    file(format!("{verbs}/abi_version"), DRIVER_ABI.into());
    file(format!("{verbs}/ibdev"), device::NAME.into());
    // The interface that has its addresses.
    let interface = device::INTERFACE.to_string_lossy();
    contents.insert(
        format!("{device}/device/net/{interface}").into(),
        Entry::Link(format!("/sys/class/net/{interface}").into()),
    );
    let mut file = |path: String, text: String| {
        contents.insert(path.into(), Entry::File(text + "\n"));
    };
    let cm = device::CM_CLASS.trim_start_matches('/');
    let (major, minor) = device::cm_numbers();
    file(format!("{cm}/abi_version"), RDMA_USER_CM_ABI_VERSION.to_string());
    file(format!("{cm}/dev"), format!("{major}:{minor}"));
    for name in [device::DEVICE_FILE, device::CM_FILE] {
        contents.insert(format!("{FILES}/{name}").into(), Entry::Link(NULL.into()));
    }
}

fn port(port: &str, shape: &Shape, file: &mut impl FnMut(String, String)) {
    let link = match shape.link {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    };
    for (name, text) in [
        ("cap_mask", format!("0x{:08x}", device::port_caps(shape.link))),
        ("lid_mask_count", "0".to_owned()),
        ("link_layer", link.to_owned()),
        ("phys_state", format!("{}: LinkUp", device::LINK_UP)),
        ("pkeys/0", format!("0x{:04x}", device::DEFAULT_PKEY)),
        ("rate", device::RATE.to_owned()),
        ("sm_sl", "0".to_owned()),
        ("state", "4: ACTIVE".to_owned()),
    ] {
        file(format!("{port}/{name}"), text);
    }
    if let Some(identity) = &shape.identity {
        addresses(port, shape.link, identity, file);
    }
}

/// What follows from the fabric.
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
            // Its addresses are of the loopback network.
            file(format!("{port}/gid_attrs/ndevs/{index}"), device::INTERFACE.to_string_lossy().into());
        }
    }
}

/// As the kernel writes GUIDs and GIDs.
fn words(bytes: &[u8]) -> String {
    let word = |pair: &[u8]| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(2).map(word).collect::<Vec<_>>().join(":")
}
