/* See cases.h. */
#include "tests/runtime/cases.h"
#include "runtime/element.h"
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- layouts by definition */

/* The digits of one role, in the order in which they divide. */
static int role_digits(const Side *side, int role, Digit *digits) {
    int n = 0;
    for (int i = 0; i < side->natoms; i++) {
        int a = side->reversed ? side->natoms - 1 - i : i;
        if (side->role[a] == role) digits[n++] = side->atom[a];
    }
    return n;
}

void side_layout(const Case *c, const Side *side, Layout *layout) {
    layout_init(layout, c->shape.ndim);
    for (int d = 0; d < c->shape.ndim; d++) {
        Digit digits[MAX_ATOMS];
        int n = role_digits(side, d, digits);
        for (int i = 0; i < n; i++)
            layout_append(layout, d, digits[i]);
    }
    for (int i = 0; i < side->natoms; i++) /* descending strides */
        if (side->role[i] == ROLE_PARTIAL) layout_append(layout, c->shape.ndim + (int)c->reduction, side->atom[i]);
}

static int digit_value(Digit d, int rank) {
    return rank / d.stride % d.size;
}

int64_t side_box(const Case *c, const Side *side, int rank, int64_t *begin, int64_t *end) {
    int64_t cells = 1;
    for (int d = 0; d < c->shape.ndim; d++) {
        Digit digits[MAX_ATOMS];
        int n = role_digits(side, d, digits);
        begin[d] = 0;
        end[d] = c->shape.dim[d];
        for (int i = 0; i < n; i++) { /* balanced parts, the first ones one larger: deal the cells out one by one */
            int64_t size = end[d] - begin[d], at = begin[d];
            for (int part = 0; part < digits[i].size; part++) {
                int64_t mine = size / digits[i].size + (part < size % digits[i].size ? 1 : 0);
                if (part == digit_value(digits[i], rank)) {
                    begin[d] = at;
                    end[d] = at + mine;
                    break;
                }
                at += mine;
            }
        }
        cells *= end[d] - begin[d];
    }
    return cells;
}

/* The partial digits of rank, as one number. */
static int partial_number(const Side *side, int rank) {
    int number = 0;
    for (int i = 0; i < side->natoms; i++)
        if (side->role[i] == ROLE_PARTIAL) number = number * side->atom[i].size + digit_value(side->atom[i], rank);
    return number;
}

static bool still_partial(const Case *c, Digit d) {
    for (int i = 0; i < c->to.natoms; i++)
        if (c->to.role[i] == ROLE_PARTIAL && c->to.atom[i].size == d.size && c->to.atom[i].stride == d.stride) return true;
    return false;
}

static double term_value(const Case *c, int64_t cell, int partial, int use) {
    (void)c;
    return (double)((cell * 31 + partial * 17 + use * 7 + cell * partial % 5) % 997 - 400);
}

double case_source(const Case *c, int rank, int64_t cell, int use) {
    return term_value(c, cell, partial_number(&c->from, rank), use);
}

double case_target(const Case *c, int rank, int64_t cell, int use) {
    /* All ranks that differ from this one only in the digits whose terms are added up. */
    double result = 0;
    bool first = true;
    for (int other = 0; other < c->nranks; other++) {
        int expected = rank;
        for (int i = 0; i < c->from.natoms; i++) {
            Digit d = c->from.atom[i];
            if (c->from.role[i] == ROLE_PARTIAL && !still_partial(c, d))
                expected += (digit_value(d, other) - digit_value(d, rank)) * d.stride;
        }
        if (other != expected) continue;
        double value = case_source(c, other, cell, use);
        if (first)
            result = value;
        else if (c->reduction == REDUCE_SUM)
            result += value;
        else if (c->reduction == REDUCE_MAX ? value > result : value < result)
            result = value;
        first = false;
    }
    return result;
}

/* Every rank's box, for many questions. */
typedef struct Boxes {
    int64_t begin[MAX_NDIM], end[MAX_NDIM];
} Boxes;

static Boxes *side_boxes(const Case *c, const Side *side) {
    Boxes *boxes = calloc((size_t)c->nranks, sizeof *boxes);
    for (int r = 0; r < c->nranks; r++)
        side_box(c, side, r, boxes[r].begin, boxes[r].end);
    return boxes;
}

