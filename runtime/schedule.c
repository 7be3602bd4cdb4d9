/* schedule: see schedule.h. */
#include "runtime/schedule.h"

#include <math.h>

static const double default_timescale = 10000; /* Transformers' default for an inverse square root without a warmup */

/* How often a learning rate has been multiplied by gamma. */
static int64_t steps_taken(const Schedule *schedule, int64_t units) {
    int64_t taken = 0;
    if (schedule->kind == SCHEDULE_STEP) return units / schedule->every;
    while (taken < schedule->nmilestones && schedule->milestone[taken] <= units)
        taken++;
    return taken;
}

double schedule_rate(const Schedule *schedule, int64_t update, int64_t epoch, int64_t epochs) {
    const int64_t done = update - 1, warmup = schedule->warmup, total = epoch * epochs;
    if (done < warmup) return (double)done / (double)warmup;
    const int64_t left = total > done ? total - done : 0;
    const double share = total > warmup ? (double)left / (double)(total - warmup) : 0; /* rounds as Transformers' schedules do */
    const double end = schedule->end;
    switch (schedule->kind) {
    case SCHEDULE_LINEAR:
        return end + (1 - end) * share;
    case SCHEDULE_COSINE:
        return end + (1 - end) * 0.5 * (1 + cos(acos(-1) * (1 - share)));
    case SCHEDULE_POLYNOMIAL:
        return end + (1 - end) * pow(share, schedule->power);
    case SCHEDULE_INVERSE_SQRT:
        return warmup > 0 ? 1 / sqrt((double)done / (double)warmup) : 1 / sqrt(((double)done + default_timescale) / default_timescale);
    case SCHEDULE_STEP:
    case SCHEDULE_MULTISTEP:
        return pow(schedule->gamma, (double)steps_taken(schedule, schedule->unit == PER_STEP || epoch < 1 ? done : done / epoch));
    case SCHEDULE_CONSTANT:
    case NSCHEDULES:
        break;
    }
    return 1;
}
