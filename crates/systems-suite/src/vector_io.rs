//! Vector I/O: all bytes of the pieces arrive, with every strategy.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::stage::{self, place, text};
use doorbell_systems::device::{self, Device, check};
use doorbell_systems::random::Random;
use doorbell_systems::vector_io::{SERVICE, Strategy, VectorIo, VectorPiece, Writer, by_hand};
use doorbell_systems::{Interval, Measured, SystemError, memory_server};
use doorbell_verbs::{
    AccessFlags, Cluster, Program, Provider, QpCap, QpInitAttr, QpType, SendFlags, SendOp, SendWr, Time,
};

const STRATEGIES: [Strategy; 3] = [Strategy::Sp, Strategy::Doorbell, Strategy::Sgl];

/// Bytes of each client at the server, and of the memory that its pieces come from.
const MEMORY: u64 = 16 << 10;
/// Calls that may be outstanding.
const WINDOW: u32 = 3;

/// Parameters of the calls.
#[derive(Clone, Copy)]
struct VectorCase {
    /// Number of clients.
    clients: u32,
    /// Calls of each client.
    calls: u64,
    /// Largest number of pieces of a call: more than an SGE list holds.
    pieces: u64,
    /// Largest number of bytes of a piece. Some pieces are empty.
    longest: u64,
    /// Inline capacity in bytes.
    inline: u32,
    /// Seed of the random draws.
    seed: u64,
}

/// A client that writes pieces of its memory to random places of the server's. It compares the server's
/// memory with the expected bytes.
struct VectorChecker {
    case: VectorCase,
    number: u32,
    interval: Interval,
}

impl VectorChecker {
    fn qp<P: Provider>(
        &self,
        device: &Device<P>,
        number: u32,
        queue: u32,
    ) -> Result<(doorbell_verbs::Qp<P>, doorbell_verbs::Cq<P>, u32), SystemError> {
        let sges = device.attr.max_sge.min(8);
        let inline = device.inline(self.case.inline);
        let cq = device.context.create_cq(WINDOW)?;
        let cap = QpCap {
            max_send_wr: queue,
            max_recv_wr: 1,
            max_send_sge: sges,
            max_inline_data: inline,
            ..QpCap::default()
        };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(device, &qp, number, SERVICE)?;
        Ok((qp, cq, sges))
    }
}

impl Program for VectorChecker {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let VectorCase { clients, calls, pieces, longest, seed, .. } = self.case;
        let device = Device::open(&p)?;
        // The queue just holds the longest call, so other calls wait for room.
        let queue = pieces as u32;
        let (qp, cq, sges) = self.qp(&device, self.number, queue)?;
        let inline = device.inline(self.case.inline);
        let mut writer = Writer::new(&device, (qp, cq), (queue, sges, inline), pieces * longest, WINDOW)?;
        let (reader, reads, _) = self.qp(&device, clients + self.number, 1)?;
        let source = device.registered(MEMORY, AccessFlags::LOCAL_WRITE)?;
        let back = device.registered(MEMORY, AccessFlags::LOCAL_WRITE)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let memory = memory.at(MEMORY * u64::from(self.number));
        let interval = self.interval.begin(&p);
        let mut random = Random::new(seed, self.number.into());
        let mut bytes = vec![0; MEMORY as usize];
        let mut expected = bytes.clone();
        let mut measured = Measured::default();
        for call in 0..calls {
            // Memory that is not copied may change only while nothing is outstanding, so it changes now and
            // then.
            if call % 8 == 0 {
                writer.wait(writer.begun())?;
                random.fill(&mut bytes);
                p.write(source.mem(), 0, &bytes);
            }
            let strategy = STRATEGIES[random.below(3) as usize];
            let count = 1 + random.below(pieces);
            let mut list = Vec::new();
            let mut together = Vec::new();
            for n in 0..count {
                // The first piece is not empty, so that no call is empty.
                let len = if n == 0 { 1 + random.below(longest) } else { random.below(longest + 1) };
                let at = random.below(MEMORY - len);
                if len > 0 {
                    list.push(VectorPiece::of(&source, at, len as u32));
                    together.extend_from_slice(&bytes[at as usize..][..len as usize]);
                }
            }
            let to = random.below(MEMORY - together.len() as u64);
            writer.write(&list, memory.at(to), strategy)?;
            expected[to as usize..][..together.len()].copy_from_slice(&together);
            if call % 8 == 7 || call + 1 == calls {
                writer.wait(writer.begun())?;
                let sge = [back.sge(0, MEMORY as u32)];
                reader.post_send(&[SendWr::new(0, SendOp::Read(memory), &sge).flags(SendFlags::SIGNALED)])?;
                while reads.wait(Time::NEVER)?.map(|wc| check(&wc)).transpose()?.is_none() {}
                let mut found = vec![0; MEMORY as usize];
                p.read(back.mem(), 0, &mut found);
                if let Some(at) = found.iter().zip(&expected).position(|(found, expected)| found != expected)
                {
                    let why = format!("after call {call}, byte {at} is {}, not {}", found[at], expected[at]);
                    return Err(SystemError::Protocol(why));
                }
            }
            measured.done += 1;
            if interval.end() <= p.now() {
                let why = format!("only {call} of {calls} calls ended in time");
                return Err(SystemError::Protocol(why));
            }
        }
        Ok(measured)
    }
}

