# Two commands do everything on a machine with Python 3.11, make and git: `make demo` and `make test`.
# pip finds torch's CPU build through constraints.txt; one environment, .venv, made anew when pyproject.toml changes.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)

WALKBACK_LATEX ?= required

.PHONY: demo test lint latex test-network mutants bench clean help
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "walkback needs $(PYTHON); name another with make PYTHON=…"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## Audit bp, fa and dfa on the embedded MNIST-1D, with their baselines and controls
	$(BIN)/walkback audit

lint: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

latex:  ## pdflatex and booktabs, which the tests compile tables with: Debian's, installed if they are not here
	@kpsewhich booktabs.sty >/dev/null 2>&1 && command -v pdflatex >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing LaTeX (48 MB)" && \
	  apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install texlive-latex-recommended >/dev/null; } || \
	{ echo "no LaTeX here: install texlive-latex-recommended (Debian), BasicTeX (macOS), or go without: make test WALKBACK_LATEX=no"; \
	  exit 1; }

test: lint $(if $(filter required,$(WALKBACK_LATEX)),latex)  ## Everything that must pass before a change lands
	OMP_NUM_THREADS=1 WALKBACK_LATEX=$(WALKBACK_LATEX) $(BIN)/pytest -n $(CORES)

test-network: $(STAMP)  ## The tests that fetch real data
	$(BIN)/pytest -m network

mutants: $(STAMP)  ## Mutate the checks and see the tests notice (ten minutes)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[mutants]'
	OMP_NUM_THREADS=1 $(BIN)/mutmut run --max-children $(CORES); $(BIN)/mutmut results

bench: $(STAMP)  ## Measure speed as ratios, in one process; writes bench.json
	$(BIN)/python bench/bench.py

clean:  ## Remove the environment and the caches (runs are kept)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
