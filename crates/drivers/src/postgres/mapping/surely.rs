//! What PostgreSQL surely refuses, told without asking it: for changes that are taken while it is away, so that they
//! are refused while somebody waits for the answer. Where it is not sure, nothing is said. And moments that are
//! relative to when they are read: they would be read when the change is carried over.

use forebay::change::Change;
use forebay::store::Write;
use forebay::{Data, Value};

use super::catalogue::{Column, Kind, Limit, Table};
use super::changes::utf8;

/// What a change leaves in a column.
#[derive(Clone, Copy)]
enum Left<'a> {
    Null,
    /// Null if there was a row.
    Emptied,
    Text(&'a [u8]),
}

/// What a document's changes leave, as far as they say.
#[derive(Default)]
struct Outcome<'a> {
    left: Vec<(&'a [u8], Left<'a>)>,
    /// Fields that are made from others: nothing is known of them.
    made: Vec<&'a [u8]>,
    inserts: bool,
}

impl<'a> Outcome<'a> {
    fn set(&mut self, field: &'a [u8], left: Left<'a>) {
        self.left.retain(|(other, _)| *other != field);
        self.left.push((field, left));
    }

    fn take(&mut self, change: &'a Change) {
        match change {
            Change::Delete => *self = Outcome::default(),
            Change::SetField(field, value) => {
                self.set(field, Left::Text(value));
                self.inserts = true;
            }
            Change::UnsetField(field) => self.set(field, if self.inserts { Left::Null } else { Left::Emptied }),
            Change::AddInteger { field: Some(field), .. } | Change::AddFloat { field: Some(field), .. } => {
                self.left.retain(|(other, _)| **other != **field);
                self.made.push(field);
                self.inserts = true;
            }
            _ => {}
        }
    }
}

impl Table {
    /// Why the row with this key surely can't be changed by `write`. `alone`: no other document is in the row.
    pub(super) fn surely_refused(&self, parts: &[&str], write: &Write, alone: bool) -> Option<String> {
        if self.mapping.list.is_some() {
            return self.elements_refused(&write.changes);
        }
        if !self.may_delete && write.changes.iter().any(|change| matches!(change, Change::Delete)) {
            return Some(format!("forebay's role may not delete rows of {}, it needs DELETE", self.name));
        }
        // A row that is set as a whole, by one text, and where nobody knew the document.
        let (mut named, mut texts) = (Vec::new(), Vec::new());
        for change in write.changes.iter() {
            match change {
                Change::Put(Value { data: Data::Bytes(text), .. }) => {
                    texts.push(named.len());
                    named.extend(self.changes_of_object(parts, &text.joined()).ok()?);
                }
                change => named.push(change.clone()),
            }
        }
        let mut outcome = Outcome::default();
        for (at, change) in named.iter().enumerate() {
            // There is a row when its text is taken apart.
            outcome.inserts |= texts.contains(&at);
            outcome.take(change);
        }
        let known = outcome.left.iter().filter(|(field, _)| !outcome.made.contains(field));
        for (field, left) in known {
            let column = self.fields.iter().find(|column| column.name.as_bytes() == *field)?;
            if let Some(why) = self.left_refused(column, *left, outcome.inserts, !write.unseen) {
                return Some(format!("the field {} of {}: {why}", column.name, self.name));
            }
        }
        let sums = || outcome.made.iter().find_map(|field| self.sum_refused(write, field));
        let lacks = || outcome.inserts.then(|| self.lacks(write, alone)).flatten();
        sums().or_else(lacks)
    }

