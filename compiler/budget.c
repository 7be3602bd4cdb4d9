#include "compiler/budget.h"

#include <math.h>
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/name.h"
#include "ir/workspace.h"

/* ---------------------------------------------------------------- measures */

enum { LEAST_BUCKET = 4096, FEW = 16 }; /* bytes; what saves less than 1/FEW of what is missing is not tried */

/* Stores parameters in parts; regather: what is dropped between uses. */
static bool store_parameters(Settings *settings, int nranks, Regather regather) {
    if (settings->optimizer == OPTIMIZER_NONE || nranks == 1) return false;
    if (settings->shard_states == SHARD_PARAMETERS && settings->regather == regather) return false;
    if (settings->shard_states_given && settings->shard_states != SHARD_PARAMETERS) return false;
    if (settings->regather > regather || (settings->regather_given && settings->regather != regather)) return false;
    settings->shard_states = SHARD_PARAMETERS;
    settings->regather = regather;
    return true;
}
static bool keep_gathered(Settings *settings, int nranks) {
    return store_parameters(settings, nranks, REGATHER_NONE);
}
static bool regather_parameters(Settings *settings, int nranks) {
    return store_parameters(settings, nranks, REGATHER_PARAMETERS);
}

/* Every rank keeps and updates its whole copy: sums of gradients overlap with the backward pass, and nothing is gathered after the update. */
static bool share_nothing(Settings *settings, int nranks) {
    if (settings->shard_states_given || settings->shard_states != SHARD_OPTIMIZER) return false;
    if (settings->optimizer == OPTIMIZER_NONE || nranks == 1) return false;
    settings->shard_states = SHARD_NONE;
    return true;
}

static bool regather_all(Settings *settings, int nranks) {
    if (settings->regather_given || settings->regather == REGATHER_ALL || nranks == 1) return false;
    settings->regather = REGATHER_ALL;
    return true;
}

/* Accumulates the gradients of a step's batches in parts. */
static bool shard_gradients(Settings *settings, int nranks) {
    (void)nranks;
    if (settings->shard_states_given || settings->shard_states != SHARD_OPTIMIZER || settings->accumulate < 2) return false;
    settings->shard_states = SHARD_GRADIENTS;
    return true;
}

/* Stores states of small parameters in parts too, like the others. */
static bool share_small(Settings *settings, int nranks) {
    if (settings->shard_from_given || settings->shard_bytes == 0 || settings->optimizer == OPTIMIZER_NONE || nranks == 1) return false;
    settings->shard_bytes = 0;
    return settings->shard_states != SHARD_NONE;
}

static void regather_less(Settings *settings, double share) {
    settings->regather_share = share;
}

/* The bytes chosen by the last measure of this kind; without one, none. */
static int64_t last_bytes(const Measures *measures, int measure, int64_t none) {
    for (int k = measures->n - 1; k >= 0; k--)
        if (measures->taken[k].measure == measure) return measures->taken[k].bytes;
    return none;
}

/* Lowers the bytes that the cuts aim at by what is missing: they count roughly what stages hold. */
static bool cut_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken) {
    const Settings *settings = &b->front.graph.settings;
    const int64_t missing = memory_bytes(&with->cost) - limit;
    const int64_t now = settings->cut_bytes > 0 ? settings->cut_bytes : limit;
    if (settings->stages < 2 || missing <= 0) return false;
    taken->bytes = last_bytes(measures, taken->measure, now) - missing - limit / 256;
    return taken->bytes > 0;
}
static void cut_set(Settings *settings, int64_t bytes) {
    settings->cut_bytes = bytes;
}

/* At most two buckets are in flight (buckets.c). A size that the user gave stays. */
static int64_t buckets_most(const Graph *g) {
    const int64_t all = graph_trainable_bytes(g), two = 2 * g->settings.bucket_bytes;
    return g->settings.bucket_given || g->nranks == 1 ? 0 : two < all ? two : all;
}
/* At most a quarter of the size so far, a power of two. */
static bool bucket_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken) {
    (void)with, (void)limit;
    const Settings *settings = &b->front.graph.settings;
    const int64_t all = graph_trainable_bytes(&b->front.graph), now = last_bytes(measures, taken->measure, settings->bucket_bytes);
    for (taken->bytes = LEAST_BUCKET; 8 * taken->bytes <= (now < all ? now : all); taken->bytes *= 2)
        ;
    taken->said = arena_printf(b->arena, "bucket = %s", bytes_named(b->arena, taken->bytes));
    return 4 * taken->bytes <= now && 4 * taken->bytes <= all;
}
static void bucket_set(Settings *settings, int64_t bytes) {
    settings->bucket_bytes = bytes;
}

