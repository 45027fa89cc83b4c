//! Text report of live runs.

use super::result::{IN_TURN, Live, Run};
use crate::table::{self, Align};
use doorbell_live::LlcUse;
use doorbell_nic::{Digits, counted};
use doorbell_schema::Value;
use std::fmt::Write;

/// The report, with a column for each run.
pub(super) fn text(live: &Live) -> String {
    let Live { machine, device, runs, .. } = live;
    let mut header = vec![("", Align::Left)];
    let titles: Vec<String> = runs.iter().map(title).collect();
    header.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
    let mut text = table::columns(&header, rows(runs));
    if let Some(none) = runs.iter().find_map(|run| run.threads.no_llc.as_ref()) {
        let _ = write!(text, "\n  {none}\n");
    }
    let _ = write!(
        text,
        "\nMeasured on this machine, not simulated: {}, {}, Linux {}\n  device {} of {}\n",
        machine.processor,
        counted(machine.processors as u64, "processor"),
        machine.kernel,
        device.name,
        device.library.display(),
    );
    if let Some(most) =
        runs.iter().map(|run| run.threads.threads).max().filter(|n| *n as usize > machine.processors)
    {
        let _ = writeln!(text, "  {most} threads shared the processors, which makes latencies longer");
    }
    text
}

fn title(run: &Run) -> String {
    match run.workload.value(IN_TURN) {
        Some(Value::Text(stack)) => stack,
        _ => String::new(),
    }
}

fn rows(runs: &[Run]) -> Vec<Vec<String>> {
    let us = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{} us", Digits(ns / 1e3, 2)));
    let exact = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
    let llc = |llc: LlcUse| {
        let misses = llc.misses as f64 / llc.references.max(1) as f64;
        format!("{} of {} missed ({}%)", llc.misses, llc.references, Digits(misses * 100.0, 1))
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&Run) -> String| {
        rows.push([name.to_owned()].into_iter().chain(runs.iter().map(of)).collect());
    };
    row("operations", &|run| run.done.to_string());
    row("rate", &|run| format!("{} krps", Digits(run.mrps * 1e3, 2)));
    if let Some(of) = runs.iter().find_map(|run| run.workload.latency_of()) {
        row("latency covers", &|_| of.to_owned());
    }
    row("latency, mean", &|run| us(run.latency_ns.mean));
    row("latency, least", &|run| exact(run.latency_ns.min));
    row("latency, p50", &|run| exact(run.latency_ns.p50));
    row("latency, p99", &|run| exact(run.latency_ns.p99));
    row("latency, p99.9", &|run| exact(run.latency_ns.p999));
    if runs.iter().any(|run| run.again > 0.0) {
        row("restarts per operation", &|run| Digits(run.again, 4).to_string());
    }
    if let Some(with_kernel) = runs.iter().find_map(|run| Some(run.threads.llc.as_ref()?.with_kernel)) {
        let whose = if with_kernel { "" } else { ", without the kernel" };
        let dash = "-".to_owned();
        row(&format!("LLC, server{whose}"), &|run| {
            run.threads.llc.as_ref().map_or(dash.clone(), |all| llc(all.server))
        });
        row(&format!("LLC, clients{whose}"), &|run| {
            run.threads.llc.as_ref().map_or(dash.clone(), |all| llc(all.clients))
        });
    }
    rows
}
