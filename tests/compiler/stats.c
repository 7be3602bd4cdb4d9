#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>

#include "compile.h"
#include "compiler/facts.h"
#include "compiler/name.h"
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
        bool of_model;
    } at[] = {{1.02, 1, "1020 ms predicted, at most 2.0 % above the best of this model, by some", false},
              {1.0002, 1, "1000 ms predicted, the best of this model, by some", false},
              {0.97, 1, "970 ms predicted, 3.0 % below the best of this model, by some", false},
              {0.97, 0, "970 ms predicted, by some", false},
              {1, 1, "1000 ms as the model predicts, the best of this model, by some", true}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        Text text = {0};
        search_print(&text, &(SearchResult){.how = "some", .seconds = at[i].seconds, .bound = at[i].bound, .of_model = at[i].of_model});
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
    cr_expect(has(&x, " ms as the model predicts, by dynamic_programming"));
    compiled_finish(&x);
}

/* Stages of different sizes, the first and the last with one parameter, which is sent there and its gradient back. */
#define STAGED(train, parallel)                                                                                                            \
    "net n(batch = 32) { input x : f32[batch, 32]; input label : f32[batch, 32]; param w : f32[32, 32] = normal(0.1);\n"                   \
    "  param u : f32[32, 128] = normal(0.1); param v : f32[128, 32] = normal(0.1); param q : f32[32, 32] = normal(0.1);\n"                 \
    "  h = tanh(matmul(x, w)) stage 0; k = tanh(matmul(h, u) shard ((1, 1), (1, 2))) stage 1;\n"                                           \
    "  m = tanh(matmul(k, v) shard ((1, 2), (2, 1))) stage 2; y = matmul(matmul(m, q), w) stage 3; loss mse(y, label); }\n"                \
    "train { data = normal(seed = 1); optimizer = adam(lr = 0.1); " train "}\nparallel { mode = semi_auto; stages = 4; " parallel "}\n"
static const char *const staged[] = {STAGED("", ""), STAGED("micro_batches = 4; ", "dataset = full_batch; "),
                                     STAGED("micro_batches = 4; ", "pipeline_scheduler = gpipe; ")};
enum { NSTAGED = sizeof staged / sizeof *staged };

Test(stats, figures_of_a_pipeline_are_those_of_all_its_stages) {
    for (int n = 0; n < NSTAGED; n++)
        for (int level = 0; level <= 2; level += 2) {
            Compiled x;
            Totals totals;
            KindFacts all = {0};
            int64_t sent = 0, received = 0, states = 0;
            compiled(&x, staged[n], 8, level);
            cr_assert_eq(x.b->nroles, 4);
            facts_totals(&totals, x.b->role_facts, x.b->nroles, &x.arena);
            for (int i = 0; i < totals.moves.n; i++) {
                const Communication *made = &totals.moves.at[i].made;
                const char *name = x.graph->values.at[made->value].name;
                cr_expect(made->kind == COMM_STRIDED_SLICE || made->sent.total > 0, "%s", name);
                cr_expect_eq(made->sent.total, made->received.total, "%s: what is sent is received", name);
                cr_expect_geq(made->received.total, made->bound.total, "%s", name);
                sent += made->sent.total;
                received += made->received.total;
                states += strcmp(name, "w") == 0;
            }
            cr_expect_gt(states, 0, "no stage needs the first one's parameter");
            cr_expect_eq(totals.sent.total, sent);
            cr_expect_eq(totals.received.total, received);
            for (int k = 0; k < NCOMMS; k++) {
                if (k != COMM_STRIDED_SLICE) all.count += totals.kind[k].count;
                all.sent += totals.kind[k].sent;
                all.received += totals.kind[k].received;
                all.bound += totals.kind[k].bound;
            }
            cr_expect_eq(totals.all.count, all.count);
            cr_expect_eq(all.count, program_requests(x.b->program));
            cr_expect_eq(totals.all.sent, all.sent);
            cr_expect_eq(totals.all.received, all.received);
            cr_expect_eq(totals.all.bound, all.bound);
            cr_expect_eq(totals.sent.max, all.sent);
            cr_expect_eq(totals.sent.max, x.b->program->sent_bytes, "as the plan says, and demands are asked of");
            for (int r = 0; r < x.b->nroles; r++)
                cr_expect_geq(totals.received.max, x.b->role_facts[r].all.received);
            cr_expect_geq(8 * totals.sent.max, sent);
            cr_expect_geq(8 * totals.received.max, received);
            cr_expect_geq(8 * totals.rank_flops, x.b->facts->flops, "the busiest rank has an even share at least");
            cr_expect_leq(totals.rank_flops, x.b->facts->flops);
            cr_expect_leq(totals.bound.total, received);
            cr_expect(has(&x, arena_printf(&x.arena, "\nall            %5d  %-12s  %s", all.count, bytes_named(&x.arena, all.sent),
                                           bytes_named(&x.arena, all.received))));
            cr_expect(has(&x, arena_printf(&x.arena, "\nin all         %s received by all ranks", bytes_named(&x.arena, received))));
            compiled_finish(&x);
        }
}

