/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cat.h"

#include <stdlib.h>

#define COLUMNS_MAX 64 /* shown, or sorted by */

/* ---- filling */
void cat_begin(struct cat_table *table, const struct cat_column *column, size_t columns)
{
    *table = (struct cat_table){.column = column, .columns = columns};
}

void cat_done(struct cat_table *table)
{
    buf_done(&table->cells);
    buf_done(&table->pool);
}

static void add(struct cat_table *table, const struct cat_cell *cell)
{
    buf_put(&table->cells, cell, sizeof *cell);
}

void cat_text(struct cat_table *table, const char *text)
{
    struct cat_cell cell = {.at = table->pool.len, .len = strlen(text), .kind = CAT_TEXT};
    buf_put_str(&table->pool, text);
    add(table, &cell);
}

void cat_number(struct cat_table *table, uint64_t number)
{
    struct cat_cell cell = {.number = number, .kind = CAT_NUMBER};
    add(table, &cell);
}

void cat_bytes(struct cat_table *table, uint64_t bytes)
{
    struct cat_cell cell = {.number = bytes, .kind = CAT_BYTES};
    add(table, &cell);
}

void cat_empty(struct cat_table *table)
{
    struct cat_cell cell = {.kind = CAT_EMPTY};
    add(table, &cell);
}

void cat_size(uint64_t bytes, char unit, char out[32])
{
    static const char units[] = "bkmgtp";
    unsigned u = 0;
    if (unit != 0) {
        for (u = 0; units[u] != unit && units[u] != 0; u++)
            ;
        snprintf(out, 32, "%llu", (unsigned long long)(bytes >> (10 * u)));
        return;
    }
    while (u < 5 && bytes >> (10 * (u + 1)) != 0)
        u++;
    uint64_t whole = bytes >> (10 * u);
    uint64_t tenth = u == 0 ? 0 : (bytes >> (10 * (u - 1)) & 1023) * 10 / 1024;
    if (tenth != 0)
        snprintf(out, 32, "%llu.%llu%c%s", (unsigned long long)whole, (unsigned long long)tenth,
                 units[u], "b");
    else
        snprintf(out, 32, "%llu%c%s", (unsigned long long)whole, units[u], u == 0 ? "" : "b");
}

/* ---- what was asked for */
struct shown {
    size_t column;
    struct slice name; /* as asked for: the header, and the JSON key */
};

struct sort_key {
    size_t column;
    bool down;
};

struct printer {
    const struct cat_table *table;
    const struct cat_cell *cell;
    size_t rows;
    struct shown shown[COLUMNS_MAX];
    size_t shown_count;
    struct sort_key key[COLUMNS_MAX];
    size_t key_count;
    char unit; /* of sizes, or 0 */
    size_t *order;
};

/* Cut the next element off a comma-separated list. */
static bool next_word(struct slice *list, struct slice *word_out)
{
    if (list->len == 0)
        return false;
    const uint8_t *comma = memchr(list->ptr, ',', list->len);
    size_t len = comma == NULL ? list->len : (size_t)(comma - list->ptr);
    size_t skip = comma == NULL ? len : len + 1;
    *word_out = slice_of(list->ptr, len);
    *list = slice_of(list->ptr + skip, list->len - skip);
    return true;
}

static bool column_is(const struct cat_column *column, struct slice name)
{
    struct slice aliases = slice_str(column->aliases), one;
    if (slice_is(name, column->name))
        return true;
    while (next_word(&aliases, &one))
        if (slice_eq(one, name))
            return true;
    return false;
}

static size_t find_column(const struct cat_table *table, struct slice name)
{
    size_t i = 0;
    while (i < table->columns && !column_is(&table->column[i], name))
        i++;
    return i;
}

static void show(struct printer *p, size_t column, struct slice name)
{
    if (p->shown_count < COLUMNS_MAX)
        p->shown[p->shown_count++] = (struct shown){column, name};
}

