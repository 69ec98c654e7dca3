//! What `forebay store init` runs: forebay's own schema, and what keeps versions of mapped rows and notes changes.

use std::collections::HashMap;
use std::fmt::Write;

use super::noted::{TEXT, key_of};
use super::rows::checked::OWN;
use super::rows::sql::quoted_text;
use super::rows::versions::Keeping;
use super::sql;
use crate::sql::mapping::VersionMode;
use crate::sql::table::{Table, VERSION_COLUMN, quoted};

/// How long it waits for a table that others have in use: whoever comes meanwhile waits behind it.
pub(super) const LOCK_SECONDS: u32 = 5;

/// The statements, for `role` to use what they make. `tables` have the version mode that they are to have.
/// `keepings` is what each has of it now, by its number.
pub(super) fn script(role: &str, tables: &[Table], keepings: &HashMap<u32, Keeping>) -> String {
    let mut text = format!("BEGIN;\nSET LOCAL lock_timeout = '{LOCK_SECONDS}s';\n");
    text.push_str(sql::SCHEMA);
    text.push_str(sql::OWNERS);
    let role = quoted(role);
    let _ = writeln!(
        text,
        "GRANT USAGE ON SCHEMA forebay TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA forebay TO {role};\n\
         GRANT SELECT, USAGE ON SEQUENCE forebay.versions TO {role};"
    );
    for table in tables {
        text.push_str(&of_table(table, keepings.get(&table.oid)));
    }
    text.push_str(UNUSED);
    text.push_str("COMMIT;\n");
    text
}

/// Drops functions that no trigger calls any more: those of tables that are gone, have another name, or were noted by
/// a function of another name before. Who may not drop one leaves it.
const UNUSED: &str = "\
DO $forebay$
DECLARE unused regprocedure;
BEGIN
    FOR unused IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'forebay'::regnamespace
        AND starts_with(p.proname::text, 'changed ') AND pg_has_role(p.proowner, 'USAGE')
        AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgfoid = p.oid)
    LOOP
        EXECUTE 'DROP FUNCTION ' || unused;
    END LOOP;
END $forebay$;
";

/// Bytes of a name that PostgreSQL keeps; it cuts off the rest, so that two longer names may be the same one.
const NAME_BYTES_MAX: usize = 63;

/// The name of the function that notes changes of the table with this name, schema and name quoted. Tables never share
/// one: of what is too long the end is replaced by a hash of the whole, behind a `#` that no quoted name has but in its
/// quotes.
fn function_name(table: &str) -> String {
    let whole = format!("changed {table}");
    if whole.len() <= NAME_BYTES_MAX {
        return whole;
    }
    // FNV-1a, 64 bits: the same in every build and on every machine, as the name has to be.
    let hash = table
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let behind = format!(" #{hash:016x}");
    let mut end = NAME_BYTES_MAX - behind.len();
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{behind}", &whole[..end])
}

/// What gives a row its next version.
const NEXT_VERSION: &str = "pg_catalog.nextval('forebay.versions'::pg_catalog.regclass)";

/// What the trigger does to the versions that a table's rows have beside it.
#[derive(Default)]
struct Kept {
    forget: String,
    remember: String,
    truncated: String,
    moved: String,
}

impl Kept {
    fn of(table: &str, old: &str, new: &str) -> Kept {
        let of = |key: &str| format!("tab OPERATOR(pg_catalog.=) {table} AND key OPERATOR(pg_catalog.=) {key}");
        Kept {
            forget: format!("        DELETE FROM forebay.row_versions WHERE {};\n", of(old)),
            remember: format!(
                "        INSERT INTO forebay.row_versions (tab, key, version)\n            \
                     VALUES ({table}, {new}, {NEXT_VERSION})\n            \
                     ON CONFLICT (tab, key) DO UPDATE SET version = excluded.version;\n"
            ),
            truncated: format!("        DELETE FROM forebay.row_versions WHERE tab OPERATOR(pg_catalog.=) {table};\n"),
            // A row whose key changes leaves its old one.
            moved: format!(
                "        IF {old} OPERATOR(pg_catalog.<>) {new} THEN\n            \
                     DELETE FROM forebay.row_versions WHERE {};\n        END IF;\n",
                of(old)
            ),
        }
    }
}

