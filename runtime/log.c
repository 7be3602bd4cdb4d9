/* log: what is printed as training goes. */
#include "runtime/log.h"
#include "runtime/element.h"
#include "runtime/metrics.h"
#include "runtime/print.h"
#include "runtime/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct RunLog {
    MetricsFile *metrics;     /* rank 0; or NULL */
    FILE **rank_file;         /* per driven rank; or NULL */
    int64_t *pid;             /* per rank */
    int64_t *local_rank;      /* per rank */
    FILE *terminal;           /* where a progress line may be shown; NULL: nowhere */
    bool apart;               /* losses go elsewhere than to terminal */
    bool shown;               /* a progress line is on the terminal */
    bool warned;              /* of a loss that is not finite */
    double begin, last_at;    /* times in seconds: of training's begin, of the last loss */
    double shown_at, said_at; /* times of the last progress line, and of the last output to its terminal through mpirun */
    int64_t begin_step, last_step;
    double samples_per_s;
    double penalty, grad_norm; /* of the step whose loss is used; 0: none is reported, so nothing is trained */
    double *sums;              /* of the losses since the last line, placed as in run->losses; NULL: no line has their mean */
    int64_t nsummed;
    double signal,
        noise; /* of gradients, averages over the steps that are used: the squared norm that they would have without noise; the variance for one row */
};

/* ---------------------------------------------------------------- templates */

