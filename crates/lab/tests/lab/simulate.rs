//! Workloads on the simulator.

use doorbell_lab::{
    Bottleneck, Control, Ended, Outcome, Profiles, Resolved, Run, SentAgain, Warmed, Workload,
};
use doorbell_nic::{Part, Profile, Resource};
use doorbell_verbs::Span;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn resolve(toml: &str) -> (Profiles, Resolved) {
    let workload = Workload::from_toml("test", toml).unwrap();
    let profiles = workload.load_profiles().unwrap();
    let resolved = workload.resolve(&profiles).unwrap_or_else(|e| panic!("{toml}: {e}"));
    (profiles, resolved)
}

fn simulate(toml: &str) -> Outcome {
    let (profiles, workload) = resolve(toml);
    let control = Control::quiet();
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), workload.clone()), &control)
        .unwrap_or_else(|e| panic!("{toml}: {e}"))
}

const SMALL: &str = "machines = 3\nthreads = 2\nwarmup = \"20us\"\nduration = \"50us\"\n";

#[test]
fn every_verb_runs_on_each_transport_in_each_pattern_on_each_cluster() {
    for (verb, transports) in [
        ("send", ["rc", "uc", "ud"].as_slice()),
        ("write", &["rc", "uc"]),
        ("read", &["rc"]),
        ("fetch-add", &["rc"]),
        ("compare-swap", &["rc"]),
    ] {
        for transport in transports {
            for pattern in ["outbound", "inbound", "all-to-all"] {
                for profile in ["cx", "cx3", "cib"] {
                    let toml = format!(
                        "{SMALL}profile = \"{profile}\"\nverb = \"{verb}\"\ntransport = \"{transport}\"\npattern = \"{pattern}\""
                    );
                    let outcome = simulate(&toml);
                    assert!(outcome.mops > 0.1, "{toml}\n{outcome:?}");
                    assert!(outcome.latency_ns.mean.is_some(), "{toml}");
                }
            }
        }
    }
}

#[test]
fn unusual_shapes_run() {
    for toml in [
        "verb = \"send\"\nheader_only = true",
        "verb = \"send\"\nheader_only = true\ntransport = \"rc\"",
        "verb = \"send\"\nbatch = 40\nwindow = 40\nqps = 3",
        "verb = \"send\"\ntransport = \"rc\"\nsize = 10000\npattern = \"inbound\"",
        "verb = \"write\"\nsize = 0",
        "verb = \"write\"\nsignal_every = 1\nwindow = 1",
        "verb = \"write\"\nsize = 30000\ninline = false\nsignal_every = 1",
        "verb = \"read\"\npattern = \"all-to-all\"\nqps = 7",
        "verb = \"read\"\npattern = \"all-to-all\"\nqps = 2",
        "verb = \"read\"\nsignal_every = 5\nbatch = 7\nqps = 2",
        "verb = \"fetch-add\"\ncounters = 1000\ncounter_stride = 72",
    ] {
        let outcome = simulate(&format!("{SMALL}{toml}"));
        assert!(outcome.mops > 0.0, "{toml}\n{outcome:?}");
    }
}

#[test]
fn what_is_sent_again_is_told() {
    let calm = simulate(&format!("{SMALL}verb = \"send\"\ntransport = \"rc\""));
    assert_eq!(calm.sent_again, SentAgain::default());
    // Seven machines send faster than the receiving thread posts RECVs.
    let busy = "machines = 8\nthreads = 1\nsignal_every = 1\npattern = \"inbound\"\nduration = \"3ms\"";
    let told =
        simulate(&format!("{busy}\nprofile = \"cib\"\nverb = \"send\"\ntransport = \"rc\"")).sent_again;
    assert!(told.rnr_naks > 0 && told.packets >= told.rnr_naks, "{told:?}");
    assert_eq!(told.timeouts, 0);
}

#[test]
fn threads_may_set_up_for_longer_than_they_measure() {
    let outcome = simulate("machines = 2\nthreads = 1\nqps = 4096\nwarmup = \"0us\"\nduration = \"1us\"");
    assert_eq!(outcome.mops, 0.0);
}

#[test]
fn same_seed_same_result() {
    let toml = format!("{SMALL}verb = \"read\"\npattern = \"all-to-all\"");
    let (mut a, mut b) = (simulate(&toml), simulate(&toml));
    (a.wall_seconds, b.wall_seconds) = (0.0, 0.0);
    assert_eq!(a, b);
    let other = simulate(&format!("{toml}\nseed = 2"));
    assert_ne!(a.latency_ns, other.latency_ns, "the seed changes which QPs are used");
    assert_ne!(a.event_hash, other.event_hash);
}

/// A short run on these groups of machines.
fn mixed(toml: &str, groups: &[(&str, u32)]) -> Outcome {
    mixed_after(20, toml, groups)
}

/// A run on these groups of machines with `us` microseconds of warm-up.
fn mixed_after(us: u32, toml: &str, groups: &[(&str, u32)]) -> Outcome {
    let tables = groups.iter().map(|(p, n)| format!("[[machine]]\nprofile = \"{p}\"\ncount = {n}\n"));
    let short = format!("warmup = \"{us}us\"\nduration = \"50us\"\n");
    simulate(&format!("{short}{toml}\n{}", tables.collect::<String>()))
}

