# Every target does its own set-up; a plain python3.11 or newer is all that must be there.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := dev

PYTEST_ARGS ?= -n 2
ARGS ?=

# The first interpreter that starts and is new enough.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$p"; break; }; done)

# uv brings its own certificates; behind a TLS proxy only the machine's will do.
export UV_SYSTEM_CERTS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make .venv with the locked versions and slackline itself, editable

demo: $(STAMP) ## run the demonstration
	$(BIN)/slackline demo

test: $(STAMP) ## run the tests (PYTEST_ARGS="-n 2")
	$(BIN)/pytest $(PYTEST_ARGS)

lint: $(STAMP) ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/typetree.py
	$(BIN)/mypy
	PYTHONPATH=.typetree $(BIN)/lint-imports --no-logo

bench: $(STAMP) ## measure (ARGS="..." goes to scripts/bench.py)
	$(BIN)/python scripts/bench.py $(ARGS)

lock: ## rewrite constraints.txt from pyproject.toml (ARGS=--upgrade for newer versions)
	@$(ensure_venv)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --no-header --python-version 3.11 --all-extras \
		$(ARGS) --output-file constraints.txt pyproject.toml

clean: ## remove everything that make has made, .venv too
	rm -rf $(VENV) .typetree build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define ensure_venv
if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	py="$(PYTHON)"; \
	if ! "$${py:-false}" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "slackline needs Python 3.11 or newer and found $${py:-none on the PATH}." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	"$$py" -m venv --clear $(VENV); \
fi
endef

$(STAMP): pyproject.toml constraints.txt
	@$(ensure_venv)
	@$(BIN)/python -m pip install --quiet uv || echo "No uv here: pip will do, more slowly." >&2
	@if $(BIN)/uv --version >/dev/null 2>&1 && $(BIN)/uv pip install --python $(BIN)/python \
		--reinstall-package slackline --constraint constraints.txt --editable '.[$(EXTRAS)]'; then :; \
	else $(BIN)/python -m pip install --constraint constraints.txt --editable '.[$(EXTRAS)]'; fi
	@touch $@
