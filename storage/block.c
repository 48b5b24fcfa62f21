/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a block record and its checksum. Layout in docs/format.md, section 1; B1 to B4 in
 * block.h. */
#include "storage/block_format.h"

#define XXH_INLINE_ALL /* its streaming state on our stack, whatever version the library has */
#include <xxhash.h>

uint64_t block_checksum(const uint8_t *record, size_t frames_len)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, record, BLOCK_CHECKSUM_AT);
    XXH3_64bits_update(&state, record + BLOCK_HEADER_BYTES, frames_len);
    return XXH3_64bits_digest(&state);
}

enum rc block_bad(struct err *err, enum rc rc, uint32_t index_no, uint64_t first_seq,
                  const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(err, rc, 0, "index %u: block at seq %llu: %s", index_no,
                   (unsigned long long)first_seq, text);
}

static bool frame_sane(uint32_t len, uint32_t raw, bool stored_raw)
{
    if (raw > FRAME_RAW_MAX)
        return false;
    return stored_raw ? len == raw : len > 0 && len < raw;
}

unsigned block_flags(const uint8_t *p)
{
    return get_u32(p + 52);
}

/* Fields and lengths as every version has them (docs/format.md): enough to check and skip a block.
 * False when they cannot be. */
static bool header_parse(const uint8_t *p, struct block_header *out)
{
    unsigned flags = block_flags(p);
    *out = (struct block_header){
        .format = p[4],
        .layout = p[5],
        .codec = p[6],
        .level = p[7],
        .index_no = get_u32(p + 8),
        .dictionary = get_u32(p + 12),
        .first_seq = get_u64(p + 16),
        .rows = get_u32(p + 24),
        .meta_len = get_u32(p + 28),
        .meta_raw = get_u32(p + 32),
        .data_len = get_u32(p + 36),
        .data_raw = get_u32(p + 40),
        .aux_len = get_u32(p + 44),
        .aux_raw = get_u32(p + 48),
    };
    size_t frames = (size_t)out->meta_len + out->data_len + out->aux_len;
    out->record_len = align_up(BLOCK_HEADER_BYTES + frames, BLOCK_ALIGN);
    return memcmp(p, "SBLK", 4) == 0 && out->rows >= 1 && out->rows <= ROWS_MAX &&
           out->first_seq <= UINT64_MAX - out->rows &&
           frame_sane(out->meta_len, out->meta_raw, flags & META_RAW) &&
           frame_sane(out->data_len, out->data_raw, flags & DATA_RAW) &&
           (out->aux_raw == 0 ? out->aux_len == 0
                              : frame_sane(out->aux_len, out->aux_raw, flags & AUX_RAW));
}

/* Built here? Only of a header that parsed. */
static enum rc header_supported(const uint8_t *p, const struct block_header *head, struct err *err)
{
    struct {
        const char *what;
        unsigned value;
        bool known;
    } fields[] = {
        {"format version", p[4], p[4] == BLOCK_FORMAT_VERSION},
        {"layout", p[5], p[5] <= LAYOUT_COLUMNAR},
        {"codec", p[6], p[6] <= CODEC_ZSTD},
        {"dictionary", head->dictionary, head->dictionary == 0 || p[6] == CODEC_ZSTD},
        {"auxiliary frame of length", head->aux_raw, p[5] == LAYOUT_COLUMNAR || head->aux_raw == 0},
        {"set of flags", block_flags(p), (block_flags(p) & ~(unsigned)FLAGS_KNOWN) == 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (!fields[i].known)
            return block_bad(err, RC_UNSUPPORTED, head->index_no, head->first_seq,
                             "%s %u is unknown to this release", fields[i].what, fields[i].value);
    return RC_OK;
}

enum rc block_header_read(struct slice record, struct block_header *out, struct err *err)
{
    struct block_header head;
    if (record.len < BLOCK_HEADER_BYTES || memcmp(record.ptr, "SBLK", 4) != 0)
        return err_set(err, RC_CORRUPT, 0, "no block: magic");
    if (!header_parse(record.ptr, &head))
        return block_bad(err, RC_CORRUPT, head.index_no, head.first_seq, "lengths in the header");
    TRY(header_supported(record.ptr, &head, err));
    *out = head;
    return RC_OK;
}

enum rc block_check(struct slice record, uint32_t index_no, uint64_t first_seq,
                    struct block_header *out, struct err *err)
{
    struct block_header head;
    if (record.len < BLOCK_HEADER_BYTES || memcmp(record.ptr, "SBLK", 4) != 0)
        return block_bad(err, RC_CORRUPT, index_no, first_seq, "magic");
    if (!header_parse(record.ptr, &head))
        return block_bad(err, RC_CORRUPT, index_no, first_seq, "lengths in the header");
    if (head.record_len > record.len)
        return block_bad(err, RC_CORRUPT, index_no, first_seq, "ends early: %zu bytes of %zu",
                         record.len, head.record_len);
    size_t frames = (size_t)head.meta_len + head.data_len + head.aux_len;
    if (block_checksum(record.ptr, frames) != get_u64(record.ptr + BLOCK_CHECKSUM_AT))
        return block_bad(err, RC_CORRUPT, index_no, first_seq, "checksum");
    if (head.index_no != index_no || head.first_seq != first_seq)
        return block_bad(err, RC_CORRUPT, index_no, first_seq,
                         "another block lies there: index %u, "
                         "seq %llu",
                         head.index_no, (unsigned long long)head.first_seq);
    TRY(header_supported(record.ptr, &head, err));
    *out = head;
    return RC_OK;
}
