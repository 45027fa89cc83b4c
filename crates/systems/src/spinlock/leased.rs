//! Locks in the server's memory with a lease and fencing: see the module [`super`].

use super::layout::Layout;
use super::lock::{Design, Lock};
use super::reach::{Last, Reach};
use super::remote;
use super::word::{self, Word};
use crate::site::{Dress, Site, SiteError};
use crate::{Interval, Record, SystemError};
use doorbell_verbs::{Cluster, Provider, Span, Time};

/// Locks in the server's memory. A holder loses its lock when the lease ends.
#[derive(Clone, Copy, Debug)]
pub struct Leased {
    layout: Layout,
    /// Time for which a client acquires a lock.
    pub lease: Span,
    /// Another client takes the lock only this long after the lease has ended. This must exceed the largest
    /// difference of two clocks plus the longest time for which a holder is paused. Otherwise a holder may
    /// still use the lock when another client takes it.
    pub drift: Span,
    /// If set, a holder WRITEs data to a free slot. The release makes this slot the valid one. If not set,
    /// there is one slot, to which all holders WRITE.
    pub fencing: bool,
}

impl Leased {
    /// Allocates this many locks, each with this many bytes of data.
    ///
    /// # Errors
    /// If the server has no more memory, or there are more clients than a word can name.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        site: &mut Site<'_, C, R, D>,
        clients: u32,
        (locks, data): (u32, u32),
        (lease, drift, fencing): (Span, Span, bool),
    ) -> Result<Leased, SiteError> {
        if clients > word::CLIENTS {
            let most = word::CLIENTS;
            return Err(SiteError::Said(format!(
                "a lock with a lease has at most {most} clients, not {clients}"
            )));
        }
        let layout = Leased::layout(clients, (locks, data), fencing);
        remote::put_up(site, clients, &layout)?;
        Ok(Leased { layout, lease, drift, fencing })
    }

    /// Layout of the locks and their slots.
    pub(super) fn layout(clients: u32, (locks, data): (u32, u32), fencing: bool) -> Layout {
        Layout { locks, data, slots: if fencing { word::slots(clients) } else { 1 } }
    }

    /// Bytes that a client has for the words of this many locks.
    pub(super) fn known_bytes(locks: u32) -> u64 {
        u64::from(locks) * size_of::<Word>() as u64
    }

    /// Locks with fencing in memory of this layout.
    pub(crate) fn fenced(layout: Layout, lease: Span, drift: Span) -> Leased {
        Leased { layout, lease, drift, fencing: true }
    }

    /// The word with which an attempt compares. `known` is the word that this client last saw or wrote.
    /// If `known` is free, or its lease has ended, the attempt compares with `known`. Otherwise the
    /// attempt can succeed only if the holder has released the lock before the attempt arrives. So the
    /// attempt compares with the word that this release will have written.
    pub(crate) fn expected(&self, known: Word, now: Time) -> Word {
        let takes = known.holder == 0 || known.has_ended(now, self.drift);
        if takes { known } else { self.given_back(known) }
    }

    /// The word that the holder leaves when it releases the lock.
    pub(crate) fn given_back(&self, word: Word) -> Word {
        let publishes = self.fencing && self.layout.data > 0;
        word.free(if publishes { word.next_slot() } else { word.slot })
    }
}

impl Design for Leased {
    type Lock<P: Provider> = Words<P>;

    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<Words<P>, SystemError> {
        let reach = remote::reach(cpu, number, &self.layout)?;
        let known = vec![Word::default(); self.layout.locks as usize];
        Ok(Words { cpu: cpu.clone(), reach, locks: *self, client: number + 1, known })
    }
}

/// A client's access to the locks.
pub struct Words<P: Provider> {
    cpu: P,
    reach: Reach<P>,
    locks: Leased,
    /// Number of this client, from 1.
    client: u32,
    /// For each lock, its word as this client last saw or wrote it.
    known: Vec<Word>,
}

impl<P: Provider> Words<P> {
    /// Makes one compare-and-swap, and updates the known word by its result. Returns `false` if the
    /// compare-and-swap fails, or has no result because the run ends.
    fn swap(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError> {
        let expected = self.locks.expected(self.known[lock as usize], self.cpu.now());
        // The clock is read before the compare-and-swap is posted, so the lease counts from a time before the
        // acquisition.
        let taken = expected.taken(self.client, self.cpu.now() + self.locks.lease);
        let take = Last::CompareSwap { compare: expected.bits(), swap: taken.bits() };
        let word = self.locks.layout.word(lock);
        let Some(seen) = self.reach.write_then((0, &[]), word, take, interval)? else { return Ok(false) };
        let is_taken = seen == expected.bits();
        self.known[lock as usize] = if is_taken { taken } else { Word::of(seen) };
        Ok(is_taken)
    }
}

impl<P: Provider> Lock for Words<P> {
    /// A failed compare-and-swap returns the current word. If that differs from the known word, the known
    /// word was out of date. Then a second compare-and-swap follows, because the lock may be free.
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError> {
        let before = self.known[lock as usize];
        if self.swap(lock, interval)? {
            return Ok(true);
        }
        if self.known[lock as usize] == before { Ok(false) } else { self.swap(lock, interval) }
    }

    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError> {
        let slot = self.known[lock as usize].slot;
        self.reach.read(self.locks.layout.data(lock, slot), into, interval)
    }

    /// Returns `false` if another client has taken the lock over, or the run ends.
    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError> {
        let Leased { layout, .. } = self.locks;
        let mine = self.known[lock as usize];
        let free = self.locks.given_back(mine);
        let give = Last::CompareSwap { compare: mine.bits(), swap: free.bits() };
        let written = (layout.data(lock, free.slot), data);
        let Some(seen) = self.reach.write_then(written, layout.word(lock), give, interval)? else {
            return Ok(false);
        };
        let is_mine = seen == mine.bits();
        self.known[lock as usize] = if is_mine { free } else { Word::of(seen) };
        Ok(is_mine)
    }
}
