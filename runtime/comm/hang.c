/* hang: reports where each rank is when one has waited too long for others. That one sends a message to all; each that waits too answers with its place, and what it sees of processes
 * on its machine that do not wait. A rank that has not answered a moment later is silent: stopped, busy, or gone. No thread is needed: ranks that wait poll for messages anyway. */
#include "runtime/comm/job.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HANG_TAG = WIRE_TAGS - 2, MATES = 8, LINES = 16 };
static const double ANSWER_S = 0.5; /* a rank that waits polls every 20 ms */

/* What is known of a rank's process. state: a letter of /proc/PID/stat, 0: not known. */
typedef struct Seen {
    int32_t rank;
    char state;
    CommPlace place;
} Seen;

static const CommPlace unseen = {.doing = -1, .at = -1, .request = -1};

/* What a rank tells the others. */
typedef struct Answer {
    CommPlace place;
    int32_t nmates;
    Seen mate[MATES]; /* ranks of its machine that do not seem to wait */
} Answer;

/* ---------------------------------------------------------------- processes of this machine */

/* When the process began, in clock ticks of the machine; 0: there is none with this number. */
static uint64_t process_look(long number, char *state) {
    char path[64], line[1024] = "";
    unsigned long long began = 0;
    *state = 'X';
    snprintf(path, sizeof path, "/proc/%ld/stat", number);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    const char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* behind the name, which may hold anything */
    fclose(file);
    if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &began) != 2)
        return 0;
    return began;
}

Process hang_process(const char *node) {
    char state;
    Process process = {.number = (int64_t)getpid(), .began = process_look((long)getpid(), &state)};
    snprintf(process.node, sizeof process.node, "%s", node);
    return process;
}

/* What the rank's process does, a letter; 0: it cannot be seen from here. */
static char state_of(const JobComm *job, int rank) {
    const Process *process = job->processes ? &job->processes[rank] : NULL;
    char state;
    if (!process || !process->here || process->began == 0) return 0;
    return process_look((long)process->number, &state) == process->began ? state : 'X';
}

bool hang_first(const JobComm *job) {
    int first = 0;
    while (first < job->comm.process && job->silent[first])
        first++;
    return first == job->comm.process;
}

bool hang_whole(const JobComm *job) {
    int answered = 0;
    while (answered < job->comm.nranks && !job->silent[answered])
        answered++;
    return answered == job->comm.nranks;
}

void hang_kill(const JobComm *job) {
    for (int r = 0; job->kills && job->silent && r < job->comm.nranks; r++) {
        const char state = job->silent[r] ? state_of(job, r) : 'X';
        if (state != 0 && state != 'X' && state != 'Z') kill((pid_t)job->processes[r].number, SIGKILL);
    }
}

/* ---------------------------------------------------------------- asking and answering */

/* Fills in the ranks of this machine that do not wait, first those that are stopped or have ended. */
static void look_at_mates(const JobComm *job, Answer *answer) {
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < job->comm.nranks && answer->nmates < MATES; r++) {
            const char state = r == job->comm.process ? 0 : state_of(job, r);
            const int node = job->node_of ? job->node_of[r] : -1;
            const HeapHeader *header = job->shares && node >= 0 ? heap_header(&job->heap, node) : NULL;
            if (state == 0 || (strchr("TtZX", state) != NULL) != (pass == 0)) continue;
            if (pass == 1 && (!header || atomic_load(&header->sleeping))) continue;
            Seen *seen = &answer->mate[answer->nmates++];
            *seen = (Seen){.rank = r, .state = state, .place = header ? header->place : unseen};
        }
}

