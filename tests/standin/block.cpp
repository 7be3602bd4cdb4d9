/* block: kernels. The threads of a block run one after another on one fiber, as plain calls, until one waits: its fiber stays behind with it and another takes over the
   rest. When all have run, waited or ended, what waits is looked at: lanes that agree go on, a block that is complete goes on, anything else is an error. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "cuda_runtime.h"
#include "engine.hpp"
#include "ir/half.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace standin {

#ifdef __SANITIZE_ADDRESS__
static const size_t stack_bytes = 512 << 10;
#else
static const size_t stack_bytes = 128 << 10;
#endif

struct Context { /* a stack to go on from */
#if defined(__x86_64__)
    void *sp = nullptr;
#else
    ucontext_t machine;
#endif
    void *fake = nullptr; /* the sanitizer's */
    const void *bottom = nullptr;
    size_t bytes = 0;
};

struct Fiber {
    Context context;
    char *stack = nullptr;
    int thread = -1; /* whose call is on it */
};

enum State { NEW, READY, WAITS, ENDED };

struct Thread {
    State state = NEW;
    Fiber *fiber = nullptr;
    StandinWait wait;
    unsigned mask;
    uint64_t value;
    int source;
    uint64_t result;
};

struct Block {
    const std::function<void()> *kernel;
    std::string name;
    std::vector<Thread> threads;
    int count, next; /* threads, and how many have been started */
    bool backwards, failed;
    Context scheduler;
    Fiber *fiber; /* that runs */
    std::vector<Fiber *> idle;
};

static Block *now; /* the block that runs: one at a time in a process, under the engine's lock */

#if defined(__x86_64__)
extern "C" void standin_switch(void **save, void *load);
asm(".text\n.globl standin_switch\n.hidden standin_switch\n.type standin_switch,@function\n"
    "standin_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size standin_switch, .-standin_switch\n");
#endif

static void go(Context *from, Context *to) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->bytes);
#endif
#if defined(__x86_64__)
    standin_switch(&from->sp, to->sp);
#else
    swapcontext(&from->machine, &to->machine);
#endif
#ifdef __SANITIZE_ADDRESS__
    const void *bottom; /* of the stack that we come from */
    size_t bytes;
    __sanitizer_finish_switch_fiber(from->fake, &bottom, &bytes);
    if (from != &now->scheduler) now->scheduler.bottom = bottom, now->scheduler.bytes = bytes;
#endif
}

static void place(int thread) {
    unsigned t = (unsigned)thread;
    threadIdx.x = t % blockDim.x;
    threadIdx.y = t / blockDim.x % blockDim.y;
    threadIdx.z = t / blockDim.x / blockDim.y;
}

/* What a fiber does, for ever: the threads not yet started, then nothing until it is asked again. */
static void work() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &now->scheduler.bottom, &now->scheduler.bytes);
#endif
    for (;;) {
        Fiber *self = now->fiber;
        while (now->next < now->count && !now->failed) {
            int at = now->next++, thread = now->backwards ? now->count - 1 - at : at;
            self->thread = thread;
            now->threads[(size_t)thread].fiber = self;
            place(thread);
            (*now->kernel)();
            now->threads[(size_t)self->thread].state = ENDED;
        }
        self->thread = -1;
        now->idle.push_back(self);
        go(&self->context, &now->scheduler);
    }
}

static void prepare(Fiber *fiber) {
#if defined(__x86_64__)
    void **sp = (void **)(fiber->stack + stack_bytes) - 1;
    *sp-- = nullptr; /* where work would return to */
    *sp = (void *)work;
    fiber->context.sp = sp - 6;
    memset(fiber->context.sp, 0, 6 * sizeof *sp);
#else
    getcontext(&fiber->context.machine);
    fiber->context.machine.uc_stack.ss_sp = fiber->stack;
    fiber->context.machine.uc_stack.ss_size = stack_bytes;
    fiber->context.machine.uc_link = nullptr;
    makecontext(&fiber->context.machine, work, 0);
#endif
    fiber->context.fake = nullptr;
    fiber->context.bottom = fiber->stack;
    fiber->context.bytes = stack_bytes;
    fiber->thread = -1;
}

static std::vector<Fiber *> &spare() {
    static auto *the = new std::vector<Fiber *>;
    return *the;
}

static Fiber *take_fiber() {
    std::vector<Fiber *> &from = now->idle.empty() ? spare() : now->idle;
    if (!from.empty()) {
        Fiber *fiber = from.back();
        from.pop_back();
        return fiber;
    }
    Fiber *fiber = new Fiber;
    char *pages = (char *)mmap(nullptr, stack_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE)) {
        complain("no memory for a thread's stack");
        abort();
    }
    fiber->stack = pages + 4096;
    prepare(fiber);
    return fiber;
}

