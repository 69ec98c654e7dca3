//! What a chart shows, and what its parts have in common.

use std::borrow::Cow;

pub(super) const LEFT: f64 = 56.0;
pub(super) const TOP: f64 = 44.0;
pub(super) const PLOT_WIDTH: f64 = 328.0;
pub(super) const PLOT_HEIGHT: f64 = 196.0;
/// About the width of a letter.
pub(super) const LETTER: f64 = 6.6;

/// Classes of colours that [`STYLE`](super::STYLE) has: `s0` and so on.
pub(super) const COLOURS: usize = 8;

/// One chart: lines over numbers, or bars over names where all x are whole and `names` says what they stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What x counts.
    pub x: Cow<'static, str>,
    /// What y counts.
    pub y: Cow<'static, str>,
    /// Names of x = 0, 1, ..; empty for numbers.
    pub names: Vec<String>,
    /// Whether y grows by factors.
    pub logarithmic: bool,
    /// Whether x grows by factors.
    pub logarithmic_x: bool,
    /// Whether y may begin above zero where all values are far from it.
    pub loose: bool,
    /// Dots alone.
    pub scatter: bool,
    /// Marks on the axis of x with their words; none for round numbers.
    pub ticks: Vec<(f64, String)>,
    /// Lines, or bars of one colour.
    pub series: Vec<Series>,
    /// Parts of x that are shaded, with a word for each: from, to, word.
    pub marks: Vec<(f64, f64, String)>,
}

/// One line of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points by x.
    pub points: Vec<(f64, f64)>,
    /// What is shown of each point where a reader points at it; its numbers where there is none.
    pub labels: Vec<String>,
    /// How far each point may be off, up and down; shown where there are any; NaN where it is not known.
    pub spreads: Vec<f64>,
}

/// Text as it may stand in HTML and SVG, between tags or in quotes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// As much of a name as fits into so many letters.
pub(super) fn shortened(name: &str, letters: usize) -> String {
    match name.char_indices().nth(letters.saturating_sub(2)) {
        Some((end, _)) if name.chars().count() > letters => format!("{}..", &name[..end]),
        _ => name.to_owned(),
    }
}
