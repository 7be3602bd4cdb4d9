#include <cjson/cJSON.h>
#include <criterion/criterion.h>

#include "compile.h"
#include "compiler/facts.h"
#include "compiler/timeline.h"

static bool has(Compiled *x, const char *what) {
    Text text = {0};
    stats_print(&text, &x->c);
    stats_summary(&text, &x->c);
    bool found = strstr(text.at, what) != NULL;
    if (!found) fprintf(stderr, "%s", text.at);
    text_finish(&text);
    return found;
}

/* A compiled plan may take less than the best of the model, which knows no fused steps. */
Test(stats, what_a_search_found_is_beside_the_models_best) {
    static const struct {
        double seconds, bound;
        const char *said;
    } at[] = {{1.02, 1, "1020 ms predicted, at most 2.0 % above the best of this model, by some"},
              {1.0002, 1, "1000 ms predicted, the best of this model, by some"},
              {0.97, 1, "970 ms predicted, 3.0 % below the best of this model, by some"},
              {0.97, 0, "970 ms predicted, by some"}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        Text text = {0};
        search_print(&text, &(SearchResult){.how = "some", .seconds = at[i].seconds, .bound = at[i].bound});
        cr_expect_str_eq(text.at, at[i].said);
        text_finish(&text);
    }
}

Test(stats, counts_parameters_and_memory_by_hand) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    /* 32*16 + 16*16 weights, as many slots, 4 bytes each; a quarter of each tensor on a rank */
    cr_expect(has(&x, "768 in 2 tensors; with the optimizer's slots 6.0 KiB, on a rank 1.5 KiB"));
    compiled_finish(&x);
}

Test(stats, the_plan_says_what_the_busiest_rank_sends) {
    Compiled x;
    compiled(&x,
             "net n() { input x : f32[8, 4]; param w : f32[4, 4] = ones; h = matmul(x, w) shard ((4, 1), (1, 1)); loss sum(h); }\n" TRAIN
             "parallel { mode = auto; }\n",
             4, 2);
    /* the gradient of w, 16 numbers, is summed over 4 ranks, the loss too: at the bound a rank receives and sends 2 * 3/4 of it, the loss
     * at most 3 */
    int64_t sent = x.b->facts->all.sent;
    cr_expect_eq(x.c.plan.programs.at[0].sent_bytes, sent);
    cr_expect_geq(sent, 4 * (2 * 12 + 1));
    cr_expect_leq(sent, 4 * (2 * 12 + 6));
    compiled_finish(&x);
}

/* What is padded in front of a convolution whose height is split: the rows that a part lacks move, and nothing is gathered. */
Test(stats, a_height_that_is_padded_stays_split) {
    Compiled x;
    compiled(
        &x,
        "net n() { param x : f32[2, 2, 16, 4] = normal(1); param w : f32[2, 2, 3, 3] = ones;\n"
        "  p = pad(x, before = [0, 0, 1, 1], after = [0, 0, 1, 1]) shard ((1, 1, 4, 1)); y = conv2d(p, w) shard ((1, 1, 4, 1), (1, 1, 1, 1)); loss sum(y); }\n"
        "train { optimizer = sgd(lr = 0.1); steps = 1; }\nparallel { mode = semi_auto; }\n",
        4, 2);
    const Facts *facts = x.b->facts;
    int64_t bytes = 0;
    for (int i = 0; i < facts->communications.n; i++) {
        const Communication *made = &facts->communications.at[i];
        cr_expect(made->kind == COMM_EXCHANGE || made->kind == COMM_ALL_REDUCE || made->kind == COMM_STRIDED_SLICE, "%s",
                  comm_name[made->kind]);
        if (made->kind == COMM_EXCHANGE) bytes += made->received.total;
    }
    /* Of 16 rows the parts are 4, of 18 they are 5, 5, 4 and 4: 2 rows of x, of 64 bytes, and of p, of 96, 1, 1, 2 and 2 to its windows, and 2 of its gradient. */
    cr_expect_eq(bytes, 2 * 64 + 6 * 96 + 2 * 96);
    compiled_finish(&x);
}

