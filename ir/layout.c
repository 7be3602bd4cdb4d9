/* layout: digits of the rank number, lists of them, their canonical form and their text; common refinements of two layouts. */
#include "ir/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ir/map.h"

const char *const reduction_name[NREDUCTIONS] = {[REDUCE_SUM] = "sum", [REDUCE_MAX] = "max", [REDUCE_MIN] = "min"};

const char *const halo_name[NHALOS] = {[HALO_NONE] = "", [HALO_SEES] = "sees", [HALO_SEEN] = "seen", [HALO_AROUND] = "around"};

const Order *order_make(Arena *arena, const char *name, const int *rank, int nranks) {
    bool natural = true;
    for (int i = 0; i < nranks && natural; i++)
        natural = rank[i] == i;
    if (natural) return NULL;
    Order *order = arena_alloc(arena, sizeof *order);
    int *ranks = arena_alloc(arena, 2 * (size_t)nranks * sizeof *ranks), *positions = ranks + nranks;
    for (int i = 0; i < nranks; i++) {
        assert(rank[i] >= 0 && rank[i] < nranks);
        ranks[i] = rank[i];
        positions[rank[i]] = i;
    }
    for (int i = 0; i < nranks; i++)
        assert(positions[ranks[i]] == i && "a rank stands twice in an order");
    *order = (Order){.name = arena_copy(arena, name, strlen(name)), .nranks = nranks, .rank = ranks, .position = positions};
    return order;
}

bool order_equal(const Order *a, const Order *b) {
    if (a == b) return true;
    return a && b && a->nranks == b->nranks && memcmp(a->rank, b->rank, (size_t)a->nranks * sizeof *a->rank) == 0;
}

void layout_init(Layout *layout, int ndim) {
    assert(ndim >= 0 && ndim <= MAX_NDIM);
    layout->ndim = ndim;
    layout->order = NULL;
    layout->pin = (Pin){0};
    memset(layout->halo, 0, sizeof layout->halo);
    memset(layout->start, 0, sizeof layout->start); /* digits beyond the last are never looked at */
}

static int list_count(const Layout *layout) {
    return layout->ndim + NREDUCTIONS;
}
static int digit_count(const Layout *layout) {
    return layout->start[list_count(layout)];
}
static int64_t digit_top(Digit d) {
    return (int64_t)d.size * d.stride;
}

bool layout_append(Layout *layout, int list, Digit digit) {
    assert(list >= 0 && list < list_count(layout));
    if (digit.size == 1) return true;
    int n = digit_count(layout);
    if (n == MAX_DIGITS) return false;
    int at = layout->start[list + 1];
    /* The order of partial digits has no meaning: keep them as in the canonical form. */
    if (list >= layout->ndim)
        while (at > layout->start[list] && layout->digit[at - 1].stride < digit.stride)
            at--;
    memmove(&layout->digit[at + 1], &layout->digit[at], (size_t)(n - at) * sizeof(Digit));
    layout->digit[at] = digit;
    for (int i = list + 1; i <= list_count(layout); i++)
        layout->start[i]++;
    return true;
}

int64_t layout_split(const Layout *layout, int list) {
    int64_t split = 1;
    for (int i = 0; i < layout_count(layout, list); i++)
        split *= layout_list(layout, list)[i].size;
    return split;
}

bool layout_is_partial(const Layout *layout) {
    return digit_count(layout) > layout->start[layout->ndim];
}
bool layout_is_whole(const Layout *layout) {
    return digit_count(layout) == 0 && !layout_is_pinned(layout);
}

bool layout_has_ranks(const Layout *layout, int first, int last) {
    if (!layout_is_pinned(layout)) return first <= last;
    for (int rank = first; rank <= last; rank++)
        if (layout_has_rank(layout, rank)) return true;
    return false;
}

bool halo_equal(const Halo *a, const Halo *b) {
    return a->kind == b->kind &&
           (a->kind == HALO_NONE || (a->of == b->of && a->stride == b->stride && a->low == b->low && a->high == b->high));
}

