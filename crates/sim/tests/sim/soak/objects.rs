//! The objects that a thread creates on a device.

use super::draw::Draw;
use super::ledger::Posted;
use super::plan::Link;
use doorbell_verbs::{
    AccessFlags, Ah, AhAttr, Context, Cq, DeviceAttr, Endpoint, Gid, GlobalRoute, Mem, Mr, Pd, Provider, Qp,
    QpCap, QpInitAttr, QpType, Sge, Srq, SrqAttr, UdDest, VerbsError,
};

/// The Q_Key that most UD QPs have.
pub(crate) const QKEY: u32 = 0x1234;

/// A CQ with a number that is never used again.
pub(crate) struct Queue<P: Provider> {
    pub(crate) id: u32,
    pub(crate) cq: Cq<P>,
    pub(crate) overrun: bool,
}

/// An SRQ, the number of its PD, and the most SGEs of its RECVs.
pub(crate) struct Shared<P: Provider> {
    pub(crate) srq: Srq<P>,
    pub(crate) pd: usize,
    pub(crate) max_sge: u32,
}

/// A QP, its attributes, and its posted work requests.
pub(crate) struct DeviceSlot<P: Provider> {
    pub(crate) qp: Qp<P>,
    pub(crate) device: usize,
    pub(crate) pd: usize,
    pub(crate) cap: QpCap,
    pub(crate) signals_all: bool,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) uses_srq: bool,
    pub(crate) posted: Posted,
}

/// A device and the objects on it.
pub(crate) struct Device<P: Provider> {
    pub(crate) context: Context<P>,
    pub(crate) attr: DeviceAttr,
    pub(crate) pds: Vec<Pd<P>>,
    /// Memory regions with the numbers of their PDs.
    pub(crate) mrs: Vec<(usize, Mr<P>)>,
    pub(crate) cqs: Vec<Queue<P>>,
    pub(crate) srqs: Vec<Shared<P>>,
    pub(crate) ahs: Vec<Ah<P>>,
    /// SGEs and destinations of destroyed regions and address handles.
    pub(crate) stale_sges: Vec<Sge>,
    pub(crate) stale_dests: Vec<UdDest>,
    made_cqs: u32,
}

impl<P: Provider> Device<P> {
    pub(crate) fn open(p: &P, index: u32, draw: &mut Draw) -> Result<Device<P>, VerbsError> {
        let context = Context::open(p, index)?;
        let attr = context.query_device()?;
        let pds = (0..draw.within(1..=2)).map(|_| context.alloc_pd()).collect::<Result<Vec<_>, _>>()?;
        Ok(Device {
            context,
            attr,
            pds,
            mrs: Vec::new(),
            cqs: Vec::new(),
            srqs: Vec::new(),
            ahs: Vec::new(),
            stale_sges: Vec::new(),
            stale_dests: Vec::new(),
            made_cqs: 0,
        })
    }

    pub(crate) fn port(&self, link: &Link) -> u8 {
        1 + (link.port % u32::from(self.attr.ports)) as u8
    }

    /// Registers all of `mem` for each PD, so that most messages fit in some region.
    pub(crate) fn make_large_mrs(&mut self, mem: Mem) -> Result<(), VerbsError> {
        for (number, pd) in self.pds.iter().enumerate() {
            self.mrs.push((number, pd.reg_mr(mem, AccessFlags::all())?));
        }
        Ok(())
    }

    /// Registers all or part of `mem`, mostly with all rights.
    pub(crate) fn make_mr(&mut self, draw: &mut Draw, mem: Mem, wildness: u64) {
        let pd = draw.index(self.pds.len());
        let all = !draw.percent(10 + wildness);
        let access =
            if all { AccessFlags::all() } else { AccessFlags::from_bits_truncate(draw.any() as u32) };
        let part = if draw.percent(60) {
            mem
        } else {
            let offset = draw.within(0..=mem.len());
            mem.slice(offset, draw.within(0..=mem.len() - offset))
        };
        if let Ok(mr) = self.pds[pd].reg_mr(part, access) {
            self.mrs.push((pd, mr));
        }
    }

    /// Deregisters a region.
    pub(crate) fn drop_mr(&mut self, draw: &mut Draw) {
        if self.mrs.len() < 2 {
            return;
        }
        let (_, mr) = self.mrs.swap_remove(draw.index(self.mrs.len()));
        let length = mr.mem().len().min(64) as u32;
        self.stale_sges.push(mr.sge(0, length));
    }

    pub(crate) fn make_cq(&mut self, draw: &mut Draw, wildness: u64) -> Result<(), VerbsError> {
        let cqe = if draw.percent(wildness) { draw.within(1..=20) } else { draw.of(&[200, 1_000, 2_500]) };
        let cq = self.context.create_cq(cqe as u32)?;
        self.made_cqs += 1;
        self.cqs.push(Queue { id: self.made_cqs, cq, overrun: false });
        Ok(())
    }