static void resume(Fiber *fiber) {
    now->fiber = fiber;
    go(&now->scheduler, &fiber->context);
}

static const char *wait_name(StandinWait wait) {
    static const char *const names[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp", "a shuffle", "a vote"};
    return names[wait];
}

static std::string whose(int thread) {
    char text[160];
    unsigned t = (unsigned)thread;
    snprintf(text, sizeof text, "%s: thread (%u, %u, %u) of block (%u, %u, %u)", now->name.c_str(), t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y,
             blockIdx.x, blockIdx.y, blockIdx.z);
    return text;
}

static void fail_block(int thread, const std::string &why, cudaError_t error = cudaErrorLaunchFailure) {
    if (!now->failed) break_device(error, whose(thread) + " " + why);
    now->failed = true;
}

static void let_go(Thread &thread, uint64_t result) {
    thread.result = result;
    thread.state = READY;
}

/* The lanes of thread's mask, if all that have not ended wait for the same: they go on. */
static bool release_lanes(int thread) {
    int warp = thread / 32 * 32;
    const Thread first = now->threads[(size_t)thread];
    unsigned votes = 0;
    if (!(first.mask >> (thread - warp) & 1)) return fail_block(thread, std::string("is not in the mask of ") + wait_name(first.wait)), false;
    for (int lane = 0; lane < 32 && warp + lane < now->count; lane++) {
        const Thread &other = now->threads[(size_t)(warp + lane)];
        if (!(first.mask >> lane & 1) || other.state == ENDED) continue;
        if (other.state != WAITS || other.wait != first.wait || other.mask != first.mask) return false;
        if (other.value) votes |= 1u << lane;
    }
    for (int lane = 0; lane < 32 && warp + lane < now->count; lane++) {
        Thread &other = now->threads[(size_t)(warp + lane)];
        if (!(first.mask >> lane & 1) || other.state == ENDED) continue;
        uint64_t result = votes;
        if (first.wait == STANDIN_SHUFFLE) {
            int source = warp + other.source;
            bool there = source < now->count && (first.mask >> other.source & 1) && now->threads[(size_t)source].state != ENDED;
            if (!there) return fail_block(warp + lane, "shuffles from lane " + std::to_string(other.source) + ", which is not there or not in the mask"), false;
            result = now->threads[(size_t)source].value;
        }
        let_go(other, result);
    }
    return true;
}

/* The whole block, if all its threads wait for it. */
static bool release_block() {
    const Thread &first = now->threads[0];
    uint64_t count = 0;
    for (const Thread &thread : now->threads) {
        if (thread.state != WAITS || thread.wait != first.wait || thread.wait >= STANDIN_WARP) return false;
        count += thread.value;
    }
    bool all = count == (uint64_t)now->count;
    for (Thread &thread : now->threads) let_go(thread, first.wait == STANDIN_BLOCK_AND ? all : first.wait == STANDIN_BLOCK_OR ? count != 0 : count);
    return true;
}

/* Nobody runs: lets on who may go on. False: somebody waits in vain. */
static bool release() {
    bool any = false;
    for (int t = 0; t < now->count && !now->failed; t++) {
        const Thread &thread = now->threads[(size_t)t];
        if (thread.state == WAITS && thread.wait >= STANDIN_WARP && release_lanes(t)) any = true;
    }
    if (any || now->failed || release_block()) return !now->failed;
    int waits = -1, other = -1;
    for (int t = 0; t < now->count; t++)
        if (now->threads[(size_t)t].state == WAITS && (waits < 0 || now->threads[(size_t)t].wait < now->threads[(size_t)waits].wait)) waits = t;
    for (int t = 0; t < now->count; t++) {
        const Thread &thread = now->threads[(size_t)t];
        if (thread.state == ENDED || thread.wait != now->threads[(size_t)waits].wait || thread.mask != now->threads[(size_t)waits].mask) other = t;
    }
    const Thread *second = other < 0 ? nullptr : &now->threads[(size_t)other];
    fail_block(waits, std::string("waits in ") + wait_name(now->threads[(size_t)waits].wait) + " for ever: thread " + std::to_string(other) +
                          (!second || second->state == ENDED ? " has ended" : std::string(" waits in ") + wait_name(second->wait)));
    return false;
}

static void run_block(Block &block) {
    block.threads.assign((size_t)block.count, Thread());
    block.next = 0;
    while (block.next < block.count && !block.failed) resume(take_fiber());
    for (;;) {
        bool waiting = false;
        for (const Thread &thread : block.threads) waiting = waiting || thread.state == WAITS;
        if (!waiting || block.failed || !release()) break;
        for (int i = 0; i < block.count && !block.failed; i++) {
            Thread &thread = block.threads[(size_t)(block.backwards ? block.count - 1 - i : i)];
            if (thread.state != READY) continue;
            resume(thread.fiber);
        }
    }
    if (!block.failed) return;
    for (Thread &thread : block.threads) /* calls left behind, never to return */
        if (thread.fiber && thread.fiber->thread >= 0) {
            prepare(thread.fiber);
            block.idle.push_back(thread.fiber);
        }
}

static Status run_kernel(const std::string &name, dim3 grid, dim3 threads, const std::function<void()> &kernel) {
    Order order = engine().settings.order;
    Block block;
    block.kernel = &kernel;
    block.name = name;
    block.count = (int)(threads.x * threads.y * threads.z);
    block.backwards = order == Order::RANDOM ? random_next() % 2 : order == Order::LATE;
    block.failed = false;
    now = &block;
    blockDim = threads;
    gridDim = grid;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t i = 0; i < blocks && !block.failed; i++) {
        uint64_t at = block.backwards ? blocks - 1 - i : i;
        blockIdx.x = (unsigned)(at % grid.x);
        blockIdx.y = (unsigned)(at / grid.x % grid.y);
        blockIdx.z = (unsigned)(at / grid.x / grid.y);
        run_block(block);
    }
    for (Fiber *fiber : block.idle) spare().push_back(fiber);
    now = nullptr;
    return Status::DONE;
}

