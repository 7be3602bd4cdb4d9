/* What the system grants, as its files say: a tree of them in a folder of the test's own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/limits.h"

static char root[] = "/tmp/pcc-test-limits-XXXXXX";

static void make_root(void) {
    cr_assert(mkdtemp(root));
}

static void remove_root(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        cr_assert(mkdir(path, 0777) == 0 || errno == EEXIST, "%s", path);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

TestSuite(limits, .init = make_root, .fini = remove_root);

static int online(void) {
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

Test(limits, without_groups_all_cores_count) {
    cr_assert_eq(limits_cores(root), online());
    cr_assert_eq(limits_memory(root), -1);
}

Test(limits, a_quota_of_version_2_counts_as_cores) {
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    cr_assert_eq(limits_cores(root), online());
    put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n"); /* of the group above */
    cr_assert_eq(limits_cores(root), 1);
    put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    cr_assert_eq(limits_cores(root), online() < 2 ? online() : 2, "rounded up");
}

Test(limits, a_quota_of_version_1_counts_as_cores) {
    put("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/x/y\n1:name=systemd:/x\n0::/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(limits_cores(root), online());
    put("/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "20000\n");
    cr_assert_eq(limits_cores(root), 1);
}

Test(limits, a_path_of_the_host_finds_the_container_s_group) {
    put("/proc/self/cgroup", "4:cpuacct:/docker/0123\n3:cpu:/docker/0123\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(limits_cores(root), 1);
}

Test(limits, memory_is_the_least_of_machine_and_groups) {
    put("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");
    cr_assert_eq(limits_memory(root), 4000 * 1024);
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "3000000\n");
    put("/sys/fs/cgroup/a/memory.current", "1000000\n");
    cr_assert_eq(limits_memory(root), 2000000);
    put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 500000\n"); /* can be taken back */
    cr_assert_eq(limits_memory(root), 2500000);
    put("/proc/self/cgroup", "4:memory:/a\n");
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    cr_assert_eq(limits_memory(root), 4000 * 1024);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
    cr_assert_eq(limits_memory(root), 0);
}

Test(limits, addresses_are_what_a_limit_leaves) {
    struct rlimit limit;
    cr_assert(getrlimit(RLIMIT_DATA, &limit) == 0);
    if (limit.rlim_cur == RLIM_INFINITY) {
        struct rlimit as;
        if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur == RLIM_INFINITY) cr_assert_eq(limits_addresses(), -1);
    }
    limit.rlim_cur = (rlim_t)1 << 46; /* above what sanitizers take for themselves */
    cr_assert(setrlimit(RLIMIT_DATA, &limit) == 0);
    int64_t left = limits_addresses();
    cr_assert(left > 0 && left < (int64_t)1 << 46, "%lld", (long long)left);
}
