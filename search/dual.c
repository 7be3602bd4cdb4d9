/* dual: a lower bound by sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006), with a price of memory at each time (a Lagrangean relaxation of the limit).
 *
 * A message of a link is a vector of seconds that one end takes over from the other. Whatever the messages and prices, the bound holds; passes make it better. Prices move
 * by the sign of what is over the room (Rprop, Riedmiller and Braun 1993). */
#include "search/solve.h"

#include <math.h>
#include <string.h>

typedef struct DualLink {
    int to;           /* place */
    const double *at; /* [mine, theirs] */
    double *in, *out; /* messages to this spot and from it */
} DualLink;

struct DualSpot {
    int v, n, nbefore, nlinks; /* links to spots before it come first */
    DualLink *link;
    const double *cost;
    const int *origin;
    double share; /* of its costs for each of the chains through it */
};

Dual *dual_create(const Core *core, Arena *arena) {
    Dual *d = arena_alloc(arena, sizeof *d);
    *d = (Dual){.core = core, .arena = arena};
    d->place = arena_alloc(arena, (size_t)core->n * sizeof *d->place);
    d->choice = arena_alloc(arena, (size_t)core->n * sizeof *d->choice);
    for (int v = 0; v < core->n; v++)
        if (!core->spot[v].gone) d->place[v] = d->n++;
    d->number = arena_alloc(arena, (size_t)(d->n + 1) * sizeof *d->number);
    d->spot = arena_alloc(arena, (size_t)d->n * sizeof *d->spot);
    int most = 1;
    for (int v = 0; v < core->n; v++) {
        const Spot *from = &core->spot[v];
        if (from->gone) continue;
        DualSpot *spot = &d->spot[d->place[v]];
        *spot = (DualSpot){.v = v,
                           .n = from->n,
                           .nlinks = from->links.n,
                           .cost = from->cost->at,
                           .origin = from->origin,
                           .link = arena_alloc(arena, (size_t)from->links.n * sizeof(DualLink))};
        if (from->n > most) most = from->n;
        d->entries += from->n;
        for (int before = 1, k = 0; before >= 0; before--)
            for (int i = 0; i < from->links.n; i++) {
                const Link *link = &from->links.at[i];
                if ((link->to < v) != before) continue;
                DualLink *to = &spot->link[k++];
                *to = (DualLink){.to = d->place[link->to], .at = link->table->at};
                to->in = arena_alloc(arena, (size_t)from->n * sizeof *to->in);
                spot->nbefore += before;
                d->entries += (int64_t)CELLS(link->table);
                if (!before) continue;
                DualSpot *other = &d->spot[to->to]; /* complete: it stands before */
                for (int j = other->nbefore; j < other->nlinks; j++)
                    if (other->link[j].to == d->place[v]) other->link[j].out = to->in, to->out = other->link[j].in;
            }
        int after = spot->nlinks - spot->nbefore, chains = after > spot->nbefore ? after : spot->nbefore;
        spot->share = chains ? 1.0 / chains : 1;
    }
    size_t ntimes = (size_t)core->ntimes;
    d->entries += core->n + core->ntimes;
    d->ntimes = core->ntimes;
    d->time = arena_alloc(arena, ntimes * sizeof *d->time);
    if (ntimes) memcpy(d->time, core->time, ntimes * sizeof *d->time);
    d->price = arena_alloc(arena, ntimes * sizeof *d->price);
    d->best_price = arena_alloc(arena, ntimes * sizeof *d->best_price);
    d->step = arena_alloc(arena, ntimes * sizeof *d->step);
    d->sign = arena_alloc(arena, ntimes);
    d->used = arena_alloc(arena, (ntimes + 1) * sizeof *d->used);
    d->price_from = arena_alloc(arena, (ntimes + 1) * sizeof *d->price_from);
    d->sum = arena_alloc(arena, (size_t)most * sizeof *d->sum);
    d->part = arena_alloc(arena, (size_t)most * sizeof *d->part);
    d->bound = -INFINITY;
    return d;
}

/* Sets d->sum: what each choice of a spot costs, with its bytes at their prices and all messages to the spot. */
static void spot_sum(const Dual *d, const DualSpot *spot) {
    const Spot *from = &d->core->spot[spot->v];
    for (int c = 0; c < spot->n; c++)
        d->sum[c] = spot->cost[c];
    if (from->bytes) {
        double price = d->price_from[from->end] - d->price_from[from->begin];
        for (int c = 0; c < spot->n; c++)
            d->sum[c] += price * (double)from->bytes[c];
    }
    for (int k = 0; k < spot->nlinks; k++)
        for (int c = 0; c < spot->n; c++)
            d->sum[c] += spot->link[k].in[c];
}

