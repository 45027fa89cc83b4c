//! Deployment of a shuffle.

use super::config::{Placement, Shuffle};
use super::layout::{Full, Plan, Transfer};
use super::protocol::ShuffleClient;
use crate::config::{Clients, Seats, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::strategy::Chosen;
use crate::{Measured, Record, Round, System, SystemShape};
use doorbell_schema::{Duration, Given};
use doorbell_verbs::{Cluster, Mem, Span};

/// Where the memory of executors is allocated.
#[derive(Clone, Copy, Debug)]
pub struct Inboxes {
    /// Seats of the executors.
    pub seats: Seats,
    /// The socket of their memory.
    pub placement: Placement,
}

impl Inboxes {
    /// Allocates memory of an executor.
    ///
    /// # Errors
    /// If its machine has no more memory.
    pub fn alloc<C: Cluster, R: Record, D: Dress>(
        &self,
        site: &mut Site<'_, C, R, D>,
        executor: u32,
        bytes: u64,
    ) -> Result<Mem, SiteError> {
        let (machine, core) = self.seats.place(executor);
        let near = self.placement.near(&self.seats, core);
        site.alloc_near((machine, near), bytes.max(1))
    }
}

/// Allocates the inboxes of all executors of a plan.
///
/// # Errors
/// If a machine has no more memory.
pub fn put_up_inboxes<C: Cluster, R: Record, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    plan: &Plan,
    inboxes: Inboxes,
) -> Result<Vec<Mem>, SiteError> {
    (0..plan.executors).map(|executor| inboxes.alloc(site, executor, plan.inbox_bytes())).collect()
}

impl System for Shuffle {
    const NAME: &'static str = "shuffle";
    const ABOUT: &'static str = "Executors that distribute entries to each other by their keys, round by \
                                 round; the server takes no part";

    /// Values of the paper's Figure 15: sixteen executors, one at each socket of eight machines. The paper
    /// does not state the size of an entry, the number of entries in a round or a segment, or the number of
    /// outstanding posts. Here entries have the smallest size of its Figure 18, and four posts are
    /// outstanding, as in Figures 3 to 5.
    fn usual() -> Shuffle {
        Shuffle {
            clients: Clients::new(16, 2, 4, false),
            timing: Timing::USUAL,
            transfer: Transfer::Push,
            strategy: Chosen::Sgl,
            batch_entries: 16,
            inline_bytes: 0,
            entry: 64,
            segment: 1024,
            full: Full::Block,
            bytes: None,
            round_entries: 4096,
            keys: 1 << 20,
            zipf: false,
            senders: 0,
            receivers: 0,
            sockets: 2,
            cores_per_socket: 8,
            placement: Placement::Own,
            give_up: Duration::new(Span::from_ms(5_000)),
        }
    }

    /// With `bytes`, the entries of each sender follow.
    fn settle(&mut self, given: &Given) {
        let share = self.share_of_table().filter(|share| *share > 0);
        if let (Some(share), None) = (share, given.get(Shuffle::round_entries.key)) {
            self.round_entries = share;
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        // The buffers of senders, to which some strategies copy entries.
        let post = u64::from(self.batch_entries) * u64::from(self.entry);
        let warmed_bytes = post * u64::from(self.clients.outstanding) * u64::from(self.clients.clients);
        SystemShape {
            // The memory is on the executors' machines, not on the server.
            store_bytes: self.memory(),
            warmed_bytes,
            inline_bytes: Some(self.inline_bytes),
            sockets: Some((self.sockets, self.cores_per_socket)),
            moved_bytes: Some(self.entry.into()),
            // Receivers count the entries that they take.
            competes: self.zipf && self.receivers == 0,
            round: Some(Round::Operations(self.round_operations())),
            latency_of: Some(match self.transfer {
                Transfer::Push => {
                    "an entry, from the time the first entry of its post is read until the post completes"
                }
                Transfer::Pull => {
                    "an entry, from the time the READ that fetches it is posted until the READ completes"
                }
            }),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let Some(strategy) = self.strategy.strategy() else {
            return Err(SiteError::Said("strategy is auto, but only vector-io has auto".into()));
        };
        let (plan, seats) = (self.plan(strategy), self.seats());
        let memory = Inboxes { seats, placement: self.placement };
        let inboxes = put_up_inboxes(site, &plan, memory)?;
        for number in 0..plan.executors {
            let input = memory.alloc(site, number, self.input_bytes(number))?;
            let place = seats.place(number);
            let keys = self.input_keys(number);
            site.cluster().preset(place.0, input, |bytes| {
                for (entry, key) in bytes.chunks_exact_mut(self.entry as usize).zip(keys) {
                    entry[..8].copy_from_slice(&key.to_ne_bytes());
                }
            });
            let (shuffle, inboxes, interval) = (self.clone(), inboxes.clone(), site.client_interval());
            site.add_client(place, ShuffleClient { number, shuffle, plan, inboxes, input, interval });
        }
        Ok(())
    }
}
