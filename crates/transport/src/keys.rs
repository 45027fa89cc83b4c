//! The table of memory regions, and the checks of every access.

use doorbell_verbs::AccessFlags;

/// A registered memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Protection domain.
    pub pd: u32,
    /// First virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Rights.
    pub access: AccessFlags,
}

/// Memory regions by key. lkey and rkey of a region are the same number.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    slots: Vec<Option<Region>>,
    /// Low 8 bits of the key that each slot has or will have next: a stale key finds nothing.
    tags: Vec<u8>,
    free: Vec<u32>,
}