static bool holds(const Boxes *box, const int64_t *index, int ndim) {
    for (int d = 0; d < ndim; d++)
        if (index[d] < box->begin[d] || index[d] >= box->end[d]) return false;
    return true;
}

int64_t case_bound(const Case *c) {
    int64_t bound = 0, cells = shape_elements(&c->shape);
    int terms = 1, ndim = c->shape.ndim;
    for (int i = 0; i < c->from.natoms; i++)
        if (c->from.role[i] == ROLE_PARTIAL && !still_partial(c, c->from.atom[i])) terms *= c->from.atom[i].size;
    Boxes *from = side_boxes(c, &c->from), *to = side_boxes(c, &c->to);
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t index[MAX_NDIM], rest = cell;
        for (int d = ndim - 1; d >= 0; d--) {
            index[d] = rest % c->shape.dim[d];
            rest /= c->shape.dim[d];
        }
        for (int owed = 0; owed < c->nranks; owed++) { /* what stays partial in the target is a value of its own */
            int needers = 0, without = 0;
            for (int r = 0; r < c->nranks; r++) {
                if (partial_number(&c->to, r) != owed || !holds(&to[r], index, ndim)) continue;
                needers++;
                without += !holds(&from[r], index, ndim);
            }
            if (needers == 0) continue;
            if (terms == 1)
                bound += without;
            else
                bound += without < needers ? terms - 1 + needers - 1 : terms + needers - 1;
        }
    }
    free(from);
    free(to);
    return bound;
}

void case_print(Text *text, const Case *c) {
    Layout from, to;
    side_layout(c, &c->from, &from);
    side_layout(c, &c->to, &to);
    text_printf(text, "%s %d ranks %s", dtype_name[c->dtype], c->nranks, c->name ? c->name : "");
    shape_print(text, &c->shape);
    text_printf(text, " ");
    layout_print(text, &from, false);
    text_printf(text, " -> ");
    layout_print(text, &to, false);
}

/* ---------------------------------------------------------------- all pairs */

static int mesh_atoms(const int32_t *mesh, Digit *atoms) {
    int n = 0;
    int32_t stride = 1;
    while (n < MAX_ATOMS && mesh[n])
        n++;
    for (int i = n - 1; i >= 0; i--) {
        atoms[i] = (Digit){.size = mesh[i], .stride = stride};
        stride *= mesh[i];
    }
    return n;
}

/* The roles that number `code` spells; false: past the last. */
static bool side_decode(Side *side, int ndim, int code) {
    for (int i = 0; i < side->natoms; i++) {
        int role = code % (ndim + 2);
        side->role[i] = role == 0 ? ROLE_WHOLE : role <= ndim ? role - 1 : ROLE_PARTIAL;
        code /= ndim + 2;
    }
    side->reversed = code % 2 != 0;
    return code < 2;
}

int64_t cases_all(int nranks, const int32_t *from_mesh, const int32_t *to_mesh, const Shape *shape, CaseFn *fn, void *context) {
    Case c = {.nranks = nranks, .shape = *shape, .dtype = I32, .kind = COMM_EXCHANGE, .name = "any "};
    c.from.natoms = mesh_atoms(from_mesh, c.from.atom);
    c.to.natoms = mesh_atoms(to_mesh, c.to.atom);
    int64_t n = 0;
    for (int f = 0; side_decode(&c.from, shape->ndim, f); f++)
        for (int t = 0; side_decode(&c.to, shape->ndim, t); t++) {
            bool legal = true;
            for (int i = 0; i < c.to.natoms && legal; i++) {
                if (c.to.role[i] != ROLE_PARTIAL) continue;
                bool found = false;
                for (int k = 0; k < c.from.natoms; k++)
                    found = found || (c.from.role[k] == ROLE_PARTIAL && c.from.atom[k].size == c.to.atom[i].size &&
                                      c.from.atom[k].stride == c.to.atom[i].stride);
                legal = found;
            }
            if (!legal) continue;
            fn(context, &c);
            n++;
        }
    return n;
}

/* ---------------------------------------------------------------- running */