static double take_least(double *at, int n) {
    double least = at[0];
    for (int i = 1; i < n; i++)
        if (at[i] < least) least = at[i];
    for (int i = 0; i < n; i++)
        at[i] -= least;
    return least;
}

/* Sends the message of a link. Returns the seconds that it adds to the bound. */
static double send(const Dual *d, const DualSpot *spot, const DualLink *link) {
    int m = d->spot[link->to].n;
    double *out = link->out;
    for (int j = 0; j < m; j++)
        out[j] = INFINITY;
    for (int c = 0; c < spot->n; c++) {
        double base = spot->share * d->sum[c] - link->in[c];
        const double *row = link->at + (size_t)c * (size_t)m;
        for (int j = 0; j < m; j++) {
            double cost = base + row[j];
            out[j] = cost < out[j] ? cost : out[j];
        }
    }
    return take_least(out, m);
}

/* Goes from the first spot to the last. Each chooses by what those before it have chosen and by the messages of those after it. */
static void pass_forward(Dual *d) {
    for (int i = 0; i < d->n; i++) {
        DualSpot *spot = &d->spot[i];
        spot_sum(d, spot);
        memcpy(d->part, d->sum, (size_t)spot->n * sizeof *d->part);
        for (int k = 0; k < spot->nbefore; k++) {
            const DualLink *link = &spot->link[k];
            int m = d->spot[link->to].n, chosen = d->choice[d->spot[link->to].v];
            for (int c = 0; c < spot->n; c++)
                d->part[c] += link->at[c * m + chosen] - link->in[c];
        }
        int least = 0;
        for (int c = 1; c < spot->n; c++)
            if (d->part[c] < d->part[least]) least = c;
        d->choice[spot->v] = least;
        for (int k = spot->nbefore; k < spot->nlinks; k++)
            send(d, spot, &spot->link[k]);
    }
}

/* Goes from the last spot to the first. Returns the bound of the costs with prices. regret, per choice of each spot of the core: by how
 * much the bound is higher when that choice is forced; NULL: not asked for. */
static double pass_backward(Dual *d, double *const *regret) {
    double bound = 0;
    for (int i = d->n - 1; i >= 0; i--) {
        DualSpot *spot = &d->spot[i];
        spot_sum(d, spot);
        bound += take_least(d->sum, spot->n);
        if (regret) memcpy(regret[spot->v], d->sum, (size_t)spot->n * sizeof *d->sum);
        for (int k = 0; k < spot->nbefore; k++)
            bound += send(d, spot, &spot->link[k]);
    }
    return bound;
}

static void prices_sum(Dual *d) {
    for (int time = 0; time < d->core->ntimes; time++)
        d->price_from[time + 1] = d->price_from[time] + d->price[time];
}

static double room_paid(const Dual *d) {
    double paid = 0;
    for (int time = 0; time < d->core->ntimes; time++)
        paid += d->price[time] * (double)d->core->room[time];
    return paid;
}

int64_t core_over(const Core *core, const int *choice, int64_t *used) {
    int64_t held = 0, over = 0;
    memset(used, 0, ((size_t)core->ntimes + 1) * sizeof *used);
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL) continue;
        used[spot->begin] += spot->bytes[choice[v]];
        used[spot->end] -= spot->bytes[choice[v]];
    }
    for (int time = 0; time < core->ntimes; time++) {
        used[time] = held += used[time];
        if (held - core->room[time] > over) over = held - core->room[time];
    }
    return over;
}

static void prices_move(Dual *d) {
    for (int time = 0; time < d->core->ntimes; time++) {
        int64_t over = d->used[time] - d->core->room[time];
        int8_t sign = (int8_t)((over > 0) - (over < 0));
        if (sign < 0 && d->price[time] == 0) sign = 0;
        if (d->step[time] == 0) {
            if (sign <= 0) continue;
            d->step[time] = d->first_step;
        } else if (sign * d->sign[time] > 0) {
            d->step[time] *= 1.2;
        } else if (sign * d->sign[time] < 0) {
            d->step[time] *= 0.5;
        }
        d->sign[time] = sign;
        d->price[time] += sign * d->step[time];
        if (d->price[time] < 0) d->price[time] = 0;
    }
}

