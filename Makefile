# make env    .venv with everything installed     make demo       a student, its report, the browser page;
#                                                 make demo UPDATES=1800 is a shorter training
# make test   all but the slow tests              make test-all   the slow ones too: other data sets, precisions, ...
# make docs   the documentation as a site, in build/site; make reference writes docs/reference from the code
# make lint   ruff, its formatter and mypy        make format     ruff mends what it can
# Another Python or torch: make env PYTHON=python3.12 TORCH=torch==2.11.0; they stay for later calls

PYTHON ?=
TORCH ?=
UPDATES ?=
DOCS_ENV ?= build/docs-env

.PHONY: env demo test test-all docs reference lint format clean

env:
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" scripts/environment/make_env.sh

demo: env
	@scripts/demo.sh $(if $(UPDATES),--updates $(UPDATES))

test: env
	@.venv/bin/python -m pytest -m "not slow"

test-all: env
	@.venv/bin/python -m pytest

docs: $(DOCS_ENV)/.complete
	@NO_MKDOCS_2_WARNING=1 $(DOCS_ENV)/bin/mkdocs build --strict

# What builds the site needs neither torch nor fairseq, so it has an environment of its own.
$(DOCS_ENV)/.complete: pyproject.toml
	@$(or $(PYTHON),python3) -m venv $(DOCS_ENV)
	@$(DOCS_ENV)/bin/pip install --quiet --upgrade 'pip>=25.1' && $(DOCS_ENV)/bin/pip install --quiet --group docs
	@touch $@

reference: env
	@.venv/bin/python scripts/docs/reference.py

lint: env
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

format: env
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

clean:
	rm -rf runs build/site .pytest_cache .ruff_cache .mypy_cache
