//! Numbers for the clients of a log.

use std::collections::HashMap;

use crate::csv::CLIENTS_NAMED_MAX;

/// Bytes of a name that count.
const NAME_BYTES: usize = 256;

/// Clients by what a log calls them, numbered from 1 in the order in which they come.
#[derive(Default)]
pub(super) struct Clients(HashMap<Box<[u8]>, u32>);

impl Clients {
    /// The client's number. Those beyond [`CLIENTS_NAMED_MAX`] have one number together.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        let name = &name[..name.len().min(NAME_BYTES)];
        if let Some(&number) = self.0.get(name) {
            return number;
        }
        let number = self.0.len() as u32 + 1;
        if number <= CLIENTS_NAMED_MAX {
            self.0.insert(name.into(), number);
        }
        number
    }
}

/// An address without its port: `10.0.0.1` of `10.0.0.1:4711`, `::1` of `[::1]:4711`.
pub(super) fn without_port(address: &[u8]) -> &[u8] {
    let colons = address.iter().filter(|&&byte| byte == b':').count();
    let has_port = colons == 1 || address.starts_with(b"[") && !address.ends_with(b"]");
    let end = address.iter().rposition(|&byte| byte == b':').filter(|_| has_port).unwrap_or(address.len());
    let host = &address[..end];
    host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_no_part_of_a_client() {
        for (address, host) in
            [("10.0.0.1:4711", "10.0.0.1"), ("[::1]:80", "::1"), ("::1", "::1"), ("[local]", "local"), ("", "")]
        {
            assert_eq!(without_port(address.as_bytes()), host.as_bytes(), "{address}");
        }
        let mut clients = Clients::default();
        assert_eq!([clients.number(b"a"), clients.number(b"b"), clients.number(b"a")], [1, 2, 1]);
    }
}
