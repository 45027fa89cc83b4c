//! Tools for writing checks: a device, and pairs of connected QPs on it.

use crate::line::{LineSide, TestLine};
use crate::step::{CheckStep, failed, same};
use doorbell_verbs::{
    AccessFlags, Ah, ConnectAttr, Context, Cq, DeviceAttr, Endpoint, Mr, Mtu, PageSize, Pd, PortAttr,
    Provider, Qp, QpCap, QpInitAttr, QpState, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge,
    Span, Srq, Time, UdDest, Wc, WcStatus,
};
use std::cell::RefCell;

/// The port that checks use.
pub(crate) const PORT: u8 = 1;
/// The Q_Key of the UD QPs in checks.
pub(crate) const QKEY: u32 = 0x1234_5678;
/// Time-out of a completion. It is far longer than any device needs, even an emulated one.
const PATIENCE: Span = Span::from_ms(5_000);
/// Time without a message or completion after which a check concludes that none will come.
const SILENCE: Span = Span::from_ms(100);
/// Upper bound on the delay of a DMA write after its acknowledgement.
const LANDING: Span = Span::from_ms(1);
/// All rights of a memory region.
pub(crate) const ALL_RIGHTS: AccessFlags = AccessFlags::all();

/// Options for one side of a pair of QPs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) qp: QpInitAttr,
    pub(crate) connect: ConnectAttr,
    /// Rights of the memory region.
    pub(crate) rights: AccessFlags,
    /// Length of the memory region in bytes.
    pub(crate) len: u64,
    /// Entries of each CQ.
    pub(crate) cqe: u32,
}

/// The objects that a QP needs. Several QPs may share them.
#[derive(Clone)]
pub(crate) struct Parts<P: Provider> {
    pub(crate) send_cq: Cq<P>,
    pub(crate) recv_cq: Cq<P>,
    pub(crate) srq: Option<Srq<P>>,
    pub(crate) mr: Mr<P>,
}

/// One side of a check.
pub(crate) struct Bench<P: Provider> {
    pub(crate) provider: P,
    line: TestLine<P>,
    pub(crate) context: Context<P>,
    pub(crate) pd: Pd<P>,
    pub(crate) device: DeviceAttr,
    pub(crate) port: PortAttr,
    /// Memory regions that the peer may access. This field and `qps` keep these objects alive until both
    /// sides have ended.
    regions: RefCell<Vec<Mr<P>>>,
    qps: RefCell<Vec<Qp<P>>>,
}

impl<P: Provider> Bench<P> {
    /// Runs one side of a check. If there are two sides, waits at the end until the other side has ended.
    pub(crate) fn run(
        provider: P,
        side: LineSide,
        two: bool,
        body: impl FnOnce(&Bench<P>) -> CheckStep,
    ) -> CheckStep {
        let line = || TestLine::new(provider.clone(), side);
        match Bench::open(provider.clone(), line()) {
            Ok(bench) => {
                let step = body(&bench);
                if two {
                    bench.line.end();
                }
                step
            }
            Err(stop) => {
                if two {
                    line().end();
                }
                Err(stop)
            }
        }
    }

    fn open(provider: P, line: TestLine<P>) -> CheckStep<Bench<P>> {
        let context = Context::open(&provider, 0)?;
        let pd = context.alloc_pd()?;
        let device = context.query_device()?;
        let port = context.query_port(PORT)?;
        Ok(Bench {
            provider,
            line,
            context,
            pd,
            device,
            port,
            regions: RefCell::default(),
            qps: RefCell::default(),
        })
    }

    /// Whether this side is the requester.
    pub(crate) fn is_requester(&self) -> bool {
        self.line.side() == LineSide::Requester
    }

    /// Sends a message to the other side.
    pub(crate) fn say(&self, bytes: &[u8]) {
        self.line.say(bytes);
    }

    /// The next message from the other side.
    pub(crate) fn hear(&self) -> CheckStep<Vec<u8>> {
        self.line.hear()
    }

