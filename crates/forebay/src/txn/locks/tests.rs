//! Modes, queues, upgrades, cycles, and how much work a queue of thousands makes.

use super::*;

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn table() -> Arc<Locks> {
    Arc::new(Locks::default())
}

/// Asks as a transaction does that holds `held`.
fn ask(locks: &Arc<Locks>, owner: Owner, name: &str, mode: Mode, held: &[Key]) -> Acquired {
    locks.acquire(Request { owner, key: &key(name), mode, held, number: None })
}

fn granted(acquired: Acquired) -> bool {
    matches!(acquired, Acquired::Granted)
}

fn waits(acquired: Acquired) -> KeyWait {
    match acquired {
        Acquired::Wait(wait) => wait,
        Acquired::Granted => panic!("granted"),
        Acquired::Refused(refused) => panic!("{refused:?}"),
    }
}

#[test]
fn readers_share_and_a_writer_waits_its_turn() {
    let locks = table();
    assert!(granted(ask(&locks, 1, "a", Mode::Shared, &[])));
    assert!(granted(ask(&locks, 2, "a", Mode::Shared, &[])));
    let mut writer = waits(ask(&locks, 3, "a", Mode::Exclusive, &[]));
    let mut reader = waits(ask(&locks, 4, "a", Mode::Shared, &[]));
    locks.release(1, &[key("a")]);
    assert_eq!(writer.woken.try_recv(), Ok(None));
    locks.release(2, &[key("a")]);
    assert_eq!(writer.woken.try_recv(), Ok(Some(())));
    assert_eq!(reader.woken.try_recv(), Ok(None));
    locks.validate();
    locks.release(3, &[key("a")]);
    assert_eq!(reader.woken.try_recv(), Ok(Some(())));
    locks.release(4, &[key("a")]);
    assert!(locks.keys() == 0);
}

#[test]
fn an_update_lets_readers_go_on_until_it_becomes_exclusive() {
    let locks = table();
    assert!(granted(ask(&locks, 1, "a", Mode::Update, &[])));
    assert!(granted(ask(&locks, 2, "a", Mode::Shared, &[])));
    let mut upgrade = waits(ask(&locks, 1, "a", Mode::Exclusive, &[]));
    let mut late = waits(ask(&locks, 3, "a", Mode::Shared, &[]));
    locks.release(2, &[key("a")]);
    assert_eq!(upgrade.woken.try_recv(), Ok(Some(())));
    assert_eq!(late.woken.try_recv(), Ok(None));
    locks.release(1, &[key("a")]);
    assert_eq!(late.woken.try_recv(), Ok(Some(())));
}

#[test]
fn of_two_upgraders_the_later_fails_at_once() {
    let locks = table();
    for owner in [1, 2] {
        assert!(granted(ask(&locks, owner, "a", Mode::Shared, &[])));
    }
    assert!(granted(ask(&locks, 1, "a", Mode::Update, &[])));
    let second = ask(&locks, 2, "a", Mode::Update, &[]);
    assert!(matches!(second, Acquired::Refused(Refused::Upgrade)));
}

#[test]
fn a_cycle_is_found_when_it_closes() {
    let locks = table();
    for (owner, name) in [(1, "a"), (2, "b"), (3, "c")] {
        assert!(granted(ask(&locks, owner, name, Mode::Exclusive, &[])));
    }
    let first = waits(ask(&locks, 1, "b", Mode::Shared, &[key("a")]));
    let second = waits(ask(&locks, 2, "c", Mode::Exclusive, &[key("b")]));
    let third = ask(&locks, 3, "a", Mode::Shared, &[key("c")]);
    assert!(matches!(third, Acquired::Refused(Refused::Deadlock)));
    locks.validate();
    assert_eq!(locks.waits.len(), 2, "who was refused does not wait");
    drop((first, second));
    locks.release(3, &[key("c")]);
    locks.release(2, &[key("b")]);
    locks.release(1, &[key("a")]);
    assert_eq!((locks.keys(), locks.waits.len()), (0, 0));
}

/// The one that holds the key lets readers in, and waits for one of them by way of those who stand in the queue.
#[test]
fn a_cycle_through_those_who_stand_ahead_is_found() {
    let locks = table();
    assert!(granted(ask(&locks, 1, "a", Mode::Update, &[])));
    assert!(granted(ask(&locks, 2, "a", Mode::Shared, &[])));
    assert!(granted(ask(&locks, 3, "b", Mode::Exclusive, &[])));
    // Who waits to write waits for the reader too, and so does the reader behind it.
    let _writer = waits(ask(&locks, 4, "a", Mode::Exclusive, &[]));
    let _behind = waits(ask(&locks, 3, "a", Mode::Shared, &[key("b")]));
    let closing = ask(&locks, 2, "b", Mode::Shared, &[key("a")]);
    assert!(matches!(closing, Acquired::Refused(Refused::Deadlock)));
    locks.validate();
}

