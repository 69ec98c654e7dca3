//! The changes of a column that is a list. Pushes, pops and removals of an element travel as such: what another program
//! did to the list meanwhile stays.

use forebay::change::{Change, End};
use forebay::store::Write;
use forebay::{Blob, Data};

use super::changes::{Expression, Placed};
use super::statement::Values;
use crate::sql::row_change::utf8;
use crate::sql::table::{Column, Kind, Table, quoted};
use crate::sql::text::array_text;

/// Most steps that stand within each other in one statement. PostgreSQL goes down into each, on a stack of 2 MB as it
/// is delivered; further steps are statements behind it.
const STEPS_MAX: usize = 32;

/// Changes in a row that are one expression: what an outage's many pops and pushes come to must not be a step each.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// So many elements go from the ends. Which goes first is the same: nobody sees what was between.
    Pop {
        left: usize,
        right: usize,
    },
    /// Elements that come to the ends, in this order.
    Push {
        left: Vec<&'a Blob>,
        right: Vec<&'a Blob>,
    },
    Remove {
        count: i64,
        element: &'a Blob,
    },
}

impl Table {
    /// What happens to a list, one statement's worth after the other. What does not travel replaces it, under the row's
    /// lock and after the check that it is still what was read.
    pub(super) fn list_changes(
        &self,
        write: &Write,
        values: impl Fn() -> Values,
    ) -> Result<Vec<(Placed<'_>, Values)>, String> {
        let Some(column) = self.fields.first() else { return Err("the list has no column".into()) };
        let Kind::Array(element) = &column.kind else { return Err(format!("{} is no array", column.name)) };
        if let Some(read_only) = column.read_only {
            return Err(format!("{} of {} is read-only: {}", column.name, self.name, read_only.why()));
        }
        // A push makes the row, though what it pushed is taken out again. What is only taken out makes none, and
        // nothing taken from NULL is NULL.
        let comes = write.changes.iter().any(|change| matches!(change, Change::Push(..) | Change::Put(_)));
        let mut made = Vec::new();
        match steps(&write.changes) {
            Some(steps) => {
                let nothing = (steps.is_empty() && comes).then_some(&[][..]);
                for steps in nothing.into_iter().chain(steps.chunks(STEPS_MAX)) {
                    let mut values = values();
                    made.push((travelling(column, element, steps, &mut values)?, values));
                }
            }
            None => {
                let mut values = values();
                made.push((self.whole_list(column, element, write, &mut values)?, values));
            }
        }
        let kept = |set: Expression| match comes {
            true => set,
            false => {
                let of_row = format!("CASE WHEN t.{} IS NOT NULL THEN {} END", quoted(&column.name), set.of_row);
                Expression { of_row, ..set }
            }
        };
        let change =
            |(set, values)| (Placed { deleted: false, inserts: comes, sets: vec![(column, kept(set))] }, values);
        Ok(made.into_iter().map(change).collect())
    }

    fn whole_list(
        &self,
        column: &Column,
        element: &str,
        write: &Write,
        values: &mut Values,
    ) -> Result<Expression, String> {
        let (list, table) = (&column.name, &self.name);
        if write.unseen {
            return Err(format!("what {list} of {table} holds is not known, so it can't be replaced"));
        }
        let whole = match write.after.as_ref().map(|value| (&value.data, value.expires_at_ms)) {
            None => format!("'{{}}'::{element}[]"),
            Some((Data::List(list), None)) => array_of(list.iter(), element, values)?,
            Some(_) => return Err(format!("{list} of {table} is a list: it takes LPUSH, RPUSH and their kind")),
        };
        Ok(Expression { of_row: whole.clone(), of_nothing: Some(whole) })
    }
}

/// `changes` as steps; `None` if one does not travel.
fn steps(changes: &[Change]) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for change in changes {
        match (change, steps.last_mut()) {
            // What was pushed and popped again is nothing: the list had this element at this end.
            (Change::Pop(End::Left), Some(Step::Push { left, .. })) if !left.is_empty() => drop(left.pop()),
            (Change::Pop(End::Right), Some(Step::Push { right, .. })) if !right.is_empty() => drop(right.pop()),
            (Change::Pop(End::Left), Some(Step::Pop { left, .. })) => *left += 1,
            (Change::Pop(End::Right), Some(Step::Pop { right, .. })) => *right += 1,
            (Change::Pop(End::Left), _) => steps.push(Step::Pop { left: 1, right: 0 }),
            (Change::Pop(End::Right), _) => steps.push(Step::Pop { left: 0, right: 1 }),
            (Change::Push(End::Left, element), Some(Step::Push { left, .. })) => left.push(element),
            (Change::Push(End::Right, element), Some(Step::Push { right, .. })) => right.push(element),
            (Change::Push(End::Left, element), _) => steps.push(Step::Push { left: vec![element], right: Vec::new() }),
            (Change::Push(End::Right, element), _) => steps.push(Step::Push { left: Vec::new(), right: vec![element] }),
            (Change::RemoveEqual { count, element }, _) => steps.push(Step::Remove { count: *count, element }),
            _ => return None,
        }
        // So that pops on both sides of it are one step.
        if matches!(steps.last(), Some(Step::Push { left, right }) if left.is_empty() && right.is_empty()) {
            steps.pop();
        }
    }
    Some(steps)
}

