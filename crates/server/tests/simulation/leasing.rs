//! A cache in the application, over the wire. Two counters that always grow together are equal wherever versions say
//! that they were there at one moment, with or without a message.

use std::collections::BTreeMap;

use forebay::Version;
use forebay_protocol::Reply;

use crate::book::{Book, broken, expect};
use crate::client::{Client, PAIR, shown};
use crate::connection::{Request, request};

/// A counter that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: i64,
    version: Version,
    present: bool,
    as_of: Option<Version>,
}

impl Kept {
    /// Its version, as a request names it.
    fn named(&self) -> String {
        let absent = if self.present { "" } else { "-" };
        format!("{absent}{}", self.version)
    }
}

/// What one client keeps.
#[derive(Debug, Default)]
pub struct Copies(BTreeMap<String, Kept>);

impl Copies {
    /// The request for those of `names` that are missing; `whole`, it names the versions of the others as well.
    pub fn fetch(&self, names: &[&str], whole: bool) -> Option<Request> {
        let (kept, missing): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| self.0.contains_key(**name));
        if missing.is_empty() && !whole {
            return None;
        }
        if kept.is_empty() || !whole {
            return Some(request(&format!("LEASE GET {} {}", missing.len(), missing.join(" "))));
        }
        let have: Vec<String> = kept.iter().filter_map(|name| self.0.get(*name)).map(Kept::named).collect();
        let all = [kept, missing].concat();
        Some(request(&format!("LEASE GET {} {} HAVE {}", all.len(), all.join(" "), have.join(" "))))
    }

    /// Takes in its answer.
    pub fn take(&mut self, asked: &Request, reply: &Reply) {
        let Reply::Array(entries) = reply else { return };
        let count = asked[2].parse().unwrap_or(0);
        expect(entries.len() == count, "errors", || format!("{asked:?} got {reply:?}"));
        for (name, entry) in asked[3..].iter().zip(entries) {
            let Reply::Array(entry) = entry else { broken("errors", format!("{asked:?} got {reply:?}")) };
            let [kind, document, version, as_of, _, _] = entry.as_slice() else {
                broken("errors", format!("{asked:?} got {reply:?}"))
            };
            let text = text(version).unwrap_or_default();
            let (text, present) = text.strip_prefix('-').map_or((text.as_str(), true), |text| (text, false));
            if *kind == Reply::Simple("same".into()) {
                let is_same = |kept: &&mut Kept| Ok(kept.version) == text.parse() && kept.present == present;
                let kept = self.0.get_mut(name).filter(is_same);
                match kept {
                    Some(kept) => kept.as_of = parsed(as_of),
                    None => broken("errors", format!("{asked:?} got {reply:?}")),
                }
                continue;
            }
            let there = *kind == Reply::Simple("string".into());
            expect(there == present, "errors", || format!("{asked:?} got {reply:?}"));
            let kept = Kept {
                number: shown(document).unwrap_or_default(),
                version: text.parse().unwrap_or_else(|error: String| broken("errors", error)),
                present,
                as_of: parsed(as_of),
            };
            self.0.insert(name.clone(), kept);
        }
    }

    /// The numbers of `names`, if they were there at one moment by what their versions say.
    pub fn alone(&self, names: &[&str]) -> Option<Vec<i64>> {
        let kept: Vec<&Kept> = names.iter().map(|name| self.0.get(*name)).collect::<Option<_>>()?;
        let as_of: Vec<Version> = kept.iter().map(|kept| kept.as_of).collect::<Option<_>>()?;
        let (least, most) = (as_of.iter().min()?, as_of.iter().max()?);
        let newest = kept.iter().map(|kept| kept.version).max()?;
        (newest <= *least && least.incarnation == most.incarnation)
            .then(|| kept.iter().map(|kept| kept.number).collect())
    }

    /// The numbers of `names`, as they are kept.
    pub fn numbers(&self, names: &[&str]) -> Option<Vec<i64>> {
        names.iter().map(|name| self.0.get(*name).map(|kept| kept.number)).collect()
    }

    /// The request that has them compared.
    pub fn check(&self, names: &[&str]) -> Request {
        let mut check = "LEASE CHECK".to_owned();
        for name in names {
            let Some(kept) = self.0.get(*name) else { continue };
            check.push_str(&format!(" {name} {}", kept.named()));
        }
        request(&check)
    }

    /// They were current as of that.
    pub fn renew(&mut self, names: &[&str], as_of: &Reply) {
        let as_of = parsed(as_of);
        self.0.iter_mut().filter(|(name, _)| names.contains(&name.as_str())).for_each(|(_, kept)| kept.as_of = as_of);
    }

    /// Gives up what `error` names as stale.
    pub fn stale(&mut self, error: &[u8], book: &Book) {
        let text = String::from_utf8_lossy(error).into_owned();
        let words: Vec<&str> = text.split(' ').skip(1).collect();
        expect(!words.is_empty() && words.len().is_multiple_of(2), "stale keys are named", || text.clone());
        for pair in words.chunks(2) {
            let kept = self.0.remove(pair[0]);
            let now = pair[1].strip_prefix('-').unwrap_or(pair[1]).parse::<Version>();
            let changed = matches!((&kept, &now), (Some(kept), Ok(now))
                if *now != kept.version || pair[1].starts_with('-') == kept.present);
            expect(changed, "stale keys have changed", || format!("{text}: {kept:?} was kept"));
        }
        book.pages().marks.stale += 1;
    }

    /// Forgets `names`.
    pub fn forget(&mut self, names: &[&str]) {
        self.0.retain(|name, _| !names.contains(&name.as_str()));
    }
}

