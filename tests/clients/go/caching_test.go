package clients

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// caching is a client that keeps what it reads.
type caching struct {
	// get is given a key's value, "" for an absent one, and whether it was kept.
	get func(key string) (value string, kept bool, err error)
	// settle returns when what the client was told is heard.
	settle func() error
}

// cachingGoRedis is go-redis with its cache, over one connection.
func cachingGoRedis(t *testing.T) caching {
	client := redis.NewClient(&redis.Options{
		Addr: address(), Protocol: 3, PoolSize: 1, ClientSideCacheConfig: &redis.ClientSideCacheConfig{MaxEntries: 1024},
	})
	t.Cleanup(func() { client.Close() })
	get := func(key string) (string, bool, error) {
		hits := client.CSCStats().Hits
		value, err := client.Get(ctx, key).Result()
		if err == redis.Nil {
			err = nil
		}
		return value, client.CSCStats().Hits > hits, err
	}
	return caching{get, func() error { return client.Ping(ctx).Err() }}
}

// cachingRueidis is rueidis, which keeps what DoCache reads, over one connection.
func cachingRueidis(t *testing.T) caching {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address()}, PipelineMultiplex: -1})
	must(t, err)
	t.Cleanup(client.Close)
	get := func(key string) (string, bool, error) {
		reply := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Minute)
		value, err := reply.ToString()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return value, reply.IsCacheHit(), err
	}
	return caching{get, func() error { return client.Do(ctx, client.B().Ping().Build()).Error() }}
}

var cachingClients = map[string]func(*testing.T) caching{"go-redis": cachingGoRedis, "rueidis": cachingRueidis}

func address() string {
	return "127.0.0.1:" + os.Getenv("FOREBAY_CLIENTS_PORT")
}

// expires is the round in six whose key expires.
const expires = 3

// change changes the key by one of several ways, and says what it holds then.
func change(writer *redis.Client, key string, round int) (string, error) {
	value := fmt.Sprintf("v%d", round)
	switch round % 6 {
	case 0:
		return value, writer.MSet(ctx, key, value, key+":beside", value).Err()
	case 1:
		_, err := writer.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, key, "between", 0)
			return pipe.Set(ctx, key, value, 0).Err()
		})
		return value, err
	case 2:
		return "", writer.Del(ctx, key).Err()
	case expires:
		err := writer.Do(ctx, "SET", key, value, "PX", 20).Err()
		time.Sleep(50 * time.Millisecond)
		return "", err
	case 4:
		return "", writer.FlushDB(ctx).Err()
	default:
		return value, writer.Append(ctx, key, value).Err()
	}
}

// Each write is seen behind an invalidation, and what is kept costs no request.
func TestCachingSeesEachWrite(t *testing.T) {
	writer := connect(t, 3)
	for name, open := range cachingClients {
		t.Run(name, func(t *testing.T) {
			reader := open(t)
			for round := range 60 {
				key := fmt.Sprintf("%s:%d", t.Name(), round%5)
				_, _, err := reader.get(key)
				must(t, err)
				want, err := change(writer, key, round)
				must(t, err)
				must(t, reader.settle())
				for _, kept := range []bool{false, true} {
					value, hit, err := reader.get(key)
					must(t, err)
					// A key that has expired is told of once more when the server removes it, perhaps between the two.
					if value != want || (kept && !hit && round%6 != expires) {
						t.Fatalf("round %d: got %q, kept %v, want %q", round, value, hit, want)
					}
				}
			}
		})
	}
}

// Readers never go back while others write, and see the last write.
func TestCachingNeverGoesBack(t *testing.T) {
	writer := connect(t, 3)
	for name, open := range cachingClients {
		t.Run(name, func(t *testing.T) {
			var readers sync.WaitGroup
			writing, written := context.WithCancel(ctx)
			defer written()
			keys := []string{t.Name() + ":a", t.Name() + ":b"}
			for range 3 {
				reader := open(t)
				readers.Go(func() {
					last := make([]int, len(keys))
					read := func(at int) error {
						text, _, err := reader.get(keys[at])
						value := 0
						if err == nil && text != "" {
							_, err = fmt.Sscan(text, &value)
						}
						if err == nil && value < last[at] {
							err = fmt.Errorf("%s: %d after %d", keys[at], value, last[at])
						}
						last[at] = value
						return err
					}
					for writing.Err() == nil {
						for at := range keys {
							if err := read(at); err != nil {
								t.Error(err)
								return
							}
						}
					}
					if err := reader.settle(); err != nil {
						t.Error(err)
					}
					for at := range keys {
						if err := read(at); err != nil || last[at] != 60 {
							t.Errorf("%s: %d at the end, %v", keys[at], last[at], err)
						}
					}
				})
			}
			for range 60 {
				for _, key := range keys {
					must(t, writer.Incr(ctx, key).Err())
				}
			}
			written()
			readers.Wait()
		})
	}
}
