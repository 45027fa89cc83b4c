use super::ending::{confirm_after, first_look, least, log_batch, long_run, look_after};
use super::*;
use doorbell_systems::series::SeriesPoint;
use doorbell_verbs::{Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(super) fn seen(at: u64, completed: u64, latency: Option<u64>) -> SeriesPoint {
    SeriesPoint { at: Time::from_ps(at), completed, since: None, latency: latency.map(Span::from_ps) }
}

fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn exponential(random: &mut Xoshiro256PlusPlus, mean: f64) -> f64 {
    -mean * (1.0 - unit(random)).ln()
}

/// Completions of an M/M/1 queue that begins empty, until `end` picoseconds. The rate is 1 / `between`. The
/// mean time in the system is `service` / (1 - `service` / `between`).
pub(super) fn queue(seed: u64, between: f64, service: f64, end: f64) -> CompletionSeries {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut series = CompletionSeries::new(Time::START, 10, true);
    let (mut arrival, mut free) = (0.0, 0.0f64);
    loop {
        arrival += exponential(&mut random, between);
        free = free.max(arrival) + exponential(&mut random, service);
        if free >= end {
            return series.until(Time::from_ps(end as u64));
        }
        series.add(seen(free as u64, 1, Some((free - arrival) as u64)));
    }
}

/// Warm-up end and means of a series.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    from: u64,
    rate: Interval,
    latency: Option<Interval>,
}

impl Answer {
    pub(super) fn of(series: &CompletionSeries) -> Option<Answer> {
        let from = warm_until(series)?;
        let first = (from - series.begin_of(0)) / series.length();
        let means = Means::of(&series.batches()[first as usize..], series.length())?;
        Some(Answer { from, rate: means.rate, latency: means.latency })
    }

    pub(super) fn is_within(&self, precision: f64) -> bool {
        let narrow = |interval: Interval| interval.half <= precision * interval.mean;
        narrow(self.rate) && self.latency.is_none_or(narrow)
    }
}

/// Runs until both intervals are within 2%.
fn settled(seed: u64) -> Answer {
    let mut end = 2e6;
    loop {
        let answer = Answer::of(&queue(seed, 1000.0, 500.0, end));
        match answer.filter(|a| a.is_within(0.02)) {
            Some(answer) => return answer,
            None => end *= 1.5,
        }
    }
}

#[test]
fn intervals_hold_the_true_means() {
    let answers: Vec<Answer> = (0..200).map(settled).collect();
    let held = |interval: Interval, truth: f64| f64::from((interval.mean - truth).abs() <= interval.half);
    let rates: f64 = answers.iter().map(|a| held(a.rate, 1e-3)).sum();
    let latencies: f64 = answers.iter().filter_map(|a| a.latency).map(|l| held(l, 1000.0)).sum();
    println!("of 200: rates {rates}, latencies {latencies}");
    assert!((180.0..=198.0).contains(&rates), "{rates} of 200 rates");
    assert!((180.0..=198.0).contains(&latencies), "{latencies} of 200 latencies");
}

#[test]
fn what_does_not_vary_is_known_at_once() {
    let mut series = CompletionSeries::new(Time::from_ps(500), 10, true);
    (0..100).for_each(|i| series.add(seen(500 + i * 1024, 3, Some(77))));
    let answer = Answer::of(&series.until(Time::from_ps(500 + 100 * 1024))).expect("it is settled");
    assert_eq!((answer.from, answer.latency), (500, Some(Interval { mean: 77.0, half: 0.0 })));
    // The interval still includes a total count with one operation more or less.
    assert!(answer.is_within(1.0 / 99.0));
}

#[test]
fn the_warm_up_is_left_out() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut series = CompletionSeries::new(Time::START, 10, true);
    for i in 0..400u64 {
        let of = if i < 60 { 10.0 } else { 100.0 };
        let completed = (of + 20.0 * unit(&mut random)) as u64;
        series.add(seen(i << 10, completed, None));
    }
    let answer = Answer::of(&series.until(Time::from_ps(400 << 10))).expect("it is settled");
    assert!((60..=70).contains(&(answer.from >> 10)), "{answer:?}");
    assert!((answer.rate.mean * 1024.0 - 109.5).abs() < 1.0, "{answer:?}");
}

