"""redis-py's own client-side cache: no read is stale behind an invalidation, whatever has changed the key."""

import time
import unittest

from redis.cache import CacheConfig

from common import IS_FOREBAY, PROTOCOL, ClientTest, connect, in_threads

ROUNDS = 60


def write(writer, key, round):
    """Changes `key` by one of several ways, and says what it holds then."""
    value = f"v{round}"
    if round % 6 == 0:
        writer.mset({key: value, f"{key}:beside": value})
    elif round % 6 == 1:
        writer.pipeline(transaction=True).set(key, "between").set(key, value).execute()
    elif round % 6 == 2:
        writer.delete(key)
        return None
    elif round % 6 == 3:
        writer.set(key, value, px=20)
        time.sleep(0.05)
        return None
    elif round % 6 == 4:
        writer.flushdb()
        return None
    else:
        writer.append(key, value)
    return value


# redis-py asks for a server of version 7.4; the packaged redis-server is older.
@unittest.skipUnless(IS_FOREBAY and PROTOCOL == 3, "redis-py's cache needs RESP3 and a server of version 7.4")
class Caching(ClientTest):
    def reads_of(self, reader, key):
        """What `reader` is given behind all that it was told before, and how many requests a second read costs."""
        reader.ping()
        value = reader.get(key)
        asked = self.asked()
        self.assertEqual(reader.get(key), value)
        return value, self.asked() - asked

    def asked(self):
        return self.client.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]

    def test_each_write_is_seen_and_what_is_kept_costs_no_request(self):
        with connect(cache_config=CacheConfig(), single_connection_client=True) as reader:
            for round in range(ROUNDS):
                key = self.key(round % 5)
                reader.get(key)
                wanted = write(self.client, key, round)
                value, requests = self.reads_of(reader, key)
                self.assertEqual(value, wanted, f"round {round}")
                # redis-py keeps no absence.
                self.assertEqual(requests, 0 if wanted else 1, f"round {round}")
            self.assertGreater(reader.get_cache().size, 0)

    def test_a_hash_and_a_set_are_kept_too(self):
        with connect(cache_config=CacheConfig(), single_connection_client=True) as reader:
            h, s = self.key("h"), self.key("s")
            for round in range(10):
                self.client.hset(h, "f", round)
                self.client.sadd(s, round)
                reader.ping()
                for _ in range(2):
                    self.assertEqual(reader.hget(h, "f"), str(round))
                    self.assertEqual(len(reader.smembers(s)), round + 1)

    # One client for each thread: of a pool that threads share, one reads what another one waits for, and either hangs.
    # So it does with redis-server.
    def test_readers_never_go_back_while_others_write(self):
        keys = [self.key(n) for n in range(3)]
        self.client.mset({key: 0 for key in keys})

        def work(number):
            if number < 2:
                for _ in range(60):
                    self.client.incr(keys[number])
                    self.client.incr(keys[2])
                return
            with connect(cache_config=CacheConfig(), single_connection_client=True) as reader:
                last = [0] * len(keys)
                for _ in range(600):
                    for at, key in enumerate(keys):
                        value = int(reader.get(key))
                        self.assertGreaterEqual(value, last[at], key)
                        last[at] = value

        in_threads(5, work)
        with connect(cache_config=CacheConfig()) as reader:
            self.assertEqual([int(reader.get(key)) for key in keys], [60, 60, 120])
