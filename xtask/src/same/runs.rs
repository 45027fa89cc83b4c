//! The runs that `same` compares: command lines of `doorbell`, made from tables.
//!
//! Most runs simulate a short time and few machines. Rare events, such as a time-out, an RNR NAK or a drop,
//! need a long run or a high load. [`RARE`] has command lines for them.

/// Options for short runs, with enough machines for every pattern.
const SHORT: &str = "--machines 3 --threads 2 --warmup 30us --duration 400us";

/// Every verb on every transport that offers it.
const VERBS: [&str; 11] = [
    "send --transport rc",
    "send --transport uc",
    "send --transport ud",
    "send --transport rc --header-only",
    "send --transport uc --header-only",
    "send --transport ud --header-only",
    "write --transport rc",
    "write --transport uc",
    "read --transport rc",
    "fetch-add --transport rc",
    "compare-swap --transport rc",
];

/// The verbs of [`VERBS`] whose messages may have any size.
const SIZED: [&str; 6] = [VERBS[0], VERBS[1], VERBS[2], VERBS[6], VERBS[7], VERBS[8]];

const PATTERNS: [&str; 3] = ["outbound", "inbound", "all-to-all"];

/// Options for posting and signalling work requests.
const POSTED: [&str; 5] = [
    "--signal-every 1",
    "--signal-every 1 --window 1",
    "--signal-every 1 --batch 16",
    "--signal-every 16",
    "--signal-every 16 --batch 16",
];

/// Large runs. The first has threads that create objects concurrently after they have posted. The second has
/// so many pending events that the simulator prefetches.
const MANY: [&str; 2] = [
    "--system rpc-sequencer --cores 6 --warmup 50us --duration 100us",
    "--verb read --pattern all-to-all --machines 40 --threads 14 --warmup 10us --duration 10us",
];

/// Payloads in bytes: none, within a cache line, over several cache lines of a WQE, one packet, several
/// packets.
const SIZES: [u32; 7] = [0, 1, 32, 64, 300, 4096, 10_000];

/// Options for passing the payload to the NIC: inline if it fits (the default), and always by DMA. Windows
/// are small so that long messages complete.
const PAYLOAD: [&str; 2] = ["--signal-every 4 --window-per-qp 8", "--no-inline --signal-every 1"];

