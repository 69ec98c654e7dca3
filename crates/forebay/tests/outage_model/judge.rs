//! What must hold: always, for every reader, and when nothing can happen any more.

use forebay::Value;
use forebay::outage::{Mode, Standing};

use crate::book::Told;
use crate::clients::{counts, key_of};
use crate::world::{OUTSIDE, POISON, World};

/// A way in which the core breaks its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An acknowledged write is not in the database, and nothing will bring it there.
    Lost,
    /// A write was applied more than once.
    Twice,
    /// A buffered write that nobody applies.
    Orphan,
    /// A write is behind one that began after it was acknowledged.
    Order,
    /// A write that failed is there.
    Undead,
    /// Of a transaction over both documents one half is there.
    Torn,
    /// A reader misses an acknowledged write, or sees one twice or one that failed.
    Misread,
    /// What is buffered can't be read.
    Unreadable,
    /// A transaction was applied although what it had read was not so any more.
    Overtaken,
    /// What another program wrote is gone.
    Outside,
    /// What nothing is wrong with was set aside.
    Aside,
    /// What is buffered went to a database that was restored from a backup.
    Restored,
    /// A client waits for an answer that never comes.
    Unanswered,
    /// The core stopped with a panic.
    Panic,
}

/// What is wrong in `world`, each kind once. Looks as a reader does, so nothing may happen in it afterwards.
pub fn judge(world: &World, terminal: bool) -> Vec<Kind> {
    let mut found = Vec::new();
    if world.broken.is_some() {
        found.push(Kind::Restored);
    }
    stored(world, terminal, &mut found);
    aside(world, &mut found);
    read(world, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

fn times(shown: &[String], name: &str) -> usize {
    shown.iter().filter(|one| *one == name).count()
}

fn stored(world: &World, terminal: bool, found: &mut Vec<Kind>) {
    let shown = [0, 1].map(|document| counts(world.database.read(&key_of(document)).value.as_ref()));
    let book = world.book();
    for (at, client) in world.setup.clients.iter().enumerate() {
        let told = book.told[at];
        if terminal && told == Told::AtWork {
            found.push(Kind::Unanswered);
        }
        let there: Vec<usize> = client.documents().map(|document| times(&shown[document], client.name)).collect();
        if there.iter().any(|times| *times > 1) {
            found.push(Kind::Twice);
        }
        if there.iter().any(|times| *times != there[0]) {
            found.push(Kind::Torn);
        }
        if matches!(told, Told::Failed | Told::Waits | Told::GivenUp) && there[0] > 0 {
            found.push(Kind::Undead);
        }
        if terminal && told == Told::Acknowledged && there[0] == 0 {
            let waits = book.tickets[at].is_some_and(|number| pending(world, number));
            found.push(if waits { Kind::Orphan } else { Kind::Lost });
        }
        if let (true, false, Some(read), Some(id)) = (client.reads_b, client.b, &book.read_b[at], book.ids[at])
            && world.database.hash_at(id).is_some_and(|then| counts(then.as_ref()) != counts(read.as_ref()))
        {
            found.push(Kind::Overtaken);
        }
        let place = |name: &str| shown[0].iter().position(|one| one == name);
        for (other, before) in world.setup.clients.iter().enumerate() {
            let behind = book.before[at] & 1 << other != 0 && client.a && before.a;
            if behind && place(client.name).is_some() && place(before.name) > place(client.name) {
                found.push(Kind::Order);
            }
        }
    }
    drop(book);
    if world.written_outside() && times(&shown[1], OUTSIDE) != 1 {
        found.push(Kind::Outside);
    }
    let amount = world.gate.as_ref().map(|gate| gate.state().amount).unwrap_or_default();
    if terminal && amount.transactions > 0 {
        found.push(Kind::Orphan);
    }
}

fn pending(world: &World, number: u64) -> bool {
    world.gate.as_ref().is_some_and(|gate| gate.with_buffer(|buffer| buffer.standing(number).is_some()))
}

/// Only what the database has reason to refuse is set aside.
fn aside(world: &World, found: &mut Vec<Kind>) {
    let Some(gate) = &world.gate else { return };
    let reason = |number: &u64| {
        let name = |at: usize| world.setup.clients[at].name;
        let book = world.book();
        let whose = book.tickets.iter().position(|ticket| *ticket == Some(*number));
        let poison = whose.is_none_or(|at| name(at) == POISON);
        // Behind what was given up, what may have landed is not known any more; what others changed is read again.
        poison || world.given_up() || world.written_outside()
    };
    let list = gate.with_buffer(|buffer| buffer.quarantine_list());
    if !list.iter().all(|(number, _)| reason(number)) {
        found.push(Kind::Aside);
    }
}

/// A reader finds each acknowledged write once, by the cache and past it.
fn read(world: &World, found: &mut Vec<Kind>) {
    // What was written unseen follows from the database alone, which has to be there then.
    let answers = world.database.is_up() && world.gate.as_ref().is_some_and(|gate| gate.state().mode != Mode::Failed);
    let blind = world.setup.clients.iter().any(|client| client.blind) && !answers;
    for document in [0, 1] {
        let cached = world.book().cached[document].clone();
        let pending = world.gate.as_ref().is_some_and(|gate| {
            let waits = |number: &u64| {
                gate.with_buffer(|b| matches!(b.standing(*number), Some(Standing::Waiting | Standing::Quarantined(_))))
            };
            gate.with_buffer(|buffer| buffer.numbers(Some(&key_of(document)), 0, 9)).iter().any(waits)
        });
        match world.look(document) {
            None => continue,
            Some(Ok(read)) => {
                shows(world, document, read.value.as_ref(), found);
                if let Some(cached) = cached.filter(|_| !world.written_outside()) {
                    shows(world, document, cached.value.as_ref(), found);
                }
            }
            Some(Err(_)) if pending && !world.given_up() && !blind => found.push(Kind::Unreadable),
            Some(Err(_)) => {}
        }
    }
}

fn shows(world: &World, document: usize, value: Option<&Value>, found: &mut Vec<Kind>) {
    let shown = counts(value);
    let book = world.book();
    for (told, client) in book.told.iter().zip(world.setup.clients) {
        if !client.documents().any(|written| written == document) {
            continue;
        }
        let right = match (told, times(&shown, client.name)) {
            (Told::Acknowledged, times) => times == 1,
            (Told::Failed | Told::Waits | Told::GivenUp, times) => times == 0,
            (_, times) => times <= 1,
        };
        if !right {
            found.push(Kind::Misread);
        }
    }
}
