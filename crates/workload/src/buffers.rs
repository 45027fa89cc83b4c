//! The layout of operations' buffers: their distance, offset in a cache line, pieces, and total memory.

use crate::error::{at_most, invalid};
use crate::resolved::{BufferOffset, Operation, Resolved};
use crate::taking::{Taking, least, sges};
use crate::{Addresses, Pieces, RemoteAddresses, Workload, WorkloadError, topology};
use doorbell_verbs::{GRH_BYTES, QpType};

/// Bytes of a cache line. Buffers of different operations do not share one.
const LINE: u64 = 64;

/// Maximum number of bytes of a thread's buffers if no region is given. If these are too few, operations
/// share buffers.
const BUFFER_BYTES: u64 = 1 << 20;

/// Padding before the GRH of a UD message. The payload, which follows the GRH, then begins at a line.
const GRH_PAD: u64 = LINE - GRH_BYTES as u64;

/// Maximum number of bytes that the regions of all threads take together.
const MAX_REGIONS: u64 = 4 << 30;

/// The byte of a line at which buffers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    /// All buffers begin at this byte.
    At(u64),
    /// Each buffer begins at a byte that this seed determines.
    Drawn(u64),
}

impl Offset {
    fn of(w: &Resolved) -> Offset {
        match w.offset {
            Some(BufferOffset::Drawn) => Offset::Drawn(w.seed),
            Some(BufferOffset::At(byte)) => Offset::At(byte.into()),
            None => Offset::At(0),
        }
    }

    /// The last byte of a line at which a buffer begins.
    fn most(self) -> u64 {
        match self {
            Offset::At(byte) => byte,
            Offset::Drawn(_) => LINE - 1,
        }
    }

    /// The byte of a line at which a buffer begins. Both ends of an operation compute an equal value.
    fn of_buffer(self, number: u64) -> u64 {
        match self {
            Offset::At(byte) => byte,
            Offset::Drawn(seed) => {
                // Neighbouring buffers must not begin at neighbouring bytes.
                let mixed = (seed ^ number.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 58
            }
        }
    }
}

/// A piece of a buffer: its offset from the beginning of the memory, and its length.
pub type Piece = (u64, u32);

/// Buffers of like operations, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes from one buffer to the next.
    stride: u64,
    /// Number of buffers.
    pub count: u64,
    offset: Offset,
    /// Padding before each buffer of a UD RECV, so that the GRH ends with a line; otherwise 0.
    before: u64,
    /// Bytes by which the last buffer exceeds its stride. Buffers that begin at any byte have stride 1 and
    /// overlap.
    beyond: u64,
}

impl Buffers {
    /// Buffers for `operations` operations of `bytes` each. If so many buffers took too much memory, there
    /// are fewer, and operations share them.
    fn of(w: &Resolved, bytes: u64, before: u64, operations: u64) -> Buffers {
        let offset = Offset::of(w);
        let stride = (before + bytes.max(1) + offset.most()).next_multiple_of(LINE);
        let count = operations.min(BUFFER_BYTES / stride).max(1);
        Buffers { stride, count, offset, before, beyond: 0 }
    }

    /// Fills `region` with buffers, if it is given. `bytes` is the length of buffers that begin at any byte.
    fn within(self, w: &Resolved, region: Option<u64>, bytes: u64) -> Buffers {
        match region {
            None => self,
            Some(region) if w.addresses() == Addresses::AnyByte => {
                let beyond = bytes.max(1) - 1;
                Buffers {
                    stride: 1,
                    count: region.saturating_sub(beyond),
                    offset: Offset::At(0),
                    before: 0,
                    beyond,
                }
            }
            Some(region) => Buffers { count: region / self.stride, ..self },
        }
    }

    /// Buffers of a thread that posts.
    pub fn local(w: &Resolved) -> Buffers {
        let bytes = match w.pieces {
            // Each piece begins in a line of its own, as a buffer does. The buffer ends with its last piece.
            Some(Pieces::Apart) => {
                let apart = apart(w);
                u64::from(w.sges() - 1) * apart + (apart - Offset::of(w).most())
            }
            Some(Pieces::Contiguous) | None => w.longest().into(),
        };
        let operations = w.window().operations().into();
        Buffers::of(w, bytes, 0, operations).within(w, w.local_region, bytes)
    }

