//! Operations that access one address of a responder, in host memory and in memory on the NIC.

use doorbell_lab::{Control, Outcome, Profiles, Resolved, Run, Workload};
use doorbell_nic::Profile;
use doorbell_nic::cost::Costs;
use doorbell_nic::limits::Limit;

/// Parameters in the size that a ConnectX-5 needs for the rates that were measured on one address.
const PROFILE: &str = r#"
name = "ordered"
title = "cib with ordered accesses"
base = "cib"

[pcie]
read_latency_ns = { value = 290, basis = "assumed", reason = "a test", alternative = "none" }

[host]
dma_read_again_ns = { value = 43.3, basis = "assumed", reason = "a test", alternative = "none" }

[rx]
atomic_ns = { value = 20, basis = "assumed", reason = "a test", alternative = "none" }

[atomics]
hold_ns = { value = 44, basis = "assumed", reason = "a test", alternative = "none" }
fetch_add_ns = { value = 53, basis = "assumed", reason = "a test", alternative = "none" }
one_per_qp = { value = true, basis = "assumed", reason = "a test", alternative = "none" }

[device_memory]
bytes = { value = 131072, basis = "assumed", reason = "a test", alternative = "none" }
access_ns = { value = 50, basis = "assumed", reason = "a test", alternative = "none" }
write_hold_ns = { value = 45.2, basis = "assumed", reason = "a test", alternative = "none" }
atomic_hold_ns = { value = 111.4, basis = "assumed", reason = "a test", alternative = "none" }
fetch_add_ns = { value = 25.6, basis = "assumed", reason = "a test", alternative = "none" }
"#;

fn ordered() -> Profile {
    Profile::parse("ordered.toml", PROFILE).unwrap_or_else(|e| panic!("{e}"))
}

fn resolve(profile: &Profile, toml: &str) -> Result<(Profiles, Resolved), String> {
    let workload = Workload::from_toml("w.toml", toml).map_err(|error| error.to_string())?;
    let profiles = Profiles::from(profile);
    let resolved = workload.resolve(&profiles).map_err(|error| error.to_string())?;
    Ok((profiles, resolved))
}

/// Many outstanding operations of several machines on machine 0.
const CROWD: &str = "machines = 4\nthreads = 8\nqps = 1\nwindow = 16\npattern = \"inbound\"\n\
     signal_every = 1\nwarmup = \"20us\"\nduration = \"100us\"\n";

fn run(profile: &Profile, toml: &str) -> (Outcome, Vec<Limit>) {
    let (profiles, resolved) = resolve(profile, toml).unwrap_or_else(|e| panic!("{toml}: {e}"));
    let limits = doorbell_workload::limits::limits(&profiles, &resolved);
    let run = Run::verbs(profiles, resolved);
    let outcome = doorbell_lab::simulate(&run, &Control::quiet()).unwrap_or_else(|e| panic!("{toml}: {e}"));
    (outcome, limits)
}

/// Nanoseconds of a responder between two operations, for a crowd with these options.
#[track_caller]
fn apart(profile: &Profile, options: &str, ns: f64) {
    let (outcome, limits) = run(profile, &format!("{CROWD}{options}"));
    let got = 1e3 / outcome.mops;
    assert!((got / ns - 1.0).abs() < 0.01, "{options}: {got} ns, not {ns}");
    let lowest = &limits[0];
    assert!(lowest.mops >= outcome.mops * 0.999, "{options}: {lowest:?} below {}", outcome.mops);
    assert!(lowest.mops <= outcome.mops * 1.05, "{options}: {lowest:?} far above {}", outcome.mops);
}

/// Nanoseconds from the request of a word over PCIe until it is in the NIC.
fn read_of_a_word(profile: &Profile) -> f64 {
    let pcie = Costs::new(profile).pcie;
    (pcie.read_requests(8) + pcie.read_latency + pcie.completions(8)) as f64 / 1e3
}

#[test]
fn operations_on_one_address_of_host_memory_are_as_far_apart_as_their_parameters_say() {
    let profile = ordered();
    let read = read_of_a_word(&profile);
    apart(&profile, "verb = \"compare-swap\"", read + 44.0);
    apart(&profile, "verb = \"fetch-add\"", read + 44.0 + 53.0);
    apart(&profile, "verb = \"compare-swap\"\nremote_addresses = \"same\"", read + 44.0);
    apart(&profile, "verb = \"read\"\nsize = 8\nremote_addresses = \"same\"", 43.3);
    apart(&profile, "verb = \"read\"\nsize = 64\nremote_addresses = \"same\"", 43.3);
    // The measured rates of a ConnectX-5: 2.93, 2.54 and 23.1 M/s.
    for (ns, mops) in [(read + 44.0, 2.93), (read + 97.0, 2.54), (43.3, 23.1)] {
        assert!((1e3 / ns / mops - 1.0).abs() < 0.02, "{ns} ns is not {mops} M/s");
    }
}

