/* micro: finds a plan within the limit of memory by more than one search. A search within a limit takes measures one after another, so its plan may need more memory, or take
 * longer, than what it finds within a lower limit. Batches in parts need less memory, but each part starts every kernel. So where a limit costs time, or nothing fits, the net is
 * searched again: with whole batches and in 2, 4, 8 .. parts, within the limit and within lower ones (rungs), which are the same for every limit that a user may give. The
 * fastest plan that fits is taken. Nets that would compute something else in parts (row_parts.c) stay whole. Work is counted in nodes compiled, so that the plan does not depend
 * on the machine's load. */
#include <string.h>

#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/search.h"
#include "compiler/timeline.h"

enum { MOST_PARTS = 256, MOST_NODES = 40000, SMALL_NODES = 600, MOST_AGAIN = 3 };
enum {
    MOST_WORK = 150000,
    MOST_WORK_REFUSED = 200000,
    MOST_WORK_LEAST = 500000
};                                              /* SearchTaken.work: usually; where nothing fits; to find the least memory that would do */
enum { AXIS_LIMITS = 3, IDLE = 4, CLOSER = 2 }; /* limits: for another search; in a row without a gain; below the least known */
#define FAR 1.2                                 /* times the limit: what needs more is not made to fit by a search within a lower limit */
#define REACH 1.5                               /* times the limit: where all known plans need more, nothing is taken to fit */
#define NEAR 1.05                               /* times what every plan needs: what needs no more than that is the least */
#define WORTH 1.005                             /* measures that make a step longer by a smaller factor count as free */

/* A plan that a search found, or compiled on its way. */
typedef struct Candidate {
    int parts;     /* of a batch; 0: as the net says */
    int64_t bytes; /* that a rank needs, judged by the first two parts */
    int64_t evals; /* of these, those of evals, which parts do not divide */
    double step_s;
    const SearchTaken *decision; /* NULL: the present plan */
    bool failed;                 /* compiled with all batches of a step, it needs too much */
    int64_t told;                /* bytes, as first judged */
} Candidate;

/* A search that was done. */
typedef struct Looked {
    const char *search;
    int parts;
    int64_t aim, bytes; /* limit of the search; what its plan needs */
} Looked;

struct Searches {
    Compilation *c;
    VEC(Candidate) plans;
    VEC(Looked) looked;
    int first_parts, most_parts;
    int64_t limit, least; /* bytes of a rank; what every plan needs at least */
    int64_t workspace;
    int below;          /* the next lower limit to search within, a rung (limit_at) */
    int64_t work, each; /* done so far; of the first search */
    int best;           /* of plans, the fastest that fits; -1: none does; 0: the present plan */
};

static bool may_take(const Compilation *c, int parts) {
    const Graph *g = &program_train(c)->front.lowered;
    const int64_t rows = graph_batch_rows(g), accumulate = settings_batches(&g->settings);
    return rows % parts == 0 && rows >= parts && accumulate * parts <= MOST_PARTS &&
           (int64_t)program_train(c)->front.graph.nodes.n * parts <= MOST_NODES;
}

bool parts_open(const Compilation *c) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    return c->options->overrides.micro_batches == 0 && settings->micro_span.line == 0 && settings->optimizer != OPTIMIZER_NONE;
}

static int most_parts(const Compilation *c) {
    int most = 1;
    while (parts_open(c) && may_take(c, 2 * most))
        most *= 2;
    return most;
}

/* The seconds that its measures add to a step. */
static double measures_s(const Build *b) {
    double seconds = 0;
    for (int k = 0; b->front.measures != NULL && k < b->front.measures->n; k++)
        seconds += b->front.measures->taken[k].seconds;
    return seconds;
}

/* The seconds of a step of the fastest plan that was compiled, whatever memory it needs. */
static double unlimited_s(const Build *b, const BuildCost *now) {
    double least = now->step_s;
    for (int k = 0; b->front.decision != NULL && k < b->front.decision->nfront; k++)
        if (b->front.decision->front[k].cost.step_s < least) least = b->front.decision->front[k].cost.step_s;
    return least;
}

/* Whether batches in two parts could take less than `seconds`, where whole ones within the limit cost `now`: each kernel starts
 * twice, and the arithmetic is no less. */
static bool may_gain(const Build *b, const BuildCost *now, double seconds) {
    const Machine *machine = options_machine(b->options);
    int starts = 0;
    for (int e = 0; e < b->timeline->events.n; e++) {
        const Step *step = &b->facts->role->steps.at[b->timeline->events.at[e].step];
        starts += step->kind == STEP_KERNEL && op_table[step->op].op_class != OP_CLASS_UPDATE &&
                  b->facts->graph->nodes.at[step->node].copy_of == 0;
    }
    return now->kernel_s - measures_s(b) + starts * machine->kernel_s < seconds;
}

