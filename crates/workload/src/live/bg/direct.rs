//! BG's actions as SQL, one statement each, on the tables that the keys are mapped to.

use super::resp::Saw;
use crate::bg::action::Action;
use crate::bg::choose::Step;
use crate::bg::data::{COMMENT, PROFILE, RESOURCE};
use crate::bg::{Data, Kind, Object, Seen, Write};
use crate::live::{Failure, Param, Rows, Sql};

/// Table, key and list of each kind.
fn place(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Friends => ("bg_friends", "userid", "friends"),
        Kind::Pending => ("bg_pending", "userid", "pending"),
        Kind::Comments => ("bg_threads", "rid", "comments"),
    }
}

/// What stands in a column: members and resources are numbers, all else is text.
fn sql_type(field: &str) -> &'static str {
    if ["creatorid", "walluserid", "modifierid"].contains(&field) { "integer" } else { "text" }
}

fn columns(fields: &[&str], form: impl Fn(&str) -> String) -> String {
    fields.iter().map(|field| form(field)).collect::<Vec<_>>().join(", ")
}

/// A profile's columns, with its images if it has any.
fn profile(data: &Data) -> Vec<&'static str> {
    let images: &[&str] = if data.scale().image_kb > 0 { &["pic", "tpic"] } else { &[] };
    PROFILE.iter().chain(images).copied().collect()
}

/// Makes the tables, and empties them.
pub(super) fn tables() -> String {
    let typed = |fields: &[&str]| columns(fields, |field| format!("\"{field}\" {}", sql_type(field)));
    let mut profile = PROFILE.to_vec();
    profile.extend(["pic", "tpic"]);
    let list = |(table, key, list): (&str, &str, &str)| {
        format!(
            "CREATE TABLE IF NOT EXISTS {table} ({key} integer PRIMARY KEY, {list} integer[] NOT NULL DEFAULT '{{}}');"
        )
    };
    format!(
        "CREATE TABLE IF NOT EXISTS bg_members (userid integer PRIMARY KEY, {});
        CREATE TABLE IF NOT EXISTS bg_resources (rid integer PRIMARY KEY, {});
        CREATE TABLE IF NOT EXISTS bg_comments (rid integer, mid integer, {}, PRIMARY KEY (rid, mid));
        {} {} {} {}
        TRUNCATE bg_members, bg_resources, bg_comments, bg_friends, bg_pending, bg_threads, bg_walls",
        typed(&profile),
        typed(&RESOURCE),
        typed(&COMMENT),
        list(place(Kind::Friends)),
        list(place(Kind::Pending)),
        list(place(Kind::Comments)),
        list(("bg_walls", "userid", "resources")),
    )
}

fn gone(what: &str) -> Failure {
    Failure::of_kind("gone", format!("{what} that was loaded is not there"))
}

fn number(rows: &Rows, row: usize, column: usize) -> Result<u32, Failure> {
    let number = rows.number(row, column)?.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| gone("a number"))
}

/// One action that reads.
pub(super) async fn read(sql: &mut Sql, data: &Data, step: &Step, shown: u32) -> Result<Saw, Failure> {
    let Step { owner, rid, .. } = *step;
    let shape = |fields: &[&str], alias: &str| columns(fields, |field| format!("{alias}.\"{field}\""));
    let members = |kind: Kind| {
        let ((table, _, list), profile) = (place(kind), shape(&profile(data), "m"));
        format!(
            "SELECT u.id::bigint, {profile} FROM {table} l, unnest(l.{list}) AS u(id) \
             JOIN bg_members m ON m.userid = u.id WHERE l.userid = $1"
        )
    };
    match step.action {
        Action::ViewProfile => view_profile(sql, data, step).await,
        Action::ListFriends | Action::ViewFriendRequests => {
            let kind = if step.action == Action::ListFriends { Kind::Friends } else { Kind::Pending };
            let rows = sql.query(&members(kind), &[Param::Number(owner.into())]).await?;
            saw(Object { kind, id: owner }, &rows)
        }
        Action::ViewTopResources => {
            let text = format!(
                "SELECT {} FROM bg_walls w, unnest(w.resources[cardinality(w.resources) - {} :]) AS u(rid) \
                 JOIN bg_resources r ON r.rid = u.rid WHERE w.userid = $1",
                shape(&RESOURCE, "r"),
                shown - 1,
            );
            sql.query(&text, &[Param::Number(owner.into())]).await?;
            Ok(Vec::new())
        }
        _ => {
            let text = format!(
                "SELECT u.mid::bigint, {} FROM bg_threads t CROSS JOIN unnest(t.comments) AS u(mid) \
                 LEFT JOIN bg_comments c ON c.rid = t.rid AND c.mid = u.mid WHERE t.rid = $1",
                shape(&COMMENT, "c"),
            );
            let rows = sql.query(&text, &[Param::Number(rid.into())]).await?;
            saw(Object { kind: Kind::Comments, id: rid }, &rows)
        }
    }
}

