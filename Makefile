# All but the cluster targets runs as an ordinary user. Needed: python3 (3.11 or later, with venv), make, a C compiler.
# PYTHON=/path/to/python3 chooses the interpreter; CC the compiler; ARGS is handed on (make test ARGS="-k hub").

.DEFAULT_GOAL := help
.PHONY: help demo test test-steady test-core test-cluster test-release cluster-up cluster-down lint format bench \
	bench-cluster bench-operator bench-start bench-virtual-cluster install-yaml lock venv clean

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
ROUNDS ?= 10
# Whatever the environment says: without bytecode, each of pytest's processes compiles all that it imports, each time.
export PYTHONDONTWRITEBYTECODE :=

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-21s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.playground compiler  ## watch a kubeflow MPIJob run to Succeeded, without a cluster
	@$(BIN)/python -m agents.playground demo $(ARGS)

test: $(VENV)/.dev compiler  ## all tests that need no cluster
	@$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(ARGS)

test-steady: $(VENV)/.dev compiler  ## contract tests on a busy machine, in random order (ROUNDS=10)
	@$(BIN)/python -m tests.steady $(ROUNDS) $(ARGS)

test-core: $(VENV)/.cluster compiler  ## the core of the tests on a real Kubernetes: KUBECONFIG's, or our own (root, Debian)
	@$(BIN)/python -m tests.cluster test -m core $(ARGS)

test-cluster: $(VENV)/.cluster compiler  ## all tests there, but those of a release
	@$(BIN)/python -m tests.cluster test $(ARGS)

test-release: $(VENV)/.cluster compiler  ## before a release: the core on old and new Kubernetes, and what takes long or large images
	@CLUSTER_IMAGES=all $(BIN)/python -m tests.cluster release $(ARGS)

cluster-up: $(VENV)/.cluster compiler  ## that cluster, to work with by hand
	@$(BIN)/python -m tests.cluster up

cluster-down: $(VENV)/.cluster  ## take it down again
	@$(BIN)/python -m tests.cluster down

lint: $(VENV)/.dev  ## ruff, mypy, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.dev  ## put the code in ruff's form
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(VENV)/.bench compiler  ## what it costs beside kubectl
	@$(BIN)/python -m tests.benchmarks $(ARGS)

bench-cluster: $(VENV)/.cluster compiler  ## what it costs there, beside kubectl and kubexec.sh
	@$(BIN)/python -m tests.cluster bench $(ARGS)

bench-operator: $(VENV)/.cluster compiler  ## what the operator costs beside kubeflow's (root, Debian, Go)
	@$(BIN)/python -m tests.benchmarks.operator $(ARGS)

bench-start: $(VENV)/.cluster compiler  ## how long a job takes to start, beside kubeflow's (root, Debian, Go)
	@$(BIN)/python -m tests.benchmarks.start $(ARGS)

bench-virtual-cluster: $(VENV)/.cluster compiler  ## what separated images and a DVM cost (root, Debian, Go)
	@$(BIN)/python -m tests.benchmarks.virtual $(ARGS)

install-yaml: $(VENV)/.cluster  ## render install.yaml from the chart (Go, for Helm)
	@$(BIN)/python -m tests.cluster.operator.helm

lock: $(VENV)/.lock  ## lock the images' Python packages by version and hash (uv)
	@$(BIN)/python -m images.lock

venv: $(VENV)/.dev  ## the virtual environment with all tools, in .venv

clean:  ## remove what the other targets made in this folder
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment; a stamp for each set of packages, older than pyproject.toml when that has changed.
$(VENV)/.%: pyproject.toml
	@.ci/python-venv $(VENV)
	@echo "installing the packages for '$*' into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[$*]'
	@touch $@

.PHONY: compiler
compiler:
	@command -v $(CC) >/dev/null || { echo "a C compiler is missing: install gcc or clang, or set CC" >&2; exit 1; }