/// `steps` over what the row has by then.
fn travelling(column: &Column, element: &str, steps: &[Step<'_>], values: &mut Values) -> Result<Expression, String> {
    let mut of_row = format!("coalesce(t.{}, '{{}}'::{element}[])", quoted(&column.name));
    let mut of_nothing = format!("'{{}}'::{element}[]");
    for step in steps {
        let made: Box<dyn Fn(&str) -> String> = match step {
            Step::Pop { left, right } => Box::new(move |base| popped(base, *left, *right)),
            Step::Push { left, right } => {
                let left = pushed(left, |rest| rest.reverse(), element, values)?;
                let right = pushed(right, |_| (), element, values)?;
                Box::new(move |base| {
                    // The first of them alone, for it is refused where the column holds more than a list.
                    let base = left.iter().fold(base.to_owned(), |base, (first, rest)| {
                        let base = format!("array_prepend({first}, {base})");
                        rest.iter().fold(base, |base, rest| format!("array_cat({rest}, {base})"))
                    });
                    right.iter().fold(base, |base, (first, rest)| {
                        let base = format!("array_append({base}, {first})");
                        rest.iter().fold(base, |base, rest| format!("array_cat({base}, {rest})"))
                    })
                })
            }
            Step::Remove { count, element } => {
                let value = values.place(utf8(element)?.to_owned(), "text")?;
                Box::new(move |base| without(base, &value, *count))
            }
        };
        (of_row, of_nothing) = (made(&of_row), made(&of_nothing));
    }
    Ok(Expression { of_row, of_nothing: Some(of_nothing) })
}

/// The first of `elements`, and the array of the others in the list's order if there are any.
fn pushed(
    elements: &[&Blob],
    order: impl FnOnce(&mut Vec<&Blob>),
    element: &str,
    values: &mut Values,
) -> Result<Option<(String, Option<String>)>, String> {
    let Some((first, rest)) = elements.split_first() else { return Ok(None) };
    let first = values.place(utf8(first)?.to_owned(), element)?;
    let mut rest = rest.to_vec();
    order(&mut rest);
    let rest = if rest.is_empty() { None } else { Some(array_of(rest.into_iter(), element, values)?) };
    Ok(Some((first, rest)))
}

fn array_of<'a>(
    elements: impl Iterator<Item = &'a Blob>,
    element: &str,
    values: &mut Values,
) -> Result<String, String> {
    let elements: Result<Vec<&str>, String> = elements.map(|element| utf8(element)).collect();
    values.place(array_text(elements?.into_iter().map(Some)), &format!("{element}[]"))
}

/// The array `base` without elements whose text is `value`: all if `count` is 0, else so many of the first, or of the
/// last if it is negative.
fn without(base: &str, value: &str, count: i64) -> String {
    let (order, most) = match count {
        0 => ("ASC", i64::MAX as u64),
        _ => (if count > 0 { "ASC" } else { "DESC" }, count.unsigned_abs()),
    };
    format!(
        "ARRAY(SELECT r.e FROM (SELECT u.e, u.o, row_number() OVER (PARTITION BY u.e::text ORDER BY u.o {order}) AS n \
         FROM unnest({base}) WITH ORDINALITY AS u(e, o)) AS r \
         WHERE (r.e::text = {value} AND r.n <= {most}) IS NOT TRUE ORDER BY r.o)"
    )
}

/// The array `base` without so many elements at its ends, or empty if it has no more than these.
fn popped(base: &str, left: usize, right: usize) -> String {
    format!(
        "ARRAY(SELECT r.e FROM (SELECT u.e, u.o, count(*) OVER () AS n FROM unnest({base}) WITH ORDINALITY AS u(e, o)) \
         AS r WHERE r.o > {left} AND r.o <= r.n - {right} ORDER BY r.o)"
    )
}
