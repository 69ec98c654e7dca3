//! What `forebay store init` runs: forebay's own schema, and what keeps versions of mapped rows and notes changes.

use std::fmt::Write;

use super::mapping::VersionMode;
use super::mapping::catalogue::{Table, VERSION_COLUMN, quoted};
use super::mapping::sql::quoted_text;
use super::sql;

/// The statements, for `role` to use what they make. `tables` have the version mode that they are to have.
pub(super) fn script(role: &str, tables: &[Table]) -> String {
    let mut text = String::from("BEGIN;\n");
    text.push_str(sql::SCHEMA);
    let role = quoted(role);
    let _ = writeln!(
        text,
        "GRANT USAGE ON SCHEMA forebay TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA forebay TO {role};\n\
         GRANT SELECT, USAGE ON SEQUENCE forebay.versions TO {role};"
    );
    tables.iter().for_each(|table| text.push_str(&of_table(table)));
    text.push_str("COMMIT;\n");
    text
}

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
        Kept {
            forget: format!("        DELETE FROM forebay.row_versions WHERE tab = {table} AND key = {old};\n"),
            remember: format!(
                "        INSERT INTO forebay.row_versions (tab, key, version)\n            \
                     VALUES ({table}, {new}, nextval('forebay.versions'))\n            \
                     ON CONFLICT (tab, key) DO UPDATE SET version = excluded.version;\n"
            ),
            truncated: format!("        DELETE FROM forebay.row_versions WHERE tab = {table};\n"),
            // A row whose key changes leaves its old one.
            moved: format!(
                "        IF {old} <> {new} THEN\n            \
                     DELETE FROM forebay.row_versions WHERE tab = {table} AND key = {old};\n        END IF;\n"
            ),
        }
    }
}

fn of_table(table: &Table) -> String {
    let name = &table.name;
    let function = format!("forebay.{}", quoted(&format!("changed {name}")));
    let key = |row: &str| {
        let parts: Vec<String> =
            table.key.iter().map(|column| format!("{row}.{}::text", quoted(&column.name))).collect();
        format!("ARRAY[{}]", parts.join(", "))
    };
    let (old, new, own_name) = (key("OLD"), key("NEW"), quoted_text(name));
    let side = table.mapping.version == VersionMode::Side;
    let mut text = String::new();
    match table.mapping.version {
        VersionMode::None | VersionMode::Auto => return text,
        VersionMode::Column => {
            let _ = write!(
                text,
                "ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {VERSION_COLUMN} bigint NOT NULL DEFAULT 0;\n\
                 DROP TRIGGER IF EXISTS forebay_version ON {name};\n\
                 CREATE TRIGGER forebay_version BEFORE INSERT OR UPDATE ON {name}\n    \
                     FOR EACH ROW EXECUTE FUNCTION forebay.set_version();\n"
            );
        }
        VersionMode::Side => {}
    }
    let Kept { forget, remember, truncated, moved } =
        if side { Kept::of(&own_name, &old, &new) } else { Kept::default() };
    // A writer needs no right on forebay's tables: the function has its owner's.
    let _ = write!(
        text,
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql\n    \
             SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$\n\
         BEGIN\n    \
             IF TG_OP = 'TRUNCATE' THEN\n        \
                 INSERT INTO forebay.changes (tab) VALUES ({own_name});\n{truncated}    \
             ELSIF TG_OP = 'INSERT' THEN\n        \
                 INSERT INTO forebay.changes (tab, new_key) VALUES ({own_name}, {new});\n{remember}    \
             ELSIF TG_OP = 'DELETE' THEN\n        \
                 INSERT INTO forebay.changes (tab, old_key) VALUES ({own_name}, {old});\n{forget}    \
             ELSE\n        \
                 INSERT INTO forebay.changes (tab, old_key, new_key)\n            \
                     VALUES ({own_name}, {old}, {new});\n{moved}{remember}    \
             END IF;\n    \
             RETURN NULL;\n\
         END $$;\n\
         DROP TRIGGER IF EXISTS forebay_change ON {name};\n\
         CREATE TRIGGER forebay_change AFTER INSERT OR UPDATE OR DELETE ON {name}\n    \
             FOR EACH ROW EXECUTE FUNCTION {function}();\n\
         DROP TRIGGER IF EXISTS forebay_truncate ON {name};\n\
         CREATE TRIGGER forebay_truncate AFTER TRUNCATE ON {name}\n    \
             FOR EACH STATEMENT EXECUTE FUNCTION {function}();\n"
    );
    text
}
