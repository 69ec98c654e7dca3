//! Results as one page of HTML that needs nothing beside itself: charts as SVG, tables, and how they came about.
//!
//! Whatever comes from files and command lines is escaped; the page forbids itself to load or run anything. Apart from
//! CPU times the same run makes the same page, byte for byte.

mod charts;
mod page;
mod tables;
mod text;

pub use page::Run;

use crate::results::OfTrace;

/// The page.
pub fn html(run: &Run, traces: &[OfTrace]) -> String {
    page::page(run, traces).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ahead::PrefetchTally;
    use crate::latency::Modelled;
    use crate::levels::LevelTally;
    use crate::results::{Goal, Least};
    use crate::row::Row;
    use crate::shown::{bytes, grouped};

    fn row(policy: &str, size: u64, hit_ratio: f64) -> Row {
        Row {
            trace: "t".into(),
            policy: policy.into(),
            unit: "objects",
            size_given: format!("{}%", size / 10),
            size,
            requests: 1000,
            hits: (1000.0 * hit_ratio) as u64,
            hit_ratio,
            byte_hit_ratio: hit_ratio,
            metadata_bytes: 16 * size,
            cpu_ns_per_request: 50.0,
            ..Row::default()
        }
    }

    fn of(rows: Vec<Row>) -> OfTrace {
        OfTrace { name: "a <b> & 'c'.lis".into(), requests: 1000, keys: 1000, rows, ..OfTrace::default() }
    }

    fn plain() -> Vec<Row> {
        vec![row("lru", 10, 0.2), row("lru", 100, 0.4), row("belady", 10, 0.5), row("belady", 100, 0.7)]
    }

    #[test]
    fn a_page_needs_nothing_and_escapes_all() {
        let run = Run { command: "forebay sim '<x>' && y".into(), program: "forebay 1".into(), ..Run::default() };
        let page = html(&run, &[of(plain())]);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
        for part in ["a &lt;b&gt; &amp; 'c'.lis", "&lt;x&gt;", "default-src 'none'", "prefers-color-scheme:dark"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        for part in ["<b>", "<x>", "http://", "https://", "<script", "src=", "href=\"h", "url("] {
            assert!(!page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<svg").count(), 2, "a curve and a heatmap; bytes are as objects");
    }

    #[test]
    fn there_is_a_chart_for_each_thing_that_is_known() {
        let charts = |change: &dyn Fn(&mut Row)| {
            let mut rows = plain();
            rows.iter_mut().for_each(change);
            html(&Run::default(), &[of(rows)]).matches("<svg").count()
        };
        assert_eq!(charts(&|row| row.byte_hit_ratio = 0.1), 3);
        assert_eq!(charts(&|row| row.thr = Some(0.1)), 2 + 3);
        let levels = vec![LevelTally { levels: 9, hits: 3 }; 2];
        assert_eq!(charts(&|row| (row.thr, row.levels) = (Some(0.1), levels.clone())), 5 + 2);
        let line = ("pool=<x>".to_owned(), "priority=1e-3 requests=0.5% read_again=20.00% after=70".to_owned());
        assert_eq!(charts(&|row| row.learned = if row.policy == "lru" { vec![line.clone()] } else { vec![] }), 3);
        assert_eq!(charts(&|row| row.learned = vec![("a".into(), "anything else".into())]), 2);
        let tally = PrefetchTally { issued: 9, used: 5, late: 1, unused: 3, bytes: 152 };
        assert_eq!(charts(&|row| row.prefetch = Some(tally)), 2);
        let modelled = Modelled {
            transactions: None,
            round_trips: 9,
            round_trips_saved: 5,
            latency_us: 20.0,
            latency_without_cache_us: 40.0,
        };
        assert_eq!(charts(&|row| row.modelled = Some(modelled)), 3);
    }

    #[test]
    fn clients_are_beside_each_other() {
        let mut rows = plain();
        for (client, ratio) in [("7", 0.1), ("other", 0.9)] {
            rows.extend(plain().into_iter().map(|row| Row { client: Some(client.into()), hit_ratio: ratio, ..row }));
        }
        let page = html(&Run::default(), &[of(rows)]);
        assert!(page.contains("<title>lru, 7: 10.00</title>") && page.contains("<title>belady, other: 90.00</title>"));
    }

    #[test]
    fn the_buyer_is_answered() {
        let goal = Goal::HitRatio(0.4);
        let least = Least { goal, rows: vec![row("lru", 100, 0.4)], never: vec![("fifo".into(), 0.375)] };
        let page = html(&Run::default(), &[OfTrace { least: Some(least), ..of(plain()) }]);
        assert!(page.contains("Least memory for a hit ratio of 40.00 %") && page.contains("never"), "{page}");
        assert!(page.contains("37.50 %"), "{page}");
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(
            ["1", "12", "123", "1234", "1234567"].map(|n| grouped(n.parse().unwrap_or(0)).replace('\u{2009}', " ")),
            ["1", "12", "123", "1 234", "1 234 567"]
        );
        assert_eq!((bytes(1000), bytes(1 << 20), bytes(1536)), ("1000 B".into(), "1.0 MiB".into(), "1.5 KiB".into()));
    }
}
