//! Tests that the suite can fail. Each device has one flaw, and some checks must detect it.

mod tcp;

use doorbell_conformance::{names, run};
use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_verbs::*;
use std::net::SocketAddr;
use tcp::{Tcp, TcpFlaw};

/// Flaw of a device.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    Tcp(TcpFlaw),
    AlwaysSignals,
    LosesImmediates,
    MiscountsBytes,
    MixesUpQps,
    GrantsAllRights,
    HidesRefusedTransitions,
    BlamesFirstOfList,
    FlushesAsGeneralError,
    IgnoresFence,
    IgnoresQkey,
    IgnoresInline,
    CallsFullQueueInvalid,
}

/// A cluster whose devices have a flaw.
struct FlawedCluster(SimCluster, Flaw, tcp::Shared);

impl FlawedCluster {
    fn new(flaw: Flaw, machines: u32) -> FlawedCluster {
        let profile = Profile::named("cx3").expect("a built-in profile");
        FlawedCluster(SimCluster::new(&profile, SimConfig::new(machines)), flaw, tcp::Shared::default())
    }
}

/// A program on a flawed device.
struct OnFlawed<T>(T, Flaw, tcp::Shared);

#[derive(Clone)]
struct Flawed<P> {
    inner: P,
    flaw: Flaw,
    tcp: Tcp,
}

impl Cluster for FlawedCluster {
    fn machines(&self) -> u32 {
        self.0.machines()
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.0.alloc(machine, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.0.alloc_near(machine, core, len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        self.0.spawn(machine, core, OnFlawed(program, self.1, self.2.clone()))
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.0.preset(machine, mem, fill)
    }

    fn run(&mut self) -> Result<(), RunError> {
        self.0.run()
    }
}

impl<T: Program> Program for OnFlawed<T> {
    type Output = T::Output;

    fn run<P: Provider>(self, provider: P) -> T::Output {
        let of_tcp = match self.1 {
            Flaw::Tcp(flaw) => flaw,
            _ => TcpFlaw::Nothing,
        };
        let tcp = Tcp::new(&provider, of_tcp, self.2);
        self.0.run(Flawed { inner: provider, flaw: self.1, tcp })
    }
}

macro_rules! as_inner {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {$(
        fn $name(&self $(, $arg: $type)*) $(-> $ret)? {
            self.inner.$name($($arg),*)
        }
    )*};
}

impl<P: Provider> Cpu for Flawed<P> {
    as_inner! {
        fn now() -> Time;
        fn work(span: Span);
        fn compute(span: Span);
        fn pause(deadline: Time);
        fn alloc(len: u64, page: PageSize) -> Result<Mem, VerbsError>;
        fn alloc_near(core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;
        fn load_u8(mem: Mem, offset: u64) -> u8;
        fn load_u32(mem: Mem, offset: u64) -> u32;
        fn load_u64(mem: Mem, offset: u64) -> u64;
        fn store_u8(mem: Mem, offset: u64, value: u8);
        fn store_u32(mem: Mem, offset: u64, value: u32);
        fn store_u64(mem: Mem, offset: u64, value: u64);
        fn read(mem: Mem, offset: u64, into: &mut [u8]);
        fn write(mem: Mem, offset: u64, from: &[u8]);
        fn copy(to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64);
        fn prefetch(mem: Mem, offset: u64, len: u64);
        fn scan(mem: Mem, offset: u64, len: u64, scan: Scan);
        fn flush(mem: Mem, offset: u64, len: u64);
        fn fetch_add_u64(mem: Mem, offset: u64, add: u64) -> u64;
        fn compare_swap_u64(mem: Mem, offset: u64, expected: u64, new: u64) -> u64;
    }
}

impl<P: Provider> Flawed<P> {
    fn wr<'a>(&self, wr: &SendWr<'a>) -> SendWr<'a> {
        let mut wr = *wr;
        match self.flaw {
            Flaw::AlwaysSignals => wr.flags |= SendFlags::SIGNALED,
            Flaw::IgnoresFence => wr.flags -= SendFlags::FENCE,
            Flaw::IgnoresInline => wr.flags -= SendFlags::INLINE,
            // All QPs of the suite have one Q_Key.
            Flaw::IgnoresQkey => wr.dest = wr.dest.map(|dest| UdDest { qkey: 0x1234_5678, ..dest }),
            _ => {}
        }
        wr
    }

    fn wc(&self, wc: &mut Wc) {
        match self.flaw {
            Flaw::LosesImmediates => wc.imm = None,
            Flaw::MiscountsBytes => wc.byte_len += 1,
            Flaw::MixesUpQps => wc.qp_num += 1,
            Flaw::FlushesAsGeneralError if wc.status == WcStatus::WrFlushErr => {
                wc.status = WcStatus::GeneralErr;
            }
            _ => {}
        }
    }

    fn refusal(&self, mut error: PostError) -> PostError {
        match self.flaw {
            Flaw::BlamesFirstOfList => error.index = 0,
            Flaw::CallsFullQueueInvalid => error.cause = VerbsError::Invalid(error.cause.to_string()),
            _ => {}
        }
        error
    }
}

impl<P: Provider> Sockets for Flawed<P> {
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError> {
        Ok(self.tcp.listen())
    }

    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        self.tcp.accept(&self.inner, listener)
    }

    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError> {
        self.tcp.connect(to)
    }

    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        let mut bytes = vec![0; len as usize];
        self.inner.read(mem, offset, &mut bytes);
        self.tcp.send(&self.inner, socket, bytes)
    }

    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        let mut bytes = self.tcp.recv(&self.inner, socket, len as usize)?;
        let taken = bytes.len() as u64;
        bytes.resize((bytes.len() + self.tcp.spoils()).min((mem.len() - offset) as usize), 0);
        self.inner.write(mem, offset, &bytes);
        Ok(taken)
    }

    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError> {
        self.tcp.poll(&self.inner, sockets, deadline)
    }

    fn tcp_close(&self, socket: SocketHandle) {
        self.tcp.close(socket);
    }
}

