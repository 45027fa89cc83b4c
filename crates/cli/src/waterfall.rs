//! The stages of traced operations: a table of their means, and a picture of one operation.

use crate::table::{self, Align};
use doorbell_lab::{Breakdown, MeanStage, OperationStage, StageKind, StageSide, TimedStage};
use doorbell_nic::counted;
use std::fmt::Write;

/// Pixels.
const WIDTH: f64 = 1100.0;
const LABELS: f64 = 300.0;
const RIGHT: f64 = 10.0;
const ROW: f64 = 22.0;
const BAR: f64 = 16.0;
/// Width of an entry of the legend.
const ENTRY: f64 = 130.0;
/// Approximate width of a letter.
const LETTER: f64 = 5.6;

/// Kinds of stages in the order of the legend, with their names.
const KINDS: [(StageKind, &str); 5] = [
    (StageKind::Cpu, "core"),
    (StageKind::Unit, "unit of a NIC"),
    (StageKind::Pcie, "PCIe and memory"),
    (StageKind::Network, "network"),
    (StageKind::Wait, "waiting"),
];

const fn colour(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Cpu => "#8fb8de",
        StageKind::Unit => "#f2b872",
        StageKind::Pcie => "#d7a3c7",
        StageKind::Network => "#9ccc9c",
        StageKind::Wait => "#dddddd",
    }
}

/// Whether the operation consists of the work of several threads, so that its sides are client and server.
fn has_program(breakdown: &Breakdown) -> bool {
    breakdown.stages.iter().any(|stage| stage.of == OperationStage::Program)
}

/// The table of stages. Its times and shares add up to the last row.
pub(crate) fn table(breakdown: &Breakdown) -> String {
    let Breakdown { operations, left_out, mean_ns, latencies, stages, typical } = breakdown;
    let (own, other) = match has_program(breakdown) {
        true => ("client", "server"),
        false => ("requester", "responder"),
    };
    let cells = |place: &str, name: &str, ns: f64, share: f64| {
        let numbers = [format!("{ns:.1} ns"), format!("{:.1}%", share * 100.0)];
        [place.to_owned(), name.to_owned()].into_iter().chain(numbers).collect::<Vec<_>>()
    };
    let row = |MeanStage { stage, side, mean_ns, share, .. }: &MeanStage| {
        let place = match side {
            StageSide::Requester => own,
            StageSide::Responder => other,
            StageSide::Network => "network",
        };
        cells(place, stage, *mean_ns, *share)
    };
    let mut rows: Vec<Vec<String>> = stages.iter().map(row).collect();
    rows.push(cells("all", "", *mean_ns, 1.0));
    let header = [("", Align::Left), ("", Align::Left), ("takes", Align::Right), ("of all", Align::Right)];
    let mut text = format!("\nStages of an operation\n{}", table::columns(&header, rows));
    let of = counted(*operations, "operation");
    let _ = writeln!(
        text,
        "  mean of {of}; the median is {:.1} ns ({} of machine {})",
        typical.time_ns, typical.work_requests, typical.machine
    );
    if *latencies > 1 {
        let each = mean_ns / f64::from(*latencies);
        let _ = writeln!(text, "  the result counts this time as {latencies} latencies of {each:.1} ns");
    }
    if *left_out > 0 {
        let left_out = counted(*left_out, "traced operation");
        let _ = writeln!(text, "  without {left_out} that did not complete or posted a message again");
    }
    text
}

/// A picture with a horizontal axis of time.
struct Picture {
    svg: String,
    /// Length of the axis in nanoseconds.
    length: f64,
    y: f64,
}

impl Picture {
    fn x(&self, ns: f64) -> f64 {
        LABELS + ns / self.length * (WIDTH - LABELS - RIGHT)
    }

    fn text(&mut self, x: f64, anchor: &str, weight: &str, text: &str) {
        let y = self.y + BAR - 4.0;
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>"
        );
    }

    /// Draws a bar with a title that viewers show under the pointer.
    fn bar(&mut self, (x, width): (f64, f64), kind: StageKind, title: &str) {
        let (y, fill) = (self.y, colour(kind));
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{fill}\" \
             stroke=\"#666\" stroke-width=\"0.5\"><title>{title}</title></rect>"
        );
    }

    fn heading(&mut self, text: &str) {
        self.text(8.0, "start", "bold", text);
        self.y += ROW;
    }

    fn legend(&mut self) {
        for (at, (kind, name)) in KINDS.into_iter().enumerate() {
            let x = LABELS + at as f64 * ENTRY;
            self.bar((x, BAR), kind, name);
            self.text(x + BAR + 6.0, "start", "normal", name);
        }
        self.y += ROW;
    }

    fn stage(&mut self, TimedStage { of, stage, machine, from_ns, to_ns, .. }: &TimedStage) {
        let ns = format!("{:.1}", to_ns - from_ns);
        let place = machine.map_or_else(|| "network".to_owned(), |machine| format!("machine {machine}"));
        self.text(8.0, "start", "normal", &format!("{stage}, {place} ({ns} ns)"));
        let (x, end) = (self.x(*from_ns), self.x(*to_ns));
        let width = (end - x).max(1.0);
        self.bar((x, width), of.kind(), &format!("{stage}, {place}: {ns} ns"));
        if let Some(label) =
            [format!("{stage} {ns}"), ns].iter().find(|label| label.len() as f64 * LETTER < width)
        {
            self.text((x + end) / 2.0, "middle", "normal", label);
        }
        self.y += ROW;
    }
}

