# What a developer runs; `make` alone lists it.
#
# Setup takes two choices: PYTHON, the interpreter (make setup PYTHON=python3.12), and TORCH, another torch than the pinned one:
# a wheel's path or URL, or a requirement (make setup TORCH=torch==2.8.0). Both stay chosen until `make clean`.

# A finished environment's own interpreter is the one that it was made with.
# A setup that was killed may have left it in .venv.old; the next one puts it back.
PYTHON ?= $(shell for venv in .venv .venv.old; do \
	if test -f $$venv/.kvproof-ready && test -x $$venv/bin/python; then echo $$venv/bin/python; exit; fi; done; echo python3)
BIN := .venv/bin

# The theme prints its maintainers' plans at every build; they say nothing about our pages.
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Make .venv with everything that the tests need (instant once it is made)
	@test "$$($(PYTHON) -c 'print("runs", end="")' </dev/null 2>/dev/null)" = runs || { \
		echo "setup: '$(PYTHON)' is not a Python 3 that runs; name one, as in make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) tools/setup.py

.PHONY: test
test: lint docs ## Check everything: style, types, documentation, tests
	@echo "== pytest"
	@$(BIN)/python -m pytest -n auto --dist worksteal

RESULTS := build/results
CERTIFICATE := build/certificate

.PHONY: certify
certify: setup ## Certify the native backend on vectors, tiny pools, real traces and random walks; see build/certificate
	@rm -rf $(CERTIFICATE)
	@$(BIN)/kvproof certify gpu --out $(CERTIFICATE)

.PHONY: certify-reference
certify-reference: setup ## Certify the reference the same way; the certificate is in build/certificate-of-reference
	@rm -rf $(CERTIFICATE)-of-reference
	@$(BIN)/kvproof certify reference --out $(CERTIFICATE)-of-reference

# vLLM's block pool, in an environment of its own; another release by VLLM=0.24.0.
VLLM := 0.33.0
VLLM_FOLDER := build/vllm$(if $(filter-out 0.33.0,$(VLLM)),-$(VLLM))

.PHONY: vllm
vllm: ## Make an environment with vLLM in build/vllm, for its block pool (VLLM=0.24.0: another release)
	@$(PYTHON) tools/vllm_environment.py $(VLLM)

.PHONY: certify-vllm
certify-vllm: setup vllm certify-vllm-pool certify-vllm-per_copy certify-vllm-logical ## Certify vLLM's block pool; the reports are in build/vllm

# That it diverges (1) is a result; anything else ends it.
certify-vllm-%: setup vllm
	@rm -rf $(VLLM_FOLDER)/$*
	@PATH="$(CURDIR)/$(BIN):$$PATH" KVPROOF_VLLM=$(CURDIR)/$(VLLM_FOLDER)/.venv/bin/python \
	$(BIN)/kvproof certify "exec:python -m kvproof.conformance.engines.vllm $*" --out $(VLLM_FOLDER)/$*; test $$? -le 1

.PHONY: evidence-vllm
evidence-vllm: certify-vllm ## The same, and put the reports into the documentation
	@mkdir -p docs/evidence/vllm
	@for mode in pool per_copy logical; do cp build/vllm/$$mode/report.html docs/evidence/vllm/$$mode.html; done

# Some minutes, on a machine that does nothing else. Without vLLM's environment (make vllm) its column stays empty.
.PHONY: bench
bench: setup ## Measure the backend beside vLLM's block pool, and write docs/evidence/bench.md
	@mkdir -p $(RESULTS)
	@$(BIN)/kvproof bench --json $(RESULTS)/bench.json
	@$(BIN)/python -m kvproof.conformance.bench.page $(RESULTS)/bench.json docs/evidence/bench.md

.PHONY: lint
lint: setup ## Check style (ruff) and types (mypy)
	@echo "== ruff"
	@$(BIN)/ruff check
	@echo "== mypy"
	@$(BIN)/mypy

.PHONY: docs
docs: setup ## Build the documentation into site/; a warning is an error
	@echo "== mkdocs"
	@$(BIN)/mkdocs build --strict --quiet

.PHONY: docs-serve
docs-serve: setup ## Serve the documentation on this machine, rebuilt at every change
	@$(BIN)/mkdocs serve

.PHONY: evidence
evidence: setup ## Regenerate what is made from the sources: evidence of each clause, theorems, schemas, vectors, reports, the seed page
	@$(BIN)/python -m kvproof.spec.machine.theorems > docs/verified-properties.md
	@$(BIN)/python -m kvproof.conformance.backends.schema docs/protocol.schema.json
	@$(BIN)/python -m kvproof.conformance.certification.certificate docs/certificate.schema.json
	@$(BIN)/python -m kvproof.conformance.vectors.generate
	@$(BIN)/python -m kvproof.conformance.vectors.reports_page docs/evidence/reports.md
	@$(BIN)/python -c "from pathlib import Path; from kvproof.conformance.evidence import write; write(Path())"
	@$(BIN)/python tools/seeds_page.py

# What takes longer than a test may; each writes its page in docs/evidence/.
TARGETS := reference steps machine hybrid hybrid-backend

.PHONY: nightly
nightly: mutants mutate certify-mutants deep fuzz-core core-mutants arm64 ## Run all the long checks below

.PHONY: mutants
mutants: setup ## Run every named mutant through every layer
	@mkdir -p $(RESULTS)
	@$(BIN)/kvproof mutants --json $(RESULTS)/mutants.json; code=$$?; \
	$(BIN)/python -m kvproof.conformance.mutation.report $(RESULTS)/mutants.json docs/evidence/mutants.md && exit $$code

.PHONY: mutate
mutate: $(TARGETS:%=mutate-%) ## Delete or negate 100 places each of every target, reference, abstract machine and backend among them, seed 1

mutate-%: setup
	@mkdir -p $(RESULTS)
	@$(BIN)/kvproof mutants --statements 100 --seed 1 --of $* --json $(RESULTS)/statements-of-$*.json; code=$$?; \
	$(BIN)/python -m kvproof.conformance.mutation.report \
		$(RESULTS)/statements-of-$*.json docs/evidence/statements-of-$*.md && exit $$code

.PHONY: certify-mutants
certify-mutants: setup ## Certify every named mutant: each has to fail, by a clause that it breaks; shipped records follow
	@mkdir -p $(RESULTS)
	@$(BIN)/kvproof certify-mutants --json $(RESULTS)/certified-mutants.json; code=$$?; \
	$(BIN)/python -m kvproof.conformance.certification.trials_page \
		$(RESULTS)/certified-mutants.json docs/evidence/certified-mutants.md && exit $$code

.PHONY: deep
deep: setup ## Explore and compare larger pools; run the tests of the reference under the long hypothesis profile
	@$(BIN)/python -m kvproof.conformance.deep docs/evidence/deep.md
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest tests/reference -n auto --timeout 3600

.PHONY: fuzz-core
fuzz-core: setup ## Compare the native core with the reference, 10 million calls
	@$(BIN)/python tools/fuzz_core.py --calls 10000000 --log docs/evidence/core.md

.PHONY: core-mutants
core-mutants: setup ## Build the native core with one fault after the other, and let the fuzz find each
	@$(BIN)/python tools/core_mutants.py

.PHONY: arm64
arm64: setup ## Build the native core for arm64, and let qemu-user replay what the core did here
	@$(BIN)/python tools/replay_core.py --arm64

.PHONY: clean
clean: ## Remove all that make made, .venv too
	rm -rf .venv .venv.old .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