static bool halos_equal(const Layout *a, const Layout *b) {
    for (int i = 0; i < HALO_DIMS; i++)
        if (!halo_equal(&a->halo[i], &b->halo[i])) return false;
    return true;
}

bool layout_has_halo(const Layout *layout) {
    for (int i = 0; i < HALO_DIMS; i++)
        if (layout->halo[i].kind != HALO_NONE) return true;
    return false;
}

void layout_without_halos(const Layout *from, Layout *to) {
    if (to != from) *to = *from;
    memset(to->halo, 0, sizeof to->halo);
}

bool layout_orders_agree(const Layout *a, const Layout *b, const Order **order) {
    *order = digit_count(a) > 0 ? a->order : b->order;
    return digit_count(a) == 0 || digit_count(b) == 0 || order_equal(a->order, b->order);
}

void layout_complete(const Layout *from, Layout *to) {
    if (to != from) *to = *from;
    for (int i = from->ndim + 1; i <= list_count(from); i++)
        to->start[i] = from->start[from->ndim];
}

bool digits_compatible(Digit a, Digit b) {
    return b.stride % digit_top(a) == 0 || a.stride % digit_top(b) == 0;
}

bool digit_within(Digit part, Digit whole) {
    const int64_t top = digit_top(part), end = digit_top(whole);
    return part.stride >= whole.stride && top <= end && part.stride % whole.stride == 0 && end % top == 0;
}

/* Whether its ranges can be computed: no product exceeds 64 bits. */
static bool halo_valid(const Halo *halo) {
    const int64_t most = (int64_t)1 << 48;
    int64_t last;
    return halo->kind > HALO_NONE && halo->kind < NHALOS && halo->of >= 1 && halo->of <= most && halo->stride >= 1 && halo->low >= -most &&
           halo->low <= most && halo->high >= -most && halo->high <= most && mul_checked(halo->of, halo->stride, &last) &&
           last <= most << 8;
}

static bool halos_valid(const Layout *layout) {
    for (int i = 0; i < HALO_DIMS; i++) {
        const int dim = layout->ndim - HALO_DIMS + i;
        if (layout->halo[i].kind == HALO_NONE) continue;
        if (dim < 0 || layout_count(layout, dim) == 0 || !halo_valid(&layout->halo[i])) return false;
    }
    return true;
}

static bool pin_valid(const Layout *layout, int nranks) {
    const Digit d = layout->pin.digit;
    if (!layout_is_pinned(layout)) return true;
    if (d.size < 2 || d.stride < 1 || digit_top(d) > nranks || nranks % digit_top(d) != 0) return false;
    for (int i = 0; i < digit_count(layout); i++)
        if (!digits_compatible(d, layout->digit[i])) return false;
    return layout->pin.value >= 0 && layout->pin.value < d.size && layout->order == NULL;
}

bool layout_valid(const Layout *layout, int nranks, const char **why) {
    const char *unused;
    if (!why) why = &unused;
    *why = NULL;
    if (layout->ndim < 0 || layout->ndim > MAX_NDIM) return *why = "too many dimensions", false;
    if (layout->start[0] != 0 || digit_count(layout) > MAX_DIGITS) return *why = "too many digits", false;
    for (int i = 0; i < list_count(layout); i++)
        if (layout->start[i] > layout->start[i + 1]) return *why = "lists of digits overlap", false;
    if (!halos_valid(layout)) return *why = "a halo of a dimension that is whole, or with impossible numbers", false;
    if (layout->order && layout->order->nranks != nranks) return *why = "the device order has another number of ranks", false;
    if (!pin_valid(layout, nranks)) return *why = "a pin to what no digit beside the others has", false;
    int n = digit_count(layout);
    for (int i = 0; i < n; i++) {
        Digit d = layout->digit[i];
        if (d.size < 2) return *why = "a digit has a size below 2", false;
        if (d.stride < 1) return *why = "a digit has a stride below 1", false;
        if (digit_top(d) > nranks || nranks % digit_top(d) != 0) return *why = "a digit does not divide the number of ranks", false;
        for (int j = 0; j < i; j++)
            if (!digits_compatible(d, layout->digit[j])) return *why = "two digits overlap or belong to different meshes", false;
    }
    return true;
}

