//! Commits of rows that come again: they are not applied twice, and what is told of them is what their rows are now.

use std::time::Duration;

use forebay::Key;
use forebay::change::Change;
use forebay::store::{Commit, CommitOutcome, Since};

use crate::groups::{committed, notes, outcomes, read_and_changed};
use crate::mapping::{add, commit_of, get, key};

/// What is told of a commit that comes again: its rows, and whether anybody has written them since.
#[test]
fn rows_of_a_commit_that_comes_again_tell_whether_others_have_written_them() {
    for mode in ["none", "column", "side"] {
        let (world, store, mint) = notes(mode);
        world.sql(
            "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN NEW.code := ''t''; RETURN NEW; END';
            CREATE TRIGGER stamp BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION stamp()",
        );
        let mut commit = read_and_changed(&store, &mint, "note:1", vec![add("hits", 1)]);
        for name in ["note:2", "note:3", "user:2"] {
            let field = if name == "user:2" { "visits" } else { "hits" };
            commit.writes.extend(read_and_changed(&store, &mint, name, vec![add(field, 1)]).writes);
        }
        let deleted = commit_of(&mint, &[("note:4", vec![Change::Delete])], &[]);
        assert!(outcomes(&store, &[commit.clone(), deleted.clone()]).iter().all(committed));
        let told = |commit: &Commit| match outcomes(&store, std::slice::from_ref(commit)).pop() {
            Some(CommitOutcome::Repeated(since)) => since,
            other => panic!("{mode}: {other:?}"),
        };
        let names = ["note:1", "note:2", "note:3", "user:2"];
        let since = names.map(|name| Since { key: key(name), read: get(&store, name), untouched: true });
        assert_eq!(told(&commit), since, "{mode}");
        let both = outcomes(&store, &[deleted.clone(), commit.clone()]);
        assert_eq!(both[1], CommitOutcome::Repeated(since.to_vec()), "{mode}");
        assert!(matches!(&both[0], CommitOutcome::Repeated(gone) if gone.len() == 1), "{mode}: {both:?}");
        // The same values, but somebody has written them; one is gone, and one was only locked.
        world.sql("UPDATE notes SET hits = hits WHERE id = 1");
        world.sql("DELETE FROM notes WHERE id = 3");
        world.sql("BEGIN; SELECT FROM users WHERE id = 2 FOR UPDATE; COMMIT");
        let untouched = |since: Vec<Since>| since.into_iter().filter(|since| since.untouched).map(|since| since.key);
        let untouched = |commit| untouched(told(commit)).collect::<Vec<Key>>();
        assert_eq!(untouched(&commit), [key("note:2"), key("user:2")], "{mode}");
        assert_eq!((told(&deleted)[0].read.value.clone(), untouched(&deleted)), (None, Vec::new()), "{mode}");
    }
}

/// That it was applied is known even where its rows can't be read.
#[test]
fn a_commit_that_comes_again_is_not_held_up_by_a_lock() {
    let (mut world, _, _) = notes("none");
    world.options.timeout = Duration::from_millis(1_500);
    let (store, mint) = world.open();
    let commit = read_and_changed(&store, &mint, "note:1", vec![add("hits", 1)]);
    let other = read_and_changed(&store, &mint, "note:2", vec![add("hits", 1)]);
    let group = [commit, other];
    assert!(outcomes(&store, &group).iter().all(committed));
    world.server.while_locked(&world.database, "LOCK TABLE notes IN ACCESS EXCLUSIVE MODE", || {
        assert_eq!(outcomes(&store, &group)[0], CommitOutcome::Repeated(Vec::new()));
    });
}
