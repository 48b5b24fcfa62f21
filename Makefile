# SPDX-License-Identifier: Apache-2.0
# stowd: build, run, test. `make help` lists the targets.
# CC, CFLAGS, CPPFLAGS and LDFLAGS are the user's; what the project needs is added beside them.

CC ?= cc
CLANG ?= clang-14
CLANG_FORMAT ?= clang-format-14
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
sysconfdir ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
unitdir ?= $(PREFIX)/lib/systemd/system
# make run: where it listens and keeps its data.
PORT ?= 9200
DATA ?= var
# make fuzz: seconds for each target. make crash: rounds of SIGKILL.
TIME ?= 60
ROUNDS ?= 20
# SANITIZE=address,undefined or SANITIZE=thread: instrumented build in a directory of its own.
SANITIZE ?=
comma := ,
BUILD ?= build$(if $(SANITIZE),/$(subst $(comma),-,$(SANITIZE)))

DEPS = gcc libc6-dev make libmicrohttpd-dev libcjson-dev liblmdb-dev libzstd-dev liblz4-dev \
       zlib1g-dev libxxhash-dev libyaml-dev libcurl4-gnutls-dev libgnutls28-dev \
       libcrypt-dev
DEPS_TEST = libcmocka-dev python3 python3-pytest python3-pytest-xdist zstd openssl
DEPS_CLIENTS = python3-venv $(if $(shell command -v npm),,npm)

# ---- flags

WARN = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 \
       -Wvla $(if $(filter 1 true,$(CI)),-Werror)
OPTIMISED = $(filter -O1 -O2 -O3 -Os,$(CFLAGS))
FORTIFIED = $(findstring FORTIFY,$(CPPFLAGS) $(CFLAGS))
ifneq ($(SANITIZE),)
EXTRA = -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
else
EXTRA = -fstack-protector-strong $(if $(FORTIFIED),,$(if $(OPTIMISED),-D_FORTIFY_SOURCE=2))
EXTRA_LD = -Wl,-z,relro -Wl,-z,now
endif
# gcc only: the daemon is optimised across files, which is worth a tenth of its CPU. Objects keep
# their own code as well, so that tests link without it. Its late warnings see through no error path.
ifeq ($(SANITIZE)$(FUZZ_CFLAGS),)
ifneq ($(OPTIMISED),)
ifneq ($(findstring Free Software Foundation,$(shell $(CC) --version 2>/dev/null)),)
LTO ?= 1
endif
endif
endif
ifeq ($(LTO),1)
LTO_CFLAGS = -flto=auto -ffat-lto-objects
LTO_LINK = -flto=auto -Wno-error -Wno-maybe-uninitialized -Wno-uninitialized
LTO_NOT = -fno-lto
endif
OUR_CFLAGS = -std=gnu17 -pthread $(WARN) $(EXTRA) $(FUZZ_CFLAGS)
OUR_CPPFLAGS = -D_GNU_SOURCE -I. -MMD -MP
LIBS_STOW = -llmdb -lzstd -llz4 -lz -lxxhash -lyaml -lcrypt
LIBS_API = -lcjson -lcurl -lgnutls
LIBS_SERVER = -lmicrohttpd
COMPILE = $(CC) $(OUR_CPPFLAGS) $(CPPFLAGS) $(OUR_CFLAGS) $(LTO_CFLAGS) $(CFLAGS)
LINK = $(CC) $(OUR_CFLAGS) $(CFLAGS) $(LTO_NOT) $(EXTRA_LD) $(LDFLAGS)
LINK_DAEMON = $(CC) $(OUR_CFLAGS) $(CFLAGS) $(LTO_LINK) $(EXTRA_LD) $(LDFLAGS)

# ---- what there is