    /// A remote address in the next message from the other side.
    pub(crate) fn hear_remote(&self) -> CheckStep<RemoteAddr> {
        Ok(RemoteAddr::from_bytes(&self.hear()?)?)
    }

    /// Waits until the other side makes this call, too. Then waits until acknowledged data has reached
    /// memory, because an ACK may overtake its DMA write.
    pub(crate) fn meet(&self) -> CheckStep {
        self.say(&[]);
        self.hear()?;
        self.sleep(LANDING);
        Ok(())
    }

    /// Waits until the other side has ended.
    pub(crate) fn until_peer_ends(&self) -> CheckStep {
        self.line.until_peer_ends();
        Ok(())
    }

    /// The deadline for a completion that is expected from now on.
    pub(crate) fn deadline(&self) -> Time {
        self.provider.now() + PATIENCE
    }

    /// Waits for `span` on the provider's clock.
    pub(crate) fn sleep(&self, span: Span) {
        let until = self.provider.now() + span;
        while self.provider.now() < until {
            self.provider.pause(until);
        }
    }

    /// Waits so long that a message arrives unless it was dropped.
    pub(crate) fn silence(&self) {
        self.sleep(SILENCE);
    }

    /// Fails unless the QP goes to Err. The completion of the failed work request may come a little earlier.
    #[track_caller]
    pub(crate) fn ends_in_error(&self, qp: &Qp<P>) -> CheckStep {
        let until = self.deadline();
        while qp.state()? != QpState::Err && self.provider.now() < until {
            self.sleep(LANDING);
        }
        same("the state", qp.state()?, QpState::Err)
    }

    /// Usual options of pairs: all access rights, an MTU of at most 1024 bytes, and no inline payload.
    pub(crate) fn options(&self, qp_type: QpType) -> Options {
        let sge = self.device.max_sge.min(4);
        let cap = QpCap {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: sge,
            max_recv_sge: sge,
            max_inline_data: 0,
        };
        let rd_atomic = self.device.max_qp_rd_atom.min(self.device.max_qp_init_rd_atom).min(16);
        let connect = ConnectAttr {
            mtu: Some(self.port.active_mtu.min(Mtu::Mtu1024)),
            max_rd_atomic: rd_atomic,
            ..ConnectAttr::default()
        };
        Options { qp: QpInitAttr::new(qp_type, cap), connect, rights: ALL_RIGHTS, len: 64 << 10, cqe: 256 }
    }

    /// Bytes per packet on QPs of this transport made with [`Bench::options`].
    pub(crate) fn mtu(&self, qp_type: QpType) -> u32 {
        let active = self.port.active_mtu;
        if qp_type == QpType::Ud { active.bytes() } else { active.min(Mtu::Mtu1024).bytes() }
    }

    /// Allocates and registers memory of this machine.
    pub(crate) fn region(&self, len: u64, rights: AccessFlags) -> CheckStep<Mr<P>> {
        let mr = self.pd.reg_mr(self.provider.alloc(len, PageSize::Small)?, rights)?;
        self.regions.borrow_mut().push(mr.clone());
        Ok(mr)
    }

    /// Creates CQs and a memory region for QPs.
    pub(crate) fn parts(&self, options: &Options) -> CheckStep<Parts<P>> {
        Ok(Parts {
            send_cq: self.context.create_cq(options.cqe)?,
            recv_cq: self.context.create_cq(options.cqe)?,
            srq: None,
            mr: self.region(options.len, options.rights)?,
        })
    }

    /// Creates a QP, which is in Reset.
    pub(crate) fn qp(&self, parts: &Parts<P>, options: &Options) -> CheckStep<Qp<P>> {
        let qp = self.pd.create_qp(&parts.send_cq, &parts.recv_cq, parts.srq.as_ref(), &options.qp)?;
        self.qps.borrow_mut().push(qp.clone());
        Ok(qp)
    }

    /// Sends the addresses of a QP and a memory region to the other side. Returns the other side's addresses.
    pub(crate) fn exchange(&self, qp: &Qp<P>, mr: &Mr<P>) -> CheckStep<(Endpoint, RemoteAddr)> {
        self.say(&qp.endpoint(PORT)?.to_bytes());
        self.say(&mr.remote(0).to_bytes());
        Ok((Endpoint::from_bytes(&self.hear()?)?, self.hear_remote()?))
    }

