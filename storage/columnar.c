/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the layout "columnar"; C1 to C3 in columnar.h. */
#include "storage/columnar.h"

#include "storage/column.h"
#include "storage/derive.h"
#include "storage/shape.h"

/* What one block learns, so that reading a row is bounded: documents beyond are raw values. */
#define SHAPES_MAX 1024u
#define SLOTS_MAX  16384u

/* ---- packing */

/* Where a column's next cell goes. */
struct tail {
    struct cell *next, *end;
};

struct packer {
    struct arena arena;
    size_t rows;
    struct shape_table *shapes;
    uint32_t **slot_column; /* by shape number: the column of each slot; NULL: not yet known */
    uint32_t *row_shape;
    /* columns, by number */
    struct derive_column *columns;
    struct tail *tails;
    uint64_t *path;
    uint8_t *kind;
    size_t column_count, column_cap;
    uint32_t *hashed; /* column number + 1 by path; 0 free; 2 * column_cap of them */
    struct column_scratch scratch;
    struct streams streams;
};

static void packer_done(struct packer *p)
{
    shape_table_release(p->shapes);
    free(p->slot_column);
    free(p->row_shape);
    free(p->columns);
    free(p->tails);
    free(p->path);
    free(p->kind);
    free(p->hashed);
    column_scratch_done(&p->scratch);
    streams_done(&p->streams);
    arena_done(&p->arena);
}

static bool packer_init(struct packer *p, size_t rows)
{
    *p = (struct packer){
        .rows = rows,
        .shapes = shape_table_create(),
        .slot_column = calloc(SHAPES_MAX + 1, sizeof *p->slot_column),
        .row_shape = malloc(rows * sizeof *p->row_shape),
    };
    return p->shapes != NULL && p->slot_column != NULL && p->row_shape != NULL &&
           column_scratch_init(&p->scratch, rows);
}

static bool resize(void *array, size_t count, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *p = realloc(old, count * size);
    if (p != NULL)
        memcpy(array, &p, sizeof p);
    /* cppcheck-suppress memleak ; it is in *array now */
    return p != NULL;
}

/* Where a path of that kind is among the hashed, or the free place for it. */
static size_t hashed_at(const struct packer *p, uint64_t path, uint8_t kind)
{
    size_t mask = 2 * p->column_cap - 1, at = (size_t)(path >> 20 ^ path) & mask;
    for (; p->hashed[at] != 0; at = (at + 1) & mask)
        if (p->path[p->hashed[at] - 1] == path && p->kind[p->hashed[at] - 1] == kind)
            break;
    return at;
}

static bool more_columns(struct packer *p)
{
    size_t cap = p->column_cap == 0 ? 64 : 2 * p->column_cap;
    if (!resize(&p->columns, cap, sizeof *p->columns) ||
        !resize(&p->tails, cap, sizeof *p->tails) || !resize(&p->path, cap, sizeof *p->path) ||
        !resize(&p->kind, cap, sizeof *p->kind) || !resize(&p->hashed, 2 * cap, sizeof *p->hashed))
        return false;
    p->column_cap = cap;
    memset(p->hashed, 0, 2 * cap * sizeof *p->hashed);
    for (size_t i = 0; i < p->column_count; i++)
        p->hashed[hashed_at(p, p->path[i], p->kind[i])] = (uint32_t)i + 1;
    return true;
}

/* The column of a path and kind, a new one if need be; UINT32_MAX: memory. */
static uint32_t column_of(struct packer *p, const struct shape_slot *slot)
{
    if (p->column_count == p->column_cap && !more_columns(p))
        return UINT32_MAX;
    size_t at = hashed_at(p, slot->path, (uint8_t)slot->kind);
    if (p->hashed[at] != 0)
        return p->hashed[at] - 1;
    uint32_t number = (uint32_t)p->column_count++;
    p->columns[number] = (struct derive_column){.text = slot->kind == SLOT_STRING};
    p->tails[number] = (struct tail){NULL, NULL};
    p->path[number] = slot->path;
    p->kind[number] = (uint8_t)slot->kind;
    p->hashed[at] = number + 1;
    return number;
}