/// Workloads with other options. If a profile refuses one, the error sentences are compared.
const SPECIAL: [&str; 66] = [
    // A changed parameter of the profile.
    "write --transport uc --set tx.send_ns=200",
    // Payload in the RECV's CQE.
    "send --transport rc --pattern inbound --inline-recv --size 16",
    "send --transport rc --pattern inbound --inline-recv --size 64",
    "send --transport uc --pattern inbound --inline-recv --size 64",
    "send --transport ud --pattern inbound --inline-recv --size 16",
    "send --transport ud --pattern all-to-all --inline-recv --size 64 --batch 16",
    "send --transport rc --pattern inbound --inline-recv --size 65",
    // More pages than the NIC caches translations for, and fewer.
    "read --small-pages --machines 8 --threads 4 --size 8192 --window 128",
    "write --transport uc --small-pages --pattern all-to-all --size 300",
    "send --transport ud --small-pages --pattern inbound --size 64",
    "fetch-add --small-pages --counters 65536 --counter-stride 4096",
    // Windows that drain before the next one begins.
    "read --drain --window 32",
    "read --drain --window 32 --pattern outbound",
    "send --transport rc --drain --window 32",
    "send --transport ud --drain --window 32 --pattern inbound",
    "write --transport uc --drain --window 32",
    "fetch-add --drain --window 8",
    // Atomics on one lock, on many locks, and at addresses that share a lock.
    "fetch-add --machines 5 --threads 4",
    "fetch-add --machines 5 --threads 4 --counters 2",
    "fetch-add --machines 5 --threads 4 --counters 4096",
    "fetch-add --machines 5 --threads 4 --counters 4096 --counter-stride 4096",
    "fetch-add --pattern all-to-all --counters 1000 --counter-stride 72",
    "compare-swap --machines 5 --threads 4",
    "compare-swap --machines 5 --threads 4 --counters 4096",
    "compare-swap --machines 5 --threads 4 --counters 4096 --counter-stride 4096",
    "compare-swap --pattern all-to-all --counters 1000 --counter-stride 72 --batch 4",
    // More WQEs, and more QP contexts, than the NIC caches.
    "read --machines 5 --threads 4 --window 512 --batch 16",
    "write --transport rc --threads 4 --window 512 --batch 16 --signal-every 1",
    "read --pattern all-to-all --machines 4 --threads 4 --qps 112",
    "write --transport rc --pattern all-to-all --machines 4 --threads 4 --qps 112 --signal-every 1 --window 32",
    "send --transport uc --pattern all-to-all --machines 4 --threads 4 --qps 112 --signal-every 1 --window 32",
    // QP counts that differ from the peer count.
    "write --transport rc --machines 4 --qps 1",
    "write --transport uc --machines 4 --qps 5",
    "read --machines 4 --qps 3 --window 7",
    "send --transport ud --qps 3 --batch 16 --pattern all-to-all",
    // Numbers that do not divide each other.
    "send --transport rc --batch 7 --signal-every 5 --window-per-qp 40",
    "send --transport ud --batch 40 --window 41 --signal-every 1",
    "write --transport uc --batch 3 --signal-every 100 --size 31",
    // Random choices of QPs, destinations and counters.
    "read --pattern all-to-all --machines 6 --seed 2",
    "read --pattern all-to-all --machines 6 --seed 3",
    "send --transport ud --pattern all-to-all --machines 6 --batch 16 --seed 2",
    "fetch-add --counters 64 --seed 2",
    // Windows per thread with unsignalled operations, and windows per QP with signalled ones.
    "write --transport uc --machines 5 --window 40",
    "read --machines 5 --qps 3 --window-per-qp 4",
    // Buffers in pieces, across line boundaries, and over more memory than the NIC caches translations for.
    "write --transport uc --sges 3 --size 300",
    "write --transport rc --sges 4 --size 64 --pieces apart --random-offset",
    "read --sges 5 --size 9000 --offset 63",
    "send --transport ud --offset 13 --pattern inbound",
    "read --small-pages --machines 5 --threads 4 --remote-region 67108864 --addresses random",
    "write --transport rc --machines 4 --threads 2 --local-region 1048576 --remote-region 1048576",
    "read --machines 4 --threads 2 --size 100 --local-region 2097152 --remote-region 2097152 --addresses any-byte",
    "write --transport rc --batch 3 --sges 2 --size 100 --local-region 4096 --addresses any-byte",
    // A CQ for each QP, with a shared window and with a window per QP.
    "read --pattern all-to-all --machines 4 --qps 8 --cq-per-qp",
    "write --transport uc --machines 4 --signal-every 4 --window-per-qp 16 --cq-per-qp",
    // Fewer NIC resources than available.
    "read --machines 5 --threads 4 --max-rd-atomic 1",
    "write --transport uc --size 4096 --threads 4 --ports 1",
    // Congestion: many senders to one receiver, with several packets per message.
    "write --transport rc --pattern inbound --machines 6 --size 10000 --signal-every 1 --window 8",
    "write --transport uc --pattern inbound --machines 6 --size 4096 --signal-every 1 --window 8",
    "send --transport rc --pattern all-to-all --machines 6 --size 10000 --signal-every 1 --window 8",
    // Another slot, another link, and the headers of RoCE.
    "write --transport rc --size 4096 --no-inline --signal-every 1 --pcie gen4x16 --link 100roce",
    "read --size 4096 --link 100ib",
    "write --transport rc --size 10000 --set link.reth_in_every_packet=1",
    // Operations on one address, ordered by the host and by the NIC.
    "read --remote-addresses same --set host.dma_read_again_ns=43",
    "write --transport uc --remote-addresses same",
    "compare-swap --counters 64 --set atomics.one_per_qp=1",
    "fetch-add --set atomics.fetch_add_ns=50",
];

/// Mixes of sizes, of verbs, and of all operations that RC offers.
const MIXES: [&str; 8] = [
    "read:95,write:5 --qps 2",
    "read/64:50,read/4096:40,write/256:10 --pattern all-to-all",
    "send:3,send/900:1 --batch 4",
    "send/16:1,write/64:1 --transport uc --signal-every 7 --window-per-qp 40",
    "send:1,write:1,read:1,fetch-add:1,compare-swap:1 --counters 64 --batch 3 --signal-every 4 --window-per-qp 20",
    "write/32:1,write/400:1 --inline-up-to 64 --transport rc",
    "read:2,send:1 --header-only --drain --window 8",
    "read/100:1,write/300:1 --sges 3 --random-offset --local-region 100000 --seed 2",
];

