//! Cliffs: options for which one step loses much of the rate. The first advice of the explanation must
//! restore most of the lost rate.
//!
//! The profiles beside this file are copies, so that later changes of the real profiles do not affect these
//! tests.

use doorbell_lab::{
    Advice, Control, Given, Outcome, Run, Schema, Typed, Watch, Workload, advise, explain, simulate,
};
use doorbell_nic::Resource;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The first advice must restore at least this share of the lost rate.
const BACK: f64 = 0.8;

/// A cliff must lose at least this share of the rate.
const LOST: f64 = 0.1;

fn resolved(typed: &Typed) -> (doorbell_lab::Profiles, doorbell_lab::Resolved) {
    let workload = Workload::of(&typed.given().unwrap()).unwrap();
    let profiles = workload.load_profiles().unwrap();
    let resolved = workload.resolve(&profiles).unwrap();
    (profiles, resolved)
}

fn advised(typed: &Typed) -> Outcome {
    let ((profiles, workload), control) = (resolved(typed), Control::quiet());
    let run = Run::verbs(profiles, workload);
    let outcome = explain(&run, &control).unwrap();
    advise(typed, &run, outcome, &control)
}

/// A step of a workload from `good` to `bad` on a profile, measured for `us` microseconds.
struct Cliff {
    profile: &'static str,
    /// Changed parameters of the profile.
    set: &'static [&'static str],
    workload: &'static [&'static str],
    good: &'static str,
    bad: &'static str,
    us: u32,
}

impl Cliff {
    fn typed(&self, step: &str) -> Typed {
        let Cliff { profile, us, .. } = self;
        let path = format!("{}/tests/lab/cliffs/{profile}.toml", env!("CARGO_MANIFEST_DIR"));
        let (workload, set) = (self.workload.join("\n"), self.set.join("\n"));
        let times = format!("warmup = \"30us\"\nduration = \"{us}us\"");
        let toml = format!("profile = \"{path}\"\n{times}\n{workload}\n{step}\n[set]\n{set}");
        let flags = Given::from_toml("cliff.toml", &toml, &Workload::fields()).unwrap();
        Typed { flags, ..Typed::default() }
    }

    /// Checks that the step is a cliff, and that its bottleneck has this class. The first advice must restore
    /// most of the lost rate. So must some advice that contains the text `advice`.
    fn is_seen(&self, class: &str, advice: &str) {
        let (profiles, good) = resolved(&self.typed(self.good));
        let good = simulate(&Run::verbs(profiles.clone(), good.clone()), &Control::quiet()).unwrap().mops;
        let bad = advised(&self.typed(self.bad));
        let all = bad.advice.as_deref().unwrap_or_default();
        let told: Vec<String> = all.iter().map(|a| format!("{:.3} {}", a.mops, a.command)).collect();
        let (found, text) = (bad.bottleneck.class_name(), &bad.bottleneck.text);
        let seen = format!(
            "{}: {good:.3} Mops, {}: {:.3} Mops by {found}: {text}\n{}",
            self.good,
            self.bad,
            bad.mops,
            told.join("\n")
        );
        let lost = good - bad.mops;
        assert!(lost >= LOST * good, "it is no cliff: {seen}");
        assert_eq!(found, class, "{seen}");
        let enough: Vec<&Advice> = all.iter().filter(|a| a.mops - bad.mops >= BACK * lost).collect();
        assert_eq!(enough.first(), all.first().as_ref(), "it gives too little back: {seen}");
        assert!(
            enough.iter().any(|a| format!("{} ", a.command).contains(advice)),
            "it does not say so: {seen}"
        );
    }
}

/// Interrupts the work once this many runs are done.
struct Stops {
    left: AtomicUsize,
    interrupt: Arc<AtomicBool>,
}

impl Watch for Stops {
    fn done(&self, _what: &str) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_is_interrupted_tells_what_is_known() {
    let typed = WINDOW_OF_ONE.typed(WINDOW_OF_ONE.bad);
    let (profiles, workload) = resolved(&typed);
    let run = Run::verbs(profiles, workload);
    let explained = explain(&run, &Control::quiet()).unwrap();
    let advice_after = |runs: usize| {
        let interrupt: Arc<AtomicBool> = Arc::default();
        let watch = Stops { left: AtomicUsize::new(runs), interrupt: interrupt.clone() };
        let control = Control { interrupt, jobs: 1, watch: &watch, ..Control::quiet() };
        advise(&typed, &run, explained.clone(), &control).advice
    };
    let all = advice_after(usize::MAX).unwrap();
    let some = advice_after(6).unwrap();
    assert!(!some.is_empty() && some.len() < all.len(), "{some:#?}");
    assert!(some.iter().all(|advice| all.contains(advice)), "{some:#?}");
    // If candidates were not tried, it is not known that nothing helps.
    let interrupt = Arc::new(AtomicBool::new(true));
    let control = Control { interrupt, ..Control::quiet() };
    assert_eq!(advise(&typed, &run, explained, &control).advice, None);
}

#[test]
fn what_shares_a_direction_of_pcie_binds_together() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"send\"", "machines = 3", "threads = 14", "size = 64"],
        good: "",
        bad: "inline = false",
        us: 100,
    };
    let typed = cliff.typed(cliff.bad);
    let (profiles, workload) = resolved(&typed);
    let found = explain(&Run::verbs(profiles.clone(), workload.clone()), &Control::quiet()).unwrap();
    let together = found.together.unwrap_or_else(|| panic!("{:?}", found.bottleneck));
    assert_eq!(together.resources, [Resource::MmioBandwidth, Resource::DmaBandwidth], "{together:?}");
    assert!((together.gain - 0.1).abs() < 0.01, "{together:?}");
    let alone = |resource| found.lift.iter().find(|lift| lift.resource == resource).unwrap().gain;
    assert!(
        alone(Resource::MmioBandwidth) < 0.07 && alone(Resource::DmaBandwidth) < 0.07,
        "{:?}",
        found.lift
    );
}

