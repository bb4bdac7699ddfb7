# Every target does its own set-up: any of them may be the first command in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format gallery screens docs results bench bench-gpu bench-scale bench-peers parity versions clean mutants guarantees levels verdicts release-check frontier fuzz oldest interpreters

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## create or update .venv with the package (editable) and the development group
	@rm -f $(STAMP)
	@$(MAKE) --no-print-directory $(STAMP)

# pip is upgraded first: dependency groups (PEP 735) need pip >= 25.1.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@

demo: $(STAMP) ## averaged scores on CIFAR-100: a table, and a picture in demo/
	@$(BIN)/conformix demo --table --out demo

# The networks and readings of docs/results.md; a killed run goes on where it was.
RUNS ?= 100
REPRODUCE := $(BIN)/conformix reproduce --runs $(RUNS) --table
results: $(STAMP) ## the paper's tables and figures into docs/results (RUNS=100)
	@$(REPRODUCE) all --data cifar100 --out docs/results/cifar100
	@$(REPRODUCE) table1 --data cifar100 --normalize ecdf --out docs/results/cifar100_ecdf
	@$(REPRODUCE) table1 --data cifar100 --model densenet_bc_100 --out docs/results/cifar100_densenet
	@$(REPRODUCE) all --data cifar10 --out docs/results/cifar10
	@$(REPRODUCE) all --data cifar10_trio --out docs/results/cifar10_trio
	@$(REPRODUCE) all --data tinyimagenet_trio --out docs/results/tinyimagenet_trio
	@$(BIN)/python docs/contact_sheet.py

screens: $(STAMP) ## what commands show on a terminal, into docs/images/screens (needs chromium)
	@$(BIN)/python docs/screens.py
	@$(BIN)/python docs/contact_sheet.py

gallery: $(STAMP) ## the pictures of docs/plots.md, and the contact sheets
	@$(BIN)/python examples/plots.py --out docs/images/plots
	@$(BIN)/python docs/contact_sheet.py

frontier: $(STAMP) ## the study behind scores="auto" into docs/results/frontier; a killed run goes on
	@$(BIN)/python -m conformix.experiments.frontier docs/results/frontier

docs: $(STAMP) ## the documentation as HTML in docs/_build/html, without a network
	@$(BIN)/python -m sphinx -E -W -q -b html docs docs/_build/html

test: $(STAMP) ## all tests, doctests included
	@$(BIN)/python -m pytest -q -rs --numprocesses auto --dist loadfile

check: $(STAMP) ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## apply the formatter and the safe fixes
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

PEERS := .venv-peers
$(PEERS)/.installed: pyproject.toml
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	@$(PEERS)/bin/python -m pip install --quiet --editable . --group peers
	@$(PEERS)/bin/python -m pip install --quiet --no-deps torchcp
	@touch $@

# puncc holds numpy below 2, so it lives in an environment of its own; absent, it is left out.
PUNCC := $(PEERS)/puncc
$(PUNCC)/.tried: $(PEERS)/.installed
	@$(PYTHON) -m venv $(PUNCC)
	@$(PUNCC)/bin/python -m pip install --quiet puncc || echo 'puncc does not install here'
	@touch $@

bench-peers: $(PUNCC)/.tried ## scores and p-values against MAPIE, crepes, TorchCP and puncc
	@PUNCC_PYTHON=$(PUNCC)/bin/python $(PEERS)/bin/python benchmarks/aps.py
	@$(PEERS)/bin/python benchmarks/pvalues.py
	@$(PEERS)/bin/python -W ignore benchmarks/sets.py

parity: $(PEERS)/.installed ## our sets and p-values against those of MAPIE, TorchCP and crepes
	@$(PEERS)/bin/python -m pytest -q tests/parity

# An old release runs among its contemporaries, so they are named with it.
VERSIONS := .venv-versions
OLD_SKLEARN := $(VERSIONS)/sklearn-1.6
SKLEARN_TESTS := tests/unit/test_conformal_classifier.py tests/unit/test_metadata_routing.py \
	tests/unit/test_score_average_in_sklearn.py tests/golden
$(OLD_SKLEARN)/.installed: pyproject.toml
	@test -x $(OLD_SKLEARN)/bin/python || $(PYTHON) -m venv $(OLD_SKLEARN)
	@$(OLD_SKLEARN)/bin/python -m pip install --quiet --upgrade pip
	@$(OLD_SKLEARN)/bin/python -m pip install --quiet --editable '.[frames]' --group test \
		'scikit-learn==1.6.*' 'scipy<1.16' 'pytest<9' 'polars<1.30'
	@touch $@

versions: $(STAMP) $(OLD_SKLEARN)/.installed ## scikit-learn's checks on its oldest and newest supported release
	@for python in $(OLD_SKLEARN)/bin/python $(BIN)/python; do \
		$$python -c 'import sklearn; print("scikit-learn", sklearn.__version__)' && \
		$$python -m pytest -q $(SKLEARN_TESTS) || exit 1; done

bench-gpu: $(STAMP) ## the search on a CUDA device beside the host, with the roofline
	@$(BIN)/python benchmarks/gpu.py

oldest: $(STAMP) ## quick tests on the oldest release of every dependency, together
	@$(BIN)/python release/versions.py oldest torch

interpreters: $(STAMP) ## quick tests on the other Pythons present, newest releases
	@$(BIN)/python release/versions.py interpreters

bench: $(STAMP) ## speed, as a table and JSON lines in benchmarks/results
	@$(BIN)/python -m benchmarks
	@$(BIN)/python benchmarks/exact.py
	@$(BIN)/python benchmarks/many_scores.py

bench-scale: $(STAMP) ## out of core, Dask clusters and growth, as JSON lines in benchmarks/results
	@$(BIN)/python -m benchmarks.out_of_core
	@$(BIN)/python -m benchmarks.cluster
	@$(BIN)/python -m benchmarks.growth

mutants: $(STAMP) ## plant bugs, one by one, and list the test that catches each
	@cd tests && ../$(BIN)/python -m mutants --csv ../docs/results/planted.csv

# Without atheris (no wheel for this system) files are damaged at random, and it says so.
FUZZ_SECONDS ?= 300
fuzz: $(STAMP) ## fresh random cases, then damaged files under a coverage-guided fuzzer (FUZZ_SECONDS=300)
	@$(BIN)/python -m pip install --quiet --group fuzz || true
	@cd tests && ../$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

guarantees: $(STAMP) ## coverage of every split, score family and data set, with one verdict
	@cd tests && ../$(BIN)/python -m acceptance --csv ../docs/results/coverage.csv

levels: $(STAMP) ## 1,000 random levels against p-values at every door, then scores="auto" with few rows
	@cd tests && ../$(BIN)/python -m levels
	@cd tests && ../$(BIN)/python -m frontier

verdicts: $(STAMP) ## how often a verdict is wrong, and how often it sees a shortfall
	@cd tests && ../$(BIN)/python -m verdicts

release-check: check test docs ## everything a release needs; wheel and sdist in empty environments
	@$(BIN)/python release/check.py

clean: ## remove the environment and everything generated
	@rm -rf $(VENV) $(PEERS) $(VERSIONS) demo dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