    /// Buffers of a thread that responds to WRITEs and READs.
    /// With [`Resolved::at_one_address`], there is one buffer, which all threads of a machine share.
    pub fn remote(w: &Resolved) -> Buffers {
        let operations = if w.at_one_address() { 1 } else { w.window().operations().into() };
        let bytes = w.longest().into();
        Buffers::of(w, bytes, 0, operations).within(w, w.remote_region, bytes)
    }

    /// Buffers of the RECVs of a QP that keeps `depth` RECVs posted.
    pub fn received(w: &Resolved, depth: u32) -> Buffers {
        let (before, bytes) = match w.transport {
            QpType::Ud => (GRH_PAD, u64::from(w.longest_send() + GRH_BYTES)),
            QpType::Rc | QpType::Uc => (0, w.longest_send().into()),
        };
        Buffers::of(w, bytes, before, depth.into())
    }

    /// Total bytes of the buffers.
    pub fn bytes(&self) -> u64 {
        self.stride * self.count + self.beyond
    }

    /// The offset at which a buffer begins.
    pub fn at(&self, number: u64) -> u64 {
        number * self.stride + self.before + self.offset.of_buffer(number)
    }

    /// The pieces of a posting thread's buffer, one for each SGE. The payload is spread evenly.
    pub fn pieces(&self, w: &Resolved, operation: Operation, number: u64) -> impl Iterator<Item = Piece> {
        let (buffers, size, n) = (*self, operation.size, operation.sges);
        let length = move |i| size / n + u32::from(i < size % n);
        let mut ahead = 0;
        (0..n).map(move |i| {
            let at = match w.pieces {
                Some(Pieces::Apart) => {
                    let place = number * u64::from(n) + u64::from(i);
                    number * buffers.stride + u64::from(i) * apart(w) + buffers.offset.of_buffer(place)
                }
                Some(Pieces::Contiguous) | None => buffers.at(number) + ahead,
            };
            ahead += u64::from(length(i));
            (at, length(i))
        })
    }
}

/// Bytes from one piece to the next, if each begins in a line of its own.
fn apart(w: &Resolved) -> u64 {
    (u64::from(w.longest().div_ceil(w.sges())) + Offset::of(w).most()).next_multiple_of(LINE)
}

impl Resolved {
    /// SGEs of each work request.
    pub fn sges(&self) -> u32 {
        self.sges.unwrap_or(1)
    }

    /// The addresses of operations in a region.
    pub fn addresses(&self) -> Addresses {
        self.addresses.unwrap_or(Addresses::Sequential)
    }

    /// The addresses of operations in a responder's region.
    pub fn remote_addresses(&self) -> Addresses {
        match self.remote_addresses {
            Some(RemoteAddresses::Sequential | RemoteAddresses::Same) => Addresses::Sequential,
            Some(RemoteAddresses::Random) => Addresses::Random,
            None => self.addresses(),
        }
    }

    /// Checks that the options about buffers have an effect, and that the buffers fit.
    pub(crate) fn check_buffers(&self, given: &Workload, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let said = [
            ("sges", self.sges.is_some()),
            ("pieces", self.pieces.is_some()),
            ("offset", given.offset.is_some()),
            ("random_offset", given.random_offset == Some(true)),
            ("local_region", self.local_region.is_some()),
            ("remote_region", self.remote_region.is_some()),
        ];
        let first = said.iter().find(|(_, said)| *said);
        if let Some((name, _)) = first.filter(|_| self.longest() == 0) {
            return invalid(format!("{name} applies to payload, but size is 0"));
        }
        let operations = self.operations();
        let atomic = operations.iter().all(|operation| operation.verb.is_atomic());
        if let Some((name, _)) = first.filter(|(name, _)| *name != "local_region" && atomic) {
            return invalid(format!(
                "{name} does not apply to {}, which works on 8 aligned bytes and returns 8 bytes",
                self.verb_names()
            ));
        }
        self.check_any_byte(given)?;
        self.check_pieces(given, taking)?;
        if let (Some(offset), Some(true)) = (given.offset, given.random_offset) {
            return invalid(format!("offset is {offset}, but random_offset draws an offset for each buffer"));
        }
        if self.inlines() && self.inline_recv && self.offset.is_some() {
            return invalid("offset does not apply to payload that is inline at both ends".into());
        }
        self.check_regions(given)
    }

