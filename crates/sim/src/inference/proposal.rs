//! What was found, as a file of transaction types: each line with its evidence, for a person.

use std::collections::BTreeSet;
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::dictionary::Dictionary;
use thiserror::Error;

use super::learned::{BEHIND_MIN, CHANCE_MAX, Inference, OfVertex, SHARE_MIN, TOLD_MIN, VARIED_MIN};

/// The file's text.
pub(super) fn text(
    inference: &Inference,
    path: &Path,
    dictionary: &Dictionary,
    cut: Option<String>,
) -> Result<String, InferenceError> {
    let path = path.display();
    if inference.types.is_empty() {
        return Err(InferenceError::NoTypes { path: path.to_string(), without_step: inference.without_step });
    }
    if inference.returned == 0 {
        return Err(InferenceError::NothingReturned(path.to_string()));
    }
    let transactions: u64 = inference.types.values().map(|of_type| of_type.transactions).sum();
    let mut text = format!(
        "# Transaction types as {transactions} transactions of {} suggest them. Review this: what always held \
         need not\n# hold because of it. 'after' names the accesses that tell an access its key.\n",
        one_line(&path.to_string())
    );
    let odd =
        [(inference.left_out, "for which there was no room"), (inference.without_step, "without a step (TXN STEP)")];
    for (count, why) in odd.iter().filter(|(count, _)| *count > 0) {
        text += &format!("# Not looked at: {count} accesses {why}.\n");
    }
    text += &cut.map_or(String::new(), |why| format!("# The trace is cut: {}.\n", one_line(&why)));
    for (&number, of_type) in &inference.types {
        let name = dictionary.txn_type(number).map_or(number.to_string(), |name| lossy(name));
        let vertex = |id: u16| {
            let named = dictionary.vertex(number, id).or_else(|| dictionary.vertex(0, id));
            named.map_or(id.to_string(), |name| lossy(name))
        };
        text += &format!("\n# {} transactions.\n[[type]]\nname = {}\n", of_type.transactions, quoted(&name));
        for (&id, of_vertex) in &of_type.vertices {
            text += &vertex_lines(of_vertex, &vertex(id), &vertex);
        }
    }
    Ok(text)
}

/// The lines of a vertex.
fn vertex_lines(found: &OfVertex, name: &str, vertex: &dyn Fn(u16) -> String) -> String {
    let accesses = found.accesses as f64;
    let behind = |from: u16| found.behind.get(&from).copied().unwrap_or(0) as f64;
    let (mut after, mut notes) = (BTreeSet::new(), String::new());
    for (&(place, from), matches) in &found.words {
        let behind = behind(from) - matches.known as f64;
        let share = matches.matched as f64 / behind;
        if behind == 0.0 || share < TOLD_MIN {
            continue;
        }
        let by_chance = matches.by_chance as f64 / accesses;
        let why = match () {
            () if share < SHARE_MIN => "not proposed, too few: ",
            () if behind < BEHIND_MIN * accesses => "not proposed, seldom together: ",
            () if by_chance > CHANCE_MAX || matches.varied < VARIED_MIN => "not proposed, may be chance: ",
            () => {
                after.insert(from);
                ""
            }
        };
        notes += &format!(
            "# {why}{} returned word {} of {:.1} % of {} keys; by chance {:.1} %\n",
            one_line(&vertex(from)),
            place + 1,
            100.0 * share,
            behind,
            100.0 * by_chance,
        );
    }
    for (&from, &count) in &found.same_key {
        let share = count as f64 / behind(from);
        if share >= SHARE_MIN && behind(from) >= BEHIND_MIN * accesses {
            notes += &format!("# {} reads the same key in {:.1} %\n", one_line(&vertex(from)), 100.0 * share);
            after.insert(from);
        }
    }
    if after.is_empty() && found.first == 0 {
        notes += "# It always waited for something, and nothing says what for: name it, if you know.\n";
    }
    let mut text = format!("\n# {} accesses.\n[[type.vertex]]\nname = {}\n", found.accesses, quoted(name));
    text += if found.reads == 0 { "writes = true\n" } else { "" };
    text += &notes;
    if !after.is_empty() {
        let after: Vec<String> = after.into_iter().map(|from| quoted(&vertex(from))).collect();
        text += &format!("after = [{}]\n", after.join(", "));
    }
    text
}

/// Why nothing can be proposed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InferenceError {
    /// The trace can't be read.
    #[error("{path}: {error}; graphs are inferred from what CACHE TRACE START name RETURNED records")]
    Trace {
        /// Which.
        path: String,
        /// What is wrong with it.
        error: TraceError,
    },
    /// No transaction says what it is.
    #[error(
        "{path}: no transaction of a type with steps{}; clients have to say what they are at: TXN BEGIN TYPE name, and \
         TXN STEP name before each access", if *without_step > 0 { " (types there are)" } else { "" }
    )]
    NoTypes {
        /// Which trace.
        path: String,
        /// Accesses of types, without a step.
        without_step: u64,
    },
    /// The trace has accesses alone.
    #[error("{0}: it does not say what reads returned; record it with CACHE TRACE START name RETURNED")]
    NothingReturned(String),
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A string of TOML: JSON's are, but for one sign.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}

/// For a comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
