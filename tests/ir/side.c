#include "ir/file.h"
#include "sample.h"
#include <criterion/criterion.h>

/* The sample's plan with one more state: a literal of n numbers, i / 3. */
static void plan_with_literal(Plan *plan, Arena *arena, int64_t n) {
    double *data = arena_alloc(arena, sizeof *data * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        data[i] = (double)i / 3;
    sample_plan(plan, arena);
    State state = {.name = "table", .type = sample_type(n, 1), .init = {.kind = INIT_LITERAL, .data = data}, .parameter = -1};
    state.layout = sample_layout(&plan->graph, "[- -]");
    graph_add_state(&plan->graph, state);
}

typedef struct Printed {
    Arena arena;
    Plan plan;
    Text text, side;
    PlanFiles files;
} Printed;

static void print(Printed *p, int64_t n) {
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    plan_with_literal(&p->plan, &p->arena, n);
    plan_print_files(&p->text, &p->side, "net.plan.data", &p->plan);
    p->files = (PlanFiles){.text = p->text.at, .n = p->text.n, .side = p->side.at, .nside = p->side.n};
}

static void finish(Printed *p) {
    text_finish(&p->text);
    text_finish(&p->side);
    arena_finish(&p->arena);
}

Test(side, a_literal_of_4_kib_stands_in_the_text) {
    Printed p;
    Plan plan;
    Error error;
    print(&p, 512);
    cr_expect_eq(p.side.n, 0);
    cr_expect_null(strstr(p.text.at, "side"));
    cr_expect(plan_read(&plan, &p.arena, "net.plan", p.text.at, p.text.n, 0, &error), "%s", error.text);
    cr_expect_null(plan.side_file);
    finish(&p);
}

Test(side, a_longer_one_lies_beside_it_and_reads_back) {
    Printed p;
    Plan plan;
    Error error;
    Text text = {0}, side = {0};
    print(&p, 513);
    cr_assert_eq(p.side.n, 513 * 8);
    cr_expect_eq((unsigned char)p.side.at[15], 0x3f, "1/3 ends, little endian, with its sign and exponent");
    cr_expect(strstr(p.text.at, "\nside \"net.plan.data\" bytes=4104 checksum=") != NULL);
    cr_expect(strstr(p.text.at, "init=literal(side 0)") != NULL);
    cr_expect(strstr(p.text.at, "init=literal(1, 2.5, ") != NULL, "short ones stay");
    cr_assert(plan_read_files(&plan, &p.arena, "net.plan", &p.files, 0, &error), "%s", error.text);
    cr_expect_str_eq(plan.side_file, "net.plan.data");
    const Init *init = &plan.graph.states.at[plan.graph.states.n - 1].init;
    for (int i = 0; i < 513; i++)
        cr_assert_eq(init->data[i], (double)i / 3);
    plan_print_files(&text, &side, plan.side_file, &plan);
    cr_expect_str_eq(text.at, p.text.at);
    cr_expect(side.n == p.side.n && memcmp(side.at, p.side.at, side.n) == 0);
    text_finish(&text);
    text_finish(&side);
    finish(&p);
}

Test(side, the_hash_of_the_net_covers_the_contents) {
    Printed p;
    print(&p, 600);
    uint64_t before = graph_hash(&p.plan.graph);
    double *data = arena_alloc(&p.arena, 600 * sizeof *data);
    Init *init = &p.plan.graph.states.at[p.plan.graph.states.n - 1].init;
    memcpy(data, init->data, 600 * sizeof *data);
    data[599] += 1;
    init->data = data;
    cr_expect_neq(graph_hash(&p.plan.graph), before);
    finish(&p);
}

static void expect_refused(Printed *p, const PlanFiles *files, int flags, const char *message) {
    Plan plan;
    Error error = {0};
    cr_expect(!plan_read_files(&plan, &p->arena, "net.plan", files, flags, &error), "accepted: %s", message);
    cr_expect_eq(error.code, EXIT_REJECTED);
    cr_expect(strstr(error.text, message) != NULL, "no '%s' in: %s", message, error.text);
}

Test(side, a_side_file_that_is_missing_short_or_damaged_is_refused) {
    Printed p;
    print(&p, 600);
    expect_refused(&p, &(PlanFiles){.text = p.text.at, .n = p.text.n}, 0, "are in net.plan.data, which is not at hand");
    PlanFiles cut = p.files;
    cut.nside -= 8;
    expect_refused(&p, &cut, 0, "has 4792 bytes where the plan says 4800");
    p.side.at[100] ^= 1;
    expect_refused(&p, &p.files, 0, "has checksum");
    Plan plan;
    Error error;
    cr_expect(plan_read_files(&plan, &p.arena, "net.plan", &p.files, PLAN_IGNORE_CHECKSUM, &error), "after an edit by hand: %s",
              error.text);
    finish(&p);
}

Test(side, a_text_that_names_other_literals_than_the_file_has_is_refused) {
    static const struct {
        const char *old, *fresh, *message;
    } edits[] = {
        {"(side 0)", "(side 8)", "begins at offset 8 of the side file where 0 is next"},
        {"(side 0)", "(side 9223372036854775807)", "where 0 is next"},
        {"(side 0)", "(side -8)", "an offset"},
        {"f32[600, 1] init=literal(side 0)", "f32[601, 1] init=literal(side 0)",
         "has 601 numbers, of which the side file does not have all"},
        {"f32[600, 1] init=literal(side 0)", "f32[599, 1] init=literal(side 0)", "8 bytes that no literal names"},
        {"f32[600, 1] init=literal(side 0)", "f32[600, 1] init=zeros", "4800 bytes that no literal names"},
        {"f32[600, 1] init=literal(side 0)", "f32[500, 1] init=literal(side 0)", "is short and stands in the text"},
        {"init=literal(1, 2.5, -0", "init=literal(side 0) #", "is short and stands in the text"},
        {"side \"net.plan.data\"", "side \"../net.plan.data\"", "is no name of a file beside the plan"},
        {"side \"net.plan.data\"", "side \"..\"", "is no name of a file beside the plan"},
        {"side \"net.plan.data\"", "side \"\"", "is no name of a file beside the plan"},
        {"bytes=4800", "bytes=4801", "is no number of doubles"},
        {"bytes=4800", "bytes=9223372036854775800", "has 4800 bytes where the plan says 9223372036854775800"},
        {"side \"net.plan.data\" bytes=4800", "hash 0 #", "expected"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        Printed p;
        print(&p, 600);
        const char *text = sample_replace(&p.arena, p.text.at, edits[i].old, edits[i].fresh);
        PlanFiles files = {.text = text, .n = strlen(text), .side = p.side.at, .nside = p.side.n};
        expect_refused(&p, &files, PLAN_IGNORE_CHECKSUM, edits[i].message);
        finish(&p);
    }
}

Test(side, the_files_are_read_from_one_folder) {
    Printed p;
    PlanFiles files;
    Error error = {0};
    print(&p, 600);
    cr_assert(file_write("/tmp/pcc-test-side.plan", p.text.at, p.text.n, &error), "%s", error.text);
    remove("/tmp/net.plan.data");
    cr_expect(!plan_files_read(&files, &p.arena, "/tmp/pcc-test-side.plan", 1 << 20, &error));
    cr_expect_eq(error.code, EXIT_ENVIRONMENT);
    cr_expect(strstr(error.text, "/tmp/net.plan.data") != NULL && strstr(error.text, "keep both in one folder") != NULL, "%s", error.text);
    cr_assert(file_write("/tmp/net.plan.data", p.side.at, p.side.n, &error), "%s", error.text);
    cr_expect(plan_files_read(&files, &p.arena, "/tmp/pcc-test-side.plan", 1 << 20, &error), "%s", error.text);
    cr_expect_eq(files.nside, 4800);
    remove("/tmp/net.plan.data");
    remove("/tmp/pcc-test-side.plan");
    finish(&p);
}
