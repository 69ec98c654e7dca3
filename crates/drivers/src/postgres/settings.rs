//! Settings of a session.
//!
//! They are set by a statement when the connection is there, not as `options` of its start: PgBouncer refuses those, or
//! is told to drop them (`ignore_startup_parameters`), and then no session would have them.

use std::time::Duration;

/// What holds in every session, whatever the defaults of server, database and role are. Plans look keys up by index
/// whatever the statistics say, since a plan that was made over an empty table is kept; a group's values fit into
/// memory; texts of values do not depend on defaults; no timeout of the server's ends a statement, for forebay has its
/// own. Whether a transaction may write is left to the server: an operator who makes it read-only for a while means
/// forebay too, and writes wait.
const ALWAYS: [(&str, &str); 17] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("work_mem", "32MB"),
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("standard_conforming_strings", "on"),
    ("array_nulls", "on"),
    ("transform_null_equals", "off"),
    ("quote_all_identifiers", "off"),
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("default_transaction_isolation", "read committed"),
];

/// What one kind of session has; in the default all that every session has.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// How long a statement waits for a lock; without end if there is none.
    pub(super) lock_wait: Option<Duration>,
    /// The run of forebay that a commit is made for, by which the database knows its owner.
    pub(super) run: Option<String>,
}

impl Settings {
    /// The statements that set them.
    pub(super) fn sql(&self) -> String {
        let always = ALWAYS.iter().map(|(name, value)| format!("SET {name} = '{value}';"));
        let run = self.run.iter().map(|run| format!("SET forebay.run = '{run}';"));
        always.chain([self.lock_sql(), ";".into()]).chain(run).collect()
    }

    /// The statement that sets how long a statement waits for a lock.
    pub(super) fn lock_sql(&self) -> String {
        format!("SET lock_timeout = {}", self.lock_wait.map_or(0, |wait| wait.as_millis().max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_one_statement() {
        let settings = Settings { lock_wait: Some(Duration::from_micros(1)), run: Some("a1".into()) };
        let text = settings.sql();
        assert!(text.ends_with("SET lock_timeout = 1;SET forebay.run = 'a1';"), "{text}");
        assert_eq!(text.matches("SET ").count(), ALWAYS.len() + 2, "{text}");
        assert!(Settings::default().sql().ends_with("SET lock_timeout = 0;"));
    }
}
