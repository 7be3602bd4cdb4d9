/* What operators mean over the field: against the CPU's kernels on small integers, and for boxes against the whole. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/element.h"
#include "tests/ops/parts.h"
#include "tests/proof/trials.h"
#include "tests/attrs.h"

Test(proof_semantics, every_row_has_a_meaning) {
    for (int op = 0; op < NOPS; op++)
        cr_expect(field_has_semantics((OpCode)op), "%s has none in proof/semantics.c", op_table[op].name);
}

Test(proof_semantics, every_row_is_tried_here) {
    for (int op = 0; op < NOPS; op++) {
        bool tried = op_table[op].op_class == OP_CLASS_LEAF || op == OP_write || op == OP_convert || op_table[op].expand; /* not kernels */
        for (int t = 0; t < ntrials; t++)
            tried |= trials[t].op == (OpCode)op;
        cr_expect(tried, "%s is not in tests/proof/trials.c", op_table[op].name);
    }
}

static void *room(const Box *box) {
    return malloc(8 * (size_t)(box_elements(box) + 1));
}

static Operand operand_of(const FieldTensor *t) {
    Operand o = {.data = room(&t->box), .dtype = t->dtype, .local.ndim = t->box.ndim, .global = t->global, .box = t->box};
    for (int d = 0; d < t->box.ndim; d++)
        o.local.dim[d] = t->box.end[d] - t->box.begin[d];
    return o;
}

/* Hidden dimensions are taken off, and the call is made for the slice `slice` of the box, as the executor does. */
static void take_slice(Operand *o, int64_t slice) {
    int64_t elements = 1;
    o->local.ndim--;
    o->global.ndim--;
    o->box.ndim--;
    for (int d = 0; d < o->local.ndim; d++) {
        o->local.dim[d] = o->local.dim[d + 1];
        o->global.dim[d] = o->global.dim[d + 1];
        o->box.begin[d] = o->box.begin[d + 1];
        o->box.end[d] = o->box.end[d + 1];
        elements *= o->local.dim[d];
    }
    o->data = (char *)o->data + slice * elements * dtype_bytes[o->dtype];
}

static void run_kernel(KernelFn *kernel, const KernelCall *call, const Trial *trial) {
    Error error = {0};
    bool sliced = trial->hidden && !op_table[trial->op].boundary;
    int64_t slices = sliced ? call->in[0].local.dim[0] : 1;
    for (int64_t s = 0; s < slices; s++) {
        KernelCall own = *call;
        Rule rule;
        TensorType types[MAX_IN];
        for (int i = 0; i < own.nin; i++) {
            if (sliced) take_slice(&own.in[i], s);
            types[i] = (TensorType){own.in[i].dtype, trial->hidden && !sliced, own.in[i].global};
        }
        for (int o = 0; o < own.nout && sliced; o++)
            take_slice(&own.out[o], s);
        cr_assert(rule_infer(trial->op, types, own.nin, trial->attr, &rule, NULL));
        own.rule = &rule;
        cr_assert(kernel(&own, &error), "%s: %s", op_table[trial->op].name, error.text);
    }
}

/* A number for an element: small integers; where it is divided by, powers of two, so that f64 has the quotient exactly. */
static double draw(const Trial *trial, int operand, uint64_t *random) {
    static const double powers[] = {1, -1, 2, -2, 4};
    bool divides = trial->inverted && operand == (trial->op == OP_div);
    if (trial_type(trial, operand, F64) == BOOL) return (double)(random_next(random) % 3 == 0);
    return divides ? powers[random_next(random) % 5] : (double)(random_next(random) % 9) - 4;
}

