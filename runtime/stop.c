#define _DEFAULT_SOURCE /* sigaltstack */
#include "runtime/stop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A meeting takes about 10 microseconds to a millisecond, and mpirun kills a process one second after its SIGTERM. */
static const double MEETING_S = 0.1;
enum { MOST_STRIDE = 0xffff, GROWTH = 4 };

/* ---------------------------------------------------------------- signals */

static const int signals[NSTOP_SIGNALS] = {SIGINT, SIGTERM, SIGUSR2, SIGUSR1};

/* A signal handler can only reach file-level variables: these are so for that reason alone. */
static atomic_int caught;                     /* the first signal that ends the training, 0: none */
static atomic_bool asked;                     /* for a checkpoint that is not written yet */
static atomic_llong caught_ms[NSTOP_SIGNALS]; /* when each came first, 0: not yet */

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000 + 1;
}

/* timeout(1) and shells send a signal to a process and to its group: two that come at once count as one. */
static void note_signal(int number) {
    enum { APART_MS = 500 };
    if (number == SIGUSR1) {
        atomic_store(&asked, true);
        return;
    }
    const int kept = errno;
    const long long now = now_ms();
    for (int i = 0; i < NSTOP_SIGNALS; i++) {
        if (signals[i] != number) continue;
        long long first = 0;
        if (!atomic_compare_exchange_strong(&caught_ms[i], &first, now) && now - first >= APART_MS) _exit(128 + number);
    }
    int none = 0;
    atomic_compare_exchange_strong(&caught, &none, number);
    errno = kept;
}

/* oneDNN's products keep data below the stack pointer, farther down than a handler leaves untouched: a handler on the same stack would overwrite it. The threads of pool.c, which compute beside this one,
 * take no signals. */
static void take_own_stack(void) {
    static char room[1 << 16];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    stack_t there;
    if (sigaltstack(NULL, &there) == 0 && (there.ss_flags & SS_DISABLE)) sigaltstack(&stack, NULL);
}

void stop_open(Stop *stop, int64_t begin) {
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    take_own_stack();
    sigemptyset(&action.sa_mask);
    atomic_store(&caught, 0);
    atomic_store(&asked, false);
    for (int i = 0; i < NSTOP_SIGNALS; i++)
        atomic_store(&caught_ms[i], 0);
    *stop = (Stop){.next = begin + 1, .stride = 1, .met_step = begin, .met_at = now_seconds(), .installed = true};
    for (int i = 0; i < NSTOP_SIGNALS; i++)
        if (sigaction(signals[i], NULL, &stop->before[i]) == 0 && stop->before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

void stop_close(Stop *stop) {
    for (int i = 0; stop->installed && i < NSTOP_SIGNALS; i++)
        sigaction(signals[i], &stop->before[i], NULL);
    stop->installed = false;
}

const char *stop_signal_name(int number) {
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGUSR2";
}

/* ---------------------------------------------------------------- meetings */

/* A word: whether a checkpoint is asked for, signal, steps until the next meeting as this process proposes, global step that is bad. */
enum { STEP_BITS = 40, STRIDE_BITS = 16, SIGNAL_BITS = 7 };

static int64_t wanted_stride(const Stop *stop, int64_t global_step) {
    const double each = (now_seconds() - stop->met_at) / (double)(global_step - stop->met_step);
    const double fit = each > 0 ? MEETING_S / each : MOST_STRIDE, most = (double)stop->stride * GROWTH;
    const double stride = fit < most ? fit : most;
    return stride < 1 ? 1 : stride > MOST_STRIDE ? MOST_STRIDE : (int64_t)stride;
}

static bool meet(Stop *stop, Comm *comm, int64_t global_step, int64_t bad_step, Error *error) {
    const uint64_t stride_mask = (UINT64_C(1) << STRIDE_BITS) - 1, step_mask = (UINT64_C(1) << STEP_BITS) - 1;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words);
    if (!words) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    const uint64_t own = (uint64_t)atomic_exchange(&asked, false) << (STEP_BITS + STRIDE_BITS + SIGNAL_BITS) |
                         (uint64_t)atomic_load(&caught) << (STEP_BITS + STRIDE_BITS) |
                         (uint64_t)wanted_stride(stop, global_step) << STEP_BITS | ((uint64_t)bad_step & step_mask);
    bool ok = comm->table->all_gather_words(comm, own, words, error);
    int64_t stride = MOST_STRIDE;
    for (int p = 0; ok && p < comm->nprocesses; p++) {
        const int number = (int)(words[p] >> (STEP_BITS + STRIDE_BITS) & ((1 << SIGNAL_BITS) - 1));
        const int64_t wanted = (int64_t)(words[p] >> STEP_BITS & stride_mask), bad = (int64_t)(words[p] & step_mask);
        if (words[p] >> (STEP_BITS + STRIDE_BITS + SIGNAL_BITS)) stop->checkpoint = true;
        if (number > 0 && stop->signal == 0) stop->signal = number;
        if (bad > 0 && (stop->bad_step == 0 || bad < stop->bad_step)) stop->bad_step = bad;
        if (wanted < stride) stride = wanted;
    }
    free(words);
    stop->stride = stride;
    stop->next = global_step + stride;
    stop->met_step = global_step;
    stop->met_at = now_seconds();
    return ok;
}

bool stop_look(Stop *stop, Comm *comm, int64_t global_step, int64_t bad_step, bool alone, bool now, Error *error) {
    stop->checkpoint = false;
    if (comm->nprocesses == 1) {
        stop->signal = atomic_load(&caught);
        stop->checkpoint = atomic_exchange(&asked, false);
    }
    if (comm->nprocesses == 1 || !alone) stop->bad_step = bad_step;
    if (comm->nprocesses == 1 || stop->bad_step > 0) return true; /* all processes know it and return here */
    return (!now && global_step < stop->next) || meet(stop, comm, global_step, bad_step, error);
}

/* ---------------------------------------------------------------- going on */

static void put_word(Text *text, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-=:,+@%";
    const bool quotes = word[0] == '\0' || word[strspn(word, plain)] != '\0';
    if (!quotes) {
        text_printf(text, " %s", word);
        return;
    }
    text_printf(text, " '");
    for (; *word; word++)
        if (*word == '\'')
            text_printf(text, "'\\''");
        else
            text_append(text, word, 1);
    text_printf(text, "'");
}

/* Whether a word is this option, as getopt_long takes it: abbreviated, or with its value after '='. */
static bool is_option(const char *word, const char *name) {
    const size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    return n > 0 && strncmp(word + 2, name, n) == 0;
}

void stop_command(Text *text, const Comm *comm, int argc, char *const *argv) {
    static const char *const beginnings[] = {"resume", "load", "rename", "transpose", "fresh"}; /* what it began with, each with a value */
    bool starts = false;                                                                        /* prun starts the ranks itself */
    for (int i = 1; i < argc; i++)
        starts = starts || is_option(argv[i], "nproc");
    if (comm->nprocesses > 1 && !starts) text_printf(text, " mpirun -n %d", comm->nprocesses);
    put_word(text, argc > 0 ? argv[0] : "prun");
    text_printf(text, " --resume latest");
    for (int i = 1; i < argc; i++) {
        bool begins = false;
        for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
            begins = begins || is_option(argv[i], beginnings[k]);
        if (is_option(argv[i], "overwrite")) continue;
        if (!begins)
            put_word(text, argv[i]);
        else if (!strchr(argv[i], '='))
            i++;
    }
}
