//! Bytes as cores see them. With coherent devices, these are memory's bytes. Otherwise caches may hold other
//! bytes than memory. Devices do not see the caches' bytes, and caches do not see devices' writes.

use super::machine::Host;
use super::memory::{LINE, MemPlace};
use super::model::MemoryModel;
use super::reach::Lines;
use std::ops::Range;

impl Host {
    /// Reads the bytes that a core finds at a place.
    #[inline]
    pub(crate) fn read_bytes(&self, place: MemPlace, into: &mut [u8]) {
        self.memory.read(place, into);
        if self.caches_apart() {
            self.read_copies(place, into);
        }
    }

    /// Lets a core change the bytes that it finds at a place, within a line.
    #[inline]
    pub(crate) fn change_bytes(&mut self, place: MemPlace, len: u64, change: impl FnOnce(&mut [u8])) {
        if !self.caches_apart() {
            return change(self.memory.in_line(place, len));
        }
        let mut bytes = vec![0; len as usize];
        self.read_bytes(place, &mut bytes);
        change(&mut bytes);
        self.change_copies(place, &bytes);
    }

    /// Whether caches may hold other bytes than memory.
    #[inline]
    pub(crate) fn caches_apart(&self) -> bool {
        matches!(&self.model, MemoryModel::Hierarchy(hierarchy) if !hierarchy.io_coherent())
    }

    /// Overwrites memory's bytes in `bytes` with the caches' copies.
    #[cold]
    #[inline(never)]
    fn read_copies(&self, place: MemPlace, bytes: &mut [u8]) {
        let MemoryModel::Hierarchy(hierarchy) = &self.model else { return };
        for (at, part) in parts(place, bytes.len()) {
            if let Some(copy) = hierarchy.copy(at) {
                let from = (at.offset % LINE) as usize;
                let len = part.len();
                bytes[part].copy_from_slice(&copy[from..from + len]);
            }
        }
    }

    /// Stores a core's bytes in the caches, or in memory for lines that no cache holds.
    #[cold]
    #[inline(never)]
    fn change_copies(&mut self, place: MemPlace, bytes: &[u8]) {
        let Host { model: MemoryModel::Hierarchy(hierarchy), memory, .. } = self else { return };
        for (at, part) in parts(place, bytes.len()) {
            let bytes = &bytes[part];
            match hierarchy.copy_mut(at, || memory.line(at)) {
                Some(copy) => copy[(at.offset % LINE) as usize..][..bytes.len()].copy_from_slice(bytes),
                None => memory.write(at, bytes),
            }
        }
    }

    /// Preserves the caches' bytes of a line before a device writes the line in memory.
    pub(super) fn keep_line(&mut self, place: MemPlace) {
        if let Host { model: MemoryModel::Hierarchy(hierarchy), memory, .. } = self {
            hierarchy.copy_mut(place, || memory.line(place));
        }
    }

    /// Writes changed lines that have left the caches to memory.
    #[inline]
    pub(super) fn write_back(&mut self) {
        let Host { model: MemoryModel::Hierarchy(hierarchy), memory, .. } = self else { return };
        for (line, bytes) in hierarchy.take_leaving() {
            memory.put_line(line, &bytes);
        }
    }
}

