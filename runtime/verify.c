/* verify: runs the plan of the same net for one rank in lock step with the run that it checks. This reference begins every step from the
 * run's own states, so that differences are those of one step.
 *
 * How much may they differ? Sums are added in another order, which is an error of about one rounding of each operand. So the reference takes
 * every step a second time with each element of its states, its inputs, constants that are added up and every kernel's result moved by up to eight roundings (one could
 * vanish in the next rounding, or cancel). An eighth of the largest change that this makes to an element of a tensor measures how much
 * the tensor depends on roundings. Tolerance of a tensor = (8 + sqrt(longest sum of the net)) * (that + epsilon * its largest element). Where a value crosses a kink
 * (relu at 0) within rounding, a gradient changes by far more: of a few million values one does so in some steps, in the run or among the moved ones. So
 * where a difference exceeds the tolerance, the reference repeats the step a few times, moved differently, and the largest change counts. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/disturb.h"
#include "runtime/evaluate.h"
#include "runtime/print.h"
#include "runtime/verify.h"

struct Verifier {
    const Plan *plan;   /* of the run */
    Executor *executor; /* the run */
    Comm *comm;
    bool leads; /* this is rank 0's process, which has the reference */
    const char *path;
    Arena arena;
    Plan reference_plan;
    Comm *reference_comm;
    Device reference_device; /* always the CPU */
    Disturber *disturber;    /* that device */
    Executor *reference;
    Evaluation *evaluation; /* the reference's; NULL: the run has none */
    int *state;             /* per state of the run: the reference's of the same name */
    double **before;        /* per state: the run's values before the step */
    Arena step_arena;       /* of before */
    double length;          /* of the longest sum */
    int64_t nsteps, ncompared;
    double worst; /* largest difference / tolerance */
};

enum { MAX_PLAN_BYTES = 1 << 30, ROUNDINGS = 8, MORE_TRIES = 12 };

/* The most terms that an operator adds up for one element of its result. */
static double longest_sum(const Graph *graph) {
    double longest = 1;
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        double length = 1;
        for (int f = 0; node->nin > 0 && node->rule && f < node->rule->nfactors; f++)
            if (rule_sums(node->rule, f)) length *= (double)node->rule->factor[f].size;
        longest = fmax(longest, length);
    }
    return longest;
}

static bool match_states(Verifier *verifier, Error *error) {
    const Graph *graph = &verifier->plan->graph, *other = &verifier->reference_plan.graph;
    for (int i = 0; i < graph->states.n; i++) {
        verifier->state[i] = -1;
        for (int k = 0; k < other->states.n; k++)
            if (strcmp(graph->states.at[i].name, other->states.at[k].name) == 0 &&
                type_equal(&graph->states.at[i].type, &other->states.at[k].type))
                verifier->state[i] = k;
        if (verifier->state[i] < 0) return error_set(error, EXIT_REJECTED, "%s has no state %s", verifier->path, graph->states.at[i].name);
    }
    return true;
}

/* The error that the reference is not of the same net: a net with batches in parts, which a search may choose to save memory, is another one. */
static bool other_net(const Verifier *verifier, Error *error) {
    const Plan *plan = verifier->plan, *reference = &verifier->reference_plan;
    const int64_t batches = settings_batches(&plan->graph.settings), others = settings_batches(&reference->graph.settings);
    if (batches > others && batches % others == 0)
        return error_set(
            error, EXIT_REJECTED,
            "--verify: this plan does a step in %lld batches, %s in %lld: if those are parts that were taken for memory, compile the same "
            "source with --ranks 1 and train { micro_batches = %lld; }",
            (long long)batches, verifier->path, (long long)others, (long long)(batches / others));
    return error_set(error, EXIT_REJECTED,
                     "--verify: %s is of another net (hash %016llx, this plan's is %016llx): compile the same source with --ranks 1",
                     verifier->path, (unsigned long long)reference->net_hash, (unsigned long long)plan->net_hash);
}

