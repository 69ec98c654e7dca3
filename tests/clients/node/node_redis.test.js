// node-redis: the handshake with default options, documents, pipelines, and a shop that must sell each piece once.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { createClient, createClientPool, WatchError } from "redis";

import { collect, isForebay, port, range, sum } from "./common.js";

const url = `redis://127.0.0.1:${port}`;

for (const RESP of [undefined, 2, 3]) {
  describe(`node-redis, RESP ${RESP ?? "by default"}`, () => {
    const options = RESP ? { url, RESP } : { url };
    const k = (name) => `node-redis-${RESP ?? "default"}:${name}`;
    let client;

    before(async () => {
      client = createClient(options);
      client.on("error", (error) => assert.fail(error));
      await client.connect();
    });
    after(() => client.close());

    test("strings and expiry", async () => {
      assert.equal(await client.ping(), "PONG");
      assert.equal(await client.set(k("a"), "one", { expiration: { type: "EX", value: 100 } }), "OK");
      assert.equal(await client.set(k("a"), "two", { condition: "NX" }), null);
      assert.equal(await client.getRange(k("a"), 0, 1), "on");
      assert.ok([99, 100].includes(await client.ttl(k("a"))));
      assert.equal(await client.persist(k("a")), 1);
      assert.equal(await client.incrBy(k("n"), 42), 42);
      assert.equal(await client.incrByFloat(k("n"), 0.5).then(Number), 42.5);
      assert.deepEqual(await client.mGet([k("a"), k("n"), k("absent")]), ["one", "42.5", null]);
      assert.equal(await client.getDel(k("a")), "one");
      assert.equal(await client.exists(k("a")), 0);
    });

    test("a session in a hash", async () => {
      assert.equal(await client.hSet(k("session"), { user: "17", theme: "dark", seen: "1" }), 3);
      assert.deepEqual({ ...(await client.hGetAll(k("session"))) }, { user: "17", theme: "dark", seen: "1" });
      assert.equal(await client.hIncrBy(k("session"), "seen", 4), 5);
      assert.deepEqual(await client.hmGet(k("session"), ["seen", "none"]), ["5", null]);
      assert.equal(await client.hDel(k("session"), "theme"), 1);
      assert.equal(await client.expire(k("session"), 1000), 1);
    });

    test("a queue in a list, tags in a set", async () => {
      assert.equal(await client.rPush(k("queue"), range(5).map(String)), 5);
      assert.equal(await client.lPop(k("queue")), "0");
      assert.deepEqual(await client.lRange(k("queue"), 0, -1), ["1", "2", "3", "4"]);
      assert.equal(await client.sAdd(k("tags"), ["red", "green", "red"]), 2);
      assert.deepEqual([...(await client.sMembers(k("tags")))].sort(), ["green", "red"]);
      assert.equal(await client.sIsMember(k("tags"), "red"), 1);
    });

    test("commands sent at once are answered in order", async () => {
      const replies = await Promise.all(range(500).map(() => client.incr(k("counter"))));
      assert.deepEqual(replies, range(500).map((n) => n + 1));
    });

    test("scanning", async () => {
      await Promise.all(range(200).map((n) => client.set(k(`item:${n}`), "v")));
      const pages = await collect(client.scanIterator({ MATCH: k("item:*"), COUNT: 17 }));
      assert.equal(new Set(pages.flat()).size, 200);
    });

    test("errors", async () => {
      await client.rPush(k("list"), "x");
      await assert.rejects(client.get(k("list")), /^(Simple)?Error: WRONGTYPE Operation against a key/);
      await assert.rejects(client.sendCommand(["NOSUCH", "a"]), /ERR unknown command 'NOSUCH', with args beginning with/);
      assert.equal(await client.ping(), "PONG");
    });

    test("multi", async () => {
      const replies = await client.multi().set(k("m"), "1").incr(k("m")).hSet(k("mh"), "f", "v").exec();
      assert.deepEqual(replies, ["OK", 2, 1]);
      const failing = client.multi().set(k("m"), "text").incr(k("m")).exec();
      await assert.rejects(failing, isForebay ? /EXECABORT rolled back: command 2 \(INCR / : /./);
      assert.equal(await client.get(k("m")), isForebay ? "2" : "text");
    });

    test("the shop sells each piece once", async () => {
      await client.set(k("stock"), 20);
      const pool = createClientPool(options, { maximum: 6, cleanupDelay: 0 });
      await pool.connect();
      const buy = (buyer) =>
        pool.execute(async (own) => {
          for (;;) {
            await own.watch(k("stock"));
            const left = Number(await own.get(k("stock")));
            if (left <= 0) {
              await own.unwatch();
              return 0;
            }
            try {
              await own.multi().decr(k("stock")).rPush(k("orders"), String(buyer)).exec();
              return 1;
            } catch (error) {
              if (!(error instanceof WatchError)) throw error;
            }
          }
        });
      const bought = await Promise.all(range(30).map(buy));
      pool.destroy();
      assert.equal(sum(bought), 20);
      assert.equal(await client.get(k("stock")), "0");
      const orders = await client.lRange(k("orders"), 0, -1);
      assert.equal(new Set(orders).size, 20);
    });

    test("TXN", { skip: !isForebay && "an extension of forebay's" }, async () => {
      const other = await client.duplicate().connect();
      assert.equal(await client.sendCommand(["TXN", "BEGIN"]), "OK");
      await client.set(k("t"), "inside");
      assert.equal(await client.get(k("t")), "inside");
      assert.equal(await other.get(k("t")), null);
      assert.match(await client.sendCommand(["TXN", "COMMIT"]), /^OK \S+$/);
      assert.equal(await other.get(k("t")), "inside");
      await other.close();
    });
  });
}
