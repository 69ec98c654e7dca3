//! Whether a request is one of a command, with the arguments that the command takes.

use forebay_protocol::{Frame, Reply, errors};

use super::{Multi, Session};
use crate::command::Command;
use crate::strangers::is_of_http;

impl Session {
    /// What becomes of a request for no command: an error, or the end of a connection that is a web page's.
    #[cold]
    pub(super) fn accept_unknown(&mut self, frame: Frame<'_>) -> Result<Option<&'static Command>, Reply> {
        self.pending.call(self.shared.tally.unknown(), &self.shared.tally);
        if is_of_http(frame.arg(0)) {
            let (client, address) = (self.client.id, &self.client.address);
            tracing::warn!(client, address, "closing a client that speaks HTTP: a web page may try to send commands");
            self.closing = true;
            return Ok(None);
        }
        self.multi.doom();
        Err(errors::unknown_command(frame.arg(0), frame.args().skip(1)))
    }

    /// Why the arguments of a request are none of its command, if they are not.
    pub(super) fn unfit(&mut self, command: &Command, frame: Frame<'_>) -> Option<Reply> {
        if command.arity_fits(frame.len()) {
            return command.key_too_long(frame);
        }
        if command.name == "exec" {
            // One that is refused still ends its MULTI.
            self.multi = Multi::default();
            return Some(errors::exec_wrong_arguments());
        }
        Some(errors::wrong_arguments(command.name))
    }
}
