//! The memory objects that contain regions. Two processes may register one word of an object at different
//! addresses. Atomics on that word are atomic only if both processes use one lock.

/// The object that memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// Memory that one process alone can change.
    Private,
    /// Memory that several processes can map: a file, a System V segment, or shared anonymous memory.
    Shared {
        /// A hash of the object's device and inode.
        number: ObjectNumber,
        /// Offset of the memory's first byte in the object.
        at: u64,
    },
    /// The memory spans several mappings, or a mapping that may have changed. The object of each word is
    /// looked up when the word is used.
    Unknown,
}

/// The number by which all processes identify a shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectNumber(u64);

/// The first words of [`Object::Private`] and [`Object::Unknown`] in a region's record.
const PRIVATE: u64 = 0;
const UNKNOWN: u64 = 1;
/// A bit that all object numbers have, and a bit that only the numbers of System V segments have.
const IS_SHARED: u64 = 2;
const IS_SYSTEM_V: u64 = 1;

impl ObjectNumber {
    pub(super) fn new(device: u64, inode: u64, is_system_v: bool) -> ObjectNumber {
        // Fibonacci hashing of the device and the inode.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (device.wrapping_mul(FACTOR).rotate_left(32) ^ inode).wrapping_mul(FACTOR);
        let kind = IS_SHARED | if is_system_v { IS_SYSTEM_V } else { 0 };
        ObjectNumber(mixed & !(IS_SHARED | IS_SYSTEM_V) | kind)
    }

    /// Whether the object is a System V segment. Any process of this user can map such a segment by its
    /// shmid, so all processes do.
    fn is_system_v(self) -> bool {
        self.0 & IS_SYSTEM_V != 0
    }

    /// The number of the lock for the word of 8 bytes at this offset of the object. Each word of an object
    /// has another number.
    pub(crate) fn lock_of(self, at: u64) -> u64 {
        self.0.wrapping_add(at >> 3)
    }
}

impl Object {
    /// The object of the memory that begins `offset` bytes later.
    pub(crate) fn at(self, offset: u64) -> Object {
        match self {
            Object::Shared { number, at } => Object::Shared { number, at: at.wrapping_add(offset) },
            object => object,
        }
    }

    pub(crate) fn is_system_v(self) -> bool {
        matches!(self, Object::Shared { number, .. } if number.is_system_v())
    }

    /// Encodes the object as two words of a region's record.
    pub(super) fn to_words(self) -> [u64; 2] {
        match self {
            Object::Private => [PRIVATE, 0],
            Object::Unknown => [UNKNOWN, 0],
            Object::Shared { number, at } => [number.0, at],
        }
    }

    pub(super) fn from_words([object, at]: [u64; 2]) -> Object {
        match object {
            PRIVATE => Object::Private,
            UNKNOWN => Object::Unknown,
            number => Object::Shared { number: ObjectNumber(number), at },
        }
    }
}

/// The memory of a region, in the process that owns the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostMemory {
    /// Address of the first byte.
    pub(crate) addr: u64,
    pub(crate) object: Object,
}

impl HostMemory {
    /// The memory that begins `offset` bytes later.
    pub(super) fn at(self, offset: u64) -> HostMemory {
        HostMemory { addr: self.addr.wrapping_add(offset), object: self.object.at(offset) }
    }
}

/// Makes memory from an address. Its object is looked up when the memory is used.
impl From<u64> for HostMemory {
    fn from(addr: u64) -> HostMemory {
        HostMemory { addr, object: Object::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_survives_its_words() {
        for is_system_v in [true, false] {
            let number = ObjectNumber::new(5, 77, is_system_v);
            let shared = Object::Shared { number, at: 4096 };
            for object in [shared, Object::Private, Object::Unknown] {
                assert_eq!(Object::from_words(object.to_words()), object);
            }
            assert_eq!(number.is_system_v(), is_system_v);
            assert_eq!(shared.at(8), Object::Shared { number, at: 4104 });
            assert_eq!(number.lock_of(4104), number.lock_of(4096) + 1);
            assert_ne!(ObjectNumber::new(5, 78, is_system_v), number);
        }
    }
}
