#include "search/moves.h"

#include <math.h>

#include "ir/map.h"

typedef struct MoveLayout {
    TensorType type;
    Layout layout;
    int64_t bytes;
} MoveLayout;

typedef struct Move {
    int from, to;
    MoveSeconds seconds;
} Move;

struct Moves {
    Arena *arena;
    const Machine *machine;
    int nranks;
    VEC(MoveLayout *) layouts;
    VEC(Move) moves;
    Map layout_map, move_map;
};

Moves *moves_create(Arena *arena, const Machine *machine, int nranks) {
    Moves *moves = arena_alloc(arena, sizeof *moves);
    *moves = (Moves){.arena = arena, .machine = machine != NULL ? machine : &machine_cpu, .nranks = nranks};
    return moves;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

int moves_layout(Moves *moves, const TensorType *type, const Layout *layout) {
    Layout canonical = *layout;
    layout_canonical(&canonical, &type->shape);
    uint64_t hash = mix(layout_hash(&canonical), (uint64_t)type->dtype);
    for (int d = 0; d < type->shape.ndim; d++)
        hash = mix(hash, (uint64_t)type->shape.dim[d]);
    map_each(&moves->layout_map, hash, number) {
        const MoveLayout *there = moves->layouts.at[number];
        if (type_equal(&there->type, type) && layout_equal(&there->layout, &canonical)) return number;
    }
    MoveLayout *made = arena_alloc(moves->arena, sizeof *made);
    *made = (MoveLayout){*type, canonical, layout_max_elements(&canonical, &type->shape) * dtype_bytes[type->dtype]};
    vec_push(moves->arena, &moves->layouts, made);
    map_add(moves->arena, &moves->layout_map, hash, moves->layouts.n - 1);
    return moves->layouts.n - 1;
}

const Layout *moves_at(const Moves *moves, int number) {
    return &moves->layouts.at[number]->layout;
}

int64_t moves_bytes(const Moves *moves, int number) {
    return moves->layouts.at[number]->bytes;
}

/* ---- links */

static bool has_digit(const Digit *digits, int n, Digit digit) {
    for (int i = 0; i < n; i++)
        if (digits[i].size == digit.size && digits[i].stride == digit.stride) return true;
    return false;
}

/* What is exchanged, and between whom. */
typedef struct Moved {
    int64_t group; /* ranks that exchange with each other: those that differ in the digits of `from` that are elsewhere in `to` */
    bool far;      /* some of them are in other nodes */
    bool gathered; /* a dimension loses digits */
    bool turned;   /* and another place gets them: each rank sends to each of its group, as in all_to_all */
} Moved;

static bool in_dimensions(const Layout *layout, Digit digit) {
    return has_digit(layout->digit, layout->start[layout->ndim], digit);
}

static Moved moved_between(const Moves *moves, const Layout *from, const Layout *to) {
    Layout a = *from, b = *to;
    Moved moved = {.group = 1};
    if (!layout_refine(&a, &b)) return (Moved){moves->nranks, moves->nranks > moves->machine->ranks_per_node, true, true};
    for (int list = 0; list < a.ndim + NREDUCTIONS; list++)
        for (int i = 0; i < layout_count(&a, list); i++) {
            const Digit digit = layout_list(&a, list)[i];
            if (has_digit(layout_list(&b, list), layout_count(&b, list), digit)) continue;
            moved.group *= digit.size;
            moved.far = moved.far || (int64_t)digit.size * digit.stride > moves->machine->ranks_per_node;
            if (list >= a.ndim) continue;
            moved.gathered = true;
            moved.turned = moved.turned || in_dimensions(&b, digit);
        }
    return moved;
}

static int64_t log2_of(int64_t n) {
    int64_t rounds = 0;
    for (int64_t reach = 1; reach < n; reach *= 2)
        rounds++;
    return rounds;
}

/* Messages that a rank waits for, one after the other: a library's collectives take as many rounds as the group has doublings, an exchange one message from each. */
static int64_t messages_of(const Moved *moved, const Layout *from, const Layout *to, bool sums) {
    Layout complete;
    layout_complete(from, &complete);
    if (moved->turned || (moved->gathered && sums)) return (sums ? 2 : 1) * (moved->group - 1);
    const bool all_reduce = sums && layout_equal(to, &complete);
    return moved->group > 1 ? (all_reduce ? 2 : 1) * log2_of(moved->group) : 1;
}

static MoveSeconds seconds_of(const Moves *moves, const MoveLayout *from, const MoveLayout *to) {
    Digit summed[MAX_DIGITS];
    Reduction kind;
    Traffic bound;
    const int nsummed = layout_summed(&from->layout, &to->layout, summed, &kind);
    if (nsummed < 0) return (MoveSeconds){INFINITY, 0};
    traffic_bound(&from->layout, &to->layout, &from->type.shape, moves->nranks, &bound);
    if (bound.max == 0) return (MoveSeconds){0};
    const Moved moved = moved_between(moves, &from->layout, &to->layout);
    const MachineLevel *level = moved.far ? &moves->machine->node : &moves->machine->rank;
    const int64_t messages = messages_of(&moved, &from->layout, &to->layout, nsummed > 0);
    return (MoveSeconds){(double)bound.max * dtype_bytes[from->type.dtype] / level->bytes_per_s, level->latency_s * (double)messages};
}

double moves_seconds(Moves *moves, int from, int to) {
    const MoveSeconds both = moves_both(moves, from, to);
    return both.bytes_s + both.messages_s;
}

MoveSeconds moves_both(Moves *moves, int from, int to) {
    if (from == to) return (MoveSeconds){0};
    const uint64_t hash = mix(mix(17, (uint64_t)from), (uint64_t)to);
    map_each(&moves->move_map, hash,
             number) if (moves->moves.at[number].from == from && moves->moves.at[number].to == to) return moves->moves.at[number]
        .seconds;
    const Move made = {from, to, seconds_of(moves, moves->layouts.at[from], moves->layouts.at[to])};
    vec_push(moves->arena, &moves->moves, made);
    map_add(moves->arena, &moves->move_map, hash, moves->moves.n - 1);
    return made.seconds;
}