static void compare(const Trial *trial, const char *which, const FieldTensor *field, const Operand *result, int64_t denominator) {
    for (int64_t e = 0, n = box_elements(&field->box); e < n; e++) {
        double kernel = element_at(result->data, result->dtype, e), multiple = kernel * (double)denominator;
        int64_t expected = fe_signed(fe_mul(field->at[e], fe_integer(denominator)));
        cr_assert(fabs(multiple - (double)expected) < 1e-6, "trial %d, %s: element %lld is %.17g, over the field %lld / %lld (%s kernel)",
                  (int)(trial - trials), op_table[trial->op].name, (long long)e, kernel, (long long)expected, (long long)denominator,
                  which);
    }
}

static void try_kernels(const Trial *trial, bool whole, uint64_t *random) {
    TrialGraph t;
    trial_open(&t, trial, F64);
    int64_t begin[MAX_FACTORS], end[MAX_FACTORS];
    trial_parts(&t, true, random, begin, end);
    for (int f = 0; whole && f < t.node->rule->nfactors; f++) {
        begin[f] = 0;
        end[f] = part_extent(t.node->rule, f);
    }
    FieldTensor in[MAX_IN], out[MAX_OUT];
    trial_boxes(&t, begin, end, in, out);
    CpuContext context = {0};
    KernelCall call = {.op = trial->op, .attr = trial->attr, .nin = t.node->nin, .nout = t.node->nout, .nthreads = 1, .context = &context};
    /* A reduction of nothing to its marked count has a denominator of all elements at most; updates and divisions one of a power of two. */
    int64_t denominator = 64 * shape_elements(&in[0].global) * (trial->op == OP_mean_grad ? shape_elements(&out[0].global) : 1);
    for (int i = 0; i < call.nin; i++) {
        in[i].at = room(&in[i].box);
        call.in[i] = operand_of(&in[i]);
        for (int64_t e = 0, n = box_elements(&in[i].box); e < n; e++) {
            double number = draw(trial, i, random);
            element_put(call.in[i].data, call.in[i].dtype, e, number);
            cr_assert(fe_double(number, &in[i].at[e]));
        }
    }
    char why[256];
    for (int k = 0; k < call.nout; k++) {
        out[k].at = room(&out[k].box);
        call.out[k] = operand_of(&out[k]);
    }
    cr_assert(field_kernel(&t.graph, t.node, in, out, why, sizeof why), "%s: %s", op_table[trial->op].name, why);
    KernelFn *const kernels[] = {cpu_reference_kernels[trial->op], backend_cpu.kernels[trial->op]};
    bool empty_max = (trial->op == OP_max || trial->op == OP_min) &&
                     box_elements(&in[0].box) == 0; /* minus infinity, and the lowest number of the field */
    for (int which = 0; which < 2; which++) {
        run_kernel(kernels[which], &call, trial);
        for (int k = 0; k < call.nout && !empty_max; k++)
            compare(trial, which ? "fast" : "plain", &out[k], &call.out[k], denominator);
    }
    for (int i = 0; i < call.nin; i++) {
        free(in[i].at);
        free(call.in[i].data);
    }
    for (int k = 0; k < call.nout; k++) {
        free(out[k].at);
        free(call.out[k].data);
    }
    trial_close(&t);
}

Test(proof_semantics, f64_kernels_compute_the_formulas_on_small_integers) {
    uint64_t random = 5;
    for (int t = 0; t < ntrials; t++)
        for (int repeat = 0; repeat < 20 && !trials[t].hashed; repeat++)
            try_kernels(&trials[t], repeat == 0, &random);
}

/* Copies the elements of a box out of a larger one: of what no window sees, the whole has nothing. */
static void cut(const FieldTensor *whole, FieldTensor *part) {
    int64_t n = box_elements(&part->box);
    part->at = room(&part->box);
    for (int64_t e = 0; e < n; e++) {
        int64_t rest = e, at = 0, stride = 1;
        for (int d = part->box.ndim - 1; d >= 0; d--) {
            int64_t size = part->box.end[d] - part->box.begin[d];
            at += (part->box.begin[d] - whole->box.begin[d] + rest % size) * stride;
            rest /= size;
            stride *= whole->box.end[d] - whole->box.begin[d];
        }
        part->at[e] = whole->at[at];
    }
}