/* Whether n cells, divided into a balanced parts and each into b, make the parts that a * b make at once. */
static bool merges(int64_t n, int64_t a, int64_t b) {
    if (n % (a * b) == 0) return true;
    int64_t outer = n / a, outer_rest = n % a, once = n / (a * b), once_rest = n % (a * b);
    for (int64_t i = 0; i < a; i++) {
        int64_t size = outer + (i < outer_rest);
        /* Both place the longer parts first within each part of the major digit, so counting them there is enough. */
        int64_t longer = once_rest - i * b;
        longer = longer < 0 ? 0 : longer > b ? b : longer;
        if (size != once * b + longer) return false;
    }
    return true;
}

/* Appends digit to the list under construction at out[0 .. n), merging it into its predecessors where that changes no box of a
 * dimension of this size (-1: no dimension, a list of partial digits). Returns the new n. */
static int append_merged(Digit *out, int n, Digit digit, int64_t size) {
    out[n++] = digit;
    while (n >= 2 && out[n - 2].stride == digit_top(out[n - 1])) {
        Digit a = out[n - 2], b = out[n - 1];
        if (size >= 0) {
            /* Balanced parts of balanced parts have at most two sizes: part, and part + 1 where something was left over. */
            int64_t part = size;
            bool longer = false;
            for (int i = 0; i < n - 2; i++) {
                longer = longer || part % out[i].size != 0;
                part /= out[i].size;
            }
            bool same = merges(part, a.size, b.size) && (!longer || merges(part + 1, a.size, b.size));
            if (!same) break;
        }
        out[n - 2] = (Digit){a.size * b.size, b.stride};
        n--;
    }
    return n;
}

static void sort_descending(Digit *digits, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && digits[k - 1].stride < digits[k].stride; k--) {
            const Digit d = digits[k];
            digits[k] = digits[k - 1];
            digits[k - 1] = d;
        }
}

void layout_canonical(Layout *layout, const Shape *shape) {
    assert(shape->ndim == layout->ndim);
    int64_t divided[MAX_NDIM]; /* by the digits of each dimension */
    for (int d = 0; d < layout->ndim; d++) {
        const Halo *halo = layout_halo(layout, d);
        if (halo && halo_is_idle(layout, d, shape->dim[d])) {
            layout->halo[d - (layout->ndim - HALO_DIMS)] = (Halo){0};
            halo = NULL;
        }
        divided[d] = halo ? halo->of : shape->dim[d];
    }
    int n = 0; /* digits that are kept, never more than have been read */
    for (int list = 0, next = 0; list < list_count(layout); list++) {
        const int end = layout->start[list + 1];
        int merged = 0;
        if (list >= layout->ndim) sort_descending(layout->digit + next, end - next);
        for (; next < end; next++)
            if (layout->digit[next].size > 1)
                merged = append_merged(layout->digit + n, merged, layout->digit[next], list < layout->ndim ? divided[list] : -1);
        n += merged;
        layout->start[list + 1] = (uint8_t)n;
    }
    if (n == 0) layout->order = NULL;
}

bool layout_equal(const Layout *a, const Layout *b) {
    if (a->ndim != b->ndim || memcmp(a->start, b->start, (size_t)list_count(a) + 1) != 0 || !halos_equal(a, b) ||
        !pin_equal(&a->pin, &b->pin))
        return false;
    for (int i = 0; i < digit_count(a); i++)
        if (!digit_equal(a->digit[i], b->digit[i])) return false;
    return order_equal(a->order, b->order);
}

