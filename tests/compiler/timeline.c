#include "compile.h"
#include "compiler/oracle.h"
#include "compiler/timeline.h"

/* A FLOP, a byte sent, a message and a kernel's start take a second each; reading and writing nothing. */
static const Machine unit = {.name = "unit",
                             .ranks_per_node = 8,
                             .rank = {1, 1},
                             .node = {1, 1},
                             .flops = {1, 1, 1, 1, 1},
                             .memory_bytes_per_s = 1e30,
                             .memory_bytes = (int64_t)1 << 40,
                             .kernel_s = 1,
                             .overlap = 1};

/* The example of docs/architecture.md. */
static const char *const tiny = "net tiny(batch = 8) { input x : f32[batch, 4]; param w : f32[4, 2] = normal(0.1);\n"
                                "  h = matmul(x, w) shard ((2, 2), (2, 1)); a = relu(h); loss mean(a); }\n" TRAIN;

static void timed(Compiled *x, const char *text, int nranks, int optimize, const Machine *machine) {
    compiled_init(x, nranks, optimize);
    x->options.machine = machine;
    cr_assert(compiled_run(x, text));
    build_time(x->b);
}

static void expect_event(const Timeline *timeline, int event, bool communication, int nsteps, double begin_s, double end_s) {
    cr_assert_lt(event, timeline->events.n);
    const TimelineEvent *at = &timeline->events.at[event];
    cr_expect(at->communication == communication && at->nsteps == nsteps && at->begin_s == begin_s && at->end_s == end_s,
              "event %d: %d step(s) from step %d, %g to %g s%s", event, at->nsteps, at->step, at->begin_s, at->end_s,
              at->communication ? ", a communication" : "");
}

/* By hand. A rank's product has 4 x 2 x 2 points of 2 FLOPs; relu and mean 4 of 1 each, and start as one. The reduce_scatter is one message and 16 bytes; the loss's
 * all_reduce among 4 ranks 4 messages and 12 bytes, behind which the all_gather waits for the link. */
Test(timeline, a_small_plan_takes_what_is_computed_by_hand) {
    Compiled x;
    timed(&x, tiny, 4, 2, &unit);
    const Timeline *t = x.b->timeline;
    expect_event(t, 0, false, 1, 0, 33);   /* matmul */
    expect_event(t, 1, true, 1, 33, 50);   /* reduce_scatter of h */
    expect_event(t, 2, false, 1, 33, 50);  /* the wait for it */
    expect_event(t, 3, false, 2, 50, 59);  /* relu, mean */
    expect_event(t, 4, true, 1, 59, 75);   /* all_reduce of the loss */
    expect_event(t, 5, false, 2, 59, 68);  /* mean_grad, relu_grad */
    expect_event(t, 6, true, 1, 75, 92);   /* all_gather of h.grad */
    expect_event(t, 7, false, 1, 68, 92);  /* the wait for it */
    expect_event(t, 8, false, 1, 92, 125); /* einsum */
    expect_event(t, 9, true, 1, 125, 143); /* all_reduce of w.grad, which nothing hides */
    expect_event(t, 10, false, 1, 125, 143);
    expect_event(t, 11, false, 1, 143, 152); /* sgd */
    expect_event(t, 12, false, 1, 152, 152); /* the loss was there long ago */
    cr_expect_eq(t->step_s, 152);
    cr_expect_eq(t->kernel_s, 33 + 9 + 9 + 33 + 9);
    cr_expect_eq(t->communication_s, 17 + 16 + 17 + 18);
    cr_expect_eq(t->exposed_s, 17 + 24 + 18);
    compiled_finish(&x);
}

/* Nothing beside kernels: all one after the other. A half: that of the loss's all_reduce is done behind kernels before the all_gather begins, the other in its wait. */
Test(timeline, what_cannot_overlap_is_done_in_its_wait) {
    static const struct { double overlap, exposed_s; } cases[] = {{0, 17 + 16 + 17 + 18}, {0.5, 17 + 17 + 18 + 8}};
    for (int i = 0; i < 2; i++) {
        Compiled x;
        Machine machine = unit;
        machine.overlap = cases[i].overlap;
        timed(&x, tiny, 4, 2, &machine);
        cr_expect_eq(x.b->timeline->exposed_s, cases[i].exposed_s, "overlap %g: %g s", machine.overlap, x.b->timeline->exposed_s);
        cr_expect_eq(x.b->timeline->step_s, 93 + cases[i].exposed_s);
        compiled_finish(&x);
    }
}

