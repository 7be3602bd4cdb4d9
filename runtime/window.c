/* window: see window.h. */
#include "runtime/window.h"

#include "ir/windows.h"

void planes_of(const KernelCall *call, PlanesOf *of) {
    const OpCode op = call->op;
    const bool convolution = op == OP_conv2d || op == OP_conv2d_grad_x || op == OP_conv2d_grad_w;
    *of = (PlanesOf){.x = &call->in[0], .y = &call->out[0]};
    if (op == OP_conv2d_grad_x || op == OP_avg_pool_grad) of->x = &call->out[0], of->y = &call->in[0];
    if (op == OP_conv2d_grad_w || op == OP_max_pool_grad) of->y = &call->in[1];
    if (convolution) of->w = op == OP_conv2d_grad_w ? &call->out[0] : &call->in[1];
    const Shape *x = &of->x->local, *y = &of->y->local;
    Planes *planes = &of->planes;
    *planes = (Planes){.images = 1, .groups = 1, .in_channels = 1, .out_channels = 1};
    for (int d = 0; d < x->ndim - (convolution ? 3 : 2); d++)
        planes->images *= x->dim[d];
    if (convolution) {
        planes->in_channels = of->w->local.dim[1];
        planes->groups = planes->in_channels > 0 ? x->dim[1] / planes->in_channels : 1;
        planes->out_channels = planes->groups > 0 ? y->dim[1] / planes->groups : 0;
    }
    for (int d = 0; d < 2; d++) {
        const int at = x->ndim - 2 + d;
        planes->window[d] = window_of(op, call->attr, d, convolution ? of->w->local.dim[2 + d] : 0);
        planes->window[d].low += of->x->box.begin[at] - of->y->box.begin[at] * planes->window[d].stride;
        planes->in[d] = x->dim[at];
        planes->out[d] = y->dim[at];
        planes->before[d] = of->x->box.begin[at];
        planes->after[d] = of->x->global.dim[at] - of->x->box.end[at];
        if (op != OP_max_pool_grad) continue;
        planes->back[d] = call->out[0].local.dim[at];
        planes->behind[d] = call->out[0].box.begin[at] - of->x->box.begin[at];
    }
}

int64_t average_count(const Planes *planes, const int64_t *at, bool with_padding, int64_t divisor) {
    int64_t count = divisor > 0 ? divisor : 1;
    for (int d = 0; d < 2 && divisor == 0; d++) {
        const Window *window = &planes->window[d];
        const int64_t size = planes->before[d] + planes->in[d] + planes->after[d],
                      begin = window_place(window, at[d], 0) + planes->before[d], end = begin + window->size;
        if (with_padding)
            count *= window->size;
        else
            count *= (end < size ? end : size) - (begin > 0 ? begin : 0);
    }
    return count;
}

bool average_with_padding(const KernelCall *call) {
    const Attr *attr = &call->attr[op_attr(call->op, "count_include_pad")];
    return !attr->given || attr->i != 0;
}

int64_t average_divisor(const KernelCall *call) {
    const Attr *attr = &call->attr[op_attr(call->op, "divisor_override")];
    return attr->given ? attr->i : 0;
}