    /// Checks that no other option determines the first byte of operations that begin at any byte.
    fn check_any_byte(&self, given: &Workload) -> Result<(), WorkloadError> {
        let elsewhere = [
            ("offset", given.offset.is_some()),
            ("random_offset", given.random_offset == Some(true)),
            ("pieces", self.pieces == Some(Pieces::Apart)),
        ];
        match elsewhere.iter().find(|(_, said)| *said) {
            Some((name, _)) if self.addresses() == Addresses::AnyByte => invalid(format!(
                "addresses is any-byte, which already sets where payload begins: leave {name} out"
            )),
            _ => Ok(()),
        }
    }

    fn check_pieces(&self, given: &Workload, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        if given.inline == Some(true) && self.sges() > 1 {
            return invalid(format!(
                "sges is {}, but inline payload is in the WQE: leave inline out",
                self.sges()
            ));
        }
        if self.pieces.is_some() && self.sges() == 1 {
            return invalid("pieces sets the layout of several SGEs, but sges is 1".into());
        }
        let (profile, most) = least(&taking.posters, sges);
        at_most(
            "sges",
            self.sges(),
            most,
            &format!("a work request of profile {} has at most", profile.name),
        )?;
        let payloads = self.operations().iter().filter(|operation| !operation.verb.is_atomic());
        let least = payloads.map(|operation| operation.size).filter(|size| *size > 0).min().unwrap_or(1);
        at_most("sges", self.sges(), least, "each takes at least one byte, and size is")
    }

    /// Bytes of the regions of all threads.
    pub(crate) fn region_bytes(&self) -> u128 {
        let machines = |takes: fn(&Resolved, u32) -> bool| {
            (0..self.machines).filter(|machine| takes(self, *machine)).count() as u64
        };
        let local = u128::from(machines(topology::requests)) * u128::from(self.local_region.unwrap_or(0));
        let remote = u128::from(machines(topology::responds)) * u128::from(self.remote_region.unwrap_or(0));
        (local + remote) * u128::from(self.threads)
    }

    /// Checks that some operations access memory of the responder, and that no option gives them more than
    /// one address.
    fn check_one_address(&self) -> Result<(), WorkloadError> {
        let atomics = self.operations().iter().any(|operation| operation.verb.is_atomic());
        match (self.remote_region, self.counters) {
            (Some(region), _) => invalid(format!(
                "remote_region is {region}, but with remote_addresses same there is one buffer: leave \
                 remote_region out"
            )),
            _ if !self.reaches_buffers() && !atomics => invalid(format!(
                "remote_addresses is for WRITE, READ and atomics, not for {}",
                self.verb_names()
            )),
            (None, Some(counters)) if atomics && counters.count > 1 => invalid(format!(
                "counters is {}, but remote_addresses is same: leave one of them out",
                counters.count
            )),
            (None, _) => Ok(()),
        }
    }

