//! BG's actions as commands. A multi-key write is one EXEC; a list of members is read, then the members.
//!
//! | key | what it is |
//! |---|---|
//! | `member:<id>` | hash, the profile |
//! | `friends:<id>`, `pending:<id>` | lists of members: friends, and who waits for an answer |
//! | `wall:<id>` | list of the resources on a member's wall, oldest first |
//! | `resource:<rid>` | hash |
//! | `comments:<rid>` | list of the numbers of comments on a resource |
//! | `comment:<rid>:<mid>` | hash |

use forebay_protocol::Reply;

use super::shared::SHOWN;
use crate::bg::action::Action;
use crate::bg::choose::Step;
use crate::bg::{Data, Kind, Object, Seen, Write};
use crate::client::{Client, Says, refused};
use crate::live::Failure;

/// What an action has seen of lists.
pub(super) type Saw = Vec<(Object, Seen)>;

/// The key of a list.
pub(super) fn key(object: Object) -> String {
    let name = match object.kind {
        Kind::Friends => "friends",
        Kind::Pending => "pending",
        Kind::Comments => "comments",
    };
    format!("{name}:{}", object.id)
}

fn strange(command: &str, reply: &Reply) -> Failure {
    Failure::from(refused(command, reply))
}

/// The elements of a list of numbers.
pub(super) fn numbers(reply: &Reply) -> Result<Vec<u32>, Failure> {
    let items = reply.items().ok_or_else(|| strange("LRANGE", reply))?;
    let number = |item: &&Reply| item.number().and_then(|number| u32::try_from(number).ok());
    items.iter().map(|item| number(item).ok_or_else(|| strange("LRANGE", item))).collect()
}

/// A profile or another hash, which must be there.
fn hash(reply: &Reply) -> Result<(), Failure> {
    match reply.items() {
        Some(fields) if !fields.is_empty() => Ok(()),
        Some(_) => Err(Failure::of_kind("gone", "a hash that was loaded is not there")),
        None => Err(strange("HGETALL", reply)),
    }
}

/// Sends what was queued; the replies, if none is an error.
async fn replies(client: &mut Client) -> Result<Vec<Reply>, Failure> {
    client.replies().await?.into_iter().map(Failure::unless_error).collect()
}

/// The commands as one EXEC; its replies, if none is an error. More than one round trip would be another transaction.
pub(super) async fn exec(client: &mut Client, commands: &[Vec<String>]) -> Result<Vec<Reply>, Failure> {
    client.queue(&["MULTI"]);
    commands.iter().for_each(|command| client.queue(command));
    client.queue(&["EXEC"]);
    let mut all = client.replies().await?;
    let last = all.pop().unwrap_or(Reply::Nil);
    // What made EXEC fail was said when the command was queued.
    for early in all {
        Failure::unless_error(early)?;
    }
    match Failure::unless_error(last)? {
        Reply::Array(items) if items.len() == commands.len() => items.into_iter().map(Failure::unless_error).collect(),
        other => Err(strange("EXEC", &other)),
    }
}

fn command<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// One action that reads.
pub(super) async fn read(client: &mut Client, step: &Step, transactions: bool) -> Result<Saw, Failure> {
    let Step { owner, rid, .. } = *step;
    let object = |kind| Object { kind, id: if kind == Kind::Comments { rid } else { owner } };
    let (list, range) = match step.action {
        Action::ViewProfile => return view_profile(client, step).await,
        Action::ListFriends => (key(object(Kind::Friends)), "0"),
        Action::ViewFriendRequests => (key(object(Kind::Pending)), "0"),
        Action::ViewTopResources => (format!("wall:{owner}"), SHOWN),
        _ => (key(object(Kind::Comments)), "0"),
    };
    let seen = match transactions {
        true => in_transaction(client, step, &list, range).await?,
        false => {
            let seen = numbers(&client.demand(&["LRANGE", &list, range, "-1"]).await?)?;
            let gone = step.action == Action::ViewComments;
            members(client, step, &seen, gone).await?;
            seen
        }
    };
    let saw = |kind| vec![(object(kind), Seen::Elements(seen.into()))];
    Ok(match step.action {
        Action::ListFriends => saw(Kind::Friends),
        Action::ViewFriendRequests => saw(Kind::Pending),
        Action::ViewTopResources => Vec::new(),
        _ => saw(Kind::Comments),
    })
}

async fn view_profile(client: &mut Client, step: &Step) -> Result<Saw, Failure> {
    let owner = step.owner;
    let mut commands = vec![
        command(["HGETALL", &format!("member:{owner}")]),
        command(["LLEN", &format!("wall:{owner}")]),
        command(["LLEN", &format!("friends:{owner}")]),
    ];
    if step.member == owner {
        commands.push(command(["LLEN", &format!("pending:{owner}")]));
    }
    let replies = exec(client, &commands).await?;
    hash(&replies[0])?;
    let mut saw = Vec::new();
    for (reply, kind) in replies[2..].iter().zip([Kind::Friends, Kind::Pending]) {
        let count = reply.number().and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(|| strange("LLEN", reply))?;
        saw.push((Object { kind, id: owner }, Seen::Count(count)));
    }
    Ok(saw)
}