#[test]
fn operations_on_one_address_of_device_memory_are_as_far_apart_as_their_parameters_say() {
    let profile = ordered();
    let device =
        |options: &str, ns: f64| apart(&profile, &format!("remote_memory = \"device\"\n{options}"), ns);
    device("verb = \"compare-swap\"", 111.4);
    device("verb = \"fetch-add\"", 111.4 + 25.6);
    device("verb = \"write\"\ntransport = \"rc\"\nsize = 8\nremote_addresses = \"same\"", 45.2);
    device("verb = \"write\"\nsize = 64\ninline = false\nremote_addresses = \"same\"", 45.2);
    // On UC, no response slows the requesters.
    device("verb = \"write\"\nsize = 8\nremote_addresses = \"same\"\ntransport = \"uc\"", 45.2);
}

/// WRITEs of one host line, READs of one line in device memory, and accesses to many lines wait for nothing.
#[test]
fn other_operations_are_not_ordered_by_address() {
    let (ordered, cib) = (ordered(), Profile::named("cib").unwrap());
    let rate = |profile: &Profile, options: &str| run(profile, &format!("{CROWD}{options}")).0.mops;
    let same = "remote_addresses = \"same\"";
    let write = "verb = \"write\"\ntransport = \"rc\"\nsize = 8";
    for (options, usual) in [
        (format!("{write}\n{same}"), write.to_owned()),
        ("verb = \"read\"\nsize = 8".to_owned(), "verb = \"read\"\nsize = 8".to_owned()),
        (
            "verb = \"read\"\nsize = 8\nremote_memory = \"device\"".to_owned() + "\n" + same,
            "verb = \"read\"\nsize = 8".to_owned(),
        ),
        (format!("{write}\nremote_memory = \"device\""), write.to_owned()),
    ] {
        let (got, wanted) = (rate(&ordered, &options), rate(&cib, &usual));
        assert!(got > 0.97 * wanted, "{options}: {got} of {wanted}");
    }
    let atomics = "verb = \"compare-swap\"\ncounters = 512\ncounter_stride = 8";
    let device = rate(&ordered, &format!("{atomics}\nremote_memory = \"device\""));
    assert!(device > 5.0 * 1e3 / 111.4, "{device}");
}

/// One QP has one atomic at a time at the responder, whichever counters it names.
#[test]
fn atomics_of_a_qp_are_executed_one_after_another() {
    let one = "machines = 2\nthreads = 1\nqps = 1\nwindow = 16\nverb = \"compare-swap\"\ncounters = 64\n\
               counter_stride = 64\nwarmup = \"20us\"\nduration = \"200us\"";
    let ordered = ordered();
    let (in_order, limits) = run(&ordered, one);
    let ns = read_of_a_word(&ordered) + 44.0;
    assert!((1e3 / in_order.mops / ns - 1.0).abs() < 0.01, "{} M/s", in_order.mops);
    assert!((limits[0].mops / in_order.mops - 1.0).abs() < 0.05, "{:?}", limits[0]);
    let any = ordered.with_set(&[("atomics.one_per_qp".to_owned(), 0.0)].into()).unwrap();
    assert!(run(&any, one).0.mops > 1.5 * in_order.mops);
    // In device memory, the answer of an atomic lets the next one begin.
    let (device, _) = run(&ordered, &format!("{one}\nremote_memory = \"device\""));
    assert!(device.mops > 1.2 * in_order.mops && device.mops <= 1e3 / 50.0, "{}", device.mops);
}

/// An operation alone takes as long as without any order, and a READ of device memory is faster.
#[test]
fn an_operation_alone_waits_for_nothing() {
    let alone = "machines = 2\nthreads = 1\nqps = 1\nwindow = 1\nwarmup = \"20us\"\nduration = \"100us\"\n";
    let (ordered, cib) = (ordered(), Profile::named("cib").unwrap());
    let equal = [("pcie.read_latency_ns", 290.0), ("rx.atomic_ns", 20.0)];
    let equal = equal.map(|(name, value)| (name.to_owned(), value));
    let cib = cib.with_set(&equal.into()).unwrap();
    let latency = |profile: &Profile, options: &str| {
        run(profile, &format!("{alone}{options}")).0.latency_ns.mean.expect("operations ended")
    };
    let same = "remote_addresses = \"same\"";
    for verb in [
        "verb = \"read\"\nsize = 8",
        "verb = \"write\"\nsize = 8\ntransport = \"rc\"",
        "verb = \"fetch-add\"",
    ] {
        let (got, usual) = (latency(&ordered, &format!("{verb}\n{same}")), latency(&cib, verb));
        assert!((got - usual).abs() < 10.0, "{verb}: {got} ns, not {usual}");
    }
    let read = format!("verb = \"read\"\nsize = 8\n{same}");
    let saved = latency(&ordered, &read) - latency(&ordered, &format!("{read}\nremote_memory = \"device\""));
    let wanted = read_of_a_word(&ordered) - 50.0;
    assert!((saved - wanted).abs() < 10.0, "{saved} ns, not {wanted}");
}

