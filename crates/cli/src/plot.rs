//! Plots of a report, one SVG per experiment. An SVG shows the experiment's curves. Without curves, it shows
//! the numbers of its claims.

use doorbell_reproduce::claims::{self, MarkAxis, Value};
use doorbell_reproduce::{ClaimReport, Curve, Report};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
pub(crate) type DrawError = DrawingAreaErrorKind<std::io::Error>;

/// Width in pixels. A README shows it without scaling.
const WIDTH: u32 = 900;
const TITLE_HEIGHT: u32 = 34;
const LINE_HEIGHT: u32 = 20;
const PANEL_HEIGHT: u32 = 310;
const BAR_ROW: u32 = 40;
/// Space for the label beside the longest bar.
const BAR_LABEL: u32 = 290;
const TEXT: u32 = 13;
/// Width of a character at [`TEXT`] height. It is rounded up because SVG viewers choose the font.
const CHARACTER: usize = 7;

/// Okabe and Ito's colours, distinguishable with any colour vision. Yellow is too light for lines on white.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];
const PAPER: RGBColor = RGBColor(150, 150, 150);
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Contents of one SVG.
pub(crate) struct Figure<'a> {
    /// Heading.
    pub(crate) title: String,
    /// Claims of the experiment.
    pub(crate) claims: Vec<&'a ClaimReport>,
    /// Curves of the experiment.
    pub(crate) curves: Vec<DrawnCurve<'a>>,
}

/// A curve with the marks of its points.
#[derive(Clone)]
pub(crate) struct DrawnCurve<'a> {
    /// The curve. A point without a finite y is a gap.
    pub(crate) curve: &'a Curve,
    /// Intervals of y, each with its x.
    pub(crate) intervals: Vec<(f64, Range<f64>)>,
    /// The x of points with more operations due than complete. They are marked at their y, or at the top of
    /// the panel if y is unknown, because it grows without limit.
    pub(crate) overload: Vec<f64>,
}

impl<'a> From<&'a Curve> for DrawnCurve<'a> {
    fn from(curve: &'a Curve) -> DrawnCurve<'a> {
        DrawnCurve { curve, intervals: Vec::new(), overload: Vec::new() }
    }
}

