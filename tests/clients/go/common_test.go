// Package clients runs go-redis, unmodified, against a server: the handshake with default options and with RESP2,
// documents, pipelines, and a shop that must sell each piece once.
package clients

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"
)

var (
	ctx       = context.Background()
	isForebay = os.Getenv("FOREBAY_CLIENTS_SERVER") == "forebay"
)

func connect(t *testing.T, protocol int) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Getenv("FOREBAY_CLIENTS_PORT"), Protocol: protocol})
	t.Cleanup(func() { client.Close() })
	return client
}

// inEachProtocol runs a test with the library's default protocol, RESP2 and RESP3; keys begin with the prefix given.
func inEachProtocol(t *testing.T, run func(t *testing.T, client *redis.Client, prefix string)) {
	for name, protocol := range map[string]int{"default": 0, "resp2": 2, "resp3": 3} {
		t.Run(name, func(t *testing.T) { run(t, connect(t, protocol), t.Name()+":") })
	}
}

// check fails the test where a call failed or answered something else.
func check[T any](t *testing.T, what string, want T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

func checkNil(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, redis.Nil) {
		t.Fatalf("%s: got %v, want nil", what, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
