import com.github.benmanes.caffeine.cache.Cache;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.LongAdder;

/**
 * Caffeine, with the requests of bench/engine: `Caffeine MODE THREADS ROUNDS REQUESTS`, where MODE is hit or
 * get-or-insert. Zipf's law and seeds are those of src/zipf.rs and src/work.rs. Two rounds before the first are for the
 * compiler.
 */
public final class Caffeine {
    private static final int WARM_ROUNDS = 2;

    /** Keeps what was read from being dropped by the compiler. */
    private static final LongAdder SINK = new LongAdder();

    private static long scattered(long rank) {
        return rank * 0x9E3779B97F4A7C15L;
    }

    private static double[] sums(int keys) {
        double[] sums = new double[keys];
        double sum = 0;
        for (int rank = 0; rank < keys; rank++) {
            sum += Math.pow(rank + 1, -0.9);
            sums[rank] = sum;
        }
        return sums;
    }

    private static long[] draw(double[] sums, int count, long seed) {
        long state = seed * 0x2545F4914F6CDD1DL | 1;
        double all = sums[sums.length - 1];
        long[] drawn = new long[count];
        for (int at = 0; at < count; at++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
            double point = (state * 0x2545F4914F6CDD1DL >>> 11) / (double) (1L << 53) * all;
            int found = Arrays.binarySearch(sums, point);
            drawn[at] = scattered(Math.min(found < 0 ? -found - 1 : found, sums.length - 1));
        }
        return drawn;
    }

    private static long ask(Cache<Long, Long> cache, long[] requests, boolean inserts) {
        long hits = 0;
        long sum = 0;
        for (long key : requests) {
            Long value = cache.getIfPresent(key);
            if (value != null) {
                hits++;
                sum += value;
            } else if (inserts) {
                cache.put(key, key ^ 0x55);
            }
        }
        SINK.add(sum);
        return hits;
    }

    public static void main(String[] arguments) throws Exception {
        boolean inserts = arguments[0].equals("get-or-insert");
        int threads = Integer.parseInt(arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        int requests = Integer.parseInt(arguments[3]);
        double[] sums = sums(inserts ? 1_000_000 : 100_000);
        Cache<Long, Long> cache = com.github.benmanes.caffeine.cache.Caffeine.newBuilder()
            .maximumSize(inserts ? 100_000 : 110_000)
            .build();
        if (inserts) {
            ask(cache, draw(sums, Math.min(4 << 20, requests * 8), 99), true);
        } else {
            for (long rank = 0; rank < sums.length; rank++) {
                cache.put(scattered(rank), scattered(rank) ^ 0x55);
            }
        }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        for (int round = -WARM_ROUNDS; round < rounds; round++) {
            List<Callable<Long>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                long[] part = draw(sums, requests, 1 + (round * 64L + threads) * 64 + thread);
                parts.add(() -> ask(cache, part, inserts));
            }
            long from = System.nanoTime();
            long hits = 0;
            for (Future<Long> part : pool.invokeAll(parts)) {
                hits += part.get();
            }
            double seconds = (System.nanoTime() - from) / 1e9;
            double asked = (double) threads * requests;
            if (round >= 0) {
                System.out.printf("%s, %d threads, round %d: caffeine %.2f Mops, %.4f hits%n", arguments[0], threads,
                    round, asked / seconds / 1e6, hits / asked);
            }
        }
        pool.shutdown();
    }
}