bool layout_same(const Layout *a, const Layout *b, const Shape *shape, int nranks) {
    if (a->ndim != b->ndim) return false;
    Layout ca = *a, cb = *b;
    layout_canonical(&ca, shape);
    layout_canonical(&cb, shape);
    if (layout_equal(&ca, &cb)) return true;
    /* Merged and sorted partial digits are unique: other digits are other terms. */
    for (int list = a->ndim; list < list_count(a); list++) {
        int n = layout_count(&ca, list);
        if (n != layout_count(&cb, list)) return false;
        for (int i = 0; i < n; i++) {
            Digit da = layout_list(&ca, list)[i], db = layout_list(&cb, list)[i];
            if (!digit_equal(da, db)) return false;
            for (int rank = 0; !order_equal(ca.order, cb.order) && rank < nranks; rank++)
                if (digit_of(da, order_position(ca.order, rank)) != digit_of(db, order_position(cb.order, rank))) return false;
        }
    }
    for (int rank = 0; rank < nranks; rank++) {
        Box box_a, box_b;
        layout_box(&ca, shape, rank, &box_a);
        layout_box(&cb, shape, rank, &box_b);
        bool empty = box_elements(&box_a) == 0;
        if (empty != (box_elements(&box_b) == 0)) return false;
        for (int i = 0; !empty && i < shape->ndim; i++)
            if (box_a.begin[i] != box_b.begin[i] || box_a.end[i] != box_b.end[i]) return false;
    }
    return true;
}

/* A hash over what layout_equal compares. */
uint64_t layout_hash(const Layout *layout) {
    uint64_t hash = (uint64_t)layout->ndim;
    for (int list = 0; list < list_count(layout); list++)
        for (int i = layout->start[list]; i < layout->start[list + 1]; i++)
            hash = hash_mix(hash + (uint64_t)list, (uint64_t)layout->digit[i].size << 32 | (uint32_t)layout->digit[i].stride);
    for (int i = 0; i < HALO_DIMS; i++) {
        const Halo *halo = &layout->halo[i];
        if (halo->kind != HALO_NONE)
            hash = hash_mix(hash + (uint64_t)halo->kind, (uint64_t)halo->of ^ (uint64_t)halo->stride << 20 ^ (uint64_t)halo->low << 30 ^
                                                             (uint64_t)halo->high << 40); /* both may be negative */
    }
    if (layout_is_pinned(layout))
        hash = hash_mix(hash + (uint64_t)layout->pin.value, (uint64_t)layout->pin.digit.size << 32 | (uint32_t)layout->pin.digit.stride);
    for (int i = 0; layout->order && i < layout->order->nranks; i++)
        hash = hash_mix(hash, (uint64_t)layout->order->rank[i]);
    return hash;
}

static void list_print(Text *text, const Layout *layout, int list) {
    for (int i = 0; i < layout_count(layout, list); i++) {
        Digit d = layout_list(layout, list)[i];
        text_printf(text, "%s%" PRId32 "@%" PRId32, i ? "." : "", d.size, d.stride);
    }
    const Halo *halo = list < layout->ndim ? layout_halo(layout, list) : NULL;
    if (halo)
        text_printf(text, "~%s(%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ")", halo_name[halo->kind], halo->of, halo->stride, halo->low,
                    halo->high);
}

void layout_print(Text *text, const Layout *layout, bool hidden) {
    text_printf(text, "[");
    for (int i = 0; i < layout->ndim; i++) {
        if (i) text_printf(text, " ");
        if (layout_count(layout, i) == 0) text_printf(text, "-");
        list_print(text, layout, i);
        if (hidden && i == 0) text_printf(text, " |");
    }
    text_printf(text, "]");
    for (int kind = 0; kind < NREDUCTIONS; kind++) {
        if (layout_count(layout, layout->ndim + kind) == 0) continue;
        text_printf(text, " +%s(", reduction_name[kind]);
        list_print(text, layout, layout->ndim + kind);
        text_printf(text, ")");
    }
    if (layout_is_pinned(layout))
        text_printf(text, " only(%" PRId32 "@%" PRId32 "=%" PRId32 ")", layout->pin.digit.size, layout->pin.digit.stride,
                    layout->pin.value);
    if (layout->order) text_printf(text, " %%%s", layout->order->name);
}

static const char *skip_spaces(const char *p) {
    while (*p == ' ')
        p++;
    return p;
}

static bool read_number(const char **at, int32_t *number) {
    const char *p = *at;
    int64_t value = 0;
    if (*p < '1' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > INT32_MAX) return false;
    }
    *at = p;
    *number = (int32_t)value;
    return true;
}

