# `make demo` and `make test` are all a fresh clone needs: Python 3.11+ and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= true

.PHONY: help demo test test-full lint types clean
.DEFAULT_GOAL := help

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/'

# Two stamps, so that the demo need not install the test tools.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[offline,docs]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.demo ## Install, index the Python documentation that CPython carries, ask it questions.
	$(BIN)/python examples/python_docs.py --to demo-index

lint: $(VENV)/.test ## Check style and format.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test ## Check types, strictly.
	$(BIN)/mypy

test: $(VENV)/.test lint types ## Install, then lint, types, tests, doctests, examples, wheel check.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not full' -q -rs -n 2 --dist loadfile

test-full: $(VENV)/.test lint types ## As test, and the heavy ones.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rs -n 2 --dist worksteal

clean: ## Remove what the targets made.
	rm -rf $(VENV) build dist demo-index .pytest_cache .mypy_cache .ruff_cache
