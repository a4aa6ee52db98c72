PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := vpr,vpr-paper,replay,ewc,sgd,nearest-mean,joint
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint bench docs results results-quick clean

demo: $(INSTALLED)
	$(BIN)/protoreplay bench split-digits --methods $(DEMO) --seeds 3 --jobs 2 --out runs/demo
	$(BIN)/protoreplay report runs/demo -o runs/demo/report.html

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/prose.py

bench: $(INSTALLED)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo build/site/index.html

results: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" tools/results.sh

results-quick: $(INSTALLED)
	PATH="$(abspath $(BIN)):$$PATH" tools/results.sh quick

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build runs
