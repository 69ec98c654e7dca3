# `make` lists what there is. Everything works from a clean clone on a Debian machine that has git, make and a network.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# A Rust that rustup has just installed is not in the caller's PATH yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Packages that `make test` tests; the default is all of them.
PACKAGES ?= --workspace

.PHONY: help setup setup-run run test check format lint deny docs nightly forever bench doc clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup-run ## build and start the demo: a server, a small shop at work, figures
	cargo run --release --locked -p forebay-cli -- demo

test: setup check ## install what is missing, then check everything
	@echo 'make test: all well'

check: format lint deny ## fmt, clippy, dependencies and all tests; installs nothing
	cargo test --locked $(PACKAGES)
	cargo test --locked -p forebay --features shuttle --test schedules

format:
	cargo fmt --all --check

# A newer compiler than the one that Cargo.toml names has lints that this code has not met: they are shown, and fail
# nothing.
RUST_NAMED = $(shell sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml)

lint:
	case "$$(rustc --version)" in 'rustc $(RUST_NAMED).'*) deny='-D warnings';; *) deny=;; esac; \
	cargo clippy --locked $(PACKAGES) --all-targets -- $$deny

deny: ## licences, sources and known vulnerabilities of dependencies, by deny.toml
	@scripts/deny.sh

nightly: setup deny ## the long tests too: hours of them, optimised
	FOREBAY_NIGHTLY=1 FOREBAY_SEEDS=10000 cargo test --release --locked $(PACKAGES) -- --include-ignored

# Each round runs seeds that no round before it had; FIRST=50000 begins there.
FIRST ?= 20000
forever: setup ## simulations without end, until interrupted or a seed fails; it prints how to repeat that
	@first=$(FIRST); while FOREBAY_SEEDS=$$first..$$((first + 10000)) \
		cargo test --release --locked -p forebay -p forebay-server --test simulation; \
	do first=$$((first + 10000)); done; exit 1

bench: setup ## the quick form of the comparisons: redis-server, resident size (docs/benchmarks.md)
	cargo build --profile dist --locked -p forebay-cli -p forebay-bench
	target/dist/server --forebay target/dist/forebay --runs 3 --run-ms 500
	target/dist/memory --forebay target/dist/forebay --memory-mib 64 --seconds 20

doc: setup-run ## the library's documentation, and the generated tables in docs/
	FOREBAY_UPDATE_DOCS=1 cargo test --locked $(PACKAGES) fresh
	cargo doc --locked $(PACKAGES) --no-deps

setup: ## Rust, a C compiler, and the servers and clients that tests compare with
	@scripts/setup.sh test

setup-run:
	@scripts/setup.sh run

clean: ## remove what was built
	cargo clean