/* What is sent lies in a cache, or in one that is too small for it: the messages' latency stays. */
Test(timeline, what_a_cache_holds_is_sent_at_its_rate) {
    for (int i = 0; i < 2; i++) {
        Compiled x;
        Machine machine = unit;
        machine.rank_cached_bytes_per_s = 2;
        machine.ncaches = 1;
        machine.cache[0] = (Cache){2e30, i == 0 ? 1 << 20 : 1};
        timed(&x, tiny, 4, 2, &machine);
        cr_expect_eq(x.b->timeline->communication_s, i == 0 ? 9 + 10 + 9 + 10 : 17 + 16 + 17 + 18);
        compiled_finish(&x);
    }
}

/* A bucket's messages go together: the latency of one, the bytes of all. */
Test(timeline, a_bucket_is_one_communication) {
    static const char *const two =
        "net n(batch = 8) { input x : f32[batch, 4]; param w : f32[4, 8] = normal(0.1); param v : f32[8, 4] = normal(0.1);\n"
        "  loss mean(matmul(matmul(x, w) shard ((8, 1), (1, 1)), v)); }\n" TRAIN;
    Compiled x;
    timed(&x, two, 8, 2, &unit);
    const Role *role = x.b->facts->role;
    double bytes = 0;
    int starts = 0, buckets = 0;
    for (int c = 0; c < x.b->facts->communications.n; c++) {
        const Communication *made = &x.b->facts->communications.at[c];
        if (made->bucket > 0) starts++, bytes += (double)made->sent.max;
    }
    for (int e = 0; e < x.b->timeline->events.n; e++) {
        const TimelineEvent *event = &x.b->timeline->events.at[e];
        if (!event->communication || role->steps.at[event->step].bucket == 0) continue;
        buckets++;
        cr_expect_eq(event->nsteps, 2);
        cr_expect_eq(event->bytes, bytes);
        cr_expect_eq(event->end_s - event->begin_s, 6 + bytes); /* 2 log2(8) messages */
    }
    cr_expect(starts == 2 && buckets == 1, "%d starts in %d buckets", starts, buckets);
    compiled_finish(&x);
}

/* What is read and written: inner values of fused steps and views not at all, the rest once. */
Test(timeline, kernels_take_their_bytes_where_memory_is_slow) {
    Compiled x;
    Machine machine = unit;
    for (int p = 0; p < NPEAKS; p++)
        machine.flops[p] = 1e30;
    machine.memory_bytes_per_s = 1;
    machine.kernel_s = 0;
    timed(&x, tiny, 4, 2, &machine);
    const Timeline *t = x.b->timeline;
    expect_event(t, 0, false, 1, 0, 32 + 16 + 32);    /* x 4 x 2, w 2 x 2, h 4 x 2 */
    cr_expect_eq(t->events.at[3].bytes, 16 + 16 + 4); /* h, a, loss: relu's result is kept for its gradient */
    cr_expect_eq(t->events.at[5].bytes, 4 + 16 + 16); /* 1, a, h.grad; what is between the two is inner */
    compiled_finish(&x);
}

/* A transpose that its product reads by strides. */
Test(timeline, views_take_no_time) {
    Compiled x;
    timed(&x,
          "net n(batch = 8) { input x : f32[6, 4, batch]; param w : f32[8, 6, 5] = normal(0.5);\n"
          "  wt = transpose(w, perm = [1, 0, 2]); loss mean(square(matmul(x, wt))); }\n" TRAIN,
          1, 2, &unit);
    cr_expect_gt(x.b->facts->views, 0);
    for (int e = 0; e < x.b->timeline->events.n; e++) {
        const Step *step = &x.b->facts->role->steps.at[x.b->timeline->events.at[e].step];
        cr_expect(step->kind != STEP_KERNEL || x.b->facts->role->instances.at[step->out[0]].place != PLACE_VIEW, "step %d",
                  x.b->timeline->events.at[e].step);
    }
    compiled_finish(&x);
}

