# `make` alone lists what there is.

# For `make demo`: how many tasks, what goes wrong, and whether all is held open at the end to look around.
N ?= 2000
SEED ?= 7
KEEP ?=

# For `make failures`: how long.
MINUTES ?= 30

# For `make bench`: one section of it, or several with commas between; whether briefly; whether with 3 million events too.
ONLY ?=
QUICK ?=
FULL ?=

.PHONY: help servers peers demo test failures bench check binaries
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

servers: ## find nats-server and Postgres, install what is missing
	@scripts/servers

peers: target/peers/installed ## install the Flask receiver that the bench compares with

# The system's pip installs into it: one with a pip of its own needs a package that not every system has.
target/peers/installed: bench/peers/flask/requirements.txt
	python3 -m venv --clear --without-pip target/peers/venv
	python3 -m pip --python target/peers/venv --quiet --disable-pip-version-check install --only-binary=:all: --requirement $<
	@touch $@

demo: servers binaries ## the pipeline on private servers; N= tasks, SEED= of what goes wrong, KEEP=1 to look around
	@target/debug/sandbox demo --tasks $(N) --seed $(SEED) $(if $(filter-out 0,$(KEEP)),--keep)

test: servers peers binaries ## every test, on private servers
	cargo test --locked --workspace --no-fail-fast

failures: servers binaries ## a random walk through every failure; MINUTES= of it, SEED= of what is done (from the clock)
	@target/debug/failures walk --minutes $(MINUTES) $(if $(filter file,$(origin SEED)),,--seed $(SEED))

bench: servers peers ## speed beside what people would use instead; ONLY= sections, QUICK=1, FULL=1
	cargo build --release --locked --bins --package bench --package ingress --package projector
	@target/release/bench $(if $(ONLY),--only $(ONLY)) $(if $(filter-out 0,$(QUICK)),--quick) $(if $(filter-out 0,$(FULL)),--full)

check: ## formatting, lints and documentation, warnings denied
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' cargo doc --locked --workspace --no-deps --document-private-items

# Some tests start the programs as processes of their own.
binaries:
	cargo build --locked --workspace --bins