#[test]
fn every_verb_runs_between_machines_that_differ() {
    for (verb, transport) in [
        ("send", "rc"),
        ("send", "uc"),
        ("send", "ud"),
        ("write", "rc"),
        ("write", "uc"),
        ("read", "rc"),
        ("fetch-add", "rc"),
    ] {
        for pattern in ["outbound", "inbound", "all-to-all"] {
            // Messages of several packets must use the smaller MTU of the two NICs.
            for size in
                [8, 5000].into_iter().filter(|size| *size == 8 || transport != "ud" && verb != "fetch-add")
            {
                let toml = format!(
                    "threads = 2\nsignal_every = 1\nwindow = 4\nverb = \"{verb}\"\ntransport = \"{transport}\"\npattern = \"{pattern}\"\nsize = {size}"
                );
                for groups in [[("cib", 2), ("cx", 1), ("cx3", 1)], [("cx", 1), ("cib", 1), ("cx3", 2)]] {
                    let outcome = mixed(&toml, &groups);
                    assert!(outcome.mops > 0.05, "{groups:?} {toml}\n{outcome:?}");
                    let idle = outcome.verbs().mops_per_machine.iter().filter(|mops| **mops == 0.0).count();
                    assert!(pattern != "all-to-all" || idle == 0, "{toml}\n{outcome:?}");
                }
            }
        }
    }
}

#[test]
fn groups_of_like_machines_are_like_machines() {
    let toml = "verb = \"write\"\nthreads = 3\npattern = \"all-to-all\"\n";
    let groups = mixed(toml, &[("cx3", 1), ("cx3", 3)]);
    let like =
        simulate(&format!("profile = \"cx3\"\nmachines = 4\nwarmup = \"20us\"\nduration = \"50us\"\n{toml}"));
    assert_eq!((groups.event_hash, groups.mops), (like.event_hash, like.mops));
}

#[test]
fn clients_drive_a_server_by_what_they_can_post_together() {
    let toml = "verb = \"write\"\npattern = \"inbound\"\nsize = 16\nthreads = 4\n";
    // The warm-up is long enough for a cx3 to read its QP contexts one by one, and for all NICs to read their
    // translations.
    let rate = |groups: &[(&str, u32)]| mixed_after(60, toml, groups).mops;
    let (alone, cx) = (rate(&[("cib", 1), ("cx3", 1)]), rate(&[("cib", 1), ("cx", 1)]));
    let (both, three) = (rate(&[("cib", 1), ("cx3", 1), ("cx", 1)]), rate(&[("cib", 1), ("cx3", 3)]));
    // As long as the server has capacity left, each client posts at its own maximum.
    assert!((three / alone / 3.0 - 1.0).abs() < 0.05, "{alone} alone, {three} of three");
    assert!((0.9..1.01).contains(&(both / (alone + cx))), "{alone} and {cx}, {both} together");
    let posts = simulate(&format!(
        "profile = \"cx3\"\nmachines = 4\nwarmup = \"60us\"\nduration = \"50us\"\n{}",
        toml.replace("inbound", "outbound")
    ));
    assert!(three < 3.05 * posts.mops, "{three} of three cx3, of which one posts {}", posts.mops);
}

/// A cx3 posts faster than the server accepts from its QPs, and the waiting packets fill the server's receive
/// buffer. A cx posts more slowly than the server accepts, and still gets its full rate.
#[test]
fn who_waits_for_room_gets_it_in_turn() {
    // The run is so long that the fill level of the buffer at its start and end matters little.
    let toml = "verb = \"write\"\ntransport = \"uc\"\npattern = \"inbound\"\nsize = 16\nthreads = 4\nwarmup = \"200us\"\nduration = \"1ms\"\n";
    let rx = Profile::named("cib").unwrap().device.rx;
    // Each thread has one QP to the server, and each QP has its own unit there. The units need a quarter more
    // time per packet, so that they certainly accept less than a cx3 posts.
    let packet_ns = 1.25 * rx.packet.as_ps() as f64 / 1e3;
    let taken = 4e3 / (packet_ns + rx.dma_write.as_ps() as f64 / 1e3);
    let rates = |clients: &str| {
        let server = format!("[[machine]]\nprofile = \"cib\"\nset = {{ rx.packet_ns = {packet_ns} }}\n");
        simulate(&format!("{toml}{server}{clients}")).verbs().mops_per_machine.clone()
    };
    let [cx3, cx] = ["cx3", "cx"].map(|name| format!("[[machine]]\nprofile = \"{name}\"\n"));
    let alone = rates(&cx)[1];
    let both = rates(&format!("{cx3}{cx}"));
    assert!((both[1] / taken - 1.0).abs() < 0.01, "{taken} of a cx3 are taken, {both:?}");
    assert!((both[2] / alone - 1.0).abs() < 0.01, "{alone} of a cx alone, {both:?} together");
}

#[test]
fn who_posts_in_turn_waits_for_the_slowest() {
    let toml = "verb = \"write\"\npattern = \"outbound\"\ntransport = \"rc\"\nsize = 2048\nsignal_every = 1\nthreads = 4\n";
    let rate = |groups: &[(&str, u32)]| mixed(toml, groups).mops;
    let [fast, mix, slow] = [[("cib", 1), ("cx3", 2)], [("cib", 2), ("cx", 1)], [("cib", 1), ("cx", 2)]]
        .map(|groups| rate(&groups));
    // The link of a cx has less than a third of the rate of the other links. Those use only one of their two
    // ports.
    assert!(mix < 1.1 * slow && slow < 0.9 * fast, "{fast} {mix} {slow}");
}