static bool know_columns(struct packer *p, uint32_t number)
{
    const struct shape *shape = shape_at(p->shapes, number);
    uint32_t *list = arena_get(&p->arena, shape->slots + 1, sizeof *list);
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < shape->slots; i++)
        if ((list[i] = column_of(p, &shape->slot[i])) == UINT32_MAX)
            return false;
    p->slot_column[number] = list;
    return true;
}

/* Room for one more cell, of that row: most columns have a value in every row, some in few. */
static bool more_cells(struct packer *p, uint32_t number, size_t row)
{
    struct derive_column *column = &p->columns[number];
    struct tail *tail = &p->tails[number];
    size_t n = tail->next == NULL ? 0 : (size_t)(tail->next - column->cells);
    size_t most = n + p->rows - row;
    size_t cap = n == 0 ? 32 : n > row / 2 ? most : n * 4;
    cap = cap > most ? most : cap;
    struct cell *cells = arena_get(&p->arena, cap, sizeof *cells);
    if (cells == NULL)
        return false;
    if (n != 0)
        memcpy(cells, column->cells, n * sizeof *cells);
    column->cells = cells;
    *tail = (struct tail){cells + n, cells + cap};
    return true;
}

/* The shape and the values of a document. */
static bool take_doc(struct packer *p, struct slice doc, const struct fit *fit,
                     uint32_t *number_out, struct slice *values)
{
    if (fit != NULL && fit->shape != NULL) {
        if (!shape_adopt(p->shapes, fit->shape, SHAPES_MAX, SLOTS_MAX, number_out))
            return false;
        if (*number_out != SHAPE_NONE) {
            fit_values(fit, doc, values);
            return true;
        }
    }
    return shape_of(p->shapes, doc, SHAPES_MAX, SLOTS_MAX, values, number_out);
}

static bool take_rows(struct packer *p, const struct slice *docs, const struct fit *fits)
{
    struct slice values[SHAPE_SLOTS_MAX];
    for (size_t row = 0; row < p->rows; row++) {
        uint32_t number;
        if (!take_doc(p, docs[row], fits == NULL ? NULL : &fits[row], &number, values) ||
            (p->slot_column[number] == NULL && !know_columns(p, number)))
            return false;
        const uint32_t *list = p->slot_column[number];
        struct tail *tails = p->tails;
        uint32_t slots = shape_at(p->shapes, number)->slots;
        p->row_shape[row] = number;
        for (uint32_t i = 0; i < slots; i++) {
            struct tail *tail = &tails[list[i]];
            if (tail->next == tail->end && !more_cells(p, list[i], row))
                return false;
            *tail->next++ = (struct cell){values[i].ptr, (uint32_t)values[i].len, (uint32_t)row};
        }
    }
    for (size_t i = 0; i < p->column_count; i++)
        p->columns[i].n = (uint32_t)(p->tails[i].next - p->columns[i].cells);
    return true;
}

static uint64_t step_code(uint32_t column, uint32_t expected)
{
    return column >= expected ? (uint64_t)(column - expected) * 2
                              : (uint64_t)(expected - column) * 2 - 1;
}

static void put_shapes(struct packer *p)
{
    struct buf *directory = &p->streams.directory;
    size_t count = shape_count(p->shapes);
    buf_put_varint(directory, count);
    for (size_t i = 0; i < count; i++) {
        const struct shape *shape = shape_at(p->shapes, i);
        buf_put_varint(directory, shape->skeleton.len);
        buf_put_varint(directory, shape->slots);
        buf_put_slice(&p->streams.text, shape->skeleton);
    }
    buf_put_varint(directory, p->column_count);
    for (size_t i = 0; i < count; i++) {
        uint32_t expected = 0;
        for (uint32_t k = 0; k < shape_at(p->shapes, i)->slots; k++) {
            uint32_t column = p->slot_column[i][k];
            buf_put_varint(directory, step_code(column, expected));
            expected = column + 1;
        }
    }
    planes_put_u32(&p->streams.planes, p->row_shape, p->rows, bytes_for(count - 1));
}

