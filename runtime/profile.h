/* profile: where the time of steps goes. On the CPU an action's time is measured by the clock; on a device, by points in time on its streams. */
#pragma once
#include "runtime/executor.h"

typedef struct Profile Profile;

/* Profiles an executor's steps. trace: whether their events are kept for profile_write; lanes: is told of them too, borrowed, or NULL. NULL and *error: out of memory. */
struct Lanes;
Profile *profile_create(Executor *executor, const Device *device, bool trace, struct Lanes *lanes, Error *error);
void profile_destroy(Profile *profile); /* takes NULL */

/* Called by exec.c: a step begins; an action of a cursor begins and ends; what was queued has been done. A replayed step has no actions of
 * its own: its points in time are those of the captured step. */
struct Action;
struct Cursor;
bool profile_step(Profile *profile, bool replay, Error *error);
bool profile_begin(Profile *profile, const struct Cursor *cursor, const struct Action *action, Error *error);
bool profile_end(Profile *profile, Error *error);
bool profile_done(Profile *profile, Error *error);

/* Before the first step, in a process that will ask for the table: measures what its device can do, and how much of its memory is taken. */
bool profile_measure(Profile *profile, Error *error);
bool profile_peaks(const Profile *profile, double *flops, double *bytes); /* what profile_measure has measured, a second; false: nothing */
/* The table of --profile, of the first rank that this process drives. */
bool profile_report(Profile *profile, Text *text, Error *error);
/* --trace: the events of all ranks as Chrome's and Perfetto's JSON, into a file that process 0 writes, on one clock. Collective. */
bool profile_write(Profile *profile, Comm *comm, const char *path, Error *error);

/* ---------------------------------------------------------------- peak.c */

/* The device's peaks, measured with the backend's own kernels: flop/s of a large product of dtype, bytes/s read and written by neg.
 * Takes under a second. */
bool peak_measure(const Device *device, int nthreads, DType dtype, double *flops, double *bytes, Error *error);

/* Rates of a rank's kernels while all ranks of the job run the same: products of f32 and f64, a convolution and its two gradients, exp of f32 (by its FLOPs in the operator table), bytes read and written by a long neg, by an update with one slot, and by repeated negs of growing length, seconds of a neg of a few
 * numbers. Collective; about five seconds. */
enum { MAX_PEAK_CACHES = 3 };
typedef struct PeakCache {
    double bytes_per_s, bytes; /* rate within the cache; the most bytes that a repeated neg reads and writes at it */
} PeakCache;
/* The time of a product is the sum of those for its FLOPs, the bytes of its operands and its start. */
typedef struct ProductRates {
    double flops_per_s, bytes_per_s, start_s; /* bytes_per_s 0: operands take no time beside the FLOPs */
} ProductRates;
typedef struct RankPeaks {
    ProductRates product; /* f32 */
    double f64_flops, convolution_flops, vector_flops, bytes_per_s, update_bytes_per_s, kernel_s;
    PeakCache cache[MAX_PEAK_CACHES]; /* the nearest first */
    int ncaches;
} RankPeaks;
/* Finds the caches from bytes and rates of n passes of growing length and the rate of memory: at least one, none faster than the one before. Nearly equal rates are one cache. */
int find_caches(const double *bytes, const double *bytes_per_s, int n, double memory_bytes_per_s, PeakCache *cache);
/* The rates that best predict the seconds of n products from their FLOPs and bytes, by relative error. */
ProductRates fit_products(const double *flops, const double *bytes, const double *seconds, int n);
bool peak_measure_ranks(const Device *device, int nthreads, Comm *comm, RankPeaks *peaks, Error *error);