    /// A sum that the column does not hold, as far as it is known what is added to; else what is added, where no two
    /// values of the column are so far from each other.
    fn sum_refused(&self, write: &Write, field: &[u8]) -> Option<String> {
        let column = self.fields.iter().find(|column| *column.field == *field)?;
        let refused = |why: String| format!("the field {} of {}: {why}", column.name, self.name);
        if let Some(Value { data: Data::Hash(after), .. }) = write.after.as_ref().filter(|_| !write.unseen) {
            let text = utf8(after.get(field)?).ok()?;
            return value_refused(&column.type_name, text)
                .or_else(|| limit_refused(column.limit.as_ref(), text))
                .map(refused);
        }
        let span = match column.type_name.as_str() {
            "smallint" => u64::from(u16::MAX),
            "integer" => u64::from(u32::MAX),
            _ => return None,
        };
        // Steps that add up are one by now; of others some may take back what one adds.
        let mut adds = write.changes.iter().filter_map(|change| match change {
            Change::AddInteger { field: Some(name), delta } if **name == *field => Some(*delta),
            _ => None,
        });
        let (first, others) = (adds.next()?, adds.next());
        let only = others.is_none() && write.changes.len() == 1;
        (only && first.unsigned_abs() > span).then(|| refused(format!("{first} is more than {} has", column.type_name)))
    }

    fn left_refused(&self, column: &Column, left: Left<'_>, inserts: bool, seen: bool) -> Option<String> {
        match left {
            // A key's column stands there for the row's sake.
            _ if self.key.iter().any(|key| key.name == column.name) => None,
            Left::Null if inserts || seen => column.not_null.then(|| "it is NOT NULL".into()),
            Left::Emptied if seen => column.not_null.then(|| "it is NOT NULL".into()),
            Left::Null | Left::Emptied => None,
            Left::Text(_) if column.kind == Kind::Bytes => None,
            Left::Text(value) => {
                let text = utf8(value).ok()?;
                value_refused(&column.type_name, text).or_else(|| limit_refused(column.limit.as_ref(), text))
            }
        }
    }

    /// A column that a new row has to be given and is not. The row is new where its document is known and is given what
    /// every row has.
    fn lacks(&self, write: &Write, alone: bool) -> Option<String> {
        let Some(Value { data: Data::Hash(after), .. }) = write.after.as_ref().filter(|_| !write.unseen) else {
            return None;
        };
        let given = |field: &[u8]| {
            let gives = |change: &Change| matches!(change, Change::SetField(name, _) if **name == *field);
            after.get(field).is_none() || write.changes.iter().any(gives)
        };
        let is_new = self.key.first().is_some_and(|key| given(key.name.as_bytes()));
        let is_field = |name: &String| self.fields.iter().any(|column| column.name == *name);
        let lacking = self.needed.iter().find(|name| match is_field(name) {
            true => after.get(name.as_bytes()).is_none(),
            false => is_new && alone,
        })?;
        let named = if is_field(lacking) { lacking.as_str() } else { "a column that this mapping does not show" };
        Some(format!("a new row of {} needs {named}: it is NOT NULL and has no default", self.name))
    }

    /// Elements that come to the list and are none of its type. One that is taken out again is never seen.
    fn elements_refused(&self, changes: &[Change]) -> Option<String> {
        let column = self.fields.first()?;
        let Kind::Array(element) = &column.kind else { return None };
        let pushed: Option<Vec<&[u8]>> = (changes.iter())
            .map(|change| match change {
                Change::Push(_, pushed) => Some(&**pushed),
                _ => None,
            })
            .collect();
        let why = pushed?.into_iter().find_map(|pushed| value_refused(element, utf8(pushed).ok()?))?;
        Some(format!("{} of {}: {why}", column.name, self.name))
    }
}

/// As C's `isspace`.
pub(super) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

/// Why `text` is no value of this type, as surely as it can be told here.
pub(super) fn value_refused(type_name: &str, text: &str) -> Option<String> {
    let trimmed = text.trim_matches(is_space);
    let is = match type_name {
        "smallint" => is_integer(trimmed, i64::from(i16::MIN), i64::from(i16::MAX)),
        "integer" => is_integer(trimmed, i64::from(i32::MIN), i64::from(i32::MAX)),
        "bigint" => is_integer(trimmed, i64::MIN, i64::MAX),
        "numeric" | "real" | "double precision" => is_number(trimmed),
        "boolean" => is_boolean(trimmed),
        "uuid" => is_uuid(text),
        "json" | "jsonb" => serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
        "date" | "timestamp without time zone" | "timestamp with time zone" => return moment_refused(text, true),
        "time without time zone" | "time with time zone" => return moment_refused(text, false),
        _ => true,
    };
    (!is).then(|| format!("{} is no {type_name}", shown(text)))
}