    fn check_regions(&self, given: &Workload) -> Result<(), WorkloadError> {
        if self.addresses.is_some() && self.local_region.is_none() && self.remote_region.is_none() {
            return invalid(
                "addresses sets the addresses in a region, but neither local_region nor remote_region is \
                 given"
                    .into(),
            );
        }
        if self.at_one_address() {
            self.check_one_address()?;
        } else if self.remote_addresses.is_some() && self.remote_region.is_none() {
            return invalid(
                "remote_addresses sets the addresses in remote_region, but remote_region is not given".into(),
            );
        }
        if self.remote_addresses.is_some() && self.addresses() == Addresses::AnyByte {
            return invalid(
                "addresses is any-byte, which applies to both ends: leave remote_addresses out".into(),
            );
        }
        if given.inline == Some(true) && self.local_region.is_some() {
            return invalid(
                "local_region holds payload that the NIC reads or writes by DMA, but inline payload is in \
                 the WQE: leave inline out"
                    .into(),
            );
        }
        if self.remote_region.is_some() && !self.reaches_buffers() {
            return invalid(format!(
                "remote_region is for WRITE and READ, not for {}, because RECVs or counters set the place \
                 of its data",
                self.verb_names()
            ));
        }
        for (name, region, buffers) in [
            ("local_region", self.local_region, Buffers::local(self)),
            ("remote_region", self.remote_region, Buffers::remote(self)),
        ] {
            let Some(region) = region else { continue };
            if buffers.count == 0 {
                let each = buffers.stride + buffers.beyond;
                return invalid(format!("{name} is {region}, but one buffer takes {each} bytes"));
            }
        }
        if self.region_bytes() > u128::from(MAX_REGIONS) {
            return invalid(format!(
                "the regions of all threads, {} on each of {} machines, take {:.1} GiB together, but must be at most 4 GiB: use smaller ones, or fewer threads or machines",
                self.threads,
                self.machines,
                self.region_bytes() as f64 / f64::from(1 << 30)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(toml: &str) -> Resolved {
        let workload = Workload::from_toml("w.toml", toml).unwrap();
        workload.resolve(&workload.load_profiles().unwrap()).expect(toml)
    }

    /// All pieces lie within their buffers, share no byte, and add up to the payload.
    #[test]
    fn pieces_lie_within_their_buffers() {
        for offset in ["", "offset = 63", "random_offset = true"] {
            for pieces in ["", "pieces = \"contiguous\"", "pieces = \"apart\""] {
                for (size, sges) in [(2, 2), (64, 3), (200, 7), (1000, 2)] {
                    let text = format!("verb = \"write\"\nsize = {size}\nsges = {sges}\n{offset}\n{pieces}");
                    let w = resolved(&text);
                    assert!(!w.inlines(), "{text}");
                    let buffers = Buffers::local(&w);
                    let (mut end, mut bytes) = (0, 0);
                    for (at, length) in
                        (0..buffers.count).flat_map(|number| buffers.pieces(&w, w.operations()[0], number))
                    {
                        assert!(at >= end && length > 0, "{text}: {at}");
                        (end, bytes) = (at + u64::from(length), bytes + u64::from(length));
                    }
                    assert!(end <= buffers.bytes(), "{text}");
                    assert_eq!(bytes, buffers.count * size, "{text}");
                }
            }
        }
    }

    #[test]
    fn pieces_apart_have_lines_of_their_own() {
        let w = resolved("verb = \"write\"\nsize = 64\nsges = 4\npieces = \"apart\"\nrandom_offset = true");
        let buffers = Buffers::local(&w);
        let pieces = (0..buffers.count).flat_map(|number| buffers.pieces(&w, w.operations()[0], number));
        let lines: Vec<Vec<u64>> =
            pieces.map(|(at, length)| (at / LINE..=(at + u64::from(length) - 1) / LINE).collect()).collect();
        for (one, next) in lines.iter().zip(&lines[1..]) {
            assert!(one.last() < next.first(), "{one:?} {next:?}");
        }
        assert!(lines.iter().any(|lines| lines.len() == 2), "some piece crosses the end of a line");
    }

    #[test]
    fn an_operation_begins_at_any_byte_of_a_region_and_ends_in_it() {
        let w = resolved("verb = \"read\"\nsize = 100\nremote_region = 1000\naddresses = \"any-byte\"");
        let (local, remote) = (Buffers::local(&w), Buffers::remote(&w));
        assert_eq!((local.count, local.at(1) % LINE), (16, 0), "no region is given there");
        let begins: Vec<u64> = (0..remote.count).map(|number| remote.at(number)).collect();
        assert_eq!(begins, (0..=900).collect::<Vec<u64>>());
        assert_eq!(remote.bytes(), 1000);
        let both = resolved(
            "verb = \"write\"\nsize = 9\nsges = 2\nlocal_region = 10\nremote_region = 9\naddresses = \"any-byte\"",
        );
        let local = Buffers::local(&both);
        assert_eq!((local.count, local.bytes(), Buffers::remote(&both).count), (2, 10, 1));
        let pieces: Vec<Piece> = local.pieces(&both, both.operations()[0], 1).collect();
        assert_eq!(pieces, [(1, 5), (6, 4)]);
    }

    #[test]
    fn a_region_is_full_of_buffers() {
        for (toml, local, remote) in [
            ("", 16, 16),
            ("remote_region = 1000000", 16, 7812),
            ("local_region = 1000000\noffset = 1", 5208, 16),
            ("window = 10000", 8192, 8192),
        ] {
            let w = resolved(&format!("verb = \"read\"\nsize = 128\n{toml}"));
            assert_eq!((Buffers::local(&w).count, Buffers::remote(&w).count), (local, remote), "{toml}");
        }
        let datagram = resolved("verb = \"send\"\nsize = 64\noffset = 5");
        assert_eq!(
            (0..3).map(|n| Buffers::received(&datagram, 8).at(n) + 40).collect::<Vec<_>>(),
            [69, 261, 453]
        );
    }
}
