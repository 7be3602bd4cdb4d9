#include "compiler/held.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/name.h"
#include "report/plan.h"

/* ---------------------------------------------------------------- how many bytes lie under at least one value */

/* A segment tree over the parts into which all begins and ends cut the arena. Per node: how many values cover all of it, how many of its bytes any covers. */
typedef struct Cover {
    int64_t *cut; /* sorted: part i is cut[i] .. cut[i + 1] */
    int ncuts;
    int *times;
    int64_t *covered;
} Cover;

static int compare_bytes(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void cover_add(Cover *c, int node, int low, int high, int64_t begin, int64_t end, int change) {
    if (end <= c->cut[low] || c->cut[high] <= begin) return;
    if (begin <= c->cut[low] && c->cut[high] <= end) {
        c->times[node] += change;
    } else {
        const int middle = (low + high) / 2;
        cover_add(c, 2 * node, low, middle, begin, end, change);
        cover_add(c, 2 * node + 1, middle, high, begin, end, change);
    }
    if (c->times[node] > 0)
        c->covered[node] = c->cut[high] - c->cut[low];
    else
        c->covered[node] = high - low > 1 ? c->covered[2 * node] + c->covered[2 * node + 1] : 0;
}

/* ---------------------------------------------------------------- lifetimes */

/* Where a value lies in the arena, and when. */
typedef struct Life {
    int instance;
    int64_t begin, end; /* bytes of the arena */
    int first, last;    /* steps */
} Life;
typedef VEC(Life) Lives;

static void find_lives(Lives *lives, const Facts *facts, Arena *arena) {
    const Role *role = facts->role;
    int *first = arena_alloc(arena, sizeof *first * (size_t)(role->instances.n + 1)),
        *last = arena_alloc(arena, sizeof *last * (size_t)(role->instances.n + 1));
    lives_find(facts->program, role, first, last);
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *at = &role->instances.at[i];
        if (at->place != PLACE_ARENA || first[i] < 0) continue;
        vec_push(arena, lives, ((Life){i, at->at, at->at + instance_bytes(facts->graph, at), first[i], last[i]}));
    }
}

/* ---------------------------------------------------------------- the fullest step */

static void find_fullest(Held *held, const Lives *lives, int nsteps, Arena *arena) {
    const size_t n = (size_t)lives->n;
    Cover cover = {.cut = arena_alloc(arena, sizeof *cover.cut * (2 * n + 2))};
    int *at_first = arena_alloc(arena, sizeof *at_first * ((size_t)nsteps + 1)),
        *at_last = arena_alloc(arena, sizeof *at_last * ((size_t)nsteps + 1));
    int *next_first = arena_alloc(arena, sizeof *next_first * (n + 1)), *next_last = arena_alloc(arena, sizeof *next_last * (n + 1));
    memset(at_first, -1, sizeof *at_first * ((size_t)nsteps + 1));
    memset(at_last, -1, sizeof *at_last * ((size_t)nsteps + 1));
    for (int i = 0; i < lives->n; i++) {
        const Life *life = &lives->at[i];
        cover.cut[2 * i] = life->begin;
        cover.cut[2 * i + 1] = life->end;
        next_first[i] = at_first[life->first], at_first[life->first] = i;
        next_last[i] = at_last[life->last], at_last[life->last] = i;
    }
    qsort(cover.cut, 2 * n, sizeof *cover.cut, compare_bytes);
    for (size_t i = 0; i < 2 * n; i++)
        if (cover.ncuts == 0 || cover.cut[i] != cover.cut[cover.ncuts - 1]) cover.cut[cover.ncuts++] = cover.cut[i];
    if (cover.ncuts < 2) return;
    cover.times = arena_alloc(arena, sizeof *cover.times * 4 * (size_t)cover.ncuts);
    cover.covered = arena_alloc(arena, sizeof *cover.covered * 4 * (size_t)cover.ncuts);
    for (int s = 0; s < nsteps; s++) {
        for (int i = at_first[s]; i >= 0; i = next_first[i])
            cover_add(&cover, 1, 0, cover.ncuts - 1, lives->at[i].begin, lives->at[i].end, 1);
        if (cover.covered[1] > held->bytes) held->bytes = cover.covered[1], held->step = s;
        for (int i = at_last[s]; i >= 0; i = next_last[i])
            cover_add(&cover, 1, 0, cover.ncuts - 1, lives->at[i].begin, lives->at[i].end, -1);
    }
}

