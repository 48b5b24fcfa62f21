# SPDX-License-Identifier: Apache-2.0
# stowd: build, run, test. `make help` lists the targets.

CC ?= cc
BUILD ?= build
CFLAGS ?= -O2 -g
WARN = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla
HARDEN = -fstack-protector-strong -D_FORTIFY_SOURCE=2
OUR_CFLAGS = -std=gnu17 -pthread $(WARN) $(HARDEN) $(SANFLAGS) -D_GNU_SOURCE -I. -MMD -MP
LIBS = -lmicrohttpd -lcjson -llmdb -lzstd -llz4 -lz -lxxhash -lyaml -lm

SRC_storage = $(wildcard config/base*.c storage/*.c)
SRC_api = $(wildcard api/*.c)
SRC_config = $(wildcard config/*.c)
SRC_server = $(filter-out server/main.c,$(wildcard server/*.c))
OBJ = $(patsubst %.c,$(BUILD)/%.o,$(SRC_config) $(SRC_storage) $(SRC_api) $(SRC_server))

all: $(BUILD)/stowd

$(BUILD)/%.o: %.c
	@mkdir -p $(dir $@)
	$(CC) $(OUR_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/stowd: $(BUILD)/server/main.o $(OBJ)
	$(CC) $(OUR_CFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all clean
