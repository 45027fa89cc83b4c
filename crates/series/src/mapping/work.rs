//! The workload of a point: one function for each key of the table `workload`.

use super::choices::Choices;
use super::refusal::Refusal;
use crate::format::{
    Endpoint, Locality, MeasuredAddresses, MeasuredTransport, MeasuredVerb, MeasuredWorkload, Metric,
    PostingPattern, Registers, RemoteMemory,
};
use doorbell_nic::Profile;
use doorbell_systems::config::Timing;
use doorbell_systems::ping_pong::{Message, PingPong};
use doorbell_verbs::QpType;
use doorbell_workload::{Addresses, Pattern, Verb, Workload};

/// Work requests outstanding per QP if a test of rates does not state its window: perftest's `--tx-depth`.
const USUAL_WINDOW: u32 = 128;
/// Bytes that a QP has outstanding at most, if its window holds more than [`FEWEST`] operations. This is
/// several times the product of bandwidth and round trip of any NIC. More bytes do not change the bandwidth
/// of long messages, but take long to simulate, and completions would come in few lumps.
const MOST_OUTSTANDING: u32 = 16 << 20;
/// Operations of a window that are always kept, so that operations overlap.
const FEWEST: u32 = 4;
/// Bytes of each responding thread's memory if addresses are random in a region of unknown size.
const USUAL_REGION: u64 = 1 << 20;
/// Counters of a responder if atomics use many addresses, and their number is unknown.
const USUAL_COUNTERS: u32 = 4096;
/// Bytes of a cache line.
const LINE: u32 = 64;
/// Machines of a test, if no key states their number: one pair.
const PAIR: u32 = 2;

/// Work that a point simulates.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PointWork {
    /// Operations in a closed loop.
    Verbs(Box<Workload>),
    /// A ping-pong of two threads.
    PingPong(PingPong),
}

/// The work of a point.
pub(super) struct MappedWork {
    pub(super) work: PointWork,
    /// Bytes of an operation.
    pub(super) size: u32,
    /// The measured value is the rate of all machines divided by this number.
    pub(super) shares: u32,
}

/// The work of a point of a series, whose machines use `links` links.
///
/// # Errors
/// If the model cannot express a key, or the result depends on a key that is missing.
pub(super) fn work(
    w: &MeasuredWorkload,
    links: u32,
    profile: &Profile,
    choices: &mut Choices,
) -> Result<MappedWork, Refusal> {
    let point = &mut Point { w, links, profile, choices };
    point.refuse_what_no_model_has()?;
    let size = point.size()?;
    let work = match &w.metric {
        Metric::LatencyHalf => PointWork::PingPong(point.ping_pong(size)?),
        Metric::Rate | Metric::Bandwidth | Metric::LatencyFull => {
            PointWork::Verbs(Box::new(point.verbs(size)?))
        }
        Metric::Other(name) => return Err(Refusal::Metric(name.clone())),
    };
    let shares = if w.pattern == Some(PostingPattern::AllToAll) { point.machines() } else { 1 };
    Ok(MappedWork { work, size, shares })
}

/// Posting threads, if the keys state their number.
pub(super) fn stated_threads(w: &MeasuredWorkload) -> Option<u32> {
    let from_qps = || w.qps.zip(w.qps_per_thread).map(|(qps, each)| qps / each.max(1));
    w.threads.or_else(from_qps)
}

/// A point while it is mapped.
struct Point<'a> {
    w: &'a MeasuredWorkload,
    links: u32,
    profile: &'a Profile,
    choices: &'a mut Choices,
}

/// The remote addresses of a workload, as options of Doorbell.
#[derive(Default)]
struct Remote {
    region: Option<u64>,
    /// Region of the requester, if operations begin at any byte of both.
    local_region: Option<u64>,
    addresses: Option<Addresses>,
    remote_addresses: Option<Addresses>,
    counters: Option<u32>,
    counter_stride: Option<u32>,
}

