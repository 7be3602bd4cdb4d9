/* schedule: the learning rate of each update. */
#pragma once
#include "ir/graph.h"

/* What the schedule multiplies the optimizer's learning rate by at an update (from 1) of `total`: Hugging Face's get_*_schedule_with_warmup, whose step
 * is the number of updates before this one, s = update - 1. s < warmup: s / warmup; then, with p = (s - warmup) / (total - warmup), at most 1:
 * constant 1, linear end + (1 - end) (1 - p), cosine end + (1 - end) (1 + cos(pi p)) / 2. */
double schedule_rate(const Schedule *schedule, int64_t update, int64_t total);
