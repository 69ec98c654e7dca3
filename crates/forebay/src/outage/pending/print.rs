//! What is buffered, as text, for tests that tell states apart.

use std::fmt;

use super::Buffer;

impl Buffer {
    /// Writes all of it down, in one order.
    #[doc(hidden)]
    pub fn print(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "next {}", self.next_number)?;
        for entry in self.entries.values() {
            writeln!(out, "{entry:?}")?;
        }
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        let mut lanes: Vec<_> = self.lanes.iter().collect();
        lanes.sort_unstable_by_key(|(lane, _)| *lane);
        writeln!(out, "{rows:?}\n{lanes:?}\n{:?} {:?}", self.restamped, self.ordered)
    }
}
