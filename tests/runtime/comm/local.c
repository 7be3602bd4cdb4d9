/* comm/local, and with it pieces and pulls: every kind of communication over many layouts, checked cell by cell. */
#include "tests/runtime/cases.h"
#include <criterion/criterion.h>
#include <string.h>

typedef struct Sweep {
    Comm *comm;
    int64_t number;
} Sweep;

static void run_one(void *context, const Case *c) {
    Sweep *sweep = context;
    const Case one = case_numbered(c, sweep->number++);
    Error error = {0};
    cr_assert(cases_run(sweep->comm, &one, 1, 1, sweep->number % 2 == 0, &error), "%s", error.text);
}

static int64_t sweep(int nranks, const int32_t *from, const int32_t *to, Shape shape) {
    Error error = {0};
    Comm *comm = comm_local_create(nranks, &error);
    cr_assert(comm != NULL, "%s", error.text);
    Sweep s = {.comm = comm};
    int64_t n = cases_all(nranks, from, to, &shape, run_one, &s);
    comm->table->destroy(comm);
    return n;
}

Test(comm_local, every_pair_of_layouts_even) {
    cr_assert_gt(sweep(2, MESH(2), MESH(2), SHAPE(4, 6)), 40);
    cr_assert_gt(sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(4, 8)), 500);
    cr_assert_gt(sweep(6, MESH(2, 3), MESH(2, 3), SHAPE(6, 12)), 500);
}

Test(comm_local, every_pair_of_layouts_uneven) {
    cr_assert_gt(sweep(2, MESH(2), MESH(2), SHAPE(5, 3)), 40);
    cr_assert_gt(sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(5, 7)), 500);
    cr_assert_gt(sweep(6, MESH(3, 2), MESH(3, 2), SHAPE(5, 7)), 500);
}

Test(comm_local, every_pair_of_layouts_with_empty_boxes) {
    sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(1, 3));
    sweep(6, MESH(3, 2), MESH(3, 2), SHAPE(2, 1));
    sweep(6, MESH(6), MESH(3, 2), SHAPE(4));
    sweep(4, MESH(4), MESH(4), SHAPE(0, 3));
}

Test(comm_local, every_pair_on_eight_ranks) {
    cr_assert_gt(sweep(8, MESH(2, 2, 2), MESH(2, 2, 2), SHAPE(9, 3)), 5000);
    sweep(8, MESH(2, 4), MESH(2, 4), SHAPE(8, 8));
    sweep(8, MESH(4, 2), MESH(2, 4), SHAPE(3, 10));
}

Test(comm_local, layouts_of_different_meshes) {
    sweep(6, MESH(2, 3), MESH(3, 2), SHAPE(7, 5));
    sweep(6, MESH(3, 2), MESH(2, 3), SHAPE(6, 6));
    sweep(8, MESH(8), MESH(2, 2, 2), SHAPE(11));
}

/* More terms than one pass over memory takes, and than one call takes. */
Test(comm_local, many_terms) {
    cr_assert_gt(sweep(40, MESH(40), MESH(40), SHAPE(50)), 10);
    sweep(12, MESH(12), MESH(12), SHAPE(5, 4));
}

Test(comm_local, three_dimensions_and_scalars) {
    sweep(4, MESH(2, 2), MESH(2, 2), SHAPE(3, 2, 5));
    Error error = {0};
    Comm *comm = comm_local_create(4, &error);
    Case loss = {.nranks = 4, .dtype = F64, .kind = COMM_ALL_REDUCE, .name = "loss"};
    loss.from = (Side){.natoms = 1, .atom = {{4, 1}}, .role = {ROLE_PARTIAL}};
    cr_assert(cases_run(comm, &loss, 1, 3, false, &error), "%s", error.text);
    comm->table->destroy(comm);
}

/* The kinds that plans name, each on 8 ranks = mesh (2, 4), even and uneven. */
Test(comm_local, each_kind_alone_and_all_kinds_together) {
    static const int64_t sizes[][2] = {{8, 8}, {16, 400}, {7, 9}, {1, 2}, {3, 1000}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        Error error = {0};
        Comm *comm = comm_local_create(8, &error);
        Case all[NCOMMS];
        for (int kind = 0; kind < NCOMMS; kind++) {
            all[kind] = kind_case((CommKind)kind, 8, SHAPE(sizes[s][0], sizes[s][1]), F32);
            cr_assert(cases_run(comm, &all[kind], 1, 2, true, &error), "%s", error.text);
        }
        cr_assert(cases_run(comm, all, NCOMMS, 3, false, &error), "%s", error.text);
        comm->table->destroy(comm);
    }
}

