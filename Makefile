# The few verbs people use. Everything is an ordinary cargo command; this file adds what must be there first.

CARGO ?= cargo
ARGS ?=
SEEDS ?= 20000
SECONDS ?= 60
ROUNDS ?= 20
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.PHONY: help demo test lint no-std sim model planted chaos fuzz lab lab-dpu acceptance bench doc setup embed embed-tools header install libraries dpu doca deb package-check package-tools

help:
	@echo 'make demo         run the main job: three processes, a leader killed in mid-stream, a picture of it'
	@echo 'make demo ARGS=…  the same with options of your own, e.g. ARGS="--nodes 5 --pause leader"'
	@echo 'make test         lints, the no_std proof, all tests, the planted bugs'
	@echo 'make sim          the simulator over SEEDS (20000) seeds'
	@echo 'make model        every schedule of three replicas on a tiny fabric, within bounds (some minutes)'
	@echo 'make planted      plants one bug after the other into the core and looks for each; ARGS="--bug NAME" for one'
	@echo 'make chaos        ROUNDS (20) of real processes that are killed, stopped and started anew, members and leaders changed, judged'
	@echo 'make fuzz         SECONDS (60) of every fuzz target, or of TARGETS; needs cargo-fuzz and a nightly toolchain'
	@echo 'make lab          what needs an RDMA device, in a virtual machine with soft-RoCE (ARGS=long for the long form)'
	@echo 'make lab-dpu      a DPU (arm64) and its host (x86-64), a virtual machine each: they hang, are killed and cut apart (some minutes)'
	@echo 'make embed        libringleader for C and C++: its tests, under sanitizers and valgrind, and its examples (some minutes)'
	@echo 'make dpu          builds for a DPU: programs for its Arm cores, unit tests under QEMU, the acceptor without an operating system'
	@echo 'make doca         host memory in the hands of a DPU (NVIDIA DOCA), built and tested against a stand-in for the SDK'
	@echo 'make install      headers, libraries, pkg-config file and CMake package, to PREFIX (/usr/local) below DESTDIR'
	@echo 'make deb          the package of this machine, built and looked at; BINARY=…, ARCH=arm64, PACKAGE=…: of a program that is there'
	@echo 'make acceptance   the demo over and over in every mode, with a table of medians (some minutes)'
	@echo 'make bench        the figures of docs/benchmarks.md'
	@echo 'make lint         rustfmt, clippy and rustdoc, warnings denied'

demo: setup
	$(CARGO) run --release --package ringleader --bin ringleader -- demo $(ARGS)

test: setup lint no-std
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) test --workspace --doc --quiet && $(CARGO) nextest run --workspace --no-fail-fast; \
	else \
		$(CARGO) test --workspace; \
	fi
	@$(MAKE) --no-print-directory planted ARGS=
	@$(MAKE) --no-print-directory embed
	@$(MAKE) --no-print-directory package-check
	@$(MAKE) --no-print-directory doca
	tests/lab/run.sh

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings
	$(CARGO) clippy --package ringleader-core --no-default-features --quiet -- --deny warnings
	$(CARGO) clippy --package ringleader-core --package ringleader-tests --features ringleader-tests/planted --all-targets --quiet -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --workspace --no-deps --quiet

# Fails to compile once anything in the core brings std along.
no-std: setup
	$(CARGO) build --quiet --manifest-path tests/no_std/Cargo.toml --target-dir $${CARGO_TARGET_DIR:-target}/no_std
	$(CARGO) test --quiet --package ringleader-core --no-default-features

sim: setup
	$(CARGO) run --release --package ringleader-tests --bin sim -- --seeds $(SEEDS)

model: setup
	$(CARGO) run --release --package ringleader-tests --bin model -- $(ARGS)

# Built like the tests, whose dependencies it shares.
planted: setup
	$(CARGO) run --profile test --quiet --package ringleader-tests --features planted --bin planted -- $(ARGS)

# Built like the tests, of which it is a part.
chaos: setup
	$(CARGO) run --profile test --quiet --package ringleader-chaos --bin chaos -- --rounds $(ROUNDS) $(ARGS)

