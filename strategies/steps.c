/* steps: the time and traffic of single steps of conversions, each counted once. Many conversions begin or end with the same steps, and digits that divide a dimension evenly move
 * the same share of it at any size. */
#include "strategies/pair.h"

typedef struct CountedStep {
    CommKind kind;
    const Layout *from, *to; /* equal layouts are the same pointer */
    Shape shape;
    bool linked, moved; /* what has been counted */
    StepLinks links;
    Traffic received, sent;
} CountedStep;

Steps *steps_create(Arena *arena, const Machine *machine, int nranks) {
    Steps *steps = arena_alloc(arena, sizeof *steps);
    *steps = (Steps){.arena = arena, .machine = machine, .nranks = nranks};
    return steps;
}

Steps *steps_joined(Steps *of, const Machine *machine, int joined) {
    Steps *steps = steps_create(of->arena, machine, of->nranks);
    steps->of = of;
    steps->joined = joined;
    return steps;
}

static const Layout *layout_once(Steps *steps, const Layout *layout) {
    const uint64_t hash = layout_hash(layout);
    map_each(&steps->layout_map, hash, k) if (layout_equal(steps->layouts.at[k], layout)) return steps->layouts.at[k];
    Layout *made = arena_alloc(steps->arena, sizeof *made);
    *made = *layout;
    vec_push(steps->arena, &steps->layouts, made);
    map_add(steps->arena, &steps->layout_map, hash, steps->layouts.n - 1);
    return made;
}

/* Finds a smaller shape in which each rank moves fewer elements by a known factor, and returns that factor. Even dimensions become as short
 * as possible. With sums, whose owners add up shares of boxes, the smaller shape keeps an even share for each rank; 1 where it cannot. */
static int64_t smaller_shape(const Steps *steps, const Layout *from, const Layout *to, const Shape *shape, Shape *smaller) {
    const bool sums = layout_is_partial(from);
    int64_t times = 1, shares = 1;
    *smaller = *shape;
    for (int d = 0; d < shape->ndim; d++) {
        const int64_t a = layout_split(from, d), b = layout_split(to, d), size = shape->dim[d];
        const bool even = size > 0 && size % a == 0 && size % b == 0 && layout_halo(from, d) == NULL && layout_halo(to, d) == NULL;
        if (!even && sums) {
            *smaller = *shape;
            return 1;
        }
        if (!even) continue;
        smaller->dim[d] = a / gcd64(a, b) * b;
        times *= size / smaller->dim[d];
        shares = shares * (size / smaller->dim[d] % steps->nranks) % steps->nranks;
    }
    if (!sums || shape->ndim == 0) return times;
    if (shares != 0 || !mul_checked(smaller->dim[0], steps->nranks, &smaller->dim[0])) {
        *smaller = *shape;
        return 1;
    }
    return times / steps->nranks;
}

static CountedStep *counted_of(Steps *steps, CommKind kind, const Layout *from, const Layout *to, const Shape *shape) {
    from = layout_once(steps, from), to = layout_once(steps, to);
    uint64_t hash = hash_mix(hash_mix((uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to), (uint64_t)kind);
    for (int d = 0; d < shape->ndim; d++)
        hash = hash_mix(hash, (uint64_t)shape->dim[d]);
    map_each(&steps->counted_map, hash, k) {
        CountedStep *there = steps->counted.at[k];
        if (there->kind == kind && there->from == from && there->to == to && shape_equal(&there->shape, shape)) return there;
    }
    CountedStep *made = arena_alloc(steps->arena, sizeof *made);
    *made = (CountedStep){.kind = kind, .from = from, .to = to, .shape = *shape};
    vec_push(steps->arena, &steps->counted, made);
    map_add(steps->arena, &steps->counted_map, hash, steps->counted.n - 1);
    return made;
}

StepLinks steps_links(Steps *steps, CommKind kind, const Layout *from, const Layout *to, const Shape *shape) {
    if (steps->of != NULL) {
        StepLinks links = steps_links(steps->of, kind, from, to, shape);
        links.messages_s /= steps->joined;
        return links;
    }
    Shape smaller;
    smaller_shape(steps, from, to, shape, &smaller);
    CountedStep *step = counted_of(steps, kind, from, to, &smaller);
    if (!step->linked) step->links = step_links(steps->machine, kind, from, to, &smaller, steps->nranks);
    step->linked = true;
    return step->links;
}

void steps_traffic(Steps *steps, CommKind kind, const Layout *from, const Layout *to, const Shape *shape, Traffic *received,
                   Traffic *sent) {
    if (steps->of != NULL) {
        steps_traffic(steps->of, kind, from, to, shape, received, sent);
        return;
    }
    Shape smaller;
    const int64_t times = smaller_shape(steps, from, to, shape, &smaller);
    CountedStep *step = counted_of(steps, kind, from, to, &smaller);
    if (!step->moved) traffic_step(kind, from, to, &smaller, steps->nranks, &step->received, &step->sent);
    step->moved = true;
    *received = (Traffic){step->received.total * times, step->received.max * times};
    *sent = (Traffic){step->sent.total * times, step->sent.max * times};
}
