# make demo   from nothing to a story told by a real server
# make test   from nothing to the whole test suite
# Both make .venv first; PYTHON chooses the interpreter (3.11 or later).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MAJORS ?= 16 17 18
# Tests are laid out by hand: a table of cases is read down its columns.
FORMATTED := pgrag benchmarks tools examples migrations

.DEFAULT_GOAL := help
.PHONY: help demo test test-matrix test-matrix-short assurance lint format expected dist sync clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@start=$$(date +%s); echo "installing pgrag and what it needs for '$*' (downloads) …"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25" && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]" && \
	echo "installed in $$(( $$(date +%s) - start )) s"
	@touch $@

demo: $(VENV)/.installed-demo ## install, start an embedded PostgreSQL, ingest the sample corpus, show what pgrag does
	@$(BIN)/pgrag demo

test: $(VENV)/.installed-test ## the whole test suite, on the embedded server (PGRAG_TEST_DSN and PGRAG_TEST_BACKEND=docker change that)
	@$(BIN)/python -m pytest $(PYTEST)

test-matrix: $(VENV)/.installed-test ## the suite on PostgreSQL 16, 17 and 18
	@for major in $(MAJORS); do \
	  echo "PostgreSQL $$major"; \
	  PGRAG_TEST_ALLOW_OLD_PGVECTOR=1 PGRAG_TEST_BINDIR="$$($(BIN)/python tools/pg_trees.py $$major)" \
	  $(BIN)/python -m pytest --quiet $(PYTEST) || exit 1; \
	done

test-matrix-short: $(VENV)/.installed-test ## schema, access and search on PostgreSQL 16 and 17
	@$(MAKE) --no-print-directory test-matrix MAJORS="$(filter-out 18,$(MAJORS))" PYTEST="tests/functions tests/access tests/upgrade tests/plans"

assurance: $(VENV)/.installed-test ## the proofs of the boundary in full, an hour each at most, going on from where they were; writes docs/assurance.*
	@$(BIN)/python -m tests.assurance $(ASSURANCE)

lint: $(VENV)/.installed-dev ## ruff, mypy, sqlfluff, and whether generated files are up to date
	@$(BIN)/ruff check . && $(BIN)/ruff format --check $(FORMATTED)
	@$(BIN)/mypy
	@$(BIN)/sqlfluff lint --processes 2 sql
	@$(BIN)/python -m pgrag._sql --check && $(BIN)/python tools/unasync.py --check

format: $(VENV)/.installed-dev ## ruff's formatting
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format $(FORMATTED)

expected: $(VENV)/.installed-test ## write down what a new installation has, which pgrag.doctor() compares with; then dist
	@PGRAG_WRITE_DOCS=1 $(BIN)/python -m pytest --quiet tests/functions/test_doctor.py -k expected_objects
	@$(BIN)/python -m pgrag._sql

dist: $(VENV)/.installed-test ## build dist/ from sql/
	@$(BIN)/python -m pgrag._sql

sync: $(VENV)/.installed-test ## generate the synchronous sessions from the asynchronous ones
	@$(BIN)/python tools/unasync.py

clean: ## remove the virtual environment, the demo's server and caches
	@rm -rf $(VENV) .pgrag .pytest_cache .mypy_cache .ruff_cache