impl<'a> Figure<'a> {
    /// A figure of the claims and curves in `report` that belong to experiment `name` of `paper`.
    pub(crate) fn of(report: &'a Report, paper: &str, name: &str, title: &str) -> Figure<'a> {
        let path = format!("{paper}/{name}");
        Figure {
            claims: report.claims.iter().filter(|c| c.paper == paper && c.experiment == name).collect(),
            curves: report.curves.iter().filter(|c| c.experiment == path).map(DrawnCurve::from).collect(),
            title: format!("{path}: {title}"),
        }
    }

    /// The SVG. `None` if there is no number to draw.
    pub(crate) fn svg(&self) -> Result<Option<String>, DrawError> {
        if !self.curves.is_empty() {
            return self.lines().map(Some);
        }
        let bars: Vec<Bars> = self.claims.iter().filter_map(|c| Bars::of(c, &self.claims)).collect();
        if bars.is_empty() { Ok(None) } else { self.bars(&bars).map(Some) }
    }

    fn lines(&self) -> Result<String, DrawError> {
        let panels = panels(&self.curves);
        let names = unique(self.curves.iter().map(|c| c.curve.name.as_str()));
        let marks: Vec<Vec<Mark>> = panels.iter().map(|p| self.marks(p, &names)).collect();
        let meanings = unique(marks.iter().flatten().map(|m| m.meaning));
        let meanings: Vec<String> = meanings.into_iter().map(|m| format!("paper: {m}")).collect();
        let named = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let mut legend: Vec<Entry> = named.map(|(i, n)| (*n, style(i), Sample::Line)).collect();
        if self.curves.iter().any(|c| !c.intervals.is_empty()) {
            legend.push((INTERVAL, INK.stroke_width(1), Sample::Interval));
        }
        if self.curves.iter().any(|c| !c.overload.is_empty()) {
            legend.push((OVERLOAD, INK.stroke_width(1), Sample::Overload));
        }
        legend.extend(meanings.iter().map(|m| (m.as_str(), INK.stroke_width(1), Sample::Mark)));
        let head = TITLE_HEIGHT + legend_height(&legend);
        let columns = panels.len().min(if panels.len() == 4 { 2 } else { 3 });
        let rows = panels.len().div_ceil(columns);
        let height = head + rows as u32 * PANEL_HEIGHT;
        canvas(height, &self.title, |root| {
            draw_legend(root, &legend)?;
            let below = root.split_vertically(head).1;
            for (area, (panel, marks)) in
                below.split_evenly((rows, columns)).iter().zip(panels.iter().zip(&marks))
            {
                draw_panel(area, panel, &names, marks)?;
            }
            Ok(())
        })
    }

    /// The paper's numbers that belong to the curves of `panel`.
    fn marks(&self, panel: &[&DrawnCurve<'_>], names: &[&str]) -> Vec<Mark> {
        let of = |c: &&ClaimReport| {
            let mark = claims::marks().iter().find(|m| m.claim == c.id)?;
            let series = names.iter().position(|n| *n == mark.curve)?;
            panel.iter().find(|of| of.curve.name == mark.curve && of.curve.profile == c.profile)?;
            let Value::Number(value) = c.paper_value else { return None };
            let place = match (mark.axis, mark.at) {
                (MarkAxis::X, _) => Place::Vertical(value),
                (MarkAxis::Y, None) => Place::Horizontal(value),
                (MarkAxis::Y, Some(x)) => Place::Point(x, value),
            };
            Some(Mark { meaning: &mark.meaning, series, place })
        };
        self.claims.iter().filter_map(of).collect()
    }

    fn bars(&self, bars: &[Bars]) -> Result<String, DrawError> {
        let units = unique(bars.iter().map(|b| b.unit));
        let groups: Vec<Vec<&Bars>> =
            units.iter().map(|u| bars.iter().filter(|b| b.unit == *u).collect()).collect();
        let legend: [Entry; 2] =
            [("paper", PAPER.filled(), Sample::Bar), ("Doorbell", COLOURS[0].filled(), Sample::Bar)];
        let others = match self.claims.len() - bars.len() {
            0 => String::new(),
            1 => "1 claim that is not a number is not drawn".into(),
            n => format!("{n} claims that are not numbers are not drawn"),
        };
        let longest = bars.iter().map(|b| b.name.chars().count()).max().unwrap_or(0);
        let names_width = (longest * CHARACTER + 16) as u32;
        let height_of = |group: &Vec<&Bars>| group.len() as u32 * BAR_ROW + 60;
        let head = TITLE_HEIGHT + legend_height(&legend);
        let foot = if others.is_empty() { 0 } else { LINE_HEIGHT + 8 };
        let height = head + groups.iter().map(height_of).sum::<u32>() + foot;
        canvas(height, &self.title, |root| {
            draw_legend(root, &legend)?;
            let (_, mut rest) = root.split_vertically(head);
            for group in &groups {
                let (area, below) = rest.split_vertically(height_of(group));
                draw_bars(&area, group, names_width)?;
                rest = below;
            }
            rest.draw(&Text::new(others, (20, 4), text(TEXT)))
        })
    }
}

/// Returns each text once, in the order of first appearance.
fn unique<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique
}

/// An SVG of this height, with a heading and the drawing below it.
fn canvas(
    height: u32,
    title: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(title.to_owned(), (20, 12), text(16)))?;
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Style of the line of series `series`. Once the colours are used up, colours repeat and lines are dashed.
fn style(series: usize) -> ShapeStyle {
    COLOURS[series % COLOURS.len()].stroke_width(2)
}

fn is_dashed(series: usize) -> bool {
    (series / COLOURS.len()) % 2 == 1
}

/// Sample beside a name in the legend.
#[derive(Clone, Copy)]
enum Sample {
    Line,
    Mark,
    Bar,
    Interval,
    Overload,
}

/// Legend of error bars.
const INTERVAL: &str = "95% interval";
/// Legend of overloaded points.
const OVERLOAD: &str = "overload: latency grows without limit";

type Entry<'a> = (&'a str, ShapeStyle, Sample);

