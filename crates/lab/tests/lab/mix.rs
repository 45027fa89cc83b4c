//! Mixes of operations on the simulator.

use doorbell_lab::{Control, Outcome, Run, Workload};

fn simulate(toml: &str) -> Outcome {
    let workload = Workload::from_toml("test", toml).unwrap();
    let profiles = workload.load_profiles().unwrap();
    let resolved = workload.resolve(&profiles).unwrap_or_else(|e| panic!("{toml}: {e}"));
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &Control::quiet())
        .unwrap_or_else(|e| panic!("{toml}: {e}"))
}

const SMALL: &str = "machines = 3\nthreads = 2\nwarmup = \"20us\"\nduration = \"200us\"\n";

/// Share of each item among all completed operations.
fn shares(o: &Outcome) -> Vec<f64> {
    o.verbs().kinds.iter().map(|kind| kind.completed as f64 / o.verbs().completed as f64).collect()
}

#[test]
fn items_are_drawn_by_their_weights_and_add_up() {
    for (mix, rest, wanted) in [
        ("read:90,write:10", "", [0.9, 0.1].as_slice()),
        ("read/64:1,read/1000:1", "signal_every = 4", &[0.5, 0.5]),
        ("send:3,write:1", "transport = \"uc\"\ninline = true", &[0.75, 0.25]),
        ("send/16:1,send/64:3", "", &[0.25, 0.75]),
        ("send:1,read:1,fetch-add:1,compare-swap:1", "counters = 64", &[0.25; 4]),
        ("send:1,write:1,read:2", "batch = 5\nsignal_every = 3", &[0.25, 0.25, 0.5]),
        ("read:1,write:1", "drain = true\nwindow = 8", &[0.5, 0.5]),
        ("read:1,send:1", "header_only = true\npattern = \"all-to-all\"", &[0.5, 0.5]),
    ] {
        let outcome = simulate(&format!("{SMALL}mix = \"{mix}\"\n{rest}"));
        let shares = shares(&outcome);
        // Five standard deviations.
        let by_chance = 5.0 * (0.25 / outcome.verbs().completed as f64).sqrt();
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!((share - wanted).abs() < by_chance, "{mix} {rest}: {shares:?}");
        }
        assert_eq!(shares.len(), wanted.len(), "{mix}");
        let of_kinds: u64 = outcome.verbs().kinds.iter().map(|kind| kind.completed).sum();
        assert_eq!(of_kinds, outcome.verbs().completed, "{mix} {rest}");
        let mops: f64 = outcome.verbs().kinds.iter().map(|kind| kind.mops).sum();
        assert!((mops / outcome.mops - 1.0).abs() < 1e-9, "{mix} {rest}");
        // All posted operations complete, except those that are outstanding at either end of the measured
        // time.
        let all = outcome.verbs().work_requests as f64 * 200.0 / 220.0;
        assert!(
            (outcome.verbs().completed as f64 / all - 1.0).abs() < 0.15,
            "{mix} {rest}: {all} {outcome:?}"
        );
    }
}

#[test]
fn operations_have_the_size_of_their_item() {
    let outcome = simulate(&format!("{SMALL}mix = \"read/64:1,read/1024:1\"\nqps = 2"));
    let reads = outcome.pcie[0].dma_read_bytes as f64 / outcome.verbs().completed as f64;
    let mean = shares(&outcome)[0] * 64.0 + shares(&outcome)[1] * 1024.0;
    assert!((reads / mean - 1.0).abs() < 0.02, "{reads} of {mean} B");
    let [short, long] = [0, 1].map(|kind| outcome.verbs().kinds[kind].latency_ns.mean.unwrap());
    assert!(long > short + 50.0, "{short} ns and {long} ns");
}

#[test]
fn what_is_too_long_for_the_wqe_is_read_by_the_nic() {
    let read = |rest: &str| {
        let outcome = simulate(&format!("{SMALL}mix = \"write/32:1,write/128:1\"\n{rest}"));
        outcome.pcie[0].dma_read_bytes as f64 / outcome.verbs().completed as f64
    };
    let [all, long, both] = ["inline = true", "inline_up_to = 64", "inline = false"].map(read);
    assert_eq!(all, 0.0);
    assert!((60.0..68.0).contains(&long) && (76.0..84.0).contains(&both), "{long} {both}");
}

#[test]
fn a_mix_of_one_item_is_the_workload_of_its_verb() {
    for (verb, mix, rest) in [
        ("verb = \"read\"\nsize = 100", "read/100:3", "qps = 2"),
        ("verb = \"write\"", "write:1", "pattern = \"all-to-all\""),
    ] {
        let rest = format!("{SMALL}{rest}\nbatch = 2\nsignal_every = 2");
        let one = simulate(&format!("{rest}\n{verb}"));
        let other = simulate(&format!("{rest}\nmix = \"{mix}\""));
        assert_eq!((&one.event_hash, one.mops), (&other.event_hash, other.mops), "{mix}");
        assert_eq!(
            (other.verbs().kinds[0].completed, other.verbs().kinds[0].latency_ns),
            (other.verbs().completed, one.latency_ns)
        );
        assert!(one.verbs().kinds.is_empty());
    }
}

#[test]
fn a_percentile_of_an_item_is_known_where_100_lie_beyond() {
    let outcome = simulate(&format!("{SMALL}mix = \"read:199,write:1\""));
    let [often, seldom] = [0, 1].map(|kind| outcome.verbs().kinds[kind].latency_ns);
    assert!(outcome.verbs().kinds[1].completed < 200, "{outcome:?}");
    assert!(often.p50.is_some() && seldom.p50.is_none() && seldom.mean.is_some(), "{often:?} {seldom:?}");
}

#[test]
fn bounds_of_a_mix_are_weighted_sums_by_item() {
    let bounds = |what: &str| {
        let workload = Workload::from_toml("test", what).unwrap();
        let profiles = workload.load_profiles().unwrap();
        doorbell_lab::limits(&profiles, &workload.resolve(&profiles).unwrap())
    };
    let rest = "transport = \"rc\"\npattern = \"inbound\"\nwindow = 16\nsignal_every = 1";
    let least = |what: &str, text: &str| {
        let all = bounds(&format!("{what}\n{rest}"));
        let limit = all.iter().find(|limit| limit.text.contains(text)).unwrap_or_else(|| panic!("{all:?}"));
        limit.clone()
    };
    for text in ["receiving units of machine 0", "the host of each", "operations outstanding"] {
        let of = |verb: &str| least(&format!("mix = \"{verb}/64:1\""), text).mops;
        let (read, write) = (of("read"), of("write"));
        let mix = least("mix = \"read/64:3,write/64:1\"", text);
        let wanted = 1.0 / (0.75 / read + 0.25 / write);
        assert!((mix.mops / wanted - 1.0).abs() < 1e-9, "{text}: {} {wanted}", mix.mops);
        let of_writes: f64 = mix.terms.iter().filter(|t| t.item == Some(1)).map(|t| t.amount()).sum();
        assert!((of_writes / mix.capacity * write - 0.25).abs() < 1e-9, "{text}: {of_writes}");
    }
    // The directions of a link are separate: READs fill one, WRITEs fill the other.
    let out = least("mix = \"read/4096:1,write/4096:1\"", "outbound through 2 ports of machine 0").mops;
    let alone = least("mix = \"read/4096:1\"", "outbound through 2 ports of machine 0").mops;
    assert!(out > 1.9 * alone, "{out} {alone}");
}
