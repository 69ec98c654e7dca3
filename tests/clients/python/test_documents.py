"""Strings, hashes, lists, sets, expiry, scans and errors, as redis-py's own methods send and read them."""

import os
import time

import redis

from common import IS_FOREBAY, PORT, PROTOCOL, ClientTest, connect


class Connecting(ClientTest):
    def test_default_options(self):
        with redis.Redis(port=PORT) as client:
            self.assertTrue(client.ping())
            self.assertTrue(client.set(self.key("a"), b"\x00\xff"))
            self.assertEqual(client.get(self.key("a")), b"\x00\xff")
            self.assertIsNone(client.get(self.key("absent")))

    def test_named_connection(self):
        with connect(client_name="shop-worker") as client:
            self.assertEqual(client.client_getname(), "shop-worker")
            self.assertGreater(client.client_id(), 0)
            if IS_FOREBAY:  # redis-server 7.0 does not know these fields yet
                me = client.client_info()
                self.assertEqual((me["lib-name"].split("(")[0], int(me["resp"])), ("redis-py", PROTOCOL))

    def test_databases_are_apart(self):
        with connect(db=3) as three, connect(db=4) as four:
            three.set("same", "three")
            four.set("same", "four")
            self.assertEqual((three.get("same"), four.get("same")), ("three", "four"))
            self.assertTrue(three.flushdb())
            self.assertEqual((three.dbsize(), four.get("same")), (0, "four"))

    def test_info(self):
        info = self.client.info()
        self.assertEqual((info["loading"], info["role"], info["cluster_enabled"]), (0, "master", 0))
        self.assertRegex(info["redis_version"], r"^\d+\.\d+\.\d+$")

    def test_asyncio(self):
        import asyncio

        async def work():
            async with redis.asyncio.Redis(port=PORT, protocol=PROTOCOL, decode_responses=True) as client:
                await asyncio.gather(*(client.incr(self.key("n")) for _ in range(50)))
                return await client.get(self.key("n"))

        self.assertEqual(asyncio.run(work()), "50")


class Strings(ClientTest):
    def test_set_and_get(self):
        key = self.key("k")
        self.assertTrue(self.client.set(key, "one", nx=True))
        self.assertIsNone(self.client.set(key, "two", nx=True))
        self.assertEqual(self.client.set(key, "three", xx=True, get=True), "one")
        self.assertEqual(self.client.append(key, "!"), 6)
        self.assertEqual(self.client.strlen(key), 6)
        self.assertEqual(self.client.getrange(key, 0, 4), "three")
        self.assertEqual(self.client.setrange(key, 2, "aa"), 6)
        self.assertEqual(self.client.getdel(key), "thaae!")
        self.assertEqual(self.client.exists(key), 0)

    def test_many(self):
        keys = [self.key(n) for n in range(100)]
        self.assertTrue(self.client.mset({key: key.upper() for key in keys}))
        self.assertEqual(self.client.mget(keys + [self.key("absent")]), [key.upper() for key in keys] + [None])
        self.assertFalse(self.client.msetnx({keys[0]: "x", self.key("new"): "y"}))
        self.assertEqual(self.client.unlink(*keys[:40]), 40)
        self.assertEqual(self.client.delete(*keys), 60)

    def test_numbers(self):
        key = self.key("n")
        self.assertEqual(self.client.incr(key), 1)
        self.assertEqual(self.client.incrby(key, 41), 42)
        self.assertEqual(self.client.decrby(key, 50), -8)
        self.assertEqual(self.client.incrbyfloat(key, 0.5), -7.5)

    def test_large_binary_value(self):
        value = os.urandom(4 << 20)
        with connect(decode_responses=False) as client:
            client.set(self.key("blob"), value)
            self.assertEqual(client.get(self.key("blob")), value)


class Hashes(ClientTest):
    def test_session(self):
        key = self.key("session")
        fields = {"user": "17", "theme": "dark", "seen": "0"}
        self.assertEqual(self.client.hset(key, mapping=fields), 3)
        self.assertEqual(self.client.hgetall(key), fields)
        self.assertEqual(self.client.hmget(key, "user", "none"), ["17", None])
        self.assertEqual(self.client.hincrby(key, "seen", 5), 5)
        self.assertEqual(self.client.hincrbyfloat(key, "seen", 0.25), 5.25)
        self.assertTrue(self.client.hexists(key, "theme"))
        self.assertEqual(self.client.hdel(key, "theme", "none"), 1)
        self.assertEqual(sorted(self.client.hkeys(key)), ["seen", "user"])
        self.assertEqual(sorted(self.client.hvals(key)), ["17", "5.25"])
        self.assertEqual(self.client.hsetnx(key, "user", "18"), 0)
        self.assertEqual((self.client.hlen(key), self.client.hstrlen(key, "user")), (2, 2))

    def test_scan(self):
        key = self.key("wide")
        fields = {f"field:{n}": str(n) for n in range(1000)}
        self.client.hset(key, mapping=fields)
        self.assertEqual(dict(self.client.hscan_iter(key, count=50)), fields)
        tens = dict(self.client.hscan_iter(key, match="field:1?"))
        self.assertEqual(sorted(tens), [f"field:1{n}" for n in range(10)])
        self.assertIn(self.client.hrandfield(key), fields)


