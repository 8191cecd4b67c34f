# Everything starts here: `make demo` or `make test` in a fresh clone first makes .venv and installs the pinned
# versions, once (tools/setup.sh). To use an interpreter that already has them, set GPULAB_PYTHON=/path/to/python:
# nothing is set up.

VENV := .venv
STAMP := $(VENV)/.stamp

ifdef GPULAB_PYTHON
PY := $(GPULAB_PYTHON)
SETUP :=
else
PY := $(VENV)/bin/python
SETUP := $(STAMP)
endif

# The documentation site's packages are apart from all others, and `make site` alone installs them.
SITE := .venv-site

# The newest Python that requirements.lock supports and that can make a virtual environment. Found only when it is
# needed, and by running it: a name on PATH may be a stub.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	>/dev/null 2>&1 && echo $$python && break; done)

.PHONY: help demo test lint lab build audit gpu-test bench site book corners release format

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile
	@echo "With TORCH=cpu the first of them installs PyTorch's CPU build: 2.4 GB less to download."

demo: $(SETUP)  ## grade a sample class and write its report to out/demo/report.html
	@$(PY) -m grader demo

test: $(SETUP)  ## run the tests that need no GPU and little time
	$(PY) -m pytest -n 2 --dist worksteal -m "not gpu and not slow" $(ARGS)

lint: $(SETUP)  ## check the formatting, and that notebooks/ is what solutions/ builds
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m grader build --check

lab: $(SETUP)  ## open the notebooks in JupyterLab
	$(PY) -m jupyter lab notebooks/index.ipynb --LabApp.app_settings_dir=$(CURDIR)/tools/lab \
		--LabApp.extra_labextensions_path=$(CURDIR)/tools/lab/extensions

build: $(SETUP)  ## make notebooks/ from solutions/
	$(PY) -m grader build

audit: $(SETUP)  ## run the check on every solution and mutant
	$(PY) -m grader audit

gpu-test: $(SETUP)  ## run the tests that need a CUDA GPU
	$(PY) -m pytest -m gpu $(ARGS)

bench: $(SETUP)  ## time the solutions against the libraries; needs a CUDA GPU
	$(PY) -m bench

site: $(SITE)/.stamp  ## build the documentation site, out/site/html/index.html, and check its links
	$(SITE)/bin/python -m tools.site.build

book: $(SETUP) site  ## run every solution and add it to the site; UNITS="00_start …" for some, OUTPUTS=DIR runs nothing
	$(PY) -m tools.site.book $(if $(OUTPUTS),--outputs $(OUTPUTS)) $(UNITS)

corners: $(SETUP)  ## run unit 00 in other environments: CORNERS="colab oldest newest cuda", or Colab's alone
	$(PY) -m tools.corners $(CORNERS)

release: $(SETUP)  ## check and build the wheels of a release into out/release; TAG=v1.2.3 for a tag
	$(PY) -m tools.release $(if $(TAG),--tag $(TAG))

format: $(SETUP)  ## format the code and fix what ruff can fix
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

$(STAMP): requirements.lock labutils/pyproject.toml
	@tools/setup.sh $(VENV) "$(PYTHON)" $(TORCH)
	@touch $@

$(SITE)/.stamp: tools/site/requirements.txt
	"$(PYTHON)" -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