/// Runs a case. The error says which byte is wrong, or that a call did not end.
fn run<C: Cluster>(cluster: &mut C, case: VectorCase, trouble: Trouble, scale: &Scale) -> Result<(), String> {
    let mut stage = stage::stage::<C, Measured>(cluster, trouble.faults(scale), scale.patience)?;
    let memory = stage.alloc(MEMORY * u64::from(case.clients)).map_err(text)?;
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    memory_server::put_up(&mut stage, SERVICE, 2 * case.clients, memory, access);
    let machines = stage.cluster().machines();
    for number in 0..case.clients {
        let interval = stage.client_interval();
        stage.add_client(place(machines, number), VectorChecker { case, number, interval });
    }
    stage::run(stage).map(drop).map_err(text)
}

/// Writes records as each of the programs of [`by_hand`] does, and reads them where the program says.
struct ByHand {
    number: u32,
    interval: Interval,
}

/// Bytes that each of these programs has at the server.
const OWN: u64 = 4 << 10;

/// The places of records after one of the programs has written them to its part of memory.
macro_rules! places {
    ($module:ident::$store:ident, $p:ty, $device:expr, $number:expr, $memory:expr, $records:expr) => {{
        let store = by_hand::$module::$store::open($device, $number, $memory.at(OWN * u64::from($number)))?;
        store.write($records)?;
        (0..$records.len())
            .map(|n| by_hand::$module::$store::<$p>::place($records, n) + OWN * u64::from($number))
            .collect::<Vec<u64>>()
    }};
}

impl ByHand {
    /// Programs, each with a QP. One more QP READs.
    const PROGRAMS: u32 = 4;
}

impl Program for ByHand {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let source = device.registered(MEMORY, AccessFlags::LOCAL_WRITE)?;
        let mut random = Random::new(1, self.number.into());
        let mut bytes = vec![0; MEMORY as usize];
        random.fill(&mut bytes);
        p.write(source.mem(), 0, &bytes);
        let longest = u64::from(by_hand::LONGEST);
        let records: Vec<by_hand::Record> = (0..by_hand::RECORDS as u64)
            .map(|n| {
                let (offset, len) = (random.below(MEMORY - longest), 1 + random.below(longest));
                let sge = source.sge(offset, len as u32);
                by_hand::Record { mem: source.mem(), offset, sge, to: 2 * longest * n }
            })
            .collect();
        let all = [
            places!(each::EachStore, P, &device, 0u32, memory, &records),
            places!(doorbell::DoorbellStore, P, &device, 1u32, memory, &records),
            places!(sgl::SglStore, P, &device, 2u32, memory, &records),
            places!(sp::SpStore, P, &device, 3u32, memory, &records),
        ];
        self.interval.begin(&p);
        let (cq, back) = (device.context.create_cq(1)?, device.registered(OWN, AccessFlags::LOCAL_WRITE)?);
        let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
        let reader = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(&device, &reader, ByHand::PROGRAMS, SERVICE)?;
        for ((name, _), places) in by_hand::SOURCES.iter().zip(&all) {
            for (record, place) in records.iter().zip(places) {
                let len = record.sge.length;
                let sge = [back.sge(0, len)];
                let read = SendWr::new(0, SendOp::Read(memory.at(*place)), &sge);
                reader.post_send(&[read.flags(SendFlags::SIGNALED)])?;
                while cq.wait(Time::NEVER)?.map(|wc| check(&wc)).transpose()?.is_none() {}
                let mut found = vec![0; len as usize];
                p.read(back.mem(), 0, &mut found);
                if found != bytes[record.offset as usize..][..len as usize] {
                    return Err(SystemError::Protocol(format!(
                        "{name}: the bytes at {place} differ from the written bytes"
                    )));
                }
            }
        }
        Ok(Measured::default())
    }
}

fn run_by_hand<C: Cluster>(cluster: &mut C, scale: &Scale) -> Result<(), String> {
    let mut stage = stage::stage::<C, Measured>(cluster, Trouble::None.faults(scale), scale.patience)?;
    let memory = stage.alloc(OWN * u64::from(ByHand::PROGRAMS)).map_err(text)?;
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    memory_server::put_up(&mut stage, SERVICE, ByHand::PROGRAMS + 1, memory, access);
    let machines = stage.cluster().machines();
    let interval = stage.client_interval();
    stage.add_client(place(machines, 0), ByHand { number: 0, interval });
    stage::run(stage).map(drop).map_err(text)
}

/// The checks of vector I/O.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let arrives = Check::new("systems/vector-io/pieces_arrive", |cluster: &mut C, scale: &Scale| {
        let calls = u64::from(scale.requests) / 4;
        let case = VectorCase { clients: 2, calls, pieces: 70, longest: 90, inline: 64, seed: 1 };
        run(cluster, case, Trouble::None, scale)
    });
    let by_hand =
        Check::new("systems/vector-io/by_hand", |cluster: &mut C, scale: &Scale| run_by_hand(cluster, scale));
    vec![arrives, by_hand, deployed::check::<VectorIo, C>()]
}
