//! Work of the systems themselves that touches no shared memory, in virtual nanoseconds (nothing on
//! hardware). All are assumed, for cores of about 2 GHz; what the driver and memory cost is the
//! profile's.

use doorbell_verbs::Span;

/// Going on to the next slot to look at: its address from three numbers, a comparison.
pub(crate) const SCAN: Span = Span::from_ns(1);

/// Taking a request and filling in the work request of its reply: a dozen words, one a cycle.
pub(crate) const REQUEST: Span = Span::from_ns(6);

/// Finding what is held of a block and counting a modification of it: a dozen words, one a cycle.
pub(crate) const HOLD: Span = Span::from_ns(6);

/// A hash of 16 bytes, and the steps of an index operation.
pub(crate) const INDEX: Span = Span::from_ns(8);

/// Checksum of 8 bytes.
pub(crate) const CHECKSUM_WORD: Span = Span::from_ns(1);

/// Hash of a key of 8 bytes, by which an entry's destination is found, and noting it in the destination's list: a dozen words, one a cycle.
pub(crate) const DESTINATION: Span = Span::from_ns(6);
