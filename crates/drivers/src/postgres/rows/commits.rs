//! Reading and committing rows of mapped tables.

use std::collections::{BTreeMap, HashMap};

use forebay::store::{Commit, ReadError};
use forebay::value::{Blob, Data, Hash, List, Value};
use forebay::{Key, Read, Version};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::DbError;

use super::absent::{Absent, Writers};
use super::batch::{Batch, ByTable, Written};
use super::checked::{self, Checked};
use super::large::row_in;
use super::mapped::Rows;
use super::sql::Row;
use super::statement::Script;
use super::texts::{Texts, place_of};
use crate::postgres::classify;
use crate::postgres::get_error::GetError;
use crate::postgres::room::rows_of;
use crate::postgres::session::Session;
use crate::postgres::sql::LARGE_BYTES;
use crate::postgres::watch::Watch;
use crate::sql::failure::Failure;
use crate::sql::failure::{Changed, Failed};
use crate::sql::identity::Identity;
use crate::sql::table::{Kind, Table};
use crate::sql::text::unhex;

impl Rows {
    /// What a row says of `key`; the very value that was `computed`, if it is that.
    pub(in crate::postgres) fn decode(
        &self,
        table: usize,
        key: &Key,
        row: &impl Texts,
        identity: &Identity,
        computed: Option<&Value>,
    ) -> Result<Read, ReadError> {
        let table = &self.tables[table];
        let damaged = |why: &str| ReadError::Damaged { key: key.clone(), why: why.into() };
        let number = |at: usize| row.text(at).and_then(|text| text.parse::<u64>().ok());
        let incarnation = identity.incarnation();
        // Odd numbers are those of absence: it lies behind all rows before it.
        let version = |sequence: u64| Version { incarnation, sequence };
        let absent = number(2).map(|last| version(2 * last + 1)).ok_or_else(|| damaged("it has no version"))?;
        let Some(present) = number(1).map(|number| version(2 * number)) else {
            return Ok(Read { value: None, version: absent });
        };
        if let Some(bytes) = table.left_out(row) {
            return Err(ReadError::Refused { key: key.clone(), why: table.too_large(key, bytes) });
        }
        if let Some(value) = computed.filter(|value| holds(table, row, value)) {
            return Ok(Read { value: Some(value.clone()), version: present });
        }
        if let Some(Kind::Array(_)) =
            table.fields.first().map(|column| &column.kind).filter(|_| table.mapping.list.is_some())
        {
            let list: Vec<Option<String>> = match row.text(3) {
                Some(text) => serde_json::from_str(text).map_err(|_| damaged("its array has several dimensions"))?,
                None => Vec::new(),
            };
            let elements = list.into_iter().map(|element| Blob::from(element.unwrap_or_default().into_bytes()));
            let list: List = elements.collect();
            let value = (!list.is_empty()).then_some(Value { data: Data::List(list), expires_at_ms: None });
            return Ok(Read { value, version: present });
        }
        let fields = table.fields.iter().enumerate().filter_map(|(at, column)| Some((column, row.text(at + 3)?)));
        let fields = fields.map(|(column, text)| match column.kind {
            Kind::Bytes => Some((column.field.clone(), Blob::from(unhex(text)?))),
            _ => Some((column.field.clone(), Blob::from(text.as_bytes()))),
        });
        let hash: Option<Hash> = fields.collect();
        let data = Data::Hash(hash.ok_or_else(|| damaged("its bytes are not hex"))?);
        Ok(Read { value: Some(Value { data, expires_at_ms: None }), version: present })
    }

