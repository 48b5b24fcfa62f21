/* SPDX-License-Identifier: Apache-2.0 */
/* Opening blocks: any bytes are refused or give rows that can be read. The checksum is put right
 * first, so that what lies behind it is reached. */
#include "storage/block.h"
#include "storage/bytes.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define RAW_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_checksum(uint8_t *p, size_t size)
{
    size_t frames = (size_t)get_u32(p + 28) + get_u32(p + 36) + get_u32(p + 44);
    if (frames > size - BLOCK_HEADER_BYTES)
        return;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, p, 56);
    XXH3_64bits_update(&state, p + BLOCK_HEADER_BYTES, frames);
    put_u64(p + 56, XXH3_64bits_digest(&state));
}

/* Read every byte, so that the sanitizers see a slice that is out of bounds. */
static void touch(struct slice s)
{
    static volatile uint8_t sink;
    for (size_t i = 0; i < s.len; i++)
        sink = s.ptr[i];
    (void)sink;
}

static void read_rows(const struct block *block)
{
    struct block_scratch scratch = {0};
    for (size_t i = 0; i < block_rows(block); i++) {
        struct row row;
        size_t at = 0;
        struct err err = {0};
        enum rc rc = block_row_all(block, i, &scratch, &row, &err);
        assert(rc == err.rc);
        assert(block_find(block, row.seq, &at) == RC_OK && at == i);
        assert(row.version >= 1 && row.term >= 1 && row.kind <= ROW_TOMBSTONE);
        touch(row.id);
        touch(row.routing);
        touch(row.doc);
    }
    block_scratch_done(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < BLOCK_HEADER_BYTES || get_u32(data + 32) > RAW_MAX || get_u32(data + 40) > RAW_MAX ||
        get_u32(data + 48) > RAW_MAX)
        return 0; /* lengths of gigabytes are a matter of memory, not of parsing */
    /* Inputs need not have their padding. */
    size_t padded = align_up(size, BLOCK_ALIGN);
    uint8_t *record = calloc(1, padded);
    if (record == NULL)
        return 0;
    memcpy(record, data, size);
    fix_checksum(record, padded);
    for (int want = BLOCK_META; want <= BLOCK_SCAN; want++) {
        struct block *block = NULL;
        struct err err = {0};
        enum rc rc = block_open(slice_of(record, padded), get_u32(record + 8), get_u64(record + 16),
                                (enum block_want)want, NULL, &block, &err);
        assert(rc == err.rc);
        if (rc == RC_OK)
            read_rows(block);
        block_close(block);
    }
    free(record);
    return 0;
}