const SAMPLE_WIDTH: i32 = 26;

/// Positions of the legend's entries, row by row.
fn legend_places(entries: &[Entry]) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (20, TITLE_HEIGHT as i32 + 4);
    let place = |(name, ..): &Entry| {
        let width = SAMPLE_WIDTH + 30 + (name.chars().count() * CHARACTER) as i32;
        if x > 20 && x + width > WIDTH as i32 {
            (x, y) = (20, y + LINE_HEIGHT as i32);
        }
        x += width;
        (x - width, y)
    };
    entries.iter().map(place).collect()
}

fn legend_height(entries: &[Entry]) -> u32 {
    let last = legend_places(entries).last().map_or(0, |(_, y)| *y as u32);
    last.saturating_sub(TITLE_HEIGHT) + LINE_HEIGHT + 4
}

fn draw_legend(root: &Area<'_>, entries: &[Entry]) -> Result<(), DrawError> {
    for (i, ((x, y), (name, style, sample))) in legend_places(entries).into_iter().zip(entries).enumerate() {
        let middle = y + 7;
        let ends = [(x, middle), (x + SAMPLE_WIDTH, middle)];
        match sample {
            Sample::Line if is_dashed(i) => {
                root.draw(&DashedPathElement::new(ends, 6, 4, *style))?;
            }
            Sample::Line => root.draw(&PathElement::new(ends, *style))?,
            Sample::Mark => {
                root.draw(&DashedPathElement::new(ends, 4, 3, *style))?;
                root.draw(&Cross::new((x + SAMPLE_WIDTH / 2, middle), 5, style.stroke_width(2)))?;
            }
            Sample::Bar => root.draw(&Rectangle::new([(x, y + 2), (x + SAMPLE_WIDTH, y + 13)], *style))?,
            Sample::Interval => {
                let at = x + SAMPLE_WIDTH / 2;
                root.draw(&PathElement::new([(at, y + 1), (at, y + 13)], *style))?;
                for end in [y + 1, y + 13] {
                    root.draw(&PathElement::new([(at - CAP, end), (at + CAP, end)], *style))?;
                }
            }
            Sample::Overload => {
                root.draw(&TriangleMarker::new((x + SAMPLE_WIDTH / 2, middle), OVERLOAD_SIZE, *style))?;
            }
        }
        let name = Text::new((*name).to_owned(), (x + SAMPLE_WIDTH + 6, y + 1), text(TEXT));
        root.draw(&name)?;
    }
    Ok(())
}

/// Groups the curves: curves of a group have equal axes and one profile.
fn panels<'a>(curves: &'a [DrawnCurve<'a>]) -> Vec<Vec<&'a DrawnCurve<'a>>> {
    let mut panels: Vec<Vec<&DrawnCurve<'_>>> = Vec::new();
    let axes = |c: &'a DrawnCurve<'a>| (&c.curve.profile, &c.curve.x, &c.curve.y);
    for curve in curves {
        match panels.iter_mut().find(|p| axes(p[0]) == axes(curve)) {
            Some(panel) => panel.push(curve),
            None => panels.push(vec![curve]),
        }
    }
    panels
}

/// A number of the paper on a curve.
struct Mark {
    meaning: &'static str,
    series: usize,
    place: Place,
}

/// Position of a number of the paper.
enum Place {
    /// The number is an x coordinate.
    Vertical(f64),
    /// The number is a y coordinate, and the paper does not state x.
    Horizontal(f64),
    /// The paper states both x and y.
    Point(f64, f64),
}

