//! Pacing of operations: after earlier ones end, after a think time, or at a rate.

use doorbell_lab::{Arrivals, Control, Ended, Outcome, Run, Window, Workload};

fn resolved(toml: &str) -> Result<(doorbell_lab::Profiles, doorbell_lab::Resolved), String> {
    let workload = Workload::from_toml("test", toml).map_err(|e| e.to_string())?;
    let profiles = workload.load_profiles().map_err(|e| e.to_string())?;
    let resolved = workload.resolve(&profiles).map_err(|e| e.to_string())?;
    Ok((profiles, resolved))
}

fn simulate(toml: &str) -> Outcome {
    let (profiles, resolved) = resolved(toml).unwrap_or_else(|e| panic!("{toml}: {e}"));
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &Control::quiet())
        .unwrap_or_else(|e| panic!("{toml}: {e}"))
}

fn system(toml: &str) -> Outcome {
    let given = doorbell_lab::Given::from_toml("w.toml", toml, &doorbell_lab::fields()).unwrap();
    let run = Run::asked(doorbell_lab::Asked::of(&given).unwrap()).unwrap();
    doorbell_lab::simulate(&run, &Control::quiet()).unwrap_or_else(|e| panic!("{toml}: {e}"))
}

fn mean(o: &Outcome) -> f64 {
    o.latency_ns.mean.unwrap_or_else(|| panic!("{o:?}"))
}

/// One thread that READs from another machine.
const ONE: &str = "verb = \"read\"\nmachines = 2\nthreads = 1\nwarmup = \"50us\"\n";

/// Two machines of two threads that READ from a third, at most 22 million times per second.
const FEW: &str = "verb = \"read\"\nmachines = 3\nthreads = 2\n";

#[test]
fn a_place_in_the_window_thinks_before_its_next_operation() {
    for (window, think) in [(1, 0), (1, 5), (4, 20), (3, 1)] {
        let outcome =
            simulate(&format!("{ONE}window = {window}\nduration = \"500us\"\nthink = \"{think}us\""));
        // After a thread has found a completion, it needs some time to post again.
        let cycle = mean(&outcome) + f64::from(think) * 1e3;
        let wanted = f64::from(window) * 1e3 / cycle;
        let part = outcome.mops / wanted;
        assert!((0.93..1.005).contains(&part), "{window} {think}: {part}");
    }
    let drained = simulate(&format!("{ONE}window = 4\ndrain = true\nduration = \"500us\"\nthink = \"20us\""));
    assert!((0.16..0.185).contains(&drained.mops), "4 in 20 us and a latency: {}", drained.mops);
}

#[test]
fn no_time_to_think_is_the_usual_loop() {
    let [usual, said] = ["", "think = \"0s\"\narrivals = \"closed\"\nrate = 0"]
        .map(|rest| simulate(&format!("{FEW}warmup = \"20us\"\nduration = \"50us\"\n{rest}")));
    assert_eq!(usual.event_hash, said.event_hash);
    assert_eq!(usual.verbs().workload, said.verbs().workload);
}

#[test]
fn an_open_loop_reaches_its_rate_below_capacity() {
    // Idle QPs cost nothing here, because only a single thread finds its QP idle each time.
    let same = "[set]\n\"tx.idle_qp_ns\" = 0";
    let run = |arrivals: &str| {
        simulate(&format!(
            "{FEW}rate = 10000000\narrivals = \"{arrivals}\"\nduration = \"2ms\"\nwarmup = \"50us\"\n{same}"
        ))
    };
    let [fixed, poisson] = ["fixed", "poisson"].map(run);
    // With 20 000 operations, the deviation by chance is 1%.
    assert!(
        (9.97..10.03).contains(&fixed.mops) && (9.6..10.4).contains(&poisson.mops),
        "{} {}",
        fixed.mops,
        poisson.mops
    );
    let alone = mean(&simulate(&format!("{ONE}window = 1\nduration = \"100us\"\n{same}")));
    assert!((0.98..1.05).contains(&(mean(&fixed) / alone)), "{} {alone}", mean(&fixed));
    assert!(mean(&poisson) > mean(&fixed) + 30.0, "{} {}", mean(&poisson), mean(&fixed));
    assert!(!fixed.interval.overload && !poisson.interval.overload);
}