/// Paced workloads: with a pause after each operation, and with arrival rates below and above the maximum
/// throughput.
const PACED: [&str; 6] = [
    "read --think 2us --qps 2",
    "write --transport rc --think 500ns --batch 4 --pattern all-to-all",
    "send --transport rc --drain --window 8 --think 3us",
    "read --arrivals poisson --rate 2000000",
    "send --transport ud --arrivals fixed --rate 3000000 --batch 2 --seed 2",
    "write --transport uc --arrivals poisson --rate 900000000 --signal-every 4",
];

/// Workloads with the default numbers of machines and threads, as in the papers.
const WHOLE: [&str; 5] = [
    "read",
    "send --transport ud --batch 16 --size 28",
    "send --transport ud --pattern inbound --batch 16",
    "write --transport uc --pattern all-to-all --size 60",
    "fetch-add --pattern all-to-all --counters 4096",
];

/// Rare events. Each line has the profile for which the event was observed.
const RARE: [&str; 18] = [
    // The local ACK time-out is 67 ms. Here responses are queued for a longer time, so READs and WRITEs are
    // retransmitted. A faster NIC would need longer queues, and these would take more memory than a machine
    // has.
    "--profile cx --verb read --machines 3 --threads 4 --qps 28 --window 28 --size 524288 --duration 90ms",
    "--profile cx --verb read --machines 2 --threads 1 --qps 112 --window 112 --size 1048576 --duration 110ms",
    "--profile cx --verb write --transport rc --machines 2 --threads 4 --qps 450 --window 450 --signal-every 1 --size 65536 --duration 110ms",
    // RNR NAKs: threads post RECVs more slowly than the NIC receives messages.
    "--profile cib --verb send --transport rc --pattern inbound --threads 1 --signal-every 1 --duration 3ms",
    "--profile cib --verb send --transport rc --pattern inbound --threads 1 --batch 16 --duration 3ms",
    "--profile cib --verb send --transport rc --pattern inbound --threads 1 --signal-every 1 --header-only --duration 3ms",
    "--profile cib --verb send --transport rc --machines 2 --threads 1 --qps 16 --batch 16 --duration 3ms",
    "--profile cx3 --verb send --transport rc --pattern inbound --threads 1 --size 300 --duration 3ms",
    "--profile cx3 --verb send --transport rc --pattern inbound --threads 1 --signal-every 1 --header-only --duration 3ms",
    "--profile cx --verb send --transport rc --pattern inbound --threads 1 --size 1000 --duration 3ms",
    // The longest queues.
    "--profile cib --verb send --transport rc --pattern inbound --machines 3 --threads 1 --window-per-qp 16351 --batch 16 --duration 4ms",
    // Messages that are dropped because there is no RECV.
    "--profile cib --verb send --transport ud --pattern inbound --threads 1 --window-per-qp 1024 --batch 16 --duration 1ms",
    "--profile cib --verb send --transport uc --pattern inbound --threads 1 --duration 1ms",
    "--profile cx3 --verb send --transport ud --pattern inbound --threads 1 --window-per-qp 1024 --batch 16 --header-only --duration 1ms",
    "--profile cx3 --verb send --transport uc --pattern inbound --threads 1 --size 300 --duration 1ms",
    "--profile cx --verb send --transport uc --pattern inbound --threads 1 --size 300 --duration 1ms",
    "--profile cx --verb send --transport uc --pattern inbound --threads 1 --header-only --duration 1ms",
    // A run that ends when a percentile is known.
    "--profile cx3 --verb read --machines 3 --threads 2 --until p99",
];