static bool read_integer(const char **at, char before, int64_t *number) {
    if (*(*at)++ != before) return false;
    const bool negative = **at == '-';
    const char *p = *at + negative;
    *number = 0;
    if (*p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (*number > (INT64_MAX - 9) / 10) return false;
        *number = *number * 10 + (*p - '0');
    }
    if (negative) *number = -*number;
    *at = p;
    return true;
}

/* Reads the halo after the digits of a dimension: "~sees(32,2,1,1)". */
static bool read_halo(const char **at, Layout *layout, int dim) {
    const int i = dim - (layout->ndim - HALO_DIMS);
    if (*(*at)++ != '~' || i < 0) return false;
    Halo *halo = &layout->halo[i];
    for (int kind = HALO_NONE + 1; kind < NHALOS; kind++) {
        const size_t length = strlen(halo_name[kind]);
        if (strncmp(*at, halo_name[kind], length) != 0) continue;
        halo->kind = (HaloKind)kind;
        *at += length;
        return read_integer(at, '(', &halo->of) && read_integer(at, ',', &halo->stride) && read_integer(at, ',', &halo->low) &&
               read_integer(at, ',', &halo->high) && *(*at)++ == ')';
    }
    return false;
}

/* Digits joined by dots. */
static bool read_list(const char **at, Layout *layout, int list) {
    for (;; ++*at) {
        Digit d;
        if (!read_number(at, &d.size) || *(*at)++ != '@' || !read_number(at, &d.stride)) return false;
        if (!layout_append(layout, list, d)) return false;
        if (**at != '.') return true;
    }
}

static bool read_dims(const char **at, Layout *layout, bool *hidden) {
    /* The number of dimensions is known only at the end, but decides where the lists of partial digits go: count them first. */
    int ndim = 0;
    const char *p = *at;
    bool inside = false;
    for (; *p && *p != ']'; p++) {
        bool word = *p != ' ' && *p != '|';
        if (word && !inside && ++ndim > MAX_NDIM) return false;
        inside = word;
    }
    layout_init(layout, ndim);
    *hidden = false;
    p = skip_spaces(*at);
    for (int i = 0; i < ndim; i++) {
        if (*p == '-')
            p++;
        else if (!read_list(&p, layout, i) || (*p == '~' && !read_halo(&p, layout, i)))
            return false;
        if (*p != ' ' && *p != '|' && *p != ']') return false;
        p = skip_spaces(p);
        if (i == 0 && *p == '|') {
            *hidden = true;
            p = skip_spaces(p + 1);
        }
    }
    if (*p != ']') return false;
    *at = p + 1;
    return true;
}

/* Reads "only(4@2=1)", if it is there. */
static bool read_pin(const char **at, Layout *layout) {
    const char *p = skip_spaces(*at), word[] = "only(";
    int64_t value;
    if (strncmp(p, word, sizeof word - 1) != 0) return true;
    p += sizeof word - 1;
    if (!read_number(&p, &layout->pin.digit.size) || *p++ != '@' || !read_number(&p, &layout->pin.digit.stride) ||
        !read_integer(&p, '=', &value) || value < 0 || value >= layout->pin.digit.size || *p++ != ')')
        return false;
    layout->pin.value = (int32_t)value;
    *at = p;
    return true;
}

bool layout_read(const char **at, Layout *layout, bool *hidden) {
    const char *p = skip_spaces(*at);
    if (*p++ != '[' || !read_dims(&p, layout, hidden)) return false;
    for (;;) {
        const char *q = skip_spaces(p);
        if (*q++ != '+') break;
        int kind = 0;
        size_t length = 0;
        for (; kind < NREDUCTIONS; kind++) {
            length = strlen(reduction_name[kind]);
            if (strncmp(q, reduction_name[kind], length) == 0 && q[length] == '(') break;
        }
        if (kind == NREDUCTIONS || layout_count(layout, layout->ndim + kind) > 0) return false;
        q += length + 1;
        if (!read_list(&q, layout, layout->ndim + kind) || *q++ != ')') return false;
        p = q;
    }
    if (!read_pin(&p, layout)) return false;
    *at = p;
    return true;
}