/* Derived columns first, the longest before those it may be made of. */
static bool put_derived(struct packer *p)
{
    struct buf numbers = {0};
    size_t count = 0, tried = 0;
    struct streams *out = &p->streams;
    uint64_t *order = arena_get(&p->arena, p->column_count, sizeof *order);
    if (order == NULL)
        return false;
    for (size_t i = 0; i < p->column_count; i++) {
        const struct derive_column *c = &p->columns[i];
        uint64_t len = c->text ? c->cells[c->n / 2].len : 0, at = tried;
        if (len == 0)
            continue;
        for (tried++; at > 0 && order[at - 1] >> 32 < len; at--)
            order[at] = order[at - 1];
        order[at] = len << 32 | i;
    }
    struct streams derived = {0};
    for (size_t i = 0; i < tried; i++) {
        size_t number = order[i] & UINT32_MAX;
        if (!derive_put(&derived, p->columns, p->column_count, number, &p->scratch))
            continue;
        buf_put_varint(&numbers, number);
        count++;
    }
    buf_put_varint(&out->directory, count);
    buf_put_slice(&out->directory, buf_slice(&numbers));
    buf_put_slice(&out->directory, buf_slice(&derived.directory));
    buf_put_slice(&out->text, buf_slice(&derived.text));
    buf_put_slice(&out->planes, buf_slice(&derived.planes));
    bool ok = !numbers.failed && !derived.directory.failed && !derived.text.failed &&
              !derived.planes.failed;
    streams_done(&derived);
    buf_done(&numbers);
    return ok;
}

static bool put_all(struct packer *p, struct buf *data, struct buf *aux)
{
    struct streams *s = &p->streams;
    put_shapes(p);
    if (!put_derived(p))
        return false;
    for (size_t i = 0; i < p->column_count; i++)
        if (!p->columns[i].derived)
            column_put(s, p->columns[i].cells, p->columns[i].n,
                       p->kind[i] == SLOT_RAW ? COLUMN_ANY_BYTES : 0, &p->scratch);
    buf_put_varint(data, s->directory.len);
    buf_put_slice(data, buf_slice(&s->directory));
    buf_put_slice(data, buf_slice(&s->text));
    buf_put_slice(aux, buf_slice(&s->planes));
    return !s->directory.failed && !s->text.failed && !s->planes.failed &&
           !p->scratch.bytes.failed && !data->failed && !aux->failed;
}

enum rc columnar_pack(const struct slice *docs, const struct fit *fits, size_t count,
                      struct buf *data, struct buf *aux)
{
    struct packer p;
    assert(count >= 1);
    bool ok = packer_init(&p, count) && take_rows(&p, docs, fits) && put_all(&p, data, aux);
    packer_done(&p);
    return ok ? RC_OK : RC_NOMEM;
}

/* ---- opening */

struct shape_view {
    struct slice skeleton;
    uint32_t slots;
    const uint32_t *column; /* of each slot */
};

struct column_view {
    uint32_t n; /* values */
    bool is_derived;
    struct column column;
    struct derived *derived;
};

struct columnar {
    struct arena arena; /* holds this, too */
    size_t rows;
    uint64_t docs_bytes;
    unsigned shape_width;
    const uint8_t *row_shapes;
    uint32_t shape_count, column_count;
    struct shape_view *shapes;
    struct column_view *columns;
};

static uint32_t row_shape(const struct columnar *c, size_t row)
{
    return (uint32_t)plane_get(c->row_shapes, c->shape_width, c->rows, row);
}

/* How many of the first n rows are of each shape; false: one is of none. */
static bool count_shapes(const struct columnar *c, size_t n, uint32_t *counts)
{
    /* Rows of one shape follow each other: in one table each addition would wait for the last. */
    uint32_t part[4][256];
    size_t i = 0, known = 0;
    memset(counts, 0, c->shape_count * sizeof *counts);
    if (c->shape_width == 0) {
        counts[0] = (uint32_t)n;
        return true;
    }
    if (c->shape_width == 1) {
        memset(part, 0, sizeof part);
        for (; n - i >= 4; i += 4)
            for (unsigned k = 0; k < 4; k++)
                part[k][c->row_shapes[i + k]]++;
        for (uint32_t s = 0; s < c->shape_count; s++) {
            counts[s] = part[0][s] + part[1][s] + part[2][s] + part[3][s];
            known += counts[s];
        }
        if (known != i)
            return false;
    }
    for (; i < n; i++) {
        uint32_t shape = row_shape(c, i);
        if (shape >= c->shape_count)
            return false;
        counts[shape]++;
    }
    return true;
}