static bool measures_cost(const Build *b, const BuildCost *now) {
    return now->step_s >= WORTH * (now->step_s - measures_s(b)) && may_gain(b, now, now->step_s);
}

/* ---------------------------------------------------------------- one search */

/* Makes a plan the best if it fits and is faster. */
static void compete(Searches *s, int k) {
    const Candidate *plan = &s->plans.at[k];
    if (plan->bytes > s->limit || plan->failed) return;
    if (s->best < 0 || plan->step_s < s->plans.at[s->best].step_s) s->best = k;
}

/* Another plan that costs the same and needs too much with all batches; NULL: there is none. */
static const Candidate *failed_twin(const Searches *s, const Candidate *plan) {
    for (int k = 0; k < s->plans.n; k++) {
        const Candidate *other = &s->plans.at[k];
        if (other->failed && other->parts == plan->parts && other->told == plan->told && other->step_s == plan->step_s) return other;
    }
    return NULL;
}

static void note_plan(Searches *s, Candidate plan) {
    plan.told = plan.bytes;
    const Candidate *twin = failed_twin(s, &plan);
    plan.failed = twin != NULL;
    if (twin != NULL) plan.bytes = twin->bytes;
    vec_push(s->c->arena, &s->plans, plan);
    compete(s, s->plans.n - 1);
}

static void note_decision(Searches *s, int parts, const SearchTaken *decision) {
    const BuildCost *cost = &decision->cost;
    note_plan(s, (Candidate){
                     .parts = parts, .bytes = memory_bytes(cost), .evals = cost->eval_bytes, .step_s = cost->step_s, .decision = decision});
}

static double best_s(const Searches *s) {
    return s->best < 0 ? 0 : s->plans.at[s->best].step_s;
}

/* Searches within the limit `aim` by the named search (NULL: as the net says), once for equal arguments. Returns the bytes that its
 * plan needs; 0: the net may not be compiled so. */
static int64_t look_by(Searches *s, const char *search, int parts, int64_t aim) {
    for (int k = 0; k < s->looked.n; k++)
        if (s->looked.at[k].search == search && s->looked.at[k].parts == parts && s->looked.at[k].aim == aim) return s->looked.at[k].bytes;
    const SearchTaken *decision = parts_decide(s->c, search, parts, best_s(s), aim);
    if (decision == NULL) return 0;
    s->work += decision->work;
    note_decision(s, parts, decision);
    const int64_t bytes = s->plans.at[s->plans.n - 1].bytes;
    for (int k = 0; k < decision->nfront; k++)
        note_decision(s, parts, &decision->front[k]);
    vec_push(s->c->arena, &s->looked, ((Looked){search, parts, aim, bytes}));
    return bytes;
}

static int64_t look(Searches *s, int parts, int64_t aim) {
    return look_by(s, NULL, parts, aim);
}

/* Whether a plan with so many parts may fit: a known plan with as many parts comes close, or one with fewer would fit if its memory
 * shrank as parts grow in number, all but states in even parts and what evals need. */
static bool may_fit(const Searches *s, int parts) {
    for (int k = 0; k < s->plans.n; k++) {
        const Candidate *plan = &s->plans.at[k];
        const int64_t stays = s->least + plan->evals;
        const int others = plan->parts;
        if (others > parts) continue;
        if (others == parts ? memory_within(plan->bytes, s->workspace, FAR, s->limit)
                            : stays + (plan->bytes - stays) * others / parts <= s->limit)
            return true;
    }
    return false;
}

/* Searches with more and more parts until a plan fits, and then as long as more are faster; within lower limits with no more parts
 * than what fits. */
static void look_within(Searches *s, int64_t aim) {
    for (int parts = s->first_parts; parts <= s->most_parts; parts = parts > 0 ? 2 * parts : 2) {
        const int best = s->best;
        if (!may_fit(s, parts)) continue;
        if (look(s, parts, aim) == 0) break;
        if (s->best >= 0 && s->best == best && parts + (aim < s->limit) > s->plans.at[best].parts) break;
    }
}

/* ---------------------------------------------------------------- several limits */

/* The plan that needs the least memory. */
static int least_plan(const Searches *s) {
    int least = 0;
    for (int k = 1; k < s->plans.n; k++)
        if (s->plans.at[k].bytes < s->plans.at[least].bytes) least = k;
    return least;
}

