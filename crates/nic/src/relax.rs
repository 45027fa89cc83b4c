//! Profiles with more of a resource that can limit a workload.

use crate::{Profile, Resource};
use doorbell_verbs::Span;
use std::fmt;

/// More of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum More {
    /// The resource is 10% faster or larger.
    Tenth(Resource),
    /// The number of cache entries, units or outstanding requests is multiplied by this factor.
    Times(Resource, u32),
}

impl More {
    /// The factor of [`More::Tenth`] as numerator and denominator.
    pub const TENTH: (u64, u64) = (11, 10);

    /// The resource that grows.
    pub const fn resource(self) -> Resource {
        match self {
            More::Tenth(resource) | More::Times(resource, _) => resource,
        }
    }

    /// The factor by which the resource grows.
    pub fn factor(self) -> f64 {
        match self {
            More::Tenth(_) => 1.1,
            More::Times(_, times) => times.into(),
        }
    }
}

impl fmt::Display for More {
    /// Formats as `dma-bw +10%` or `nic-qp-cache x2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            More::Tenth(resource) => write!(f, "{} +10%", resource.name()),
            More::Times(resource, times) => write!(f, "{} x{times}", resource.name()),
        }
    }
}

impl Profile {
    /// This profile with `resource` `num/den` times as fast: rates and sizes are multiplied, times are
    /// divided.
    ///
    /// Relaxing the atomic locks shortens the time that each is held, but not the PCIe read under the lock,
    /// which belongs to [`Resource::PcieLatency`]. For [`Resource::Latency`] the cables and the switch take
    /// less time.
    ///
    /// # Panics
    /// If `num` or `den` is zero.
    pub fn relax(&self, resource: Resource, num: u64, den: u64) -> Profile {
        assert!(num > 0 && den > 0, "a resource can be relaxed by a positive factor only");
        let mut relaxed = self.clone();
        let factor = Factor { num, den };
        relaxed.relax_in_place(resource, factor);
        relaxed
    }

    /// Two clock rates of the cores in Hz: the rate in the profile's parameters, and the rate after
    /// [`Resource::Cpu`] was relaxed. The computing time of programs shrinks by the ratio of the two.
    pub fn clocks(&self) -> (u64, u64) {
        let own = self.parameters.iter().find(|parameter| parameter.name == "host.clock_ghz");
        (own.map_or(self.host.clock_hz, |clock| (clock.value * 1e9).round() as u64), self.host.clock_hz)
    }

    /// This profile with more of a resource.
    pub fn with(&self, more: More) -> Profile {
        let (num, den) = More::TENTH;
        match more {
            More::Tenth(resource) => self.relax(resource, num, den),
            More::Times(resource, times) => {
                let mut larger = self.clone();
                larger.enlarge(resource, Factor { num: times.into(), den: 1 });
                larger
            }
        }
    }

    /// Multiplies the number of units or locks. Any other resource is relaxed as in [`Profile::relax`].
    fn enlarge(&mut self, resource: Resource, factor: Factor) {
        match resource {
            Resource::TxUnits => factor.more_u32(&mut self.device.tx.units),
            Resource::RxUnits => factor.more_u32(&mut self.device.rx.units),
            Resource::AtomicLocks => factor.more_u32(&mut self.device.atomics.slots),
            other => self.relax_in_place(other, factor),
        }
    }

    fn relax_in_place(&mut self, resource: Resource, factor: Factor) {
        match resource {
            Resource::Cpu => self.relax_cpu(factor),
            Resource::MmioBandwidth => factor.more_u64(&mut self.device.pcie_speed.mmio),
            Resource::DmaBandwidth => factor.more_u64(&mut self.device.pcie_speed.completion),
            Resource::DmaWriteBandwidth => factor.more_u64(&mut self.device.pcie_speed.device_to_host),
            Resource::PcieLatency => {
                let p = &mut self.device.pcie;
                factor.faster([&mut p.read_latency, &mut p.write_latency, &mut p.mmio_latency]);
                if let Some(sockets) = &mut self.sockets {
                    factor.faster([&mut sockets.pcie_hop]);
                }
            }
            Resource::TxUnits => self.relax_tx(factor),
            Resource::TxPipeline => {
                if let Some(pipeline) = &mut self.device.pipeline {
                    factor.faster([&mut pipeline.request]);
                }
            }
            Resource::RxUnits => self.relax_rx(factor),
            // The number of locks stays. With a number that is not a power of two, other address bits would
            // choose the lock. That would be a different NIC, not a somewhat better one.
            Resource::AtomicLocks => factor.faster([&mut self.device.atomics.hold]),
            Resource::WqeCache => {
                factor.more_u32(&mut self.device.caches.wqe_entries);
                factor.more_u32(&mut self.device.caches.read_wqe_entries);
                if let Some(requests) = &mut self.device.requests {
                    factor.more_u32(&mut requests.entries);
                }
            }
            Resource::QpContextCache => {
                factor.more_u32(&mut self.device.caches.requester_entries);
                factor.more_u32(&mut self.device.caches.responder_entries);
            }
            Resource::TranslationCache => factor.more_u32(&mut self.device.caches.translation_entries),
            Resource::OutstandingReads => factor.more_reads(&mut self.device.nic.max_rd_atomic),
            Resource::PcieTags => factor.more_u32(&mut self.device.pcie.max_outstanding_reads),
            Resource::WriteCombining => factor.more_u32(&mut self.host.wc_buffers),
            Resource::LinkBandwidth => factor.more_u64(&mut self.device.link.port_bytes_per_s),
            Resource::Latency => factor.faster([&mut self.device.link.one_way]),
        }
    }

