# Two entry points, which need only Python 3.11 and make:
#
#     make demo    installs Passat into .venv, optimizes a real model, prints the report
#     make test    installs Passat and its tools into .venv, runs every check
# Everything is created under .venv and build, and only once: a second run starts immediately.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
# Without bytecode each process that a test starts would compile all of Passat.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test check format format-check lint types unit examples nightly audit fuzz wheel notebook torch versions cluster documents docs screenshot clean

VENV := .venv
BIN := $(VENV)/bin
WHEEL := build/wheel
TORCH := build/torch
MODEL ?= examples/models/bert_tiny.onnx
JOBS ?= 2
SEED := --hypothesis-seed=0
SECONDS ?= 3600
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

# The tests of each folder run in a process of their own, the longest first; those of torch_compile need PyTorch (`make torch`).
LONG := tests/rules tests/ir tests/frontdoor tests/house
UNITS := $(addprefix unit/,$(LONG) $(filter-out $(LONG) tests/__pycache__ tests/torch_compile,$(patsubst %/,%,$(wildcard tests/*/))) src)
PARALLEL := $(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=$(JOBS)

# The interpreter is only searched for if the environment has to be created.
FIND_PYTHON = for python in $(PYTHON) python3.11 python3 python3.12 python3.13 python; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Passat needs Python 3.11 or newer, and none is on the PATH. Install it, or give its path: make PYTHON=/path/to/python3.11" >&2; exit 1; fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$$found cannot create virtual environments: its modules venv and ensurepip are missing (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; fi

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

demo: $(VENV)/.demo  ## Install, optimize a real model, print the report
	$(BIN)/passat optimize $(MODEL) -o build/$(notdir $(MODEL))

test: $(VENV)/.dev  ## Install and run all checks, even if one fails
	@$(PARALLEL) check

check: $(UNITS) types wheel lint format-check  ## All checks: tests, examples, types, wheel, lint, format

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

format-check: $(VENV)/.dev  ## Check the formatting
	$(BIN)/ruff format --check

lint: $(VENV)/.dev  ## Check with ruff, the spelling with codespell, and the language of prose
	$(BIN)/ruff check
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/house/test_language.py

types: $(VENV)/.dev  ## Check with mypy, strictly
	$(BIN)/mypy

unit: $(VENV)/.dev  ## Run the tests, doctests and examples
	@$(PARALLEL) $(UNITS)

# Each core has a test process, with which NumPy's threads would only compete. `lint` tests the language of prose.
$(UNITS): export OMP_NUM_THREADS = 1
$(UNITS): unit/%: $(VENV)/.dev
	$(BIN)/python -m pytest -q $(SEED) --ignore=tests/house/test_language.py -o cache_dir=.pytest_cache/$(notdir $*) $*

examples: $(VENV)/.dev  ## Run the examples alone
	$(BIN)/python -m pytest tests/house/test_examples.py

fuzz: $(VENV)/.dev  ## Test random models for SECONDS=3600; findings go to build/fuzz
	$(BIN)/python -m tests.fuzz.campaign --seconds $(SECONDS) --processes $(JOBS) --out build/fuzz

audit: $(VENV)/.dev  ## Compare each version of each ONNX operator with ONNX Runtime; the tests run a share of it
	$(BIN)/python -m tests.ir.onnx.opset_audit

nightly: audit  ## Run all tests and the whole audit: all random examples, each rule on 200 instances, all cases and sizes; takes hours
	@PASSAT_SOAK=1 $(PARALLEL) SEED= $(UNITS)

wheel: $(WHEEL)/.checked  ## Build a wheel, install it separately, import every module

versions: wheel  ## Install sdist and wheel on each installed Python from 3.11 to 3.13, with the newest and the lowest requirements, and run the first commands
	$(BIN)/python .ci/check_versions.py $(WHEEL) pyproject.toml

notebook: $(VENV)/.dev  ## Run the notebook under examples as Jupyter does
	$(PIP) install --group notebook
	$(BIN)/python -m pytest tests/house/test_notebook_example.py

torch: $(TORCH)/.ready  ## Run the tests of the backend of torch.compile, in a separate environment with PyTorch
	$(TORCH)/venv/bin/python -m pytest tests/torch_compile

documents: $(VENV)/.dev  ## Update the output in README and docs
	$(BIN)/python -m tests.house.test_documents

cluster: $(VENV)/.dev  ## Run the tests of --cluster and of remote sessions, with dask.distributed
	$(PIP) install --editable . --group cluster
	$(BIN)/python -m pytest tests/frontdoor/test_cluster.py tests/frontdoor/test_rpc.py

docs: $(VENV)/.docs  ## Build the site into build/docs and run its examples; warnings and dead links are errors
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet --fresh-env --write-all --doctree-dir build/doctrees docs build/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/house/test_documents.py

screenshot: $(VENV)/.dev  ## Update the picture in docs/report.md, with Chromium
	mkdir -p build/screenshot
	cd build/screenshot && cp ../../examples/models/bert_tiny.onnx . && ../../$(BIN)/passat optimize bert_tiny.onnx -o smaller.onnx --report report.html
	$(BIN)/python -m tests.frontdoor.page.screenshot build/screenshot/report.html docs/images/report.png

clean:  ## Remove all generated files
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.base:
	@$(FIND_PYTHON); echo "creating $(VENV) with $$found"; "$$found" -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

# Python compiles modules when they are first imported; compiling all of the packages would take as long as the rest of the installation.
$(VENV)/.demo: $(VENV)/.base pyproject.toml
	$(PIP) install --no-compile --editable '.[onnx]'
	@mkdir -p build
	@touch $@

$(VENV)/.dev: $(VENV)/.base pyproject.toml
	$(PIP) install --no-compile --editable '.[onnx]' --group dev
	@mkdir -p build
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) install --group docs
	@touch $@

$(TORCH)/.ready: pyproject.toml
	@$(FIND_PYTHON); "$$found" -m venv $(TORCH)/venv
	$(PIP) --python $(TORCH)/venv/bin/python install --editable . --group torch
	@touch $@

SOURCES := $(shell find ir passmgr rules runtime src/passat -name '*.py' 2>/dev/null)

# It is built from a copy, since setuptools writes passat.egg-info, which the tests read, and files that linters would find. The wheel is
# installed with its dependencies into an environment without files of this folder.
$(WHEEL)/.checked: $(SOURCES) $(VENV)/.dev .ci/check_wheel.py README.md LICENSE
	rm -rf $(WHEEL)
	mkdir -p $(WHEEL)/source
	tar -cf - --exclude=__pycache__ pyproject.toml README.md LICENSE ir passmgr rules runtime src | tar -xf - -C $(WHEEL)/source
	$(BIN)/python -m build --quiet --outdir $(WHEEL) $(WHEEL)/source
	$(BIN)/python -m venv --without-pip $(WHEEL)/venv
	$(PIP) --python $(WHEEL)/venv/bin/python install --no-compile "$$(ls -d $(CURDIR)/$(WHEEL)/*.whl)[onnx]"
	$(WHEEL)/venv/bin/python -I .ci/check_wheel.py pyproject.toml
	@touch $@
