// Caches in clients of Node.js: node-redis' own, and one that a few lines keep over ioredis, which has none. No read is
// stale behind an invalidation, whatever has changed the key.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { BasicClientSideCache, BasicPooledClientSideCache, createClient, createClientPool } from "redis";

import { port, range } from "./common.js";

const url = `redis://127.0.0.1:${port}`;
// FLUSHDB clears this one alone, so that the other files keep their keys.
const database = 7;

/** Changes `key` by one of several ways, and says what it holds then. */
async function write(writer, key, round) {
  const value = `v${round}`;
  switch (round % 6) {
    case 0:
      await writer.mSet({ [key]: value, [`${key}:beside`]: value });
      return value;
    case 1:
      await writer.multi().set(key, "between").set(key, value).exec();
      return value;
    case 2:
      await writer.del(key);
      return null;
    case 3:
      await writer.set(key, value, { expiration: { type: "PX", value: 20 } });
      await sleep(50);
      return null;
    case 4:
      await writer.flushDb();
      return null;
    default:
      await writer.append(key, value);
      return value;
  }
}

async function connected(create, options, ofPool) {
  const client = create({ url, database, RESP: 3, ...options }, ofPool);
  client.on("error", (error) => assert.fail(error));
  return client.connect();
}

let writer;
before(async () => {
  writer = await connected(createClient, {});
});
after(() => writer.close());

describe("node-redis, clientSideCache", () => {
  test("each write is seen, and what is kept costs no request", async () => {
    const cache = new BasicClientSideCache();
    const reader = await connected(createClient, { clientSideCache: cache });
    for (const round of range(60)) {
      const key = `cached:${round % 5}`;
      await reader.get(key);
      const wanted = await write(writer, key, round);
      await reader.ping();
      assert.equal(await reader.get(key), wanted, `round ${round}`);
      const { hitCount } = cache.stats();
      assert.equal(await reader.get(key), wanted, `round ${round}`);
      // A key that has expired is told of once more when the server removes it, perhaps between the two.
      const hits = cache.stats().hitCount - hitCount;
      assert.ok(hits === 1 || (round % 6 === 3 && hits === 0), `round ${round}: ${hits} hits`);
    }
    await reader.close();
  });

  test("readers never go back while others write, and see the last write", async () => {
    const keys = range(3).map((n) => `counted:${n}`);
    const cache = new BasicPooledClientSideCache();
    const readers = await Promise.all(
      range(2).map(() => connected(createClient, { clientSideCache: { maxEntries: 100 } })),
    );
    let writing = true;
    const reading = readers.map(async (reader) => {
      const last = keys.map(() => 0);
      while (writing) {
        for (const [at, key] of keys.entries()) {
          const value = Number(await reader.get(key));
          assert.ok(value >= last[at], `${key}: ${value} after ${last[at]}`);
          last[at] = value;
        }
        // Hits need no turn of the loop, in which messages are taken.
        await sleep(0);
      }
      await reader.ping();
      assert.deepEqual(await Promise.all(keys.map((key) => reader.get(key))), ["60", "60", "60"]);
      await reader.close();
    });
    for (const _ of range(60)) await Promise.all(keys.map((key) => writer.incr(key)));
    writing = false;
    await Promise.all(reading);

    const pool = await connected(createClientPool, {}, { clientSideCache: cache });
    await Promise.all(range(20).flatMap(() => keys.map((key) => pool.get(key))));
    await Promise.all(keys.map((key) => writer.set(key, "last")));
    for (const key of keys) {
      while ((await pool.get(key)) !== "last") await sleep(5);
    }
    // Requests under way at once may all miss, and each connection is told by itself: a hit comes when all were.
    let hit = false;
    for (let round = 0; round < 1000 && !hit; round += 1) {
      const { hitCount } = cache.stats();
      assert.equal(await pool.get(keys[0]), "last");
      hit = cache.stats().hitCount > hitCount;
      await sleep(1);
    }
    assert.ok(hit);
    await pool.close();
  });
});

// ioredis drops what RESP3 pushes, so it is told as RESP2 has it: over a second connection.
test("ioredis, a cache over REDIRECT", async () => {
  const [data, told] = range(2).map(() => new Redis(port, "127.0.0.1", { protocol: 2, db: database }));
  const id = await told.client("ID");
  const kept = new Map();
  let hits = 0;
  told.on("messageBuffer", (_, names) => {
    if (names === null) kept.clear();
    for (const name of names ?? []) kept.delete(String(name));
  });
  await told.subscribe("__redis__:invalidate");
  assert.equal(await data.client("TRACKING", "ON", "REDIRECT", id), "OK");
  const get = async (key) => {
    if (kept.has(key)) {
      hits += 1;
      return kept.get(key);
    }
    // What is told while the answer is on its way takes the place away, and then nothing is kept.
    const place = {};
    kept.set(key, place);
    const value = await data.get(key);
    if (kept.get(key) === place) kept.set(key, value);
    return value;
  };
  for (const round of range(60)) {
    const key = `redirected:${round % 5}`;
    await get(key);
    const wanted = await write(writer, key, round);
    await told.ping();
    assert.equal(await get(key), wanted, `round ${round}`);
    assert.equal(await get(key), wanted, `round ${round}`);
    assert.ok(hits > round, `round ${round}`);
  }
  await Promise.all([data.quit(), told.quit()]);
});

// With RESP3 it is told over its own connection, between its replies, which have to stay those of its requests.
test("ioredis, told what it drops", async () => {
  const data = new Redis(port, "127.0.0.1", { protocol: 3, db: database });
  assert.equal(await data.client("TRACKING", "ON", "BCAST"), "OK");
  const writing = range(300).map((n) => writer.set(`pushed:${n % 7}`, n));
  const replies = await Promise.all(range(300).map((n) => data.echo(`${n}`)));
  await Promise.all(writing);
  assert.deepEqual(replies, range(300).map(String));
  await data.quit();
});