fn draw_panel(
    area: &Area<'_>,
    curves: &[&DrawnCurve<'_>],
    names: &[&str],
    marks: &[Mark],
) -> Result<(), DrawError> {
    let points = || curves.iter().flat_map(|of| &of.curve.points);
    let mut xs: Vec<f64> = points().map(|p| p.0).collect();
    let mut ys: Vec<f64> = points().map(|p| p.1).collect();
    ys.extend(curves.iter().flat_map(|of| of.intervals.iter().map(|(_, interval)| interval.end)));
    for mark in marks {
        match mark.place {
            Place::Vertical(x) => xs.push(x),
            Place::Horizontal(y) => ys.push(y),
            Place::Point(x, y) => {
                xs.push(x);
                ys.push(y);
            }
        }
    }
    let (x, y) = (Axis::of_x(&xs).with_room(), Axis::linear(&ys));
    let first = curves[0].curve;
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_left(8)
        .margin_bottom(6)
        .margin_top(6)
        .caption(&first.profile, text(14))
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(x.clone(), y.clone())?;
    mesh(&mut chart, &first.x, &first.y)?;
    // Curves are drawn from last to first, so the first curve is on top. Curves of limits come last in the
    // list.
    for curve in curves.iter().rev() {
        let series = names.iter().position(|n| *n == curve.curve.name).unwrap_or(0);
        draw_curve(&mut chart, curve, series, y.high)?;
    }
    for mark in marks {
        draw_mark(&mut chart, mark, &x, &y)?;
    }
    Ok(())
}

fn mesh(chart: &mut Chart<'_, '_>, x: &str, y: &str) -> Result<(), DrawError> {
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID).max_light_lines(0).axis_style(INK);
    mesh.label_style(text(TEXT)).axis_desc_style(text(TEXT)).x_desc(x).y_desc(y).draw()
}

/// Draws a curve. `top` is the largest y of the panel.
fn draw_curve(
    chart: &mut Chart<'_, '_>,
    of: &DrawnCurve<'_>,
    series: usize,
    top: f64,
) -> Result<(), DrawError> {
    let finite = |p: &(f64, f64)| p.0.is_finite() && p.1.is_finite();
    for whole in of.curve.points.split(|p| !finite(p)) {
        if is_dashed(series) {
            chart.draw_series(DashedLineSeries::new(whole.to_vec(), 6, 4, style(series)))?;
        } else {
            chart.draw_series(LineSeries::new(whole.to_vec(), style(series)))?;
        }
    }
    // If points are far apart, dots show them, because nothing is known between the points.
    let points: Vec<(f64, f64)> = of.curve.points.iter().copied().filter(finite).collect();
    if points.len() <= MOST_DOTS {
        chart.draw_series(points.iter().map(|p| Circle::new(*p, 3, style(series).filled())))?;
    }
    let thin = style(series).stroke_width(1);
    let ends = |(x, interval): &(f64, Range<f64>)| [(*x, interval.start), (*x, interval.end)];
    chart.draw_series(of.intervals.iter().map(|interval| PathElement::new(ends(interval), thin)))?;
    let cap = |at| EmptyElement::at(at) + PathElement::new([(-CAP, 0), (CAP, 0)], thin);
    chart.draw_series(of.intervals.iter().flat_map(ends).map(cap))?;
    let mark = |x: &f64| {
        let y = points.iter().find(|p| p.0 == *x).map_or(top, |p| p.1);
        TriangleMarker::new((*x, y), OVERLOAD_SIZE, thin)
    };
    chart.draw_series(of.overload.iter().map(mark))?;
    Ok(())
}

/// Half the width of the ends of an error bar, in pixels.
const CAP: i32 = 3;
/// Size of the mark of an overloaded point, in pixels.
const OVERLOAD_SIZE: i32 = 7;

/// A curve with at most this many points has dots.
const MOST_DOTS: usize = 24;