objects = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard $(1))))
LIBSTOW = $(BUILD)/libstow.a
LIBAPI = $(BUILD)/libapi.a
SERVER = $(call objects,server/*.c)
PROGRAMS = $(BUILD)/stowd $(if $(wildcard tools/stowctl.c),$(BUILD)/stowctl)
UNIT = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZ = $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
REPLAY = $(patsubst %,$(BUILD)/tests/fuzz/replay_%,$(FUZZ))
C_FILES = $(sort $(wildcard config/*.[ch] storage/*.[ch] api/*.[ch] server/*.[ch] tools/*.[ch] \
                            tools/bench/*.[ch] tests/unit/*.[ch] tests/fuzz/*.[ch]))

.DEFAULT_GOAL := all
all: $(PROGRAMS) ## build stowd and stowctl into build/

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

# An archive is made anew, so that a source file that went away leaves it.
$(LIBSTOW): $(call objects,config/*.c) $(call objects,storage/*.c)
$(LIBAPI): $(call objects,api/*.c)
$(LIBSTOW) $(LIBAPI):
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/stowd: $(SERVER) $(LIBAPI) $(LIBSTOW)
	$(LINK_DAEMON) -o $@ $^ $(LIBS_SERVER) $(LIBS_API) $(LIBS_STOW) -lm

$(BUILD)/stowctl: $(addprefix $(BUILD)/tools/,stowctl.o stowctl_backup.o stowctl_user.o) $(LIBSTOW)
	$(LINK) -o $@ $^ $(LIBS_STOW) -lm

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(LIBAPI) $(LIBSTOW)
	$(LINK) -o $@ $^ -lcmocka $(LIBS_API) $(LIBS_STOW) -lm

$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o \
                              $(LIBAPI) $(LIBSTOW)
	$(LINK) -o $@ $^ $(LIBS_API) $(LIBS_STOW) -lm

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBAPI) $(LIBSTOW)
	$(LINK) -fsanitize=fuzzer -o $@ $^ $(LIBS_API) $(LIBS_STOW) -lm

# ---- running and testing

run: deps ## serve on 127.0.0.1:9200 (PORT=), data in ./var (DATA=); installs what is missing
	@$(MAKE) --no-print-directory all
	$(BUILD)/stowd -E path.data=$(DATA) -E http.port=$(PORT)

RUNTESTS = PYTHON=$(PYTHON) $(PYTHON) tools/runtests.py --build $(BUILD)
PYTEST = PYTHON=$(PYTHON) $(PYTHON) -m pytest -p no:cacheprovider

test: deps-test ## every test: layers, unit, fuzz corpus, black box; ends with "N passed, N failed"
	@$(MAKE) --no-print-directory all unit-build fuzz-replay-build
	@$(RUNTESTS) --check tools/layers.sh --unit $(UNIT) --replay $(REPLAY) \
	    --pytest tests/http tests/clients/test_debian.py --jobs 4

check-quick: all unit-build fuzz-replay-build ## the tests that take about a minute
	@$(RUNTESTS) --check tools/layers.sh --unit $(UNIT) --replay $(REPLAY) \
	    --pytest tests/http -m "not slow" --jobs 6 --beside

test-clients: deps-clients ## real clients from npm, PyPI, Go, Maven: libraries, elasticdump, curator
	@$(MAKE) --no-print-directory all
	@$(RUNTESTS) --pytest tests/clients/test_libraries.py tests/clients/test_tools.py

test-unit: unit-build ## unit tests only
	@$(RUNTESTS) --unit $(UNIT)

fuzz-replay: fuzz-replay-build ## every fuzz target over its corpus
	@$(RUNTESTS) --replay $(REPLAY)

crash: all ## SIGKILL under load (ROUNDS=), power cuts (root)
	STOWD=$(abspath $(BUILD))/stowd STOWD_CRASH_ROUNDS=$(ROUNDS) $(PYTEST) tests/http/test_durability.py
	STOWD=$(abspath $(BUILD))/stowd $(PYTHON) tests/crash/powercut.py

unit-build: $(UNIT)
fuzz-replay-build: $(REPLAY)

asan: ## unit tests and fuzz corpus under AddressSanitizer
	@$(MAKE) --no-print-directory SANITIZE=address test-unit fuzz-replay
ubsan: ## the same under UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory SANITIZE=undefined test-unit fuzz-replay
tsan: ## unit tests under ThreadSanitizer
	@$(MAKE) --no-print-directory SANITIZE=thread test-unit

fuzz: ## every fuzz target with libFuzzer for TIME= seconds (clang)
	@$(MAKE) --no-print-directory CC=$(CLANG) SANITIZE=address,undefined BUILD=build/fuzz \
	    FUZZ_CFLAGS=-fsanitize=fuzzer-no-link fuzz-build
	@set -e; for t in $(FUZZ); do \
	    mkdir -p build/fuzz/corpus/$$t; \
	    build/fuzz/tests/fuzz/fuzz_$$t -max_total_time=$(TIME) -timeout=10 -rss_limit_mb=2048 \
	        -artifact_prefix=build/fuzz/$$t- build/fuzz/corpus/$$t \
	        $$(test -d tests/fuzz/corpus/$$t && echo tests/fuzz/corpus/$$t); \
	done
fuzz-build: $(patsubst %,$(BUILD)/tests/fuzz/fuzz_%,$(FUZZ))

BENCH = $(addprefix $(BUILD)/tools/bench/,load refs constant)
# CORPUS="apache nginx" ROUNDS=5 MB=1024 DOCS=5000000 MILLIONS=20 PARTS="ingest get": defaults are in
# bench.py, what each part measures in docs/benchmark.md.
BENCH_RUN = PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tools/bench/
BENCH_ARGS = --build $(BUILD) $(if $(CORPUS),--corpus $(CORPUS)) \
             $(if $(filter command,$(origin ROUNDS)),--rounds $(ROUNDS)) $(if $(MB),--mb $(MB))
BENCH_MORE = $(if $(DOCS),--docs $(DOCS)) $(if $(MILLIONS),--millions $(MILLIONS)) \
             $(if $(PARTS),--part $(PARTS))

bench: all bench-build ## figures beside references and targets (CORPUS= ROUNDS= MB= PARTS=), hours
	@$(BENCH_RUN)bench.py $(BENCH_ARGS) $(BENCH_MORE)

bench-quick: all bench-build ## the most important of them in three minutes
	@$(BENCH_RUN)bench.py --quick $(BENCH_ARGS) $(BENCH_MORE)

bench-opensearch: all bench-build ## beside a real OpenSearch node, fetched by Maven
	@$(BENCH_RUN)opensearch.py $(BENCH_ARGS)

bench-build: $(BENCH)
BENCH_CLIENT = $(addprefix $(BUILD)/tools/bench/,client.o corpus.o)
BENCH_MODELS = $(addprefix $(BUILD)/tools/bench/,peers.o corpus.o)
$(BUILD)/tools/bench/load: $(BUILD)/tools/bench/load.o $(BENCH_CLIENT)
	$(LINK) -o $@ $^
$(BUILD)/tools/bench/refs: $(BUILD)/tools/bench/refs.o $(BENCH_MODELS)
	$(LINK) -o $@ $^ -lzstd -llz4 -lz
$(BUILD)/tools/bench/constant: $(BUILD)/tools/bench/constant.o
	$(LINK) -o $@ $^ $(LIBS_SERVER)

# ---- checking the source

layers: ## who includes whom, lengths of functions and files, licence lines
	@tools/layers.sh

format: ## clang-format over all of it
	@$(CLANG_FORMAT) -i $(C_FILES)
format-check: ## clang-format changes nothing
	@$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)

lint: ## cppcheck
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --suppress=missingIncludeSystem --error-exitcode=1 -D_GNU_SOURCE -I. \
	    $(filter %.c,$(filter-out tests/%,$(C_FILES)))

# ---- Debian packages

deps: ## install the Debian packages that the build lacks
	@tools/deps.sh $(DEPS)
deps-test: ## … and those that the tests lack
	@tools/deps.sh $(DEPS) $(DEPS_TEST)
deps-clients: deps-test ## … and those that real clients lack (a client that cannot be had is skipped)
	@tools/deps.sh $(DEPS_CLIENTS) || true

# ---- installing

install: all ## into $(DESTDIR)$(PREFIX): programs, example configuration, systemd unit
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(sysconfdir)/stowd $(DESTDIR)$(unitdir)
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin/
	test -e $(DESTDIR)$(sysconfdir)/stowd/stowd.yml || \
	    install -m 644 config/stowd.yml $(DESTDIR)$(sysconfdir)/stowd/stowd.yml
	sed -e 's,/usr/bin/stowd,$(PREFIX)/bin/stowd,' -e 's,/etc/stowd,$(sysconfdir)/stowd,' \
	    config/stowd.service > $(DESTDIR)$(unitdir)/stowd.service
	chmod 644 $(DESTDIR)$(unitdir)/stowd.service

uninstall: ## remove them; configuration and data stay
	rm -f $(patsubst $(BUILD)/%,$(DESTDIR)$(PREFIX)/bin/%,$(PROGRAMS)) \
	    $(DESTDIR)$(unitdir)/stowd.service

docker: ## build the image stowd:latest (docker, podman or buildah)
	@tools/image.sh build stowd:latest

clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	    awk -F'|' '{ printf "  %-16s %s\n", $$1, $$2 }'

.PHONY: all run test check-quick test-clients test-unit unit-build fuzz-replay fuzz-replay-build \
        crash asan ubsan tsan fuzz fuzz-build bench bench-quick bench-opensearch bench-build layers \
        format format-check lint deps deps-test deps-clients install uninstall docker clean help
.SECONDARY:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

-include $(patsubst %.c,$(BUILD)/%.d,$(filter %.c,$(C_FILES)))