static enum rc open_shapes(struct columnar *c, struct stream_readers *in)
{
    struct reader *r = &in->directory;
    uint64_t count = take_varint(r), slots = 0;
    if (count == 0 || count > (size_t)(r->end - r->p))
        return RC_CORRUPT;
    c->shape_count = (uint32_t)count;
    c->shapes = arena_get(&c->arena, (size_t)count, sizeof *c->shapes);
    if (c->shapes == NULL)
        return RC_NOMEM;
    for (uint64_t i = 0; i < count; i++) {
        c->shapes[i].skeleton = take_bytes(&in->text, take_varint(r));
        uint64_t n = take_varint(r);
        if (n > (size_t)(r->end - r->p))
            return RC_CORRUPT;
        c->shapes[i].slots = (uint32_t)n;
        slots += n;
    }
    uint64_t columns = take_varint(r);
    if (r->bad || in->text.bad || columns > slots || slots > (size_t)(r->end - r->p))
        return RC_CORRUPT;
    c->column_count = (uint32_t)columns;
    uint32_t *list = arena_get(&c->arena, (size_t)slots + 1, sizeof *list);
    c->columns = arena_get(&c->arena, (size_t)columns + 1, sizeof *c->columns);
    if (list == NULL || c->columns == NULL)
        return RC_NOMEM;
    memset(c->columns, 0, (size_t)(columns + 1) * sizeof *c->columns);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t expected = 0;
        c->shapes[i].column = list;
        for (uint32_t k = 0; k < c->shapes[i].slots; k++) {
            uint64_t code = take_varint(r);
            expected += code & 1 ? 0 - (code / 2 + 1) : code / 2;
            if (expected >= columns)
                return RC_CORRUPT;
            *list++ = (uint32_t)expected++;
        }
    }
    return r->bad ? RC_CORRUPT : RC_OK;
}

/* How many values each column has: one for every row of the shapes it is in. */
static enum rc count_values(struct columnar *c, struct stream_readers *in)
{
    c->shape_width = bytes_for(c->shape_count - 1);
    c->row_shapes = take_planes(in, (uint64_t)c->rows * c->shape_width);
    uint32_t *rows = arena_get(&c->arena, c->shape_count, sizeof *rows);
    if (rows == NULL)
        return RC_NOMEM;
    if (c->row_shapes == NULL || !count_shapes(c, c->rows, rows))
        return RC_CORRUPT;
    for (uint32_t s = 0; s < c->shape_count; s++)
        for (uint32_t k = 0; k < c->shapes[s].slots; k++) {
            struct column_view *column = &c->columns[c->shapes[s].column[k]];
            /* A shape that names a column twice would count beyond the rows. */
            if (rows[s] > c->rows - column->n)
                return RC_CORRUPT;
            column->n += rows[s];
        }
    return RC_OK;
}

static enum rc open_columns(struct columnar *c, struct stream_readers *in, const char **what_out)
{
    struct reader *r = &in->directory;
    uint64_t derived = take_varint(r);
    if (derived > c->column_count)
        return RC_CORRUPT;
    uint32_t *order = arena_get(&c->arena, (size_t)derived + 1, sizeof *order);
    if (order == NULL)
        return RC_NOMEM;
    for (uint64_t i = 0; i < derived; i++) {
        uint64_t number = take_varint(r);
        if (number >= c->column_count || c->columns[number].is_derived)
            return RC_CORRUPT;
        c->columns[number].is_derived = true;
        order[i] = (uint32_t)number;
    }
    for (uint64_t i = 0; i < derived; i++) {
        struct column_view *column = &c->columns[order[i]];
        TRY(derive_open(&column->derived, column->n, in, &c->arena, what_out));
    }
    for (uint32_t i = 0; i < c->column_count; i++) {
        struct column_view *column = &c->columns[i];
        if (column->is_derived)
            continue;
        struct slice form = take_bytes(r, 1);
        if (form.len == 0)
            return RC_CORRUPT;
        TRY(column_open(&column->column, column->n, *form.ptr, in, &c->arena, what_out));
    }
    return r->p == r->end && in->text.p == in->text.end && in->planes == in->planes_end
               ? RC_OK
               : RC_CORRUPT;
}

