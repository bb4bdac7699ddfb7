# Every target does its own set-up: any of them may be the first command in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format docs pages results bench versions assurance release-check clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## create or update .venv with the package (editable) and the development group
	@rm -f $(STAMP)
	@$(MAKE) --no-print-directory $(STAMP)

# pip is upgraded first: dependency groups (PEP 735) need pip >= 25.1. Most modules of what is
# installed are never imported, so none is compiled beforehand.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --no-compile --editable '.[all]' --group dev
	@touch $@

demo: $(STAMP) ## averaged scores on CIFAR-100: a table, and a picture in demo/
	@$(BIN)/conformix demo --table --out demo

docs: $(STAMP) ## the documentation as HTML in docs/_build/html, without a network
	@$(BIN)/python -m sphinx -E -W -q -b html docs docs/_build/html

# Files in the order of their names: the many small ones of src come last and fill both workers.
# A worker has a core of its own, so libraries start no threads beside it; what tests start as a
# process of its own reads compiled modules, whatever the shell says about writing them.
# There are half as many workers again as cores: some wait for a browser, or for another process.
WORKERS = $(shell $(PYTHON) -c 'import os; print(3 * os.cpu_count() // 2)')
test: export OPENBLAS_NUM_THREADS := 1
test: export OMP_NUM_THREADS := 1
test: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMP) ## all tests, doctests included; WHAT=long: the long forms of slow ones alone
	@$(BIN)/python -m pytest -q -rs --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(addprefix -m ,$(WHAT))

check: $(STAMP) ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP) ## apply the formatter and the safe fixes
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

# The targets below take WHAT=...; each name is a target of its own, e.g. bench-gpu.
chosen = @$(MAKE) --no-print-directory $(addprefix $(1)-,$(or $(WHAT),$(2)))

pages: ## pictures of the docs: WHAT="plots drawings starts screens" (screens need chromium)
	$(call chosen,pages,plots)
pages-plots: $(STAMP)
	@$(BIN)/python examples/plots.py --out docs/images/plots
	@$(BIN)/python docs/contact_sheet.py
pages-drawings: $(STAMP)
	@$(BIN)/python docs/drawings.py --out docs/images
pages-starts: $(STAMP)
	@$(BIN)/python docs/starts.py
pages-screens: $(STAMP)
	@$(BIN)/python docs/screens.py
	@$(BIN)/python docs/contact_sheet.py

# The networks and readings of docs/results.md; a killed run goes on where it was.
RUNS ?= 100
REPRODUCE := $(BIN)/conformix reproduce --runs $(RUNS) --table
results: ## tables behind the docs: WHAT="paper frontier ideas alone regression examples" (RUNS=100); a killed run goes on
	$(call chosen,results,paper)
results-paper: $(STAMP)
	@$(REPRODUCE) all --data cifar100 --out docs/results/cifar100
	@$(REPRODUCE) table1 --data cifar100 --normalize ecdf --out docs/results/cifar100_ecdf
	@$(REPRODUCE) table1 --data cifar100 --model densenet_bc_100 --out docs/results/cifar100_densenet
	@$(REPRODUCE) all --data cifar10 --out docs/results/cifar10
	@$(REPRODUCE) all --data cifar10_trio --out docs/results/cifar10_trio
	@$(REPRODUCE) all --data tinyimagenet_trio --out docs/results/tinyimagenet_trio
	@$(BIN)/python docs/contact_sheet.py
results-frontier: $(STAMP)
	@$(BIN)/python -m studies.frontier docs/results/frontier
results-ideas: $(STAMP)
	@$(BIN)/python -m studies.frontier.ideas docs/results/frontier
results-alone: $(STAMP)
	@$(BIN)/python -m studies.frontier.alone docs/results/frontier
# Tables that the pages include; each is replaced once it is whole.
example = @$(BIN)/python examples/$(2) > docs/results/examples/$(1).part && \
	mv docs/results/examples/$(1).part docs/results/examples/$(1).md
results-examples: $(STAMP)
	$(call example,conditional_classes,conditional.py classes --repetitions 40)
	$(call example,conditional_groups,conditional.py groups --repetitions 40)
	$(call example,exact_split,exact_split.py --repetitions 400)
	$(call example,exact_split_by_class,exact_split.py --repetitions 40 --by-class)
	$(call example,normalisation,normalisation.py --repetitions 10)
	$(call example,objectives,objectives.py)
	$(call example,online,online.py --steps 6000)
	$(call example,oracle_gap,oracle_gap.py)
	$(call example,pac,pac.py --draws 500)
	$(call example,score_averaging,score_averaging.py)
	$(call example,twelve_classifiers,twelve_classifiers.py --runs 50 --markdown)
# Its data lie in regression/ below data/ or below the folder that CONFORMIX_DATA names.
results-regression: $(STAMP)
	@$(BIN)/python -m studies.regression docs/results/regression

bench: ## speed, rows in benchmarks/results: WHAT="search startup scale gpu learnt regression peers end-to-end at-a-glance versions streams" (OLD=a revision)
	$(call chosen,bench,search)
bench-search: $(STAMP)
	@$(BIN)/python -m benchmarks
	@$(BIN)/python benchmarks/exact.py
	@$(BIN)/python benchmarks/many_scores.py
bench-startup: $(STAMP)
	@$(BIN)/python -m benchmarks --only startup --out benchmarks/results/startup.jsonl