class Lists(ClientTest):
    def test_queue(self):
        key = self.key("queue")
        self.assertEqual(self.client.rpush(key, *(f"job:{n}" for n in range(10))), 10)
        self.assertEqual(self.client.lpush(key, "urgent"), 11)
        self.assertEqual(self.client.lpop(key), "urgent")
        self.assertEqual(self.client.lpop(key, 3), ["job:0", "job:1", "job:2"])
        self.assertEqual(self.client.rpop(key), "job:9")
        self.assertEqual(self.client.lrange(key, 0, -1), [f"job:{n}" for n in range(3, 9)])
        self.assertEqual(self.client.lindex(key, -1), "job:8")
        self.assertEqual(self.client.lrem(key, 1, "job:5"), 1)
        self.assertEqual(self.client.llen(key), 5)
        self.client.lpop(key, 5)
        self.assertEqual(self.client.exists(key), 0)
        self.assertIsNone(self.client.lpop(key))


class Sets(ClientTest):
    def test_tags(self):
        key = self.key("tags")
        self.assertEqual(self.client.sadd(key, "red", "green", "red"), 2)
        self.assertEqual(self.client.smembers(key), {"red", "green"})
        self.assertEqual(self.client.sismember(key, "red"), 1)
        self.assertEqual(self.client.smismember(key, ["red", "blue"]), [1, 0])
        self.assertEqual(self.client.srem(key, "red", "blue"), 1)
        self.assertEqual(self.client.scard(key), 1)


class Keys(ClientTest):
    def test_expiry(self):
        key = self.key("k")
        self.client.set(key, "v", ex=100)
        self.assertIn(self.client.ttl(key), (99, 100))
        self.assertTrue(self.client.persist(key))
        self.assertEqual(self.client.ttl(key), -1)
        at = int(time.time()) + 1000
        self.assertTrue(self.client.expireat(key, at))
        self.assertEqual(self.client.expiretime(key), at)
        self.assertFalse(self.client.expire(key, 5000, lt=True))
        self.assertTrue(self.client.expire(key, 5000, gt=True))
        self.assertEqual(self.client.getex(key, persist=True), "v")
        self.assertEqual(self.client.pttl(key), -1)
        self.assertEqual(self.client.pttl(self.key("absent")), -2)

    def test_expired_is_gone(self):
        self.client.set(self.key("k"), "v", px=20)
        self.client.hset(self.key("h"), "f", "v")
        self.client.pexpire(self.key("h"), 20)
        time.sleep(0.05)
        self.assertIsNone(self.client.get(self.key("k")))
        self.assertEqual(self.client.hgetall(self.key("h")), {})
        self.assertEqual(self.client.exists(self.key("k"), self.key("h")), 0)

    def test_types_and_renames(self):
        self.client.set(self.key("s"), "v")
        self.client.hset(self.key("h"), "f", "v")
        self.client.rpush(self.key("l"), "v")
        self.client.sadd(self.key("set"), "v")
        types = [self.client.type(self.key(name)) for name in ("s", "h", "l", "set", "absent")]
        self.assertEqual(types, ["string", "hash", "list", "set", "none"])
        self.assertTrue(self.client.rename(self.key("s"), self.key("t")))
        self.assertFalse(self.client.renamenx(self.key("t"), self.key("h")))
        self.assertTrue(self.client.copy(self.key("t"), self.key("u")))
        self.assertEqual(self.client.mget(self.key("s"), self.key("t"), self.key("u")), [None, "v", "v"])
        self.assertEqual(self.client.touch(self.key("t"), self.key("u"), self.key("s")), 2)

    def test_scan_iter_finds_every_key(self):
        expected = {self.key(f"item:{n}") for n in range(500)}
        pipeline = self.client.pipeline(transaction=False)
        for key in expected:
            pipeline.set(key, "v")
        self.assertEqual(pipeline.execute(), [True] * 500)
        self.assertEqual(set(self.client.scan_iter(match=self.key("item:*"), count=37)), expected)
        self.assertEqual(set(self.client.keys(self.key("item:49?"))), {self.key(f"item:49{n}") for n in range(10)})


class Errors(ClientTest):
    def test_wrong_type(self):
        self.client.rpush(self.key("list"), "x")
        for work in (self.client.get, self.client.incr, self.client.hgetall, self.client.smembers):
            with self.assertRaisesRegex(redis.ResponseError, "^WRONGTYPE Operation against a key"):
                work(self.key("list"))

    def test_texts(self):
        self.client.set(self.key("s"), "text")
        cases = [
            (("INCR", self.key("s")), "^value is not an integer or out of range$"),
            (("NOSUCH", "a", "b"), r"^unknown command 'NOSUCH', with args beginning with: 'a' 'b' ?$"),
            (("GET",), "^wrong number of arguments for 'get' command$"),
            (("SET", self.key("s"), "v", "BAD"), "^syntax error$"),
            (("SETEX", self.key("s"), 0, "v"), "^invalid expire time in 'setex' command$"),
            (("SELECT", 99), "^DB index is out of range$"),
            (("RENAME", self.key("absent"), self.key("t")), "^no such key$"),
            (("EXEC",), "^EXEC without MULTI$"),
        ]
        for command, text in cases:
            with self.subTest(command=command[0]), self.assertRaisesRegex(redis.ResponseError, text):
                self.client.execute_command(*command)
        self.assertTrue(self.client.ping())

    def test_protocol_four(self):
        with self.assertRaisesRegex(redis.ResponseError, "^NOPROTO unsupported protocol version$"):
            self.client.execute_command("HELLO", 4)
