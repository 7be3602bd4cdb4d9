/* decide: which of its candidates an operator takes: the one with which the fewest bytes are received for the values around it and their gradients. All that is compared is
 * identified by number: candidates are made once for operators that are alike (alike.c), conversions are counted once per pair of layouts. */
#include <assert.h>
#include <string.h>

#include "strategies/propagator.h"

/* A value around the operator: an operand, which may occur several times, or a result. */
typedef struct Part {
    ValueTraffic others; /* without the operator */
    bool first;          /* the operator is the first of its users */
    int result;          /* of the operator; -1: operands */
    int noperands, operand[MAX_IN];
} Part;

/* One decision. */
typedef struct Question {
    const Node *node;
    Alike *alike;
    int id, batch; /* the factor of the batch; -1: none */
    Prefer prefer;
    int nparts;
    Part part[MAX_IN + MAX_OUT];
} Question;

/* What a candidate moves: in converting the values around the operator and their gradients, sums included. */
typedef struct Cost {
    Moved moved;
    int64_t all, in; /* as one number; its part for operands */
} Cost;

static void ask_operand(Propagator *p, Question *question, int operand) {
    const int value = question->node->in[operand];
    Part *part = question->part;
    while (part < question->part + question->nparts && part->others.value != value)
        part++;
    if (part == question->part + question->nparts) {
        if (graph_producer(p->graph, value)->op == OP_constant) return;
        question->nparts++;
        part->result = -1;
        part->noperands = 0;
        part->first = value_traffic(p, value, question->id, &part->others);
        if (part->others.home >= 0) offer_from(p, question->alike, question->node, operand, part->others.home);
    }
    part->operand[part->noperands++] = operand;
}

static void question_make(Propagator *p, int id, Prefer prefer, Question *question) {
    const Node *node = &p->graph->nodes.at[id];
    question->node = node, question->alike = alike_of(p, node), question->id = id, question->prefer = prefer, question->nparts = 0;
    question->batch = batch_factor(p->graph, node, p->batch);
    offer_all(p, question->alike, node);
    for (int i = 0; i < node->nin; i++)
        ask_operand(p, question, i);
    for (int o = 0; o < node->nout; o++) {
        Part *part = &question->part[question->nparts++];
        part->result = o;
        part->noperands = 0;
        part->first = value_traffic(p, node->out[o], id, &part->others);
        for (int i = 0; i < part->others.n; i++)
            offer_from(p, question->alike, node, node->nin + o, part->others.asked[i].need);
    }
}

/* The layout in which a result is found, whatever the strategy; -1: none. */
static int part_fixed(const Propagator *p, const Question *question, const Part *part) {
    return p->left_out[question->id] ? -1 : p->fixed_layout[part->others.value];
}

static Moved part_moved(Propagator *p, const Question *question, const Part *part, const Candidate *candidate) {
    ValueTraffic traffic = part->others;
    if (part->result >= 0) {
        const int fixed = part_fixed(p, question, part);
        traffic.made = candidate->made[part->result];
        traffic.home = fixed >= 0 ? fixed : candidate->home[part->result];
        return traffic_moved(p, &traffic);
    }
    if (part->first) traffic.n = 0;
    for (int i = 0; i < part->noperands; i++)
        traffic_ask(&traffic, candidate->need[part->operand[i]], asked_gradient(p, question->node, part->operand[i], candidate));
    for (int i = 0; part->first && i < part->others.n; i++)
        traffic_ask(&traffic, part->others.asked[i].need, part->others.asked[i].gradient);
    return traffic_moved(p, &traffic);
}

/* A candidate's cost; beyond `limit`, any number above it. */
static Cost cost_of(Propagator *p, const Question *question, const Candidate *candidate, int64_t limit) {
    Cost cost = {.moved = own_moved(p, question->node, candidate)};
    cost.all = moved_cost(p, cost.moved);
    for (int i = 0; i < question->nparts && cost.all <= limit; i++) {
        const Moved moved = part_moved(p, question, &question->part[i], candidate);
        moved_add(&cost.moved, moved);
        cost.all += moved_cost(p, moved);
        if (question->part[i].result < 0) cost.in += moved_cost(p, moved);
    }
    return cost;
}