/// With a window of 1, the thread is a queue with one server and a fixed service time. The mean wait follows
/// the Pollaczek-Khinchine formula.
#[test]
fn latency_counts_from_when_an_operation_was_due() {
    let alone = simulate(&format!("{ONE}window = 1\nduration = \"1ms\""));
    let service = 1e3 / alone.mops;
    let part = 0.7;
    let rate = (part * alone.mops * 1e6) as u64;
    let open =
        simulate(&format!("{ONE}window = 1\nduration = \"60ms\"\narrivals = \"poisson\"\nrate = {rate}"));
    let wait = service * part / (2.0 * (1.0 - part));
    let found = mean(&open) - mean(&alone);
    assert!((found / wait - 1.0).abs() < 0.1, "{found} ns, not {wait}");
    let closed = simulate(&format!("{ONE}window = 1\nduration = \"1ms\"\nthink = \"1us\""));
    assert!((mean(&closed) / mean(&alone) - 1.0).abs() < 0.03, "{} {}", mean(&closed), mean(&alone));
}

#[test]
fn where_more_is_due_than_completes_no_latency_is_given() {
    for rest in [
        "arrivals = \"poisson\"\nrate = 26000000",
        "arrivals = \"fixed\"\nrate = 100000000",
        "arrivals = \"poisson\"\nrate = 26000000\nwarmup = \"20us\"",
        "arrivals = \"poisson\"\nrate = 26000000\nwarmup = \"20us\"\nduration = \"500us\"",
        "arrivals = \"fixed\"\nrate = 26000000\nduration = \"500us\"\nbatch = 4",
    ] {
        let toml = format!("{FEW}{rest}").replace("verb = \"read\"", "mix = \"read/32:1,read/16:1\"");
        let outcome = simulate(&toml);
        assert!(outcome.interval.overload && outcome.interval.unsettled.is_some(), "{rest}: {outcome:?}");
        assert!((15.0..25.0).contains(&outcome.mops), "{rest}: {}", outcome.mops);
        let none = |latency: doorbell_lab::Latency| {
            latency.mean.is_none() && latency.min.is_none() && latency.p50.is_none()
        };
        assert!(
            none(outcome.latency_ns) && outcome.verbs().kinds.iter().all(|kind| none(kind.latency_ns)),
            "{rest}"
        );
        let asked = rest.contains("duration");
        assert_eq!(outcome.measured.ended, if asked { Ended::Duration } else { Ended::Overload }, "{rest}");
        let ps = outcome.measured.duration.span().as_ps();
        assert!(ps < 20_000_000_000, "{rest}: it ends as soon as that is known: {ps}");
    }
    // Slightly above the capacity, the queue grows slowly.
    let slow = simulate(&format!("{FEW}arrivals = \"poisson\"\nrate = 22300000\nmax_time = \"40ms\""));
    assert!(slow.interval.unsettled.is_some(), "{slow:?}");
}