/* Bytes of the parameters whose updates ranks share; *least: of the smallest one. */
static int64_t shared_bytes(const Graph *g, int64_t *least) {
    const Settings *settings = &g->settings;
    int64_t all = 0;
    *least = INT64_MAX;
    if (settings->shard_from_given || settings->shard_states == SHARD_NONE || settings->optimizer == OPTIMIZER_NONE || g->nranks == 1)
        return 0;
    for (int s = 0; s < g->states.n; s++) {
        const int64_t bytes = type_bytes(&g->states.at[s].type);
        if (!g->states.at[s].trainable || bytes < settings->shard_bytes) continue;
        all += bytes;
        if (bytes < *least) *least = bytes;
    }
    return all;
}
static int64_t shared_most(const Graph *g) {
    int64_t least;
    return shared_bytes(g, &least);
}
/* Has every rank update the smallest of these whole, so that they are not gathered; not large ones, whose bytes cost more than messages. */
enum { MOST_WHOLE = 8 << 20 };
static bool shard_from_choose(const Build *b, const Tried *with, const Measures *measures, int64_t limit, Taken *taken) {
    (void)measures, (void)limit;
    int64_t least;
    if (shared_bytes(&with->build->front.chosen, &least) == 0 || least > MOST_WHOLE) return false;
    for (taken->bytes = LEAST_BUCKET; taken->bytes <= least; taken->bytes *= 2)
        ;
    taken->said = arena_printf(b->arena, "shard_from = %s", bytes_named(b->arena, taken->bytes));
    return true;
}
static void shard_from_set(Settings *settings, int64_t bytes) {
    settings->shard_bytes = bytes;
}

enum { CUTS, GRADIENTS, KEEP_GATHERED, SHARE_NOTHING, REGATHER, SMALL, SHARD_FROM, BUCKETS, ALL_GATHERED, RECOMPUTE, NMEASURES };
static const Measure table[NMEASURES] = {
    [CUTS] = {"stages cut for memory", .choose = cut_choose, .set = cut_set},
    [SMALL] = {"shard_from = 0", share_small, .most = small_states_bytes, .faster = true},
    [SHARD_FROM] = {"shard_from", .choose = shard_from_choose, .set = shard_from_set, .most = shared_most, .faster = true, .more = true},
    [BUCKETS] = {"bucket", .choose = bucket_choose, .set = bucket_set, .most = buckets_most},
    [GRADIENTS] = {"shard_states = gradients", shard_gradients},
    [KEEP_GATHERED] = {"shard_states = parameters, regather = none", keep_gathered, .faster = true, .hides = true},
    [SHARE_NOTHING] = {"shard_states = none", share_nothing, .faster = true, .hides = true, .more = true},
    [REGATHER] = {"shard_states = parameters, regather = parameters", regather_parameters, .less = regather_less},
    [ALL_GATHERED] = {"regather = all", regather_all},
    [RECOMPUTE] = {"recompute", .choose = recompute_choose},
};
#define A_LITTLE 1.005 /* predictions that differ by less are taken to be equal */
#define MUCH 1.2       /* times the limit: one or two measures do not save that much */
#define NEARLY 1.03
#define PASSES 3 /* over the bytes of parameters and slots in an update: two reads, one write, at most */

static bool apply_setting(const Taken *taken, Settings *settings, int nranks) {
    if (table[taken->measure].set != NULL) table[taken->measure].set(settings, taken->bytes);
    if (table[taken->measure].apply != NULL && !table[taken->measure].apply(settings, nranks)) return false;
    if (taken->share > 0) table[taken->measure].less(settings, taken->share);
    return true;
}