fn draw_mark(chart: &mut Chart<'_, '_>, mark: &Mark, x: &Axis, y: &Axis) -> Result<(), DrawError> {
    let line = |ends: [(f64, f64); 2]| DashedPathElement::new(ends, 4, 3, style(mark.series));
    let label =
        |at, offset, value, pos| EmptyElement::at(at) + Text::new(number(value), offset, text(TEXT).pos(pos));
    match mark.place {
        Place::Vertical(at) => {
            chart.draw_series([line([(at, y.low), (at, y.high)])])?;
            // The label is at the bottom, because few curves are there. It is on the side with more space.
            let left = x.position(at) > 0.75;
            let (offset, pos) = if left { (-4, HPos::Right) } else { (4, HPos::Left) };
            chart.draw_series([label((at, y.low), (offset, -4), at, Pos::new(pos, VPos::Bottom))])?;
        }
        Place::Horizontal(at) => {
            chart.draw_series([line([(x.low, at), (x.high, at)])])?;
            let pos = Pos::new(HPos::Right, VPos::Bottom);
            chart.draw_series([label((x.high, at), (-2, -2), at, pos)])?;
        }
        Place::Point(at, value) => {
            chart.draw_series([Cross::new((at, value), 5, INK.stroke_width(2))])?;
        }
    }
    Ok(())
}

/// The numbers of a claim: the paper's and Doorbell's.
struct Bars<'a> {
    name: &'a str,
    unit: &'a str,
    paper: f64,
    paper_label: String,
    doorbell: f64,
    label: String,
}

impl<'a> Bars<'a> {
    fn of(claim: &'a ClaimReport, all: &[&ClaimReport]) -> Option<Bars<'a>> {
        let (&Value::Number(paper), &Value::Number(doorbell)) = (&claim.paper_value, &claim.simulated) else {
            return None;
        };
        let (by_paper, observed) = (claim.bottleneck.paper, claim.bottleneck.observed);
        let error = claim.error.map_or(String::new(), |e| format!("{:.1}% off, ", e * 100.0));
        let fails = if claim.holds { "" } else { ", does not hold" };
        let remark = format!(" ({error}{}{fails})", claim.basis.name());
        Some(Bars {
            name: short(claim, all),
            unit: &claim.unit,
            paper,
            paper_label: qualified(&claim.id, paper)
                + &by_paper.map_or(String::new(), |class| format!(", {class}")),
            doorbell,
            label: number(doorbell) + &observed.map_or(String::new(), |class| format!(", {class}")) + &remark,
        })
    }
}

/// Text of the number, with the paper's qualifier in front.
fn qualified(id: &str, value: f64) -> String {
    let words = claims::find(id).and_then(|c| c.qualifier?.words());
    words.map_or(number(value), |words| format!("{words} {}", number(value)))
}

/// The claim's id without the leading words that are equal in the ids of all claims in `all`.
fn short<'a>(claim: &'a ClaimReport, all: &[&ClaimReport]) -> &'a str {
    let shared = |n: &usize| all.iter().all(|c| c.id.get(..*n) == claim.id.get(..*n));
    let ends = claim.id.match_indices('-').map(|(i, _)| i + 1);
    let end = ends.take_while(shared).last().unwrap_or(0);
    if all.len() > 1 { &claim.id[end..] } else { &claim.id }
}

fn draw_bars(area: &Area<'_>, bars: &[&Bars], names_width: u32) -> Result<(), DrawError> {
    let numbers: Vec<f64> = bars.iter().flat_map(|b| [b.paper, b.doorbell]).collect();
    let x = Axis::linear(&numbers).cut();
    // The first row is at the top.
    let rows = bars.iter().enumerate().map(|(i, b)| (i as f64 + 0.5, b.name.to_owned()));
    let low = bars.len() as f64;
    let y = Axis { low, high: 0.0, largest: low, ticks: rows.collect(), logarithmic: false };
    let mut chart = ChartBuilder::on(area)
        .margin_left(8)
        .margin_right(BAR_LABEL)
        .margin_top(8)
        .x_label_area_size(44)
        .y_label_area_size(names_width)
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().bold_line_style(GRID).max_light_lines(0).axis_style(INK);
    mesh.label_style(text(TEXT)).axis_desc_style(text(TEXT)).x_desc(bars[0].unit).draw()?;
    for (i, bar) in bars.iter().enumerate() {
        let top = i as f64;
        let both = [
            (bar.paper, top + 0.13, PAPER, bar.paper_label.clone()),
            (bar.doorbell, top + 0.50, COLOURS[0], bar.label.clone()),
        ];
        for (value, top, colour, label) in both {
            chart.draw_series([Rectangle::new([(0.0, top), (value, top + 0.35)], colour.filled())])?;
            let label = Text::new(label, (5, 0), text(12).pos(Pos::new(HPos::Left, VPos::Center)));
            chart.draw_series([EmptyElement::at((value.max(0.0), top + 0.19)) + label])?;
        }
    }
    Ok(())
}

