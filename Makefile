# Two commands do all the set-up: `make run` and `make test`. `make help` lists the others.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run demo test test-slow lint crash bench bench-audit bench-context bench-delays bench-features bench-liars bench-lifecycle bench-regret \
	bench-service bench-sweep docs site release-check clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run ## the paper's experiment, 10 runs: a table, figures and a page in results/paper
	@$(BIN)/maskedbandits run experiments/paper.toml --runs 10 --out results/paper
	@echo "More: $(BIN)/maskedbandits --help, or type 'source $(BIN)/activate' once and then maskedbandits --help"

demo: $(VENV)/.demo ## a page on which anyone sees how masked reports are learnt from
	@$(BIN)/maskedbandits demo

test: $(VENV)/.test ## all tests but the slow ones
	@$(BIN)/python -m scripts.warm
	@$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup

test-slow: $(VENV)/.test ## statistical checks against published numbers, and machine code of every kind; half an hour
	@HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -m "slow or hypothesis"
	@$(BIN)/python -m pytest --compiled tests/policies tests/privacy/test_masked_reports.py \
		tests/simulation/test_noise_kernels.py tests/problems/test_replay.py

lint: $(VENV)/.test ## ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(VENV)/.run ## speed, as ratios to other libraries and to a bare loop
	@mkdir -p results && $(BIN)/python -m bench.speed > results/speed.txt && cat results/speed.txt

bench-context: $(VENV)/.run ## regret of contextual policies beside their goals, some minutes
	@$(BIN)/python -m bench.context

bench-delays: $(VENV)/.run ## the cost of late and lost reports for every policy, half an hour
	@$(BIN)/python -m bench.delays

bench-features: $(VENV)/.run ## what knowing the mask is worth to policies over features, some minutes
	@$(BIN)/python -m bench.features

bench-audit: $(VENV)/.run ## leaking programs that the audit finds, and how often sound ones are refuted, ten minutes
	@$(BIN)/python -m bench.audit

bench-liars: $(VENV)/.run ## which share of liars, and how many lies in a row, turn policies; ten minutes
	@$(BIN)/python -m bench.liars

bench-lifecycle: $(VENV)/.test ## starts, refolds and retention of a service with a long past, some minutes
	@$(BIN)/python -m bench.lifecycle

bench-regret: $(VENV)/.run ## regret of the main policies on a suite of problems, both horizons, a quarter of an hour
	@$(BIN)/python -m bench.regret --long

bench-service: $(VENV)/.test ## the service, as ratios to a trivial endpoint, some minutes; h2load for latencies
	@$(BIN)/python -m bench.service

bench-sweep: $(VENV)/.run ## what sweeps of 10,000 short cells spend outside the kernels, half an hour; Ray if it is installed
	@mkdir -p results && $(BIN)/python -m bench.sweep > results/sweep.md && cat results/sweep.md

crash: $(VENV)/.test ## services and their database are killed under load, and everything counted; a quarter of an hour
	@$(BIN)/python tests/crash/crash.py

docs: $(VENV)/.test ## make the figures and tables of docs/ again, half an hour
	@$(BIN)/python -m docs.privacy
	@$(BIN)/python -m docs.audit
	@$(BIN)/python -m docs.privacy_officer
	@$(BIN)/python -m docs.policies
	@$(BIN)/python -m docs.choose_epsilon
	@$(BIN)/python -m docs.how_auto_works
	@$(BIN)/python -m docs.noise
	@$(BIN)/python -m docs.private_groups
	@$(BIN)/python -m docs.features
	@$(BIN)/python -m docs.configuration
	@$(BIN)/python -m docs.http_api
	@$(BIN)/python -m docs.report_times
	@$(BIN)/python -m docs.dashboard
	@$(BIN)/python -m docs.demo
	@$(BIN)/python -m docs.speed
	@$(BIN)/python -m docs.quickstart
	@$(BIN)/python -m docs.data
	@$(BIN)/python -m docs.evaluation
	@$(BIN)/python -m docs.offline_evaluation
	@$(BIN)/python -m docs.theory
	@$(BIN)/python -m docs.reproduction

site: $(VENV)/.site ## docs/ as a site in results/site, with a Python reference; needs no network to read
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@$(BIN)/python -m scripts.check_site results/site

release-check: $(VENV)/.release ## build what would be released, install it in an empty environment, try it
	@$(BIN)/python -m scripts.release_check

clean: ## remove everything that the other commands made
	rm -rf $(VENV) .peers results

# Stamps: nothing is installed again until what is to be installed changes.
$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "maskedbandits needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": name another with make PYTHON=python3.12")'
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.venv pyproject.toml constraints.txt
	@echo "Installing what it needs, once; this takes about a minute ..."
	@$(PIP) --editable '.[experiments]'
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml constraints.txt
	@echo "Installing what the demonstration needs, once ..."
	@$(PIP) --editable '.[service]'
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "Installing what the tests need, once ..."
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.site: $(VENV)/.run
	@echo "Installing what the site needs, once ..."
	@$(PIP) --editable '.[site]'
	@touch $@

$(VENV)/.release: $(VENV)/.run
	@echo "Installing what building needs, once ..."
	@$(PIP) --editable '.[release]'
	@touch $@
