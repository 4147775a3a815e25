# Every target works on a fresh machine that has Python 3.11-3.14 and make.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Tests start hundreds of processes; where bytecode is not written, each of them compiles two thousand modules first.
unexport PYTHONDONTWRITEBYTECODE
# A lock file names everything: what is looked up beside it takes most of the time.
PIP := $(BIN)/pip install --quiet --no-compile --no-deps --no-warn-conflicts --disable-pip-version-check
# uv takes seconds where pip takes a minute; pip alone knows the index that a pip.conf names.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(1) || $(PIP) $(1)
# A changed lock file reinstalls the dependencies.

.PHONY: demo broker test kernels bytecode lint types bench nightly long chaos mixed soak lock sbom release image-test page manifests site clean .venv

.venv: $(STAMP)

$(STAMP): .venv/.locked pyproject.toml
	@$(call install,--no-build-isolation --editable .)
	@touch $@

.venv/.locked: requirements/uv.txt requirements/lock.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 15) else "Resonance needs Python 3.11 to 3.14; %s is %d.%d. Name another one: make PYTHON=python3.12 ..." % (sys.executable, *v))'
	@echo "Setting up .venv (once)"
	@$(PYTHON) -m venv .venv
	-@$(PIP) --only-binary :all: --require-hashes --requirement requirements/uv.txt
	@$(call install,--require-hashes --requirement requirements/lock.txt)
	@touch $@

# What the benchmarks or the site need beside that, once.
.venv/.%: requirements/%.txt $(STAMP)
	@$(call install,--require-hashes --requirement $<)
	@touch $@

# Prints the address of its web page; make demo KEEP=--keep leaves that open.
demo: .venv
	@$(BIN)/resonance demo $(KEEP)

# A Kafka for first steps, without Docker: its data go when it ends. make broker PORT=9093 where 9092 is taken.
PORT ?= 9092
broker: .venv
	@echo "Starting Kafka; Ctrl-C stops it, and forgets its topics"
	@$(BIN)/python -m tests.brokers $(PORT)

# Four tests at once on two cores: those with a broker wait for it most of their time.
test: kernels
	$(BIN)/python -m pytest --numprocesses 4 --dist worksteal --durations 15 --durations-min 5 $(PYTEST_ARGS)

# Once for all who would otherwise compile the same side by side.
kernels: .venv
	@$(BIN)/resonance worker --compile-only

# That of the tests and of all that they import, once: four workers of pytest would each make it at the same time.
bytecode: .venv
	@collected=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$collected"; exit 1; }

lint: .venv
	@$(BIN)/pip check --disable-pip-version-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory types

types: .venv
	$(BIN)/mypy -p resonance.kernels -p resonance.engine -p resonance.pipeline -p resonance.schemas

bench: .venv/.bench
	$(BIN)/python -m bench.engine
	$(BIN)/python -m bench.quality --groups sets
	$(BIN)/python -m bench.live_cost --rounds 1
	$(BIN)/python -m bench.pipeline
	$(BIN)/python -m bench.memory --records 2000000

# What finds faults, but needs long: twelve minutes on two cores.
nightly: kernels
	$(BIN)/python -m pytest -m nightly --numprocesses 3 --dist worksteal --durations 15 $(PYTEST_ARGS)

# Tests in their long form: tests/simulation, 10,000 seeds; tests/integration/test_kill.py, ten minutes of everything that
# ends a process for each of 13 cases; tests/integration/test_late_requests.py, 1,000 of them;
# tests/pipeline/task/test_fuzz.py, 1,000,000 broken values; the rest of tests/pipeline/task, logs record by record;
# tests/integration/test_memory.py, 5 GB of backlog.
long: kernels
	LONG_TESTS=1 $(BIN)/python -m pytest $(WHAT) -rP --numprocesses 2 --timeout 3600

# 200 faults of processes, lines and the broker, half an hour; KAFKA_VERSION names another Kafka, from 3.9 on.
chaos: kernels
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

# Workers of another version are replaced by these one by one, and some of them back: make mixed COMMIT=...
mixed: kernels
	MIXED_WITH=$(COMMIT) $(BIN)/python -m pytest tests/integration/test_mixed_versions.py

# Ten minutes near the highest rate, then an hour with 10,000 keys; on a quiet machine.
soak: kernels
	$(BIN)/python -m bench.soak $(SOAK_ARGS)

# Raises the locked versions; the files name packages and hashes, never an index. The image installs
# runtime.txt and builds the wheel with build.txt: the same versions, without what only development needs.
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
  --python-version 3.11
lock: .venv
	$(LOCK) --extra dev pyproject.toml --output-file requirements/lock.txt
	for extra in bench site; do \
	  $(LOCK) --extra $$extra --constraint requirements/lock.txt pyproject.toml --output-file requirements/$$extra.txt || exit; \
	done
	$(LOCK) --extra worker --extra otlp --extra registry --constraint requirements/lock.txt pyproject.toml --output-file requirements/runtime.txt
	echo "setuptools>=80" | $(LOCK) --constraint requirements/lock.txt - --output-file requirements/build.txt
	echo "uv" | $(LOCK) - --output-file requirements/uv.txt
	echo "cyclonedx-bom" | $(LOCK) - --output-file requirements/sbom.txt

# What the image installs, for scanners of known vulnerabilities.
sbom:
	@mkdir -p build && $(PYTHON) -m venv build/sbom-tool
	@build/sbom-tool/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/sbom.txt
	@build/sbom-tool/bin/cyclonedx-py requirements requirements/runtime.txt --pyproject pyproject.toml \
	  --output-reproducible --output-file build/sbom.json
	@echo build/sbom.json

# What is published, in dist/: the wheel is built from the sdist, and once more from here, which must give the same bytes.
# tests/release.sh tries the wheel as a user has it: make release PYTHONS="python3.12 /opt/python3.14/bin/python3".
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: .venv sbom
	@rm -rf dist build/lib build/bdist.* build/again
	@$(BIN)/python -m build --no-isolation --outdir dist >build/release.log 2>&1 || { cat build/release.log; exit 1; }
	@$(BIN)/python -m build --no-isolation --outdir build/again --wheel >build/release.log 2>&1 || { cat build/release.log; exit 1; }
	@cmp dist/*.whl build/again/*.whl
	@cp build/sbom.json dist
	@tests/release.sh $(PYTHONS)

# Builds the image and runs it beside a broker with podman, as root; minutes. tests/image.py says what it needs.
image-test: .venv
	$(BIN)/python -m tests.image

# The web page, from its sources in pipeline/page/web; the built files are committed, so that nothing else needs node.
PAGE := build/page
page:
	@command -v npm >/dev/null || { echo "make page needs node 20 and npm, which are not there: install them"; exit 1; }
	@mkdir -p $(PAGE) && cp -r pipeline/page/web/. $(PAGE)
	@cd $(PAGE) && npm ci --no-progress --loglevel error && npm run --silent build -- $(CURDIR)/pipeline/page/static
	@$(PYTHON) -m tests.pipeline.page.built

# The manifests of docker/kubernetes: the chart of docker/helm with its own values; needs helm.
manifests:
	@helm template resonance docker/helm/resonance | sed -e '/^# Source: /d' -e 's/ *$$//' -e 1d >docker/kubernetes/resonance.yaml

# The pages of docs/ as a site in build/site, from .ci/site; a link that leads nowhere stops it. Not --quiet: MkDocs would
# count no warning then. The variable hides a note about a later version of MkDocs.
site: .venv/.site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .ci/site/mkdocs.yml

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache
