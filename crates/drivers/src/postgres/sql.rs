//! What forebay keeps in a schema of its own, and the statements on it. Each is one round trip and one transaction.

/// The schema, as `forebay store init` makes it. `meta` has one row.
pub(super) const SCHEMA: &str = "\
CREATE SCHEMA IF NOT EXISTS forebay;
CREATE TABLE IF NOT EXISTS forebay.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format integer NOT NULL,
    incarnation bigint NOT NULL,
    floor bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS forebay.applied (
    id bytea CONSTRAINT forebay_applied_id PRIMARY KEY,
    applied boolean NOT NULL
);
CREATE TABLE IF NOT EXISTS forebay.given (
    owner bytea,
    given bytea,
    version bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, given)
);
CREATE INDEX IF NOT EXISTS forebay_given_at ON forebay.given (at);
CREATE TABLE IF NOT EXISTS forebay.documents (
    space smallint NOT NULL,
    name bytea NOT NULL,
    version bytea NOT NULL,
    expires_at_ms bigint,
    value bytea NOT NULL,
    CONSTRAINT forebay_documents_name PRIMARY KEY (space, name)
);
CREATE INDEX IF NOT EXISTS forebay_documents_expiry
    ON forebay.documents (expires_at_ms, space, name) WHERE expires_at_ms IS NOT NULL;
CREATE OR REPLACE FUNCTION forebay.require(spaces smallint[], names bytea[], versions bytea[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE overtaken text;
BEGIN
    SELECT string_agg((k.place - 1)::text, ',' ORDER BY k.place) INTO overtaken
        FROM unnest(spaces, names, versions) WITH ORDINALITY AS k(space, name, version, place)
        LEFT JOIN forebay.documents d ON d.space = k.space AND d.name = k.name
        WHERE d.version IS DISTINCT FROM k.version;
    IF overtaken IS NOT NULL THEN
        RAISE EXCEPTION 'versions were overtaken' USING ERRCODE = 'FB001', DETAIL = overtaken;
    END IF;
END $$;
CREATE OR REPLACE FUNCTION forebay.overtaken(places text) RETURNS void LANGUAGE plpgsql STRICT AS $$
BEGIN
    RAISE EXCEPTION 'versions were overtaken' USING ERRCODE = 'FB001', DETAIL = places;
END $$;
CREATE SEQUENCE IF NOT EXISTS forebay.versions;
SELECT nextval('forebay.versions');
CREATE TABLE IF NOT EXISTS forebay.row_versions (
    tab text,
    key text[],
    version bigint NOT NULL,
    PRIMARY KEY (tab, key)
);
CREATE TABLE IF NOT EXISTS forebay.changes (
    x xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tab text NOT NULL,
    old_key text[],
    new_key text[]
);
CREATE INDEX IF NOT EXISTS forebay_changes_x ON forebay.changes (x);
CREATE OR REPLACE FUNCTION forebay.set_version() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    -- Every name with its schema: to set a search_path would cost more than all the rest, for each row.
    NEW.forebay_version := pg_catalog.nextval('forebay.versions'::pg_catalog.regclass);
    RETURN NEW;
END $$;
INSERT INTO forebay.meta (format, incarnation, floor) VALUES (1, 0, '\\x00000000000000000000000000000000')
    ON CONFLICT DO NOTHING;
";

/// Who has owned the database: one row per owner, and [`owned`](OWNED) for the statements that commit. The owner of
/// now is the one whose incarnation is `meta`'s; `run` is its process. Also made by itself, in a schema of a forebay
/// that had none.
pub(super) const OWNERS: &str = "\
CREATE TABLE IF NOT EXISTS forebay.owners (
    owner text CONSTRAINT forebay_owners_owner PRIMARY KEY,
    run text NOT NULL,
    journal boolean NOT NULL,
    incarnation bigint NOT NULL CONSTRAINT forebay_owners_incarnation UNIQUE,
    since timestamptz NOT NULL DEFAULT now(),
    place text NOT NULL
);
CREATE OR REPLACE FUNCTION forebay.owned() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF current_setting('forebay.run', true) = (SELECT o.run FROM forebay.owners o
        WHERE o.incarnation = (SELECT m.incarnation FROM forebay.meta m)) THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'another forebay has taken this database over' USING ERRCODE = 'FB002';
END $$;
";

/// `true`, or an error that undoes the transaction: the value of `applied` for each id that a commit enters, evaluated
/// once per statement. A new owner ends the connections that it finds ([`EARLIER`]) before it reads anything; a later
/// connection finds the new owner here. So no commit of an owner of before is missed by the next.
pub(super) const OWNED: &str = "(SELECT forebay.owned())";

/// Whether the schema is there, and whether this role may use it.
pub(super) const THERE: &str = "\
SELECT c.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'INSERT'), false)
FROM (SELECT) AS one LEFT JOIN pg_namespace n ON n.nspname = 'forebay'
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'given'";

/// Whether the schema there notes owners, or its owner, who can complete it, is this role.
pub(super) const OWNERS_THERE: &str = "\
SELECT pg_has_role(n.nspowner, 'USAGE')
    OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'owners')
FROM pg_namespace n WHERE n.nspname = 'forebay'";

/// The database's name and number.
pub(super) const PLACE: &str = "SELECT datname::text, oid FROM pg_database WHERE datname = current_database()";

/// The cluster's number.
pub(super) const CLUSTER: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// The form of the schema that this program reads and writes.
pub(super) const FORMAT: i32 = 1;

/// Connections that the role may have, here: its own limit, the database's, the server's; -1 is none. The last two do
/// not hold for a superuser.
pub(super) const LIMITS: &str = "\
SELECT r.rolconnlimit, d.datconnlimit,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
FROM pg_roles r, pg_database d
WHERE r.rolname = current_user AND d.datname = current_database() AND NOT r.rolsuper";

/// What every new session asks first: whether this is still the database that was opened, and ours; `$1` are the
/// newest acknowledged ids, of which those up to the floor are forgotten. And commits are durable, whatever the role's
/// default: what is more than `on` stays.
pub(super) const GREET: &str = "\
SELECT m.incarnation, o.owner, o.run, date_trunc('second', o.since)::text, o.place,
    NOT EXISTS (SELECT FROM unnest($1::bytea[]) AS newest
        WHERE newest > m.floor AND NOT EXISTS (SELECT FROM forebay.applied WHERE id = newest)),
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
FROM forebay.meta m LEFT JOIN forebay.owners o ON o.incarnation = m.incarnation";

/// What opening asks, before it changes anything.
pub(super) const META: &str = "\
SELECT format, floor, incarnation, gen_random_uuid()::text,
    to_regclass('forebay.owners') IS NOT NULL AND to_regprocedure('forebay.owned()') IS NOT NULL
FROM forebay.meta";

/// All owners that are known, the last first.
pub(super) const KNOWN_OWNERS: &str = "\
SELECT owner, run, journal, incarnation, date_trunc('second', since)::text, place FROM forebay.owners
ORDER BY incarnation DESC";

/// Makes the owner `$2` in the process `$3` the database's, `$4` if it has a journal, in an incarnation above `$1`;
/// where `$5` is given, only if the present one is that. The last 64 owners are remembered.
pub(super) const RAISE: &str = "\
WITH raised AS (UPDATE forebay.meta SET incarnation = greatest(incarnation, $1::bigint) + 1
        WHERE $5::bigint IS NULL OR incarnation = $5 RETURNING incarnation),
    forgotten AS (DELETE FROM forebay.owners WHERE owner <> $2::text AND incarnation <=
        (SELECT o.incarnation FROM forebay.owners o ORDER BY o.incarnation DESC OFFSET 63 LIMIT 1))
INSERT INTO forebay.owners (owner, run, journal, incarnation, since, place)
SELECT $2::text, $3::text, $4::boolean, incarnation, now(), coalesce(host(inet_client_addr()), 'its own machine')
FROM raised
ON CONFLICT (owner) DO UPDATE SET run = excluded.run, journal = excluded.journal, incarnation = excluded.incarnation,
    since = excluded.since, place = excluded.place
RETURNING incarnation";

/// Then whether the newest ids `$1` that were acknowledged earlier are all there.
pub(super) const NEWEST: &str = "\
SELECT NOT EXISTS (SELECT FROM unnest($1::bytea[]) AS newest
    WHERE newest > floor AND NOT EXISTS (SELECT FROM forebay.applied WHERE id = newest))
FROM forebay.meta";

/// The statements that a session prepares, by their places in [`PREPARED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// One document.
    GetOne,
    /// Several, each key one row, up to a number of bytes.
    Get,
    /// One in pieces, and which of the ids are applied.
    GetWithIds,
    /// A group of commits.
    Commit,
    /// The same, if versions are still current.
    CommitChecked,
    /// The ids of a group.
    Enter,
    /// Locks documents and reads them, with their places from 1.
    Lock,
    /// Fails unless versions are still current.
    Require,
    /// Removes documents.
    Remove,
    /// Adds documents, as a stream.
    Add,
}

/// The first so many of them read, and a session for reads prepares no others: while a table takes no writes (an index
/// is made), even to prepare one has to wait.
pub(super) const READING: usize = 3;

/// Bytes of a document from which on a statement that reads several, or one of any size, leaves its value out: it is
/// read by [`Prepared::GetWithIds`], in pieces of [`PIECE_BYTES`](forebay::value::pieces::PIECE_BYTES). 256 KiB, as in
/// the statements.
pub(super) const LARGE_BYTES: usize = 256 << 10;

pub(super) const PREPARED: [&str; 10] = [
    "SELECT version, CASE WHEN octet_length(value) <= 262144 THEN value END, octet_length(value)
        FROM forebay.documents WHERE space = $1::smallint AND name = $2::bytea",
    GET,
    GET_WITH_IDS,
    "WITH entered AS (INSERT INTO forebay.applied (id, applied)
        SELECT id, (SELECT forebay.owned()) FROM unnest($1::bytea[]) AS id),
    removed AS (DELETE FROM forebay.documents d USING unnest($2::smallint[], $3::bytea[]) AS k(space, name)
        WHERE d.space = k.space AND d.name = k.name),
    put AS (INSERT INTO forebay.documents (space, name, version, expires_at_ms, value)
        SELECT * FROM unnest($4::smallint[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bytea[])
        ON CONFLICT (space, name) DO UPDATE SET version = excluded.version,
            expires_at_ms = excluded.expires_at_ms, value = excluded.value)
    SELECT 1",
    // The checks need the count of ids, so the ids are entered first: what is repeated is told as that, and not as
    // overtaken by itself.
    "WITH entered AS (INSERT INTO forebay.applied (id, applied)
        SELECT id, (SELECT forebay.owned()) FROM unnest($1::bytea[]) AS id RETURNING id),
    removed AS (DELETE FROM forebay.documents d USING unnest($2::smallint[], $3::bytea[]) AS k(space, name)
        WHERE d.space = k.space AND d.name = k.name),
    put AS (INSERT INTO forebay.documents (space, name, version, expires_at_ms, value)
        SELECT * FROM unnest($4::smallint[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bytea[])
        ON CONFLICT (space, name) DO UPDATE SET version = excluded.version,
            expires_at_ms = excluded.expires_at_ms, value = excluded.value)
    SELECT 1 FROM (SELECT count(*) AS n FROM entered) AS ids,
        LATERAL forebay.require(CASE WHEN ids.n >= 0 THEN $9::smallint[] END, $10::bytea[], $11::bytea[])",
    "INSERT INTO forebay.applied (id, applied) SELECT id, (SELECT forebay.owned()) FROM unnest($1::bytea[]) AS id",
    "SELECT k.place, d.version, CASE WHEN octet_length(d.value) <= 262144 THEN d.value END
        FROM unnest($1::smallint[], $2::bytea[]) WITH ORDINALITY AS k(space, name, place)
        JOIN forebay.documents d ON d.space = k.space AND d.name = k.name FOR UPDATE OF d",
    "SELECT forebay.require($1::smallint[], $2::bytea[], $3::bytea[])",
    "DELETE FROM forebay.documents d USING unnest($1::smallint[], $2::bytea[]) AS k(space, name)
        WHERE d.space = k.space AND d.name = k.name",
    "COPY forebay.documents (space, name, version, expires_at_ms, value) FROM STDIN (FORMAT binary)",
];

/// Documents in the order in which they were asked for, up to the one that makes them more than `$3` bytes. A length is
/// told without reading the value.
const GET: &str = "\
SELECT version, CASE WHEN octet_length(value) <= 262144 THEN value END, octet_length(value) FROM (
    SELECT k.place, d.version, d.value, sum(octet_length(d.value)) OVER (ORDER BY k.place
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM unnest($1::smallint[], $2::bytea[]) WITH ORDINALITY AS k(space, name, place)
    LEFT JOIN forebay.documents d ON d.space = k.space AND d.name = k.name) AS counted
WHERE coalesce(bytes_before, 0) <= $3::bigint ORDER BY place";

/// One document in pieces, each with the length of all, and beside it those of the ids `$3` whose commits are applied:
/// these have the first column only. The value is made whole once, by `||`, and not for each piece.
const GET_WITH_IDS: &str = "\
SELECT d.version, octet_length(d.value), substring(d.value FROM 65536 * n + 1 FOR 65536)
FROM (SELECT version, value || ''::bytea AS value FROM forebay.documents
        WHERE space = $1::smallint AND name = $2::bytea OFFSET 0) AS d,
    LATERAL generate_series(0, (octet_length(d.value) - 1) / 65536) AS n
UNION ALL SELECT id, NULL, NULL FROM forebay.applied WHERE applied AND id = ANY($3::bytea[])";

/// The versions of documents, in the order in which they were asked for.
pub(super) const VERSIONS: &str = "\
SELECT d.version FROM unnest($1::smallint[], $2::bytea[]) WITH ORDINALITY AS k(space, name, place)
    LEFT JOIN forebay.documents d ON d.space = k.space AND d.name = k.name ORDER BY k.place";

/// The places of those documents that were last written by the transaction that entered their ids `$3`.
pub(super) const UNTOUCHED: &str = "\
SELECT k.place FROM unnest($1::smallint[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS k(space, name, id, place)
    JOIN forebay.documents d ON d.space = k.space AND d.name = k.name
    JOIN forebay.applied a ON a.id = k.id AND a.xmin = d.xmin";

/// Ids that are in the table, and whether each stands for a commit (`true`) or for its refusal.
pub(super) const KNOWN: &str = "SELECT id, applied FROM forebay.applied WHERE id = ANY($1::bytea[])";

/// Enters ids, so that their commits can never be applied. It waits for a commit of such an id that is on its way, and
/// leaves alone what is there.
pub(super) const TOMBSTONES: &str = "\
INSERT INTO forebay.applied (id, applied) SELECT id, false FROM unnest($1::bytea[]) AS id ON CONFLICT (id) DO NOTHING";

/// Names behind one, up to a number of them and to so many bytes ([`forebay::store::NAMES_BYTES_MAX`]).
pub(super) const SCAN: &str = "\
SELECT name FROM (SELECT name, sum(octet_length(name)) OVER (ORDER BY name ROWS BETWEEN UNBOUNDED PRECEDING AND 1
        PRECEDING) AS bytes_before FROM (SELECT name FROM forebay.documents
        WHERE space = $1::smallint AND name > $2::bytea ORDER BY name LIMIT $3::bigint) AS page) AS counted
WHERE coalesce(bytes_before, 0) < $4::bigint ORDER BY name";