    /// Connects a pair of QPs, which end in Rts. Each side has its own CQs and memory.
    pub(crate) fn pair(&self, options: &Options) -> CheckStep<Pair<P>> {
        self.pair_on(&self.parts(options)?, options)
    }

    /// Connects a pair of QPs on the CQs and the memory in `parts`.
    pub(crate) fn pair_on(&self, parts: &Parts<P>, options: &Options) -> CheckStep<Pair<P>> {
        let qp = self.qp(parts, options)?;
        let (peer, remote) = self.exchange(&qp, &parts.mr)?;
        let pair = self.bring_up(parts, options, qp, peer, remote)?;
        self.meet()?;
        Ok(pair)
    }

    /// A QP in Rts that is connected to itself, for checks that need no other machine.
    pub(crate) fn loopback(&self, options: &Options) -> CheckStep<Pair<P>> {
        self.loopback_on(&self.parts(options)?, options)
    }

    /// A QP in Rts that is connected to itself, on the CQs and the memory in `parts`.
    pub(crate) fn loopback_on(&self, parts: &Parts<P>, options: &Options) -> CheckStep<Pair<P>> {
        let qp = self.qp(parts, options)?;
        let (peer, remote) = (qp.endpoint(PORT)?, parts.mr.remote(0));
        self.bring_up(parts, options, qp, peer, remote)
    }

    fn bring_up(
        &self,
        parts: &Parts<P>,
        options: &Options,
        qp: Qp<P>,
        peer: Endpoint,
        remote: RemoteAddr,
    ) -> CheckStep<Pair<P>> {
        let ah = if qp.qp_type() == QpType::Ud {
            qp.activate(PORT, QKEY)?;
            Some(Ah::to_endpoint(&self.pd, PORT, &peer)?)
        } else {
            qp.connect(PORT, &peer, &options.connect)?;
            None
        };
        Ok(Pair { provider: self.provider.clone(), parts: parts.clone(), qp, remote, peer, ah })
    }
}

/// This side of a pair of QPs.
pub(crate) struct Pair<P: Provider> {
    provider: P,
    pub(crate) parts: Parts<P>,
    pub(crate) qp: Qp<P>,
    /// The peer's memory region.
    pub(crate) remote: RemoteAddr,
    /// The peer's QP.
    pub(crate) peer: Endpoint,
    pub(crate) ah: Option<Ah<P>>,
}

/// Byte `index` of a message. Neighbouring bytes differ, and packets differ.
fn pattern(seed: u8, index: u64) -> u8 {
    let [low, high, ..] = index.to_le_bytes();
    low.wrapping_mul(31).wrapping_add(high.wrapping_mul(7)).wrapping_add(seed)
}

impl<P: Provider> Pair<P> {
    /// Bytes of a RECV buffer before the payload: 40 on UD, 0 on connected QPs.
    pub(crate) fn grh(&self) -> u64 {
        if self.ah.is_some() { u64::from(doorbell_verbs::GRH_BYTES) } else { 0 }
    }

    /// The destination of datagrams to the peer, or `None` on a connected QP.
    pub(crate) fn dest(&self) -> Option<UdDest> {
        self.ah.as_ref().map(|ah| ah.dest(self.peer.qpn, QKEY))
    }

