//! What a workload posts and when, and what came of each item of a mix, for people.

use crate::table::{self, Align};
use doorbell_lab::{Latency, OfKind, Operation, Outcome, Resolved};
use doorbell_nic::Digits;

/// What is posted.
pub(crate) fn what(w: &Resolved) -> Vec<(&'static str, String)> {
    let over = |what: &dyn std::fmt::Display| format!("{what} over {}", w.transport);
    match (&w.mix, w.verb, w.size) {
        (None, Some(verb), Some(size)) => vec![("verb", over(&verb)), ("size", format!("{size} B"))],
        _ => {
            let all: u64 = w.operations().iter().map(|o| u64::from(o.weight)).sum();
            let share = |weight: u32| Digits(f64::from(weight) * 100.0 / all as f64, 1);
            let item = |o: &Operation| format!("{}% {}", share(o.weight), o.name());
            let items: Vec<String> = w.operations().iter().map(item).collect();
            vec![("mix", over(&items.join(", ")))]
        }
    }
}

/// When operations are due, where that is not as earlier ones end.
pub(crate) fn when(w: &Resolved) -> Option<(&'static str, String)> {
    match (w.arrivals, w.rate, w.think) {
        (Some(arrivals), Some(rate), _) => {
            let mops = Digits(rate as f64 / 1e6, 2);
            Some(("arrivals", format!("{}, {mops} million per second", arrivals.name())))
        }
        (_, _, think) => Some(("think", think?.to_string())),
    }
}

/// Payload of all operations in a second.
pub(crate) fn gigabits(o: &Outcome) -> f64 {
    let bytes = match o.workload.size {
        Some(size) => o.mops * f64::from(size),
        None => o.kinds.iter().map(|kind| kind.mops * f64::from(kind.size)).sum(),
    };
    bytes * 8.0 / 1e3
}

/// The operations of each item of a mix.
pub(crate) fn kinds(o: &Outcome) -> String {
    let row = |kind: &OfKind| {
        let Latency { mean, p50, p99, p999, .. } = kind.latency_ns;
        let known = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| ns.to_string());
        vec![
            format!("{} of {} B", kind.verb, kind.size),
            Digits(kind.mops, 2).to_string(),
            mean.map_or("-".to_owned(), |ns| format!("{ns:.0}")),
            known(p50),
            known(p99),
            known(p999),
        ]
    };
    let header = [
        ("", Align::Left),
        ("Mops", Align::Right),
        ("latency in ns, mean", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
    ];
    table::columns(&header, o.kinds.iter().map(row).collect())
}
