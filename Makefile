# Python 3.11 or later and make are all that a machine needs; every target sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNS := $(VENV)/.runs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
ARGS ?=
DIRS ?=
# The longest tests come first (tests/conftest.py); by itself xdist would order them by the size of their groups.
PYTEST := $(BIN)/python -m pytest -n auto --dist loadgroup --no-loadscope-reorder
# A hundred processes of ours start during the tests: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup test verify fresh lint types contracts unit conformance demo docs recording rules deploy control-plane mutations soak soak-vpod soak-spot soak-shard soak-vm soak-scheduler lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## install everything into .venv
$(STAMP): $(RUNS) requirements.txt
	@echo "installing what tests and benchmarks need"
	@$(PIP) --require-hashes -r requirements.txt
	@touch $@

# All that situate itself needs, and so the demo: a third of what is installed in the end. What is imported is compiled
# then, and nothing else, which is half of the time.
$(RUNS): deploy/requirements.txt requirements-build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "situate needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 " + "$(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned requirements into $(VENV)"
	@$(PIP) --require-hashes -r deploy/requirements.txt -r requirements-build.txt
	@$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

lint: $(STAMP) ## formatting and lint
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(STAMP) ## strict types
	@$(BIN)/mypy

contracts: $(STAMP) ## who may import whom
	@$(BIN)/lint-imports --no-cache --no-logo 2>/dev/null || $(BIN)/lint-imports --no-cache

unit: $(STAMP) ## the tests of `make test` alone, without lint and types; ARGS go to pytest
	@$(PYTEST) -m 'not verify' $(ARGS)

# Types and imports are checked beside the tests, which leave processors idle at times; their output comes at the end.
# The last line is pytest's summary, unless types or contracts have something to say.
test: lint ## what every change needs, in minutes, on the embedded server; ARGS go to pytest
	@told=$$(mktemp); { $(MAKE) --no-print-directory -k types contracts; } >$$told 2>&1 & checks=$$!; \
	$(PYTEST) -m 'not verify' $(ARGS); tests=$$?; \
	wait $$checks; checks=$$?; test $$checks = 0 || cat $$told; rm -f $$told; \
	test $$tests = 0 && test $$checks = 0

# Where the servers are not cached they are built beside the first tests; the tests that need them come last and wait.
verify: $(STAMP) ## the rest: real control plane, stores, 1,000 histories of most products, benchmarks in small; ARGS go to pytest
	@{ $(BIN)/python -m tests.controlplane build; $(BIN)/python -m tests.archive.servers; } >/dev/null 2>&1 & \
	$(PYTEST) -m verify $(ARGS)

fresh: ## time demo, test and verify in a clean clone with an empty home, as on a new machine
	@$(PYTHON) -m tests.fresh $(ARGS)

conformance: $(STAMP) ## run vector files: DIRS="DIR ...", or the project's own copy
	@$(BIN)/python -m tests.conformance $(DIRS)

demo: $(RUNS) ## a story on an embedded cluster; ARGS=--once plays it without a terminal
	@$(BIN)/situate demo $(ARGS)

docs: $(STAMP) ## build the documentation into build/site; ARGS=serve shows it while you write
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --quiet)

recording: $(STAMP) ## play the demo and write it to docs/getting-started/demo.svg
	@$(BIN)/python -m docs.recording

rules: $(STAMP) ## write docs/contributing/rules.md from the marks on the tests
	@$(BIN)/python -m tests.rules

control-plane: $(STAMP) ## build the real servers for the tests, once (13 minutes when nothing is cached)
	@$(BIN)/python -m tests.controlplane build
	@$(BIN)/python -m tests.archive.servers

mutations: $(STAMP) ## take each safety guard out, on a copy: a test must notice
	@$(BIN)/python -m tests.mutations $(ARGS)

# One after the other, and none after one that has found something. What comes before the histories is not repeated for a
# commit for which it has held.
soak: soak-vpod soak-spot soak-shard soak-vm soak-scheduler ## 100,000 histories of each product (days; each goes on where it ended); ARGS="--minutes 60" or "--histories 500" for less

