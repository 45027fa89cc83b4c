//! Deployment of the hashtable.

use super::config::Hashtable;
use super::count::Count;
use super::entry;
use super::io::service;
use super::load::TableClient;
use super::neighbours::{self, Neighbours};
use super::table::{OWNER, TableLayout};
use crate::config::{Clients, Pairs, Timing, Values};
use crate::ends::EndsServer;
use crate::proxy::Path;
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, Record as Kept, Round, System, SystemShape};
use doorbell_schema::{Duration, Share};
use doorbell_verbs::{AccessFlags, Cluster, Span};

impl System for Hashtable {
    const NAME: &'static str = "hashtable";
    const ABOUT: &'static str = "Hashtable in the memory of back-ends, accessed by one-sided verbs: cold \
                                 keys have versions, and front-ends hold back blocks of hot keys";

    /// The paper states Zipf's law, only writes, and values of 64 bytes. It does not state the other
    /// parameters. docs/hashtable.md has the results of other choices.
    fn usual() -> Hashtable {
        let us = |us| Duration::new(Span::from_us(us));
        Hashtable {
            clients: Clients::new(6, 3, 4, false),
            pairs: Pairs { zipf: true, ..Pairs::new(1 << 14, 1000) },
            values: Values { value: 64 },
            timing: Timing::USUAL,
            back_ends: 2,
            versions: 4,
            hot: Share::of_percent(25),
            move_permille: 0,
            block_log2: 4,
            theta: 16,
            time_out: us(2_000),
            table_lease: us(50),
            drift: us(10),
            backoff: us(1),
            backoff_most: us(64),
            guard: true,
            path: Path::Direct,
            sockets: 2,
            cores_per_socket: 8,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        SystemShape {
            machines: self.back_ends - 1 + self.clients.machines(),
            // The bytes of all back-ends.
            store_bytes: self.bytes(),
            sockets: Some((self.sockets, self.cores_per_socket)),
            // Blocks that were filled together time out together.
            round: Some(Round::Time(self.time_out.span())),
            latency_of: Some("an operation; a hot write ends in the front-end's own memory"),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        for (number, neighbours) in (0..).zip(put_up(site, self)?) {
            let interval = site.client_interval();
            site.add_client(
                self.place(number),
                TableClient { number, config: self.clone(), neighbours, interval },
            );
        }
        Ok(())
    }
}

/// Sets up the back-ends with version 0 of each key. For each front-end, returns the memory that it shares
/// with other front-ends of its machine.
///
/// # Errors
/// If a machine has no more memory.
pub fn put_up<C: Cluster, R: Kept, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    config: &Hashtable,
) -> Result<Vec<Neighbours>, SiteError> {
    let table = config.table();
    for back_end in 0..config.back_ends {
        let mut memories = Vec::new();
        for socket in 0..config.sockets {
            let core = socket * config.cores_per_socket;
            let memory = site.alloc_near((back_end, core), table.area_bytes())?;
            let area = back_end * config.sockets + socket;
            site.cluster().preset(back_end, memory, |bytes| fill_area(&table, area, bytes));
            memories.push(memory);
        }
        let server = EndsServer {
            service: service(back_end),
            memories,
            access: AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC,
            links: config.links(),
            until: site.until(back_end),
        };
        site.add_server_at((back_end, 0), server);
    }
    neighbours::put_up(site, config)
}

/// Writes version 0 of the area's keys to their records. Keys that are hot at first go to their blocks, too.
fn fill_area(table: &TableLayout, area: u32, bytes: &mut [u8]) {
    let mut value = vec![0; table.value as usize];
    let mut entry = Vec::new();
    let mut put = |at: u64, what: &[u8]| bytes[at as usize..][..what.len()].copy_from_slice(what);
    for key in 0..table.pairs {
        entry::fill(key, 0, &mut value);
        entry::encode(key, 0, &value, &mut entry);
        let record = table.record(key);
        if record.area == area {
            put(record.at + table.slots(), &entry);
        }
        let Some(hot) = table.entry_of(key).filter(|_| key < table.hot()) else { continue };
        if record.area == area {
            put(record.at, &Count::hot().bits().to_le_bytes());
        }
        let (of, lock) = table.lock(hot.block);
        if of == area {
            let at = table.locks().data(lock, 0) + table.owner_at(hot);
            put(at, &key.to_le_bytes());
            put(at + OWNER, &entry);
        }
    }
}