/* Lexicographic order of the tuples of two candidates. */
static int tuple_compare(const Node *node, const Propagator *p, const Candidate *a, const Candidate *b) {
    for (int i = 0; i < node->nin; i++)
        for (int d = 0; d < value_type(p, node->in[i])->shape.ndim; d++) {
            int f = node->rule->in[i][d];
            if (f >= 0 && a->split[f] != b->split[f]) return a->split[f] < b->split[f] ? -1 : 1;
        }
    return 0;
}

static DecidedBy better(bool a, DecidedBy by) {
    return a ? by : -by;
}

/* The criterion by which candidate a is better than b; negative: by which it is worse. */
static int compare(Propagator *p, const Question *question, const Candidate *a, Cost a_cost, const Candidate *b, Cost b_cost) {
    const int batch = question->batch;
    if (a_cost.all != b_cost.all) return better(a_cost.all < b_cost.all, BY_BYTES);
    if (a->flops != b->flops) return better(a->flops < b->flops, BY_FLOPS);
    if (a_cost.in != b_cost.in) return better((a_cost.in < b_cost.in) == (question->prefer == PREFER_OPERANDS), BY_SIDE);
    if (batch >= 0 && a->split[batch] != b->split[batch]) return better(a->split[batch] > b->split[batch], BY_BATCH);
    return better(tuple_compare(question->node, p, a, b) <= 0, BY_TUPLE);
}

/* Without a hint, no rank is left idle to receive fewer bytes. */
static bool acceptable(const Propagator *p, const Alike *alike, const Candidate *candidate) {
    if (candidate->as_ordered && !p->as_ordered) return false;
    return p->hinted || candidate->flops <= 1.1 * alike->least_flops;
}

static Answer answer_find(Propagator *p, const Question *question) {
    const Alike *alike = question->alike;
    const Candidate *had = p->chosen[question->id], *best = had && had->offered ? had : NULL; /* another leaves ranks idle */
    Cost least = best ? cost_of(p, question, best, INT64_MAX) : (Cost){0};
    const int64_t before = least.all;
    for (int i = 0; i < alike->offered.n; i++) {
        const Candidate *candidate = alike->offered.at[i];
        if (candidate == best || !acceptable(p, alike, candidate)) continue;
        const Cost cost = cost_of(p, question, candidate, best ? least.all : INT64_MAX);
        if (!best || compare(p, question, candidate, cost, best, least) > 0) best = candidate, least = cost;
    }
    assert(best);
    return (Answer){.best = best, .improves = before > 0 && least.all < before};
}

/* All that an answer depends on, as numbers; returns how many. */
enum { MAX_KEY = (MAX_IN + MAX_OUT) * (2 * (MAX_ASKED + MAX_IN) + 5) + MAX_IN + 8 };
static int question_key(const Propagator *p, const Question *question, int key[MAX_KEY]) {
    const Candidate *had = p->chosen[question->id];
    int n = 0;
    key[n++] = (int)question->prefer;
    key[n++] = question->batch;
    key[n++] = question->alike->offered.n;
    key[n++] = had ? had->number : -1;
    key[n++] = p->hinted + 2 * p->as_ordered;
    for (int i = 0; i < question->node->nin; i++)
        key[n++] = p->active[question->node->in[i]] + 2 * p->by_rows[question->node->in[i]];
    for (const Part *part = question->part; part < question->part + question->nparts; part++) {
        key[n++] = part->result >= 0 ? part_fixed(p, question, part) : part->first;
        for (int i = 0; i < part->noperands; i++)
            key[n++] = -2 - part->operand[i];
        key[n++] = part->others.made;
        key[n++] = part->others.home;
        key[n++] = part->others.n;
        memcpy(key + n, part->others.asked, (size_t)part->others.n * sizeof *part->others.asked);
        n += 2 * part->others.n;
    }
    return n;
}

