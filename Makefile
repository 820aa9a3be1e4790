# make demo    set-up, both trainings, the picture, a sentence to try
# make test    set-up, lint, types, all tests; combinations of kinds are sampled pairwise
# make test-full     the same with the full product of all kinds
# make test-mutants  break the code on purpose, one place at a time, and check that tests fail
# make torture       attack the program for about a quarter of an hour: hostile input, kills, missing resources
# make install only the set-up: a virtual environment in .venv
# make bench   the benchmarks

ifeq ($(OS),Windows_NT)
# In Git Bash, or any other POSIX shell.
SHELL := bash
PYTHON ?= python
BIN := .venv/Scripts
else
PYTHON ?= python3
BIN := .venv/bin
endif
RUNS := runs/demo
SENTENCE := <U> I am a student

.PHONY: install demo test test-full test-mutants torture bench clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Regard needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install
	@mkdir -p $(RUNS)
	@echo '== Training a vanilla RNN with attention and, at the same time, the same RNN without (see $(RUNS)/bottleneck.log)'
	@$(BIN)/regard train bottleneck --out $(RUNS)/bottleneck > $(RUNS)/bottleneck.log 2>&1 & without=$$!; \
	    $(BIN)/regard train case --out $(RUNS)/attention && wait $$without && tail -n 1 $(RUNS)/bottleneck.log
	@echo '== Both on 1,000 sentences that neither has seen'
	@$(BIN)/regard evaluate $(RUNS)/attention $(RUNS)/bottleneck
	@echo
	@echo '== $(SENTENCE)'
	@printf 'without attention: ' && $(BIN)/regard translate $(RUNS)/bottleneck '$(SENTENCE)'
	@printf 'with attention:    ' && $(BIN)/regard show $(RUNS)/attention '$(SENTENCE)' --out $(RUNS)/attention.png
	@echo
	@echo 'Now look at $(RUNS)/attention.png, and try a sentence of your own:'
	@echo '    $(BIN)/regard translate $(RUNS)/attention "<L> Type WHATEVER you like."'
	@echo 'or see both at work in a browser:'
	@echo '    $(BIN)/regard serve $(RUNS)/attention $(RUNS)/bottleneck --open'

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist worksteal

test-full: export REGARD_TEST_FULL = 1
test-full: test

test-mutants: install
	$(BIN)/python tests/mutants/run.py --jobs 2

torture: install
	$(BIN)/python tests/torture/run.py

bench: install
	$(BIN)/python benchmarks/teacher_forcing.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/cells.py
	$(BIN)/python benchmarks/processes.py

clean:
	rm -rf .venv runs
