//! The hashtable on machines.

use super::config::Hashtable;
use super::entry;
use super::io::service;
use super::load::Client;
use super::table::{Hot, Place, Record, Table};
use crate::config::{Clients, Pairs, Timing, Values};
use crate::ends::Server;
use crate::proxy::Path;
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, Record as Kept, System};
use doorbell_schema::{Duration, Share};
use doorbell_verbs::{AccessFlags, Cluster, PageSize, Span};

impl System for Hashtable {
    const NAME: &'static str = "hashtable";
    const ABOUT: &'static str = "Hashtable in memory of back-ends, by one-sided verbs: versions of cold keys, blocks of hot ones that front-ends hold back";

    /// The paper says Zipf's law, all writes, and 64 bytes. What else there is it does not say; docs/hashtable.md has what other choices give.
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

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn machines(&self) -> u32 {
        self.back_ends - 1 + self.clients.machines()
    }

    fn timing(&self) -> &Timing {
        &self.timing
    }

    fn timing_mut(&mut self) -> &mut Timing {
        &mut self.timing
    }

    /// Of all back-ends.
    fn store_bytes(&self) -> u64 {
        self.bytes()
    }

    fn sockets(&self) -> Option<(u32, u32)> {
        Some((self.sockets, self.cores_per_socket))
    }

    fn latency_of(&self) -> Option<&'static str> {
        Some("an operation; a hot write ends in the front-end's own memory")
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        put_up(site, self)?;
        for number in 0..self.clients.clients {
            let interval = site.client_interval();
            site.add_client(self.place(number), Client { number, config: self.clone(), interval });
        }
        Ok(())
    }
}

/// Puts the back-ends up, with version 0 of each key.
///
/// # Errors
/// If one has no more memory.
pub fn put_up<C: Cluster, R: Kept, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    config: &Hashtable,
) -> Result<(), SiteError> {
    let table = config.table();
    for back_end in 0..config.back_ends {
        let mut memories = Vec::new();
        for socket in 0..config.sockets {
            let core = socket * config.cores_per_socket;
            let memory = site.cluster().alloc_near(back_end, core, table.area_bytes(), PageSize::Huge)?;
            let area = back_end * config.sockets + socket;
            site.cluster().preset(back_end, memory, |bytes| fill_area(&table, area, bytes));
            memories.push(memory);
        }
        let server = Server {
            service: service(back_end),
            memories,
            access: AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC,
            links: config.links(),
            until: site.until(back_end),
        };
        site.add_server_at((back_end, 0), server);
    }
    Ok(())
}

/// Version 0 of each key of an area.
fn fill_area(table: &Table, area: u32, bytes: &mut [u8]) {
    let mut value = vec![0; table.value as usize];
    let mut entry = Vec::new();
    for key in 0..table.pairs {
        let at = match table.place(key) {
            Place::Cold(Record { area: of, at }) if of == area => at + table.slots(),
            Place::Hot(Hot { block, entry }) if table.lock(block).0 == area => {
                table.locks().data(table.lock(block).1, 0) + u64::from(entry) * table.entry()
            }
            _ => continue,
        };
        entry::fill(key, 0, &mut value);
        entry::encode(key, 0, &value, &mut entry);
        bytes[at as usize..][..entry.len()].copy_from_slice(&entry);
    }
}
