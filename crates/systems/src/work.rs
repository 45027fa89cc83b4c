//! Virtual time of the systems' own work that accesses no shared memory. On hardware the calls take no time.
//! All values are assumed, for cores of about 2 GHz. The profile has the costs of the driver and of memory.

use doorbell_verbs::Span;

/// Moving on to the next slot to poll: the computation of its address from three numbers, and a comparison.
pub(crate) const SCAN: Span = Span::from_ns(1);

/// Taking a request and filling in the work request of its reply: a dozen words, one per cycle.
pub(crate) const REQUEST: Span = Span::from_ns(6);

/// Finding a block's held modifications and counting one more: a dozen words, one per cycle.
pub(crate) const HOLD: Span = Span::from_ns(6);

/// A hash of 16 bytes, and the steps of an index operation.
pub(crate) const INDEX: Span = Span::from_ns(8);

/// Checksum of 8 bytes.
pub(crate) const CHECKSUM_WORD: Span = Span::from_ns(1);

/// Hashing an 8-byte key to find an entry's destination, and adding the entry to the destination's list: a
/// dozen words, one per cycle.
pub(crate) const DESTINATION: Span = Span::from_ns(6);
