//! Names that clients give to transaction types, vertices and hint sets, and the numbers that policies and traces know
//! them by. Numbers are given out once per server and never taken back, so each kind has a limit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_protocol::Reply;

/// Transaction types that one server tells apart.
pub const TXN_TYPES_MAX: usize = 4096;

/// Vertices of transaction graphs that one server tells apart.
pub const VERTICES_MAX: usize = 16_384;

/// Longest name of a type, vertex, hint schema or hint value, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;

/// All names of a server.
#[derive(Default)]
pub struct Labels {
    types: Mutex<Names>,
    vertices: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    names: Vec<Box<[u8]>>,
    numbers: hashbrown::HashMap<Box<[u8]>, u16, foldhash::quality::RandomState>,
}

impl Labels {
    /// The number of a transaction type, from 1.
    pub fn txn_type(&self, name: &[u8]) -> Result<u16, Reply> {
        number(&self.types, name, "txn_types_max", TXN_TYPES_MAX)
    }

    /// The number of a vertex, from 1.
    pub fn vertex(&self, name: &[u8]) -> Result<u16, Reply> {
        number(&self.vertices, name, "vertices_max", VERTICES_MAX)
    }

    /// The names of all transaction types; the first has number 1.
    pub fn txn_types(&self) -> Vec<Box<[u8]>> {
        lock(&self.types).names.clone()
    }

    /// The names of all vertices; the first has number 1.
    pub fn vertices(&self) -> Vec<Box<[u8]>> {
        lock(&self.vertices).names.clone()
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(names: &Mutex<Names>, name: &[u8], limit: &str, most: usize) -> Result<u16, Reply> {
    if name.len() > LABEL_BYTES_MAX {
        return Err(Reply::error(format!("LIMIT label_bytes_max {LABEL_BYTES_MAX}")));
    }
    let mut names = lock(names);
    if let Some(number) = names.numbers.get(name) {
        return Ok(*number);
    }
    if names.names.len() >= most {
        return Err(Reply::error(format!("LIMIT {limit} {most}")));
    }
    names.names.push(name.into());
    let number = names.names.len() as u16;
    names.numbers.insert(name.into(), number);
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers_and_are_bounded() {
        let labels = Labels::default();
        assert_eq!(labels.txn_type(b"checkout"), Ok(1));
        assert_eq!((labels.txn_type(b"browse"), labels.txn_type(b"checkout")), (Ok(2), Ok(1)));
        assert_eq!(labels.vertex(b"checkout"), Ok(1));
        assert!(labels.vertex(&[0; LABEL_BYTES_MAX + 1]).is_err());
        for n in labels.txn_types().len()..TXN_TYPES_MAX {
            labels.txn_type(n.to_string().as_bytes()).unwrap();
        }
        assert!(labels.txn_type(b"one more").is_err());
    }
}
