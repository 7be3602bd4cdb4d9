#include "ir/text.h"
#include "tests/ir/sample.h"

#include <criterion/criterion.h>

static char *sample_text(Arena *arena) {
    Plan plan;
    Text text = {0};
    sample_plan(&plan, arena);
    plan_print(&text, &plan);
    char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

static bool reads(Arena *arena, const char *text, size_t n, Error *error) {
    Plan plan;
    *error = (Error){0};
    return plan_read(&plan, arena, "net.plan", text, n, 0, error);
}

static char *renewed(Arena *arena, const char *text) {
    Text fresh = {0};
    Error error = {0};
    cr_assert(plan_renew(&fresh, "net.plan", text, strlen(text), &error), "%s", error.text);
    char *copy = arena_copy(arena, fresh.at, fresh.n);
    text_finish(&fresh);
    return copy;
}

Test(plan, what_was_printed_prints_the_same) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    Plan plan;
    Error error = {0};
    cr_assert(plan_read(&plan, &arena, "net.plan", text, strlen(text), 0, &error), "%s", error.text);
    Text again = {0};
    plan_print(&again, &plan);
    cr_assert_str_eq(again.at, text);
    cr_assert_str_eq(plan.certificate, "compositional: 4 steps");
    cr_assert_eq(plan.net_hash, graph_hash(&plan.graph));
    const Role *role = &plan.programs.at[0].roles.at[0];
    cr_assert_eq(role->steps.at[1].stream, 1);
    cr_assert_eq(role->steps.at[2].kind, STEP_WAIT);
    cr_assert_eq(role->instances.at[5].version, 1);
    cr_assert_eq(role->instances.at[2].layout, plan.graph.values.at[4].layout);
    text_finish(&again);
    arena_finish(&arena);
}

Test(plan, several_roles_and_programs_come_back) {
    Arena arena;
    arena_init(&arena);
    Plan plan, read;
    sample_plan(&plan, &arena);
    Role second = plan.programs.at[0].roles.at[0];
    plan.programs.at[0].roles.at[0].last_rank = 2;
    second.first_rank = 3;
    vec_push(&arena, &plan.programs.at[0].roles, second);
    Program eval = plan.programs.at[0];
    eval.name = "eval";
    eval.loss = -1;
    vec_push(&arena, &plan.programs, eval);
    plan.certificate = NULL;
    Text text = {0}, again = {0};
    plan_print(&text, &plan);
    Error error = {0};
    cr_assert(plan_read(&read, &arena, "net.plan", text.at, text.n, 0, &error), "%s", error.text);
    plan_print(&again, &read);
    cr_assert_str_eq(again.at, text.at);
    cr_assert_eq(read.programs.at[1].roles.at[1].first_rank, 3);
    text_finish(&text);
    text_finish(&again);
    arena_finish(&arena);
}

Test(plan, a_plan_cut_short_is_truncated_wherever_it_is_cut) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    Error error;
    cr_assert_not(reads(&arena, text, 0, &error));
    cr_assert_str_eq(error.text, "net.plan: not a plan: it is empty");
    for (size_t n = 1, end = strlen(text); n < end; n++) {
        cr_assert_not(reads(&arena, text, n, &error));
        const char *expected = n < strlen("pcc-plan 1\n") ? "not a plan" : "net.plan: truncated: no checksum line";
        cr_assert(strstr(error.text, expected), "%zu: %s", n, error.text);
        cr_assert_eq(error.code, EXIT_REJECTED);
    }
    arena_finish(&arena);
}

Test(plan, every_changed_byte_outside_the_certificate_is_noticed) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    size_t n = strlen(text), certificate = (size_t)(strstr(text, "certificate") - text),
           checksum = (size_t)(strstr(text, "checksum") - text);
    for (size_t i = 0; i < n; i++) {
        Error error;
        text[i] ^= 1;
        bool accepted = reads(&arena, text, n, &error);
        text[i] ^= 1;
        if (i < certificate || i >= checksum) cr_assert_not(accepted, "byte %zu", i);
        if (i > strlen("pcc-plan 1\n") && i < certificate)
            cr_assert(strstr(error.text, "checksum differs: "), "byte %zu: %s", i, error.text);
    }
    arena_finish(&arena);
}

