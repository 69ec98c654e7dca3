//! Lines and dots.

use super::axis::{Axis, shown};
use super::chart::{COLOURS, Chart, LEFT, LETTER, PLOT_HEIGHT, PLOT_WIDTH, Series, TOP, escaped};

/// A line with more points is drawn without a dot for each.
const DOTS_MAX: usize = 40;

/// Most points of a line that have a dot each: beyond, dots would lie on dots.
const DOTS_EACH_MAX: usize = 20;

/// About how many of more points have one.
const DOTS_OF_MANY: usize = 12;

/// Dots of a chart that has nothing else.
const SCATTERED_MAX: usize = 2000;

const DASHES: [&str; 4] =
    ["", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"9 3 2 3\""];

/// Shapes of dots around zero, the second four hollow.
const SHAPES: [&str; 4] = ["M-3.2-3.2h6.4v6.4h-6.4z", "M0-4.4L4.2 3.2H-4.2z", "M0-4.6L4.6 0L0 4.6L-4.6 0z", ""];

fn dotted(series: &Series) -> bool {
    series.points.len() <= DOTS_MAX
}

/// Lines that have many points have their dots at different ones, so that none hides all others.
fn has_dot(series: &Series, at: usize, nth: usize) -> bool {
    let points = series.points.len();
    let every = if points > DOTS_EACH_MAX { points.div_ceil(DOTS_OF_MANY) } else { 1 };
    nth % every == at % every
}

/// Eight series differ by their dots, the next eight have the same ones on other lines. Without dots lines differ.
fn dash(series: &Series, at: usize) -> &'static str {
    DASHES[if dotted(series) { at / COLOURS % DASHES.len() } else { at % DASHES.len() }]
}

fn dot(at: usize, x: f64, y: f64, inside: &str) -> String {
    let class = if at % COLOURS >= SHAPES.len() { "dot hollow" } else { "dot" };
    match SHAPES[(at + 3) % SHAPES.len()] {
        "" => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\">{inside}</circle>"),
        path => format!("<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{path}\">{inside}</path>"),
    }
}

/// What stands before a name in the legend.
pub(super) fn swatch(chart: &Chart, at: usize, left: f64, middle: f64) -> String {
    if !chart.names.is_empty() {
        return format!("<rect class=\"bar\" x=\"{left:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/>", middle - 6.0);
    }
    let series = &chart.series[at];
    let mut text = String::new();
    if !chart.scatter {
        text += &format!("<path class=\"line\"{} d=\"M{left:.1} {middle:.1}h28\"/>", dash(series, at));
    }
    if chart.scatter || dotted(series) {
        text += &dot(at, left + 14.0, middle, "");
    }
    text
}

/// All lines of a chart, and the marks on its axis of x.
pub(super) fn lines(chart: &Chart, x: &Axis, down: impl Fn(f64) -> f64) -> String {
    let across = |value: f64| LEFT + PLOT_WIDTH * x.place(value);
    let mut text = shades(chart, x, across);
    text += &ticks(chart, x, across);
    for (at, series) in chart.series.iter().enumerate() {
        let finite = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let places = series.points.iter().filter(|point| finite(point)).map(|&(x, y)| (across(x), down(y)));
        text += &format!("<g class=\"s{}\">\n", at % COLOURS);
        if !chart.scatter {
            let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            text += &format!("<polyline class=\"line\"{} points=\"{}\"/>\n", dash(series, at), path.join(" "));
        }
        let dots = if chart.scatter { SCATTERED_MAX } else { DOTS_MAX };
        let points = series.points.iter().enumerate().filter(|(_, point)| finite(point));
        for ((nth, &(value_x, value_y)), (x, y)) in points.zip(places).take(dots) {
            if let Some(off) = series.spreads.get(nth).filter(|off| off.is_finite()) {
                let (top, bottom) = (down(value_y + off).max(TOP), down(value_y - off).min(TOP + PLOT_HEIGHT));
                text += &format!("<path class=\"spread\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>\n");
            }
            if chart.scatter || dotted(series) && has_dot(series, at, nth) {
                let label = match series.labels.get(nth) {
                    Some(label) => escaped(label),
                    None => format!("{}: {}, {}", escaped(&series.name), shown(value_x), shown(value_y)),
                };
                text += &dot(at, x, y, &format!("<title>{label}</title>"));
                text.push('\n');
            }
        }
        text += "</g>\n";
    }
    text
}

fn shades(chart: &Chart, x: &Axis, across: impl Fn(f64) -> f64) -> String {
    let mut text = String::new();
    for (at, (from, to, name)) in chart.marks.iter().enumerate() {
        let (left, right) = (across(from.clamp(x.from, x.to)), across(to.clamp(x.from, x.to)));
        // Neighbours have different colours, and their words stand on different lines.
        let (width, top) = (right - left, TOP + 12.0 + 14.0 * (at % 2) as f64);
        text += &format!(
            "<rect class=\"mark m{}\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\"/>\n\
             <text class=\"note\" x=\"{:.1}\" y=\"{top}\" text-anchor=\"middle\">{}</text>\n",
            at % 2,
            left + width / 2.0,
            escaped(name)
        );
    }
    text
}

/// A mark for each, and its word where it does not run into the one before.
fn ticks(chart: &Chart, x: &Axis, across: impl Fn(f64) -> f64) -> String {
    let round = || x.ticks().into_iter().map(|tick| (tick, shown(tick))).collect();
    let ticks: Vec<(f64, String)> = if chart.ticks.is_empty() { round() } else { chart.ticks.clone() };
    let (mut text, mut free, below) = (String::new(), f64::NEG_INFINITY, TOP + PLOT_HEIGHT);
    for (value, word) in ticks {
        let (at, half) = (across(value), LETTER * word.chars().count() as f64 / 2.0);
        text += &format!("<path class=\"axis\" d=\"M{at:.1} {below}v4\"/>\n");
        if at - half > free {
            let word = escaped(&word);
            text += &format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{word}</text>\n", below + 17.0);
            free = at + half + 4.0;
        }
    }
    text
}
