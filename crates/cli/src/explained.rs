//! Text about reruns and advice.

use crate::screen;
use crate::table::{self, Align};
use doorbell_lab::{Advice, Gain, Lift, OperationTime, TogetherLift, change};
use doorbell_nic::{Digits, Resource};
use std::fmt::Write;

/// Columns of a line that lists several things.
const WIDTH: usize = 110;

/// Text about reruns with more of each resource. It lists the gains that change the rate, then the resources
/// that do not change it.
pub(crate) fn lifts(lifts: &[Lift], together: Option<&TogetherLift>) -> String {
    if lifts.is_empty() {
        return String::new();
    }
    let set = together.map(|t| vec![t.more.join(", "), change(Gain { gain: t.gain, half: t.gain_half })]);
    let (changing, none): (Vec<&Lift>, Vec<&Lift>) =
        lifts.iter().partition(|lift| lift.change().is_noticeable());
    let single = changing.into_iter().map(|lift| vec![lift.more(), change(lift.change())]);
    let rows: Vec<Vec<String>> = set.into_iter().chain(single).collect();
    let header = [("more of", Align::Left), ("changes the rate by", Align::Right)];
    let mut text = "\n".to_owned();
    if !rows.is_empty() {
        text += &table::columns(&header, rows);
    }
    text + &wrapped("no change by ", &by_resource(&none))
}

/// Lists each resource once, with all amounts by which it was increased.
fn by_resource(lifts: &[&Lift]) -> Vec<String> {
    let mut all: Vec<(Resource, String)> = Vec::new();
    for lift in lifts {
        match all.iter_mut().find(|(resource, _)| *resource == lift.resource) {
            Some((_, more)) => *more += &format!(" {}", lift.amount()),
            None => all.push((lift.resource, lift.more())),
        }
    }
    all.into_iter().map(|(_, more)| more).collect()
}

/// Text of a list that follows the word `begin`, broken into lines of at most [`WIDTH`] columns, or of the
/// terminal's columns.
fn wrapped(begin: &str, all: &[String]) -> String {
    let width = screen::columns().map_or(WIDTH, |columns| columns.min(WIDTH + 1) - 1);
    if all.is_empty() {
        return String::new();
    }
    let mut lines = vec![format!("  {begin}")];
    for (number, one) in all.iter().enumerate() {
        let last = lines.last_mut().expect("there is one");
        let separator = if number == 0 { "" } else { ", " };
        match last.len() + separator.len() + one.len() > width {
            true => {
                last.push(',');
                lines.push(format!("  {}{one}", " ".repeat(begin.len())));
            }
            false => {
                let _ = write!(last, "{separator}{one}");
            }
        }
    }
    lines.join("\n") + "\n"
}

/// Table of the parts of an operation's latency.
pub(crate) fn time(time: &OperationTime) -> String {
    let all = time.least_ns + time.waiting_ns;
    let row = |part: &str, ns: f64| {
        vec![part.to_owned(), format!("{} ns", Digits(ns, 0)), format!("{}%", Digits(ns / all * 100.0, 1))]
    };
    let mut rows: Vec<_> = time.parts.iter().map(|part| row(part.part.name(), part.ns)).collect();
    rows.push(row("waits and idle QPs", time.waiting_ns));
    let header = [("", Align::Left), ("takes", Align::Right), ("of all", Align::Right)];
    format!("\nTime of an operation\n{}", table::columns(&header, rows))
}

/// Text in place of advice for threads in classes.
pub(crate) const NO_ADVICE_OF_CLASSES: &str =
    "\nAdvice: not available for threads in classes, because only their file sets their options\n";

/// Table of changed options with their gains, for an explained run.
pub(crate) fn advice(all: Option<&[Advice]>) -> String {
    let Some(all) = all else { return "\nAdvice: no other options were tried\n".to_owned() };
    if all.is_empty() {
        return "\nAdvice: none of the tried options raises the rate\n".to_owned();
    }
    let star = |advice: &Advice| if advice.unsettled.is_some() { "*" } else { "" }.to_owned();
    let row = |advice: &Advice| vec![change(advice.change()), star(advice), advice.command.clone()];
    let header = [("changes the rate by", Align::Right), ("", Align::Left), ("command", Align::Left)];
    let table = table::whole(&header, all.iter().map(row).collect());
    let note = match all.iter().any(|advice| advice.unsettled.is_some()) {
        true => "  * The measured rate may differ from the long-run rate: measure for longer.\n",
        false => "",
    };
    format!("\nAdvice\n{table}{note}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_takes_several_lines() {
        let all: Vec<String> = (0..30).map(|i| format!("resource-{i}")).collect();
        let text = wrapped("no change by ", &all);
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.len() <= WIDTH + 1), "{text}");
        assert_eq!(text.split(", ").flat_map(|p| p.split(",\n")).count(), 30, "{text}");
    }
}