soak-vpod: $(STAMP) ## 100,000 histories of vpod under faults
	@$(BIN)/python -m situate.testing.vpod soak $(ARGS)

soak-spot: $(STAMP) ## 10,000 pods and situations for each property of admission, then 100,000 histories under faults
	@$(BIN)/python -m situate.testing.histories.soak spot-properties $(BIN)/python -m pytest -q -n 0 --hypothesis-profile soak tests/spot/admission/test_patch.py tests/spot/admission/test_admit.py
	@$(BIN)/python -m situate.testing.spot soak $(ARGS)

soak-shard: $(STAMP) ## every order of events in sharding's small worlds, then 100,000 histories under faults
	@$(BIN)/python -m situate.testing.histories.soak sharding-explored $(BIN)/python -m situate.testing.sharding explore --large
	@$(BIN)/python -m situate.testing.sharding soak $(ARGS)

soak-vm: $(STAMP) ## 100,000 interleavings of the steps of vm's ledger, then 100,000 histories of its processes under faults
	@$(BIN)/python -m situate.testing.vm.ledger soak $(ARGS)
	@$(BIN)/python -m situate.testing.vm soak $(ARGS)

soak-scheduler: $(STAMP) ## 100,000 histories of the scheduler under faults, then 20,000 Pods beside the real kube-scheduler
	@$(BIN)/python -m situate.testing.scheduler soak $(ARGS)
	@$(BIN)/python -m tests.e2e.differential soak $(ARGS)

bench-vpod: $(STAMP) ## speed of vpod's decisions beside the reference's
	@$(BIN)/python -m bench.vpod $(ARGS)

bench-engine: $(STAMP) ## speed and memory of the scheduling engine, beside kube-scheduler's thresholds
	@$(BIN)/python -m bench.engine $(ARGS)

bench-openb: $(STAMP) ## six policies for shared GPUs on openb, beside the published figures; plots in build/openb
	@$(BIN)/python -m bench.openb $(ARGS)

bench-client: $(STAMP) ## speed and memory of the client beside lightkube
	@$(BIN)/python -m bench.client $(ARGS)

bench-embedded: $(STAMP) ## the embedded API server under load, beside the real one
	@$(BIN)/python -m bench.embedded $(ARGS)

bench-e2e: $(STAMP) ## the scheduler beside the real kube-scheduler on a real control plane; ARGS=--all for every row
	@$(BIN)/python -m bench.e2e $(ARGS)

bench-spot: $(STAMP) ## spot's webhook under load: 20,000 pods cached, 200 reviews a second
	@$(BIN)/python -m bench.spot $(ARGS)

bench-shard: $(STAMP) ## supervisors, executors and the archive, beside the peers; ARGS="--rows placements,failover" for some
	@$(BIN)/python -m bench.shard $(ARGS)

bench-vm: $(STAMP) ## plans, permits, hand-over and start of vm, and six loads beside the reference's rules; ARGS="--rows loads"
	@$(BIN)/python -m bench.vm $(ARGS)

lock: ## pin the requirements anew (needs uv)
	uv export --quiet --no-header --no-annotate --no-emit-project --all-extras --group dev --output-file requirements.txt
	uv export --quiet --no-header --no-annotate --no-emit-project --only-group build --output-file requirements-build.txt
	uv export --quiet --no-header --no-annotate --no-emit-project --extra fast --extra mongo --extra s3 --extra sql --no-dev --output-file deploy/requirements.txt

deploy: $(STAMP) ## write the manifests and definitions of deploy/ anew
	@$(BIN)/situate manifests -f examples/knative/situate.yaml > deploy/situate.yaml
	@$(BIN)/situate crds > deploy/crds.yaml
	@$(BIN)/situate crds vpod > examples/knative/crds.yaml

clean: ## remove what make built in this folder
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
