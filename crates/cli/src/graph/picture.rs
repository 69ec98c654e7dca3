//! Transaction types as a picture: a column for each level, arrows for what determines what.

use forebay::graph::{Graph, VertexSet};
use forebay_sim::draw::escaped;

const COLUMN: usize = 166;
const ROW: usize = 56;
const BOX_WIDTH: usize = 124;
const BOX_HEIGHT: usize = 34;
const MARGIN: usize = 24;
const TITLE: usize = 40;

const STYLE: &str = "\
text{font:14px system-ui,sans-serif;fill:#1b2733}.title{font-weight:600}.note{font-size:12px;fill:#5b6b7a}\
rect{fill:#eef4fb;stroke:#2f6fb0;stroke-width:1.5}.writes{fill:#fdf0e6;stroke:#b5651d;stroke-dasharray:5 3}\
path{fill:none;stroke:#5b6b7a;stroke-width:1.5}.page{fill:#fff;stroke:none}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9fb0c0}rect{fill:#17324d;stroke:#6cb0f5}\
.writes{fill:#40291a;stroke:#e8a267}path{stroke:#9fb0c0}.page{fill:#0f1720}}";

/// All types, one below the other. Boxes with broken lines write.
pub fn svg(types: &[(String, Graph)]) -> String {
    let (mut body, mut top, mut width) = (String::new(), MARGIN, 0);
    for (name, graph) in types {
        let (drawn, right, height) = one(name, graph, top);
        body += &drawn;
        top += height;
        width = width.max(right);
    }
    let (width, height) = (width + MARGIN, top);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" \
         refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8\"/></marker></defs>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// One type: its drawing, its right end and its height.
fn one(name: &str, graph: &Graph, top: usize) -> (String, usize, usize) {
    let depths = graph.depths();
    let columns = depths.iter().max().map_or(0, |&deepest| deepest + 1);
    let mut rows = vec![0; columns];
    // A vertex stands in the next free row of its column, not above those that determine it.
    let mut places = vec![(0, 0); graph.len()];
    for &v in graph.order() {
        let v = usize::from(v);
        let above = graph.predecessors(v).iter().map(|&p| places[usize::from(p)].1).min().unwrap_or(0);
        let row = rows[depths[v]].max(above);
        rows[depths[v]] = row + 1;
        places[v] = (depths[v], row);
    }
    let left = |column: usize| MARGIN + column * COLUMN;
    let y = |row: usize| top + TITLE + row * ROW;
    let length = graph.critical_length(&VertexSet::EMPTY);
    let groups = graph.complete_groups_count().map_or("very many".to_owned(), |count| count.to_string());
    let mut text = format!(
        "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{} <tspan class=\"note\">critical length {length}, {groups} \
         complete groups</tspan></text>\n",
        top + 18,
        escaped(name),
    );
    for &(from, to) in graph.edges() {
        let (a, b) = (places[usize::from(from)], places[usize::from(to)]);
        let (x1, y1) = (left(a.0) + BOX_WIDTH, y(a.1) + BOX_HEIGHT / 2);
        let (x2, y2) = (left(b.0), y(b.1) + BOX_HEIGHT / 2);
        let bend = (x2 - x1) / 2;
        text += &format!(
            "<path d=\"M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}\" marker-end=\"url(#end)\"/>\n",
            x1 + bend,
            x2 - bend
        );
    }
    for (v, vertex) in graph.vertices().iter().enumerate() {
        let (x, y) = (left(places[v].0), y(places[v].1));
        let class = if vertex.writes { " class=\"writes\"" } else { "" };
        text += &format!("<rect{class} x=\"{x}\" y=\"{y}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\"/>\n");
        text += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            x + BOX_WIDTH / 2,
            y + BOX_HEIGHT / 2 + 5,
            escaped(&shortened(&vertex.name))
        );
    }
    let deepest = rows.iter().copied().max().unwrap_or(1).max(1);
    let right = (left(columns.max(1)) + BOX_WIDTH - COLUMN).max(MARGIN + 420);
    (text, right, TITLE + deepest * ROW + MARGIN)
}

/// As much of a name as fits into a box.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(13) {
        Some((end, _)) if name.chars().count() > 14 => format!("{}..", &name[..end]),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vertex_and_edge_is_drawn_once_and_names_are_escaped() {
        let graph = Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph");
        let text = svg(&[("a<b & \"c\"".to_owned(), graph)]);
        assert_eq!((text.matches("<rect x").count(), text.matches("marker-end").count()), (4, 3), "{text}");
        assert!(text.contains("a&lt;b &amp; &quot;c&quot;"), "{text}");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(shortened("a very long name of a vertex"), "a very long n..");
    }
}
