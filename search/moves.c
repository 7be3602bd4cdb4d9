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
    double most; /* below which they are exact; -1: they are not known */
    bool wanted;
} Move;

/* What a thread has for itself. */
typedef struct Lane {
    Arena arena;
    Steps *steps;
} Lane;

struct Moves {
    Arena *arena;
    const Machine *machine, *joined_machine;
    int nranks, joined; /* joined 0: nothing is */
    int nplanned;
    Steps *steps;
    Pool *pool; /* NULL: the caller plans all */
    Lane *lane; /* one for each of its threads */
    VEC(int) wanted;
    VEC(MoveLayout *) layouts;
    VEC(Move) moves;
    Map layout_map, move_map;
};

Moves *moves_create(Arena *arena, const Machine *machine, int nranks) {
    Moves *moves = arena_alloc(arena, sizeof *moves);
    if (machine == NULL) machine = &machine_cpu;
    *moves = (Moves){.arena = arena, .machine = machine, .nranks = nranks, .steps = steps_create(arena, machine, nranks)};
    return moves;
}

Moves *moves_joined(Moves *of, const Machine *machine, int joined) {
    Moves *moves = arena_alloc(of->arena, sizeof *moves);
    *moves = (Moves){.arena = of->arena,
                     .machine = of->machine,
                     .joined_machine = machine,
                     .nranks = of->nranks,
                     .joined = joined,
                     .steps = steps_joined(of->steps, machine, joined)};
    return moves;
}

int moves_layout(Moves *moves, const TensorType *type, const Layout *layout) {
    Layout canonical = *layout;
    layout_canonical(&canonical, &type->shape);
    uint64_t hash = hash_mix(layout_hash(&canonical), (uint64_t)type->dtype);
    for (int d = 0; d < type->shape.ndim; d++)
        hash = hash_mix(hash, (uint64_t)type->shape.dim[d]);
    map_each(&moves->layout_map, hash, number) {
        const MoveLayout *there = moves->layouts.at[number];
        if (type_equal(&there->type, type) && layout_equal(&there->layout, &canonical)) return number;
    }
    MoveLayout *made = arena_alloc(moves->arena, sizeof *made);
    *made = (MoveLayout){*type, canonical, layout_max_bytes(&canonical, type)};
    vec_push(moves->arena, &moves->layouts, made);
    map_add(moves->arena, &moves->layout_map, hash, moves->layouts.n - 1);
    return moves->layouts.n - 1;
}

int moves_parts(Moves *moves, int layout) {
    const MoveLayout *from = moves->layouts.at[layout];
    Layout parts;
    if (!layout_has_halo(&from->layout)) return layout;
    layout_without_halos(&from->layout, &parts);
    return moves_layout(moves, &from->type, &parts);
}

const Layout *moves_at(const Moves *moves, int number) {
    return &moves->layouts.at[number]->layout;
}

int64_t moves_bytes(const Moves *moves, int number) {
    return moves->layouts.at[number]->bytes;
}

int moves_planned(const Moves *moves) {
    return moves->nplanned;
}

double moves_seconds(Moves *moves, int from, int to, double most) {
    return move_seconds(moves_both(moves, from, to, most));
}

static Move *move_of(Moves *moves, int from, int to) {
    const uint64_t hash = hash_mix(hash_mix(17, (uint64_t)from), (uint64_t)to);
    map_each(&moves->move_map, hash,
             number) if (moves->moves.at[number].from == from && moves->moves.at[number].to == to) return &moves->moves.at[number];
    vec_push(moves->arena, &moves->moves, ((Move){.from = from, .to = to, .most = -1}));
    map_add(moves->arena, &moves->move_map, hash, moves->moves.n - 1);
    return &moves->moves.at[moves->moves.n - 1];
}

/* Plans and times a conversion as it is done once the net is compiled. */
static void move_plan(const Moves *moves, Steps *steps, Move *move, double most) {
    const MoveLayout *a = moves->layouts.at[move->from], *b = moves->layouts.at[move->to];
    move->seconds = redistribute_seconds(steps, &a->layout, &b->layout, &a->type.shape, dtype_bytes[a->type.dtype], most);
    move->most = move_seconds(move->seconds) < most ? INFINITY : most;
}

MoveSeconds moves_both(Moves *moves, int from, int to, double most) {
    if (from == to) return (MoveSeconds){0};
    Move *move = move_of(moves, from, to);
    if (move->most >= most) return move->seconds;
    move_plan(moves, moves->steps, move, most);
    moves->nplanned++;
    return move->seconds;
}

/* ---- many at once */

void moves_share(Moves *moves, Pool *pool) {
    if (pool_threads(pool) == 1) return;
    moves->pool = pool;
    moves->lane = arena_alloc(moves->arena, (size_t)pool_threads(pool) * sizeof *moves->lane);
    for (int k = 0; k < pool_threads(pool); k++) {
        Lane *lane = &moves->lane[k];
        arena_init(&lane->arena);
        lane->steps = steps_create(&lane->arena, moves->machine, moves->nranks);
        if (moves->joined > 0) lane->steps = steps_joined(lane->steps, moves->joined_machine, moves->joined);
    }
}

void moves_finish(Moves *moves) {
    for (int k = 0; k < pool_threads(moves->pool) && moves->pool != NULL; k++)
        arena_finish(&moves->lane[k].arena);
    moves->pool = NULL, moves->lane = NULL;
}

void moves_want(Moves *moves, int from, int to) {
    if (moves->pool == NULL || from == to) return;
    Move *move = move_of(moves, from, to);
    if (move->wanted) return;
    move->wanted = true;
    vec_push(moves->arena, &moves->wanted, (int)(move - moves->moves.at));
}

typedef struct Planning {
    Moves *moves;
    double most;
} Planning;

/* A thread counts steps for itself. */
static void plan_wanted(void *context, int thread, int item) {
    const Planning *planning = context;
    Moves *moves = planning->moves;
    move_plan(moves, moves->lane[thread].steps, &moves->moves.at[moves->wanted.at[item]], planning->most);
}

void moves_plan(Moves *moves, double most) {
    enum { MANY = 64 };
    Planning planning = {moves, most};
    int n = 0;
    for (int k = 0; k < moves->wanted.n; k++) { /* most are known, and some have been planned alone meanwhile */
        Move *move = &moves->moves.at[moves->wanted.at[k]];
        move->wanted = false;
        if (move->most < most) moves->wanted.at[n++] = moves->wanted.at[k];
    }
    if (n > 0) pool_each(n >= MANY ? moves->pool : NULL, n, plan_wanted, &planning);
    moves->nplanned += n;
    moves->wanted.n = 0;
}