Test(plan, the_checksum_covers_all_but_the_certificate) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena), *other = sample_replace(&arena, text, "4 steps", "5 steps");
    Error error;
    cr_assert(reads(&arena, other, strlen(other), &error), "%s", error.text);
    other = sample_replace(
        &arena, text, arena_printf(&arena, "certificate \"compositional: 4 steps\" of=%s", strstr(text, "checksum ") + strlen("checksum ")),
        "");
    cr_assert(reads(&arena, other, strlen(other), &error), "%s", error.text);
    arena_finish(&arena);
}

Test(plan, an_edited_plan_is_refused_until_renewed) {
    Arena arena;
    arena_init(&arena);
    char *edited = sample_replace(&arena, sample_text(&arena), "epochs=5", "epochs=6");
    Error error;
    Plan plan;
    cr_assert_not(reads(&arena, edited, strlen(edited), &error));
    cr_assert(strstr(error.text, "checksum differs") && strstr(error.text, "pcc check --update"), "%s", error.text);
    cr_assert(plan_read(&plan, &arena, "net.plan", edited, strlen(edited), PLAN_IGNORE_CHECKSUM, &error), "%s", error.text);
    char *fresh = renewed(&arena, edited);
    cr_assert(plan_read(&plan, &arena, "net.plan", fresh, strlen(fresh), 0, &error), "%s", error.text);
    cr_assert_null(plan.certificate);
    cr_assert_eq(plan.graph.settings.epochs, 6);
    cr_assert_str_eq(renewed(&arena, fresh), fresh);
    char *messy = arena_printf(&arena, "%s\n\n", fresh);
    cr_assert_str_eq(renewed(&arena, messy), fresh);
    fresh[strlen(fresh) - 1] = '\0';
    cr_assert_eq(strncmp(renewed(&arena, fresh), fresh, strlen(fresh)), 0);
    Text text = {0};
    cr_assert_not(plan_renew(&text, "a.dsl", "net x() {}", 10, &error));
    cr_assert_str_eq(error.text, "a.dsl: not a plan: its first line is not 'pcc-plan 1'; a net is compiled by pcc first");
    text_finish(&text);
    arena_finish(&arena);
}

