"""libCacheSim, asked line by line on the standard input.

speed POLICY OBJECTS FILE   -> hits, requests, seconds of CPU: one replay of a file
memory POLICY OBJECTS FILE  -> objects kept, bytes of the process' own memory that a replay added

A file is in libCacheSim's own oracleGeneral format, not compressed, so that it is mapped into memory. The table of keys
is given as many buckets as there will be objects: with the package's default (2^24) setting it up takes most of the
time on these traces, and with fewer it would have to grow.
"""

import math
import sys
import time

import libcachesim as lib

POLICIES = {
    "lru": lib.LRU,
    "fifo": lib.FIFO,
    "clock": lib.Clock,
    "s3-fifo": lib.S3FIFO,
    "sieve": lib.Sieve,
    "w-tinylfu": lib.WTinyLFU,
    "arc": lib.ARC,
}


def open_trace(path):
    every_object_weighs_one = lib.ReaderInitParam(ignore_obj_size=True)
    return lib.TraceReader(path, lib.TraceType.ORACLE_GENERAL_TRACE, every_object_weighs_one)


def make(policy, objects):
    # 10 is the least that all of its policies take.
    hashpower = max(10, math.ceil(math.log2(objects)))
    return POLICIES[policy](cache_size=objects, hashpower=hashpower)


def anonymous_bytes():
    """What the process itself occupies, without what is mapped from files."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def speed(policy, objects, path):
    reader = open_trace(path)
    requests = reader.get_num_of_req()
    reader.reset()
    cpu = time.process_time()
    cache = make(policy, objects)
    miss_ratio, _ = cache.process_trace(reader)
    cpu = time.process_time() - cpu
    return round((1 - miss_ratio) * requests), requests, cpu


def memory(policy, objects, path):
    reader = open_trace(path)
    before = anonymous_bytes()
    cache = make(policy, objects)
    cache.process_trace(reader)
    return cache._cache.get_n_obj(), anonymous_bytes() - before


def main():
    print(f"libCacheSim {lib.__version__}", flush=True)
    tasks = {"speed": speed, "memory": memory}
    for line in sys.stdin:
        task, policy, objects, path = line.rstrip("\n").split(" ", 3)
        print(*tasks[task](policy, int(objects), path), flush=True)


main()
