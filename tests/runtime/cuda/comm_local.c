/* All ranks in one process on one device: the same redistributions as comm/local's, with every copy queued and none waited for. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/runtime/cuda/through.h"
#include "tests/runtime/cases.h"

static Comm *open_ranks(int nranks) {
    Error error = {0};
    Comm *base = comm_local_create(nranks, &error);
    Comm *comm = base ? through_open(base, "auto", &error) : NULL;
    cr_assert(comm != NULL, "%s", error.text);
    return comm;
}

typedef struct Sweep {
    Comm *comm;
    int64_t number, every;
} Sweep;

static void run_one(void *context, const Case *c) {
    Sweep *sweep = context;
    Error error = {0};
    if (sweep->number++ % sweep->every != 0) return;
    const Case one = case_numbered(c, sweep->number);
    cr_assert(cases_run(sweep->comm, &one, 1, 2, true, &error), "%s", error.text);
}

static void sweep(int nranks, const int32_t *from, const int32_t *to, Shape shape, int64_t every) {
    Sweep s = {.comm = open_ranks(nranks), .every = every};
    cases_all(nranks, from, to, &shape, run_one, &s);
    s.comm->table->destroy(s.comm);
}

Test(comm_local, every_pair_of_layouts, .timeout = 300) {
    sweep(2, MESH(2), MESH(2), SHAPE(4, 6), 1);
    sweep(2, MESH(2), MESH(2), SHAPE(5, 3), 1);
    sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(5, 7), 7);
    sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(1, 3), 7);
    sweep(6, MESH(2, 3), MESH(3, 2), SHAPE(7, 5), 23);
}

/* More terms than a launch takes. */
Test(comm_local, many_terms, .timeout = 300) {
    sweep(20, MESH(20), MESH(20), SHAPE(50), 5);
}

static void kinds(bool captured) {
    static const int64_t sizes[][2] = {{8, 8}, {16, 400}, {7, 9}, {1, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        Error error = {0};
        Comm *comm = open_ranks(8);
        Case all[NCOMMS];
        through_capture(comm, captured);
        for (int kind = 0; kind < NCOMMS; kind++) {
            all[kind] = kind_case((CommKind)kind, 8, SHAPE(sizes[s][0], sizes[s][1]), (DType)(kind % BOOL));
            cr_assert(cases_run(comm, &all[kind], 1, 4, true, &error), "%s", error.text);
        }
        cr_assert(cases_run(comm, all, NCOMMS, 4, true, &error), "%s", error.text);
        comm->table->destroy(comm);
    }
}

Test(comm_local, each_kind_alone_and_all_kinds_together, .timeout = 300) {
    kinds(false);
}

Test(comm_local, captured_uses_move_what_is_there_when_they_are_replayed, .timeout = 300) {
    kinds(true);
}

Test(comm_local, one_process_has_one_way) {
    static const char *const choices[] = {"nccl", "ipc", "host"};
    Error error = {0};
    Comm *base = comm_local_create(2, &error);
    for (int i = 0; i < 3; i++) {
        cr_assert_null(through_open(base, choices[i], &error));
        cr_assert(strstr(error.text, "all ranks run in this process") && error.code == EXIT_USAGE, "%s", error.text);
    }
    Comm *comm = through_open(base, "auto", &error);
    cr_assert(comm != NULL, "%s", error.text);
    cr_assert(comm->device && comm->captures && comm->nranks == 2);
    cr_assert_str_eq(comm->transport, "one process, on its device");
    comm->table->destroy(comm);
}
