/* times: finds the choices that exceed the room at a time, and the times at which none can. */
#include "search/solve.h"

#include <string.h>

/* The least room of any span of times: least[k * ntimes + t] of the 2^k times from t on. */
typedef struct Spans {
    int64_t *least;
    int ntimes;
} Spans;

static Spans spans_of(const Core *core, Arena *arena) {
    int n = core->ntimes, levels = 1;
    while (1 << levels <= n)
        levels++;
    Spans spans = {arena_alloc(arena, (size_t)levels * (size_t)n * sizeof(int64_t)), n};
    if (n) memcpy(spans.least, core->room, (size_t)n * sizeof(int64_t));
    for (int k = 1; k < levels; k++)
        for (int t = 0; t + (1 << k) <= n; t++) {
            const int64_t *half = spans.least + (size_t)(k - 1) * (size_t)n + t;
            spans.least[(size_t)k * (size_t)n + (size_t)t] = half[0] < half[1 << (k - 1)] ? half[0] : half[1 << (k - 1)];
        }
    return spans;
}

static int64_t spans_least(const Spans *spans, int begin, int end) {
    int k = 0;
    while (2 << k <= end - begin)
        k++;
    int64_t a = spans->least[(size_t)k * (size_t)spans->ntimes + (size_t)begin],
            b = spans->least[(size_t)k * (size_t)spans->ntimes + (size_t)(end - (1 << k))];
    return a < b ? a : b;
}

/* Moves the least bytes of each spot from its choices to the room. */
static void take_least(Core *core, Arena *scratch, bool *changed) {
    int64_t *taken = arena_alloc(scratch, ((size_t)core->ntimes + 1) * sizeof *taken), held = 0;
    for (int v = 0; v < core->n; v++) {
        Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL) continue;
        int64_t least = spot->bytes[0], most = least;
        for (int i = 1; i < spot->n; i++) {
            if (spot->bytes[i] < least) least = spot->bytes[i];
            if (spot->bytes[i] > most) most = spot->bytes[i];
        }
        taken[spot->begin] += least, taken[spot->end] -= least;
        if (least == most) {
            spot->bytes = NULL;
            changed[v] = true;
        } else if (least > 0) {
            int64_t *bytes = arena_alloc(core->arena, (size_t)spot->n * sizeof *bytes);
            for (int i = 0; i < spot->n; i++)
                bytes[i] = spot->bytes[i] - least;
            spot->bytes = bytes;
        }
    }
    for (int time = 0; time < core->ntimes; time++) {
        held += taken[time];
        core->room[time] -= held;
        if (core->room[time] < 0) core->impossible = true;
    }
}

/* Removes the times that are marked. */
static void drop_times(Core *core, const bool *drop, Arena *scratch, bool *changed) {
    int *number = arena_alloc(scratch, ((size_t)core->ntimes + 1) * sizeof *number), n = 0;
    for (int time = 0; time < core->ntimes; time++) {
        number[time] = n;
        if (drop[time]) continue;
        core->time[n] = core->time[time];
        core->room[n++] = core->room[time];
    }
    number[core->ntimes] = n;
    core->ntimes = n;
    for (int v = 0; v < core->n; v++) {
        Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL) continue;
        spot->begin = number[spot->begin], spot->end = number[spot->end];
        if (spot->begin < spot->end) continue;
        spot->bytes = NULL;
        changed[v] = true;
    }
}

/* Removes times at which all choices fit, or whose spots the time after (forward), or before, has all too, with no more room. */
static void drop_idle(Core *core, bool forward, Arena *scratch, bool *changed) {
    int n = core->ntimes;
    int64_t *most = arena_alloc(scratch, ((size_t)n + 1) * sizeof *most), held = 0;
    bool *begins = arena_alloc(scratch, (size_t)n + 1), *ends = arena_alloc(scratch, (size_t)n + 1),
         *drop = arena_alloc(scratch, (size_t)n + 1);
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL) continue;
        int64_t high = 0;
        for (int i = 0; i < spot->n; i++)
            if (spot->bytes[i] > high) high = spot->bytes[i];
        most[spot->begin] += high, most[spot->end] -= high;
        begins[spot->begin] = ends[spot->end] = true;
    }
    for (int time = 0; time < n; time++) {
        held += most[time];
        drop[time] = held <= core->room[time];
        if (forward && time + 1 < n && !ends[time + 1] && core->room[time] >= core->room[time + 1]) drop[time] = true;
        if (!forward && time > 0 && !begins[time] && core->room[time] >= core->room[time - 1]) drop[time] = true;
    }
    drop_times(core, drop, scratch, changed);
}

/* Removes choices that do not fit even beside the least of all others. Returns whether there are any. */
static bool drop_choices(Core *core, Arena *scratch, bool *changed) {
    Spans spans = spans_of(core, scratch);
    bool any = false;
    for (int v = 0; v < core->n; v++) {
        const Spot *spot = &core->spot[v];
        if (spot->gone || spot->bytes == NULL) continue;
        int64_t room = spans_least(&spans, spot->begin, spot->end);
        int *kept = arena_alloc(scratch, (size_t)spot->n * sizeof *kept), n = 0;
        for (int i = 0; i < spot->n; i++)
            if (spot->bytes[i] <= room) kept[n++] = i;
        if (n == spot->n) continue;
        core_keep(core, v, kept, n);
        for (int i = 0; i < spot->links.n; i++)
            changed[spot->links.at[i].to] = true;
        any = changed[v] = true;
    }
    return any;
}

void core_times(Core *core, bool *changed) {
    if (core->ntimes == 0) return;
    Arena scratch;
    arena_init(&scratch);
    *core->tables->work += core->n + 8 * (int64_t)core->ntimes;
    do
        take_least(core, &scratch, changed);
    while (!core->impossible && drop_choices(core, &scratch, changed));
    if (!core->impossible) {
        drop_idle(core, true, &scratch, changed);
        drop_idle(core, false, &scratch, changed);
    }
    arena_finish(&scratch);
}
