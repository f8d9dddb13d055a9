# Targets a person types. `make demo` and `make test` need nothing but Python 3.11 or newer and a package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests start some thousand processes; without compiled modules each of these would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# Of what is installed nothing is compiled: a few of its ten thousand modules are ever imported, and compiled then.
# Where PYTHONDONTWRITEBYTECODE is set, every command would translate the modules that it imports anew: half a second.
# The environment has the same Python, and most of its installation waits for the package index.
TRANSLATE := $(PYTHON) -m compileall -q dfc runtime targets

.PHONY: help demo test test-gpu lint style types simulated tests fast gate bench bench-gpu clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(STAMP): pyproject.toml
	@$(TRANSLATE) & tools/environment.sh $(PYTHON) $(VENV) test,demo && wait $$!
	@touch $@

demo: $(STAMP)  ## Compile, train and try the handwritten digits
	$(BIN)/python samples/demo.py

lint: style types  ## Style, types and layer contracts

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/pyrefly check --progress-bar no --python-interpreter-path $(BIN)/python

simulated: $(STAMP)
	NUMBA_ENABLE_CUDASIM=1 $(BIN)/pytest -q tests/simulated

fast: $(STAMP)  ## The tests that take seconds
	$(BIN)/pytest -q -m 'not slow'

# All at once: the type checker runs beside the tests, of which many wait.
test: $(STAMP)  ## Style, types and all tests
	$(MAKE) --no-print-directory --jobs 2 tests types style simulated

# Four workers on two cores: tests of ranks and deadlines wait, others run meanwhile. They are forks of one process that
# has collected all tests (tests/support/workers); the first begins with those that wait.
tests: $(STAMP)
	$(BIN)/pytest -q --workers 4 --durations 20 --durations-min 1

gate: $(STAMP)  ## Attacks and sweeps that take an hour or more; with new seeds each time
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gate]'
	$(BIN)/python -m tests.gate

test-gpu: $(STAMP)  ## The tests that need a GPU; says why where they cannot run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cuda,cuda-run]'
	$(BIN)/pytest -q -rs -m gpu tests/gpu

bench-gpu: $(STAMP)  ## Measure on a GPU, beside what is installed of torch, jax and cupy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cuda,cuda-run]'
	$(BIN)/python -m bench.gpu
	$(BIN)/python -m bench.gpu.products

bench: $(STAMP)  ## Measure beside peers: a table, a chart, JSON; BENCH='--cases lstm --isa x86-64-v3' says which and how
	$(BIN)/python -m bench $(BENCH)

clean:  ## Remove the environment and everything generated
	rm -rf $(VENV) build dist .ruff_cache .pytest_cache
	find dfc runtime targets -name __pycache__ -prune -exec rm -rf {} +
