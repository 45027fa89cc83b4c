//! A client that writes pieces until its interval ends.

use super::config::VectorIo;
use super::writer::{VectorPiece, Writer};
use crate::device::{self, Device};
use crate::drawing::{Drawer, Drawing};
use crate::strategy::Strategy;
use crate::{Interval, Measured, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Program, Provider, QpCap, QpInitAttr, QpType, Time};

/// Prefix of the keys that are published.
pub const SERVICE: &str = "vector-io";

/// A client.
#[derive(Clone, Debug)]
pub struct VectorClient {
    /// Number of this client.
    pub number: u32,
    /// The calls that it makes.
    pub io: VectorIo,
    /// How its pieces get into WRITEs.
    pub strategy: Strategy,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

/// Bytes of a call's slot in the server's memory, and bytes of all slots of a client.
pub(super) fn places(io: &VectorIo) -> (u64, u64) {
    let each = io.bytes().next_multiple_of(64);
    (each, each * u64::from(io.clients.outstanding))
}

impl VectorClient {
    fn writer<P: Provider>(&self, device: &Device<P>) -> Result<Writer<P>, SystemError> {
        let VectorIo { iovcnt: pieces, inline_bytes, clients, .. } = &self.io;
        let cq = device.context.create_cq(clients.outstanding)?;
        let sges = (*pieces).min(device.attr.max_sge);
        let of_call = if self.strategy == Strategy::Doorbell { *pieces } else { pieces.div_ceil(sges) };
        let queue = of_call.saturating_mul(clients.outstanding).clamp(of_call, device.attr.max_qp_wr.max(1));
        let inline = device.inline(*inline_bytes);
        let cap = QpCap {
            max_send_wr: queue,
            max_recv_wr: 1,
            max_send_sge: if self.strategy == Strategy::Sgl { sges } else { 1 },
            max_inline_data: inline,
            ..QpCap::default()
        };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(device, &qp, self.number, SERVICE)?;
        Writer::new(device, (qp, cq), (queue, sges, inline), self.io.bytes(), clients.outstanding)
    }
}

impl Program for VectorClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let mut writer = self.writer(&device)?;
        let VectorIo { iovcnt, piece: size, ref clients, .. } = self.io;
        // Each piece begins a cache line of its own, as if the pieces were scattered in a program's memory.
        let apart = u64::from(size).next_multiple_of(64);
        let source = device.registered(apart * u64::from(iovcnt), AccessFlags::LOCAL_WRITE)?;
        device::warm(&p, source.mem());
        let pieces: Vec<VectorPiece> =
            (0..u64::from(iovcnt)).map(|n| VectorPiece::of(&source, n * apart, size)).collect();
        let memory = memory_server::find(&p, SERVICE)?;
        let (each, all) = places(&self.io);
        let memory = memory.at(all * u64::from(self.number));
        let interval = self.interval.begin(&p);
        let drawing = Drawing { record: false, limit: 0, ..clients.drawing() };
        let mut drawer = Drawer::new(drawing, &interval);
        let mut began = vec![Time::START; clients.outstanding as usize];
        let slot = |call: u64| (call % u64::from(clients.outstanding)) as usize;
        let mut ended = 0;
        while !drawer.is_done(p.now()) {
            let wanted = drawer.wanted();
            for _ in 0..wanted {
                let call = writer.begun();
                began[slot(call)] = p.now();
                writer.write(&pieces, memory.at(each * slot(call) as u64), self.strategy)?;
                drawer.sent(1);
            }
            let completed = writer.completed()?;
            for call in ended..completed {
                drawer.got(call, began[slot(call)], p.now(), false);
            }
            if wanted == 0 && completed == ended {
                p.pause(interval.look());
            }
            ended = completed;
        }
        Ok(drawer.drawn.measured)
    }
}
