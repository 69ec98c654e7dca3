//! Graphs of transaction types, proposed from recorded traffic: for people to review, since what always held need not
//! hold because of it. A wrong graph may cost hit rate, never correctness.
//!
//! A client that has to wait for an access before it can ask the next one has learned something from it. That is a
//! word of the next key. So an edge leads from `p` to `t` where
//!
//! * In [`SHARE_MIN`] of the accesses of `t` after `p` in one transaction, `p` returned the word at one place of the
//!   key. It did so on an earlier level. [`BEHIND_MIN`] of all accesses of `t` are after `p`. (Not all have to be.
//!   There may be two ways to a key, and what is read of a commit on its way is not recorded.)
//! * That word was not known before `p` returned it. It stood in no key of that level or an earlier one, the first
//!   level's keys, which are the transaction's input, among them. A key whose word was known says nothing: neither
//!   for an edge nor, as customer 12 may order product 12, against it.
//! * It is not by chance. Of these words at most [`CHANCE_MAX`] were among those that `p` returned in the transaction
//!   of this type before, and [`VARIED_MIN`] or more were not. Small numbers match by chance all the time, since one
//!   of ten districts is in nearly every list of districts. They then match those as well. What follows varies
//!   together.
//!
//! A write comes after the reads of the same key, too, as what is written is mostly made of what was read.
//!
//! Its memory is the accesses of transactions that are open, up to [`HELD_WORDS_MAX`]. Of a type it is what is known
//! of the first [`VERTICES_MAX`](forebay::graph::VERTICES_MAX) vertices, as no graph has more. Beyond either, accesses
//! are left out and counted.

mod learned;
mod proposal;

use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::fbt::Reader;

use learned::Inference;
pub use learned::{BEHIND_MIN, CHANCE_MAX, HELD_WORDS_MAX, PLACES_MAX, SHARE_MIN, VARIED_MIN};
pub use proposal::{InferenceError, quoted};