/// A text as an error shows it.
fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("'{}..'", &text[..end]),
        None => format!("'{text}'"),
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

/// Later servers read more than digits: hexadecimal, octal, binary, and underscores between digits.
fn is_newer(text: &str) -> bool {
    let digits = unsigned(text).as_bytes();
    text.contains('_') || matches!(digits, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..])
}

fn is_integer(text: &str, least: i64, most: i64) -> bool {
    let digits = unsigned(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return is_newer(text);
    }
    text.parse::<i64>().is_ok_and(|number| (least..=most).contains(&number))
}

/// A number with a fraction and an exponent, or a word that stands for one.
fn is_number(text: &str) -> bool {
    let rest = unsigned(text);
    let lower = rest.to_ascii_lowercase();
    if is_newer(text) || lower.starts_with("nan") || lower.starts_with("inf") {
        return true;
    }
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (rest, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

fn is_boolean(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["true", "false", "yes", "no"].iter().any(|word| begins_boolean(&text, word, 1))
        || begins_boolean(&text, "on", 2)
        || begins_boolean(&text, "off", 2)
        || matches!(text.as_str(), "0" | "1")
}

/// Whether `text` is the beginning of a word for a boolean, of so many letters at least.
pub(super) fn begins_boolean(text: &str, word: &str, least: usize) -> bool {
    text.len() >= least && word.starts_with(text)
}

fn is_uuid(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_hexdigit).count() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'{' | b'}'))
}

/// Words for a moment that depends on when they are read.
const RELATIVE: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// A moment is no moment if it has no digit and no word that stands for one; `dated` if it has a date.
fn moment_refused(text: &str, dated: bool) -> Option<String> {
    let is_word = |word: &&str| !word.is_empty();
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(|character: char| !character.is_ascii_alphabetic()).filter(is_word);
    if let Some(word) = words.find(|word| RELATIVE.contains(word)) {
        let why = "would be what it is when the database is back; give the moment itself";
        return Some(format!("{} {why}", shown(word)));
    }
    let stands = lower.contains("epoch") || lower.contains("infinity");
    let nothing = dated && !stands && !text.bytes().any(|byte| byte.is_ascii_digit());
    nothing.then(|| format!("{} is no date", shown(text)))
}

/// Why `text`, a value of the column's type, is more than the column holds.
pub(super) fn limit_refused(limit: Option<&Limit>, text: &str) -> Option<String> {
    match limit? {
        Limit::Fraction(_) => None,
        Limit::Labels(labels) => {
            let none = !labels.iter().any(|label| label == text);
            none.then(|| format!("{} is none of {}", shown(text), labels.join(", ")))
        }
        // Spaces at the end are cut off.
        Limit::Characters(most) => {
            let too_long = text.chars().skip(*most).any(|character| character != ' ');
            too_long.then(|| format!("it has more than {most} characters"))
        }
        Limit::Digits { whole, fraction } => {
            let overflows = overflows(text.trim_matches(is_space), *whole, *fraction);
            overflows.then(|| format!("{} has more than {whole} digits before the point", shown(text)))
        }
    }
}

/// Whether a number without an exponent has, rounded to so many digits behind the point, too many before it.
fn overflows(text: &str, whole_max: usize, fraction_max: usize) -> bool {
    if !unsigned(text).bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return false;
    }
    let (whole, fraction) = unsigned(text).split_once('.').unwrap_or((unsigned(text), ""));
    let whole = whole.trim_start_matches('0');
    let nines = |text: &str| text.bytes().all(|byte| byte == b'9');
    let rounds_up = || {
        let kept = fraction.get(..fraction_max).is_some_and(nines);
        nines(whole) && kept && fraction.as_bytes().get(fraction_max).is_some_and(|digit| *digit >= b'5')
    };
    whole.len() > whole_max || (whole.len() == whole_max && rounds_up())
}
