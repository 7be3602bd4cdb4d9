#include "compile.h"

static const Layout *state_layout(const Compiled *x, const char *name) {
    for (int s = 0; s < x->c.graph.states.n; s++)
        if (strcmp(x->c.graph.states.at[s].name, name) == 0) return x->c.graph.states.at[s].layout;
    cr_assert_fail("no state %s", name);
    return NULL;
}

Test(assign, a_state_lies_as_its_first_consumer_wants_and_its_slot_with_it) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    assert_layout(state_layout(&x, "w"), "[4@1 -]");
    cr_expect_eq(state_layout(&x, "w"), state_layout(&x, "w.momentum"));
    compiled_finish(&x);
}

Test(assign, a_producer_leaves_the_partial_sum_and_home_is_complete) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    int h = value_named(&x.c.graph, "h");
    assert_layout(x.c.graph.values.at[h].layout, "[2@4 -] +sum(4@1)");
    assert_layout(x.c.home[h], "[2@4 -]");
    compiled_finish(&x);
}

Test(assign, inputs_are_delivered_as_dataset_says) {
    static const struct {
        const char *dataset, *layout;
    } cases[] = {{"data_parallel", "[8@1 -]"}, {"full_batch", "[- -]"}, {"auto", "[2@4 4@1]"}};
    for (int i = 0; i < 3; i++) {
        Compiled x;
        compiled_init(&x, 8, 2);
        x.options.overrides.dataset = cases[i].dataset;
        cr_assert(compiled_run(&x, quickstart));
        assert_layout(x.c.graph.inputs.at[0].layout, cases[i].layout);
        compiled_finish(&x);
    }
}

Test(assign, given_storage_layouts_hold) {
    Compiled x;
    compiled(&x, nets[2], 4, 2);
    assert_layout(state_layout(&x, "w"), "[- 4@1]");
    compiled_finish(&x);
}

Test(assign, the_loss_is_whole_but_each_replicas_own_in_data_parallel) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    cr_expect(layout_is_whole(x.c.loss_need));
    compiled_finish(&x);
    compiled(&x, nets[3], 4, 2);
    assert_layout(x.c.loss_need, "[4@1]");
    assert_layout(x.c.graph.inputs.at[0].layout, "[4@1 - -]");
    compiled_finish(&x);
}

Test(assign, gradients_use_their_forward_operators_axes) {
    Compiled x;
    compiled(&x, quickstart, 8, 2);
    assert_layout(x.c.graph.values.at[value_named(&x.c.graph, "w.grad")].layout, "[4@1 -] +sum(2@4)");
    compiled_finish(&x);
}
