//! Throughput over time as an SVG: actions done and failed per second, with the store's absences marked.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{Report, Span};

const SIZE: (u32, u32) = (960, 440);

/// Where the diagram begins.
const LEFT: i32 = 90;
const TOP: i32 = 66;

/// Colours that colour-blind people can tell apart (Okabe and Ito 2008).
const DONE: RGBColor = RGBColor(0, 114, 178);
const FAILED: RGBColor = RGBColor(213, 94, 0);
const AWAY: RGBColor = RGBColor(230, 159, 0);
const RECOVERY: RGBColor = RGBColor(86, 180, 233);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a report.
pub fn svg(report: &Report) -> Result<String, std::io::Error> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        panel(&root, report).map_err(|error| std::io::Error::other(error.to_string()))?;
    }
    Ok(text)
}

fn panel(root: &Area<'_>, report: &Report) -> Drawn {
    root.fill(&WHITE)?;
    let per_second = |count: u32| f64::from(count) / report.interval_s;
    let most = report.intervals.iter().map(|interval| interval.done.max(interval.failed)).max().unwrap_or(0);
    // The last interval is not whole as a rule, and would look like a fall.
    let whole = report.intervals.iter().filter(|interval| interval.from_s + report.interval_s <= report.seconds + 1e-6);
    let middle = |from_s: f64| from_s + report.interval_s / 2.0;
    let caption = format!("{} on {}, {} connections", report.workload, report.target, report.connections);
    root.draw(&Text::new(caption, (LEFT, 12), ("sans-serif", 19)))?;
    let mut builder = ChartBuilder::on(root);
    builder.margin(12).margin_top(TOP).x_label_area_size(44).y_label_area_size(LEFT - 12);
    let x_max = report.seconds.max(report.interval_s);
    let mut chart = builder.build_cartesian_2d(0.0..x_max, 0.0..(per_second(most) * 1.12).max(1.0))?;
    let number = |value: &f64| grouped(*value);
    // Ticks are sums of tenths, which are no whole number of tenths in the end.
    let seconds = |value: &f64| format!("{}", (value * 1000.0).round() / 1000.0);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().max_light_lines(0).bold_line_style(RGBColor(225, 225, 225));
    mesh.x_desc("seconds").y_desc("actions per second").label_style(("sans-serif", 14));
    mesh.x_label_formatter(&seconds).y_label_formatter(&number).axis_desc_style(("sans-serif", 15)).draw()?;
    spans(&mut chart, report, per_second(most).max(1.0) * 1.12)?;
    for (colour, of) in [(DONE, 0), (FAILED, 1)] {
        let points = whole.clone().map(|interval| {
            let count = if of == 0 { interval.done } else { interval.failed };
            (middle(interval.from_s), per_second(count))
        });
        if of == 0 || report.failed > 0 {
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
    }
    legend(root, report)?;
    root.present()?;
    Ok(())
}

fn spans(chart: &mut Chart<'_, '_>, report: &Report, top: f64) -> Drawn {
    for span in &report.modes {
        let Some(colour) = colour(span) else { continue };
        let (from, to) = (span.from_s, span.to_s.min(report.seconds));
        if from < to {
            chart.draw_series([Rectangle::new([(from, 0.0), (to, top)], colour.filled())])?;
        }
    }
    Ok(())
}

fn colour(span: &Span) -> Option<RGBAColor> {
    match (span.is_outage(), span.mode.as_str()) {
        (true, _) => Some(AWAY.mix(0.25)),
        (_, "recovery") => Some(RECOVERY.mix(0.25)),
        _ => None,
    }
}

/// What the colours mean, under the title, of what there is.
fn legend(root: &Area<'_>, report: &Report) -> Drawn {
    let there =
        |wanted: &dyn Fn(&Span) -> bool| report.modes.iter().any(|span| wanted(span) && span.from_s < span.to_s);
    let mut entries = vec![("done", DONE.to_rgba(), true)];
    if report.failed > 0 {
        entries.push(("failed", FAILED.to_rgba(), true));
    }
    if there(&Span::is_outage) {
        entries.push(("store away", AWAY.mix(0.25), false));
    }
    if there(&|span| span.mode == "recovery") {
        entries.push(("recovery", RECOVERY.mix(0.25), false));
    }
    for (at, (name, colour, is_line)) in (0..).zip(entries) {
        let (x, y) = (LEFT + 120 * at, TOP - 16);
        match is_line {
            true => root.draw(&PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(3)))?,
            false => root.draw(&Rectangle::new([(x, y - 7), (x + 22, y + 7)], colour.filled()))?,
        }
        root.draw(&Text::new(name, (x + 28, y - 7), ("sans-serif", 14)))?;
    }
    Ok(())
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Interval;

    #[test]
    fn a_picture_shows_outages_and_failures_only_where_there_are_some() {
        let intervals = (0..50).map(|at| Interval { from_s: f64::from(at) / 10.0, done: 100 + at, failed: at % 7 });
        let mut report = Report {
            workload: "ycsb-a <x>".into(),
            seconds: 5.0,
            interval_s: 0.1,
            failed: 9,
            intervals: intervals.collect(),
            modes: [("normal", 0.0, 1.0), ("failed", 1.0, 2.0), ("recovery", 2.0, 2.5)]
                .map(|(mode, from_s, to_s)| Span { mode: mode.into(), from_s, to_s })
                .into(),
            ..Report::default()
        };
        let text = svg(&report).expect("a picture");
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
        assert!(text.contains("ycsb-a &lt;x&gt;"), "{text}");
        for part in ["store away", "recovery", "failed", "actions per second"] {
            assert!(text.contains(part), "{part}");
        }
        // 0.30000000000000004 would run into its neighbours.
        report.seconds = 1.0;
        let text = svg(&report).expect("a picture");
        assert!(text.contains("\n0.3\n") && !text.contains("\n0.30"), "{text}");
        (report.failed, report.modes) = (0, Vec::new());
        let text = svg(&report).expect("a picture");
        assert!(!text.contains("store away") && !text.contains("failed"), "{text}");
        // Nothing happened: a picture all the same.
        let nothing = Report { interval_s: 0.1, ..Report::default() };
        assert!(svg(&nothing).expect("a picture").contains("done"));
        assert_eq!((grouped(1234567.0), grouped(12.0)), ("1,234,567".into(), "12".into()));
    }
}