    /// Which of `checks` are overtaken, in one statement.
    pub(in crate::postgres) async fn check(
        &self,
        session: &Session,
        checks: &[(Key, Version)],
    ) -> Result<Vec<Key>, GetError> {
        let mut by_table: BTreeMap<usize, Vec<Row<'_>>> = BTreeMap::new();
        for (at, (key, version)) in checks.iter().enumerate() {
            let refused = |why| ReadError::Refused { key: key.clone(), why };
            let place = self.place(key).map_err(refused)?;
            by_table.entry(place.table).or_default().push(Row::checked(at, place.parts, *version));
        }
        let selects = by_table.iter().map(|(table, rows)| self.tables[*table].overtaken(rows));
        let selects: Result<Vec<String>, String> = selects.collect();
        let refused = |why| ReadError::Refused { key: checks[0].0.clone(), why };
        let answer = session.client.simple_query(&selects.map_err(refused)?.join(" UNION ALL ")).await?;
        let key = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => place_of(row).and_then(|at| checks.get(at)).map(|(key, _)| key.clone()),
            _ => None,
        };
        Ok(answer.iter().filter_map(key).collect())
    }

    /// Commits a group as one batch, which is one message and one transaction: the ids, locks on the rows that are
    /// written, the checks, the changes, and what the rows are then. Some have all of that in one statement
    /// ([`checked`]).
    pub(in crate::postgres) async fn commit(
        &self,
        session: &Session,
        identity: &Identity,
        watch: &Watch,
        group: &[Commit],
    ) -> Result<Vec<Changed>, Failed> {
        if let Some(one) = self.one(group)
            && let Some(row) = one.commit(self, session).await?
        {
            let computed = one.write.after.as_ref().filter(|_| !one.write.unseen);
            if self.notes(one.table)
                && let Some(number) = row.text(0).and_then(|text| text.parse().ok())
            {
                self.is_ours(watch, number, std::iter::once(&one.write.key));
            }
            // It is committed: what can't be read of it is found when it is read next.
            let read = self.decode(one.table, &one.write.key, &row, identity, computed);
            return Ok(vec![read.map_or_else(|_| Vec::new(), |read| vec![(one.write.key.clone(), read)])]);
        }
        let batch = self.batch(group)?;
        let mut changed: Vec<Changed> = vec![Vec::new(); group.len()];
        if let Some(rows) = self.many(session, group, &batch).await? {
            rows.iter().for_each(|row| self.take(row, &batch, (identity, watch), &mut changed));
            return Ok(changed);
        }
        if batch.large {
            self.commit_large(session, (identity, watch), group, (&batch, &mut changed)).await?;
        } else {
            let text = batch.text(self, group).map_err(|why| Failed::from(Failure::Refused(why)))?;
            let answer = session.client.simple_query(&text).await;
            let answer = answer.map_err(|error| Failed::at_check(self.failure(&error), &batch.checks))?;
            for row in answer.iter().filter_map(row_in) {
                self.take(row, &batch, (identity, watch), &mut changed);
            }
        }
        batch.tell_earlier(&mut changed);
        Ok(changed)
    }

    /// Takes what a row of the answer to `batch` says.
    pub(super) fn take(
        &self,
        row: &impl Texts,
        batch: &Batch<'_>,
        (identity, watch): (&Identity, &Watch),
        changed: &mut [Changed],
    ) {
        if let Some(number) = row.text(0).and_then(|text| text.strip_prefix('#')?.parse().ok()) {
            self.is_ours(watch, number, batch.written.iter().map(|written| &written.write.key));
        }
        let Some(written) = place_of(row).and_then(|place| batch.written.get(place)) else { return };
        let Written { write, table, member, run } = *written;
        let read = match run {
            Some(run) => batch.together.read((run, &self.tables), row, write, identity.incarnation()),
            None => {
                let computed = write.after.as_ref().filter(|_| !write.unseen);
                self.decode(table, &write.key, row, identity, computed).ok()
            }
        };
        // It is committed: what can't be read of it is found when it is read next.
        if let Some(read) = read {
            changed[member].push((write.key.clone(), read));
        }
    }

    fn is_ours<'a>(&self, watch: &Watch, number: u64, written: impl Iterator<Item = &'a Key> + Clone) {
        let beside = written.clone().flat_map(|key| self.beside(key));
        watch.is_ours(number, beside.chain(written.cloned()).collect());
    }

    /// Another program may have made the row between our look and our INSERT.
    pub(super) fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        let ours = |constraint: &str| {
            self.tables.iter().any(|table| table.unique_index.rsplit('.').next().is_some_and(|name| name == constraint))
        };
        self.heed(error);
        let is_mapped = |answer: &DbError| {
            let (table, column) = (answer.table().unwrap_or_default(), answer.column().unwrap_or_default());
            let named =
                |mapped: &&Table| mapped.name.rsplit('.').next().is_some_and(|name| name.trim_matches('"') == table);
            let mut columns =
                self.tables.iter().filter(named).flat_map(|mapped| mapped.key.iter().chain(&mapped.fields));
            columns.any(|mapped| mapped.name == column)
        };
        match (classify::of_commit_to(error, &is_mapped), error.as_db_error()) {
            (Failure::Refused(why), Some(answer))
                if answer.code().code() == "23505" && answer.constraint().is_some_and(ours) =>
            {
                Failure::Conflict(why)
            }
            (failure, _) => failure,
        }
    }

    pub(super) fn batch<'a>(&self, group: &'a [Commit]) -> Result<Batch<'a>, Failed> {
        let refused =
            |member: usize| move |why: String| Failed { failure: Failure::Refused(why), member: Some(member) };
        let (mut script, mut checks) = (Script::default(), Vec::new());
        // Statements of many rows have all of them in one message.
        let large = rows_of(group) > LARGE_BYTES;
        let many = if large { &[] } else { group };
        let (mut sure, mut together) = (checked::sure(self, many), Checked::default());
        let mut written: Vec<Written<'_>> = Vec::new();
        let mut rows = ByTable::new();
        let (mut index, mut earlier): (HashMap<&Key, usize>, _) = (HashMap::new(), Vec::new());
        let mut checked = ByTable::new();
        let writers = Writers::of(self, group);
        for (member, commit) in group.iter().enumerate() {
            let mut absent = Absent::of(self, (member, commit), &writers);
            for write in &commit.writes {
                let place = self.place(&write.key).map_err(refused(member))?;
                let table = &self.tables[place.table];
                let statements = table.write(&place.parts, write).map_err(refused(member))?;
                let mut statements = absent.narrowed(table, &place.parts, statements);
                let sure = sure.remove(&write.key).map(|sure| (written.len(), sure));
                let run = sure.and_then(|sure| together.take((place.table, table), &mut statements, sure));
                if run.is_some() {
                    written.push(Written { write, table: place.table, member, run });
                    continue;
                }
                for (shape, values) in statements.into_iter().filter(|_| !large) {
                    script.add(place.table, table, shape, values);
                }
                if let Some(at) = index.get(&write.key) {
                    earlier.push((*at, written[*at].member));
                    written[*at] = Written { write, table: place.table, member, run: None };
                    continue;
                }
                index.insert(&write.key, written.len());
                let row = Row { place: written.len(), parts: place.parts, version: None };
                rows.entry(place.table).or_default().push(row);
                written.push(Written { write, table: place.table, member, run: None });
            }
            for (at, (key, version)) in commit.checks.iter().enumerate() {
                if !together.checks(checks.len()) {
                    let place = self.place(key).map_err(refused(member))?;
                    let row = Row::checked(checks.len(), place.parts, *version);
                    checked.entry(place.table).or_default().push(row);
                }
                checks.push((member, at));
            }
        }
        Ok(Batch { entered: false, checks, written, earlier, rows, checked, together, script, large })
    }
}

/// Whether `row` is `value`, without making one of it. A no may be wrong: where texts differ that mean the same.
fn holds(table: &Table, row: &impl Texts, value: &Value) -> bool {
    let Data::Hash(hash) = &value.data else { return false };
    let mut count = 0;
    for (at, column) in table.fields.iter().enumerate() {
        let Some(text) = row.text(at + 3) else { continue };
        count += 1;
        if column.kind == Kind::Bytes || hash.get(&column.field).is_none_or(|there| **there != *text.as_bytes()) {
            return false;
        }
    }
    count == hash.len() && table.mapping.list.is_none() && value.expires_at_ms.is_none()
}
