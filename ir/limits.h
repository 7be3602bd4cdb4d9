/* limits: what the system grants this process. root: where the system's files are, "" but in tests. */
#pragma once
#include "ir/base.h"

/* Cores of this machine that processes of this control group may use together: those that are online, at most what its CPU quota buys, rounded up
 * (cgroup v2 cpu.max, v1 cpu.cfs_quota_us). */
int limits_cores(const char *root);
/* Cores that this process is bound to: a launcher may have chosen some. */
int limits_bound_cores(void);
/* Bytes of memory that can still be had, -1: unknown. The least of what the kernel and the control groups say. */
int64_t limits_memory(const char *root);
/* Bytes of addresses that this process may still map (RLIMIT_AS, RLIMIT_DATA: ulimit -v, -d), -1: as many as it likes. */
int64_t limits_addresses(void);
