//! Charts as SVG, for reports and figures: readable on light and dark pages, and without colours.
//!
//! A series has a colour, a shape of its dots and, beyond eight of them, a broken line. [`svg`] and [`svg_of_heatmaps`]
//! make pictures that stand for themselves, with their style inside. [`panel`] and [`Heatmap::panel`] make parts of a
//! page that has [`STYLE`].

mod axis;
mod chart;
mod heat;
mod lines;

pub use chart::{Chart, Series, escaped};
pub use heat::Heatmap;

use axis::{Axis, shown};
use chart::{COLOURS, LEFT, LETTER, PLOT_HEIGHT, PLOT_WIDTH, TOP, shortened};

const WIDTH: f64 = 400.0;
/// From the plot to the first line of the legend.
const BELOW: f64 = 46.0;
const LEGEND_ROW: f64 = 18.0;
const LEGEND_LEFT: f64 = 14.0;
const LEGEND_COLUMNS_MAX: usize = 3;
/// Line and dot before a name in the legend, and the space behind the name.
const SWATCH: f64 = 34.0;
const TITLE: f64 = 36.0;
/// What pictures need of a page's style. Colours come in pairs, for light pages and for dark ones.
pub const STYLE: &str = include_str!("style.css");

/// All charts beside each other, two in a row, as a picture of its own.
pub fn svg(title: &str, charts: &[Chart]) -> String {
    let tall = charts.iter().map(height).fold(0.0, f64::max);
    page(title, (WIDTH, tall), charts.iter().map(one).collect())
}

/// All heatmaps beside each other, two in a row, as a picture of its own.
pub fn svg_of_heatmaps(title: &str, maps: &[Heatmap]) -> String {
    let sizes = || maps.iter().map(Heatmap::size);
    let (wide, tall) = (sizes().map(|size| size.0).fold(0.0, f64::max), sizes().map(|size| size.1).fold(0.0, f64::max));
    page(title, (wide, tall), maps.iter().map(Heatmap::panel).collect())
}

/// Parts that take `wide` and `tall` each, two in a row.
fn page(title: &str, (wide, tall): (f64, f64), parts: Vec<String>) -> String {
    let columns = parts.len().clamp(1, 2);
    let (width, height) = (wide * columns as f64, TITLE + tall * parts.len().div_ceil(columns) as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"12\" y=\"24\">{}</text>\n",
        escaped(title)
    );
    for (at, part) in parts.iter().enumerate() {
        let (x, y) = (wide * (at % columns) as f64, TITLE + tall * (at / columns) as f64);
        text += &format!("<g transform=\"translate({x} {y})\">\n{part}</g>\n");
    }
    text + "</svg>\n"
}

/// One chart as part of a page.
pub fn panel(chart: &Chart) -> String {
    let height = height(chart);
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" aria-label=\"{}\">\n\
         {}</svg>\n",
        escaped(&format!("{}: {} by {}", chart.title, chart.y, chart.x)),
        one(chart)
    )
}

/// Columns of the legend, and their width.
fn legend(chart: &Chart) -> (usize, f64) {
    let longest = chart.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let room = WIDTH - LEGEND_LEFT;
    let columns = (room / (SWATCH + 10.0 + LETTER * longest as f64)) as usize;
    let columns = columns.clamp(1, LEGEND_COLUMNS_MAX);
    (columns, room / columns as f64)
}

fn height(chart: &Chart) -> f64 {
    let rows = chart.series.len().div_ceil(legend(chart).0);
    TOP + PLOT_HEIGHT + BELOW + LEGEND_ROW * rows as f64 + 8.0
}

fn one(chart: &Chart) -> String {
    let points = chart.series.iter().flat_map(|series| series.points.iter().copied());
    let y = Axis::of_values(points.clone().map(|point| point.1), chart.logarithmic, chart.loose);
    let x = Axis::along(points.map(|point| point.0), chart.logarithmic_x, !chart.ticks.is_empty());
    let down = |value: f64| TOP + PLOT_HEIGHT * (1.0 - y.place(value));
    let title = shortened(&chart.title, 54);
    let mut text = format!("<text class=\"head\" x=\"{LEGEND_LEFT}\" y=\"16\">{}</text>\n", escaped(&title));
    text += &format!("<text class=\"note\" x=\"{LEGEND_LEFT}\" y=\"34\">{}</text>\n", escaped(&chart.y));
    for tick in y.ticks() {
        let at = down(tick);
        text += &format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}h{PLOT_WIDTH}\"/>\n");
        text +=
            &format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n", LEFT - 6.0, at + 4.0, shown(tick));
    }
    text += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}v{PLOT_HEIGHT}h{PLOT_WIDTH}\"/>\n");
    text += &if chart.names.is_empty() { lines::lines(chart, &x, down) } else { bars(chart, down) };
    let below = TOP + PLOT_HEIGHT;
    text += &format!(
        "<text class=\"note\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
        LEFT + PLOT_WIDTH,
        below + 34.0,
        escaped(&chart.x)
    );
    let (columns, width) = legend(chart);
    for (at, series) in chart.series.iter().enumerate() {
        let left = LEGEND_LEFT + width * (at % columns) as f64;
        let middle = below + BELOW + 6.0 + LEGEND_ROW * (at / columns) as f64;
        text += &format!("<g class=\"s{}\">{}", at % COLOURS, lines::swatch(chart, at, left, middle));
        let name = shortened(&series.name, ((width - SWATCH) / LETTER) as usize);
        let (left, line) = (left + SWATCH, middle + 4.0);
        text += &format!("<text x=\"{left:.1}\" y=\"{line:.1}\">{}</text></g>\n", escaped(&name));
    }
    text
}

