# Python 3.11 or later and make are all that a machine needs; every target sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup test lint types contracts unit control-plane lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## install everything into .venv
$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "situate needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 " + "$(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned requirements into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

lint: $(STAMP) ## formatting and lint
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(STAMP) ## strict types
	@$(BIN)/mypy

contracts: $(STAMP) ## who may import whom
	@$(BIN)/lint-imports --no-cache --no-logo 2>/dev/null || $(BIN)/lint-imports --no-cache

unit: $(STAMP)
	@$(BIN)/python -m pytest $(ARGS)

test: lint types contracts unit ## everything; the one command

control-plane: $(STAMP) ## build the real control plane for the tests, once (12 minutes when nothing is cached)
	@$(BIN)/python -m tests.controlplane build

lock: ## pin the requirements anew (needs uv)
	uv export --quiet --no-header --no-annotate --no-emit-project --all-extras --group dev --output-file requirements.txt

clean: ## remove what make built in this folder
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
