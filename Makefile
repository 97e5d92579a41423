# Every target uses its own environment, created from the hashed lock files.
# You need only Python 3.11 to 3.13 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of processes; without bytecode each would compile the project again.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
BENCH := .venv-bench
FRAMEWORKS := .venv-frameworks
CHAT_CLIENT := .venv-llm
OCR := .venv-ocr
TORCH := .venv-torch
DOCS := .venv-docs

.PHONY: help demo test test-fast test-contract test-real test-postgres test-system test-page test-mcp test-frameworks test-chat-client test-ocr test-torch programs chromium axe openai typescript lint format types \
	bench bench-flame bench-growth prove prove-worlds prove-reading prove-indexes prove-laws fuzz fuzz-http growth soak guards promises reference pictures docs docs-serve package lock clean border

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "Truespan needs Python 3.11 to 3.13; set PYTHON=python3.x"; exit 1; }
	@echo "creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# The lock files list every package, so pip resolves nothing (--no-deps). If it did, older versions of pip would choose
# the newest release of a package that another one needs with an extra, and stop because that release is not pinned.
$(VENV)/.runtime: $(BIN)/python lock/runtime.txt pyproject.toml
	@echo "installing Truespan and its dependencies (a minute or two, once) ..."
	@$(INSTALL) --no-deps --require-hashes -r lock/runtime.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime lock/dev.txt
	@echo "installing the development tools ..."
	$(INSTALL) --no-deps --require-hashes -r lock/dev.txt
	@touch $@

demo: $(VENV)/.runtime ## ingest a mystery, damage and repair it, and ask who did it
	@$(BIN)/python examples/demo.py

# A test that fails among others and passes alone depends on timing: it is named, and needs mending.
AGAIN := --last-failed --last-failed-no-failures none -n 0 --maxfail 1 -rA
test: $(VENV)/.dev ## run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile || { \
		echo "running the failed tests again, one at a time:"; \
		$(BIN)/python -m pytest $(AGAIN); }

test-fast: $(VENV)/.dev ## run the tests that need one process, in a minute or so
	$(BIN)/python -m pytest -n auto --dist loadfile --fast

# `test` runs most tests in worlds as users get them; this runs them with the defaults of the contract.
test-contract: $(VENV)/.dev ## run the tests with small worlds with the defaults `contract`
	$(BIN)/python -m pytest -n auto --dist loadfile --defaults contract $(SHARD:%=--shard %) \
		tests/scenario tests/unit tests/laws

# `test` runs the store tests on both databases; this runs all tests that open libraries on PostgreSQL.
test-postgres: $(VENV)/.dev ## run the tests with small worlds on a store in PostgreSQL
	$(BIN)/python -m pytest -n auto --dist loadfile --store postgres $(SHARD:%=--shard %) \
		tests/contract/test_tokens.py tests/scenario tests/unit tests/laws

PROGRAMS := libreoffice-writer pandoc
test-system: $(VENV)/.dev ## create documents with LibreOffice and pandoc and read them
	@{ command -v soffice && command -v pandoc; } >/dev/null || $(MAKE) --no-print-directory programs
	$(BIN)/python -m pytest -m system -rs

test-page: $(VENV)/.dev chromium axe ## test the web page in Chromium
	$(BIN)/python -m pytest -n auto --dist loadfile $(SHARD:%=--shard %) tests/page -m page -rs || { \
		echo "running the failed tests again, one at a time:"; \
		$(BIN)/python -m pytest tests/page -m page $(AGAIN); }

# QDRANT_URL (QDRANT_API_KEY), DATABASE_URL, OLLAMA_BASE_URL, OPENAI_BASE_URL name the servers.
# Everything is created under names of its own and removed again. What no variable names is listed as not tested.
test-real: $(VENV)/.dev ## test against the real servers that the environment names
	$(BIN)/python -m pytest -m "not page" tests/real tests/contract/test_qdrant_index.py \
		tests/contract/test_ollama_embedder.py tests/contract/test_ollama_chat.py

# Without npm the accessibility of the page is not tested, and the tests say so.
axe:
	@test -e $(NPM)/node_modules/axe-core/axe.min.js \
		|| npm install --prefix $(NPM) --silent --no-audit --no-fund axe-core@4.11.0 \
		|| echo "axe-core cannot be installed: the accessibility of the page is not tested"

# The conformance suite needs a recent Node.js, so it is installed with it.
NPM := $(VENV)/npm
$(NPM)/.installed: $(BIN)/python
	npm install --prefix $(NPM) --silent --no-audit --no-fund node@22 \
		@modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@0.15.0
	@touch $@

test-mcp: $(VENV)/.dev $(NPM)/.installed ## test MCP with its conformance suite and inspector (needs npm)
	PATH="$(CURDIR)/$(NPM)/node_modules/.bin:$$PATH" \
		$(BIN)/python -m pytest -m system -rs tests/interfaces/test_mcp_conformance.py

# The types come from the OpenAPI document, so they are generated and not kept in the repository.
TYPESCRIPT := clients/typescript
typescript: $(VENV)/.dev ## generate, build and test the TypeScript client (needs npm)
	$(BIN)/python -m tools.openapi > $(TYPESCRIPT)/openapi.json
	cd $(TYPESCRIPT) && npm install --silent --no-audit --no-fund && npm run --silent generate && npm run --silent build
	$(BIN)/python -m pytest -m system -rs tests/interfaces/test_typescript_client.py

# Frameworks have their own environment, so that the other tests fail if Truespan imports one.
$(FRAMEWORKS)/.installed: lock/frameworks.txt pyproject.toml
	@echo "installing Truespan and the frameworks ..."
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --require-hashes -r lock/frameworks.txt
	PATH="$(CURDIR)/$(FRAMEWORKS)/bin:$$PATH" $(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation -e .
	@touch $@

# Without npm, the JavaScript client is not tested, and the test says so.
openai:
	@test -e $(NPM)/node_modules/openai/package.json \
		|| npm install --prefix $(NPM) --silent --no-audit --no-fund openai@6.49.0 \
		|| echo "openai cannot be installed: the JavaScript client is not tested"

# Frameworks may download files or send usage data; here the network is blocked.
test-frameworks: $(FRAMEWORKS)/.installed openai ## test LangChain, LlamaIndex, Haystack and clients of OpenAI
	$(FRAMEWORKS)/bin/python -m pytest tests/integrations -m frameworks -rs \
		--allow-hosts=127.0.0.1 --allow-unix-socket -o asyncio_mode=auto \
		-o asyncio_default_fixture_loop_scope=function

# A chat client as people install it; the server and its chat model are on this machine.
$(CHAT_CLIENT)/.installed:
	$(PYTHON) -m venv $(CHAT_CLIENT)
	$(CHAT_CLIENT)/bin/python -m pip install --quiet --disable-pip-version-check llm==0.36 httpx
	@touch $@

test-chat-client: $(VENV)/.dev $(CHAT_CLIENT)/.installed ## test the chat client llm against a server
	$(BIN)/python -m pytest -m system -rs tests/interfaces/test_chat_client.py

# Text recognition has its own environment, so that the other tests run without it.
$(OCR)/.installed: lock/ocr.txt pyproject.toml
	@echo "installing Truespan and text recognition ..."
	$(PYTHON) -m venv $(OCR)
	$(OCR)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r lock/ocr.txt
	PATH="$(CURDIR)/$(OCR)/bin:$$PATH" $(OCR)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation -e .
	@touch $@

test-ocr: $(OCR)/.installed ## test text recognition (a minute or two)
	$(OCR)/bin/python -m pytest tests/ocr -m ocr -n 0 -rs -p no:cacheprovider

# PyTorch has its own environment: its packages for GPUs take some gigabytes.
$(TORCH)/.installed: lock/torch.txt pyproject.toml
	@echo "installing Truespan and PyTorch (some gigabytes) ..."
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r lock/torch.txt
	PATH="$(CURDIR)/$(TORCH)/bin:$$PATH" $(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation -e .
	@touch $@

test-torch: $(TORCH)/.installed ## test models with PyTorch, on a GPU if there is one
	$(TORCH)/bin/python -m pytest tests/pytorch -m torch -n 0 -rs -p no:cacheprovider

chromium:
	@command -v chromium >/dev/null || $(MAKE) --no-print-directory programs PROGRAMS=chromium

programs:
	@if ! command -v apt-get >/dev/null; then \
		echo "missing: $(PROGRAMS); install them (there is no apt-get)"; \
	elif [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends $(PROGRAMS); \
	elif command -v sudo >/dev/null; then \
		sudo apt-get update -qq && \
		sudo apt-get install -qq -y --no-install-recommends $(PROGRAMS); \
	else \
		echo "missing: $(PROGRAMS); the tests that need them are skipped"; \
	fi

lint: $(VENV)/.dev ## check format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## check the types
	$(BIN)/pyright

format: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The peers of the benchmarks have their own environment, so that nothing depends on them.
$(BENCH)/.installed: lock/bench.txt pyproject.toml
	@echo "installing Truespan and the peers of the benchmarks ..."
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --require-hashes -r lock/bench.txt
	PATH="$(CURDIR)/$(BENCH)/bin:$$PATH" $(BENCH)/bin/python -m pip install --quiet \
		--disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

bench: $(BENCH)/.installed ## compare with peers; BENCH_OPTIONS=--full for all of SciFact
	$(BENCH)/bin/python -m bench $(BENCH_OPTIONS)

bench-flame: $(BENCH)/.installed ## draw where the time of search, reading and ingest goes
	PATH="$(CURDIR)/$(BENCH)/bin:$$PATH" $(BENCH)/bin/python -m bench.flame

bench-growth: $(BENCH)/.installed ## measure cost up to a million chunks (about 45 minutes, 15 GB)
	$(BENCH)/bin/python -m bench growth --full

MINUTES ?= 60
LAWS = $(shell grep -rlE 'import hypothesis|from hypothesis|laws.examples' tests --include='test_*.py')
prove: prove-worlds prove-reading prove-indexes prove-laws ## all of the next four: transactions, readers, indexes and laws, with many more cases

prove-worlds: $(VENV)/.dev ## 100,000 transactions in 200 worlds; MINUTES, TRANSACTIONS, SEED
	$(BIN)/python -m tools.transaction_stress --transactions $(or $(TRANSACTIONS),100000) --minutes $(MINUTES) \
		--seed $(or $(SEED),1)

prove-reading: $(VENV)/.dev ## compare 200,000 answers before and after unread text changes; MINUTES, COMPARISONS, SEED
	$(BIN)/python -m tools.prove --minutes $(MINUTES) $(COMPARISONS:%=--comparisons %) \
		$(if $(SEED),--seed $(SEED),--state $(VENV)/.prove.json)

prove-indexes: $(VENV)/.dev ## compare both indexes; QUERIES, SEED
	$(BIN)/python -m tools.compare_indexes --queries $(or $(QUERIES),20000) --seed $(or $(SEED),1)

prove-laws: $(VENV)/.dev ## run the tests of laws with many more cases; SHARD
	$(BIN)/python -m pytest -n auto $(LAWS) --hypothesis-profile prove --timeout 3600 $(SHARD:%=--shard %)

fuzz: MINUTES = 5
fuzz: $(VENV)/.dev ## parse randomly changed documents; MINUTES, SEED
	$(BIN)/python -m tools.fuzz_parsers --minutes $(MINUTES) --seed $(or $(SEED),1)

fuzz-http: MINUTES = 5
fuzz-http: $(VENV)/.dev ## test a running server against its OpenAPI document; MINUTES, SEED
	$(BIN)/python -m tools.fuzz_http --minutes $(MINUTES) --seed $(or $(SEED),1)

border: $(VENV)/.dev ## delete extensions from a copy and see that the engine works without them
	$(BIN)/python -m tools.border

growth: $(VENV)/.dev ## how the cost of every call grows with what a caller chooses (minutes); PARTS
	$(BIN)/python -m tools.growth $(PARTS:%=--only %)

soak: MINUTES = 5
soak: $(VENV)/.dev ## 12 clients on one server while documents are replaced and deleted; MINUTES, SEED
	$(BIN)/python -m tools.soak --minutes $(MINUTES) --seed $(or $(SEED),1)

guards: $(VENV)/.dev ## break guards of the source one at a time and see that tests fail (minutes)
	$(BIN)/python -m tools.guards

promises: $(VENV)/.dev ## list the promises with the tests that prove each
	$(BIN)/python -m tests.promises

reference: $(VENV)/.dev ## write the generated parts of the documentation
	$(BIN)/python -m tools.reference

pictures: $(VENV)/.dev chromium ## draw the pictures of the documentation from the real page and terminal
	$(BIN)/python -m tools.pictures

# The site generator has its own environment, because nothing else needs it.
$(DOCS)/.installed: lock/docs.txt
	@echo "installing the site generator ..."
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --require-hashes -r lock/docs.txt
	@touch $@

docs: $(DOCS)/.installed ## build the documentation site in site/
	$(DOCS)/bin/zensical build --clean --strict

docs-serve: docs ## serve the documentation site at http://127.0.0.1:8800/
	$(DOCS)/bin/python -m http.server --directory site --bind 127.0.0.1 8800

# The tools are those of the lock file, so nothing is downloaded.
package: $(VENV)/.dev ## build the wheel and the source distribution in dist/
	$(BIN)/python -m build --no-isolation

# The image of a server has the multilingual model and what sanitising and watching need: nothing can be installed in it. The tests need them too.
lock: ## update the lock files (needs uv)
	for set in runtime server dev bench frameworks ocr torch; do \
		case $$set in \
			runtime) with="";; \
			server) with="--extra server --extra multilingual --extra sanitize --extra watch --extra metrics";; \
			dev) with="--extra server --extra multilingual --extra sanitize --extra watch --extra metrics --group dev";; \
			bench) with="--extra server --extra multilingual --extra sanitize --extra watch --extra metrics --group bench";; \
			ocr|torch) with="--extra $$set --group $$set";; \
			*) with="--group $$set";; \
		esac; \
		uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
			--no-header --no-annotate --quiet --upgrade pyproject.toml --group build \
			$$with -o lock/$$set.txt; \
	done
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --quiet --upgrade --group docs -o lock/docs.txt

clean: ## remove the environments, the demo library, the site and the benchmark results
	rm -rf $(VENV) $(BENCH) $(FRAMEWORKS) $(OCR) $(TORCH) $(DOCS) dist site .cache bench/results examples/demo-library .pytest_cache .ruff_cache .hypothesis