static bool limits_kept(dim3 grid, dim3 block, size_t shared_bytes) {
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return false;
    if (grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535) return false;
    if (block.x > 1024 || block.y > 1024 || block.z > 64 || (uint64_t)block.x * block.y * block.z > 1024) return false;
    return shared_bytes <= 49152;
}

} // namespace standin

using namespace standin;

uint64_t standin_wait(StandinWait wait, unsigned mask, uint64_t value, int source) {
    Fiber *self = now->fiber;
    Thread &thread = now->threads[(size_t)self->thread];
    thread.wait = wait;
    thread.mask = mask;
    thread.value = value;
    thread.source = source;
    thread.state = WAITS;
    go(&self->context, &now->scheduler);
    place(self->thread);
    return now->threads[(size_t)self->thread].result;
}

[[noreturn]] static void stop_block(const std::string &why, cudaError_t error) {
    Fiber *self = now->fiber;
    fail_block(self->thread, why, error);
    for (;;) go(&self->context, &now->scheduler);
}

void standin_trap(const char *why) { stop_block(std::string("stops: ") + why, cudaErrorLaunchFailure); }

/* What -fsanitize=alignment calls, as gcc and clang lay it out: no access of a device's may be at anything but a multiple of its size, which this processor's may. */
struct Misaligned {
    const char *file;
    uint32_t line, column;
    const void *type;
    unsigned char log_alignment, kind;
};

extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const Misaligned *what, uintptr_t) {
    std::string file = what->file, at = file.substr(file.rfind('/') + 1) + ":" + std::to_string(what->line);
    std::string why = "accesses " + std::to_string(1 << what->log_alignment) + " bytes at an address that is no multiple of them (" + at + ")";
    if (now) stop_block(why, cudaErrorMisalignedAddress);
    fprintf(stderr, "standin: the process %s\n", why.c_str());
    abort();
}

/* ---------------------------------------------------------------- tensor cores */

/* What each lane of each warp has brought; the fragments of two instructions, as a lane may be one ahead of the others. */
struct Fragment {
    uint32_t a[4], b[2];
    const uint16_t *row;
};
static Fragment fragments[2][1024];
static unsigned char instruction[1024]; /* of each thread: which of the two */

