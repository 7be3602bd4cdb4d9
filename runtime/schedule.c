/* schedule: what the learning rate is multiplied by, update by update. */
#include "runtime/schedule.h"

#include <math.h>

double schedule_rate(const Schedule *schedule, int64_t update, int64_t total) {
    const int64_t done = update - 1, warmup = schedule->warmup;
    if (done < warmup) return (double)done / (double)warmup;
    const double way = total > warmup ? fmin(1, (double)(done - warmup) / (double)(total - warmup)) : 1;
    switch (schedule->kind) {
    case SCHEDULE_LINEAR:
        return schedule->end + (1 - schedule->end) * (1 - way);
    case SCHEDULE_COSINE:
        return schedule->end + (1 - schedule->end) * 0.5 * (1 + cos(acos(-1) * way));
    case SCHEDULE_CONSTANT:
    case NSCHEDULES:
        break;
    }
    return 1;
}
