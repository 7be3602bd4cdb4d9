#include <criterion/criterion.h>
#include <string.h>

#include "strategies/strategies.h"

static bool read(const char *text, Arena *arena, Machine *machine, Text *said) {
    Diags diags;
    diags_init(&diags, arena);
    bool good = machine_read(machine, arena, &diags, "m.machine", text, strlen(text));
    cr_assert_eq(good, diags.nerrors == 0);
    for (int i = 0; said && i < diags.items.n; i++)
        text_printf(said, "%d:%d: %s\n", diags.items.at[i].span.line, diags.items.at[i].span.column, diags.items.at[i].text);
    return good;
}

static void expect_error(const char *text, const char *place_and_message) {
    Machine machine;
    Text said = {0};
    Arena arena;
    arena_init(&arena);
    cr_assert_not(read(text, &arena, &machine, &said), "%s", text);
    cr_expect(strstr(said.at, place_and_message) != NULL, "no '%s' in\n%s", place_and_message, said.at);
    text_finish(&said);
    arena_finish(&arena);
}

Test(machine, files_are_read) {
    Machine m;
    Arena arena;
    arena_init(&arena);
    cr_assert(read(
        "pcc-machine 1\n# made by hand\n\nnode 3e-05 s 1e+09 B/s\nrank 2e-06 s 8e+09 B/s # shared memory\nranks_per_node 4\nname my-cpu_2\n",
        &arena, &m, NULL));
    cr_expect_str_eq(m.name, "my-cpu_2");
    cr_expect_eq(m.ranks_per_node, 4);
    cr_expect(m.rank.latency_s == 2e-6 && m.rank.bytes_per_s == 8e9 && m.node.latency_s == 3e-5 && m.node.bytes_per_s == 1e9);
    arena_finish(&arena);
}

#define OLD "pcc-machine 1\nname old\nranks_per_node 4\nrank 1e-06 s 5e+09 B/s\nnode 1e-05 s 2e+09 B/s\n"

Test(machine, figures_of_kernels_that_a_file_leaves_out_are_the_defaults) {
    Machine m;
    Arena arena;
    arena_init(&arena);
    cr_assert(read(OLD, &arena, &m, NULL));
    cr_expect(m.assumed && m.ranks_per_node == 4);
    for (int p = 0; p < NPEAKS; p++)
        cr_expect_eq(m.flops[p], machine_cpu.flops[p]);
    cr_expect(m.memory_bytes_per_s == machine_cpu.memory_bytes_per_s && m.memory_bytes == machine_cpu.memory_bytes &&
              m.kernel_s == machine_cpu.kernel_s);
    cr_assert(read(OLD "f64 3e10 FLOP/s\nmemory 5e9 B/s 64e9 B\nkernel 2e-6 s\n", &arena, &m, NULL));
    cr_expect(m.assumed && m.flops[PEAK_F64] == 3e10 && m.flops[PEAK_F32] == machine_cpu.flops[PEAK_F32]);
    cr_expect(m.memory_bytes_per_s == 5e9 && m.memory_bytes == INT64_C(64000000000) && m.kernel_s == 2e-6);
    cr_assert(read(
        OLD
        "f64 3e10 FLOP/s\nmemory 5e9 B/s 64e9 B\nkernel 2e-6 s\nf32 6e10 FLOP/s\nf16 1e11 FLOP/s\nbf16 2e11 FLOP/s\nvector 4e9 FLOP/s\ncache 2e10 B/s 5e5 B\noverlap 0.25\n",
        &arena, &m, NULL));
    cr_expect(!m.assumed && m.flops[PEAK_BF16] == 2e11 && m.flops[PEAK_F16] == 1e11 && m.flops[PEAK_VECTOR] == 4e9 && m.overlap == 0.25 &&
              m.ncaches == 1 && m.cache[0].bytes_per_s == 2e10 && m.cache[0].bytes == 500000);
    arena_finish(&arena);
}

