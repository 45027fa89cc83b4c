//! Queues in shared memory for requests from one thread to another thread of the machine, and for their
//! results.

use doorbell_verbs::{Cpu, Mem, Span};

/// Time for which a thread still serves other threads of its machine after the end of its own interval. It is
/// far longer than the time between the starts of these threads.
pub(crate) const LATE: Span = Span::from_ms(1_000);

/// Bytes of a request's slot, and of the line whose first word says that a result is there.
pub(crate) const LINE: u64 = 64;

/// A queue of requests and a queue of results. Each has a slot for every request that may be outstanding.
/// Requests are numbered from 0. Request n is in slot n modulo the number of slots. If requests are answered
/// in order, its result is in this slot, too. A slot is ready when it holds the word n + 1, which is stored
/// last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    requests: Mem,
    results: Mem,
    slots: u64,
    /// Bytes of the longest result, rounded up to whole lines.
    longest: u64,
}

impl Channel {
    /// Bytes of the queue of requests, and of the queue of results.
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

    /// Memory of the results, which the NIC of the answering thread writes.
    pub(crate) fn results(&self) -> Mem {
        self.results
    }

    /// Offset of a request's result in [`Channel::results`].
    pub(crate) fn result_at(&self, number: u64) -> u64 {
        self.result(number)
    }

    /// Posts a request that consists of these words, at most seven.
    pub(crate) fn ask<C: Cpu>(&self, cpu: &C, number: u64, words: &[u64]) {
        let slot = number % self.slots * LINE;
        for (at, word) in (1..).zip(words) {
            cpu.store_u64(self.requests, slot + 8 * at, *word);
        }
        cpu.store_u64(self.requests, slot, number + 1);
    }

    /// The words of a request; `None` if the request is not there yet.
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

    /// The word that [`Channel::tell`] stored in a slot of results; 0 at first. For requests that are
    /// answered in any order.
    pub(crate) fn told<C: Cpu>(&self, cpu: &C, slot: u64) -> u64 {
        cpu.load_u64(self.results, self.result(slot) + self.longest)
    }

    /// Stores a word in a slot of results.
    pub(crate) fn tell<C: Cpu>(&self, cpu: &C, slot: u64, what: u64) {
        cpu.store_u64(self.results, self.result(slot) + self.longest, what);
    }

    /// Copies a request's result to `into`. Returns whether the result is there.
    pub(crate) fn take<C: Cpu>(&self, cpu: &C, number: u64, into: &mut [u8]) -> bool {
        let slot = self.result(number);
        let there = cpu.load_u64(self.results, slot + self.longest) == number + 1;
        if there {
            cpu.read(self.results, slot, into);
        }
        there
    }
}
