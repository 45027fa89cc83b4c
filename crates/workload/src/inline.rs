//! The usual choice between inline payload and payload that the NIC reads by DMA.
//!
//! Inline payload needs no DMA read. But it makes WQEs longer, which takes PCIe bandwidth and time of cores.
//! So short payload has the lower latency if it is inline, but the rate may be higher by DMA. Payload that
//! fits is inline, unless the bounds of [`crate::limits`] show that DMA is faster.

use crate::limits::limits;
use crate::{Profiles, Resolved, Workload};
use doorbell_nic::limits::InFlight;

/// Payload that fits stays out of WQEs only if DMA is faster by more than this factor. Bounds ignore queueing
/// and imbalance, so smaller differences prove nothing.
const FASTER: f64 = 1.05;

/// A workload probably reaches the bound of its resources if the bound of its windows is at least this many
/// times as high. Otherwise latency limits the rate, too.
const ENOUGH: f64 = 2.0;

/// The gain if the NIC reads payload by DMA or, for a mix, at least the longer payload, instead of all
/// payload inline that fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DmaGain {
    /// A higher rate: the lowest bounds in millions of operations per second.
    Rate {
        /// With inline payload.
        inlined: f64,
        /// By DMA.
        by_dma: f64,
    },
    /// A lower latency of an open loop that reaches its rate: the least mean latencies in nanoseconds.
    Latency {
        /// With inline payload.
        inlined: f64,
        /// By DMA.
        by_dma: f64,
    },
}

/// The lowest bounds of a workload, in millions of operations per second.
#[derive(Clone, Copy)]
struct LowestBounds {
    /// By resources of the machines.
    resources: f64,
    /// By the operations that may be outstanding and their latency.
    windows: f64,
    /// Least mean latency in nanoseconds, with think time.
    latency_ns: f64,
}

impl LowestBounds {
    fn of(profiles: &Profiles, w: &Resolved) -> LowestBounds {
        let all = limits(profiles, w);
        let least = |of_windows: bool| {
            let some = all.iter().filter(|limit| limit.in_flight.is_some() == of_windows);
            some.map(|limit| limit.mops).fold(f64::INFINITY, f64::min)
        };
        let window = all.iter().find(|limit| limit.in_flight == Some(InFlight::Window));
        let latency_ns = window.map_or(0.0, |limit| limit.capacity / limit.mops);
        LowestBounds { resources: least(false), windows: least(true), latency_ns }
    }

    fn rate(self) -> f64 {
        self.resources.min(self.windows)
    }

    /// Whether this workload has a lower latency than `other`.
    fn is_quicker(self, other: LowestBounds) -> bool {
        FASTER * self.latency_ns < other.latency_ns
    }

    /// Whether this workload has a higher rate than `other`. If its latency is higher, its windows must not
    /// be near their bound.
    fn has_more(self, other: LowestBounds) -> bool {
        let share = if self.windows < other.windows { ENOUGH } else { 1.0 };
        self.resources.min(self.windows / share) > FASTER * other.rate()
    }
}

impl Workload {
    /// The workload that leaves payload out of WQEs, if this is the usual choice, with its gain. `inlined` is
    /// the workload with all payload inline that fits. `None` if options state the choice, or if payload is
    /// inline.
    pub(crate) fn faster_by_dma(
        &self,
        profiles: &Profiles,
        inlined: &Resolved,
    ) -> Option<(Resolved, DmaGain)> {
        if self.inline.is_some() || self.inline_up_to.is_some() || !inlined.inlines() {
            return None;
        }
        let own = LowestBounds::of(profiles, inlined);
        let due = inlined.open_loop().map(|(_, rate)| rate as f64 / 1e6).filter(|due| *due <= own.rate());
        let is_faster = |other: LowestBounds| match due {
            Some(due) => other.is_quicker(own) && other.rate() >= due,
            // Each window that is drained takes the latency of an operation.
            None if inlined.drain => other.is_quicker(own) && other.resources >= own.resources,
            None => other.has_more(own),
        };
        let others = self.inlining_less(inlined).into_iter();
        let others = others.filter_map(|other| other.resolve_as_given(profiles).ok());
        let faster = others.map(|other| (LowestBounds::of(profiles, &other), other));
        let faster = faster.filter(|(bounds, _)| is_faster(*bounds));
        let merit = |bounds: LowestBounds| if due.is_some() { -bounds.latency_ns } else { bounds.rate() };
        let (bounds, best) = faster.max_by(|a, b| merit(a.0).total_cmp(&merit(b.0)))?;
        let gain = match due {
            Some(_) => DmaGain::Latency { inlined: own.latency_ns, by_dma: bounds.latency_ns },
            None => DmaGain::Rate { inlined: own.rate(), by_dma: bounds.rate() },
        };
        Some((best, gain))
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
    /// The gain that decides the usual choice, if it leaves payload out of WQEs that would fit, and this
    /// workload does so, too. `None` for threads in classes, because each class has its own choice.
    pub fn dma_gain(&self, profiles: &Profiles) -> Option<DmaGain> {
        self.uniform()?;
        let open = Workload { inline: None, inline_up_to: None, ..self.written() };
        let inlined = open.resolve_as_given(profiles).ok()?;
        let (usual, gain) = open.faster_by_dma(profiles, &inlined)?;
        let choice = |w: &Resolved| (w.inlines(), w.inline_up_to());
        (choice(&usual) == choice(self)).then_some(gain)
    }
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
        let Some(DmaGain::Rate { inlined, by_dma }) = w.dma_gain(&profiles) else { panic!("{w:?}") };
        assert!(!w.inlines());
        assert!((1030.0..1050.0).contains(&inlined) && (1190.0..1215.0).contains(&by_dma), "{by_dma}");
    }

    /// Latency decides if operations do not queue. It is lower for short payload if this is inline, and for
    /// long payload by DMA.
    #[test]
    fn the_choice_has_the_lower_latency_where_latency_matters() {
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
        let long = resolved("verb = \"write\"\nsize = 900\nmachines = 2\narrivals = \"fixed\"\nrate = 1000");
        assert!(matches!(long.1.dma_gain(&long.0), Some(DmaGain::Latency { .. })) && !long.1.inlines());
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
                let rate = |w: &Resolved| LowestBounds::of(&profiles, w).rate();
                let (chosen, other) = (rate(class.workload), rate(&inlined));
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