/* Lines that may be left out: products then take nothing beside their arithmetic, updates move their bytes as other kernels do, and messages come from a cache as from memory. */
Test(machine, rates_of_products_and_updates_are_read_where_they_are_given) {
    Machine m, again;
    Arena arena;
    Text text = {0};
    arena_init(&arena);
    cr_assert(read(OLD, &arena, &m, NULL));
    cr_expect(m.convolution_flops == 0 && m.product.bytes_per_s == 0 && m.update_bytes_per_s == 0 && m.rank_cached_bytes_per_s == 0);
    cr_assert(
        read(OLD "product 2.5e-6 s 1.5e10 B/s\nupdate 2.5e10 B/s\nrank_cached 3.5e10 B/s\nconvolution 5e10 FLOP/s\n", &arena, &m, NULL));
    cr_expect(m.convolution_flops == 5e10 && m.product.latency_s == 2.5e-6 && m.product.bytes_per_s == 1.5e10 &&
              m.update_bytes_per_s == 2.5e10 && m.rank_cached_bytes_per_s == 3.5e10 && m.assumed);
    machine_print(&text, &m);
    cr_assert(read(text.at, &arena, &again, NULL), "%s", text.at);
    cr_expect(again.convolution_flops == 5e10 && again.product.latency_s == 2.5e-6 && again.product.bytes_per_s == 1.5e10 &&
              again.update_bytes_per_s == 2.5e10 && again.rank_cached_bytes_per_s == 3.5e10 && !again.assumed);
    expect_error(OLD "convolution 5e10 B/s\n", "6:18: expected the unit 'FLOP/s', not 'B/s'");
    expect_error(OLD "product 2.5e-6 s 1.5e10 FLOP/s\n", "6:25: expected the unit 'B/s', not 'FLOP/s'");
    expect_error(OLD "product 1.5e10 B/s\n", "6:16: expected a line such as 'product 2e-06 s 1.4e+10 B/s'");
    expect_error(OLD "update 1.5e10\n", "6:8: expected a line such as 'update 1.5e+10 B/s'");
    text_finish(&text);
    arena_finish(&arena);
}