/// Systems in each of their designs, and with their options.
const SYSTEMS: [&str; 82] = [
    "sequencer --cores 2",
    "sequencer --cores 1 --no-batching",
    "sequencer --cores 2 --datagrams",
    "sequencer --cores 2 --datagrams --no-batching",
    "sequencer --cores 2 --continuous",
    "sequencer --cores 2 --multi-queue 1 --gather 8",
    "sequencer --cores 2 --outstanding 1",
    "sequencer --cores 1 --no-batching --request send-rc --reply send-rc --outstanding 1 --continuous",
    "sequencer --design spec-s0 --cores 2",
    "sequencer --design spec-s0 --cores 2 --no-batching",
    "sequencer --design spec-s0 --cores 1 --multi-queue 1 --outstanding 4",
    "sequencer --design atomics",
    "sequencer --design atomics --outstanding 1",
    "herd-kv --cores 2 --pairs 1024",
    "herd-kv --cores 2 --pairs 100000",
    "herd-kv --cores 2 --pairs 1024 --no-batching",
    "herd-kv --cores 2 --pairs 1024 --datagrams",
    "herd-kv --cores 2 --pairs 1024 --datagrams --no-batching",
    "herd-kv --cores 2 --pairs 1024 --continuous --outstanding 8",
    "herd-kv --cores 1 --pairs 1024 --zipf --put-permille 500",
    "herd-kv --cores 2 --pairs 1024 --zipf --speculate",
    "herd-kv --cores 2 --pairs 1024 --speculate --put-permille 200 --no-batching",
    "herd-kv --cores 2 --pairs 16 --speculate --put-permille 500 --value 1000",
    "herd-kv --cores 2 --pairs 1024 --value 300 --multi-queue 3 --gather 4",
    "herd-kv --cores 2 --pairs 1024 --put-permille 1000 --value 1",
    "read-kv --cores 2 --pairs 1024",
    "read-kv --cores 4 --pairs 100000",
    "read-kv --cores 2 --pairs 8192 --zipf",
    "read-kv --cores 2 --pairs 1024 --put-permille 200",
    "read-kv --cores 2 --pairs 1024 --put-permille 200 --datagrams",
    "read-kv --cores 2 --pairs 1024 --put-permille 500 --zipf --no-batching --value 300",
    "read-kv --cores 2 --pairs 64 --put-permille 500 --zipf --value 3000",
    "read-kv --cores 2 --pairs 1024 --outstanding 1 --value 1000",
    "read-kv --cores 1 --pairs 1024 --put-permille 900 --multi-queue 2 --outstanding 2 --clients 10",
    "drtm-kv --pairs 4096",
    "drtm-kv --pairs 4096 --zipf",
    "drtm-kv --pairs 4096 --put-permille 200",
    "drtm-kv --pairs 4096 --put-permille 200 --update",
    "drtm-kv --pairs 16 --put-permille 500 --update --zipf",
    "drtm-kv --pairs 4096 --put-permille 1000 --outstanding 1",
    "drtm-kv --pairs 4096 --value 300 --put-permille 100 --update",
    "rpc --cores 2",
    "rpc --cores 2 --no-batching --handler 200ns --handler-times exponential",
    "rpc --cores 2 --request send-ud --reply-size 16-900",
    "rpc --cores 2 --request write-uc --reply write-uc --request-size 8:9,700:1",
    "rpc --cores 2 --request send-uc --reply send-uc --outstanding 16",
    "rpc --cores 2 --request send-rc --think 2us --gather 4",
    "rpc --cores 2 --request send-rc --reply send-rc --arrivals poisson --rate 4000000",
    "rpc --cores 2 --request write-rc --reply write-rc --arrivals fixed --rate 4000000 --handler 300ns",
    "rpc --cores 2 --request write-rc --reply read-rc --reply-size 300",
    "spinlock",
    "spinlock --release cas --data 64 --locks 3",
    "spinlock --backoff 2us",
    "spinlock --lease 30us --data 64",
    "spinlock --lease 30us --data 64 --no-fencing --hold 1us",
    "spinlock --design rpc",
    "spinlock --design rpc --data 64 --locks 3",
    "spinlock --design rpc --cores 2 --locks 9000",
    "consolidate --theta 1 --outstanding 4",
    "consolidate --blocks 40",
    "consolidate --holding shared --theta 5 --blocks 200 --time-out 20us",
    "consolidate --marked 4 --modification 8 --block 256",
    "proxy --path direct",
    "proxy --path home --unmatched-permille 1000",
    "proxy --read-bytes 300 --outstanding 8",
    "log",
    "log --records 1 --outstanding 4",
    "log --log-strategy doorbell --records 5 --log-slots 64",
    "log --log-strategy sp --record 200",
    "log --reserve rpc --records 4",
    "shuffle --clients 4 --batch-entries 1",
    "shuffle --clients 4 --strategy sp --full spill --zipf --segment 64",
    "shuffle --clients 4 --strategy doorbell --senders 1 --receivers 3",
    "shuffle --clients 4 --transfer pull --placement other",
    "shuffle --bytes 300000 --entry 1024",
    "join --tuples 4096",
    "join --tuples 4096 --clients 1",
    "join --bytes 64KiB",
    "join --tuples 4096 --placement first --batch-entries 1",
    "hashtable --hot 0% --put-permille 500 --pairs 100 --time-out 50us",
    "hashtable --theta 4 --time-out 50us --path home --put-permille 900 --back-ends 1",
    "hashtable --hot 100% --no-guard --versions 2 --theta 1 --clients 12",
];