/// An axis. Its ticks are chosen here, so that labels do not overlap.
#[derive(Clone)]
struct Axis {
    low: f64,
    high: f64,
    /// The largest number on the axis.
    largest: f64,
    ticks: Vec<(f64, String)>,
    logarithmic: bool,
}

/// Room at the high end of an x axis, as a share of its length.
const ROOM: f64 = 0.03;

/// Approximate number of ticks on an axis.
const TICKS: f64 = 6.0;

impl Axis {
    /// A linear axis. It begins at zero, or at the tick at or below the smallest number if this number is
    /// negative. It ends at the tick at or above the largest number.
    fn linear(numbers: &[f64]) -> Axis {
        let finite = || numbers.iter().copied().filter(|n| n.is_finite());
        let (least, most) = (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max));
        let (least, most) = if most > least { (least, most) } else { (0.0, 1.0) };
        let span = most - least;
        let magnitude = 10f64.powf((span / TICKS).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * magnitude);
        let step = steps.into_iter().find(|s| s * TICKS >= span).unwrap_or(span);
        let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let tick = |i: i64| (i as f64 * step, number(i as f64 * step));
        let (low, high) = (first as f64 * step, last as f64 * step);
        Axis { low, high, largest: most, ticks: (first..=last).map(tick).collect(), logarithmic: false }
    }

    /// Ends the axis at the largest number.
    fn cut(mut self) -> Axis {
        self.high = self.largest;
        self.ticks.retain(|t| t.0 <= self.largest);
        self
    }

    /// An x axis that ends at the largest number. It is logarithmic if each number is at least 1.5 times the
    /// previous number.
    fn of_x(numbers: &[f64]) -> Axis {
        let mut sorted: Vec<f64> = numbers.iter().copied().filter(|n| n.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let grows = sorted.len() > 2 && sorted[0] > 0.0 && sorted.windows(2).all(|w| w[1] >= 1.5 * w[0]);
        if !grows {
            let mut axis = Axis::linear(numbers).cut();
            if sorted.iter().all(|n| n.fract() == 0.0) {
                axis.ticks.retain(|t| t.0.fract() == 0.0);
            }
            return axis;
        }
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let every = sorted.len().div_ceil(TICKS as usize);
        let ticks = sorted.iter().step_by(every).map(|n| (*n, number(*n))).collect();
        Axis { low, high, largest: high, ticks, logarithmic: true }
    }

    /// Adds room at the high end, so that the frame does not cut the last dot.
    fn with_room(mut self) -> Axis {
        self.high = match self.logarithmic {
            true => self.high * (self.high / self.low).powf(ROOM),
            false => self.high + (self.high - self.low) * ROOM,
        };
        self
    }

    /// Position of `value`: 0 at the low end, 1 at the high end.
    fn position(&self, value: f64) -> f64 {
        let scale = |v: f64| if self.logarithmic { v.log2() } else { v };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.position(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|t| t.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|t| t.0 == *value).map_or(String::new(), |t| t.1.clone())
    }
}

