//! Checks that a resolved workload does not exceed the limits of its machines and of the simulator.

use crate::error::{at_most, at_most_of, invalid};
use crate::resolved::{AtomicCounters, Operation, Resolved};
use crate::taking::{Taking, cores, inlined, least, mtu, ports, rd_atomic};
use crate::{Pattern, Profiles, QueueLimits, Queues, Window, Workload, WorkloadError, topology};
use doorbell_nic::Profile;
use doorbell_schema::{Arrivals, Duration};
use doorbell_verbs::{LinkLayer, QpType, Span};

/// Maximum number of threads of a run. A thread's stack and the stack's guard page are two memory mappings.
/// Linux allows a process 65530 mappings.
const MAX_THREADS: u64 = 30_000;
/// Most QPs of a run.
const MAX_QPS: u64 = 1 << 22;
/// Maximum number of destinations of all UD QPs of a run together.
const MAX_DESTINATIONS: u64 = 1 << 24;
/// Maximum number of bytes that all counters of a machine may span.
const MAX_COUNTER_BYTES: u64 = 1 << 30;
/// Maximum number of bytes of the payload buffers of all threads. The counters of all machines have this
/// limit, too, and so have the regions of all classes of threads.
const MAX_BYTES: u64 = 4 << 30;

fn check_qps(all: u64) -> Result<(), WorkloadError> {
    match all > MAX_QPS {
        true => invalid(format!("the run would have {all} QPs, more than {MAX_QPS}")),
        false => Ok(()),
    }
}

/// Checks the total demand of classes of threads.
pub(crate) fn check_together(classes: &[Resolved]) -> Result<(), WorkloadError> {
    check_qps(classes.iter().map(Resolved::all_qps).sum())?;
    let destinations: u64 = classes.iter().map(Resolved::destinations).sum();
    if destinations > MAX_DESTINATIONS {
        return invalid(format!(
            "the UD QPs of the run would have {destinations} destinations together, more than {MAX_DESTINATIONS}"
        ));
    }
    let payload: u128 = classes.iter().map(|class| u128::from(class.payload_bytes())).sum();
    if classes.len() > 1 && payload > u128::from(MAX_BYTES) {
        return invalid("the buffers of all classes may take at most 4 GiB together".into());
    }
    let regions: u128 = classes.iter().map(Resolved::region_bytes).sum();
    if classes.len() > 1 && regions > u128::from(MAX_BYTES) {
        return invalid("the regions of all classes take more than 4 GiB together".into());
    }
    Ok(())
}

/// Checks that all machines have one link layer.
fn check_layers(all: &[&Profile]) -> Result<(), WorkloadError> {
    let of = |layer: LinkLayer| all.iter().find(|profile| profile.device.link.layer() == layer);
    match (of(LinkLayer::Infiniband), of(LinkLayer::Ethernet)) {
        (Some(ib), Some(roce)) => invalid(format!(
            "a machine of profile {} has InfiniBand, but a machine of profile {} has RoCE",
            ib.name, roce.name
        )),
        _ => Ok(()),
    }
}

impl Workload {
    /// Refuses arrivals, a rate, a think time and a window that exclude each other.
    pub(crate) fn check_pace(&self, r: &Resolved) -> Result<(), WorkloadError> {
        let think = self.think.unwrap_or(Duration::new(Span::ZERO));
        let windows = r.drain.then_some("drain is set");
        let arrivals = self.arrivals.unwrap_or(Arrivals::Closed);
        arrivals.refuse(self.rate.unwrap_or(0), think, "threads", windows).map_err(WorkloadError::Invalid)?;
        match r.window() {
            Window::PerQp(operations) if think.span() > Span::ZERO => invalid(format!(
                "think is {think}, but window_per_qp is {operations}: a think time needs the option window \
                 in place of window_per_qp"
            )),
            _ => Ok(()),
        }
    }
}

impl Resolved {
    /// Checks that a machine has a core for each of its threads, and that the run has at most [`MAX_THREADS`]
    /// threads. If the workload places threads on a socket, the socket must have the cores.
    pub(crate) fn check_threads(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let (what, of): (_, fn(&Profile) -> u32) =
            if self.is_placed() { ("socket", cores) } else { ("machine", Profile::all_cores) };
        let (profile, cores) = least(&taking.all, of);
        let whose = format!("a {what} of profile {}", profile.name);
        at_most_of("threads", self.threads, cores, (&whose, "core"))?;
        let threads = u64::from(self.machines) * u64::from(self.threads);
        if threads > MAX_THREADS {
            let (machines, each) = (self.machines, self.threads);
            return invalid(format!(
                "{machines} machines of {each} threads are {threads} threads, but a run has at most \
                 {MAX_THREADS}, because each takes two of the 65530 memory mappings that Linux allows a \
                 process"
            ));
        }
        Ok(())
    }

