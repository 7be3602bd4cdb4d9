/* Runs redistributions with known results on the ranks that mpirun has started: commtest [sweep | kinds | large | late | late-many | kill | abort |
 * fault-cell | fault-bytes | memory]. Exit code 0: every cell and every counted byte is right; 4: not; 3: the environment failed. */
#include "runtime/comm/comm.h"
#include "runtime/comm/wire.h"
#include "tests/runtime/cases.h"
#ifdef COMMTEST_DEVICE
#include "tests/runtime/cuda/through.h"
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void must(Comm *comm, bool ok, const Error *error) {
    if (ok) return;
    comm->table->abort(comm, error->code ? error->code : EXIT_INTERNAL, error->text);
}

/* ---------------------------------------------------------------- sweep: layouts by layouts */

enum { TOGETHER = 3 };
typedef struct Sweep {
    Comm *comm;
    int64_t number, every, ran;
    Case waiting[TOGETHER];
    int nwaiting;
} Sweep;

static void sweep_flush(Sweep *sweep) {
    Error error = {0};
    if (sweep->nwaiting > 0)
        must(sweep->comm, cases_run(sweep->comm, sweep->waiting, sweep->nwaiting, 3, sweep->ran % 2 == 0, &error), &error);
    sweep->ran += sweep->nwaiting;
    sweep->nwaiting = 0;
}

static void sweep_one(void *context, const Case *c) {
    Sweep *sweep = context;
    int64_t number = sweep->number++;
    /* A fixed choice, spread over the roles. */
    if ((uint64_t)(number * INT64_C(2654435761)) % 4294967296u % (uint64_t)sweep->every != 0) return;
    Case *next = &sweep->waiting[sweep->nwaiting++];
    *next = *c;
    next->dtype = (DType)(sweep->ran % BOOL);
    next->reduction = (Reduction)(number % NREDUCTIONS);
    if (sweep->nwaiting == TOGETHER) sweep_flush(sweep);
}

static int64_t sweep(Comm *comm) {
    static const int32_t meshes[][MAX_ATOMS + 1] = {{1}, {2}, {3}, {4}, {2, 2}, {6}, {2, 3}, {3, 2}, {8}, {2, 4}, {4, 2}, {2, 2, 2}};
    static const Shape shapes[] = {{2, {8, 8}}, {2, {5, 7}}, {2, {1, 3}}, {3, {3, 2, 9}}, {1, {1000}}};
    enum { NMESHES = sizeof meshes / sizeof *meshes, NSHAPES = sizeof shapes / sizeof *shapes };
    Sweep s = {.comm = comm, .every = comm->nranks < 4 ? 2 : comm->nranks < 8 ? 67 : 1499};
    for (int a = 0; a < NMESHES; a++)
        for (int b = 0; b < NMESHES; b++)
            for (int i = 0; i < NSHAPES; i++) {
                int na = 1, nb = 1;
                for (int k = 0; meshes[a][k]; k++)
                    na *= meshes[a][k];
                for (int k = 0; meshes[b][k]; k++)
                    nb *= meshes[b][k];
                if (na == comm->nranks && nb == comm->nranks && na > 1) cases_all(na, meshes[a], meshes[b], &shapes[i], sweep_one, &s);
            }
    sweep_flush(&s);
    return s.ran;
}

/* ---------------------------------------------------------------- kinds */

static int64_t kinds(Comm *comm, const Shape *shapes, int nshapes, int uses) {
    Error error = {0};
    int64_t ran = 0;
    for (int i = 0; i < nshapes; i++) {
        Case all[NCOMMS];
        for (int k = 0; k < NCOMMS; k++) {
            all[k] = kind_case((CommKind)k, comm->nranks, shapes[i], (DType)(k % BOOL));
            must(comm, cases_run(comm, &all[k], 1, uses, (i + k) % 2 == 0, &error), &error);
        }
        must(comm, cases_run(comm, all, NCOMMS, uses, i % 2 == 0, &error), &error);
        ran += 2 * NCOMMS;
    }
    return ran;
}

/* ---------------------------------------------------------------- order */

static float term(int rank, int64_t i) {
    return (float)((i * 7919 + rank * 104729) % 10007) / 97.0f;
}

