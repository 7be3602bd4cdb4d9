/* limits: what the system grants this process: cores, memory, addresses. System files are read below a root, so that tests can supply their own. */
#include "ir/limits.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* ---------------------------------------------------------------- control groups */

/* Reads the first number of FOLDER/NAME, and the second where there is one; a missing number ("max") leaves its variable unchanged. */
static void read_numbers(const char *folder, const char *name, double *first, double *second) {
    char path[PATH_BYTES + 64], line[128] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return;
    char *end = line;
    if (fgets(line, sizeof line, file)) {
        double number = strtod(line, &end);
        if (end != line) *first = number;
        if (end == line) end += strcspn(line, " \n");
        char *rest = end;
        number = strtod(rest, &end);
        if (second && end != rest) *second = number;
    }
    fclose(file);
}

/* The number after `word` at the beginning of a line of FOLDER/NAME, 0: there is none. */
static double read_entry(const char *folder, const char *name, const char *word) {
    char path[PATH_BYTES + 64], line[256];
    double value = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        size_t n = strlen(word);
        if (strncmp(line, word, n) == 0 && line[n] == ' ') value = strtod(line + n, NULL);
    }
    if (file) fclose(file);
    return value;
}

typedef void GroupFn(const char *folder, double *least);

static void keep_least(double value, double *least) {
    if (value < *least) *least = value;
}

static void cores_v2(const char *folder, double *least) {
    double quota = -1, period = 100000;
    read_numbers(folder, "cpu.max", &quota, &period);
    if (quota > 0 && period > 0) keep_least(quota / period, least);
}

static void cores_v1(const char *folder, double *least) {
    double quota = -1, period = -1;
    read_numbers(folder, "cpu.cfs_quota_us", &quota, NULL);
    read_numbers(folder, "cpu.cfs_period_us", &period, NULL);
    if (quota > 0 && period > 0) keep_least(quota / period, least);
}

/* Inactive page cache counts as available: the kernel can reclaim it. */
static void memory_v2(const char *folder, double *least) {
    double limit = -1, used = 0;
    read_numbers(folder, "memory.max", &limit, NULL);
    read_numbers(folder, "memory.current", &used, NULL);
    if (limit >= 0) keep_least(limit - used + read_entry(folder, "memory.stat", "inactive_file"), least);
}

static void memory_v1(const char *folder, double *least) {
    double limit = -1, used = 0;
    read_numbers(folder, "memory.limit_in_bytes", &limit, NULL);
    read_numbers(folder, "memory.usage_in_bytes", &used, NULL);
    if (limit >= 0) keep_least(limit - used + read_entry(folder, "memory.stat", "total_inactive_file"), least);
}

/* Calls fn for BASE/PATH and all groups above it. In a container the path may be the host's, of which only the last groups, or none, are visible. */
static void walk_up(const char *base, const char *path, GroupFn *fn, double *least) {
    char folder[PATH_BYTES];
    int n = snprintf(folder, sizeof folder, "%s%s", base, path);
    if (n < 0 || (size_t)n >= sizeof folder) return;
    for (size_t top = strlen(base);;) {
        fn(folder, least);
        char *slash = strrchr(folder + top, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

/* Lowers *least, the amount without any group, to the least that a group of this process grants. /proc/self/cgroup has a line "4:cpu,cpuacct:/path" for
 * version 1 controllers, mounted under their names, and "0::/path" for version 2. */
static void look_at_groups(const char *root, const char *controller, GroupFn *v1, GroupFn *v2, double *least) {
    char line[PATH_BYTES], base[PATH_BYTES];
    snprintf(base, sizeof base, "%s/proc/self/cgroup", root);
    FILE *file = fopen(base, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(++controllers, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        if (*controllers == '\0') {
            snprintf(base, sizeof base, "%.2048s/sys/fs/cgroup", root);
            walk_up(base, path, v2, least);
        } else if (has_word(controllers, controller)) {
            snprintf(base, sizeof base, "%.2048s/sys/fs/cgroup/%.256s", root, controllers);
            if (access(base, F_OK) != 0) snprintf(base, sizeof base, "%.2048s/sys/fs/cgroup/%s", root, controller);
            walk_up(base, path, v1, least);
        }
    }
    if (file) fclose(file);
}

int limits_cores(const char *root) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double cores = online > 0 ? (double)online : 1;
    look_at_groups(root, "cpu", cores_v1, cores_v2, &cores);
    int whole = (int)cores;
    return whole < cores ? whole + 1 : whole;
}

int limits_bound_cores(void) {
    char line[4096];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Cpus_allowed_list:", 18) != 0) continue;
        for (char *at = line + 18; *at && *at != '\n'; at += *at == ',') { /* "0-3,8,10-11" */
            char *end;
            long first = strtol(at, &end, 10), last = first;
            if (end == at) break;
            if (*end == '-') last = strtol(end + 1, &end, 10);
            count += (int)(last - first + 1);
            at = end;
        }
    }
    if (file) fclose(file);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? count : online > 0 ? (int)online : 1;
}

/* ---------------------------------------------------------------- memory */

static void keep_left(int resource, double used, int64_t *left) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    double rest = (double)limit.rlim_cur - used;
    if (rest < 0) rest = 0;
    if (*left < 0 || rest < (double)*left) *left = (int64_t)rest;
}

int64_t limits_addresses(void) {
    long long size = 0, data = 0, page = sysconf(_SC_PAGESIZE);
    int64_t left = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lld %*d %*d %*d %*d %lld", &size, &data) != 2) size = data = 0;
        fclose(file);
    }
    keep_left(RLIMIT_AS, (double)size * (double)page, &left);
    keep_left(RLIMIT_DATA, (double)data * (double)page, &left);
    return left;
}

int64_t limits_memory(const char *root) {
    char path[PATH_BYTES], line[256];
    const double unlimited = 1e18;
    double available = unlimited, kib;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1) available = kib * 1024;
    if (file) fclose(file);
    look_at_groups(root, "memory", memory_v1, memory_v2, &available);
    if (available < 0) available = 0;
    return available < unlimited ? (int64_t)available : -1;
}
