/* Inputs and old versions of states, as places in which a changed plan puts what is not theirs. */
#pragma once
#include "ir/plan.h"

/* An instance as it would lie in state k, or behind the states in an input: false where it has another size than that, or elements of another type. */
static inline bool in_leaf(const Graph *graph, int k, const Instance *own, Instance *there) {
    const bool is_state = k < graph->states.n;
    const int at = is_state ? k : k - graph->states.n;
    const TensorType *type = &graph->values.at[own->value].type,
                     *stored = is_state ? &graph->states.at[at].type : &graph->inputs.at[at].type;
    const Layout *layout = is_state ? graph->states.at[at].layout : graph->inputs.at[at].layout;
    *there = (Instance){.value = own->value, .layout = own->layout, .place = is_state ? PLACE_STATE : PLACE_INPUT, .at = at};
    return stored->dtype == type->dtype && layout_max_elements(layout, &stored->shape) == layout_max_elements(own->layout, &type->shape);
}
