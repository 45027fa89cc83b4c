//! Limits of a device: the largest sizes that programs may request.

use doorbell_nic::{MoreLimits, NicLimits};

/// The largest sizes of queues and work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Work requests in a queue.
    pub wr: u32,
    /// SGEs in a work request.
    pub sge: u32,
    /// Bytes of inline payload.
    pub inline: u32,
    /// Completions in a CQ.
    pub cqe: u32,
    /// READs and atomics outstanding, on either side.
    pub rd_atomic: u32,
    /// Work requests in a shared receive queue.
    pub srq_wr: u32,
    /// SGEs in a work request of a shared receive queue.
    pub srq_sge: u32,
    /// Bytes of device memory in one allocation.
    pub dm: u32,
}

/// The software NIC's own limits.
pub const OWN: Limits = Limits {
    wr: 1 << 15,
    sge: 32,
    inline: 1024,
    cqe: 1 << 20,
    rd_atomic: 16,
    srq_wr: 1 << 15,
    srq_sge: 32,
    dm: 1 << 20,
};

impl Limits {
    /// The limits of a NIC. If its limits of shared receive queues are unknown, they are those of other
    /// queues.
    pub fn of(nic: &NicLimits) -> Limits {
        let NicLimits { qp_wr, sge, inline, cqe, rd_atomic, more } = *nic;
        let usual = MoreLimits { max_srq_wr: qp_wr, max_srq_sge: sge, max_dm: OWN.dm };
        let MoreLimits { max_srq_wr: srq_wr, max_srq_sge: srq_sge, max_dm: dm } = more.unwrap_or(usual);
        Limits { wr: qp_wr, sge, inline, cqe, rd_atomic, srq_wr, srq_sge, dm }
    }

    /// The limits as `wr:sge:inline:cqe:rd_atomic:srq_wr:srq_sge:dm`, for
    /// [`DEVICE_LIMITS`](crate::variables::DEVICE_LIMITS).
    pub fn text(&self) -> String {
        let Limits { wr, sge, inline, cqe, rd_atomic, srq_wr, srq_sge, dm } = self;
        format!("{wr}:{sge}:{inline}:{cqe}:{rd_atomic}:{srq_wr}:{srq_sge}:{dm}")
    }

    /// Parses the result of [`Limits::text`]. `None` if the syntax is wrong, or if `wr`, `sge`, `cqe`,
    /// `srq_wr` or `srq_sge` is 0.
    pub fn parse(text: &str) -> Option<Limits> {
        let numbers: Option<Vec<u32>> = text.split(':').map(|number| number.parse().ok()).collect();
        let &[wr, sge, inline, cqe, rd_atomic, srq_wr, srq_sge, dm] = numbers?.as_slice() else {
            return None;
        };
        let are_queues = [wr, sge, cqe, srq_wr, srq_sge].iter().all(|most| *most > 0);
        are_queues.then_some(Limits { wr, sge, inline, cqe, rd_atomic, srq_wr, srq_sge, dm })
    }

    /// For each limit, the smaller of both values.
    pub fn least(self, other: Limits) -> Limits {
        Limits {
            wr: self.wr.min(other.wr),
            sge: self.sge.min(other.sge),
            inline: self.inline.min(other.inline),
            cqe: self.cqe.min(other.cqe),
            rd_atomic: self.rd_atomic.min(other.rd_atomic),
            srq_wr: self.srq_wr.min(other.srq_wr),
            srq_sge: self.srq_sge.min(other.srq_sge),
            dm: self.dm.min(other.dm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::ShownNic;

    #[test]
    fn limits_of_a_profile_are_told_and_never_above_what_is_there() {
        for (name, sge, srq) in [("cib", 30, (16351, 30)), ("cx3", 30, (16351, 30)), ("cx5", 30, (32767, 31))]
        {
            let limits = Limits::of(&ShownNic::named_or_file(name).expect("it is built in").limits);
            assert_eq!(Limits::parse(&limits.text()), Some(limits));
            let shown = limits.least(OWN);
            assert_eq!((shown.sge, (shown.srq_wr, shown.srq_sge)), (sge, srq), "{name}");
        }
        let most = Limits { wr: 7, sge: 1000, inline: 0, cqe: u32::MAX, rd_atomic: 255, dm: 9, ..OWN };
        assert_eq!(most.least(OWN), Limits { wr: 7, inline: 0, dm: 9, ..OWN });
    }

    #[test]
    fn what_are_no_limits_is_refused() {
        for text in [
            "",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "0:1:1:1:1:1:1:1",
            "1:1:1:1:1:0:1:1",
            "1:1:1:1:x:1:1:1",
            "1:1:1:4294967296:1:1:1:1",
        ] {
            assert_eq!(Limits::parse(text), None, "{text}");
        }
    }
}
