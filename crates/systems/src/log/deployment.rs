//! Deployment of the log.

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

/// The parameters of a log machine.
#[derive(Clone, Copy, Debug)]
pub struct LogMachine {
    /// Whether appends wait or are refused when the log is full.
    pub full: Full,
    /// How engines reserve positions.
    pub reserve: Reserve,
    /// Number of readers on other machines. The numbers of their connections follow those of the engines.
    pub readers: u32,
    /// Whether a reader on the log machine reports how far it has read.
    pub has_reader: bool,
    /// Time for which the warden sees a hole before it destroys the connections of the hole's possible
    /// owners.
    pub patience: Span,
    /// Time after which an engine that reserves by RPC asks again; `None` for never.
    pub retry: Option<Span>,
}

/// The memory of the log machine.
#[derive(Clone, Copy, Debug)]
pub struct LogMemory {
    /// The log.
    pub log: Mem,
    /// The word by which a reader on the log machine reports how far it has read.
    pub read: Mem,
}

impl LogMachine {
    /// Sets up the log machine: its warden and, if engines reserve positions by RPC, the thread that answers.
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
    const ABOUT: &'static str = "Log that engines append to: they reserve positions by fetch-and-add, and \
                                 the NIC gathers records from their tables";

    /// The paper does not state the length of a record, the number of an engine's appends in flight, or the
    /// sizes of log and tables. Here a record has the length of the values in the paper's hashtable. An
    /// engine has one append in flight, because a transaction waits for its commit.
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
        // The tables of engines and their copies.
        let apart = u64::from(self.record).next_multiple_of(64);
        let copied = self.records.saturating_mul(self.clients.outstanding);
        let warmed_bytes = apart * (u64::from(self.table) + u64::from(copied));
        SystemShape {
            store_bytes: self.layout().bytes(),
            warmed_bytes,
            inline_bytes: Some(self.inline_bytes),
            sockets: self.has_far().then_some((2, self.cores_per_socket)),
            latency_of: Some(
                "a record, from the time its transaction begins to change the table until its append ends",
            ),
            // A log that wraps uses new memory on its first lap.
            round: (self.log_full == Full::Wrap).then_some(Round::Operations(self.log_slots)),
            // The warden polls the marks all the time.
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