/// Reads the pair from what a client keeps; what is missing it fetches, one after the other.
pub async fn leased(client: &mut Client) {
    for name in PAIR {
        if client.chance(3) {
            client.copies.forget(&[name]);
        }
        let Some(asked) = client.copies.fetch(&[name], false) else { continue };
        if !ask(client, &asked).await {
            return;
        }
        if client.chance(3) {
            client.pause(1000).await;
        }
    }
    if client.chance(3)
        && let Some(asked) = client.copies.fetch(&PAIR, true)
        && !ask(client, &asked).await
    {
        return;
    }
    match client.copies.alone(&PAIR) {
        Some(numbers) if !client.chance(4) => {
            client.book.pages().marks.alone += 1;
            expect(numbers[0] == numbers[1], "strict serializability", || format!("half of a commit: {numbers:?}"));
        }
        _ => validate(client).await,
    }
}

/// Asks for documents, and keeps them; whether it was answered.
async fn ask(client: &mut Client, asked: &Request) -> bool {
    let reply = client.ask(std::slice::from_ref(asked)).await.remove(0);
    if !reply.is_error() {
        client.copies.take(asked, &reply);
    }
    !reply.is_error()
}

/// Has what a client keeps of the pair compared, and now and then commits on top of it.
async fn validate(client: &mut Client) {
    let Some(numbers) = client.copies.numbers(&PAIR) else { return };
    let writes: &[&str] = if client.chance(3) { &PAIR } else { &[] };
    client.risk(writes);
    let mut requests = vec![client.copies.check(&PAIR), request("MULTI")];
    requests.extend(writes.iter().map(|name| request(&format!("INCR {name}"))));
    requests.push(request("EXEC"));
    let reply = client.connection.ask(&requests).await.pop().unwrap_or(Reply::Nil);
    let runtime = client.shared.engine.runtime().clone();
    client.book.note(&runtime, &format!("{} {requests:?} {reply:?}", client.name));
    client.resolve(writes, &reply);
    match &reply {
        Reply::Array(told) => match told.as_slice() {
            [Reply::Array(replies), version, as_of] if replies.len() == writes.len() => {
                let wrote = !matches!(version, Reply::Nil | Reply::NilArray);
                expect(wrote != writes.is_empty(), "outcomes", || format!("{requests:?} got {reply:?}"));
                expect(numbers[0] == numbers[1], "validation", || format!("half of a commit: {numbers:?}"));
                if wrote {
                    client.told(writes, replies);
                    expect(shown(&replies[0]) == Some(numbers[0] + 1), "validation", || {
                        format!("{numbers:?} {replies:?}")
                    });
                    client.copies.forget(writes);
                }
                client.copies.renew(&PAIR, as_of);
            }
            _ => broken("errors", format!("{requests:?} got {reply:?}")),
        },
        Reply::Error(text) if text.starts_with(b"TXSTALE ") => client.copies.stale(text, &client.book),
        error => client.judge(&request("EXEC"), error, &BTreeMap::new(), &mut BTreeMap::new()),
    }
}

fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn parsed(reply: &Reply) -> Option<Version> {
    text(reply)?.parse().ok()
}