Test(stats, one_rank_sends_nothing) {
    Compiled x;
    compiled_init(&x, 1, 2);
    x.options.overrides.mode = "stand_alone";
    cr_assert(compiled_run(&x, quickstart));
    cr_expect(has(&x, "1 rank, 19 steps, 0 communications, 0 B/rank/step sent, proved in"));
    compiled_finish(&x);
}

Test(stats, no_net_receives_less_than_its_bound_at_any_level) {
    int moved = 0;
    for (int n = 0; n < NNETS; n++)
        for (int level = 0; level <= 2; level++) {
            Compiled x;
            compiled(&x, nets[n], 4, level);
            const Facts *facts = x.b->facts;
            facts_bounds(x.b->facts, &x.arena);
            int64_t *received = arena_alloc(&x.arena, sizeof *received * (size_t)(facts->graph->values.n + 1));
            for (int i = 0; i < facts->communications.n; i++) {
                const Communication *made = &facts->communications.at[i];
                cr_expect_geq(made->received.total, made->bound.total, "net %d, level %d: %s", n, level, comm_name[made->kind]);
                cr_expect_geq(made->received.max, made->bound.max);
                received[made->value] += made->received.total;
                moved += made->received.total > 0;
            }
            for (int v = 0; v < facts->graph->values.n; v++)
                cr_expect_geq(received[v], facts->least[v].total, "net %d, level %d: value %s", n, level, facts->graph->values.at[v].name);
            compiled_finish(&x);
        }
    cr_expect_gt(moved, 20);
}

/* Of a pipeline: the sending stage receives nothing of what it sends to another one, and waits for more than communications. */
Test(stats, a_stage_has_the_bound_of_what_it_receives_and_says_what_it_waits) {
    static const char pipeline[] =
        "net n() { input x : f32[8, 4]; param w : f32[4, 64] = ones; param v : f32[64, 4] = ones;\n"
        "  h = tanh(matmul(x, w)) stage 0; y = matmul(h, v) stage 1; loss sum(y); }\n" TRAIN "parallel { stages = 2; }\n";
    Compiled x;
    compiled(&x, pipeline, 4, 2);
    for (int r = 0; r < 2; r++) {
        Facts *facts = &x.b->role_facts[r];
        facts_bounds(facts, &x.arena);
        for (int i = 0; i < facts->communications.n; i++) {
            const Communication *made = &facts->communications.at[i];
            cr_expect_geq(made->received.total, made->bound.total, "stage %d: %s", r, facts->graph->values.at[made->value].name);
        }
    }
    cr_expect(has(&x, " and 1 batch, nothing else"));
    cr_expect(has(&x, " ms, waits 0."));
    cr_expect_not(has(&x, " exposed"));
    compiled_finish(&x);
    compiled_init(&x, 4, 2); /* the search's bound is that of one stage's ranks for all of the net */
    x.options.overrides.search = "dynamic_programming";
    cr_assert(compiled_run(&x, pipeline), "%s", compiled_said(&x));
    cr_assert_not_null(x.b->front.search);
    cr_expect_eq(x.b->front.search->bound, 0);
    cr_expect(has(&x, " ms predicted, by dynamic_programming"));
    compiled_finish(&x);
}

Test(stats, each_conversion_is_shown_with_its_bound_and_the_sum) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    cr_expect(has(&x, "  reduce_scatter h             3.0 KiB          3.0 KiB          (2, 1) [2@4 -] +sum(4@1) -> (2, 4) [2@4 4@1]\n"));
    cr_expect(has(&x, "need at least "));
    compiled_finish(&x);
}

