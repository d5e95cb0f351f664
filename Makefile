# Two commands matter: `make demo` and `make test`. Both set everything up on a fresh machine.

VENV   := .venv
PYTHON := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
JAVA_STAMP := $(VENV)/.java
PEERS_STAMP := $(VENV)/.peers
# Tests mostly wait for servers that start; more than the cores would make them wait for each other.
JOBS ?= 2
SAMPLE ?= 200
FAULTS ?= 1000
KILLS ?= 20

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit mutants check format bench chaos chaos-flow lock clean

help:  ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(JAVA_STAMP)  ## Create .venv and install everything, once

$(STAMP): pyproject.toml requirements.lock tools/setup-python
	@tools/setup-python $(VENV)
	@touch $@

$(JAVA_STAMP): tools/setup-java $(STAMP)
	@tools/setup-java
	@touch $@

# What the tests are measured against: the jars of Kafka, Flume, Hadoop and the KCL, kcat, Chromium.
$(PEERS_STAMP): tools/setup-peers tools/fetch-jars tools/async-kinesis.lock tools/python-schema-registry-client.lock tools/meltanolabs-target-csv.lock $(STAMP) $(JAVA_STAMP)
	@tools/setup-peers $(VENV)
	@touch $@

demo: setup  ## Run the demo; ARGS="--for 30s" bounds it
	@$(VENV)/bin/headrace demo $(ARGS)

test: setup $(PEERS_STAMP)  ## Run every test
	$(PYTHON) -m pytest -n $(JOBS)

unit: $(STAMP)  ## Run the unit and property tests only
	$(PYTHON) -m pytest -n $(JOBS) tests/unit tests/property

mutants: $(STAMP)  ## Put SAMPLE=200 faults into the code and see whether unit and property tests notice
	$(PYTHON) tools/mutants --jobs $(JOBS) --sample $(SAMPLE) $(ARGS)

check: $(STAMP)  ## Lint, type-check, and check the layers, the structure and the words
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) tools/measure-structure --check
	$(PYTHON) tools/check-words

format: $(STAMP)  ## Put the code in shape
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: setup $(PEERS_STAMP)  ## Run the benchmarks, write bench/RESULTS.md and docs/performance.md
	$(PYTHON) -m bench

chaos: setup  ## Break a cluster of real processes FAULTS=1000 times and write docs/chaos.md
	$(PYTHON) tools/chaos $(FAULTS)

chaos-flow: setup $(PEERS_STAMP)  ## Kill a flow's executors and drivers on YARN KILLS=20 times
	$(PYTHON) tools/chaos-flow $(KILLS)

lock: $(STAMP)  ## Take the newest allowed version of every dependency into requirements.lock
	tools/lock $(VENV) --upgrade

clean:  ## Remove what was built, .venv included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
