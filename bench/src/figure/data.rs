//! A figure's data as text, one line for each point, and back again. Of points that are medians of several runs, a
//! fifth field says how far the others are from it at most.
//!
//! What else a picture shows stands above the points, in comments. They say what the axes count (`# axes`) and which
//! of them grow by factors (`# factors`). They also have the names of bars (`# names`), and parts of x that are
//! shaded (`# mark`: from, to, word).

use forebay_sim::draw::{Chart, Series};

use super::Failed;

const COLUMNS: &str = "chart,series,x,y";

/// The data of charts, from which [`read`] makes the same charts.
pub(super) fn written(charts: &[Chart]) -> String {
    let mut text = String::new();
    for chart in charts {
        let mut head = |what: &str, fields: &[&str]| {
            let fields = [&[chart.title.as_str()], fields].concat();
            text += &format!("# {what},{}\n", fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(","));
        };
        head("axes", &[&chart.x, &chart.y]);
        if !chart.names.is_empty() {
            head("names", &chart.names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if chart.logarithmic || chart.logarithmic_x {
            let axes = [(chart.logarithmic_x, "x"), (chart.logarithmic, "y")];
            head("factors", &axes.iter().filter(|(grows, _)| *grows).map(|(_, axis)| *axis).collect::<Vec<_>>());
        }
        for (from, to, word) in &chart.marks {
            head("mark", &[&from.to_string(), &to.to_string(), word]);
        }
    }
    text += &format!("{COLUMNS}\n");
    for chart in charts {
        for series in &chart.series {
            for (at, (x, y)) in series.points.iter().enumerate() {
                let x = chart.names.get(*x as usize).cloned().unwrap_or_else(|| x.to_string());
                let off = series.spreads.get(at).map(|off| format!(",{off}")).unwrap_or_default();
                text += &format!("{},{},{},{y}{off}\n", quoted(&chart.title), quoted(&series.name), quoted(&x));
            }
        }
    }
    text
}

fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

/// The charts of such a text.
pub(super) fn read(text: &str) -> Result<Vec<Chart>, Failed> {
    let mut charts: Vec<Chart> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| *line != COLUMNS) {
        take(&mut charts, line).map_err(|why| format!("line {}: {why}", at + 1))?;
    }
    Ok(charts)
}

fn take(charts: &mut Vec<Chart>, line: &str) -> Result<(), Failed> {
    let comment = line.strip_prefix("# ");
    let fields = fields(comment.unwrap_or(line))?;
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    if let (Some(_), ["axes", title, x, y]) = (comment, fields.as_slice()) {
        let (title, x, y) = ((*title).to_owned(), (*x).to_owned().into(), (*y).to_owned().into());
        charts.push(Chart { title, x, y, ..Chart::default() });
        return Ok(());
    }
    let title = fields.get(usize::from(comment.is_some())).copied().unwrap_or_default();
    let chart = charts.iter_mut().find(|chart| chart.title == title).ok_or(format!("no axes of \"{title}\" above"))?;
    match (comment.is_some(), fields.as_slice()) {
        (true, ["names", _, names @ ..]) => chart.names = names.iter().map(|name| (*name).to_owned()).collect(),
        (true, ["factors", _, axes @ ..]) => {
            (chart.logarithmic_x, chart.logarithmic) = (axes.contains(&"x"), axes.contains(&"y"));
        }
        (true, ["mark", _, from, to, word]) => chart.marks.push((from.parse()?, to.parse()?, (*word).to_owned())),
        (false, [_, series, x, y, off @ ..]) if off.len() <= 1 => {
            let x = match chart.names.iter().position(|name| name == x) {
                Some(place) => place as f64,
                None => x.parse().map_err(|_| format!("\"{x}\" is neither a number nor one of the names"))?,
            };
            let point = (x, y.parse()?);
            let at = chart.series.iter().position(|other| other.name == *series).unwrap_or_else(|| {
                chart.series.push(Series { name: (*series).to_owned(), ..Series::default() });
                chart.series.len() - 1
            });
            chart.series[at].points.push(point);
            for off in off {
                chart.series[at].spreads.push(off.parse()?);
            }
        }
        _ => return Err("neither a point nor one of the comments".into()),
    }
    Ok(())
}

/// The fields of a line; what is in quotes may have commas, and quotes twice.
fn fields(line: &str) -> Result<Vec<String>, Failed> {
    let (mut fields, mut inside, mut letters) = (vec![String::new()], false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        let last = fields.len() - 1;
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => fields[last].extend(letters.next()),
            '"' => inside = !inside,
            ',' if !inside => fields.push(String::new()),
            _ => fields[last].push(letter),
        }
    }
    if inside { Err("a quote without its end".into()) } else { Ok(fields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charts() -> Vec<Chart> {
        let line = |name: &str, points: &[(f64, f64)]| {
            vec![Series { name: name.to_owned(), points: points.to_vec(), ..Series::default() }]
        };
        let lines = Chart {
            title: "10,000 keys".into(),
            x: "size".into(),
            y: "\"hits\"".into(),
            logarithmic: true,
            series: line("lru & co", &[(0.1, 1.0 / 3.0), (55.00000000000001, f64::NAN)]),
            marks: vec![(0.25, 0.5, "away, for a while".into())],
            ..Chart::default()
        };
        let lines = Chart { series: vec![Series { spreads: vec![0.25, 0.0], ..lines.series[0].clone() }], ..lines };
        let names = ["one", "1000 ms"].map(str::to_owned).to_vec();
        let bars =
            Chart { title: "bars".into(), names, series: line("of", &[(0.0, 2.0), (1.0, -4.0)]), ..lines.clone() };
        vec![lines, Chart { logarithmic_x: true, marks: Vec::new(), ..bars }]
    }

    #[test]
    fn what_is_written_is_read_again() {
        let charts = charts();
        let text = written(&charts);
        let drawn = |charts: &[Chart]| forebay_sim::draw::svg("f", charts);
        assert_eq!(drawn(&read(&text).unwrap()), drawn(&charts), "{text}");
        assert!(text.contains("\"bars\",\"of\",\"1000 ms\",-4\n") && text.contains("333,0.25\n"), "{text}");
        assert_eq!(text, written(&read(&text).unwrap()));
    }

    #[test]
    fn what_is_no_data_is_refused_with_its_line() {
        let text = written(&charts());
        for (wrong, why) in [
            ("\"no chart\",\"lru\",1,2", "no axes of \"no chart\""),
            ("\"bars\",\"of\",three,4", "\"three\" is neither"),
            ("\"bars\",\"of\",1", "neither a point"),
            ("# colour,\"bars\",\"red\"", "neither a point"),
            ("\"bars", "without its end"),
        ] {
            let error = read(&format!("{text}{wrong}\n")).unwrap_err().to_string();
            assert!(error.contains(why) && error.starts_with(&format!("line {}", text.lines().count() + 1)), "{error}");
        }
    }
}
