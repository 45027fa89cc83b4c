//! Logs of perftest.

use doorbell_series::import::{About, Imported, MachineFacts, NamedText, perftest};
use doorbell_series::{
    FabricKind, MeasuredSide, MeasuredTransport, MeasuredUnit, MeasuredVerb, Measurement, Metric, Registers,
    RemoteMemory, SeriesFile,
};

macro_rules! log {
    ($name:literal) => {
        NamedText { name: concat!("logs/", $name), text: include_str!(concat!("logs/", $name)) }
    };
}

/// All logs of successful runs.
pub(crate) const LOGS: [NamedText<'_>; 8] = [
    log!("latency.log"),
    log!("bandwidth.log"),
    log!("write-lat-all.log"),
    log!("write-bw-all.log"),
    log!("histogram.log"),
    log!("infinite.log"),
    log!("report-both.log"),
    log!("both-sides.log"),
];

/// A user who states the NIC alone.
pub(crate) fn about() -> About {
    About::of(MachineFacts { nic: Some("ConnectX-5".into()), ..MachineFacts::default() })
}

fn imported(log: NamedText<'_>) -> Imported {
    perftest(&[log], &about()).unwrap_or_else(|error| panic!("{error}"))
}

/// The only series of a log, of which nothing is left out.
fn only(log: NamedText<'_>) -> Measurement {
    let imported = imported(log);
    assert_eq!(imported.notes, []);
    assert_eq!(imported.file.series.len(), 1);
    imported.file.series.into_iter().next().unwrap()
}

