# `make mnist` trains a classifier of handwritten digits; `make test` runs all tests on all backends. Both install what they need.

PYTHON ?= python3
BACKEND ?= jax
BACKENDS := jax tensorflow torch
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# The package that brings each backend: on x86-64 Linux, the TensorFlow without GPU code.
EXTRA_jax := jax
EXTRA_tensorflow := tensorflow-cpu
EXTRA_torch := torch

.PHONY: mnist venv test lint format bench clean

ifeq ($(filter $(BACKEND),$(BACKENDS)),)
$(error BACKEND is one of: $(BACKENDS). Got: $(BACKEND))
endif

mnist: $(VENV)/.installed-$(BACKEND)
	$(BIN)/trainstep mnist --backend $(BACKEND)

venv: $(VENV)/.installed-dev

# Each backend in a process of its own, all at once, so each on one thread; what they print follows one after another.
ON_ONE_THREAD := OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1

test: venv
	@echo "the tests run on $(BACKENDS) at once; this takes a while"
	@for backend in $(BACKENDS); do \
		( $(ON_ONE_THREAD) KERAS_BACKEND=$$backend $(BIN)/python -m pytest $(PYTEST_ARGS) > $(VENV)/tests-$$backend.txt 2>&1; \
		  echo $$? > $(VENV)/tests-$$backend.status ) & \
	done; wait; \
	failed=""; \
	for backend in $(BACKENDS); do \
		echo "== tests on $$backend"; \
		cat $(VENV)/tests-$$backend.txt; \
		[ "$$(cat $(VENV)/tests-$$backend.status)" = 0 ] || failed="$$failed $$backend"; \
	done; \
	KERAS_BACKEND=jax $(BIN)/python -m tests.corpus.table; \
	if [ -n "$$failed" ]; then echo "tests failed on:$$failed"; exit 1; fi

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: venv
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache

# A stamp file says what has been installed, so that a second call installs nothing.
$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml constraints.txt
	@echo "installing trainstep with all backends and the tools of its developers; this takes a few minutes"
	@$(PIP) --editable '.[dev]'
	@touch $@

$(BACKENDS:%=$(VENV)/.installed-%): $(VENV)/.installed-%: $(VENV)/.created pyproject.toml constraints.txt
	@echo "installing trainstep with $*"
	@$(PIP) --editable '.[$(EXTRA_$*)]'
	@touch $@

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trainstep needs Python 3.11 or newer; say which: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@
