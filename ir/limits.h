/* limits: what the system grants this process. root: the folder of the system's files, "" except in tests. */
#pragma once
#include "ir/base.h"

/* Cores that the processes of this control group may use together: those online, at most the CPU quota, rounded up
 * (cgroup v2 cpu.max, v1 cpu.cfs_quota_us). */
int limits_cores(const char *root);
/* Cores that this process is bound to, for instance by a launcher. */
int limits_bound_cores(void);
/* Bytes of memory that are still available, -1: unknown. The minimum over the kernel and the control groups. */
int64_t limits_memory(const char *root);
/* Bytes of addresses that this process may still map (RLIMIT_AS, RLIMIT_DATA: ulimit -v, -d), -1: no limit. */
int64_t limits_addresses(void);
