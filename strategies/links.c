/* What a step of a conversion takes on a machine: the latencies of the messages that a rank waits for, one after another, and its bytes over the slowest link used
 * (docs/machine.md). The planner of conversions, the search and the timeline all count this way. */
#include "strategies/pair.h"

int64_t values_in_node(const Machine *machine, Digit digit, int nranks) {
    const int64_t node = machine->ranks_per_node, top = (int64_t)digit.size * digit.stride,
                  first = (node + digit.stride - 1) / digit.stride;
    if (nranks <= node || (top <= node && node % top == 0)) return digit.size;
    return first < digit.size ? first : digit.size - 1;
}

/* The links to the other ranks of a group, which differ in these digits. n < 0: all ranks. */
static Links links_of_group(const Machine *machine, const Digit *digits, int n, int nranks) {
    int64_t near = 1, all = 1;
    for (int i = 0; i < n; i++) {
        near *= values_in_node(machine, digits[i], nranks);
        all *= digits[i].size;
    }
    if (n < 0) {
        near = nranks < machine->ranks_per_node ? nranks : machine->ranks_per_node;
        all = nranks;
    }
    return (Links){near - 1, all - near};
}

/* The latency and bandwidth that limit messages over these links. */
static MachineLevel slowest_link(const Machine *machine, Links links) {
    if (links.far == 0) return machine->rank;
    MachineLevel level = machine->node;
    if (links.near > 0 && machine->rank.latency_s > level.latency_s) level.latency_s = machine->rank.latency_s;
    if (links.near > 0 && machine->rank.bytes_per_s < level.bytes_per_s) level.bytes_per_s = machine->rank.bytes_per_s;
    return level;
}

/* ---- exchanges */

/* Messages that `rank` receives and sends in the two rounds of an exchange. */
typedef struct Messages {
    int ranks_per_node, rank;
    Links received[2], sent[2];
} Messages;

static bool count_message(void *context, const Piece *piece) {
    Messages *messages = context;
    if (piece->from == piece->to) return true;
    Links *links = (piece->to == messages->rank ? messages->received : messages->sent) + piece->round;
    const bool near = piece->from / messages->ranks_per_node == piece->to / messages->ranks_per_node;
    *(near ? &links->near : &links->far) += 1;
    return true;
}

/* The messages of rank `rank`. Owners of sums send the others what they have added up, which may be more messages than they receive. */
static Links links_of_pieces(const Machine *machine, const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank) {
    Messages messages = {.ranks_per_node = machine->ranks_per_node, .rank = rank};
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Links links = {0};
    pieces_received(from, to, shape, nranks, rank, count_message, &messages);
    if (layout_summed(from, to, summed, &kind) > 0) pieces_sent(from, to, shape, nranks, rank, count_message, &messages);
    for (int round = 0; round < 2; round++) {
        links.near += max64(messages.received[round].near, messages.sent[round].near);
        links.far += max64(messages.received[round].far, messages.sent[round].far);
    }
    return links;
}

double links_latency(const Machine *machine, Links links) {
    return machine->rank.latency_s * (double)links.near + machine->node.latency_s * (double)links.far;
}

StepLinks links_step(const Machine *machine, Links links) {
    return (StepLinks){links.near + links.far, links_latency(machine, links), slowest_link(machine, links).bytes_per_s};
}

/* The messages of the rank that waits longest for them. */
static Links links_of_exchange(const Machine *machine, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    Pair pair;
    Links links = {0};
    Traffic received, sent;
    const bool fits = !pinned(from, to) && pair_init(&pair, from, to, shape, nranks, NULL);
    if (fits && messages_count(machine, &pair, &links)) return links;
    if (fits && halo_counts(&pair)) {
        halo_count(machine, &pair, &received, &sent, &links);
        return links;
    }
    for (int rank = 0; rank < nranks; rank++) {
        const Links its = links_of_pieces(machine, from, to, shape, nranks, rank);
        if (links_latency(machine, its) > links_latency(machine, links)) links = its;
    }
    return links;
}

/* ---- steps */

/* The digits that divide a dimension of `from` and not the same dimension of `to`. Returns their number; -1: the digits cannot be refined
 * together. */
static int moved_digits(const Layout *from, const Layout *to, Digit *digits) {
    Layout a = *from, b = *to;
    if (!layout_refine(&a, &b)) return -1;
    int n = 0;
    for (int d = 0; d < a.ndim; d++)
        for (int i = 0; i < layout_count(&a, d); i++)
            if (!layout_has(&b, d, layout_list(&a, d)[i])) digits[n++] = layout_list(&a, d)[i];
    return n;
}

StepLinks step_links(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, int nranks) {
    if (machine == NULL) machine = &machine_cpu;
    Layout a, b;
    if (pins_leave(from, to, &nranks, &a, &b)) return step_links(machine, kind, &a, &b, shape, nranks);
    Digit digits[MAX_DIGITS];
    Reduction reduction;
    Links links = {0};
    int64_t rounds = 0; /* of a library's collective, whose messages double what a rank has in each round; 0: a message from each rank */
    if (kind == COMM_EXCHANGE) {
        links = links_of_exchange(machine, from, to, shape, nranks);
    } else if (kind == COMM_ALL_GATHER || kind == COMM_ALL_TO_ALL) {
        links = links_of_group(machine, digits, moved_digits(from, to, digits), nranks);
        rounds = kind == COMM_ALL_GATHER ? log2_ceil(links.near + links.far + 1) : 0;
    } else if (kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER) {
        links = links_of_group(machine, digits, layout_summed(from, to, digits, &reduction), nranks);
        rounds = log2_ceil(links.near + links.far + 1) * (kind == COMM_ALL_REDUCE ? 2 : 1);
    }
    const MachineLevel level = slowest_link(machine, links);
    if (rounds > 0) return (StepLinks){rounds, level.latency_s * (double)rounds, level.bytes_per_s};
    return links_step(machine, links);
}

MoveSeconds step_seconds(const Machine *machine, CommKind kind, const Layout *from, const Layout *to, const Shape *shape,
                         int64_t busiest_bytes, int nranks) {
    const StepLinks links = step_links(machine, kind, from, to, shape, nranks);
    return (MoveSeconds){links.messages, links.messages_s, (double)busiest_bytes / links.bytes_per_s};
}
