# Two commands on a fresh machine: `make demo` and `make test`. Everything lives in .venv; nothing else is touched.

# Compiled once: the hundreds of children that tests start import the same files.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that is new enough; PYTHON=... names another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
CARGO ?= $(shell command -v cargo || ls $(HOME)/.cargo/bin/cargo 2>/dev/null)
VENV := .venv
BIN := $(VENV)/bin
KERNEL := $(if $(CARGO),native,reference)
EXTRAS_demo = broker,report,spark
EXTRAS_dev = dev
EXTRAS_dist = dist
EXTRAS_docs = docs
EXTRAS_mutants = dev,mutants
# Since which commit lines are looked at, and how many mistakes are tried.
SINCE = main
SAMPLE = 100
# A file system in memory that has four GiB to spare and runs programs (Linux).
IN_MEMORY = $(shell df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4096' | grep -q . && \
	awk '$$2 == "/dev/shm" && $$4 !~ /noexec/ {path = $$2} END {print path}' /proc/mounts)
SOURCES := pyproject.toml $(wildcard native/Cargo.* native/src/*.rs native/src/*/*.rs)

# What the demonstration converts, and for whom. The reference gets as much as it can do in the same time.
DEMO_WORKLOADS = --generate record=100,size=$(1),seed=1 \
	--generate codec=lz4,record=100..1000,size=$(2),seed=2 \
	--generate codec=gzip,record=50..5000,headers=0.2,nulls=0.02,size=$(3),seed=3
NATIVE_DEMO = $(call DEMO_WORKLOADS,48MiB,16MiB,12MiB) --max-bytes 4MiB --consumers 12 --slow 4
REFERENCE_DEMO = $(call DEMO_WORKLOADS,1MiB,1MiB,1MiB) --max-bytes 512KiB --consumers 4

.PHONY: help demo demo-audit demo-old-client test test-all release-check build lint bench-smoke old-clients judges mutants dist docs clean
.DEFAULT_GOAL := help

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/demo.$(KERNEL) ## convert segments lazily and eagerly, audit them on Spark, and let an old client read from Kafka 4: demo/*.html
	@mkdir -p demo
	@if [ "$$($(BIN)/python -c 'from records.backend import NAME; print(NAME)')" = native ]; \
	then $(BIN)/downconvert simulate $(NATIVE_DEMO) --report demo/report.html; \
	else $(BIN)/downconvert simulate $(REFERENCE_DEMO) --report demo/report.html; fi
	@if command -v java >/dev/null; then $(MAKE) --no-print-directory demo-audit demo-old-client; \
	else echo "no Java, so no audit on Spark and no old client with Kafka 4: they need Java 17"; fi

demo-old-client: $(VENV)/demo.$(KERNEL) ## an old client with a real Kafka 4.4.0, without the gateway and through it (Java, Maven)
	$(BIN)/python -m bench.demo

demo-audit: $(VENV)/demo.$(KERNEL) demo/logs
	$(BIN)/downconvert spark audit demo/logs --report demo/audit.html

# Three topics as a broker keeps them, one of them still in an old format.
demo/logs: $(VENV)/demo.$(KERNEL)
	@rm -rf $@ $@.part && mkdir -p $@.part
	@$(BIN)/downconvert generate $@.part/clicks-0 record=100,size=8MiB,seed=1
	@$(BIN)/downconvert generate $@.part/orders-0 codec=gzip,record=50..5000,headers=0.2,nulls=0.02,size=8MiB,seed=3
	@mkdir $@.part/legacy-0
	@$(BIN)/downconvert convert $@.part/clicks-0/00000000000000000000.log $@.part/legacy-0/00000000000000000000.log --to-magic 1
	@mv $@.part $@

# Several parts at a time: they wait for sockets and children, too. Their many small files are in memory, where it has room.
test: build ## run the tests that need Python and cargo only: minutes
	$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY)) $(BIN)/python -m tests.in_parts \
		-m "not others and not slow" -o tmp_path_retention_policy=failed

test-all: build ## run all tests, also those with Kafka's brokers, Spark and old clients
	HYPOTHESIS_PROFILE=random $(BIN)/python -m tests.in_parts --at-once 3