/// The third rate of docs/rpc.md, for a time in which the backlog stays far below the 1536 requests that the
/// clients may have outstanding. The first two rates are below the capacity.
#[test]
fn a_short_run_shows_an_overload() {
    let run = |rate: u64, seed: u64| {
        system(&format!(
            "system = \"rpc\"\ncores = 1\nbatching = false\nhandler = \"300ns\"\noutstanding = 64\n\
             arrivals = \"poisson\"\nrate = {rate}\nduration = \"4ms\"\nseed = {seed}"
        ))
    };
    for seed in 1..=5 {
        let over = run(2_500_000, seed);
        assert!(over.interval.overload && over.latency_ns.mean.is_none(), "{seed}: {over:?}");
        assert_eq!(over.interval.due_mops, Some(2.5));
        let said = over.interval.unsettled.unwrap();
        let parts = "2.50 million operations are due per second, but only 2.4";
        assert!(said.starts_with(parts), "{seed}: {said}");
    }
    for rate in [1_000_000, 2_000_000] {
        let under = run(rate, 1);
        assert!(!under.interval.overload && under.latency_ns.mean.is_some(), "{rate}: {under:?}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (toml, said) in [
        ("arrivals = \"poisson\"", "arrivals are poisson, but no rate is given"),
        ("rate = 7", "rate is 7, but arrivals are closed: a rate applies to fixed and poisson only"),
        (
            "arrivals = \"fixed\"\nrate = 7\nthink = \"2us\"",
            "think is 2us, but arrivals are fixed: threads think only with closed arrivals",
        ),
        (
            "arrivals = \"fixed\"\nrate = 7\ndrain = true",
            "drain is set, but arrivals are fixed: windows apply to closed arrivals only",
        ),
        (
            "think = \"2us\"\nwindow_per_qp = 4",
            "think is 2us, but window_per_qp is 4: a think time needs the option window in place of \
             window_per_qp",
        ),
    ] {
        assert_eq!(resolved(toml).unwrap_err(), said, "{toml}");
    }
    let (_, open) = resolved("verb = \"write\"\narrivals = \"poisson\"\nrate = 1000").unwrap();
    let open_loop = Some((Arrivals::Poisson, 1000));
    assert_eq!((open.signal_every, open.window(), open.open_loop()), (1, Window::PerThread(16), open_loop));
}

#[test]
fn thinking_is_part_of_the_bound_of_a_window() {
    let bound = |rest: &str| {
        let (profiles, w) = resolved(&format!("{ONE}window = 2\n{rest}")).unwrap();
        let all = doorbell_lab::limits(&profiles, &w);
        let bound = all.iter().find(|limit| limit.text.contains("operations outstanding")).unwrap().mops;
        (bound, doorbell_lab::least_latency(&profiles, &w))
    };
    let (usual, thinking) = (bound(""), bound("think = \"3us\""));
    assert!((2e3 / thinking.0 - 2e3 / usual.0 - 3e3).abs() < 1e-6, "{usual:?} {thinking:?}");
    assert_eq!(usual.1, thinking.1, "an operation takes as long");
}

/// A run of `read-kv` with a given warm-up and duration.
fn read_kv(toml: &str) -> Outcome {
    let toml = format!("system = \"read-kv\"\n{toml}");
    let given = doorbell_lab::Given::from_toml("w.toml", &toml, &doorbell_lab::fields()).unwrap();
    let run = Run::asked(doorbell_lab::Asked::of(&given).unwrap()).unwrap();
    doorbell_lab::simulate(&run, &Control::quiet()).unwrap_or_else(|e| panic!("{toml}: {e}"))
}

/// If all clients began all of their operations at once, they would READ buckets together and then entries
/// together. Their stages then lock, port by port, and after 25 ms the rate would be 20% lower.
#[test]
fn readers_of_a_store_do_not_drift() {
    let rate = |warmup: &str| {
        read_kv(&format!("clients = 80\nvalue = 1024\nwarmup = \"{warmup}\"\nduration = \"1ms\"")).mops
    };
    let (early, late) = (rate("1ms"), rate("8ms"));
    // Read completions of the server's PCIe link limit the rate.
    assert!(early > 10.5 && early < 11.1, "{early}");
    assert!((late / early - 1.0).abs() < 0.02, "{early} M/s after 1 ms, {late} M/s after 8 ms");
}

/// Clients open their places one by one, whatever share of the operations is PUTs. By Little's law, the rate
/// times the mean latency is the number of operations in flight.
#[test]
fn clients_of_a_store_fill_their_windows() {
    for put_permille in [0, 1, 500, 999, 1000] {
        let outcome = read_kv(&format!(
            "clients = 12\nput_permille = {put_permille}\nwarmup = \"100us\"\nduration = \"100us\""
        ));
        let in_flight = outcome.mops * mean(&outcome) / 1e3;
        // Each of the 12 clients has 16 places. Places are empty while the client polls and posts.
        assert!((0.75 * 192.0..=1.01 * 192.0).contains(&in_flight), "{put_permille}: {in_flight}");
    }
}

/// A signalled operation completes every 0.6 or every 2.4 ms.
#[test]
fn a_run_settles_although_hardly_any_operation_is_signalled() {
    let run = |signal_every: u32, max_time: &str| {
        simulate(&format!(
            "verb = \"send\"\ntransport = \"rc\"\nmachines = 2\nthreads = 1\nsize = 4096\n\
             signal_every = {signal_every}\nwindow = {}\nmax_time = \"{max_time}\"",
            2 * signal_every
        ))
    };
    let settled = run(1000, "100ms");
    assert_eq!(settled.measured.ended, Ended::Settled, "{settled:?}");
    assert!((1.6..1.7).contains(&settled.mops), "{settled:?}");
    assert_eq!(settled.interval.unsettled, None, "{settled:?}");
    // Too few signalled operations complete for a latency.
    let cut = run(4000, "20ms");
    assert!((1.6..1.7).contains(&cut.mops) && cut.latency_ns.mean.is_none(), "{cut:?}");
    let why = cut.interval.no_latency.expect("a reason");
    assert!(why.contains("signalled operation") && why.ends_with("a latency needs at least 10"), "{why}");
}
