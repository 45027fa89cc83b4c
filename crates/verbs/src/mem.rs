//! Memory that a NIC or another thread can access.

/// Page size of an allocation. It determines how many translations a NIC needs (ATC'16, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PageSize {
    /// 4 KiB pages.
    Small,
    /// 2 MiB pages (a hint if the machine has no such pages left).
    #[default]
    Huge,
}

impl PageSize {
    /// Bytes of a page.
    pub const fn bytes(self) -> u64 {
        match self {
            PageSize::Small => 4 << 10,
            PageSize::Huge => 2 << 20,
        }
    }
}

/// A range of one machine's memory: plain data that may be handed to other threads of this machine. It gives
/// no access by itself. A [`crate::Cpu`] checks every use against the allocations of its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mem {
    allocation: u32,
    start: u64,
    addr: u64,
    len: u64,
}

impl Mem {
    /// For providers: `len` bytes at virtual address `addr` in allocation number `allocation`.
    pub const fn new(allocation: u32, addr: u64, len: u64) -> Mem {
        Mem { allocation, start: 0, addr, len }
    }

    /// For providers: the allocation that contains this range.
    pub const fn allocation(self) -> u32 {
        self.allocation
    }

    /// For providers: offset of this range within its allocation.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Length in bytes.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether the range is empty.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Virtual address of the byte at `offset`, as work requests use it.
    pub const fn addr(self, offset: u64) -> u64 {
        self.addr + offset
    }

    /// The part of this range from `offset`, `len` bytes long.
    ///
    /// # Panics
    /// If the part does not lie within this range.
    pub const fn slice(self, offset: u64, len: u64) -> Mem {
        assert!(offset <= self.len && len <= self.len - offset, "slice outside of the memory");
        Mem { allocation: self.allocation, start: self.start + offset, addr: self.addr + offset, len }
    }

    /// For providers: the offset of `len` bytes at `offset` within the allocation.
    ///
    /// # Panics
    /// If the bytes do not lie within this range. Such an access is a bug of the program, like an index
    /// outside of a slice.
    pub fn locate(self, offset: u64, len: u64) -> u64 {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access to bytes {offset}..{} of a memory of {} bytes",
            offset.saturating_add(len),
            self.len
        );
        self.start + offset
    }
}
