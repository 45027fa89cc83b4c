//! Look-ups of QP contexts and address translations, and DMA reads of entries that are not cached.

use super::nic::SimDevice;
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{Id, QpId};
use crate::core::ps::Ps;
use crate::env::Env;
use crate::host::{ALLOCATED, Host, MemPlace};

impl SimDevice {
    /// Looks up a QP context. `requester` tells which unit needs the context: a sending unit, for a request
    /// (true), or a receiving unit (false). Returns how long this unit waits for the
    /// context: zero if it is cached.
    pub(super) fn context(&mut self, env: &mut Env, qp: QpId, requester: bool) -> Ps {
        let cache = if requester { &mut self.caches.requester } else { &mut self.caches.responder };
        if cache.touch(qp.index() as u32, env.counts()) {
            return Ps::ZERO;
        }
        self.refetch(env, self.profile.device.caches.context);
        let end = self.caches.context_read(env.now, Ps(self.costs.send.context_stall));
        let cache = if requester { &mut self.caches.requester } else { &mut self.caches.responder };
        cache.stalled += env.window.overlap(env.now, end);
        end - env.now
    }

    /// Looks up the translation of each page in the `len` bytes from `addr`, and starts a DMA read for each
    /// missing one. Returns the place of the bytes, and how long a unit stalls for the missing translations.
    #[inline]
    pub(super) fn translate(&mut self, host: &Host, env: &mut Env, addr: u64, len: u64) -> (MemPlace, Ps) {
        let place = host.memory.place(addr, 0).expect(ALLOCATED);
        let last = MemPlace { offset: place.offset + len.max(1) - 1, ..place };
        let stalls =
            (host.memory.page(place)..=host.memory.page(last)).map(|page| self.translation(env, page));
        (place, stalls.sum())
    }

    fn translation(&mut self, env: &mut Env, page: u32) -> Ps {
        if self.caches.translations.touch(page, env.counts()) {
            return Ps::ZERO;
        }
        self.refetch(env, self.profile.device.caches.translation);
        let stall = Ps(self.costs.translation_stall);
        self.caches.translations.stalled += env.window.overlap(env.now, env.now + stall);
        stall
    }

    /// Starts the DMA read of an entry that is not cached. The read only occupies PCIe: no unit
    /// waits for its completion. Instead, a unit stalls for a time that the caller takes from the costs.
    pub(super) fn refetch(&mut self, env: &mut Env, bytes: u32) {
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::Refetch));
    }
}
