/* SPDX-License-Identifier: Apache-2.0 */
/* Checking documents by the shapes met lately; G1 to G3 in shapes.h. */
#include "storage/shapes.h"

#include <pthread.h>
#include <stdlib.h>

/* A request whose documents keep being of new shapes stops learning: when so many have missed, and
 * they are more than one in MISSES_SHARE. */
#define MISSES_MAX   64u
#define MISSES_SHARE 8u

struct shapes {
    pthread_mutex_t lock;
    struct shape_table *table; /* this generation's */
};

struct shapes *shapes_create(void)
{
    struct shapes *shapes = calloc(1, sizeof *shapes);
    struct shape_table *table = shape_table_create();
    if (shapes == NULL || table == NULL) {
        free(shapes);
        shape_table_release(table);
        return NULL;
    }
    pthread_mutex_init(&shapes->lock, NULL);
    shapes->table = table;
    return shapes;
}

void shapes_destroy(struct shapes *shapes)
{
    if (shapes == NULL)
        return;
    pthread_mutex_destroy(&shapes->lock);
    shape_table_release(shapes->table);
    free(shapes);
}

void shape_reader_init(struct shape_reader *reader, struct shapes *shapes)
{
    *reader = (struct shape_reader){.shapes = shapes};
    if (shapes == NULL)
        return;
    pthread_mutex_lock(&shapes->lock);
    reader->table = shape_table_retain(shapes->table);
    pthread_mutex_unlock(&shapes->lock);
}

void shape_reader_done(struct shape_reader *reader)
{
    shape_table_release(reader->table);
    arena_done(&reader->lens);
    *reader = (struct shape_reader){.shapes = NULL};
}

/* Its shape in this generation, learned if need be; NULL: none. */
static const struct shape *learn(struct shape_reader *r, struct slice doc, struct slice *values)
{
    struct shapes *shapes = r->shapes;
    const struct shape *shape = NULL;
    pthread_mutex_lock(&shapes->lock);
    if (shapes->table == r->table && !shape_learn(r->table, doc, values, &shape))
        shape = NULL; /* no memory: the document is valid all the same */
    if (shapes->table == r->table && (shape_count(r->table) >= SHAPES_SHARED_MAX ||
                                      shape_memory(r->table) >= SHAPES_SHARED_BYTES)) {
        struct shape_table *next = shape_table_create();
        if (next != NULL) {
            shape_table_release(shapes->table); /* the reader has its own reference */
            shapes->table = next;
        }
    }
    pthread_mutex_unlock(&shapes->lock);
    return shape;
}

/* Keep the lengths of the values. Those of 64 KB and more are left to the packer. */
static void keep_fit(struct shape_reader *r, const struct shape *shape, const struct slice *values,
                     struct fit *out)
{
    uint16_t *lens = arena_get(&r->lens, shape->slots + 1, sizeof *lens);
    size_t all = 0;
    for (uint32_t i = 0; i < shape->slots && lens != NULL; i++) {
        all |= values[i].len;
        lens[i] = (uint16_t)values[i].len;
    }
    if (lens != NULL && all <= UINT16_MAX)
        *out = (struct fit){shape, lens, r->table};
}

/* A line of no known shape, or one that is only checked. */
static bool check_line(struct shape_reader *r, struct slice doc, enum json_type *type_out,
                       struct json_fault *fault, struct fit *fit_out)
{
    struct slice values[SHAPE_SLOTS_MAX];
    if (!json_check(doc, type_out, fault))
        return false;
    r->missed++;
    if (r->table == NULL || (r->missed > MISSES_MAX && r->missed > r->taken / MISSES_SHARE))
        return true;
    const struct shape *shape = learn(r, doc, values);
    if (shape != NULL)
        keep_fit(r, shape, values, fit_out);
    return true;
}

/* The first line of a text, without its end. */
static struct slice first_line(struct slice text)
{
    const uint8_t *newline = memchr(text.ptr, '\n', text.len);
    assert(newline != NULL);
    size_t len = (size_t)(newline - text.ptr);
    return slice_of(text.ptr, len != 0 && newline[-1] == '\r' ? len - 1 : len);
}

bool shape_reader_line(struct shape_reader *reader, struct slice *text, struct slice *doc_out,
                       enum json_type *type_out, struct json_fault *fault, struct fit *fit_out)
{
    struct shape_reader *r = reader;
    struct slice values[SHAPE_SLOTS_MAX];
    *fit_out = (struct fit){NULL, NULL, NULL};
    r->taken++;
    const struct shape *shape =
        r->table == NULL ? NULL : shape_find_line(r->table, *text, values, doc_out);
    if (shape == NULL)
        *doc_out = first_line(*text);
    const uint8_t *end = doc_out->ptr + doc_out->len;
    const uint8_t *next = *end == '\r' ? end + 2 : end + 1;
    *text = slice_of(next, text->len - (size_t)(next - text->ptr));
    if (shape == NULL)
        return check_line(r, *doc_out, type_out, fault, fit_out);
    *type_out = json_type_of(*doc_out);
    keep_fit(r, shape, values, fit_out);
    return true;
}