#[test]
fn one_at_a_time_takes_the_latency() {
    let outcome = simulate(
        "verb = \"read\"\nmachines = 2\nthreads = 1\nwindow = 1\nwarmup = \"20us\"\nduration = \"400us\"",
    );
    let from_latency = 1e3 / outcome.latency_ns.mean.unwrap();
    assert!((outcome.mops / from_latency - 1.0).abs() < 0.05, "{outcome:?}");
    assert_eq!(outcome.bottleneck.class, Some(Resource::Latency));
}

/// Bytes per operation at machine 0.
fn pcie(outcome: &Outcome) -> [f64; 3] {
    let operations = outcome.mops * 1e6 * outcome.measured.duration.span().as_secs_f64();
    let p = &outcome.pcie[0];
    [p.mmio_bytes, p.dma_read_bytes, p.dma_write_bytes].map(|bytes| bytes as f64 / operations)
}

fn assert_near(found: [f64; 3], expected: [f64; 3], what: &str) {
    for (f, e) in found.into_iter().zip(expected) {
        assert!((f - e).abs() <= 0.05 * e + 0.1, "{what}: {found:?}, not {expected:?}");
    }
}

/// The number of outstanding operations is the window, whether or not each operation is signalled.
#[test]
fn a_window_is_a_threads_or_a_qps() {
    let base = "verb = \"write\"\nmachines = 5\nthreads = 2\nwarmup = \"50us\"\nduration = \"400us\"\n";
    let outstanding = |window: &str| {
        let outcome = simulate(&format!("{base}{window}"));
        // Outstanding operations by Little's law, because each operation is signalled.
        outcome.mops * outcome.latency_ns.mean.unwrap() / 1e3 / 2.0
    };
    let one = outstanding("window = 1");
    assert!((0.9..=1.0).contains(&one), "{one}");
    let four = outstanding("window_per_qp = 1");
    assert!((3.5..=4.0).contains(&four), "four QPs: {four}");
    // It is also the window if not each operation is signalled. Here 5 and 20 operations are outstanding.
    let rate = |window: &str| simulate(&format!("{base}transport = \"rc\"\nsignal_every = 2\n{window}")).mops;
    let [few, many] = ["window = 5", "window_per_qp = 5"].map(rate);
    assert!(few < 0.7 * many, "5 and 20 operations per thread: {few} and {many} Mops");
}

#[test]
fn less_of_the_nic_does_less() {
    let rate = |toml: &str| simulate(&format!("{SMALL}{toml}")).mops;
    let write = "verb = \"write\"\nsize = 4096\n";
    let [one, both] = ["ports = 1\n", ""].map(|ports| rate(&format!("{write}{ports}")));
    assert!(one < 0.6 * both, "ports: {one} of {both}");
    let read = "verb = \"read\"\npattern = \"outbound\"\nqps = 1\n";
    let [one, all] = ["max_rd_atomic = 1\n", ""].map(|most| rate(&format!("{read}{most}")));
    assert!(one < 0.2 * all, "READs under way: {one} of {all}");
}

/// Cache lines per operation that the posting NIC reads and the other NIC writes.
fn lines(toml: &str) -> [f64; 2] {
    let outcome = simulate(toml);
    let operations = outcome.mops * 1e6 * outcome.measured.duration.span().as_secs_f64();
    [outcome.pcie[0].rdcur, outcome.pcie[1].itom].map(|lines| lines as f64 / operations)
}

/// Cache lines that the NICs of machines 0 and 1 read and write for an operation.
#[test]
fn buffers_lie_where_it_is_said() {
    let base = "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\nthreads = 1\nqps = 1\nsize = 64\nsignal_every = 1\n\
                warmup = \"50us\"\nduration = \"200us\"\n";
    for (toml, read, written) in [
        ("inline = false", 1.0, 1.0),
        ("offset = 1\ninline = false", 2.0, 2.0),
        ("random_offset = true\ninline = false", 2.0 - 1.0 / 64.0, 2.0 - 1.0 / 64.0),
        // The payload is inline, so nothing is read by DMA.
        ("offset = 1", 0.0, 2.0),
        ("sges = 4", 4.0, 1.0),
        ("sges = 4\noffset = 60", 5.0, 2.0),
        ("sges = 4\npieces = \"apart\"\noffset = 60", 8.0, 2.0),
    ] {
        for (found, expected) in lines(&format!("{base}{toml}")).into_iter().zip([read, written]) {
            assert!((found - expected).abs() < 0.08, "{toml}: {found}, not {expected}");
        }
    }
}

