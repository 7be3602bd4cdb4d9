/* micro: batches in parts where a plan needs more memory than there is, or costs time to keep within it. For 2, 4, 8.. parts it is asked what the search takes then, with all other
 * measures, until one fits, and for more as long as that is faster: parts compete by predicted time with what is computed or gathered again. Nets that would compute something else
 * in parts (row_parts.c) are left as they are. */
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/search.h"
#include "compiler/timeline.h"

enum { MOST_PARTS = 256, MOST_NODES = 40000, MOST_AIMS = 3 };
#define NEARLY 1.03 /* times the limit: so much may be made up for by a search that keeps within less */
#define CLOSE 1.01  /* times the limit: the least that is known is about the least there is */
#define MARGIN 1.02 /* what is decided for two parts, and found to fit, is missed by less when all are compiled */
#define BELOW 1.1   /* times the limit: what is found within lower ones is looked at */
#define WORTH 1.005 /* measures that make a step longer by less are as good as none */

static bool may_take(const Compilation *c, int parts) {
    const Graph *g = &program_train(c)->front.lowered;
    const int64_t rows = graph_batch_rows(g), accumulate = g->settings.accumulate > 1 ? g->settings.accumulate : 1;
    return rows % parts == 0 && rows >= parts && accumulate * parts <= MOST_PARTS &&
           (int64_t)program_train(c)->front.graph.nodes.n * parts <= MOST_NODES;
}

/* What an eval, of whole batches, needs beside a plan of train with such an arena. */
static int64_t eval_bytes(const Compilation *c, int64_t arena_bytes) {
    if (program_eval(c) == NULL) return 0;
    const Facts *eval = program_eval(c)->facts;
    return eval->inputs + eval->constants + (eval->role->arena_bytes > arena_bytes ? eval->role->arena_bytes - arena_bytes : 0);
}

static bool may_choose(const Compilation *c) {
    const Settings *settings = &program_train(c)->front.graph.settings;
    return c->options->overrides.micro_batches == 0 && settings->micro_span.line == 0 && settings->optimizer != OPTIMIZER_NONE;
}

static int most_parts(const Compilation *c) {
    int most = 1;
    while (may_take(c, 2 * most))
        most *= 2;
    return most;
}

static int64_t decided_bytes(const Compilation *c, const SearchTaken *decision) {
    return memory_bytes(&decision->cost) + eval_bytes(c, decision->cost.arena_bytes);
}

/* Whether so many parts may fit where others, or one, with all measures need so much: if all but the states, in even parts, is as much smaller. */
static bool may_fit(const Compilation *c, int parts, int others, int64_t needed, int64_t limit) {
    const int64_t states = program_train(c)->facts->states_whole / program_train(c)->front.graph.nranks;
    return needed < states || states + (needed - states) * others / parts <= limit;
}

/* The seconds that its measures add to a step. */
static double measures_s(const Build *b) {
    double seconds = 0;
    for (int k = 0; b->front.measures != NULL && k < b->front.measures->n; k++)
        seconds += b->front.measures->taken[k].seconds;
    return seconds;
}

/* Whether two parts could take less than whole batches with measures: each kernel starts twice, and arithmetic is not less. */
static bool may_gain(const Build *b, const BuildCost *now) {
    const Machine *machine = options_machine(b->options);
    int starts = 0;
    for (int e = 0; e < b->timeline->events.n; e++) {
        const Step *step = &b->facts->role->steps.at[b->timeline->events.at[e].step];
        starts += step->kind == STEP_KERNEL && op_table[step->op].op_class != OP_CLASS_UPDATE &&
                  b->facts->graph->nodes.at[step->node].copy_of == 0;
    }
    return now->kernel_s - measures_s(b) + starts * machine->kernel_s < now->step_s;
}

/* What a search that keeps within less than `aim` may keep within the limit: what one finds is no smaller bit by bit as its limit is. 0: it is not worth trying. */
static int64_t smaller_aim(int64_t aim, int64_t needed, int64_t limit) {
    return needed > limit && (double)needed <= NEARLY * (double)limit ? aim - (needed - limit) - limit / 256 : 0;
}

/* Of what is decided for so many parts within the limit, or a little less where that is missed by little and as long as that helps, the first that fits, or what needs least. NULL: they may not be taken
 * so. */
static const SearchTaken *decide_within(const Compilation *c, int parts, double most_s, int64_t aim, int64_t limit) {
    const SearchTaken *least = NULL;
    for (int k = 0; k < MOST_AIMS && aim > 0; k++) {
        const SearchTaken *decision = parts_decide(c, parts, most_s, aim);
        if (decision == NULL) break;
        const int64_t need = decided_bytes(c, decision);
        if (least != NULL && need >= decided_bytes(c, least)) break;
        least = decision;
        aim = smaller_aim(aim, need, limit);
    }
    return least;
}

/* Nothing fits, though not by much: looks at what searches find that keep within less. They take measures one after another, so that what they find within a limit may need more than what they find within a lower one. What is
 * fastest of what fits within the first limit from micro->below on. False: nothing does. */
