/* No two values alive at once overlap in an arena; in-place only where a kernel, or all members of a fused step, allow it. */
#include "proof/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Live {
    int64_t begin, end; /* bytes */
    int instance;
} Live;

typedef struct Event {
    int at, instance;
} Event;

static int by_time(const void *a, const void *b) {
    const Event *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->instance > y->instance) - (x->instance < y->instance);
}

/* First entry of the live ranges, sorted by begin, that ends after `begin`; ranges are disjoint. */
static int live_find(const Live *live, int n, int64_t begin) {
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (live[middle].end <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool memory_check(const Plan *plan, const Role *role, const int *defined, const int *last, const bool *in_place, char *why, size_t n) {
    int count = role->instances.n, nlive = 0, next_end = 0;
    Event *starts = malloc(((size_t)count + 1) * sizeof *starts), *ends = malloc(((size_t)count + 1) * sizeof *ends);
    Live *live = malloc(((size_t)count + 1) * sizeof *live);
    bool ok = starts && ends && live;
    if (!ok) snprintf(why, n, "out of memory in the proof");
    int narena = 0;
    for (int i = 0; ok && i < count; i++) {
        if (role->instances.at[i].place != PLACE_ARENA) continue;
        starts[narena] = (Event){.at = defined[i], .instance = i};
        ends[narena++] = (Event){.at = last[i], .instance = i};
    }
    if (ok) {
        qsort(starts, (size_t)narena, sizeof *starts, by_time);
        qsort(ends, (size_t)narena, sizeof *ends, by_time);
    }
    for (int s = 0; ok && s < narena; s++) {
        int i = starts[s].instance, step = starts[s].at;
        const Instance *instance = &role->instances.at[i];
        /* An instance last read by an earlier step is dead; one that this step reads is not, unless it is overwritten in place. */
        for (; next_end < narena && ends[next_end].at < step; next_end++) {
            int dead = live_find(live, nlive, role->instances.at[ends[next_end].instance].at);
            if (dead < nlive && live[dead].instance == ends[next_end].instance)
                memmove(live + dead, live + dead + 1, (size_t)(--nlive - dead) * sizeof *live);
        }
        const TensorType *type = &plan->graph.values.at[instance->value].type;
        int64_t bytes = own_max_elements(instance->layout, &type->shape) * dtype_bytes[type->dtype];
        if (bytes == 0) continue;
        Live range = {.begin = instance->at, .end = instance->at + bytes, .instance = i};
        if (range.begin < 0 || range.end > role->arena_bytes) {
            snprintf(why, n, "value %d (%s) lies outside the arena", i, plan->graph.values.at[instance->value].name);
            ok = false;
            break;
        }
        int at = live_find(live, nlive, range.begin);
        if (at < nlive && live[at].begin < range.end) {
            int other = live[at].instance;
            bool same = live[at].begin == range.begin && live[at].end == range.end;
            /* Allowed: an instance that dies in this step, or in the fused step that begins here, and is no result of it. */
            if (!(in_place[i] && same && defined[other] < step && last[other] == step + fused_length(role, step) - 1)) {
                snprintf(why, n, "step %d writes value %d (%s) over value %d (%s), which is read until step %d", step, i,
                         plan->graph.values.at[instance->value].name, other, plan->graph.values.at[role->instances.at[other].value].name,
                         last[other]);
                ok = false;
                break;
            }
            live[at] = range;
            continue;
        }
        memmove(live + at + 1, live + at, (size_t)(nlive - at) * sizeof *live);
        live[at] = range;
        nlive++;
    }
    free(starts);
    free(ends);
    free(live);
    return ok;
}
