//! What the database says about a mapped table, and what is wrong with the mapping: one line each, with the fix.

use forebay::value::Blob;
use tokio_postgres::{Client, Error};

use super::foreign::without_unique_index;
use super::versions::Keeping;
use crate::sql::mapping::{Mapping, VersionMode};
use crate::sql::table::{Column, Kind, Limit, ReadOnly, Table, VERSION_COLUMN, any, quoted};

const TABLE: &str = "\
SELECT c.oid, c.relkind::text, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'TRIGGER'), current_user::text,
    pg_get_userbyid(c.relowner)::text, has_table_privilege(c.oid, 'DELETE')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)";

/// Of a domain the type below: a cast to a domain would cut off what is too long.
const COLUMNS: &str = "\
SELECT a.attname::text, t.typname::text, format_type(t.oid, -1), a.attgenerated::text,
    has_column_privilege(a.attrelid, a.attnum, 'UPDATE') AND has_column_privilege(a.attrelid, a.attnum, 'INSERT'),
    coalesce(format_type(nullif(t.typelem, 0), -1), ''),
    CASE d.typtype WHEN 'd' THEN d.typtypmod ELSE a.atttypmod END, a.attnotnull,
    a.atthasdef OR a.attidentity <> '' OR d.typdefault IS NOT NULL,
    ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder), a.attidentity = 'a',
    coalesce((SELECT collisdeterministic FROM pg_collation WHERE oid = a.attcollation), true),
    ARRAY(SELECT b.attname::text FROM pg_attrdef e JOIN pg_depend u ON
            u.classid = 'pg_attrdef'::regclass AND u.objid = e.oid
            OR u.classid = 'pg_class'::regclass AND u.objid = e.adrelid AND u.objsubid = e.adnum
        JOIN pg_attribute b ON b.attrelid = u.refobjid AND b.attnum = u.refobjsubid
        WHERE a.attgenerated <> '' AND e.adrelid = a.attrelid AND e.adnum = a.attnum
            AND u.refclassid = 'pg_class'::regclass AND u.refobjid = a.attrelid AND b.attnum NOT IN (0, a.attnum))
FROM pg_attribute a JOIN pg_type d ON d.oid = a.atttypid
    JOIN pg_type t ON t.oid = CASE d.typtype WHEN 'd' THEN d.typbasetype ELSE d.oid END
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// Unique indexes over plain columns: their names and columns, without those that they only INCLUDE.
const INDEXES: &str = "\
SELECT i.indexrelid::regclass::text, array_agg(a.attname::text)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
    AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid ORDER BY i.indexrelid";

/// Whether something may put a value where a statement has put none: a trigger before, a rule, a partition's own.
const FILLED: &str = "\
SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal AND tgtype & 2 = 2
        AND tgname <> 'forebay_version')
    OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = $1)
    OR EXISTS (SELECT FROM pg_inherits WHERE inhparent = $1)";

/// Whether rows depend on nothing but themselves.
const INDEPENDENT: &str = "\
SELECT c.relkind = 'r'
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE (conrelid = $1 OR confrelid = $1) AND contype IN ('f', 'x', 'c'))
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = $1 OR inhparent = $1)
    AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal
        AND tgname NOT IN ('forebay_version', 'forebay_change', 'forebay_truncate'))
    AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = $1)
    AND (SELECT count(*) FROM pg_index WHERE indrelid = $1 AND indisunique) = 1
FROM pg_class c WHERE c.oid = $1";

/// Whether an UPDATE is carried out as it stands, on one row, and nothing changes that row behind it: no trigger of
/// others', no rule, no foreign key that would carry a change on, no policy of rows.
const RETURNING: &str = "\
SELECT c.relkind = 'r' AND NOT c.relrowsecurity
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE confrelid = $1 AND contype = 'f' AND confupdtype IN ('c', 'n', 'd'))
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = $1 OR inhparent = $1)
    AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal
        AND tgname NOT IN ('forebay_version', 'forebay_change', 'forebay_truncate'))
    AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = $1)
FROM pg_class c WHERE c.oid = $1";

struct Found {
    name: String,
    type_name: String,
    sql_type: String,
    generated: bool,
    may_write: bool,
    element: String,
    /// The length as the catalogue has it.
    modifier: i32,
    not_null: bool,
    has_default: bool,
    /// Of an enumeration.
    labels: Vec<String>,
    /// GENERATED ALWAYS AS IDENTITY: nobody may change it.
    identity: bool,
    /// Texts are equal only if they are the same.
    exact: bool,
    computed_from: Vec<String>,
}

impl Found {
    fn kind(&self) -> Kind {
        match self.type_name.as_str() {
            "int2" | "int4" | "int8" => Kind::Integer,
            "numeric" | "float4" | "float8" => Kind::Number,
            "bytea" => Kind::Bytes,
            name if name.starts_with('_') => Kind::Array(self.element.clone()),
            _ => Kind::Text,
        }
    }

    /// What the length says, behind the four bytes that a value's own stands in.
    fn limit(&self) -> Option<Limit> {
        if !self.labels.is_empty() {
            return Some(Limit::Labels(self.labels.clone()));
        }
        let modifier = usize::try_from(self.modifier).ok()?;
        if self.type_name.trim_start_matches('_').starts_with("time") {
            return Some(Limit::Fraction(modifier));
        }
        let length = modifier.checked_sub(4)?;
        match self.type_name.as_str() {
            "varchar" | "bpchar" => Some(Limit::Characters(length)),
            // Digits, and of these those behind the point, where that is a plain number: it may be negative.
            "numeric" | "_numeric" => {
                let (digits, fraction) = ((length >> 16) & 0xffff, length & 0xffff);
                Some(Limit::Digits { whole: digits.checked_sub(fraction)?, fraction })
            }
            _ => None,
        }
    }

    fn column(&self, read_only: Option<ReadOnly>, filled: bool) -> Column {
        let (name, type_name) = (self.name.clone(), self.sql_type.clone());
        let (field, limit, not_null) = (Blob::from(name.as_bytes()), self.limit(), self.not_null && !filled);
        // What is computed has its expression for a default. A key is always given.
        let has_default = self.has_default && read_only != Some(ReadOnly::Key);
        let (kind, computed_from) = (self.kind(), self.computed_from.clone());
        Column { name, field, kind, type_name, read_only, limit, not_null, has_default, computed_from }
    }
}

/// Types whose text in a key can be told to be canonical without asking.
fn is_key_type(name: &str) -> bool {
    ["int2", "int4", "int8", "text", "varchar", "uuid"].contains(&name)
}

fn quoted_name(mapping: &Mapping) -> String {
    match &mapping.table {
        (Some(schema), name) => format!("{}.{}", quoted(schema), quoted(name)),
        (None, name) => quoted(name),
    }
}

/// Whether there is something of the table's name.
pub(super) async fn is_there(client: &Client, mapping: &Mapping) -> Result<bool, Error> {
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&quoted_name(mapping)]).await?;
    row.try_get(0)
}

/// Looks `mapping` up. The inner error lists what is wrong with it.
pub(in crate::postgres) async fn look_up(
    client: &Client,
    mapping: &Mapping,
) -> Result<Result<Table, Vec<String>>, Error> {
    Ok(look_up_to(client, mapping, false).await?.map(|(table, _)| table))
}

/// Likewise before the triggers are made that keep versions, and which of them there are. The mode is the one given.
pub(in crate::postgres) async fn look_up_to_prepare(
    client: &Client,
    mapping: &Mapping,
) -> Result<Result<(Table, Keeping), Vec<String>>, Error> {
    look_up_to(client, mapping, true).await
}

async fn look_up_to(
    client: &Client,
    mapping: &Mapping,
    to_prepare: bool,
) -> Result<Result<(Table, Keeping), Vec<String>>, Error> {
    let quoted_name = quoted_name(mapping);
    let said = |what: &str| format!("--map '{mapping}': {what}");
    let Some(row) = client.query_opt(TABLE, &[&quoted_name]).await? else {
        let what = format!("there is no table {quoted_name}; name its schema, or make it first");
        return Ok(Err(vec![said(&what)]));
    };
    let (oid, kind, name): (u32, String, String) = (row.get(0), row.get(1), row.get(2));
    let (may_read, may_trigger, role, owner): (bool, bool, String, String) =
        (row.get(3), row.get(4), row.get(5), row.get(6));
    let mut wrong = Vec::new();
    if !["r", "p"].contains(&kind.as_str()) {
        wrong.push(format!("{name} is not a table; name the table behind it"));
    }
    if !may_read {
        wrong.push(format!("{role} may not read {name}; GRANT SELECT ON {name} TO {role}"));
    }
    let columns = columns_of(client, oid).await?;
    let (key, named) = chosen(mapping, &name, &columns, &mut wrong);
    let unique_index = unique_index_of(client, oid, &mapping.key).await?;
    // A view has none, and can't be given one.
    let is_table = ["r", "p"].contains(&kind.as_str());
    if is_table && unique_index.is_none() && key.len() == mapping.key.len() {
        wrong.push(without_unique_index(client, oid, &name, &mapping.key).await?);
    }
    let names = columns.iter().map(|column| column.name.as_str());
    let keeping = Keeping::look_up(client, (oid, &name), &mapping.key, names).await?;
    if !to_prepare {
        wrong.extend(keeping.problems(mapping, (may_trigger, &owner)));
    }
    if !wrong.is_empty() {
        return Ok(Err(wrong.iter().map(|what| said(what)).collect()));
    }
    let filled: bool = client.query_one(FILLED, &[&oid]).await?.get(0);
    let (key, fields) = in_use(mapping, key, named, filled);
    let given = |column: &&Found| column.not_null && !column.has_default && !mapping.key.contains(&column.name);
    let needed = columns.iter().filter(|column| !filled && given(column)).map(|column| column.name.clone()).collect();
    let doubt = keeping.doubt().filter(|_| mapping.version == VersionMode::Auto);
    let version = match mapping.version {
        VersionMode::Auto if !to_prepare => keeping.found(),
        given => given,
    };
    let independent = client.query_one(INDEPENDENT, &[&oid]).await?.get(0);
    let returning = client.query_one(RETURNING, &[&oid]).await?.get(0);
    let plain = !columns.iter().any(|column| column.generated);
    let unique_index = unique_index.unwrap_or_default();
    let table = Table {
        mapping: Mapping { version, ..mapping.clone() },
        name,
        oid,
        key,
        fields,
        needed,
        may_delete: row.get(7),
        unique_index,
        independent,
        returning,
        plain,
        // Who knows all the tables says what joins them.
        joined: oid,
        row_bytes_max: any(),
        references: Vec::new(),
        doubt,
    };
    Ok(Ok((table, keeping)))
}

