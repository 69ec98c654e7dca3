//! A connection to PostgreSQL with statements that are prepared at their first use. Without the feature `postgres`
//! there is no such connection, and what speaks SQL compiles all the same.

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Param<'a> {
    /// For `smallint`, `integer` and `bigint`.
    Number(i64),
    /// For `text` and `varchar`.
    Text(&'a str),
    /// For arrays of these.
    Numbers(&'a [i64]),
    /// For arrays of these.
    Texts(&'a [String]),
}

#[cfg(feature = "postgres")]
pub use postgres::{Rows, Sql};

#[cfg(not(feature = "postgres"))]
pub use without::{Rows, Sql};

#[cfg(feature = "postgres")]
mod postgres {
    use std::collections::HashMap;
    use std::error::Error;

    use bytes::BytesMut;
    use forebay_drivers::postgres::OpenError;
    use forebay_drivers::postgres::address::Address;
    use forebay_drivers::postgres::plain::{Plain, told};
    use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
    use tokio_postgres::{Row, Statement};

    use super::Param;
    use crate::live::Failure;

    /// A connection to PostgreSQL.
    #[derive(Debug)]
    pub struct Sql {
        plain: Plain,
        statements: HashMap<String, Statement>,
    }

    /// What a query answered.
    #[derive(Debug)]
    pub struct Rows(Vec<Row>);

    impl Sql {
        pub(in crate::live) async fn connect(address: &Address, password: Option<&[u8]>) -> Result<Sql, Failure> {
            let plain = Plain::connect(address, password, "forebay-bench").await;
            let plain = plain.map_err(|error| match error {
                OpenError::Unreachable { why, .. } => Failure::unreachable(why),
                other => Failure::unreachable(other.to_string()),
            })?;
            Ok(Sql { plain, statements: HashMap::new() })
        }

        /// Runs a statement; its rows.
        pub async fn query(&mut self, text: &str, params: &[Param<'_>]) -> Result<Rows, Failure> {
            let statement = self.statement(text).await?;
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
            let rows = self.plain.client.query(&statement, &params).await;
            rows.map(Rows).map_err(|error| self.failure(&error))
        }

        /// Runs a statement; how many rows it changed.
        pub async fn execute(&mut self, text: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
            let statement = self.statement(text).await?;
            let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as _).collect();
            self.plain.client.execute(&statement, &params).await.map_err(|error| self.failure(&error))
        }

        /// Runs statements without parameters: `BEGIN`, `CREATE TABLE ..`.
        pub async fn script(&mut self, text: &str) -> Result<(), Failure> {
            self.plain.client.batch_execute(text).await.map_err(|error| self.failure(&error))
        }

        async fn statement(&mut self, text: &str) -> Result<Statement, Failure> {
            if let Some(statement) = self.statements.get(text) {
                return Ok(statement.clone());
            }
            let statement = self.plain.client.prepare(text).await.map_err(|error| self.failure(&error))?;
            self.statements.insert(text.to_owned(), statement.clone());
            Ok(statement)
        }

        fn failure(&self, error: &tokio_postgres::Error) -> Failure {
            let text = told(error);
            // 57P: the server ends the session; 08: it is gone; 40003: nobody knows what became of it.
            let lost = |code: &str| ["57P", "08", "40003"].iter().any(|class| code.starts_with(class));
            match error.code() {
                Some(code) if !lost(code.code()) && !self.plain.client.is_closed() => {
                    Failure::of_kind(code.code(), text)
                }
                _ => Failure::lost(text),
            }
        }
    }

    impl Rows {
        /// How many.
        pub fn count(&self) -> usize {
            self.0.len()
        }

        /// A column of type text or varchar; `None` for NULL.
        pub fn text(&self, row: usize, column: usize) -> Result<Option<&str>, Failure> {
            self.value(row, column)
        }

        /// A column of type bigint; `None` for NULL.
        pub fn number(&self, row: usize, column: usize) -> Result<Option<i64>, Failure> {
            self.value(row, column)
        }

        /// A column of type text[]; empty for NULL.
        pub fn texts(&self, row: usize, column: usize) -> Result<Vec<String>, Failure> {
            Ok(self.value::<Vec<String>>(row, column)?.unwrap_or_default())
        }

        fn value<'a, T>(&'a self, row: usize, column: usize) -> Result<Option<T>, Failure>
        where
            T: tokio_postgres::types::FromSql<'a>,
        {
            let row = self.0.get(row).ok_or_else(|| Failure::of_kind("row", "there are not as many rows"))?;
            row.try_get(column).map_err(|error| Failure::of_kind("column", error.to_string()))
        }
    }

    impl ToSql for Param<'_> {
        fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
            match self {
                Param::Number(number) if *of == Type::INT4 => i32::try_from(*number)?.to_sql_checked(of, out),
                Param::Number(number) if *of == Type::INT2 => i16::try_from(*number)?.to_sql_checked(of, out),
                Param::Number(number) => number.to_sql_checked(of, out),
                Param::Text(text) => text.to_sql_checked(of, out),
                Param::Numbers(numbers) if *of == Type::INT4_ARRAY => {
                    let numbers: Result<Vec<i32>, _> = numbers.iter().map(|number| i32::try_from(*number)).collect();
                    numbers?.to_sql_checked(of, out)
                }
                Param::Numbers(numbers) => numbers.to_sql_checked(of, out),
                Param::Texts(texts) => texts.to_sql_checked(of, out),
            }
        }

        // What does not fit is told by `to_sql`, which knows both.
        fn accepts(_: &Type) -> bool {
            true
        }

        to_sql_checked!();
    }
}

#[cfg(not(feature = "postgres"))]
mod without {
    use super::Param;
    use crate::live::Failure;

    /// No connection to PostgreSQL in this build.
    #[derive(Debug)]
    pub enum Sql {}

    /// What no query answers.
    #[derive(Debug)]
    pub enum Rows {}

    impl Sql {
        /// Never called.
        pub async fn query(&mut self, _: &str, _: &[Param<'_>]) -> Result<Rows, Failure> {
            match *self {}
        }

        /// Never called.
        pub async fn execute(&mut self, _: &str, _: &[Param<'_>]) -> Result<u64, Failure> {
            match *self {}
        }

        /// Never called.
        pub async fn script(&mut self, _: &str) -> Result<(), Failure> {
            match *self {}
        }
    }

    impl Rows {
        /// Never called.
        pub fn count(&self) -> usize {
            match *self {}
        }

        /// Never called.
        pub fn text(&self, _: usize, _: usize) -> Result<Option<&str>, Failure> {
            match *self {}
        }

        /// Never called.
        pub fn number(&self, _: usize, _: usize) -> Result<Option<i64>, Failure> {
            match *self {}
        }

        /// Never called.
        pub fn texts(&self, _: usize, _: usize) -> Result<Vec<String>, Failure> {
            match *self {}
        }
    }
}
