//! HSCAN and SSCAN whose elements are still to be compared with a pattern.

use forebay_protocol::{Frame, Reply, errors};

use super::turns::Turns;
use crate::command::Command;
use crate::glob::Glob;

/// Whether this option of HSCAN takes no argument.
pub fn is_no_values(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"novalues")
}

/// The answer to a request whose elements were not compared with its pattern, without those that do not match.
pub async fn compare(command: &Command, frame: Frame<'_>, reply: Reply, mut turns: Turns) -> Reply {
    let (mut options, mut pattern, mut no_values) = (frame.args().skip(3), None, false);
    while let Some(option) = options.next() {
        match is_no_values(option) {
            true => no_values = true,
            false => {
                let argument = options.next();
                pattern = argument.filter(|_| option.eq_ignore_ascii_case(b"match")).or(pattern);
            }
        }
    }
    let (Some(pattern), Reply::Array(mut parts)) = (pattern, reply) else { return Reply::error(errors::SYNTAX) };
    let Some(Reply::Array(elements)) = parts.pop() else { return Reply::error(errors::SYNTAX) };
    let _walk = turns.walk(pattern).await;
    let (glob, size) = (Glob::new(pattern), if command.name == "hscan" && !no_values { 2 } else { 1 });
    let mut fitting = Vec::new();
    let mut elements = elements.into_iter();
    while let Some(element) = elements.next() {
        let fits = match &element {
            Reply::Bulk(bytes) => turns.matches(&glob, bytes).await,
            _ => Ok(true),
        };
        let values = elements.by_ref().take(size - 1);
        match fits {
            Ok(true) => fitting.extend(std::iter::once(element).chain(values)),
            Ok(false) => values.for_each(drop),
            Err(error) => return error,
        }
    }
    parts.push(Reply::Array(fitting));
    Reply::Array(parts)
}