Test(comm_local, strided_slice_moves_nothing) {
    Case slice = kind_case(COMM_STRIDED_SLICE, 8, SHAPE(8, 8), F32);
    cr_assert_eq(case_bound(&slice), 0);
    Error error = {0};
    Comm *comm = comm_local_create(8, &error);
    cr_assert(cases_run(comm, &slice, 1, 1, false, &error), "%s", error.text);
    for (int r = 0; r < 8; r++)
        cr_assert(comm->counters[r].sent_bytes == 0 && comm->counters[r].messages == 0);
    comm->table->destroy(comm);
}

Test(comm_local, bytes_are_counted_for_the_rank_that_sends_them) {
    /* Two ranks, four elements, split -> whole: each sends its two f32 to the other, in one message. */
    Case gather = {.nranks = 2, .shape = SHAPE(4), .dtype = F32, .kind = COMM_ALL_GATHER, .name = "x"};
    gather.from = gather.to = (Side){.natoms = 1, .atom = {{2, 1}}, .role = {0}};
    gather.to.role[0] = ROLE_WHOLE;
    Error error = {0};
    Comm *comm = comm_local_create(2, &error);
    cr_assert(cases_run(comm, &gather, 1, 5, false, &error), "%s", error.text);
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(comm->counters[r].sent_bytes, 5 * 8);
        cr_assert_eq(comm->counters[r].received_bytes, 5 * 8);
        cr_assert_eq(comm->counters[r].messages, 5);
    }
    comm->table->destroy(comm);
}

/* Mesh (2, 5), summed over the first: five groups of two, each for itself, although all ten ranks want the same. With 3 elements of 4 bytes
 * the first of a group adds up 2: it sends the other's 1 and then its 2 sums. */
Test(comm_local, groups_of_an_all_reduce_work_each_for_itself) {
    Error error = {0};
    Comm *comm = comm_local_create(10, &error);
    Case c = {.nranks = 10, .shape = SHAPE(3), .dtype = F32, .kind = COMM_ALL_REDUCE, .name = "sum"};
    c.from = c.to = (Side){.natoms = 2, .atom = {{2, 5}, {5, 1}}, .role = {ROLE_WHOLE, ROLE_WHOLE}};
    c.from.role[0] = ROLE_PARTIAL;
    cr_assert(cases_run(comm, &c, 1, 1, true, &error), "%s", error.text);
    for (int r = 0; r < 10; r++) {
        cr_expect_eq(comm->counters[r].sent_bytes, 3 * 4, "rank %d sends %lld", r, (long long)comm->counters[r].sent_bytes);
        cr_expect_eq(comm->counters[r].messages, 2);
    }
    comm->table->destroy(comm);
}

/* The same mesh, the result divided along the groups: every rank sends the other one's part, once. */
Test(comm_local, groups_of_a_reduce_scatter_work_each_for_itself) {
    Error error = {0};
    Comm *comm = comm_local_create(10, &error);
    Case c = {.nranks = 10, .shape = SHAPE(4), .dtype = F64, .kind = COMM_REDUCE_SCATTER, .name = "sum"};
    c.from = c.to = (Side){.natoms = 2, .atom = {{2, 5}, {5, 1}}, .role = {0, ROLE_WHOLE}};
    c.from.role[0] = ROLE_PARTIAL;
    cr_assert(cases_run(comm, &c, 1, 1, true, &error), "%s", error.text);
    for (int r = 0; r < 10; r++) {
        cr_expect_eq(comm->counters[r].sent_bytes, 2 * 8, "rank %d sends %lld", r, (long long)comm->counters[r].sent_bytes);
        cr_expect_eq(comm->counters[r].messages, 1);
    }
    comm->table->destroy(comm);
}

Test(comm_local, the_checks_find_faults) {
    for (int kind = 0; kind < NCOMMS; kind++) {
        if (kind == COMM_STRIDED_SLICE) continue; /* moves nothing */
        Error error = {0};
        Comm *comm = comm_local_create(8, &error);
        Case wrong = kind_case((CommKind)kind, 8, SHAPE(8, 8), F32);
        wrong.fault = FAULT_CELL;
        cr_assert_not(cases_run(comm, &wrong, 1, 1, false, &error));
        cr_assert(strstr(error.text, "cell ") != NULL, "%s", error.text);
        wrong.fault = FAULT_BYTES;
        cr_assert_not(cases_run(comm, &wrong, 1, 1, false, &error));
        cr_assert(strstr(error.text, "bytes sent") != NULL, "%s", error.text);
        comm->table->destroy(comm);
    }
}