/* Sums of fractions have the bits of the sequential sum of ranks 0, 1, 2, .. on every rank, however the data moved. */
static void order(Comm *comm, int64_t n) {
    Error error = {0};
    Layout from, to;
    layout_init(&from, 1);
    layout_init(&to, 1);
    layout_append(&from, 1 + REDUCE_SUM, (Digit){comm->nranks, 1});
    Transfer transfer = {.kind = COMM_ALL_REDUCE, .dtype = F32, .shape = {1, {n}}, .from = &from, .to = &to, .name = "fractions"};
    float *source = comm->table->alloc(comm, n * 4, &error), *target = comm->table->alloc(comm, n * 4, &error);
    must(comm, source && target, &error);
    CommRequest *request = comm->table->prepare(comm, &transfer, 1, &error);
    must(comm, request != NULL, &error);
    for (int64_t i = 0; i < n; i++)
        source[i] = term(comm->process, i);
    must(comm, comm->table->start(comm, request, 0, (const void *[]){source}, (void *[]){target}, &error), &error);
    must(comm, comm->table->wait(comm, request, 0, &error) == COMM_COMPLETE, &error);
    for (int64_t i = 0; i < n; i++) {
        float expected = term(0, i);
        for (int r = 1; r < comm->nranks; r++)
            expected += term(r, i);
        must(comm,
             memcmp(&target[i], &expected, sizeof expected) == 0 ||
                 error_set(&error, EXIT_MISMATCH, "sum %lld is %.9g, in order it is %.9g", (long long)i, target[i], expected),
             &error);
    }
    comm->table->free(comm, source);
    comm->table->free(comm, target);
}

/* Two communications at once, waited for in the opposite order. */
static void overlap(Comm *comm) {
    enum { COUNT = 2 };
    static const int64_t n[COUNT] = {1000, 70001};
    Error error = {0};
    CommRequest *request[COUNT];
    float *source[COUNT], *target[COUNT];
    for (int k = 0; k < COUNT; k++) {
        Layout from, to;
        layout_init(&from, 1);
        layout_init(&to, 1);
        layout_append(&from, 1 + REDUCE_SUM, (Digit){comm->nranks, 1});
        Transfer transfer = {.kind = COMM_ALL_REDUCE, .dtype = F32, .shape = {1, {n[k]}}, .from = &from, .to = &to, .name = "one of two"};
        source[k] = comm->table->alloc(comm, n[k] * 4, &error);
        target[k] = comm->table->alloc(comm, n[k] * 4, &error);
        must(comm, source[k] && target[k], &error);
        request[k] = comm->table->prepare(comm, &transfer, 1, &error);
        must(comm, request[k] != NULL, &error);
    }
    for (int use = 0; use < 3; use++) {
        for (int k = 0; k < COUNT; k++) {
            for (int64_t i = 0; i < n[k]; i++)
                source[k][i] = (float)(comm->process + use * 3 + k + i % 11);
            must(comm, comm->table->start(comm, request[k], 0, (const void *[]){source[k]}, (void *[]){target[k]}, &error), &error);
        }
        for (int k = COUNT - 1; k >= 0; k--)
            must(comm, comm->table->wait(comm, request[k], 0, &error) == COMM_COMPLETE, &error);
        for (int k = 0; k < COUNT; k++)
            for (int64_t i = 0; i < n[k]; i++) {
                int64_t r = comm->nranks, expected = r * (r - 1) / 2 + r * (use * 3 + k + i % 11);
                must(comm,
                     (int64_t)target[k][i] == expected ||
                         error_set(&error, EXIT_MISMATCH, "of two at once, sum %lld of number %d is %g, not %lld", (long long)i, k,
                                   target[k][i], (long long)expected),
                     &error);
            }
    }
    for (int k = 0; k < COUNT; k++) {
        comm->table->free(comm, source[k]);
        comm->table->free(comm, target[k]);
    }
}

/* ---------------------------------------------------------------- agreement */

/* Processes [first, end) fail: what this one is told. */
static Error fail(Comm *comm, bool (*agree)(Comm *, bool, Error *), int first, int end) {
    Error error, wrong;
    bool ok = comm->process < first || comm->process >= end;
    error_set(&error, EXIT_ENVIRONMENT + comm->process, "process %d fails", comm->process);
    bool all = agree(comm, ok, &error);
    must(comm, all == (first == end) || error_set(&wrong, EXIT_MISMATCH, "they %s", all ? "agree" : "do not agree"), &wrong);
    return error;
}

