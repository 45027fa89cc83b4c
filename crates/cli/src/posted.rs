//! Text about the posts of a workload. Tables of results for each thread class and each item of a mix.

use crate::report::within;
use crate::table::{self, Align};
use doorbell_lab::{Latency, LoadLoop, OfClass, OfKind, Operation, Outcome, Resolved};
use doorbell_nic::Digits;

/// Rows about the posted operations.
pub(crate) fn what(w: &Resolved) -> Vec<(&'static str, String)> {
    let over = |what: &dyn std::fmt::Display| format!("{what} over {}", w.transport);
    match w.only_operation() {
        Some(Operation { verb, size, .. }) => vec![("verb", over(verb)), ("size", format!("{size} B"))],
        None => {
            let all: u64 = w.operations().iter().map(|o| u64::from(o.weight)).sum();
            let share = |weight: u32| Digits(f64::from(weight) * 100.0 / all as f64, 1);
            let item = |o: &Operation| format!("{}% {}", share(o.weight), o.name());
            let items: Vec<String> = w.operations().iter().map(item).collect();
            vec![("mix", over(&items.join(", ")))]
        }
    }
}

/// The row about due times. `None` if each operation is posted as soon as an earlier operation completes.
pub(crate) fn when(w: &Resolved) -> Option<(&'static str, String)> {
    match w.uniform()?.pace {
        LoadLoop::Open { arrivals, rate } => {
            let mops = Digits(rate as f64 / 1e6, 2);
            Some(("arrivals", format!("{}, {mops} million per second", arrivals.name())))
        }
        LoadLoop::Closed { think } => Some(("think", think?.to_string())),
    }
}

/// Rate of the payload of all operations, in Gbit/s.
pub(crate) fn gigabits(o: &Outcome) -> f64 {
    let payload = |w: &Resolved, mops: f64, kinds: &[OfKind]| match w.only_operation() {
        Some(only) => mops * f64::from(only.size),
        None => kinds.iter().map(|kind| kind.mops * f64::from(kind.size)).sum(),
    };
    let bytes = match o.verbs().workload.has_classes() {
        true => {
            let classes = o.verbs().workload.classes().into_iter().zip(&o.verbs().classes);
            classes.map(|(class, seen)| payload(class.workload, seen.mops, &seen.kinds)).sum()
        }
        false => payload(&o.verbs().workload, o.mops, &o.verbs().kinds),
    };
    bytes * 8.0 / 1e3
}

/// Rate and latencies of each thread class and of each item of its mix.
pub(crate) fn classes(o: &Outcome) -> String {
    let of_class = |class: &OfClass| {
        let (rate, mean) = (within(class.interval.mops), within(class.interval.latency_ns));
        let share = format!("{}%", Digits(class.share * 100.0, 1));
        let name = match class.interval.overload {
            true => format!("{}, overloaded", class.name),
            false => class.name.clone(),
        };
        let own = row(name, class.mops, &rate, Some(share), &class.latency_ns, &mean);
        let items = class.kinds.iter().map(|kind| {
            let name = format!("  {} of {} B", kind.verb, kind.size);
            row(name, kind.mops, "", Some(String::new()), &kind.latency_ns, "")
        });
        std::iter::once(own).chain(items).collect::<Vec<_>>()
    };
    let [name, mops, latencies @ ..] = HEADER;
    let header: Vec<_> = [name, mops, ("of all", Align::Right)].into_iter().chain(latencies).collect();
    let untimed = |class: &OfClass| {
        Some(format!("  {} has no latency: {}.\n", class.name, class.interval.no_latency.as_ref()?))
    };
    let notes = o.verbs().classes.iter().filter_map(untimed);
    table::columns(&header, o.verbs().classes.iter().flat_map(of_class).collect())
        + &notes.collect::<String>()
}

const HEADER: [(&str, Align); 6] = [
    ("", Align::Left),
    ("Mops", Align::Right),
    ("latency in ns, mean", Align::Right),
    ("p50", Align::Right),
    ("p99", Align::Right),
    ("p99.9", Align::Right),
];

/// A row of a table of rates and latencies. `rate_within` and `mean_within` are texts of the half-widths of
/// intervals.
fn row(
    name: String,
    mops: f64,
    rate_within: &str,
    share: Option<String>,
    latency: &Latency,
    mean_within: &str,
) -> Vec<String> {
    let Latency { mean, p50, p99, p999, .. } = latency;
    let known = |ns: &Option<u64>| ns.map_or("-".to_owned(), |ns| ns.to_string());
    let mean = mean.map_or("-".to_owned(), |ns| format!("{}{mean_within}", Digits(ns, 0)));
    let rate = format!("{}{rate_within}", Digits(mops, 2));
    [name, rate].into_iter().chain(share).chain([mean, known(p50), known(p99), known(p999)]).collect()
}

/// Rate and latencies of each item of a mix.
pub(crate) fn kinds(o: &Outcome) -> String {
    let of = |kind: &OfKind| {
        row(format!("{} of {} B", kind.verb, kind.size), kind.mops, "", None, &kind.latency_ns, "")
    };
    // If all items together have no latency, the result already states the reason.
    let untimed = |kind: &OfKind| o.latency_ns.mean.is_some() && kind.latency_ns.mean.is_none();
    let note = match o.verbs().kinds.iter().any(untimed) {
        true => {
            "  An item without a latency had no signalled operation that completed in the measured time.\n"
        }
        false => "",
    };
    table::columns(&HEADER, o.verbs().kinds.iter().map(of).collect()) + note
}