    pub(crate) fn check_counts(&self) -> Result<(), WorkloadError> {
        let threads = u64::from(self.machines) * u64::from(self.threads);
        // After this check, the sums of the next check cannot overflow.
        check_qps(threads * u64::from(self.qps))?;
        check_together(std::slice::from_ref(self))?;
        if self.pattern == Pattern::AllToAll && self.transport != QpType::Ud && self.qps < 2 {
            return invalid(
                "qps is 1, but all-to-all on connected QPs needs at least 2: with 1, a thread of machine 0 \
                 would have a QP to its own machine only"
                    .into(),
            );
        }
        if let Some(AtomicCounters { count, stride }) = self.counters {
            if stride == 0 || !stride.is_multiple_of(8) {
                return invalid(format!(
                    "counter_stride is {stride}, but must be a positive multiple of 8 bytes"
                ));
            }
            if u64::from(count) * u64::from(stride) > MAX_COUNTER_BYTES {
                return invalid(format!("{count} counters {stride} bytes apart take more than 1 GiB"));
            }
            let responders = (0..self.machines).filter(|m| topology::responds(self, *m)).count() as u64;
            if responders * u64::from(count) * u64::from(stride) > MAX_BYTES {
                return invalid(format!(
                    "{count} counters {stride} bytes apart on each of {responders} machines take more than 4 GiB"
                ));
            }
        }
        Ok(())
    }

    /// Checks that window, batches and signals go together, and that queues of `limit` work requests hold the
    /// window.
    pub(crate) fn check_window(&self, lanes: u32, limit: u32, why: &str) -> Result<(), WorkloadError> {
        let (name, window) = match self.window() {
            Window::PerThread(operations) => ("window", operations),
            Window::PerQp(operations) => ("window_per_qp", operations),
        };
        at_most(name, window, limit, why)?;
        at_most("batch", self.batch, window, &format!("the {name} is"))?;
        let (s, b) = (self.signal_every, self.batch);
        let least = self.window().least(s, b, lanes);
        if u64::from(window) < least {
            let over = match self.window().sharing(lanes) {
                1 => String::new(),
                sharing => format!(" over {sharing} QPs"),
            };
            return invalid(format!(
                "{name} is {window}, but signal_every {s}{over} with batch {b} needs at least {least}, \
                 because operations stay outstanding until a completion covers them"
            ));
        }
        Ok(())
    }

    /// Checks that all requested ports exist and that some thread uses each.
    pub(crate) fn check_ports(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let Some(asked) = self.ports else { return Ok(()) };
        let (profile, most) = least(&taking.all, ports);
        let whose = format!("a machine of profile {}", profile.name);
        at_most_of("ports", asked, most, (&whose, "port"))?;
        at_most("ports", asked, self.threads, "each thread uses one, and threads is")
    }

    /// Checks that `max_rd_atomic` applies to some verb, and that the NICs allow its value.
    pub(crate) fn check_reads(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let Some(asked) = self.max_rd_atomic else { return Ok(()) };
        if !self.operations().iter().any(|operation| operation.opcode.returns_data()) {
            return invalid(format!(
                "max_rd_atomic is for READ, fetch-and-add and compare-and-swap, not for {}",
                self.verb_names()
            ));
        }
        let (profile, most) = least(&taking.all, rd_atomic);
        at_most("max_rd_atomic", asked, most, &format!("a QP of profile {} has at most", profile.name))
    }

    /// Checks that the devices offer the verbs and can talk to each other.
    pub(crate) fn check_links(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        for Operation { verb, opcode, .. } in self.operations() {
            let lacks = |profile: &&&Profile| !profile.device.generation.offers(*opcode, self.transport);
            if let Some(profile) = taking.all.iter().find(lacks) {
                let (name, transport) = (&profile.name, self.transport);
                return invalid(format!(
                    "profile {name} is an iWARP NIC, which has send, write and read over rc, without \
                     immediates, but not this {verb} over {transport}"
                ));
            }
        }
        let iwarp: Vec<&&Profile> =
            taking.all.iter().filter(|profile| profile.device.generation.is_iwarp()).collect();
        let Some(first) = iwarp.first() else { return check_layers(&taking.all) };
        if let Some(other) = taking.all.iter().find(|profile| !profile.device.generation.is_iwarp()) {
            return invalid(format!(
                "a machine of profile {} speaks iWARP, but a machine of profile {} does not",
                first.name, other.name
            ));
        }
        match iwarp.iter().find(|profile| profile.device.link.mtu != first.device.link.mtu) {
            None => Ok(()),
            Some(other) => invalid(format!(
                "profiles {} and {} have segments of {} and {} bytes, but one stream has segments of one size",
                first.name, other.name, first.device.link.mtu, other.device.link.mtu
            )),
        }
    }