static float part_of(StandinMma type, const uint32_t *registers, int i) {
    if (type == STANDIN_MMA_TF32) return __uint_as_float(registers[i] & ~0x1fffu); /* the rest is not looked at */
    const uint16_t bits = (uint16_t)(registers[i / 2] >> i % 2 * 16);
    return type == STANDIN_MMA_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/* Element i of a lane's part of A (16 x k) and B (k x 8), in the words of the PTX ISA: lane = 4 groupID + threadID_in_group. */
static void place_a(StandinMma type, int lane, int i, int *row, int *column) {
    const int group = lane >> 2, thread = lane & 3;
    if (type == STANDIN_MMA_TF32) {
        *row = i == 0 || i == 2 ? group : group + 8;
        *column = i < 2 ? thread : thread + 4;
    } else {
        *row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        *column = thread * 2 + (i & 1) + (i < 4 ? 0 : 8);
    }
}
static void place_b(StandinMma type, int lane, int i, int *row, int *column) {
    const int group = lane >> 2, thread = lane & 3;
    *row = type == STANDIN_MMA_TF32 ? (i == 0 ? thread : thread + 4) : thread * 2 + (i & 1) + (i < 2 ? 0 : 8);
    *column = group;
}

void standin_mma(StandinMma type, float *sum, const uint32_t *a, const uint32_t *b) {
    static const bool swapped = getenv("STANDIN_MMA") != nullptr;
    const int thread = now->fiber->thread, warp = thread / 32 * 32, depth = type == STANDIN_MMA_TF32 ? 8 : 16, each = depth / 2;
    const Fragment *theirs = fragments[instruction[thread]] + warp;
    Fragment *own = &fragments[instruction[thread]][thread];
    instruction[thread] ^= 1;
    memcpy(own->a, a, sizeof own->a);
    memcpy(own->b, b, sizeof own->b);
    standin_wait(STANDIN_WARP, 0xffffffffu, 0, 0);
    float left[16][16], right[16][8]; /* of which a lane reads two rows and two columns: those that the lanes of three groups hold */
    const int group = (thread & 31) >> 2, columns = (thread & 3) * 2;
    for (int l = 0; l < 4; l++)
        for (int i = 0; i < each; i++) {
            int row, column;
            place_a(type, group * 4 + l, i, &row, &column);
            left[row][column] = part_of(type, theirs[group * 4 + l].a, i);
        }
    for (int lane = columns * 4; lane < (columns + 2) * 4; lane++)
        for (int i = 0; i < each / 2; i++) {
            int row, column;
            place_b(type, lane, i, &row, &column);
            right[row][column] = part_of(type, theirs[lane].b, i);
        }
    if (swapped && group == 0) std::swap(left[0], left[8]);
    for (int i = 0; i < 4; i++) { /* row = groupID for c0, c1, groupID + 8 for c2, c3; column = threadID_in_group * 2 + (i & 1) */
        const int row = group + (i < 2 ? 0 : 8), column = columns + (i & 1);
        double all = sum[i];
        for (int k = 0; k < depth; k++) all += (double)left[row][k] * right[k][column];
        sum[i] = (float)all;
    }
}

void standin_matrices(bool transposed, uint32_t *to, const void *row) {
    const int thread = now->fiber->thread, lane = thread % 32;
    const Fragment *theirs = fragments[instruction[thread]] + (thread - lane);
    if ((uintptr_t)row % 16) standin_trap("a row of a matrix begins at no multiple of 16 bytes");
    fragments[instruction[thread]][thread].row = (const uint16_t *)row;
    instruction[thread] ^= 1;
    standin_wait(STANDIN_WARP, 0xffffffffu, 0, 0);
    for (int i = 0; i < 4; i++) {
        const Fragment *rows = theirs + 8 * i;
        const int first = lane % 4 * 2, other = lane / 4;
        to[i] = transposed ? (uint32_t)rows[first + 1].row[other] << 16 | rows[first].row[other] : (uint32_t)rows[other].row[first + 1] << 16 | rows[other].row[first];
    }
}

uint32_t standin_tf32(float x) { /* to nearest, ties away from zero */
    const uint32_t bits = __float_as_uint(x);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

int standin_lane(void) { return now->fiber->thread % 32; }

void standin_shuffle_width(int width) {
    if (width < 1 || width > 32 || (width & (width - 1))) standin_trap("a shuffle's width is no power of two up to 32");
}

void standin_launch(const char *text, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, std::function<void()> kernel) {
    std::string name = text;
    if (name.size() > 1 && name[0] == '(' && name.back() == ')') name = name.substr(1, name.size() - 2);
    Entry entry("kernel");
    if (!entry.error) entry.error = (cudaError_t)fault(name);
    if (!entry.error && !limits_kept(grid, block, shared_bytes)) {
        complain("%s: a grid of %u x %u x %u blocks of %u x %u x %u threads with %zu bytes cannot be launched", name.c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                 shared_bytes);
        entry.error = cudaErrorInvalidConfiguration;
    }
    Run run = [name, grid, block, kernel] { return run_kernel(name, grid, block, kernel); };
    entry(entry.error ? entry.error : enqueue(stream, {name, cudaGraphNodeTypeKernel, [run] { return run; }}));
}