static bool load_reference(Verifier *verifier, int nthreads, Error *error) {
    Plan *plan = &verifier->reference_plan;
    PlanFiles files;
    if (!plan_files_read(&files, &verifier->arena, verifier->path, MAX_PLAN_BYTES, error)) return false;
    if (!plan_read_files(plan, &verifier->arena, verifier->path, &files, 0, error)) return false;
    if (plan->graph.nranks != 1)
        return error_set(error, EXIT_REJECTED, "--verify: %s is for %d ranks: compile the net with --ranks 1", verifier->path,
                         plan->graph.nranks);
    if (plan->net_hash != verifier->plan->net_hash) return other_net(verifier, error);
    if (!match_states(verifier, error)) return false;
    const char *slash = strrchr(verifier->path, '/');
    const char *directory = slash ? arena_copy(&verifier->arena, verifier->path, (size_t)(slash - verifier->path)) : ".";
    verifier->reference_comm = comm_local_create(1, error);
    if (!verifier->reference_comm) return false;
    verifier->disturber =
        disturber_open(&verifier->reference_device, &backend_cpu, &(DeviceOptions){.nlocal = 1, .nthreads = nthreads}, error);
    if (!verifier->disturber) return false;
    verifier->reference = executor_create(plan, "train", &verifier->reference_device, verifier->reference_comm, directory, nthreads, error);
    if (!verifier->reference) return false;
    data_share_figures(executor_data(verifier->reference), executor_data(verifier->executor));
    int64_t steps;
    if (evaluation_when(plan, &steps) == EVAL_NEVER) return true;
    verifier->evaluation = evaluation_create(plan, NULL, verifier->reference, &verifier->reference_device, verifier->reference_comm,
                                             directory, nthreads, error);
    return verifier->evaluation != NULL;
}

Verifier *verifier_create(const Plan *plan, const char *path, Executor *executor, Comm *comm, int nthreads, Error *error) {
    Verifier *verifier = calloc(1, sizeof *verifier);
    if (!verifier) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    *verifier = (Verifier){.plan = plan, .executor = executor, .comm = comm, .leads = comm->first_driven == 0, .path = path};
    arena_init(&verifier->arena);
    arena_init(&verifier->step_arena);
    verifier->state = arena_alloc(&verifier->arena, (size_t)plan->graph.states.n * sizeof *verifier->state);
    verifier->before = arena_alloc(&verifier->arena, (size_t)plan->graph.states.n * sizeof *verifier->before);
    verifier->length = longest_sum(&plan->graph);
    bool ok = !verifier->leads || load_reference(verifier, nthreads, error);
    const Error own = *error;
    if (comm_agree(comm, ok, error)) return verifier;
    if (!ok) *error = own; /* rank 0's file: no need to name the rank */
    verifier_destroy(verifier);
    return NULL;
}

void verifier_destroy(Verifier *verifier) {
    if (!verifier) return;
    evaluation_destroy(verifier->evaluation);
    executor_destroy(verifier->reference);
    device_close(&verifier->reference_device);
    if (verifier->reference_comm) verifier->reference_comm->table->destroy(verifier->reference_comm);
    arena_finish(&verifier->step_arena);
    arena_finish(&verifier->arena);
    free(verifier);
}

bool verifier_before(Verifier *verifier, Error *error) {
    arena_finish(&verifier->step_arena);
    arena_init(&verifier->step_arena);
    for (int i = 0; i < verifier->plan->graph.states.n; i++)
        if (!executor_gather_state(verifier->executor, i, &verifier->step_arena, &verifier->before[i], error)) return false;
    return true;
}

/* ---------------------------------------------------------------- the reference's step */

/* By how much numbers are moved: by at most so many roundings, differently for each seed. */
typedef struct Shift {
    double roundings;
    uint64_t seed;
} Shift;

/* What a step left: losses and states. */
typedef struct Outcome {
    int nlosses;
    double *losses;
    double **states;
} Outcome;