bool measures_apply(Build *b, const Measures *measures, Error *error) {
    Graph *g = &b->front.graph;
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        if (taken->marks == NULL) {
            if (apply_setting(taken, &g->settings, g->nranks)) continue;
            return error_set(error, EXIT_REJECTED, "%s changes nothing here", table[taken->measure].name);
        }
        for (int n = 0; n < g->nodes.n; n++) {
            Node *node = &g->nodes.at[n];
            if (graph_is_forward(g, n))
                node->recompute = taken->marks[node->micro > 0 ? node->origin : n]; /* in all batches of a step alike */
        }
    }
    return true;
}

bool measures_hide(const Settings *settings, const Measures *measures) {
    bool hides = settings->shard_states == SHARD_PARAMETERS || settings->shard_states == SHARD_NONE;
    for (int k = 0; k < measures->n; k++) {
        const int measure = measures->taken[k].measure;
        hides = hides || measure == SHARE_NOTHING || measure == KEEP_GATHERED || measure == REGATHER;
    }
    return hides;
}

bool measures_share_small(const Measures *measures) {
    for (int k = 0; k < measures->n; k++)
        if (measures->taken[k].measure == SMALL) return true;
    return false;
}

const char *measure_name(const Taken *taken) {
    return taken->said != NULL ? taken->said : table[taken->measure].name;
}

void measure_print(Text *text, Arena *arena, int64_t saved_bytes, double seconds) {
    text_printf(text, ": %s %s on a rank, %.4g ms %s a step", bytes_named(arena, saved_bytes < 0 ? -saved_bytes : saved_bytes),
                saved_bytes < 0 ? "more" : "less", 1e3 * fabs(seconds), seconds < 0 ? "less" : "more");
}

void measures_print(Text *text, const Build *b, const char *before, const char *behind) {
    const Measures *measures = b->front.measures;
    for (int k = 0; measures != NULL && k < measures->n; k++) {
        const Taken *taken = &measures->taken[k];
        text_printf(text, "%s%s", before, measure_name(taken));
        if (taken->what != NULL) text_printf(text, " of %s", taken->what);
        if (taken->share > 0) text_printf(text, " (%.3g %%)", 100 * taken->share);
        measure_print(text, b->arena, taken->saved_bytes, taken->seconds);
        text_printf(text, "%s", behind);
    }
}

/* ---------------------------------------------------------------- which of them */

int64_t budget_limit(const Build *b) {
    const int64_t asked = b->front.graph.settings.memory_bytes;
    if (b->front.aim_bytes > 0) return b->front.aim_bytes;
    return asked > 0 ? asked : b->options->machine != NULL ? b->options->machine->memory_bytes : 0;
}

int64_t least_bytes(const Graph *graph, int nranks, const Machine *machine) {
    return graph_states_bytes(graph) / nranks + (machine != NULL && machine->cuda ? WORKSPACE_LEAST : 0);
}

enum { OCTAVE = 8 };

int64_t limit_at(int k, int64_t workspace) {
    static const int64_t of_1024[OCTAVE] = {1024, 1117, 1218, 1328, 1448, 1579, 1722, 1878};
    if (k < 0) k = 0;
    const int64_t bytes = of_1024[k % OCTAVE];
    const int power = k / OCTAVE - 10;
    return workspace + (power >= 0 ? bytes << power : bytes >> -power);
}

int limit_from(int64_t bytes, int64_t workspace) {
    int k = 0;
    while (limit_at(k, workspace) < bytes)
        k++;
    return k;
}

struct Budget {
    const Build *b;
    const Strategy *const *strategy;
    int64_t limit;
    Measures measures; /* taken so far */
    BuildCost cost;    /* with them */
    Tried *with;       /* the program with them; NULL: it was freed */
    Arena arena;
    int64_t most[NMEASURES]; /* Measure.most */
    VEC(Budgeted) known;     /* compiled so far, the one it began with first: none is compiled twice */
    int ncompiled;
};

static void find_most(Budget *s, const Tried *with) {
    for (int m = 0; m < NMEASURES; m++)
        s->most[m] = table[m].most != NULL ? table[m].most(&with->build->spmd.graph) : INT64_MAX / FEW;
}

static Tried *try_with(Budget *s, const Measures *measures) {
    Error ignored = {0};
    s->ncompiled++;
    return build_keep(s->b, &(Trial){.strategy = s->strategy, .measures = measures}, &ignored);
}

