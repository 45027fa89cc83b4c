//! GET by READ of the bucket, then of the entry.
//!
//! An entry that is not whole is being written, or has been overwritten. The client then READs the log's
//! head, which tells the two cases apart. If the entry is being written, the client READs the bucket again,
//! without a limit. The operating system may stop the writer for milliseconds, and the key is present all
//! that time.

use crate::device::{self, Device, check};
use crate::herd::{self, Config, RpcOutcome};
use crate::kv::load::Draws;
use crate::kv::store::{self, BUCKET, IndexSlot, SeenEntry};
use crate::kv::{Key, Layout, Load, Reply, Request, owner};
use crate::measure::How;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, OperationKey, OperationStep, Program, Provider, Qp, RemoteAddr, SendFlags, SendOp,
    SendWr, Time, Wc,
};

/// A GET in flight.
struct Get {
    key: Key,
    tag: u64,
    began: Time,
    again: u64,
    stage: Stage,
    /// Slots whose entry has another key, or was overwritten. Places in the log are never reused, so such a
    /// slot never gets this key's entry.
    elsewhere: Vec<IndexSlot>,
}

#[derive(Clone, Copy)]
enum Stage {
    Bucket,
    Entry(IndexSlot, u32),
    Head(IndexSlot),
}

/// A GET that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gotten {
    /// The tag that was given to [`KvReader::begin`].
    pub tag: u64,
    /// When the GET began.
    pub began: Time,
    /// Version and value, if the key was there.
    pub found: Option<(u32, Vec<u8>)>,
    /// How often the bytes that were READ were torn, stale or another key's.
    pub again: u64,
    /// The key of the operation, for tracers.
    pub key: OperationKey,
}

/// A client that READs the tables of [`crate::herd_kv::HerdKvServer`].
pub struct KvReader<P: Provider> {
    device: Device<P>,
    number: u32,
    qp: Qp<P>,
    cq: Cq<P>,
    tables: RemoteAddr,
    layout: Layout,
    partitions: u32,
    buffers: Mr<P>,
    gets: Vec<Option<Get>>,
    wc: Vec<Wc>,
}

impl<P: Provider> KvReader<P> {
    /// Starts reader `number`, with up to `outstanding` GETs in flight. Returns once the reader is connected.
    pub fn start(
        cpu: &P,
        layout: Layout,
        partitions: u32,
        number: u32,
        outstanding: u32,
    ) -> Result<KvReader<P>, SystemError> {
        layout.check()?;
        let device = Device::open(cpu)?;
        let cq = device.context.create_cq(outstanding)?;
        let qp = device::connect_rc(&device, &cq, outstanding, number, "kv")?;
        let tables = RemoteAddr::from_bytes(&cpu.lookup("kv/tables"))?;
        let bytes = u64::from(outstanding) * (BUCKET + layout.longest());
        let buffers = device.registered(bytes, AccessFlags::LOCAL_WRITE)?;
        let gets = (0..outstanding).map(|_| None).collect();
        Ok(KvReader {
            qp,
            cq,
            tables,
            layout,
            partitions,
            buffers,
            gets,
            wc: vec![Wc::default(); 16],
            number,
            device,
        })
    }

    /// The number of GETs that have not ended.
    pub fn outstanding(&self) -> u32 {
        self.gets.iter().flatten().count() as u32
    }

    /// Begins a GET. When it has ended, [`Gotten`] carries `tag`.
    ///
    /// # Errors
    /// If too many GETs are outstanding, or a verb fails.
    pub fn begin(&mut self, key: Key, tag: u64) -> Result<(), SystemError> {
        let Some(at) = self.gets.iter().position(Option::is_none) else {
            return SystemError::config(format!("{} GETs are outstanding already", self.gets.len()));
        };
        let began = self.device.cpu.now();
        self.device.cpu.mark(self.key(at), OperationStep::Begins);
        let new = Get { key, tag, began, again: 0, stage: Stage::Bucket, elsewhere: Vec::new() };
        self.gets[at] = Some(new);
        self.read(at, self.layout.bucket(&key), BUCKET as u32, &key)
    }