Test(plan, other_files_and_formats_are_named) {
    Arena arena;
    arena_init(&arena);
    static const char *const cases[][2] = {
        {"pcc-plan 2\n", "net.plan:1: this plan has format 2; format 1 is read here: compile the net again with this pcc"},
        {"pcc-plan 123456789\n", "net.plan:1: not a plan"},
        {"pcc-plan x\n", "net.plan:1: not a plan"},
        {"pcc-graph 1\n", "net.plan: not a plan: it is the dump of a graph"},
        {"\x7f"
         "ELF",
         "net.plan: not a plan: its first line is not 'pcc-plan 1'"},
        {"\n\n\n", "net.plan: not a plan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error;
        cr_assert_not(reads(&arena, cases[i][0], strlen(cases[i][0]), &error));
        cr_assert(strstr(error.text, cases[i][1]), "%s", error.text);
    }
    arena_finish(&arena);
}

/* Each edit of the sample, renewed, is refused with this message. */
static const struct {
    const char *old, *fresh, *message;
} refused[] = {
    {"options", "optoins", "net.plan:6: unknown key 'optoins'; expected 'options'"},
    {"hash ", "hash x", "expected the hash of the net"},
    {"program train", "programme train", "unknown key 'programme'"},
    {"program train loss=2", "program train loss=6", "the loss 6 is no value of the role that ends here"},
    {"role 0-7", "role 0-6", "the roles of program 'train' end before rank 7"},
    {"role 0-7", "role 1-7", "the first rank is 1; it must be 0 to 0"},
    {"role 0-7", "role 0-8", "the last rank is 8; it must be 0 to 7"},
    {"  role 0-7 arena=128\n", "", "the roles of program 'train' end before rank 0"},
    {"loss=2 sent=96\n  role 0-7", "loss=none sent=96\n  role 0-3 arena=0\n  role 3-7", "the first rank is 3; it must be 4 to 4"},
    {"role 0-7 arena=128", "role 0-7 arena=8 foo=3", "unknown key 'foo'"},
    {"arena=128", "arena=67", "4 bytes at offset 64 reach beyond the arena of 67"},
    {"arena=128", "arena=-1", "the size of the arena is -1"},
    {"arena 64", "arena 65", "the offset 65 is no multiple of 8"},
    {"arena 64", "arena 9223372036854775807", "the offset is 9223372036854775807"},
    {"arena 64", "moon 64", "unknown place 'moon'"},
    {"value 3 %3 layout=4", "value 3 %14 layout=4", "a value of the graph is 14; it must be 0 to 13"},
    {"value 3 %3 layout=4", "value 4 %3 layout=4", "the number of a value is 4; it must be 3 to 3"},
    {"value 3 %3 layout=4", "value 3 %3 layout=5", "the number of a layout is 5; it must be 0 to 4"},
    {"value 3 %3 layout=4", "value 3 %3 layout=3", "layout 3 has 0 dimensions, the tensor has 2"},
    {"state 0 version 0", "state 5 version 0", "a state is 5; it must be 0 to 4"},
    {"state 0 version 0", "state 0 version 2", "a version is 2"},
    {"state 0 version 0", "state 2 version 0", "value %1 has another type than state 2"},
    {"value 1 %1 layout=0", "value 1 %1 layout=1", "value %1 in this layout has another size than the storage of state 0"},
    {"constant 5", "constant 6", "node 6 is no constant"},
    {"constant 5", "constant 8", "value %5 is not the result of node 8"},
    {"input 0\n", "input 1\n", "an input is 1; it must be 0 to 0"},
    {"kernel matmul (0, 1)", "kernel matmul (0, 6)", "value is 6; it must be 0 to 5"},
    {"kernel matmul (0, 1)", "kernel matmul (0)", "matmul has 2 operands and 1 results, not 1 and 1"},
    {"kernel matmul (0, 1)", "kernel matmul (1, 0)", "operand 1 has another type than operand 0 of node 3"},
    {"kernel matmul", "kernel constant", "constant is no kernel"},
    {"kernel matmul", "kernel einsum", "node 3 is matmul, not einsum"},
    {"kernel matmul", "kernel foo", "unknown operator 'foo'"},
    {" nodes=(3)", "", "a kernel without nodes=(..)"},
    {" nodes=(3)", " nodes=(13)", "node is 13; it must be 0 to 12"},
    {" nodes=(3)", " nodes=(3, 3)", "more than 1 nodes"},
    {" nodes=(3)", " nodes=()", "a kernel of no node"},
    {"stream=1", "stream=2", "a stream is 2"},
    {"start exchange 0", "start exchange 5", "request 5 in a program of 5 steps"},
    {"start exchange", "start teleport", "unknown communication 'teleport'"},
    {"start exchange 0 (2)", "start exchange 0 (0)", "values 0 and 3 differ in type"},
    {"strided_slice (2) -> (3)", "strided_slice (2)", "local has one operand and one result"},
    {"write 0 (5)", "write 5 (5)", "a state is 5; it must be 0 to 4"},
    {"write 0 (5)", "write 0 (5) -> (5)", "write has one operand and no result"},
    {"write 0 (5)", "write 0 (2)", "value 2 has another type than state 0"},
    {"init=normal(0.01) layout=0", "init=normal(0.01)", "state 0 'layer.0.w' has no layout"},
    {"@2:11\ndata", "@2:11 \ndata numpy_rand seed=1 rows=2\ndata", "'data' is out of place here"},
};

Test(plan, every_mistake_is_refused_with_its_line) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char *bad = renewed(&arena, sample_replace(&arena, text, refused[i].old, refused[i].fresh));
        Error error;
        cr_expect_not(reads(&arena, bad, strlen(bad), &error), "accepted: %s", refused[i].fresh);
        cr_expect(strstr(error.text, refused[i].message), "%s: saw \"%s\"", refused[i].fresh, error.text);
        cr_expect(strncmp(error.text, "net.plan:", 9) == 0 && error.text[9] >= '0' && error.text[9] <= '9', "no line: %s", error.text);
    }
    arena_finish(&arena);
}

Test(plan, a_program_comes_once) {
    Arena arena;
    arena_init(&arena);
    char *text = sample_text(&arena), *from = strstr(text, "program train"), *to = strstr(text, "certificate");
    char *twice = renewed(&arena, arena_printf(&arena, "%.*s%.*s", (int)(to - text), text, (int)(to - from), from));
    Error error;
    cr_assert_not(reads(&arena, twice, strlen(twice), &error));
    cr_assert(strstr(error.text, "program 'train' is there a second time"), "%s", error.text);
    arena_finish(&arena);
}

