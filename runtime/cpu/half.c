/* half: kernels of operands in 16 bits. Operators that only move elements, and elementwise ones, have loops of their own. For all others the f32 kernel
 * runs on copies of the operands, and its results are rounded once. */
#include <stdlib.h>

#include "runtime/cpu/cpu.h"
#include "runtime/cpu/elements.h"

bool call_is_half(const KernelCall *call) {
    bool half = false;
    for (int i = 0; i < call->nin; i++)
        half = half || dtype_is_half(call->in[i].dtype);
    for (int i = 0; i < call->nout; i++)
        half = half || dtype_is_half(call->out[i].dtype);
    return half;
}

KernelCall half_widened(const KernelCall *call) {
    KernelCall wide = *call;
    for (int i = 0; i < call->nin; i++)
        if (dtype_is_half(call->in[i].dtype)) wide.in[i].dtype = F32;
    for (int i = 0; i < call->nout; i++)
        if (dtype_is_half(call->out[i].dtype)) wide.out[i].dtype = F32;
    return wide;
}

static bool has_own(const KernelCall *call) {
    const OpClass op_class = op_table[call->op].op_class;
    return op_class == OP_CLASS_LEAF || call->op == OP_write || op_only_moves(call->op) ||
           element_loop(call->op, call->attr, call->in[call->nin - 1].dtype, call->out[0].dtype) != NULL;
}

/* A conversion of elements, which threads divide. */
typedef struct Converting {
    ElementLoop *loop;
    char *to;
    const char *from;
    int to_bytes, from_bytes;
} Converting;

static void convert_part(void *context, int64_t begin, int64_t end) {
    const Converting *c = context;
    c->loop(c->to + begin * c->to_bytes, (const void *const[]){c->from + begin * c->from_bytes}, (const int64_t[]){1}, NULL, end - begin);
}

static void convert(const KernelCall *call, void *to, DType to_dtype, const void *from, DType from_dtype, int64_t n) {
    Converting c = {element_loop(OP_cast, NULL, from_dtype, to_dtype), to, from, dtype_bytes[to_dtype], dtype_bytes[from_dtype]};
    pool_run(call_pool(call), n, GRAIN, convert_part, &c);
}

enum { ALIGNED_FLOATS = 16 };

/* Whether an operand has 16-bit elements; *floats is advanced by the room for its copy. */
static bool takes_room(const Operand *operand, int64_t *floats) {
    if (!dtype_is_half(operand->dtype)) return false;
    *floats += (shape_elements(&operand->local) + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS;
    return true;
}

static int64_t room_bytes(const KernelCall *call) {
    int64_t floats = 0;
    for (int i = 0; i < call->nin; i++)
        takes_room(&call->in[i], &floats);
    for (int i = 0; i < call->nout; i++)
        takes_room(&call->out[i], &floats);
    return floats * (int64_t)sizeof(float);
}

static bool run_on_copies(const KernelCall *call, KernelFn *kernel, float *room, Error *error) {
    KernelCall wide = half_widened(call);
    int64_t next = 0;
    for (int i = 0; i < call->nin; i++) {
        void *copy = room + next;
        if (!takes_room(&call->in[i], &next)) continue;
        wide.in[i].data = copy;
        convert(call, copy, F32, call->in[i].data, call->in[i].dtype, shape_elements(&call->in[i].local));
    }
    for (int i = 0; i < call->nout; i++) {
        void *copy = room + next;
        if (takes_room(&call->out[i], &next)) wide.out[i].data = copy;
    }
    if (!kernel(&wide, error)) return false;
    for (int i = 0; i < call->nout; i++)
        if (dtype_is_half(call->out[i].dtype))
            convert(call, call->out[i].data, call->out[i].dtype, wide.out[i].data, F32, shape_elements(&call->out[i].local));
    return true;
}

bool half_run(const KernelCall *call, KernelFn *kernel, Error *error) {
    if (has_own(call)) return kernel(call, error);
    float *room = call_room(call, room_bytes(call), error);
    const bool ok = room && run_on_copies(call, kernel, room, error);
    if (!call->context) free(room);
    return ok;
}
