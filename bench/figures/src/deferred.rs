//! Pictures of the thesis on DeferredLRU, from the data that `target/dist/thesis` writes.

use forebay_sim::draw::{Chart, Heatmap};

use crate::Failed;
use crate::picture::{self, Table, grouped, owned, places, ticks};

const MOPS: &str = "million requests per second";

/// Figure 5.1: a grid for each test and number of threads.
pub fn throughput_by_thresholds(csv: &str) -> Result<Vec<Heatmap>, Failed> {
    by_thresholds(csv, "mops", MOPS)
}

/// Figure 5.2.
pub fn hits_by_thresholds(csv: &str) -> Result<Vec<Heatmap>, Failed> {
    by_thresholds(csv, "hit_percent", "% of hits")
}

fn by_thresholds(csv: &str, column: &str, what: &str) -> Result<Vec<Heatmap>, Failed> {
    let table = Table::read(csv)?;
    let [tests, threads, pulls, purges] = ["test", "threads", "pull", "purge"].map(|name| table.column(name));
    let (tests, threads, pulls, purges) = (tests?, threads?, pulls?, purges?);
    let shown = |share: &str| share.trim_start_matches('0').to_owned();
    let mut maps: Vec<Heatmap> = Vec::new();
    for (at, value) in table.numbers(column)?.into_iter().enumerate() {
        let plural = if threads[at] == "1" { "" } else { "s" };
        let title = format!("{}, {} thread{plural}", tests[at], threads[at]);
        let note = format!("{what}; rows: pull, columns: purge");
        let map = match maps.iter().position(|map| map.title == title) {
            Some(at) => &mut maps[at],
            None => {
                maps.push(Heatmap { title, note, ..Heatmap::default() });
                maps.last_mut().ok_or("no map")?
            }
        };
        let (pull, purge) = (shown(pulls[at]), shown(purges[at]));
        let column = map.columns.iter().position(|name| *name == purge).unwrap_or_else(|| {
            map.columns.push(purge);
            map.columns.len() - 1
        });
        let row = map.rows.iter().position(|row| row.0 == pull).unwrap_or_else(|| {
            map.rows.push((pull, Vec::new()));
            map.rows.len() - 1
        });
        let values = &mut map.rows[row].1;
        values.resize(values.len().max(column + 1), None);
        values[column] = Some(value);
    }
    Ok(maps)
}

/// Figures 5.3 and 5.4: the thesis' caches of one part, those of many parts, and the library's.
pub fn by_threads(csv: &str) -> picture::Charts {
    let table = Table::read(csv)?;
    let (tests, caches, x) = (table.column("test")?, table.column("cache")?, table.numbers("threads")?);
    let kind = |cache: &str| match cache {
        "HHVM" => "64 parts",
        of_parts if of_parts.starts_with("B-") => "64 parts",
        ours if ours.starts_with("forebay") => "the library",
        _ => "one part",
    };
    let titles: Vec<String> =
        tests.iter().zip(&caches).map(|(test, cache)| format!("{test}: {}", kind(cache))).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let points = x.iter().copied().zip(table.numbers("mops")?);
    let charts = grouped(&titles, &owned(caches), points);
    let axes = |chart| Chart {
        x: "threads, growing by factors".into(),
        y: MOPS.into(),
        logarithmic_x: true,
        ticks: ticks(&x),
        ..chart
    };
    Ok(charts.into_iter().map(axes).collect())
}

/// Section 6.1: throughput, and hits.
pub fn by_one_thread(csv: &str) -> picture::Charts {
    let table = Table::read(csv)?;
    let tests = table.column("test")?;
    let short: Vec<&str> = tests.iter().map(|test| test.split(' ').next().unwrap_or(test)).collect();
    let (names, x) = places(&short);
    let caches = owned(table.column("cache")?);
    let mut charts = Vec::new();
    for (column, y) in [("mops", MOPS), ("hit_percent", "% of hits")] {
        let points = x.iter().copied().zip(table.numbers(column)?);
        let title = vec![if column == "mops" { "throughput" } else { "hits" }; caches.len()];
        let axes = |chart| Chart { x: "trace".into(), y: y.into(), names: names.clone(), ..chart };
        charts.extend(grouped(&title, &caches, points).into_iter().map(axes));
    }
    Ok(charts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_their_thresholds_say() {
        let csv = "test,capacity,threads,pull,purge,mops,load\na 1/10,5,1,0.001,0.1,2.5,0\na 1/10,5,1,0.001,0.9,3.5,0\n\
                   a 1/10,5,32,0.9,0.1,1,0\n";
        let maps = throughput_by_thresholds(csv).unwrap();
        assert_eq!(
            (maps.len(), maps[0].title.as_str(), maps[1].title.as_str()),
            (2, "a 1/10, 1 thread", "a 1/10, 32 threads")
        );
        assert_eq!(maps[0].columns, [".1", ".9"]);
        assert_eq!(maps[0].rows, [(".001".to_owned(), vec![Some(2.5), Some(3.5)])]);
        assert_eq!(hits_by_thresholds(csv).unwrap_err().to_string(), "no column 'hit_percent'");
    }

    #[test]
    fn caches_are_drawn_with_their_kind() {
        let csv = "test,capacity,cache,threads,mops,hit_percent,load\na 1/10,5,LRU,1,2,40,0\na 1/10,5,B-LRU,1,3,40,0\n\
                   a 1/10,5,HHVM,1,4,40,0\na 1/10,5,forebay Inline,2,5,41,0\n";
        let charts = by_threads(csv).unwrap();
        let titles: Vec<_> = charts.iter().map(|chart| (chart.title.as_str(), chart.series.len())).collect();
        assert_eq!(titles, [("a 1/10: one part", 1), ("a 1/10: 64 parts", 2), ("a 1/10: the library", 1)]);
        assert_eq!(charts[2].series[0].points, [(2.0, 5.0)]);
        let charts = by_one_thread(csv).unwrap();
        assert_eq!((charts.len(), charts[1].series[3].points[0].1, charts[0].names[0].as_str()), (2, 41.0, "a"));
    }
}
