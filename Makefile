# make env    .venv with everything installed     make demo       teacher, students and a table
# make test   all but the slow tests              make test-all   the slow ones too: other data sets, precisions, ...
# make lint   ruff and its formatter              make format     both, and they mend what they can
# Another Python or torch: make env PYTHON=python3.12 TORCH=torch==2.11.0

PYTHON ?= python3
TORCH ?= torch==2.13.0

.PHONY: env demo test test-all lint format clean

env:
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" scripts/environment/make_env.sh

demo: env
	@PATH="$(CURDIR)/.venv/bin:$$PATH" pet-fairseq recipe demo

test: env
	@.venv/bin/python -m pytest -m "not slow"

test-all: env
	@.venv/bin/python -m pytest

lint: env
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .

format: env
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

clean:
	rm -rf runs .pytest_cache .ruff_cache
