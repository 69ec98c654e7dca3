//! What forebay keeps in the file, in tables whose names begin with `forebay_`.

/// The form of the tables that this program reads and writes.
pub(super) const FORMAT: i64 = 1;

/// The tables, as `forebay store init` makes them. `forebay_meta` has one row; `file` is drawn once, and copies of the
/// file have it too. `forebay_rows` has the last write of each row of a mapped table: its number is the row's version.
pub(super) const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS forebay_meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    file TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    floor BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS forebay_owners (
    owner TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    journal INTEGER NOT NULL,
    incarnation INTEGER NOT NULL UNIQUE,
    since TEXT NOT NULL,
    place TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS forebay_applied (
    id BLOB PRIMARY KEY,
    applied INTEGER NOT NULL,
    first INTEGER NOT NULL DEFAULT 0,
    last INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forebay_given (
    owner BLOB NOT NULL,
    given BLOB NOT NULL,
    version BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, given)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS forebay_given_at ON forebay_given (at);
CREATE TABLE IF NOT EXISTS forebay_documents (
    space INTEGER NOT NULL,
    name BLOB NOT NULL,
    version BLOB NOT NULL,
    expires_at_ms INTEGER,
    value BLOB NOT NULL,
    PRIMARY KEY (space, name)
);
CREATE INDEX IF NOT EXISTS forebay_documents_expiry
    ON forebay_documents (expires_at_ms, space, name) WHERE expires_at_ms IS NOT NULL;
CREATE TABLE IF NOT EXISTS forebay_rows (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    tab TEXT NOT NULL,
    key TEXT NOT NULL,
    gone INTEGER NOT NULL,
    UNIQUE (tab, key)
);
INSERT OR IGNORE INTO forebay_meta (one, format, file, incarnation, floor)
    VALUES (1, 1, lower(hex(randomblob(16))), 0, zeroblob(16));
";

/// Whether the tables are there.
pub(super) const THERE: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'forebay_rows'";

/// What opening asks before it changes anything.
pub(super) const META: &str = "SELECT format, file, incarnation, floor, lower(hex(randomblob(16))) FROM forebay_meta";

/// What every transaction asks first: whose file this is, and whether it has the newest acknowledged id, `?1`.
pub(super) const GREET: &str = "\
SELECT m.file, m.incarnation, o.owner, o.run, o.since, o.place,
    ?1 IS NULL OR ?1 <= m.floor OR EXISTS (SELECT 1 FROM forebay_applied WHERE id = ?1)
FROM forebay_meta m LEFT JOIN forebay_owners o ON o.incarnation = m.incarnation";

/// All owners that are known, the last first.
pub(super) const OWNERS: &str =
    "SELECT owner, run, journal, incarnation, since, place FROM forebay_owners ORDER BY incarnation DESC";

/// A new incarnation, above `?1` and the present one.
pub(super) const RAISE: &str = "UPDATE forebay_meta SET incarnation = max(incarnation, ?1) + 1 RETURNING incarnation";

/// The owner in it. The last 64 owners are remembered.
pub(super) const OWN: &str = "\
INSERT INTO forebay_owners (owner, run, journal, incarnation, since, place)
    VALUES (?1, ?2, ?3, ?4, strftime('%Y-%m-%d %H:%M:%SZ', 'now'), ?5)
    ON CONFLICT (owner) DO UPDATE SET run = excluded.run, journal = excluded.journal,
        incarnation = excluded.incarnation, since = excluded.since, place = excluded.place";

/// Forgets the owners before those.
pub(super) const FORGET_OWNERS: &str = "\
DELETE FROM forebay_owners WHERE owner <> ?1 AND incarnation <=
    (SELECT incarnation FROM forebay_owners ORDER BY incarnation DESC LIMIT 1 OFFSET 63)";

/// Whether an id is in the table, and whether as applied.
pub(super) const KNOWN: &str = "SELECT applied FROM forebay_applied WHERE id = ?1";

/// Enters the id of a commit.
pub(super) const ENTER: &str = "INSERT INTO forebay_applied (id, applied) VALUES (?1, 1)";

/// The numbers of writes of rows that came with a commit: above `first`, up to `last`.
pub(super) const RANGE: &str = "UPDATE forebay_applied SET first = ?2, last = ?3 WHERE id = ?1";

/// Asks for what [`RANGE`] has noted.
pub(super) const RANGE_OF: &str = "SELECT first, last FROM forebay_applied WHERE id = ?1";

/// Puts a tombstone in the place of an id, unless that is there.
pub(super) const TOMBSTONE: &str = "INSERT OR IGNORE INTO forebay_applied (id, applied) VALUES (?1, 0)";

/// The newest id that may be forgotten, if more than `?1` are kept; `?2` is the oldest on its way.
pub(super) const FORGETTABLE: &str = "\
SELECT id FROM (SELECT id FROM forebay_applied ORDER BY id DESC LIMIT -1 OFFSET ?1)
WHERE ?2 IS NULL OR id < ?2 ORDER BY id DESC LIMIT 1";

/// Forgets ids up to `?1`.
pub(super) const FORGET: &str = "DELETE FROM forebay_applied WHERE id <= ?1";

/// No id up to `?1` is known any more.
pub(super) const RAISE_FLOOR: &str = "UPDATE forebay_meta SET floor = max(floor, ?1)";

/// One document.
pub(super) const GET: &str = "SELECT version, value FROM forebay_documents WHERE space = ?1 AND name = ?2";

/// Its version alone.
pub(super) const VERSION: &str = "SELECT version FROM forebay_documents WHERE space = ?1 AND name = ?2";

/// Writes a document.
pub(super) const PUT: &str = "\
INSERT INTO forebay_documents (space, name, version, expires_at_ms, value) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (space, name) DO UPDATE SET version = excluded.version,
        expires_at_ms = excluded.expires_at_ms, value = excluded.value";

/// Removes one.
pub(super) const REMOVE: &str = "DELETE FROM forebay_documents WHERE space = ?1 AND name = ?2";

/// Names after one, in their order.
pub(super) const SCAN: &str =
    "SELECT name FROM forebay_documents WHERE space = ?1 AND (?2 IS NULL OR name > ?2) ORDER BY name";

/// How many there are.
pub(super) const COUNT: &str = "SELECT count(*) FROM forebay_documents WHERE space = ?1";

/// All of a key space.
pub(super) const CLEAR: &str = "DELETE FROM forebay_documents WHERE space = ?1";

/// Names that have expired, earliest first.
pub(super) const EXPIRED: &str = "\
SELECT space, name FROM forebay_documents WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms, space, name";

/// Notes an id that a client gave its transaction.
pub(super) const GIVE: &str = "\
INSERT INTO forebay_given (owner, given, version, at) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (owner, given) DO UPDATE SET version = max(version, excluded.version), at = excluded.at";

/// The newest of these, newest first.
pub(super) const GIVEN: &str =
    "SELECT owner, given, version FROM forebay_given ORDER BY at DESC, version DESC LIMIT ?1";

/// Those that are older than ten minutes.
pub(super) const FORGET_GIVEN: &str = "DELETE FROM forebay_given WHERE at < ?1";
