package clients

import (
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestStrings(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		key := prefix + "k"
		check(t, "PING", "PONG")(client.Ping(ctx).Result())
		check(t, "SET", "OK")(client.Set(ctx, key, "one", 100*time.Second).Result())
		check(t, "SETNX", false)(client.SetNX(ctx, key, "two", 0).Result())
		if ttl := client.TTL(ctx, key).Val(); ttl < 90*time.Second || ttl > 100*time.Second {
			t.Fatalf("TTL: %v", ttl)
		}
		check(t, "PERSIST", true)(client.Persist(ctx, key).Result())
		check(t, "APPEND", int64(4))(client.Append(ctx, key, "!").Result())
		check(t, "GETRANGE", "ne!")(client.GetRange(ctx, key, 1, -1).Result())
		check(t, "INCRBY", int64(42))(client.IncrBy(ctx, prefix+"n", 42).Result())
		check(t, "INCRBYFLOAT", 42.5)(client.IncrByFloat(ctx, prefix+"n", 0.5).Result())
		check(t, "MGET", []any{"one!", nil, "42.5"})(client.MGet(ctx, key, prefix+"none", prefix+"n").Result())
		check(t, "GETDEL", "one!")(client.GetDel(ctx, key).Result())
		checkNil(t, "GET", client.Get(ctx, key).Err())
	})
}

func TestHashesListsAndSets(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		session, queue, tags := prefix+"session", prefix+"queue", prefix+"tags"
		check(t, "HSET", int64(2))(client.HSet(ctx, session, "user", "17", "seen", 1).Result())
		check(t, "HINCRBY", int64(5))(client.HIncrBy(ctx, session, "seen", 4).Result())
		check(t, "HGETALL", map[string]string{"user": "17", "seen": "5"})(client.HGetAll(ctx, session).Result())
		check(t, "HDEL", int64(1))(client.HDel(ctx, session, "seen", "none").Result())
		check(t, "EXPIRE", true)(client.Expire(ctx, session, time.Hour).Result())
		check(t, "RPUSH", int64(3))(client.RPush(ctx, queue, "a", "b", "c").Result())
		check(t, "LPOP", "a")(client.LPop(ctx, queue).Result())
		check(t, "LRANGE", []string{"b", "c"})(client.LRange(ctx, queue, 0, -1).Result())
		check(t, "SADD", int64(2))(client.SAdd(ctx, tags, "red", "green", "red").Result())
		members, err := client.SMembers(ctx, tags).Result()
		sort.Strings(members)
		check(t, "SMEMBERS", []string{"green", "red"})(members, err)
		check(t, "SISMEMBER", true)(client.SIsMember(ctx, tags, "red").Result())
	})
}

func TestScanFindsEveryKey(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := range 300 {
				pipe.Set(ctx, prefix+strconv.Itoa(n), n, 0)
			}
			return nil
		})
		must(t, err)
		found := map[string]bool{}
		for scan := client.Scan(ctx, 0, prefix+"*", 17).Iterator(); scan.Next(ctx); {
			found[scan.Val()] = true
		}
		check(t, "keys found", 300)(len(found), nil)
	})
}

func TestErrors(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, client *redis.Client, prefix string) {
		client.RPush(ctx, prefix+"list", "x")
		for want, err := range map[string]error{
			"WRONGTYPE Operation against a key holding the wrong kind of value": client.Get(ctx, prefix+"list").Err(),
			"ERR unknown command 'NOSUCH', with args beginning with: 'a' ":      client.Do(ctx, "NOSUCH", "a").Err(),
			"ERR wrong number of arguments for 'get' command":                   client.Do(ctx, "GET").Err(),
		} {
			if err == nil || strings.TrimSpace(err.Error()) != strings.TrimSpace(want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}