/* Whether the work left is enough for about one more search with whole batches, and the limit is within reach. */
static bool may_work(const Searches *s) {
    const bool near = memory_within(s->plans.at[least_plan(s)].bytes, s->workspace, REACH, s->limit);
    return near && s->work + s->each <= (s->best < 0 ? MOST_WORK_REFUSED : MOST_WORK);
}

/* Searches within lower limits, the nearest first, as long as that helps; where nothing fits, within all that may be reached. */
static void look_below(Searches *s) {
    for (int idle = 0; idle < IDLE && s->below >= 0 && limit_at(s->below, s->workspace) > s->least && may_work(s); s->below--) {
        const int best = s->best;
        look_within(s, limit_at(s->below, s->workspace));
        idle = s->best != best ? 0 : s->best >= 0 ? idle + 1 : 0;
    }
}

/* Nothing fits: searches within higher limits, but below what the known plans need. What is found within one may need less. */
static void look_above(Searches *s) {
    for (int k = limit_from(s->limit + 1, s->workspace);
         limit_at(k, s->workspace) < s->plans.at[least_plan(s)].bytes && s->best < 0 && may_work(s); k++)
        look_within(s, limit_at(k, s->workspace));
}

static const char by_axes[] = "recursive_programming", on_meshes[] = "dynamic_programming";

/* Runs other searches, which know of other solutions: axis by axis, which is fast, within the limit and some lower ones, even where
 * there is no work left for the usual search; and, of a small net, on meshes, within the limit and the next lower one. */
static void look_by_others(Searches *s) {
    const Settings *settings = &program_train(s->c)->front.graph.settings;
    const int parts = s->plans.at[s->best >= 0 ? s->best : least_plan(s)].parts, first = limit_from(s->limit, s->workspace);
    if (settings->mode != MODE_AUTO || strcmp(settings->search, "auto") != 0 || !searches(program_train(s->c))) return;
    const bool small = program_train(s->c)->front.graph.nodes.n <= SMALL_NODES;
    look_by(s, by_axes, parts, s->limit);
    if (small) look_by(s, on_meshes, parts, s->limit);
    for (int k = 1; k <= AXIS_LIMITS && k <= first && limit_at(first - k, s->workspace) > s->least && s->work < MOST_WORK; k++)
        look_by(s, by_axes, parts, limit_at(first - k, s->workspace));
    if (small && first > 0 && limit_at(first - 1, s->workspace) > s->least && s->work < MOST_WORK_REFUSED)
        look_by(s, on_meshes, parts, limit_at(first - 1, s->workspace));
}

/* Searches without a limit: the plan found so may fit, though no search within a limit finds it. */
static void look_beyond(Searches *s) {
    if (s->best >= 0 && (s->work == s->each || s->work + s->each <= MOST_WORK_REFUSED)) look(s, s->first_parts, UNLIMITED);
}

/* Tries parts too where not measures but other strategies make a step much longer than it would be with more memory. */
static void look_at_parts(Searches *s, const BuildCost *now) {
    const Build *train = program_train(s->c);
    if (s->most_parts > 1 || s->best < 0 || best_s(s) < FAR * unlimited_s(train, now) || !may_gain(train, now, best_s(s))) return;
    s->most_parts = most_parts(s->c);
    if (s->most_parts == 1) return;
    look_within(s, s->limit);
    if (s->plans.at[s->best].parts > 1) look_by(s, by_axes, s->plans.at[s->best].parts, s->limit);
}

static MicroBatches *taken(Searches *s, int plan, const MicroBatches *of) {
    MicroBatches *micro = arena_alloc(s->c->arena, sizeof *micro);
    *micro = *of;
    micro->parts = s->plans.at[plan].parts;
    micro->decision = s->plans.at[plan].decision;
    micro->bytes = s->plans.at[plan].bytes;
    micro->searches = s;
    return micro;
}

MicroBatches *micro_choose(Compilation *c, int64_t needed, int64_t limit) {
    Build *train = program_train(c);
    BuildCost now;
    build_cost(train, &now);
    Searches *s = arena_alloc(c->arena, sizeof *s);
    *s = (Searches){.c = c,
                    .first_parts = parts_open(c) ? 1 : 0,
                    .most_parts = needed > limit || measures_cost(train, &now) ? most_parts(c) : 1,
                    .limit = limit,
                    .least = least_bytes(&train->front.graph, train->front.graph.nranks, c->options->machine),
                    .workspace = train->facts->workspace,
                    .below = limit_from(limit, train->facts->workspace) - 1,
                    .best = -1};
    const SearchTaken *decision = train->front.decision;
    c->searches = s;
    note_plan(s, (Candidate){.parts = s->first_parts, .bytes = needed, .evals = now.eval_bytes, .step_s = now.step_s});
    for (int k = 0; decision != NULL && k < decision->nfront; k++)
        note_decision(s, s->first_parts, &decision->front[k]);
    s->each = s->work = decision != NULL ? decision->work : 0;
    vec_push(c->arena, &s->looked, ((Looked){NULL, s->first_parts, limit, needed}));
    if (s->least > limit) return NULL; /* no plan fits: micro_least says what is needed */
    if (needed > limit || decision->limit_costs) {
        look_within(s, limit);
        if (s->best < 0) look_above(s);
        look_below(s);
        look_by_others(s);
        look_at_parts(s, &now);
    }
    look_beyond(s);
    return s->best > 0 ? taken(s, s->best, &(MicroBatches){.whole_bytes = needed, .whole_s = now.step_s}) : NULL;
}

