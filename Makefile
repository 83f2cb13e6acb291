# Two commands do everything on a machine with Python 3.11, make and git: `make demo` and `make test`.
# pip finds torch's CPU build through constraints.txt; one environment, .venv, made anew when a pyproject.toml changes. The
# demo needs walkback alone, beside which the paper is installed; the tests bring what they need beside it.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PLAIN := $(VENV)/.plain
STAMP := $(VENV)/.installed
AXE_VERSION := 4.14.0
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)

WALKBACK_LATEX ?= required
FUZZ ?= 10000

.PHONY: demo test tools lint browser latex docs docs-serve test-wheel test-docs test-network test-ray test-slurm test-slow fuzz mutants \
        bench bench-executors crowd golden rules-page sentences clean help
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(PLAIN): pyproject.toml paper/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "walkback needs $(PYTHON); name another with make PYTHON=python3.13 (3.11 to 3.13)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . -e ./paper
	@touch $@

$(STAMP): $(PLAIN)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(PLAIN)  ## Audit four rules on the embedded MNIST-1D, with their baselines and controls
	$(BIN)/walkback audit --rules bp,mono-forward,fa,dfa --seeds auto --max-seeds 8 --no-cards

lint: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)  ## Everything that must pass before a change lands
	@$(MAKE) --no-print-directory -j2 lint tools
	OMP_NUM_THREADS=1 WALKBACK_BROWSER=required WALKBACK_LATEX=$(WALKBACK_LATEX) $(BIN)/pytest -n $(CORES)

tools:  # what the tests need beside Python, one after the other: apt-get holds a lock
	@$(MAKE) --no-print-directory browser
	@$(if $(filter required,$(WALKBACK_LATEX)),$(MAKE) --no-print-directory latex)

latex:  ## pdflatex and booktabs, which the tests compile tables with: Debian's, installed if they are not here
	@kpsewhich booktabs.sty >/dev/null 2>&1 && command -v pdflatex >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing LaTeX (48 MB)" && \
	  apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install texlive-latex-recommended >/dev/null; } || \
	{ echo "no LaTeX here: install texlive-latex-recommended (Debian), BasicTeX (macOS), or go without: make test WALKBACK_LATEX=no"; \
	  exit 1; }

# The page is tested in a real browser. Debian's packages where we may install them, else a word about what is missing.
browser: build/axe/$(AXE_VERSION)  ## Chromium, its driver and axe-core, for the tests of the page
	@$(call brought,chromium chromedriver,chromium chromium-driver)

build/axe/$(AXE_VERSION):
	@$(call brought,npm,npm)
	@mkdir -p build/axe && cd build/axe && rm -rf package && npm pack --silent axe-core@$(AXE_VERSION) >/dev/null
	@cd build/axe && tar xzf axe-core-$(AXE_VERSION).tgz package/axe.min.js && touch $(AXE_VERSION)

# $(1): commands that must be there; $(2): the Debian packages that bring them
define brought
for command in $(1); do command -v $$command >/dev/null && continue; \
  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    echo "installing $(2)"; export DEBIAN_FRONTEND=noninteractive; apt-get update -qq >/dev/null && \
    apt-get install -y -qq --no-install-recommends $(2) >/dev/null && break; fi; \
  echo "$$command is missing; install it, on Debian with: apt-get install $(2)"; exit 1; done
endef

docs: $(STAMP)  ## The documents as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open site/index.html; for the search, which needs a server: make docs-serve"

docs-serve: docs  ## The same, served on this machine at port 8000, where its search works
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

golden: $(STAMP)  ## Write the golden oracle anew: its diff says which answers changed
	OMP_NUM_THREADS=1 $(BIN)/python tests/oracle.py
	$(BIN)/python tests/checks_golden.py
	@git diff --stat -- tests/golden

rules-page: $(STAMP)  ## Measure the rules' cards anew and write them, with the docstrings, into docs/rules-and-nets.md
	OMP_NUM_THREADS=1 $(BIN)/python tests/rules_page.py

sentences:  ## Every sentence that the program can say, room by room, for reading them through
	@python3 docs/sentences.py

test-wheel: $(STAMP)  ## Build the wheel, install it in a fresh environment, and audit with it
	$(BIN)/pytest -m slow tests/test_house.py

test-slow: $(STAMP)  ## The tests that take minutes: published figures on MNIST, which is fetched; BioTorch, installed for it
	$(BIN)/python -m pip install --quiet --no-deps biotorch==0.0.16
	$(BIN)/pytest -m slow -s

test-docs: $(STAMP)  ## Run every command and example of the documents (the README's are in `make test`; minutes)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m documents -n $(CORES) tests/cli/test_docs.py

test-ray: $(STAMP)  ## The tests on a Ray cluster of two nodes, on this machine (minutes)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[ray]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m ray -v tests/train/test_executors_ray.py

test-slurm: $(STAMP)  ## The tests on a Slurm cluster of one node: brought, started and stopped here (root; minutes)
	@$(call brought,sbatch munged,slurm-wlm munge)
	@folder=$$(mktemp -d /tmp/walkback-slurm.XXXXXX); chmod 755 $$folder; \
	trap 'bash tests/slurm/cluster.sh stop '$$folder'; rm -rf '$$folder EXIT; \
	bash tests/slurm/cluster.sh start $$folder $(CORES) && \
	SLURM_CONF=$$folder/slurm.conf OMP_NUM_THREADS=1 $(BIN)/pytest -m slurm -v tests/train/test_executors_slurm.py

bench-executors: $(STAMP)  ## Time 64 short runs by every executor that is here, as overhead per run
	$(BIN)/python bench/executors.py

test-network: $(STAMP)  ## The tests that fetch real data
	$(BIN)/pytest -m network

fuzz: $(STAMP)  ## Put 10,000 mutated files to every door that reads some (half an hour; FUZZ=300 for fewer)
	OMP_NUM_THREADS=1 WALKBACK_FUZZ=$(FUZZ) $(BIN)/pytest -n $(CORES) -rP tests/test_fuzz.py -k only_our_own

mutants: $(STAMP)  ## Mutate the checks and see the tests notice (ten minutes)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[mutants]'
	OMP_NUM_THREADS=1 $(BIN)/mutmut run --max-children $(CORES); $(BIN)/mutmut results

bench: $(STAMP)  ## Measure speed as ratios, in one process; writes bench.json
	$(BIN)/python bench/bench.py

CROWD ?= 100,1000,10000
crowd: $(STAMP)  ## Measure the commands on 100, 1,000 and 10,000 run folders made from results/ (half an hour, 1 GB)
	OMP_NUM_THREADS=1 $(BIN)/python bench/crowd.py measure --counts $(CROWD)

clean:  ## Remove the environment and the caches (runs are kept)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
