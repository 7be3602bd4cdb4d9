#include "compile.h"

static void compile_settings(Compiled *c, const char *settings, const Overrides *flags) {
    char text[1024];
    snprintf(text, sizeof text, NET("") "parallel {\n%s\n}\n", settings);
    compile_with(c, text, strlen(text), flags);
}

static const Overrides eight = {.nranks = 8};

Test(parallel, without_a_block_the_mode_is_auto) {
    Compiled c;
    compile(&c, NET(""), 8);
    expect_accepted(&c);
    const Settings *settings = &c.graph.settings;
    cr_assert_eq(settings->mode, MODE_AUTO);
    cr_assert_str_eq(settings->search, "auto");
    cr_assert_eq(settings->dataset, DATASET_AUTO);
    cr_assert(settings->gradients_mean);
    cr_assert_not(settings->strict_divide);
    cr_assert_eq(c.graph.replicas, 0);
    compiled_finish(&c);
}

Test(parallel, settings_are_read) {
    Compiled c;
    compile_settings(&c, "mode = semi_auto; dataset = full_batch; gradients = sum; search = sharding_propagation;", &eight);
    expect_accepted(&c);
    cr_assert_eq(c.graph.settings.mode, MODE_SEMI_AUTO);
    cr_assert_eq(c.graph.settings.dataset, DATASET_FULL_BATCH);
    cr_assert_not(c.graph.settings.gradients_mean);
    compiled_finish(&c);
}

Test(parallel, flags_override_the_block) {
    Compiled c;
    Overrides flags = {.nranks = 8, .mode = "semi_auto", .dataset = "((4, 1), (2, 4))", .gradients = "sum", .strict_divide = true};
    compile_settings(&c, "mode = auto; dataset = auto; gradients = mean;", &flags);
    expect_accepted(&c);
    cr_assert_eq(c.graph.settings.mode, MODE_SEMI_AUTO);
    cr_assert_eq(c.graph.settings.dataset, DATASET_EXPLICIT);
    cr_assert_eq(c.graph.settings.dataset_hint->in[1].dim[1].split, 4);
    cr_assert_not(c.graph.settings.gradients_mean);
    cr_assert(c.graph.settings.strict_divide);
    compiled_finish(&c);
}

Test(parallel, bytes_are_whole_numbers_however_they_are_written) {
    static const struct {
        const char *text;
        int64_t bytes;
        const char *error, *hint; /* NULL: accepted */
    } cases[] = {{"400000000", 400000000, NULL, NULL},
                 {"4.0e8", 400000000, NULL, NULL},
                 {"4e8", 400000000, NULL, NULL},
                 {"1e3 GiB", INT64_C(1000) << 30, NULL, NULL},
                 {"2.0 * 1 GiB", INT64_C(2) << 30, NULL, NULL},
                 {"9e18", INT64_C(9000000000000000000), NULL, NULL},
                 {"1e19", 0, "to 9223372036854775807 bytes, not 1e+19", " = 1.5 GiB; KiB"},
                 {"1.5", 0, "is a whole number of bytes, not 1.5", " = 1.5 GiB; KiB"},
                 {"-4.0", 0, "is at least ", " = 1.5 GiB; KiB"},
                 {"80 GB", 0, "found 'GB'", "bytes are written 25 MiB"},
                 {"80 gib", 0, "found 'gib'", "bytes are written 25 MiB"},
                 {"80G", 0, "'80G' is not a number", "bytes are written 25 MiB"},
                 {"80 m", 0, "found 'm'", "bytes are written 25 MiB"},
                 {"80Lib", 0, "'80Lib' is not a number", "numbers are written 12"},
                 {"1e3gb", 0, "'1e3gb' is not a number", "bytes are written 25 MiB"}};
    for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
        static const char *const names[] = {"memory", "bucket", "shard_from"};
        const size_t n = i / 3;
        Compiled c;
        char text[64];
        snprintf(text, sizeof text, "%s = %s;", names[i % 3], cases[n].text);
        compile_settings(&c, text, &eight);
        const Settings *settings = &c.graph.settings;
        cr_assert_eq(c.accepted, cases[n].error == NULL, "%s", text);
        if (c.accepted) {
            const int64_t bytes[] = {settings->memory_bytes, settings->bucket_bytes, settings->shard_bytes};
            cr_expect_eq(bytes[i % 3], cases[n].bytes, "%s", text);
        } else {
            cr_expect(strstr(c.diags.items.at[0].text, cases[n].error), "%s: %s", text, c.diags.items.at[0].text);
            cr_assert(c.diags.items.n > 1 && c.diags.items.at[1].kind == DIAG_HINT, "%s has no hint", text);
            cr_expect(strstr(c.diags.items.at[1].text, cases[n].hint), "%s: %s", text, c.diags.items.at[1].text);
        }
        compiled_finish(&c);
    }
}