#[test]
fn a_rate_that_still_rises_has_no_answer() {
    let mut series = CompletionSeries::new(Time::START, 10, true);
    (0..300u64).for_each(|i| series.add(seen(i << 10, 10 * i, None)));
    assert_eq!(Answer::of(&series.until(Time::from_ps(300 << 10))), None);
}

#[test]
fn a_latency_that_still_grows_has_no_answer() {
    let mut series = CompletionSeries::new(Time::START, 10, true);
    (0..300u64).for_each(|i| (0..20).for_each(|n| series.add(seen((i << 10) + n, 1, Some(1000 * i)))));
    assert_eq!(Answer::of(&series.until(Time::from_ps(300 << 10))), None);
}

#[test]
fn batches_are_joined_and_nothing_is_lost() {
    let mut series = CompletionSeries::new(Time::START, 0, false);
    (0..100_000).for_each(|at| series.add(seen(at, 1, Some(at))));
    assert_eq!(series.length(), 256);
    let all = Batch::all(series.batches());
    assert_eq!((all.completed, all.latency), (100_000, 4_999_950_000));
    assert_eq!(series.until(Time::from_ps(1000)).batches().len(), 3);
}

#[test]
fn lumps_are_spread_over_the_time_they_took() {
    let mut series = CompletionSeries::new(Time::START, 10, false);
    // Two threads observe lumps of 64 operations in turn. Each lump covers the 3000 ps since the thread's
    // previous lump.
    for i in 1..300u64 {
        let (at, since) = (i * 1500, Some(Time::from_ps(i.saturating_sub(2) * 1500)));
        series.add(SeriesPoint { since, ..seen(at, 64, None) });
    }
    let whole = series.until(Time::from_ps(449_000));
    assert_eq!(whole.batches().len(), (449_000 - 3000) >> 10);
    let counts: Vec<u64> = whole.batches()[3..].iter().map(|batch| batch.completed).collect();
    assert!(counts.iter().all(|n| (42..=46).contains(n)), "{counts:?}");
    assert!((whole.rate() - 64.0 / 1500.0).abs() < 5e-4, "{}", whole.rate());
    // Completions are not evened if the observed time is shorter than four times the longest lump.
    assert!(!series.is_evened(Time::from_ps(11_000)));
}

#[test]
fn lumps_are_not_spread_if_no_whole_batch_is_left() {
    // The lump lasts only 1 us, but a batch of 16 us is longer than the measured 10 us.
    let mut series = CompletionSeries::new(Time::START, 24, false);
    series.add(SeriesPoint { since: Some(Time::from_ps(1_000_000)), ..seen(2_000_000, 64, None) });
    assert!(!series.is_evened(Time::from_ps(10_000_000)) && series.is_evened(Time::from_ps(40_000_000)));
    assert!(series.until(Time::from_ps(40_000_000)).rate().is_finite());
}

#[test]
fn what_wanders_is_known_as_near_as_it_stays() {
    let mut series = CompletionSeries::new(Time::START, 10, false);
    (0..320u64).for_each(|i| series.add(seen(i << 10, 10_000 + i, None)));
    let means = Means::of(series.batches(), 1024).expect("there are enough");
    let (mean, half) = (means.rate.mean * 1024.0, means.rate.half * 1024.0);
    assert!((mean - 10_160.0).abs() < 10.0 && (130.0..160.0).contains(&half), "{mean} {half}");
}

#[test]
fn one_operation_more_or_less_is_never_ruled_out() {
    let mut series = CompletionSeries::new(Time::START, 10, false);
    (0..32).for_each(|batch| series.add(seen(batch << 10, 1, Some(100))));
    let means = Means::of(series.batches(), series.length()).unwrap();
    let one = 1.0 / 32.0 * means.rate.mean;
    assert!((means.rate.half - one).abs() < 1e-9 * one, "{means:?}");
}

#[test]
fn the_mean_of_a_rate_includes_left_over_batches() {
    let mut series = CompletionSeries::new(Time::START, 10, false);
    // 65 batches are joined in threes, so the first two are left over.
    (0..65).for_each(|batch| series.add(seen(batch << 10, if batch < 2 { 1 } else { 50 + batch % 3 }, None)));
    let means = Means::of(series.batches(), series.length()).unwrap();
    assert!((means.rate.mean - series.rate()).abs() < 1e-9 * series.rate(), "{means:?} {}", series.rate());
}