    /// The key of the operation of a GET, for tracers.
    fn key(&self, at: usize) -> OperationKey {
        OperationKey((u64::from(self.number) << 32) | (at as u64 + 1))
    }

    /// The end of a GET.
    fn gotten(&self, at: usize, get: Get, found: Option<(u32, Vec<u8>)>) -> Gotten {
        Gotten { tag: get.tag, began: get.began, found, again: get.again, key: self.key(at) }
    }

    /// Offset of the buffer of a GET. The buffer first receives the bucket, then the entry.
    fn buffer(&self, at: usize) -> u64 {
        at as u64 * (BUCKET + self.layout.longest())
    }

    /// READs from the partition of a key.
    fn read(&self, at: usize, offset: u64, length: u32, key: &Key) -> Result<(), SystemError> {
        let partition = u64::from(owner(key, self.partitions)) * self.layout.bytes();
        let sge = [self.buffers.sge(self.buffer(at), length)];
        let op = SendOp::Read(self.tables.at(partition + offset));
        self.device.cpu.mark(self.key(at), OperationStep::Posts);
        Ok(self.qp.post_send(&[SendWr::new(at as u64, op, &sge).flags(SendFlags::SIGNALED)])?)
    }

    /// Continues the GETs whose READs have completed. Returns whether any READ has completed.
    pub fn poll(&mut self, done: &mut Vec<Gotten>) -> Result<bool, SystemError> {
        let found = self.cq.poll(&mut self.wc)?.len();
        for i in 0..found {
            check(&self.wc[i])?;
            let at = self.wc[i].wr_id as usize;
            let Some(get) = self.gets.get_mut(at).and_then(Option::take) else { continue };
            self.device.cpu.mark(self.key(at), OperationStep::Completes);
            match get.stage {
                Stage::Bucket => self.bucket(at, get, done)?,
                Stage::Entry(slot, length) => self.entry(at, get, slot, length, done)?,
                Stage::Head(slot) => self.head(at, get, slot)?,
            }
        }
        Ok(found > 0)
    }

    fn bucket(&mut self, at: usize, mut get: Get, done: &mut Vec<Gotten>) -> Result<(), SystemError> {
        let mut bucket = [0; BUCKET as usize];
        self.device.cpu.read(self.buffers.mem(), self.buffer(at), &mut bucket);
        let slot = store::candidates(&bucket, &get.key).map(|(_, s)| s).find(|s| !get.elsewhere.contains(s));
        let Some(slot) = slot else {
            done.push(self.gotten(at, get, None));
            return Ok(());
        };
        let offset = self.layout.entry(slot);
        let length = self.layout.longest().min(self.layout.head() - offset) as u32;
        let key = get.key;
        get.stage = Stage::Entry(slot, length);
        self.gets[at] = Some(get);
        self.read(at, offset, length, &key)
    }

    fn entry(
        &mut self,
        at: usize,
        mut get: Get,
        slot: IndexSlot,
        length: u32,
        done: &mut Vec<Gotten>,
    ) -> Result<(), SystemError> {
        let mut bytes = vec![0; length as usize];
        self.device.cpu.read(self.buffers.mem(), self.buffer(at), &mut bytes);
        self.device.cpu.work(store::checksum_work(length as usize));
        match store::judge(&bytes, &get.key) {
            SeenEntry::Value(version, value) => {
                let found = Some((version, value));
                done.push(self.gotten(at, get, found));
                Ok(())
            }
            SeenEntry::OtherKey => {
                get.again += 1;
                get.elsewhere.push(slot);
                self.start_over(at, get)
            }
            SeenEntry::TornOrStale => {
                get.again += 1;
                let key = get.key;
                get.stage = Stage::Head(slot);
                self.gets[at] = Some(get);
                self.read(at, self.layout.head(), 8, &key)
            }
        }
    }

