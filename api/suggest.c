/* SPDX-License-Identifier: Apache-2.0 */
#include "api/suggest.h"

#define WORD_BYTES_MAX 40 /* longer ones have no neighbours */

/* Edits (one letter put in, taken out or changed) that make a of b. */
static size_t distance(struct slice a, struct slice b)
{
    size_t row[WORD_BYTES_MAX + 1];
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t change = corner + (a.ptr[i - 1] != b.ptr[j - 1]);
            size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = change < shorter + 1 ? change : shorter + 1;
        }
    }
    return row[b.len];
}

struct slice suggest_word(struct slice word, const char *const *lists, size_t count)
{
    struct slice best = SLICE_NONE;
    double most = 0.5;
    if (word.len > WORD_BYTES_MAX)
        return best;
    for (size_t i = 0; i < count; i++)
        for (const char *p = lists[i] + strspn(lists[i], " "); *p != '\0'; p += strspn(p, " ")) {
            struct slice known = slice_of(p, strcspn(p, " "));
            p += known.len;
            if (known.len > WORD_BYTES_MAX)
                continue;
            size_t longer = known.len > word.len ? known.len : word.len;
            double like = 1.0 - (double)distance(word, known) / (double)longer;
            if (like > most) {
                most = like;
                best = known;
            }
        }
    return best;
}

void suggest(struct slice word, const char *const *lists, size_t count, struct buf *out)
{
    struct slice best = suggest_word(word, lists, count);
    if (best.len != 0)
        buf_printf(out, " -> did you mean [%.*s]?", SLICE_FMT(best));
}