/// Draws the stages of the operation of median time over time, as SVG.
pub(crate) fn draw(breakdown: &Breakdown) -> String {
    let typical = &breakdown.typical;
    let mut picture = Picture { svg: String::new(), length: typical.time_ns, y: 12.0 };
    picture.heading(&format!(
        "{} of machine {}: {:.1} ns, the median of {}",
        typical.work_requests,
        typical.machine,
        typical.time_ns,
        counted(breakdown.operations, "operation")
    ));
    picture.legend();
    typical.stages.iter().for_each(|stage| picture.stage(stage));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
        picture.y + 8.0,
        picture.svg
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::assert_well_formed;
    use doorbell_lab::TypicalOperation;

    /// A breakdown of one operation with these stages: each has a machine and a length in nanoseconds.
    fn breakdown(stages: &[(OperationStage, Option<u32>, f64)], latencies: u32) -> Breakdown {
        let time_ns: f64 = stages.iter().map(|(.., ns)| ns).sum();
        let side = |machine: Option<u32>| match machine {
            None => StageSide::Network,
            Some(1) => StageSide::Requester,
            Some(_) => StageSide::Responder,
        };
        let mean = |&(of, machine, mean_ns): &(OperationStage, Option<u32>, f64)| MeanStage {
            of,
            stage: of.name(),
            side: side(machine),
            mean_ns,
            share: mean_ns / time_ns,
        };
        let mut at = 0.0;
        let timed = stages.iter().map(|&(of, machine, ns)| {
            let from_ns = at;
            at += ns;
            TimedStage { of, stage: of.name(), side: side(machine), machine, from_ns, to_ns: at }
        });
        let typical = TypicalOperation {
            work_requests: "WRITE 2 B".into(),
            machine: 1,
            time_ns,
            stages: timed.collect(),
        };
        let stages = stages.iter().map(mean).collect();
        Breakdown { operations: 9, left_out: 3, mean_ns: time_ns, latencies, stages, typical }
    }

    #[test]
    fn each_stage_has_a_row_and_the_rows_add_up() {
        use OperationStage::{Link, Post, Program};
        let stages = [(Post, Some(1), 30.0), (Link, None, 400.0), (Program, Some(0), 70.0)];
        let text = table(&breakdown(&stages, 2));
        for words in [
            ["client", "post", "30.0 ns", "6.0%"],
            ["network", "link", "400.0 ns", "80.0%"],
            ["server", "program", "70.0 ns", "14.0%"],
            ["all", "", "500.0 ns", "100.0%"],
        ] {
            let has = |line: &&str| words.iter().all(|word| line.contains(word));
            assert_eq!(text.lines().filter(has).count(), 1, "{words:?}: {text}");
        }
        assert!(text.contains("mean of 9 operations; the median is 500.0 ns (WRITE 2 B of machine 1)"));
        assert!(text.contains("2 latencies") && text.contains("without 3 traced operations"), "{text}");
        let verbs = table(&breakdown(&stages[..2], 1));
        assert!(verbs.contains("requester") && !verbs.contains("latencies"), "{verbs}");
    }

    #[test]
    fn a_picture_has_a_bar_for_each_stage() {
        use OperationStage::{Link, Post, Program};
        let svg = draw(&breakdown(&[(Post, Some(1), 0.2), (Link, None, 800.0), (Program, Some(0), 0.1)], 1));
        assert_well_formed(&svg);
        // The background, the legend, and three stages.
        assert_eq!(svg.matches("<rect").count(), 1 + KINDS.len() + 3, "{svg}");
        assert!(svg.contains("WRITE 2 B of machine 1: 800.3 ns, the median of 9 operations"), "{svg}");
        assert!(svg.contains(">link, network (800.0 ns)</text>"), "{svg}");
        assert_eq!(svg.matches("width=\"1.0\"").count(), 2, "short stages stay visible: {svg}");
    }
}
