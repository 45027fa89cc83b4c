//! Bounds for classes of threads that post different operations.
//!
//! The rate of a class is at most its rate alone. All classes share the resources of the machines, but the
//! shares are not known beforehand. The bound of a resource serves the classes in order: first the class
//! whose operations use least of it, up to the rate of that class alone, then the next class. No other
//! division allows more operations. Cores are not shared, because a thread belongs to one class.

use super::alike::{bounds_by_direction, sorted};
use super::bounds;
use super::mix::{Kinds, Mix, NS_PER_US, shares};
use super::of_groups::{alike, limits_of_groups};
use super::terms::{self, Limit, Measure, Term, Terms};
use super::unlike::Machines;
use crate::{Digits, Pattern, Profile};

/// The name of a class of threads, and the kinds of operations that it posts.
pub type ClassKinds<'a> = (&'a str, &'a Kinds);

/// A class, and its lowest bound when it runs alone.
struct Alone<'a> {
    name: &'a str,
    kinds: &'a Kinds,
    least: Limit,
}

/// All bounds of classes of threads that run together on these machines, the lowest first.
pub fn limits_of_classes(groups: &[Machines<'_>], classes: &[ClassKinds<'_>]) -> Vec<Limit> {
    let alone = |&(name, kinds)| {
        let least = limits_of_groups(groups, kinds).into_iter().next()?;
        Some(Alone { name, kinds, least })
    };
    let all: Vec<Alone<'_>> = classes.iter().filter_map(alone).collect();
    let patterns: Vec<Pattern> =
        all.iter().flat_map(|class| class.kinds).map(|(mix, _)| mix.pattern).collect();
    let mut limits: Vec<Limit> = sum_of(&all).into_iter().collect();
    // Each pattern has its own groups, so bounds can be shared only if all classes have one pattern.
    if let Some((profile, machines)) = alike(groups).filter(|_| patterns.iter().all(|p| *p == patterns[0])) {
        limits.extend(shared(profile, machines, &all));
    }
    sorted(limits)
}

/// The bound if no class slows another class: the sum of the classes' bounds alone.
fn sum_of(all: &[Alone<'_>]) -> Option<Limit> {
    let each = all.iter().enumerate().map(|(number, class)| {
        let mut terms = Terms::default();
        let what = "an operation at the lowest bound of its class";
        terms.push(Term {
            part: None,
            what,
            count: 1.0,
            each: NS_PER_US / class.least.mops,
            unit: Measure::Nanoseconds,
            item: None,
            class: Some(number),
        });
        let text = format!("class {}: {}", class.name, class.least.text);
        Limit::new(class.least.resource, NS_PER_US, terms, text)
    });
    terms::sum(each.collect())
}

/// The bounds of each resource of the machines, for all classes together.
fn shared(profile: &Profile, machines: u32, all: &[Alone<'_>]) -> Vec<Limit> {
    let here = |class: &Alone<'_>| -> Vec<(f64, Mix)> {
        shares(class.kinds).map(|(mix, share)| (share, Mix { machines, ..*mix })).collect()
    };
    let mixes: Vec<Vec<(f64, Mix)>> = all.iter().map(here).collect();
    let of_class = |kinds: &Vec<(f64, Mix)>| -> Vec<Limit> {
        let each: Vec<(f64, Vec<Limit>)> =
            kinds.iter().map(|(share, mix)| (*share, bounds_by_direction(profile, mix))).collect();
        let bound = |i: usize| match &each[..] {
            [(_, bounds)] => bounds[i].clone(),
            _ => terms::mixed(each.iter().map(|(share, bounds)| (*share, bounds[i].clone())).collect()),
        };
        (0..each[0].1.len()).map(bound).collect()
    };
    let bounds: Vec<Vec<Limit>> = mixes.iter().map(of_class).collect();
    let groups: Vec<_> = mixes.iter().map(|kinds| kinds[0].1.groups()).collect();
    let of_groups = (0..groups[0].len()).flat_map(|group| {
        let taking = groups.iter().map(|all| all[group].machines).max().unwrap_or(0);
        let kinds = (0..bounds::KINDS.len()).filter(|kind| *kind != bounds::CORES);
        kinds.map(move |kind| (group, kind, taking as f64))
    });
    let capacities = bounds::capacities(profile, mixes[0][0].1.ports);
    let limit = |(group, kind, taking): (usize, usize, f64)| {
        let own: Vec<&Limit> =
            bounds.iter().map(|bounds| &bounds[group * bounds::KINDS.len() + kind]).collect();
        let each = own.iter().map(|limit| limit.capacity);
        let capacity = match capacities[kind] {
            Some(of_one) => each.sum::<f64>().min(of_one * taking),
            None => each.fold(0.0, f64::max),
        };
        share(all, &own, capacity)
    };
    of_groups.filter_map(limit).collect()
}

/// The bound that a resource with this capacity sets; `None` if the resource slows no class. `own` gives the
/// amount that an operation of each class uses. The classes that use least are served first, each up to its
/// rate alone.
fn share(all: &[Alone<'_>], own: &[&Limit], capacity: f64) -> Option<Limit> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| own[*a].taken().total_cmp(&own[*b].taken()));
    let (mut left, mut rates, mut is_bound) = (capacity, vec![0.0; all.len()], false);
    for number in order {
        let (each, alone) = (own[number].taken(), all[number].least.mops);
        rates[number] = if each * alone <= left { alone } else { left / each };
        is_bound |= each * alone > left;
        left = (left - each * rates[number]).max(0.0);
    }
    let together: f64 = rates.iter().sum();
    is_bound.then_some(())?;
    let mut terms = Terms::default();
    for (number, (limit, rate)) in own.iter().zip(&rates).enumerate() {
        let of_class =
            |term: &Term| Term { count: term.count * rate / together, class: Some(number), ..*term };
        limit.terms.iter().for_each(|term| terms.push(of_class(term)));
    }
    let taken = |number: &usize| own[*number].taken() * rates[*number];
    let first = (0..all.len()).max_by(|a, b| taken(a).total_cmp(&taken(b)))?;
    let percent = 100.0 * taken(&first) / capacity;
    let each: Vec<String> =
        all.iter().zip(&rates).map(|(c, rate)| format!("{} {}", c.name, Digits(*rate, 2))).collect();
    let text = format!(
        "shared by classes ({} Mops), {percent:.0}% for {}: {}",
        each.join(", "),
        all[first].name,
        own[first].text
    );
    Some(Limit::new(own[first].resource, capacity, terms, text))
}
