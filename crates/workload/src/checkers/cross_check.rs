//! A second opinion on list-append histories, by the `adya` crate, which works as Elle does.

use adya::history::{Interner, Mop, Op as TheirOp, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid, Workload};

use super::{Event, Op, Outcome};

/// Whether `adya` finds the history strictly serializable; if not, the anomalies that it names.
pub fn strictly_serializable(events: &[Event]) -> Result<(), String> {
    let history = convert(events);
    let options = Opts { models: vec!["strict-serializable".into()], ..Opts::default() };
    let report = adya::check(&history, Workload::ListAppend, &options);
    match report.valid {
        Valid::True => Ok(()),
        Valid::False => Err(report.anomaly_types.join(", ")),
        // Nothing depends on anything.
        Valid::Unknown if report.anomaly_types == ["empty-transaction-graph"] => Ok(()),
        Valid::Unknown => Err(format!("can't tell: {}", report.anomaly_types.join(", "))),
    }
}

/// The history in `adya`'s terms: two operations for each event, in the order of their ticks.
fn convert(events: &[Event]) -> History {
    let mut interner = Interner::default();
    let mut ops = Vec::with_capacity(2 * events.len());
    for event in events {
        let (kind, seen) = match &event.outcome {
            Outcome::Committed => (OpType::Ok, true),
            Outcome::Failed(_) => (OpType::Fail, false),
            Outcome::Unknown(_) => (OpType::Info, false),
        };
        for (index, kind, seen) in [(event.invoked, OpType::Invoke, false), (event.completed, kind, seen)] {
            let value = event.ops.iter().filter_map(|op| mop(op, seen, &mut interner)).collect();
            ops.push(TheirOp { index, kind, process: Some(event.client.into()), value, time: None });
        }
    }
    ops.sort_by_key(|op| op.index);
    History::from_ops(ops, interner)
}

fn mop(op: &Op, seen: bool, interner: &mut Interner) -> Option<Mop> {
    let mut id = |number: u64| interner.intern(Scalar::Int(number as i64));
    match op {
        Op::Append { key, element, .. } => Some(Mop::Append { key: id(*key), value: id(*element) }),
        Op::List { key, elements } => {
            let key = id(*key);
            let value = match seen {
                true => ReadValue::List(elements.iter().map(|element| id(*element)).collect()),
                false => ReadValue::Nil,
            };
            Some(Mop::Read { key, value })
        }
        Op::Read { .. } | Op::Add { .. } => None,
    }
}