typedef struct Tensors {
    FieldTensor in[MAX_IN], out[MAX_OUT];
} Tensors;

static void tensors_free(const TrialGraph *t, Tensors *tensors) {
    for (int i = 0; i < t->node->nin; i++)
        free(tensors->in[i].at);
    for (int k = 0; k < t->node->nout; k++)
        free(tensors->out[k].at);
}

static void evaluate_whole(const TrialGraph *t, Tensors *whole) {
    int64_t begin[MAX_FACTORS] = {0}, end[MAX_FACTORS];
    char why[256];
    for (int f = 0; f < t->node->rule->nfactors; f++)
        end[f] = part_extent(t->node->rule, f);
    trial_boxes(t, begin, end, whole->in, whole->out);
    for (int i = 0; i < t->node->nin; i++) {
        whole->in[i].at = room(&whole->in[i].box);
        cr_assert(field_leaf(&t->graph, &t->graph.nodes.at[i], 3, &whole->in[i], why, sizeof why), "%s", why);
    }
    for (int k = 0; k < t->node->nout; k++)
        whole->out[k].at = room(&whole->out[k].box);
    cr_assert(field_kernel(&t->graph, t->node, whole->in, whole->out, why, sizeof why), "%s: %s", op_table[t->node->op].name, why);
}

/* Results of the operands' boxes, in `part`. */
static void evaluate_part(const TrialGraph *t, const Tensors *whole, const int64_t *begin, const int64_t *end, Tensors *part) {
    char why[256];
    trial_boxes(t, begin, end, part->in, part->out);
    for (int i = 0; i < t->node->nin; i++)
        cut(&whole->in[i], &part->in[i]);
    for (int k = 0; k < t->node->nout; k++)
        part->out[k].at = room(&part->out[k].box);
    cr_assert(field_kernel(&t->graph, t->node, part->in, part->out, why, sizeof why), "%s: %s", op_table[t->node->op].name, why);
}

Test(proof_semantics, operands_boxes_give_the_results_box) {
    uint64_t random = 6;
    for (int i = 0; i < ntrials; i++) {
        TrialGraph t;
        Tensors whole;
        trial_open(&t, &trials[i], F32);
        evaluate_whole(&t, &whole);
        for (int repeat = 0; repeat < 20; repeat++) {
            int64_t begin[MAX_FACTORS], end[MAX_FACTORS];
            Tensors part;
            trial_parts(&t, false, &random, begin, end);
            evaluate_part(&t, &whole, begin, end, &part);
            for (int k = 0; k < t.node->nout; k++) {
                FieldTensor expected = part.out[k];
                cut(&whole.out[k], &expected);
                cr_assert_eq(memcmp(expected.at, part.out[k].at, sizeof(Fe) * (size_t)box_elements(&expected.box)), 0, "%s",
                             op_table[trials[i].op].name);
                free(expected.at);
            }
            tensors_free(&t, &part);
        }
        tensors_free(&t, &whole);
        trial_close(&t);
    }
}