fn error(text: &str) -> String {
    let error = perftest(&[NamedText { name: "a.log", text }], &about()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// The log of one run, as perftest prints it.
fn bandwidth(settings: &[(&str, &str)], table: &str) -> String {
    let of = |name: &str, usual: &'static str| {
        settings.iter().find(|(known, _)| *known == name).map_or(usual, |(_, value)| *value).to_owned()
    };
    format!(
        "---\n                    {} BW Test\n Dual-port       : {}\t\tDevice         : {}\n \
         Number of qps   : {}\t\tTransport type : IB\n Connection type : {}\t\tUsing SRQ      : {}\n \
         PCIe relax order: ON\t\tLock-free      : OFF\n ibv_wr* API     : ON\t\tUsing DDP      : OFF\n \
         TX depth        : {}\n CQ Moderation   : 1\n Mtu             : 1024[B]\n Link type       : {}\n \
         GID index       : 3\n Max inline data : 0[B]\n rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n---\n \
         local address: LID 0000 QPN 0x0107 PSN 0x8a2f\n GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:15:15:51\n\
         ---\n{table}---\n",
        of("test", "RDMA_Write"),
        of("ports", "OFF"),
        of("device", "mlx5_0"),
        of("qps", "1"),
        of("connection", "RC"),
        of("srq", "OFF"),
        of("depth", "128"),
        of("link", "Ethernet"),
    )
}

const HEAD: &str = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
const ROW: &str = " 65536      5000             11023.87            11023.48\t\t   0.176376\n";

#[test]
fn latencies_are_halves_of_ping_pongs_except_of_reads_and_atomics() {
    let imported = imported(LOGS[0]);
    assert_eq!(imported.notes, []);
    let seen: Vec<_> = imported
        .file
        .series
        .iter()
        .map(|series| {
            let workload = &series.setup.workload;
            assert_eq!((&series.setup.unit, workload.axis.as_str()), (&MeasuredUnit::Microseconds, "size"));
            assert_eq!((workload.window, workload.batch, workload.threads), (Some(1), Some(1), Some(1)));
            assert_eq!(workload.qps_per_thread, Some(1));
            assert_eq!(workload.signal_every, None);
            (series.setup.id.as_str(), workload.verb.clone(), workload.metric.clone(), workload.inline)
        })
        .collect();
    let (half, full) = (Metric::LatencyHalf, Metric::LatencyFull);
    assert_eq!(
        seen,
        [
            ("mine-write-lat", MeasuredVerb::Write, half.clone(), Some(64)),
            ("mine-read-lat", MeasuredVerb::Read, full.clone(), None),
            ("mine-read-lat-2", MeasuredVerb::Read, full.clone(), None),
            ("mine-send-lat", MeasuredVerb::Send, half.clone(), Some(236)),
            ("mine-send-lat-ud", MeasuredVerb::Send, half.clone(), Some(188)),
            ("mine-send-lat-uc", MeasuredVerb::Send, half.clone(), Some(0)),
            ("mine-atomic-lat-faa", MeasuredVerb::FetchAdd, full.clone(), None),
            ("mine-atomic-lat-cas", MeasuredVerb::CompareSwap, full, None),
            ("mine-write-lat-2", MeasuredVerb::Write, half.clone(), Some(220)),
            ("mine-write-lat-3", MeasuredVerb::Write, half, Some(220)),
        ]
    );
}

#[test]
fn the_median_is_the_value_and_other_statistics_are_columns() {
    let series = &imported(LOGS[0]).file.series[0];
    assert_eq!((series.points.len(), series.points[0].x), (1, 100.0));
    assert_eq!(series.points[0].value, 0.41);
    let columns: Vec<_> = series.columns.iter().map(|(key, numbers)| (key.as_str(), numbers[0])).collect();
    let own = [
        ("avg", 1.09),
        ("iterations", 20.0),
        ("max", 9965.12),
        ("min", 0.34),
        ("p99", 9965.12),
        ("p999", 9965.12),
        ("stdev", 2.43),
    ];
    assert_eq!(columns, own);
    let workload = &series.setup.workload;
    assert_eq!((workload.mtu, &workload.memory), (Some(4096), &Some(RemoteMemory::Host)));
    assert_eq!((&workload.side, &workload.bidirectional), (&Some(MeasuredSide::Outbound), &Some(false)));
    assert_eq!(workload.doorbell_registers, Some(Registers::One));
    assert_eq!(series.setup.fabric, Some(FabricKind::InfiniBand));
    assert_eq!(series.setup.tool.as_deref(), Some("ib_write_lat"));
    assert_eq!(series.setup.source.as_deref(), Some("output of perftest: latency.log"), "without its folder");
    assert_eq!(series.setup.options.as_deref(), Some("relaxed ordering off, ibv_wr* API on, 20 iterations"));
}

#[test]
fn a_timed_latency_has_a_mean_alone() {
    let series = &imported(LOGS[0]).file.series[8];
    assert_eq!((series.points[0].x, series.points[0].value), (64.0, 6.41));
    assert_eq!(series.columns.keys().collect::<Vec<_>>(), ["iterations", "tps"]);
    assert_eq!(series.setup.statistic.as_deref(), Some("value = t_avg, the mean over the duration"));
}

#[test]
fn a_ping_pong_has_one_message_under_way_whatever_the_depth() {
    let series = &imported(LOGS[0]).file.series[9];
    assert_eq!(series.setup.workload.window, Some(1));
    let options = series.setup.options.as_deref().unwrap();
    assert!(options.starts_with("TX depth 4, one message under way"), "{options}");
}

#[test]
fn reads_have_their_limit_in_flight() {
    let series = imported(LOGS[0]).file.series;
    assert_eq!([1, 2].map(|at| series[at].setup.workload.rd_atomic), [Some(16), Some(1)]);
    assert_eq!(series[0].setup.workload.rd_atomic, None);
}

#[test]
fn tables_of_all_sizes_are_one_series() {
    let latency = only(LOGS[2]);
    assert_eq!(latency.points.len(), 23);
    assert_eq!((latency.points[0].x, latency.points[22].x), (2.0, 8_388_608.0));
    assert_eq!(latency.points[22].value, 2033.8);
    let bandwidth = only(LOGS[3]);
    assert_eq!(bandwidth.points.len(), 23);
    assert_eq!((bandwidth.points[2].x, bandwidth.points[2].value), (8.0, 10.22));
    assert_eq!((bandwidth.columns["peak"][2], bandwidth.columns["mpps"][2]), (26.34, 1.339418));
}

#[test]
fn bandwidth_is_a_window_of_the_depth() {
    let imported = imported(LOGS[1]);
    assert_eq!(imported.notes, []);
    let seen: Vec<_> = imported
        .file
        .series
        .iter()
        .map(|series| {
            let workload = &series.setup.workload;
            let shape = (workload.window, workload.qps_per_thread, workload.batch, workload.signal_every);
            (series.setup.id.as_str(), &series.setup.unit, shape, workload.inline)
        })
        .collect();
    let (mib, gb) = (&MeasuredUnit::MibPerSecond, &MeasuredUnit::GbPerSecond);
    let shape = |window, qps, batch, signal| (Some(window), Some(qps), Some(batch), Some(signal));
    assert_eq!(
        seen,
        [
            ("mine-write-bw", mib, shape(128, 1, 1, 1), Some(0)),
            ("mine-write-bw-2", gb, shape(128, 1, 1, 100), Some(0)),
            ("mine-write-bw-t1", gb, shape(1, 1, 1, 1), Some(0)),
            ("mine-read-bw-t100", mib, shape(100, 1, 1, 100), None),
            ("mine-send-bw", mib, shape(128, 1, 1, 100), Some(0)),
            ("mine-send-bw-ud", mib, shape(128, 1, 1, 100), Some(0)),
            ("mine-atomic-bw-faa-t100", &MeasuredUnit::MopsPerSecond, shape(100, 1, 1, 100), None),
            ("mine-atomic-bw-cas-t100", &MeasuredUnit::MopsPerSecond, shape(100, 1, 1, 100), None),
            ("mine-write-bw-q4-t100", mib, shape(100, 4, 1, 100), Some(0)),
            ("mine-write-bw-t16", mib, shape(16, 1, 1, 16), Some(0)),
            ("mine-write-bw-3", mib, shape(128, 1, 1, 100), Some(0)),
            ("mine-write-bw-t100-b", mib, shape(100, 1, 1, 100), Some(0)),
            ("mine-write-bw-t100-i64", mib, shape(100, 1, 1, 100), Some(64)),
            ("mine-write-bw-l16", mib, shape(128, 1, 16, 16), Some(0)),
            ("mine-write-bw-t100", mib, shape(100, 1, 1, 100), Some(0)),
            ("mine-write-bw-t100-2", mib, shape(100, 1, 1, 100), Some(0)),
        ]
    );
}

#[test]
fn numbers_of_bandwidth_keep_their_meaning() {
    let series = imported(LOGS[1]).file.series;
    let value = |at: usize| series[at].points[0].value;
    // MB/sec are 2^20 bytes; with --report_gbits, 10^9 bits. Small numbers have more digits.
    assert_eq!((value(0), value(1), value(2)), (16628.76, 17.01, 0.008741));
    // Atomics are a rate. The bandwidth is a column.
    let atomics = &series[6];
    assert_eq!((&atomics.setup.workload.metric, value(6)), (&Metric::Rate, 0.346232));
    assert_eq!((atomics.columns["mibps"][0], atomics.columns["peak"][0]), (2.64, 31.79));
    // A peak of 0 was not measured.
    assert!([10, 15].iter().all(|at| !series[*at].columns.contains_key("peak")));
    // Several QPs may use several doorbell registers.
    assert_eq!(series[8].setup.workload.doorbell_registers, None);
    // The sum of both directions is neither side's.
    let both = &series[11].setup.workload;
    assert_eq!((both.bidirectional, &both.side), (Some(true), &None));
    assert_eq!(series[14].setup.workload.mtu, Some(1024));
}

#[test]
fn intervals_of_one_size_are_reports() {
    let series = only(LOGS[5]);
    let workload = &series.setup.workload;
    assert_eq!((workload.axis.as_str(), workload.size), ("report", Some(4096)));
    assert_eq!(series.points.iter().map(|point| point.x).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(series.points[3].value, 5429.03);
}

#[test]
fn single_latencies_and_results_of_one_side_are_left_out() {
    let histogram = only(LOGS[4]);
    assert_eq!((histogram.points.len(), histogram.points[0].value), (1, 1.37));
    let both = imported(LOGS[6]);
    assert_eq!((both.file.series.len(), both.file.series[0].points[0].value), (1, 2849.7));
    let notes: Vec<String> = both.notes.iter().map(ToString::to_string).collect();
    let left_out = "left out: the results of one side, because the table above has both";
    assert_eq!(notes, [27, 33].map(|line| format!("logs/report-both.log:{line}: {left_out}")));
}

#[test]
fn the_server_is_left_out() {
    let both = imported(LOGS[7]);
    assert_eq!((both.file.series.len(), both.notes.len(), both.notes[0].line), (1, 1, 6));
    assert!(both.notes[0].message.starts_with("left out: the output of a server"), "{}", both.notes[0]);
    let server = perftest(&[log!("server.log")], &about()).unwrap_err().to_string();
    assert_eq!(server, "logs/server.log:1: this is the output of a server: import the client's");
}

#[test]
fn times_in_cycles_are_refused() {
    let refused = perftest(&[log!("cycles.log")], &about()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "logs/cycles.log:2: the times are cycles of the CPU (-C): measure again without this option"
    );
    // A command names the option, too.
    let (line, log) = LOGS[2].text.split_once('\n').unwrap();
    let text = format!("$ ib_write_lat -aC 10.0.0.1\n{line}\n{log}");
    assert!(error(&text).starts_with("a.log:3: the times are cycles"), "{}", error(&text));
    let text = text.replace(" -aC ", " -a ");
    assert!(perftest(&[NamedText { name: "a.log", text: &text }], &about()).is_ok());
}

#[test]
fn a_number_without_a_title_is_refused() {
    let refused = perftest(&[log!("message-rate.log")], &about()).unwrap_err().to_string();
    assert!(
        refused.ends_with(":1: there is no output of perftest here: no title such as RDMA_Write BW Test"),
        "{refused}"
    );
}

#[test]
fn failed_runs_are_refused() {
    let run = bandwidth(&[], "");
    for (text, message) in [
        (run.clone(), "a.log:2: this run of ib_write_bw has no results: it failed, or the log is cut off"),
        (format!("{run}{HEAD}"), "a.log:2: this run of ib_write_bw has no results"),
        (
            format!("{run} Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"),
            "a.log:21: the run failed, so import a log without it: \"Completion with error at client\"",
        ),
        ("Couldn't connect to 10.0.0.1:18515\n".into(), "a.log:1: the run failed"),
        (" Unable to find the Infiniband/RoCE device\n".into(), "a.log:1: the run failed"),
        // The second run of a log failed.
        (
            format!("{}{run}", bandwidth(&[], &format!("{HEAD}{ROW}"))),
            "a.log:24: this run of ib_write_bw has no results",
        ),
        (String::new(), "a.log:1: there is no output of perftest here"),
    ] {
        assert!(error(&text).starts_with(message), "{}", error(&text));
    }
}

#[test]
fn bad_tables_are_refused_with_their_line() {
    let ports = HEAD.replace("MsgRate[Mpps]", "MsgRate[Mpps]   BW Port1[MB/sec]");
    for (table, message) in [
        (format!("{HEAD} 2 5000 1.0\n"), "a.log:21: the row has 3 numbers, but the table has 5 columns"),
        (
            format!("{ports} 2 5000 1.0 1.0 1.0 1.0\n"),
            "a.log:20: the table has an unknown column \"BW Port1[MB/sec]\"",
        ),
        (
            format!("{HEAD}{ROW}{HEAD}{ROW}"),
            "a.log:22: a second table follows: give the output of each program",
        ),
        (
            format!("{HEAD} 2 5000 0.00 0.00 0.000000\n"),
            "a.log:21: the measured value is 0, but must be above 0",
        ),
        (format!("{HEAD} 2 5000 1 nan 1\n"), "a.log:21: the measured value is NaN"),
        (format!("{HEAD} 2.5 5000 1 1 1\n"), "a.log:21: 2.5 is not a size in bytes"),
        (format!("{HEAD} -1 5000 1 1 1\n"), "a.log:21: -1 is not a size in bytes"),
        (format!("{HEAD} 2 5 1 1 1\n 4 5 1 1 1\n 2 5 1 1 1\n"), "a.log:2: the table has one size twice"),
        (
            " #bytes #iterations    MsgRate[Mpps]\n 2 5 1\n".into(),
            "a.log:2: the table has no column BW average",
        ),
    ] {
        let text = bandwidth(&[], &table);
        assert!(error(&text).starts_with(message), "{}", error(&text));
    }
    let depth = bandwidth(&[("depth", "many")], &format!("{HEAD}{ROW}"));
    assert_eq!(error(&depth), "a.log:8: \"many\" is not a whole number below 2^32");
    let unknown = bandwidth(&[("test", "Send forwarding")], &format!("{HEAD}{ROW}"));
    assert_eq!(error(&unknown), "a.log:2: Doorbell does not know the test \"Send forwarding BW Test\"");
}

#[test]
fn tests_without_a_key_say_that_no_run_answers_them() {
    let table = format!("{HEAD}{ROW}");
    let events = bandwidth(&[("test", "Send")], &table)
        .replace(" Dual-port", " Test with events. Using mlx5_0_comp0\n Dual-port");
    for (text, why) in [
        (bandwidth(&[("srq", "ON")], &table), "QPs share a receive queue (--use-srq)"),
        (bandwidth(&[("ports", "ON")], &table), "the test uses two ports (-O)"),
        (events, "the program sleeps until completions (-e)"),
        (format!("$ ib_send_bw --reversed\n{}", bandwidth(&[], &table)), "the server sends (--reversed)"),
        (
            bandwidth(&[("test", "Send")], &table).replace("BW Test", "BW Multicast Test"),
            "messages go to a multicast group (-g)",
        ),
    ] {
        assert_eq!(only(NamedText { name: "a.log", text: &text }).setup.not_run.as_deref(), Some(why));
    }
}

#[test]
fn lines_that_are_not_understood_are_named() {
    let text = format!("user@host:~$ date\n{}bye\n", bandwidth(&[], &format!("{HEAD}{ROW}")));
    let imported = perftest(&[NamedText { name: "a.log", text: &text }], &about()).unwrap();
    let notes: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        ["a.log:1: not understood: \"user@host:~$ date\"", "a.log:24: not understood: \"bye\""]
    );
    assert_eq!(imported.file.series.len(), 1);
}

#[test]
fn settings_of_newer_versions_and_other_transports_are_read() {
    let table = format!("{HEAD}{ROW}");
    let of = |settings: &[(&str, &str)]| {
        let text = bandwidth(settings, &table);
        only(NamedText { name: "a.log", text: &text })
    };
    let roce = of(&[]);
    assert_eq!(roce.setup.fabric, Some(FabricKind::Roce));
    assert_eq!(
        roce.setup.options.as_deref(),
        Some("relaxed ordering on, lock-free off, ibv_wr* API on, 5000 iterations")
    );
    assert_eq!(of(&[("link", "IB")]).setup.fabric, Some(FabricKind::InfiniBand));
    for (connection, transport) in [
        ("UC", MeasuredTransport::Uc),
        ("DC", MeasuredTransport::Dc),
        ("SRD", MeasuredTransport::Srd),
        ("XRC", MeasuredTransport::Other("xrc".into())),
    ] {
        assert_eq!(of(&[("connection", connection)]).setup.workload.transport, transport);
    }
    let raw = of(&[("connection", "RawEth")]);
    assert_eq!((raw.setup.fabric, raw.setup.workload.transport), (None, MeasuredTransport::Raw));
    let immediate = of(&[("test", "RDMA_Write_imm")]);
    assert_eq!(immediate.setup.workload.verb, MeasuredVerb::Other("write-imm".into()));
    // Newer versions name the unit by its bytes, and add the use of the processor.
    let text = bandwidth(
        &[],
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]    CPU_Util[%]\n 2 5000 0.00 8.83 4.6 \t    99.00\n",
    );
    let newer = only(NamedText { name: "a.log", text: &text });
    assert_eq!((newer.setup.unit, newer.columns["cpu_percent"][0]), (MeasuredUnit::MibPerSecond, 99.0));
    // Older versions print fewer columns.
    let text = bandwidth(
        &[],
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]\n 2 5000 9.0 8.83\n",
    );
    assert_eq!(only(NamedText { name: "a.log", text: &text }).points[0].value, 8.83);
}