/* Each figure of the machine counts as the formula says: kernels twice as fast take half, links twice as fast too. */
Test(timeline, a_faster_machine_takes_less) {
    for (int i = 0; i < NNETS; i++) {
        Compiled x;
        timed(&x, nets[i], 4, 2, NULL);
        const double before = x.b->timeline->step_s;
        Machine twice = machine_cpu;
        for (int p = 0; p < NPEAKS; p++)
            twice.flops[p] *= 2;
        twice.memory_bytes_per_s *= 2;
        twice.cache[0].bytes_per_s *= 2;
        twice.kernel_s /= 2;
        Machine links = machine_cpu;
        links.rank.latency_s /= 2, links.rank.bytes_per_s *= 2;
        x.options.machine = &twice;
        const double kernels = x.b->timeline->kernel_s, communications = x.b->timeline->communication_s;
        build_time(x.b);
        cr_expect_float_eq(x.b->timeline->kernel_s, kernels / 2, 1e-9 * kernels);
        cr_expect_eq(x.b->timeline->communication_s, communications);
        x.options.machine = &links;
        build_time(x.b);
        cr_expect_float_eq(x.b->timeline->communication_s, communications / 2, 1e-9 * communications);
        cr_expect_float_eq(x.b->timeline->step_s, before - communications / 2, 1e-9 * before); /* cpu hides nothing */
        compiled_finish(&x);
    }
}

/* Of 8 x 4 numbers a rank draws those of its two rows, before the first kernel; other machines draw beside their kernels. */
Test(timeline, random_numbers_are_drawn_before_the_first_kernel) {
    static const char *const text =
        "net drawn(batch = 8) { input x : f32[batch, 4]; param w : f32[4, 2] = normal(0.1); h = x * random(x);\n"
        "  loss mean(matmul(h, w)); }\n" TRAIN;
    Compiled x;
    Machine measured = unit;
    timed(&x, text, 4, 2, &measured);
    cr_expect_eq(x.b->timeline->events.at[0].begin_s, 0);
    measured.product.bytes_per_s = 1e30;
    build_time(x.b);
    cr_expect_eq(x.b->timeline->events.at[0].begin_s, 100 * 2 * 4);
    cr_expect_geq(x.b->timeline->kernel_s, 100 * 2 * 4);
    compiled_finish(&x);
}

/* Events of a stream follow each other; waits are as long as is said to be exposed. */
Test(timeline, streams_do_one_thing_at_a_time) {
    for (int o = 0; o <= 2; o++)
        for (int i = 0; i < NNETS; i++) {
            Compiled x;
            timed(&x, nets[i], 4, o, &machine_gpu8);
            const Timeline *t = x.b->timeline;
            double until[2] = {0, 0}, waits = 0, exposed = 0;
            for (int e = 0; e < t->events.n; e++) {
                const TimelineEvent *event = &t->events.at[e];
                cr_expect_geq(event->begin_s, until[event->communication]);
                cr_expect_geq(event->end_s, event->begin_s);
                until[event->communication] = event->end_s;
                if (x.b->facts->role->steps.at[event->step].kind == STEP_WAIT) waits += event->end_s - event->begin_s;
            }
            for (int c = 0; c < x.b->facts->communications.n; c++)
                exposed += t->exposed_by[c];
            cr_expect_float_eq(waits, t->exposed_s, 1e-12);
            cr_expect_float_eq(exposed, t->exposed_s, 1e-12);
            cr_expect_float_eq(t->step_s, t->kernel_s + t->exposed_s, 1e-12);
            compiled_finish(&x);
        }
}

Test(timeline, is_written_as_a_trace) {
    Compiled x;
    Text text = {0};
    timed(&x, tiny, 4, 2, &unit);
    timeline_print(&text, x.b->role_timelines, x.b->role_facts, x.b->nroles);
    cr_expect_not_null(
        strstr(text.at, "{\"name\": \"relu+mean\", \"ph\": \"X\", \"pid\": 4, \"tid\": 0, \"ts\": 50000000.000, \"dur\": 9000000.000, "
                        "\"args\": {\"value\": \"a\", \"step\": 1, \"plan_step\": 3, \"flops\": 8, \"bytes\": 36}},\n"));
    cr_expect_not_null(strstr(text.at, "\"name\": \"wait all_gather\""));
    text_finish(&text);
    compiled_finish(&x);
}