/* Equal layers pose equal questions; each question is answered once. */
static Answer answer_of(Propagator *p, const Question *question) {
    int key[MAX_KEY];
    const int n = question_key(p, question, key);
    Alike *alike = question->alike;
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash = hash_mix(hash, (uint32_t)key[i]);
    map_each(&alike->asked, hash, k) if (alike->answers.at[k].nkey == n &&
                                         memcmp(alike->answers.at[k].key, key, (size_t)n * sizeof *key) == 0) return alike->answers.at[k];
    Answer answer = answer_find(p, question);
    answer.nkey = n;
    answer.key = memcpy(arena_alloc(&p->arena, (size_t)n * sizeof *key), key, (size_t)n * sizeof *key);
    map_add(&p->arena, &alike->asked, hash, alike->answers.n);
    vec_push(&p->arena, &alike->answers, answer);
    return answer;
}

bool decide_best(Propagator *p, int id, Prefer prefer) {
    Question question;
    question_make(p, id, prefer, &question);
    const Answer answer = answer_of(p, &question);
    if (answer.best != p->chosen[id]) decided(p, id, answer.best, STRATEGY_PROPAGATED);
    return answer.improves;
}

void decided(Propagator *p, int id, const Candidate *candidate, StrategyFrom from) {
    Node *node = &p->graph->nodes.at[id];
    p->chosen[id] = candidate;
    node->strategy = candidate->strategy;
    node->from = from;
}

void decide_factor(Propagator *p, int id, int factor, StrategyFrom from) {
    const Node *node = &p->graph->nodes.at[id];
    int32_t splits[MAX_FACTORS];
    const int32_t split = factor < 0 ? 1 : split_largest(&node->rule->factor[factor], p->graph->nranks, p->graph->settings.strict_divide);
    for (int f = 0; f < MAX_FACTORS; f++)
        splits[f] = f == factor ? split : 1;
    decided(p, id, candidate_from_splits(p, node, splits), split > 1 ? from : STRATEGY_WHOLE);
}

void decision_record(Propagator *p, int id) {
    Decision *decision = &p->result->decision[id];
    Question question;
    question_make(p, id, PREFER_OPERANDS, &question);
    const Alike *alike = question.alike;
    const Candidate *best[MAX_ALTERNATIVES] = {p->chosen[id]};
    Cost cost[MAX_ALTERNATIVES] = {cost_of(p, &question, p->chosen[id], INT64_MAX)};
    int n = 1;
    for (int i = 0; i < alike->offered.n; i++) {
        const Candidate *candidate = alike->offered.at[i];
        if (candidate == p->chosen[id] || !acceptable(p, alike, candidate)) continue;
        const Cost own = cost_of(p, &question, candidate, INT64_MAX);
        decision->ncandidates++;
        int at = n;
        while (at > 1 && compare(p, &question, candidate, own, best[at - 1], cost[at - 1]) > 0)
            at--;
        if (at == MAX_ALTERNATIVES) continue;
        if (n < MAX_ALTERNATIVES) n++;
        for (int k = n - 1; k > at; k--)
            best[k] = best[k - 1], cost[k] = cost[k - 1];
        best[at] = candidate, cost[at] = own;
    }
    decision->ncandidates++;
    decision->nalternatives = n;
    for (int k = 0; k < n; k++)
        decision->alternative[k] = (Alternative){.strategy = best[k]->strategy,
                                                 .bytes = cost[k].moved.bytes,
                                                 .messages = cost[k].moved.messages,
                                                 .regret = cost[k].all - cost[0].all,
                                                 .flops = best[k]->flops};
    const int by = n < 2 ? BY_ONE : compare(p, &question, best[0], cost[0], best[1], cost[1]);
    decision->by = (DecidedBy)(by < 0 ? -by : by);
}