/// As [`SCAN`], from the first on: the empty name is a name.
pub(super) const SCAN_FIRST: &str = "\
SELECT name FROM (SELECT name, sum(octet_length(name)) OVER (ORDER BY name ROWS BETWEEN UNBOUNDED PRECEDING AND 1
        PRECEDING) AS bytes_before FROM (SELECT name FROM forebay.documents
        WHERE space = $1::smallint ORDER BY name LIMIT $2::bigint) AS page) AS counted
WHERE coalesce(bytes_before, 0) < $3::bigint ORDER BY name";

pub(super) const COUNT: &str = "SELECT count(*) FROM forebay.documents WHERE space = $1::smallint";

pub(super) const CLEAR: &str = "\
WITH entered AS (INSERT INTO forebay.applied (id, applied) VALUES ($2::bytea, (SELECT forebay.owned())))
DELETE FROM forebay.documents WHERE space = ANY($1::smallint[])";

/// Names that have expired, earliest first, with the same bounds.
pub(super) const EXPIRED: &str = "\
SELECT space, name FROM (SELECT at_ms, space, name, sum(octet_length(name)) OVER (ORDER BY at_ms, space, name
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
    FROM (SELECT expires_at_ms AS at_ms, space, name FROM forebay.documents WHERE expires_at_ms <= $1::bigint
        ORDER BY expires_at_ms, space, name LIMIT $2::bigint) AS page) AS counted
WHERE coalesce(bytes_before, 0) < $3::bigint ORDER BY at_ms, space, name";

/// The newest id that may be forgotten, if more than `$1` are kept; `$2` is the oldest on its way.
pub(super) const FORGETTABLE: &str = "\
SELECT id FROM (SELECT id FROM forebay.applied ORDER BY id DESC OFFSET $1::bigint) AS old
WHERE $2::bytea IS NULL OR id < $2 ORDER BY id DESC LIMIT 1";

pub(super) const FORGET: &str = "\
WITH gone AS (DELETE FROM forebay.applied WHERE id <= $1::bytea)
UPDATE forebay.meta SET floor = greatest(floor, $1)";

/// Ends backends of connections that were given up, `$1`, and says how many are still listed.
pub(super) const END_LOST: &str = "\
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = ANY($1::text[])";

/// Backends of earlier openings, whoever their role is: `$1` is our own name's beginning.
pub(super) const EARLIER: &str = "\
SELECT pid, usename::text, usename = current_user FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'forebay %'
    AND NOT starts_with(application_name, $1::text) AND pid <> pg_backend_pid()";

/// The lock that one forebay holds on its database: `fore` and `bay`, as numbers.
pub(super) const LOCK: &str = "SELECT pg_try_advisory_lock(1718579813, 6447481)";

/// Who holds it.
pub(super) const HOLDER: &str = "\
SELECT a.pid, coalesce(a.client_addr::text, 'this machine'), a.backend_start::text
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.classid = 1718579813 AND l.objid = 6447481 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// What was noted since the snapshot `$1`, with the snapshot of this look; at least one row.
pub(super) const OUTSIDE: &str = "\
SELECT s.snapshot::text, c.tab, c.x::text, c.old_key, c.new_key
FROM (SELECT pg_current_snapshot() AS snapshot) s LEFT JOIN forebay.changes c
    ON c.x >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(c.x, $1::text::pg_snapshot)";

/// Removes notes that the snapshot `$1` has seen, and all after it.
pub(super) const FORGET_OUTSIDE: &str = "DELETE FROM forebay.changes WHERE x < pg_snapshot_xmin($1::text::pg_snapshot)";

/// Notes that are kept.
pub(super) const COUNT_OUTSIDE: &str = "SELECT count(*) FROM forebay.changes";

/// Removes all notes but the newest, where none is read.
pub(super) const FORGET_NOTES: &str = "DELETE FROM forebay.changes WHERE x < pg_snapshot_xmin(pg_current_snapshot())";