/// A payload at a random byte touches one line, and one more for each further byte that begins a line.
#[test]
fn operations_begin_at_any_byte() {
    let base = "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\nthreads = 1\nqps = 2\nsignal_every = 1\n\
                warmup = \"50us\"\nduration = \"2ms\"\ninline = false\naddresses = \"any-byte\"\n";
    for (size, batch) in [(1, 1), (32, 1), (64, 4), (200, 3)] {
        let base = format!("{base}size = {size}\nbatch = {batch}\n");
        let aligned = f64::from((size as u32).div_ceil(64));
        let any = 1.0 + f64::from(size - 1) / 64.0;
        // WQEs posted in lists are read by DMA, one line each.
        let wqe = if batch > 1 { 1.0 } else { 0.0 };
        let both = "local_region = 2097152\nremote_region = 2097152";
        for (regions, read, written) in [
            (both, any, any),
            ("local_region = 2097152", any, aligned),
            ("remote_region = 2097152", aligned, any),
        ] {
            for (found, expected) in lines(&format!("{base}{regions}")).into_iter().zip([read + wqe, written])
            {
                assert!(
                    (found - expected).abs() < 0.03 * expected,
                    "{size} {regions}: {found}, not {expected}"
                );
            }
        }
    }
}

/// A read of 64 bytes from any byte crosses the end of a 128-byte completion in 63 of 128 cases.
#[test]
fn what_crosses_the_end_of_a_completion_takes_one_more() {
    let base = "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\nthreads = 1\nqps = 1\nsignal_every = 1\nsize = 64\n\
                warmup = \"50us\"\nduration = \"2ms\"\ninline = false\n";
    let busy = |toml: &str| {
        let outcome = simulate(&format!("{base}{toml}"));
        let found =
            outcome.resources.iter().find(|r| r.machine == 0 && r.meter.part() == Part::PcieReadCompletions);
        found.unwrap().utilization / outcome.mops * 1e6
    };
    let aligned = busy("");
    let any = busy("local_region = 2097152\naddresses = \"any-byte\"");
    let p = doorbell_nic::Profile::named("cib").unwrap();
    let [header, all] = [0, 64].map(|bytes| p.completion_time(bytes).as_ps() as f64);
    assert!((aligned / all - 1.0).abs() < 0.01, "{aligned} ps, not {all}");
    let expected = all + 63.0 / 128.0 * header;
    assert!((any / expected - 1.0).abs() < 0.02, "{any} ps, not {expected}");
}

#[test]
fn a_thread_waits_for_its_oldest_operation_at_the_cq_of_its_qp() {
    let base = "verb = \"read\"\nprofile = \"cib\"\nmachines = 4\nthreads = 2\nwarmup = \"50us\"\nduration = \"300us\"\n\
                pattern = \"all-to-all\"\nqps = 8\n";
    let rate = |toml: &str| simulate(&format!("{base}{toml}")).mops;
    // With a short window of similar operations, the order in which a thread waits hardly matters.
    let [one, own] = ["window = 4", "window = 4\ncq_per_qp = true"].map(rate);
    assert!((own / one - 1.0).abs() < 0.05, "{own} and {one} Mops");
    // A core is busier if it polls for one completion at a time than if it polls for all.
    let busy = "window = 64\nthreads = 1\n";
    let base = base.replace("threads = 2\n", "");
    let rate = |toml: &str| simulate(&format!("{base}{busy}{toml}"));
    let [one, own] = ["", "cq_per_qp = true"].map(rate);
    assert!(own.mops < one.mops, "{} and {} Mops", own.mops, one.mops);
    assert_ne!(own.event_hash, one.event_hash);
    // If QPs have their own windows, their CQs are polled in turn.
    let own_windows = "window_per_qp = 8\ncq_per_qp = true\nsignal_every = 4\nverb = \"write\"";
    let outcome = simulate(&format!("{SMALL}{own_windows}"));
    assert!(outcome.mops > 1.0, "{}", outcome.mops);
}

#[test]
fn regions_larger_than_the_nics_translations_miss() {
    let misses = |toml: &str| {
        let outcome = simulate(&format!("{SMALL}verb = \"read\"\nprofile = \"cx3\"\n{toml}"));
        let translations = outcome.caches.iter().filter(|c| c.cache.resource() == Resource::TranslationCache);
        translations.map(|c| c.misses as f64 / (c.hits + c.misses).max(1) as f64).fold(0.0, f64::max)
    };
    let pages = "huge_pages = false\nremote_region = 67108864\n";
    let [usual, in_turn, random, huge] =
        ["huge_pages = false", pages, &format!("{pages}addresses = \"random\""), &pages[19..]].map(misses);
    assert!(usual < 0.01 && in_turn < 0.1, "{usual} {in_turn}");
    assert!(random > 0.5, "{random} of 4 kB pages at random");
    assert!(huge < 0.01, "{huge} of 2 MB pages");
    let local = misses("huge_pages = false\nlocal_region = 67108864\naddresses = \"random\"");
    assert!(local > 0.5, "{local} at the poster");
}

#[test]
fn posts_cost_what_batch_inline_and_signals_say() {
    let base = "verb = \"write\"\nmachines = 2\nthreads = 1\nqps = 1\nsize = 28\nwarmup = \"50us\"\nduration = \"200us\"\n";
    for (toml, expected) in [
        // One line by MMIO, and a CQE of 64 bytes for each 16th operation.
        ("", [64.0, 0.0, 4.0]),
        ("signal_every = 1", [64.0, 0.0, 64.0]),
        ("signal_every = 4", [64.0, 0.0, 16.0]),
        // A doorbell of 8 bytes for 16 operations. The line of a WQE is read by DMA.
        ("batch = 16", [0.5, 64.0, 4.0]),
        // The payload is read by DMA, too.
        ("inline = false", [64.0, 28.0, 4.0]),
    ] {
        assert_near(pcie(&simulate(&format!("{base}{toml}"))), expected, toml);
    }
}

