# The same commands locally and in CI. The first one run sets everything up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS ?= tests
# Two processes, each with its half in order, so that what files and modules set up is mostly set up once; whoever is done first takes over.
WORKERS := -n 2 --dist worksteal
# What to run on every save: the walls between rooms, schemas, accounting, ledger, noise, curator, error codes, names in the documentation, and
# files of 0.1. No fits of large models, no killed processes, no statistics; the slower proofs of single families are left out by name.
FAST := tests/unit/schema tests/unit/marginals tests/unit/privacy tests/unit/curator tests/unit/inference tests/unit/datasets \
  $(wildcard tests/unit/test_*.py) tests/docs/test_names.py tests/docs/test_limits.py tests/docs/test_trust.py tests/golden
NOT_FAST := tests/unit/privacy/test_subsampled.py tests/unit/privacy/test_count_divergence.py tests/unit/curator/test_count_mechanisms.py \
  tests/unit/curator/test_deniability_guarantee.py tests/unit/curator/test_gradients.py tests/unit/curator/test_rank_correlation.py \
  tests/unit/curator/test_subsets.py tests/unit/privacy/test_count_laws.py tests/unit/privacy/test_count_solving.py \
  tests/unit/privacy/test_ledger_kinds.py tests/unit/schema/test_schema_entries.py

.PHONY: audit demo test test-fast test-unit test-statistical coverage check docs house bench clean faults wheel sbom services

demo: $(STAMP)  ## simulate a registry, make its private stand-in, show the ledger
	$(BIN)/understudy demo --out demo-out

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -q $(WORKERS)

services: $(STAMP)  ## what the optional tests need: Spark, PyTorch, and on Debian (as root) Chromium, PostgreSQL, Java
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,spark,deep]' 'torch==2.13.0'
	bash scripts/system-packages.sh

test-fast: $(STAMP)  ## under a minute on two idle cores: the walls, the core, schemas, accounting, and files of 0.1
	$(BIN)/python -m pytest -q $(WORKERS) $(FAST) $(NOT_FAST:%=--ignore=%)

coverage: $(STAMP)  ## the whole suite (or TESTS=...) once more, watched: which lines it runs, and the total; slower than make test
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q $(WORKERS) $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --sort=cover --skip-covered

test-unit: $(STAMP)  ## all unit tests
	$(BIN)/python -m pytest -q tests/unit

test-statistical: $(STAMP)  ## distributions, sensitivities, kills
	$(BIN)/python -m pytest -q $(WORKERS) tests/statistical

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

docs: $(STAMP)  ## regenerate the generated reference pages and build the site into site/
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

house: $(STAMP)  ## measure the house and write docs/explanation/house-numbers.md (a few minutes)
	$(BIN)/python scripts/house.py --markdown

audit: $(STAMP)  ## attacks on every mechanism, claimed against demonstrated (about nine minutes on two cores)
	$(BIN)/understudy audit --all --quick --out audit.json --chart audit.svg

bench: $(STAMP)  ## the benchmarks behind the tables in docs/benchmarks.md
	$(BIN)/python -m benchmarks

faults: $(STAMP)  ## kills, full disks, power cuts, spoilt files: the quick forms (long: python -m benchmarks.trust.faults, .fuzz)
	$(BIN)/python -m pytest -q $(WORKERS) tests/faults tests/fuzz

wheel: $(STAMP)  ## build the wheel twice and compare the bytes
	$(BIN)/python scripts/wheel.py --out dist

sbom: $(STAMP)  ## software bill of materials of the installed package (CycloneDX JSON)
	$(BIN)/python scripts/sbom.py --out dist/understudy.cdx.json

clean:
	rm -rf $(VENV) demo-out .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Understudy needs Python 3.11, 3.12 or 3.13; set PYTHON=/path/to/one."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary=:all: --no-binary=jsonpath-rw --editable '.[dev]' \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)
