//! Names of NICs by the part id that their driver reports.

/// Part ids and names. Source: rdma-core 44, the tables of `providers/mlx4/mlx4.c` and
/// `providers/mlx5/mlx5.c`.
const NAMES: &[(u32, &str)] = &[
    (0x1003, "ConnectX-3"),
    (0x1007, "ConnectX-3 Pro"),
    (0x1011, "Connect-IB"),
    (0x1013, "ConnectX-4"),
    (0x1015, "ConnectX-4 Lx"),
    (0x1017, "ConnectX-5"),
    (0x1019, "ConnectX-5 Ex"),
    (0x101b, "ConnectX-6"),
    (0x101d, "ConnectX-6 Dx"),
    (0x101f, "ConnectX-6 Lx"),
    (0x1021, "ConnectX-7"),
    (0xa2d2, "BlueField"),
    (0xa2d6, "BlueField-2"),
    (0xa2dc, "BlueField-3"),
];

/// The name of the NIC with this part id.
pub(super) fn name_of(part: u32) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == part).map(|(_, name)| *name)
}

/// Whether a NIC of this name is one of Mellanox, to which perftest applies its inline sizes.
pub(super) fn is_mellanox(name: &str) -> bool {
    ["ConnectX", "Connect-IB", "BlueField"].iter().any(|family| name.starts_with(family))
}
