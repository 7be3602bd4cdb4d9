/* Gathers on process 0 what all ranks have measured. Floats are sent as digits, since comm.h gathers text; a part of the role's steps at a time, so that process 0 needs little memory for
 * many ranks. */
#include <stdlib.h>
#include <string.h>

#include "runtime/lanes_own.h"

enum { GATHERED_BYTES = 1 << 24, FLOAT_DIGITS = 8, ITEM_DIGITS = LANE_FLOATS * FLOAT_DIGITS };

/* What is gathered. Ranks of a pipeline's stages run different steps: each has those of its role. */
typedef struct Gather {
    Lanes *lanes;
    Comm *comm;
    Arena *arena;
    Gathered *out;
    const Program *program;
    int slot;       /* the kept step that is shown */
    double *offset; /* per process: when the shown step began there; on process 0 */
    float **start;  /* per request: when each rank started it, since the first rank's step began */
} Gather;

/* ---------------------------------------------------------------- floats as text */

static void put_item(char *text, const LaneItem *item) {
    static const char digit[] = "0123456789abcdef";
    float value[LANE_FLOATS];
    memcpy(value, item, sizeof value);
    for (int f = 0; f < LANE_FLOATS; f++) {
        uint32_t bits;
        memcpy(&bits, &value[f], sizeof bits);
        for (int d = 0; d < FLOAT_DIGITS; d++)
            *text++ = digit[bits >> (28 - 4 * d) & 15];
    }
}

