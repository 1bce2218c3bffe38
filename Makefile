# The two commands of the README are `make demo` and `make test`; each does all of its own set-up.
# Everything is kept below this folder: .venv (Python), .assize (ledger, evidence, keys, image lock).

SHELL := /bin/sh
ASSIZE_HOME ?= $(CURDIR)/.assize
export ASSIZE_HOME

VENV := .venv
PY := $(VENV)/bin/python
ASSIZE := $(VENV)/bin/assize
STAMP := $(VENV)/.installed
SOURCES := orchestrator workers scoring sandbox_images tests
# Most of a test on a real engine is waiting. Long ones come first, so that short ones fill the gaps.
PROCESSES ?= $(shell expr 2 \* $$(nproc))
TESTS := tests/drills tests/hostile tests/integration tests/unit
# Folders of tests whose modules import each other by plain name; each is checked on a path of its own.
BASES := tests/unit/scoring tests/assets/certificates
OWN_BASES := ^(orchestrator/packs/bundled|tests/unit/scoring|tests/assets/certificates)/

.PHONY: help demo test bench check setup services compose lock clean

help:
	@sed -n 's/^## //p' Makefile

## make demo    screen the bundled pack coding-core with two agents, in real sandboxes
demo: setup
	@echo "==> screening coding-core with oracle and nop" >&2
	@$(ASSIZE) screen coding-core --agent oracle --agent nop

## make test    run every test: on real engines, on both databases, two processes for every core
test: setup services
	@echo "==> running the tests" >&2
	@$(VENV)/bin/pytest -n $(PROCESSES) --dist loadgroup $(TESTS)

## make bench   print measured ratios as JSON lines; ends with an error when a bar was missed
bench: setup services
	@echo "==> measuring" >&2
	@missed=0; for script in tests/bench/bench_*.py; do $(PY) "$$script" || missed=1; done; exit $$missed

## make check   linter and type checker
check: $(STAMP)
	@echo "==> checking" >&2
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy --explicit-package-bases --exclude '$(OWN_BASES)' $(SOURCES)
	@for base in $(BASES); do MYPYPATH=$$base $(VENV)/bin/mypy $$base || exit 1; done

## make setup   Python environment, Docker engine, base image (nothing to do: about a second)
setup: $(STAMP)
	@echo "==> checking the Docker engine and the base image" >&2
	@$(PY) -m sandbox_images setup --home "$(ASSIZE_HOME)"

## make services PostgreSQL, Redis and Compose as programs, for tests and benches; nothing is started
services: $(STAMP)
	@echo "==> checking the servers that the tests start for themselves" >&2
	@$(PY) -m sandbox_images ensure-services
	@$(PY) -m sandbox_images ensure-compose --home "$(ASSIZE_HOME)"

## make compose images, secrets and settings for docker-compose.yml; next: docker compose up --wait
compose: setup
	@echo "==> making what docker-compose.yml needs" >&2
	@$(ASSIZE) compose init
	@$(PY) -m sandbox_images ensure-compose --home "$(ASSIZE_HOME)"

$(STAMP): requirements.lock pyproject.toml sandbox_images/setup/venv.sh
	@echo "==> setting up Python" >&2
	@sandbox_images/setup/venv.sh
	@touch $(STAMP)

## make lock    resolve requirements.lock again, within what pyproject.toml allows
lock:
	@echo "==> resolving requirements.lock" >&2
	@sandbox_images/setup/lock.sh

## make clean   remove what can be made again; .assize (evidence, keys) is kept
clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "kept: $(ASSIZE_HOME)" >&2
