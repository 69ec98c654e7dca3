//! Charts as SVG, readable on light and dark pages.

use super::Chart;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 44.0;
const PLOT_WIDTH: f64 = 330.0;
const PLOT_HEIGHT: f64 = 190.0;
const LEGEND_ROW: f64 = 18.0;
const TITLE: f64 = 36.0;

/// About how wide a letter is.
const LETTER: f64 = 6.6;

/// A line with more points is drawn without a dot for each.
const DOTS_MAX: usize = 40;

const COLOURS: [&str; 8] = ["#2f6fb0", "#d1651a", "#2e8b57", "#b03a5b", "#7a5cc0", "#8a7a00", "#00868b", "#666"];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1b2733}.title{font-size:14px;font-weight:600}\
.axis{stroke:#5b6b7a;fill:none}.mark{fill:#d1651a;opacity:0.15}.grid{stroke:#d5dde5;fill:none}.page{fill:#fff}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#33414f}.page{fill:#0f1720}}";

/// All charts beside each other, two in a row.
pub(super) fn svg(title: &str, charts: &[Chart]) -> String {
    let columns = charts.len().clamp(1, 2);
    let legend = charts.iter().map(|chart| chart.series.len()).max().unwrap_or(0);
    let tall = HEIGHT + LEGEND_ROW * legend.div_ceil(2) as f64;
    let (width, height) = (WIDTH * columns as f64, TITLE + tall * charts.len().div_ceil(columns) as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{}</text>\n",
        escaped(title)
    );
    for (at, chart) in charts.iter().enumerate() {
        let (x, y) = (WIDTH * (at % columns) as f64, TITLE + tall * (at / columns) as f64);
        text += &format!("<g transform=\"translate({x} {y})\">\n{}</g>\n", one(chart));
    }
    text + "</svg>\n"
}

/// Where values stand on an axis.
struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, logarithmic: bool, from_zero: bool) -> Axis {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match logarithmic {
            true => (10f64.powf(least.max(1e-9).log10().floor()), 10f64.powf(most.max(1e-9).log10().ceil())),
            false => (if from_zero { least.min(0.0) } else { least }, most),
        };
        // One value alone, or none, still needs an axis.
        let to = if to > from { to } else { from + 1.0 };
        Axis { from, to, logarithmic }
    }

    fn place(&self, value: f64) -> f64 {
        match self.logarithmic {
            true => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
            false => (value - self.from) / (self.to - self.from),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.to / self.from).log10().round() as i32;
            return (0..=decades).map(|decade| self.from * 10f64.powi(decade)).collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|&step| step >= rough * 0.999).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|&tick| tick <= self.to + step * 1e-9).collect()
    }
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.0}M", value / 1e6),
        size if size >= 1e4 => format!("{:.0}k", value / 1e3),
        size if size >= 10.0 || value == value.round() => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

fn one(chart: &Chart) -> String {
    let points = chart.series.iter().flat_map(|series| series.points.iter().copied());
    let y = Axis::of(points.clone().map(|point| point.1), chart.logarithmic, true);
    let x = Axis::of(points.map(|point| point.0), false, false);
    let down = |value: f64| TOP + PLOT_HEIGHT * (1.0 - y.place(value));
    let mut text = format!("<text x=\"{LEFT}\" y=\"16\">{}</text>\n", escaped(&chart.title));
    text += &format!("<text x=\"{LEFT}\" y=\"34\" opacity=\"0.7\">{}</text>\n", escaped(chart.y));
    for tick in y.ticks() {
        let at = down(tick);
        text += &format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}h{PLOT_WIDTH}\"/>\n");
        text +=
            &format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n", LEFT - 6.0, at + 4.0, shown(tick));
    }
    text += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}v{PLOT_HEIGHT}h{PLOT_WIDTH}\"/>\n");
    text += &if chart.names.is_empty() { lines(chart, &x, down) } else { bars(chart, down) };
    let below = TOP + PLOT_HEIGHT;
    text += &format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" opacity=\"0.7\">{}</text>\n",
        LEFT + PLOT_WIDTH,
        below + 34.0,
        escaped(chart.x)
    );
    for (at, series) in chart.series.iter().enumerate() {
        let (left, top) = (LEFT + 180.0 * (at % 2) as f64, below + 46.0 + LEGEND_ROW * (at / 2) as f64);
        let colour = COLOURS[at % COLOURS.len()];
        text += &format!("<rect x=\"{left}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\n");
        text += &format!("<text x=\"{}\" y=\"{}\">{}</text>\n", left + 18.0, top + 11.0, escaped(&series.name));
    }
    text
}

fn lines(chart: &Chart, x: &Axis, down: impl Fn(f64) -> f64) -> String {
    let across = |value: f64| LEFT + PLOT_WIDTH * x.place(value);
    let mut text = String::new();
    for (at, (from, to, name)) in chart.marks.iter().enumerate() {
        let (left, right) = (across(from.clamp(x.from, x.to)), across(to.clamp(x.from, x.to)));
        // Neighbours' words stand on different lines.
        let (width, top) = (right - left, TOP + 12.0 + 14.0 * (at % 2) as f64);
        text += &format!(
            "<rect class=\"mark\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\"/>\n\
             <text x=\"{:.1}\" y=\"{top}\" text-anchor=\"middle\" opacity=\"0.7\">{}</text>\n",
            left + width / 2.0,
            escaped(name)
        );
    }
    for tick in x.ticks() {
        let (at, below) = (across(tick), TOP + PLOT_HEIGHT + 16.0);
        text += &format!("<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{}</text>\n", shown(tick));
    }
    for (at, series) in chart.series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let places = series.points.iter().map(|&(x, y)| (across(x), down(y)));
        let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        text += &format!("<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n");
        let dots = if series.points.len() > DOTS_MAX { 0 } else { DOTS_MAX };
        for (x, y) in places.take(dots) {
            text += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
        }
    }
    text
}

fn bars(chart: &Chart, down: impl Fn(f64) -> f64) -> String {
    let group = PLOT_WIDTH / chart.names.len().max(1) as f64;
    let bar = group * 0.8 / chart.series.len().max(1) as f64;
    let mut text = String::new();
    for (at, series) in chart.series.iter().enumerate() {
        for &(x, y) in &series.points {
            let left = LEFT + group * (x + 0.1) + bar * at as f64;
            // From zero, or where no zero can be shown from the bottom.
            let zero = if chart.logarithmic { TOP + PLOT_HEIGHT } else { down(0.0) };
            let (top, height, colour) = (down(y).min(zero), (down(y) - zero).abs(), COLOURS[at % COLOURS.len()]);
            text += &format!(
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" \
                 fill=\"{colour}\"/>\n"
            );
        }
    }
    for (at, name) in chart.names.iter().enumerate() {
        let (middle, below) = (LEFT + group * (at as f64 + 0.5), TOP + PLOT_HEIGHT + 16.0);
        // Words that are longer than their bars are wide are written smaller.
        let size = (12.0 * group / (name.len() as f64 * LETTER)).clamp(8.0, 12.0);
        text += &format!(
            "<text x=\"{middle:.1}\" y=\"{below}\" text-anchor=\"middle\" style=\"font-size:{size:.1}px\">{}</text>\n",
            escaped(name)
        );
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