/* Gives the reference the run's states, each element moved. */
static bool set_reference(Verifier *verifier, Shift move, Arena *arena, Error *error) {
    const Graph *graph = &verifier->plan->graph;
    for (int i = 0; i < graph->states.n; i++) {
        const State *state = &graph->states.at[i];
        int64_t n = shape_elements(&state->type.shape);
        double *moved = arena_alloc(arena, (size_t)n * sizeof *moved);
        for (int64_t k = 0; k < n; k++)
            moved[k] = number_moved(verifier->before[i][k], 0, state->type.dtype, move.roundings,
                                    (uint64_t)k ^ (uint64_t)i << 40 ^ move.seed * 0x9E3779B97F4A7C15u);
        if (!executor_set_state(verifier->reference, verifier->state[i], moved, error)) return false;
    }
    return true;
}

/* The reference takes the step from the run's states before it, with each element of all tensors in it moved. */
static bool reference_step(Verifier *verifier, int64_t epoch, int64_t step, Shift move, Arena *arena, Outcome *outcome, Error *error) {
    const Graph *graph = &verifier->plan->graph;
    if (!set_reference(verifier, move, arena, error)) return false;
    disturber_set(verifier->disturber, verifier->reference, move.roundings, move.seed);
    int64_t ahead, updates = executor_updates(verifier->executor, &ahead);
    executor_set_updates(verifier->reference, updates - 1, ahead); /* the run has done this step already */
    if (!executor_step(verifier->reference, epoch, step, error)) return false;
    const double *losses;
    outcome->nlosses = executor_losses(verifier->reference, 0, &losses);
    outcome->losses = arena_alloc(arena, (size_t)outcome->nlosses * sizeof *losses);
    if (outcome->nlosses > 0) memcpy(outcome->losses, losses, (size_t)outcome->nlosses * sizeof *losses);
    outcome->states = arena_alloc(arena, (size_t)graph->states.n * sizeof *outcome->states);
    for (int i = 0; i < graph->states.n; i++)
        if (!executor_gather_state(verifier->reference, verifier->state[i], arena, &outcome->states[i], error)) return false;
    return true;
}

/* ---------------------------------------------------------------- comparing */

/* The largest difference that moving made to an element. */
static double largest_change(const double *moved, const double *exact, int64_t n) {
    double change = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(moved[i]) && isfinite(exact[i])) change = fmax(change, fabs(moved[i] - exact[i]));
    return change;
}

/* Compares a tensor of the run with the reference's; change: its largest_change. Two nans are equal. */
static bool compare(Verifier *verifier, const char *name, const TensorType *type, const double *mine, const double *theirs, double change,
                    int64_t n, int64_t epoch, int64_t step, Error *error) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(theirs[i])) largest = fmax(largest, fabs(theirs[i]));
    double tolerance = (8 + sqrt(verifier->length)) * (change / ROUNDINGS + number_epsilon(type->dtype) * largest);
    for (int64_t i = 0; i < n; i++) {
        verifier->ncompared++;
        if (mine[i] == theirs[i] || (isnan(mine[i]) && isnan(theirs[i]))) continue;
        double difference = fabs(mine[i] - theirs[i]);
        if (tolerance > 0) verifier->worst = fmax(verifier->worst, difference / tolerance);
        if (difference <= tolerance) continue;
        char a[NUMBER_MAX], b[NUMBER_MAX];
        Text index = {0};
        int64_t left = i, at[MAX_NDIM];
        for (int d = type->shape.ndim - 1; d >= 0; d--)
            at[d] = left % type->shape.dim[d], left /= type->shape.dim[d];
        for (int d = 0; d < type->shape.ndim; d++)
            text_printf(&index, "%s%lld", d ? ", " : "", (long long)at[d]);
        number_print(a, mine[i]);
        number_print(b, theirs[i]);
        error_set(error, EXIT_MISMATCH,
                  "--verify: %s[%s] differs after epoch %lld step %lld: %s, one rank has %s (difference %.3g, tolerance %.3g)", name,
                  index.at ? index.at : "", (long long)epoch, (long long)step, a, b, difference, tolerance);
        text_finish(&index);
        return false;
    }
    return true;
}

