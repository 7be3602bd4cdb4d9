/* chain: see chain.h. Loads that are contiguous are read in place. Others are copied into order for each block, or once for all blocks if they repeat after few
 * elements. */
#include "runtime/cpu/chain.h"

#include <string.h>

#include "runtime/element.h"

/* ---------------------------------------------------------------- preparing */

/* Slots for values that live from one step to a later one. */
typedef struct Slots {
    int until[CHAIN_STEPS + CHAIN_LOADS]; /* the last step that reads the slot's value */
    int n;
} Slots;

static int take_slot(Slots *slots, int at, int until) {
    int slot = 0;
    while (slot < slots->n && slots->until[slot] >= at)
        slot++;
    if (slot == slots->n) slots->n++;
    slots->until[slot] = until;
    return slot;
}

/* The first and the last step that read a load. */
static void load_uses(const Chain *chain, int load, int *first, int *last) {
    *first = *last = -1;
    for (int s = 0; s < chain->nsteps; s++)
        for (int i = 0; i < chain->step[s].nin; i++)
            if (chain->step[s].in[i].is_load && chain->step[s].in[i].index == load) {
                if (*first < 0) *first = s;
                *last = s;
            }
}

/* The number of elements after which a load repeats; 0: too many, or it never does. */
static int64_t period_of(const ChainLoad *load) {
    int64_t n = 1;
    for (int d = 1; d < load->ndim; d++)
        n *= load->size[d];
    return load->ndim > 1 && load->stride[0] == 0 && n <= PERIOD_MOST ? n : 0;
}

/* Slots for loads kept for all blocks: of a period, and of a block more, since a block may begin anywhere in the period. */
static void take_repeated(CpuChain *cpu) {
    int64_t end = STEPS_BYTES;
    for (int l = 0; l < cpu->chain.nloads; l++) {
        const int64_t period = period_of(&cpu->chain.load[l]), bytes = period * dtype_bytes[cpu->chain.load[l].dtype] / 64 * 64 + 64;
        if (end + bytes + BLOCK_BYTES > SLOTS_BYTES) continue;
        cpu->period[l] = period;
        cpu->repeated[l] = end;
        if (period > 0) end += bytes + BLOCK_BYTES;
    }
}

static void take_slots(CpuChain *cpu, int kept) {
    const Chain *chain = &cpu->chain;
    Slots slots = {.n = 0};
    int last[CHAIN_LOADS], most_bytes = 1;
    for (int l = 0; l < chain->nloads; l++)
        load_uses(chain, l, &cpu->load_at[l], &last[l]);
    for (int s = 0; s < chain->nsteps; s++) {
        const ChainStep *step = &chain->step[s];
        const int until = s == kept ? CHAIN_STEPS : step->last_use;
        if (dtype_bytes[step->dtype] > most_bytes) most_bytes = dtype_bytes[step->dtype];
        for (int l = 0; l < chain->nloads; l++) {
            if (cpu->load_at[l] != s) continue;
            cpu->load_slot[l] = chain_load_is_linear(&chain->load[l]) || cpu->period[l] ? -1 : take_slot(&slots, s, last[l]);
            if (dtype_bytes[chain->load[l].dtype] > most_bytes) most_bytes = dtype_bytes[chain->load[l].dtype];
        }
        cpu->step_slot[s] = step->out || (step->op == OP_constant && s != kept) ? -1 : take_slot(&slots, s, until);
    }
    cpu->nslots = slots.n;
    cpu->block = BLOCK_BYTES / ((slots.n + 1) * most_bytes) / 64 * 64; /* and one for operands and results in place */
    if (cpu->block < BLOCK_LEAST) cpu->block = BLOCK_LEAST;
    cpu->slot_bytes = (int)cpu->block * most_bytes;
}

/* Whether an operator only fills, copies or divides, for which this file has loops. */
static bool has_own_loop(OpCode op) {
    return op == OP_constant || op == OP_write || op == OP_mean_grad;
}

