# make demo    install into .venv, measure the suite llm4bit-quick on the best device here, write the report
# make test    install what the tests need, then ruff, mypy and pytest; CI runs exactly this
# make bench   measure the full suite llm4bit, ten minutes at a time: run it again to go on
# make docs    regenerate the generated pages of docs/
# make clean   remove .venv and caches; runs/ stays
#
# PYTHON=python3.12   the interpreter for .venv (default: the first Python 3.11 or newer that can make one)
# VENV_FLAGS=--system-site-packages   let .venv use the torch that is installed already: for GPU machines. A CUDA or
#                     ROCm build of torch that .venv can see is kept as it is; otherwise constraints.txt decides
# PIP_FLAGS=...       more options for pip, such as --extra-index-url https://download.pytorch.org/whl/cpu, which
#                     saves gigabytes of GPU packages on a machine that has no GPU

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
BUILD_FILES := pyproject.toml constraints.txt .ci/install
export PYTHON VENV VENV_FLAGS PIP_FLAGS

.PHONY: help demo test bench docs clean

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@echo "==> measuring llm4bit-quick"
	@$(BIN)/rooflens run llm4bit-quick --report

test: $(VENV)/.installed-test
	@.ci/system-packages
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy"
	@$(BIN)/mypy -p rooflens
	@echo "==> pytest"
	@$(BIN)/pytest

bench: $(VENV)/.installed
	@echo "==> measuring llm4bit for ten minutes; make bench goes on with it"
	@$(BIN)/rooflens run llm4bit -o runs/llm4bit $(if $(wildcard runs/llm4bit/run.json),--resume) --max-time 10m --report

docs: $(VENV)/.installed
	@echo "==> docs/columns.md"
	@$(BIN)/rooflens list columns --markdown > docs/columns.md.new
	@mv docs/columns.md.new docs/columns.md

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.installed: $(BUILD_FILES)
	@.ci/install
	@touch $@

$(VENV)/.installed-test: $(BUILD_FILES)
	@.ci/install test
	@touch $@ $(VENV)/.installed
