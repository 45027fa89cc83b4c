//! Requests from one thread of a machine to another, and their results, in shared memory.

use doorbell_verbs::{Cpu, Mem, Span};

/// How long after its end a thread waits for clients of its machine that it serves: far longer than the time
/// between their beginnings.
pub(crate) const LATE: Span = Span::from_ms(1_000);

/// Bytes of a request's slot, and of the word that says that a result is there: a cache line.
pub(crate) const LINE: u64 = 64;

/// Two queues, one of requests and one of results, with a slot for each request that may be outstanding.
/// Requests are numbered from 0. Each uses the slot of its number for the request. It also uses this slot for
/// the result, if requests are answered in order. A slot that is ready holds the number after the request's
/// number, which is stored last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    requests: Mem,
    results: Mem,
    slots: u64,
    /// Bytes of the longest result, rounded up to whole lines.
    longest: u64,
}

impl Channel {
    /// Bytes of the queues of requests and of results.
    pub(crate) fn bytes(slots: u64, longest: u64) -> (u64, u64) {
        (slots * LINE, slots * (longest.next_multiple_of(LINE) + LINE))
    }

    /// A channel in memory of [`Channel::bytes`].
    pub(crate) fn new((requests, results): (Mem, Mem), slots: u64, longest: u64) -> Channel {
        Channel { requests, results, slots, longest: longest.next_multiple_of(LINE) }
    }

    fn result(&self, number: u64) -> u64 {
        number % self.slots * (self.longest + LINE)
    }

    /// Memory of the results, to be registered.
    pub(crate) fn results(&self) -> Mem {
        self.results
    }

    /// Offset in that memory at which a request's result goes.
    pub(crate) fn result_at(&self, number: u64) -> u64 {
        self.result(number)
    }

    /// Posts a request with these words. A line has room for seven.
    pub(crate) fn ask<C: Cpu>(&self, cpu: &C, number: u64, words: &[u64]) {
        let slot = number % self.slots * LINE;
        for (at, word) in (1..).zip(words) {
            cpu.store_u64(self.requests, slot + 8 * at, *word);
        }
        cpu.store_u64(self.requests, slot, number + 1);
    }

    /// The words of a request, once it is there.
    pub(crate) fn asked<const N: usize, C: Cpu>(&self, cpu: &C, number: u64) -> Option<[u64; N]> {
        let slot = number % self.slots * LINE;
        let there = cpu.load_u64(self.requests, slot) == number + 1;
        let word = |at: usize| cpu.load_u64(self.requests, slot + 8 * (1 + at as u64));
        there.then(|| std::array::from_fn(word))
    }

    /// Marks a request's result as complete.
    pub(crate) fn answer<C: Cpu>(&self, cpu: &C, number: u64) {
        cpu.store_u64(self.results, self.result(number) + self.longest, number + 1);
    }

    /// The word told in a result's slot, for requests that are answered in any order; 0 at first.
    pub(crate) fn told<C: Cpu>(&self, cpu: &C, slot: u64) -> u64 {
        cpu.load_u64(self.results, self.result(slot) + self.longest)
    }

    /// Stores such a word.
    pub(crate) fn tell<C: Cpu>(&self, cpu: &C, slot: u64, what: u64) {
        cpu.store_u64(self.results, self.result(slot) + self.longest, what);
    }

    /// Takes a request's result, once it is there.
    pub(crate) fn take<C: Cpu>(&self, cpu: &C, number: u64, into: &mut [u8]) -> bool {
        let slot = self.result(number);
        let there = cpu.load_u64(self.results, slot + self.longest) == number + 1;
        if there {
            cpu.read(self.results, slot, into);
        }
        there
    }
}
