//! Compares the vector I/O strategy that the costs of a profile predict with simulated results.

use doorbell_lab::{Control, Run, Timing, simulate, vector_io};
use doorbell_nic::Profile;
use doorbell_systems::System;
use doorbell_systems::config::Clients;
use doorbell_systems::vector_io::{Chosen, Strategy, VectorIo};
use doorbell_verbs::Span;

const STRATEGIES: [Strategy; 3] = [Strategy::Sp, Strategy::Sgl, Strategy::Doorbell];

/// Bytes of a piece, number of pieces, and number of threads.
const SIZES: [u32; 5] = [8, 32, 128, 512, 2048];
const COUNTS: [u32; 5] = [2, 4, 8, 16, 32];
const THREADS: [u32; 3] = [1, 4, 8];

/// Time for some dozens of calls over a link of 4 GB/s.
fn measured(call_bytes: u32) -> Span {
    Span::from_us(200 + u64::from(call_bytes) / 100)
}

fn io(piece: u32, iovcnt: u32, threads: u32) -> VectorIo {
    VectorIo {
        clients: Clients::new(threads, 16, 4, false),
        timing: Timing::of(Span::from_us(60), measured(piece * iovcnt)),
        iovcnt,
        piece,
        ..VectorIo::usual()
    }
}

fn simulated(profile: &Profile, io: &VectorIo, strategy: Chosen) -> f64 {
    let io = VectorIo { strategy, ..io.clone() };
    simulate(&Run::system(profile, io.into()), &Control::quiet()).unwrap().mops
}

/// For each point, how much slower the chosen strategy is than the best one, relatively.
fn lacks(name: &str) -> Vec<(String, f64)> {
    let profile = Profile::named(name).unwrap();
    let points = SIZES.iter().flat_map(|size| COUNTS.iter().map(move |count| (*size, *count)));
    let points = points.flat_map(|(size, count)| THREADS.map(|threads| (size, count, threads)));
    let lack = |(size, count, threads)| {
        let io = io(size, count, threads);
        let rates = STRATEGIES.map(|strategy| simulated(&profile, &io, strategy.into()));
        let chosen = vector_io::best(&profile, &io.calls());
        let of_chosen = rates[STRATEGIES.iter().position(|s| *s == chosen).unwrap()];
        let best = rates.into_iter().fold(0.0, f64::max);
        let limits: Vec<String> =
            vector_io::rates(&profile, &io.calls()).map(|(s, mops)| format!("{} {mops:.2}", s.name())).into();
        let text = format!(
            "{name}: {threads} threads, {count} pieces of {size} B: {} chosen; sp, sgl, doorbell {rates:.2?}; limits {}",
            chosen.name(),
            limits.join(", ")
        );
        (text, 1.0 - of_chosen / best)
    };
    points.map(lack).collect()
}

#[test]
fn the_choice_is_nearly_the_best() {
    let of_all = std::thread::scope(|scope| {
        let all = ["cx3-dual", "cx3", "cib"].map(|name| scope.spawn(move || lacks(name)));
        all.map(|one| one.join().unwrap())
    });
    let all: Vec<&(String, f64)> = of_all.iter().flatten().collect();
    let beyond = |share: f64| all.iter().filter(|(_, lack)| *lack > share).collect::<Vec<_>>();
    let (few, none) = (beyond(0.05), beyond(0.15));
    for (text, lack) in &few {
        println!("{:.1}% less than the best: {text}", lack * 100.0);
    }
    assert!(few.len() * 10 <= all.len(), "{} of {} are beyond 5%", few.len(), all.len());
    assert!(none.is_empty(), "{} are beyond 15%", none.len());
}

#[test]
fn auto_is_what_is_chosen() {
    let profile = Profile::named("cx3-dual").unwrap();
    let io = io(32, 16, 1);
    let auto = VectorIo { strategy: Chosen::Auto, ..io.clone() };
    let outcome = simulate(&Run::system(&profile, auto.into()), &Control::quiet());
    let chosen = vector_io::best(&profile, &io.calls());
    let value = outcome.unwrap().system().workload.value("strategy").unwrap().to_string();
    assert!(value.contains(chosen.name()), "{value} is not {}", chosen.name());
}