    pub(crate) fn make_srq(&mut self, draw: &mut Draw) -> Result<(), VerbsError> {
        let pd = draw.index(self.pds.len());
        let max_sge = draw.within(0..=4) as u32;
        let srq = self.pds[pd].create_srq(&SrqAttr { max_wr: draw.within(1..=64) as u32, max_sge })?;
        self.srqs.push(Shared { srq, pd, max_sge });
        Ok(())
    }

    /// Creates an address handle, mostly for an existing port.
    pub(crate) fn make_ah(&mut self, draw: &mut Draw, port: u8, to: &Endpoint, wildness: u64) {
        let pd = &self.pds[draw.index(self.pds.len())];
        let ah = if draw.percent(wildness) {
            let port_num = draw.below(4) as u8;
            let grh = draw.maybe(50, |draw| {
                GlobalRoute::new(Gid(std::array::from_fn(|_| draw.any() as u8)), draw.any() as u8)
            });
            pd.create_ah(&AhAttr { port_num, dlid: draw.any() as u16, sl: 0, grh })
        } else {
            Ah::to_endpoint(pd, port, to)
        };
        if let Ok(ah) = ah {
            self.ahs.push(ah);
        }
    }

    pub(crate) fn drop_ah(&mut self, draw: &mut Draw) {
        if !self.ahs.is_empty() {
            let ah = self.ahs.swap_remove(draw.index(self.ahs.len()));
            self.stale_dests.push(ah.dest(draw.any() as u32 & 0xff_ffff, QKEY));
        }
    }

    fn cap(&self, draw: &mut Draw) -> QpCap {
        let depth = |draw: &mut Draw| match draw.below(20) {
            0 => 0,
            1..4 => draw.within(1..=3) as u32,
            _ => draw.of(&[8, 16, 30, 64, 100]),
        };
        let inline = u64::from(self.attr.max_inline_data.unwrap_or(0));
        QpCap {
            max_send_wr: depth(draw),
            max_recv_wr: depth(draw),
            max_send_sge: draw.of(&[0, 1, 1, 2, 3, 4, 30]),
            max_recv_sge: draw.of(&[0, 1, 1, 2, 3, 4, 30]),
            max_inline_data: draw.of(&[0, 64, 200, inline]).min(inline) as u32,
        }
    }

    /// Creates a QP. Some QPs use an SRQ, which may belong to another PD.
    pub(crate) fn make_qp(
        &self,
        draw: &mut Draw,
        device: usize,
        qp_type: QpType,
    ) -> Result<DeviceSlot<P>, VerbsError> {
        let pd = draw.index(self.pds.len());
        let (send, recv) = (&self.cqs[draw.index(self.cqs.len())], &self.cqs[draw.index(self.cqs.len())]);
        let srq = if self.srqs.is_empty() { None } else { draw.maybe(30, |d| d.index(self.srqs.len())) };
        let cap = self.cap(draw);
        let max_inl_recv = draw.of(&[0, 0, 16, 64, u32::MAX]);
        let attr = QpInitAttr { qp_type, cap, sq_sig_all: draw.percent(20), max_inl_recv };
        let qp = self.pds[pd].create_qp(&send.cq, &recv.cq, srq.map(|srq| &self.srqs[srq].srq), &attr)?;
        Ok(DeviceSlot {
            qp,
            device,
            pd,
            cap,
            signals_all: attr.sq_sig_all,
            send_cq: send.id,
            recv_cq: recv.id,
            uses_srq: srq.is_some(),
            posted: Posted::default(),
        })
    }

    /// Whether completions of this CQ can still be polled.
    pub(crate) fn is_watched(&self, id: u32) -> bool {
        self.cqs.iter().any(|queue| queue.id == id && !queue.overrun)
    }

    /// Asks for objects beyond any device's limits. The device must refuse them or they must work.
    pub(crate) fn ask_too_much(&self, draw: &mut Draw) {
        let absurd = |draw: &mut Draw| draw.of(&[0, 1, 1 << 16, 1 << 24, 1 << 31, u32::MAX - 1, u32::MAX]);
        let (context, pd) = (&self.context, &self.pds[draw.index(self.pds.len())]);
        let _ = context.create_cq(absurd(draw));
        let _ = pd.create_srq(&SrqAttr { max_wr: absurd(draw), max_sge: absurd(draw) });
        let cap = QpCap {
            max_send_wr: absurd(draw),
            max_recv_wr: absurd(draw),
            max_send_sge: absurd(draw),
            max_recv_sge: absurd(draw),
            max_inline_data: absurd(draw),
        };
        let (send, recv) = (&self.cqs[draw.index(self.cqs.len())], &self.cqs[draw.index(self.cqs.len())]);
        let qp_type = draw.of(&[QpType::Rc, QpType::Uc, QpType::Ud]);
        let _ = pd.create_qp(&send.cq, &recv.cq, None, &QpInitAttr::new(qp_type, cap));
        let _ = context.query_port(absurd(draw) as u8);
        let (addr, len) = (draw.any(), draw.any() >> draw.below(64));
        let forged = Mem::new(absurd(draw), addr.min(u64::MAX - len), len);
        let _ = pd.reg_mr(forged, AccessFlags::all());
    }
}
