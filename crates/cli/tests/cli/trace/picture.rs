//! Draws a trace of one operation as SVG: its stages, and below them the busy resources of each machine.

use super::reader::{Slice, Trace};
use std::fmt::Write;

/// Pixels.
const WIDTH: f64 = 1100.0;
const LABELS: f64 = 300.0;
const ROW: f64 = 22.0;
const BAR: f64 = 16.0;
/// Approximate width of a letter.
const LETTER: f64 = 5.6;

/// Colours for the work of the CPU, units, links and PCIe. Waiting is grey.
fn colour(name: &str) -> &'static str {
    match name {
        "post" | "MMIO" | "poll" | "core 0" => "#8fb8de",
        _ if name.starts_with("waits") => "#dddddd",
        _ if name.contains("unit") || name.contains("issues") => "#f2b872",
        _ if name.contains("link") || name.contains("port") => "#9ccc9c",
        _ => "#d7a3c7",
    }
}

/// Duration of a slice in nanoseconds. It has a decimal if picoseconds are known.
fn ns(slice: &Slice) -> String {
    match slice.numbers.get("ps") {
        Some(ps) => format!("{:.1}", *ps as f64 / 1e3),
        None => (slice.to - slice.from).to_string(),
    }
}

struct Picture {
    svg: String,
    from: u64,
    to: u64,
    y: f64,
}

impl Picture {
    fn x(&self, time: u64) -> f64 {
        LABELS + (time - self.from) as f64 / (self.to - self.from) as f64 * (WIDTH - LABELS - 10.0)
    }

    fn text(&mut self, x: f64, anchor: &str, weight: &str, text: &str) {
        let y = self.y + BAR - 4.0;
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>"
        );
    }

    fn bar(&mut self, slice: &Slice, fill: &str) {
        let (x, end) = (self.x(slice.from.max(self.from)), self.x(slice.to.min(self.to)));
        let (y, width) = (self.y, (end - x).max(1.0));
        let ns = ns(slice);
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{fill}\" stroke=\"#666\" \
             stroke-width=\"0.5\"><title>{}: {ns} ns</title></rect>",
            slice.name
        );
        let named = format!("{} {ns}", slice.name);
        for label in [named, ns] {
            if label.len() as f64 * LETTER < width {
                return self.text((x + end) / 2.0, "middle", "normal", &label);
            }
        }
    }

    fn row(&mut self, label: &str, slices: &[&Slice]) {
        self.text(8.0, "start", "normal", label);
        for slice in slices {
            let by = if slice.depth == 0 && !slice.track.contains("QP") { &slice.track } else { &slice.name };
            self.bar(slice, colour(by));
        }
        self.y += ROW;
    }

    fn heading(&mut self, text: &str) {
        self.y += 6.0;
        self.text(8.0, "start", "bold", text);
        self.y += ROW;
    }
}

/// Draws the first operation of a trace.
pub(crate) fn draw(trace: &Trace) -> String {
    let operations = trace.operations();
    let (operation, stages) = operations.first().expect("an operation");
    let mut picture = Picture { svg: String::new(), from: operation.from, to: operation.to, y: 6.0 };
    let (process, ns) = (&operation.process, ns(operation));
    picture.heading(&format!("{} of {process}, {}: {ns} ns", operation.name, operation.track));
    for stage in stages {
        picture.row(&format!("{} ({} ns)", stage.name, self::ns(stage)), &[stage]);
    }
    let mut rows: Vec<(&str, &str, Vec<&Slice>)> = Vec::new();
    let during = |s: &&Slice| s.depth == 0 && s.from < operation.to && s.to > operation.from;
    for slice in trace.slices.iter().filter(during).filter(|s| !s.track.starts_with("QP")) {
        match rows.iter_mut().find(|(p, track, _)| *p == slice.process && *track == slice.track) {
            Some((.., slices)) => slices.push(slice),
            None => rows.push((&slice.process, &slice.track, vec![slice])),
        }
    }
    let mut processes: Vec<&str> = rows.iter().map(|(process, ..)| *process).collect();
    processes.sort_unstable();
    processes.dedup();
    // The posting machine comes first.
    processes.sort_by_key(|process| *process != operation.process);
    for process in processes {
        picture.heading(&format!("What is busy on {process}"));
        for (_, track, slices) in rows.iter().filter(|(p, ..)| *p == process) {
            picture.row(track, slices);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
        picture.y + 8.0,
        picture.svg
    )
}