/// The first column of all rows.
fn saw(object: Object, rows: &Rows) -> Result<Saw, Failure> {
    let elements: Result<Vec<u32>, Failure> = (0..rows.count()).map(|row| number(rows, row, 0)).collect();
    Ok(vec![(object, Seen::Elements(elements?.into()))])
}

async fn view_profile(sql: &mut Sql, data: &Data, step: &Step) -> Result<Saw, Failure> {
    let count = |table: &str, list: &str| {
        format!("coalesce((SELECT cardinality({list}) FROM {table} WHERE userid = $1), 0)::bigint")
    };
    let own = step.member == step.owner;
    let pending = if own { count("bg_pending", "pending") } else { "0::bigint".to_owned() };
    let text = format!(
        "SELECT {}, {}, {pending}, {} FROM bg_members m WHERE m.userid = $1",
        count("bg_walls", "resources"),
        count("bg_friends", "friends"),
        columns(&profile(data), |field| format!("m.\"{field}\"")),
    );
    let rows = sql.query(&text, &[Param::Number(step.owner.into())]).await?;
    if rows.count() != 1 {
        return Err(gone("a profile"));
    }
    let mut saw = vec![(Object { kind: Kind::Friends, id: step.owner }, Seen::Count(number(&rows, 0, 1)?))];
    if own {
        saw.push((Object { kind: Kind::Pending, id: step.owner }, Seen::Count(number(&rows, 0, 2)?)));
    }
    Ok(saw)
}

const ADD: &str = "INSERT INTO bg_pending AS t (userid, pending) VALUES ($2, ARRAY[$1::integer]) \
    ON CONFLICT (userid) DO UPDATE SET pending = array_append(t.pending, $1)";
const ANSWER: &str = "UPDATE bg_pending SET pending = array_remove(pending, $1) WHERE userid = $2";

/// Both sides, the lower number first, so that no two of them wait for each other.
const BEFRIEND: &str = "INSERT INTO bg_friends AS t (userid, friends) \
    VALUES (least($1, $2), ARRAY[greatest($1, $2)]), (greatest($1, $2), ARRAY[least($1, $2)]) \
    ON CONFLICT (userid) DO UPDATE SET friends = t.friends || excluded.friends";
const THAW: &str = "UPDATE bg_friends SET friends = \
    array_remove(friends, CASE userid WHEN $1::integer THEN $2::integer ELSE $1::integer END) \
    WHERE userid IN ($1::integer, $2::integer)";
const DELETE: &str = "WITH thread AS (UPDATE bg_threads SET comments = array_remove(comments, $2) WHERE rid = $1) \
    DELETE FROM bg_comments WHERE rid = $1 AND mid = $2";

/// One action that writes.
pub(super) async fn write(sql: &mut Sql, data: &Data, write: &Write) -> Result<(), Failure> {
    let both = |one: u32, other: u32| [Param::Number(one.into()), Param::Number(other.into())];
    match *write {
        Write::Invite { inviter, invitee } => sql.execute(ADD, &both(inviter, invitee)).await?,
        Write::Reject { inviter, invitee } => sql.execute(ANSWER, &both(inviter, invitee)).await?,
        Write::Accept { inviter, invitee } => {
            let text = format!("WITH answered AS ({}) {}", answer_of_integers(), befriend_of_integers());
            sql.execute(&text, &both(inviter, invitee)).await?
        }
        Write::Thaw { member, friend } => sql.execute(THAW, &both(member, friend)).await?,
        Write::Delete { rid, mid, .. } => sql.execute(DELETE, &both(rid, mid)).await?,
        Write::Post { author, rid, mid } => {
            let values = data.comment(rid, mid, author);
            let texts: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
            let fields: Vec<&str> = values.iter().map(|(field, _)| *field).collect();
            let places = (3..).zip(&fields).map(|(at, field)| format!("${at}::text::{}", sql_type(field)));
            let text = format!(
                "WITH thread AS (INSERT INTO bg_threads AS t (rid, comments) VALUES ($1, ARRAY[$2::integer]) \
                 ON CONFLICT (rid) DO UPDATE SET comments = array_append(t.comments, $2)) \
                 INSERT INTO bg_comments (rid, mid, {}) VALUES ($1, $2, {})",
                columns(&fields, |field| format!("\"{field}\"")),
                places.collect::<Vec<_>>().join(", "),
            );
            let params = both(rid, mid).into_iter().chain(texts.into_iter().map(Param::Text));
            sql.execute(&text, &params.collect::<Vec<_>>()).await?
        }
    };
    Ok(())
}

/// In one statement all uses of a parameter have to agree on its type.
fn answer_of_integers() -> String {
    ANSWER.replace("$1", "$1::integer").replace("$2", "$2::integer")
}

fn befriend_of_integers() -> String {
    BEFRIEND.replace("$1", "$1::integer").replace("$2", "$2::integer")
}

