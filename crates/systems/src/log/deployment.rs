//! The log on machines.

use super::config::{At, Full, Log, Reserve};
use super::engine::LogEngine;
use super::layout::{Layout, SERVICE};
use super::reserver::{self, Sequencer};
use super::warden::Warden;
use crate::config::{Clients, Timing};
use crate::site::{Dress, Site, SiteError};
use crate::strategy::Strategy;
use crate::{Measured, Record, Round, System, SystemShape};
use doorbell_schema::Duration;
use doorbell_verbs::{Cluster, Mem, Span};

/// The log machine, as others than its warden know it.
#[derive(Clone, Copy, Debug)]
pub struct LogMachine {
    /// What becomes of an append where the log is full.
    pub full: Full,
    /// How positions are reserved.
    pub reserve: Reserve,
    /// Readers of other machines, whose numbers follow those of the engines.
    pub readers: u32,
    /// Whether a reader of its own says what has been read.
    pub has_reader: bool,
    /// After how long the engines that a hole may be of lose their connections.
    pub patience: Span,
    /// After how long an engine asks again, where positions are had by RPC.
    pub retry: Option<Span>,
}

/// The log's memory, and the word by which a reader of its machine says how far it is.
#[derive(Clone, Copy, Debug)]
pub struct LogMemory {
    /// The log.
    pub log: Mem,
    /// The word.
    pub read: Mem,
}

impl LogMachine {
    /// Puts it up: its warden, and where positions are had by RPC another thread.
    ///
    /// # Errors
    /// If the machine has no more memory.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        &self,
        site: &mut Site<'_, C, R, D>,
        layout: Layout,
    ) -> Result<LogMemory, SiteError> {
        let memory = LogMemory { log: site.alloc(layout.bytes())?, read: site.alloc(64)? };
        let LogMachine { full, reserve, readers, has_reader, patience, retry } = *self;
        let read = has_reader.then_some(memory.read);
        let (log, interval) = (memory.log, site.server_interval());
        site.add_server(Warden { service: SERVICE, layout, full, log, readers, read, patience, interval });
        if reserve == Reserve::Rpc {
            let config = reserver::rpcs(layout.engines, retry);
            let (region, interval) = (site.alloc(config.region_bytes())?, site.server_interval());
            site.add_server(Sequencer { config, region, log, interval });
        }
        Ok(memory)
    }
}

impl System for Log {
    const NAME: &'static str = "log";
    const ABOUT: &'static str =
        "Log that engines append to: positions reserved by fetch-and-add, records gathered from their tables";

    /// The paper says neither how long a record is, nor how many appends an engine has under way, nor how large log and tables are. A record is as long as the
    /// values of its hashtable, and an engine has one append under way, as a transaction waits for its commit.
    fn usual() -> Log {
        Log {
            clients: Clients::new(7, 1, 1, false),
            timing: Timing::USUAL,
            records: 32,
            record: 64,
            log_strategy: Strategy::Sgl,
            reserve: Reserve::FetchAdd,
            log_slots: 1 << 16,
            log_full: Full::Wrap,
            hole_patience: Duration::new(Span::from_ms(1_000)),
            table: 1024,
            clients_at: At::Near,
            tables_at: At::Near,
            merge: true,
            cores_per_socket: 8,
            inline_bytes: 64,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        // An engine's table, and its copies.
        let apart = u64::from(self.record).next_multiple_of(64);
        let copied = self.records.saturating_mul(self.clients.outstanding);
        let warmed_bytes = apart * (u64::from(self.table) + u64::from(copied));
        SystemShape {
            store_bytes: self.layout().bytes(),
            warmed_bytes,
            inline_bytes: Some(self.inline_bytes),
            sockets: self.has_far().then_some((2, self.cores_per_socket)),
            latency_of: Some(
                "a record, from when its transaction begins to change the table until its append has ended",
            ),
            // A log that wraps is new for its first lap.
            round: (self.log_full == Full::Wrap).then_some(Round::Operations(self.log_slots)),
            // The warden: it looks for records all the time.
            beside: Some(0),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        let machine = LogMachine {
            full: self.log_full,
            reserve: self.reserve,
            readers: 0,
            has_reader: false,
            patience: self.hole_patience.span(),
            retry: None,
        };
        machine.put_up(site, self.layout())?;
        for number in 0..self.clients.clients {
            let interval = site.client_interval();
            site.add_client(self.place(number), LogEngine { number, log: self.clone(), interval });
        }
        Ok(())
    }
}
