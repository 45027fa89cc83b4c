//! The amount of a resource that an operation uses, term by term.

use crate::parts::LatencyPart;
use crate::{Digits, Resource};
use schemars::JsonSchema;
use serde::Serialize;

/// The unit in which a resource is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Measure {
    /// Nanoseconds of something that does one thing at a time.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes of a link.
    #[serde(rename = "B")]
    Bytes,
}

/// Part of the amount of a resource that an operation uses: `count` times `each`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Term {
    /// The purpose of this term.
    pub what: &'static str,
    /// For a step of an operation: the part of the machines that takes it. `what` begins with its name.
    #[serde(skip)]
    pub part: Option<LatencyPart>,
    /// How many of these an operation has, on average.
    pub count: f64,
    /// Average amount of one, in `unit`.
    pub each: f64,
    /// Unit of `each`.
    pub unit: Measure,
    /// The item of a mix, counted from 0; absent if all operations are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
    /// The class of threads, counted from 0; absent if there are no classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
}

impl Term {
    /// A term that occurs once and amounts to zero.
    const fn new(what: &'static str, unit: Measure) -> Term {
        Term { what, part: None, count: 1.0, each: 0.0, unit, item: None, class: None }
    }

    /// The amount that an operation uses, in `unit`.
    pub fn amount(&self) -> f64 {
        self.count * self.each
    }
}

/// The time that one part of the machines takes of an unloaded operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartTime {
    /// The part of the machines.
    pub part: LatencyPart,
    /// Nanoseconds.
    pub ns: f64,
}

/// The limit on the number of outstanding operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// The windows of threads or QPs.
    Window,
    /// The READs and atomics that a QP may have outstanding.
    Reads,
}

/// An upper bound of a workload's rate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    /// The resource that sets the bound.
    pub resource: Resource,
    /// Millions of operations per second of all machines together: `capacity` over the sum of the terms.
    pub mops: f64,
    /// How the bound is computed, in words.
    pub text: String,
    /// Capacity of the resource in a microsecond, in the unit of the terms.
    pub capacity: f64,
    /// The amounts that an operation uses.
    pub terms: Vec<Term>,
    /// For a bound by Little's law: what limits the number of outstanding operations.
    #[serde(skip)]
    pub in_flight: Option<InFlight>,
}

impl Limit {
    /// The total amount that an operation uses of the resource.
    pub(super) fn taken(&self) -> f64 {
        self.terms.iter().map(Term::amount).sum()
    }

    /// The bound of `terms` with this capacity in a microsecond.
    pub(super) fn new(resource: Resource, capacity: f64, terms: Terms, text: String) -> Limit {
        Limit { resource, mops: capacity / terms.sum(), text, capacity, terms: terms.0, in_flight: None }
    }

    /// This bound, as a bound by Little's law.
    pub(super) fn by(self, in_flight: Option<InFlight>) -> Limit {
        Limit { in_flight, ..self }
    }
}

/// The bound of all operations if the machine of `limit` handles `share` of them.
pub(super) fn scaled(limit: &Limit, share: f64, text: String) -> Limit {
    let mut terms = Terms::default();
    terms.add_scaled(limit, share);
    Limit::new(limit.resource, limit.capacity, terms, text)
}

/// The bound of independent groups of machines: the sum of their bounds, if each group has one.
pub(super) fn sum(mut parts: Vec<Limit>) -> Option<Limit> {
    if parts.is_empty() || parts.iter().any(|limit| !limit.mops.is_finite()) {
        return None;
    }
    if parts.len() == 1 {
        return parts.pop();
    }
    let all: f64 = parts.iter().map(|limit| limit.mops).sum();
    let most = parts.iter().max_by(|a, b| a.mops.total_cmp(&b.mops))?;
    let texts: Vec<String> =
        parts.iter().map(|limit| format!("{} Mops by {}", Digits(limit.mops, 2), limit.text)).collect();
    let mut terms = Terms::default();
    parts.iter().for_each(|limit| terms.add_scaled(limit, limit.mops / all));
    let capacity = parts.iter().map(|limit| limit.capacity).sum();
    Some(Limit::new(most.resource, capacity, terms, texts.join("; ")).by(most.in_flight))
}

/// Picoseconds as nanoseconds.
pub(super) fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

/// Terms that are being gathered.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms(Vec<Term>);

impl Terms {
    /// The sum of the terms, for one operation.
    pub(super) fn sum(&self) -> f64 {
        // An empty sum is -0.0.
        self.0.iter().map(Term::amount).sum::<f64>() + 0.0
    }