impl<P: Provider> Provider for Flawed<P> {
    as_inner! {
        fn machine() -> u32;
        fn publish(key: &str, value: &[u8]);
        fn lookup(key: &str) -> Vec<u8>;
        fn num_devices() -> u32;
        fn open_device(index: u32) -> Result<DeviceHandle, VerbsError>;
        fn close_device(device: DeviceHandle);
        fn query_device(device: DeviceHandle) -> Result<DeviceAttr, VerbsError>;
        fn query_port(device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError>;
        fn alloc_pd(device: DeviceHandle) -> Result<PdHandle, VerbsError>;
        fn dealloc_pd(pd: PdHandle);
        fn dereg_mr(mr: MrHandle);
        fn create_cq(device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError>;
        fn destroy_cq(cq: CqHandle);
        fn create_srq(pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError>;
        fn destroy_srq(srq: SrqHandle);
        fn post_srq_recv(srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError>;
        fn create_ah(pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError>;
        fn destroy_ah(ah: AhHandle);
        fn create_qp(pd: PdHandle, objects: &QpObjects, attr: &QpInitAttr) -> Result<(QpHandle, u32), VerbsError>;
        fn destroy_qp(qp: QpHandle);
        fn query_qp(qp: QpHandle) -> Result<QpState, VerbsError>;
    }

    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError> {
        let all = matches!(self.flaw, Flaw::GrantsAllRights);
        self.inner.reg_mr(pd, mem, if all { AccessFlags::all() } else { access })
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        let n = self.inner.poll_cq(cq, wc)?;
        wc[..n].iter_mut().for_each(|wc| self.wc(wc));
        Ok(n)
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        let result = self.inner.modify_qp(qp, attr);
        if matches!(self.flaw, Flaw::HidesRefusedTransitions) { Ok(()) } else { result }
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        let list: Vec<SendWr<'_>> = list.iter().map(|wr| self.wr(wr)).collect();
        self.inner.post_send(qp, &list).map_err(|error| self.refusal(error))
    }

    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.inner.post_recv(qp, list).map_err(|error| self.refusal(error))
    }
}

/// Runs the checks that `filter` selects on devices with the flaw. The checks in `must_fail` must fail.
fn finds(flaw: Flaw, filter: &str, must_fail: &[&str]) {
    let mut make = |machines| FlawedCluster::new(flaw, machines);
    let failed = run(&mut make, Some(filter), &mut |_| {}).failed();
    for name in must_fail {
        assert!(failed.contains(name), "{name} does not find the flaw {flaw:?}; {failed:?} do");
    }
}

#[test]
fn wrong_completions() {
    finds(Flaw::AlwaysSignals, "completions", &["completions/unsignaled"]);
    finds(Flaw::LosesImmediates, "rc_", &["verbs_per_transport/rc_send_with_imm"]);
    finds(Flaw::LosesImmediates, "completions", &["completions/fields"]);
    finds(Flaw::MiscountsBytes, "_send", &["verbs_per_transport/ud_send", "verbs_per_transport/rc_send"]);
    finds(Flaw::MixesUpQps, "completions", &["completions/one_cq_for_all"]);
    finds(Flaw::FlushesAsGeneralError, "flush", &["flush/recvs", "flush/sends_after_a_failure"]);
}

#[test]
fn wrong_protection() {
    finds(
        Flaw::GrantsAllRights,
        "keys",
        &["keys/rights_of_region", "keys/read_needs_local_write", "keys/remote_write_needs_local"],
    );
    finds(Flaw::IgnoresQkey, "datagrams", &["datagrams/wrong_qkey"]);
}

#[test]
fn wrong_refusals() {
    finds(
        Flaw::HidesRefusedTransitions,
        "states",
        &["states/illegal_transitions", "states/missing_attributes", "states/foreign_attributes"],
    );
    finds(Flaw::BlamesFirstOfList, "limits", &["limits/too_many_sges", "limits/send_queue_full"]);
    finds(Flaw::CallsFullQueueInvalid, "limits", &["limits/send_queue_full", "limits/recv_queue_full"]);
}

#[test]
fn ignored_flags() {
    finds(Flaw::IgnoresFence, "ordering", &["ordering/fence_after_read"]);
    finds(Flaw::IgnoresInline, "inline", &["verbs_per_transport/rc_inline", "limits/too_much_inline"]);
}

/// Flaws of TCP and the checks that must detect them. Every check of TCP detects at least one flaw.
const TCP: &[(TcpFlaw, &[&str])] = &[
    (TcpFlaw::SwapsBytes, &["in_order"]),
    (TcpFlaw::WritesBeyond, &["in_order", "parts"]),
    (TcpFlaw::WaitsForAll, &["parts"]),
    (TcpFlaw::IsHalfDuplex, &["both_ways"]),
    (TcpFlaw::MixesConnections, &["two_apart"]),
    (TcpFlaw::LosesWhatCameBeforeAccept, &["before_accept"]),
    (TcpFlaw::CallsTheEndAReset, &["end_of_stream", "closed_while_sending", "poll_waits"]),
    (TcpFlaw::LosesWhatIsUnderWay, &["end_of_stream", "closed_while_sending"]),
    (TcpFlaw::NeverBlocks, &["full_window", "peer_goes"]),
    (TcpFlaw::HidesThatThePeerIsGone, &["peer_goes", "peer_gone"]),
    (TcpFlaw::ConnectsToNobody, &["nobody_listens"]),
    (TcpFlaw::PollsWithoutWaiting, &["poll_waits", "poll_first"]),
    (TcpFlaw::PollsLast, &["poll_first"]),
    (TcpFlaw::KnowsAllNumbers, &["wrong_sockets"]),
];

#[test]
fn flawed_sockets() {
    let name = |check: &str| format!("sockets/{check}");
    for (flaw, must_fail) in TCP {
        let names: Vec<String> = must_fail.iter().map(|check| name(check)).collect();
        finds(Flaw::Tcp(*flaw), "sockets/", &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let found = |check: &str| TCP.iter().any(|(_, all)| all.iter().any(|c| name(c) == check));
    for check in names().filter(|check| check.starts_with("sockets/")) {
        assert!(found(check), "no flaw is found by {check}");
    }
}

/// The checks fail only because of a flaw. Without a flaw, all checks pass.
#[test]
fn sockets_without_a_flaw() {
    let mut make = |machines| FlawedCluster::new(Flaw::Tcp(TcpFlaw::Nothing), machines);
    let report = run(&mut make, Some("sockets/"), &mut |check| println!("{check}"));
    assert_eq!(report.counts(), (report.checks.len(), 0, 0));
}