/// Formats a number with about four digits. `M` stands for a million.
fn number(value: f64) -> String {
    if value.abs() >= 1e6 {
        return number(value / 1e6) + " M";
    }
    let digits = match value.abs() {
        v if v >= 1000.0 || v.fract() == 0.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use doorbell_reproduce::claims::Kind;
    use doorbell_reproduce::{Basis, BottleneckPair};

    fn curve(name: &str, profile: &str) -> Curve {
        Curve {
            experiment: "atc16/fig99".into(),
            name: name.into(),
            profile: profile.into(),
            x: "payload, bytes".into(),
            y: "Mops".into(),
            points: (1..=10).map(|i| (f64::from(i), 100.0 / f64::from(i))).collect(),
        }
    }

    fn claim(id: &str, paper: Value, simulated: Value) -> ClaimReport {
        ClaimReport {
            id: id.into(),
            paper: "atc16".into(),
            place: "Table 99".into(),
            profile: "cib".into(),
            kind: Kind::Measured,
            unit: "Mops".into(),
            paper_value: paper,
            simulated,
            error: Some(0.02),
            basis: Basis::Predicted,
            holds: true,
            bottleneck: BottleneckPair { paper: None, observed: None },
            contested: vec![],
            note: String::new(),
            experiment: "tab99".into(),
            held_out: false,
            restates: None,
            explanation: None,
        }
    }

    /// Checks that all elements are closed in order, and that text contains no bare `<` or `&`.
    pub(crate) fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((before, after)) = rest.split_once('<') {
            assert!(!before.contains('>'), "{before}");
            for entity in before.split('&').skip(1) {
                assert!(
                    ["lt;", "gt;", "amp;", "quot;", "apos;"].iter().any(|e| entity.starts_with(e)),
                    "{before}"
                );
            }
            let (tag, next) = after.split_once('>').expect("a tag ends");
            let name = tag.split_whitespace().next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{svg}"),
                None if tag.ends_with('/') => (),
                None => open.push(name),
            }
            rest = next;
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_figure_names_its_curves_profiles_and_axes() {
        let mut odd = curve("a < b & c", "cx3");
        odd.points.push((11.0, f64::INFINITY));
        let curves = [curve("READ", "cib"), curve("WRITE", "cib"), odd];
        let curves = curves.iter().map(DrawnCurve::from).collect();
        let figure = Figure { title: "made up".into(), claims: vec![], curves };
        let svg = figure.svg().unwrap().unwrap();
        assert_well_formed(&svg);
        for part in ["made up", "READ", "WRITE", "a &lt; b &amp; c", "cib", "cx3", "payload, bytes", "Mops"] {
            assert!(svg.lines().any(|l| l.trim() == part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 30, "a dot for each finite point: {svg}");
    }

    #[test]
    fn gaps_intervals_and_overload_are_drawn() {
        let mut with_gap = curve("", "cib");
        with_gap.points[4].1 = f64::NAN;
        with_gap.points[9].1 = f64::NAN;
        let svg = |intervals: Vec<(f64, Range<f64>)>, overload: Vec<f64>| {
            let curves = vec![DrawnCurve { curve: &with_gap, intervals, overload }];
            let figure = Figure { title: "made up".into(), claims: vec![], curves };
            figure.svg().unwrap().unwrap()
        };
        let plain = svg(vec![], vec![]);
        assert_well_formed(&plain);
        let line = format!("stroke=\"#{:02X}{:02X}{:02X}\"", COLOURS[0].0, COLOURS[0].1, COLOURS[0].2);
        let lines =
            |svg: &str| svg.lines().filter(|l| l.starts_with("<polyline") && l.contains(&line)).count();
        assert_eq!((lines(&plain), plain.matches("<circle").count()), (2, 8), "{plain}");
        assert!(!plain.contains(INTERVAL) && !plain.contains(OVERLOAD), "{plain}");
        let all = svg(vec![(1.0, 90.0..110.0), (2.0, 45.0..55.0)], vec![9.0, 10.0]);
        assert_well_formed(&all);
        assert!(all.contains(INTERVAL) && all.contains(OVERLOAD), "{all}");
        // A triangle in the legend, one at the point with a y, and one at the top.
        assert_eq!(all.matches("<polygon").count() - plain.matches("<polygon").count(), 3, "{all}");
        assert!(
            all.matches("<line").count() >= plain.matches("<line").count() + 9 || lines(&all) > 2,
            "{all}"
        );
    }

    #[test]
    fn a_table_has_both_numbers_of_each_claim() {
        let claims = [
            claim("atc16-tab99-first", Value::Number(80.0), Value::Number(78.4)),
            claim("atc16-tab99-second", Value::Number(-2.24), Value::Number(0.0)),
            claim("atc16-tab99-third", Value::Text("rises".into()), Value::Text("falls".into())),
        ];
        let figure = Figure { title: "made up".into(), claims: claims.iter().collect(), curves: vec![] };
        let svg = figure.svg().unwrap().unwrap();
        assert_well_formed(&svg);
        for part in ["first", "second", "paper", "Doorbell", "80", "78.4 (2.0% off, predicted)", "-2.24"] {
            assert!(svg.lines().any(|l| l.trim() == part), "{part}: {svg}");
        }
        // One rectangle in the legend, and one for each of two claims.
        let widths = |colour: RGBColor| {
            let fill = format!("fill=\"#{:02X}{:02X}{:02X}\"", colour.0, colour.1, colour.2);
            let rectangles = svg.lines().filter(|l| l.starts_with("<rect") && l.contains(&fill));
            let width = |l: &str| l.split("width=\"").nth(1)?.split('"').next()?.parse::<u32>().ok();
            rectangles.map(|l| width(l).expect("a rectangle has a width")).collect::<Vec<_>>()
        };
        let ([_, paper, negative], [_, doorbell, zero]) = (&widths(PAPER)[..], &widths(COLOURS[0])[..])
        else {
            panic!("{svg}")
        };
        assert!(paper > doorbell && doorbell > negative && negative > zero && *zero == 0, "{svg}");
        assert!(svg.contains("1 claim that is not a number is not drawn"));
        let words = Figure { title: String::new(), claims: vec![&claims[2]], curves: vec![] };
        assert!(words.svg().unwrap().is_none());
    }

    #[test]
    fn the_papers_numbers_are_marked_where_their_curve_is() {
        let mut transition = claim("atc16-read-transition-cib", Value::Number(7.0), Value::Number(7.0));
        let curves = [curve("READ", "cib")];
        let svg = |claim: &ClaimReport| {
            let figure = Figure {
                title: String::new(),
                claims: vec![claim],
                curves: vec![DrawnCurve::from(&curves[0])],
            };
            figure.svg().unwrap().unwrap()
        };
        assert!(svg(&transition).contains("paper: link-bound from here"));
        transition.profile = "cx".into();
        assert!(!svg(&transition).contains("paper: link-bound from here"));
    }

    #[test]
    fn ticks() {
        let labels = |axis: Axis| axis.ticks.into_iter().map(|t| t.1).collect::<Vec<_>>().join(" ");
        assert_eq!(labels(Axis::linear(&[157.0, 2.24])), "0 50 100 150 200");
        assert_eq!(labels(Axis::linear(&[0.05])), "0 0.01 0.02 0.03 0.04 0.05");
        assert_eq!(labels(Axis::linear(&[-3.0, 4.0])), "-4 -2 0 2 4");
        assert_eq!(labels(Axis::linear(&[f64::NAN])), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(labels(Axis::of_x(&[4.0, 1.0, 2.0, 1.0])), "1 2 4");
        assert_eq!(labels(Axis::of_x(&[0.0, 1.0, 2.0, 3.0])), "0 1 2 3");
        assert_eq!(labels(Axis::of_x(&[1.0, 2.0, 2.5])), "0 0.5 1 1.5 2 2.5");
        assert_eq!(labels(Axis::of_x(&[1e6, 1e7, 1e8])), "1 M 10 M 100 M");
    }

    /// A plot's file is named after the paper and the experiment.
    #[test]
    fn names_of_experiments_are_unique() {
        let names: Vec<_> =
            doorbell_reproduce::papers::REGISTER.experiments.iter().map(|e| (e.paper, e.name)).collect();
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    }
}