/// A request that is run again stands where it stood, ahead of others: that, too, may close a cycle.
#[test]
fn a_place_that_was_kept_is_searched_from() {
    let locks = table();
    assert!(granted(ask(&locks, 1, "a", Mode::Update, &[])));
    let again = waits(ask(&locks, 2, "a", Mode::Exclusive, &[]));
    let number = again.number();
    drop(again);
    assert!(granted(ask(&locks, 3, "a", Mode::Shared, &[])));
    assert!(granted(ask(&locks, 4, "b", Mode::Exclusive, &[])));
    let _behind = waits(ask(&locks, 4, "a", Mode::Update, &[key("b")]));
    let _reader = waits(ask(&locks, 3, "b", Mode::Shared, &[key("a")]));
    let kept = Request { owner: 2, key: &key("a"), mode: Mode::Exclusive, held: &[], number: Some(number) };
    assert!(matches!(locks.acquire(kept), Acquired::Refused(Refused::Deadlock)));
    // Without the reader it goes first, as it did before.
    locks.release(3, &[key("a")]);
    let mut kept = waits(locks.acquire(kept));
    locks.release(1, &[key("a")]);
    assert_eq!(kept.woken.try_recv(), Ok(Some(())));
    locks.validate();
}

/// Waiters on one key, each of which holds a key of its own if `each_holds`: the steps of all searches.
fn steps_of_a_queue(count: u64, each_holds: bool) -> u64 {
    let locks = table();
    assert!(granted(ask(&locks, 0, "hot", Mode::Exclusive, &[])));
    let mut queue = Vec::new();
    for owner in 1..=count {
        let own = [key(&owner.to_string())];
        if each_holds {
            assert!(granted(ask(&locks, owner, &owner.to_string(), Mode::Exclusive, &[])));
        }
        queue.push(waits(ask(&locks, owner, "hot", Mode::Exclusive, if each_holds { &own } else { &[] })));
    }
    // Others are served; those who hold nothing that is wanted are not searched from.
    assert!(granted(ask(&locks, count + 1, "cold", Mode::Exclusive, &[])));
    for (owner, wait) in queue.iter_mut().enumerate() {
        locks.release(owner as u64, &[key("hot")]);
        assert_eq!(wait.woken.try_recv(), Ok(Some(())), "in order");
    }
    locks.steps.load(Ordering::Relaxed)
}

#[test]
fn a_queue_of_thousands_is_not_searched() {
    assert_eq!(steps_of_a_queue(3000, false), 0);
    assert_eq!(steps_of_a_queue(3000, true), 0);
}

#[test]
fn a_search_looks_at_each_waiter_once() {
    let (locks, count) = (table(), 1000);
    assert!(granted(ask(&locks, 0, "hot", Mode::Exclusive, &[])));
    let mut waiting = Vec::new();
    for owner in 1..=count {
        let own = key(&owner.to_string());
        assert!(granted(ask(&locks, owner, &owner.to_string(), Mode::Exclusive, &[])));
        waiting.push(waits(ask(&locks, owner, "hot", Mode::Shared, &[own])));
    }
    // All of them are in the way of this one, which holds a key that is wanted.
    assert!(granted(ask(&locks, count + 1, "last", Mode::Exclusive, &[])));
    waiting.push(waits(ask(&locks, count + 2, "last", Mode::Exclusive, &[])));
    let before = locks.steps.load(Ordering::Relaxed);
    waiting.push(waits(ask(&locks, count + 1, "500", Mode::Exclusive, &[key("last")])));
    let steps = locks.steps.load(Ordering::Relaxed) - before;
    assert!((1..=2 * count + 10).contains(&steps), "{steps} steps");
    locks.validate();
}

/// Thousands hold a key, and one after the other gives it up.
#[test]
fn a_key_with_thousands_of_readers() {
    let (locks, count) = (table(), 3000);
    for owner in 1..=count {
        assert!(granted(ask(&locks, owner, "a", Mode::Shared, &[])));
    }
    let mut writer = waits(ask(&locks, count + 1, "a", Mode::Exclusive, &[]));
    assert_eq!(writer.blockers().len() as u64, count);
    for owner in 1..=count {
        assert_eq!(writer.woken.try_recv(), Ok(None));
        locks.release(owner, &[key("a")]);
    }
    assert_eq!(writer.woken.try_recv(), Ok(Some(())));
    assert_eq!(writer.standing(), Standing::Granted);
}

