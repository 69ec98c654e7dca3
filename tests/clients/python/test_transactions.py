"""Pipelines, MULTI/EXEC with WATCH, and TXN, by redis-py's own means, with many clients at once."""

import redis

from common import IS_FOREBAY, ClientTest, connect, in_threads, only_forebay


class Pipelines(ClientTest):
    def test_plain(self):
        pipeline = self.client.pipeline(transaction=False)
        for n in range(1000):
            pipeline.hset(self.key(n % 10), f"f{n}", n)
            pipeline.incr(self.key("n"))
        self.assertEqual(pipeline.execute()[1::2], list(range(1, 1001)))
        self.assertEqual([self.client.hlen(self.key(n)) for n in range(10)], [100] * 10)

    def test_an_error_stops_no_other(self):
        pipeline = self.client.pipeline(transaction=False)
        pipeline.set(self.key("a"), "text").incr(self.key("a")).set(self.key("b"), "after")
        first, error, last = pipeline.execute(raise_on_error=False)
        self.assertEqual((first, last), (True, True))
        self.assertIsInstance(error, redis.ResponseError)
        self.assertEqual(self.client.get(self.key("b")), "after")

    def test_transaction(self):
        pipeline = self.client.pipeline(transaction=True)
        pipeline.set(self.key("a"), 1).incr(self.key("a")).get(self.key("a")).hset(self.key("h"), "f", "v")
        pipeline.hgetall(self.key("h")).smembers(self.key("none"))
        self.assertEqual(pipeline.execute(), [True, 2, "2", 1, {"f": "v"}, set()])

    def test_a_command_that_fails_in_exec(self):
        pipeline = self.client.pipeline(transaction=True)
        pipeline.set(self.key("a"), "text").incr(self.key("a")).set(self.key("b"), "v")
        if IS_FOREBAY:
            with self.assertRaisesRegex(redis.exceptions.ExecAbortError, r"^rolled back: command 2 \(INCRBY "):
                pipeline.execute()
            self.assertEqual(self.client.exists(self.key("a"), self.key("b")), 0)
        else:
            with self.assertRaises(redis.ResponseError):
                pipeline.execute()
            self.assertEqual(self.client.exists(self.key("a"), self.key("b")), 2)

    def test_a_command_refused_while_queued(self):
        pipeline = self.client.pipeline(transaction=True)
        pipeline.set(self.key("a"), "v").execute_command("GET")
        with self.assertRaisesRegex(redis.ResponseError, "wrong number of arguments"):
            pipeline.execute()
        self.assertEqual(self.client.exists(self.key("a")), 0)