    /// QPs of all threads, including responders. A thread can have more QPs than the option `qps`
    /// says, for example as a responder.
    fn all_qps(&self) -> u64 {
        let threads = (0..self.machines).flat_map(|m| (0..self.threads).map(move |t| (m, t)));
        threads.map(|(machine, thread)| u64::from(topology::qps(self, machine, thread))).sum()
    }

    /// Destinations of all UD QPs. Each QP stores its own destinations.
    fn destinations(&self) -> u64 {
        if self.transport != QpType::Ud {
            return 0;
        }
        let others = u64::from(self.machines) - 1;
        let pairs = match self.pattern {
            Pattern::Outbound | Pattern::Inbound => others,
            Pattern::AllToAll => others * (others + 1),
        };
        pairs * u64::from(self.threads) * u64::from(self.qps)
    }

    /// Bytes of the payload buffers of all threads. A thread has one buffer, as long as its longest
    /// operation.
    fn payload_bytes(&self) -> u64 {
        let threads = u64::from(self.machines) * u64::from(self.threads);
        threads * u64::from(self.longest())
    }

    pub(crate) fn check_payload(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let operations = self.operations();
        let odd = operations.iter().find(|operation| operation.verb.is_atomic() && operation.size != 8);
        if let Some(Operation { verb, size, .. }) = odd {
            return invalid(format!("size is {size}, but {verb} works on 8 bytes"));
        }
        let (Profile { name, .. }, limit) = least(&taking.posters, inlined);
        if let Some(up_to) = self.inline_up_to() {
            at_most("inline_up_to", up_to, limit, &format!("{name} inlines at most"))?;
        }
        let inlined = |operation: &&Operation| operation.inline && operation.size > limit;
        if let Some(Operation { size, .. }) = operations.iter().find(inlined) {
            return invalid(format!("size is {size}, but {name} inlines at most {limit} bytes"));
        }
        self.check_inline_recv(taking)?;
        let size = self.longest();
        let (Profile { name, .. }, mtu) = least(&taking.all, mtu);
        if self.transport == QpType::Ud && size > mtu {
            return invalid(format!(
                "size is {size}, but a UD message is one packet of at most {mtu} bytes (the MTU of {name})"
            ));
        }
        let threads = u64::from(self.machines) * u64::from(self.threads);
        if self.payload_bytes() > MAX_BYTES {
            return invalid(format!(
                "size is {size}, but the buffers of {threads} threads may take at most 4 GiB together"
            ));
        }
        Ok(())
    }

    /// Checks that the payload fits into a CQE, if it is received inline.
    fn check_inline_recv(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let size = self.longest_send();
        let places = |p: &&&Profile| !p.device.nic.receives_inline(size, self.transport == QpType::Ud);
        match taking.responders.iter().find(places).filter(|_| self.inline_recv) {
            None => Ok(()),
            Some(Profile { name, .. }) => {
                let transport = self.transport;
                invalid(format!("{name} does not receive {size} bytes inline on {transport}"))
            }
        }
    }

    /// Checks that no CQ of a thread can have more completions waiting than its device allows.
    pub(crate) fn check_cqs(&self, profiles: &Profiles) -> Result<(), WorkloadError> {
        for (profile, machines) in profiles.all().zip(self.groups()) {
            let limits =
                QueueLimits { max_qp_wr: profile.device.nic.max_qp_wr, max_cqe: profile.device.nic.max_cqe };
            for (machine, thread) in machines.flat_map(|m| (0..self.threads).map(move |t| (m, t))) {
                let Queues { qps, send_cqe, recv_cqe, .. } = Queues::of(self, machine, thread, limits);
                if send_cqe.max(recv_cqe) > limits.max_cqe.into() {
                    return invalid(format!(
                        "a CQ of {} holds at most {} completions, but {} completions of thread {thread} of \
                         machine {machine}, with {qps} QPs, may wait in one CQ: use a smaller window or \
                         fewer QPs",
                        profile.name,
                        limits.max_cqe,
                        send_cqe.max(recv_cqe),
                    ));
                }
            }
        }
        Ok(())
    }
}