bench-scale: $(STAMP)
	@$(BIN)/python -m benchmarks.out_of_core
	@$(BIN)/python -m benchmarks.cluster
	@$(BIN)/python -m benchmarks.doors
	@$(BIN)/python -m benchmarks.growth
bench-streams: $(STAMP)
	@$(BIN)/python -m benchmarks.streams --keep
bench-gpu: $(STAMP)
	@$(BIN)/python benchmarks/gpu.py
OLD ?= HEAD~1
bench-learnt: $(STAMP)
	@$(BIN)/python -m benchmarks.learnt
bench-regression: $(STAMP)
	@$(BIN)/python -m benchmarks.regression
bench-versions: $(STAMP)
	@$(BIN)/python -m benchmarks.versions $(OLD)

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
bench-peers: $(PUNCC)/.tried
	@PUNCC_PYTHON=$(PUNCC)/bin/python $(PEERS)/bin/python benchmarks/aps.py
	@$(PEERS)/bin/python benchmarks/pvalues.py
	@$(PEERS)/bin/python -W ignore benchmarks/sets.py
	@$(PEERS)/bin/python -W ignore benchmarks/interval_peers.py
# Writes the tables of docs/end_to_end.md too; OPTIONS="--parts times --rounds 3" measures less.
bench-at-a-glance: $(PEERS)/.installed
	@$(PEERS)/bin/python -W ignore -m benchmarks.at_a_glance --keep
bench-end-to-end: $(PEERS)/.installed
	@$(PEERS)/bin/python -m benchmarks.end_to_end $(OPTIONS)

versions: ## other releases and peers: WHAT="sklearn oldest interpreters peers"
	$(call chosen,versions,sklearn oldest interpreters)
# An old release runs among its contemporaries, so they are named with it.
VERSIONS := .venv-versions
OLD_SKLEARN := $(VERSIONS)/sklearn-1.6
SKLEARN_TESTS := tests/estimators/test_conformal_classifier.py tests/estimators/test_metadata_routing.py \
	tests/estimators/test_score_average_in_sklearn.py tests/fit/golden
$(OLD_SKLEARN)/.installed: pyproject.toml
	@test -x $(OLD_SKLEARN)/bin/python || $(PYTHON) -m venv $(OLD_SKLEARN)
	@$(OLD_SKLEARN)/bin/python -m pip install --quiet --upgrade pip
	@$(OLD_SKLEARN)/bin/python -m pip install --quiet --editable '.[frames]' --group test \
		'scikit-learn==1.6.*' 'scipy<1.16' 'pytest<9' 'polars<1.30'
	@touch $@
versions-sklearn: $(STAMP) $(OLD_SKLEARN)/.installed
	@for python in $(OLD_SKLEARN)/bin/python $(BIN)/python; do \
		$$python -c 'import sklearn; print("scikit-learn", sklearn.__version__)' && \
		$$python -m pytest -q $(SKLEARN_TESTS) || exit 1; done
versions-oldest: $(STAMP)
	@$(BIN)/python release/versions.py oldest torch
versions-interpreters: $(STAMP)
	@$(BIN)/python release/versions.py interpreters
versions-peers: $(PEERS)/.installed
	@$(PEERS)/bin/python -m pytest -q tests/parity

assurance: ## long suites: WHAT="guarantees verdicts levels doors few-rows mutants mutation fuzz races models memory house identity"
	$(call chosen,assurance,guarantees verdicts levels doors few-rows mutants fuzz races models memory house)
assurance-guarantees: $(STAMP)
	@cd tests && ../$(BIN)/python -m guarantees.coverage --csv ../docs/results/coverage.csv
assurance-verdicts: $(STAMP)
	@cd tests && ../$(BIN)/python -m verdicts
assurance-levels: $(STAMP)
	@cd tests && ../$(BIN)/python -m levels
assurance-doors: $(STAMP)
	@cd tests && ../$(BIN)/python -m doors
assurance-few-rows: $(STAMP)
	@cd tests && ../$(BIN)/python -m scores.few_rows
# Resumable: outcomes stand in .mutation/; survivors of an earlier run are tried again with AGAIN=--again.
assurance-mutation: $(STAMP)
	@$(BIN)/python -m pip install --quiet --group mutation
	@cd tests && ../$(BIN)/python -m mutation $(AGAIN) --table ../docs/results/mutation.md
assurance-mutants: $(STAMP)
	@$(BIN)/python -m pip install --quiet --group mutation
	@cd tests && ../$(BIN)/python -m mutants --outcomes mutants/outcomes.jsonl --csv ../docs/results/planted.csv
# Without atheris (no wheel for this system) files are damaged at random, and it says so.
FUZZ_SECONDS ?= 300
assurance-fuzz: $(STAMP)
	@$(BIN)/python -m pip install --quiet --group fuzz || true
	@cd tests && ../$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)
assurance-races: $(STAMP)
	@cd tests && ../$(BIN)/python -m races
assurance-models: $(STAMP)
	@cd tests && ../$(BIN)/python -m fit.leaves
assurance-memory: $(STAMP)
	@cd tests && ../$(BIN)/python -m data.files.greedy
assurance-house: $(STAMP)
	@$(BIN)/python release/house.py
assurance-identity: $(STAMP)
	@$(BIN)/python release/identity.py $(OLD)

release-check: check test docs ## everything a release needs; wheel and sdist in empty environments
	@$(BIN)/python release/check.py

clean: ## remove the environment and everything generated
	@rm -rf $(VENV) $(PEERS) $(VERSIONS) demo dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
