//! Pictures: panels of lines side by side, with one legend.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
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

/// How the axes grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Both from zero, by steps.
    Linear,
    /// The horizontal one by factors, the vertical one from zero; points at 0 are left out.
    Across,
    /// Both by factors; zeros are left out.
    Factors,
}

/// How the points of a line are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Joined.
    Lines,
    /// Each by itself.
    Points,
    /// As bars in groups: x counts the groups from 0, which have these names.
    Bars(Vec<String>),
}

/// What is on the axes.
#[derive(Clone, Debug)]
pub struct Axes {
    /// Below.
    pub x: String,
    /// At the left.
    pub y: String,
    /// How they grow; bars are linear.
    pub scale: Scale,
    /// How points are drawn.
    pub form: Form,
    /// Lines with these names are thin, with hollow points.
    pub thin: &'static [&'static str],
}

const PANEL: (u32, u32) = (430, 380);
const LEGEND_WIDTH: u32 = 170;

/// Colours that colour-blind people can tell apart (Okabe and Ito 2008), then greys.
const COLOURS: [RGBColor; 12] = [
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
    RGBColor(120, 94, 240),
    RGBColor(90, 110, 60),
];

/// The names of all lines, in the order in which panels have them: a name has one colour in all panels.
struct Names<'a> {
    names: Vec<&'a str>,
    thin: &'static [&'static str],
}

impl<'a> Names<'a> {
    fn of(panels: &'a [Panel], axes: &Axes) -> Names<'a> {
        let mut names: Vec<&str> = Vec::new();
        for line in panels.iter().flat_map(|panel| &panel.lines) {
            if !names.contains(&line.name.as_str()) {
                names.push(&line.name);
            }
        }
        Names { names, thin: axes.thin }
    }

    fn colour(&self, name: &str) -> RGBColor {
        COLOURS[self.names.iter().position(|other| *other == name).unwrap_or_default() % COLOURS.len()]
    }

    fn stroke(&self, name: &str) -> ShapeStyle {
        self.colour(name).stroke_width(if self.thin.contains(&name) { 1 } else { 2 })
    }

    fn point(&self, name: &str) -> ShapeStyle {
        if self.thin.contains(&name) { self.colour(name).stroke_width(1) } else { self.colour(name).filled() }
    }
}

/// Draws the panels into a file.
pub fn draw(path: &Path, panels: &[Panel], axes: &Axes) -> Result<(), Box<dyn Error>> {
    let width = PANEL.0 * panels.len() as u32 + LEGEND_WIDTH;
    let root = SVGBackend::new(path, (width, PANEL.1)).into_drawing_area();
    root.fill(&WHITE)?;
    let names = Names::of(panels, axes);
    let (left, right) = root.split_horizontally(width - LEGEND_WIDTH);
    for (area, panel) in left.split_evenly((1, panels.len())).iter().zip(panels) {
        match (&axes.form, axes.scale) {
            (Form::Bars(groups), _) => bars(area, panel, axes, &names, groups)?,
            (_, Scale::Linear) => linear(area, panel, axes, &names)?,
            (_, Scale::Across) => across(area, panel, axes, &names)?,
            (_, Scale::Factors) => factors(area, panel, axes, &names)?,
        }
    }
    // One line needs no legend: the axes say what it is.
    for (at, name) in names.names.iter().enumerate().filter(|_| names.names.len() > 1) {
        let y = 60 + 26 * at as i32;
        if axes.form == Form::Lines {
            right.draw(&PathElement::new(vec![(8, y), (34, y)], names.stroke(name)))?;
        }
        match axes.form {
            Form::Bars(_) => right.draw(&Rectangle::new([(12, y - 7), (30, y + 7)], names.colour(name).filled()))?,
            _ => right.draw(&Circle::new((21, y), 3, names.point(name)))?,
        }
        right.draw(&Text::new((*name).to_owned(), (42, y - 7), ("sans-serif", 15)))?;
    }
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

fn builder<'a, 'b, 'c>(area: &'a Area<'b>, panel: &Panel) -> ChartBuilder<'a, 'c, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder.caption(&panel.title, ("sans-serif", 17)).margin(10).x_label_area_size(42).y_label_area_size(62);
    builder
}

/// A number as short as it can be.
fn plain(value: &f64) -> String {
    format!("{}", (value * 1e4).round() / 1e4)
}

/// The same, with a power of ten for the small ones.
fn short(value: &f64) -> String {
    if *value >= 0.01 { plain(value) } else { format!("{value:.0e}") }
}

fn highest(panel: &Panel, of: fn(&(f64, f64)) -> f64) -> f64 {
    panel.lines.iter().flat_map(|line| &line.points).map(of).fold(1e-9, f64::max)
}

fn lines<X, Y>(chart: &mut Chart<'_, '_, X, Y>, panel: &Panel, axes: &Axes, names: &Names) -> Result<(), Box<dyn Error>>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let shown = |point: &(f64, f64)| match axes.scale {
        Scale::Linear => true,
        Scale::Across => point.0 > 0.0,
        Scale::Factors => point.0 > 0.0 && point.1 > 0.0,
    };
    for line in &panel.lines {
        let points: Vec<(f64, f64)> = line.points.iter().copied().filter(shown).collect();
        if axes.form == Form::Lines {
            chart.draw_series(LineSeries::new(points.iter().copied(), names.stroke(&line.name)))?;
        }
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, names.point(&line.name))))?;
    }
    Ok(())
}

