//! Deployment of READs of other sockets' memory.

use super::channel::Channel;
use super::config::{Path, Proxy};
use super::protocol::{MEMORY, ProxyClient, SERVICE, fill};
use crate::config::{Clients, Timing};
use crate::ends::EndsServer;
use crate::site::{Dress, Site, SiteError};
use crate::{Measured, System, SystemShape};
use doorbell_verbs::{AccessFlags, Cluster, PageSize};

impl System for Proxy {
    const NAME: &'static str = "proxy";
    const ABOUT: &'static str = "READs of memory at the sockets of a machine: with a QP to each socket, with \
                                 one QP to the matching socket, or by a proxy socket";

    /// Two machines with two sockets each. One machine has a client at each socket. The paper states neither
    /// the number of outstanding READs nor their size.
    fn usual() -> Proxy {
        Proxy {
            clients: Clients::new(2, 2, 4, false),
            timing: Timing::USUAL,
            path: Path::Proxy,
            sockets: 2,
            cores_per_socket: 8,
            read_bytes: 32,
            unmatched_permille: 500,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.refuse()
    }

    fn shape(&self) -> SystemShape {
        SystemShape {
            store_bytes: MEMORY * u64::from(self.sockets),
            sockets: Some((self.sockets, self.cores_per_socket)),
            ..SystemShape::of(&self.clients)
        }
    }

    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError> {
        put_up(site, self, 0)
    }
}

/// For each client and each socket, the channel to the client's proxy at this socket.
fn channels<C: Cluster, D: Dress>(
    site: &mut Site<'_, C, Measured, D>,
    config: &Proxy,
) -> Result<Vec<Vec<Option<Channel>>>, SiteError> {
    let (slots, longest) = (u64::from(config.clients.outstanding), u64::from(config.read_bytes));
    let (requests, results) = Channel::bytes(slots, longest);
    let mut all = Vec::new();
    for client in 0..config.clients.clients {
        let mut own = vec![None; config.sockets as usize];
        for socket in (0..config.sockets).filter(|socket| *socket != config.socket(client)) {
            let proxy = config.proxy(client, socket).filter(|_| config.path == Path::Proxy);
            let Some(proxy) = proxy else { continue };
            // The memory is near the proxy, because the proxy polls for requests all the time, and because
            // its NIC writes results there without a socket hop.
            let at = config.place(proxy);
            let memory = (site.alloc_near(at, requests)?, site.alloc_near(at, results)?);
            own[socket as usize] = Some(Channel::new(memory, slots, longest));
        }
        all.push(own);
    }
    Ok(all)
}

/// Deploys the system. Clients end after `limit` READs; with 0 they end only with the interval.
///
/// # Errors
/// If a machine has no more memory.
pub fn put_up<C: Cluster, D: Dress>(
    site: &mut Site<'_, C, Measured, D>,
    config: &Proxy,
    limit: u64,
) -> Result<(), SiteError> {
    let mut memories = Vec::new();
    for socket in 0..config.sockets {
        let memory = site.alloc_near((0, socket * config.cores_per_socket), MEMORY)?;
        site.cluster().preset(0, memory, |bytes| fill(socket, 0, bytes));
        memories.push(memory);
    }
    let server = EndsServer {
        service: SERVICE.into(),
        memories,
        access: AccessFlags::REMOTE_READ,
        links: config.links(),
        until: site.until(0),
    };
    site.add_server(server);
    let to = channels(site, config)?;
    let machines = 1 + config.clients.clients.div_ceil(config.clients.clients_per_machine);
    let mut done = Vec::new();
    for machine in 1..machines {
        done.push((site.cluster().alloc(machine, 64, PageSize::Small)?, config.clients_of(machine).1));
    }
    for number in 0..config.clients.clients {
        let others = (0..config.clients.clients).filter(|other| *other != number);
        let mine = |other: &u32| config.proxy(*other, config.socket(number)) == Some(number);
        let of = |other: u32| to[other as usize][config.socket(number) as usize];
        let client = ProxyClient {
            number,
            config: config.clone(),
            limit,
            interval: site.client_interval(),
            to: to[number as usize].clone(),
            from: others.filter(mine).filter_map(of).collect(),
            done: done[config.clients.place(number).0 as usize - 1],
        };
        site.add_client(config.place(number), client);
    }
    Ok(())
}
