// ioredis: the handshake and ready check with default options, documents, pipelines, and a shop that must sell each
// piece once.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Redis } from "ioredis";

import { collect, isForebay, port, range, sum } from "./common.js";

for (const protocol of [undefined, 2, 3]) {
  describe(`ioredis, protocol ${protocol ?? "by default"}`, () => {
    const k = (name) => `ioredis-${protocol ?? "default"}:${name}`;
    const connect = () => {
      const client = protocol ? new Redis(port, "127.0.0.1", { protocol }) : new Redis(port);
      client.on("error", (error) => assert.fail(error));
      return client;
    };
    let client;

    before(() => {
      client = connect();
    });
    after(() => client.quit());

    test("strings and expiry", async () => {
      assert.equal(await client.set(k("a"), "one", "PX", 100000, "NX"), "OK");
      assert.equal(await client.set(k("a"), "two", "NX"), null);
      assert.ok((await client.pttl(k("a"))) > 90000);
      assert.equal(await client.append(k("a"), "!"), 4);
      assert.deepEqual(await client.getBuffer(k("a")), Buffer.from("one!"));
      assert.equal(await client.mset({ [k("x")]: 1, [k("y")]: 2 }), "OK");
      assert.deepEqual(await client.mget(k("x"), k("none"), k("y")), ["1", null, "2"]);
      assert.equal(await client.del(k("x"), k("y"), k("none")), 2);
    });

    test("a session in a hash, a queue in a list, tags in a set", async () => {
      assert.equal(await client.hset(k("session"), { user: "17", theme: "dark" }), 2);
      assert.deepEqual({ ...(await client.hgetall(k("session"))) }, { user: "17", theme: "dark" });
      assert.equal(await client.hincrby(k("session"), "seen", 3), 3);
      assert.equal(await client.rpush(k("queue"), ...range(5)), 5);
      assert.deepEqual(await client.lpop(k("queue"), 2), ["0", "1"]);
      assert.equal(await client.llen(k("queue")), 3);
      assert.equal(await client.sadd(k("tags"), "red", "green"), 2);
      assert.deepEqual([...(await client.smembers(k("tags")))].sort(), ["green", "red"]);
    });

    test("a pipeline", async () => {
      const pipeline = client.pipeline();
      for (const n of range(300)) pipeline.incr(k("n")).hset(k(`h${n % 7}`), `f${n}`, n);
      const replies = await pipeline.exec();
      assert.ok(replies.every(([error]) => error === null));
      assert.deepEqual(replies.filter((_, n) => n % 2 === 0).map(([, reply]) => reply), range(300).map((n) => n + 1));
    });

    test("scanning", async () => {
      await Promise.all(range(200).map((n) => client.set(k(`item:${n}`), "v")));
      const pages = await collect(client.scanStream({ match: k("item:*"), count: 17 }));
      assert.equal(new Set(pages.flat()).size, 200);
    });

    test("errors", async () => {
      await client.sadd(k("set"), "x");
      await assert.rejects(client.incr(k("set")), /ReplyError: WRONGTYPE Operation against a key/);
      await assert.rejects(client.call("NOSUCH", "a"), /ERR unknown command 'NOSUCH', with args beginning with/);
    });

    test("multi", async () => {
      const replies = await client.multi().set(k("m"), 1).incr(k("m")).get(k("m")).exec();
      assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
      const failing = client.multi().set(k("m"), "text").incr(k("m")).exec();
      if (isForebay) await assert.rejects(failing, /EXECABORT rolled back: command 2 \(INCR /);
      else assert.ok((await failing)[1][0] instanceof Error);
      assert.equal(await client.get(k("m")), isForebay ? "2" : "text");
    });

    test("the shop sells each piece once", async () => {
      await client.set(k("stock"), 20);
      const buyer = async (name) => {
        const own = connect();
        let bought = 0;
        for (;;) {
          await own.watch(k("stock"));
          if (Number(await own.get(k("stock"))) <= 0) break;
          const replies = await own.multi().decr(k("stock")).rpush(k("orders"), `${name}-${bought}`).exec();
          if (replies !== null) bought += 1;
        }
        await own.quit();
        return bought;
      };
      assert.equal(sum(await Promise.all(range(6).map(buyer))), 20);
      assert.equal(await client.get(k("stock")), "0");
      assert.equal(new Set(await client.lrange(k("orders"), 0, -1)).size, 20);
    });

    test("TXN", { skip: !isForebay && "an extension of forebay's" }, async () => {
      const other = connect();
      assert.equal(await client.call("TXN", "BEGIN"), "OK");
      await client.set(k("t"), "inside");
      assert.equal(await other.get(k("t")), null);
      assert.equal(await client.call("TXN", "ABORT"), "OK");
      assert.equal(await client.get(k("t")), null);
      await other.quit();
    });
  });
}
