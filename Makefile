# Everything runs inside a virtual environment that is made on first use.
#   make sweep                          search IMPALA's hyperparameters on CartPole
#   make sweep ARGS="+experiment=atari" any options of `python -m sweeps.run`
#   make test                           all tests
#   make check                          format, lint, types
#   make bench                          measure; writes benchmarks/README.md
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: sweep train ui test check bench format clean
.DEFAULT_GOAL := sweep

$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else "Python 3.10 or newer is needed, this is %d.%d (choose another with: make PYTHON=python3.12)" % v[:2])'
	@echo "Setting up $(VENV) (once; a few minutes, most of it downloads) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.run
	@echo "Adding what the tests need ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

sweep: $(VENV)/.run
	@$(BIN)/python -m sweeps.run $(ARGS)

train: $(VENV)/.run
	@$(BIN)/python -m sweeps.train $(ARGS)

ui: $(VENV)/.run
	@$(BIN)/python -m sweeps.ui $(ARGS)

test: $(VENV)/.test
	@$(BIN)/python -m pytest $(ARGS)

check: $(VENV)/.test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(VENV)/.test
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.run
	@$(BIN)/python -m benchmarks.floors $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .coverage