    /// An SGE of this side's memory.
    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        self.parts.mr.sge(offset, length)
    }

    /// Stores a message's bytes in this side's memory.
    pub(crate) fn fill(&self, offset: u64, len: u32, seed: u8) {
        let bytes: Vec<u8> = (0..u64::from(len)).map(|i| pattern(seed, i)).collect();
        self.provider.write(self.parts.mr.mem(), offset, &bytes);
    }

    /// Fails unless the bytes in memory are the message with this seed.
    #[track_caller]
    pub(crate) fn has(&self, offset: u64, len: u32, seed: u8) -> CheckStep {
        let mut bytes = vec![0; len as usize];
        self.provider.read(self.parts.mr.mem(), offset, &mut bytes);
        match (0u64..).zip(&bytes).find(|&(i, &byte)| byte != pattern(seed, i)) {
            None => Ok(()),
            Some((i, byte)) => Err(failed(format!(
                "byte {i} of {len} at offset {offset} is {byte:#04x}, not {:#04x}",
                pattern(seed, i)
            ))),
        }
    }

    /// Fails unless the bytes are zero, as allocated.
    #[track_caller]
    pub(crate) fn is_untouched(&self, offset: u64, len: u32) -> CheckStep {
        let mut bytes = vec![0; len as usize];
        self.provider.read(self.parts.mr.mem(), offset, &mut bytes);
        match bytes.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(i) => Err(failed(format!("byte {i} at offset {offset} was written"))),
        }
    }

    /// A work request to the peer.
    pub(crate) fn wr<'a>(&self, wr_id: u64, op: SendOp, sg_list: &'a [Sge]) -> SendWr<'a> {
        SendWr { dest: self.dest(), ..SendWr::new(wr_id, op, sg_list) }
    }

    /// A signalled work request to the peer.
    pub(crate) fn signaled<'a>(&self, wr_id: u64, op: SendOp, sg_list: &'a [Sge]) -> SendWr<'a> {
        self.wr(wr_id, op, sg_list).flags(SendFlags::SIGNALED)
    }

    /// Posts a signalled work request on a part of this side's memory.
    #[track_caller]
    pub(crate) fn post(&self, wr_id: u64, op: SendOp, offset: u64, len: u32) -> CheckStep {
        Ok(self.qp.post_send(&[self.signaled(wr_id, op, &[self.sge(offset, len)])])?)
    }

    /// Posts a RECV for a payload of up to `len` bytes. On UD, the payload begins 40 bytes after `offset`.
    #[track_caller]
    pub(crate) fn recv(&self, wr_id: u64, offset: u64, len: u32) -> CheckStep {
        let sge = self.sge(offset, len + self.grh() as u32);
        Ok(self.qp.post_recv(&[RecvWr { wr_id, sg_list: &[sge] }])?)
    }

    #[track_caller]
    fn completes(&self, cq: &Cq<P>, what: &str, wr_id: u64, status: WcStatus) -> CheckStep<Wc> {
        let Some(wc) = cq.wait(self.provider.now() + PATIENCE)? else {
            return Err(failed(format!(
                "no completion of {what} {wr_id} within {} s",
                PATIENCE.as_secs_f64()
            )));
        };
        same(&format!("the wr_id of the completed {what}"), wc.wr_id, wr_id)?;
        same(&format!("the status of {what} {wr_id}"), wc.status, status)?;
        same(&format!("qp_num of {what} {wr_id}"), wc.qp_num, self.qp.qp_num())?;
        Ok(wc)
    }

    /// Returns the next completion of the send queue. Fails unless it has this `wr_id` and `status`.
    #[track_caller]
    pub(crate) fn sent(&self, wr_id: u64, status: WcStatus) -> CheckStep<Wc> {
        self.completes(&self.parts.send_cq, "send work request", wr_id, status)
    }

    /// Returns the next completion of the receive queue. Fails unless it has this `wr_id` and `status`.
    #[track_caller]
    pub(crate) fn received(&self, wr_id: u64, status: WcStatus) -> CheckStep<Wc> {
        self.completes(&self.parts.recv_cq, "RECV", wr_id, status)
    }

    /// Fails if either queue has a completion now.
    #[track_caller]
    pub(crate) fn has_no_completions(&self) -> CheckStep {
        for (queue, cq) in [("send", &self.parts.send_cq), ("receive", &self.parts.recv_cq)] {
            let mut wc = [Wc::default()];
            if let Some(wc) = cq.poll(&mut wc)?.first() {
                return Err(failed(format!("unexpected completion of the {queue} queue: {wc:?}")));
            }
        }
        Ok(())
    }
}
