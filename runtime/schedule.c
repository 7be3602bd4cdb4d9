/* schedule: what the learning rate is multiplied by, update by update. */
#include "runtime/schedule.h"

#include <math.h>

double schedule_rate(const Schedule *schedule, int64_t update, int64_t total) {
    const int64_t done = update - 1, warmup = schedule->warmup;
    if (done < warmup) return (double)done / (double)warmup;
    const int64_t left = total > done ? total - done : 0;
    const double share = total > warmup ? (double)left / (double)(total - warmup) : 0; /* rounded as Transformers' schedules are */
    switch (schedule->kind) {
    case SCHEDULE_LINEAR:
        return schedule->end + (1 - schedule->end) * share;
    case SCHEDULE_COSINE:
        return schedule->end + (1 - schedule->end) * 0.5 * (1 + cos(acos(-1) * (1 - share)));
    case SCHEDULE_CONSTANT:
    case NSCHEDULES:
        break;
    }
    return 1;
}
