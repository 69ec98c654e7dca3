//! Figures of the papers: one record each, which measures and says what to draw.
//!
//! A new figure is a record in its paper's file and stands in [`FIGURES`] by that.

mod data;
mod detox;
mod kairos;
mod runs;
mod tardis;

use std::error::Error;
use std::path::Path;
use std::sync::LazyLock;

pub use forebay_sim::draw::{Chart, Series};

/// Why a figure can't be measured.
pub type Failed = Box<dyn Error>;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Shapes, in minutes.
    Reduced,
    /// As in the documents' tables.
    Full,
}

/// One figure, declared once.
pub struct Figure {
    /// Paper and number: `detox-8`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Measures it.
    pub make: fn(Scale) -> Result<Vec<Chart>, Failed>,
}

/// All figures.
pub static FIGURES: LazyLock<Vec<&'static Figure>> =
    LazyLock::new(|| detox::FIGURES.iter().chain(&kairos::FIGURES).chain(&tardis::FIGURES).collect());

/// Writes data, tables and picture into a folder, which is made if it is not there. The picture is drawn from the text
/// of the data, so that whoever has that can draw it again.
pub fn write(folder: &Path, figure: &Figure, charts: &[Chart]) -> Result<(), Failed> {
    std::fs::create_dir_all(folder)?;
    let data = data::written(charts);
    std::fs::write(folder.join(format!("{}.csv", figure.name)), &data)?;
    std::fs::write(folder.join(format!("{}.md", figure.name)), tables(charts))?;
    std::fs::write(folder.join(format!("{}.svg", figure.name)), picture(figure, &data)?)?;
    Ok(())
}

/// Draws a figure's picture again from its data in a folder.
pub fn redraw(folder: &Path, figure: &Figure) -> Result<(), Failed> {
    let data = std::fs::read_to_string(folder.join(format!("{}.csv", figure.name)))?;
    std::fs::write(folder.join(format!("{}.svg", figure.name)), picture(figure, &data)?)?;
    Ok(())
}

/// The picture of a figure's data.
pub fn picture(figure: &Figure, data: &str) -> Result<String, Failed> {
    Ok(forebay_sim::draw::svg(figure.summary, &data::read(data)?))
}

/// A table for each chart: a line for each x, a column for each series; where a series has another x there, it stands
/// in parentheses.
fn tables(charts: &[Chart]) -> String {
    let mut text = String::new();
    for chart in charts {
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        text += &format!("{}: {}\n\n", chart.title, chart.y);
        text += &format!("| {} | {} |\n|{}\n", chart.x, names.join(" | "), "---|".repeat(names.len() + 1));
        let longest = chart.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        for at in (0..longest).step_by(longest.div_ceil(TABLE_LINES).max(1)) {
            let x = chart.series.iter().find_map(|series| series.points.get(at)).map_or(0.0, |point| point.0);
            let name = chart.names.get(x as usize).cloned().unwrap_or_else(|| cell(x));
            let cells = chart.series.iter().map(|series| match series.points.get(at) {
                Some(point) if point.0 == x => cell(point.1),
                Some(point) => format!("{} ({})", cell(point.1), cell(point.0)),
                None => String::new(),
            });
            text += &format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        text += "\n";
    }
    text
}

/// Of lines with many points, about so many.
const TABLE_LINES: usize = 10;

/// Three digits that matter.
fn cell(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value == value.round() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_pictures_hold_every_point() {
        let points = vec![(0.0, 1.0), (1.0, 3.0)];
        let line = Series { name: "lru & co".into(), points, ..Series::default() };
        let lines = Chart {
            title: "t".into(),
            x: "size".into(),
            y: "thr".into(),
            series: vec![line.clone()],
            ..Chart::default()
        };
        let bars = Chart { names: vec!["one".into(), "two".into()], series: vec![line], ..lines.clone() };
        let charts = [lines, bars];
        assert!(tables(&charts).contains("| two | 3 |\n"), "{}", tables(&charts));
        let svg = forebay_sim::draw::svg("a <figure>", &charts);
        assert!(svg.contains("lru &amp; co") && svg.contains("a &lt;figure&gt;"), "{svg}");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<rect class=\"bar").count()), (1, 2 + 1), "{svg}");
    }

    /// What is committed shows what is committed beside it.
    #[test]
    fn committed_pictures_are_those_of_their_data() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/papers/figures");
        for figure in FIGURES.iter() {
            let read = |end: &str| std::fs::read_to_string(folder.join(format!("{}.{end}", figure.name))).unwrap();
            let drawn = picture(figure, &read("csv")).unwrap_or_else(|error| panic!("{}.csv: {error}", figure.name));
            let name = figure.name;
            let draw = format!("`figure --redraw --name {name} --out docs/papers/figures` draws it");
            assert!(drawn == read("svg"), "{name}.svg is not of {name}.csv; {draw}");
        }
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }
}