/// Looks at all transactions of a trace that was recorded with what reads returned (`CACHE TRACE START name
/// RETURNED`). The text is a file of transaction types with the evidence as comments.
pub fn infer(path: &Path) -> Result<String, InferenceError> {
    let failed = |error| InferenceError::Trace { path: path.display().to_string(), error };
    let mut reader = Reader::open(path).map_err(failed)?;
    let mut inference = Inference::default();
    let mut cut = None;
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => inference.take(&record, reader.returned()),
            Err(error @ (TraceError::Truncated { .. } | TraceError::Cut { .. })) => cut = Some(error.to_string()),
            Err(error) => return Err(failed(error)),
        }
    }
    proposal::text(&inference, path, reader.dictionary(), cut)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use forebay::graph::VERTICES_MAX;
    use forebay_trace::fbt::Writer;
    use forebay_trace::words::words;
    use forebay_trace::{Kind, Record, TraceKey};

    use super::*;

    /// An access: level, vertex, whether it writes, key and what it returned.
    type Line<'a> = (u16, &'a str, bool, String, String);

    /// What is proposed for transactions of one type, each made by its number.
    fn proposed(transactions: u64, make: impl Fn(u64) -> Vec<Line<'static>>) -> Result<String, InferenceError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.fbt");
        let mut writer = Writer::create(std::fs::File::create(&path).expect("a file"), 0).expect("to disk");
        writer.define_type(1, Bytes::from_static(b"T")).expect("to disk");
        let mut names: Vec<&str> = Vec::new();
        for txn in 1..=transactions {
            let base = Record { txn, txn_type: 1, ..Record::default() };
            for (level, name, writes, key, returned) in make(txn) {
                let known = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name);
                    let (id, name) = (names.len() as u16, Bytes::copy_from_slice(name.as_bytes()));
                    writer.define_vertex(1, id, name).expect("to disk");
                    names.len() - 1
                });
                let kind = if writes { Kind::Write } else { Kind::Read };
                let (vertex, key) = (known as u16 + 1, TraceKey::Bytes(key.into()));
                let record = Record { kind, level, vertex, key, ..base.clone() };
                writer.append_with(&record, &words(returned.as_bytes()).collect::<Vec<_>>()).expect("to disk");
            }
            writer.append(&Record { kind: Kind::Committed, ..base }).expect("to disk");
        }
        writer.finish().expect("to disk");
        infer(&path)
    }

    /// The names behind `after` of each vertex that has one.
    fn edges(text: &str) -> Vec<(String, String)> {
        let mut name = String::new();
        let mut edges = Vec::new();
        for line in text.lines() {
            if let Some(found) = line.strip_prefix("name = ") {
                name = found.trim_matches('"').to_owned();
            } else if let Some(after) = line.strip_prefix("after = ") {
                edges.push((name.clone(), after.replace('"', "")));
            }
        }
        edges
    }

    fn pair(vertex: &str, after: &str) -> (String, String) {
        (vertex.to_owned(), after.to_owned())
    }

    /// Spreads numbers, as names and numbers of customers are.
    fn customer(txn: u64) -> u64 {
        1000 + txn * 7919 % 5000
    }

    #[test]
    fn what_tells_a_key_comes_before_it() {
        let text = proposed(100, |txn| {
            let (id, balance) = (customer(txn), txn * 31 % 900);
            vec![
                (0, "account", false, format!("account:n{txn}"), format!("{{\"custid\":{id}}}")),
                (1, "savings", false, format!("savings:{id}"), format!("{id},{balance}")),
                (1, "checking", false, format!("checking:{id}"), format!("{id},{}", balance + 5)),
                (2, "w:savings", true, format!("savings:{id}"), String::new()),
            ]
        })
        .expect("types");
        let found =
            [pair("savings", "[account]"), pair("checking", "[account]"), pair("w:savings", "[account, savings]")];
        assert_eq!(edges(&text), found, "{text}");
        assert!(text.contains("account returned word 2 of 100.0 % of 100 keys; by chance 0.0 %"), "{text}");
        assert!(text.contains("savings reads the same key in 100.0 %") && text.contains("writes = true"), "{text}");
    }

    #[test]
    fn what_the_client_knew_tells_nothing() {
        // The customer's number is in the first key already: the second access waits for no word.
        let text = proposed(100, |txn| {
            let id = customer(txn);
            vec![
                (0, "account", false, format!("account:{id}"), format!("{id}")),
                (1, "savings", false, format!("savings:{id}"), format!("{id}")),
            ]
        })
        .expect("types");
        assert!(edges(&text).is_empty() && text.contains("nothing says what for"), "{text}");
    }

    /// Every tenth customer has the number of what is ordered.
    #[test]
    fn a_word_that_was_known_says_nothing() {
        let text = proposed(300, |txn| {
            let user = if txn % 10 == 0 { customer(txn) } else { 9_000 + txn };
            vec![
                (0, "cart", false, format!("cart:{user}"), format!("{}", customer(txn))),
                (1, "shelf", false, format!("product:{}", customer(txn)), String::new()),
            ]
        })
        .expect("types");
        assert_eq!(edges(&text), [pair("shelf", "[cart]")], "{text}");
        assert!(text.contains("of 100.0 % of 270 keys"), "{text}");
    }

    #[test]
    fn who_told_it_first_counts() {
        let text = proposed(100, |txn| {
            let id = customer(txn);
            vec![
                (0, "name", false, format!("name:n{txn}"), format!("{id}")),
                (1, "customer", false, format!("customer:{id}"), format!("{id} n{txn} order {}", id + 9000)),
                (2, "order", false, format!("order:{}", id + 9000), format!("{id}")),
                (3, "address", false, format!("address:{id}"), String::new()),
            ]
        })
        .expect("types");
        let found = [pair("customer", "[name]"), pair("order", "[customer]"), pair("address", "[name]")];
        assert_eq!(edges(&text), found, "{text}");
    }

    /// Lists of nearly all districts have each transaction's district in them, whichever it is.
    #[test]
    fn small_numbers_match_by_chance() {
        let text = proposed(2000, |txn| {
            let mix = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let without = mix(txn) % 100_000;
            let list: Vec<String> = (0..10).filter(|d| *d != without).map(|d| d.to_string()).collect();
            vec![
                (0, "warehouse", false, format!("warehouse:w{}", txn % 3), list.join(",")),
                (1, "district", false, format!("district:{}", mix(txn * 3 + 1) % 10), String::new()),
            ]
        })
        .expect("types");
        assert!(edges(&text).is_empty() && text.contains("not proposed, may be chance: warehouse"), "{text}");
    }

    #[test]
    fn one_in_a_hundred_may_differ_and_no_more() {
        let of = |others: u64| {
            proposed(1000, move |txn| {
                let id = customer(txn);
                let asked = if txn % 1000 < others { id + 1 } else { id };
                vec![
                    (0, "account", false, format!("account:n{txn}"), format!("{id}")),
                    (1, "savings", false, format!("savings:{asked}"), String::new()),
                ]
            })
            .expect("types")
        };
        assert_eq!(edges(&of(9)), [pair("savings", "[account]")]);
        let text = of(20);
        assert!(edges(&text).is_empty() && text.contains("not proposed, too few: account"), "{text}");
    }

    /// Of some transactions not all is recorded, and some have another way.
    #[test]
    fn only_what_comes_behind_it_counts() {
        let of = |without: u64| {
            proposed(1000, move |txn| {
                let id = customer(txn);
                let account = (0, "account", false, format!("account:n{txn}"), format!("{id}"));
                let savings = (1, "savings", false, format!("savings:{id}"), String::new());
                if txn % 1000 < without { vec![savings] } else { vec![account, savings] }
            })
            .expect("types")
        };
        assert_eq!(edges(&of(400)), [pair("savings", "[account]")]);
        let text = of(600);
        assert!(edges(&text).is_empty() && text.contains("not proposed, seldom together: account"), "{text}");
    }

    /// A client that counts its steps.
    #[test]
    fn of_vertices_beyond_a_graphs_nothing_is_kept() {
        let names: Vec<&'static str> = (0..VERTICES_MAX + 50).map(|at| &*format!("step {at}").leak()).collect();
        let step = move |txn: u64| {
            let at = txn as usize % names.len();
            vec![(0, names[at], false, format!("a:{txn}"), format!("{}", customer(txn)))]
        };
        let text = proposed(3 * (VERTICES_MAX as u64 + 50), step).expect("types");
        assert!(text.contains("# Not looked at: 150 accesses for which there was no room."), "{text}");
        assert_eq!(text.matches("[[type.vertex]]").count(), VERTICES_MAX);
    }

    #[test]
    fn what_a_trace_lacks_is_said() {
        let silent = |txn: u64| vec![(0, "a", false, format!("a:{txn}"), String::new())];
        let error = proposed(10, silent).expect_err("nothing returned").to_string();
        assert!(error.contains("CACHE TRACE START name RETURNED"), "{error}");
        let error = proposed(0, silent).expect_err("no types").to_string();
        assert!(error.contains("TXN BEGIN TYPE"), "{error}");
        let odd = |txn: u64| vec![(0, "a\"\u{7f}\n", false, format!("a:{txn}"), "x".to_owned())];
        assert!(proposed(1, odd).expect("types").contains("name = \"a\\\"\\u007f\\n\""));
    }
}
