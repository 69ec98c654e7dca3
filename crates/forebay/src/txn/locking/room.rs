//! How a transaction gets room for its commit before it is placed (`txn/group/room.rs`).

use super::{Documents, Transaction, TxnError};
use crate::txn::Plan;
use crate::txn::ahead::Ahead;
use crate::txn::plan::Overtaken;

/// Bytes of documents above which to work on them takes long.
pub const LARGE_BYTES: usize = 512 << 10;

/// The same, for all that look through them, one after the other.
const LOOKED_THROUGH_BYTES: usize = 4 * LARGE_BYTES;

/// Whether it takes long to run so many commands on documents of so many bytes.
pub fn take_long(documents_bytes: usize, commands: usize) -> bool {
    documents_bytes > LARGE_BYTES || documents_bytes.saturating_mul(commands) > LOOKED_THROUGH_BYTES
}

impl Transaction {
    /// Runs `body` on what `plan` says, so that there is room for the commit of what it has made; it does not run if
    /// what the plan watches has changed.
    pub(in crate::txn) async fn run_in_room<T>(
        &mut self,
        plan: &Plan,
        ahead: &mut Ahead,
        body: &mut impl FnMut(&mut Documents) -> Result<T, T>,
    ) -> Result<Result<Result<T, T>, Overtaken>, TxnError> {
        if let Some(overtaken) = self.prepare(plan, ahead).await? {
            return Ok(Err(overtaken));
        }
        self.leave_with_large(plan.bodies).await;
        let answer = body(self.documents_mut());
        if answer.is_err() || self.has_room() {
            return Ok(Ok(answer));
        }
        // It shows what is given up, and may be as long.
        drop(answer);
        match self.wait_for_room(plan, ahead).await? {
            Some(overtaken) => Ok(Err(overtaken)),
            None => Ok(Ok(body(self.documents_mut()))),
        }
    }

    /// To work on large documents takes long: it is done where no other task waits for it. Its task comes back when its
    /// command is answered.
    pub async fn leave_with_large(&self, commands: usize) {
        if take_long(self.documents.held_bytes(), commands) {
            self.inner.runtime.leave().await;
        }
    }

    /// Whether it has room for what it has written, or gets it at once.
    fn has_room(&mut self) -> bool {
        if self.inner.at_once || self.room.is_some() || !self.documents.changed() {
            return true;
        }
        self.room = self.inner.committer.try_admit(self.documents.footprint());
        self.room.is_some()
    }

    /// Waits for that room, and is then as it was before its body ran: with its locks, and what it needs loaded anew.
    /// What it had made is given up first, so that those who wait hold little, however many they are. The body makes
    /// the same of the same documents; where they are others by then, of another size, the room that it has will do.
    /// What the plan watches may have changed.
    async fn wait_for_room(&mut self, plan: &Plan, ahead: &mut Ahead) -> Result<Option<Overtaken>, TxnError> {
        let footprint = self.documents.footprint();
        self.documents = self.inner.documents();
        // With the documents goes what it had for them.
        (self.turn, self.lent) = (None, None);
        // What it has read is not shown: what it reads then is.
        self.depends.clear();
        self.room = Some(self.inner.committer.admit(footprint).await);
        self.prepare(plan, ahead).await
    }

    /// Room for the commit of one that is not run again, or has it already.
    pub(super) async fn take_room(&mut self) {
        if !self.has_room() {
            self.room = Some(self.inner.committer.admit(self.documents.footprint()).await);
        }
    }
}