/// A closed loop whose rate drifts to its long-run level, which is 1.
#[derive(Clone, Copy)]
struct Drifting {
    /// Relative excess of the rate at the beginning.
    excess: f64,
    /// Time in which the excess falls to 37%.
    time: Span,
}

/// Time between observations: 67 us.
const LOG_STEP: u32 = 26;
/// Operations per observation, and the relative standard deviation of their number and latency.
const PER_STEP: f64 = 1e6;
const NOISE: f64 = 0.0025;
/// Mean latency at the long-run level.
const LATENCY: Span = Span::from_us(300);

impl Drifting {
    /// Adds the observations until `until` to a series that has those until `at`. Returns the new `at`.
    fn observe(
        self,
        series: &mut CompletionSeries,
        mut at: u64,
        until: Time,
        random: &mut Xoshiro256PlusPlus,
    ) -> u64 {
        while at + (1 << LOG_STEP) <= until.as_ps() {
            let level = 1.0 + self.excess * (-(at as f64) / self.time.as_ps() as f64).exp();
            // The sum of three uniform numbers is nearly normal, with a standard deviation of a half.
            let mut noise = || 2.0 * NOISE * ((0..3).map(|_| unit(random)).sum::<f64>() - 1.5);
            let latency = Some((LATENCY.as_ps() as f64 / level * (1.0 + noise())) as u64);
            series.add(seen(at, (PER_STEP * (level + noise())) as u64, latency));
            at += 1 << LOG_STEP;
        }
        at
    }

    /// Runs as [`Ending`] does. Returns the intervals of rate and latency; `None` if the run says that it
    /// drifts, because it is not settled after the maximum time.
    fn run(self, seed: u64) -> Option<Means> {
        let wanted = Wanted::from(Time::START);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut series = CompletionSeries::new(Time::START, LOG_STEP, false);
        let (mut at, mut now, mut was_warm) = (0, first_look(Time::START), false);
        loop {
            at = self.observe(&mut series, at, now, &mut random);
            let is_warm = wanted.is_warm(now, &series.until(now), false);
            if (is_warm && was_warm) || now.as_ps() >= wanted.max_time.as_ps() / 3 * 2 {
                break;
            }
            (was_warm, now) = (is_warm, look_after(now, now - Time::START));
        }
        let (from, span) = (now, least(now - Time::START));
        series = CompletionSeries::new(from, log_batch(span), true);
        let mut was_known = false;
        now = from + span;
        loop {
            at = self.observe(&mut series, at, now, &mut random);
            let seen = series.until(now);
            let is_known = wanted.is_known(now - from, &seen, false);
            if is_known && was_known {
                return long_run(&seen);
            }
            if now >= wanted.latest() {
                return None;
            }
            let since = now - from;
            now = if is_known { confirm_after(now, since) } else { look_after(now, since) };
            was_known = is_known;
        }
    }
}

/// The interval holds the long-run mean, or the run says that it drifts.
#[test]
fn slow_drifts_are_not_called_known() {
    let held = |interval: Interval, truth: f64| (interval.mean - truth).abs() <= interval.half;
    let rate = PER_STEP / f64::from(1u32 << LOG_STEP);
    let mut settled = 0;
    for ms in [5, 20, 60] {
        for excess in [0.05, -0.05, 0.3, -0.3] {
            let drifting = Drifting { excess, time: Span::from_ms(ms) };
            let ended: Vec<Means> = (0..100).filter_map(|seed| drifting.run(seed)).collect();
            let drifts = 100 - ended.len();
            let rates = ended.iter().filter(|means| held(means.rate, rate)).count();
            let latency = LATENCY.as_ps() as f64;
            let latencies = ended.iter().filter(|m| m.latency.is_some_and(|l| held(l, latency))).count();
            println!("{excess} for {ms} ms: {drifts} drift, {rates} rates and {latencies} latencies hold");
            let least = drifts + rates.min(latencies);
            assert!(least >= 90, "{excess} for {ms} ms: {drifts} drift, {rates} and {latencies} hold");
            settled += ended.len();
        }
    }
    // Most of the shorter drifts end before the maximum time.
    assert!(settled > 700, "only {settled} of 1200 runs settled");
    // Without a drift, a run settles early.
    let level = Drifting { excess: 0.0, time: Span::from_ms(1) };
    let right = (0..100).filter(|seed| level.run(*seed).is_some_and(|means| held(means.rate, rate))).count();
    assert!(right >= 90, "only {right} of 100 intervals without a drift hold the mean");
}