#[test]
fn contexts_of_inbound_reads_do_not_fit() {
    let cliff = Cliff {
        profile: "cib",
        set: &["caches.responder_entries = 16"],
        workload: &["verb = \"read\"", "machines = 3", "threads = 4"],
        good: "qps = 1",
        bad: "qps = 4",
        us: 50,
    };
    cliff.is_seen("nic-qp-cache", "--qps 1");
}

#[test]
fn contexts_of_two_qps_do_not_fit() {
    let cliff = Cliff {
        profile: "cx3",
        set: &["caches.responder_entries = 8"],
        workload: &["verb = \"read\"", "machines = 3", "threads = 4"],
        good: "qps = 1",
        bad: "qps = 2",
        us: 50,
    };
    cliff.is_seen("nic-qp-cache", "--qps 1");
}

const WINDOW_OF_ONE: Cliff = Cliff {
    profile: "cib",
    set: &[],
    workload: &["verb = \"read\"", "machines = 3", "threads = 2"],
    good: "window = 16",
    bad: "window = 1",
    us: 100,
};

#[test]
fn a_window_of_one() {
    WINDOW_OF_ONE.is_seen("latency", "--window 16");
}

#[test]
fn a_window_too_small_for_the_latency() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &[
            "verb = \"write\"",
            "transport = \"rc\"",
            "machines = 3",
            "threads = 2",
            "signal_every = 1",
            "inline = true",
        ],
        good: "window = 64",
        bad: "window = 4",
        us: 100,
    };
    cliff.is_seen("latency", "--window 16");
}

#[test]
fn one_read_under_way() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"read\"", "machines = 2", "threads = 2"],
        good: "max_rd_atomic = 16",
        bad: "max_rd_atomic = 1",
        us: 50,
    };
    cliff.is_seen("rd-atomic", "--max-rd-atomic 16");
}

#[test]
fn a_byte_too_many_to_inline() {
    let cliff = Cliff {
        profile: "cib",
        set: &["nic.max_inline_bytes = 188"],
        workload: &["verb = \"write\"", "transport = \"rc\"", "window = 1", "machines = 2", "threads = 1"],
        good: "size = 188",
        bad: "size = 189",
        us: 400,
    };
    cliff.is_seen("latency", "--size 188 ");
}

#[test]
fn small_messages_that_are_not_inline() {
    let cliff = Cliff {
        profile: "cx3",
        set: &[],
        workload: &["verb = \"write\"", "machines = 2", "threads = 8", "qps = 1", "batch = 16", "size = 16"],
        good: "inline = true",
        bad: "inline = false",
        us: 100,
    };
    cliff.is_seen("nic-tx-pu", "--inline");
}

#[test]
fn a_byte_too_many_for_a_line_of_the_wqe() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"write\"", "machines = 3", "threads = 14"],
        good: "size = 28",
        bad: "size = 29",
        us: 100,
    };
    cliff.is_seen("mmio-bw", "--size 28");
}

#[test]
fn a_byte_too_many_for_a_packet() {
    let cliff = Cliff {
        profile: "cib",
        set: &["link.mtu_bytes = 256"],
        workload: &["verb = \"read\"", "machines = 3", "threads = 4"],
        good: "size = 256",
        bad: "size = 257",
        us: 50,
    };
    cliff.is_seen("nic-rx-pu", "--size 256");
}

#[test]
fn each_operation_is_signalled() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &[
            "verb = \"write\"",
            "size = 16",
            "machines = 3",
            "threads = 1",
            "qps = 2",
            "window_per_qp = 64",
        ],
        good: "signal_every = 16",
        bad: "signal_every = 1",
        us: 100,
    };
    cliff.is_seen("cpu", "--signal-every");
}

#[test]
fn a_doorbell_for_each_request() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"send\"", "size = 60", "machines = 3", "threads = 14"],
        good: "batch = 16",
        bad: "batch = 1",
        us: 50,
    };
    cliff.is_seen("mmio-bw", "--batch 16");
}

#[test]
fn too_few_threads() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"write\"", "machines = 3", "qps = 2"],
        good: "threads = 8",
        bad: "threads = 1",
        us: 200,
    };
    cliff.is_seen("cpu", "--threads 14");
}

#[test]
fn pages_do_not_fit() {
    let cliff = Cliff {
        profile: "cib",
        set: &["caches.translation_entries = 64", "pcie.lanes = 2"],
        workload: &[
            "verb = \"read\"",
            "size = 64",
            "machines = 3",
            "threads = 4",
            "remote_region = 1048576",
            "addresses = \"random\"",
        ],
        good: "huge_pages = true",
        bad: "huge_pages = false",
        us: 50,
    };
    cliff.is_seen("nic-mtt-cache", "");
}

#[test]
fn one_qp_has_one_unit() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"write\"", "machines = 2", "threads = 1", "batch = 16", "window_per_qp = 64"],
        good: "qps = 4",
        bad: "qps = 1",
        us: 100,
    };
    cliff.is_seen("nic-tx-pu", "--qps 4");
}

#[test]
fn counters_of_a_page_each_share_a_lock() {
    let cliff = Cliff {
        profile: "cib",
        set: &[],
        workload: &["verb = \"fetch-add\"", "machines = 3", "threads = 4", "counters = 64"],
        good: "counter_stride = 64",
        bad: "counter_stride = 4096",
        us: 50,
    };
    cliff.is_seen("pcie-rtt", "--counter-stride 8");
}
