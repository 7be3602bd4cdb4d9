/* launch: see launch.h. */
#include "runtime/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/comm/meeting.h"

static const double grace_s = 1.5; /* how long the others may still run when one has failed */

typedef struct Child {
    pid_t process; /* 0: it has ended */
    int rank;
} Child;

static Child *children; /* of this node, for the signal handler */
static int nchildren;
static volatile sig_atomic_t ended; /* to stop */

static void pass_on(int number) {
    const int was = errno;
    if (number != SIGUSR1) ended = 1;
    for (int i = 0; i < nchildren; i++)
        if (children[i].process > 0) kill(children[i].process, number);
    errno = was;
}

static void kill_all(void) {
    for (int i = 0; i < nchildren; i++)
        if (children[i].process > 0) kill(children[i].process, SIGKILL);
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const LaunchOptions *launch, int local, int port) {
    set_number("RANK", launch->node_rank * launch->nproc + local);
    set_number("LOCAL_RANK", local);
    set_number("WORLD_SIZE", launch->nnodes * launch->nproc);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", launch->master_address ? launch->master_address : "127.0.0.1", 1);
}

/* Identifies this launch, so that ranks of another one at the same port are told apart. */
static Launcher launcher_self(void) {
    Launcher self = {.process = (int64_t)getpid()};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    self.began_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    gethostname(self.host, sizeof self.host - 1);
    return self;
}

/* Starts a process of the job. Returns true in the new process. */
static bool start_one(const LaunchOptions *launch, int local, int port, pid_t parent, Error *error) {
    fflush(stdout);
    const pid_t process = fork();
    if (process < 0) error_set(error, EXIT_ENVIRONMENT, "no process for rank %d: %s", children[local].rank, strerror(errno));
    if (process != 0) {
        children[local].process = process > 0 ? process : 0;
        return false;
    }
    nchildren = 0;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _Exit(EXIT_ENVIRONMENT); /* the launcher was killed meanwhile */
    set_environment(launch, local, port);
    return true;
}

/* Adds the end of one process to the job's exit code. A process that a signal has ended is the cause of the others' errors. */
static void take_end(const Child *child, int status, int *code) {
    if (WIFEXITED(status)) {
        if (*code == EXIT_DONE) *code = WEXITSTATUS(status);
        return;
    }
    const int number = WTERMSIG(status);
    fprintf(stderr, "prun: rank %d (process %ld) was ended by signal %d (%s)\n", child->rank, (long)child->process, number,
            strsignal(number));
    *code = 128 + number;
}