#[test]
fn buffers_that_no_nic_has_and_addresses_that_no_verb_has_are_refused() {
    let (ordered, cib) = (ordered(), Profile::named("cib").unwrap());
    let dual = PROFILE.replace("\"cib\"", "\"cx3-dual-split\"");
    let dual = Profile::parse("ordered.toml", &dual).unwrap();
    let read = "verb = \"read\"\n";
    for (profile, toml, wanted) in [
        (&cib, "verb = \"read\"\nremote_memory = \"device\"", "profile cib has no section [device_memory]"),
        (
            &dual,
            "verb = \"read\"\nremote_memory = \"device\"",
            "has 2 NICs, and threads share the memory of one",
        ),
        (
            &ordered,
            "verb = \"send\"\nremote_memory = \"device\"",
            "remote_memory is for WRITE, READ and atomics, not for SEND",
        ),
        (
            &ordered,
            "verb = \"read\"\nremote_memory = \"device\"\nwindow = 16\nthreads = 14\nsize = 4096",
            "take 917504 bytes, but the NIC of profile ordered has 131072",
        ),
        (
            &ordered,
            "verb = \"read\"\nremote_memory = \"device\"\npeer_memory_socket = 0",
            "peer_memory_socket is 0, but remote_memory is on the NIC",
        ),
        (
            &ordered,
            "remote_memory = \"device\"\n[[class]]\nthreads = 1",
            "remote_memory is for WRITE, READ and atomics, but no class",
        ),
        (
            &ordered,
            "remote_memory = \"device\"\nsize = 4096\nwindow = 18\nsignal_every = 1\n[[class]]\nthreads = 1\nverb = \"read\"\n[[class]]\nthreads = 1\nverb = \"write\"",
            "take 147456 bytes",
        ),
        (
            &cib,
            "verb = \"send\"\nremote_addresses = \"same\"",
            "remote_addresses is for WRITE, READ and atomics, not for SEND",
        ),
        (
            &cib,
            "verb = \"read\"\nremote_addresses = \"same\"\nremote_region = 4096",
            "remote_region is 4096, but with remote_addresses same",
        ),
        (
            &cib,
            "verb = \"fetch-add\"\nremote_addresses = \"same\"\ncounters = 2",
            "counters is 2, but remote_addresses is same",
        ),
        (
            &cib,
            "verb = \"read\"\nremote_addresses = \"random\"",
            "remote_addresses sets the addresses in remote_region, but",
        ),
    ] {
        let error = resolve(profile, toml).map(|(_, resolved)| resolved.threads);
        let error = error.expect_err(toml);
        assert!(error.contains(wanted) && !error.contains('\n'), "{toml}: {error}");
    }
    for toml in [
        format!("{read}remote_addresses = \"same\"\nremote_memory = \"device\""),
        "mix = \"read:1,send:1\"\nremote_memory = \"device\"\nremote_addresses = \"same\"".to_owned(),
        "remote_memory = \"device\"\n[[class]]\nthreads = 1\n[[class]]\nthreads = 2\nverb = \"fetch-add\"".to_owned(),
        "[[class]]\nthreads = 1\nverb = \"read\"\nremote_addresses = \"same\"\n[[class]]\nthreads = 2\nverb = \"write\"\nremote_addresses = \"same\"".to_owned(),
    ] {
        let (profiles, resolved) = resolve(&ordered, &toml).unwrap_or_else(|e| panic!("{toml}: {e}"));
        let json = serde_json::to_string(&resolved).unwrap();
        let again = Workload::from_json("w", &json).unwrap().resolve(&profiles).unwrap();
        assert_eq!(again, resolved, "{toml}");
        assert_eq!(serde_json::from_str::<Resolved>(&json).unwrap(), resolved, "{toml}");
        let short = format!("warmup = \"5us\"\nduration = \"20us\"\nmachines = 3\n{toml}");
        assert!(run(&ordered, &short).0.mops > 0.0, "{toml}");
    }
}