#[test]
fn inline_sizes_are_perftests_own_if_the_log_has_none() {
    let without = |text: &str| {
        text.lines()
            .filter(|line| !line.contains("Max inline data"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let inline = |text: &str, nic: &str| {
        let mut about = about();
        about.facts.nic = Some(nic.into());
        let imported = perftest(&[NamedText { name: "a.log", text }], &about).unwrap();
        imported.file.series.iter().map(|series| series.setup.workload.inline).collect::<Vec<_>>()
    };
    let latencies = without(LOGS[0].text);
    let own = [Some(220), None, None, Some(236), Some(188), Some(236), None, None, Some(220), Some(220)];
    assert_eq!(inline(&latencies, "ConnectX-6"), own);
    assert_eq!(inline(&latencies, "E810"), [None; 10]);
    assert_eq!(inline(&without(&bandwidth(&[], &format!("{HEAD}{ROW}"))), "E810"), [Some(0)]);
}

#[test]
fn a_column_without_a_number_is_left_out_and_named() {
    let text = LOGS[0].text.replacen("2.43", "-nan", 1);
    let imported = perftest(&[NamedText { name: "a.log", text: &text }], &about()).unwrap();
    assert!(!imported.file.series[0].columns.contains_key("stdev"));
    let note = "a.log:2: left out: column stdev, because a row has no number there";
    assert_eq!(imported.notes.iter().map(ToString::to_string).collect::<Vec<_>>(), [note]);
}

#[test]
fn commands_and_gpus_are_noticed() {
    let table = format!("{HEAD}{ROW}");
    let only = |text: String| only(NamedText { name: "a.log", text: &text }).setup.workload;
    let odp = only(format!("$ ib_write_bw --odp --rate_limit=10\n{}", bandwidth(&[], &table)));
    assert_eq!((odp.odp, odp.throttle), (Some(true.into()), Some(true.into())));
    let gpu = "allocated GPU buffer address at 00007f2a0c000000 pointer=0x7f2a0c000000\n";
    assert_eq!(only(format!("{gpu}{}", bandwidth(&[], &table))).memory, Some(RemoteMemory::Gpu));
    let after = format!("{}deallocating RX GPU buffer\n", bandwidth(&[], &table));
    assert_eq!(only(after).memory, Some(RemoteMemory::Host));
    let rocm = bandwidth(&[], &table).replace(" Data ex.", " Use ROCm memory : ON\n Data ex.");
    assert_eq!(only(rocm).memory, Some(RemoteMemory::Gpu));
}

#[test]
fn facts_come_from_tools_and_options() {
    let text = bandwidth(&[("device", "mlx5_1")], &format!("{HEAD}{ROW}"));
    let log = NamedText { name: "a.log", text: &text };
    let mut about = About::of(MachineFacts::default());
    let unknown = perftest(&[log], &about).unwrap_err().to_string();
    assert_eq!(
        unknown,
        "a.log:2: the log does not name the NIC: give --nic, or the output of tools by --devinfo or --lspci"
    );
    about.host = "pair".into();
    let devinfo = "hca_id: mlx5_0\nvendor_part_id: 4119\nhca_id: mlx5_1\nvendor_part_id: 4123\nlink_layer: Ethernet\n\
                   active_width: 4X (2)\nactive_speed: 50.0 Gbps (64)\n";
    about.add_devinfo(NamedText { name: "d", text: devinfo }).unwrap();
    let lspci = "3b:00.0 Ethernet controller: Mellanox Technologies [ConnectX-6]\n\tLnkSta: Speed 16GT/s, Width x16\n";
    about.add_lspci(NamedText { name: "l", text: lspci }).unwrap();
    about.add_lscpu(NamedText { name: "c", text: "Model name: CPU\nSocket(s): 2\n" }).unwrap();
    let setup = perftest(&[log], &about).unwrap().file.series.remove(0).setup;
    assert_eq!(
        (setup.nic.as_str(), setup.host.as_str(), setup.cpu.as_deref()),
        ("ConnectX-6", "pair", Some("2x CPU"))
    );
    assert_eq!((setup.link_gbps, setup.id.as_str()), (Some(200.0), "pair-write-bw"));
    assert_eq!(setup.pcie.map(|slot| (slot.generation, slot.lanes)), Some((4, Some(16))));
    assert_eq!(setup.workload.hops, None, "what nobody stated is absent");
    about.facts.hops = Some(1);
    about.facts.link_gbps = Some(100.0);
    let setup = perftest(&[log], &about).unwrap().file.series.remove(0).setup;
    assert_eq!((setup.workload.hops, setup.link_gbps), (Some(1), Some(100.0)));
}

#[test]
fn several_files_are_one_import_and_read_back_equal() {
    let imported = perftest(&LOGS, &about()).unwrap();
    assert_eq!(imported.file.series.len(), 10 + 16 + 6);
    let text = imported.file.to_toml();
    assert_eq!(SeriesFile::parse("m.toml", &text).unwrap(), imported.file);
}