Test(stats, conversions_of_equal_layers_are_one_line) {
    Compiled x;
    compiled(
        &x,
        "net n() { input x : f32[8, 16]; h = x; for i in 0..3 { param w : f32[16, 16] = ones; h = relu(matmul(h, w)); } param v : f32[16, 4] = ones; "
        "loss sum(matmul(h, v)); }\n" TRAIN "parallel { mode = auto; search = sharding_propagation; }\n",
        4, 0);
    int single = 0;
    for (int i = 0; i < x.b->facts->communications.n; i++) {
        const char *name = x.b->facts->graph->values.at[x.b->facts->communications.at[i].value].name;
        single += strncmp(name, "w.", 2) == 0 && strstr(name, ".grad") != NULL;
    }
    cr_expect_eq(single, 3);
    cr_expect(has(&x, "  all_reduce     w.*.grad      3 x 6.0 KiB      3 x 6.0 KiB      [- -] +sum(4@1) -> whole\n"));
    cr_expect(has(&x, "  all_reduce     v.grad        1.5 KiB          1.5 KiB          [- -] +sum(4@1) -> whole\n"));
    compiled_finish(&x);
}

static double figure(const cJSON *json, const char *a, const char *b, const char *c) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, a);
    if (b) item = cJSON_GetObjectItemCaseSensitive(item, b);
    if (c) item = cJSON_GetObjectItemCaseSensitive(item, c);
    cr_assert(cJSON_IsNumber(item), "no number %s %s %s", a, b ? b : "", c ? c : "");
    return item->valuedouble;
}

Test(stats, json_says_what_the_text_says) {
    Compiled x;
    Text text = {0};
    compiled(&x, quickstart, 8, 2);
    stats_json(&text, &x.c);
    cJSON *json = cJSON_Parse(text.at);
    cr_assert_not_null(json, "%s", text.at);
    cr_expect_eq(figure(json, "ranks", NULL, NULL), 8);
    cr_expect_eq(figure(json, "memory", "parameters", NULL), 768);
    cr_expect_eq(figure(json, "memory", "states", NULL), 1536);
    cr_expect_eq(figure(json, "memory", "arena", NULL), (double)x.b->placement.arena_bytes);
    cr_expect_leq(figure(json, "fullest", "bytes", NULL), figure(json, "memory", "arena", NULL));
    cr_expect_geq(figure(json, "fullest", "step", NULL), 1);
    cr_expect_eq(figure(json, "predicted", "step", NULL), x.b->timeline->step_s);
    cr_expect_geq(figure(json, "predicted", "communications", NULL), figure(json, "predicted", "exposed", NULL));
    cr_expect_eq(figure(json, "totals", "sent", "max"), (double)x.b->facts->all.sent);
    double total = 0;
    int count = 0;
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(json, "communications");
    cJSON_ArrayForEach(item, list) {
        total += figure(item, "received", "total", NULL);
        count += strcmp(cJSON_GetObjectItemCaseSensitive(item, "kind")->valuestring, "strided_slice") != 0;
        cr_expect_not_null(cJSON_GetObjectItemCaseSensitive(item, "bucket"));
    }
    cr_expect_eq(figure(json, "totals", "received", "total"), total);
    cr_expect_eq(figure(json, "totals", "communications", NULL), count);
    cr_expect_float_eq(figure(json, "totals", "ratio", NULL), total / figure(json, "totals", "bound", "total"), 1e-12);
    cr_expect_eq(figure(json, "flops", "rank", NULL) >= figure(json, "flops", "net", NULL) / 8, 1);
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(json, "strategies")->child;
    cr_expect_str_eq(cJSON_GetObjectItemCaseSensitive(first, "name")->valuestring, "h");
    cr_expect_str_eq(cJSON_GetObjectItemCaseSensitive(first, "from")->valuestring, "user");
    cr_expect_str_eq(cJSON_GetObjectItemCaseSensitive(first, "strategy")->valuestring, "((2, 4), (4, 1))");
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "proof"), "proved")));
    cJSON_Delete(json);
    text_finish(&text);
    compiled_finish(&x);
}