/* An index that a result lacks in three parts, one of them empty now and then: the shares of its sum add up, of a maximum the largest is it. */
Test(proof_semantics, shares_of_a_sum_add_up) {
    uint64_t random = 8;
    int tried = 0;
    for (int i = 0; i < ntrials; i++) {
        TrialGraph t;
        Tensors whole;
        trial_open(&t, &trials[i], F32);
        evaluate_whole(&t, &whole);
        const Rule *rule = t.node->rule;
        int64_t begin[MAX_FACTORS], end[MAX_FACTORS];
        for (int f = 0; f < rule->nfactors; f++)
            for (int k = 0; k < rule->nout; k++) {
                if (rule_out_has(rule, k, f) || factor_stays_whole(&rule->factor[f])) continue;
                int64_t size = part_extent(rule, f), at[4] = {0, 0, 0, size};
                at[1] = (int64_t)(random_next(&random) % (uint64_t)(size + 1));
                at[2] = at[1] + (int64_t)(random_next(&random) % (uint64_t)(size - at[1] + 1));
                int64_t n = shape_elements(&whole.out[k].global);
                Fe *sum = room(&whole.out[k].box);
                for (int p = 0; p < 3; p++) {
                    Tensors part;
                    for (int g = 0; g < rule->nfactors; g++) {
                        begin[g] = g == f ? at[p] : 0;
                        end[g] = g == f ? at[p + 1] : part_extent(rule, g);
                    }
                    evaluate_part(&t, &whole, begin, end, &part);
                    for (int64_t e = 0; e < n; e++) {
                        Fe own = part.out[k].at[e];
                        if (p == 0)
                            sum[e] = own;
                        else if (op_table[trials[i].op].reduction == REDUCE_SUM)
                            sum[e] = fe_add(sum[e], own);
                        else if (op_table[trials[i].op].reduction == REDUCE_MAX ? fe_signed(own) > fe_signed(sum[e])
                                                                                : fe_signed(own) < fe_signed(sum[e]))
                            sum[e] = own;
                    }
                    tensors_free(&t, &part);
                }
                cr_assert_eq(memcmp(sum, whole.out[k].at, sizeof *sum * (size_t)n), 0, "%s", op_table[trials[i].op].name);
                free(sum);
                tried++;
            }
        tensors_free(&t, &whole);
        trial_close(&t);
    }
    cr_assert_gt(tried, 15);
}