Test(parallel, mistakes_in_flags_name_the_flag) {
    Compiled c;
    Overrides flags = {.nranks = 8, .mode = "atuo"};
    compile_settings(&c, "", &flags);
    expect_error(&c, 1, 1, "unknown mode 'atuo'");
    cr_assert_str_eq(c.diags.files.at[c.diags.items.at[0].span.file].name, "--mode");
    compiled_finish(&c);
}

Test(parallel, the_dataset_strategy_has_a_tuple_for_each_input) {
    Compiled c;
    compile_settings(&c, "dataset = ((8, 1), (8, 1));", &eight);
    expect_accepted(&c);
    cr_assert_eq(c.graph.settings.dataset_hint->nin, 2);
    compiled_finish(&c);
    compile_settings(&c, "dataset = (8, 1);", &eight);
    expect_error(&c, 10, 11, "1 tuple, but the net has 2 inputs");
    compiled_finish(&c);
}

Test(parallel, mistakes_are_diagnosed_where_they_are) {
    static const struct {
        const char *settings;
        int column;
        const char *error;
    } cases[] = {{"mode = fast;", 8, "unknown mode 'fast'"},
                 {"mode = 3;", 8, "mode is one of"},
                 {"mode = stand_alone;", 8, "for one rank, and this run has 8"},
                 {"search = exhaustive;", 10, "unknown search 'exhaustive'"},
                 {"dataset = half;", 11, "unknown dataset 'half'"},
                 {"gradients = max;", 13, "unknown gradients 'max'"},
                 {"mesh (dp = 3);", 1, "does not divide the 8 ranks"},
                 {"mesh (dp = 0);", 12, "the size of an axis is 1 to"},
                 {"mesh (dp = 2, dp = 2);", 15, "has an axis 'dp' already"},
                 {"mesh (2, 4);", 7, "an axis has a name and a size"},
                 {"mesh ();", 1, "a mesh is a list of axes"},
                 {"mesh (a = 65536, b = 65536);", 1, "more than 2147483647 ranks"},
                 {"mod = auto;", 1, "parallel has no setting 'mod'"},
                 {"epochs = 3;", 1, "epochs belongs into the train block"},
                 {"bucket = -1;", 10, "bucket"},
                 {"mode = auto; mode = auto;", 14, "mode is set twice"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        compile_settings(&c, cases[i].settings, &eight);
        expect_error(&c, 10, cases[i].column, cases[i].error);
        compiled_finish(&c);
    }
}

Test(parallel, replicas_are_those_of_data_parallel_and_not_fewer_than_ranks) {
    static const struct {
        const char *mode;
        int nranks, replicas, want; /* want 0: rejected */
    } cases[] = {{"data_parallel", 8, 0, 8}, {"data_parallel", 8, 12, 12}, {"data_parallel", 1, 8, 8}, {"data_parallel", 8, 7, 0},
                 {"auto", 8, 8, 0},          {"stand_alone", 1, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Compiled c;
        Overrides flags = {.nranks = cases[i].nranks, .replicas = cases[i].replicas, .mode = cases[i].mode};
        compile_settings(&c, "", &flags);
        cr_assert_eq(c.accepted, cases[i].want > 0, "%s %d %d", cases[i].mode, cases[i].nranks, cases[i].replicas);
        if (c.accepted) cr_assert_eq(c.graph.replicas, cases[i].want);
        compiled_finish(&c);
    }
}