/* Ranks 0-1 and 2-3 gather separately: a wait is pending until its own group has started, and only its own. */
Test(comm_local, wait_is_pending_until_the_group_has_started) {
    Error error = {0};
    Comm *comm = comm_local_create(4, &error);
    Layout from, to;
    layout_init(&from, 1);
    layout_append(&from, 0, (Digit){2, 1});
    layout_init(&to, 1);
    Transfer transfer = {.kind = COMM_ALL_GATHER, .dtype = I32, .shape = SHAPE(2), .from = &from, .to = &to, .name = "x"};
    CommRequest *request = comm->table->prepare(comm, &transfer, 1, &error);
    cr_assert(request != NULL, "%s", error.text);
    int32_t source[4] = {10, 11, 20, 21}, target[4][2] = {{0}};
    cr_assert_eq(comm->table->wait(comm, request, 0, &error), COMM_FAILED);
    for (int r = 0; r < 4; r += 2)
        cr_assert(comm->table->start(comm, request, r, (const void *[]){&source[r]}, (void *[]){target[r]}, &error));
    cr_assert_eq(comm->table->wait(comm, request, 0, &error), COMM_PENDING);
    cr_assert(comm->table->start(comm, request, 1, (const void *[]){&source[1]}, (void *[]){target[1]}, &error));
    cr_assert_eq(comm->table->wait(comm, request, 2, &error), COMM_PENDING);
    cr_assert_eq(comm->table->wait(comm, request, 0, &error), COMM_COMPLETE);
    cr_assert_arr_eq(target[0], ((int32_t[]){10, 11}), sizeof target[0]);
    /* Rank 0 may begin the next use before rank 1 has waited for this one. */
    source[0] = 30;
    cr_assert(comm->table->start(comm, request, 0, (const void *[]){&source[0]}, (void *[]){target[0]}, &error));
    cr_assert_not(comm->table->start(comm, request, 0, (const void *[]){&source[0]}, (void *[]){target[0]}, &error));
    cr_assert_eq(comm->table->wait(comm, request, 0, &error), COMM_PENDING);
    cr_assert_eq(comm->table->wait(comm, request, 1, &error), COMM_COMPLETE);
    cr_assert_arr_eq(target[1], ((int32_t[]){10, 11}), sizeof target[1]);
    comm->table->destroy(comm);
}

/* 1e8 + 1 - 1e8 + 3 is 3 in f32 in this order, and something else in any order that does not end so. */
Test(comm_local, terms_are_added_in_ascending_order_on_every_rank) {
    Error error = {0};
    Comm *comm = comm_local_create(4, &error);
    Layout from, to;
    layout_init(&from, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){4, 1});
    layout_init(&to, 1);
    Transfer transfer = {.kind = COMM_ALL_REDUCE, .dtype = F32, .shape = SHAPE(9), .from = &from, .to = &to, .name = "x"};
    CommRequest *request = comm->table->prepare(comm, &transfer, 1, &error);
    static const float term[4] = {1e8f, 1, -1e8f, 3};
    float source[4][9], target[4][9];
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 9; i++)
            source[r][i] = term[r];
    for (int r = 3; r >= 0; r--)
        cr_assert(comm->table->start(comm, request, r, (const void *[]){source[r]}, (void *[]){target[r]}, &error));
    for (int r = 3; r >= 0; r--)
        cr_assert_eq(comm->table->wait(comm, request, r, &error), COMM_COMPLETE);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 9; i++)
            cr_assert_eq(target[r][i], 3.0f);
    comm->table->destroy(comm);
}

Test(comm_local, a_target_partial_where_the_source_is_not_is_refused) {
    Error error = {0};
    Comm *comm = comm_local_create(2, &error);
    Layout from, to;
    layout_init(&from, 1);
    layout_init(&to, 1);
    layout_append(&to, 1 + REDUCE_SUM, (Digit){2, 1});
    Transfer transfer = {.kind = COMM_EXCHANGE, .dtype = F32, .shape = SHAPE(4), .from = &from, .to = &to, .name = "grad"};
    cr_assert(comm->table->prepare(comm, &transfer, 1, &error) == NULL);
    cr_assert(strstr(error.text, "exchange of grad") != NULL, "%s", error.text);
    comm->table->destroy(comm);
}
