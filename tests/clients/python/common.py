"""What the tests share: where the server is, and connections to it as an application would open them."""

import os
import threading
import unittest

import redis

PORT = int(os.environ["FOREBAY_CLIENTS_PORT"])
PROTOCOL = int(os.environ["FOREBAY_CLIENTS_PROTOCOL"])
IS_FOREBAY = os.environ["FOREBAY_CLIENTS_SERVER"] == "forebay"


def connect(**options):
    """A client with text replies, in the protocol that this run is about."""
    options = {"host": "127.0.0.1", "port": PORT, "protocol": PROTOCOL, "decode_responses": True} | options
    return redis.Redis(**options)


def in_threads(count, work):
    """Runs `work(number)` in `count` threads at once and returns what each returned, or raises what one raised."""
    results, errors, start = [None] * count, [], threading.Barrier(count)

    def run(number):
        try:
            start.wait(30)
            results[number] = work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class ClientTest(unittest.TestCase):
    """A test with a connection of its own; keys begin with the test's name, so that no two tests meet."""

    def setUp(self):
        self.client = connect()
        self.addCleanup(self.client.close)
        self.prefix = self.id().rsplit(".", 1)[1]

    def key(self, name):
        return f"{self.prefix}:{name}"


only_forebay = unittest.skipUnless(IS_FOREBAY, "an extension of forebay's")