/* ---------------------------------------------------------------- who holds it */

static int by_place(const void *a, const void *b) {
    const Life *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    return (x->first < y->first) - (x->first > y->first); /* of two in one place the newer first */
}

static int by_bytes(const void *a, const void *b) {
    const Holder *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

const char *held_kind(Arena *arena, const char *name) {
    char *kind = arena_alloc(arena, strlen(name) + 1);
    int n = 0;
    for (const char *at = name; *at;) {
        const size_t digits = strspn(at, "0123456789");
        const bool part = (at == name || at[-1] == '.') && digits > 0 && (at[digits] == '.' || at[digits] == '\0');
        if (part)
            kind[n++] = '*', at += digits;
        else if (*at == '_' && strspn(at + 1, "0123456789") > 0 && at[1 + strspn(at + 1, "0123456789")] == '\0')
            break;
        else
            kind[n++] = *at++;
    }
    return kind;
}

static Holder *holder_of(Held *held, const char *name, int value, Arena *arena) {
    for (int i = 0; i < held->holders.n; i++)
        if (strcmp(held->holders.at[i].name, name) == 0) return &held->holders.at[i];
    vec_push(arena, &held->holders, ((Holder){.name = name, .value = value}));
    return &held->holders.at[held->holders.n - 1];
}

void held_add(Held *held, const char *name, int value, int64_t bytes, Arena *arena) {
    Holder *holder = holder_of(held, held_kind(arena, name), value, arena);
    holder->count++;
    holder->bytes += bytes;
}

void held_sort(Held *held) {
    if (held->holders.n > 0) qsort(held->holders.at, (size_t)held->holders.n, sizeof *held->holders.at, by_bytes);
}

void held_find(Held *held, const Facts *facts, Arena *arena) {
    Lives lives = {0};
    *held = (Held){.step = -1};
    find_lives(&lives, facts, arena);
    find_fullest(held, &lives, facts->role->steps.n, arena);
    int n = 0;
    for (int i = 0; i < lives.n; i++)
        if (lives.at[i].first <= held->step && held->step <= lives.at[i].last) lives.at[n++] = lives.at[i];
    if (n > 0) qsort(lives.at, (size_t)n, sizeof *lives.at, by_place);
    int64_t end = 0; /* covered so far */
    for (int i = 0; i < n; i++) {
        const Life *life = &lives.at[i];
        if (life->end <= end) continue;
        const int value = facts->role->instances.at[life->instance].value;
        vec_push(arena, &held->values, value);
        held_add(held, facts->graph->values.at[value].name, value, life->end - (life->begin > end ? life->begin : end), arena);
        end = life->end;
    }
    held_sort(held);
}

/* ---------------------------------------------------------------- for people */

const char *step_named(Arena *arena, const Facts *facts, const Diags *diags, int number) {
    const StepLabel step = step_label(facts->graph, facts->role, &facts->role->steps.at[number]);
    const char *place = place_named(arena, diags, step.span);
    return arena_printf(arena, "%s of %s%s%s", step.what, step.of, *place ? " at " : "", place);
}

const char *holders_named(Arena *arena, const Held *held) {
    enum { FEW = 5 };
    Text text = {0};
    int64_t rest = 0;
    int more = 0;
    for (int i = 0; i < held->holders.n; i++) {
        const Holder *holder = &held->holders.at[i];
        if (i >= FEW) {
            more += holder->count;
            rest += holder->bytes;
        } else if (holder->count == 1) {
            text_printf(&text, "%s%s %s", i > 0 ? ", " : "", holder->name, bytes_named(arena, holder->bytes));
        } else {
            text_printf(&text, "%s%s %d x %s", i > 0 ? ", " : "", holder->name, holder->count,
                        bytes_named(arena, holder->bytes / holder->count));
        }
    }
    if (more > 0) text_printf(&text, ", %d more %s", more, bytes_named(arena, rest));
    const char *copy = arena_copy(arena, text.at != NULL ? text.at : "", text.n);
    text_finish(&text);
    return copy;
}
