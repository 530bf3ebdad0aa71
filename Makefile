# make demo      install into .venv, measure the suite llm4bit-quick for a minute on the best device here, write the report
# make test      install what the tests need, then run ruff, mypy and the quick tests: minutes
# make test-all  the same and then make test-rest: every architecture, every kill, every command of the documentation
# make fuzz      give damaged and hostile files to every command that reads files, 5000 for each target
# make bench     run the programs under benchmarks/: our kernels and tools beside their peers, as ratios
# make campaign  measure what benchmarks/campaign.py lists and is not stored for this GPU, WITHIN=9m on GPUS=1
# make docs      regenerate the generated pages of docs/
# make site      build the documentation site, build/site/index.html: it can be searched without a network
# make golden    regenerate the reports in tests/reports/golden/: look at the diff before you commit it
# make results   regenerate the reports under docs/results/ and the gallery from the stored runs (images need Chromium)
# make clean     remove .venv and caches; runs/ stays
#
# PYTHON=python3.12   the interpreter for .venv (default: the first Python 3.11 or newer that can create one)
# VENV_FLAGS=--system-site-packages   let .venv use the torch that is installed already: for GPU machines, also where
#                     PYTHON belongs to a virtual environment, which is not changed. A CUDA or ROCm build of torch that
#                     .venv can see is kept; otherwise constraints.txt decides
# PIP_FLAGS=...       more options for pip; on a machine without a GPU, the index of torch's CPU builds
#                     (--extra-index-url ...) saves gigabytes of GPU packages

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
BUILD_FILES := pyproject.toml setup.py constraints.txt .ci/install
export PYTHON VENV VENV_FLAGS PIP_FLAGS
# Empty is unset: where it is set, as in many containers, every process compiles every module anew.
export PYTHONDONTWRITEBYTECODE :=

WITHIN ?= 9m
GPUS ?= 1

.PHONY: help demo test test-all test-rest fuzz bench campaign docs site golden results clean
.NOTPARALLEL:

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@echo "==> measuring llm4bit-quick"
	@$(BIN)/rooflens run llm4bit-quick --within 60s

# Every part runs, also after one has failed, and make fails at the end. CONTRIBUTING.md says what the markers mean.
QUICK := ruff mypy tests tests-exclusive
REST := slow slow-exclusive
# Half as many again as there are cores: tests wait for processes a third of their time.
WORKERS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))
SIDE_BY_SIDE := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup
ALONE := $(BIN)/python -m pytest $(shell grep -rl --include='test_*.py' 'mark\.exclusive' tests plugins)
.PHONY: $(QUICK) $(REST)

test: PARTS = $(QUICK)
test-all: PARTS = $(QUICK) $(REST)
test-rest: PARTS = $(REST)
test test-all test-rest: $(VENV)/.installed-test
	@.ci/system-packages
	@$(MAKE) --no-print-directory --keep-going $(PARTS)

ruff:
	@echo "==> $@"
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

mypy:
	@echo "==> $@"
	@$(BIN)/python -m mypy -p rooflens
	@$(BIN)/python -m mypy --config-file benchmarks/mypy.ini benchmarks

tests:
	@echo "==> $@"
	@$(SIDE_BY_SIDE) -m "not slow and not exclusive"

tests-exclusive:
	@echo "==> $@"
	@$(ALONE) -m "exclusive and not slow"

# Also the quick tests that draw examples, now with many of them.
slow:
	@echo "==> $@"
	@$(SIDE_BY_SIDE) -m "(slow or hypothesis) and not exclusive" --hypothesis-profile thorough

slow-exclusive:
	@echo "==> $@"
	@$(ALONE) -m "slow and exclusive" --hypothesis-profile thorough

# Inputs per target. Not loadgroup: the parts of a target go on side by side.
fuzz: export ROOFLENS_FUZZ ?= 5000
fuzz: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist load tests/fuzz

bench: $(VENV)/.installed-test
	@for program in benchmarks/*.py; do echo "==> $$program"; $(BIN)/python "$$program"; done

campaign: $(VENV)/.installed
	@$(BIN)/python benchmarks/campaign.py --measure --within $(WITHIN) --gpus $(GPUS)

docs: $(VENV)/.installed
	@echo "==> docs/columns.md, docs/architecture.md, docs/commands.md"
	@$(BIN)/python docs/package_map.py
	@$(BIN)/python docs/command_reference.py
	@$(BIN)/rooflens list columns --markdown > docs/columns.md.new
	@mv docs/columns.md.new docs/columns.md

site: $(VENV)/.installed-test
	@echo "==> build/site"
	@$(BIN)/python -m sphinx -q --fail-on-warning --keep-going docs build/site

golden: $(VENV)/.installed-test
	@ROOFLENS_GOLDEN=write $(BIN)/python -m pytest -q tests/reports/test_golden.py

results: $(VENV)/.installed-test
	@ROOFLENS_GOLDEN=write $(BIN)/python -m pytest -q tests/reports/test_stored_results.py tests/reports/test_gallery.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.installed: $(BUILD_FILES)
	@.ci/install
	@touch $@

$(VENV)/.installed-test: $(BUILD_FILES)
	@.ci/install test,docs
	@touch $@ $(VENV)/.installed
