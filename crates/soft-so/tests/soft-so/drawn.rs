//! Draws command lines of perftest, and compares the statistics of each run with the options of
//! `doorbell simulate` that describe the same traffic.

use crate::common::{
    command, counting, finish, free_port, installed, launch, library, text, wait_for_listener,
};
use doorbell_launch::{Launch, Link};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::process::Command;

/// Command lines per run. [`LINES`] sets another number.
const USUAL: usize = 4;
/// Environment variables for the number of command lines, and for the seed.
const LINES: &str = "DOORBELL_DRAWN_LINES";
const SEED: &str = "DOORBELL_DRAWN_SEED";

/// The most bytes that all QPs have outstanding. They fit into the simulated time.
const OUTSTANDING: u64 = 4 << 20;

/// A drawn command line: the program, its options, the server's option `-o`, and the options of `doorbell
/// simulate`.
#[derive(Debug)]
struct Drawn {
    link: Link,
    program: &'static str,
    options: Vec<String>,
    of_server: Option<String>,
    by_hand: Vec<String>,
}

/// A number up to 2^`bits`. All lengths in bits are equally likely.
fn up_to(bits: u64, below: &mut impl FnMut(u64) -> u64) -> u64 {
    let least = 1 << below(bits);
    least + below(least + 1)
}

impl Drawn {
    fn new(random: &mut Xoshiro256PlusPlus) -> Drawn {
        let mut below = |n: u64| random.next_u64() % n;
        let (program, verb, transports): (_, _, &[&str]) = match below(6) {
            0 | 1 => ("ib_write_bw", "write", &["RC", "UC"]),
            2 => ("ib_send_bw", "send", &["RC", "UC", "UD"]),
            3 | 4 => ("ib_read_bw", "read", &["RC"]),
            _ => ("ib_atomic_bw", "fetch-add", &["RC"]),
        };
        let transport = transports[below(transports.len() as u64) as usize];
        let carries_payload = matches!(verb, "write" | "send");
        let (qps, mtu) = (1 + below(8), 256 << below(5));
        // A list is signalled once, and may fill the window.
        let list = if below(3) == 0 { 2 << below(6) } else { 1 };
        let depth = list * (1 + below(128 / list));
        let signal = if list > 1 { list } else { 1 + below(depth.min(100)) };
        // So many that the program fills its window several times. All RECVs are posted before.
        let iterations = list * (480 / list);
        let size = up_to(if transport == "UD" { 11 } else { 16 }, &mut below);
        let size = size.min(OUTSTANDING / (qps * depth));
        let inline = if below(4) == 0 { 0 } else { 128 };
        // The lower number of both sides counts.
        let reads = 1 + below(16);
        let of_server = 1 + below(reads);
        let mut options = vec![("-n", iterations), ("-q", qps), ("-t", depth), ("-Q", signal), ("-l", list)];
        let is_alone = qps == 1 && signal == 1;
        let window = if is_alone { "--window" } else { "--window-per-qp" };
        let mut by_hand = vec![
            ("--verb", verb.to_owned()),
            ("--transport", transport.to_lowercase()),
            ("--qps", qps.to_string()),
            (window, depth.to_string()),
            ("--batch", list.to_string()),
            ("--signal-every", signal.to_string()),
        ];
        if verb != "fetch-add" {
            options.push(("-s", size));
            by_hand.push(("--size", size.to_string()));
        }
        if carries_payload {
            options.push(("-I", inline));
        } else {
            options.push(("-o", reads));
            by_hand.push(("--max-rd-atomic", of_server.to_string()));
        }
        if transport != "UD" {
            options.push(("-m", mtu));
            // The MTU of the profile.
            if mtu < 4096 {
                by_hand.push(("--set", format!("link.mtu_bytes={mtu}")));
            }
        }
        let mut options: Vec<String> =
            options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
        // ib_read_bw and ib_atomic_bw have one transport, and need no option for it.
        options
            .extend(carries_payload.then(|| ["-c".to_owned(), transport.to_owned()]).into_iter().flatten());
        let mut by_hand: Vec<String> =
            by_hand.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        if carries_payload {
            by_hand.push(if size <= inline { "--inline" } else { "--no-inline" }.to_owned());
        }
        by_hand.extend(["--machines", "2", "--threads", "1", "--pattern", "outbound"].map(str::to_owned));
        let link = if below(2) == 0 { Link::Ib } else { Link::Roce };
        let of_server = (!carries_payload).then(|| of_server.to_string());
        Drawn { link, program, options, of_server, by_hand }
    }

    /// Runs server and client. Returns the client's statistics; `None` if perftest is not installed.
    fn run(&self) -> Option<Value> {
        let file = installed(self.program)?;
        let quiet = launch(self.link);
        let (counted, report) = counting("drawn", quiet.clone());
        let port = free_port().to_string();
        let mut all = vec!["-p", &port];
        all.extend(self.options.iter().map(String::as_str));
        let start = |launch: &Launch, arguments: &[&str]| command(launch, &file, arguments).spawn();
        // The last of two equal options counts.
        let of_server = self.of_server.iter().flat_map(|most| ["-o", most]);
        let of_server: Vec<&str> = all.iter().copied().chain(of_server).collect();
        let mut server = start(&quiet, &of_server).expect("the server starts");
        wait_for_listener(port.parse().unwrap_or(0), &mut server);
        all.push("localhost");
        let client = finish(start(&counted, &all).expect("the client starts"), "client");
        assert!(client.status.success(), "{self:?}: {}", text(&client));
        assert!(finish(server, "server").status.success(), "{self:?}");
        Some(report())
    }
}

/// The result of a short simulation.
fn simulate(arguments: &[&str]) -> Value {
    let mut doorbell = Command::new(library().with_file_name("doorbell"));
    doorbell.arg("simulate").args(arguments).args(["--duration", "1ms", "--warmup", "200us", "--json"]);
    let output = doorbell.output().expect("it starts");
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn a_program_is_simulated_as_if_its_options_were_typed() {
    let seed = number(SEED).unwrap_or_else(|| std::process::id().into());
    let lines = number(LINES).map_or(USUAL, |lines| lines as usize);
    println!("{SEED}={seed} {LINES}={lines}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..lines {
        let drawn = Drawn::new(&mut random);
        let Some(report) = drawn.run() else { return };
        let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
        std::fs::write(file.path(), report.to_string()).expect("it can be written");
        let counted = simulate(&[&file.path().to_string_lossy()]);
        let by_hand = simulate(&drawn.by_hand.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(counted["workload"], by_hand["workload"], "seed {seed}: {drawn:?}");
        assert_eq!(counted["mops"], by_hand["mops"], "seed {seed}: {drawn:?}");
    }
}