    /// The time of each part in nanoseconds, in the order in which the parts first occur.
    pub(super) fn by_part(&self) -> Vec<PartTime> {
        let mut parts: Vec<PartTime> = Vec::new();
        for (part, ns) in self.0.iter().filter_map(|term| Some((term.part?, term.amount()))) {
            match parts.iter_mut().find(|of| of.part == part) {
                Some(of) => of.ns += ns,
                None => parts.push(PartTime { part, ns }),
            }
        }
        parts
    }

    /// Adds `count` times `each` picoseconds.
    pub(super) fn time(&mut self, what: &'static str, count: f64, each: u64) {
        self.push(Term { count, each: ns(each), ..Term::new(what, Measure::Nanoseconds) });
    }

    /// Adds `each` picoseconds once.
    pub(super) fn once(&mut self, what: &'static str, each: u64) {
        self.time(what, 1.0, each);
    }

    /// Adds a step of an operation. The step occupies `part` of the machines for `each` picoseconds.
    pub(super) fn step(&mut self, part: LatencyPart, what: &'static str, each: u64) {
        self.push(Term { part: Some(part), each: ns(each), ..Term::new(what, Measure::Nanoseconds) });
    }

    /// Adds all these times in picoseconds. They are the times of `operations` operations together.
    pub(super) fn times(&mut self, what: &'static str, times: impl Iterator<Item = u64>, operations: u32) {
        let (n, sum) = times.fold((0u64, 0u64), |(n, sum), time| (n + 1, sum + time));
        if n > 0 {
            let each = ns(sum) / n as f64;
            let count = n as f64 / f64::from(operations);
            self.push(Term { count, each, ..Term::new(what, Measure::Nanoseconds) });
        }
    }

    /// Adds `all` bytes as `count` equal terms.
    pub(super) fn bytes(&mut self, what: &'static str, count: u32, all: u64) {
        let each = all as f64 / f64::from(count.max(1));
        self.push(Term { count: count.into(), each, ..Term::new(what, Measure::Bytes) });
    }

    /// Adds a term that occurs once and amounts to `each`, in `unit`.
    pub(super) fn amount(&mut self, what: &'static str, each: f64, unit: Measure) {
        self.push(Term { each, ..Term::new(what, unit) });
    }

    /// Adds the terms of a bound, each `times` times.
    pub(super) fn add_scaled(&mut self, limit: &Limit, times: f64) {
        limit.terms.iter().for_each(|term| self.push(Term { count: term.count * times, ..*term }));
    }

    /// Adds all these terms.
    pub(super) fn extend(&mut self, terms: Terms) {
        terms.0.into_iter().for_each(|term| self.push(term));
    }

    /// Adds a term, unless its amount is zero.
    pub(super) fn push(&mut self, term: Term) {
        if term.amount() > 0.0 {
            self.0.push(term);
        }
    }
}

/// The bound of several workloads with their shares. The amounts of the resource that they use add up.
pub(super) fn together<'a>(parts: impl Iterator<Item = (f64, &'a Limit)>) -> Limit {
    joined(parts.collect(), |terms, _, term| terms.add(term))
}

/// The bound of the items of a mix with their shares. Each term keeps the number of its item.
pub(super) fn mixed(parts: Vec<(f64, Limit)>) -> Limit {
    let parts = parts.iter().map(|(share, limit)| (*share, limit)).collect();
    joined(parts, |terms, item, term| terms.push(Term { item: Some(item), ..term }))
}

fn joined(parts: Vec<(f64, &Limit)>, add: impl Fn(&mut Terms, usize, Term)) -> Limit {
    let mut parts: Vec<(usize, f64, &Limit)> =
        parts.into_iter().enumerate().map(|(number, (share, limit))| (number, share, limit)).collect();
    parts.sort_by(|a, b| (b.1 / b.2.mops).total_cmp(&(a.1 / a.2.mops)));
    let (_, share, most) = parts[0];
    if parts.len() == 1 {
        return most.clone();
    }
    let mut terms = Terms::default();
    for (number, share, limit) in &parts {
        // Relative to the capacity of the part that uses most.
        let scale = share * most.capacity / limit.capacity;
        let scaled = |term: &Term| Term { count: term.count * scale, ..*term };
        limit.terms.iter().for_each(|term| add(&mut terms, *number, scaled(term)));
    }
    let percent = 100.0 * share * most.capacity / most.mops / terms.sum();
    let text = format!(
        "{} kinds of work requests; the largest share, {percent:.0}%, is from {}",
        parts.len(),
        most.text
    );
    Limit::new(most.resource, most.capacity, terms, text).by(most.in_flight)
}

impl Terms {
    /// Adds the count of `term` to an equal term, or appends `term` if there is no equal term.
    fn add(&mut self, term: Term) {
        let like = |t: &&mut Term| (t.what, t.each, t.unit) == (term.what, term.each, term.unit);
        match self.0.iter_mut().find(like) {
            Some(found) => found.count += term.count,
            None => self.push(term),
        }
    }
}
