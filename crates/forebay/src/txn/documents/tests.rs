use super::*;
use crate::value::Blob;

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn read(text: &str, expires_at_ms: Option<u64>) -> Read {
    let value = Value { expires_at_ms, ..Value::bytes(text.as_bytes()) };
    Read { value: Some(value), version: Version { incarnation: 1, sequence: 1 } }
}

fn add(delta: i64) -> Change {
    Change::AddInteger { field: None, delta }
}

#[test]
fn what_nobody_knows_is_changed_unseen_until_it_is_seen() {
    let mut documents = Documents::new(10);
    documents.load_unseen(key("a"));
    assert!(!documents.loaded(key("a").borrow()) && documents.any_unseen());
    documents.change(key("a").borrow(), add(2)).unwrap();
    assert!(!documents.loaded(key("a").borrow()), "its own changes do not make it known");
    documents.savepoint();
    documents.change(key("a").borrow(), Change::Put(Value::bytes(*b"7"))).unwrap();
    assert!(documents.loaded(key("a").borrow()) && !documents.any_unseen());
    documents.roll_back();
    assert!(documents.unseen(key("a").borrow()));
    documents.load(key("a"), read("40", None));
    assert_eq!(documents.value(key("a").borrow()).unwrap(), Some(&Value::bytes(*b"42")));
    let writes = documents.take_writes();
    assert!(!writes[0].unseen && writes[0].changes.as_slice() == [Change::RemoveExpired(10), add(2)]);
}

#[test]
fn own_writes_are_seen_and_rolled_back() {
    let mut documents = Documents::new(10);
    documents.load(key("a"), read("1", None));
    documents.change(key("a").borrow(), add(1)).unwrap();
    documents.savepoint();
    documents.change(key("a").borrow(), add(1)).unwrap();
    documents.change(key("b").borrow(), Change::Put(Value::bytes(*b"x"))).unwrap();
    assert_eq!(documents.value(key("a").borrow()).unwrap(), Some(&Value::bytes(*b"3")));
    documents.roll_back();
    assert_eq!(documents.value(key("a").borrow()).unwrap(), Some(&Value::bytes(*b"2")));
    let writes = documents.take_writes();
    assert_eq!(writes.len(), 1);
    assert_eq!((writes[0].changes.len(), &writes[0].after), (1, &Some(Value::bytes(*b"2"))));
}

#[test]
fn a_blind_write_is_rolled_back_to_the_changes_before_it() {
    let mut documents = Documents::new(10);
    documents.load(key("a"), read("1", None));
    documents.change(key("a").borrow(), add(1)).unwrap();
    documents.savepoint();
    documents.change(key("a").borrow(), add(5)).unwrap();
    documents.change(key("a").borrow(), Change::Delete).unwrap();
    documents.change(key("a").borrow(), Change::Put(Value::bytes(*b"9"))).unwrap();
    documents.roll_back();
    documents.savepoint();
    documents.change(key("a").borrow(), add(2)).unwrap();
    let writes = documents.take_writes();
    assert_eq!(writes[0].changes[..], [add(1), add(2)]);
    assert_eq!(writes[0].after, Some(Value::bytes(*b"4")));
}

#[test]
fn writes_stand_in_the_order_of_first_changes() {
    let mut documents = Documents::new(10);
    ["c", "b", "a"].iter().for_each(|name| documents.load(key(name), read("1", None)));
    ["a", "c", "a"].iter().for_each(|name| documents.change(key(name).borrow(), add(1)).unwrap());
    documents.savepoint();
    documents.change(key("a").borrow(), Change::Delete).unwrap();
    documents.roll_back();
    documents.change(key("b").borrow(), add(1)).unwrap();
    let order: Vec<Key> = documents.take_writes().into_iter().map(|write| write.key).collect();
    assert_eq!(order, [key("a"), key("c"), key("b")]);
}

#[test]
fn an_expired_document_is_absent_and_removed_by_the_first_change() {
    let mut documents = Documents::new(10);
    documents.load(key("a"), read("7", Some(10)));
    assert_eq!(documents.value(key("a").borrow()), Ok(None));
    documents.change(key("a").borrow(), add(1)).unwrap();
    let writes = documents.take_writes();
    assert_eq!(writes[0].changes[..], [Change::Delete, add(1)]);
    assert_eq!(writes[0].after, Some(Value::bytes(*b"1")));
}

/// A DELETE was once forgotten when the change after it did not fit: the document came back at the commit.
#[test]
fn an_own_delete_survives_a_change_that_fails() {
    let mut documents = Documents::new(10);
    documents.load(key("a"), read("7", None));
    documents.change(key("a").borrow(), Change::Delete).unwrap();
    documents.savepoint();
    let offset = crate::value::DOCUMENT_BYTES_MAX;
    let too_large = Change::WriteAt { offset, bytes: Blob::from(*b"x") };
    assert!(documents.change(key("a").borrow(), too_large).is_err());
    documents.roll_back();
    assert_eq!(documents.take_writes()[0].changes[..], [Change::Delete]);
}

#[test]
fn only_blind_changes_work_on_what_was_not_loaded() {
    let mut documents = Documents::new(10);
    assert_eq!(documents.change(key("a").borrow(), add(1)), Err(DocumentError::NotLoaded(key("a"))));
    documents.change(key("a").borrow(), Change::Delete).unwrap();
    documents.change(key("a").borrow(), add(1)).unwrap();
    documents.change(key("a").borrow(), Change::Put(Value::bytes(*b"x"))).unwrap();
    assert_eq!(documents.take_writes()[0].changes[..], [Change::Put(Value::bytes(*b"x"))]);
    assert!(!documents.changed());
}

#[test]
fn a_bound_of_freshness_is_rolled_back_too() {
    let mut documents = Documents::new(10);
    documents.bound_freshness(key("a").borrow(), 20, false).unwrap();
    documents.savepoint();
    documents.bound_freshness(key("b").borrow(), 30, false).unwrap();
    documents.roll_back();
    assert_eq!(documents.take_fresh_until(), [(key("a"), 20)]);
    documents.set_read_only();
    assert_eq!(documents.bound_freshness(key("a").borrow(), 20, false), Err(DocumentError::ReadOnly));
}

#[test]
fn many_documents_are_found_by_index() {
    let mut documents = Documents::new(10);
    for n in 0..100 {
        documents.load(key(&n.to_string()), read(&n.to_string(), None));
    }
    for n in 0..100 {
        let value = documents.value(key(&n.to_string()).borrow()).unwrap();
        assert_eq!(value, Some(&Value::bytes(n.to_string().as_bytes())));
    }
}
