//! Thread classes on the simulator.

use doorbell_lab::{Control, Ended, OfClass, Outcome, Profiles, Resolved, Run, Workload};
use doorbell_nic::cost::Costs;
use doorbell_nic::{Profile, Resource};

fn resolved(toml: &str) -> (Profiles, Resolved) {
    let workload = Workload::from_toml("test", toml).unwrap_or_else(|e| panic!("{toml}: {e}"));
    let profiles = workload.load_profiles().unwrap();
    let resolved = workload.resolve(&profiles).unwrap_or_else(|e| panic!("{toml}: {e}"));
    (profiles, resolved)
}

fn simulate(toml: &str) -> Outcome {
    let (profiles, resolved) = resolved(toml);
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &Control::quiet())
        .unwrap_or_else(|e| panic!("{toml}: {e}"))
}

const SMALL: &str = "machines = 3\nwarmup = \"20us\"\nduration = \"100us\"\n";

#[test]
fn one_class_that_says_nothing_is_the_same_run() {
    for base in [
        "verb = \"send\"",
        "verb = \"read\"\npattern = \"all-to-all\"\nqps = 4",
        "verb = \"write\"\nqps = 1\nbatch = 4",
        "verb = \"fetch-add\"\ncounters = 64",
        "mix = \"read:9,write:1\"\nrandom_offset = true\nlocal_region = 100000\naddresses = \"random\"",
        "verb = \"read\"\narrivals = \"poisson\"\nrate = 3000000",
        "verb = \"read\"\ndrain = true\nthink = \"1us\"",
    ] {
        let alone = simulate(&format!("{SMALL}{base}\nthreads = 3"));
        let one = simulate(&format!("{SMALL}{base}\n[[class]]\nthreads = 3"));
        assert_eq!(one.event_hash, alone.event_hash, "{base}");
        assert_eq!((one.mops, one.latency_ns), (alone.mops, alone.latency_ns), "{base}");
        let [class] = &one.verbs().classes[..] else { panic!("{:?}", one.verbs().classes) };
        assert_eq!((class.completed, class.share), (alone.verbs().completed, 1.0), "{base}");
        assert_eq!((class.mops, class.latency_ns), (alone.mops, alone.latency_ns), "{base}");
        assert_eq!(
            (class.interval.mops, &class.kinds),
            (alone.interval.mops, &alone.verbs().kinds),
            "{base}"
        );
        assert!(alone.verbs().classes.is_empty() && one.verbs().kinds.is_empty());
    }
}

/// Checks that the counts of all classes add up to the total.
fn adds_up(o: &Outcome, what: &str) {
    let sum = |of: fn(&OfClass) -> f64| o.verbs().classes.iter().map(of).sum::<f64>();
    assert_eq!(sum(|class| class.completed as f64), o.verbs().completed as f64, "{what}");
    assert!((sum(|class| class.mops) / o.mops - 1.0).abs() < 1e-9, "{what}");
    assert!((sum(|class| class.share) - 1.0).abs() < 1e-9, "{what}");
    for class in o.verbs().classes.iter().filter(|class| !class.kinds.is_empty()) {
        assert_eq!(class.kinds.iter().map(|kind| kind.completed).sum::<u64>(), class.completed, "{what}");
    }
}

#[test]
fn classes_of_all_kinds_run_beside_each_other() {
    for (one, other) in [
        ("verb = \"send\"", "verb = \"send\"\ntransport = \"rc\"\nsize = 300"),
        ("verb = \"send\"\npattern = \"inbound\"", "verb = \"write\"\nqps = 1"),
        ("verb = \"read\"\npattern = \"all-to-all\"", "mix = \"send:1,write:1\"\nsignal_every = 1"),
        ("verb = \"fetch-add\"", "verb = \"compare-swap\"\nwindow = 1"),
        ("verb = \"fetch-add\"\nthink = \"500ns\"", "verb = \"write\"\ntransport = \"uc\"\nsize = 2000"),
        ("verb = \"read\"\ndrain = true", "verb = \"read\"\nwindow_per_qp = 4\nmax_rd_atomic = 2"),
        (
            "verb = \"send\"\nheader_only = true",
            "verb = \"write\"\nlocal_region = 9999\ninline = false\nsges = 2",
        ),
    ] {
        let what = format!("{one} | {other}");
        let o = simulate(&format!("{SMALL}[[class]]\nthreads = 2\n{one}\n[[class]]\nthreads = 1\n{other}"));
        assert!(
            o.verbs().classes.len() == 2 && o.verbs().classes.iter().all(|class| class.completed > 0),
            "{what}: {o:?}"
        );
        adds_up(&o, &what);
    }
}

#[test]
fn a_class_reaches_less_than_it_would_alone() {
    const READERS: &str = "verb = \"read\"\nsize = 64";
    const WRITERS: &str = "verb = \"write\"\ntransport = \"rc\"\nsize = 4096\npattern = \"inbound\"";
    let alone = |own: &str, threads| simulate(&format!("{SMALL}threads = {threads}\n{own}"));
    let both =
        simulate(&format!("{SMALL}[[class]]\nthreads = 10\n{READERS}\n[[class]]\nthreads = 4\n{WRITERS}"));
    let [readers, writers] = &both.verbs().classes[..] else { panic!("{both:?}") };
    let (read, written) = (alone(READERS, 10), alone(WRITERS, 4));
    assert!(readers.mops < 0.9 * read.mops, "{} {}", readers.mops, read.mops);
    assert!(writers.mops < written.mops, "{} {}", writers.mops, written.mops);
    assert!(readers.latency_ns.mean > read.latency_ns.mean);
}