    /// Continues when the log's head is known, after an entry was not whole: it is being written, or has been
    /// overwritten.
    fn head(&mut self, at: usize, mut get: Get, slot: IndexSlot) -> Result<(), SystemError> {
        let head = self.device.cpu.load_u64(self.buffers.mem(), self.buffer(at));
        if !self.layout.is_current(slot, head) {
            get.elsewhere.push(slot);
        }
        self.start_over(at, get)
    }

    /// Starts the GET again with a READ of the bucket.
    fn start_over(&mut self, at: usize, mut get: Get) -> Result<(), SystemError> {
        let key = get.key;
        get.stage = Stage::Bucket;
        self.gets[at] = Some(get);
        self.read(at, self.layout.bucket(&key), BUCKET as u32, &key)
    }
}

/// The key of the next operation, and its value if it is a PUT.
fn draw(draws: &mut Draws) -> (Key, Option<Vec<u8>>) {
    let key = draws.key();
    let value = draws.is_put().then(|| draws.value());
    (key, value)
}

/// A client that issues the operations of a load: GETs by READ, PUTs over HERD's RPCs.
#[derive(Clone, Debug)]
pub struct ReadKvClient {
    /// Parameters that server and clients share.
    pub config: Config,
    /// Sizes of a partition.
    pub layout: Layout,
    /// Number of this client.
    pub number: u32,
    /// The operations of the client.
    pub load: Load,
    /// The interval in which the client measures, and its end.
    pub interval: Interval,
}

impl Program for ReadKvClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let outstanding = self.load.outstanding;
        let mut rpc = herd::HerdClient::start(&p, &self.config, self.number, outstanding)?;
        let mut reader = KvReader::start(&p, self.layout, self.config.workers, self.number, outstanding)?;
        let mut draws = Draws::new(self.load, self.number);
        let (mut gotten, mut put) = (Vec::new(), Vec::new());
        let mut next = None;
        let interval = self.interval.begin(&p);
        // Each READ that completes, and each PUT that ends, opens a place for another operation. If all
        // operations began at once, all clients would READ buckets together, and then entries together, for
        // tens of milliseconds.
        let mut open = if self.load.windows { outstanding } else { 1 };
        while p.now() < interval.end() {
            let mut busy = false;
            while (!self.load.windows || busy || reader.outstanding() + rpc.outstanding() == 0)
                && reader.outstanding() + rpc.outstanding() < open
            {
                let (key, put) = next.take().unwrap_or_else(|| draw(&mut draws));
                match put {
                    None => reader.begin(key, 0)?,
                    Some(value) => {
                        let worker = owner(&key, self.config.workers);
                        // The window may have no room although PUTs have ended, because replies may overtake
                        // each other: the oldest PUT must end first.
                        if !rpc.has_room(worker) {
                            next = Some((key, Some(value)));
                            break;
                        }
                        rpc.send(worker, &Request::Put(key, value), 0)?;
                    }
                }
                busy = true;
            }
            let has_read = reader.poll(&mut gotten)?;
            busy |= has_read;
            busy |= rpc.poll::<Reply>(&mut put)?;
            open = outstanding.min(open + u32::from(has_read) + put.len() as u32);
            for g in gotten.drain(..) {
                let how = How { again: g.again, missed: g.found.is_none(), header_only: false };
                p.mark(g.key, OperationStep::Ends { since: g.began });
                measured.operation(&interval, g.began, p.now(), how);
            }
            for d in put.drain(..) {
                if d.outcome != RpcOutcome::Reply(Reply::Ok) {
                    return Err(SystemError::Protocol(format!("a PUT failed: {:?}", d.outcome)));
                }
                p.mark(d.key, OperationStep::Ends { since: d.sent });
                measured.operation(&interval, d.sent, p.now(), How::default());
            }
            measured.again += rpc.repeat()?;
            if !busy {
                p.pause(interval.look().min(rpc.due()));
            }
        }
        Ok(measured)
    }
}
