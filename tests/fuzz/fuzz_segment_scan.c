/* SPDX-License-Identifier: Apache-2.0 */
/* Scanning segments: any file is scanned to its end; what is told of it, blocks and damage, lies in
 * it in rising order without overlap. Checksums of headers and blocks are put right first. */
#include "storage/bytes.h"
#include "storage/segment.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the header at p and the n bytes behind it, if they are there. */
static void fix_checksum(uint8_t *p, const uint8_t *end, size_t n)
{
    if (n > (size_t)(end - p) - BLOCK_HEADER_BYTES)
        return;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, p, 56);
    XXH3_64bits_update(&state, p + BLOCK_HEADER_BYTES, n);
    put_u64(p + 56, XXH3_64bits_digest(&state));
}

static void fix_checksums(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + BLOCK_HEADER_BYTES <= size; at += BLOCK_ALIGN) {
        uint8_t *p = bytes + at;
        if (memcmp(p, "SBLK", 4) == 0)
            fix_checksum(p, bytes + size,
                         (size_t)get_u32(p + 28) + get_u32(p + 36) + get_u32(p + 44));
        else if (memcmp(p, "SSEG", 4) == 0)
            fix_checksum(p, bytes + size, get_u32(p + 40));
    }
}

struct seen {
    uint64_t end; /* of what was told so far */
    uint64_t size;
};

static enum rc see_owner(const struct segment_owner *owner, uint32_t number, void *arg)
{
    (void)number;
    struct seen *seen = arg;
    assert(seen->end == 0 && owner->describe.len <= seen->size);
    return RC_OK;
}

static void see(struct seen *seen, uint64_t at, uint64_t len)
{
    assert(at >= seen->end && (len > 0 || seen->size == 0));
    assert(len <= seen->size && at <= seen->size - len);
    seen->end = at + len;
}

static enum rc see_block(const struct block_header *head, uint64_t at, struct slice record,
                         void *arg)
{
    assert(record.len == head->record_len && at % BLOCK_ALIGN == 0);
    see(arg, at, record.len);
    return RC_OK;
}

static void see_damage(uint64_t at, uint64_t len, const char *why, void *arg)
{
    assert(why[0] != 0);
    see(arg, at, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    if (fd < 0)
        fd = memfd_create("segment", MFD_CLOEXEC);
    uint8_t *bytes = malloc(size + 1);
    if (fd < 0 || bytes == NULL || size > (1u << 20)) {
        free(bytes);
        return 0;
    }
    if (size != 0)
        memcpy(bytes, data, size);
    fix_checksums(bytes, size);
    ssize_t written = pwrite(fd, bytes, size, 0);
    free(bytes);
    if (written != (ssize_t)size || ftruncate(fd, (off_t)size) != 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct seen seen = {0, size};
    const struct segment_scan_fn fn = {see_owner, see_block, see_damage, &seen, NULL};
    struct err err = {0};
    enum rc rc = segment_scan(path, &fn, &err);
    assert(rc == RC_OK || rc == RC_UNSUPPORTED);
    return 0;
}