/* The sum over all spots of the largest finite cost of the spot and of its links to later ones. */
static double cost_spread(const Dual *d) {
    double spread = 0;
    for (int i = 0; i < d->n; i++) {
        const DualSpot *spot = &d->spot[i];
        double most = 0;
        for (int c = 0; c < spot->n; c++)
            if (spot->cost[c] > most && spot->cost[c] < INFINITY) most = spot->cost[c];
        for (int k = spot->nbefore; k < spot->nlinks; k++)
            for (int c = 0; c < spot->n * d->spot[spot->link[k].to].n; c++)
                if (spot->link[k].at[c] > most && spot->link[k].at[c] < INFINITY) most = spot->link[k].at[c];
        spread += most;
    }
    return spread + 1e-300;
}

static double most_room(const Core *core) {
    int64_t room = 1;
    for (int time = 0; time < core->ntimes; time++)
        if (core->room[time] > room) room = core->room[time];
    return (double)room;
}

void dual_pass(Dual *d) {
    const Core *core = d->core;
    prices_sum(d);
    pass_forward(d);
    *core->tables->work += 2 * d->entries;
    double bound = core->constant + pass_backward(d, NULL) - room_paid(d);
    d->cost = core_cost(core, d->choice);
    d->over = core_over(core, d->choice, d->used);
    if (bound > d->bound) {
        d->bound = bound;
        if (core->ntimes) memcpy(d->best_price, d->price, (size_t)core->ntimes * sizeof *d->price);
    }
    if (d->first_step == 0 && core->ntimes) d->first_step = 1e-3 * (bound > 0 ? bound : cost_spread(d)) / most_room(core);
    prices_move(d);
}

double dual_regret(Dual *d, double *const *regret) {
    const Core *core = d->core;
    if (core->ntimes) memcpy(d->price, d->best_price, (size_t)core->ntimes * sizeof *d->price);
    prices_sum(d);
    *core->tables->work += 4 * d->entries;
    pass_forward(d);
    double bound = core->constant + pass_backward(d, NULL) - room_paid(d);
    pass_forward(d);
    pass_backward(d, regret); /* with the same prices no pass makes the bound worse */
    if (bound > d->bound) d->bound = bound;
    return bound;
}

/* The place of a variable in a dual, whose spots are in ascending order of their variables; -1: it has none. */
static int find_variable(const Dual *d, int variable) {
    int low = 0, high = d->n - 1;
    while (low <= high) {
        int middle = (low + high) / 2, at = d->core->spot[d->spot[middle].v].variable;
        if (at == variable) return middle;
        if (at < variable)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

static void warm_link(double *to, const DualSpot *spot, const double *from, const DualSpot *old) {
    for (int c = 0, i = 0; c < spot->n; c++) { /* choices that are left keep their order */
        while (i + 1 < old->n && old->origin[i] != spot->origin[c])
            i++;
        to[c] = from[i];
    }
}

void dual_warm(Dual *d, const Dual *from) {
    int *place = arena_alloc(d->arena, (size_t)(d->n + 1) * sizeof *place);
    for (int i = 0; i < d->n; i++)
        place[i] = find_variable(from, d->core->spot[d->spot[i].v].variable);
    for (int i = 0; i < d->n; i++) {
        const DualSpot *spot = &d->spot[i], *old = place[i] >= 0 ? &from->spot[place[i]] : NULL;
        if (old == NULL) continue;
        for (int k = 0; k < old->nlinks; k++)
            from->number[old->link[k].to] = k + 1;
        for (int k = 0; k < spot->nlinks; k++) {
            int there = place[spot->link[k].to];
            if (there >= 0 && from->number[there]) warm_link(spot->link[k].in, spot, old->link[from->number[there] - 1].in, old);
        }
        for (int k = 0; k < old->nlinks; k++)
            from->number[old->link[k].to] = 0;
    }
    for (int time = 0, old = 0; time < d->core->ntimes; time++) {
        while (old < from->ntimes && from->time[old] < d->core->time[time])
            old++;
        if (old == from->ntimes || from->time[old] != d->core->time[time]) continue;
        d->price[time] = d->best_price[time] = from->best_price[old];
        d->step[time] = from->step[old] / 4;
    }
    d->first_step = from->first_step;
}