Test(plan, memory_follows_the_text_not_the_sizes_in_it) {
    Arena arena, own;
    arena_init(&arena);
    arena_init(&own);
    char *text = sample_text(&arena);
    char *huge = sample_replace(&arena, text, "state 3 u f32[2, 2]", "state 3 u f32[1048576, 1073741824]");
    huge = sample_replace(&arena, huge, "arena=128", "arena=1152921504606846");
    huge = renewed(&arena, huge);
    Error error;
    cr_assert(reads(&own, huge, strlen(huge), &error), "%s", error.text);
    cr_assert_lt(own.used_bytes, 64u << 10);
    arena_finish(&own);
    arena_finish(&arena);
}

/* The sample, and behind it an eval of another graph over its states, with a long constant. */
static void two_programs(Plan *plan, Arena *arena) {
    sample_plan(plan, arena);
    Graph *eval = arena_alloc(arena, sizeof *eval);
    Graph *train = &plan->graph;
    graph_init(eval, arena);
    eval->name = train->name;
    eval->file = train->file;
    eval->nranks = train->nranks;
    eval->replicas = train->replicas;
    eval->states = train->states;
    eval->settings = train->settings;
    eval->settings.eval = EVAL_STEPS;
    eval->settings.eval_steps = 30;
    eval->settings.steps = 3;
    eval->settings.epochs = 1;
    double *numbers = arena_alloc(arena, 1000 * sizeof *numbers);
    for (int i = 0; i < 1000; i++)
        numbers[i] = i / 8.0;
    TensorType type = {.dtype = F32, .shape = {.ndim = 1, .dim = {1000}}};
    const Layout *rows = sample_layout(train, "[8@1]"), *scalar = sample_layout(train, "[]");
    Span nowhere = {0};
    int x = graph_input(eval, graph_add_input(eval, (Input){.name = "x", .type = type, .layout = rows}));
    int c = graph_constant(eval, type, numbers, 0, "c", nowhere);
    int y = graph_emit(eval, OP_mul, (int[]){x, c}, 2, NULL, "y", nowhere);
    eval->loss = graph_emit(eval, OP_sum, &y, 1, NULL, "loss.sum", nowhere);
    eval->nforward = eval->nodes.n;
    vec_push(arena, &eval->reports, (Report){.name = "rows", .value = eval->loss, .whole = true});
    vec_push(arena, &eval->reports, (Report){.name = "prediction", .value = y});
    Program program = {.name = "eval", .graph = eval, .loss = 3, .sent_bytes = 8};
    Role role = {.first_rank = 0, .last_rank = 7, .arena_bytes = 1024};
    vec_push(arena, &role.instances, (Instance){.value = x, .layout = rows, .place = PLACE_INPUT});
    vec_push(arena, &role.instances, (Instance){.value = c, .layout = rows, .place = PLACE_CONSTANT, .at = 1});
    vec_push(arena, &role.instances, (Instance){.value = y, .layout = rows, .place = PLACE_ARENA});
    vec_push(arena, &role.instances, (Instance){.value = eval->loss, .layout = scalar, .place = PLACE_ARENA, .at = 512});
    vec_push(arena, &role.steps, (Step){.kind = STEP_KERNEL, .op = OP_mul, .node = 2, .nin = 2, .in = {0, 1}, .nout = 1, .out = {2}});
    vec_push(arena, &program.roles, role);
    vec_push(arena, &program.reports, 3);
    vec_push(arena, &program.reports, 2);
    vec_push(arena, &plan->programs, program);
}

