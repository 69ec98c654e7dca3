//! TXN TYPE.

use forebay_protocol::{Frame, Reply};

use crate::graphs::{Registered, Source, parse_types};
use crate::session::Session;

/// Registers what transaction types look like, for policies that score by it.
pub(super) fn types(session: &mut Session, frame: Frame<'_>) -> Reply {
    let text = std::str::from_utf8(frame.arg(2)).map_err(|_| "the types are no UTF-8".to_owned());
    let types = match text.and_then(parse_types) {
        Ok(types) => types,
        Err(why) => {
            session.shared.graphs.count_refused();
            return Reply::error(format!("ERR {}", why.replace(['\r', '\n'], " ")));
        }
    };
    let shared = &session.shared;
    match shared.graphs.register(types, Source::Client, (&shared.labels, shared.is_traced()), shared.engine.cache()) {
        Ok(Registered { new, replaced, same }) => {
            Reply::Simple(format!("OK {new} new, {replaced} replaced, {same} as before").into())
        }
        Err(error) => error,
    }
}
