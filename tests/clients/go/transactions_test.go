package clients

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestPipelines(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		var last *redis.IntCmd
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 500 {
				last = pipe.Incr(ctx, prefix+"n")
			}
			return nil
		})
		must(t, err)
		check(t, "INCR", int64(500))(last.Result())

		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, prefix+"a", 1, 0)
			pipe.Incr(ctx, prefix+"a")
			pipe.HSet(ctx, prefix+"h", "f", "v")
			pipe.HGetAll(ctx, prefix+"h")
			return nil
		})
		must(t, err)
		check(t, "INCR in MULTI", int64(2))(replies[1].(*redis.IntCmd).Result())
		check(t, "HGETALL in MULTI", map[string]string{"f": "v"})(replies[3].(*redis.MapStringStringCmd).Result())
	})
}

func TestACommandThatFailsInExec(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, prefix+"a", "text", 0)
			pipe.Incr(ctx, prefix+"a")
			return nil
		})
		if err == nil {
			t.Fatal("no error")
		}
		left := int64(1)
		if isForebay {
			left = 0
			if !strings.HasPrefix(err.Error(), "EXECABORT rolled back: command 2 (INCR ") {
				t.Fatal(err)
			}
		}
		check(t, "EXISTS", left)(client.Exists(ctx, prefix+"a").Result())
	})
}

// Eight buyers want more pieces than there are.
func TestShopSellsEachPieceOnce(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		stock, orders := prefix+"stock", prefix+"orders"
		must(t, client.Set(ctx, stock, 30, 0).Err())
		soldOut := errors.New("sold out")
		var buyers sync.WaitGroup
		failed := make(chan error, 8)
		for buyer := range 8 {
			buyers.Go(func() {
				for piece := 0; ; {
					err := client.Watch(ctx, func(tx *redis.Tx) error {
						left, err := tx.Get(ctx, stock).Int()
						if err != nil {
							return err
						}
						if left <= 0 {
							return soldOut
						}
						_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
							pipe.Decr(ctx, stock)
							pipe.RPush(ctx, orders, fmt.Sprintf("%d-%d", buyer, piece))
							return nil
						})
						return err
					}, stock)
					switch {
					case err == nil:
						piece++
					case errors.Is(err, soldOut):
						return
					case !errors.Is(err, redis.TxFailedErr):
						failed <- err
						return
					}
				}
			})
		}
		buyers.Wait()
		close(failed)
		for err := range failed {
			t.Error(err)
		}
		check(t, "stock", "0")(client.Get(ctx, stock).Result())
		placed := map[string]bool{}
		for _, order := range client.LRange(ctx, orders, 0, -1).Val() {
			placed[order] = true
		}
		check(t, "orders", 30)(len(placed), nil)
		check(t, "LLEN", int64(30))(client.LLen(ctx, orders).Result())
	})
}

func TestTxn(t *testing.T) {
	if !isForebay {
		t.Skip("an extension of forebay's")
	}
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		conn := client.Conn()
		defer conn.Close()
		must(t, conn.Do(ctx, "TXN", "BEGIN").Err())
		must(t, conn.Set(ctx, prefix+"k", "inside", 0).Err())
		check(t, "GET inside", "inside")(conn.Get(ctx, prefix+"k").Result())
		checkNil(t, "GET outside", client.Get(ctx, prefix+"k").Err())
		committed, err := conn.Do(ctx, "TXN", "COMMIT").Text()
		must(t, err)
		if !strings.HasPrefix(committed, "OK ") {
			t.Fatal(committed)
		}
		check(t, "GET after", "inside")(client.Get(ctx, prefix+"k").Result())
	})
}
