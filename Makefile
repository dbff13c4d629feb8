# Two commands do everything: `make run` looks at this host, `make test` runs every check of the project.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# One more than there are cores: some tests wait for real time.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
READY := $(VENV)/.ready
# What some tests meet for real; without root or apt-get those tests are skipped and say so. The service of Debian's
# prometheus is kept from starting: it would listen to everybody.
SYSTEM_PACKAGES := hwloc-nox:lstopo-no-graphics numactl:numactl pciutils:lspci gcc:gcc libc6-dev:/usr/include/stdio.h \
  qemu-system-x86:qemu-system-x86_64 busybox-static:/var/lib/dpkg/info/busybox-static.list cpio:cpio sosreport:sos \
  shellcheck:shellcheck dash:dash systemd:systemd-analyze udev:/lib/systemd/systemd-udevd docker-compose:docker-compose slurm-client:srun fio:fio \
  chromium:chromium fonts-dejavu-core:/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf \
  prometheus:promtool

.PHONY: run test test-e2e lint types unit packages bench bench-statistics bench-memory bench-agent schemas demo docs clean

run: $(READY)
	@$(BIN)/hostdoctor check || echo "(exit status $$?)"

test: $(READY) packages lint types unit

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

# Tests start hostdoctor some hundred times, also in an emulated guest: it is compiled once, whatever the caller's shell
# says of bytecode.
unit: $(READY)
	$(BIN)/python -m compileall -q -j 0 hostdoctor checks tests
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --numprocesses=$(WORKERS) -m 'not e2e$(if $(LONG),, and not long)'

# The real vLLM on CPUs: some minutes and 3.5 GB the first time; not part of `make test`.
test-e2e: $(READY)
	$(BIN)/pytest tests/e2e tests/agent -m e2e

bench: $(READY)
	$(BIN)/python -m tests.bench.bench_startup
	$(BIN)/python -m tests.bench.bench_bug_report
	$(BIN)/python -m tests.bench.bench_capture
	$(BIN)/python -m tests.bench.bench_report

bench-statistics: $(READY)
	$(BIN)/python -m tests.bench.bench_statistics

bench-memory: $(READY)
	$(BIN)/python -m tests.bench.bench_memory

# Beside Debian's prometheus-node-exporter, which has to be installed; three minutes.
bench-agent: $(READY)
	$(BIN)/python -m tests.bench.bench_agent

schemas: $(READY)
	$(BIN)/python -m tests.support.write_schemas

docs: $(READY)
	$(BIN)/python -m tests.support.write_docs

demo: $(READY)
	$(BIN)/python -m tests.support.write_demo

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

packages:
	@missing=""; for pair in $(SYSTEM_PACKAGES); do \
	  command -v "$${pair#*:}" >/dev/null || [ -e "$${pair#*:}" ] || missing="$$missing $${pair%%:*}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing:$$missing"; \
	  case "$$missing" in *prometheus*) [ ! -d /run/systemd/system ] || systemctl -q mask prometheus.service;; esac; \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$missing; } >/dev/null \
	    || echo "could not install:$$missing (tests that need them are skipped)"; \
	else echo "not installed:$$missing (no root or no apt-get: tests that need them are skipped)"; fi

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