fn bars(chart: &Chart, down: impl Fn(f64) -> f64) -> String {
    let group = PLOT_WIDTH / chart.names.len().max(1) as f64;
    let bar = group * 0.8 / chart.series.len().max(1) as f64;
    let mut text = String::new();
    for (at, series) in chart.series.iter().enumerate() {
        text += &format!("<g class=\"s{}\">\n", at % COLOURS);
        for &(x, y) in &series.points {
            let left = LEFT + group * (x + 0.1) + bar * at as f64;
            // From zero, or where no zero can be shown from the bottom.
            let zero = if chart.logarithmic { TOP + PLOT_HEIGHT } else { down(0.0) };
            let (top, height) = (down(y).min(zero), (down(y) - zero).abs());
            text += &format!(
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\"/>\n"
            );
            // Else it could not be told from one that was not measured.
            if y == 0.0 {
                let middle = left + bar / 2.0;
                text += &format!("<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">0</text>\n", zero - 4.0);
            }
        }
        text += "</g>\n";
    }
    // Words that are longer than their bars are wide are written smaller, and so are their neighbours.
    let longest = chart.names.iter().map(|name| name.chars().count() + 1).max().unwrap_or(1);
    let size = (12.0 * group / (longest as f64 * LETTER)).clamp(8.0, 12.0);
    for (at, name) in chart.names.iter().enumerate() {
        let (middle, below) = (LEFT + group * (at as f64 + 0.5), TOP + PLOT_HEIGHT + 16.0);
        text += &format!(
            "<text x=\"{middle:.1}\" y=\"{below}\" text-anchor=\"middle\" style=\"font-size:{size:.1}px\">{}</text>\n",
            escaped(name)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(names: usize) -> Chart {
        let series = |at: usize| Series {
            name: format!("policy <{at}>"),
            points: vec![(1.0, 10.0), (100.0, 20.0 + at as f64)],
            spreads: vec![0.5],
            ..Series::default()
        };
        let ticks = vec![(1.0, "1 & more".to_owned()), (100.0, "100".to_owned())];
        Chart { title: "\"t\"".into(), ticks, series: (0..names).map(series).collect(), ..Chart::default() }
    }

    #[test]
    fn series_differ_without_colours() {
        let looks: std::collections::BTreeSet<String> =
            (0..32).map(|at| lines::swatch(&chart(32), at, 0.0, 0.0)).collect();
        assert_eq!(looks.len(), 32);
        let text = panel(&chart(32));
        assert_eq!((text.matches("<polyline").count(), text.matches("class=\"dot").count()), (32, 64 + 32), "{text}");
        assert_eq!(text.matches("class=\"spread").count(), 32);
    }

    #[test]
    fn many_points_do_not_hide_each_other() {
        let dots = |points: u32| {
            let points: Vec<_> = (0..points).map(|x| (f64::from(x), 1.0)).collect();
            let line = || Series { points: points.clone(), ..Series::default() };
            let chart = Chart { series: vec![line(), line()], ..Chart::default() };
            let svg = svg("", &[chart]);
            let lines: Vec<usize> =
                svg.split("<polyline").skip(1).map(|line| line.matches("<title>").count()).collect();
            (lines, svg)
        };
        assert_eq!(dots(20).0, [20, 20]);
        let (many, svg) = dots(40);
        assert!(many.iter().all(|dots| (8..15).contains(dots)), "{many:?}");
        let places: Vec<&str> = svg.split("<title>").skip(1).filter_map(|dot| dot.split("</title>").next()).collect();
        let different: std::collections::BTreeSet<&&str> = places.iter().collect();
        assert_eq!(different.len(), places.len(), "no dot lies on another");
    }

    #[test]
    fn nothing_is_shown_and_neighbours_differ() {
        let bars = Series { points: vec![(0.0, 0.0), (1.0, 3.0)], ..Series::default() };
        let names = vec!["none".to_owned(), "three".to_owned()];
        let text = panel(&Chart { names, series: vec![bars], ..Chart::default() });
        assert_eq!(text.matches("text-anchor=\"middle\">0</text>").count(), 1, "a bar of nothing: {text}");
        let marks = [("failed", 1.0, 50.0), ("recovery", 50.0, 90.0)].map(|(word, from, to)| (from, to, word.into()));
        let text = panel(&Chart { marks: marks.into(), ..chart(1) });
        assert!(text.contains("class=\"mark m0\"") && text.contains("class=\"mark m1\""), "{text}");
    }

    #[test]
    fn nothing_of_a_name_is_markup() {
        let text = svg("<script>", &[chart(2)]);
        assert!(text.contains("policy &lt;1&gt;") && text.contains("1 &amp; more") && text.contains("&quot;t&quot;"));
        assert!(!text.contains("<script>") && !text.contains("policy <"), "{text}");
        assert_eq!(escaped("a'b"), "a&#39;b");
        assert_eq!(shortened("s3-fifo:small=0.2", 9), "s3-fifo..");
    }

    #[test]
    fn no_value_breaks_a_chart() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(5.0, f64::NAN)], vec![(1.0, 1e12), (1e9, -3.0)]] {
            for logarithmic in [false, true] {
                let series = vec![Series { points: points.clone(), ..Series::default() }];
                let text =
                    panel(&Chart { logarithmic, logarithmic_x: logarithmic, loose: true, series, ..Chart::default() });
                assert!(!text.contains("inf") && text.len() < 20_000, "{text}");
            }
        }
    }
}
