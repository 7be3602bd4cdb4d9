/* schedule: the learning rate of each update. */
#pragma once
#include "ir/graph.h"

/* The factor of the optimizer's learning rate at an update (from 1); epoch: updates per epoch. As in Hugging Face's get_*_schedule_with_warmup, s is the number of
 * updates before this one. s < warmup: s / warmup; then, with p = (s - warmup) / (epoch * epochs - warmup), at most 1:
 *   constant      1
 *   linear        end + (1 - end) (1 - p)
 *   cosine        end + (1 - end) (1 + cos(pi p)) / 2
 *   polynomial    end + (1 - end) (1 - p)^power
 *   inverse_sqrt  sqrt(warmup / s); without a warmup 1 / sqrt(1 + s / 10000)
 *   step          gamma^(units before this update / every), rounded down: torch.optim.lr_scheduler.StepLR, called after each epoch or step
 *   multistep     gamma^(number of milestones <= the units before this update): MultiStepLR */
double schedule_rate(const Schedule *schedule, int64_t update, int64_t epoch, int64_t epochs);