/* Fills, or checks, the cells of a rank's box. */
static bool box_visit(const Case *c, const Side *side, int rank, int use, void *data, bool check, Error *error) {
    int64_t begin[MAX_NDIM], end[MAX_NDIM], index[MAX_NDIM], n = side_box(c, side, rank, begin, end);
    for (int64_t at = 0; at < n; at++) {
        int64_t rest = at, cell = 0;
        for (int d = c->shape.ndim - 1; d >= 0; d--) {
            index[d] = begin[d] + rest % (end[d] - begin[d]);
            rest /= end[d] - begin[d];
        }
        for (int d = 0; d < c->shape.ndim; d++)
            cell = cell * c->shape.dim[d] + index[d];
        if (!check) {
            element_put(data, c->dtype, at, case_source(c, rank, cell, use));
            continue;
        }
        double expected = case_target(c, rank, cell, use), found = element_at(data, c->dtype, at);
        if (found == expected) continue;
        Text text = {0};
        case_print(&text, c);
        error_set(error, EXIT_MISMATCH, "%s: rank %d, use %d, cell %lld is %g, not %g", text.at, rank, use, (long long)cell, found,
                  expected);
        text_finish(&text);
        return false;
    }
    return true;
}

static void *memory_get(Comm *comm, bool memory, int64_t bytes, Error *error) {
    if (memory) return comm->table->alloc(comm, bytes, error);
    void *data = malloc((size_t)(bytes ? bytes : 1));
    if (!data) error_set(error, EXIT_ENVIRONMENT, "no memory");
    return data;
}

static void memory_put(Comm *comm, bool memory, void *data) {
    if (memory && data)
        comm->table->free(comm, data);
    else
        free(data);
}

/* Sums over all ranks of what has been counted so far. */
static bool counters_total(Comm *comm, uint64_t *sent, uint64_t *received, Error *error) {
    if (!comm->table->barrier(comm, error)) return false;
    uint64_t mine[2] = {0, 0}, *words = calloc((size_t)comm->nprocesses, sizeof *words);
    for (int i = 0; i < comm->ndriven; i++) {
        mine[0] += (uint64_t)comm->counters[i].sent_bytes;
        mine[1] += (uint64_t)comm->counters[i].received_bytes;
    }
    uint64_t *total[2] = {sent, received};
    bool ok = words != NULL;
    for (int k = 0; k < 2 && ok; k++) {
        *total[k] = 0;
        ok = comm->table->all_gather_words(comm, mine[k], words, error);
        for (int i = 0; i < comm->nprocesses && ok; i++)
            *total[k] += words[i];
    }
    free(words);
    return ok;
}

static bool use_run(Comm *comm, CommRequest *request, const Case *cases, int n, int use, void **source, void **target, Error *error) {
    for (int r = 0; r < comm->ndriven; r++) {
        for (int i = 0; i < n; i++) {
            int64_t begin[MAX_NDIM], end[MAX_NDIM];
            int64_t cells = side_box(&cases[i], &cases[i].to, comm->first_driven + r, begin, end);
            memset(target[r * n + i], 0x5a, (size_t)(cells * dtype_bytes[cases[i].dtype]));
            bool holds_any = box_visit(&cases[i], &cases[i].from, comm->first_driven + r, use, source[r * n + i], false, error) &&
                             side_box(&cases[i], &cases[i].from, comm->first_driven + r, begin, end) > 0;
            if (cases[i].fault == FAULT_CELL && holds_any && comm->first_driven + r == cases[i].nranks - 1)
                element_put(source[r * n + i], cases[i].dtype, 0, 4711);
        }
        if (!comm->table->start(comm, request, r, (const void *const *)source + (ptrdiff_t)r * n, target + (ptrdiff_t)r * n, error))
            return false;
    }
    for (int r = 0; r < comm->ndriven; r++) {
        CommStatus status = comm->table->wait(comm, request, r, error);
        if (status == COMM_PENDING) error_set(error, EXIT_MISMATCH, "pending although all ranks have started");
        if (status != COMM_COMPLETE) return false;
        for (int i = 0; i < n; i++) { /* from here on the source may be overwritten */
            int64_t begin[MAX_NDIM], end[MAX_NDIM];
            int64_t cells = side_box(&cases[i], &cases[i].from, comm->first_driven + r, begin, end);
            memset(source[r * n + i], 0xa5, (size_t)(cells * dtype_bytes[cases[i].dtype]));
        }
    }
    for (int r = 0; r < comm->ndriven; r++)
        for (int i = 0; i < n; i++)
            if (!box_visit(&cases[i], &cases[i].to, comm->first_driven + r, use, target[r * n + i], true, error)) return false;
    return true;
}

