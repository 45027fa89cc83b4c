//! The store over HERD's RPCs: its server and its clients.

use crate::device::{self, Device};
use crate::herd::{self, Config, Handler, RpcOutcome, Worker};
use crate::kv::load::Draws;
use crate::kv::message::{REPLY_OVERHEAD, REQUEST_OVERHEAD};
use crate::kv::store::IfNot;
use crate::kv::{Filled, Layout, Load, PartitionStore, Refusal, Reply, Request, numbered, owner};
use crate::measure::How;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{AccessFlags, Cpu, Mem, OperationStep, Program, Provider};
use std::collections::HashMap;

/// The value for [`Config::max_request`], with values of up to `value` bytes.
pub const fn max_request(value: u32) -> u32 {
    REQUEST_OVERHEAD + value
}

/// The value for [`Config::max_reply`], with values of up to `value` bytes.
pub const fn max_reply(value: u32) -> u32 {
    REPLY_OVERHEAD + value
}

/// Executes requests on one partition.
struct Shard {
    store: PartitionStore,
    number: u32,
    partitions: u32,
    prefetch: bool,
}

impl Shard {
    fn execute<C: Cpu>(&mut self, cpu: &C, request: &Request) -> Reply {
        if owner(request.key(), self.partitions) != self.number {
            return Reply::Refused(Refusal::OtherPartition);
        }
        let most = self.store.layout().max_value as usize;
        let ok = |done: bool, otherwise: Reply| if done { Reply::Ok } else { otherwise };
        let value =
            |found: Option<(u32, Vec<u8>)>| found.map_or(Reply::NotFound, |(n, v)| Reply::Value(n, v));
        match request {
            Request::Put(_, v) | Request::Insert(_, v) | Request::Update(_, v) if v.len() > most => {
                Reply::Refused(Refusal::TooLong)
            }
            Request::Get(key) => value(self.store.get(cpu, key)),
            Request::GetIfNot(key, version) => match self.store.get_if_not(cpu, key, *version) {
                IfNot::Same => Reply::Ok,
                IfNot::Other(found) => value(found),
            },
            Request::Put(key, v) => {
                self.store.put(cpu, key, v);
                Reply::Ok
            }
            Request::Insert(key, v) => ok(self.store.insert(cpu, key, v).is_some(), Reply::Exists),
            Request::Update(key, v) => ok(self.store.update(cpu, key, v).is_some(), Reply::NotFound),
            Request::Delete(key) => ok(self.store.delete(cpu, key), Reply::NotFound),
        }
    }
}

impl Handler for Shard {
    type Request = Request;
    type Reply = Reply;

    /// Prefetches the lines of all requests before it uses the lines of the first, so that the memory's
    /// latencies overlap.
    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[Request], replies: &mut Vec<Reply>) {
        if self.prefetch && requests.len() > 1 {
            for request in requests {
                self.store.prefetch_bucket(cpu, request.key());
            }
            for request in requests {
                self.store.prefetch_entry(cpu, request.key());
            }
        }
        for request in requests {
            replies.push(self.execute(cpu, request));
        }
    }
}

/// A worker thread of the server, with a partition of its own.
#[derive(Clone, Debug)]
pub struct HerdKvServer {
    /// Parameters that server and clients share.
    pub config: Config,
    /// Number of this worker.
    pub number: u32,
    /// The request region, which all workers share. It has [`Config::region_bytes`] bytes.
    pub region: Mem,
    /// The partitions of all workers, [`Layout::bytes`] each.
    pub tables: Mem,
    /// Sizes of a partition.
    pub layout: Layout,
    /// Number of pairs that all workers together have at the start.
    pub pairs: u64,
    /// Bytes of each value.
    pub value: u32,
    /// The state of this worker's partition, if it was filled beforehand; else the worker inserts its pairs.
    pub filled: Option<Filled>,
    /// Whether the worker prefetches the lines of a whole batch before it executes the batch.
    pub prefetch: bool,
    /// Number of clients that READ the tables (see [`crate::read_kv`]). Worker 0 connects them.
    pub readers: u32,
    /// The interval in which the worker measures, and its end.
    pub interval: Interval,
}

