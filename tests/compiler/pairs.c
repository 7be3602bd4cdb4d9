/* Which products stand in pairs, and what is between them. */
#include "compiler/pairs.h"

#include "compile.h"

#define TAIL " loss mean(square(y)); }\n" TRAIN

static void expect_pairs(const char *net, const char *expected) {
    Compiled x;
    Pairs pairs;
    Text said = {0};
    const char *samples = samples_folder();
    compiled_init(&x, 2, 2);
    x.options.overrides.folder = &samples;
    x.options.overrides.nfolders = 1;
    cr_assert(compiled_run(&x, arena_printf(&x.arena, "import \"nn.dsl\";\nnet n() { input x : f32[8, 16, 32]; %s", net)), "%s",
              compiled_said(&x));
    const Graph *g = &x.b->front.chosen;
    pairs_find(&pairs, g, &x.arena);
    int n = 0;
    for (int id = 0; id < g->nforward; id++) {
        if (pairs.rows[id] == 0) continue;
        n++;
        text_printf(&said, "%s%s", said.n > 0 ? " " : "", g->nodes.at[id].name);
        cr_expect_eq(g->nodes.at[id].rule->factor[pairs.rows[id] - 1].size, 8, "%s", g->nodes.at[id].name);
        cr_expect_eq(g->nodes.at[id].rule->factor[pairs.inner[id] - 1].size, 64, "%s", g->nodes.at[id].name);
    }
    cr_expect_eq(n, pairs.n);
    cr_expect_str_eq(said.at != NULL ? said.at : "", expected);
    text_finish(&said);
    compiled_finish(&x);
}

#define W(name, rows, columns) "param " #name " : f32[" #rows ", " #columns "] = normal(0.1); "

Test(pairs, the_second_sums_over_what_the_first_makes) {
    expect_pairs(W(a, 32, 64) W(b, 64, 32) "h = matmul(x, a); y = matmul(relu(h), b);" TAIL, "h y");
    expect_pairs(W(a, 32, 64) "y = relu(matmul(x, a));" TAIL, "");
    expect_pairs(W(a, 32, 64) W(b, 64, 32) W(c, 32, 48) "h = matmul(x, a); k = matmul(relu(h), b); y = matmul(k, c);" TAIL, "h k");
}

/* Products of values, here scores and what they weigh, keep the heads apart. */
Test(pairs, heads_stay_apart) {
    expect_pairs("y = transformer_block(linear(x, 64), 8, hidden = 64);" TAIL,
                 "y.attended.query.y y.attended.key.y y.attended.value.y y.attended.output.y y.feed.up.y y.feed.down.y");
}

/* The second product sums over another letter: its rows are what the first made. */
Test(pairs, what_is_summed_over_must_be_what_was_made) {
    expect_pairs(W(a, 32, 64) W(b, 8, 32) "h = matmul(x, a); y = matmul(transpose(h), b);" TAIL, "");
    expect_pairs(W(a, 32, 64) W(b, 32, 64) "g = sum(matmul(x, a), axes = 2, keepdims = true); y = matmul(x * g, b);" TAIL, "");
}