bool cases_run(Comm *comm, const Case *cases, int n, int uses, bool memory, Error *error) {
    Transfer *transfers = calloc((size_t)n, sizeof *transfers);
    Layout *layouts = calloc(2 * (size_t)n, sizeof *layouts);
    void **buffers = calloc(2 * (size_t)n * (size_t)comm->ndriven, sizeof *buffers);
    void **source = buffers, **target = buffers + (ptrdiff_t)n * comm->ndriven;
    int64_t bound = 0;
    bool ok = true;
    for (int i = 0; i < n; i++) {
        side_layout(&cases[i], &cases[i].from, &layouts[2 * i]);
        side_layout(&cases[i], &cases[i].to, &layouts[2 * i + 1]);
        transfers[i] = (Transfer){.kind = cases[i].kind,
                                  .dtype = cases[i].dtype,
                                  .shape = cases[i].shape,
                                  .from = &layouts[2 * i],
                                  .to = &layouts[2 * i + 1],
                                  .name = cases[i].name};
        bound += case_bound(&cases[i]) * dtype_bytes[cases[i].dtype];
        for (int r = 0; r < comm->ndriven && ok; r++) {
            int64_t begin[MAX_NDIM], end[MAX_NDIM], bytes = dtype_bytes[cases[i].dtype];
            source[r * n + i] =
                memory_get(comm, memory, bytes * side_box(&cases[i], &cases[i].from, comm->first_driven + r, begin, end), error);
            target[r * n + i] =
                memory_get(comm, memory, bytes * side_box(&cases[i], &cases[i].to, comm->first_driven + r, begin, end), error);
            ok = source[r * n + i] && target[r * n + i];
        }
    }
    uint64_t sent[2] = {0}, received[2] = {0};
    CommRequest *request = ok ? comm->table->prepare(comm, transfers, n, error) : NULL;
    ok = request && counters_total(comm, &sent[0], &received[0], error);
    for (int use = 0; use < uses + (cases[0].fault == FAULT_BYTES) && ok; use++)
        ok = use_run(comm, request, cases, n, use, source, target, error);
    ok = ok && counters_total(comm, &sent[1], &received[1], error);
    uint64_t expected = (uint64_t)bound * (uint64_t)uses;
    if (ok && (sent[1] - sent[0] != expected || received[1] - received[0] != expected)) {
        Text text = {0};
        case_print(&text, &cases[0]);
        ok = error_set(error, EXIT_MISMATCH, "%s (and %d more): %llu bytes sent, %llu received, not %llu", text.at, n - 1,
                       (unsigned long long)(sent[1] - sent[0]), (unsigned long long)(received[1] - received[0]),
                       (unsigned long long)expected);
        text_finish(&text);
    }
    for (int i = 0; i < n * comm->ndriven; i++) {
        memory_put(comm, memory, source[i]);
        memory_put(comm, memory, target[i]);
    }
    free(buffers);
    free(layouts);
    free(transfers);
    return ok;
}

Case kind_case(CommKind kind, int nranks, Shape shape, DType dtype) {
    int major = nranks % 2 == 0 && nranks > 2 ? 2 : 1;
    Case c = {.nranks = nranks, .shape = shape, .dtype = dtype, .kind = kind, .name = comm_name[kind]};
    c.from = c.to = (Side){.natoms = 2, .atom = {{major, nranks / major}, {nranks / major, 1}}, .role = {0, ROLE_WHOLE}};
    switch (kind) {
    case COMM_ALL_REDUCE:
        c.from.role[1] = ROLE_PARTIAL;
        break;
    case COMM_ALL_GATHER:
        c.from.role[1] = 1;
        break;
    case COMM_REDUCE_SCATTER:
        c.from.role[1] = ROLE_PARTIAL, c.to.role[1] = 1;
        break;
    case COMM_ALL_TO_ALL:
        c.from.role[1] = 0, c.to.role[1] = 1;
        break;
    case COMM_EXCHANGE:
        c.from.role[0] = 1, c.from.role[1] = 0, c.to.role[1] = 1;
        break;
    case COMM_STRIDED_SLICE:
        c.to.role[1] = 1;
        break;
    case NCOMMS:
        break;
    }
    return c;
}