static void take_item(const char *text, LaneItem *item) {
    float value[LANE_FLOATS];
    for (int f = 0; f < LANE_FLOATS; f++) {
        uint32_t bits = 0;
        for (int d = 0; d < FLOAT_DIGITS; d++, text++)
            bits = bits << 4 | (uint32_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
        memcpy(&value[f], &bits, sizeof bits);
    }
    memcpy(item, value, sizeof value);
}

/* ---------------------------------------------------------------- this process's */

/* Number of the role that a rank has. */
static int role_of(const Gather *g, int rank) {
    int role = 0;
    while (rank > g->program->roles.at[role].last_rank)
        role++;
    return role;
}

static int most_steps(const Gather *g) {
    int most = 0;
    for (int r = 0; r < g->program->roles.n; r++)
        most = g->program->roles.at[r].steps.n > most ? g->program->roles.at[r].steps.n : most;
    return most;
}

double lanes_mean(double sum, double most, int64_t n) {
    return n < 3 ? sum / (double)n : (sum - most) / (double)(n - 1);
}

/* The items of a driven rank, per step of its role. */
static LaneItem *own_items(const Gather *g, const Track *track) {
    const Cursor *cursor = &g->lanes->executor->cursors[track->driven];
    LaneItem *items = arena_alloc(g->arena, (size_t)(most_steps(g) + 1) * sizeof *items);
    for (int a = 0; a < cursor->actions.n; a++) {
        const Action *action = &cursor->actions.at[a];
        const Spent *spent = &track->spent[a];
        const Ran *ran = &track->ran[(size_t)g->slot * (size_t)cursor->actions.n + (size_t)a];
        if (spent->least > spent->most) continue;
        items[action->step] = (LaneItem){.nsteps = (float)(action->kind == ACTION_FUSED ? action->nsteps : 1),
                                         .mean = (float)lanes_mean(spent->sum, spent->most, g->lanes->measured),
                                         .least = (float)spent->least,
                                         .most = (float)spent->most,
                                         .begin = ran->begin,
                                         .end = ran->end,
                                         .comm_begin = ran->comm_begin,
                                         .comm_end = ran->comm_end};
    }
    return items;
}

/* Seconds of a step in which a rank computes. */
static double busy_of(const Lanes *lanes, const Track *track) {
    double busy = 0;
    const Cursor *cursor = &lanes->executor->cursors[track->driven];
    for (int a = 0; a < cursor->actions.n; a++)
        if (cursor->actions.at[a].kind != ACTION_WAIT) busy += track->spent[a].sum;
    return busy;
}

/* ---------------------------------------------------------------- which step, which ranks */

static int by_wall(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The kept step of median length on process 0. */
static int median_slot(const Lanes *lanes) {
    double wall[KEPT_STEPS];
    int slot = 0;
    for (int k = 0; k < lanes->nkept; k++)
        wall[k] = lanes->kept[k].wall;
    qsort(wall, (size_t)lanes->nkept, sizeof *wall, by_wall);
    while (slot + 1 < lanes->nkept && lanes->kept[slot].wall != wall[(lanes->nkept - 1) / 2])
        slot++;
    return slot;
}

static uint64_t as_word(double number) {
    uint64_t word;
    memcpy(&word, &number, sizeof word);
    return word;
}

static double of_word(uint64_t word) {
    double number;
    memcpy(&number, &word, sizeof number);
    return number;
}

static void choose(bool *chosen, int *n, int rank) {
    if (*n < MAX_LANES && !chosen[rank]) chosen[rank] = true, ++*n;
}

/* Chooses the ranks to show: the first, the one that computes longest, the one that computes shortest, and others up to MAX_LANES. */
static void choose_ranks(Gather *g, const double *busy, int nranks) {
    bool *chosen = arena_alloc(g->arena, (size_t)nranks);
    int n = 0, slowest = 0, fastest = 0;
    for (int r = 1; r < nranks; r++) {
        if (busy[r] > busy[slowest]) slowest = r;
        if (busy[r] < busy[fastest]) fastest = r;
    }
    choose(chosen, &n, 0);
    choose(chosen, &n, slowest);
    choose(chosen, &n, fastest);
    for (int k = 0; k < MAX_LANES; k++)
        choose(chosen, &n, (int)((int64_t)k * nranks / MAX_LANES));
    for (int r = 0; r < nranks; r++)
        choose(chosen, &n, r);
    for (int r = 0; r < nranks; r++)
        if (chosen[r]) g->out->lane[g->out->nlanes++] = (Lane){.rank = r, .process = r};
}

/* ---------------------------------------------------------------- figures, late ranks */

static Lane *lane_of(const Gather *g, int rank) {
    for (int l = 0; l < g->out->nlanes; l++)
        if (g->out->lane[l].rank == rank) return &g->out->lane[l];
    return NULL;
}

/* Takes up one step as a rank ran it. */
static void take(Gather *g, int rank, double offset, int number, const LaneItem *item) {
    const int role = role_of(g, rank);
    const Step *step = &g->program->roles.at[role].steps.at[number];
    LaneFigure *figure = &g->out->figure[role][number];
    Lane *lane = lane_of(g, rank);
    if (step->kind == STEP_START) g->start[step->request][rank] = item->nsteps > 0 ? (float)(offset + item->begin) : -1;
    if (lane) lane->item[number] = *item;
    if (item->nsteps == 0) return;
    if (figure->n == 0) *figure = (LaneFigure){.nsteps = (int)item->nsteps, .least = item->least, .most = item->most};
    figure->mean += (item->mean - figure->mean) / ++figure->n;
    if (item->least < figure->least) figure->least = item->least;
    if (item->most > figure->most) figure->most = item->most;
}

typedef struct Latest {
    const float *start; /* per rank */
    int rank;
    double at;
} Latest;

static bool look_at_piece(void *context, const Piece *piece) {
    Latest *latest = context;
    if (piece->from != latest->rank && latest->start[piece->from] > latest->at) latest->at = latest->start[piece->from];
    return true;
}

/* When the last of the ranks from which `rank` receives something in this request started it. */
static double last_start(const Gather *g, int request, int rank) {
    const Executor *executor = g->lanes->executor;
    const Prepared *prepared = &executor->prepared[request];
    Latest latest = {.start = g->start[request], .rank = rank, .at = -1};
    for (int i = 0; i < prepared->n; i++) {
        const Step *one = &prepared->first[i];
        const Instance *source = &prepared->role->instances.at[one->in[0]], *target = &prepared->role->instances.at[one->out[0]];
        Layout from = *source->layout, to = *target->layout;
        comm_layouts(one->comm, g->comm->nranks, &from, &to);
        pieces_received(&from, &to, &executor->plan->graph.values.at[source->value].type.shape, g->comm->nranks, rank, look_at_piece,
                        &latest);
    }
    return latest.at;
}

static void find_late(Gather *g) {
    for (int l = 0; l < g->out->nlanes; l++) {
        Lane *lane = &g->out->lane[l];
        const Role *role = &g->program->roles.at[lane->role];
        int shown = 0; /* ranks of this role */
        for (int k = 0; k < g->out->nlanes; k++)
            shown += g->out->lane[k].role == lane->role;
        for (int s = 0; s < role->steps.n; s++) {
            const LaneItem *item = &lane->item[s];
            if (role->steps.at[s].kind != STEP_WAIT || item->nsteps == 0 || item->begin < 0) continue;
            const double begin = lane->offset + item->begin, end = lane->offset + item->end;
            double last = last_start(g, role->steps.at[s].request, lane->rank);
            if (last > end) last = end;
            lane->late[s] = last > begin ? (float)(last - begin) : 0;
            g->out->figure[lane->role][s].late += lane->late[s] / shown;
        }
    }
}

/* ---------------------------------------------------------------- gathering */

static void take_own(Gather *g) {
    for (int t = 0; t < g->lanes->ntracks; t++) {
        const Track *track = &g->lanes->tracks[t];
        const LaneItem *items = own_items(g, track);
        const int rank = g->comm->first_driven + track->driven;
        for (int s = 0; s < g->program->roles.at[role_of(g, rank)].steps.n; s++)
            take(g, rank, g->offset[0], s, &items[s]);
    }
}

/* Takes up all steps of all ranks, where each process drives one. */
static bool take_all(Gather *g, Error *error) {
    Comm *comm = g->comm;
    const LaneItem *items = own_items(g, &g->lanes->tracks[0]);
    const int steps = most_steps(g);
    const int fit = GATHERED_BYTES / ITEM_DIGITS / comm->nprocesses, most = fit > 1 ? fit : 1, width = most * ITEM_DIGITS + 1;
    char *text = arena_alloc(g->arena, (size_t)width),
         *texts = comm->process == 0 ? arena_alloc(g->arena, (size_t)width * (size_t)comm->nprocesses) : NULL;
    for (int first = 0; first < steps; first += most) {
        const int left = steps - first, n = left < most ? left : most;
        for (int s = 0; s < n; s++)
            put_item(text + (size_t)s * ITEM_DIGITS, &items[first + s]);
        text[(size_t)n * ITEM_DIGITS] = '\0';
        if (!comm->table->gather_text(comm, text, width, texts, error)) return false;
        for (int s = 0; comm->process == 0 && s < n; s++)
            for (int p = 0; p < comm->nprocesses; p++) {
                LaneItem item;
                if (first + s >= g->program->roles.at[role_of(g, p)].steps.n) continue;
                take_item(texts + (size_t)p * (size_t)width + (size_t)s * ITEM_DIGITS, &item);
                take(g, p, g->offset[p], first + s, &item);
            }
    }
    return true;
}

/* Gathers when the shown step began on each process, relative to the earliest, on one clock. */
static bool gather_offsets(Gather *g, Error *error) {
    Comm *comm = g->comm;
    uint64_t *words = arena_alloc(g->arena, (size_t)comm->nprocesses * sizeof *words);
    double ahead = 0, first;
    g->offset = arena_alloc(g->arena, (size_t)comm->nprocesses * sizeof *g->offset);
    if (comm->nprocesses == 1) return true;
    if (!comm_clock(comm, &ahead, error)) return false;
    if (!comm->table->all_gather_words(comm, as_word(g->lanes->kept[g->slot].begin - ahead), words, error)) return false;
    first = of_word(words[0]);
    for (int p = 0; p < comm->nprocesses; p++)
        if (of_word(words[p]) < first) first = of_word(words[p]);
    for (int p = 0; p < comm->nprocesses; p++)
        g->offset[p] = of_word(words[p]) - first;
    return true;
}

static bool gather_ranks(Gather *g, Error *error) {
    Comm *comm = g->comm;
    const Lanes *lanes = g->lanes;
    if (comm->nprocesses == 1) { /* shows the ranks that have tracks */
        for (int t = 0; t < lanes->ntracks; t++)
            g->out->lane[g->out->nlanes++] = (Lane){.rank = comm->first_driven + lanes->tracks[t].driven};
        return true;
    }
    uint64_t *words = arena_alloc(g->arena, (size_t)comm->nprocesses * sizeof *words);
    double *busy = arena_alloc(g->arena, (size_t)comm->nprocesses * sizeof *busy);
    if (!comm->table->all_gather_words(comm, as_word(busy_of(lanes, &lanes->tracks[0])), words, error)) return false;
    for (int p = 0; p < comm->nprocesses; p++)
        busy[p] = of_word(words[p]);
    choose_ranks(g, busy, comm->nprocesses);
    return true;
}

static float *started_by_none(Arena *arena, int nranks) {
    float *start = arena_alloc(arena, (size_t)nranks * sizeof *start);
    for (int r = 0; r < nranks; r++)
        start[r] = -1;
    return start;
}

bool lanes_gather(Lanes *lanes, Comm *comm, Arena *arena, Gathered *gathered, Error *error) {
    Gather g = {.lanes = lanes, .comm = comm, .arena = arena, .out = gathered, .program = lanes->executor->program};
    const size_t nsteps = (size_t)most_steps(&g) + 1;
    *gathered = (Gathered){.measured = lanes->measured};
    if (lanes->nkept == 0) return true; /* no step was kept: the same on all */
    int64_t slot = median_slot(lanes);
    if (!comm->table->broadcast(comm, &slot, sizeof slot, error)) return false;
    g.slot = (int)slot;
    gathered->shown = lanes->kept[slot].global_step;
    gathered->figure = arena_alloc(arena, (size_t)g.program->roles.n * sizeof *gathered->figure);
    for (int r = 0; r < g.program->roles.n; r++)
        gathered->figure[r] = arena_alloc(arena, nsteps * sizeof **gathered->figure);
    if (!gather_offsets(&g, error) || !gather_ranks(&g, error)) return false;
    g.start = arena_alloc(arena, (size_t)(lanes->executor->nrequests + 1) * sizeof *g.start);
    for (int q = 0; q < lanes->executor->nrequests; q++)
        g.start[q] = started_by_none(arena, comm->nranks);
    for (int l = 0; l < gathered->nlanes; l++) {
        Lane *lane = &gathered->lane[l];
        lane->role = role_of(&g, lane->rank);
        lane->offset = g.offset[lane->process];
        lane->item = arena_alloc(arena, nsteps * sizeof *lane->item);
        lane->late = arena_alloc(arena, nsteps * sizeof *lane->late);
    }
    if (comm->nprocesses == 1)
        take_own(&g);
    else if (!take_all(&g, error))
        return false;
    if (comm->process == 0) find_late(&g);
    return true;
}
