//! A thread that reads memory of remote sockets until its interval ends, and is a proxy for other threads.

use super::channel::{Channel, LATE};
use super::config::{Path, Proxy};
use crate::device::check;
use crate::ends::{SocketEnd, memory};
use crate::measure::How;
use crate::random::Random;
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Program, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr, Time, Wc,
};
use std::collections::VecDeque;

/// Prefix of the keys that are published.
pub(super) const SERVICE: &str = "proxy";

/// Bytes of the server's memory at each socket.
pub(super) const MEMORY: u64 = 1 << 20;

/// Fills `bytes` with the content of the server's memory at a socket, from `offset` on. The content never
/// changes.
pub(super) fn fill(socket: u32, offset: u64, bytes: &mut [u8]) {
    for (at, byte) in (offset..).zip(bytes) {
        let word = ((at / 8) ^ (u64::from(socket) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *byte = (word >> 24 >> (at % 8)) as u8;
    }
}

#[derive(Clone, Debug)]
pub(super) struct ProxyClient {
    pub(super) number: u32,
    pub(super) config: Proxy,
    /// Number of READs after which the client ends; 0 for no limit.
    pub(super) limit: u64,
    pub(super) interval: Interval,
    /// For each socket, the channel to the client's proxy, if it has one.
    pub(super) to: Vec<Option<Channel>>,
    /// The channels from the clients for which this client is a proxy.
    pub(super) from: Vec<Channel>,
    /// A counter of the machine's clients that are done, and the number of the machine's clients.
    pub(super) done: (Mem, u32),
}

/// A READ that the client does for itself.
#[derive(Clone, Copy, Debug)]
struct Read {
    socket: u32,
    offset: u64,
    began: Time,
}

/// A request of another client. Its READ is in flight.
#[derive(Clone, Copy, Debug)]
struct ProxyServed {
    channel: usize,
    number: u64,
}

/// A running client.
struct Running<'a, P: Provider> {
    cpu: &'a P,
    client: &'a ProxyClient,
    socket: u32,
    interval: Interval,
    random: Random,
    cq: Cq<P>,
    /// For each remote socket: the QP to it, if there is one, and the address of the memory there.
    ways: Vec<(Option<Qp<P>>, RemoteAddr)>,
    /// Memory for the READs that the client posts for itself.
    buffers: Mr<P>,
    own: Vec<Option<Read>>,
    /// For each socket: the client's READs that the proxy has, and the request number of the first of them.
    asked: Vec<(u64, VecDeque<Read>)>,
    /// For each inbound channel: the memory for results, and the number of requests that were received.
    results: Vec<(Mr<P>, u64)>,
    served: VecDeque<ProxyServed>,
    /// Maximum number of READs posted for other clients at a time.
    most_served: usize,
    begun: u64,
    ended: u64,
    bytes: Vec<u8>,
    measured: Measured,
}

/// `wr_id` of READs for other clients.
const FOR_OTHERS: u64 = u64::MAX;

impl Program for ProxyClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut said = false;
        let ended = Running::start(&p, &self).and_then(|mut running| running.run(&mut said));
        if !said {
            p.fetch_add_u64(self.done.0, 0, 1);
        }
        ended
    }
}

