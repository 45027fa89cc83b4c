//! Mappings of series to workloads of Doorbell, with values computed by hand.

use crate::{planned, series, verbs};
use doorbell_lab::{Addresses, Pattern, Verb, Window};
use doorbell_schema::Value;
use doorbell_series::PlannedSeries;
use doorbell_verbs::QpType;

fn of(workload: &str, arrays: &str) -> PlannedSeries {
    let text = series("", workload, arrays);
    planned(&text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}"))
}

/// The values that were taken for a key.
fn taken(series: &PlannedSeries, key: &str) -> Vec<String> {
    series.choices.iter().filter(|choice| choice.key == key).map(|choice| choice.taken.clone()).collect()
}

const WRITES: &str = "verb = \"write\", transport = \"rc\", metric = \"rate\", size = 8";

#[test]
fn a_window_sweep_of_one_thread() {
    let series = of(
        &format!(
            "{WRITES}, axis = \"window\", threads = 1, qps_per_thread = 1, batch = 1, signal_every = 2, inline \
             = 64, blueflame = true, doorbell_registers = \"one\", addresses = \"own-line\", memory = \"host\", \
             hops = 1, bidirectional = false, socket = \"near\", socket_of = \"both\", mtu = 4096"
        ),
        "window = [2, 16]\nvalue = [1, 2]",
    );
    assert_eq!(
        series.choices.iter().map(|choice| choice.key).collect::<Vec<_>>(),
        ["link_gbps", "fabric", "pcie"]
    );
    for (point, window) in series.points.iter().zip([2, 16]) {
        let w = verbs(&point.run);
        assert_eq!((w.machines, w.threads, w.qps, w.batch, w.signal_every), (2, 1, 1, 1, 2));
        assert_eq!(
            (w.window(), w.pattern, w.transport),
            (Window::PerQp(window), Pattern::Outbound, QpType::Rc)
        );
        let operation = w.operations()[0];
        assert_eq!((operation.verb, operation.size, operation.inline), (Verb::Write, 8, true));
        assert_eq!((w.ports, w.max_rd_atomic, w.remote_region), (Some(1), None, None));
    }
}

#[test]
fn absent_keys_take_usual_values_that_are_listed() {
    let series = of(&format!("{WRITES}, axis = \"sge\""), "sge = [1, 2]\nvalue = [1, 2]");
    let w = verbs(&series.points[1].run);
    assert_eq!((w.threads, w.qps, w.window(), w.batch, w.signal_every), (1, 1, Window::PerQp(128), 1, 1));
    assert_eq!((verbs(&series.points[0].run).sges(), w.sges()), (1, 2));
    for (key, value) in [
        ("threads", "1"),
        ("qps_per_thread", "1"),
        ("window", "128"),
        ("batch", "1"),
        ("signal_every", "1"),
        ("memory", "host"),
        ("bidirectional", "false"),
        ("socket", "near"),
        ("mtu", "4096, the profile's"),
        ("hops", "1, as in link.one_way_ns of the profile"),
        ("addresses", "a buffer for each operation of the window"),
        ("inline", "if it fits, unless DMA is faster by more than 5%"),
        ("link_gbps", "the profile's"),
        ("pcie", "the profile's"),
    ] {
        assert_eq!(taken(&series, key), [value], "{key}");
    }
}

#[test]
fn qps_and_outstanding_are_divided_among_threads() {
    // 24 threads with one QP each: 48 outstanding are 2 per QP.
    let series = of(
        &format!(
            "{WRITES}, axis = \"outstanding\", threads = 24, qps_per_thread = 1, doorbell_registers = \"own\""
        ),
        "outstanding = [24, 48]\nvalue = [1, 2]",
    );
    let windows = series.points.iter().map(|point| verbs(&point.run).window());
    assert_eq!(windows.collect::<Vec<_>>(), [Window::PerQp(1), Window::PerQp(2)]);
    // A machine of cib has 14 cores.
    assert_eq!(series.set, [("host.cores".to_owned(), 24.0)].into());
    // The number of threads follows from the QPs.
    let series = of(&format!("{WRITES}, axis = \"qps\", qps_per_thread = 2"), "qps = [2, 8]\nvalue = [1, 2]");
    let counts = series.points.iter().map(|point| (verbs(&point.run).threads, verbs(&point.run).qps));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 2), (4, 2)]);
    // A thread has all QPs.
    let series = of(&format!("{WRITES}, axis = \"qps\", threads = 2, window = 1"), "qps = [8]\nvalue = [1]");
    assert_eq!((verbs(&series.points[0].run).threads, verbs(&series.points[0].run).qps), (2, 4));
}

