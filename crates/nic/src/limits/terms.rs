//! What an operation takes of a resource, term by term.

use crate::parts::LatencyPart;
use crate::{Digits, Resource};
use schemars::JsonSchema;
use serde::Serialize;

/// In what a resource is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Measure {
    /// Nanoseconds of something that does one thing at a time.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes of a link.
    #[serde(rename = "B")]
    Bytes,
}

/// Part of what an operation takes of a resource: `count` times `each`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Term {
    /// What it takes it for.
    pub what: &'static str,
    /// Of a step of an operation's way: which part of the machines takes it, which `what` begins with.
    #[serde(skip)]
    pub part: Option<LatencyPart>,
    /// How many of these an operation has, on average.
    pub count: f64,
    /// What one takes, on average, in `unit`.
    pub each: f64,
    /// In what it is measured.
    pub unit: Measure,
    /// Which item of a mix takes it, counted from 0; absent where all operations are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<usize>,
    /// Which class of threads takes it, counted from 0; absent where there are no classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
}

impl Term {
    /// Once nothing of a resource that is measured so.
    const fn new(what: &'static str, unit: Measure) -> Term {
        Term { what, part: None, count: 1.0, each: 0.0, unit, item: None, class: None }
    }

    /// What an operation takes of it, in its unit.
    pub fn amount(&self) -> f64 {
        self.count * self.each
    }
}

/// What a part of the machines takes of an operation's time where nothing waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartTime {
    /// Which part.
    pub part: LatencyPart,
    /// Nanoseconds.
    pub ns: f64,
}

/// A bound.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    /// What sets it.
    pub resource: Resource,
    /// Millions of operations per second of all machines together: `capacity` over the sum of the terms.
    pub mops: f64,
    /// How it is computed, in words.
    pub text: String,
    /// What there is of the resource in a microsecond, in the unit of the terms.
    pub capacity: f64,
    /// What an operation takes of it.
    pub terms: Vec<Term>,
}

impl Limit {
    /// What an operation takes of it in all.
    pub(super) fn taken(&self) -> f64 {
        self.terms.iter().map(Term::amount).sum()
    }

    /// The bound of `terms` where there is so much in a microsecond.
    pub(super) fn new(resource: Resource, capacity: f64, terms: Terms, text: String) -> Limit {
        Limit { resource, mops: capacity / terms.sum(), text, capacity, terms: terms.0 }
    }
}

/// The bound of a machine that takes `share` of all operations.
pub(super) fn scaled(limit: &Limit, share: f64, text: String) -> Limit {
    let mut terms = Terms::default();
    terms.add_scaled(limit, share);
    Limit::new(limit.resource, limit.capacity, terms, text)
}

/// The bound of groups of machines that do not depend on each other: the sum of theirs, if each has one.
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
    Some(Limit::new(most.resource, capacity, terms, texts.join("; ")))
}

/// Picoseconds as nanoseconds.
pub(super) fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

/// Terms that are being gathered.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms(Vec<Term>);

impl Terms {
    /// What they come to, for an operation.
    pub(super) fn sum(&self) -> f64 {
        // The sum of nothing is -0.0.
        self.0.iter().map(Term::amount).sum::<f64>() + 0.0
    }

    /// What the steps of a way take of each part, in nanoseconds, in the order in which the parts come first.
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

    /// `count` times `each` picoseconds.
    pub(super) fn time(&mut self, what: &'static str, count: f64, each: u64) {
        self.push(Term { count, each: ns(each), ..Term::new(what, Measure::Nanoseconds) });
    }

    /// Once `each` picoseconds.
    pub(super) fn once(&mut self, what: &'static str, each: u64) {
        self.time(what, 1.0, each);
    }

    /// A step of an operation's way that takes a part of the machines `each` picoseconds.
    pub(super) fn step(&mut self, part: LatencyPart, what: &'static str, each: u64) {
        self.push(Term { part: Some(part), each: ns(each), ..Term::new(what, Measure::Nanoseconds) });
    }

    /// All of these times in picoseconds, shared by `operations`.
    pub(super) fn times(&mut self, what: &'static str, times: impl Iterator<Item = u64>, operations: u32) {
        let (n, sum) = times.fold((0u64, 0u64), |(n, sum), time| (n + 1, sum + time));
        if n > 0 {
            let each = ns(sum) / n as f64;
            let count = n as f64 / f64::from(operations);
            self.push(Term { count, each, ..Term::new(what, Measure::Nanoseconds) });
        }
    }

    /// `count` times so many bytes in all.
    pub(super) fn bytes(&mut self, what: &'static str, count: u32, all: u64) {
        let each = all as f64 / f64::from(count.max(1));
        self.push(Term { count: count.into(), each, ..Term::new(what, Measure::Bytes) });
    }

    /// So much of something.
    pub(super) fn amount(&mut self, what: &'static str, each: f64, unit: Measure) {
        self.push(Term { each, ..Term::new(what, unit) });
    }

    /// The terms of a bound, each so many times.
    pub(super) fn add_scaled(&mut self, limit: &Limit, times: f64) {
        limit.terms.iter().for_each(|term| self.push(Term { count: term.count * times, ..*term }));
    }

    /// All of these.
    pub(super) fn extend(&mut self, terms: Terms) {
        terms.0.into_iter().for_each(|term| self.push(term));
    }

    /// A term that comes to nothing is left out.
    pub(super) fn push(&mut self, term: Term) {
        if term.amount() > 0.0 {
            self.0.push(term);
        }
    }
}

/// A bound of several workloads with their shares: what each needs of a resource adds up.
pub(super) fn together<'a>(parts: impl Iterator<Item = (f64, &'a Limit)>) -> Limit {
    joined(parts.collect(), |terms, _, term| terms.add(term))
}

/// The same of the items of a mix, by their numbers, which the terms keep.
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
        // Of what there is for the part that takes most.
        let scale = share * most.capacity / limit.capacity;
        let scaled = |term: &Term| Term { count: term.count * scale, ..*term };
        limit.terms.iter().for_each(|term| add(&mut terms, *number, scaled(term)));
    }
    let percent = 100.0 * share * most.capacity / most.mops / terms.sum();
    let text = format!("{} kinds of work requests; {percent:.0}% is from {}", parts.len(), most.text);
    Limit::new(most.resource, most.capacity, terms, text)
}

impl Terms {
    /// Adds to the term that is like this one.
    fn add(&mut self, term: Term) {
        let like = |t: &&mut Term| (t.what, t.each, t.unit) == (term.what, term.each, term.unit);
        match self.0.iter_mut().find(like) {
            Some(found) => found.count += term.count,
            None => self.push(term),
        }
    }
}
