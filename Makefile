# `make` lists what there is. Everything works from a clean clone on a Debian machine that has git, make and a network.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# A Rust that rustup has just installed is not in the caller's PATH yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

# Packages that `make test` tests; the default is all of them.
PACKAGES ?= --workspace

# What `make deny` does without cargo-deny: it fails, or with DENY=if-there it says so and goes on.
DENY ?= always

# Of `make fuzz`: how long each target runs, and the compiler, which has to be a nightly one to measure coverage.
FUZZ_SECONDS ?= 60
FUZZ_TOOLCHAIN ?= nightly-2026-05-20
FUZZ_TARGETS := answers decoder commands store_file traces trace_tools mappings users journal
# Of `make soak`.
SOAK_SECONDS ?= 1800

.PHONY: help setup setup-run run build dist budgets test check format lint deny docs nightly sanitize forever fuzz \
	soak bench bench-full bench-sim bench-engine bench-others setup-bench doc clean figure figures install uninstall \
	deb image

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup-run ## build and start the demo: a server, a small shop at work, figures
	cargo run --profile demo --locked -p forebay-cli --no-default-features --features demo -- demo

build: setup-run ## build the whole program: target/release/forebay
	cargo build --release --locked -p forebay-cli

test: setup ## install what is missing, then check everything
	@$(MAKE) --no-print-directory check DENY=if-there
	@if cargo deny --version >/dev/null 2>&1; then echo 'make test: all well'; else \
		echo 'make test: all well, but DEPENDENCIES WERE NOT CHECKED: there is no cargo-deny'; fi

# Tests of properties draw what they drew before, so that an unrelated change meets no new case; make nightly draws
# others.
# Many tests wait for servers, so there are more threads than cores. The libraries are optimised a little: simulations
# take a tenth of the time then, and their compilation takes twice as long. The schedules are built with the features
# of the whole workspace, so that no dependency is compiled twice.
check: TESTED = --config profile.dev.package.forebay.opt-level=1 --config profile.dev.package.forebay-cache.opt-level=1
check: export PROPTEST_RNG_SEED ?= 1
check: export RUST_TEST_THREADS ?= 4
check: format lint deny ## fmt, clippy, dependencies and all tests; installs nothing
	cargo test --locked --no-fail-fast $(TESTED) $(PACKAGES)
	cargo test --locked $(TESTED) --workspace --features forebay/shuttle --test schedules
	cargo test --locked -p forebay-cache --features loom --lib engine
	scripts/instructions.sh

format:
	cargo fmt --all --check

# A newer compiler than the one that Cargo.toml names has lints that this code has not met: they are shown, and fail
# nothing.
RUST_NAMED = $(shell sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml)

lint:
	case "$$(rustc --version)" in 'rustc $(RUST_NAMED).'*) deny='-D warnings';; *) deny=;; esac; \
	cargo clippy --locked $(PACKAGES) --all-targets -- $$deny
	@# The bench of the engine has a lock file to itself, which a new dependency of a crate makes stale.
	cargo update --quiet --workspace --locked --manifest-path bench/engine/Cargo.toml

deny: ## licences, sources and known vulnerabilities of dependencies, by deny.toml
	@DENY=$(DENY) scripts/deny.sh

dist: setup-run ## the released binary, target/dist/forebay, with its symbols apart in forebay.debug
	cargo build --profile dist --locked -p forebay-cli
	scripts/strip.sh target/dist/forebay

# A unit that systemd finds has its prefix in /usr or /usr/local. DESTDIR is for those who make packages.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
INSTALL = PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' scripts/install.sh

install: ## what `make dist` made, with unit, manual and completions: PREFIX=/usr/local SYSCONFDIR=/etc DESTDIR=
	@$(INSTALL) install

uninstall: ## remove what `make install` put there; settings, data and the user stay
	@$(INSTALL) uninstall

