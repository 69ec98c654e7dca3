//! Copies, their leases, and which of them stay.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A copy of an empty string, asked for at `asked`.
pub fn copy(version: Version, as_of: Option<Version>, asked: Instant) -> Copy {
    let (value, used) = (Some(Value::bytes(*b"")), Mutex::default());
    let (present, expires, writes, until) = (true, None, 0.0, asked + MS);
    Copy { value, version, present, as_of, asked, expires, learned: asked, until, writes, used }
}

struct World {
    copies: Copies,
    began: Instant,
}

fn world(leases: Leases) -> World {
    let copies = Copies::new(&Options::new("").cache_bytes(1 << 20).leases(leases), Arc::default()).unwrap();
    World { copies, began: Instant::now() }
}

fn version(sequence: u64) -> Version {
    Version { incarnation: 1, sequence }
}

fn told(text: &str, sequence: u64, as_of: u64) -> Told {
    let value = (!text.is_empty()).then(|| Value::bytes(text.as_bytes()));
    Told { value, version: version(sequence), as_of: Some(version(as_of)), writes: 0.0, fresh: None, is_same: false }
}

fn key() -> Key {
    Key::new(0, b"k")
}

impl World {
    fn span(&self, asked: u32, learned: u32) -> Span {
        Span { asked: self.began + asked * MS, learned: self.began + learned * MS }
    }

    fn take(&self, told: Told, asked: u32, learned: u32) {
        self.copies.heard(self.began + asked * MS, told.as_of);
        self.copies.take(&key(), told, self.span(asked, learned));
    }

    fn seen(&self, at: u32) -> Option<(Option<Value>, u64)> {
        let wanted = Wanted { now: self.began + at * MS, since: None };
        self.copies.get(&key(), wanted).map(|copy| (copy.value.clone(), copy.version.sequence))
    }
}

fn text(text: &str, sequence: u64) -> Option<(Option<Value>, u64)> {
    Some((Some(Value::bytes(text.as_bytes())), sequence))
}

#[test]
pub fn a_lease_counts_from_before_the_request() {
    let world = world(Leases::Fixed(0.2));
    world.take(told("a", 1, 1), 0, 150);
    assert_eq!(world.seen(99), text("a", 1));
    assert_eq!(world.seen(201), None, "from the answer on it would be 250 to 350 ms");
}

#[test]
pub fn a_document_with_an_expiry_ends_with_it() {
    let world = world(Leases::Endless);
    world.take(Told { fresh: Some(50 * MS), ..told("a", 1, 1) }, 10, 20);
    assert_eq!((world.seen(59), world.seen(60)), (text("a", 1), None));
}

#[test]
pub fn a_late_answer_replaces_nothing_newer() {
    let world = world(Leases::Endless);
    world.take(told("b", 2, 2), 10, 20);
    world.take(told("a", 1, 1), 5, 30);
    assert_eq!(world.seen(40), text("b", 2));
    // An absence at its version is later than the document: it has expired.
    world.take(told("", 2, 2), 11, 41);
    world.take(told("b", 2, 2), 12, 42);
    assert_eq!(world.seen(43), Some((None, 2)));
    // What was asked for later is what there is now, even if versions fell: a database was restored.
    world.take(told("c", 1, 1), 50, 60);
    assert_eq!(world.seen(61), text("c", 1));
}

#[test]
pub fn a_stale_copy_leaves_a_note() {
    let world = world(Leases::Endless);
    world.take(told("a", 1, 1), 0, 1);
    world.copies.stale(&key(), version(3), true, world.began + 10 * MS);
    assert_eq!(world.seen(11), None);
    world.take(told("b", 2, 2), 5, 12);
    assert_eq!(world.seen(13), None, "an older answer came late");
    world.take(told("c", 3, 3), 5, 14);
    assert_eq!(world.seen(15), text("c", 3));
}