/// Systems whose clients are on one machine.
const TOGETHER: [&str; 6] = [
    "local-memory --region 67108864 --size 100",
    "local-memory --region 268435456 --op write --addresses random",
    "sequencer --design local",
    "spinlock --design local",
    "spinlock --design local --release cas --data 64 --locks 3 --hold 100ns",
    "spinlock --design local --backoff 200ns",
];

/// The system `touch`, whose server scans data, on hosts with and without modelled caches. Runs whose options
/// need modelled caches name a host that has them.
const TOUCH: [&str; 5] = [
    "--size 4096",
    "--size 20011 --mode notouch --scan read --host e7520",
    "--size 20000 --response write --sends-per-fill 3 --compute 5us",
    "--size 20000 --response read --order random --prefetch-lines 4 --client-scan touch --host e7520",
    "--size 8192 --tenant shared --step 64",
];

/// Ping-pong with each verb and transport.
const PING_PONG: [&str; 7] = [
    "write-rc --size 2",
    "write-uc --size 300",
    "send-rc --size 0",
    "send-uc --size 3000",
    "send-ud --size 64",
    "read-rc --size 64",
    "write-rc --size 20000",
];

/// Workloads for `--explain`, which repeats a run with each resource relaxed.
const EXPLAINED: [&str; 5] = [
    "--verb read",
    "--verb send --transport ud --batch 16",
    "--verb fetch-add",
    "--system sequencer --cores 1 --clients 4 --clients-per-machine 4",
    "--system drtm-kv --clients 4 --clients-per-machine 4 --pairs 256 --put-permille 100",
];

/// A workload with machines of several profiles, and the verbs to run on it.
pub(crate) const UNLIKE: &str = "xtask/workloads/unlike.toml";
const ON_UNLIKE: [&str; 7] = [
    "read --pattern inbound",
    "read --pattern all-to-all --seed 3",
    "send --transport ud --batch 16 --pattern all-to-all",
    "send --transport rc --pattern outbound",
    "send --transport uc --pattern inbound --size 300",
    "write --transport rc --pattern inbound --size 5000 --window 8",
    "fetch-add --counters 64 --counter-stride 4096",
];

/// Command lines that every profile refuses with one error sentence.
const REFUSED: [&str; 13] = [
    "profiles cx9 --json",
    "limits --profile cx9 --json",
    "limits --threads 99 --json",
    "simulate --verb read --transport ud --json",
    "simulate --verb write --size 5000 --inline --json",
    "simulate --window 100000 --json",
    "simulate --batch 32 --window 16 --json",
    "simulate --verb read --pattern all-to-all --qps 1 --json",
    "simulate --drain --batch 2 --json",
    "simulate --system herd-kv --verb read --json",
    "simulate --system herd-kv --clients 0 --json",
    "simulate --system drtm-kv --datagrams --json",
    "simulate --system rpc --reply read-rc --json",
];

/// All runs on machines with different profiles.
pub(crate) fn unlike() -> impl Iterator<Item = String> {
    let simulated = |verb| format!("simulate {UNLIKE} --verb {verb} --warmup 30us --duration 200us --json");
    let limited = |verb| format!("limits {UNLIKE} --verb {verb} --json");
    ON_UNLIKE.into_iter().flat_map(move |verb| [simulated(verb), limited(verb)])
}

/// All runs for these profiles. The longest runs come first, so that no long run is left at the end.
pub(crate) fn all(profiles: &[String]) -> Vec<String> {
    let mut runs = rare(profiles);
    for profile in profiles {
        runs.extend(EXPLAINED.map(|w| explained(profile, w)));
        runs.extend(WHOLE.map(|w| simulate(profile, w, "--warmup 30us --duration 100us")));
    }
    runs.extend(profiles.iter().flat_map(|profile| systems(profile)));
    for profile in profiles {
        runs.extend(SPECIAL.map(|w| special(profile, w)));
        runs.extend(PACED.map(|w| simulate(profile, w, SHORT)));
        runs.extend(MIXES.map(|w| format!("simulate --profile {profile} --mix {w} {SHORT} --json")));
        runs.extend(MIXES.map(|w| format!("limits --profile {profile} --mix {w} --json")));
        runs.extend(patterns(profile));
        runs.extend(sizes(profile));
        runs.extend(limits(profile));
        runs.push(format!("profiles {profile} --json"));
    }
    runs.extend(MANY.map(|w| format!("simulate --profile cib {w} --json")));
    runs.extend(REFUSED.map(str::to_owned));
    runs
}

