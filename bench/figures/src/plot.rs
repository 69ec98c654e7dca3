//! Pictures: panels of lines side by side, with one legend.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Lines, in the order of the legend.
    pub lines: Vec<Line>,
}

/// What is on the axes.
#[derive(Clone, Debug)]
pub struct Axes {
    /// Below.
    pub x: String,
    /// At the left.
    pub y: String,
    /// Whether both grow by factors; zeros are left out then.
    pub logarithmic: bool,
    /// Points instead of lines.
    pub scatter: bool,
}

const PANEL: (u32, u32) = (430, 380);
const LEGEND_WIDTH: u32 = 170;

/// Colours that colour-blind people can tell apart (Okabe and Ito 2008), then greys.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 0, 0),
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(150, 150, 150),
    RGBColor(140, 86, 75),
    RGBColor(188, 189, 34),
];

/// Draws the panels into a file.
pub fn draw(path: &Path, panels: &[Panel], axes: &Axes) -> Result<(), Box<dyn Error>> {
    let width = PANEL.0 * panels.len() as u32 + LEGEND_WIDTH;
    let root = SVGBackend::new(path, (width, PANEL.1)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(width - LEGEND_WIDTH);
    for (area, panel) in left.split_evenly((1, panels.len())).iter().zip(panels) {
        match axes.logarithmic {
            true => logarithmic(area, panel, axes)?,
            false => linear(area, panel, axes)?,
        }
    }
    let names = panels.first().map(|panel| panel.lines.iter().map(|line| line.name.as_str())).into_iter().flatten();
    for (at, name) in names.enumerate() {
        let (y, colour) = (60 + 26 * at as i32, COLOURS[at % COLOURS.len()]);
        right.draw(&PathElement::new(vec![(8, y), (34, y)], colour.stroke_width(2)))?;
        right.draw(&Circle::new((21, y), 3, colour.filled()))?;
        right.draw(&Text::new(name.to_owned(), (42, y - 7), ("sans-serif", 15)))?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn linear(area: &Area<'_>, panel: &Panel, axes: &Axes) -> Result<(), Box<dyn Error>> {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max) * 1.03;
    let y_max = points().map(|point| point.1).fold(0.0, f64::max) * 1.08;
    let mut builder = ChartBuilder::on(area);
    builder.caption(&panel.title, ("sans-serif", 17)).margin(10).x_label_area_size(42).y_label_area_size(52);
    let mut chart = builder.build_cartesian_2d(0.0..x_max.max(1e-9), 0.0..y_max.max(1e-9))?;
    chart.configure_mesh().light_line_style(WHITE).x_desc(&axes.x).y_desc(&axes.y).x_labels(6).draw()?;
    for (at, line) in panel.lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        if !axes.scatter {
            chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?;
        }
        chart.draw_series(line.points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    Ok(())
}

fn logarithmic(area: &Area<'_>, panel: &Panel, axes: &Axes) -> Result<(), Box<dyn Error>> {
    let points = || panel.lines.iter().flat_map(|line| &line.points).filter(|point| point.0 > 0.0 && point.1 > 0.0);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let least = points().map(of).fold(f64::INFINITY, f64::min);
        let most = points().map(of).fold(f64::MIN_POSITIVE, f64::max);
        (least.min(most) / 1.5)..(most * 1.5)
    };
    let mut builder = ChartBuilder::on(area);
    builder.caption(&panel.title, ("sans-serif", 17)).margin(10).x_label_area_size(42).y_label_area_size(62);
    let mut chart =
        builder.build_cartesian_2d(range(|point| point.0).log_scale(), range(|point| point.1).log_scale())?;
    let label = |value: &f64| if *value >= 0.01 { format!("{value}") } else { format!("{value:.0e}") };
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).x_desc(&axes.x).y_desc(&axes.y).x_labels(6).y_labels(6);
    mesh.x_label_formatter(&label).y_label_formatter(&label).draw()?;
    for (at, line) in panel.lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points = line.points.iter().copied().filter(|point| point.0 > 0.0 && point.1 > 0.0);
        if !axes.scatter {
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        }
        chart.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    Ok(())
}
