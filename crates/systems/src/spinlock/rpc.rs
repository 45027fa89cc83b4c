//! Threads of the server that keep each lock's holder (CLUSTER'21, III-E: channel semantic verbs).
//!
//! Each lock belongs to one thread, so threads share nothing and need no locks of their own. Clients know
//! the thread of a lock and send their requests to it. HERD partitions keys between its threads, too.

use super::layout::Layout;
use super::lock::{Design, Lock};
use super::reach::Reach;
use super::remote;
use crate::config::LLC;
use crate::herd::{self, Config, Done, Handler, Replies, Requests, RpcOutcome, Worker};
use crate::site::{Dress, Site, SiteError};
use crate::{Interval, Measured, Record, SystemError};
use doorbell_verbs::{Cluster, Cpu, Mem, Program, Provider};

/// Maximum number of locks of a thread whose holders take no time to look up. Their table has 16 KiB, half of
/// a core's first-level cache.
const FEW: u32 = 4096;

/// Bytes of a lock's holder in a larger table.
const HOLDER: u64 = 4;

/// The thread of a lock, and the number of the lock among the locks of this thread. Locks take the threads in
/// turn.
fn keeper(threads: u32, lock: u32) -> (u32, u32) {
    (lock % threads, lock / threads)
}

/// Number of locks that a thread keeps, of `locks` locks.
fn kept(threads: u32, locks: u32, thread: u32) -> u32 {
    locks.saturating_sub(thread).div_ceil(threads)
}

/// Bytes of the holders of this many locks.
pub(super) fn table_bytes(locks: u32) -> u64 {
    u64::from(locks) * HOLDER
}

/// A request: a lock, the client that asks, and whether the client releases the lock. A message carries it as
/// one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AskedLock {
    /// Number of the lock among the locks of the thread.
    lock: u32,
    /// Number of the client, from 1.
    client: u32,
    gives: bool,
}

impl AskedLock {
    fn of(number: u64) -> AskedLock {
        AskedLock { lock: (number >> 32) as u32, client: number as u32 >> 1, gives: number & 1 == 1 }
    }

    fn number(self) -> u64 {
        u64::from(self.lock) << 32 | u64::from(self.client) << 1 | u64::from(self.gives)
    }

    /// The holder of the lock after the request; `None` if the request fails with this holder.
    fn moved(self, holder: u32) -> Option<u32> {
        let (from, to) = if self.gives { (self.client, 0) } else { (0, self.client) };
        (holder == from).then_some(to)
    }
}

/// The holder of each lock of a thread; 0 if the lock is free.
enum Holders {
    /// At most [`FEW`] locks.
    Few(Vec<u32>),
    /// More locks, in memory of the server with [`HOLDER`] bytes for each lock.
    Many(Mem),
}

impl Holders {
    /// Executes a request. Returns whether the request succeeded.
    fn did<C: Cpu>(&mut self, cpu: &C, asked: AskedLock) -> bool {
        match self {
            Holders::Few(holders) => {
                let Some(holder) = holders.get_mut(asked.lock as usize) else { return false };
                let moved = asked.moved(*holder);
                *holder = moved.unwrap_or(*holder);
                moved.is_some()
            }
            Holders::Many(holders) => {
                let at = u64::from(asked.lock) * HOLDER;
                if at >= holders.len() {
                    return false;
                }
                let moved = asked.moved(cpu.load_u32(*holders, at));
                if let Some(holder) = moved {
                    cpu.store_u32(*holders, at, holder);
                }
                moved.is_some()
            }
        }
    }
}

impl Handler for Holders {
    type Request = u64;
    type Reply = u64;

    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[u64], replies: &mut Vec<u64>) {
        replies.extend(requests.iter().map(|asked| u64::from(self.did(cpu, AskedLock::of(*asked)))));
    }
}

/// A thread of the server.
struct RpcLockServer {
    config: Config,
    number: u32,
    holders: Holders,
    region: Mem,
    interval: Interval,
}

impl Program for RpcLockServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut holders = self.holders;
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut holders, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// Locks whose holders threads of the server keep. Their data, if any, is in the server's memory.
#[derive(Clone, Debug)]
pub struct Rpc {
    config: Config,
    layout: Layout,
}

impl Rpc {
    /// Adds `threads` threads of the server. If locks guard data, also adds a thread that lets clients access
    /// the data.
    ///
    /// # Errors
    /// If the server has no more memory.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        site: &mut Site<'_, C, R, D>,
        clients: u32,
        layout: Layout,
        threads: u32,
    ) -> Result<Rpc, SiteError> {
        let config = Config {
            requests: Requests::SendRc,
            replies: Replies::SendRc,
            workers: threads,
            clients,
            window: 1,
            max_request: 8,
            max_reply: 8,
            gather: 1,
            doorbell: false,
            queues: 1,
            retry: None,
        };
        let (region, interval) = (site.alloc(config.region_bytes())?, site.server_interval());
        for number in 0..threads {
            let holders = put_up_holders(site, threads, layout.locks, number)?;
            let (config, interval) = (config.clone(), interval.clone());
            site.add_server(RpcLockServer { config, number, holders, region, interval });
        }
        if layout.data > 0 {
            remote::put_up(site, clients, &layout)?;
        }
        Ok(Rpc { config, layout })
    }
}

/// The holders of the locks of a thread. A table that is larger than the last-level cache together with the
/// tables of the other threads has its share of this cache.
fn put_up_holders<C: Cluster, R: Record, D: Dress>(
    site: &mut Site<'_, C, R, D>,
    threads: u32,
    locks: u32,
    thread: u32,
) -> Result<Holders, SiteError> {
    let kept = kept(threads, locks, thread);
    if kept <= FEW {
        return Ok(Holders::Few(vec![0; kept as usize]));
    }
    let table = site.alloc(table_bytes(kept))?;
    if table_bytes(locks) > LLC {
        site.cluster().limit_cached(0, table, LLC / u64::from(threads));
    }
    Ok(Holders::Many(table))
}

impl Design for Rpc {
    type Lock<P: Provider> = LockAsker<P>;

    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<LockAsker<P>, SystemError> {
        let caller = herd::HerdClient::start(cpu, &self.config, number, 1)?;
        let guarded = self.layout.data > 0;
        let reach = guarded.then(|| remote::reach(cpu, number, &self.layout)).transpose()?;
        let (layout, threads) = (self.layout, self.config.workers);
        Ok(LockAsker { cpu: cpu.clone(), caller, reach, layout, threads, client: number + 1 })
    }
}

/// A client's access to the locks.
pub struct LockAsker<P: Provider> {
    cpu: P,
    caller: herd::HerdClient<P>,
    /// Access to the locks' data.
    reach: Option<Reach<P>>,
    layout: Layout,
    /// Number of the server's threads that keep locks.
    threads: u32,
    /// Number of this client, from 1.
    client: u32,
}

impl<P: Provider> LockAsker<P> {
    /// Sends a request and waits for the reply. Returns `None` if the interval ended first.
    fn ask(&mut self, lock: u32, gives: bool, interval: &Interval) -> Result<Option<bool>, SystemError> {
        let (thread, lock) = keeper(self.threads, lock);
        let asked = AskedLock { lock, client: self.client, gives };
        self.caller.send(thread, &asked.number(), 0)?;
        let mut done: Vec<Done<u64>> = Vec::with_capacity(1);
        while !self.caller.poll(&mut done)? {
            if self.cpu.now() >= interval.end() {
                return Ok(None);
            }
            self.cpu.pause(interval.look());
        }
        match done.first().map(|done| &done.outcome) {
            Some(RpcOutcome::Reply(did)) => Ok(Some(*did == 1)),
            _ => Err(SystemError::Protocol("the server did not understand the request".into())),
        }
    }
}

impl<P: Provider> Lock for LockAsker<P> {
    fn attempt(&mut self, lock: u32, interval: &Interval) -> Result<bool, SystemError> {
        Ok(self.ask(lock, false, interval)? == Some(true))
    }

    fn read(&mut self, lock: u32, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError> {
        let Some(reach) = &self.reach else { return Ok(true) };
        reach.read(self.layout.data(lock, 0), into, interval)
    }

    /// Lock and data use different QPs, so the data must be at the target before the release is sent.
    fn release(&mut self, lock: u32, data: &[u8], interval: &Interval) -> Result<bool, SystemError> {
        if let Some(reach) = &self.reach
            && !reach.write(self.layout.data(lock, 0), data, interval)?
        {
            return Ok(false);
        }
        match self.ask(lock, true, interval)? {
            Some(false) => {
                Err(SystemError::Protocol(format!("lock {lock} was taken away from client {}", self.client)))
            }
            answered => Ok(answered.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Profile;
    use doorbell_sim::{SimCluster, SimConfig};
    use doorbell_verbs::PageSize;
    use std::collections::BTreeSet;

    /// Requests for two locks.
    struct Asking(Holders);

    impl Program for Asking {
        type Output = ();

        fn run<P: Provider>(self, p: P) {
            let mut holders = self.0;
            let mut did = |lock, client, gives| {
                let asked = AskedLock { lock, client, gives };
                assert_eq!(AskedLock::of(asked.number()), asked);
                holders.did(&p, asked)
            };
            assert!(did(1, 7, false) && !did(1, 8, false) && !did(1, 7, false));
            assert!(did(0, 8, false));
            assert!(!did(1, 8, true) && did(1, 7, true) && !did(1, 7, true) && did(1, 8, false));
            // There is no such lock.
            assert!(!did(2, 7, false));
        }
    }

    #[test]
    fn a_lock_is_one_clients_until_it_gives_it_back() {
        let profile = Profile::named("cib").unwrap();
        let mut cluster = SimCluster::new(&profile, SimConfig::new(1));
        let table = cluster.alloc(0, 2 * HOLDER, PageSize::Small).unwrap();
        let few = cluster.spawn(0, 0, Asking(Holders::Few(vec![0; 2])));
        let many = cluster.spawn(0, 1, Asking(Holders::Many(table)));
        cluster.run().unwrap();
        assert!(few.take().is_some() && many.take().is_some());
    }

    #[test]
    fn each_lock_has_one_thread_and_one_place_in_its_table() {
        for (threads, locks) in [(1, 1), (1, 5000), (3, 1), (3, 10), (4, 8), (256, 1000)] {
            let mut tables: Vec<u32> = (0..threads).map(|thread| kept(threads, locks, thread)).collect();
            assert_eq!(tables.iter().sum::<u32>(), locks);
            let mut known = BTreeSet::new();
            for (thread, at) in (0..locks).map(|lock| keeper(threads, lock)) {
                assert!(at < tables[thread as usize] && known.insert((thread, at)), "{threads}, {locks}");
            }
            tables.sort_unstable();
            assert!(tables[tables.len() - 1] - tables[0] <= 1, "{tables:?}");
        }
    }
}