Test(machine, caches_come_from_the_nearest_to_the_farthest) {
    Machine m, again;
    Arena arena;
    Text text = {0};
    arena_init(&arena);
    cr_assert(read(OLD "cache 9e10 B/s 1e6 B\ncache 5e10 B/s 8e6 B\ncache 5e10 B/s 3e7 B\n", &arena, &m, NULL));
    cr_expect(m.ncaches == 3 && m.cache[1].bytes_per_s == 5e10 && m.cache[1].bytes == 8000000 && m.cache[2].bytes == 30000000);
    machine_print(&text, &m);
    cr_assert(read(text.at, &arena, &again, NULL), "%s", text.at);
    cr_expect(again.ncaches == 3 && memcmp(again.cache, m.cache, sizeof m.cache) == 0);
    static const double bytes[] = {1e6, 1e6 + 1, 3e7, 4e7};
    static const int cache[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        cr_expect_eq(machine_cache(&m, bytes[i]), cache[i], "%g bytes: %d", bytes[i], machine_cache(&m, bytes[i]));
    expect_error(OLD "cache 9e10 B/s 1e6 B\ncache 5e10 B/s 1e6 B\n",
                 "7:16: expected a cache that is larger than the one before it, and not faster");
    expect_error(OLD "cache 9e10 B/s 1e6 B\ncache 9.1e10 B/s 2e6 B\n", "7:7: expected a cache that is larger");
    expect_error(OLD "cache 9 B/s 1 B\ncache 9 B/s 2 B\ncache 9 B/s 3 B\ncache 9 B/s 4 B\n", "9:1: at most 3 caches");
    text_finish(&text);
    arena_finish(&arena);
}

Test(machine, a_file_says_on_which_devices_ranks_compute) {
    Machine m;
    Arena arena;
    Text text = {0};
    arena_init(&arena);
    cr_assert(read(OLD, &arena, &m, NULL) && !m.cuda);
    cr_assert(read(OLD "device cpu\n", &arena, &m, NULL) && !m.cuda);
    cr_assert(read(OLD "device cuda\n", &arena, &m, NULL) && m.cuda);
    machine_print(&text, &m);
    cr_assert(read(text.at, &arena, &m, NULL) && m.cuda, "%s", text.at);
    expect_error(OLD "device gpu\n", "6:8: expected cpu or cuda");
    text_finish(&text);
    arena_finish(&arena);
}

Test(machine, what_is_printed_is_read_back) {
    const Machine *const built_in[] = {&machine_cpu, &machine_gpu8};
    for (int i = 0; i < 2; i++) {
        Text text = {0}, again = {0};
        machine_print(&text, built_in[i]);
        Machine m;
        Arena arena;
        arena_init(&arena);
        cr_assert(read(text.at, &arena, &m, NULL), "%s", text.at);
        machine_print(&again, &m);
        cr_expect_str_eq(text.at, again.at);
        cr_expect_eq(machine_named(m.name), built_in[i]);
        text_finish(&text);
        text_finish(&again);
        arena_finish(&arena);
    }
    cr_expect_null(machine_named("abacus"));
}

Test(machine, the_default_prints_as_documented) {
    Text text = {0};
    machine_print(&text, &machine_cpu);
    cr_expect_str_eq(
        text.at,
        "pcc-machine 1\nname cpu\nranks_per_node 8\nrank 2e-06 s 8e+09 B/s\nnode 3e-05 s 1e+09 B/s\nf32 8e+10 FLOP/s\nf64 4e+10 FLOP/s\n"
        "f16 8e+10 FLOP/s\nbf16 8e+10 FLOP/s\nvector 1e+10 FLOP/s\nmemory 1e+10 B/s 8.59e+09 B\ncache 4e+10 B/s 1.049e+06 B\nkernel 1e-06 s\noverlap 0\n");
    text_finish(&text);
}

Test(machine, mistakes_are_diagnostics_at_their_place) {
    const char *const rest = "ranks_per_node 8\nrank 2e-06 s 8e+09 B/s\nnode 3e-05 s 1e+09 B/s\n";
    char text[512];
    expect_error("", "1:1: a machine file begins with the line 'pcc-machine 1'");
    expect_error("pcc-machine 2\n", "1:1: a machine file begins with");
    expect_error("pcc-machine 1\nname cpu\n", "there is no line 'ranks_per_node 8'");
#define EXPECT(line, message) (snprintf(text, sizeof text, "pcc-machine 1\n%s%s", line, rest), expect_error(text, message))
    EXPECT("nmae cpu\n", "2:1: unknown key 'nmae'");
    EXPECT("nmae cpu\n", "did you mean 'name'?");
    EXPECT("name cpu\nname cpu\n", "3:1: 'name' is given twice");
    EXPECT("name a cpu\n", "2:8: expected a line such as 'name cpu'");
    EXPECT("name c|u\n", "2:6: a name has letters");
    EXPECT("name\n", "2:1: expected a line such as");
    EXPECT("name cpu\nranks_per_node 0\n", "3:16: expected the number of ranks of a node");
    EXPECT("name cpu\nranks_per_node 8x\n", "3:16: expected the number of ranks of a node");
    EXPECT("name cpu\nrank -2e-06 s 8e+09 B/s\n", "3:6: expected a positive number");
    EXPECT("name cpu\nrank inf s 8e+09 B/s\n", "3:6: expected a positive number");
    EXPECT("name cpu\nrank 2e-06 us 8e+09 B/s\n", "3:12: expected the unit 's', not 'us'");
    EXPECT("name cpu\nrank 2e-06 s 8e+09 GB/s\n", "3:20: expected the unit 'B/s', not 'GB/s'");
    EXPECT("name cpu\nf32 80 GFLOP/s\n", "3:8: expected the unit 'FLOP/s', not 'GFLOP/s'");
    EXPECT("name cpu\nf32 8e10\n", "3:5: expected a line such as 'f32 8e+10 FLOP/s'");
    EXPECT("name cpu\nbf16 0 FLOP/s\n", "3:6: expected a positive number");
    EXPECT("name cpu\nmemory 1e10 B/s 80 GiB\n", "3:20: expected the unit 'B', not 'GiB'");
    EXPECT("name cpu\nkernel 1e-6 s\nkernel 1e-6 s\n", "4:1: 'kernel' is given twice");
    EXPECT("name cpu\ncache 1e10 B/s\n", "3:12: expected a line such as 'cache 4e+10 B/s 1e+06 B'");
    EXPECT("name cpu\noverlap 1.5\n", "3:9: expected the share of a communication");
    EXPECT("name cpu\noverlap 0x1\n", "3:9: expected the share of a communication");
    EXPECT("name cpu\nrank 1e308 s 8e+09 B/s\n", "3:6: 1e308 s: expected from 1e-12 to 1000 s");
    EXPECT("name cpu\nrank 2e-06 s 1e-30 B/s\n", "3:14: 1e-30 B/s: expected from 1 to 1e+18 B/s");
    EXPECT("name cpu\nf32 1e308 FLOP/s\n", "3:5: 1e308 FLOP/s: expected from 1 to 1e+21 FLOP/s");
    EXPECT("name cpu\nmemory 1e10 B/s 1e19 B\n", "3:17: 1e19 B: expected from 1 to 1e+18 B");
    EXPECT("name cpu\nkernel 1e-300 s\n", "3:8: 1e-300 s: expected from 1e-12 to 1000 s");
    EXPECT("name cpu\nvektor 1e10 FLOP/s\n", "did you mean 'vector'?");
#undef EXPECT
}

static Layout layout_of(const char *text) {
    Layout layout;
    bool hidden;
    cr_assert(layout_read(&text, &layout, &hidden));
    return layout;
}

static Conversion plan(const char *from, const char *to, int64_t size, int nranks, const Machine *machine) {
    Layout a = layout_of(from), b = layout_of(to);
    Shape shape = {.ndim = 2, .dim = {size, size}};
    Conversion conversion;
    cr_assert(redistribute(&a, &b, &shape, 4, nranks, REDISTRIBUTE_AUTO, machine, &conversion, NULL));
    return conversion;
}

static void expect_first(const Conversion *conversion, const char *layout) {
    Layout expected = layout_of(layout);
    cr_expect_eq(conversion->nsteps, 2);
    cr_expect_eq(conversion->step[0].kind, COMM_ALL_GATHER);
    cr_expect(layout_equal(&conversion->step[0].to, &expected), "the first is not to %s", layout);
}

/* The later of two gathers moves eight times as much: it is the one within nodes. */
Test(machine, gathers_between_nodes_come_first) {
    Conversion a = plan("[8@8 8@1]", "[- -]", 64, 64, &machine_cpu), b = plan("[8@1 8@8]", "[- -]", 64, 64, &machine_cpu);
    expect_first(&a, "[- 8@1]");
    expect_first(&b, "[8@1 -]");
    cr_expect_eq(a.received.total, a.bound.total);
    Machine one = machine_cpu;
    one.ranks_per_node = 64;
    a = plan("[8@8 8@1]", "[- -]", 64, 64, &one);
    expect_first(&a, "[8@8 -]");
}

/* Groups of 4 along 4@2 do not fit in nodes of 4, though there are only 4 ranks in each. */
Test(machine, groups_that_straddle_nodes_are_between_nodes) {
    Machine fours = machine_cpu;
    fours.ranks_per_node = 4;
    Conversion c = plan("[2@1 4@2]", "[- -]", 64, 8, &fours);
    expect_first(&c, "[2@1 -]");
    c = plan("[4@2 2@1]", "[- -]", 64, 8, &fours);
    expect_first(&c, "[- 2@1]");
}

Test(machine, the_traffic_of_large_values_is_the_same_on_all_machines) {
    static const char *const pairs[][2] = {
        {"[8@8 8@1]", "[- -]"}, {"[64@1 -]", "[- 64@1]"}, {"[- -] +sum(64@1)", "[- -]"}, {"[- -] +sum(16@1)", "[- -]"}};
    for (int i = 0; i < 4; i++) {
        Conversion a = plan(pairs[i][0], pairs[i][1], 4096, 64, &machine_cpu), b = plan(pairs[i][0], pairs[i][1], 4096, 64, &machine_gpu8);
        cr_expect_eq(a.received.total, b.received.total);
        cr_expect_eq(a.received.total, a.bound.total);
    }
}

/* One exchange receives the fewest bytes, but the ranks that hold part of what they need add up and send for all others. */
Test(machine, the_busiest_rank_counts_not_the_total) {
    Conversion c = plan("[8@8 -] +sum(8@1)", "[8@1 -]", 4096, 64, &machine_cpu);
    cr_expect_eq(c.nsteps, 2);
    cr_expect_eq(c.step[0].kind, COMM_REDUCE_SCATTER);
    cr_expect_lt((double)c.received.total, 1.1 * (double)c.bound.total);
    cr_expect_lt((double)c.received.max, 1.1 * (double)c.bound.max);
    c = plan("[- -] +sum(8@1)", "[- -]", 4096, 64, &machine_cpu); /* sums of each node: nothing need go between nodes */
    cr_expect_eq(c.step[0].kind, COMM_ALL_REDUCE);
}

/* A group that spans nodes is as slow as the slowest link that it takes: here that within the nodes. */
Test(machine, the_slowest_link_of_the_path_counts) {
    Machine slow = machine_cpu, fast = machine_cpu;
    slow.rank = (MachineLevel){1e-3, 1e6};
    Layout from = layout_of("[- -] +sum(64@1)"), apart = layout_of("[- -] +sum(8@8)"), to = layout_of("[- -]");
    Shape shape = {.ndim = 2, .dim = {8, 8}};
    MoveSeconds both = step_seconds(&slow, COMM_ALL_REDUCE, &from, &to, &shape, 1000, 64);
    cr_expect_float_eq(both.messages_s, 12 * 1e-3, 1e-12);
    cr_expect_float_eq(both.bytes_s, 1000 / 1e6, 1e-12);
    both = step_seconds(&fast, COMM_ALL_REDUCE, &from, &to, &shape, 1000, 64);
    cr_expect_float_eq(both.messages_s, 12 * 3e-5, 1e-12);
    both = step_seconds(&slow, COMM_ALL_REDUCE, &apart, &to, &shape, 1000, 64); /* no two of a group share a node */
    cr_expect_float_eq(both.messages_s, 6 * 3e-5, 1e-12);
    cr_expect_float_eq(both.bytes_s, 1000 / 1e9, 1e-12);
}
