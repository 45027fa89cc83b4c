//! The usual choice between inline payload and payload that the NIC reads by DMA.
//!
//! Inline payload has the lower latency, because the NIC needs no DMA read for it. But it makes WQEs longer,
//! which takes PCIe bandwidth and time of cores. So payload that fits is inline, unless this lowers the rate.

use crate::limits::limits;
use crate::{Profiles, Resolved, Workload};

/// Payload that fits stays out of WQEs only if the lowest bound is then higher by more than this factor.
/// Bounds ignore queueing and imbalance, so smaller differences prove nothing.
const FASTER: f64 = 1.05;

/// A workload probably reaches a bound if the bound of its windows is at least this many times as high.
/// Otherwise latency limits the rate, too.
const ENOUGH: f64 = 2.0;

/// The lowest bounds with and without inline payload, in millions of operations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InlineBounds {
    /// The bound if all payload that fits is inline.
    pub inlined: f64,
    /// The bound if the NIC reads payload by DMA or, for a mix, at least the longer payload.
    pub by_dma: f64,
}

impl Workload {
    /// The workload that leaves payload out of WQEs, if this is the usual choice. `inlined` is the workload
    /// with all payload inline that fits. `None` if options state the choice, or if payload is inline.
    pub(crate) fn faster_by_dma(
        &self,
        profiles: &Profiles,
        inlined: &Resolved,
    ) -> Option<(Resolved, InlineBounds)> {
        if self.inline.is_some() || self.inline_up_to.is_some() || !inlined.inlines() {
            return None;
        }
        let bound = lowest(profiles, inlined);
        // An open loop that reaches its rate has the lower latency with inline payload. Each window of a
        // workload that drains its windows takes the latency of an operation.
        let is_reached = inlined.open_loop().is_some_and(|(_, rate)| rate as f64 / 1e6 <= bound);
        if is_reached || inlined.drain {
            return None;
        }
        let others = self.inlining_less(inlined).into_iter();
        let others = others.filter_map(|other| other.resolve_as_given(profiles).ok());
        let faster = others.filter(|other| reached(profiles, other) > FASTER * bound);
        let best = faster.max_by(|a, b| lowest(profiles, a).total_cmp(&lowest(profiles, b)))?;
        let bounds = InlineBounds { inlined: bound, by_dma: lowest(profiles, &best) };
        Some((best, bounds))
    }