fn of_table(table: &Table, keeping: Option<&Keeping>) -> String {
    let name = &table.name;
    let function = format!("forebay.{}", quoted(&function_name(name)));
    let mut text = String::new();
    let mode = table.mapping.version;
    // Without triggers that keep them, writes may have left versions as they were.
    let is_kept = keeping.is_some_and(|keeping| keeping.keeps(mode));
    match mode {
        VersionMode::None | VersionMode::Auto => return text,
        VersionMode::Column => {
            if !is_kept {
                text.push_str(&new_column(name, keeping.is_some_and(Keeping::has_column)));
            }
            let _ = write!(
                text,
                "DROP TRIGGER IF EXISTS forebay_version ON {name};\n\
                 CREATE TRIGGER forebay_version BEFORE INSERT OR UPDATE ON {name}\n    \
                     FOR EACH ROW EXECUTE FUNCTION forebay.set_version();\n"
            );
        }
        VersionMode::Side => {}
    }
    text.push_str(&noting(table, &function));
    // Without WHEN: its condition would be read anew for each statement, at a quarter of a small UPDATE's time.
    let _ = write!(
        text,
        "DROP TRIGGER IF EXISTS forebay_change ON {name};\n\
         CREATE TRIGGER forebay_change AFTER INSERT OR UPDATE OR DELETE ON {name}\n    \
             FOR EACH ROW EXECUTE FUNCTION {function}();\n\
         DROP TRIGGER IF EXISTS forebay_truncate ON {name};\n\
         CREATE TRIGGER forebay_truncate AFTER TRUNCATE ON {name}\n    \
             FOR EACH STATEMENT EXECUTE FUNCTION {function}();\n"
    );
    if mode == VersionMode::Side && !is_kept {
        let table = quoted_text(name);
        // The table is locked by now.
        let _ = write!(
            text,
            "DELETE FROM forebay.row_versions WHERE tab = {table};\n\
             INSERT INTO forebay.row_versions (tab, key, version) VALUES ({table}, '{{}}', {NEXT_VERSION});\n"
        );
    }
    text
}

/// The column of versions, with one in all rows that no row ever had: a default that is a plain number is in all of
/// them at once.
fn new_column(name: &str, is_there: bool) -> String {
    let before = if is_there { format!("ALTER TABLE {name} DROP COLUMN {VERSION_COLUMN};\n") } else { String::new() };
    let add = format!("ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {VERSION_COLUMN} bigint NOT NULL DEFAULT ");
    format!("{before}DO $forebay$ BEGIN EXECUTE {} || {NEXT_VERSION}; END $forebay$;\n", quoted_text(&add))
}

/// The function that notes what is written to `table`. A writer needs no right on forebay's tables: it has its owner's.
/// To set a `search_path` for it would cost as much as the note, for each row; so that none matters, each name has its
/// schema, operators and types included.
fn noting(table: &Table, function: &str) -> String {
    let key = |row: &str| key_of(row, TEXT, table.key.iter().map(|column| column.name.as_str()));
    let (old, new, own_name) = (key("OLD"), key("NEW"), quoted_text(&table.name));
    let side = table.mapping.version == VersionMode::Side;
    // Versions beside a table are kept of all that is written.
    let unless_own = match side {
        true => String::new(),
        false => format!(
            "    IF pg_catalog.current_setting('{OWN}', true) OPERATOR(pg_catalog.=) 'on'\n            \
                 AND pg_catalog.pg_trigger_depth() OPERATOR(pg_catalog.=) 1\n            \
                 AND TG_OP OPERATOR(pg_catalog.<>) 'TRUNCATE' THEN\n        \
                 RETURN NULL;\n    END IF;\n"
        ),
    };
    let Kept { forget, remember, truncated, moved } =
        if side { Kept::of(&own_name, &old, &new) } else { Kept::default() };
    let is = |operation: &str| format!("TG_OP OPERATOR(pg_catalog.=) '{operation}'");
    let (updated, inserted, deleted) = (is("UPDATE"), is("INSERT"), is("DELETE"));
    format!(
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $forebay$\n\
         BEGIN\n{unless_own}    \
             IF {updated} THEN\n        \
                 INSERT INTO forebay.changes (tab, old_key, new_key)\n            \
                     VALUES ({own_name}, {old}, {new});\n{moved}{remember}    \
             ELSIF {inserted} THEN\n        \
                 INSERT INTO forebay.changes (tab, new_key) VALUES ({own_name}, {new});\n{remember}    \
             ELSIF {deleted} THEN\n        \
                 INSERT INTO forebay.changes (tab, old_key) VALUES ({own_name}, {old});\n{forget}    \
             ELSE\n        \
                 INSERT INTO forebay.changes (tab) VALUES ({own_name});\n{truncated}    \
             END IF;\n    \
             RETURN NULL;\n\
         END $forebay$;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_fit_and_differ() {
        assert_eq!(function_name("public.users"), "changed public.users");
        let fits = format!("public.{}", "a".repeat(NAME_BYTES_MAX - "changed public.".len()));
        assert_eq!(function_name(&fits), format!("changed {fits}"));
        for stem in ["a", "\u{e4}", "\u{1f600}"] {
            let stem = format!("public.\"{}", stem.repeat(60 / stem.len()));
            let (one, two) = (function_name(&format!("{stem}1\"")), function_name(&format!("{stem}2\"")));
            assert_ne!(one, two);
            assert!(one.len() <= NAME_BYTES_MAX && two.len() <= NAME_BYTES_MAX, "{one} {two}");
        }
        // What is written into databases: another name leaves the old function behind.
        let long = format!("public.{}", "b".repeat(60));
        assert_eq!(function_name(&long), "changed public.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb #3abc0401b3f72da2");
    }
}