/* Whether a measure changes a setting beside the measures taken. */
static bool changes(const Budget *s, int measure) {
    Settings settings = s->b->front.graph.settings;
    const int nranks = s->b->front.graph.nranks;
    for (int k = 0; k < s->measures.n; k++)
        if (s->measures.taken[k].marks == NULL && !apply_setting(&s->measures.taken[k], &settings, nranks)) return false;
    return table[measure].apply(&settings, nranks);
}

static bool equal(const Budget *s, const Measures *a, const Measures *b) {
    const size_t nmarks = (size_t)s->b->front.chosen.nodes.n;
    bool same = a->n == b->n;
    for (int k = 0; same && k < a->n; k++) {
        const Taken *x = &a->taken[k], *y = &b->taken[k];
        same = x->measure == y->measure && x->share == y->share && x->bytes == y->bytes && (x->marks == NULL) == (y->marks == NULL) &&
               (x->marks == NULL || memcmp(x->marks, y->marks, nmarks) == 0);
    }
    return same;
}

/* Another plan: with one more measure than those taken. */
typedef struct Try {
    Measures with;
    BuildCost cost;
    Tried *tried; /* NULL: it was compiled before */
} Try;

/* Notes what the last measure saves and costs. */
static void note_last(const Budget *s, Try *try) {
    Taken *last = &try->with.taken[try->with.n - 1];
    last->saved_bytes = memory_bytes(&s->cost) - memory_bytes(&try->cost);
    last->seconds = try->cost.step_s - s->cost.step_s;
}

/* Tries one more measure, chosen for limit. False: it changes nothing, or cannot be compiled. */
static bool try_measure(Budget *s, int measure, int64_t limit, Try *try) {
    const int64_t missing = s->limit > 0 ? memory_bytes(&s->cost) - s->limit : 0;
    *try = (Try){.with = s->measures};
    if (try->with.n == MAX_MEASURES || s->most[measure] == 0 || FEW * s->most[measure] < missing) return false;
    if (table[measure].more && missing > 0) return false;
    Taken *last = &try->with.taken[try->with.n++];
    *last = (Taken){.measure = measure};
    if (table[measure].choose != NULL) {
        if (s->with == NULL) s->with = try_with(s, &s->measures);
        if (s->with == NULL || !table[measure].choose(s->b, s->with, &s->measures, limit, last)) return false;
    } else if (!changes(s, measure)) {
        return false;
    }
    for (int k = 0; k < s->known.n; k++)
        if (equal(s, &s->known.at[k].measures, &try->with)) {
            *try = (Try){s->known.at[k].measures, s->known.at[k].cost, NULL};
            return true;
        }
    try->tried = try_with(s, &try->with);
    if (try->tried == NULL) return false;
    try->cost = try->tried->cost;
    note_last(s, try);
    vec_push(&s->arena, &s->known, ((Budgeted){try->with, try->cost}));
    return true;
}

static void take(Budget *s, const Try *try) {
    tried_finish(s->with);
    s->measures = try->with;
    s->cost = try->cost;
    s->with = try->tried;
}

/* Bytes saved per second that it costs; infinite where it costs none. */
static double worth(const BuildCost *before, const BuildCost *after) {
    const double saved = (double)(memory_bytes(before) - memory_bytes(after)), seconds = after->step_s - before->step_s;
    return saved <= 0 ? -INFINITY : seconds <= 0 ? INFINITY : saved / seconds;
}

/* Prefers the try that fits; of two that fit, the faster one; of two that do not, the one that saves most bytes per second. */
static bool is_better(const BuildCost *before, const BuildCost *a, const BuildCost *b, int64_t limit) {
    const bool fits_a = memory_bytes(a) <= limit, fits_b = memory_bytes(b) <= limit;
    if (fits_a != fits_b) return fits_a;
    if (fits_a) return a->step_s < b->step_s;
    const double x = worth(before, a), y = worth(before, b);
    return x != y ? x > y : memory_bytes(a) < memory_bytes(b);
}