    /// This workload with less inline payload than `inlined`: none or, for a mix, only the shorter payload.
    fn inlining_less(&self, inlined: &Resolved) -> Vec<Workload> {
        let mut sizes: Vec<u32> =
            inlined.operations().iter().filter(|o| o.inline).map(|operation| operation.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.pop();
        let up_to = |size| Workload { inline_up_to: Some(size), ..self.clone() };
        let none = Workload { inline: Some(false), ..self.clone() };
        std::iter::once(none).chain(sizes.into_iter().map(up_to)).collect()
    }
}

impl Resolved {
    /// The bounds that decide the usual choice, if it leaves payload out of WQEs that would fit, and this
    /// workload does so, too. `None` for threads in classes, because each class has its own choice.
    pub fn inline_bounds(&self, profiles: &Profiles) -> Option<InlineBounds> {
        self.uniform()?;
        let open = Workload { inline: None, inline_up_to: None, ..self.written() };
        let inlined = open.resolve_as_given(profiles).ok()?;
        let (usual, bounds) = open.faster_by_dma(profiles, &inlined)?;
        let choice = |w: &Resolved| (w.inlines(), w.inline_up_to());
        (choice(&usual) == choice(self)).then_some(bounds)
    }
}

/// The lowest bound in millions of operations per second.
fn lowest(profiles: &Profiles, w: &Resolved) -> f64 {
    limits(profiles, w).first().map_or(0.0, |least| least.mops)
}

/// The rate in millions of operations per second that a workload probably reaches. Near the bound of its
/// windows, it does not.
fn reached(profiles: &Profiles, w: &Resolved) -> f64 {
    let all = limits(profiles, w).into_iter();
    let all = all.map(|limit| limit.mops / if limit.in_flight.is_some() { ENOUGH } else { 1.0 });
    all.reduce(f64::min).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of a workload that is faster with payload by DMA.
    const FAST: &str = "verb = \"send\"\nsize = 256\nmachines = 40\npattern = \"all-to-all\"\n";

    fn resolved(toml: &str) -> (Profiles, Resolved) {
        let workload = Workload::from_toml("w.toml", toml).expect(toml);
        let profiles = workload.load_profiles().expect(toml);
        let resolved = workload.resolve(&profiles).expect(toml);
        (profiles, resolved)
    }

    #[test]
    fn payload_that_fits_is_read_by_dma_if_this_raises_the_rate() {
        let (profiles, w) = resolved(FAST);
        let bounds = w.inline_bounds(&profiles).expect("DMA is faster");
        assert!(!w.inlines());
        assert!((1030.0..1050.0).contains(&bounds.inlined), "{bounds:?}");
        assert!((1190.0..1215.0).contains(&bounds.by_dma), "{bounds:?}");
    }

    /// Latency is lower with inline payload. It decides where operations do not queue.
    #[test]
    fn payload_is_inline_where_latency_matters() {
        for (lines, inlines) in [
            ("arrivals = \"poisson\"\nrate = 500000000", true),
            ("arrivals = \"poisson\"\nrate = 1000000000", true),
            ("arrivals = \"poisson\"\nrate = 1100000000", false),
            ("think = \"20us\"", true),
            ("threads = 1\nwindow = 1\nsignal_every = 1", true),
            ("inline = true", true),
            ("inline = false", false),
        ] {
            assert_eq!(resolved(&format!("{FAST}{lines}")).1.inlines(), inlines, "{lines}");
        }
        let light = "verb = \"send\"\nsize = 64\nmachines = 3\narrivals = \"poisson\"\nrate = 1000000";
        assert!(resolved(light).1.inlines());
        let drained = "verb = \"write\"\nsize = 256\nmachines = 3\nqps = 1\nwindow = 64\ndrain = true";
        assert!(resolved(drained).1.inlines());
    }

    /// Workloads of all kinds of choices: on several profiles, of mixes, and in classes.
    const VARIED: [&str; 8] = [
        "verb = \"write\"\nsize = 60\nprofile = \"cx\"",
        "verb = \"write\"\nsize = 200\nprofile = \"cx3\"\npattern = \"all-to-all\"\nmachines = 4",
        "verb = \"send\"\nsize = 28\nbatch = 16",
        "verb = \"send\"\ntransport = \"rc\"\nsize = 900",
        "mix = \"send/16:1,send/300:1\"\npattern = \"all-to-all\"\nmachines = 10",
        "mix = \"write/32:9,read/256:1\"\ntransport = \"rc\"\nmachines = 4",
        "verb = \"write\"\nmachines = 4\n[[class]]\nthreads = 2\nsize = 400\n[[class]]\nthreads = 1\nwindow = 1\n\
         size = 300",
        "verb = \"write\"\nsize = 256\nmachines = 2\nthreads = 1\nwindow_per_qp = 2\nsignal_every = 1",
    ];

    #[test]
    fn the_choice_never_has_a_lower_bound() {
        for toml in VARIED {
            let (profiles, w) = resolved(toml);
            for class in w.classes() {
                let inlined = Workload { inline: None, inline_up_to: None, ..class.workload.written() };
                let inlined = inlined.resolve_as_given(&profiles).expect(toml);
                let (chosen, other) = (lowest(&profiles, class.workload), lowest(&profiles, &inlined));
                assert!(*class.workload == inlined || chosen > FASTER * other, "{toml}: {chosen}, {other}");
            }
        }
    }

    #[test]
    fn a_choice_is_kept_in_json() {
        for toml in VARIED.into_iter().chain([FAST]) {
            let (profiles, w) = resolved(toml);
            let json = serde_json::to_string(&w).expect("a workload is JSON");
            let again = Workload::from_json("w", &json).expect(toml).resolve(&profiles).expect(toml);
            assert_eq!(again, w, "{toml}");
        }
    }
}