/// Time of a READ of 8 bytes on PCIe, at both ends together, in microseconds.
fn on_pcie(p: &Profile) -> f64 {
    let pcie = Costs::new(p).pcie;
    let requester = pcie.mmio_line + pcie.write(8) + pcie.write(p.device.nic.cqe.into());
    let responder = pcie.read_requests(8) + pcie.completions(8);
    (requester + responder) as f64 / 1e6
}

/// There is one thread on each port. The load is far below the capacity of the units.
#[test]
fn classes_disturb_each_other_no_more_than_what_they_share() {
    let toml = |classes: &str| {
        format!("machines = 2\nverb = \"read\"\nsize = 8\nwarmup = \"20us\"\nduration = \"1ms\"\n{classes}")
    };
    let of_pcie = on_pcie(&Profile::named("cib").unwrap());
    let both = simulate(&toml("[[class]]\nthreads = 1\nwindow = 1\n[[class]]\nthreads = 1\nwindow = 2"));
    for (class, (own, other)) in both.verbs().classes.iter().zip([(1.0, 2.0), (2.0, 1.0)]) {
        let alone = simulate(&toml(&format!("threads = 1\nwindow = {own}"))).mops;
        // In the worst case the classes are in step, and each operation waits for all outstanding operations
        // of the other class.
        let least = own / (own / alone + other * of_pcie);
        assert!((class.mops - alone).abs() < alone - least, "{own}: {} {alone}", class.mops);
    }
}

#[test]
fn the_overload_of_one_class_is_told() {
    let two = |rate: u64| {
        format!(
            "machines = 3\n[[class]]\nthreads = 2\nverb = \"read\"\n[[class]]\nname = \"writers\"\nthreads = 1\n\
             verb = \"write\"\ntransport = \"rc\"\nsize = 4096\narrivals = \"poisson\"\nrate = {rate}"
        )
    };
    let over = simulate(&two(5_000_000));
    assert_eq!(over.measured.ended, Ended::Overload);
    let said = over.interval.unsettled.clone().unwrap();
    assert!(said.starts_with("class writers: 5.00 million operations are due per second"), "{said}");
    let [readers, writers] = &over.verbs().classes[..] else { panic!("{over:?}") };
    assert!(writers.interval.overload && writers.latency_ns.mean.is_none());
    assert!(
        !readers.interval.overload && readers.latency_ns.mean.is_some() && over.latency_ns.mean.is_none()
    );
    let under = simulate(&two(500_000));
    assert_eq!(under.measured.ended, Ended::Settled);
    let of_writers = &under.verbs().classes[1];
    let half = of_writers.interval.mops.unwrap();
    assert!((of_writers.mops - 0.5).abs() < 2.0 * half && half < 0.1, "{} within {half}", of_writers.mops);
}

#[test]
fn bounds_of_all_classes_hold_and_are_no_looser_than_their_sum() {
    let (profiles, w) = resolved(
        "[[class]]\nthreads = 7\nverb = \"read\"\nsize = 1024\n[[class]]\nthreads = 7\nverb = \"write\"\ntransport = \"rc\"\nsize = 16",
    );
    let (all, each) = (doorbell_lab::limits(&profiles, &w), doorbell_lab::limits_of_classes(&profiles, &w));
    let sum: f64 = each.iter().map(|class| class.limits[0].mops).sum();
    assert!(all[0].mops < sum && all.is_sorted_by(|a, b| a.mops <= b.mops), "{all:?}");
    // The bound is no lower than the best class alone, because the other class may do nothing.
    let best = each.iter().map(|class| class.limits[0].mops).fold(0.0, f64::max);
    assert!(all[0].mops > 0.999 * best, "{best} {all:?}");
    for limit in &all {
        let terms: f64 = limit.terms.iter().map(|term| term.amount()).sum();
        assert!((limit.capacity / terms / limit.mops - 1.0).abs() < 1e-9, "{limit:?}");
        assert!(limit.terms.iter().all(|term| term.class.is_some()), "{limit:?}");
    }
    // For equal classes, the bound of a shared resource equals the bound of one class that has all threads.
    let alike = |classes: &str| {
        let (profiles, w) = resolved(&format!("verb = \"read\"\n{classes}"));
        doorbell_lab::limits(&profiles, &w)[0].mops
    };
    let (one, two) = (alike("threads = 14"), alike("[[class]]\nthreads = 7\n[[class]]\nthreads = 7"));
    assert!((one / two - 1.0).abs() < 1e-9, "{one} {two}");
    assert!(doorbell_lab::limits_of_classes(&profiles, &resolved("").1).is_empty());
}

#[test]
fn an_explanation_is_of_all_classes_and_says_no_time_of_an_operation() {
    let (profiles, w) = resolved(
        "machines = 2\nduration = \"30us\"\n[[class]]\nthreads = 1\nverb = \"read\"\nwindow = 1\n[[class]]\nthreads = 1\nverb = \"read\"\nmax_rd_atomic = 1\nwindow = 4",
    );
    let o = doorbell_lab::explain(&Run::verbs(profiles.clone(), w.clone()), &Control::quiet()).unwrap();
    assert!(!o.lift.is_empty() && o.verbs().operation_time.is_none() && o.verbs().classes.len() == 2);
    // Doubling the READs that a QP may have outstanding also doubles the limit that the class sets.
    let reads = o.lift.iter().find(|lift| lift.resource == Resource::OutstandingReads && lift.factor == 2.0);
    assert!(reads.is_some_and(|lift| lift.gain > 0.2), "{:?}", o.lift);
}