# Sanitizers and coverage are nightly's. What is missing is named, and is no error: the properties are in the tests, too.
fuzz: setup
	@$(CARGO) fuzz --version >/dev/null 2>&1 || \
		{ echo 'make fuzz: skipped: cargo-fuzz is missing (cargo install cargo-fuzz)'; exit 0; }; \
	$(CARGO) +nightly --version >/dev/null 2>&1 || \
		{ echo 'make fuzz: skipped: no nightly toolchain (rustup toolchain install nightly)'; exit 0; }; \
	for target in $(TARGETS); do \
		test -e fuzz/fuzz_targets/$$target.rs || { echo "make fuzz: there is no target $$target" >&2; exit 1; }; \
	done; \
	cd fuzz && $(CARGO) +nightly fuzz build && for target in $(TARGETS); do \
		echo "fuzz: $$target for $(SECONDS) s"; \
		mkdir -p corpus/$$target && cp -n ../tests/properties/found/$$target/* corpus/$$target/ 2>/dev/null; \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(SECONDS) -max_len=4096 -len_control=0 -timeout=20 \
			-print_final_stats=1 -verbosity=0 || exit 1; \
	done
# The virtual machine is made of Debian's packages and runs under QEMU; where there is none, it says so and is well.
lab: setup
	@command -v qemu-system-x86_64 >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-system-x86 cpio binutils; } || true
	tests/lab/run.sh $(ARGS)

lab-dpu: setup
	@{ command -v qemu-system-x86_64 && command -v qemu-system-aarch64 && command -v fdtput && command -v cpio; } >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends qemu-system-x86 qemu-system-arm device-tree-compiler cpio binutils; } || true
	CARGO='$(CARGO)' tests/lab/dpu.sh $(ARGS)

# For targets that rustc lacks it makes a root with Debian's, which takes root, once a minute, and 3 GB; see scripts/dpu/run.sh --help.
dpu: setup
	@CARGO='$(CARGO)' scripts/dpu/run.sh $(ARGS)

# Against the stand-in for the SDK; docs/doca.md says how to build with the real one.
doca: setup
	@command -v pkg-config >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends pkg-config; } || \
		{ echo 'make doca: missing: pkg-config' >&2; exit 1; }
	RINGLEADER_DOCA_STAND_IN=1 $(CARGO) clippy --package ringleader-doca --features doca --all-targets --quiet -- --deny warnings
	RINGLEADER_DOCA_STAND_IN=1 RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --package ringleader-doca --features doca --no-deps --quiet
	RINGLEADER_DOCA_STAND_IN=1 $(CARGO) test --quiet --package ringleader-doca --features doca
	RINGLEADER_DOCA_STAND_IN=1 $(CARGO) clippy --package ringleader --package ringleader-dpu --features ringleader/doca,ringleader-dpu/doca --all-targets --quiet -- --deny warnings
	RINGLEADER_DOCA_STAND_IN=1 $(CARGO) test --quiet --package ringleader --features doca --lib -- placement::
	@RINGLEADER_DOCA_STAND_IN=1 $(CARGO) test --quiet --package ringleader --features doca --lib -- --list placement::tests:: | grep ': test$$' > /dev/null || \
		{ echo 'make doca: the tests of a placement are not among those that were built' >&2; exit 1; }
	@CARGO='$(CARGO)' doca/tests/build.sh

# The library for C and C++, as it is shipped: shared and static, and the core by itself.
libraries: setup
	$(CARGO) build --release --quiet --package ringleader-ffi
	$(CARGO) rustc --quiet --package ringleader-acceptor --profile freestanding --features freestanding --crate-type staticlib

install: libraries
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' ffi/install.sh $(TARGET_DIR)

# LEAK_ROUNDS=100000 SEEDS=500: the long form; ONLY=lane: some of it.
embed: embed-tools libraries
	ffi/tests/run.sh $(TARGET_DIR)

# A package of the program that is shipped, or of one that a cross build has left.
deb: setup package-tools
	$(if $(BINARY),,$(CARGO) build --release --package $(or $(PACKAGE),ringleader))
	@deb=$$(packaging/deb.sh $(or $(BINARY),$(TARGET_DIR)/release/$(or $(PACKAGE),ringleader)) $(or $(ARCH),$$(dpkg --print-architecture)) $(PACKAGE)) && \
		echo "$$deb" && packaging/check-deb.sh "$$deb" && $(if $(BINARY),true,packaging/boot-deb.sh "$$deb")

# Units, chart and static pod; and the package of a program that the tests have built already.
package-check: package-tools
	@[ -x $(TARGET_DIR)/debug/ringleader ] || $(CARGO) build --quiet --package ringleader
	@[ -x $(TARGET_DIR)/debug/ringleader-dpu ] || $(CARGO) build --quiet --package ringleader-dpu
	@AGENT=$(abspath $(TARGET_DIR))/debug/ringleader-dpu packaging/check.sh
	@for package in ringleader ringleader-dpu; do \
		deb=$$(OUT=$(TARGET_DIR)/debian/debug packaging/deb.sh $(TARGET_DIR)/debug/$$package $$(dpkg --print-architecture) $$package) && \
			packaging/check-deb.sh "$$deb" && packaging/boot-deb.sh "$$deb" || exit 1; \
	done

# Helm's engine comes as a Python package, as nothing else that is installed by name brings it.
package-tools:
	@missing=; \
	for tool in lintian:lintian adduser:adduser systemd-analyze:systemd readelf:binutils dpkg-deb:dpkg unshare:util-linux python3:python3 \
		systemd-nspawn:systemd-container pgrep:procps $(if $(filter arm64,$(ARCH)),aarch64-linux-gnu-strip:binutils-aarch64-linux-gnu); do \
		command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	[ -z "$$missing" ] || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } || \
		{ echo "make deb: missing:$$missing" >&2; exit 1; }
	@command -v cargo-deb >/dev/null || $(CARGO) install --quiet --locked cargo-deb
	@venv=$(TARGET_DIR)/packaging-venv; \
	cmp -s packaging/requirements.txt $$venv/requirements.txt || \
		{ python3 -m venv $$venv && $$venv/bin/pip install --quiet --disable-pip-version-check --requirement packaging/requirements.txt && \
		cp packaging/requirements.txt $$venv/; }

embed-tools:
	@missing=; \
	for tool in gcc:gcc g++:g++ clang:clang clang++:clang cmake:cmake pkg-config:pkg-config valgrind:valgrind nm:binutils diff:diffutils; do \
		command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	[ -z "$$missing" ] || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; } || \
		{ echo "make embed: missing:$$missing" >&2; exit 1; }

# Makes include/ringleader.h anew; the tests compare it.
header:
	RINGLEADER_BLESS=1 $(CARGO) test --quiet --package ringleader-header

acceptance: setup
	$(CARGO) build --release --package ringleader
	scripts/acceptance.sh

bench: setup
	$(CARGO) run --release --quiet --package ringleader-benches --bin commit_path
	scripts/acceptance.sh 20

doc:
	$(CARGO) doc --workspace --no-deps --open

# Rust must be there (https://rustup.rs); a C compiler to link with, and cmake and libclang for the RDMA devices, are installed
# where that is possible; so are Debian's redis-tools, the real clients of `ringleader kv`.
setup:
	@command -v $(CARGO) >/dev/null || { echo 'make: cargo is missing: install Rust from https://rustup.rs' >&2; exit 1; }
	@command -v cc >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq gcc libc6-dev; } || \
		{ echo 'make: a C compiler (cc) is missing: install gcc' >&2; exit 1; }
	@{ command -v cmake && { [ -n "$$LIBCLANG_PATH" ] || ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so*; }; } >/dev/null 2>&1 || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq cmake libclang-dev; } || \
		{ echo 'make: cmake or libclang is missing: install cmake and libclang-dev, or build without RDMA devices (cargo build --no-default-features)' >&2; exit 1; }
	@{ command -v redis-cli && command -v redis-benchmark; } >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-tools; } || \
		{ echo 'make: redis-tools is missing: the tests of ringleader kv with redis-cli and redis-benchmark are passed over' >&2; [ "$${LAB_REQUIRED:-0}" = 0 ]; }
