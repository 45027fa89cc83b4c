//! A thread of the server that keeps each lock's holder (CLUSTER'21, III-E: channel semantic verbs).

use super::layout::Layout;
use super::lock::{Design, Lock};
use super::reach::Reach;
use super::remote;
use crate::herd::{self, Config, Done, Handler, Replies, Requests, RpcOutcome, Worker};
use crate::site::{Dress, Site, SiteError};
use crate::{Interval, Measured, Record, SystemError};
use doorbell_verbs::{Cluster, Cpu, Mem, Program, Provider};

/// Number of the only worker.
const WORKER: u32 = 0;

/// A request: a lock, the client that asks, and whether the client releases the lock. A message carries it as
/// one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AskedLock {
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
}

/// The holder of each lock; 0 if the lock is free.
struct Holders(Vec<u32>);

impl Holders {
    /// Executes a request. Returns whether the request succeeded.
    fn did(&mut self, asked: AskedLock) -> bool {
        let (from, to) = if asked.gives { (asked.client, 0) } else { (0, asked.client) };
        match self.0.get_mut(asked.lock as usize) {
            Some(holder) if *holder == from => {
                *holder = to;
                true
            }
            _ => false,
        }
    }
}

impl Handler for Holders {
    type Request = u64;
    type Reply = u64;

    fn handle<C: Cpu>(&mut self, _: &C, requests: &[u64], replies: &mut Vec<u64>) {
        replies.extend(requests.iter().map(|asked| u64::from(self.did(AskedLock::of(*asked)))));
    }
}

/// The server's thread.
struct RpcLockServer {
    config: Config,
    locks: u32,
    region: Mem,
    interval: Interval,
}

impl Program for RpcLockServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut holders = Holders(vec![0; self.locks as usize]);
        let mut worker = Worker::start(&p, &self.config, WORKER, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut holders, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// Locks whose holders a thread of the server keeps. Their data, if any, is in the server's memory.
#[derive(Clone, Debug)]
pub struct Rpc {
    config: Config,
    layout: Layout,
}

impl Rpc {
    /// Adds the server's thread. If locks guard data, also adds a thread that lets clients access the data.
    ///
    /// # Errors
    /// If the server has no more memory.
    pub fn put_up<C: Cluster, R: Record, D: Dress>(
        site: &mut Site<'_, C, R, D>,
        clients: u32,
        layout: Layout,
    ) -> Result<Rpc, SiteError> {
        let config = Config {
            requests: Requests::SendRc,
            replies: Replies::SendRc,
            workers: 1,
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
        site.add_server(RpcLockServer { config: config.clone(), locks: layout.locks, region, interval });
        if layout.data > 0 {
            remote::put_up(site, clients, &layout)?;
        }
        Ok(Rpc { config, layout })
    }
}

impl Design for Rpc {
    type Lock<P: Provider> = LockAsker<P>;

    fn open<P: Provider>(&self, cpu: &P, number: u32) -> Result<LockAsker<P>, SystemError> {
        let caller = herd::HerdClient::start(cpu, &self.config, number, 1)?;
        let guarded = self.layout.data > 0;
        let reach = guarded.then(|| remote::reach(cpu, number, &self.layout)).transpose()?;
        Ok(LockAsker { cpu: cpu.clone(), caller, reach, layout: self.layout, client: number + 1 })
    }
}

/// A client's access to the locks.
pub struct LockAsker<P: Provider> {
    cpu: P,
    caller: herd::HerdClient<P>,
    /// Access to the locks' data.
    reach: Option<Reach<P>>,
    layout: Layout,
    /// Number of this client, from 1.
    client: u32,
}

impl<P: Provider> LockAsker<P> {
    /// Sends a request and waits for the reply. Returns `None` if the interval ended first.
    fn ask(&mut self, lock: u32, gives: bool, interval: &Interval) -> Result<Option<bool>, SystemError> {
        let asked = AskedLock { lock, client: self.client, gives };
        self.caller.send(WORKER, &asked.number(), 0)?;
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

    #[test]
    fn a_lock_is_one_clients_until_it_gives_it_back() {
        let mut holders = Holders(vec![0; 2]);
        let mut did = |lock, client, gives| {
            let asked = AskedLock { lock, client, gives };
            assert_eq!(AskedLock::of(asked.number()), asked);
            holders.did(asked)
        };
        assert!(did(1, 7, false) && !did(1, 8, false) && !did(1, 7, false));
        assert!(did(0, 8, false));
        assert!(!did(1, 8, true) && did(1, 7, true) && !did(1, 7, true) && did(1, 8, false));
        // There is no such lock.
        assert!(!did(2, 7, false));
    }
}