/// Cache lines per message that are written at the receiving machine.
fn lines_per_message(inline_recv: bool) -> f64 {
    let outcome = simulate(&format!(
        "profile = \"cx3\"\npattern = \"inbound\"\nmachines = 3\nthreads = 4\nqps = 2\ninline_recv = {inline_recv}\nwarmup = \"50us\"\nduration = \"100us\""
    ));
    outcome.pcie[0].itom as f64 / (outcome.mops * 100.0)
}

#[test]
fn inline_receive_writes_the_completion_alone() {
    let [apart, inline] = [false, true].map(lines_per_message);
    assert!((1.95..2.05).contains(&apart) && (0.95..1.05).contains(&inline), "{apart} and {inline}");
}

#[test]
fn a_drained_window_waits_for_its_last() {
    // One thread with four outstanding operations. A window that drains takes one latency, whatever its size.
    let base = "verb = \"read\"\ntransport = \"rc\"\npattern = \"outbound\"\nmachines = 2\nthreads = 1\nqps = 1\nwindow = 4\n";
    let [kept_full, drained] = ["", "drain = true\n"].map(|d| simulate(&format!("{base}{d}")).mops);
    assert!(drained > 0.0 && drained < 0.95 * kept_full, "{drained} and {kept_full}");
}

#[test]
fn messages_are_counted_where_they_arrive() {
    let toml = format!("{SMALL}verb = \"send\"\ntransport = \"rc\"\nmachines = 3");
    let toml = toml.replacen("machines = 3\n", "", 1);
    let outbound = simulate(&toml);
    assert_eq!(outbound.verbs().mops_per_machine[0], 0.0);
    assert!(outbound.verbs().mops_per_machine[1] > 0.0 && outbound.verbs().mops_per_machine[2] > 0.0);
    let inbound = simulate(&format!("{toml}\npattern = \"inbound\""));
    assert_eq!(inbound.verbs().mops_per_machine[1..], [0.0, 0.0]);
    let write = simulate(&format!("{toml}\npattern = \"inbound\"").replace("send", "write"));
    assert_eq!(write.verbs().mops_per_machine[0], 0.0);
}

/// Whether at least 1% of the lookups miss in the caches of this resource.
fn misses(outcome: &Outcome, resource: Resource) -> bool {
    let caches = outcome.caches.iter().filter(|c| c.cache.resource() == resource);
    let (hits, misses) = caches.fold((0, 0), |(hits, misses), c| (hits + c.hits, misses + c.misses));
    misses > 0 && 99 * misses >= hits
}

#[test]
fn explanation_names_what_lifts_most() {
    for (toml, class) in [
        ("verb = \"read\"\nsize = 256\nmachines = 3\nwarmup = \"30us\"\nduration = \"60us\"", "ib-bw"),
        ("verb = \"read\"\nwindow = 1\nmachines = 2\nthreads = 1\nduration = \"100us\"", "latency"),
        ("verb = \"write\"\nmachines = 2\nthreads = 1\nqps = 4\nsize = 28\nduration = \"200us\"", "cpu"),
    ] {
        let (profiles, workload) = resolve(toml);
        let control = Control::quiet();
        let outcome =
            doorbell_lab::explain(&Run::verbs(profiles.clone(), workload.clone()), &control).unwrap();
        assert_eq!(outcome.bottleneck.class_name(), class, "{toml}\n{:?}", outcome.lift);
        // Caches with misses have one more rerun, with a much larger size.
        let missing = Resource::COUNTED.iter().filter(|resource| misses(&outcome, **resource)).count();
        let faster = Resource::FASTER.iter().filter(|resource| resource.is_of(profiles.first())).count();
        let tried = faster + Resource::COUNTED.len() + missing;
        assert_eq!(outcome.lift.len(), tried, "{:?}", outcome.lift);
        assert!(outcome.lift.windows(2).all(|pair| pair[0].gain >= pair[1].gain));
    }
}

#[test]
fn a_given_rate_that_is_reached_needs_no_reruns() {
    let explained = |rate: u64| {
        let (profiles, workload) = resolve(&format!(
            "verb = \"read\"\nmachines = 2\nthreads = 1\narrivals = \"fixed\"\nrate = {rate}\nwarmup = \"20us\"\nduration = \"200us\""
        ));
        doorbell_lab::explain(&Run::verbs(profiles, workload), &Control::quiet()).unwrap()
    };
    let reached = explained(1_000_000);
    let Bottleneck { class, text, .. } = &reached.bottleneck;
    assert_eq!(*class, Some(Resource::Latency), "{text}");
    assert!(reached.lift.is_empty(), "{:?}", reached.lift);
    assert!(
        text.starts_with("all operations that are due complete: no resource is busy 80% of the time")
            && text.contains("; the rate is the given one")
            && !text.contains("outstanding"),
        "{text}"
    );
    assert!(reached.verbs().operation_time.is_some());
    let overload = explained(100_000_000);
    assert!(overload.interval.overload && !overload.lift.is_empty(), "{overload:?}");
}

