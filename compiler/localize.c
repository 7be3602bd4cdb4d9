/* localize: from global tensors to what one rank holds.
 *
 * Before: every value of c->spmd has a layout. After: box_bytes[v] is the size of the largest box that a rank holds of value v, which is
 * the room that it gets on every rank, and dumps show local shapes. Types in c->spmd stay global: a rank's box follows from
 * layout and rank number, so nothing here depends on the number of ranks. */
#include "compiler/compiler.h"

bool pass_localize(Compilation *c) {
    const Graph *g = &c->spmd;
    c->box_bytes = arena_alloc(c->arena, sizeof *c->box_bytes * (size_t)(g->values.n + 1));
    for (int v = 0; v < g->values.n; v++) {
        const Value *value = &g->values.at[v];
        int64_t elements = layout_max_elements(value->layout, &value->type.shape);
        if (!mul_checked(elements, dtype_bytes[value->type.dtype], &c->box_bytes[v]))
            return error_set(&c->error, EXIT_REJECTED, "%s: a rank's part does not fit in 2^63 bytes", value->name);
    }
    c->localized = true;
    return true;
}