/// Lists as they are.
pub(super) async fn lists(sql: &mut Sql, objects: &[Object]) -> Result<Vec<Vec<u32>>, Failure> {
    let mut found = vec![Vec::new(); objects.len()];
    for kind in [Kind::Friends, Kind::Pending, Kind::Comments] {
        let places: Vec<usize> = (0..objects.len()).filter(|at| objects[*at].kind == kind).collect();
        if places.is_empty() {
            continue;
        }
        let (table, key, list) = place(kind);
        let text = format!(
            "SELECT w.place, u.element::bigint FROM unnest($1::integer[]) WITH ORDINALITY AS w(id, place) \
             JOIN {table} t ON t.{key} = w.id, unnest(t.{list}) AS u(element)"
        );
        let ids: Vec<i64> = places.iter().map(|at| i64::from(objects[*at].id)).collect();
        let rows = sql.query(&text, &[Param::Numbers(&ids)]).await?;
        for row in 0..rows.count() {
            let at = number(&rows, row, 0)? as usize;
            let place = at.checked_sub(1).and_then(|at| places.get(at)).ok_or_else(|| gone("a list"))?;
            found[*place].push(number(&rows, row, 1)?);
        }
    }
    Ok(found)
}

/// Rows of one table that are inserted together: columns, and the values of each as texts.
struct Batch {
    into: String,
    columns: Vec<(&'static str, &'static str)>,
    key: &'static str,
    values: Vec<Vec<String>>,
}

impl Batch {
    fn new(into: &str, key: &'static str, columns: Vec<(&'static str, &'static str)>) -> Batch {
        let values = columns.iter().map(|_| Vec::new()).collect();
        Batch { into: into.to_owned(), columns, key, values }
    }

    fn hashes(into: &str, key: &'static str, keys: &[&'static str], fields: &[&'static str]) -> Batch {
        let keys = keys.iter().map(|key| (*key, "integer"));
        Batch::new(into, key, keys.chain(fields.iter().map(|field| (*field, sql_type(field)))).collect())
    }

    fn list(kind: (&str, &'static str, &'static str)) -> Batch {
        Batch::new(kind.0, kind.1, vec![(kind.1, "integer"), (kind.2, "integer[]")])
    }

    fn row(&mut self, values: impl IntoIterator<Item = String>) {
        self.values.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }

    /// A second time it changes nothing more.
    async fn insert(&self, sql: &mut Sql) -> Result<(), Failure> {
        let named = |form: &dyn Fn(usize, &str, &str) -> String| {
            let all = (1..).zip(&self.columns).map(|(at, (name, sql_type))| form(at, name, sql_type));
            all.collect::<Vec<_>>().join(", ")
        };
        let text = format!(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS u({}) ON CONFLICT ({}) DO UPDATE SET {}",
            self.into,
            named(&|_, name, _| format!("\"{name}\"")),
            named(&|at, _, sql_type| format!("u.c{at}::{sql_type}")),
            named(&|at, _, _| format!("${at}::text[]")),
            named(&|at, _, _| format!("c{at}")),
            self.key,
            named(&|_, name, _| format!("\"{name}\" = excluded.\"{name}\"")),
        );
        let params: Vec<Param<'_>> = self.values.iter().map(|values| Param::Texts(values)).collect();
        sql.execute(&text, &params).await.map(drop)
    }
}

/// Loads some members with what they have made.
pub(super) async fn load(
    sql: &mut Sql,
    data: &Data,
    members: std::ops::Range<u32>,
    elements: &(dyn Fn(Object) -> Vec<u32> + Sync),
) -> Result<(), Failure> {
    let array = |list: &[u32]| format!("{{{}}}", list.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let values = |fields: Vec<(&'static str, String)>| fields.into_iter().map(|(_, value)| value);
    let of = |kind, id: u32| [id.to_string(), array(&elements(Object { kind, id }))];
    let scale = data.scale();
    let mut profiles = Batch::hashes("bg_members", "userid", &["userid"], &profile(data));
    let mut resources = Batch::hashes("bg_resources", "rid", &["rid"], &RESOURCE);
    let mut comments = Batch::hashes("bg_comments", "rid, mid", &["rid", "mid"], &COMMENT);
    let mut lists = [Kind::Friends, Kind::Pending, Kind::Comments].map(|kind| Batch::list(place(kind)));
    let mut walls = Batch::list(("bg_walls", "userid", "resources"));
    for member in members {
        profiles.row(std::iter::once(member.to_string()).chain(values(data.profile(member))));
        lists[0].row(of(Kind::Friends, member));
        lists[1].row(of(Kind::Pending, member));
        walls.row([member.to_string(), array(data.wall(member))]);
        for rid in member * scale.resources..(member + 1) * scale.resources {
            resources.row(std::iter::once(rid.to_string()).chain(values(data.resource(rid))));
            lists[2].row(of(Kind::Comments, rid));
            for mid in 0..scale.comments {
                let comment = values(data.comment(rid, mid, data.author_of(rid, mid)));
                comments.row([rid.to_string(), mid.to_string()].into_iter().chain(comment));
            }
        }
    }
    for batch in [&profiles, &resources, &comments, &lists[0], &lists[1], &lists[2], &walls] {
        batch.insert(sql).await?;
    }
    Ok(())
}