static bool look_below(Compilation *c, int64_t needed, int64_t limit, MicroBatches *micro) {
    static const int sixteenths[] = {15, 13, 10};
    double least_s = 0;
    micro->parts = 0;
    if (micro->whole_fits || (double)needed > BELOW * (double)limit) return false;
    for (; micro->below < (int)(sizeof sixteenths / sizeof *sixteenths) && micro->parts == 0; micro->below++)
        for (int parts = 1; parts <= micro->most_parts; parts *= 2) {
            const SearchTaken *decision = parts_decide(c, parts, least_s, limit / 16 * sixteenths[micro->below]);
            if (decision == NULL || MARGIN * (double)decided_bytes(c, decision) > (double)limit ||
                (least_s > 0 && decision->cost.step_s >= least_s))
                continue;
            least_s = decision->cost.step_s;
            micro->parts = parts;
            micro->decision = decision;
        }
    return micro->parts > 0;
}

MicroBatches *micro_choose(Compilation *c, int64_t needed, int64_t limit) {
    Build *train = program_train(c);
    BuildCost now;
    int others = 1; /* parts that do not fit, and need so much */
    int64_t need = needed;
    if (!may_choose(c)) return NULL;
    const int most = most_parts(c);
    build_cost(train, &now);
    MicroBatches best = {.whole_bytes = needed, .whole_s = now.step_s, .whole_fits = needed <= limit, .most_parts = most};
    double least_s = best.whole_fits ? now.step_s : 0; /* of what fits; 0: nothing */
    if (best.whole_fits && (now.step_s < WORTH * (now.step_s - measures_s(train)) || !may_gain(train, &now))) return NULL;
    for (int parts = 1; may_take(c, parts); parts *= 2) {
        const int64_t aim = parts > 1 ? limit : smaller_aim(limit, needed, limit);
        if (aim == 0 || (least_s == 0 && !may_fit(c, parts, others, need, limit) && parts > 1)) continue;
        const SearchTaken *decision = decide_within(c, parts, least_s, aim, limit);
        if (decision == NULL) break;
        need = decided_bytes(c, decision);
        others = parts;
        if (parts == most && parts > 1) c->parts_tried = decision;
        if (need > limit && least_s == 0) continue;
        if (need > limit || (least_s > 0 && decision->cost.step_s >= least_s)) break;
        least_s = decision->cost.step_s;
        best.parts = parts;
        best.decision = decision;
    }
    if (best.parts == 0 && !look_below(c, need, limit, &best)) return NULL;
    MicroBatches *micro = arena_alloc(c->arena, sizeof *micro);
    *micro = best;
    return micro;
}

MicroBatches *micro_next(Compilation *c, int64_t needed, int64_t limit) {
    const MicroBatches *now = c->micro;
    MicroBatches *next = arena_alloc(c->arena, sizeof *next);
    *next = *now;
    next->decision = NULL;
    next->aim = now->decision != NULL && now->again < MOST_AIMS ? smaller_aim(now->aim > 0 ? now->aim : limit, needed, limit) : 0;
    next->again++;
    if (next->aim > 0) next->decision = parts_decide(c, now->parts, now->whole_fits ? now->whole_s : 0, next->aim);
    if (next->decision != NULL && decided_bytes(c, next->decision) <= limit) return next;
    next->aim = 0;
    next->parts = now->whole_fits ? 1 : 2 * now->parts;
    if (now->parts == 1 || next->parts > now->most_parts || now->below > 0) return look_below(c, needed, limit, next) ? next : NULL;
    next->decision = next->parts > 1 ? parts_decide(c, next->parts, 0, 0) : NULL;
    return next->parts == 1 || next->decision != NULL ? next : NULL;
}

MicroBatches *micro_least(Compilation *c, int64_t needed, int64_t limit) {
    enum { MOST_LEAST = 2 };
    const int parts = may_choose(c) ? most_parts(c) : 1;
    const SearchTaken *least = c->parts_tried != NULL ? c->parts_tried : parts > 1 ? parts_decide(c, parts, 0, 0) : NULL;
    const SearchTaken *last = NULL;
    int64_t aim = limit;
    for (int k = 0; k < MOST_LEAST && least != NULL && last != least;
         k++) { /* more than the limit, which is out of reach, and less than what is needed so far */
        const int64_t need = decided_bytes(c, least);
        if ((double)need <= CLOSE * (double)limit) break;
        aim += (need - aim) / (k == 0 ? 4 : 2);
        last = parts_decide(c, parts, 0, aim);
        if (last == NULL || decided_bytes(c, last) == need) break; /* it depends little on the limit */
        if (decided_bytes(c, last) < need) least = last;
    }
    if (least == NULL || decided_bytes(c, least) >= needed) return NULL;
    BuildCost now;
    build_cost(program_train(c), &now);
    MicroBatches *micro = arena_alloc(c->arena, sizeof *micro);
    *micro = (MicroBatches){
        .parts = parts, .most_parts = parts, .decision = least, .whole_bytes = needed, .whole_s = now.step_s, .too_large = true};
    return micro;
}