/* Takes the fastest of the measures that save time within the limit or, without one, with about no more memory; may_save keeps only these. False: there is none. */
static bool take_fastest(Budget *s, bool *may_save) {
    const double most = s->limit > 0 ? (double)s->limit : 1.1 * (double)memory_bytes(&s->cost), before_s = s->cost.step_s;
    Try best = {0}, try;
    for (int m = 0; m < NMEASURES; m++) {
        if (!may_save[m] || !try_measure(s, m, s->limit, &try)) continue;
        const bool faster = try.cost.step_s * A_LITTLE <= before_s && try.cost.broken <= s->cost.broken,
                   fits = (double)memory_bytes(&try.cost) <= most;
        may_save[m] = faster && fits;
        if (m == KEEP_GATHERED && s->limit > 0) may_save[REGATHER] = faster && !fits; /* for some of the parameters it may be as fast */
        const bool better = may_save[m] && (best.with.n == 0 || try.cost.step_s * A_LITTLE <= best.cost.step_s);
        tried_finish(better ? best.tried : try.tried);
        if (better) best = try;
    }
    if (best.with.n > 0) take(s, &best);
    return best.with.n > 0;
}

/* Whether a measure may save time: one for communications at most what these take, one for updates at most what it takes to read and write what is updated. */
static bool may_be_faster(const Budget *s, int measure) {
    const Machine *machine = options_machine(s->b->options);
    if (!table[measure].faster) return false;
    if (table[measure].hides) return machine->overlap > 0 && s->cost.step_s > A_LITTLE * s->cost.kernel_s;
    return PASSES * (double)s->most[measure] / machine->memory_bytes_per_s > (A_LITTLE - 1) * s->cost.step_s;
}

/* Takes one such measure after another. Where much memory is missing, those that save none wait until others have saved some. */
static void take_faster(Budget *s) {
    const bool much = s->limit > 0 && (double)memory_bytes(&s->cost) > MUCH * (double)s->limit;
    bool may_save[NMEASURES];
    for (int m = 0; m < NMEASURES; m++)
        may_save[m] = (!much || m == KEEP_GATHERED) && may_be_faster(s, m);
    while (take_fastest(s, may_save))
        ;
}

/* While the plan breaks demands of the user (asserts.c): takes the setting with which it breaks fewest, of those the fastest. */
static void take_demanded(Budget *s) {
    for (bool more = true; more && s->cost.broken > 0;) {
        Try best = {0}, try;
        for (int m = 0; m < NMEASURES; m++) {
            if (table[m].choose != NULL || !try_measure(s, m, s->limit, &try)) continue;
            const BuildCost *than = best.with.n > 0 ? &best.cost : &s->cost;
            const bool better =
                try.cost.broken < than->broken || (best.with.n > 0 && try.cost.broken == than->broken && try.cost.step_s < than->step_s);
            tried_finish(better ? best.tried : try.tried);
            if (better) best = try;
        }
        more = best.with.n > 0;
        if (more) take(s, &best);
    }
}

/* Takes the best measure, one after another, until it fits. */
static void take_best(Budget *s, double most) {
    while (memory_bytes(&s->cost) > s->limit && s->cost.step_s < most) {
        Try best = {0}, try;
        for (int m = 0; m < NMEASURES; m++) {
            if (!try_measure(s, m, s->limit, &try)) continue;
            const bool better = memory_bytes(&try.cost) < memory_bytes(&s->cost) &&
                                (best.with.n == 0 || is_better(&s->cost, &try.cost, &best.cost, s->limit));
            tried_finish(better ? best.tried : try.tried);
            if (better) best = try;
        }
        if (best.with.n == 0) break;
        take(s, &best);
    }
}

/* What is chosen for a limit out of reach may hold more at once than it saves: then limits nearer to the present need are tried. */
static bool take_smaller(Budget *s, int measure) {
    enum { LIMITS = 4 };
    const int64_t needed = memory_bytes(&s->cost);
    int64_t limit = s->limit;
    Try try;
    for (int k = 0; k < LIMITS && try_measure(s, measure, limit, &try); k++, limit += (needed - limit) / 2) {
        if (memory_bytes(&try.cost) < needed) {
            take(s, &try);
            return true;
        }
        tried_finish(try.tried);
        if (table[measure].choose == NULL) return false;
    }
    return false;
}