#[test]
pub fn a_check_begins_the_lease_again() {
    let world = world(Leases::Fixed(0.2));
    world.take(told("a", 1, 1), 0, 1);
    let copy = world.copies.get(&key(), Wanted { now: world.began, since: None }).unwrap();
    world.copies.renew(&key(), &copy, Some(version(7)), world.span(150, 160));
    let renewed = world.copies.get(&key(), Wanted { now: world.began + 240 * MS, since: None }).unwrap();
    assert_eq!((renewed.as_of, renewed.version), (Some(version(7)), version(1)));
    // Of a copy that is no longer kept nothing is renewed.
    world.take(told("b", 9, 9), 250, 251);
    world.copies.renew(&key(), &copy, Some(version(10)), world.span(252, 253));
    assert_eq!(world.seen(254), text("b", 9));
    world.copies.stale(&key(), version(11), true, world.began + 255 * MS);
    world.copies.renew(&key(), &renewed, Some(version(12)), world.span(256, 257));
    assert_eq!(world.seen(258), None);
}

#[test]
pub fn leases_end_with_the_incarnation() {
    let world = world(Leases::Endless);
    world.take(told("a", 1, 1), 0, 1);
    let next = Version { incarnation: 2, sequence: 1 };
    world.copies.heard(world.began + 10 * MS, Some(next));
    assert_eq!(world.seen(11), None);
    // An answer of the former life comes late.
    world.copies.heard(world.began + 5 * MS, Some(version(2)));
    assert!(world.copies.is_present(next));
    world.copies.heard(world.began + 12 * MS, None);
    assert!(!world.copies.is_present(next), "the server tells none");
}

#[test]
pub fn what_is_too_old_is_not_used() {
    let world = world(Leases::Endless);
    world.take(told("a", 1, 1), 10, 20);
    let at = |since: u32| Wanted { now: world.began + 30 * MS, since: Some(world.began + since * MS) };
    assert!(world.copies.get(&key(), at(10)).is_some() && world.copies.get(&key(), at(11)).is_none());
    assert_eq!(world.copies.take_hits(&key()), 1);
    assert_eq!(world.copies.take_hits(&key()), 0);
}

#[test]
pub fn what_is_not_worth_a_lease_is_counted_without_its_document() {
    let world = world(Leases::None);
    world.take(told(&"a".repeat(1000), 1, 1), 0, 1);
    assert_eq!(world.seen(0), None);
    assert!(world.copies.bytes() < 1000);
}

/// One percent of 500 documents: those that are read most, and few others.
#[test]
fn the_popular_alone_are_kept() {
    let options = Options::new("").cache_bytes(2 << 20).leases(Leases::Endless).popular(0.01);
    let world = World { copies: Copies::new(&options, Arc::default()).unwrap(), began: Instant::now() };
    world.copies.heard(world.began, Some(version(1)));
    let key = |number: u32| Key::new(0, &number.to_be_bytes());
    let is_found = |number: u32, at: u32| {
        world.copies.get(&key(number), Wanted { now: world.began + at * MS, since: None }).is_some()
    };
    for round in 0..30 {
        (0..500).for_each(|number| _ = is_found(number, 600 * round + number));
        (0..5).for_each(|number| (0..10).for_each(|_| _ = is_found(number, 600 * round + 500)));
    }
    for number in 0..500 {
        world.copies.take(&key(number), told("a", 1, 1), world.span(18_000, 18_001));
    }
    let kept = (0..500).filter(|number| is_found(*number, 18_002)).collect::<Vec<_>>();
    assert!((0..5).all(|number| kept.contains(&number)) && kept.len() < 20, "{kept:?}");
}

/// A copy that was given up is fetched again. The reads that were counted without a copy decide its next lease.
#[test]
fn reads_without_a_copy_are_counted() {
    let lease = |reads: u32| {
        let world = world(Leases::Paper);
        for at in 0..reads {
            let wanted = Wanted { now: world.began + 10 * at * MS, since: None };
            assert!(world.copies.get(&key(), wanted).is_none());
        }
        let told = Told { writes: 0.5, ..told("a", 1, 1) };
        let copy = world.copies.take(&key(), told, world.span(1_000, 1_001));
        copy.until - copy.asked
    };
    assert!(lease(100) < lease(1), "{:?} {:?}", lease(100), lease(1));
}

#[test]
pub fn own_writes_are_kept_at_their_version() {
    let world = world(Leases::Endless);
    world.take(told("a", 1, 1), 0, 1);
    world.copies.take_own(&key(), Some(Value::bytes(*b"b")), version(5), None, world.span(2, 3));
    assert_eq!(world.seen(4), text("b", 5));
    world.copies.take_own(&key(), None, version(6), None, world.span(5, 6));
    assert_eq!(world.seen(7), Some((None, 6)));
}
