#include "runtime/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/lanes_own.h"

enum { MEASURED_AT_FIRST = 16, MEASURED_EVERY = 16 };

static int nactions(const Lanes *lanes, const Track *track) {
    return lanes->executor->cursors[track->driven].actions.n;
}

static void track_init(Lanes *lanes, Track *track, int driven) {
    track->driven = driven;
    const size_t n = (size_t)nactions(lanes, track) + 1;
    track->begun = arena_alloc(&lanes->arena, n * sizeof *track->begun);
    track->now = arena_alloc(&lanes->arena, n * sizeof *track->now);
    track->spent = arena_alloc(&lanes->arena, n * sizeof *track->spent);
    track->ran = arena_alloc(&lanes->arena, n * KEPT_STEPS * sizeof *track->ran);
    for (size_t a = 0; a < n; a++)
        track->spent[a].least = 1e30;
}

Lanes *lanes_create(const Executor *executor, Error *error) {
    Lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    const int ndriven = executor->comm->ndriven;
    arena_init(&lanes->arena);
    lanes->executor = executor;
    lanes->stride = 1;
    lanes->ntracks = ndriven < MAX_LANES ? ndriven : MAX_LANES;
    lanes->tracks = arena_alloc(&lanes->arena, (size_t)lanes->ntracks * sizeof *lanes->tracks);
    lanes->track_of = arena_alloc(&lanes->arena, (size_t)ndriven * sizeof *lanes->track_of);
    memset(lanes->track_of, -1, (size_t)ndriven * sizeof *lanes->track_of);
    for (int t = 0; t < lanes->ntracks; t++) {
        const int driven = (int)((int64_t)t * ndriven / lanes->ntracks);
        lanes->track_of[driven] = t;
        track_init(lanes, &lanes->tracks[t], driven);
    }
    return lanes;
}

void lanes_destroy(Lanes *lanes) {
    if (!lanes) return;
    arena_finish(&lanes->arena);
    free(lanes);
}

/* ---------------------------------------------------------------- steps */

/* Drops every second kept step: those that stay are as far apart as those to come. */
static void thin_out(Lanes *lanes) {
    for (int k = 0; 2 * k < lanes->nkept; k++) {
        lanes->kept[k] = lanes->kept[2 * k];
        for (int t = 0; t < lanes->ntracks; t++) {
            const size_t n = (size_t)nactions(lanes, &lanes->tracks[t]);
            Ran *ran = lanes->tracks[t].ran;
            memmove(ran + (size_t)k * n, ran + 2 * (size_t)k * n, n * sizeof *ran);
        }
    }
    lanes->nkept = (lanes->nkept + 1) / 2;
    lanes->stride *= 2;
}

static bool keeps(const Lanes *lanes) {
    return lanes->measured % lanes->stride == 0;
}

bool lanes_begin(Lanes *lanes, int64_t nth, int64_t global_step) {
    lanes->on = !lanes->ended && nth > 0 && (nth <= MEASURED_AT_FIRST || nth % MEASURED_EVERY == 0);
    lanes->global_step = global_step;
    if (!lanes->on) return false;
    if (lanes->nkept == KEPT_STEPS) thin_out(lanes);
    for (int t = 0; t < lanes->ntracks; t++) {
        Track *track = &lanes->tracks[t];
        const int n = nactions(lanes, track);
        for (int a = 0; a < n; a++)
            track->now[a] = -1;
        for (int a = 0; a < n && keeps(lanes); a++)
            track->ran[(size_t)lanes->nkept * (size_t)n + (size_t)a] = (Ran){-1, -1, -1, -1};
    }
    return true;
}

bool lanes_pause(const Lanes *lanes, int64_t nth) {
    return !lanes->ended && nth == MEASURED_AT_FIRST + 1;
}

void lanes_end(Lanes *lanes) {
    lanes->ended = true;
}

/* With several driven ranks a wait begins more than once: it counts from the first time on, which includes time when other ranks run. */
void lanes_action(Lanes *lanes, int driven, int action, bool comm, const double at[2]) {
    if (!lanes->on || lanes->track_of[driven] < 0) return;
    Track *track = &lanes->tracks[lanes->track_of[driven]];
    Ran *ran = keeps(lanes) ? &track->ran[(size_t)lanes->nkept * (size_t)nactions(lanes, track) + (size_t)action] : NULL;
    if (ran && comm) ran->comm_begin = (float)at[0], ran->comm_end = (float)at[1];
    if (comm) return;
    if (ran && ran->begin < 0) ran->begin = (float)at[0];
    if (ran) ran->end = (float)at[1];
    if (track->now[action] < 0) track->begun[action] = at[0];
    track->now[action] = at[1] - track->begun[action];
}

/* Whether any action ran: a step of a program for shorter texts runs none of these. */
static bool ran_any(const Lanes *lanes) {
    for (int t = 0; t < lanes->ntracks; t++)
        for (int a = 0; a < nactions(lanes, &lanes->tracks[t]); a++)
            if (lanes->tracks[t].now[a] >= 0) return true;
    return false;
}

void lanes_done(Lanes *lanes, double begin, double wall) {
    if (!lanes->on) return;
    lanes->on = ran_any(lanes);
    if (!lanes->on) return;
    for (int t = 0; t < lanes->ntracks; t++)
        for (int a = 0; a < nactions(lanes, &lanes->tracks[t]); a++) {
            const double now = lanes->tracks[t].now[a];
            Spent *spent = &lanes->tracks[t].spent[a];
            if (now < 0) continue;
            spent->sum += now;
            if (now < spent->least) spent->least = now;
            if (now > spent->most) spent->most = now;
        }
    if (keeps(lanes)) {
        lanes->kept[lanes->nkept].global_step = lanes->global_step;
        lanes->kept[lanes->nkept].begin = begin;
        lanes->kept[lanes->nkept++].wall = wall;
    }
    lanes->measured++;
    lanes->on = false;
}
