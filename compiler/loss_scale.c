/* loss_scale: `precision = f16` computes the gradients of the loss times a scale, so that small ones are not lost in 16 bits, as torch.amp.GradScaler does.
 *
 * Each gradient is divided by the scale in f32, before anything else is done with it. Where one of them is nan or infinite the step writes no parameter, slot or average and counts no
 * update, and the scale is halved; after GROWTH updates in a row it is doubled. Gradients are checked where they are complete, by the sum of their squares, which clipping takes
 * too: it is the same number on all ranks, so that all of them write, or none does. The scale and its counts are states of the program: a checkpoint has them. */
#include "compiler/loss_scale.h"

#include <float.h>
#include <math.h>

#include "compiler/compiler.h"

enum { GROWTH = 2000 }; /* GradScaler's growth_interval; its factors are 2 and 0.5 */

static const TensorType number_type = {.dtype = F32};

static int number(Graph *g, DType dtype, double value) {
    return graph_constant(g, (TensorType){.dtype = dtype}, NULL, value, "number", (Span){0});
}
static int binary(Graph *g, OpCode op, int a, int b, const char *name) {
    return graph_emit(g, op, (int[]){a, b}, 2, NULL, name, (Span){0});
}
static int either(Graph *g, int condition, int yes, int no, const char *name) {
    return graph_emit(g, OP_where, (int[]){condition, yes, no}, 3, NULL, name, (Span){0});
}

static int add_number(Graph *g, const char *name, double initial) {
    double *data = arena_alloc(g->arena, sizeof *data);
    *data = initial;
    return graph_add_state(g, (State){.name = name, .type = number_type, .init = {.kind = INIT_LITERAL, .data = data}, .parameter = -1});
}
static int read_number(Graph *g, int state) {
    return graph_read_state(g, state, 0, g->states.at[state].name, (Span){0});
}

void loss_scale_begin(Graph *g, LossScale *s, bool counts) {
    *s = (LossScale){.on = g->settings.precision == F16, .updates = -1, .count = -1};
    if (!s->on) return;
    s->scale = add_number(g, "optimizer.loss_scale", g->settings.loss_scale);
    s->good = add_number(g, "optimizer.good_updates", 0);
    s->old_scale = read_number(g, s->scale);
    s->old_good = read_number(g, s->good);
    s->inverse = binary(g, OP_div, number(g, F32, 1), s->old_scale, "unscale");
    if (!counts) return;
    s->updates = add_number(g, "optimizer.updates", 0);
    s->count = binary(g, OP_add, read_number(g, s->updates), number(g, F32, 1), "update");
}

int loss_scale_seed(Graph *g, const LossScale *s, double share) {
    const Value *loss = &g->values.at[g->loss];
    const TensorType type = loss->type;
    const int from = loss->node, part = PART_OUT + loss->index,
              seed = graph_constant(g, type, NULL, share, "d_loss", g->nodes.at[from].span);
    if (!s->on) return seed;
    int scale = graph_as_type(g, s->old_scale, type.dtype, (Span){0});
    if (type.hidden) scale = graph_replicate(g, scale, "loss_scale", (Span){0});
    return graph_emit_gradient(g, from, OP_mul, (int[]){seed, scale}, (int[]){part, PART_NONE}, 2, part, NULL, "d_scaled_loss");
}

int loss_scale_remove(Graph *g, const LossScale *s, int read, int gradient) {
    if (!s->on) return gradient;
    const int from = g->values.at[read].node;
    const State *of = &g->states.at[g->nodes.at[from].state];
    const int inverse = graph_as_type(g, s->inverse, of->type.dtype, of->span);
    return graph_emit_gradient(g, from, OP_mul, (int[]){gradient, inverse}, (int[]){PART_OUT, PART_NONE}, 2, PART_OUT, NULL,
                               arena_printf(g->arena, "unscaled_%s", of->name));
}

void loss_scale_check(Graph *g, LossScale *s, int squares) {
    const int zero = number(g, g->values.at[squares].type.dtype, 0);
    s->finite = binary(g, OP_equal, binary(g, OP_mul, squares, zero, "zero"), zero, "finite"); /* nan and infinity times 0 are nan */
}

int loss_scale_keep(Graph *g, const LossScale *s, int new, int old, Span span) {
    if (!s->on) return new;
    return graph_emit(g, OP_where, (int[]){s->finite, new, old}, 3, NULL, arena_printf(g->arena, "kept_%s", g->values.at[old].name), span);
}

/* The largest finite number that doubling leads to: GradScaler does not double beyond the reals either. */
static double largest(double start) {
    int exponent;
    return ldexp(frexp((float)start, &exponent), FLT_MAX_EXP);
}

static void write_number(Graph *g, const LossScale *s, int state, int done, int skipped) {
    graph_write_state(g, state, either(g, s->finite, done, skipped, arena_printf(g->arena, "new_%s", g->states.at[state].name)), (Span){0});
}

void loss_scale_end(Graph *g, const LossScale *s) {
    if (!s->on) return;
    const int zero = number(g, F32, 0), good = binary(g, OP_add, s->old_good, number(g, F32, 1), "good"),
              full = binary(g, OP_equal, good, number(g, F32, GROWTH), "full"),
              doubled = binary(g, OP_minimum, binary(g, OP_mul, s->old_scale, number(g, F32, 2), "doubled"),
                               number(g, F32, largest(g->settings.loss_scale)), "doubled");
    write_number(g, s, s->scale, either(g, full, doubled, s->old_scale, "grown"),
                 binary(g, OP_mul, s->old_scale, number(g, F32, 0.5), "halved"));
    write_number(g, s, s->good, either(g, full, zero, good, "good"), zero);
    if (s->updates >= 0) write_number(g, s, s->updates, s->count, read_number(g, s->updates));
}