#[test]
fn atomics_have_counters() {
    let counters = |addresses: &str| {
        let workload =
            format!("verb = \"faa\", transport = \"rc\", metric = \"rate\", axis = \"window\"{addresses}");
        let series = of(&workload, "window = [4]\nvalue = [1]");
        let counters = verbs(&series.points[0].run).counters.expect("counters");
        (counters.count, counters.stride, verbs(&series.points[0].run).max_rd_atomic)
    };
    assert_eq!(counters(", addresses = \"same\""), (1, 64, None));
    assert_eq!(counters(""), (1, 64, None));
    assert_eq!(counters(", addresses = \"many\", keys = 1024, rd_atomic = 8"), (1024, 64, Some(8)));
    assert_eq!(counters(", addresses = \"own-line\""), (4096, 64, None));
}

#[test]
fn random_addresses_are_in_a_region() {
    let workload = |more: &str| {
        format!(
            "verb = \"read\", transport = \"rc\", metric = \"rate\", axis = \"size\", addresses = \"random\"{more}"
        )
    };
    let series = of(&workload(""), "size = [8, 2097152]\nvalue = [1, 2]");
    let regions = series.points.iter().map(|point| verbs(&point.run).remote_region);
    assert_eq!(regions.collect::<Vec<_>>(), [Some(1 << 20), Some(2 << 20)]);
    assert_eq!(verbs(&series.points[0].run).remote_addresses(), Addresses::Random);
    assert_eq!(taken(&series, "region_bytes"), ["1048576"]);
    let series = of(&workload(", region_bytes = 65536"), "size = [8]\nvalue = [1]");
    assert_eq!(verbs(&series.points[0].run).remote_region, Some(65536));
}

#[test]
fn both_directions_are_all_to_all() {
    let series = of(
        &format!("{WRITES}, axis = \"window\", qps_per_thread = 3, bidirectional = true"),
        "window = [8]\nvalue = [1]",
    );
    let w = verbs(&series.points[0].run);
    assert_eq!((w.pattern, w.machines, w.qps, w.window()), (Pattern::AllToAll, 2, 6, Window::PerQp(8)));
}

/// The runs of `papers/rc-swarm.toml`: every machine posts to all others.
#[test]
fn many_machines_post_all_to_all() {
    let of = |verb: &str, more: &str| {
        let workload = format!(
            "verb = \"{verb}\", transport = \"rc\", metric = \"rate\", axis = \"size\", threads = 14, \
             qps_per_thread = 12, window_per_thread = 16, addresses = \"any-byte\", region_bytes = 2097152, \
             machines = 6, pattern = \"all-to-all\", cq_per_qp = true{more}"
        );
        planned(&series("links = 2", &workload, "size = [32]\nvalue = [48]")).unwrap()
    };
    let read = of("read", "");
    let w = verbs(&read.points[0].run);
    assert_eq!((w.machines, w.threads, w.qps, w.window()), (6, 14, 12, Window::PerThread(16)));
    assert_eq!((w.pattern, w.ports, w.cq_per_qp), (Pattern::AllToAll, Some(2), true));
    assert_eq!(
        (w.local_region, w.remote_region, w.addresses()),
        (Some(2 << 20), Some(2 << 20), Addresses::AnyByte)
    );
    let write = of("write", ", inline = 900");
    assert_eq!(verbs(&write.points[0].run).local_region, None);
    // The value is one machine's.
    let whole = doorbell_lab::limits(&read.points[0].run.as_ref().unwrap().profiles, w)[0].mops;
    assert_eq!(read.points[0].limit(), Some(whole / 6.0));
}

#[test]
fn long_windows_of_long_messages_are_shorter() {
    let workload = "verb = \"write\", transport = \"rc\", metric = \"bandwidth\", axis = \"size\", window = 128, \
                    signal_every = 100, batch = 1";
    let text = series("", workload, "size = [131072, 1048576, 8388608]\nvalue = [1, 2, 3]");
    let series = planned(&text.replace("Mops/s", "Gb/s")).unwrap();
    let windows =
        series.points.iter().map(|point| (verbs(&point.run).window(), verbs(&point.run).signal_every));
    // 16 MiB hold 128 messages of 128 KiB, and 16 of 1 MiB.
    assert_eq!(
        windows.collect::<Vec<_>>(),
        [(Window::PerQp(128), 100), (Window::PerQp(16), 4), (Window::PerQp(4), 1)]
    );
    assert_eq!(taken(&series, "window").len(), 1);
}

#[test]
fn a_latency_is_of_one_operation() {
    let workload =
        "verb = \"read\", transport = \"rc\", metric = \"latency-full\", axis = \"size\", hops = 1";
    let text = series("", workload, "size = [2]\nvalue = [2.5]").replace("Mops/s", "us");
    let series = planned(&text).unwrap();
    let w = verbs(&series.points[0].run);
    assert_eq!((w.window(), w.signal_every, w.threads), (Window::PerQp(1), 1, 1));
    let limit = series.points[0].limit().unwrap();
    assert!((0.5..5.0).contains(&limit), "{limit} us");
}