/* Gathers the losses of the whole hidden dimension: one number per slice (global modes: one). */
static bool gather_losses(Verifier *verifier, int nlosses, double *losses, Arena *arena, Error *error) {
    int most = executor_most_slices(verifier->executor), nranks = verifier->comm->nranks, first;
    double *all = arena_alloc(arena, (size_t)most * (size_t)nranks * sizeof *all);
    if (!executor_gather_losses(verifier->executor, all, error)) return false;
    for (int r = nranks - 1; r >= 0; r--)
        for (int k = executor_slices(verifier->executor, r, &first) - 1; k >= 0; k--)
            if (first + k < nlosses) losses[first + k] = all[(int64_t)r * most + k];
    return true;
}

/* change: the largest that any try made, of the losses, then of each state. */
static bool compare_outcome(Verifier *verifier, int64_t epoch, int64_t step, double *const *states, const double *losses,
                            const Outcome *exact, const double *change, Error *error) {
    const Graph *graph = &verifier->plan->graph;
    if (exact->nlosses > 0 && !compare(verifier, "loss", &graph->values.at[graph->loss].type, losses, exact->losses, change[0],
                                       exact->nlosses, epoch, step, error))
        return false;
    for (int i = 0; i < exact->nlosses; i++) /* nan = 0 * inf: kernels that skip products with 0 decide which gradients are nan */
        if (!isfinite(exact->losses[i])) return true;
    for (int i = 0; i < graph->states.n; i++) {
        const TensorType *type = &graph->states.at[i].type;
        if (!compare(verifier, graph->states.at[i].name, type, states[i], exact->states[i], change[1 + i], shape_elements(&type->shape),
                     epoch, step, error))
            return false;
    }
    return true;
}

static bool move_step(Verifier *verifier, int64_t epoch, int64_t step, uint64_t seed, const Outcome *exact, double *change, Error *error) {
    const Graph *graph = &verifier->plan->graph;
    Arena arena;
    Outcome moved;
    arena_init(&arena);
    const bool ok = reference_step(verifier, epoch, step, (Shift){ROUNDINGS, seed}, &arena, &moved, error);
    if (ok && exact->nlosses > 0) change[0] = fmax(change[0], largest_change(moved.losses, exact->losses, exact->nlosses));
    for (int i = 0; ok && i < graph->states.n; i++)
        change[1 + i] =
            fmax(change[1 + i], largest_change(moved.states[i], exact->states[i], shape_elements(&graph->states.at[i].type.shape)));
    arena_finish(&arena);
    return ok;
}

static bool compare_step(Verifier *verifier, int64_t epoch, int64_t step, double *const *states, const double *losses, int nlosses,
                         Arena *arena, Error *error) {
    Outcome exact;
    double *change = arena_alloc(arena, ((size_t)verifier->plan->graph.states.n + 1) * sizeof *change);
    if (!reference_step(verifier, epoch, step, (Shift){0, 0}, arena, &exact, error)) return false;
    if (exact.nlosses != nlosses) return error_set(error, EXIT_MISMATCH, "--verify: %d losses, one rank has %d", nlosses, exact.nlosses);
    const int64_t ncompared = verifier->ncompared;
    const double worst = verifier->worst;
    for (uint64_t seed = 0;; seed++) {
        if (!move_step(verifier, epoch, step, seed, &exact, change, error)) return false;
        verifier->ncompared = ncompared;
        verifier->worst = worst;
        if (compare_outcome(verifier, epoch, step, states, losses, &exact, change, error)) break;
        if (seed == MORE_TRIES) return false;
    }
    verifier->nsteps++;
    return true;
}