#[test]
fn explanation_names_the_group_that_matters() {
    let toml = "verb = \"read\"\nsize = 1024\npattern = \"inbound\"\nthreads = 4\nwarmup = \"30us\"\nduration = \"60us\"\n";
    let explained = |tables: &str| {
        let (profiles, workload) = resolve(&format!("{toml}{tables}"));
        let control = Control::quiet();
        doorbell_lab::explain(&Run::verbs(profiles.clone(), workload.clone()), &control).unwrap()
    };
    // A cx has less bandwidth to send answers than three cib have to receive answers.
    let outcome = explained("[[machine]]\nprofile = \"cx\"\n[[machine]]\nprofile = \"cib\"\ncount = 3\n");
    assert_eq!(
        (outcome.bottleneck.class_name(), outcome.bottleneck.group),
        ("dma-bw", Some(0)),
        "{outcome:?}"
    );
    assert!(
        outcome.bottleneck.text.contains("the dma-bw of machine 0 (cx) matters"),
        "{}",
        outcome.bottleneck.text
    );
    let [server, clients] = &outcome.verbs().group_lift[..] else { panic!("{outcome:?}") };
    assert!(server.gain > 0.05 && clients.gain < 0.02, "{:?}", outcome.verbs().group_lift);
    let like = explained("[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cib\"\ncount = 3\n");
    assert!(like.verbs().group_lift.is_empty() && like.bottleneck.group.is_none(), "{like:?}");
}

#[test]
fn an_interrupt_stops_the_run() {
    let (profiles, workload) = resolve("verb = \"read\"\nduration = \"1s\"");
    let interrupt = Arc::new(AtomicBool::new(true));
    let control = Control { interrupt, ..Control::quiet() };
    assert!(
        doorbell_lab::simulate(&Run::verbs(profiles.clone(), workload.clone()), &control)
            .unwrap_err()
            .is_cut()
    );
}

#[test]
fn json_has_the_fields_of_the_interface() {
    let outcome = simulate(&format!("{SMALL}verb = \"fetch-add\""));
    let mut json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&outcome).unwrap()).unwrap();
    // A run that is not settled has one more field.
    let mark = json["bottleneck"].as_object_mut().unwrap().remove("not_confirmed");
    assert!(mark.is_none() || !json["interval"]["unsettled"].is_null(), "{json}");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    for (value, expected) in [
        (
            &json,
            "bottleneck caches completed dropped event_hash events interval latency_ns lift measured mops mops_per_machine pcie resources schema sent_again verbs wall_seconds workload",
        ),
        (
            &json["workload"],
            "batch counter_stride counters drain duration header_only huge_pages inline inline_recv machines max_time pattern precision profile qps seed signal_every size threads transport verb warmup window window_per_qp",
        ),
        (&json["sent_again"], "packets rnr_naks timeouts"),
        (&json["latency_ns"], "count mean min p50 p99 p999"),
        (&json["bottleneck"], "class text"),
        (&json["resources"][0], "class machine name part utilization"),
        (&json["caches"][0], "hits machine misses name"),
        (&json["pcie"][0], "dma_read_bytes dma_write_bytes itom machine mmio_bytes rdcur"),
    ] {
        assert_eq!(keys(value).join(" "), expected);
    }
    assert_eq!(json["schema"], 2);
    assert_eq!(json["event_hash"].as_str().map(str::len), Some(16));
    assert_eq!(json["mops_per_machine"].as_array().unwrap().len(), 3);
}

#[test]
fn intervals_hold_what_other_seeds_say_in_the_long_run() {
    let of = |seed: u32, duration: &str| {
        let toml = format!(
            "verb = \"send\"\ntransport = \"ud\"\npattern = \"all-to-all\"\nmachines = 3\nthreads = 3\nseed = {seed}\nwarmup = \"50us\"\nduration = \"{duration}\""
        );
        simulate(&toml)
    };
    let long = of(1, "20ms").mops;
    let runs: Vec<Outcome> = (2..42).map(|seed| of(seed, "200us")).collect();
    let holds = |o: &&Outcome| o.interval.mops.is_some_and(|half| (o.mops - long).abs() <= half);
    let held = runs.iter().filter(holds).count();
    println!("{held} of 40 hold {long}");
    assert!((34..=40).contains(&held), "{held} of 40 hold {long}");
}

#[test]
fn a_time_too_short_for_a_rate_is_told() {
    let inbound = "profile = \"cx3\"\nverb = \"write\"\nsize = 4096\npattern = \"inbound\"";
    let short = simulate(&format!("{inbound}\nwarmup = \"200us\"\nduration = \"1ms\""));
    let why = short.interval.unsettled.expect("a millisecond is short beside its operations");
    assert!(
        why.starts_with("an operation took 1")
            && why.contains(
                "the measured time is less than 4 times as \
             long"
            ),
        "{why}"
    );
    let nothing = simulate(
        "verb = \"read\"\nsize = 1048576\nmachines = 2\nthreads = 1\nwindow = 1\nwarmup = \"10us\"\nduration = \"20us\"",
    );
    assert_eq!((nothing.mops, nothing.interval.mops), (0.0, None));
    let waits = nothing.waits.unwrap();
    assert!(waits.contains("the thread on core 0 of machine 1 waits for a completion in CQ"), "{waits}");
    assert_eq!(nothing.bottleneck.class_name(), "none");
    let usual = simulate("verb = \"read\"");
    assert_eq!((usual.interval.unsettled, usual.measured.ended), (None, Ended::Settled));
    let rate = usual.interval.mops.unwrap() / usual.mops;
    assert!(rate > 0.0 && rate <= 0.011, "{rate}");
}

