PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := vpr,vpr-paper,replay,ewc,sgd,nearest-mean,joint
INSTALLED := $(VENV)/.installed
CONSTRAINTS := constraints.txt

.PHONY: demo test suite lint coverage wheel bench fuzz docs results results-quick verify audit clean

demo: $(INSTALLED)
	$(BIN)/protoreplay bench split-digits --methods $(DEMO) --seeds 3 --jobs 2 --out runs/demo
	$(BIN)/protoreplay report runs/demo -o runs/demo/report.html

test: lint suite

# The tests alone. With the newest versions: make suite VENV=build/newest CONSTRAINTS=/dev/null
suite: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/prose.py

# Apart from `test`, which it would slow down; workflows call it. The floor is in pyproject.toml.
coverage: $(INSTALLED)
	mkdir -p build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Builds wheel and sdist, and tries the wheel in an environment of its own, away from the repository.
wheel: $(INSTALLED)
	rm -rf dist build/try
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/try
	build/try/bin/pip install --quiet --constraint constraints.txt dist/*.whl
	build/try/bin/python tools/smoke.py
	build/try/bin/pip install --quiet --constraint constraints.txt "$$(echo dist/*.whl)[research,serve]"
	build/try/bin/python tools/smoke.py research

bench: $(INSTALLED)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

fuzz: $(INSTALLED)
	$(BIN)/python -m tests.fuzz 3600

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo build/site/index.html

results: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" tools/results.sh

results-quick: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" tools/results.sh quick

verify: $(INSTALLED)
	$(BIN)/python tools/constraint_hashes.py verify

audit: $(INSTALLED)
	$(BIN)/python tools/audit.py

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build runs