enum rc columnar_open(struct slice data, uint8_t *aux, size_t aux_len, size_t rows,
                      uint64_t docs_bytes, bool scan, struct columnar **out, const char **what_out)
{
    struct reader r = reader_of(data);
    struct slice directory = take_bytes(&r, take_varint(&r));
    if (r.bad || rows == 0)
        return RC_CORRUPT;
    struct arena arena = {0};
    struct columnar *c = arena_get(&arena, 1, sizeof *c);
    if (c == NULL)
        return RC_NOMEM;
    if (aux_len == 0)
        aux = (uint8_t *)c; /* no planes at an address that is not NULL */
    struct stream_readers in = {reader_of(directory), r, aux, aux + aux_len, scan};
    *c = (struct columnar){.arena = arena, .rows = rows, .docs_bytes = docs_bytes};
    enum rc rc = open_shapes(c, &in);
    if (rc == RC_OK)
        rc = count_values(c, &in);
    if (rc == RC_OK)
        rc = open_columns(c, &in, what_out);
    if (rc == RC_OK)
        *out = c;
    else
        columnar_close(c);
    return rc;
}

void columnar_close(struct columnar *columnar)
{
    if (columnar == NULL)
        return;
    struct arena arena = columnar->arena;
    arena_done(&arena);
}

size_t columnar_memory(const struct columnar *columnar)
{
    return columnar->arena.memory;
}

/* ---- reading a document */

/* Where a row's values are in their columns: the number of values before it. */
struct place {
    const struct columnar *columnar;
    const uint32_t *rank; /* by column; NULL: `row` in all of them */
    uint32_t row;
};

#define PLACES_SMALL 1024u

static void find_ranks(const struct columnar *c, size_t row, uint32_t *rows, uint32_t *rank)
{
    memset(rank, 0, c->column_count * sizeof *rank);
    (void)count_shapes(c, row, rows); /* opening has found them all known */
    for (uint32_t s = 0; s < c->shape_count; s++)
        if (rows[s] != 0)
            for (uint32_t k = 0; k < c->shapes[s].slots; k++)
                rank[c->shapes[s].column[k]] += rows[s];
}

static uint32_t rank_of(const struct place *place, uint32_t column)
{
    return place->rank == NULL ? place->row : place->rank[column];
}

static bool refer(void *arg, uint64_t number, struct buf *out)
{
    const struct place *place = arg;
    if (number >= place->columnar->column_count)
        return false;
    const struct column_view *column = &place->columnar->columns[number];
    return !column->is_derived &&
           column_get(&column->column, rank_of(place, (uint32_t)number), out);
}

static bool put_value(struct place *place, uint32_t number, struct buf *out)
{
    const struct column_view *column = &place->columnar->columns[number];
    uint32_t rank = rank_of(place, number);
    return column->is_derived ? derive_get(column->derived, rank, refer, place, out)
                              : column_get(&column->column, rank, out);
}

static bool assemble(struct place *place, const struct shape_view *shape, struct buf *out)
{
    const uint8_t *p = shape->skeleton.ptr, *end = p + shape->skeleton.len, *from = p;
    size_t start = out->len;
    uint32_t slot = 0;
    for (; p < end; p++) {
        if (!shape_is_slot(*p))
            continue;
        buf_put(out, from, (size_t)(p - from));
        if (slot == shape->slots || !put_value(place, shape->column[slot++], out) ||
            out->len - start > place->columnar->docs_bytes)
            return false;
        from = p + 1;
    }
    buf_put(out, from, (size_t)(p - from));
    return slot == shape->slots && out->len - start <= place->columnar->docs_bytes;
}

enum rc columnar_doc(const struct columnar *columnar, size_t i, struct buf *out)
{
    const struct columnar *c = columnar;
    uint32_t small[PLACES_SMALL], *work = small;
    size_t need = (size_t)c->shape_count + c->column_count;
    struct place place = {.columnar = c, .row = (uint32_t)i};
    assert(i < c->rows);
    if (c->shape_count > 1) {
        if (need > PLACES_SMALL && (work = malloc(need * sizeof *work)) == NULL)
            return RC_NOMEM;
        place.rank = work + c->shape_count;
        find_ranks(c, i, work, work + c->shape_count);
    }
    bool ok = assemble(&place, &c->shapes[row_shape(c, i)], out);
    if (work != small)
        free(work);
    return out->failed ? RC_NOMEM : ok ? RC_OK : RC_CORRUPT;
}