bool cpu_chain_prepare(CpuChain *cpu, int kept) {
    const Chain *chain = &cpu->chain;
    for (int s = 0; s < chain->nsteps; s++) {
        const ChainStep *step = &chain->step[s];
        if (step->op == OP_constant) element_put(cpu->constant[s], step->dtype, 0, step->attr[0].f);
        if (step->op == OP_mean_grad && step->dtype != F32 && step->dtype != F64) return false;
        if (has_own_loop(step->op)) continue;
        if (step->nin == 0) return false;
        cpu->loop[s] = element_loop(step->op, step->attr, chain_source_dtype(chain, step->in[step->nin - 1]), step->dtype);
        if (!cpu->loop[s]) return false;
    }
    take_repeated(cpu);
    take_slots(cpu, kept);
    return (int64_t)cpu->nslots * cpu->slot_bytes <= STEPS_BYTES;
}

/* ---------------------------------------------------------------- one block */

/* Elements of a value: contiguous, or (stride 0) one that all share. */
typedef struct Elements {
    const char *data;
    int64_t stride;
} Elements;

#define COPY_RUN(bits)                                                                                                                     \
    static void copy_run_##bits(char *to_, const char *from_, int64_t stride, int64_t n) {                                                 \
        uint##bits##_t *to = (void *)to_;                                                                                                  \
        const uint##bits##_t *from = (const void *)from_;                                                                                  \
        if (stride == 0) {                                                                                                                 \
            const uint##bits##_t item = *from;                                                                                             \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = item;                                                              \
        } else {                                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                                                \
                to[i] = from[i * stride];                                                                                                  \
        }                                                                                                                                  \
    }
COPY_RUN(8)
COPY_RUN(16)
COPY_RUN(32)
COPY_RUN(64)

static void copy_run(char *to, const char *from, int64_t stride, int64_t n, int bytes) {
    if (stride == 1)
        memcpy(to, from, (size_t)(n * bytes));
    else if (bytes == 8)
        copy_run_64(to, from, stride, n);
    else if (bytes == 4)
        copy_run_32(to, from, stride, n);
    else if (bytes == 2)
        copy_run_16(to, from, stride, n);
    else
        copy_run_8(to, from, stride, n);
}