void mesh_digits(const int32_t *sizes, int naxes, int32_t inner, Digit *digits) {
    int32_t stride = inner;
    for (int i = naxes - 1; i >= 0; i--) {
        digits[i] = (Digit){sizes[i], stride};
        stride *= sizes[i];
    }
}

/* Puts value into the ascending set at[0 .. n). */
static int set_add(int64_t *at, int n, int64_t value) {
    int i = n;
    while (i > 0 && at[i - 1] > value)
        i--;
    if (i > 0 && at[i - 1] == value) return n;
    for (int k = n; k > i; k--)
        at[k] = at[k - 1];
    at[i] = value;
    return n + 1;
}

int digits_chain(const Digit *a, int na, const Digit *b, int nb, int nranks, Digit *chain) {
    assert(na <= MAX_DIGITS && nb <= MAX_DIGITS);
    int64_t bound[4 * MAX_DIGITS + 2];
    int n = set_add(bound, 0, 1);
    for (int i = 0; i < na + nb; i++) {
        Digit d = i < na ? a[i] : b[i - na];
        n = set_add(bound, n, d.stride);
        n = set_add(bound, n, digit_top(d));
    }
    if (nranks > 0) n = set_add(bound, n, nranks);
    if (nranks > 0 && bound[n - 1] != nranks) return -1;
    for (int i = 1; i < n; i++) {
        if (bound[i] % bound[i - 1] != 0 || bound[i] > INT32_MAX) return -1;
        /* A chain of divisors below 2^31 has at most 31 members, so there is room. */
        chain[n - 1 - i] = (Digit){(int32_t)(bound[i] / bound[i - 1]), (int32_t)bound[i - 1]};
    }
    return n - 1;
}

/* Whether each digit of a layout is one of the chain. */
static bool is_refined(const Layout *layout, const Digit *chain, int n) {
    for (int i = 0; i < digit_count(layout); i++) {
        int k = 0;
        while (k < n && !digit_equal(chain[k], layout->digit[i]))
            k++;
        if (k == n) return false;
    }
    return true;
}

static bool refine_by(Layout *layout, const Digit *chain, int n) {
    if (is_refined(layout, chain, n)) return true;
    Layout result;
    layout_init(&result, layout->ndim);
    result.order = layout->order;
    result.pin = layout->pin;
    memcpy(result.halo, layout->halo, sizeof result.halo);
    for (int list = 0; list < list_count(layout); list++)
        for (int i = 0; i < layout_count(layout, list); i++)
            for (int k = 0; k < n; k++)
                if (digit_within(chain[k], layout_list(layout, list)[i]) && !layout_append(&result, list, chain[k])) return false;
    *layout = result;
    return true;
}

bool layout_refine(Layout *a, Layout *b) {
    Digit chain[MAX_DIGITS];
    int n = digits_chain(a->digit, digit_count(a), b->digit, digit_count(b), 0, chain);
    return n >= 0 && refine_by(a, chain, n) && refine_by(b, chain, n);
}

static bool within_any(Digit d, const Digit *digits, int n) {
    for (int i = 0; i < n; i++)
        if (digit_within(d, digits[i])) return true;
    return false;
}

int layout_summed(const Layout *from, const Layout *to, Digit *digits, Reduction *kind) {
    assert(from->ndim == to->ndim);
    int n = 0;
    *kind = REDUCE_SUM;
    for (int k = 0; k < NREDUCTIONS; k++) {
        int list = from->ndim + k, nf = layout_count(from, list), nt = layout_count(to, list);
        const Digit *partial = layout_list(from, list), *kept = layout_list(to, list);
        Digit chain[MAX_DIGITS];
        int nchain = digits_chain(partial, nf, kept, nt, 0, chain), before = n;
        if (nchain < 0) return -1;
        for (int i = 0; i < nchain; i++) {
            bool in_from = within_any(chain[i], partial, nf), in_to = within_any(chain[i], kept, nt);
            if (in_to && !in_from) return -1;
            if (in_from && !in_to) digits[n++] = chain[i];
        }
        if (n > before && before > 0) return -1;
        if (n > before) *kind = (Reduction)k;
    }
    return n;
}