/* Tells all processes what was found. */
static bool tell(Verifier *verifier, bool ok, Error *error) {
    const Error own = *error;
    if (comm_agree(verifier->comm, ok, error)) return true;
    if (!ok && own.code == EXIT_MISMATCH) *error = own; /* found by rank 0 for all: rank 0 itself has not failed */
    return false;
}

bool verifier_after(Verifier *verifier, int64_t epoch, int64_t step, Error *error) {
    const Graph *graph = &verifier->plan->graph;
    Arena arena;
    arena_init(&arena);
    double **states = arena_alloc(&arena, (size_t)graph->states.n * sizeof *states);
    bool ok = true;
    for (int i = 0; ok && i < graph->states.n; i++)
        ok = executor_gather_state(verifier->executor, i, &arena, &states[i], error);
    int nlosses = graph->loss < 0 ? 0 : (int)shape_elements(&graph->values.at[graph->loss].type.shape);
    double *losses = arena_alloc(&arena, (size_t)nlosses * sizeof *losses);
    ok = ok && gather_losses(verifier, nlosses, losses, &arena, error);
    if (ok && verifier->leads) ok = compare_step(verifier, epoch, step, states, losses, nlosses, &arena, error);
    arena_finish(&arena);
    return tell(verifier, ok, error);
}

/* The reference's evaluation of the run's states. */
static bool reference_evaluation(Verifier *verifier, Shift move, Arena *arena, EvalResult *result, Error *error) {
    bool ignored;
    if (!set_reference(verifier, move, arena, error)) return false;
    disturber_set(verifier->disturber, evaluation_executor(verifier->evaluation), move.roundings, move.seed);
    return evaluation_run(verifier->evaluation, NULL, result, &ignored, error);
}

static bool compare_evaluation(Verifier *verifier, const EvalResult *mine, int64_t epoch, int64_t step, Arena *arena, Error *error) {
    EvalResult exact, moved;
    const Graph *graph = &verifier->plan->graph;
    TensorType type = {.dtype = graph->values.at[graph->loss].type.dtype};
    if (!verifier->evaluation) return error_set(error, EXIT_REJECTED, "--verify: %s has no program eval", verifier->path);
    if (!reference_evaluation(verifier, (Shift){ROUNDINGS, 0}, arena, &moved, error) ||
        !reference_evaluation(verifier, (Shift){0, 0}, arena, &exact, error))
        return false;
    if (mine->rows != exact.rows)
        return error_set(error, EXIT_MISMATCH, "--verify: %lld rows evaluated, one rank has %lld", (long long)mine->rows,
                         (long long)exact.rows);
    bool ok = compare(verifier, "the eval's loss", &type, &mine->loss, &exact.loss, largest_change(&moved.loss, &exact.loss, 1), 1, epoch,
                      step, error);
    for (Metric metric = 0; ok && metric < NMETRICS; metric++) {
        char name[64];
        snprintf(name, sizeof name, "the eval's %s", metric_name[metric]);
        ok = !mine->has[metric] || compare(verifier, name, &type, &mine->metric[metric], &exact.metric[metric],
                                           largest_change(&moved.metric[metric], &exact.metric[metric], 1), 1, epoch, step, error);
    }
    return ok;
}

bool verifier_evaluation(Verifier *verifier, const EvalResult *mine, int64_t epoch, int64_t step, Error *error) {
    Arena arena;
    if (!verifier_before(verifier, error)) return false;
    arena_init(&arena);
    bool ok = !verifier->leads || compare_evaluation(verifier, mine, epoch, step, &arena, error);
    arena_finish(&arena);
    return tell(verifier, ok, error);
}

void verifier_report(const Verifier *verifier, Text *text) {
    if (!verifier->leads) return;
    text_printf(text, "verified: %lld steps, %lld numbers equal one rank's; largest difference %.2g of its tolerance\n",
                (long long)verifier->nsteps, (long long)verifier->ncompared, verifier->worst);
}