# Completions and manual pages come out of the binary, so they are laid down first.
deb: dist ## a Debian package of that, target/debian/forebay_*.deb
	@cargo deb --version >/dev/null 2>&1 || cargo install --locked cargo-deb
	mkdir -p target/package/completions
	target/dist/forebay completions bash > target/package/completions/forebay
	target/dist/forebay completions zsh > target/package/completions/_forebay
	target/dist/forebay completions fish > target/package/completions/forebay.fish
	rm -rf target/package/man && target/dist/forebay man target/package/man
	cargo deb -p forebay-cli --profile dist --no-build --no-strip

image: ## an image for containers, by packaging/Dockerfile
	docker build -f packaging/Dockerfile -t forebay .

budgets: setup-run ## what `make run` and the released binary may cost: minutes of building, bytes
	scripts/budgets.sh

# Undefined behaviour, weak memory and data races in the engine, by a compiler that has the tools.
SANITIZE_TOOLCHAIN ?= nightly
SANITIZE_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
sanitize: setup-run ## the engine's tests under Miri, then under ThreadSanitizer
	@rustup toolchain list | grep -q '^$(SANITIZE_TOOLCHAIN)' || \
		rustup toolchain install $(SANITIZE_TOOLCHAIN) --profile minimal
	rustup component add --toolchain $(SANITIZE_TOOLCHAIN) miri rust-src
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 cargo +$(SANITIZE_TOOLCHAIN) miri test -p forebay-cache \
		--lib --test allocations -- --skip policy:: --skip graph::
	RUSTFLAGS=-Zsanitizer=thread cargo +$(SANITIZE_TOOLCHAIN) test -Zbuild-std --target $(SANITIZE_TARGET) \
		--target-dir target/sanitize -p forebay-cache --features tsan --lib -- --skip policy:: --skip graph::

nightly: setup deny budgets sanitize fuzz soak ## the long tests too: hours of them, optimised; make fuzz, make soak
	FOREBAY_NIGHTLY=1 FOREBAY_SEEDS=10000 FOREBAY_FUZZ_MS=60000 \
		cargo test --release --locked $(PACKAGES) -- --include-ignored

# Each round runs seeds that no round before it had; FIRST=50000 begins there.
FIRST ?= 20000
forever: setup ## simulations without end, until interrupted or a seed fails; it prints how to repeat that
	@first=$(FIRST); while FOREBAY_SEEDS=$$first..$$((first + 10000)) \
		cargo test --release --locked -p forebay -p forebay-server --test simulation --test library --test optimistic; \
	do first=$$((first + 10000)); done; exit 1

fuzz: setup-run ## inputs that reach new code, FUZZ_SECONDS=60 per target (fuzz/README.md)
	@rustup toolchain list | grep -q '^$(FUZZ_TOOLCHAIN)' || rustup toolchain install $(FUZZ_TOOLCHAIN) --profile minimal
	@cargo bolero --version >/dev/null 2>&1 || \
		cargo install cargo-bolero --version 0.13.5 --locked --no-default-features --features libfuzzer
	set -e; for target in $(FUZZ_TARGETS); do \
		cargo +$(FUZZ_TOOLCHAIN) bolero test -p forebay-fuzz $$target --sanitizer=NONE -T $(FUZZ_SECONDS)s; done

soak: setup-run ## SOAK_SECONDS=1800 of load with SIGKILL, full disks and broken connections (docs/reliability.md)
	FOREBAY_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --release --locked -p forebay-cli --test soak -- --ignored --nocapture

bench: setup-bench ## comparisons with redis-server, memcached and redb, the usual part: a quarter of an hour
	$(BENCH_BUILD)
	target/dist/server --markdown target/bench-server.md
	target/dist/library --markdown target/bench-library.md
	target/dist/entries --markdown target/bench-entries.md
	target/dist/memory --forebay target/dist/forebay --memory-mib 64 --seconds 20
	target/dist/postgres --runs 1 --seconds 3 --writes 200 --markdown target/bench-postgres.md