class Watching(ClientTest):
    def test_a_change_in_between(self):
        key = self.key("k")
        for before in ("there", None):
            self.client.delete(key)
            if before:
                self.client.set(key, before)
            with self.client.pipeline() as pipeline:
                pipeline.watch(key)
                self.assertEqual(pipeline.get(key), before)
                self.client.set(key, "other")
                pipeline.multi()
                pipeline.set(key, "mine")
                with self.assertRaises(redis.WatchError):
                    pipeline.execute()
            self.assertEqual(self.client.get(key), "other")

    def test_no_change_and_unwatch(self):
        key = self.key("k")
        with self.client.pipeline() as pipeline:
            pipeline.watch(key)
            pipeline.unwatch()
            self.client.set(key, "other")
            pipeline.multi()
            self.assertEqual(pipeline.set(key, "mine").execute(), [True])
        self.assertEqual(self.client.get(key), "mine")

    def test_own_write_after_watch_counts(self):
        key = self.key("k")
        with self.client.pipeline() as pipeline:
            pipeline.watch(key)
            pipeline.set(key, "own, at once")
            pipeline.multi()
            pipeline.set(key, "queued")
            with self.assertRaises(redis.WatchError):
                pipeline.execute()

    def test_shop_checkout(self):
        """Eight buyers want a hundred pieces of which there are forty: each is sold once, and the books agree."""
        stock, orders, sold = self.key("stock"), self.key("orders"), self.key("sold")
        self.client.set(stock, 40)

        def buy(buyer):
            bought = 0
            with connect() as client:
                for attempt in range(13):
                    def checkout(pipeline):
                        left = int(pipeline.get(stock))
                        pipeline.multi()
                        if left > 0:
                            pipeline.decr(stock)
                            pipeline.rpush(orders, f"{buyer}-{attempt}")
                            pipeline.hincrby(sold, f"buyer:{buyer}", 1)
                        return left > 0

                    bought += client.transaction(checkout, stock, value_from_callable=True)
            return bought

        bought = in_threads(8, buy)
        self.assertEqual(sum(bought), 40)
        self.assertEqual(self.client.get(stock), "0")
        placed = self.client.lrange(orders, 0, -1)
        self.assertEqual((len(placed), len(set(placed))), (40, 40))
        expected = {f"buyer:{buyer}": str(count) for buyer, count in enumerate(bought) if count}
        self.assertEqual(self.client.hgetall(sold), expected)

    def test_transfers_keep_the_sum(self):
        accounts = [self.key(n) for n in range(4)]
        self.client.mset({account: 100 for account in accounts})

        def transfer(number):
            with connect() as client:
                for n in range(10):
                    source, target = accounts[(number + n) % 4], accounts[(number + 2 * n + 1) % 4]
                    if source != target:
                        client.pipeline().decrby(source, 7).incrby(target, 7).execute()
                    seen = client.pipeline().mget(accounts).execute()[0]
                    self.assertEqual(sum(map(int, seen)), 400)

        in_threads(6, transfer)
        self.assertEqual(sum(map(int, self.client.mget(accounts))), 400)

    def test_counter(self):
        def count(_):
            with connect() as client:
                return [client.incr(self.key("n")) for _ in range(50)]

        seen = sorted(number for numbers in in_threads(8, count) for number in numbers)
        self.assertEqual(seen, list(range(1, 401)))


@only_forebay
class Interactive(ClientTest):
    """TXN: reads inside. It needs one connection throughout, which redis-py gives with `single_connection_client`."""

    def test_commit_and_abort(self):
        key = self.key("k")
        with connect(single_connection_client=True) as client:
            self.assertIn(client.execute_command("TXN", "BEGIN"), ("OK", b"OK"))
            client.set(key, "inside")
            self.assertEqual(client.get(key), "inside")
            self.assertIsNone(self.client.get(key))
            client.execute_command("TXN", "ABORT")
            self.assertIsNone(client.get(key))
            client.execute_command("TXN", "BEGIN", "TYPE", "checkout")
            client.set(key, "kept")
            client.execute_command("TXN", "STEP", "stock")
            client.hset(self.key("h"), mapping={"a": 1})
            self.assertRegex(str(client.execute_command("TXN", "COMMIT")), r"^OK \S+$")
        self.assertEqual((self.client.get(key), self.client.hgetall(self.key("h"))), ("kept", {"a": "1"}))

    def test_a_dropped_connection_leaves_no_trace(self):
        key = self.key("k")
        client = connect(single_connection_client=True)
        client.execute_command("TXN", "BEGIN")
        client.set(key, "never")
        client.close()
        self.client.set(key, "next")
        self.assertEqual(self.client.get(key), "next")

    def test_read_then_write_loses_no_update(self):
        key = self.key("n")
        self.client.set(key, 0)

        def add(_):
            retries = 0
            with connect(single_connection_client=True) as client:
                for _ in range(5):
                    while True:
                        client.execute_command("TXN", "BEGIN")
                        try:
                            client.set(key, int(client.get(key)) + 1)
                            client.execute_command("TXN", "COMMIT")
                            break
                        except redis.ResponseError as error:
                            self.assertRegex(str(error), "^TX(CONFLICT|ABORTED)")
                            try:
                                client.execute_command("TXN", "ABORT")
                            except redis.ResponseError as ended:
                                self.assertIn("without TXN BEGIN", str(ended))
                            retries += 1
            return retries

        in_threads(6, add)
        self.assertEqual(self.client.get(key), "30")
