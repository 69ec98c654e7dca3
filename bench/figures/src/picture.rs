//! Pictures of the data: each is drawn from the text of its CSV and from nothing else, so that it can be drawn again.

use forebay_sim::draw::{Chart, Series};

use crate::Failed;

/// A CSV without quotes: its columns by name.
pub struct Table<'a> {
    columns: Vec<&'a str>,
    rows: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    pub fn read(text: &'a str) -> Result<Table<'a>, Failed> {
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
        let (columns, rows) = (rows.next().ok_or("no columns")?, rows.collect::<Vec<_>>());
        match rows.iter().position(|row| row.len() != columns.len()) {
            Some(row) => Err(format!("line {}: not {} fields", row + 2, columns.len()).into()),
            None => Ok(Table { columns, rows }),
        }
    }

    pub fn column(&self, name: &str) -> Result<Vec<&'a str>, Failed> {
        let at = self.columns.iter().position(|column| *column == name).ok_or(format!("no column '{name}'"))?;
        Ok(self.rows.iter().map(|row| row[at]).collect())
    }

    pub fn numbers(&self, name: &str) -> Result<Vec<f64>, Failed> {
        let number = |text: &str| text.parse().map_err(|_| format!("column '{name}': '{text}' is no number").into());
        self.column(name)?.into_iter().map(number).collect()
    }
}

/// One chart for each of `charts`, with a line for each of `series`, both in the order in which they come.
pub fn grouped(charts: &[&str], series: &[String], points: impl Iterator<Item = (f64, f64)>) -> Vec<Chart> {
    let mut grouped: Vec<Chart> = Vec::new();
    for ((title, name), point) in charts.iter().zip(series).zip(points) {
        let at = grouped.iter().position(|chart| chart.title == *title).unwrap_or_else(|| {
            grouped.push(Chart { title: (*title).to_owned(), ..Chart::default() });
            grouped.len() - 1
        });
        let all = &mut grouped[at].series;
        match all.iter_mut().find(|other| other.name == *name) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name: name.clone(), points: vec![point], ..Series::default() }),
        }
    }
    grouped
}

pub fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Marks at all values that x has.
pub fn ticks(values: &[f64]) -> Vec<(f64, String)> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values.into_iter().map(|value| (value, format!("{}", (value * 1e4).round() / 1e4))).collect()
}

/// Names in the order in which they come, and each one's place among them.
pub fn places(names: &[&str]) -> (Vec<String>, Vec<f64>) {
    let mut known: Vec<String> = Vec::new();
    let place = |name: &&str| match known.iter().position(|other| other == name) {
        Some(place) => place as f64,
        None => {
            known.push((*name).to_owned());
            (known.len() - 1) as f64
        }
    };
    let places = names.iter().map(place).collect();
    (known, places)
}

const READS: &str = "read hit ratio";

/// What a picture shows.
pub type Charts = Result<Vec<Chart>, Failed>;

/// Figures 6 to 8.
pub fn by_size(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    let x: Vec<f64> = table.numbers("share")?.iter().map(|share| 100.0 * share).collect();
    let points = x.iter().copied().zip(table.numbers("read_hit_ratio")?);
    let charts = grouped(&table.column("trace")?, &owned(table.column("policy")?), points);
    let axes =
        |chart| Chart { x: "cache, % of the database at the start".into(), y: READS.into(), ticks: ticks(&x), ..chart };
    Ok(charts.into_iter().map(axes).collect())
}

/// Figure 3.
pub fn priorities(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    // Where an axis grows by factors there is no place for zero.
    let points = table.numbers("requests_percent")?.into_iter().zip(table.numbers("priority")?);
    let points: Vec<(f64, f64)> = points.filter(|(share, priority)| *share > 0.0 && *priority > 0.0).collect();
    let all = table.rows.len();
    let zero = all - points.len();
    let name = format!("a hint set ({all} in all, {zero} of priority 0 not shown)");
    Ok(vec![Chart {
        title: "pgc_c10".into(),
        x: "% of requests".into(),
        y: "priority".into(),
        logarithmic: true,
        logarithmic_x: true,
        scatter: true,
        series: vec![Series { name, points, ..Series::default() }],
        ..Chart::default()
    }])
}

/// Figure 9: a chart for each kind of load, a line for each size of the cache in front.
pub fn top_k(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    let (traces, x) = (table.column("trace")?, table.numbers("k")?);
    let load = |trace: &&str| match trace.get(..3).unwrap_or(trace) {
        "pgc" => "TPC-C-like",
        "pgh" => "TPC-H-like",
        _ => "MariaDB",
    };
    let front = |trace: &&str| {
        let front = trace.split('_').next_back().unwrap_or(trace).trim_start_matches(char::is_alphabetic);
        format!("{front} % in front")
    };
    let points = x.iter().copied().zip(table.numbers("read_hit_ratio")?);
    let names: Vec<String> = traces.iter().map(front).collect();
    let charts = grouped(&traces.iter().map(load).collect::<Vec<_>>(), &names, points);
    let axes = |chart| Chart {
        x: "k, growing by factors".into(),
        y: READS.into(),
        logarithmic_x: true,
        ticks: ticks(&x),
        ..chart
    };
    Ok(charts.into_iter().map(axes).collect())
}