/* Integers are stopped at the bounds; of reals each pair of bounds is another function. */
Test(proof_semantics, integers_are_clamped_by_their_order) {
    static const int64_t x[] = {-9, -3, 0, 4, 5, 100}, expected[] = {-3, -3, 0, 4, 4, 4};
    const Trial trial = {.op = OP_clamp, .nin = 1, .in = {{1, {6}}}, .attr = {{.given = true, .f = -3}, {.given = true, .f = 4}}};
    TrialGraph t;
    Fe in_at[6], out_at[6];
    char why[256];
    trial_open(&t, &trial, I64);
    FieldTensor in[MAX_IN], out[MAX_OUT];
    trial_boxes(&t, (int64_t[]){0}, (int64_t[]){6}, in, out);
    in[0].at = in_at, out[0].at = out_at;
    for (int i = 0; i < 6; i++)
        in_at[i] = fe_integer(x[i]);
    cr_assert(field_kernel(&t.graph, t.node, in, out, why, sizeof why), "%s", why);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(fe_signed(out_at[i]), expected[i]);
    Node other = *t.node;
    Fe seen[3];
    in[0].dtype = out[0].dtype = F64;
    for (int k = 0; k < 3; k++) {
        Attr *attr = own_attrs(&t.graph, &other);
        attr[0].given = k != 1;
        attr[1].f = k == 2 ? 5 : 4;
        cr_assert(field_kernel(&t.graph, &other, in, out, why, sizeof why), "%s", why);
        seen[k] = out_at[0];
    }
    cr_assert(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    trial_close(&t);
}

/* An operand's box that lacks what the result needs, or has more. */
Test(proof_semantics, boxes_that_do_not_fit_are_rejected) {
    for (int i = 0; i < ntrials; i++) {
        TrialGraph t;
        Tensors whole;
        char why[256] = "";
        trial_open(&t, &trials[i], F32);
        evaluate_whole(&t, &whole);
        Tensors wrong = whole;
        int d = wrong.in[0].box.ndim - 1;
        for (; d >= 0; d--) { /* less of an index that only one tensor has is a share of the sum over it */
            int factor = t.node->rule->in[0][d];
            bool shared = false;
            for (int i = 1; factor >= 0 && i < t.node->nin; i++)
                shared = shared || rule_in_has(t.node->rule, i, MAX_NDIM, factor);
            if (factor < 0 || shared || !rule_sums(t.node->rule, factor)) break;
        }
        if (d < 0) {
            tensors_free(&t, &whole);
            trial_close(&t);
            continue;
        }
        if (part_halo(t.node->rule, 0, wrong.in[0].box.ndim, d)) /* between windows there may be elements that none sees */
            wrong.in[0].box.end[d] -= (wrong.in[0].box.end[d] - wrong.in[0].box.begin[d]) / 2;
        wrong.in[0].box.end[d]--;
        cr_assert_not(field_kernel(&t.graph, t.node, wrong.in, wrong.out, why, sizeof why), "%s", op_table[trials[i].op].name);
        cr_assert(why[0]);
        tensors_free(&t, &whole);
        trial_close(&t);
    }
}

Test(proof_semantics, mse_is_the_mean_of_squares) {
    Trial trial = {.op = OP_mse, .nin = 2, .in = {{2, {4, 6}}, {2, {4, 6}}}};
    for (int sum = 0; sum < 2; sum++) {
        TrialGraph t;
        Tensors whole;
        if (sum) trial.attr[0] = (Attr){.given = true, .text = "sum"};
        trial_open(&t, &trial, F32);
        evaluate_whole(&t, &whole);
        Fe expected = 0;
        for (int e = 0; e < 24; e++) {
            Fe difference = fe_sub(whole.in[0].at[e], whole.in[1].at[e]);
            expected = fe_add(expected, fe_mul(difference, difference));
        }
        cr_assert_eq(fe_mul(whole.out[0].at[0], sum ? 1 : 24), expected);
        tensors_free(&t, &whole);
        trial_close(&t);
    }
}

/* A conversion without communication takes the result's box out of its operand's, which may be larger, not smaller. */
Test(proof_semantics, a_conversion_takes_a_box_out_of_a_larger_one) {
    const Node node = {.op = OP_convert, .nin = 1, .nout = 1};
    Fe from[12], to[4];
    char why[256];
    for (int e = 0; e < 12; e++)
        from[e] = (Fe)e;
    FieldTensor in = {.dtype = F32, .global = {2, {4, 6}}, .box = {2, {1, 2}, {4, 6}}, .at = from};
    FieldTensor out = {.dtype = F32, .global = {2, {4, 6}}, .box = {2, {2, 3}, {4, 5}}, .at = to};
    cr_assert(field_kernel(NULL, &node, &in, &out, why, sizeof why), "%s", why);
    cr_assert(to[0] == 5 && to[1] == 6 && to[2] == 9 && to[3] == 10);
    for (int d = 0; d < 2; d++)
        for (int side = 0; side < 2; side++) {
            FieldTensor outside = out;
            outside.box.begin[d] += side ? 3 - d : -2;
            outside.box.end[d] += side ? 3 - d : -2;
            cr_assert_not(field_kernel(NULL, &node, &in, &outside, why, sizeof why));
        }
}

/* What the planner and prun take for element by element is what the proof does, but where elements of another size come out. */
Test(proof_semantics, elementwise_has_one_meaning) {
    for (int i = 0; i < ntrials; i++) {
        TrialGraph t;
        Letters letters;
        char why[512];
        trial_open(&t, &trials[i], F32);
        const Node *node = t.node;
        const DType in = t.graph.values.at[node->nin > 0 ? node->in[0] : node->out[0]].type.dtype;
        const bool kernel = node->nin > 0 && node->nout > 0 && !op_table[node->op].expand && node->op != OP_convert;
        if (kernel && dtype_bytes[in] == dtype_bytes[t.graph.values.at[node->out[0]].type.dtype]) {
            cr_assert(node_letters(&t.graph, node, &letters, why, sizeof why), "%s: %s", op_table[node->op].name, why);
            cr_expect_eq(letters.elementwise, op_elementwise(node->op), "%s", op_table[node->op].name);
        }
        trial_close(&t);
    }
}