/* Takes all that saves memory, whatever it costs. Recompute is repeated until it fits: each time the arena is fullest elsewhere. */
static void take_all(Budget *s) {
    take_smaller(s, CUTS);
    take_smaller(s, SMALL);
    take_smaller(s, REGATHER);
    while (memory_bytes(&s->cost) > s->limit && take_smaller(s, BUCKETS))
        ;
    take_smaller(s, ALL_GATHERED);
    while (memory_bytes(&s->cost) > s->limit && take_smaller(s, RECOMPUTE))
        ;
}

/* Compiles a program with measures (NULL: none) and keeps it. NULL with *error: it cannot be compiled. */
static Budget *budget_new(const Build *b, const Strategy *const *strategy, const Measures *measures, Error *error) {
    Arena arena;
    Tried *with = build_keep(b, &(Trial){.strategy = strategy, .measures = measures}, error);
    if (with == NULL) return NULL;
    arena_init(&arena);
    Budget *s = arena_alloc(&arena, sizeof *s);
    *s = (Budget){.b = b, .strategy = strategy, .limit = budget_limit(b), .cost = with->cost, .with = with, .arena = arena, .ncompiled = 1};
    if (measures != NULL) s->measures = *measures;
    find_most(s, with);
    vec_push(&s->arena, &s->known, ((Budgeted){s->measures, s->cost}));
    return s;
}

/* Frees the program, which is not needed any more. */
static void let_go(Budget *s) {
    tried_finish(s->with);
    s->with = NULL;
}

Budget *budget_begin(const Build *b, const Strategy *const *strategy, double faster_s, Error *error) {
    Budget *s = budget_new(b, strategy, NULL, error);
    if (s == NULL) return NULL;
    if (s->cost.step_s < faster_s) take_faster(s);
    take_demanded(s);
    if (s->limit == 0 || memory_bytes(&s->cost) <= s->limit) let_go(s);
    return s;
}

Budget *budget_again(const Build *b, const Strategy *const *strategy, const Measures *measures, Error *error) {
    Measures theirs = *measures;
    theirs.of_another = true;
    Budget *s = budget_new(b, strategy, &theirs, error);
    if (s != NULL) let_go(s);
    return s;
}

/* Drops measures that bring nothing beside the others, as another plan's may: without it a step takes no longer, and still fits. */
static void drop_idle(Budget *s) {
    for (int k = s->measures.n - 1; k >= 0; k--) {
        const Taken *taken = &s->measures.taken[k];
        const bool needed = s->limit > 0 && memory_bytes(&s->cost) + taken->saved_bytes > s->limit;
        if (taken->saved_bytes > 0 && (taken->seconds <= 0 || needed)) continue;
        Measures with = s->measures;
        memmove(with.taken + k, with.taken + k + 1, sizeof *with.taken * (size_t)(--with.n - k));
        Tried *tried = try_with(s, &with);
        const int64_t now = memory_bytes(&s->cost), most = s->limit == 0 ? INT64_MAX : now > s->limit ? now : s->limit;
        if (tried != NULL && tried->cost.step_s <= s->cost.step_s && memory_bytes(&tried->cost) <= most &&
            tried->cost.broken <= s->cost.broken) {
            s->measures = with;
            s->cost = tried->cost;
        }
        tried_finish(tried);
    }
}

void budget_weigh(Budget *s) {
    Measures with = {0};
    BuildCost before;
    for (int k = 0; k <= s->measures.n; k++) {
        Tried *tried = k < s->measures.n ? try_with(s, &with) : NULL;
        if (tried == NULL && k < s->measures.n) return;
        const BuildCost after = tried != NULL ? tried->cost : s->cost;
        tried_finish(tried);
        if (k > 0) s->measures.taken[k - 1].saved_bytes = memory_bytes(&before) - memory_bytes(&after);
        if (k > 0) s->measures.taken[k - 1].seconds = after.step_s - before.step_s;
        before = after;
        if (k < s->measures.n) with.taken[with.n++] = s->measures.taken[k];
    }
    s->measures.of_another = false;
    drop_idle(s);
}

void budget_faster(Budget *s) {
    take_faster(s);
    let_go(s);
}

void budget_read(const Budget *s, Measures *measures, BuildCost *cost) {
    *measures = s->measures;
    *cost = s->cost;
}