/// What the elements of a list name, all of it in one round trip.
async fn members(client: &mut Client, step: &Step, seen: &[u32], may_be_gone: bool) -> Result<(), Failure> {
    if seen.is_empty() {
        return Ok(());
    }
    queue_members(client, step, seen);
    for reply in replies(client).await? {
        match hash(&reply) {
            // Deleted after the list was read.
            Err(failure) if may_be_gone && failure.kind == "gone" => {}
            checked => checked?,
        }
    }
    Ok(())
}

fn queue_members(client: &mut Client, step: &Step, seen: &[u32]) {
    for element in seen {
        let key = match step.action {
            Action::ViewTopResources => format!("resource:{element}"),
            Action::ViewComments => format!("comment:{}:{element}", step.rid),
            _ => format!("member:{element}"),
        };
        client.queue(&["HGETALL", &key]);
    }
}

/// List and members at one moment, and told to the server as the levels of a transaction of a known type.
async fn in_transaction(client: &mut Client, step: &Step, list: &str, range: &str) -> Result<Vec<u32>, Failure> {
    client.queue(&["TXN", "BEGIN", "READONLY", "TYPE", step.action.name()]);
    client.queue(&["LRANGE", list, range, "-1"]);
    let seen = match replies(client).await.and_then(|replies| numbers(replies.last().unwrap_or(&Reply::Nil))) {
        Ok(seen) => seen,
        Err(failure) => return Err(abort(client, failure).await),
    };
    queue_members(client, step, &seen);
    client.queue(&["TXN", "COMMIT"]);
    match replies(client).await {
        Ok(replies) => {
            replies[..seen.len()].iter().try_for_each(hash)?;
            Ok(seen)
        }
        Err(failure) => Err(abort(client, failure).await),
    }
}

/// Leaves a transaction in which something failed. That it is over already is no news.
async fn abort(client: &mut Client, failure: Failure) -> Failure {
    match failure.lost || client.call(&["TXN", "ABORT"]).await.is_ok() {
        true => failure,
        false => Failure { lost: true, ..failure },
    }
}

/// One action that writes; whether the replies are those of a write that changed something.
pub(super) async fn write(client: &mut Client, data: &Data, write: &Write) -> Result<bool, Failure> {
    let mut commands = Vec::new();
    if let Write::Post { author, rid, mid } = *write {
        let fields = data.comment(rid, mid, author).into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        commands.push(command(["HSET", &format!("comment:{rid}:{mid}")]).into_iter().chain(fields).collect());
    }
    let lists = commands.len();
    for (object, element, added) in write.effects() {
        let (key, element) = (key(object), element.to_string());
        commands.push(match added {
            true => command(["RPUSH", &key, &element]),
            false => command(["LREM", &key, "0", &element]),
        });
    }
    let upto = commands.len();
    if let Write::Delete { rid, mid, .. } = *write {
        commands.push(command(["DEL", &format!("comment:{rid}:{mid}")]));
    }
    let replies = match &commands[..] {
        [alone] => vec![client.demand(alone).await?],
        all => exec(client, all).await?,
    };
    let effects = replies[lists..upto].iter().zip(write.effects());
    // A server that does not know the list tells nothing of it.
    Ok(effects.into_iter().all(|(reply, (_, _, added))| added || reply.is_nil() || reply.number() == Some(1)))
}

/// Lists as they are, a command for each, all in one round trip.
pub(super) async fn lists(client: &mut Client, objects: &[Object]) -> Result<Vec<Vec<u32>>, Failure> {
    objects.iter().for_each(|object| client.queue(&["LRANGE", &key(*object), "0", "-1"]));
    replies(client).await?.iter().map(numbers).collect()
}

/// Commands that load a member with what it has made, as one transaction.
pub(super) fn load(data: &Data, member: u32, elements: &dyn Fn(Object) -> Vec<u32>) -> Vec<Vec<String>> {
    let scale = data.scale();
    let mut commands = Vec::new();
    let hash = |key: String, fields: Vec<(&'static str, String)>| -> Vec<String> {
        let fields = fields.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        ["HSET".to_owned(), key].into_iter().chain(fields).collect()
    };
    let mut list = |key: String, elements: &[u32]| {
        commands.push(command(["DEL", &key]));
        if !elements.is_empty() {
            let elements = elements.iter().map(u32::to_string);
            commands.push(["RPUSH".to_owned(), key].into_iter().chain(elements).collect());
        }
    };
    for kind in [Kind::Friends, Kind::Pending] {
        let object = Object { kind, id: member };
        list(key(object), &elements(object));
    }
    list(format!("wall:{member}"), data.wall(member));
    let resources = member * scale.resources..(member + 1) * scale.resources;
    for rid in resources.clone() {
        let object = Object { kind: Kind::Comments, id: rid };
        list(key(object), &elements(object));
    }
    commands.push(hash(format!("member:{member}"), data.profile(member)));
    for rid in resources {
        commands.push(hash(format!("resource:{rid}"), data.resource(rid)));
        for mid in 0..scale.comments {
            let author = data.author_of(rid, mid);
            commands.push(hash(format!("comment:{rid}:{mid}"), data.comment(rid, mid, author)));
        }
    }
    commands
}