impl<'a, P: Provider> Running<'a, P> {
    fn start(cpu: &'a P, client: &'a ProxyClient) -> Result<Running<'a, P>, SystemError> {
        let ProxyClient { number, config, .. } = client;
        let socket = config.socket(*number);
        let end = SocketEnd::open(cpu, socket)?;
        let outstanding = config.clients.outstanding;
        // The QP also carries READs for other clients: as many as these may request, or as many as fit.
        let asked = outstanding.saturating_mul(client.from.len() as u32);
        let depth = outstanding.saturating_add(asked).min(end.device.attr.max_qp_wr.max(outstanding));
        let cap = QpCap { max_send_wr: depth, max_recv_wr: 1, ..QpCap::default() };
        let ends = config.ends(*number);
        let cq = end.device.context.create_cq(outstanding + depth)?;
        let mut ways = Vec::new();
        for to in 0..config.sockets {
            let qp =
                if ends.contains(&to) { Some(end.reach(&cq, (SERVICE, *number, to), cap)?) } else { None };
            let by = if qp.is_some() { to } else { socket };
            ways.push((qp, memory(cpu, SERVICE, by, to)?));
        }
        let bytes = u64::from(config.read_bytes);
        let buffers = end
            .device
            .registered(bytes.next_multiple_of(64) * u64::from(outstanding), AccessFlags::LOCAL_WRITE)?;
        let registered =
            |channel: &Channel| Ok((end.device.register(channel.results(), AccessFlags::LOCAL_WRITE)?, 0));
        Ok(Running {
            results: client.from.iter().map(registered).collect::<Result<_, SystemError>>()?,
            cpu,
            socket,
            interval: client.interval.begin(cpu),
            random: Random::new(config.timing.seed, u64::from(*number)),
            cq,
            ways,
            buffers,
            own: vec![None; outstanding as usize],
            asked: vec![(0, VecDeque::new()); config.sockets as usize],
            served: VecDeque::new(),
            most_served: (depth - outstanding) as usize,
            begun: 0,
            ended: 0,
            bytes: vec![0; bytes as usize],
            measured: Measured::default(),
            client,
        })
    }

    fn run(&mut self, said: &mut bool) -> Result<Measured, SystemError> {
        let ProxyClient { limit, done: (done, clients), .. } = *self.client;
        loop {
            let over = self.cpu.now() >= self.interval.end() || limit > 0 && self.ended == limit;
            if over && !*said {
                self.cpu.fetch_add_u64(done, 0, 1);
                *said = true;
            }
            // Other clients may still need this proxy. The wait has a limit, because a client that has
            // stopped is never done.
            let all = *said && self.cpu.load_u64(done, 0) >= u64::from(clients);
            if all || self.cpu.now() >= self.interval.end() + LATE {
                return Ok(std::mem::take(&mut self.measured));
            }
            let mut busy = false;
            while !*said && self.wants_more() {
                self.begin()?;
                busy = true;
            }
            busy |= self.serve()?;
            busy |= self.completed()?;
            busy |= self.take_results()?;
            if !busy {
                self.cpu.pause(if *said { self.interval.end() + LATE } else { self.interval.look() });
            }
        }
    }

    fn wants_more(&self) -> bool {
        let ProxyClient { config, limit, .. } = self.client;
        let under_way = self.begun - self.ended;
        under_way < u64::from(config.clients.outstanding) && (*limit == 0 || self.begun < *limit)
    }

    /// The socket whose memory is read next.
    fn drawn(&mut self) -> u32 {
        let Proxy { sockets, unmatched_permille, .. } = self.client.config;
        if sockets > 1 && self.random.below(1000) < u64::from(unmatched_permille) {
            return (self.socket + 1 + self.random.below(u64::from(sockets) - 1) as u32) % sockets;
        }
        self.socket
    }

    fn begin(&mut self) -> Result<(), SystemError> {
        let socket = self.drawn();
        let offset = self.random.below((MEMORY - self.bytes.len() as u64) / 8 + 1) * 8;
        let read = Read { socket, offset, began: self.cpu.now() };
        self.begun += 1;
        let channel = self.client.to[socket as usize];
        match channel.filter(|_| self.client.config.path == Path::Proxy && socket != self.socket) {
            Some(channel) => {
                let (first, asked) = &mut self.asked[socket as usize];
                channel.ask(self.cpu, *first + asked.len() as u64, &[offset]);
                asked.push_back(read);
                Ok(())
            }
            None => self.post(read),
        }
    }

    /// Posts a READ for the client itself.
    fn post(&mut self, read: Read) -> Result<(), SystemError> {
        let Some(slot) = self.own.iter().position(Option::is_none) else {
            return SystemError::config("too many READs are outstanding");
        };
        let each = (self.bytes.len() as u64).next_multiple_of(64);
        let sge = self.buffers.sge(slot as u64 * each, self.bytes.len() as u32);
        self.own[slot] = Some(read);
        self.read(read.socket, read.offset, sge, slot as u64)
    }

    /// Posts a READ of memory at a remote socket. Uses the QP to this socket, or else the QP to the matching
    /// socket.
    fn read(
        &self,
        socket: u32,
        offset: u64,
        sge: doorbell_verbs::Sge,
        wr_id: u64,
    ) -> Result<(), SystemError> {
        let (qp, memory) = &self.ways[socket as usize];
        let Some(qp) = qp.as_ref().or(self.ways[self.socket as usize].0.as_ref()) else {
            return SystemError::config("a thread needs a QP to the socket that matches its own");
        };
        let sge = [sge];
        let wr = SendWr::new(wr_id, SendOp::Read(memory.at(offset)), &sge);
        Ok(qp.post_send(&[wr.flags(SendFlags::SIGNALED)])?)
    }

    /// Posts READs for requests of other clients. Returns whether there was a request.
    fn serve(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        for (n, channel) in self.client.from.iter().enumerate() {
            while self.served.len() < self.most_served {
                let number = self.results[n].1;
                let Some([offset]) = channel.asked(self.cpu, number) else { break };
                self.cpu.work(work::REQUEST);
                // The request comes from another thread of this machine, and may be wrong.
                if offset > MEMORY - self.bytes.len() as u64 {
                    return Err(SystemError::Protocol(format!(
                        "a request has offset {offset}, beyond the memory"
                    )));
                }
                let sge = self.results[n].0.sge(channel.result_at(number), self.bytes.len() as u32);
                self.read(self.socket, offset, sge, FOR_OTHERS)?;
                self.results[n].1 += 1;
                self.served.push_back(ProxyServed { channel: n, number });
                any = true;
            }
        }
        Ok(any)
    }

    /// Handles completed READs. Returns whether there were any. READs for other clients complete in order,
    /// because they use one QP.
    fn completed(&mut self) -> Result<bool, SystemError> {
        let mut wc = [Wc::default(); 16];
        let found = self.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            check(wc)?;
            if wc.wr_id == FOR_OTHERS {
                let Some(ProxyServed { channel, number }) = self.served.pop_front() else { continue };
                self.client.from[channel].answer(self.cpu, number);
                self.measured.post(&self.interval, self.cpu.now(), 1);
            } else if let Some(read) = self.own.get_mut(wc.wr_id as usize).and_then(Option::take) {
                let each = (self.bytes.len() as u64).next_multiple_of(64);
                self.cpu.read(self.buffers.mem(), wc.wr_id * each, &mut self.bytes);
                self.ended(read)?;
            }
        }
        Ok(found > 0)
    }

    /// Receives results of proxies. Returns whether there was a result.
    fn take_results(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        for socket in 0..self.asked.len() {
            let Some(channel) = self.client.to[socket] else { continue };
            while let (number, Some(read)) = (self.asked[socket].0, self.asked[socket].1.front().copied()) {
                if !channel.take(self.cpu, number, &mut self.bytes) {
                    break;
                }
                self.asked[socket].0 += 1;
                self.asked[socket].1.pop_front();
                self.ended(read)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Checks the bytes of a READ that has ended, and counts it.
    fn ended(&mut self, read: Read) -> Result<(), SystemError> {
        let mut expected = vec![0; self.bytes.len()];
        fill(read.socket, read.offset, &mut expected);
        if self.bytes != expected {
            let why = format!(
                "a READ at socket {} from offset {} on found wrong bytes: {:?}",
                read.socket, read.offset, self.bytes
            );
            return Err(SystemError::Protocol(why));
        }
        self.ended += 1;
        self.measured.operation(&self.interval, read.began, self.cpu.now(), How::default());
        Ok(())
    }
}
