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
    double most; /* below which they are exact */
} Move;

struct Moves {
    Arena *arena;
    int nplanned;
    Steps *steps;
    VEC(MoveLayout *) layouts;
    VEC(Move) moves;
    Map layout_map, move_map;
};

Moves *moves_create(Arena *arena, const Machine *machine, int nranks) {
    Moves *moves = arena_alloc(arena, sizeof *moves);
    *moves = (Moves){.arena = arena, .steps = steps_create(arena, machine != NULL ? machine : &machine_cpu, nranks)};
    return moves;
}

Moves *moves_joined(Moves *of, const Machine *machine, int joined) {
    Moves *moves = arena_alloc(of->arena, sizeof *moves);
    *moves = (Moves){.arena = of->arena, .steps = steps_joined(of->steps, machine, joined)};
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

/* As it is planned and timed once the net is compiled. */
MoveSeconds moves_both(Moves *moves, int from, int to, double most) {
    if (from == to) return (MoveSeconds){0};
    const uint64_t hash = hash_mix(hash_mix(17, (uint64_t)from), (uint64_t)to);
    Move *move = NULL;
    map_each(&moves->move_map, hash, number) if (moves->moves.at[number].from == from && moves->moves.at[number].to == to) move =
        &moves->moves.at[number];
    if (move != NULL && move->most >= most) return move->seconds;
    if (move == NULL) {
        vec_push(moves->arena, &moves->moves, ((Move){.from = from, .to = to}));
        map_add(moves->arena, &moves->move_map, hash, moves->moves.n - 1);
        move = &moves->moves.at[moves->moves.n - 1];
    }
    const MoveLayout *a = moves->layouts.at[from], *b = moves->layouts.at[to];
    move->seconds = redistribute_seconds(moves->steps, &a->layout, &b->layout, &a->type.shape, dtype_bytes[a->type.dtype], most);
    moves->nplanned++;
    move->most = move_seconds(move->seconds) < most ? INFINITY : most;
    return move->seconds;
}