#[test]
fn senders_that_nobody_answers_are_held_back_before_a_run_settles() {
    for writes in [
        "profile = \"cx3\"\nsize = 32",
        "profile = \"cx3-dual\"\nsize = 32\nremote_region = 2147483648\nhuge_pages = false",
    ] {
        let of = |times: &str| {
            simulate(&format!(
                "verb = \"write\"\ntransport = \"uc\"\nmachines = 2\nthreads = 1\n{writes}\n{times}"
            ))
        };
        let (usual, long) = (of(""), of("warmup = \"5ms\"\nduration = \"5ms\""));
        assert_eq!((usual.interval.unsettled, usual.measured.ended), (None, Ended::Settled));
        assert!((usual.mops / long.mops - 1.0).abs() < 0.01, "{} of {}", usual.mops, long.mops);
        // Ports accept more packets than receiving units can handle.
        let short = of("warmup = \"20us\"\nduration = \"150us\"");
        assert!(short.mops > 1.1 * long.mops, "{} of {}", short.mops, long.mops);
        let why = short.interval.unsettled.expect("what fills a buffer does not last");
        assert!(why.contains("queues up in flight"), "{why}");
    }
}

#[test]
fn a_run_ends_at_its_latest_and_is_told_to_be_unsettled() {
    let late = simulate("verb = \"read\"\nsize = 1048576\nmax_time = \"2ms\"");
    assert_eq!(late.measured.ended, Ended::MaxTime);
    let said = "only 8 operations completed, and an interval needs at least 10, when the 2ms of virtual time \
                (--max-time) are over";
    assert_eq!(late.interval.unsettled.as_deref(), Some(said));
    // Also tests a limit before the first check, and a run that is never steady.
    for (workload, max_us) in
        [("verb = \"read\"", 10), ("verb = \"read\"\nsize = 1048576\nthreads = 14\nwindow = 256", 900)]
    {
        let late = simulate(&format!("{workload}\nmax_time = \"{max_us}us\""));
        let took = late.measured.warmup.span() + late.measured.duration.span();
        assert_eq!(late.measured.ended, Ended::MaxTime);
        // The run ends somewhat late, because it waits for the work that ports have accepted.
        assert!(took.as_ns() <= max_us * 1120, "{took:?} of {max_us} us");
        assert_eq!(late.measured.warmed, Some(Warmed::MaxTime));
    }
    // If the duration is given and the warm-up is not, the whole duration is measured.
    let asked = simulate("verb = \"read\"\nduration = \"300us\"");
    assert_eq!(
        (asked.measured.ended, asked.measured.duration.to_string().as_str()),
        (Ended::Duration, "300us")
    );
    assert!((asked.mops / usual_reads() - 1.0).abs() < 0.01, "{asked:?}");
}

#[test]
fn a_long_time_that_was_said_can_be_cut() {
    let begin = std::time::Instant::now();
    simulate("verb = \"read\"\nmachines = 2\nthreads = 1\nwarmup = \"10us\"\nduration = \"10us\"");
    // On a busy machine, a short simulation takes longer than on an idle one.
    let max_wall = Some(std::time::Duration::from_millis(200) + 20 * begin.elapsed());
    let cut = |times: &str| {
        let (profiles, resolved) = resolve(&format!("verb = \"read\"\nmachines = 2\nthreads = 1\n{times}"));
        let control = Control { max_wall, ..Control::quiet() };
        doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &control).unwrap()
    };
    // Threads that wait for nothing sleep until the end of the run, far beyond the time of the cut.
    let measuring = cut("warmup = \"10us\"\nduration = \"900s\"");
    assert_eq!((measuring.measured.ended, measuring.measured.warmed), (Ended::MaxWall, None));
    assert!(measuring.mops > 0.0);
    let warming = cut("warmup = \"900s\"\nduration = \"1s\"");
    assert_eq!((warming.measured.ended, warming.measured.warmed), (Ended::MaxWall, Some(Warmed::MaxWall)));
    assert!(warming.mops > 0.0 && warming.measured.warmup.span().as_ns() < 900_000_000_000);
    // A third of the time was left to measure.
    assert!(measures(&warming.measured), "{:?}", warming.measured);
}

/// Whether the run measured for a good part of its warm-up, rather than for its last moments.
fn measures(measured: &doorbell_lab::MeasuredTime) -> bool {
    measured.duration.span().as_ns() > measured.warmup.span().as_ns() / 8
}

/// The run itself needs more than the share of the time that lets all reruns fit.
#[test]
fn an_explained_run_has_a_result_before_its_reruns_begin() {
    let times = "warmup = \"900s\"\nduration = \"900s\"";
    let (profiles, resolved) = resolve(&format!("verb = \"read\"\nmachines = 2\nthreads = 1\n{times}"));
    let deadline = Some(std::time::Instant::now() + std::time::Duration::from_secs(2));
    let control = Control { deadline, ..Control::quiet() };
    let outcome = doorbell_lab::explain(&Run::verbs(profiles, resolved), &control).unwrap();
    assert_eq!((outcome.measured.ended, outcome.measured.warmed), (Ended::MaxWall, Some(Warmed::MaxWall)));
    assert!(outcome.mops > 0.0 && measures(&outcome.measured), "{:?}", outcome.measured);
}