release-check: build ## install what is shipped, and run the container image (root, buildah, mmdebstrap)
	.ci/dist-test
	REQUIRE_BUILDAH=1 WHEEL=$$(echo dist/*.whl) $(BIN)/python -m pytest -q -m others tests/deploy/test_image.py

build: $(VENV)/dev.$(KERNEL) ## create .venv and build the kernel in it (needs cargo, else there is no kernel)
	@$(BIN)/python -c 'from records.backend import NAME; print(f"kernel: {NAME}")'

bench-smoke: build ## run the benchmarks at a small size, as a check
	$(BIN)/python -m bench.conversion --smoke
	$(BIN)/python -m bench.memory --smoke
	$(BIN)/python -m bench.reading --smoke
	$(BIN)/python -m bench.tail --smoke
	$(BIN)/python -m bench.pings --seconds 0.5 --only batches
	$(BIN)/python -m bench.mutations --count 2000
	$(BIN)/python -m bench.promises --cases 200
	$(BIN)/python -m bench.rights --only "topics, groups"
	$(BIN)/python -m bench.index_lookup --smoke
	$(BIN)/python -m bench.spark --smoke
	$(BIN)/python -m bench.zero_copy --smoke
	$(BIN)/python -m bench.open_log_dir --segments 100 --segments 1000
	$(BIN)/python -m bench.crash --deaths 24
	$(BIN)/python -m bench.fuzz_requests --count 2000 --sockets 200
	$(BIN)/python -m bench.fuzz_gateway --count 1000
	$(BIN)/python -m bench.cluster_seeds --seeds 10
	$(BIN)/python -m bench.isolation --minutes 0.1
	$(BIN)/python -m bench.soak --minutes 0.1
	$(BIN)/python -m bench.soak --fast --minutes 180
	$(BIN)/downconvert simulate --generate size=2MiB --generate codec=mixed,size=2MiB --to-magic 0 --rounds 1

mutants: $(VENV)/mutants.$(KERNEL) ## put small mistakes into lines that changed (SINCE=main), and list those that no test notices
	$(if $(CARGO),PATH="$(dir $(CARGO)):$$PATH" )$(BIN)/python -m bench.mutation_testing --since $(SINCE) --sample $(SAMPLE)

old-clients: build ## run real old clients of six registries against downconvert serve and the gateway (hours), write docs/old-clients.md
	$(BIN)/python -m tests.clients.run --serve --json build/serve.jsonl
	$(BIN)/python -m bench.gateway clients --json build/gateway.jsonl
	$(BIN)/python -m tests.clients.report build/serve.jsonl build/gateway.jsonl

judges: build ## run suites of others against Kafka, the gateway and downconvert serve (hours), write docs/judges.md
	$(BIN)/python -m judges --markdown docs/judges.md

dist: $(VENV)/dist.$(KERNEL) ## build the sdist and this machine's wheel: dist/
	rm -rf dist && mkdir -p dist
	$(if $(CARGO),PATH="$(dir $(CARGO)):$$PATH" )$(BIN)/python -m build --quiet --outdir dist/built
	@$(BIN)/python -m zipfile -l dist/built/*.whl | grep -q 'records/_kernel' || { echo "the wheel has no kernel: is cargo there?"; exit 1; }
	if [ "$$(uname)" = Linux ]; \
	then PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir dist dist/built/*.whl; \
	else cp dist/built/*.whl dist; fi
	mv dist/built/*.tar.gz dist && rm -r dist/built
	$(BIN)/python -m abi3audit --strict dist/*.whl
	$(BIN)/python -m twine check --strict dist/*

docs: $(VENV)/docs.$(KERNEL) ## build the documents and the API as a site: site/index.html
	@$(BIN)/python -m bench.sentences docs/*.md docs/api/*.md *.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: build ## check style and types, of Python and Rust
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if [ -n "$(CARGO)" ]; then $(CARGO) clippy --release --manifest-path native/Cargo.toml --all-targets -- -D warnings; fi

clean: ## remove the environment and everything built
	rm -rf $(VENV) build demo dist site native/target *.egg-info records/*.so

# Made again when the kernel's source or the list of requirements changes, or when cargo has come.
$(addprefix $(VENV)/,$(addsuffix .$(KERNEL),demo dev dist docs mutants)): $(VENV)/%.$(KERNEL): $(SOURCES) | $(BIN)/python
	@test -n "$(CARGO)" || echo "no cargo: running on the Python reference, slowly. The kernel needs Rust: https://rustup.rs"
	@echo "installing into $(VENV): minutes, the first time"
	$(if $(CARGO),PATH="$(dir $(CARGO)):$$PATH" )$(BIN)/python -m pip install --disable-pip-version-check -e '.[$(EXTRAS_$*)]'
	@test -z "$(CARGO)" || $(BIN)/python -c 'import records._kernel' || echo "cargo is there, but the kernel was not built; this shows why: $(BIN)/python -m pip install -v -e ."
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (make PYTHON=/path/to/python3.12 ...)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