Test(plan, a_program_with_a_graph_of_its_own_comes_back) {
    Arena arena;
    arena_init(&arena);
    Plan plan, read;
    Text text = {0}, side = {0}, again = {0}, again_side = {0};
    Error error = {0};
    two_programs(&plan, &arena);
    plan_print_files(&text, &side, "net.plan.data", &plan);
    cr_assert_eq(side.n, 1000 * sizeof(double), "the eval's long constant lies in the side file");
    const PlanFiles files = {.text = text.at, .n = text.n, .side = side.at, .nside = side.n};
    cr_assert(plan_read_files(&read, &arena, "net.plan", &files, 0, &error), "%s", error.text);
    plan_print_files(&again, &again_side, "net.plan.data", &read);
    cr_assert_str_eq(again.at, text.at);
    cr_assert(again_side.n == side.n && memcmp(again_side.at, side.at, side.n) == 0);

    Plan part = plan_part(&read, plan_find(&read, "eval"));
    cr_assert_eq(part.programs.n, 1);
    cr_assert_eq(part.graph.reports.n, 2);
    cr_assert(part.graph.reports.at[0].whole && !part.graph.reports.at[1].whole);
    cr_assert_eq(part.graph.states.at, read.graph.states.at, "the states are the plan's");
    cr_assert_eq(part.graph.settings.eval, EVAL_STEPS);
    cr_assert_eq(part.graph.settings.eval_steps, 30);
    cr_assert_eq(part.graph.settings.steps, 3);
    cr_assert_eq(part.programs.at[0].reports.at[1], 2);
    Plan train = plan_part(&read, 0);
    cr_assert_eq(train.graph.nodes.n, read.graph.nodes.n);
    cr_assert_eq(plan_find(&read, "test"), -1);
    text_finish(&text), text_finish(&side), text_finish(&again), text_finish(&again_side);
    arena_finish(&arena);
}

Test(plan, what_an_eval_cannot_say_is_refused_by_its_line) {
    static const struct {
        const char *old, *fresh, *why;
    } cases[] = {{"reports=(3, 2)", "reports=(3)", "1 reports where the graph has 2"},
                 {"reports=(3, 2)", "reports=(3, 9)", "the report 9 is no value"},
                 {" reports=(3, 2)", "", "expected 'reports'"},
                 {"report rows %3 whole", "report rows %9 whole", "a value"},
                 {"every=steps 30", "every=steps 0", "a number of steps"},
                 {"every=steps 30", "every=noon", "time of an evaluation"},
                 {"input 0 x f32[1000] layout=", "input 0 x f32[1000] lay=", "unknown key"}};
    Arena arena;
    arena_init(&arena);
    Plan plan, read;
    Text text = {0};
    two_programs(&plan, &arena);
    plan_print(&text, &plan);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(text.at, "\neval every");
        char *edited = renewed(
            &arena, arena_printf(&arena, "%.*s%s", (int)(at - text.at), text.at, sample_replace(&arena, at, cases[i].old, cases[i].fresh)));
        Error error = {0};
        cr_assert_not(plan_read(&read, &arena, "net.plan", edited, strlen(edited), 0, &error), "%s", cases[i].fresh);
        cr_expect(strstr(error.text, cases[i].why) || i == 2 || i == 6, "%s: %s", cases[i].fresh, error.text);
    }
    text_finish(&text);
    arena_finish(&arena);
}

/* An edit that renews the checksum alone leaves a certificate of other bytes. */
Test(plan, a_certificate_of_another_text_is_refused) {
    Arena arena;
    Error error;
    Plan plan;
    arena_init(&arena);
    char *text = sample_text(&arena), *edited = sample_replace(&arena, text, "epochs=5", "epochs=6");
    Text fresh = {0};
    cr_assert(plan_renew(&fresh, "net.plan", edited, strlen(edited), &error), "%s", error.text);
    const char *line = strstr(text, "certificate "), *checksum = strstr(fresh.at, "checksum ");
    char *forged =
        arena_printf(&arena, "%.*s%.*s%s", (int)(checksum - fresh.at), fresh.at, (int)(strchr(line, '\n') + 1 - line), line, checksum);
    cr_assert_not(reads(&arena, forged, strlen(forged), &error));
    cr_assert(strstr(error.text, "the certificate is of a text with checksum "), "%s", error.text);
    cr_assert_eq(error.code, EXIT_REJECTED);
    cr_assert(plan_read(&plan, &arena, "net.plan", forged, strlen(forged), PLAN_IGNORE_CHECKSUM, &error), "%s", error.text);
    cr_assert(plan_read(&plan, &arena, "net.plan", text, strlen(text), 0, &error) && plan.certificate_bound);
    char *unbound =
        arena_printf(&arena, "%.*scertificate \"compositional: 4 steps\"\n%s", (int)(line - text), text, strstr(text, "checksum "));
    cr_assert(plan_read(&plan, &arena, "net.plan", unbound, strlen(unbound), 0, &error), "%s", error.text);
    cr_assert(plan.certificate && !plan.certificate_bound);
    text_finish(&fresh);
    arena_finish(&arena);
}