fn linear(area: &Area<'_>, panel: &Panel, axes: &Axes, names: &Names) -> Result<(), Box<dyn Error>> {
    let (x_max, y_max) = (1.03 * highest(panel, |point| point.0), 1.08 * highest(panel, |point| point.1));
    let mut chart = builder(area, panel).build_cartesian_2d(0.0..x_max, 0.0..y_max)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).x_desc(&axes.x).y_desc(&axes.y).x_labels(6);
    mesh.x_label_formatter(&plain).y_label_formatter(&plain).draw()?;
    lines(&mut chart, panel, axes, names)
}

fn positive(panel: &Panel, of: fn(&(f64, f64)) -> f64, room: f64) -> std::ops::Range<f64> {
    let points = panel.lines.iter().flat_map(|line| &line.points).map(of).filter(|value| *value > 0.0);
    let least = points.fold(f64::INFINITY, f64::min);
    let most = highest(panel, of);
    (least.min(most) / room)..(most * room)
}

fn across(area: &Area<'_>, panel: &Panel, axes: &Axes, names: &Names) -> Result<(), Box<dyn Error>> {
    let (x, y_max) = (positive(panel, |point| point.0, 1.15), 1.08 * highest(panel, |point| point.1));
    let mut chart = builder(area, panel).build_cartesian_2d(x.log_scale(), 0.0..y_max)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).x_desc(&axes.x).y_desc(&axes.y).x_labels(6);
    mesh.x_label_formatter(&short).y_label_formatter(&plain).draw()?;
    lines(&mut chart, panel, axes, names)
}

fn factors(area: &Area<'_>, panel: &Panel, axes: &Axes, names: &Names) -> Result<(), Box<dyn Error>> {
    let (x, y) = (positive(panel, |point| point.0, 1.5), positive(panel, |point| point.1, 1.5));
    let mut chart = builder(area, panel).build_cartesian_2d(x.log_scale(), y.log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).x_desc(&axes.x).y_desc(&axes.y).x_labels(6).y_labels(6);
    mesh.x_label_formatter(&short).y_label_formatter(&short).draw()?;
    lines(&mut chart, panel, axes, names)
}

/// Of a group's width, what its bars take; the rest is between groups.
const BARS_WIDTH: f64 = 0.84;

fn bars(area: &Area<'_>, panel: &Panel, axes: &Axes, names: &Names, groups: &[String]) -> Result<(), Box<dyn Error>> {
    let y_max = 1.08 * highest(panel, |point| point.1);
    let mut chart = builder(area, panel).build_cartesian_2d(0.0..groups.len() as f64, 0.0..y_max)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE).disable_x_mesh().x_labels(0).x_desc(&axes.x).y_desc(&axes.y);
    mesh.y_label_formatter(&plain).draw()?;
    let width = BARS_WIDTH / names.names.len().max(1) as f64;
    for line in &panel.lines {
        let place = names.names.iter().position(|name| *name == line.name).unwrap_or_default() as f64;
        let bar = |&(group, height): &(f64, f64)| {
            let left = group + (1.0 - BARS_WIDTH) / 2.0 + width * place;
            Rectangle::new([(left, 0.0), (left + width, height)], names.colour(&line.name).filled())
        };
        chart.draw_series(line.points.iter().map(bar))?;
    }
    let base = area.get_base_pixel();
    for (at, group) in groups.iter().enumerate() {
        let (x, y) = chart.plotting_area().map_coordinate(&(at as f64 + 0.5, 0.0));
        let place = (x - base.0 - 4 * group.len() as i32, y - base.1 + 6);
        area.draw(&Text::new(group.clone(), place, ("sans-serif", 14)))?;
    }
    Ok(())
}
