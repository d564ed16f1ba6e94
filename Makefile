# Every target builds its own environment: a fresh clone needs Python 3.11+ and make, nothing else.
# Choose another interpreter with `make test PYTHON=python3.12`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test lint types unit bench bench-operators clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|' 2>/dev/null \
	|| grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST)

# The stamp is written last, so an interrupted set-up is simply done again.
$(READY): Makefile pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "korisk needs Python 3.11 or newer, found $$($(PYTHON) --version 2>&1); name one with: make PYTHON=python3.12" >&2; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[report,torch,dev]'
	@touch $(READY)

run: $(READY) ## plan from the paper's pilots, and show its CT bound and what that implies
	@$(BIN)/korisk plan examples/pilot_h8.csv --target 0.003 --at 128
	@$(BIN)/korisk compare examples/pilot_h128.csv --target 0.06
	@$(BIN)/korisk bound examples/ct_h128_ko.yaml --target 0.006
	@$(BIN)/korisk bound examples/ct_h128_fc.yaml --target 0.006
	@$(BIN)/korisk published
	@$(BIN)/korisk operators 32 40 32

test: lint types unit ## everything that CI checks: style, types, tests

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

unit: $(READY)
	@$(BIN)/pytest

bench: $(READY) ## run the benchmarks (the planner's takes some twenty minutes on two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/requirements.txt
	@for name in import_time fit_speed planner; do $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-operators: $(READY) ## compare the operators with other libraries (half an hour on two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/operators-requirements.txt
	@$(BIN)/python benchmarks/operators.py --check
	@$(BIN)/python benchmarks/operators.py --quality
	@$(BIN)/python benchmarks/operators.py

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
