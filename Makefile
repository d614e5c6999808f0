# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 2
TESTS  := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test lint docs bench lock clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/runtime: requirements/runtime.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src  # as pip does for what it copies
	@touch $@

$(VENV)/dev: requirements/dev.lock $(VENV)/runtime
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/docs: requirements/docs.lock $(VENV)/runtime
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch $@

demo: $(VENV)/runtime  ## set up and run the main job end to end
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/demo.py

test: $(VENV)/dev $(VENV)/docs  ## lint, types and the whole test suite; about 7 minutes on 2 cores
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p build; echo "$(BIN)/mypy, beside the tests: what it finds comes after them"; \
	$(BIN)/mypy >build/mypy.txt 2>&1 & types=$$!; failed=0; \
	echo "$(TESTS)"; $(TESTS) || failed=$$?; \
	wait $$types || failed=1; cat build/mypy.txt; exit $$failed

SLOWER = $(addprefix tests/unit/test_, attention_example.py examples.py mutants.py notebook.py website.py)
QUICK = tests/test_layering.py tests/extend/test_public_only.py tests/golden/test_golden.py \
  tests/golden/test_documents.py tests/unit/program \
  tests/unit/declare tests/unit/machine tests/unit/sync tests/unit/judge/wait_states \
  $(filter-out $(SLOWER), $(wildcard tests/unit/test_*.py)) \
  tests/unit/reference/test_lift.py tests/unit/judge/verify/test_programs.py

quick: $(VENV)/dev $(VENV)/docs  ## the inner loop: ruff and the fast tests, under half a minute
	$(BIN)/ruff check .
	$(TESTS) $(QUICK)

lint: $(VENV)/dev $(VENV)/docs  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/docs  ## the site in build/site, from docs/ and the docstrings; a warning fails
	$(BIN)/python -m website

bench: $(VENV)/dev  ## print the speed tables of benchmarks/
	@for b in benchmarks/bench_*.py; do echo "== $$b"; PYTHONPATH=$(CURDIR) $(BIN)/python $$b || exit 1; done

lock:  ## resolve the pinned dependencies anew (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra emit --extra emulate pyproject.toml requirements/build.in -o requirements/runtime.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra dev --extra emit --extra emulate --extra zstd pyproject.toml -c requirements/runtime.lock -o requirements/dev.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --extra docs pyproject.toml -c requirements/dev.lock -o requirements/docs.lock

clean:  ## remove the environment, caches and build/
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -r {} +