#[test]
fn what_lasts_beyond_the_latest_is_told() {
    let text = "system = \"remote-spinlock\"\nclients = 2\nhold = \"20ms\"\nmax_time = \"10ms\"";
    let late = system(text);
    let over = late.measured.overrun.unwrap().span();
    assert!(over >= Span::from_ms(10), "{over:?}");
    let said = late.interval.unsettled.or(late.waits).unwrap();
    assert!(
        said.contains(" us, the shortest time that can be measured after the work that threads had begun"),
        "{said}"
    );
    assert_eq!(late.measured.warmed, Some(Warmed::MaxTime));
    let usual = simulate("verb = \"read\"").measured;
    assert_eq!((usual.warmed, usual.overrun), (Some(Warmed::Steady), None));
}

#[test]
fn a_mean_is_not_cut_to_whole_nanoseconds() {
    let text =
        "system = \"local-memory\"\nprofile = \"cx3\"\nsize = 4\nwarmup = \"1us\"\nduration = \"20us\"";
    let outcome = system(text);
    assert_eq!(outcome.system().gb_per_s, Some(outcome.mops * 4.0 / 1e3));
    let mean = outcome.latency_ns.mean.unwrap();
    assert!((mean * outcome.mops / 1e3 - 1.0).abs() < 1e-3, "{mean} ns, {} Mrps", outcome.mops);
    assert!(mean.fract() > 0.1, "{mean}");
}

fn system(toml: &str) -> Outcome {
    let given = doorbell_lab::Given::from_toml("w.toml", toml, &doorbell_lab::fields()).unwrap();
    let run = Run::asked(doorbell_lab::Asked::of(&given).unwrap()).unwrap();
    doorbell_lab::simulate(&run, &Control::quiet()).unwrap()
}

/// At least four time-outs of a hashtable's blocks, laps of a log, or rounds of a shuffle are measured,
/// however low the requested precision is.
#[test]
fn what_comes_round_is_seen_several_times() {
    let ended = |text: &str| {
        let outcome = system(&format!("profile = \"cx3-dual\"\nprecision = \"50%\"\n{text}"));
        assert_eq!(outcome.measured.ended, Ended::Settled, "{text}: {outcome:?}");
        (outcome.measured.duration.span(), outcome.mops)
    };
    let (span, _) = ended("system = \"hashtable\"\ntime_out = \"300us\"");
    assert!(span >= Span::from_us(4 * 300), "{span:?}");
    for (text, round) in [
        ("log\"\nlog_slots = 2048", 2048),
        ("shuffle\"\nround_entries = 64", 64 * 16),
        // Sixteen executors with entries of 1 KiB, which share a table unevenly.
        ("shuffle\"\nentry = 1024\nbytes = 1024000", 1000),
    ] {
        let (span, mrps) = ended(&format!("system = \"{text}"));
        let rounds = mrps * 1e6 * span.as_secs_f64() / f64::from(round);
        assert!(rounds > 3.9, "{text}: {rounds} in {span:?}");
    }
}

/// Clients have at most `outstanding` operations, because an operation begins only when there is room for it.
#[test]
fn an_operation_of_a_hashtable_begins_when_there_is_room_for_it() {
    for (clients, outstanding) in [(1, 1), (4, 3)] {
        let outcome = system(&format!(
            "system = \"hashtable\"\nprofile = \"cx3-dual-split\"\nhot = \"0%\"\nput_permille = 0\nclients = {clients}\noutstanding = {outstanding}\nwarmup = \"100us\"\nduration = \"500us\""
        ));
        let under_way = outcome.mops * outcome.latency_ns.mean.unwrap() / 1e3;
        assert!(under_way <= 1.02 * f64::from(clients * outstanding), "{under_way}");
    }
}

#[test]
fn nothing_completes_where_operations_are_rare() {
    let nothing = |how: &str| simulate(&format!("verb = \"write\"\n{how}")).waits.unwrap();
    let rare = nothing("arrivals = \"poisson\"\nrate = 1\nmax_time = \"100us\"");
    assert_eq!(rare, "operations are due 1 times per second, so none may have been due");
    let thinking = nothing("think = \"5ms\"\nwarmup = \"2ms\"\nduration = \"1ms\"");
    assert!(thinking.starts_with("threads think for 5ms before an operation"), "{thinking}");
    let waits = |text: &str| system(text).waits.unwrap();
    let held = waits(
        "system = \"consolidate\"\ntheta = 4096\ntime_out = \"1s\"\nwarmup = \"1us\"\nduration = \"9us\"",
    );
    assert!(
        held.starts_with(
            "operations are held back for up to 1s (time_out), and all operations were held \
             back"
        ),
        "{held}"
    );
    let short = waits("system = \"local-memory\"\nwarmup = \"1us\"\nduration = \"1ps\"");
    assert!(short.starts_with("an operation takes longer"), "{short}");
}

fn usual_reads() -> f64 {
    simulate("verb = \"read\"").mops
}

#[test]
fn a_response_that_is_read_when_the_server_ends_is_no_failure() {
    let text = "system = \"touch\"\nprofile = \"e7520-t4\"\nresponse = \"read\"\nwarmup = \"7us\"\nduration = \"80us\"";
    let outcome = system(text);
    assert!(outcome.waits.is_some(), "a response takes 200 us on the wire");
}
