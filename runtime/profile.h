/* profile: where the time of steps goes. On the CPU an action's time is what the clock says; on a device, points in time on its streams. */
#pragma once
#include "runtime/executor.h"

typedef struct Profile Profile;

/* Of an executor's steps. trace: whether the events of steps are kept for profile_write; lanes: what else is told of them, borrowed, or NULL. NULL and *error: out of memory. */
struct Lanes;
Profile *profile_create(Executor *executor, const Device *device, bool trace, struct Lanes *lanes, Error *error);
void profile_destroy(Profile *profile); /* takes NULL */

/* exec.c: a step begins; one action of a cursor begins and ends; what was queued has been done. A step that is replayed has no actions of
 * its own: its points in time are those of the step that was captured. */
struct Action;
struct Cursor;
bool profile_step(Profile *profile, bool replay, Error *error);
bool profile_begin(Profile *profile, const struct Cursor *cursor, const struct Action *action, Error *error);
bool profile_end(Profile *profile, Error *error);
bool profile_done(Profile *profile, Error *error);

/* Before the first step of a process that will ask for the table: what its device can do, and what has been taken of its memory. */
bool profile_measure(Profile *profile, Error *error);
bool profile_peaks(const Profile *profile, double *flops, double *bytes); /* what was measured there, a second; false: nothing was */
/* The table of --profile, of the first rank that this process drives. */
bool profile_report(Profile *profile, Text *text, Error *error);
/* --trace: the events of all ranks as Chrome's and Perfetto's JSON, into a file that process 0 writes, on one clock. Collective. */
bool profile_write(Profile *profile, Comm *comm, const char *path, Error *error);

/* ---------------------------------------------------------------- peak.c */

/* What the device does at most, measured with the backend's own kernels: flop/s of a large product of dtype, bytes/s read and written by neg.
 * Under a second. */
bool peak_measure(const Device *device, int nthreads, DType dtype, double *flops, double *bytes, Error *error);

/* What a rank's kernels do while all ranks of the job run the same: products of f32 and f64, a convolution and its two gradients, exp of f32 (by its FLOPs in the operator table), bytes read and written by a long neg, by an update with one slot, and by ever longer ones again and again, seconds of a neg of a few
 * numbers. Collective; about five seconds. */
enum { MAX_PEAK_CACHES = 3 };
typedef struct PeakCache {
    double bytes_per_s, bytes; /* of what it holds; the most that a neg reads and writes so fast, again and again */
} PeakCache;
/* A product takes its FLOPs, the bytes of its operands and its start, one after another. */
typedef struct ProductRates {
    double flops_per_s, bytes_per_s, start_s; /* bytes_per_s 0: operands take no time beside the FLOPs */
} ProductRates;
typedef struct RankPeaks {
    ProductRates product; /* f32 */
    double f64_flops, convolution_flops, vector_flops, bytes_per_s, update_bytes_per_s, kernel_s;
    PeakCache cache[MAX_PEAK_CACHES]; /* the nearest first */
    int ncaches;
} RankPeaks;
/* Of n ever longer passes the bytes and the rates, and the rate of memory: the caches, one at least, none faster than the one before. Rates that are nearly equal are of one. */
int find_caches(const double *bytes, const double *bytes_per_s, int n, double memory_bytes_per_s, PeakCache *cache);
/* Of n products of so many FLOPs and bytes that took so many seconds: the rates whose sums are nearest to these, as shares of them. */
ProductRates fit_products(const double *flops, const double *bytes, const double *seconds, int n);
bool peak_measure_ranks(const Device *device, int nthreads, Comm *comm, RankPeaks *peaks, Error *error);