static void agreement(Comm *comm) {
    Error told, wrong;
    int last = comm->nprocesses - 1;
    if (last == 0) return;
    char who[320];
    snprintf(who, sizeof who, "rank %d (%s): process %d fails", last, comm->node, last);
    fail(comm, comm_agree, 0, 0);
    fail(comm, comm_agree_all, 0, 0);
    told = fail(comm, comm_agree, last, last + 1);
    must(comm, strcmp(told.text, comm->process == last ? who : "") == 0 || error_set(&wrong, EXIT_MISMATCH, "told '%s'", told.text),
         &wrong);
    must(comm, told.code == EXIT_ENVIRONMENT + last || error_set(&wrong, EXIT_MISMATCH, "told %d", told.code), &wrong);
    must(comm,
         (comm->process == last ? told.rank == last && !told.reported : told.reported) ||
             error_set(&wrong, EXIT_MISMATCH, "told of rank %d", told.rank),
         &wrong);
    told = fail(comm, comm_agree, 0, last + 1);
    must(comm,
         strcmp(told.text, comm->process == 0 ? "process 0 fails" : "") == 0 || error_set(&wrong, EXIT_MISMATCH, "told '%s'", told.text),
         &wrong);
    told = fail(comm, comm_agree_all, last, last + 1);
    must(comm,
         (strcmp(told.text, who) == 0 && told.code == EXIT_ENVIRONMENT + last) ||
             error_set(&wrong, EXIT_MISMATCH, "told %d, '%s'", told.code, told.text),
         &wrong);
    must(comm, (told.rank == last && !told.reported) || error_set(&wrong, EXIT_MISMATCH, "told of rank %d", told.rank), &wrong);
}

/* ---------------------------------------------------------------- the rest of the table */

static void collectives(Comm *comm) {
    Error error = {0};
    char text[32] = "", *texts = calloc((size_t)comm->nprocesses, 16);
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    if (comm->process == 0) snprintf(text, sizeof text, "from rank 0");
    must(comm, comm->table->broadcast(comm, text, sizeof text, &error), &error);
    must(comm, strcmp(text, "from rank 0") == 0 || error_set(&error, EXIT_MISMATCH, "broadcast gave '%s'", text), &error);
    must(comm, comm->table->all_gather_words(comm, (uint64_t)comm->process * 3 + 1, words, &error), &error);
    for (int i = 0; i < comm->nprocesses; i++)
        must(comm, words[i] == (uint64_t)i * 3 + 1 || error_set(&error, EXIT_MISMATCH, "word %d is wrong", i), &error);
    snprintf(text, sizeof text, "rank %d, and more than fits", comm->process);
    must(comm, comm->table->gather_text(comm, text, 7, texts, &error), &error);
    for (int i = 0; i < comm->nprocesses && comm->process == 0; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "rank %d,", i);
        must(comm, strncmp(texts + 7 * i, expected, 6) == 0 || error_set(&error, EXIT_MISMATCH, "text %d is '%s'", i, texts + 7 * i),
             &error);
    }
    /* Keys that two processes have, and such as one has: by whom they are said. */
    const int32_t mine[][2] = {{comm->process / 2, comm->process}, {1000 + comm->process, comm->process}};
    void *all;
    int64_t n;
    must(comm, comm_union(comm, mine, 2, sizeof *mine, sizeof **mine, &all, &n, &error), &error);
    must(comm, n == comm->nprocesses + (comm->nprocesses + 1) / 2 || error_set(&error, EXIT_MISMATCH, "%d keys", (int)n), &error);
    for (int64_t i = 0; i < n; i++) {
        const int32_t *record = (const int32_t *)all + 2 * i, first = record[0] < 1000 ? record[0] * 2 : record[0] - 1000;
        must(comm, record[1] == first || error_set(&error, EXIT_MISMATCH, "key %d is said by %d", (int)record[0], (int)record[1]), &error);
    }
    free(all);
    must(comm, comm->table->barrier(comm, &error), &error);
    agreement(comm);
    free(words);
    free(texts);
}

enum { MANY = 200, PATIENCE_S = 2 };

/* A communication of many tensors, each in parts that lie apart. */
static CommRequest *many_prepare(Comm *comm, Error *error) {
    Case c = kind_case(COMM_ALL_TO_ALL, comm->nranks, (Shape){2, {8, 8}}, F32);
    Layout from, to;
    side_layout(&c, &c.from, &from);
    side_layout(&c, &c.to, &to);
    Transfer many[MANY];
    for (int i = 0; i < MANY; i++)
        many[i] = (Transfer){.kind = c.kind, .dtype = F32, .shape = c.shape, .from = &from, .to = &to, .name = "one of many"};
    return comm->table->prepare(comm, many, MANY, error);
}

