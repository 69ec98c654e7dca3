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
    let forget = if side {
        format!("        DELETE FROM forebay.row_versions WHERE tab = {own_name} AND key = {old};\n")
    } else {
        String::new()
    };
    let remember = if side {
        format!(
            "        INSERT INTO forebay.row_versions (tab, key, version)\n            \
                 VALUES ({own_name}, {new}, nextval('forebay.versions'))\n            \
                 ON CONFLICT (tab, key) DO UPDATE SET version = excluded.version;\n"
        )
    } else {
        String::new()
    };
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
             FOR EACH STATEMENT EXECUTE FUNCTION {function}();\n",
        truncated = match side {
            true => format!("        DELETE FROM forebay.row_versions WHERE tab = {own_name};\n"),
            false => String::new(),
        },
        // A row whose key changes leaves its old one.
        moved = match side {
            true => format!(
                "        IF {old} <> {new} THEN\n            \
                     DELETE FROM forebay.row_versions WHERE tab = {own_name} AND key = {old};\n        END IF;\n"
            ),
            false => String::new(),
        },
    );
    text
}