fn simulate(profile: &str, verb: &str, rest: &str) -> String {
    format!("simulate --profile {profile} --verb {verb} {rest} --json")
}

fn rare(profiles: &[String]) -> Vec<String> {
    let of = |line: &str| profiles.iter().any(|name| line.split(' ').nth(1) == Some(name));
    let lines = RARE.into_iter().filter(|line| of(line));
    lines.map(|line| format!("simulate {line} --warmup 20us --json")).collect()
}

fn explained(profile: &str, workload: &str) -> String {
    // Only workloads of verbs take the options `--machines` and `--threads`.
    let few = if workload.starts_with("--verb") { "--machines 3 --threads 2 " } else { "" };
    format!("simulate --profile {profile} {workload} {few}--warmup 10us --duration 30us --explain --json")
}

/// Adds `--machines` and `--threads` to `line` unless it has them.
fn special(profile: &str, line: &str) -> String {
    let without = |option: &str, usual: &str| if line.contains(option) { "" } else { usual }.to_owned();
    let machines = without("--machines", "--machines 3 ");
    let threads = without("--threads", "--threads 2 ");
    simulate(profile, line, &format!("{machines}{threads}--warmup 30us --duration 500us"))
}

fn patterns(profile: &str) -> impl Iterator<Item = String> {
    let each = VERBS.iter().flat_map(|v| PATTERNS.map(|p| format!("{v} --pattern {p}")));
    each.flat_map(|verb| POSTED.map(|posted| format!("{verb} {posted}")))
        .map(move |verb| simulate(profile, &verb, SHORT))
}

fn sizes(profile: &str) -> impl Iterator<Item = String> {
    let each = SIZED.iter().flat_map(|v| SIZES.map(|size| format!("{v} --size {size}")));
    each.flat_map(|verb| PAYLOAD.map(|payload| format!("{verb} {payload}")))
        .map(move |verb| simulate(profile, &verb, SHORT))
}

/// Runs of all systems. Most of [`SYSTEMS`] draw keys, guesses or waits at random, so each runs with three
/// seeds.
fn systems(profile: &str) -> Vec<String> {
    let one = |(system, seed)| {
        format!(
            "simulate --profile {profile} --system {system} --clients 12 --clients-per-machine 4 --warmup 20us --duration 300us --seed {seed} --json"
        )
    };
    let touch = |run: &&str| format!("simulate --profile {profile} --system touch {run} --json");
    let drawn = SYSTEMS.iter().flat_map(|system| [1, 2, 3].map(|seed| (system, seed))).map(one);
    let together = |run: &&str| {
        format!(
            "simulate --profile {profile} --system {run} --clients 12 --warmup 20us --duration 300us --json"
        )
    };
    let game = |run: &&str| {
        format!("simulate --profile {profile} --system ping-pong --message {run} --duration 300us --json")
    };
    let others = TOUCH.iter().map(touch).chain(TOGETHER.iter().map(together));
    drawn.chain(others).chain(PING_PONG.iter().map(game)).collect()
}

fn limits(profile: &str) -> Vec<String> {
    let posted = VERBS.iter().flat_map(|v| PATTERNS.map(|p| format!("{v} --pattern {p} --batch 16")));
    let sized = SIZED.iter().flat_map(|v| SIZES.map(|size| format!("{v} --size {size} --no-inline")));
    let rest = SPECIAL.iter().map(|&line| line.to_owned());
    let line = |verb| format!("limits --profile {profile} --verb {verb} --json");
    posted.chain(sized).chain(rest).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_run_is_made_twice() {
        let profiles = ["cib", "cx"].map(str::to_owned);
        let mut runs = all(&profiles);
        runs.extend(unlike());
        assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), runs.len());
        for option in ["--machines", "--threads", "--duration", "--window", "--size", "--signal-every"] {
            let twice = runs.iter().find(|run| run.matches(option).count() > 1);
            assert_eq!(twice, None, "the command takes an option once");
        }
    }

    #[test]
    fn what_is_rare_is_run_for_its_profile_only() {
        assert!(rare(&["cx9".to_owned()]).is_empty());
        let profiles = ["cib", "cx", "cx3"].map(str::to_owned);
        assert_eq!(rare(&profiles).len(), RARE.len());
    }
}