fn unknown<T>(key: &'static str, word: &str, known: &'static [&'static str]) -> Result<T, Refusal> {
    Err(Refusal::Word { key, word: word.to_owned(), known })
}

/// Whether a key that is usually absent says no.
fn is_no(value: &toml::Value) -> bool {
    value.as_bool() == Some(false)
}

impl Point<'_> {
    /// Operations of one pair of machines, in a closed loop.
    fn verbs(&mut self, size: u32) -> Result<Workload, Refusal> {
        let (verb, transport) = (self.verb()?, self.transport()?);
        let threads = self.threads();
        let qps = self.qps(threads)?;
        let batch = self.choices.or("batch", self.w.batch, 1);
        self.registers(threads)?;
        self.blueflame(batch)?;
        self.memory()?;
        self.hops()?;
        let ports = self.ports(threads)?;
        let remote = self.remote(verb, size)?;
        let (pattern, lanes) = self.direction(qps)?;
        let (window, window_per_qp) = self.window(threads, qps)?;
        let signal_every = self.choices.or("signal_every", self.w.signal_every, 1);
        let (window_per_qp, signal_every) = match window_per_qp {
            Some(window) => {
                let (window, signal_every) = self.shortened(window, signal_every, batch, size);
                (Some(window), signal_every)
            }
            None => (None, signal_every),
        };
        let (socket, peer_socket) = self.sockets()?;
        let sges = self.w.sge.filter(|sges| *sges > 1);
        Ok(Workload {
            profile: Some(self.profile.name.clone()),
            verb: Some(verb),
            transport: Some(transport),
            size: (!verb.is_atomic()).then_some(size),
            machines: Some(self.machines()),
            threads: Some(threads),
            qps: Some(lanes),
            window,
            window_per_qp,
            max_rd_atomic: self.rd_atomic(verb),
            ports: Some(ports),
            socket,
            peer_socket,
            batch: Some(batch),
            signal_every: Some(signal_every),
            cq_per_qp: self.w.cq_per_qp,
            inline: self.inline(verb, size, sges.is_some()),
            sges,
            local_region: remote.local_region,
            remote_region: remote.region,
            addresses: remote.addresses,
            remote_addresses: remote.remote_addresses,
            counters: remote.counters,
            counter_stride: remote.counter_stride,
            pattern: Some(pattern),
            ..Workload::default()
        })
    }

    /// A ping-pong of one thread on each side, with one message at a time.
    fn ping_pong(&mut self, size: u32) -> Result<PingPong, Refusal> {
        let message = match (self.verb()?, self.transport()?) {
            (Verb::Write, QpType::Rc) => Message::WriteRc,
            (Verb::Write, QpType::Uc) => Message::WriteUc,
            (Verb::Send, QpType::Rc) => Message::SendRc,
            (Verb::Send, QpType::Uc) => Message::SendUc,
            (Verb::Send, QpType::Ud) => Message::SendUd,
            _ => return Err(Refusal::HalfOfOneSided),
        };
        let w = self.w;
        let single = [
            ("threads", w.threads),
            ("qps", w.qps),
            ("qps_per_thread", w.qps_per_thread),
            ("window", w.window),
            ("outstanding", w.outstanding),
            ("batch", w.batch),
            ("sge", w.sge),
        ];
        if let Some((key, _)) = single.into_iter().find(|(_, count)| count.is_some_and(|count| count != 1)) {
            return Err(Refusal::PingPongOfSeveral(key));
        }
        self.blueflame(1)?;
        self.memory()?;
        self.hops()?;
        let inline_bytes = match w.inline {
            // The system refuses more than the NIC inlines, but a test's limit is a limit for all NICs.
            Some(bytes) => Some(bytes.min(self.profile.device.nic.max_inline)),
            None => {
                self.choices.take("inline", "up to 220 B");
                None
            }
        };
        let (socket, peer_socket) = self.sockets()?;
        let core = |socket: Option<u32>| socket.unwrap_or(0) * self.profile.host.cores;
        Ok(PingPong {
            core: core(socket),
            memory_core: core(socket),
            peer_core: core(peer_socket),
            peer_memory_core: core(peer_socket),
            inline_bytes,
            ..PingPong::of(message, size, Timing::USUAL)
        })
    }

    /// Refuses keys that no part of the model has.
    fn refuse_what_no_model_has(&self) -> Result<(), Refusal> {
        let w = self.w;
        if w.loopback == Some(true) {
            return Err(Refusal::Loopback);
        }
        if let Some(nics) = w.nics.filter(|nics| *nics != 1) {
            return Err(Refusal::Nics(nics));
        }
        if let Some(functions) = w.functions.filter(|functions| *functions != 1) {
            return Err(Refusal::Functions(functions));
        }
        if let Some(requests) = w.requests {
            return Err(Refusal::Requests(requests));
        }
        let said = |value: &Option<toml::Value>| value.clone().filter(|value| !is_no(value));
        if let Some(poster) = said(&w.initiator) {
            return Err(Refusal::Initiator(poster.to_string()));
        }
        if let Some(paging) = said(&w.odp) {
            return Err(Refusal::OnDemandPaging(paging.to_string()));
        }
        said(&w.throttle).map_or(Ok(()), |throttle| Err(Refusal::Throttle(throttle.to_string())))
    }

    fn verb(&self) -> Result<Verb, Refusal> {
        match &self.w.verb {
            MeasuredVerb::Write => Ok(Verb::Write),
            MeasuredVerb::Read => Ok(Verb::Read),
            MeasuredVerb::Send => Ok(Verb::Send),
            MeasuredVerb::FetchAdd => Ok(Verb::FetchAdd),
            MeasuredVerb::CompareSwap => Ok(Verb::CompareSwap),
            MeasuredVerb::Mixed => Err(Refusal::MixedVerbs),
            MeasuredVerb::Other(word) => unknown("verb", word, MeasuredVerb::NAMES),
        }
    }

    fn transport(&self) -> Result<QpType, Refusal> {
        match &self.w.transport {
            MeasuredTransport::Rc => Ok(QpType::Rc),
            MeasuredTransport::Uc => Ok(QpType::Uc),
            MeasuredTransport::Ud => Ok(QpType::Ud),
            MeasuredTransport::Other(word) => unknown("transport", word, MeasuredTransport::NAMES),
            other => Err(Refusal::Transport(other.clone())),
        }
    }

    /// Bytes of an operation. Atomics have 8.
    fn size(&self) -> Result<u32, Refusal> {
        let atomic = matches!(self.w.verb, MeasuredVerb::FetchAdd | MeasuredVerb::CompareSwap);
        let size = self.w.size.or(atomic.then_some(8)).ok_or(Refusal::Missing("size"))?;
        u32::try_from(size)
            .map_err(|_| Refusal::Invalid(format!("size is {size}, but must be at most {}", u32::MAX)))
    }

    fn threads(&mut self) -> u32 {
        self.choices.or("threads", stated_threads(self.w), 1)
    }

    /// QPs of each thread.
    fn qps(&mut self, threads: u32) -> Result<u32, Refusal> {
        let w = self.w;
        if w.threads_per_qp.is_some_and(|sharing| sharing > 1) || w.qps.is_some_and(|qps| qps < threads) {
            return Err(Refusal::SharedQps);
        }
        match w.qps {
            Some(qps) if qps.is_multiple_of(threads.max(1)) => Ok(qps / threads.max(1)),
            Some(qps) => Err(Refusal::Uneven { what: "qps", number: qps, of: format!("{threads} threads") }),
            None => Ok(self.choices.or("qps_per_thread", w.qps_per_thread, 1)),
        }
    }

    /// The window of a thread, or of a QP.
    fn window(&mut self, threads: u32, qps: u32) -> Result<(Option<u32>, Option<u32>), Refusal> {
        let w = self.w;
        if let Some(window) = w.window {
            return Ok((None, Some(window)));
        }
        if let Some(window) = w.window_per_thread {
            return Ok((Some(window), None));
        }
        let all = threads.saturating_mul(qps).max(1);
        match w.outstanding {
            Some(outstanding) if outstanding > 0 && outstanding.is_multiple_of(all) => {
                Ok((None, Some(outstanding / all)))
            }
            Some(number) => Err(Refusal::Uneven { what: "outstanding", number, of: format!("{all} QPs") }),
            None => {
                let usual = if w.metric == Metric::LatencyFull { 1 } else { USUAL_WINDOW };
                Ok((None, Some(self.choices.or("window", None, usual))))
            }
        }
    }

    /// The window of a QP and `signal_every`, both smaller if the window has very many bytes.
    fn shortened(&mut self, window: u32, signal_every: u32, batch: u32, size: u32) -> (u32, u32) {
        let most = (MOST_OUTSTANDING / size.max(1)).max(FEWEST).max(batch.saturating_mul(2));
        if window <= most || self.w.metric == Metric::LatencyFull {
            return (window, signal_every);
        }
        self.choices.take("window", "at most 16 MiB per QP, because more bytes do not change the bandwidth");
        // The window always has several signalled operations.
        (most, signal_every.min(most / FEWEST).max(1))
    }

    /// READs and atomics in flight per QP; `None` for other verbs.
    fn rd_atomic(&mut self, verb: Verb) -> Option<u32> {
        if verb.carries_payload() {
            return None;
        }
        if self.w.rd_atomic.is_none() {
            let most = self.profile.device.nic.max_rd_atomic;
            self.choices.take("rd_atomic", format!("{most}, the profile's"));
        }
        self.w.rd_atomic
    }

    /// Whether payload is inline; `None` lets Doorbell choose.
    fn inline(&mut self, verb: Verb, size: u32, gathers: bool) -> Option<bool> {
        if !verb.has_payload(size) || gathers {
            return None;
        }
        if self.w.inline.is_none() {
            self.choices.take("inline", "if it fits, unless DMA is faster by more than 5%");
        }
        self.w.inline.map(|most| size <= most)
    }

    fn registers(&mut self, threads: u32) -> Result<(), Refusal> {
        match &self.w.doorbell_registers {
            Some(Registers::Other(word)) => unknown("doorbell_registers", word, Registers::NAMES),
            Some(Registers::Own) => Ok(()),
            // A thread alone meets no lock.
            _ if threads == 1 => Ok(()),
            Some(Registers::Shared16) => Err(Refusal::SharedRegisters),
            Some(Registers::One) => Err(Refusal::OneRegister(threads)),
            None => {
                self.choices.take("doorbell_registers", "own");
                Ok(())
            }
        }
    }

    fn blueflame(&mut self, batch: u32) -> Result<(), Refusal> {
        match self.w.blueflame {
            Some(false) => Err(Refusal::PlainDoorbells),
            Some(true) if batch > 1 => Err(Refusal::BlueFlameOfLists(batch)),
            Some(true) => Ok(()),
            None => {
                self.choices.take("blueflame", "WQEs by MMIO for single work requests, doorbells for lists");
                Ok(())
            }
        }
    }

    fn memory(&mut self) -> Result<(), Refusal> {
        match &self.w.memory {
            Some(RemoteMemory::Host) => Ok(()),
            Some(RemoteMemory::Device) => Err(Refusal::DeviceMemory),
            Some(RemoteMemory::Gpu) => Err(Refusal::GpuMemory),
            Some(RemoteMemory::Other(word)) => unknown("memory", word, RemoteMemory::NAMES),
            None => {
                self.choices.take("memory", "host");
                Ok(())
            }
        }
    }

    /// Switches between the machines. The profile's path has one.
    fn hops(&mut self) -> Result<(), Refusal> {
        let is_latency = matches!(self.w.metric, Metric::LatencyHalf | Metric::LatencyFull);
        match (self.w.hops, self.w.switched) {
            (Some(1), _) => {}
            (Some(hops), _) if is_latency => return Err(Refusal::Hops(hops)),
            (Some(hops), _) => {
                self.choices
                    .take("hops", format!("link.one_way_ns of the profile, with one switch, not {hops}"));
            }
            (None, Some(true)) => self.choices.take("hops", "1"),
            (None, _) => self.choices.take("hops", "1, as in link.one_way_ns of the profile"),
        }
        Ok(())
    }

    fn remote(&mut self, verb: Verb, size: u32) -> Result<Remote, Refusal> {
        match verb {
            Verb::FetchAdd | Verb::CompareSwap => self.counters(),
            Verb::Write | Verb::Read => self.buffers(verb, size),
            Verb::Send => Ok(Remote::default()),
        }
    }

    /// Counters of atomics.
    fn counters(&mut self) -> Result<Remote, Refusal> {
        let of = |count, stride| {
            Ok(Remote { counters: Some(count), counter_stride: Some(stride), ..Remote::default() })
        };
        match &self.w.addresses {
            Some(MeasuredAddresses::Same) => of(1, LINE),
            Some(
                MeasuredAddresses::OwnLine
                | MeasuredAddresses::Many
                | MeasuredAddresses::Random
                | MeasuredAddresses::AnyByte,
            ) => {
                let count = self.choices.or("keys", self.w.keys, USUAL_COUNTERS);
                self.choices.take("addresses", "random counters, each in a cache line of its own");
                of(count, LINE)
            }
            Some(MeasuredAddresses::Other(word)) => unknown("addresses", word, MeasuredAddresses::NAMES),
            None => {
                self.choices.take("addresses", "same");
                of(1, LINE)
            }
        }
    }

    /// Buffers of READs and WRITEs. Buffers of different operations do not share cache lines.
    fn buffers(&mut self, verb: Verb, size: u32) -> Result<Remote, Refusal> {
        match &self.w.addresses {
            Some(MeasuredAddresses::Same) => Err(Refusal::SameAddress),
            Some(MeasuredAddresses::Random) => {
                let region = self.choices.or("region_bytes", self.w.region_bytes, USUAL_REGION);
                let region = region.max(size.into());
                let remote_addresses = Some(Addresses::Random);
                Ok(Remote { region: Some(region), remote_addresses, ..Remote::default() })
            }
            Some(MeasuredAddresses::AnyByte) => {
                let region = self.choices.or("region_bytes", self.w.region_bytes, USUAL_REGION);
                let region = Some(region.max(size.into()));
                // Inline payload comes from the WQE, so it has no region.
                let local_region = region.filter(|_| !verb.carries_payload());
                Ok(Remote { region, local_region, addresses: Some(Addresses::AnyByte), ..Remote::default() })
            }
            Some(MeasuredAddresses::Many) if self.w.keys.is_some() => {
                let each = u64::from(size.max(1).next_multiple_of(LINE));
                Ok(Remote { region: self.w.keys.map(|keys| each * u64::from(keys)), ..Remote::default() })
            }
            Some(MeasuredAddresses::OwnLine) => Ok(Remote::default()),
            Some(MeasuredAddresses::Other(word)) => unknown("addresses", word, MeasuredAddresses::NAMES),
            Some(MeasuredAddresses::Many) | None => {
                self.choices.take("addresses", "a buffer for each operation of the window");
                Ok(Remote::default())
            }
        }
    }

    fn machines(&self) -> u32 {
        self.w.machines.unwrap_or(PAIR)
    }

    /// Links of a machine, which its threads use in turn.
    fn ports(&self, threads: u32) -> Result<u32, Refusal> {
        let links = self.links;
        if links > threads { Err(Refusal::Links { links, threads }) } else { Ok(links) }
    }

    /// The pattern, and the QPs of a thread. If both machines of a pair post, a thread's QPs lead to both
    /// machines in turn, and the QPs to its own machine stay unused.
    fn direction(&mut self, qps: u32) -> Result<(Pattern, u32), Refusal> {
        let both = self.w.bidirectional == Some(true);
        let pattern = match &self.w.pattern {
            Some(pattern) if both => return Err(Refusal::BothPatterns(pattern.clone())),
            Some(PostingPattern::Outbound) => Pattern::Outbound,
            Some(PostingPattern::Inbound) => Pattern::Inbound,
            Some(PostingPattern::AllToAll) => Pattern::AllToAll,
            Some(PostingPattern::Other(word)) => return unknown("pattern", word, PostingPattern::NAMES),
            None if both => return Ok((Pattern::AllToAll, qps.saturating_mul(PAIR))),
            None => {
                if self.w.bidirectional.is_none() {
                    self.choices.take("bidirectional", "false");
                }
                Pattern::Outbound
            }
        };
        Ok((pattern, qps))
    }

    /// Sockets of the requesting and the responding threads; `None` is the NIC's.
    fn sockets(&mut self) -> Result<(Option<u32>, Option<u32>), Refusal> {
        let socket = match &self.w.socket {
            None => {
                self.choices.take("socket", "near");
                return Ok((None, None));
            }
            Some(Locality::Near) => None,
            Some(Locality::Far) if self.profile.socket_count() < 2 => return Err(Refusal::FarSocket),
            Some(Locality::Far) => Some(1),
            Some(Locality::Other(word)) => return unknown("socket", word, Locality::NAMES),
        };
        match &self.w.socket_of {
            Some(Endpoint::Requester) => Ok((socket, None)),
            Some(Endpoint::Responder) => Ok((None, socket)),
            Some(Endpoint::Both) => Ok((socket, socket)),
            Some(Endpoint::Other(word)) => unknown("socket_of", word, Endpoint::NAMES),
            None => {
                self.choices.take("socket_of", "both");
                Ok((socket, socket))
            }
        }
    }
}