/* Elements [first, first + n) of a load, in place, or copied to `slot`. */
static Elements load_elements(const ChainLoad *load, int64_t first, int64_t n, char *slot) {
    const int bytes = dtype_bytes[load->dtype], last = load->ndim - 1;
    const char *data = load->data;
    int64_t index[MAX_NDIM], offset = 0, left = first;
    for (int d = last; d > 0; d--) {
        index[d] = left % load->size[d];
        left /= load->size[d];
        offset += index[d] * load->stride[d];
    }
    index[0] = left;
    offset += left * load->stride[0];
    const int64_t stride = load->stride[last];
    if (index[last] + n <= load->size[last] && (stride == 0 || stride == 1 || load->size[last] == 1))
        return (Elements){data + offset * bytes, stride};
    for (int64_t done = 0; done < n;) {
        const int64_t rest = load->size[last] - index[last], run = rest < n - done ? rest : n - done;
        copy_run(slot + done * bytes, data + offset * bytes, stride, run, bytes);
        done += run;
        offset += run * stride;
        index[last] += run;
        for (int d = last; d > 0 && index[d] == load->size[d]; d--) { /* the next run */
            offset += load->stride[d - 1] - index[d] * load->stride[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
    return (Elements){slot, 1};
}

void cpu_chain_begin(const CpuChain *cpu, char *slots) {
    for (int l = 0; l < cpu->chain.nloads; l++) {
        const int64_t bytes = dtype_bytes[cpu->chain.load[l].dtype], end = (cpu->period[l] + cpu->block) * bytes;
        char *slot = slots + cpu->repeated[l];
        if (cpu->period[l] == 0) continue;
        const Elements period = load_elements(&cpu->chain.load[l], 0, cpu->period[l], slot);
        if (period.data != slot) copy_run(slot, period.data, period.stride, cpu->period[l], (int)bytes);
        for (int64_t done = cpu->period[l] * bytes; done < end; done *= 2)
            memcpy(slot + done, slot, (size_t)(done < end - done ? done : end - done));
    }
}

#define QUOTIENT(suffix, T)                                                                                                                \
    static void quotient_##suffix(T *out, const T *x, int64_t stride, T divisor, int64_t n) {                                              \
        if (stride) {                                                                                                                      \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = x[i] / divisor;                                                   \
        } else {                                                                                                                           \
            const T item = *x / divisor;                                                                                                   \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) out[i] = item;                                                             \
        }                                                                                                                                  \
    }
QUOTIENT(f32, float)
QUOTIENT(f64, double)

static void run_step(const CpuChain *cpu, int s, const Elements *const *in, char *out, int64_t n) {
    const ChainStep *step = &cpu->chain.step[s];
    if (cpu->loop[s]) {
        const void *at[CHAIN_OPERANDS] = {0};
        int64_t stride[CHAIN_OPERANDS] = {0};
        for (int i = 0; i < step->nin; i++) {
            at[i] = in[i]->data;
            stride[i] = in[i]->stride;
        }
        cpu->loop[s](out, at, stride, step->attr, n);
    } else if (step->op == OP_constant) {
        copy_run(out, cpu->constant[s], 0, n, dtype_bytes[step->dtype]);
    } else if (step->op == OP_write) {
        if (out != in[0]->data) copy_run(out, in[0]->data, in[0]->stride, n, dtype_bytes[step->dtype]);
    } else if (step->dtype == F32) {
        quotient_f32((void *)out, (const void *)in[0]->data, in[0]->stride, (float)step->number, n);
    } else {
        quotient_f64((void *)out, (const void *)in[0]->data, in[0]->stride, step->number, n);
    }
}

const void *cpu_chain_block(const CpuChain *cpu, int64_t first, int64_t n, char *slots, int kept) {
    const Chain *chain = &cpu->chain;
    Elements load[CHAIN_LOADS], result[CHAIN_STEPS];
    for (int s = 0; s < chain->nsteps; s++) {
        const ChainStep *step = &chain->step[s];
        const Elements *in[CHAIN_OPERANDS];
        for (int i = 0; i < step->nin; i++) {
            const int from = step->in[i].index;
            if (step->in[i].is_load && cpu->period[from] > 0)
                load[from] = (Elements){slots + cpu->repeated[from] + first % cpu->period[from] * dtype_bytes[chain->load[from].dtype], 1};
            else if (step->in[i].is_load && cpu->load_at[from] == s)
                load[from] = load_elements(&chain->load[from], first, n,
                                           cpu->load_slot[from] < 0 ? NULL : slots + cpu->load_slot[from] * cpu->slot_bytes);
            in[i] = step->in[i].is_load ? &load[from] : &result[from];
        }
        if (step->op == OP_constant && !step->out && s != kept) {
            result[s] = (Elements){cpu->constant[s], 0};
            continue;
        }
        char *out = step->out ? (char *)step->out + first * dtype_bytes[step->dtype] : slots + cpu->step_slot[s] * cpu->slot_bytes;
        run_step(cpu, s, in, out, n);
        result[s] = (Elements){out, 1};
    }
    return kept < 0 ? NULL : result[kept].data;
}

/* A block within one row of an operand that is broadcast or strided needs no copy of it. For short rows, copying costs less than short blocks. */
int64_t cpu_chain_next(const CpuChain *cpu, int64_t first, int64_t n) {
    int64_t most = n < cpu->block ? n : cpu->block;
    for (int l = 0; l < cpu->chain.nloads; l++) {
        const ChainLoad *load = &cpu->chain.load[l];
        const int64_t row = load->size[load->ndim - 1];
        if (load->ndim > 1 && cpu->period[l] == 0 && row >= ROW_LEAST) {
            const int64_t rest = row - first % row;
            if (rest < most) most = rest;
        }
    }
    return most;
}