#[test]
fn half_a_round_trip_is_a_ping_pong() {
    let game = |workload: &str, key: &str| {
        let workload = format!("{workload}, metric = \"latency-half\", axis = \"size\", hops = 1");
        let text = series("", &workload, "size = [64]\nvalue = [1]").replace("Mops/s", "us");
        let planned = planned(&text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let run = planned.points[0].run.as_ref().unwrap_or_else(|refusal| panic!("{refusal}"));
        run.as_system().expect("a system").value(key)
    };
    let text = |text: &str| Some(Value::Text(text.into()));
    assert_eq!(game("verb = \"write\", transport = \"rc\"", "message"), text("write-rc"));
    assert_eq!(game("verb = \"write\", transport = \"uc\"", "message"), text("write-uc"));
    assert_eq!(game("verb = \"send\", transport = \"rc\"", "message"), text("send-rc"));
    assert_eq!(game("verb = \"send\", transport = \"ud\"", "message"), text("send-ud"));
    let send = "verb = \"send\", transport = \"rc\"";
    assert_eq!(game(send, "size"), Some(Value::Number(64)));
    assert_eq!(game(send, "inline_bytes"), None);
    assert_eq!(game(&format!("{send}, inline = 0"), "inline_bytes"), Some(Value::Number(0)));
    assert_eq!(game(&format!("{send}, inline = 236"), "inline_bytes"), Some(Value::Number(236)));
    // cib inlines at most 900 bytes.
    assert_eq!(game(&format!("{send}, inline = 1000"), "inline_bytes"), Some(Value::Number(900)));
}

#[test]
fn the_far_socket_is_the_second() {
    let cx3_dual = |workload: &str, arrays: &str| {
        let text = series("", &format!("{WRITES}, {workload}"), arrays);
        let profile = doorbell_nic::Profile::named("cx3-dual").unwrap();
        let hosts = doorbell_series::Hosts::default();
        let series = doorbell_series::plan(&crate::parsed(&text), &profile, &hosts, None).unwrap();
        let sockets =
            series.points.iter().map(|point| (verbs(&point.run).socket, verbs(&point.run).peer_socket));
        sockets.collect::<Vec<_>>()
    };
    let hops = "socket_hops = [0, 1]\nvalue = [1, 2]";
    assert_eq!(
        cx3_dual("axis = \"socket_hops\", socket_of = \"both\"", hops),
        [(None, None), (Some(1), Some(1))]
    );
    assert_eq!(cx3_dual("axis = \"socket_hops\", socket_of = \"responder\"", hops)[1], (None, Some(1)));
    assert_eq!(cx3_dual("axis = \"socket_hops\", socket_of = \"requester\"", hops)[1], (Some(1), None));
    let window = "window = [1]\nvalue = [1]";
    assert_eq!(cx3_dual("axis = \"window\", socket = \"far\"", window), [(Some(1), Some(1))]);
}

#[test]
fn link_and_slot_set_parameters_that_differ() {
    let set = |keys: &str, workload: &str| {
        let text =
            series(keys, &format!("{WRITES}, axis = \"window\"{workload}"), "window = [1]\nvalue = [1]");
        let planned = planned(&text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let profile = planned.points[0].run.as_ref().unwrap().profiles.first().clone();
        let values: Vec<String> = planned.set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (values.join(" "), profile)
    };
    // cib has FDR links and PCIe 3.0 x16.
    assert_eq!(set("link_gbps = 56\nfabric = \"ib\"\npcie = { gen = 3, lanes = 16 }", "").0, "");
    assert_eq!(set("link_gbps = 100\nfabric = \"roce\"", "").0, "link.port_rate_gbps=100");
    assert_eq!(set("link_gbps = 40\nfabric = \"ib\"", "").0, "link.port_rate_gbps=32");
    assert_eq!(set("link_gbps = 40\nfabric = \"roce\"", "").0, "link.port_rate_gbps=40");
    let (values, profile) = set("pcie = { gen = 5, lanes = 4, inferred = true }", ", mtu = 1024");
    assert_eq!(values, "pcie.lane_mb_per_s=3938.5 pcie.lanes=4");
    assert_eq!((profile.device.pcie.lanes, profile.device.link.mtu), (4, 1024));
}

#[test]
fn the_host_of_a_series_is_the_profile_that_was_measured_on_it() {
    let on = |host: &str| {
        let text = series("", &format!("{WRITES}, axis = \"window\""), "window = [1]\nvalue = [1]");
        let planned = planned(&text.replace("\"cib\"", host)).unwrap();
        let profile = planned.points[0].run.as_ref().unwrap().profiles.first().clone();
        (profile.host.clock_hz, taken(&planned, "host").len())
    };
    let clock = |name: &str| doorbell_nic::Profile::named(name).unwrap().host.clock_hz;
    assert_eq!(on("\"cib\""), (clock("cib"), 0));
    assert_eq!(on("\"cx3\""), (clock("cx3"), 0));
    assert_eq!(on("\"unknown\""), (clock("cib"), 1));
}