/// Splits `len` bytes from a place on at line boundaries: where each part begins, and its range in the bytes.
fn parts(place: MemPlace, len: usize) -> impl Iterator<Item = (MemPlace, Range<usize>)> {
    Lines::of(place, len as u64).places().map(move |at| {
        let from = (at.offset - place.offset) as usize;
        (at, from..len.min(from + (LINE - at.offset % LINE) as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::index::{CoreId, DeviceId};
    use crate::core::payload::PayloadPool;
    use crate::core::ps::Ps;
    use crate::core::server::MeterWindow;
    use crate::host::{AccessKind, Agent, DmaWrite, WriteData};
    use doorbell_nic::Profile;
    use doorbell_nic::cost::CpuCost;
    use doorbell_verbs::{Mem, PageSize};
    use proptest::prelude::*;

    /// Lines of memory: more than the caches hold.
    const LINES: u64 = 64;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Load(u8),
        Store(u8),
        DeviceReads,
        DeviceWrites,
    }

    /// Steps, each with a line and a word in it.
    fn trace() -> impl Strategy<Value = Vec<(Step, u64, u64)>> {
        let step = prop_oneof![
            2 => (0..2u8).prop_map(Step::Load),
            2 => (0..2u8).prop_map(Step::Store),
            1 => Just(Step::DeviceReads),
            1 => Just(Step::DeviceWrites),
        ];
        prop::collection::vec((step, 0..LINES, 0..8u64), 1..400)
    }

    fn host(coherent: bool) -> (Host, Mem) {
        let mut profile = Profile::named("e7520-t4").expect("a built-in profile");
        let hierarchy = profile.hierarchy.as_mut().expect("caches that have sizes");
        hierarchy.io_coherent = coherent;
        (hierarchy.l1, hierarchy.l1_ways) = (4 * LINE, 2);
        (hierarchy.l2, hierarchy.l2_ways) = (8 * LINE, 2);
        (hierarchy.llc, hierarchy.llc_ways) = (16 * LINE, 4);
        let costs = CpuCost::new(&profile.host, profile.hierarchy.as_ref());
        let window = MeterWindow { from: Ps::ZERO, to: Ps::NEVER };
        let mut host = Host::new(&profile, costs, DeviceId(0), std::iter::once(0), window);
        let mem = host.alloc_near(0, CoreId(0), LINES * LINE, PageSize::Huge).expect("memory");
        (host, mem)
    }

    /// A host, and the expected values of its words.
    struct Checked {
        host: Host,
        mem: Mem,
        payloads: PayloadPool,
        now: Ps,
        /// All values that each word has had, the newest last.
        words: Vec<Vec<u64>>,
    }

    fn place(line: u64, word: u64) -> MemPlace {
        MemPlace { allocation: 0, offset: line * LINE + word * 8 }
    }

    impl Checked {
        fn new(coherent: bool) -> Checked {
            let words = vec![vec![0]; (LINES * 8) as usize];
            let (host, mem) = host(coherent);
            Checked { host, mem, payloads: PayloadPool::new(), now: Ps::ZERO, words }
        }

        /// Takes a step at a word. With `flushes`, the line is flushed before and after a device's step.
        fn take(&mut self, step: Step, line: u64, word: u64, flushes: bool) {
            self.now += Ps(1_000_000);
            let place = place(line, word);
            let by_device = matches!(step, Step::DeviceReads | Step::DeviceWrites);
            if by_device && flushes {
                self.access(Agent::Core(CoreId(0)), place, AccessKind::Flush);
            }
            let history = &mut self.words[(line * 8 + word) as usize];
            if matches!(step, Step::Store(_) | Step::DeviceWrites) {
                history.push(self.now.0);
            }
            let value = self.now.0;
            match step {
                Step::Load(core) => {
                    self.access(Agent::Core(CoreId(core)), place, AccessKind::Load);
                    self.was_there(line, word, self.found_by_core(place));
                }
                Step::Store(core) => {
                    self.access(Agent::Core(CoreId(core)), place, AccessKind::Store);
                    self.host.change_bytes(place, 8, |there| there.copy_from_slice(&value.to_le_bytes()));
                }
                Step::DeviceReads => {
                    self.access(Agent::Device { socket: 0 }, place, AccessKind::Load);
                    let found = self.host.memory.load_u64(place);
                    match flushes {
                        true => self.is_newest(line, word, found),
                        false => self.was_there(line, word, found),
                    }
                }
                Step::DeviceWrites => {
                    let addr = self.mem.addr(place.offset);
                    let write = DmaWrite::new(self.now, Ps::ZERO, addr, WriteData::Word(value), 8);
                    self.host.incoming(0, write, self.now, &mut self.payloads);
                    self.host.settle(self.now, &mut self.payloads);
                }
            }
            if by_device && flushes {
                self.access(Agent::Core(CoreId(0)), place, AccessKind::Flush);
            }
        }

        fn access(&mut self, who: Agent, place: MemPlace, kind: AccessKind) {
            self.now = self.host.access(self.now, who, Lines::at(place), kind).done;
        }

        fn found_by_core(&self, place: MemPlace) -> u64 {
            let mut bytes = [0; 8];
            self.host.read_bytes(place, &mut bytes);
            u64::from_le_bytes(bytes)
        }

        fn was_there(&self, line: u64, word: u64, found: u64) {
            assert!(self.words[(line * 8 + word) as usize].contains(&found), "{found} was never there");
        }

        fn is_newest(&self, line: u64, word: u64, found: u64) {
            assert_eq!(self.words[(line * 8 + word) as usize].last(), Some(&found), "it is stale");
        }
    }

    proptest! {
        #[test]
        fn what_is_flushed_or_coherent_is_never_stale(trace in trace(), coherent: bool) {
            let mut checked = Checked::new(coherent);
            for (step, line, word) in trace {
                checked.take(step, line, word, !coherent);
                checked.is_newest(line, word, checked.found_by_core(place(line, word)));
            }
        }

        #[test]
        fn what_is_stale_was_there_once(trace in trace()) {
            let mut checked = Checked::new(false);
            for (step, line, word) in trace {
                checked.take(step, line, word, false);
            }
        }
    }
}