/* Waits until all have ended; returns the exit code. When one has failed, the others have a moment to end by themselves. */
static int wait_for_all(int running) {
    int code = EXIT_DONE;
    double until = 0;
    bool killed = false;
    while (running > 0) {
        int status;
        const pid_t process = waitpid(-1, &status, until > 0 ? WNOHANG : 0);
        if (process < 0 && errno != EINTR) break;
        for (int i = 0; process > 0 && i < nchildren; i++) {
            if (children[i].process != process) continue;
            if (!killed) take_end(&children[i], status, &code);
            children[i].process = 0;
            running--;
        }
        if (code != EXIT_DONE && until == 0) until = now_seconds() + grace_s;
        if (process > 0 || until == 0) continue;
        if (now_seconds() > until && !killed) {
            kill_all();
            killed = true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return code;
}

/* Whether a restart may help: it would not after a mistake in the command. */
static bool may_pass(int code) {
    return code == EXIT_ENVIRONMENT || code >= 128;
}

/* The checkpoints that were in the directory before this run began: an earlier run's, from which a restart goes on only if the first start was told to. */
typedef struct Earlier {
    Arena arena;
    const char *directory;
    int n;
    const char *const *path;
    struct stat *about;
} Earlier;

static void earlier_read(Earlier *earlier, const RunOptions *options) {
    arena_init(&earlier->arena);
    earlier->directory = options->checkpoint ? options->checkpoint : arena_printf(&earlier->arena, "%s.checkpoints", options->plan);
    earlier->n = checkpoint_list(earlier->directory, &earlier->arena, &earlier->path);
    earlier->about = arena_alloc(&earlier->arena, ((size_t)earlier->n + 1) * sizeof *earlier->about);
    for (int i = 0; i < earlier->n; i++)
        if (stat(earlier->path[i], &earlier->about[i]) != 0) earlier->about[i] = (struct stat){0};
}

static bool is_earlier(const Earlier *earlier, const char *path) {
    struct stat now;
    if (stat(path, &now) != 0) return true;
    for (int i = 0; i < earlier->n; i++) {
        const struct stat *then = &earlier->about[i];
        if (strcmp(earlier->path[i], path) == 0 && then->st_ino == now.st_ino && then->st_mtim.tv_sec == now.st_mtim.tv_sec &&
            then->st_mtim.tv_nsec == now.st_mtim.tv_nsec)
            return true;
    }
    return false;
}

/* Makes a restart resume from this run's newest checkpoint. After its first one none of an earlier run should be newer; if the run was killed before those were removed, its own is named. */
static void resume_own(RunOptions *options, int restart, Earlier *earlier) {
    const char *const *path;
    const int n = checkpoint_list(earlier->directory, &earlier->arena, &path);
    int own = 0;
    while (own < n && is_earlier(earlier, path[own]))
        own++;
    fprintf(stderr, "prun: note: restart %d of %d, %s\n", restart, options->launch.max_restarts,
            own < n ? "from the latest checkpoint" : "as it began: it has written no checkpoint yet");
    if (own == n) return;
    options->resume = own == 0 ? "latest" : path[own];
    options->load = NULL;
    options->overwrite = false;
}

/* The number of ranks that a plan is for, from its first lines; 0: it cannot be read, which is reported later. */
static int ranks_of_plan(const char *path) {
    struct stat about;
    char *line = NULL;
    size_t room = 0;
    int ranks = 0;
    FILE *file = path && stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "r") : NULL;
    while (file && ranks == 0 && getline(&line, &room, file) > 0)
        if (strncmp(line, "ranks ", 6) == 0)
            ranks = atoi(line + 6);
        else if (strncmp(line, "graph ", 6) == 0)
            break;
    free(line);
    if (file) fclose(file);
    return ranks;
}

bool launch_fits(const RunOptions *options, int nranks, const char *started, Error *error) {
    const int needs = ranks_of_plan(options->plan);
    return needs <= 0 || needs == nranks ||
           error_set(error, EXIT_REJECTED, "this plan is for %d rank%s, %s %d: start %d, or compile the net with pcc --ranks %d", needs,
                     needs == 1 ? "" : "s", started, nranks, needs, nranks);
}

/* Whether --nproc and --nnodes give the plan's number of ranks. */
static bool fits_plan(const RunOptions *options) {
    const LaunchOptions *launch = &options->launch;
    char started[80] = "--nproc says";
    Error error = {0};
    if (launch->nnodes > 1) snprintf(started, sizeof started, "--nnodes %d and --nproc %d make", launch->nnodes, launch->nproc);
    if (launch_fits(options, launch->nnodes * launch->nproc, started, &error)) return true;
    fprintf(stderr, "prun: %s\n", error.text);
    return false;
}

int launch(RunOptions *options) {
    LaunchOptions *launch = &options->launch;
    const pid_t self = getpid();
    const struct sigaction handler = {.sa_handler = pass_on};
    int code = EXIT_DONE;
    if (!fits_plan(options)) return EXIT_REJECTED;
    children = calloc((size_t)launch->nproc, sizeof *children);
    if (!children) {
        fprintf(stderr, "prun: no memory for %d ranks\n", launch->nproc);
        return EXIT_ENVIRONMENT;
    }
    launch->self = launcher_self();
    Earlier earlier;
    earlier_read(&earlier, options);
    sigaction(SIGINT, &handler, NULL);
    sigaction(SIGTERM, &handler, NULL);
    sigaction(SIGUSR1, &handler, NULL);
    sigaction(SIGUSR2, &handler, NULL);
    for (int restart = 0;; restart++) {
        Error error = {0};
        int running = 0, port = launch->master_port;
        launch->listening = launch->node_rank == 0 ? meeting_listen(&port, launch->nnodes * launch->nproc, &error) : -1;
        nchildren = launch->nproc;
        for (int i = 0; i < launch->nproc; i++)
            children[i] = (Child){.rank = launch->node_rank * launch->nproc + i};
        for (int i = 0; !error.code && i < launch->nproc; i++) {
            if (start_one(launch, i, port, self, &error)) {
                free(children);
                return -1;
            }
            running += children[i].process > 0;
            if (launch->listening >= 0) close(launch->listening); /* it is rank 0's now */
            launch->listening = -1;
        }
        if (error.code) {
            fprintf(stderr, "prun: %s\n", error.text);
            kill_all();
        }
        code = wait_for_all(running);
        if (error.code) code = error.code;
        /* In a restart the cause may be what the failed run has left, such as memory of a device that is not free yet. */
        const bool again = code == EXIT_FOR_GOOD && restart == 0;
        if (again && launch->max_restarts > 0)
            fprintf(stderr, "prun: note: no restart: that was before the first step, and would be again\n");
        if (code == EXIT_FOR_GOOD) code = EXIT_ENVIRONMENT;
        if (again || ended || !may_pass(code) || restart == launch->max_restarts) break;
        resume_own(options, restart + 1, &earlier);
    }
    arena_finish(&earlier.arena);
    free(children);
    return code;
}