int64_t budget_most(const Budget *s) {
    int64_t bytes = 0;
    for (int m = 0; m < NMEASURES; m++)
        if (table[m].most != NULL) bytes += s->most[m];
    return bytes;
}

int budget_compiled(const Budget *s) {
    return s->ncompiled;
}

const Budgeted *budget_known(const Budget *s, int k) {
    return k < s->known.n ? &s->known.at[k] : NULL;
}

void budget_end(Budget *s) {
    if (s == NULL) return;
    Arena arena = s->arena;
    tried_finish(s->with);
    arena_finish(&arena);
}

static Budgeted now(const Budget *s) {
    return (Budgeted){s->measures, s->cost};
}

static void go_back(Budget *s, const Budgeted *to) {
    let_go(s);
    s->measures = to->measures;
    s->cost = to->cost;
}

/* Whether recomputing values of the arena is enough to fit. */
static bool fits_with_recompute(Budget *s) {
    Try try;
    if (s->cost.state_bytes + s->cost.input_bytes + s->cost.constant_bytes > s->limit) return false;
    if (!try_measure(s, RECOMPUTE, s->limit, &try)) return false;
    tried_finish(try.tried);
    return memory_bytes(&try.cost) <= s->limit;
}

/* Where much is missing and recomputing is not enough, all measures together are tried first: where they are not nearly enough, it ends there; else the best ones are taken, one after another. */
void budget_fit(Budget *s, double most) {
    const Budgeted begin = now(s);
    Budgeted all = begin;
    if (s->limit == 0 || memory_bytes(&s->cost) <= s->limit || s->cost.step_s >= most) return;
    const bool first = (double)memory_bytes(&s->cost) > MUCH * (double)s->limit && !fits_with_recompute(s);
    if (first) {
        take_all(s);
        all = now(s);
        go_back(s, &begin);
    }
    if (!first || (double)memory_bytes(&all.cost) <= NEARLY * (double)s->limit) take_best(s, most);
    if (!first && memory_bytes(&s->cost) > s->limit && s->cost.step_s < most) {
        const Budgeted best = now(s);
        go_back(s, &begin);
        take_all(s);
        all = now(s);
        go_back(s, &best);
    }
    if (memory_bytes(&s->cost) > s->limit && memory_bytes(&all.cost) < memory_bytes(&s->cost)) go_back(s, &all);
    let_go(s);
}

/* The part between these at which the limit would be reached if bytes were linear; the middle one where that is not known. */
static int between(int few, int enough, int64_t beyond, int64_t bytes, int64_t limit) {
    if (beyond <= bytes || beyond == INT64_MAX) return (few + enough) / 2;
    const int part = few + (int)ceil((double)(enough - few) * (double)(beyond - limit) / (double)(beyond - bytes));
    return part <= few ? few + 1 : part >= enough ? enough - 1 : part;
}

void budget_trim(Budget *s) {
    enum { PARTS = 64 };
    const Taken *last_taken = s->measures.n > 0 ? &s->measures.taken[s->measures.n - 1] : NULL;
    if (last_taken == NULL || table[last_taken->measure].less == NULL || last_taken->share > 0 || memory_bytes(&s->cost) > s->limit) return;
    int enough = PARTS, few = 0;
    int64_t bytes = memory_bytes(&s->cost), beyond = 0; /* with enough, and with too few parts, 0: not known */
    while (enough - few > 1) {
        const int part = between(few, enough, beyond, bytes, s->limit);
        Measures with = s->measures;
        Taken *last = &with.taken[with.n - 1];
        last->share = (double)part / PARTS;
        Tried *tried = try_with(s, &with);
        const int64_t needed = tried != NULL ? memory_bytes(&tried->cost) : INT64_MAX;
        const bool fits = needed <= s->limit;
        *(fits ? &enough : &few) = part;
        *(fits ? &bytes : &beyond) = needed;
        if (fits && tried->cost.step_s <= s->cost.step_s) {
            last->saved_bytes -= memory_bytes(&tried->cost) - memory_bytes(&s->cost);
            last->seconds += tried->cost.step_s - s->cost.step_s;
            s->measures = with;
            s->cost = tried->cost;
        }
        tried_finish(tried);
    }
}
