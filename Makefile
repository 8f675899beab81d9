# Everything happens in .venv, which is made from hash-pinned locks and made anew when they change.
# A distribution builds its Python with profile-guided optimization. One that pyenv builds has none,
# and takes a fifth longer, so the distribution's is taken where it is new enough, unless a virtual
# environment is active: then its Python is.
ENOUGH  := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
PYTHON  ?= $(shell test -z "$$VIRTUAL_ENV" && /usr/bin/python3 -c "$(ENOUGH)" 2>/dev/null && \
             echo /usr/bin/)python3
UPGRADE ?=

VENV := .venv
BIN  := $(VENV)/bin
RUN  := $(VENV)/run.stamp
DEV  := $(VENV)/dev.stamp
DOCS := $(VENV)/docs.stamp
PIP  := $(BIN)/python -m pip --disable-pip-version-check --no-input
UV   := .lock-venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" --quiet $(UPGRADE)
OURS := pyproject.toml --group build \
        --extra examples --extra server --extra threads --extra web --extra otel

# Tests and checks start hundreds of processes: without bytecode each compiles every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo agents release-notes night-shift clean-a-dataset up docs test check mutants bench proof lock clean

help: ## Show what can be made
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: $(DEV) $(DOCS) ## Make .venv with everything that tests and checks need

demo: $(RUN) $(DOCS) ## Run the example inbox from producer to done, on a store of its own
	@$(BIN)/python -m examples.demo

agents: $(RUN) ## Run four coding agents on a repository with a failing test
	@$(BIN)/python -m examples.fix_the_tests

# Of another repository: make release-notes RELEASE_NOTES_REPO=/path/to/it
release-notes: $(RUN) ## Make release notes of this repository by a graph of ten reviewed jobs
	@RELEASE_NOTES_REPO="$(RELEASE_NOTES_REPO)" $(BIN)/python -m examples.release_notes

night-shift: $(RUN) ## Run two long-lived agents that pass work to each other by mail
	@$(BIN)/python -m examples.night_shift

clean-a-dataset: $(RUN) ## Run a plan of codons over a spoilt table: a failure, a redo, a bill
	@$(BIN)/python -m examples.clean_a_dataset

# Your own capabilities: make up INTERLOCK_CAPABILITIES=...
up: export INTERLOCK_CAPABILITIES ?= examples/capabilities.toml
up: $(RUN) $(DOCS) ## Start store, workers, beat, API and Flower, and keep them up
	@$(BIN)/interlock up

docs: $(DOCS) ## Build the documentation, which `interlock docs` and the console show
	$(BIN)/python -m scripts.site

test: $(DEV) ## Run the tests, on servers that they start themselves
	$(BIN)/python -m pytest

check: $(DEV) ## Lint, format, types, floors, documents in step with code, and their links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.documents --check
	$(BIN)/python -m scripts.site

# Of one script or part: make mutants SCRIPT=retry, or SCRIPT=part/grant
mutants: $(DEV) ## Change each rule of the store's scripts once, and show with which change all tests pass
	$(BIN)/python -m tests.kernel.store.mutation_round $(SCRIPT)

bench: $(RUN) ## Measure against Celery, DBOS and PgQueuer, and write bench/latest.json
	$(BIN)/python -m bench

proof: $(DEV) ## Run the longer proofs, and compare with peers what a kill costs
	$(BIN)/python -m pytest -m "proof or fuzz" --timeout=3600
	$(BIN)/python -m tests.comparison

lock: ## Make the locks anew; UPGRADE=--upgrade takes newer versions
	$(PYTHON) -m venv .lock-venv
	.lock-venv/bin/python -m pip --disable-pip-version-check install --quiet "uv>=0.13,<0.14"
	$(UV) $(OURS) --output-file requirements/run.lock
	$(UV) $(OURS) --extra dev --group docs --constraints requirements/run.lock --output-file requirements/dev.lock
	$(UV) --group pyproject.toml:docs --constraints requirements/run.lock --output-file requirements/docs.lock
	$(UV) --group pyproject.toml:peers --output-file requirements/peers.lock
	rm -rf .lock-venv

clean: ## Remove what make and the tools made
	rm -rf $(VENV) .lock-venv .peers-venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache \
	       .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/made.stamp: requirements/run.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Interlock needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/run.lock
	@touch $@

$(RUN): $(VENV)/made.stamp pyproject.toml
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS): requirements/docs.lock $(RUN)
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/docs.lock
	$(BIN)/python -m scripts.site
	@touch $@

$(DEV): requirements/dev.lock $(RUN)
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/dev.lock
	@touch $@