/* Sends this rank's answer to all and receives theirs; answered[r]: that of rank r has come. */
static bool exchange(JobComm *job, Answer *answers, bool *answered, Error *error) {
    const WireTable *table = job->wire->table;
    const int n = job->comm.nranks, self = job->comm.process;
    WireMessage **in = calloc((size_t)n, sizeof *in);
    bool ok = in || error_set(error, EXIT_ENVIRONMENT, "no memory for %d messages", n);
    int left = n - 1;
    for (int r = 0; ok && r < n; r++) {
        if (r == self) continue;
        WireMessage *out = table->prepare(job->wire, true, r, HANG_TAG, &answers[self], sizeof *answers, error);
        in[r] = table->prepare(job->wire, false, r, HANG_TAG, &answers[r], sizeof *answers, error);
        ok = out && in[r] && table->start(job->wire, out, error) && table->start(job->wire, in[r], error);
    }
    for (const double until = now_seconds() + ANSWER_S; ok && left > 0 && now_seconds() < until;) {
        for (int r = 0; r < n; r++) {
            Error gone;
            if (r == self || answered[r] || table->test(job->wire, in[r], &gone) <= 0) continue;
            answered[r] = true;
            left--;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    free(in); /* the messages are not released: the job ends */
    return ok;
}

bool hang_called(JobComm *job) {
    return job->comm.place->broken || job->wire->table->has_come(job->wire, HANG_TAG);
}

/* ---------------------------------------------------------------- words */

/* "in step 120, all_reduce of h.grad" */
static void put_place(JobComm *job, int rank, const CommPlace *place, Text *text) {
    static const char *const doing[] = {[DOING_START] = "before training",
                                        [DOING_STEP] = "in step %lld",
                                        [DOING_DATA] = "reading the data of step %lld",
                                        [DOING_EVALUATION] = "evaluating behind step %lld",
                                        [DOING_SAVE] = "saving behind step %lld",
                                        [DOING_NEXT] = "behind step %lld"};
    if (place->doing < 0 || place->doing > DOING_NEXT) {
        text_printf(text, "where it was this rank cannot see");
        return;
    }
    if (place->doing == DOING_START)
        text_printf(text, "%s", doing[DOING_START]);
    else
        text_printf(text, doing[place->doing], (long long)place->step);
    if (place->at >= 0 && job->comm.name_place) {
        text_printf(text, ", ");
        job->comm.name_place(job->comm.plan, rank, place, text);
    } else if (place->request >= 0 && !job->comm.name_place) {
        CommRequest *request = job->first;
        for (int i = 0; i < place->request && request; i++)
            request = request_next(request);
        if (request) text_printf(text, ", its last communication was ");
        if (request) request_describe(request, text);
    }
}

static const char *state_words(char state) {
    switch (state) {
    case 'T':
    case 't':
        return "is stopped by a signal";
    case 'Z':
    case 'X':
        return "has ended";
    case 'D':
        return "waits for a disk or a device";
    case 'R':
        return "computes and does not answer";
    default:
        return "does not answer";
    }
}

/* What is known of a silent rank, by this one or by one of its machine that has answered. */
static Seen seen_of(const JobComm *job, int rank, const Answer *answers, const bool *answered) {
    const int node = job->node_of ? job->node_of[rank] : -1;
    Seen seen = {.rank = rank, .state = state_of(job, rank), .place = unseen};
    if (job->shares && node >= 0) seen.place = heap_header(&job->heap, node)->place;
    for (int r = 0; (seen.state == 0 || seen.place.doing < 0) && r < job->comm.nranks; r++)
        for (int k = 0; answered[r] && k < answers[r].nmates && k < MATES; k++)
            if (answers[r].mate[k].rank == rank) seen = answers[r].mate[k];
    return seen;
}

/* "ranks 0, 1 and 3" */
static void put_ranks(const int *ranks, int n, Text *text) {
    text_printf(text, "rank%s", n == 1 ? "" : "s");
    for (int i = 0; i < n; i++)
        text_printf(text, "%s%d", i == 0 ? " " : i + 1 < n ? ", " : " and ", ranks[i]);
}

/* Reports the ranks that wait, one line for each place. */
static void put_waiting(JobComm *job, const Answer *answers, const bool *answered) {
    const int n = job->comm.nranks > 0 ? job->comm.nranks : 1;
    Text *said = calloc((size_t)n, sizeof *said);
    int *ranks = calloc((size_t)n, sizeof *ranks), lines = 0, more = 0;
    for (int r = 0; said && ranks && r < n; r++)
        if (answered[r]) put_place(job, r, &answers[r].place, &said[r]);
    for (int r = 0; said && ranks && r < n; r++) {
        int same = 0;
        for (int k = r; said[r].n > 0 && k < n; k++)
            if (k == r || (said[k].n > 0 && strcmp(said[k].at, said[r].at) == 0)) {
                ranks[same++] = k;
                if (k > r) text_finish(&said[k]);
            }
        if (same > 0 && lines++ >= LINES)
            more += same;
        else if (same > 0) {
            text_printf(&job->report, "prun:   ");
            put_ranks(ranks, same, &job->report);
            text_printf(&job->report, " wait%s: %s\n", same == 1 ? "s" : "", said[r].at);
        }
    }
    if (more > 0) text_printf(&job->report, "prun:   and %d more wait\n", more);
    for (int r = 0; said && r < n; r++)
        text_finish(&said[r]);
    free(said);
    free(ranks);
}

/* Reports each silent rank in a line; *first: the first of them in short, "rank 2 is stopped by a signal, and 2 more are silent". */
static void put_silent(JobComm *job, const Answer *answers, const bool *answered, Text *first) {
    int n = 0;
    for (int r = 0; r < job->comm.nranks; r++) {
        if (answered[r]) continue;
        const Seen seen = seen_of(job, r, answers, answered);
        const Process *process = job->processes ? &job->processes[r] : NULL;
        if (n++ == 0) text_printf(first, "rank %d %s", r, state_words(seen.state));
        if (n > LINES) continue;
        text_printf(&job->report, "prun:   rank %d ", r);
        if (process) text_printf(&job->report, "(process %lld on %s) ", (long long)process->number, process->node);
        text_printf(&job->report, "%s: ", state_words(seen.state));
        put_place(job, r, &seen.place, &job->report);
        text_printf(&job->report, "\n");
    }
    if (n > 1) text_printf(first, ", and %d more are silent", n - 1);
}

bool hang_report(JobComm *job, const char *what, Error *error) {
    const int n = job->comm.nranks, self = job->comm.process;
    Answer *answers = calloc((size_t)n, sizeof *answers);
    bool *answered = calloc((size_t)n, sizeof *answered);
    const bool before = job->comm.place->broken;
    job->comm.place->broken = 1;
    if (before || !answers || !answered) { /* reported already */
        free(answers);
        free(answered);
        if (job->wire->gone >= 0) return wire_gone(job->wire->gone, error);
        return error_set(error, EXIT_ENVIRONMENT, "%s: not all ranks came within %g s (PRUN_TIMEOUT)", what, job->comm.timeout_s);
    }
    answers[self].place = *job->comm.place;
    answered[self] = true;
    look_at_mates(job, &answers[self]);
    if (!exchange(job, answers, answered, error)) return false;
    Text first = {0};
    put_silent(job, answers, answered, &first);
    put_waiting(job, answers, answered);
    error_of_rank(error, self, EXIT_ENVIRONMENT, "%s: not all ranks came within %g s (PRUN_TIMEOUT): %s", what, job->comm.timeout_s,
                  first.n > 0 ? first.at : "all wait for each other");
    text_finish(&first);
    for (int r = 0; r < n; r++) {
        answered[r] = !answered[r];
        if (answered[r]) job->wire->table->leave(job->wire, r);
    }
    job->silent = answered;
    return false; /* answers is not freed: messages still use it */
}
