//! Heatmaps: numbers in a grid, darker or lighter as they are greater; every number is written, too.

use super::chart::{LETTER, escaped, shortened};

/// Shades that the style has: `h0`, the least, to `h8`; the last four need text of the other colour.
const SHADES: usize = 9;
const HOT: usize = 5;
const ROW: f64 = 24.0;
const TOP: f64 = 64.0;
const MARGIN: f64 = 14.0;
const CELL_LEAST: f64 = 46.0;
const NAME_LETTERS_MAX: usize = 30;

/// Numbers in a grid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    /// What it shows.
    pub title: String,
    /// What the numbers are, and what stands in columns.
    pub note: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names and numbers of the rows; none where there is no number.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Heatmap {
    /// Where the grid begins, and how wide a cell is.
    fn grid(&self) -> (f64, f64) {
        let longest = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| name.chars().count()).max().unwrap_or(0).min(NAME_LETTERS_MAX)
        };
        let left = MARGIN + LETTER * longest(&mut self.rows.iter().map(|row| &row.0)) as f64 + 10.0;
        (left, (LETTER * longest(&mut self.columns.iter()) as f64 + 10.0).max(CELL_LEAST))
    }

    /// Width and height.
    pub(super) fn size(&self) -> (f64, f64) {
        let (left, cell) = self.grid();
        let notes = self.title.chars().count().max(self.note.chars().count()).min(56);
        let width =
            (left + cell * self.columns.len() as f64 + MARGIN).max(2.0 * MARGIN + (LETTER + 0.4) * notes as f64);
        (width.round(), TOP + ROW * self.rows.len() as f64 + MARGIN)
    }

    /// As part of a page. It is as wide as it needs to be.
    pub fn panel(&self) -> String {
        let ((left, cell), (width, height)) = (self.grid(), self.size());
        let mut text = format!(
            "<svg class=\"chart heat\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{0}\">\n<text class=\"head\" x=\"{MARGIN}\" y=\"16\">{0}</text>\n\
             <text class=\"note\" x=\"{MARGIN}\" y=\"34\">{1}</text>\n",
            escaped(&shortened(&self.title, 56)),
            escaped(&self.note)
        );
        let middle = |column: usize| left + cell * (column as f64 + 0.5);
        for (column, name) in self.columns.iter().enumerate() {
            let (x, y, name) = (middle(column), TOP - 8.0, escaped(&shortened(name, NAME_LETTERS_MAX)));
            text += &format!("<text class=\"note\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>\n");
        }
        for (at, (name, values)) in self.rows.iter().enumerate() {
            let top = TOP + ROW * at as f64;
            let line = top + ROW / 2.0 + 4.0;
            let shown = escaped(&shortened(name, NAME_LETTERS_MAX));
            text += &format!("<text x=\"{:.1}\" y=\"{line}\" text-anchor=\"end\">{shown}</text>\n", left - 8.0);
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                let (shade, x) = (self.shade(value), left + cell * column as f64);
                let ink = if shade >= HOT { "hot" } else { "cold" };
                let of = self.columns.get(column).map_or("", |name| name.as_str());
                text += &format!(
                    "<g><title>{}, {}: {value:.2}</title><rect class=\"h{shade}\" x=\"{:.1}\" y=\"{}\" \
                     width=\"{:.1}\" height=\"{}\" rx=\"2\"/><text class=\"{ink}\" x=\"{:.1}\" y=\"{line}\" \
                     text-anchor=\"middle\">{value:.1}</text></g>\n",
                    escaped(name),
                    escaped(of),
                    x + 1.0,
                    top + 1.0,
                    cell - 2.0,
                    ROW - 2.0,
                    middle(column)
                );
            }
        }
        text + "</svg>\n"
    }

    /// From the least number to the greatest.
    fn shade(&self, value: f64) -> usize {
        let all = || self.rows.iter().flat_map(|row| &row.1).flatten().copied().filter(|value| value.is_finite());
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        match most > least {
            true => (((value - least) / (most - least) * SHADES as f64) as usize).min(SHADES - 1),
            false => SHADES / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written_on_its_shade() {
        let map = Heatmap {
            title: "a<b".into(),
            columns: vec!["1%".into(), "10%".into()],
            rows: vec![("lru".into(), vec![Some(1.0), Some(50.25)]), ("arc".into(), vec![None, Some(99.96)])],
            ..Heatmap::default()
        };
        let text = map.panel();
        assert_eq!(text.matches("<rect").count(), 3);
        for part in ["a&lt;b", "class=\"h0\"", ">50.2<", "class=\"h8\"", ">100.0<", "<title>arc, 10%: 99.96</title>"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let flat = Heatmap { rows: vec![("lru".into(), vec![Some(3.0)])], ..Heatmap::default() };
        assert_eq!(flat.shade(3.0), 4);
    }
}
