# Two commands do everything: `make run` and `make test`. Both build .venv on the first call only.
# Paths are relative and the tools are called as `python -m`, so that a folder whose name has a
# space works: neither make's targets nor the scripts' first lines can hold one.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Quiet twice: errors are shown, warnings about the machine's package sources are not.
PIP := $(PY) -m pip install -qq --disable-pip-version-check -c constraints.txt
# A spinning second thread beside a busy neighbour makes torch ten times slower.
TEST_ENV := OMP_NUM_THREADS=1

# Two files of tests at a time: they import torch and start processes that do, and mostly wait.
PARALLEL := -n 2 --dist loadfile
NUMERICAL := $(addprefix tests/,losses permutations pooling counting decoders encoders metrics \
	test_boxes.py test_matching.py test_mlp.py test_padded.py test_piecewise.py test_resnet.py \
	test_sorting.py test_testing.py test_contract.py lab/experiments/pictures)

.PHONY: run test avx2 slow lint format check bench docs index clean

run: $(VENV)/app
	$(PY) -m torchsets demo

test: $(VENV)/dev
	$(TEST_ENV) $(PY) -m pytest $(PARALLEL)

# The numerical tests once more, as on a machine without AVX-512: neither torch nor its oneDNN,
# which convolves, use it then.
avx2: $(VENV)/dev
	$(TEST_ENV) ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 $(PY) -m pytest $(PARALLEL) $(NUMERICAL)

# TESTS: some files or folders of them; none are all.
slow: $(VENV)/dev
	$(TEST_ENV) $(PY) -m pytest $(PARALLEL) -m slow $(TESTS)

lint: $(VENV)/dev
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy

format: $(VENV)/dev
	$(PY) -m ruff format
	$(PY) -m ruff check --fix

check: lint test

# The site, into site/: offline, and a wrong link is an error.
docs: $(VENV)/dev
	$(TEST_ENV) NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

# The tables of results/README.md, from the records.
index: $(VENV)/dev
	$(PY) tools/write_index.py

bench: $(VENV)/app
	$(PY) -m torchsets bench all

clean:
	rm -rf $(VENV) site .site_cache .pytest_cache .mypy_cache .ruff_cache

$(PY):
	$(PYTHON) -m venv $(VENV)

# torch first and alone: its version is pinned, so nothing that follows asks for another build.
$(VENV)/torch: constraints.txt | $(PY)
	@echo "Installing torch into $(VENV) (once; some minutes)"
	@$(PIP) torch numpy
	@touch $@

$(VENV)/app: pyproject.toml $(VENV)/torch
	@echo "Installing torchsets with the command line into $(VENV)"
	@$(PIP) -e ".[app,fast]"
	@touch $@

$(VENV)/dev: pyproject.toml $(VENV)/torch
	@echo "Installing torchsets with the developers' tools into $(VENV)"
	@$(PIP) -e ".[dev]"
	@touch $(VENV)/app $@