/* h is a sum of two terms, which stage 0 adds up and stage 1 takes: what both do has one bound, that of making the sum and sending it. */
Test(stats, conversions_of_several_stages_have_one_bound) {
    Compiled x;
    Totals totals;
    compiled(&x,
             "net n(batch = 16) { input x : f32[batch, 16]; param w : f32[16, 16] = normal(0.1); param v : f32[16, 16] = normal(0.1);\n"
             "  h = matmul(x, w) shard ((1, 2), (2, 1)) stage 0; y = matmul(h, v) shard ((1, 1), (1, 1)) stage 1; loss mean(y); }\n" TRAIN
             "parallel { mode = semi_auto; stages = 2; }\n",
             4, 0);
    const int h = value_named(x.graph, "h"), bytes = 16 * 16 * 4;
    int64_t received = 0;
    facts_totals(&totals, x.b->role_facts, x.b->nroles, &x.arena);
    for (int i = 0; i < totals.moves.n; i++)
        if (totals.moves.at[i].made.value == h) received += totals.moves.at[i].made.received.total;
    cr_expect_eq(received, 4 * bytes); /* an all_reduce, then both ranks of the other stage */
    cr_expect_eq(totals.least[h].total, 3 * bytes, "one rank adds up, two more receive the sum");
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

Test(stats, json_of_a_pipeline_adds_up) {
    Compiled x;
    Text text = {0};
    compiled(&x, staged[1], 8, 2);
    stats_json(&text, &x.c);
    cJSON *json = cJSON_Parse(text.at);
    cr_assert_not_null(json, "%s", text.at);
    static const char *const way[] = {"sent", "received"};
    for (int k = 0; k < 2; k++) {
        double total = 0, most = 0, of_kinds = 0;
        const cJSON *item;
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "communications")) total += figure(item, way[k], "total", NULL);
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "stages")) most = fmax(most, figure(item, way[k], NULL, NULL));
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "totals"), "kinds")) of_kinds +=
            figure(item, way[k], NULL, NULL);
        cr_expect_eq(figure(json, "totals", way[k], "total"), total, "%s", way[k]);
        cr_expect_eq(figure(json, "totals", way[k], "max"), most, "%s", way[k]);
        cr_expect_eq(figure(json, "totals", way[k], "max"), of_kinds, "%s", way[k]);
        const cJSON *stage = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "stages"),
                                                (int)figure(json, "totals", k == 0 ? "sender" : "receiver", NULL));
        cr_expect_eq(figure(stage, way[k], NULL, NULL), most, "%s", way[k]);
    }
    cr_expect_eq(figure(json, "totals", "sent", "max"), (double)x.b->program->sent_bytes);
    cr_expect_geq(8 * figure(json, "flops", "rank", NULL), figure(json, "flops", "net", NULL));
    const cJSON *stage = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "stages"), (int)figure(json, "most_memory", NULL, NULL));
    cr_expect_eq(figure(stage, "rank", NULL, NULL), figure(json, "memory", "rank", NULL));
    cJSON_Delete(json);
    text_finish(&text);
    compiled_finish(&x);
}
