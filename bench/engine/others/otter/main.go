// Otter, with the requests of bench/engine: `otter MODE THREADS ROUNDS REQUESTS`, where MODE is hit or get-or-insert.
// Zipf's law and seeds are those of src/zipf.rs and src/work.rs.
package main

import (
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

type cache = *otter.Cache[uint64, uint64]

// Keeps what was read from being dropped by the compiler.
var sink atomic.Uint64

func scattered(rank uint64) uint64 { return rank * 0x9E3779B97F4A7C15 }

func sums(keys int) []float64 {
	sums, sum := make([]float64, keys), 0.0
	for rank := range sums {
		sum += math.Pow(float64(rank+1), -0.9)
		sums[rank] = sum
	}
	return sums
}

func draw(sums []float64, count int, seed uint64) []uint64 {
	state, all := seed*0x2545F4914F6CDD1D|1, sums[len(sums)-1]
	drawn := make([]uint64, count)
	for at := range drawn {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		point := float64(state*0x2545F4914F6CDD1D>>11) / (1 << 53) * all
		rank := min(sort.SearchFloat64s(sums, point), len(sums)-1)
		drawn[at] = scattered(uint64(rank))
	}
	return drawn
}

func ask(cache cache, requests []uint64, inserts bool) int {
	hits, sum := 0, uint64(0)
	for _, key := range requests {
		if value, found := cache.GetIfPresent(key); found {
			hits++
			sum += value
		} else if inserts {
			cache.Set(key, key^0x55)
		}
	}
	sink.Add(sum)
	return hits
}

func number(at int) int {
	number, err := strconv.Atoi(os.Args[at])
	if err != nil {
		panic(err)
	}
	return number
}

func main() {
	inserts, threads, rounds, requests := os.Args[1] == "get-or-insert", number(2), number(3), number(4)
	keys, capacity := 100_000, 110_000
	if inserts {
		keys, capacity = 1_000_000, 100_000
	}
	sums := sums(keys)
	cache := otter.Must(&otter.Options[uint64, uint64]{MaximumSize: capacity})
	if inserts {
		ask(cache, draw(sums, min(4<<20, requests*8), 99), true)
	} else {
		for rank := range keys {
			key := scattered(uint64(rank))
			cache.Set(key, key^0x55)
		}
	}
	for round := range rounds {
		parts := make([][]uint64, threads)
		for thread := range parts {
			parts[thread] = draw(sums, requests, uint64(1+(round*64+threads)*64+thread))
		}
		var hits atomic.Int64
		var done sync.WaitGroup
		from := time.Now()
		for _, part := range parts {
			done.Add(1)
			go func() {
				hits.Add(int64(ask(cache, part, inserts)))
				done.Done()
			}()
		}
		done.Wait()
		asked := float64(threads * requests)
		rate, hit := asked/time.Since(from).Seconds()/1e6, float64(hits.Load())/asked
		fmt.Printf("%s, %d threads, round %d: otter %.2f Mops, %.4f hits\n", os.Args[1], threads, round, rate, hit)
	}
}