async fn columns_of(client: &Client, oid: u32) -> Result<Vec<Found>, Error> {
    let found = |row: &tokio_postgres::Row| Found {
        name: row.get(0),
        type_name: row.get(1),
        sql_type: row.get(2),
        generated: !row.get::<_, String>(3).is_empty(),
        may_write: row.get(4),
        element: row.get(5),
        modifier: row.get(6),
        not_null: row.get(7),
        has_default: row.get(8),
        labels: row.get(9),
        identity: row.get(10),
        exact: row.get(11),
        computed_from: row.get(12),
    };
    Ok(client.query(COLUMNS, &[&oid]).await?.iter().map(found).collect())
}

/// The unique index on just the columns of `key`, in any order.
async fn unique_index_of(client: &Client, oid: u32, key: &[String]) -> Result<Option<String>, Error> {
    let mut wanted = key.to_vec();
    wanted.sort_unstable();
    Ok(client.query(INDEXES, &[&oid]).await?.iter().find_map(|row| {
        let (index, mut found): (String, Vec<String>) = (row.get(0), row.get(1));
        found.sort_unstable();
        (found == wanted).then_some(index)
    }))
}

/// The columns that make the key, and those that the document may show; adds what is wrong with them to `wrong`.
fn chosen<'a>(
    mapping: &Mapping,
    name: &str,
    columns: &'a [Found],
    wrong: &mut Vec<String>,
) -> (Vec<&'a Found>, Vec<&'a Found>) {
    let find = |name_of: &String, wrong: &mut Vec<String>| {
        let found = columns.iter().find(|column| column.name == *name_of);
        if found.is_none() {
            let there: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            wrong.push(format!("{name} has no column {name_of}; it has {}", there.join(", ")));
        }
        found
    };
    let key: Vec<&Found> = mapping.key.iter().filter_map(|column| find(column, wrong)).collect();
    for column in key.iter().filter(|column| !is_key_type(&column.type_name)) {
        let (name, sql_type) = (&column.name, &column.sql_type);
        wrong.push(format!("{name} is {sql_type}; a key's columns are integers, text, varchar or uuid"));
    }
    for column in key.iter().filter(|column| !column.exact) {
        let column = &column.name;
        wrong.push(format!(
            "{column} has a nondeterministic collation, by which one row would have several keys; map by another column"
        ));
    }
    let named: Vec<&Found> = match (&mapping.list, &mapping.fields) {
        (Some(list), _) => find(list, wrong).into_iter().collect(),
        (None, Some(fields)) => fields.iter().filter_map(|column| find(column, wrong)).collect(),
        (None, None) => columns.iter().filter(|column| column.name != VERSION_COLUMN).collect(),
    };
    for column in &mapping.read_only {
        find(column, wrong);
    }
    if let Some(list) = named.first().filter(|_| mapping.list.is_some())
        && !matches!(list.kind(), Kind::Array(_))
    {
        wrong.push(format!("{} is {}; a list is an array", list.name, list.sql_type));
    }
    (key, named)
}

/// The columns of the key, and those of the document.
fn in_use(mapping: &Mapping, key: Vec<&Found>, named: Vec<&Found>, filled: bool) -> (Vec<Column>, Vec<Column>) {
    let read_only = |column: &Found| match column {
        _ if mapping.key.contains(&column.name) => Some(ReadOnly::Key),
        _ if column.generated || column.identity => Some(ReadOnly::Generated),
        _ if mapping.read_only.contains(&column.name) => Some(ReadOnly::Declared),
        _ if !column.may_write => Some(ReadOnly::NoRight),
        _ => None,
    };
    let key: Vec<Column> = key.into_iter().map(|column| column.column(Some(ReadOnly::Key), filled)).collect();
    let others = named.into_iter().filter(|column| !mapping.key.contains(&column.name));
    let others = others.map(|column| column.column(read_only(column), filled));
    let fields = match mapping.list {
        Some(_) => others.collect(),
        None => key.iter().cloned().chain(others).collect(),
    };
    (key, fields)
}