    fn relax_cpu(&mut self, factor: Factor) {
        let h = &mut self.host;
        factor.more_u64(&mut h.clock_hz);
        factor.more_u32(&mut h.fill_buffers);
        factor.faster([
            &mut h.mmio_drain,
            &mut h.program,
            &mut h.post_call,
            &mut h.build_wqe,
            &mut h.build_line,
            &mut h.inline_copy_line,
            &mut h.mmio_line,
            &mut h.doorbell,
            &mut h.post_recv_wqe,
            &mut h.poll_empty,
            &mut h.poll_cqe,
            &mut h.l1_hit,
            &mut h.llc_hit,
            &mut h.dma_line,
            &mut h.line_transfer,
            &mut h.line_transfer_queued,
            &mut h.atomic_op,
            &mut h.dram,
            &mut h.stream_line,
            &mut h.copy_line,
        ]);
        if let Some(sockets) = &mut self.sockets {
            factor.faster([&mut sockets.hop]);
        }
        if let Some(c) = &mut self.hierarchy {
            factor.faster([
                &mut c.instruction,
                &mut c.l1_latency,
                &mut c.l2_latency,
                &mut c.llc_latency,
                &mut c.other_core,
            ]);
        }
        if let Some(t) = &mut self.tcp {
            factor.faster([
                &mut t.system_call,
                &mut t.socket_call,
                &mut t.poll_socket,
                &mut t.segment_out,
                &mut t.page_out,
                &mut t.ack_out,
                &mut t.frame_in,
                &mut t.segment_in,
                &mut t.ack_in,
                &mut t.interrupt_entry,
                &mut t.interrupt_exit,
                &mut t.wake_up,
                &mut t.sleep,
            ]);
        }
    }

    fn relax_tx(&mut self, factor: Factor) {
        let t = &mut self.device.tx;
        factor.faster([
            &mut t.send,
            &mut t.read_request,
            &mut t.atomic_request,
            &mut t.fetched_wqe,
            &mut t.extra_line,
            &mut t.idle_qp,
            &mut t.payload_dma,
            &mut t.gather,
            &mut t.extra_packet,
            &mut t.larger_payload,
            &mut t.response,
            &mut t.ack,
        ]);
    }

    fn relax_rx(&mut self, factor: Factor) {
        let r = &mut self.device.rx;
        factor.faster([
            &mut r.packet,
            &mut r.dma_write,
            &mut r.dma_read,
            &mut r.inline_recv,
            &mut r.atomic,
            &mut r.ack,
            &mut r.requester_cqe,
        ]);
        if let Some(sockets) = &mut self.sockets {
            factor.faster([&mut sockets.unit_write, &mut sockets.unit_read]);
        }
    }
}

/// The factor `num/den` by which a resource is faster.
#[derive(Clone, Copy)]
struct Factor {
    num: u64,
    den: u64,
}

impl Factor {
    fn scale(self, value: u64) -> u64 {
        let scaled = u128::from(value) * u128::from(self.num) / u128::from(self.den);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    fn more_u64(self, value: &mut u64) {
        *value = self.scale(*value).max(1);
    }

    fn more_u32(self, value: &mut u32) {
        *value = u32::try_from(self.scale(u64::from(*value)).max(1)).unwrap_or(u32::MAX);
    }

    /// At most 255, because verbs store this number in a byte.
    fn more_reads(self, value: &mut u32) {
        self.more_u32(value);
        *value = (*value).min(u8::MAX.into());
    }

    fn faster<const N: usize>(self, spans: [&mut Span; N]) {
        let inverse = Factor { num: self.den, den: self.num };
        for span in spans {
            *span = Span::from_ps(inverse.scale(span.as_ps()));
        }
    }
}
