# Everything starts here: `make demo` or `make test` in a fresh clone first makes .venv and installs the pinned
# versions, once. To use an interpreter that already has them, set GPULAB_PYTHON=/path/to/python: nothing is set up.

VENV := .venv
STAMP := $(VENV)/.stamp

ifdef GPULAB_PYTHON
PY := $(GPULAB_PYTHON)
SETUP :=
else
PY := $(VENV)/bin/python
SETUP := $(STAMP)
endif

# The newest Python that requirements.lock supports and that can make a virtual environment. Found only when it is
# needed, and by running it: a name on PATH may be a stub.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	>/dev/null 2>&1 && echo $$python && break; done)

.PHONY: demo test lab build audit gpu-test bench format

demo: $(SETUP)  ## build the release, grade the sample class, write the report
	$(PY) -m grader demo

test: $(SETUP)  ## every test that needs no GPU and no patience
	$(PY) -m pytest -n 2 -m "not gpu and not slow" $(ARGS)

lab: $(SETUP)  ## open the notebooks
	$(PY) -m jupyter lab notebooks

build: $(SETUP)  ## solutions/ to notebooks/
	$(PY) -m grader build

audit: $(SETUP)  ## every exercise against every wrong solution
	$(PY) -m grader audit

gpu-test: $(SETUP)  ## the tests that need a CUDA GPU
	$(PY) -m pytest -m gpu $(ARGS)

bench: $(SETUP)  ## the benchmarks; need a CUDA GPU
	$(PY) -m bench

format: $(SETUP)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

$(STAMP): requirements.lock labutils/pyproject.toml
	@test -x $(VENV)/bin/python || test -n "$(PYTHON)" || { \
	  echo "No Python 3.11, 3.12 or 3.13 with venv found. Install one (Debian, Ubuntu: apt install python3-venv)"; \
	  echo "or name one: make PYTHON=/path/to/python"; exit 1; }
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --disable-pip-version-check -r requirements.lock
	touch $@
