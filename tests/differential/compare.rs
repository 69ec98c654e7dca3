//! When two replies count as the same.

use forebay_protocol::Reply;

use crate::generate::Request;

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The replies are the same.
    Same,
    /// They differ as `docs/differences.md` says, and so do the data from here on.
    Diverged,
}

/// How the replies of a command are compared.
enum Compared {
    /// Every byte.
    Exactly,
    /// A list whose order means nothing.
    Unordered,
    /// Keys and values, flat or not, whose order means nothing.
    UnorderedPairs,
    /// A cursor, then what this function sorts. Small documents only: forebay's cursor is 0.
    Scan(fn(&Reply) -> (String, Vec<String>)),
    /// A moment or a duration: it may differ by this much.
    Within(i64),
    /// Chosen at random: as many, of the same kind.
    Shape,
    /// "Encodings": whether there is one; its name may be another.
    Encoding,
    /// "Idle time": forebay says 0.
    IdleTime,
}

fn compared(request: &Request) -> Compared {
    let option = request.option(1);
    match request.name().as_str() {
        "hkeys" | "hvals" | "smembers" => Compared::Unordered,
        "hgetall" => Compared::UnorderedPairs,
        "hscan" => Compared::Scan(sorted_pairs),
        "sscan" => Compared::Scan(sorted),
        "ttl" | "expiretime" => Compared::Within(2),
        "pttl" | "pexpiretime" => Compared::Within(2000),
        "hrandfield" | "srandmember" => Compared::Shape,
        "object" if option == "encoding" || option == "refcount" => Compared::Encoding,
        "object" if option == "idletime" => Compared::IdleTime,
        _ => Compared::Exactly,
    }
}

/// The text of a bulk string or status.
pub fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Simple(text) => text.clone().into_owned(),
        other => format!("{other:?}"),
    }
}

/// Compares the replies to a request outside MULTI, or to one in EXEC's list.
pub fn compare(request: &Request, redis: &Reply, forebay: &Reply) -> Result<Verdict, String> {
    let same = match compared(request) {
        _ if redis == forebay => true,
        Compared::Exactly => false,
        Compared::Unordered => sorted(redis) == sorted(forebay),
        Compared::UnorderedPairs => sorted_pairs(redis) == sorted_pairs(forebay),
        Compared::Scan(sort) => match (redis, forebay) {
            (Reply::Array(redis), Reply::Array(forebay)) if redis.len() == 2 && forebay.len() == 2 => {
                let (_, some) = sort(&redis[1]);
                let (_, all) = sort(&forebay[1]);
                // "Scans of small documents": what Redis answers in several calls, forebay answers in one.
                let whole = redis[0] != forebay[0] && some.iter().all(|item| all.contains(item));
                forebay[0] == Reply::bulk(b"0") && (whole || some == all)
            }
            _ => false,
        },
        Compared::Within(tolerance) => match (redis, forebay) {
            (Reply::Integer(redis), Reply::Integer(forebay)) => {
                *redis > 0 && *forebay > 0 && (redis - forebay).abs() <= tolerance
            }
            _ => false,
        },
        Compared::Shape => shape(redis) == shape(forebay),
        Compared::Encoding => !redis.is_error() && shape(redis) == shape(forebay),
        Compared::IdleTime => matches!(redis, Reply::Integer(_)) && *forebay == Reply::Integer(0),
    };
    if same { Ok(Verdict::Same) } else { Err("another reply".to_owned()) }
}

/// Compares the replies to EXEC. "EXEC is all or nothing": where Redis goes on after an error, forebay tells it and
/// undoes all, so that the data differ from there on.
pub fn compare_exec(queue: &[Request], redis: &Reply, forebay: &Reply) -> Result<Verdict, String> {
    let Reply::Array(replies) = redis else {
        return if redis == forebay { Ok(Verdict::Same) } else { Err("another reply".to_owned()) };
    };
    if replies.len() != queue.len() {
        return Err(format!("{} replies to {} requests", replies.len(), queue.len()));
    }
    let failed = replies.iter().enumerate().find_map(|(at, reply)| match reply {
        Reply::Error(text) => Some((at, String::from_utf8_lossy(text).into_owned())),
        _ => None,
    });
    match (failed, forebay) {
        (Some((at, error)), Reply::Error(text)) => {
            let text = String::from_utf8_lossy(text);
            let name = queue[at].name().to_ascii_uppercase();
            let begin = format!("EXECABORT rolled back: command {} ({name}", at + 1);
            match text.starts_with(&begin) && text.ends_with(&format!("): {error}")) {
                true => Ok(Verdict::Diverged),
                false => Err(format!("expected {begin}..): {error}")),
            }
        }
        (None, Reply::Array(others)) if others.len() == queue.len() => {
            for (request, (redis, forebay)) in queue.iter().zip(replies.iter().zip(others)) {
                compare(request, redis, forebay).map_err(|why| format!("in EXEC, {request:?}: {why}"))?;
            }
            Ok(Verdict::Same)
        }
        _ => Err("another kind of reply".to_owned()),
    }
}

/// The kind of an aggregate and its elements.
fn elements(reply: &Reply) -> Option<(&'static str, &[Reply])> {
    match reply {
        Reply::Array(items) => Some(("array", items)),
        Reply::Set(items) => Some(("set", items)),
        _ => None,
    }
}

fn sorted(reply: &Reply) -> (String, Vec<String>) {
    let Some((kind, items)) = elements(reply) else { return (format!("{reply:?}"), Vec::new()) };
    let mut items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    items.sort();
    (kind.to_owned(), items)
}

fn sorted_pairs(reply: &Reply) -> (String, Vec<String>) {
    let (kind, mut pairs) = match reply {
        Reply::Map(pairs) => ("map", pairs.iter().map(|pair| format!("{pair:?}")).collect::<Vec<_>>()),
        Reply::Array(items) => ("array", items.chunks(2).map(|pair| format!("{pair:?}")).collect()),
        other => return (format!("{other:?}"), Vec::new()),
    };
    pairs.sort();
    (kind.to_owned(), pairs)
}

/// A reply without its content.
fn shape(reply: &Reply) -> String {
    match (elements(reply), reply) {
        (Some((kind, items)), _) => format!("{kind} {:?}", items.iter().map(shape).collect::<Vec<_>>()),
        (None, Reply::Bulk(_)) => "bulk".to_owned(),
        (None, Reply::Integer(_)) => "integer".to_owned(),
        (None, other) => format!("{other:?}"),
    }
}
