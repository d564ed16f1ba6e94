# Every target builds its own environment: a fresh clone needs Python 3.11+ and make, nothing else.
# Choose another interpreter with `make test PYTHON=python3.12`.
PYTHON ?= python3
VENV   ?= .venv
PINS   ?= constraints.txt
BIN    := $(VENV)/bin
STUDY  := $(VENV)/.study# what `make run` needs
READY  := $(VENV)/.ready# and everything else
TESTERS ?= $(shell expr $$(nproc 2>/dev/null || echo 1) + 1) # one more than cores: many tests wait
# Bytecode is kept, even where the environment says not to: tests start some two hundred processes,
# and each would compile the packages again.
export PYTHONDONTWRITEBYTECODE :=
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest -n $(TESTERS) --dist worksteal
RUN    ?= # options of `make run`, such as RUN="--points 8 --seeds 1,2"

.DEFAULT_GOAL := help
.PHONY: help run test thorough lint types unit long slow docs gallery coverage mutation fuzz release-check core lowest bench bench-operators bench-study bench-clusters clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|' 2>/dev/null \
	|| grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST)

# $(set-up) adds $(EXTRAS) to the environment, without bytecode, which costs more than all the
# rest. uv is quicker and takes the build of PyTorch that the machine can use; where it is missing or
# fails, as behind an index that only pip knows, pip does it. The stamp is written last, so that an
# interrupted set-up is done again.
define set-up
@printf 'setting up $(VENV) for [$(EXTRAS)] (once)'; \
  if [ -t 1 ]; then (while sleep 2 && kill -0 $$$$; do printf .; done) 2>/dev/null & fi; \
  { command -v uv >/dev/null && UV_TORCH_BACKEND=$${UV_TORCH_BACKEND:-auto} \
    uv pip install -q --python $(BIN)/python -c $(PINS) -e '.[$(EXTRAS)]'; } || \
  $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c $(PINS) -e '.[$(EXTRAS)]'; \
  code=$$?; echo; [ $$code = 0 ] && touch $@
endef

$(STUDY): EXTRAS = report,torch
$(STUDY): Makefile pyproject.toml $(PINS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "korisk needs Python 3.11 or newer, found $$($(PYTHON) --version 2>&1); name one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	$(set-up)

$(READY): EXTRAS = all,docs,dev
$(READY): $(STUDY)
	$(set-up)

run: $(STUDY) ## reproduce the paper's study beside its tables, and draw it (two minutes)
	@$(BIN)/korisk reproduce --out build/reproduction --page $(RUN)

# Types are checked beside the tests, which leave some time of two cores unused.
test: $(READY) ## style, types and the tests of single parts (four minutes on two cores)
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory --jobs 2 types unit

thorough: $(READY) ## what CI checks besides: documents and their commands, pages, workers, the core alone
	@$(MAKE) --no-print-directory --jobs 3 docs core long

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

unit: $(READY)
	@$(PYTEST) -m 'not slow and not long'

long: $(READY)
	@$(PYTEST) -m 'long and not slow'

slow: $(READY) ## what CI leaves out: whole clusters, ranks, compilers; new examples of every law
	@$(PYTEST) -m 'slow or hypothesis' --hypothesis-profile long

docs: $(READY) ## build the documentation into build/docs and run the gallery; warnings are errors
	@OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/docs

gallery: $(READY) ## run every script of the gallery by itself and check its figure (a minute or two)
	@OMP_NUM_THREADS=1 $(BIN)/python examples/gallery/run_all.py --keep build/gallery-figures

coverage: $(READY) ## what the tests reach, child processes included (a quarter of an hour)
	@mkdir -p build && rm -f build/.coverage*
	@OMP_NUM_THREADS=1 COVERAGE_FILE=$(CURDIR)/build/.coverage \
	  $(BIN)/pytest -q -n $(TESTERS) --dist worksteal --cov --cov-report json:build/coverage.json
	@$(BIN)/python -m benchmarks.quality.coverage_figures build/coverage.json --json benchmarks/results/coverage.json

core: $(READY) ## every command and public name with the core alone: lowest versions, newest Python
	@$(BIN)/python -m benchmarks.quality.core_alone

lowest: $(READY) ## the tests with the lowest versions that pyproject.toml allows (in an environment of its own)
	@mkdir -p build && $(BIN)/python -m benchmarks.quality.lowest > build/lowest.new
	@cmp -s build/lowest.new build/lowest.txt || mv build/lowest.new build/lowest.txt
	@$(MAKE) --no-print-directory unit long VENV=.venv-lowest PINS=build/lowest.txt

release-check: $(READY) ## build the release, install it with each extra into clean environments, try it
	@$(BIN)/python -m benchmarks.quality.release

mutation: $(READY) ## how many small faults in theory/, curves/ and planning/ the tests notice (an hour on two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/quality/mutation/requirements.txt
	@$(BIN)/python -m benchmarks.quality.mutation.run

fuzz: $(READY) ## feed every reader with broken files (50,000, some minutes)
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quality.fuzz.run --inputs 50000

bench: $(READY) ## run the benchmarks (the planner's take some forty minutes on two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/planner/requirements.txt
	@$(BIN)/python -m benchmarks.planner.odds --save now && $(BIN)/python -m benchmarks.planner.odds --rivals --save rivals
	@$(BIN)/python -m benchmarks.planner.related

bench-operators: $(READY) ## compare the operators with other libraries (half an hour on two cores)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r benchmarks/operators/requirements.txt
	@$(BIN)/python -m benchmarks.operators.compare --check
	@$(BIN)/python -m benchmarks.operators.compare --quality
	@$(BIN)/python -m benchmarks.operators.compare

bench-study: $(READY) ## compare the paper's study with a straightforward one (five minutes)
	@$(BIN)/python -m benchmarks.paper.study

bench-clusters: $(READY) ## what a cell costs on each engine (a minute)
	@$(BIN)/python -m benchmarks.paper.engines

clean: ## remove the environment and all caches
	rm -rf $(VENV) .venv-lowest .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist docs/gallery