/// Figure 10.
pub fn noise(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    let x = table.numbers("noise_types")?;
    let points = x.iter().copied().zip(table.numbers("read_hit_ratio")?);
    let charts = grouped(&table.column("trace")?, &owned(table.column("policy")?), points);
    let axes = |chart| Chart { x: "useless hint types".into(), y: READS.into(), ticks: ticks(&x), ..chart };
    Ok(charts.into_iter().map(axes).collect())
}

/// Figure 11: clients in the order of their numbers, then all of them together.
pub fn clients(csv: &str) -> Charts {
    const CLIENTS: [(&str, &str); 4] = [("1", "c10"), ("2", "c50"), ("3", "c90"), ("all", "all")];
    let table = Table::read(csv)?;
    let place = |client: &str| {
        let place = CLIENTS.iter().position(|(name, _)| *name == client);
        place.map(|place| place as f64).ok_or(Failed::from(format!("no client '{client}'")))
    };
    let x = table.column("client")?.into_iter().map(place).collect::<Result<Vec<f64>, Failed>>()?;
    let points = x.into_iter().zip(table.numbers("read_hit_ratio")?);
    let charts = grouped(&table.column("division")?, &owned(table.column("policy")?), points);
    let names = CLIENTS.map(|(_, name)| name.to_owned()).to_vec();
    let axes = |chart| Chart { x: "reads of a client".into(), y: READS.into(), names: names.clone(), ..chart };
    Ok(charts.into_iter().map(axes).collect())
}

const NS: &str = "ns per request";

/// Time against the number of hint sets.
pub fn time(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    let (names, x) = (owned(table.column("policy")?), table.numbers("hint_sets")?);
    let points = x.iter().copied().zip(table.numbers("ns_per_request")?);
    let charts = grouped(&vec!["made-up keys, a fifth of them cached"; names.len()], &names, points);
    let axes = |chart| Chart {
        x: "hint sets, growing by factors".into(),
        y: NS.into(),
        logarithmic_x: true,
        ticks: ticks(&x),
        ..chart
    };
    Ok(charts.into_iter().map(axes).collect())
}

/// Time on the traces.
pub fn time_of_traces(csv: &str) -> Charts {
    let table = Table::read(csv)?;
    let traces = table.column("trace")?;
    let short: Vec<&str> = traces.iter().map(|trace| trace.rsplit('_').next().unwrap_or(trace)).collect();
    let (names, x) = places(&short);
    let points = x.into_iter().zip(table.numbers("ns_per_request")?);
    let charts = grouped(&vec!["cache of 20 % of the database"; traces.len()], &owned(table.column("policy")?), points);
    let axes = |chart| Chart { x: "trace".into(), y: NS.into(), names: names.clone(), ..chart };
    Ok(charts.into_iter().map(axes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FIGURES;
    use std::path::Path;

    /// What is committed shows what is committed beside it.
    #[test]
    fn committed_pictures_are_those_of_their_data() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers/figures");
        for figure in FIGURES {
            let name = figure.name;
            let data = std::fs::read_to_string(folder.join(format!("{name}.csv"))).unwrap();
            if let Some(drawn) = figure.drawn(&data).unwrap_or_else(|error| panic!("{name}.csv: {error}")) {
                let there = std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
                assert!(drawn == there, "{name}.svg is not of {name}.csv; `forebay-figures --redraw {name}` draws it");
            }
        }
    }

    #[test]
    fn points_stand_where_their_columns_say() {
        let charts = by_size("trace,policy,share,pages,read_hit_ratio\na,lru,0.1,9,0.5\nb,lru,0.1,9,0.25\n").unwrap();
        assert_eq!((charts.len(), charts[1].series[0].points[0]), (2, (10.0, 0.25)));
        let charts = top_k("trace,pages,k,read_hit_ratio\npgc_c10,1,50,0.4\npgc_c50,1,50,0.3\n").unwrap();
        assert_eq!((charts.len(), charts[0].series[1].name.as_str()), (1, "50 % in front"));
        assert_eq!(charts[0].ticks, [(50.0, "50".to_owned())]);
        let charts = time_of_traces("trace,policy,pages,ns_per_request\npgc_c10,lru,1,5\nmy_b28,lru,1,7\n").unwrap();
        assert_eq!((charts[0].names.join(" ").as_str(), charts[0].series[0].points[1]), ("c10 b28", (1.0, 7.0)));
    }

    #[test]
    fn what_is_no_data_is_refused() {
        let refused = |csv: &str| noise(csv).unwrap_err().to_string();
        assert_eq!(refused("trace,policy\nc,lru,3\n"), "line 2: not 2 fields");
        assert_eq!(refused("trace,policy\nc,lru\n"), "no column 'noise_types'");
        assert_eq!(refused("noise_types,policy\nno,lru\n"), "column 'noise_types': 'no' is no number");
        assert!(clients("division,policy,client,read_hit_ratio\na,lru,7,0.5\n").is_err());
    }
}