#[test]
fn a_queue_that_moves_is_seen_to_move() {
    let locks = table();
    assert!(granted(ask(&locks, 1, "a", Mode::Exclusive, &[])));
    let _second = waits(ask(&locks, 2, "a", Mode::Exclusive, &[]));
    let third = waits(ask(&locks, 3, "a", Mode::Exclusive, &[]));
    let before = third.standing();
    let fourth = waits(ask(&locks, 4, "a", Mode::Exclusive, &[]));
    assert_eq!(third.standing(), before, "who comes behind moves nothing");
    drop(fourth);
    assert_eq!(third.standing(), before, "nor who goes there");
    locks.release(1, &[key("a")]);
    assert_ne!(third.standing(), before);
}

#[test]
fn a_burst_leaves_no_memory_behind() {
    let locks = table();
    let keys: Vec<Key> = (0..20_000).map(|n| key(&format!("key{n}"))).collect();
    let capacity = || locks.shards.iter().map(|shard| shard.lock().keys.capacity()).sum::<usize>();
    for key in &keys {
        assert!(granted(locks.acquire(Request { owner: 1, key, mode: Mode::Shared, held: &[], number: None })));
    }
    assert!(capacity() >= keys.len());
    locks.release(1, &keys);
    assert!(locks.keys() == 0 && capacity() <= SHARDS * 2 * SHRINK_KEYS_MIN, "room for {}", capacity());
}

/// The space is free for a clearing.
fn is_alone(alone: &Alone<'_>) -> bool {
    alone.waits.is_empty()
}

#[test]
fn a_space_is_cleared_alone() {
    let locks = table();
    for owner in [1, 2] {
        assert!(locks.acquire_space(owner, 0).is_none());
    }
    let mut clearing = locks.acquire_alone(0);
    let mut late = locks.acquire_space(1 + SHARDS as u64, 0).expect("the clearing is ahead");
    let other = locks.acquire_space(3, 0).expect("in all shards");
    let wanted = [Wanted { key: KeyRef { space: 0, name: b"a" }, load: false }];
    assert!(locks.elide(&wanted).is_none(), "the clearing comes first");
    locks.release_space(1, 0);
    assert_eq!(late.woken.try_recv(), Ok(None));
    assert!(futures_util::FutureExt::now_or_never(clearing.granted()).is_none());
    locks.release_space(2, 0);
    assert!(futures_util::FutureExt::now_or_never(clearing.granted()).is_some() && is_alone(&clearing));
    drop(clearing);
    assert!(locks.acquire_space(1, 0).is_none(), "the way is free");
    locks.release_space(1, 0);
    drop((late, other));
    assert!(locks.elide(&wanted).is_some());
    assert!(is_alone(&locks.acquire_alone(0)), "who has not heard of its space has given it up");
}

#[test]
fn two_clearings_do_not_wait_for_each_other() {
    let locks = table();
    assert!(locks.acquire_space(5, 0).is_none());
    let (mut first, mut second) = (locks.acquire_alone(0), locks.acquire_alone(0));
    locks.release_space(5, 0);
    assert!(futures_util::FutureExt::now_or_never(second.granted()).is_none());
    assert!(futures_util::FutureExt::now_or_never(first.granted()).is_some());
    drop(first);
    assert!(futures_util::FutureExt::now_or_never(second.granted()).is_some());
}

#[test]
fn who_gives_up_waiting_for_a_space_holds_nothing() {
    let locks = table();
    assert!(locks.acquire_space(1, 0).is_none());
    let clearing = locks.acquire_alone(0);
    let mut late = locks.acquire_space(1, 0).expect("the clearing is ahead");
    drop(clearing);
    assert_eq!(late.woken.try_recv(), Ok(Some(())), "the way is free");
}

#[test]
fn elision_takes_several_shards() {
    let locks = table();
    let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let wanted: Vec<Wanted<'_>> =
        names.iter().map(|name| Wanted { key: KeyRef { space: 0, name: name.as_bytes() }, load: false }).collect();
    let mut elided = locks.elide(&wanted).expect("nobody else is there");
    elided.half_done = true;
    drop(elided);
    assert_eq!(locks.keys(), names.len(), "what is half done stays locked");
    assert!(locks.elide(&wanted[3..4]).is_none());
}
