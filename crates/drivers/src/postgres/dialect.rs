//! What PostgreSQL thinks of keys and values, told without asking it.

use forebay::store::Write;
use forebay::value::Blob;

use super::rows::canonical::shown_as;
use super::rows::value_refused::{limit_refused, value_refused};
use crate::sql::dialect::Dialect;
use crate::sql::table::{Column, Limit, Table};

/// The rules of PostgreSQL.
pub(super) struct PostgresDialect;

impl Dialect for PostgresDialect {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn key_text(&self, column: &Column, text: &str) -> Option<String> {
        let canonical = match column.type_name.as_str() {
            "smallint" | "integer" | "bigint" => text.trim().parse::<i64>().ok()?.to_string(),
            "uuid" => {
                let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
                let at = |from: usize, to: usize| digits.get(from..to);
                format!("{}-{}-{}-{}-{}", at(0, 8)?, at(8, 12)?, at(12, 16)?, at(16, 20)?, at(20, digits.len())?)
            }
            _ => text.to_owned(),
        };
        self.is_key_text(column, &canonical).then_some(canonical)
    }

    fn is_key_text(&self, column: &Column, part: &str) -> bool {
        match column.type_name.as_str() {
            "smallint" => part.parse::<i16>().is_ok_and(|number| number.to_string() == part),
            "integer" => part.parse::<i32>().is_ok_and(|number| number.to_string() == part),
            "bigint" => part.parse::<i64>().is_ok_and(|number| number.to_string() == part),
            "uuid" => {
                let hyphens = [8, 13, 18, 23];
                part.len() == 36
                    && part.bytes().enumerate().all(|(at, byte)| match hyphens.contains(&at) {
                        true => byte == b'-',
                        false => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
                    })
            }
            _ if part.contains('\0') => false,
            // PostgreSQL cuts off what is too long if it is spaces, and makes another row of it.
            _ => match column.limit {
                Some(Limit::Characters(most)) => {
                    part.chars().nth(most).is_none() || part.chars().skip(most).any(|c| c != ' ')
                }
                _ => true,
            },
        }
    }

    fn shown(&self, type_name: &str, limit: Option<&Limit>, text: Blob) -> Blob {
        shown_as(type_name, limit, text)
    }

    fn value_refused(&self, type_name: &str, limit: Option<&Limit>, text: &str) -> Option<String> {
        value_refused(type_name, text).or_else(|| limit_refused(limit, text))
    }

    fn write_refused(&self, table: &Table, parts: &[&str], write: &Write) -> Option<String> {
        let statements = match table.write(parts, write) {
            Ok(statements) => statements,
            Err(why) => return Some(why),
        };
        statements.iter().find_map(|(shape, values)| table.for_one(shape, values).err())
    }
}
