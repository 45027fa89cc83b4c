//! Limits of a device: the largest sizes that programs may request.

use doorbell_nic::Profile;

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
}

/// The software NIC's own limits.
pub const OWN: Limits = Limits { wr: 1 << 15, sge: 32, inline: 1024, cqe: 1 << 20, rd_atomic: 16 };

impl Limits {
    /// The limits of a profile's NIC.
    pub fn of(profile: &Profile) -> Limits {
        let nic = &profile.device.nic;
        Limits {
            wr: nic.max_qp_wr,
            sge: nic.max_sge,
            inline: nic.max_inline,
            cqe: nic.max_cqe,
            rd_atomic: nic.max_rd_atomic,
        }
    }

    /// The limits as `wr:sge:inline:cqe:rd_atomic`, for [`DEVICE_LIMITS`](crate::variables::DEVICE_LIMITS).
    pub fn text(&self) -> String {
        let Limits { wr, sge, inline, cqe, rd_atomic } = self;
        format!("{wr}:{sge}:{inline}:{cqe}:{rd_atomic}")
    }

    /// Parses the result of [`Limits::text`]. `None` if the syntax is wrong, or if `wr`, `sge` or `cqe` is 0.
    pub fn parse(text: &str) -> Option<Limits> {
        let numbers: Option<Vec<u32>> = text.split(':').map(|number| number.parse().ok()).collect();
        let &[wr, sge, inline, cqe, rd_atomic] = numbers?.as_slice() else { return None };
        (wr > 0 && sge > 0 && cqe > 0).then_some(Limits { wr, sge, inline, cqe, rd_atomic })
    }

    /// For each limit, the smaller of both values.
    pub fn least(self, other: Limits) -> Limits {
        Limits {
            wr: self.wr.min(other.wr),
            sge: self.sge.min(other.sge),
            inline: self.inline.min(other.inline),
            cqe: self.cqe.min(other.cqe),
            rd_atomic: self.rd_atomic.min(other.rd_atomic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_profile_are_told_and_never_above_what_is_there() {
        for (name, most) in [("cib", 30), ("cx3", 32)] {
            let profile = Profile::named_or_file(name).expect("it is built in");
            let limits = Limits::of(&profile);
            assert_eq!(Limits::parse(&limits.text()), Some(limits));
            assert!(limits.least(OWN).sge <= most, "{name}");
        }
        let most = Limits { wr: 7, sge: 1000, inline: 0, cqe: u32::MAX, rd_atomic: 255 };
        assert_eq!(most.least(OWN), Limits { wr: 7, inline: 0, ..OWN });
    }

    #[test]
    fn what_are_no_limits_is_refused() {
        for text in ["", "1:2:3:4", "1:2:3:4:5:6", "0:1:1:1:1", "1:1:1:1:x", "1:1:1:4294967296:1"] {
            assert_eq!(Limits::parse(text), None, "{text}");
        }
    }
}