/* All have come so far; from now on rank 1 is waited for so long, as PRUN_TIMEOUT would say. */
static void lose_patience(Comm *comm, Comm *base) {
    Error error = {0};
    must(comm, comm->table->barrier(comm, &error), &error);
    comm->timeout_s = base->timeout_s = PATIENCE_S;
#ifdef COMMTEST_DEVICE
    through_inner(comm)->timeout_s = PATIENCE_S;
#endif
}

/* Rank 1 does not come (late; late-many: and the others start more), dies (kill), or gives up (abort), while all others wait for it. */
static void misbehave(Comm *comm, Comm *base, const char *how) {
    Error error = {0};
    Case c = kind_case(COMM_ALL_REDUCE, comm->nranks, (Shape){2, {8, 8}}, F32);
    c.from.role[0] = c.to.role[0] = ROLE_WHOLE;
    must(comm, cases_run(comm, &c, 1, 1, true, &error), &error);
    Layout from, to;
    side_layout(&c, &c.from, &from);
    side_layout(&c, &c.to, &to);
    static float source[64], target[64], many_target[MANY][64];
    Transfer transfer = {.kind = c.kind, .dtype = F32, .shape = c.shape, .from = &from, .to = &to, .name = "gradient"};
    CommRequest *request = comm->table->prepare(comm, &transfer, 1, &error);
    must(comm, request != NULL, &error);
    CommRequest *many = many_prepare(comm, &error);
    must(comm, many != NULL, &error);
    if (strncmp(how, "late", 4) == 0) lose_patience(comm, base);
    if (comm->process == 1) {
        struct timespec a_moment = {.tv_nsec = 300000000};
        nanosleep(&a_moment, NULL);
        if (strcmp(how, "kill") == 0) raise(SIGKILL);
        if (strcmp(how, "abort") == 0) comm->table->abort(comm, EXIT_MISMATCH, "asked to abort");
        sleep(60);
    }
    must(comm, comm->table->start(comm, request, 0, (const void *[]){source}, (void *[]){target}, &error), &error);
    const void *sources[MANY];
    void *targets[MANY];
    for (int i = 0; i < MANY; i++) {
        sources[i] = source;
        targets[i] = many_target[i];
    }
    if (strcmp(how, "late-many") == 0) must(comm, comm->table->start(comm, many, 0, sources, targets, &error), &error);
    must(comm, comm->table->wait(comm, request, 0, &error) == COMM_COMPLETE, &error);
}

#ifdef COMMTEST_DEVICE
/* Rank 1 is stopped when its host has done its part, and the others are at their end: their devices wait for its. */
static void stop_at_the_end(Comm *comm, Comm *base) {
    Error error = {0};
    Comm *inner = through_inner(comm);
    Case c = kind_case(COMM_ALL_REDUCE, comm->nranks, (Shape){2, {8, 8}}, F32);
    c.from.role[0] = c.to.role[0] = ROLE_WHOLE;
    Layout from, to;
    side_layout(&c, &c.from, &from);
    side_layout(&c, &c.to, &to);
    Transfer transfer = {.kind = c.kind, .dtype = F32, .shape = c.shape, .from = &from, .to = &to, .name = "the last"};
    void *source = inner->table->alloc(inner, 256, &error), *target = inner->table->alloc(inner, 256, &error);
    must(comm, source && target, &error);
    CommRequest *request = inner->table->prepare(inner, &transfer, 1, &error);
    must(comm, request != NULL, &error);
    lose_patience(comm, base);
    must(comm, inner->table->start(inner, request, 0, (const void *[]){source}, (void *[]){target}, &error), &error);
    must(comm, inner->table->wait(inner, request, 0, &error) == COMM_COMPLETE, &error);
    if (comm->process == 1) raise(SIGSTOP);
    inner->table->free(inner, source);
    inner->table->free(inner, target);
    comm->table->destroy(comm);
}
#endif

static void fault(Comm *comm, Fault which) {
    Error error = {0};
    Case c = kind_case(COMM_ALL_REDUCE, comm->nranks, (Shape){2, {8, 8}}, F32);
    c.fault = which;
    must(comm, cases_run(comm, &c, 1, 1, true, &error), &error);
}