# TARDIS' start the program and a PostgreSQL.
FIGURE_BUILD = cargo build --release --locked -p forebay-cli -p forebay-bench --bin forebay --bin figure

# DeferredLRU's are measured with all peers of the engine, and oneTBB's cache, which is C++.
ENGINE_BUILD = cargo build --profile dist --locked --manifest-path bench/engine/Cargo.toml --target-dir target
TBB_BUILD = g++ -O3 -std=c++17 -o target/dist/tbb-lru bench/engine/tbb_lru.cpp -ltbb
FIGURES = docs/papers/figures
FIGURE = cargo run --release --locked -p forebay-figures --
DRAW = $(FIGURE) --redraw

# The list is on a page, and needs nothing.
FIGURE_SETUP = $(if $(filter list,$(NAME)),,setup-bench)

figure: $(FIGURE_SETUP) ## of a paper: NAME=clic-6, detox-8, kairos-8, tardis-5, .., or list (FOREBAY_TRACES=folder)
	case '$(NAME)' in \
	list) sed -n 's/^| `\(.*\)` | \(.*\) | \(.*\) |$$/\1|\2|\3/p' docs/papers/figures.md \
		| awk -F '|' '{printf "%-20s %s%s\n", $$1, $$2, ($$3 == "-" ? "" : " (needs " $$3 ")")}'; \
		echo 'times and traces: docs/papers/figures.md';; \
	deferred-table-5.5) $(ENGINE_BUILD) && target/dist/wigner --csv $(FIGURES)/$(NAME).csv;; \
	deferred-*) $(ENGINE_BUILD) && $(TBB_BUILD) && target/dist/thesis $(NAME) && $(DRAW) $(NAME);; \
	detox-*|kairos-*|tardis-*) $(FIGURE_BUILD) && target/release/figure --name $(NAME) $(if $(FULL),--full);; \
	*) $(FIGURE) $(NAME);; esac

figures: setup-bench ## all of them; FULL=1 for hours
	$(FIGURE_BUILD)
	target/release/figure $(if $(FULL),--full)
	$(FIGURE) all
	$(ENGINE_BUILD) && $(TBB_BUILD) && target/dist/thesis all && $(DRAW) all
	target/dist/wigner --csv $(FIGURES)/deferred-table-5.5.csv

bench-full: setup-bench ## all of them, also 1 KiB, two threads, an hour of churn in parts: about two hours
	$(BENCH_BUILD)
	target/dist/server --full --markdown target/bench-server.md
	target/dist/library --markdown target/bench-library.md
	target/dist/entries --markdown target/bench-entries.md
	target/dist/memory --forebay target/dist/forebay --memory-mib 64,512 --seconds 900
	target/dist/postgres --runs 7 --markdown target/bench-postgres.md

bench-sim: setup-bench ## the simulator beside libCacheSim, on the traces in FOREBAY_TRACES
	cargo build --profile dist --locked -p forebay-bench-sim
	target/dist/sim --markdown target/bench-sim.md

bench-engine: setup-run ## the engine beside other caches for Rust, compiled in; traces: FOREBAY_TRACES=folder
	$(ENGINE_BUILD)
	target/dist/engine --markdown target/bench-engine.md
	target/dist/engine --policies --markdown target/bench-policies.md

bench-others: setup-run ## Caffeine (Java) and otter (Go) beside the engine; ROUNDS=3
	$(ENGINE_BUILD)
	bench/engine/others/run.sh

BENCH_BUILD = cargo build --profile dist --locked -p forebay-cli -p forebay-bench

doc: setup-run ## the library's documentation, and the generated tables in docs/
	FOREBAY_UPDATE_DOCS=1 cargo test --locked $(PACKAGES) fresh
	cargo doc --locked $(PACKAGES) --no-deps

setup: ## Rust, a C compiler, and the servers and clients that tests compare with
	@scripts/setup.sh test

setup-run:
	@scripts/setup.sh run

setup-bench:
	@scripts/setup.sh bench

clean: ## remove what was built
	cargo clean