static bool is_field(const char *at, size_t n, const char *name) {
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

/* digits: "" or ".4f", checked by the compiler. */
static void put_real(Text *text, double value, const char *digits, size_t n) {
    char format[16], number[NUMBER_MAX];
    if (n == 0) {
        number_print(number, value);
        text_printf(text, "%s", number);
    } else if (n < sizeof format - 1 && strspn(digits, ".0123456789") + 1 == n && strchr("efg", digits[n - 1])) {
        int places = digits[0] == '.' ? atoi(digits + 1) : 6;
        char letter = digits[n - 1];
        if (places > 30) places = 30;
        if (letter == 'e')
            text_printf(text, "%.*e", places, value);
        else if (letter == 'f')
            text_printf(text, "%.*f", places, value);
        else
            text_printf(text, "%.*g", places, value);
    }
}

static void put_duration(Text *text, double s) {
    if (s < 0)
        text_printf(text, "?");
    else if (s >= 3600)
        text_printf(text, "%.0f h %02.0f min", floor(s / 3600), floor(fmod(s, 3600) / 60));
    else if (s >= 60)
        text_printf(text, "%.0f min %02.0f s", floor(s / 60), floor(fmod(s, 60)));
    else
        text_printf(text, "%.0f s", s);
}

static void put_field(Text *text, const char *at, size_t n, const LogFields *f) {
    const char *colon = memchr(at, ':', n);
    size_t name = colon ? (size_t)(colon - at) : n, rest = colon ? n - name - 1 : 0;
    const struct {
        const char *name;
        int64_t value;
    } integers[] = {
        {"epoch", f->epoch},           {"step", f->step}, {"global_step", f->global_step}, {"steps", f->steps},          {"rank", f->rank},
        {"local_rank", f->local_rank}, {"pid", f->pid},   {"total_steps", f->total_steps}, {"world_size", f->world_size}};
    const struct {
        const char *name;
        double value;
    } reals[] = {{"loss", f->loss},       {"mean_loss", f->mean_loss},         {"lr", f->lr},
                 {"next_lr", f->next_lr}, {"samples_per_s", f->samples_per_s}, {"grad_norm", f->grad_norm}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (is_field(at, name, integers[i].name)) text_printf(text, "%" PRId64, integers[i].value);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (is_field(at, name, reals[i].name)) put_real(text, reals[i].value, colon ? colon + 1 : "", rest);
    if (is_field(at, name, "eta")) put_duration(text, f->left_s);
}

void log_template(Text *text, const char *format, const LogFields *fields) {
    for (const char *at = format; *at; at++) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if ((at[0] == '{' && at[1] == '{') || (at[0] == '}' && at[1] == '}')) {
            text_append(text, at++, 1);
        } else if (end) {
            put_field(text, at + 1, (size_t)(end - at - 1), fields);
            at = end;
        } else {
            text_append(text, at, 1);
        }
    }
    text_append(text, "\n", 1);
}

/* ---------------------------------------------------------------- opening */

static FILE *open_file(const char *path, bool append, Error *error) {
    FILE *file = fopen(path, append ? "a" : "w");
    if (!file) error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: %s", path, strerror(errno));
    return file;
}

static bool open_files(Run *run, Error *error) {
    RunLog *log = run->log;
    const RunOptions *options = run->options;
    bool resumed = options->resume != NULL;
    if (options->metrics && run->comm->process == 0) {
        const Position *at = run->executor ? &run->position : NULL;
        log->metrics = metrics_open(options->metrics, &run->plan.graph, run->evaluation, resumed, at, !evaluates_again(run), error);
        if (!log->metrics) return false;
    }
    if (!options->log_directory) return true;
    if (mkdir(options->log_directory, 0777) != 0 && errno != EEXIST)
        return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", options->log_directory, strerror(errno));
    log->rank_file = arena_alloc(&run->arena, sizeof *log->rank_file * (size_t)run->comm->ndriven);
    for (int i = 0; i < run->comm->ndriven; i++) {
        const char *path = arena_printf(&run->arena, "%s/rank_%d.log", options->log_directory, run->comm->first_driven + i);
        if (!(log->rank_file[i] = open_file(path, resumed, error))) return false;
    }
    return true;
}

/* Finds the terminal of standard error, or mpirun's where it is a pipe to mpirun. */
static void find_terminal(RunLog *log) {
    const char *kind = getenv("TERM");
    if (!kind || strcmp(kind, "dumb") == 0) return;
    const bool own = isatty(STDERR_FILENO);
    const int fd = own ? -1 : comm_terminal(STDERR_FILENO), output = own ? -1 : comm_terminal(STDOUT_FILENO);
    log->terminal = own ? stderr : fd >= 0 ? fdopen(fd, "w") : NULL;
    log->apart = own ? !isatty(STDOUT_FILENO) : output < 0;
    if (output >= 0) close(output);
    if (log->terminal && !own) setvbuf(log->terminal, NULL, _IONBF, 0);
}

bool log_open(Run *run, Error *error) {
    Comm *comm = run->comm;
    RunLog *log = run->log = arena_alloc(&run->arena, sizeof *run->log);
    uint64_t *words = arena_alloc(&run->arena, sizeof *words * (size_t)comm->nprocesses);
    log->pid = arena_alloc(&run->arena, sizeof *log->pid * (size_t)comm->nranks);
    log->local_rank = arena_alloc(&run->arena, sizeof *log->local_rank * (size_t)comm->nranks);
    if (!comm->table->all_gather_words(comm, (uint64_t)getpid() << 32 | (uint32_t)comm->launch_rank, words, error))
        return run->agreed = false;
    for (int r = 0; r < comm->nranks; r++) {
        uint64_t word = words[comm->nprocesses == comm->nranks ? r : 0];
        log->pid[r] = (int64_t)(word >> 32);
        log->local_rank[r] = comm->nprocesses == comm->nranks ? (int64_t)(word & 0xffffffffu) : r;
    }
    const char *line = run->plan.graph.settings.log;
    if (line && strstr(line, "{mean_loss"))
        log->sums = arena_alloc(&run->arena, (size_t)comm->nranks * (size_t)executor_most_slices(run->executor) * sizeof *log->sums);
    if (comm->process == 0) find_terminal(log);
    log->begin = log->last_at = now_seconds();
    log->begin_step = log->last_step = run->position.global_step;
    return comm_agree(comm, open_files(run, error), error);
}

void log_close(Run *run) {
    RunLog *log = run->log;
    if (!log) return;
    log_pause(run);
    if (log->terminal && log->terminal != stderr) fclose(log->terminal);
    log->terminal = NULL;
    metrics_close(log->metrics);
    for (int i = 0; log->rank_file && i < run->comm->ndriven; i++)
        if (log->rank_file[i]) fclose(log->rank_file[i]);
}

/* ---------------------------------------------------------------- the progress line */

void log_pause(Run *run) {
    if (!run->log) return;
    run->log->said_at = run->log->terminal == stderr ? 0 : now_seconds(); /* output through mpirun arrives there a moment later */
    if (!run->log->shown) return;
    fputs("\r\033[K", run->log->terminal);
    run->log->shown = false;
}

/* Called before losses are printed. */
static void pause_for_losses(Run *run) {
    if (run->log && !run->log->apart) log_pause(run);
}

static bool shows_progress(const RunLog *log, double now) {
    enum { EVERY_MS = 200, BEHIND_MS = 100 };
    return log->terminal && now - log->shown_at >= EVERY_MS / 1000.0 && now - log->said_at >= BEHIND_MS / 1000.0;
}

static int64_t steps_left(const Run *run) {
    const int64_t steps = executor_steps(run->executor);
    return (run->plan.graph.settings.epochs - run->position.epoch + 1) * steps - run->position.step;
}

/* Seconds until the last step, at the pace so far; -1: no pace is known yet. */
static double seconds_left(const Run *run, double now) {
    const double done = (double)(run->position.global_step - run->log->begin_step);
    return done > 0 && now > run->log->begin ? (double)steps_left(run) * (now - run->log->begin) / done : -1;
}

int terminal_columns(FILE *terminal) {
    struct winsize size;
    return ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

static void show_progress(Run *run, double now, double loss) {
    RunLog *log = run->log;
    if (!shows_progress(log, now)) return;
    const Position *at = &run->position;
    const double steps_per_s = (double)(at->global_step - log->begin_step) / (now - log->begin);
    Text text = {0};
    text_printf(&text, "epoch %" PRId64 "/%" PRId64 "  step %" PRId64 "/%" PRId64 "  loss %.4g  lr %.3g  %.4g samples/s  ", at->epoch,
                run->plan.graph.settings.epochs, at->step, executor_steps(run->executor), loss, executor_rate(run->executor),
                steps_per_s * (double)executor_batch(run->executor));
    put_duration(&text, seconds_left(run, now));
    text_printf(&text, " left");
    /* A longer line would wrap, and its first part could not be removed. */
    fprintf(log->terminal, "\r%.*s\033[K", terminal_columns(log->terminal) - 1, text.at);
    text_finish(&text);
    log->shown = true;
    log->shown_at = now;
}

/* ---------------------------------------------------------------- losses */

/* What is subtracted from epoch and step in lines of losses: 1 if these count from 0. */
static int64_t numbered_less(const Run *run) {
    return run->plan.graph.settings.log_from_zero;
}

static LogFields fields_of(const Run *run, int rank, int slice, double loss) {
    const RunLog *log = run->log;
    const Position *at = &run->position;
    const int64_t less = numbered_less(run);
    return (LogFields){.epoch = at->epoch - less,
                       .step = at->step - less,
                       .global_step = at->global_step - less,
                       .steps = executor_steps(run->executor),
                       .rank = rank,
                       .total_steps = at->global_step + steps_left(run),
                       .world_size = run->comm->nranks,
                       .left_s = seconds_left(run, now_seconds()),
                       .local_rank = run->log->local_rank[rank],
                       .pid = run->log->pid[rank],
                       .loss = loss,
                       .mean_loss = log->sums ? log->sums[rank * executor_most_slices(run->executor) + slice] / (double)log->nsummed : loss,
                       .lr = executor_rate(run->executor),
                       .next_lr = executor_next_rate(run->executor),
                       .samples_per_s = run->log->samples_per_s,
                       .grad_norm = run->log->grad_norm};
}

/* Appends the line of one loss, the slice-th of the rank; who, number: "rank" or "replica" and its number, where several print. */
static void put_loss(Text *text, const Run *run, const char *who, int number, int rank, int slice, double loss) {
    const Settings *settings = &run->plan.graph.settings;
    char digits[NUMBER_MAX];
    if (settings->log && settings->log[0]) {
        LogFields fields = fields_of(run, rank, slice, loss);
        log_template(text, settings->log, &fields);
        return;
    }
    number_print(digits, loss);
    if (who) text_printf(text, "[%s %d] ", who, number);
    const int64_t less = numbered_less(run);
    text_printf(text, "epoch: %" PRId64 " step: %" PRId64 ", loss is %s\n", run->position.epoch - less, run->position.step - less, digits);
}

/* Warns once of a loss that is not finite, where training goes on. */
static void warn_of(Run *run, double loss) {
    const bool missed = run->seen_step + 1 < run->position.global_step;
    if (isfinite(loss) || run->log->warned || run->on_nan == ON_NAN_STOP) return;
    run->log->warned = true;
    log_pause(run);
    fprintf(stderr,
            "prun: warning: the loss is %s since epoch %" PRId64 " step %" PRId64
            "%s; without on_nan = go training stops there and says where that came from\n",
            isnan(loss) ? "nan" : "infinite", run->position.epoch, run->position.step, missed ? " or before" : "");
}

/* Whether the losses of all ranks are printed, or those of one. */
static bool prints_all(const Run *run) {
    const Settings *settings = &run->plan.graph.settings;
    if (run->options->all_ranks || (settings->log && settings->log[0] && settings->log_rank < 0)) return true;
    return !(settings->log && settings->log[0]) && run->plan.graph.replicas > 0;
}

/* Prints, in data_parallel, the loss of each replica once, in their order; else one rank's, or all ranks'. Collective. */
static bool report_losses(Run *run, Text *text, Error *error) {
    Comm *comm = run->comm;
    const Settings *settings = &run->plan.graph.settings;
    int most = executor_most_slices(run->executor), first, replicas = run->plan.graph.replicas;
    bool all = prints_all(run);
    int only =
        settings->log && settings->log[0] && settings->log_rank > 0 && settings->log_rank < comm->nranks ? (int)settings->log_rank : 0;
    bool gathers = all || only > 0;
    if (gathers && !executor_gather_losses(run->executor, run->losses, error)) return run->agreed = false;
    if (gathers && run->log->sums && !executor_gather_slices(run->executor, run->log->sums, error)) return run->agreed = false;
    const double *own = run->losses;
    if (comm->process != 0) return true;
    if (!gathers && executor_losses(run->executor, 0, &own) == 0) return true;
    for (int r = all ? 0 : only, printed = 0; r < (all ? comm->nranks : only + 1); r++) {
        int n = executor_slices(run->executor, r, &first);
        for (int k = 0; k < n; k++) {
            double loss = own[(int64_t)(gathers ? r : 0) * most + k];
            warn_of(run, loss);
            if (replicas == 0)
                put_loss(text, run, all && comm->nranks > 1 ? "rank" : NULL, r, r, k, loss);
            else if (!all || first + k == printed)
                put_loss(text, run, replicas == 1 ? NULL : replicas == comm->nranks ? "rank" : "replica", first + k, r, k, loss), printed++;
        }
    }
    return true;
}

/* Writes each driven rank's losses to its file. */
static bool write_rank_files(Run *run, Error *error) {
    RunLog *log = run->log;
    for (int i = 0; log->rank_file && i < run->comm->ndriven; i++) {
        const double *losses;
        int rank = run->comm->first_driven + i, n = executor_losses(run->executor, i, &losses);
        Text text = {0};
        for (int k = 0; k < n; k++)
            put_loss(&text, run, NULL, 0, rank, k, losses[k]);
        bool ok = fwrite(text.at ? text.at : "", 1, text.n, log->rank_file[i]) == text.n && fflush(log->rank_file[i]) == 0;
        text_finish(&text);
        if (!ok) return run->agreed = false, error_set(error, EXIT_ENVIRONMENT, "cannot write the log of rank %d: is the disk full?", rank);
    }
    return true;
}

/* Reads a report of one number, which every rank has; *number is unchanged where the program does not report it. */
static bool read_report(Run *run, const char *name, double *number, Error *error) {
    const int report = graph_find_report(executor_graph(run->executor), name);
    ReportPart part;
    if (report < 0) return true;
    if (!executor_report(run->executor, 0, report, &part, error)) return run->agreed = false;
    *number = element_at(part.data, part.type->dtype, 0);
    executor_report_finish(run->executor, &part);
    return true;
}

/* Reads the penalty and the norm of the gradients; from it and the replicas' norms computes the noise: McCandlish et al. 2018, appendix A.1. For R replicas with gradients g_r, whose mean is g, over B rows in all:
 * |g|^2 is on average |G|^2 + V / B and |g_r|^2 is |G|^2 + R V / B. */
static bool read_reports(Run *run, Error *error) {
    static const double kept = 0.95;
    RunLog *log = run->log;
    const Graph *graph = &run->plan.graph;
    const double replicas = graph->replicas, rows = (double)executor_batch(run->executor);
    double each = NAN;
    if (!read_report(run, "penalty", &log->penalty, error) || !read_report(run, "grad_norm", &log->grad_norm, error) ||
        !read_report(run, "replica_norm2", &each, error))
        return false;
    if (!isfinite(each)) return true;
    double whole = log->grad_norm * log->grad_norm;
    if (!graph->settings.gradients_mean) whole /= replicas * replicas, each /= replicas;
    log->signal = kept * log->signal + (1 - kept) * (replicas * whole - each) / (replicas - 1);
    log->noise = kept * log->noise + (1 - kept) * (each - whole) * rows / (replicas - 1);
    return true;
}

/* Whether records are wanted, in a file or a page. */
static bool wants_records(const Run *run) {
    return run->log->metrics || run->training->curve;
}

static bool write_record(Run *run, const Record *record, Error *error) {
    if (run->training->curve) curve_add(run->training->curve, record);
    return !run->log->metrics || metrics_write(run->log->metrics, record, error) || (run->agreed = false);
}

static bool write_metrics(Run *run, double loss, double now, Error *error) {
    RunLog *log = run->log;
    Record record = {
        .at = &run->position,
        .n = 4,
        .measured = {
            {"loss", loss}, {"lr", executor_rate(run->executor)}, {"seconds", now - log->begin}, {"samples_per_s", log->samples_per_s}}};
    if (graph_find_report(executor_graph(run->executor), "penalty") >= 0) record.measured[record.n++] = (Measured){"penalty", log->penalty};
    if (graph_find_report(executor_graph(run->executor), "grad_norm") >= 0)
        record.measured[record.n++] = (Measured){"grad_norm", log->grad_norm};
    if (graph_find_report(executor_graph(run->executor), "replica_norm2") >= 0)
        record.measured[record.n++] = (Measured){"noise_scale", log->signal > 0 ? log->noise / log->signal : NAN};
    return write_record(run, &record, error);
}

static bool is_due(const Run *run, int64_t global_step) {
    const int64_t every = run->plan.graph.settings.log_every;
    return every <= 0 || (global_step - numbered_less(run)) % every == 0;
}

bool log_wants_loss(const Run *run) {
    return run->log->sums || is_due(run, run->position.global_step + 1) || shows_progress(run->log, now_seconds());
}

/* Adds the losses of the driven ranks at this step to sums; the rest of sums is left from gathering for the last line. */
static void sum_losses(Run *run) {
    RunLog *log = run->log;
    const Comm *comm = run->comm;
    const double *own;
    for (int i = 0, most = executor_most_slices(run->executor); log->sums && i < comm->ndriven; i++)
        for (int k = executor_losses(run->executor, i, &own); k-- > 0;)
            log->sums[(comm->first_driven + i) * most + k] += own[k];
    log->nsummed++;
}

static void forget_sums(Run *run) {
    const size_t n = (size_t)run->comm->nranks * (size_t)executor_most_slices(run->executor);
    if (run->log->sums) memset(run->log->sums, 0, n * sizeof *run->log->sums);
    run->log->nsummed = 0;
}

bool log_step(Run *run, Error *error) {
    RunLog *log = run->log;
    const double *losses;
    double now = now_seconds();
    bool due = is_due(run, run->position.global_step);
    int n = executor_losses(run->executor, 0, &losses);
    if (n > 0 && executor_bad_update(run->executor) == 0) run->seen_step = run->position.global_step;
    sum_losses(run);
    if (run->comm->process != 0) n = 0;
    if (n > 0) warn_of(run, losses[0]);
    if (executor_most_slices(run->executor) == 0) return true;
    if (due) {
        Text text = {0};
        if (now > log->last_at)
            log->samples_per_s =
                (double)(run->position.global_step - log->last_step) * (double)executor_batch(run->executor) / (now - log->last_at);
        log->last_at = now;
        log->last_step = run->position.global_step;
        bool ok = read_reports(run, error) && report_losses(run, &text, error);
        pause_for_losses(run);
        if (ok && run->comm->process == 0) say(run, &text);
        ok = ok && write_rank_files(run, error);
        forget_sums(run);
        text_finish(&text);
        if (!ok || (wants_records(run) && n > 0 && !write_metrics(run, losses[0], now, error))) return false;
    }
    if (n > 0) show_progress(run, now, losses[0]);
    return true;
}

/* ---------------------------------------------------------------- evaluations */

static void put_evaluation(Text *text, const Run *run, const EvalResult *result) {
    char digits[NUMBER_MAX];
    const Position *at = &run->position;
    if (at->global_step > 0)
        text_printf(text, at->step == run->epoch_steps ? "epoch: %" PRId64 ", " : "epoch: %" PRId64 " step: %" PRId64 ", ", at->epoch,
                    at->step);
    number_print(digits, result->loss);
    text_printf(text, "eval: loss is %s", digits);
    for (Metric metric = 0; metric < NMETRICS; metric++) {
        if (!result->has[metric]) continue;
        number_print(digits, result->metric[metric]);
        text_printf(text, ", %s is %s", metric_name[metric], digits);
    }
    text_printf(text, " (%" PRId64 " row%s)\n", result->rows, result->rows == 1 ? "" : "s");
}

static bool write_evaluation(Run *run, const EvalResult *result, Error *error) {
    Record record = {.at = &run->position, .eval = true, .rows = result->rows};
    record.measured[record.n++] = (Measured){"loss", result->loss};
    for (Metric metric = 0; metric < NMETRICS; metric++)
        if (result->has[metric]) record.measured[record.n++] = (Measured){metric_name[metric], result->metric[metric]};
    record.measured[record.n++] = (Measured){"seconds", now_seconds() - run->log->begin};
    return write_record(run, &record, error);
}

void log_say(Run *run, Text *text) {
    pause_for_losses(run);
    say(run, text);
    text_finish(text);
}

bool log_evaluation(Run *run, const EvalResult *result, Error *error) {
    RunLog *log = run->log;
    log->last_at += result->seconds; /* samples/s do not include this time */
    if (run->comm->process != 0) return true;
    Text text = {0};
    put_evaluation(&text, run, result);
    log_say(run, &text);
    return !wants_records(run) || write_evaluation(run, result, error);
}