/* Lets this process have some more MiB of memory. */
static void limit_memory(struct rlimit *before) {
    enum { SOME = 8 << 20 };
    struct rlimit less;
    getrlimit(RLIMIT_DATA, before);
    less = *before;
    void *some = NULL;
    for (less.rlim_cur = SOME; !some; less.rlim_cur += SOME) {
        setrlimit(RLIMIT_DATA, &less);
        some = malloc(SOME);
    }
    free(some);
}

/* Rank 1 has no memory for the messages of a communication: all prepare it and the one behind it, hear of it when they agree, and can go on. */
static int64_t memory(Comm *comm) {
    enum { SIDE = 8192 }; /* 256 MiB */
    Error error = {0}, failure = {0};
    Case c = kind_case(COMM_ALL_REDUCE, comm->nranks, (Shape){2, {SIDE, SIDE}}, F32);
    Layout from, to;
    side_layout(&c, &c.from, &from);
    side_layout(&c, &c.to, &to);
    Transfer transfer = {.kind = c.kind, .dtype = F32, .shape = c.shape, .from = &from, .to = &to, .name = "gradient"};
    struct rlimit before;
    if (comm->process == 1) limit_memory(&before);
    bool ok = comm->table->prepare(comm, &transfer, 1, &failure) != NULL;
    if (comm->process == 1) setrlimit(RLIMIT_DATA, &before);
    must(comm, ok == (comm->process != 1), &failure);
    must(comm, many_prepare(comm, &error) != NULL, &error);
    bool all = comm_agree_all(comm, ok, &failure);
    if (all || strncmp(failure.text, "rank 1 (", 8) != 0) error_set(&error, EXIT_MISMATCH, "not told of rank 1, but '%s'", failure.text);
    must(comm, error.code == 0, &error);
    Case small = kind_case(COMM_ALL_REDUCE, comm->nranks, (Shape){2, {8, 8}}, F32);
    must(comm, cases_run(comm, &small, 1, 1, true, &error), &error);
    return 1;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "sweep";
    Error error = {0};
    Meeting meeting;
    const bool meets = meeting_find(&meeting, &error);
    Comm *comm = comm_job_create(&argc, &argv, meets ? &meeting : NULL, NULL, &error);
    if (!comm) {
        fprintf(stderr, "commtest: %s\n", error.text);
        return error.code;
    }
    Comm *base = comm;
#ifdef COMMTEST_DEVICE /* over memory of a device: COMMTEST_COMM says how; after what, "captured": replayed uses; "foreign": memory that is not its own */
    const char *how = getenv("COMMTEST_COMM");
    comm = through_open(base, how ? how : "auto", &error);
    must(base, comm != NULL, &error);
    through_capture(comm, argc > 2 && strcmp(argv[2], "captured") == 0);
    if (argc > 2 && strcmp(argv[2], "foreign") == 0) through_foreign(comm);
#endif
    static const Shape small[] = {{2, {8, 8}}, {2, {16, 24}}, {2, {7, 9}}, {2, {1, 2}}, {2, {2, 100}}};
    static const Shape large[] = {{2, {200, 200}}, {2, {77, 601}}, {2, {2, 30000}}};
    int64_t ran = 0;
    order(comm, 33);
    order(comm, 100003);
    if (strcmp(what, "sweep") == 0)
        ran = sweep(comm);
    else if (strcmp(what, "kinds") == 0)
        ran = kinds(comm, small, 5, 4), overlap(comm);
    else if (strcmp(what, "large") == 0)
        ran = kinds(comm, large, 3, 3);
    else if (strcmp(what, "memory") == 0)
        ran = memory(comm);
    else if (strncmp(what, "fault-", 6) == 0)
        fault(comm, strcmp(what, "fault-cell") == 0 ? FAULT_CELL : FAULT_BYTES);
#ifdef COMMTEST_DEVICE
    else if (strcmp(what, "stop") == 0)
        return stop_at_the_end(comm, base), EXIT_DONE;
#endif
    else
        misbehave(comm, base, what);
    collectives(comm);
    if (comm->process == 0)
        printf("commtest: %lld communications right on %d ranks through %s\n", (long long)ran, comm->nranks, comm->transport);
    comm->table->destroy(comm);
    return EXIT_DONE;
}