static void read_h(struct printer *p, struct slice h, bool given)
{
    const struct cat_table *table = p->table;
    struct slice word;
    for (size_t i = 0; !given && i < table->columns; i++)
        if (!table->column[i].hidden)
            show(p, i, slice_str(table->column[i].name));
    while (next_word(&h, &word)) {
        size_t at = find_column(table, word);
        if (at < table->columns) {
            show(p, at, word);
            continue;
        }
        const uint8_t *star = memchr(word.ptr, '*', word.len);
        size_t head = star == NULL ? 0 : (size_t)(star - word.ptr);
        for (size_t i = 0; star != NULL && i < table->columns; i++)
            if (strncmp(table->column[i].name, (const char *)word.ptr, head) == 0)
                show(p, i, slice_str(table->column[i].name));
    }
}

static bool read_s(struct api_call *call, struct printer *p)
{
    struct slice s = call_param(call, "s"), word;
    while (next_word(&s, &word)) {
        bool down = word.len > 5 && memcmp(word.ptr + word.len - 5, ":desc", 5) == 0;
        bool up = word.len > 4 && memcmp(word.ptr + word.len - 4, ":asc", 4) == 0;
        struct slice name = slice_of(word.ptr, word.len - (down ? 5 : up ? 4 : 0));
        size_t at = find_column(p->table, name);
        if (at == p->table->columns) {
            reply_error(call, 400, "illegal_argument_exception",
                        "Unable to sort by unknown sort key `%.*s`", SLICE_FMT(name));
            return false;
        }
        if (p->key_count < COLUMNS_MAX)
            p->key[p->key_count++] = (struct sort_key){at, down};
    }
    return true;
}

static bool read_bytes(struct api_call *call, struct printer *p)
{
    struct slice bytes = call_param(call, "bytes");
    const char *unit = bytes.len == 0 ? "" : memchr("bkmgtp", bytes.ptr[0], 6);
    if (unit == NULL || bytes.len > 2 ||
        (bytes.len == 2 && (bytes.ptr[1] != 'b' || *unit == 'b'))) {
        reply_error(call, 400, "illegal_argument_exception",
                    "bytes must be one of [b, kb, mb, gb, tb, pb] but was [%.*s]",
                    SLICE_FMT(bytes));
        return false;
    }
    p->unit = *unit;
    return true;
}

/* ---- order */
static struct slice text_of(const struct printer *p, const struct cat_cell *cell, char tmp[32])
{
    switch (cell->kind) {
    case CAT_TEXT:
        return slice_of(p->table->pool.ptr + cell->at, cell->len);
    case CAT_NUMBER:
        snprintf(tmp, 32, "%llu", (unsigned long long)cell->number);
        return slice_str(tmp);
    case CAT_BYTES:
        cat_size(cell->number, p->unit, tmp);
        return slice_str(tmp);
    default:
        return SLICE_NONE;
    }
}

static const struct cat_cell *cell_at(const struct printer *p, size_t row, size_t column)
{
    return &p->cell[row * p->table->columns + column];
}

static int row_cmp(const void *a, const void *b, void *arg)
{
    const struct printer *p = arg;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    for (size_t k = 0; k < p->key_count; k++) {
        const struct cat_cell *x = cell_at(p, left, p->key[k].column);
        const struct cat_cell *y = cell_at(p, right, p->key[k].column);
        char tx[32], ty[32];
        int c = x->kind >= CAT_NUMBER && y->kind >= CAT_NUMBER
                    ? (x->number > y->number) - (x->number < y->number)
                    : slice_cmp(text_of(p, x, tx), text_of(p, y, ty));
        if (c != 0)
            return p->key[k].down ? -c : c;
    }
    return (left > right) - (left < right); /* as they came */
}

/* ---- printing */
/* Characters, so that names in UTF-8 line up. */
static size_t width_of(struct slice text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += (text.ptr[i] & 0xc0) != 0x80;
    return n;
}

static void put_padded(struct buf *out, struct slice text, size_t width, bool right, bool last)
{
    size_t pad = width - width_of(text);
    for (size_t i = 0; right && i < pad; i++)
        buf_put_byte(out, ' ');
    buf_put_slice(out, text);
    for (size_t i = 0; !right && !last && i < pad; i++)
        buf_put_byte(out, ' ');
    buf_put_byte(out, last ? '\n' : ' ');
}

