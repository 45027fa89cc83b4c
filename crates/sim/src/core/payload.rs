//! Bytes of payloads in flight.

/// Sizes of buffers in bytes. The last is the largest payload of a packet or inline WQE.
const CLASSES: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 9216];
/// Bits of a buffer's index within its size class. The bits above are the class.
const INDEX: u32 = 29;

/// Bytes of payloads in flight, in buffers of a few sizes.
pub(crate) struct PayloadPool {
    classes: [SizeClass; CLASSES.len()],
}

#[derive(Default)]
struct SizeClass {
    bytes: Vec<u8>,
    free: Vec<u32>,
}

/// A buffer of the pool. An empty payload has no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload(u32);

impl Payload {
    pub(crate) const EMPTY: Payload = Payload(u32::MAX);

    fn class(self) -> usize {
        (self.0 >> INDEX) as usize
    }

    fn index(self) -> usize {
        (self.0 & ((1 << INDEX) - 1)) as usize
    }
}

impl PayloadPool {
    pub(crate) fn new() -> PayloadPool {
        PayloadPool { classes: std::array::from_fn(|_| SizeClass::default()) }
    }

    /// Takes a buffer for `len` bytes, at most the size of the largest class.
    pub(crate) fn take(&mut self, len: u32) -> Payload {
        if len == 0 {
            return Payload::EMPTY;
        }
        let class = CLASSES.iter().position(|&size| len <= size).expect("no packet is larger than an MTU");
        let size = CLASSES[class] as usize;
        let c = &mut self.classes[class];
        let index = c.free.pop().unwrap_or_else(|| {
            let index = c.bytes.len() / size;
            c.bytes.resize(c.bytes.len() + size, 0);
            if c.free.capacity() < index + 1 {
                c.free.reserve(2 * (index + 1));
            }
            index as u32
        });
        Payload((class as u32) << INDEX | index)
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&mut self, payload: Payload) {
        if payload != Payload::EMPTY {
            self.classes[payload.class()].free.push(payload.index() as u32);
        }
    }

    pub(crate) fn bytes(&self, payload: Payload) -> &[u8] {
        if payload == Payload::EMPTY {
            return &[];
        }
        let size = CLASSES[payload.class()] as usize;
        &self.classes[payload.class()].bytes[payload.index() * size..][..size]
    }

    pub(crate) fn bytes_mut(&mut self, payload: Payload) -> &mut [u8] {
        if payload == Payload::EMPTY {
            return &mut [];
        }
        let size = CLASSES[payload.class()] as usize;
        &mut self.classes[payload.class()].bytes[payload.index() * size..][..size]
    }

    /// Copies `len` bytes, from offset `from_offset` of one buffer to the front of another.
    pub(crate) fn copy(&mut self, to: Payload, from: Payload, from_offset: u32, len: u32) {
        let (from_offset, len) = (from_offset as usize, len as usize);
        let start = |p: Payload| p.index() * CLASSES[p.class()] as usize;
        let (from_start, to_start) = (start(from) + from_offset, start(to));
        match self.classes.get_disjoint_mut([from.class(), to.class()]) {
            Ok([from, to]) => {
                to.bytes[to_start..][..len].copy_from_slice(&from.bytes[from_start..][..len]);
            }
            // Both buffers are in one class.
            Err(_) => self.classes[to.class()].bytes.copy_within(from_start..from_start + len, to_start),
        }
    }
}
