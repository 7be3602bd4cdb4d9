/* abi: a hash of what prun and a module that it opens must have alike: the operator table, row by row as its source has it, and the structures that both
 * read, member by member. Each computes it from its own build; where the hashes differ, one would call the other's kernels by wrong numbers. */
#pragma once
#include <stddef.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/comm/comm.h"

/* A member of a structure: its offset, and its name, which stands for its meaning. */
typedef struct AbiMember {
    const char *name;
    size_t offset;
} AbiMember;

/* Structure, member. A member that is added to a structure that both read belongs here; a change of size shows even where that is forgotten. */
/* clang-format off */
#define ABI_MEMBERS(M)                                                                                                                                          \
    M(KernelCall, op) M(KernelCall, attr) M(KernelCall, nin) M(KernelCall, nout) M(KernelCall, in) M(KernelCall, out) M(KernelCall, nthreads)                   \
    M(KernelCall, rule) M(KernelCall, context) M(Operand, data) M(Operand, dtype) M(Operand, local) M(Operand, global) M(Operand, box) M(Attr, given)           \
    M(Attr, i) M(Attr, f) M(Attr, n) M(Attr, ints) M(Attr, text) M(Shape, ndim) M(Shape, dim) M(Box, ndim) M(Box, begin) M(Box, end) M(Rule, nfactors)          \
    M(Rule, nout) M(Rule, index_range) M(Rule, depth) M(Rule, factor) M(Rule, in) M(Rule, out) M(Rule, result) M(Factor, size) M(TensorType, dtype) M(TensorType, hidden)      \
    M(TensorType, shape) M(Layout, ndim) M(Layout, order) M(Layout, start) M(Layout, digit) M(Digit, size) M(Digit, stride) M(Error, code) M(Error, rank) M(Error, reported) M(Error, text)       \
    M(Text, at) M(Text, n) M(DeviceOptions, rank) M(DeviceOptions, local_rank) M(DeviceOptions, nlocal) M(DeviceOptions, nthreads)                              \
    M(DeviceOptions, most_threads) M(DeviceOptions, deterministic) M(DeviceOptions, tf32) M(DeviceOptions, wait) M(DeviceOptions, odd_rows) M(DeviceOptions, plan_bytes) M(DeviceQueue, alloc_host)                       \
    M(DeviceQueue, free_host) M(DeviceQueue, stage) M(DeviceQueue, staged) M(DeviceQueue, taken) M(DeviceQueue, uniform) M(DeviceQueue, pace) M(DeviceQueue, fuse) M(DeviceQueue, run)  \
    M(DeviceQueue, unfuse) M(DeviceQueue, settle) M(DeviceQueue, capture) M(DeviceQueue, captured) M(DeviceQueue, replay) M(DeviceQueue, discard) M(DeviceQueue, mark)                 \
    M(DeviceQueue, between) M(DeviceQueue, unmark) M(DeviceQueue, range_begin) M(DeviceQueue, range_end) M(DeviceQueue, comm) M(DeviceQueue, memory)            \
    M(DeviceQueue, describe) M(DeviceQueue, libraries) M(Backend, name) M(Backend, host) M(Backend, queue) M(Backend, open) M(Backend, close) M(Backend, alloc) M(Backend, free)          \
    M(Backend, upload) M(Backend, download) M(Backend, copy) M(Backend, sync) M(Backend, kernels) M(Backend, prepare) M(Backend, fuse) M(Backend, run)          \
    M(Backend, unfuse) M(DeviceModule, format)                                                                                                                  \
    M(DeviceModule, abi) M(DeviceModule, backend) M(DeviceModule, count) M(DeviceModule, list) M(Transfer, kind) M(Transfer, dtype) M(Transfer, shape)          \
    M(Transfer, from) M(Transfer, to) M(Transfer, name) M(Transfer, anywhere) M(CommCounters, sent_bytes) M(CommCounters, received_bytes) M(CommCounters, messages)                   \
    M(CommTable, name) M(CommTable, prepare) M(CommTable, start) M(CommTable, wait) M(CommTable, barrier) M(CommTable, broadcast)                               \
    M(CommTable, all_gather_words) M(CommTable, gather_text) M(CommTable, overdue) M(CommTable, abort) M(CommTable, destroy) M(CommTable, alloc) M(CommTable, free) M(Comm, table)    \
    M(Comm, nranks) M(Comm, nprocesses) M(Comm, process) M(Comm, ndriven) M(Comm, first_driven) M(Comm, local_rank) M(Comm, nlocal) M(Comm, launch_rank) M(Comm, node_first)         \
    M(Comm, node) M(Comm, timeout_s) M(Comm, counters) M(Comm, transport) M(Comm, place) M(Comm, device) M(Comm, captures)                 \
    M(CommPlace, step) M(CommPlace, doing) M(CommPlace, program) M(CommPlace, at) M(CommPlace, request) M(CommPlace, broken)
/* clang-format on */
#define ABI_MEMBER(structure, member) {#structure "." #member, offsetof(structure, member)},
#define ABI_SIZES                                                                                                                          \
    {                                                                                                                                      \
        sizeof(KernelCall), sizeof(Operand), sizeof(Attr), sizeof(Shape), sizeof(Box), sizeof(Rule), sizeof(Factor), sizeof(TensorType),   \
            sizeof(Layout), sizeof(Error), sizeof(Text), sizeof(DeviceOptions), sizeof(DeviceQueue), sizeof(Backend),                      \
            sizeof(DeviceModule), sizeof(Transfer), sizeof(CommCounters), sizeof(CommTable), sizeof(Comm), NOPS, NDTYPES, NCOMMS,          \
            NREDUCTIONS                                                                                                                    \
    }

/* FNV-1a, 64 bits. */
static inline uint64_t abi_add(uint64_t abi, const void *data, size_t n) {
    const unsigned char *at = data;
    for (size_t i = 0; i < n; i++)
        abi = (abi ^ at[i]) * UINT64_C(0x100000001b3);
    return abi;
}

/* The hash of these rows and members. Static, as all here: a module must not be linked to prun's function of this name. */
static inline uint64_t abi_of(const char *const *rows, size_t nrows, const AbiMember *members, size_t nmembers, const size_t *sizes,
                              size_t nsizes) {
    uint64_t abi = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < nrows; i++)
        abi = abi_add(abi, rows[i], strlen(rows[i]) + 1);
    for (size_t i = 0; i < nmembers; i++) {
        abi = abi_add(abi, members[i].name, strlen(members[i].name) + 1);
        abi = abi_add(abi, &members[i].offset, sizeof members[i].offset);
    }
    return abi_add(abi, sizes, nsizes * sizeof *sizes);
}

/* This build's. */
static inline uint64_t device_abi(void) {
    static const char *const rows[] = {
#define OP(name, ...) #name ": " #__VA_ARGS__,
#include "ir/ops.def"
#undef OP
    };
    static const AbiMember members[] = {ABI_MEMBERS(ABI_MEMBER)};
    static const size_t sizes[] = ABI_SIZES;
    return abi_of(rows, sizeof rows / sizeof *rows, members, sizeof members / sizeof *members, sizes, sizeof sizes / sizeof *sizes);
}