static void put_text(const struct printer *p, bool header, struct buf *out)
{
    size_t width[COLUMNS_MAX] = {0};
    char tmp[32];
    for (size_t c = 0; c < p->shown_count; c++) {
        if (header)
            width[c] = width_of(p->shown[c].name);
        for (size_t r = 0; r < p->rows; r++) {
            size_t w = width_of(text_of(p, cell_at(p, r, p->shown[c].column), tmp));
            width[c] = w > width[c] ? w : width[c];
        }
    }
    for (size_t c = 0; header && c < p->shown_count; c++)
        put_padded(out, p->shown[c].name, width[c], p->table->column[p->shown[c].column].right,
                   c + 1 == p->shown_count);
    for (size_t r = 0; r < p->rows; r++) {
        for (size_t c = 0; c < p->shown_count; c++) {
            size_t column = p->shown[c].column;
            put_padded(out, text_of(p, cell_at(p, p->order[r], column), tmp), width[c],
                       p->table->column[column].right, c + 1 == p->shown_count);
        }
    }
}

static void put_json(const struct printer *p, struct buf *out)
{
    char tmp[32];
    buf_put_byte(out, '[');
    for (size_t r = 0; r < p->rows; r++) {
        buf_put_str(out, r == 0 ? "{" : ",{");
        for (size_t c = 0; c < p->shown_count; c++) {
            const struct cat_cell *cell = cell_at(p, p->order[r], p->shown[c].column);
            if (c != 0)
                buf_put_byte(out, ',');
            json_quote(p->shown[c].name, out);
            buf_put_byte(out, ':');
            if (cell->kind == CAT_EMPTY)
                BUF_PUT_LIT(out, "null");
            else
                json_quote(text_of(p, cell, tmp), out);
        }
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}

static void put_help(const struct cat_table *table, struct buf *out)
{
    size_t name = 0, aliases = 0;
    for (size_t i = 0; i < table->columns; i++) {
        size_t n = strlen(table->column[i].name), a = strlen(table->column[i].aliases);
        name = n > name ? n : name;
        aliases = a > aliases ? a : aliases;
    }
    for (size_t i = 0; i < table->columns; i++)
        buf_printf(out, "%-*s | %-*s | %s\n", (int)name, table->column[i].name, (int)aliases,
                   table->column[i].aliases[0] == 0 ? "" : table->column[i].aliases,
                   table->column[i].text);
}

static bool begins(struct slice text, const char *head)
{
    size_t n = strlen(head);
    return text.len >= n && memcmp(text.ptr, head, n) == 0;
}

static bool wants_json(const struct api_call *call)
{
    struct slice format = call_param(call, "format");
    if (format.len != 0)
        return slice_is(format, "json");
    return begins(call->accept, "application/json") ||
           begins(call->accept, "application/vnd.elasticsearch+json");
}

/* False: replied. */
static bool prepare(struct api_call *call, struct printer *p)
{
    const struct cat_table *table = p->table;
    if (!read_s(call, p) || !read_bytes(call, p))
        return false;
    read_h(p, call_param(call, "h"), call_has(call, "h"));
    p->cell = (const struct cat_cell *)(const void *)table->cells.ptr; /* malloc'ed: aligned */
    p->rows = table->cells.len / sizeof *p->cell / table->columns;
    p->order = call_alloc(call, (p->rows + 1) * sizeof *p->order);
    if (p->order == NULL || table->cells.failed || table->pool.failed) {
        reply_rc(call, RC_NOMEM, NULL);
        return false;
    }
    for (size_t i = 0; i < p->rows; i++)
        p->order[i] = i;
    if (p->key_count != 0)
        qsort_r(p->order, p->rows, sizeof *p->order, row_cmp, p);
    return true;
}

void cat_reply(struct api_call *call, struct cat_table *table)
{
    struct printer p = {.table = table};
    bool help, header;
    if (call_bool(call, "help", false, &help) && call_bool(call, "v", false, &header) &&
        prepare(call, &p)) {
        bool json = !help && wants_json(call);
        struct buf *out = reply_json(call, 200);
        if (!json)
            call->reply.content_type = "text/plain; charset=UTF-8";
        if (help)
            put_help(table, out);
        else if (json)
            put_json(&p, out);
        else
            put_text(&p, header, out);
        api_finish(call);
    }
    cat_done(table);
}