impl HerdKvServer {
    fn populated<C: Cpu>(&self, cpu: &C) -> Result<Shard, SystemError> {
        let bytes = self.layout.bytes();
        let partitions = self.config.workers;
        if self.tables.len() != bytes * u64::from(partitions) || self.value > self.layout.max_value {
            return SystemError::config(format!(
                "{partitions} partitions with values of {} bytes do not fit {} bytes of memory with {:?}",
                self.value,
                self.tables.len(),
                self.layout
            ));
        }
        let mem = self.tables.slice(u64::from(self.number) * bytes, bytes);
        let shard = |store| Shard { store, number: self.number, partitions, prefetch: self.prefetch };
        if let Some(filled) = self.filled {
            return Ok(shard(PartitionStore::resume(mem, self.layout, filled)?));
        }
        let mut store = PartitionStore::new(mem, self.layout)?;
        let value = vec![0x5a; self.value as usize];
        for key in (0..self.pairs).map(numbered).filter(|key| owner(key, partitions) == self.number) {
            store.put(cpu, &key, &value);
        }
        Ok(shard(store))
    }
}

impl Program for HerdKvServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut shard = self.populated(&p)?;
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        let mut readers = Vec::new();
        if self.number == 0 && self.readers > 0 {
            let device = Device::open(&p)?;
            let tables = device.register(self.tables, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ)?;
            p.publish("kv/tables", &tables.remote(0).to_bytes());
            readers.push((device::serve_rc(&device, self.readers, "kv")?, tables));
        }
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut shard, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// A client that issues the operations of a load.
#[derive(Clone, Debug)]
pub struct HerdKvClient {
    /// Parameters that server and clients share.
    pub config: Config,
    /// Number of this client.
    pub number: u32,
    /// The operations of the client.
    pub load: Load,
    /// Whether the client keeps the version of each key it has read, and GETs only values that have changed
    /// (ATC'16, 5.2.2).
    pub speculate: bool,
    /// The interval in which the client measures, and its end.
    pub interval: Interval,
}

impl Program for HerdKvClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut client = herd::HerdClient::start(&p, &self.config, self.number, self.load.outstanding)?;
        let mut draws = Draws::new(self.load, self.number);
        let mut versions: HashMap<u64, u32> = HashMap::new();
        let mut done = Vec::new();
        let mut next = None;
        let interval = self.interval.begin(&p);
        while p.now() < interval.end() {
            let mut busy = false;
            while (!self.load.windows || client.outstanding() == 0 || busy)
                && client.outstanding() < self.load.outstanding
            {
                let (number, request) = next.take().unwrap_or_else(|| self.draw(&mut draws, &versions));
                let worker = owner(request.key(), self.config.workers);
                if !client.has_room(worker) {
                    next = Some((number, request));
                    break;
                }
                client.send(worker, &request, number)?;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                let mut how = How::default();
                match d.outcome {
                    RpcOutcome::Reply(Reply::Value(version, _)) => {
                        if self.speculate {
                            versions.insert(d.tag, version);
                        }
                    }
                    RpcOutcome::Reply(Reply::Ok) => how.header_only = true,
                    RpcOutcome::Reply(Reply::NotFound) => how.missed = true,
                    outcome => {
                        return Err(SystemError::Protocol(format!(
                            "an operation on an existing key ended with {outcome:?}"
                        )));
                    }
                }
                p.mark(d.key, OperationStep::Ends { since: d.sent });
                measured.operation(&interval, d.sent, p.now(), how);
            }
            measured.again += client.repeat()?;
            if !busy {
                p.pause(interval.look().min(client.due()));
            }
        }
        Ok(measured)
    }
}

impl HerdKvClient {
    fn draw(&self, draws: &mut Draws, versions: &HashMap<u64, u32>) -> (u64, Request) {
        let number = draws.number();
        let key = numbered(number);
        let request = if draws.is_put() {
            Request::Put(key, draws.value())
        } else {
            match versions.get(&number) {
                Some(version) => Request::GetIfNot(key, *version),
                None => Request::Get(key),
            }
        };
        (number, request)
    }
}