/* A plan misses the limit by little: a search that keeps within a little less may find one that fits. */
static void look_closer(Searches *s) {
    const Candidate *least = &s->plans.at[least_plan(s)];
    const int64_t missing = least->bytes - s->limit;
    if (missing > 0 && missing < s->limit / 64) look(s, least->parts, s->limit - 2 * missing - s->limit / 128);
}

/* Whether the least memory of known plans is so near to what every plan needs that it is not worth more work. */
static bool is_least(const Searches *s) {
    return (double)s->plans.at[least_plan(s)].bytes <= NEAR * (double)s->least;
}

/* Searches for the plan that needs the least memory: within limits below the least so far, as long as that helps, and with each number
 * of parts, the most first, within a limit that no plan reaches. */
static void look_least(Searches *s) {
    const int64_t aim = limit_at(limit_from(s->least, s->workspace), s->workspace), most = s->work + MOST_WORK_LEAST;
    if (is_least(s)) return;
    look_closer(s);
    if (s->plans.at[least_plan(s)].bytes <= s->limit) return;
    if (s->most_parts > 1) look(s, s->most_parts, aim);
    for (int before = -1, least = least_plan(s), lower = CLOSER; lower >= 0 && s->work < most && !is_least(s); least = least_plan(s)) {
        lower = least != before ? CLOSER : lower - 1; /* limits far below all known plans are searched less well */
        before = least;
        if (lower >= 0)
            look(s, s->plans.at[least].parts, limit_at(limit_from(s->plans.at[least].bytes, s->workspace) - lower, s->workspace));
    }
    for (int parts = s->most_parts / 2; parts >= s->first_parts && s->work < most && !is_least(s); parts = parts > 1 ? parts / 2 : -1)
        if ((double)look(s, parts, aim) > FAR * (double)s->plans.at[least_plan(s)].bytes) break; /* parts are not what helps */
}

/* The plan that needs the least memory; NULL: that is no less than `needed`. */
static MicroBatches *take_least(Searches *s, int64_t needed, const MicroBatches *of) {
    const int least = least_plan(s);
    if (s->plans.at[least].bytes >= needed) return NULL;
    MicroBatches *micro = taken(s, least, of);
    micro->too_large = s->plans.at[least].bytes > s->limit;
    return micro;
}

MicroBatches *micro_next(Compilation *c, int64_t needed) {
    Searches *s = c->micro->searches;
    const int failed = s->best, parts = s->plans.at[failed].parts, again = c->micro->again + 1;
    const int64_t beyond = needed - s->plans.at[failed].bytes;
    s->plans.at[failed].failed = true;
    s->plans.at[failed].bytes = needed;
    s->best = -1;
    for (int k = 0; k < s->plans.n; k++) {
        Candidate *plan = &s->plans.at[k];
        if (plan->decision != NULL && plan->parts == parts && !plan->failed)
            plan->bytes += beyond; /* its unseen batches are taken to need about as much */
        compete(s, k);
    }
    if (again == 1 && 2 * parts <= s->most_parts)
        look(s, 2 * parts, s->limit - s->limit / 256); /* more parts were left out as slower than this plan */
    if (again <= MOST_AGAIN) look(s, parts, s->limit - again * (beyond > 0 ? beyond : needed - s->limit) / 2 - s->limit / 256);
    if (s->best < 0) look_below(s);
    if (s->best < 0) look_least(s);
    if (s->best < 0) return take_least(s, needed, c->micro);
    MicroBatches *micro = taken(s, s->best, c->micro);
    micro->again = again;
    return micro;
}

MicroBatches *micro_least(Compilation *c, int64_t needed) {
    Searches *s = c->searches;
    BuildCost now;
    if (s == NULL) return NULL;
    look_least(s);
    build_cost(program_train(c), &now);
    return take_least(s, needed, &(MicroBatches){.whole_bytes = needed, .whole_s = now.step_s});
}
