# Every target sets up .venv by itself; all that is needed is git and Python 3.11, 3.12 or 3.13.
#   PYTHON=python3.12    the Python to build .venv with (default: the first suitable one found)
#   PIP_ARGS=...         further arguments for every `pip install`, for example another index
#   TORCH=torch==2.13.0  the torch and Triton to install
#   TESTS=tests/tools    what `make test` runs;  JOBS=2 its processes;  ARGS=... further arguments

.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	2>/dev/null && echo $$p && break; done)
TORCH ?= torch==2.13.0
TRITON ?= triton==3.9.0
JOBS ?= 2
TESTS ?= tests
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS)
SOURCES := .

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: setup
setup: $(READY) ## create .venv with everything (quick when it is there)

# torch comes first and alone, so that pip takes a CPU build where one is offered.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11, 3.12 or 3.13 with venv found; set PYTHON=" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$(TORCH)"
	$(PIP) "$(TRITON)"
	$(PIP) --editable ".[dev]"
	@$(BIN)/python -m compileall -q xttir
	@$(BIN)/python -c "import torch, triton, xttir; print('xttir', xttir.__version__, 'with torch', torch.__version__, 'and Triton', triton.__version__)"
	@touch $@

.PHONY: demo
demo: setup ## find real faults in the kernels of examples/
	@$(BIN)/python examples/demo.py

.PHONY: test
test: setup ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS) $(ARGS)
	@if [ "$(TESTS)" = tests ] && [ -d tests/filecheck ]; then $(BIN)/lit -q -j$(JOBS) tests/filecheck; fi

.PHONY: lint
lint: setup ## ruff and pyright
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: format
format: setup ## let ruff write the format
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

.PHONY: docs-check
docs-check: setup ## run every example of the documentation
	$(BIN)/python -m pytest -n $(JOBS) tests/docs $(ARGS)

.PHONY: cases
cases: setup ## run the shared cases (XTTIR_SHARED, default ../shared)
	$(BIN)/python -m pytest -n $(JOBS) tests/test_cases.py $(ARGS)

.PHONY: bench
bench: setup ## measure against peers, in CPU seconds
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: build
build: setup ## build the wheel into dist/
	$(PIP) build
	$(BIN)/python -m build --wheel

.PHONY: clean
clean: ## remove .venv and what was built
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache
