//! A client's requests by UC WRITE into the request region.

use super::client::{Images, inlined};
use super::windows::Pending;
use super::{Config, Trailer, reach};
use crate::SystemError;
use crate::device::{Device, find};
use crate::outbox::{self, Outbox};
use crate::recv_ring::RecvRing;
use doorbell_verbs::{
    ConnectAttr, Cq, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendOp, SendWr, Sge,
};

/// A client's connected QP, and the UD QP to which replies come.
pub(super) struct Writes<P: Provider> {
    cpu: P,
    config: Config,
    number: u32,
    uc: Outbox<P>,
    region: RemoteAddr,
    inline: u32,
    replies: Qp<P>,
    /// Number of times it asked for a repetition.
    bells: u32,
}

impl<P: Provider> Writes<P> {
    /// Returns once every worker is ready.
    pub(super) fn open(
        device: &Device<P>,
        config: &Config,
        number: u32,
        replies: &Cq<P>,
        ring: &mut RecvRing<P>,
    ) -> Result<Writes<P>, SystemError> {
        let (cpu, port) = (&device.cpu, device.port(number));
        let send_cq = device.context.create_cq(outbox::cqe(1))?;
        let ud = device.ud(port, (&send_cq, replies), 1, ring.depth(), 0)?;
        // Before anybody knows this QP: a datagram without RECV is lost.
        ring.post(&ud, true)?;
        let inline = device.inline(config.slot() as u32);
        let cap = QpCap {
            max_send_wr: outbox::depth(1),
            max_recv_wr: 1,
            max_inline_data: inline,
            ..QpCap::default()
        };
        let uc = device.pd.create_qp(&send_cq, &send_cq, None, &QpInitAttr::new(QpType::Uc, cap))?;
        cpu.publish(&format!("herd/ud/{number}"), &ud.endpoint(port)?.to_bytes());
        cpu.publish(&format!("herd/uc-client/{number}"), &uc.endpoint(port)?.to_bytes());
        let remote = find(cpu, &format!("herd/uc-server/{number}"))?;
        uc.connect(port, &remote, &ConnectAttr::default())?;
        let region = RemoteAddr::from_bytes(&cpu.lookup("herd/region"))?;
        for worker in 0..config.workers {
            cpu.lookup(&format!("herd/ready/{worker}"));
        }
        Ok(Writes {
            cpu: cpu.clone(),
            config: config.clone(),
            number,
            uc: Outbox::new(uc, send_cq, 1),
            region,
            inline,
            replies: ud,
            bells: 0,
        })
    }

    pub(super) fn replies(&self) -> &Qp<P> {
        &self.replies
    }

    /// WRITEs a request from its image to its slot.
    pub(super) fn post(&mut self, images: &Images<P>, worker: u32, p: Pending) -> Result<(), SystemError> {
        let end = images.end(worker, p.sequence);
        let trailer = Trailer { sequence: p.sequence, length: p.length, repetition: p.repetition };
        self.cpu.store_u64(images.mem(), end - 8, trailer.to_word());
        let len = reach(p.length.into());
        let slot = self.config.slot_offset(self.number, p.sequence) + self.config.slot() - len;
        let to = u64::from(worker) * self.config.part() + slot;
        let sge = [images.sge(end - len, len as u32)];
        self.uc.post(&mut [self.wr(to, &sge)])
    }

    fn wr<'a>(&self, to: u64, sge: &'a [Sge; 1]) -> SendWr<'a> {
        inlined(SendWr::new(0, SendOp::Write(self.region.at(to)), sge), sge[0].length, self.inline)
    }

    /// Tells a worker that it has to look at this client's slots again. Returns when the WRITEs have
    /// left that were posted again: a request may end by its first WRITE, and what is next in its slot
    /// must not go out with the second.
    pub(super) fn ring_bell(&mut self, images: &Images<P>, worker: u32) -> Result<(), SystemError> {
        self.bells = self.bells.wrapping_add(1);
        let word = u64::from(self.bells) << 32 | u64::from(self.number);
        self.cpu.store_u64(images.mem(), images.word(), word);
        let to = u64::from(worker) * self.config.part() + self.config.bell_offset();
        let sge = [images.sge(images.word(), 8)];
        self.uc.post_and_wait(self.wr(to, &sge))
    }
}
