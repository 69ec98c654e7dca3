// oneTBB's concurrent_lru_cache, asked as bench/engine/src/thesis asks the other caches: each thread replays all
// requests, from an empty cache. Arguments: a file of little-endian 64-bit keys, the capacity, the number of threads.
// It prints the seconds from the first thread's begin to the last one's end, and the number of hits.
#define TBB_PREVIEW_CONCURRENT_LRU_CACHE 1
#include <tbb/concurrent_lru_cache.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static thread_local std::uint64_t missed = 0;

// It is called for a key that is not there.
static std::uint64_t value(std::uint64_t key) {
    ++missed;
    return key ^ 0x55;
}

int main(int count, char** arguments) {
    if (count != 4) {
        std::fprintf(stderr, "arguments: file capacity threads\n");
        return 2;
    }
    std::FILE* file = std::fopen(arguments[1], "rb");
    if (!file) {
        std::perror(arguments[1]);
        return 1;
    }
    std::vector<std::uint64_t> requests;
    std::uint64_t key;
    while (std::fread(&key, sizeof key, 1, file) == 1) requests.push_back(key);
    std::fclose(file);
    const std::size_t capacity = std::strtoull(arguments[2], nullptr, 10);
    const unsigned threads = std::strtoul(arguments[3], nullptr, 10);

    using Clock = std::chrono::steady_clock;
    tbb::concurrent_lru_cache<std::uint64_t, std::uint64_t> cache(value, capacity);
    std::atomic<unsigned> waiting{threads};
    std::vector<Clock::time_point> from(threads), to(threads);
    std::vector<std::uint64_t> hits(threads), sums(threads);
    std::vector<std::thread> workers;
    for (unsigned at = 0; at < threads; ++at) {
        workers.emplace_back([&, at] {
            --waiting;
            while (waiting.load() != 0) std::this_thread::yield();
            from[at] = Clock::now();
            std::uint64_t sum = 0;
            for (std::uint64_t asked : requests) {
                auto handle = cache[asked];
                sum += handle.value();
            }
            to[at] = Clock::now();
            sums[at] = sum;
            hits[at] = requests.size() - missed;
        });
    }
    std::uint64_t all = 0;
    for (unsigned at = 0; at < threads; ++at) {
        workers[at].join();
        all += hits[at];
    }
    const auto took = *std::max_element(to.begin(), to.end()) - *std::min_element(from.begin(), from.end());
    std::printf("%.9f %llu\n", std::chrono::duration<double>(took).count(), static_cast<unsigned long long>(all));
}
