/* run: one run of prun, from the plan's file to the reports. A mistake that all ranks see is printed once; a failure of one rank alone ends
 * the job and names the rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/best.h"
#include "runtime/checkpoint.h"
#include "runtime/evaluate.h"
#include "runtime/fewer.h"
#include "runtime/figures.h"
#include "runtime/generate.h"
#include "runtime/launch.h"
#include "runtime/log.h"
#include "runtime/page.h"
#include "runtime/profile.h"
#include "runtime/training.h"
#include "runtime/verify.h"

enum { MAX_PLAN_BYTES = 1 << 30 };

/* ---------------------------------------------------------------- before training */

bool share_file(Run *run, const char **text, size_t *n, int64_t bytes, Error *error) {
    Comm *comm = run->comm;
    char *copy = arena_alloc(&run->arena, (size_t)bytes + 1);
    if (comm->process == 0) memcpy(copy, *text, (size_t)bytes);
    *text = copy;
    *n = (size_t)bytes;
    return comm->table->broadcast(comm, copy, bytes, error);
}

/* Rank 0 reads the plan's files and sends their bytes to all. */
static bool read_plan(Run *run, Error *error) {
    Comm *comm = run->comm;
    const int fewer = fewer_find(run->options, comm->nranks); /* rank 0's process decides which plan */
    const char *path = fewer < 0 ? run->options->plan : run->options->fewer[fewer];
    size_t npath = strlen(path);
    PlanFiles files = {0};
    bool ok = comm->process != 0 || plan_files_read(&files, &run->arena, path, MAX_PLAN_BYTES, error);
    int64_t head[5] = {ok ? 0 : error->code, (int64_t)files.n, files.side != NULL, (int64_t)files.nside, (int64_t)npath};
    if (!comm->table->broadcast(comm, head, sizeof head, error)) return run->agreed = false;
    if (head[0] != 0) return comm->process == 0 ? false : error_reported(error, (int)head[0]);
    if (!share_file(run, &path, &npath, head[4], error) || !share_file(run, &files.text, &files.n, head[1], error))
        return run->agreed = false;
    if (head[2] && !share_file(run, &files.side, &files.nside, head[3], error)) return run->agreed = false;
    run->training->text_hash = XXH64(files.text, files.n, 0); /* the text contains the side file's checksum */
    run->path = path;
    run->directory = plan_folder(path, &run->arena);
    return comm_agree(comm, plan_read_files(&run->plan, &run->arena, path, &files, 0, error), error);
}

/* Whether all ranks have the same plan: the same text, and the same net. */
static bool check_same(Run *run, Error *error) {
    Comm *comm = run->comm;
    const uint64_t own[2] = {run->training->text_hash, run->plan.net_hash};
    static const char *const differs[] = {"text", "net hash"};
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *words);
    for (int i = 0; comm->nprocesses > 1 && i < 2; i++) {
        if (!comm->table->all_gather_words(comm, own[i], words, error)) return run->agreed = false;
        for (int p = 0; p < comm->nprocesses; p++)
            if (words[p] != words[0])
                return error_set(error, EXIT_REJECTED, "rank %d has another plan than rank 0 (%s differs)", p, differs[i]);
    }
    return true;
}

/* Prints a note on a plan that was not proved; it runs as any other. */
static void note_certificate(const Run *run) {
    const char *path = run->path;
    if (run->comm->process != 0 || (run->plan.certificate && run->plan.certificate_bound)) return;
    if (run->plan.certificate)
        fprintf(stderr, "prun: note: the certificate of %s does not say of which text it is: pcc check %s proves the plan again\n", path,
                path);
    else
        fprintf(stderr, "prun: note: %s has no certificate, nothing was proved of it: pcc check %s proves it\n", path, path);
}

static bool check_ranks(const Run *run, Error *error) {
    int needs = run->plan.graph.nranks, has = run->comm->nranks;
    const char *path = run->path;
    char started[64] = "";
    if (needs == has) return true;
    if (run->options->nranks > 0)
        snprintf(started, sizeof started, ", --ranks says %d", has);
    else if (run->comm->nprocesses > 1)
        snprintf(started, sizeof started, ", %d were started", has);
    const char *s = needs == 1 ? "" : "s";
    const char *lacks = launch_lacks();
    if (has == 1 && run->options->nranks == 0 && lacks)
        return error_set(
            error, EXIT_REJECTED,
            "this plan is for %d ranks, which RANK and WORLD_SIZE do not bring together without %s: set that too, or run `prun --nproc %d %s`",
            needs, lacks, needs, path);
    bool alone;
    slurm_processes(&alone);
    if (alone && has == 1 && run->options->nranks == 0)
        return error_set(
            error, EXIT_REJECTED,
            "this plan is for %d ranks, and without srun prun is one process: run `srun -n %d prun %s`, `prun --nproc %d %s` or `prun "
            "--ranks %d %s`",
            needs, needs, path, needs, path, needs, path);
    return error_set(error, EXIT_REJECTED, "this plan is for %d rank%s%s: run `mpirun -n %d prun %s` or `prun --ranks %d %s`", needs, s,
                     started, needs, path, needs, path);
}

int find_print(const Graph *graph, const char *print, bool *full) {
    const char *colon = strchr(print, ':');
    const size_t n = colon ? (size_t)(colon - print) : strlen(print);
    *full = colon && strcmp(colon, ":full") == 0;
    for (int i = 0; i < graph->states.n && (!colon || *full); i++)
        if (strncmp(graph->states.at[i].name, print, n) == 0 && graph->states.at[i].name[n] == '\0') return i;
    return -1;
}

Executor *state_holder(const Run *run) {
    if (run->generator) return generator_executor(run->generator);
    return run->executor ? run->executor : evaluation_executor(run->evaluation);
}

static bool check_prints(Run *run, Error *error) {
    const Graph *graph = &run->plan.graph;
    for (int i = 0; i < run->options->nprints; i++) {
        const char *name = run->options->prints[i];
        bool full;
        if (find_print(graph, name, &full) >= 0) continue;
        const char *colon = strchr(name, ':');
        if (colon && strcmp(colon, ":full") != 0)
            return error_set(error, EXIT_USAGE, "--print %s: behind a name stands nothing or :full", name);
        const char **names = arena_alloc(&run->arena, (size_t)graph->states.n * sizeof *names);
        for (int k = 0; k < graph->states.n; k++)
            names[k] = graph->states.at[k].name;
        const char *plain = colon ? arena_copy(&run->arena, name, (size_t)(colon - name)) : name,
                   *near = name_nearest(plain, names, graph->states.n);
        for (int k = 0; !near && k < graph->states.n; k++) /* of a call: its first parameter */
            if (strncmp(names[k], plain, strlen(plain)) == 0 && names[k][strlen(plain)] == '.') near = names[k];
        if (near)
            return error_set(error, EXIT_USAGE, "--print %s: the net has no such parameter; did you mean %s%s?", name, near,
                             colon ? colon : "");
        return error_set(error, EXIT_USAGE, "--print %s: the net has no such parameter", name);
    }
    return true;
}

static bool check_steps(const Run *run, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    int64_t steps;
    if (settings->epochs >= 0 && settings->steps >= 0 && mul_checked(settings->epochs, settings->steps, &steps)) return true;
    return error_set(error, EXIT_REJECTED, "%lld epochs of %lld steps are too many", (long long)settings->epochs,
                     (long long)settings->steps);
}

/* Steps whose times are kept: the first million are enough for a median. */
static int64_t timed_steps(const Run *run) {
    int64_t steps;
    bool fits = mul_checked(run->plan.graph.settings.epochs, executor_steps(run->executor), &steps);
    return fits && steps < MAX_TIMED ? steps : MAX_TIMED;
}

/* Agrees on what process 0 checks for all: its error needs no rank before it. */
static bool told_by_first(Run *run, bool ok, Error *error) {
    Error own = *error;
    if (comm_agree(run->comm, ok, error)) return true;
    if (run->comm->process == 0 && !ok) *error = own;
    return false;
}

static bool saves_checkpoints(const Run *run) {
    const Settings *settings = &run->plan.graph.settings;
    return settings->checkpoint_steps > 0 || settings->checkpoint_epochs;
}

/* Every process has read its own file of that name: checks that copies of a state are equal. */
static bool same_file(Run *run, const char *path, Error *error) {
    if (run->comm->nprocesses == 1) return true;
    const bool same = replicas_check(run, arena_printf(&run->arena, "%s is not the same file for all ranks", path), error);
    run->replicas_compared = 0;
    return same;
}

/* Does --load and --resume, and decides where checkpoints go. */
static bool restore(Run *run, Error *error) {
    const RunOptions *options = run->options;
    const Settings *settings = &run->plan.graph.settings;
    const char *path = options->resume;
    run->position = (Position){.epoch = 1};
    run->training->checkpoints = options->checkpoint ? options->checkpoint : arena_printf(&run->arena, "%s.checkpoints", options->plan);
    Executor *holder = state_holder(run);
    DataOrder then, now;
    if (path &&
        !checkpoint_resume(holder, run->comm, &run->plan, run->training->checkpoints, &run->arena, &path, &run->position, &then, error))
        return false;
    if (options->load && !checkpoint_load(holder, run->comm, &run->plan, options->load, &options->rules, error)) return false;
    if ((path || options->load) && !same_file(run, path ? path : options->load, error)) return false;
    if (!told_by_first(run, figures_known(holder, path ? path : options->load, error), error)) return false;
    run->epoch_steps = run->executor ? executor_steps(run->executor) : path ? then.steps : 0;
    if (options->averages && !run->plan.graph.settings.ema) {
        error_set(error, EXIT_USAGE, "--averages: this plan keeps no averages of its parameters (train { ema = 0.999; })");
        return comm_first_says(run->comm, error);
    }
    if (!told_by_first(run, run->comm->process != 0 || !options->save || checkpoint_can_save(options->save, error), error)) return false;
    if (!run->executor) return true;
    executor_order(run->executor, &now);
    if (path && !told_by_first(run, position_convert(&run->position, &then, &now, path, error), error)) return false;
    const Position *at = &run->position;
    executor_set_updates(run->executor, at->global_step, (at->epoch - 1) * now.steps + at->step - at->global_step);
    int64_t steps = executor_steps(run->executor);
    bool leads = run->comm->process == 0, ok = true;
    if (leads && path && (at->epoch > settings->epochs || (at->epoch == settings->epochs && at->step == steps)))
        fprintf(stderr, "prun: note: %s stands at the end of epoch %lld, and the plan has %lld: nothing is left to train\n", path,
                (long long)at->epoch, (long long)settings->epochs);
    best_forget_others(settings, run->position.watched);
    run->training->replaces = options->overwrite;
    if (ok && leads && (saves_checkpoints(run) || options->import))
        ok = checkpoint_claim(run->training->checkpoints, path, at->global_step, &run->training->replaces, &run->training->lock, error);
    return told_by_first(run, ok, error);
}

/* Called when means and names of classes are known: those of a loaded file take precedence over those that training has found. */
static bool know_data(Run *run, Error *error) {
    Executor *const executors[] = {run->executor, run->evaluation ? evaluation_executor(run->evaluation) : NULL};
    for (int i = 0; i < 2; i++)
        if (executors[i] && !told_by_first(run, executor_know_data(executors[i], error), error)) return false;
    for (int i = 0; i < 2; i++)
        if (executors[i]) executor_note_data(executors[i]);
    return true;
}

/* --profile, --trace, --report. The table is rank 0's, and so are the peaks. */
static bool open_profile(Run *run, Error *error) {
    const RunOptions *options = run->options;
    if (!told_by_first(run, page_open(run, error), error)) return false;
    if (!options->profile && !options->trace && !run->training->lanes) return true;
    run->training->profile = profile_create(run->executor, &run->device, options->trace, run->training->lanes, error);
    const bool peaks = (options->profile || run->training->lanes) && run->comm->process == 0;
    bool ok = run->training->profile && (!peaks || profile_measure(run->training->profile, error));
    executor_profile(run->executor, run->training->profile);
    return comm_agree(run->comm, ok, error);
}

static bool prepare(Run *run, int *argc, char ***argv, Error *error) {
    run->comm = comm_of_launch(run->options, argc, argv, error);
    if (!run->comm || !read_plan(run, error)) return false;
    bool ok = check_same(run, error) && check_ranks(run, error) && check_prints(run, error) && check_outputs(run, error) &&
              check_steps(run, error);
    if (!comm_agree(run->comm, ok, error)) return false;
    note_certificate(run);
    run->comm->plan = &run->plan;
    run->comm->name_place = executor_name_place;
    const char *on_nan = run->options->on_nan;
    run->on_nan = !on_nan ? run->plan.graph.settings.on_nan : strcmp(on_nan, on_nan_name[ON_NAN_GO]) == 0 ? ON_NAN_GO : ON_NAN_STOP;
    run->nthreads = threads_each(run->comm);
    if (!open_device(run, error)) return false;
    /* In a captured step the process cannot wait for an operator. */
    const char *against = run->options->no_graph ? "--no-graph" : run->options->wait ? "--sync" : NULL;
    if (generates_only(run)) {
        run->generator = generator_create(run, error);
        if (!run->generator) return false;
        generator_capture(run->generator, against);
        return comm_agree(run->comm, check_held(run, error), error) && restore(run, error);
    }
    if (!evaluates_only(run)) {
        run->executor = executor_create(&run->plan, "train", &run->device, run->comm, run->directory, run->nthreads, error);
        if (!run->executor) return false;
        executor_capture(run->executor, against);
        if (run->on_nan == ON_NAN_STOP) executor_guard(run->executor, run->options->wait);
    }
    run->training->eval = evaluation_when(&run->plan, &run->training->eval_steps);
    if (evaluates_only(run) || run->training->eval != EVAL_NEVER) {
        run->evaluation =
            evaluation_create(&run->plan, run->options, run->executor, &run->device, run->comm, run->directory, run->nthreads, error);
        if (!run->evaluation) return false;
        executor_capture(evaluation_executor(run->evaluation), against);
        if (run->executor && !comm_agree(run->comm, best_check(&run->plan.graph.settings, run->evaluation, error), error)) return false;
    }
    if (!comm_agree(run->comm, check_held(run, error), error)) return false;
    if (run->options->verify) {
        run->training->verifier = verifier_create(&run->plan, run->options->verify, run->executor, run->comm, run->nthreads, error);
        if (!run->training->verifier) return false;
    }
    if (!restore(run, error) || !know_data(run, error)) return false;
    if (!run->executor) return true;
    if (!open_profile(run, error)) return false;
    run->losses = arena_alloc(&run->arena, (size_t)run->comm->nranks * (size_t)executor_most_slices(run->executor) * sizeof *run->losses);
    run->step_seconds = arena_alloc(&run->arena, (size_t)timed_steps(run) * sizeof *run->step_seconds);
    return true;
}

/* ---------------------------------------------------------------- training */

/* `checkpoint every ..`: whether one is due, after the last step of an epoch or every so many steps. */
static bool checkpoint_is_due(const Run *run, const Position *at) {
    const Settings *settings = &run->plan.graph.settings;
    return (settings->checkpoint_epochs && at->step == executor_steps(run->executor)) ||
           (settings->checkpoint_steps > 0 && at->global_step % settings->checkpoint_steps == 0);
}

bool training_checkpoint(Run *run, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    const Position *at = &run->position;
    const bool finite = run->on_nan == ON_NAN_STOP;
    comm_doing(run->comm, DOING_SAVE, at->global_step);
    if (!checkpoint_save(run->executor, run->comm, &run->plan, checkpoint_path(&run->arena, run->training->checkpoints, at->global_step),
                         settings->checkpoint_per_rank ? SAVED_SLICES : SAVED_ALL, finite, at, error))
        return false;
    run->training->saved_step = at->global_step;
    if (run->comm->process == 0)
        checkpoint_prune(run->training->checkpoints, run->training->replaces, settings->keep, at->watched[WATCH_BEST].step,
                         at->global_step);
    run->training->replaces = false;
    return true;
}

/* --save. */
static bool save(Run *run, Error *error) {
    const char *path = run->options->save;
    if (path) comm_doing(run->comm, DOING_SAVE, run->position.global_step);
    return !path ||
           checkpoint_save(state_holder(run), run->comm, &run->plan, path, run->options->averages ? SAVED_AVERAGES : SAVED_PARAMETERS,
                           run->on_nan == ON_NAN_STOP, &run->position, error);
}

/* When the loss of an evaluation is not finite: warns, once, of the row of its data that makes it so, if one does. Collective. */
static bool warn_of_row(Run *run, Error *error) {
    Executor *executor = evaluation_executor(run->evaluation);
    Text text = {0};
    int64_t at;
    bool any = false;
    if (run->training->looked) return true;
    run->training->looked = true;
    const bool ok = executor_find_bad_input(executor, 0, executor_steps(executor) - 1, &text, &at, &any, error);
    log_pause(run);
    if (text.at) fprintf(stderr, "prun: warning: the loss of the evaluation is not finite: %s\n", text.at);
    text_finish(&text);
    return ok;
}

/* Evaluates all rows of the eval block's data and prints the line. What its communications send does not count for training steps. */
static bool evaluate(Run *run, Error *error) {
    Comm *comm = run->comm;
    EvalResult result;
    bool own_failure = false;
    comm_doing(comm, DOING_EVALUATION, run->position.global_step);
    if (!comm->table->barrier(comm, error)) return run->agreed = false; /* counters are exact */
    for (int i = 0; run->executor && i < comm->ndriven; i++)
        executor_exclude_bytes(run->executor, i, -comm->counters[i].sent_bytes);
    if (!evaluation_run(run->evaluation, run->options->predict, &result, &own_failure, error)) {
        run->agreed = run->agreed && !own_failure;
        return false;
    }
    if (result.has_loss && !isfinite(result.loss) && !warn_of_row(run, error)) return run->agreed = false;
    if (!comm->table->barrier(comm, error)) return run->agreed = false;
    for (int i = 0; run->executor && i < comm->ndriven; i++)
        executor_exclude_bytes(run->executor, i, comm->counters[i].sent_bytes);
    if (result.has_loss && !log_evaluation(run, &result, error)) return false;
    if (run->training->verifier && !verifier_evaluation(run->training->verifier, &result, run->position.epoch, run->position.step, error))
        return false;
    return !run->executor || run->position.global_step == 0 || best_compare(run, &result, error);
}

static bool evaluation_is_due(const Run *run, const Position *at) {
    return (run->training->eval == EVAL_EPOCH && at->step == executor_steps(run->executor)) ||
           (run->training->eval == EVAL_STEPS && at->global_step % run->training->eval_steps == 0);
}

/* Whether it evaluates after the last step; without any step the parameters are evaluated as they are. */
static bool evaluates_last(const Run *run) {
    return run->training->eval == EVAL_END || (run->plan.graph.settings.epochs == 0 && run->training->eval != EVAL_NEVER);
}

/* A run that ended between a checkpoint and the evaluation of its step left the evaluation to the run that resumes. */
bool evaluates_again(const Run *run) {
    const Position *at = &run->position;
    if (!run->options->resume || !run->executor || at->global_step == 0) return false;
    const bool nothing_left = at->epoch >= run->plan.graph.settings.epochs && at->step == executor_steps(run->executor);
    return evaluation_is_due(run, at) || (evaluates_last(run) && nothing_left);
}

/* Whether the step at this place must be finished because something is read after it. */
static bool must_be_done(const Run *run, const Position *at) {
    const bool last = at->epoch == run->plan.graph.settings.epochs && at->step == executor_steps(run->executor);
    return last || run->training->verifier || run->options->check_replicas || log_wants_loss(run) || evaluation_is_due(run, at) ||
           checkpoint_is_due(run, at);
}

/* When the loss of a step is not finite: the error says where that came from, and what checkpoint there is. All processes are here. */
static bool stop_at_bad(Run *run, Error *error) {
    const int64_t steps = executor_steps(run->executor), bad = run->training->stop.bad_step, later = run->position.global_step - bad;
    const int64_t at = (run->position.epoch - 1) * steps + run->position.step - 1 - later; /* over all epochs, from 0 */
    int64_t first = at - (bad - run->seen_step - 1), begin = at - (bad - run->training->began - 1);
    if (first < begin) first = begin;
    log_pause(run);
    executor_find_bad(run->executor, first < 0 ? 0 : first, at, bad - run->training->began, executor_bad_update(run->executor) == bad,
                      error);
    if (error->reported || error->code != EXIT_MISMATCH) return false;
    const Error found = *error;
    Text text = {0};
    text_printf(&text, "the loss is not finite in epoch %lld step %lld: %.800s; training stops", (long long)(at / steps + 1),
                (long long)(at % steps + 1), found.text);
    if (run->training->saved_step >= 0)
        text_printf(&text, ", its last checkpoint is %s",
                    checkpoint_path(&run->arena, run->training->checkpoints, run->training->saved_step));
    text_printf(&text, " (--on-nan go goes on)");
    error_set(error, EXIT_MISMATCH, "%.1000s", text.at);
    text_finish(&text);
    return false;
}

/* Whether training goes on after this step, by what all processes know: run->training->stop. */
static bool look_around(Run *run, Error *error) {
    const Position *at = &run->position;
    const bool stops = run->on_nan == ON_NAN_STOP,
               last = at->epoch == run->plan.graph.settings.epochs && at->step == executor_steps(run->executor);
    /* In other modes a loss is the same on all ranks; on devices ranks do not see it at the same step. */
    const bool alone = run->plan.graph.replicas > 0 || run->device.backend->queue;
    const bool now = stops && alone && (last || evaluation_is_due(run, at) || checkpoint_is_due(run, at));
    if (stop_look(&run->training->stop, run->comm, at->global_step, stops ? executor_bad_update(run->executor) : 0, alone, now, error))
        return true;
    const int self = run->comm->first_driven;                                           /* this rank waited in vain */
    if (error->rank < 0 || error->rank == self) error_prefix(error, "rank %d, ", self); /* else the text begins with the rank */
    error_prefix(error, "in step %lld of epoch %lld: ", (long long)at->step, (long long)at->epoch);
    return run->agreed = false;
}

/* --report alone measures some of the steps; where steps are captured, only those at the beginning, after which they are captured again without points in time. */
static void choose_measured(Run *run, const Position *next) {
    Training *training = run->training;
    if (!training->lanes) return;
    const bool alone = !run->options->profile && !run->options->trace;
    if (alone && lanes_pause(training->lanes, run->nsteps) && executor_recapture(run->executor)) lanes_end(training->lanes);
    const bool measured = lanes_begin(training->lanes, run->nsteps, next->global_step);
    if (alone) executor_profile(run->executor, measured ? training->profile : NULL);
}

/* SIGUSR1: saves a checkpoint of the step that is done, unless one is due anyway. Collective. */
static bool checkpoint_asked(Run *run, Error *error) {
    const Position *at = &run->position;
    const char *path = checkpoint_path(&run->arena, run->training->checkpoints, at->global_step);
    const bool saves = saves_checkpoints(run);
    if (!executor_settle(run->executor, error)) return run->agreed = false;
    if (saves && !checkpoint_is_due(run, at) && !training_checkpoint(run, error)) return false;
    log_pause(run);
    if (run->comm->process != 0) return true;
    fprintf(stderr, "prun: SIGUSR1: after epoch %lld step %lld %s\n", (long long)at->epoch, (long long)at->step,
            saves ? arena_printf(&run->arena, "the checkpoint %s is there; training goes on", path)
                  : "there is no checkpoint: the plan takes none (`checkpoint every epoch;` in the train block); training goes on");
    return true;
}

static bool train_step(Run *run, int64_t epoch, int64_t step, Error *error) {
    if (run->training->verifier && !verifier_before(run->training->verifier, error)) return run->agreed = false;
    Position next = run->position;
    next.epoch = epoch;
    next.step = step;
    next.global_step++;
    choose_measured(run, &next);
    comm_doing(run->comm, DOING_STEP, next.global_step);
    double begin = now_seconds();
    bool ok = must_be_done(run, &next) ? executor_step(run->executor, epoch, step, error)
                                       : executor_step_ahead(run->executor, epoch, step, error);
    if (!ok) return run->agreed = false;
    comm_doing(run->comm, DOING_NEXT, next.global_step);
    run->position = next;
    const int64_t number = run->nsteps++;
    if (!log_step(run, error) || !look_around(run, error)) return false;
    if (number < MAX_TIMED) run->step_seconds[number] = now_seconds() - begin; /* includes waiting for ranks that share its core */
    if (run->training->stop.bad_step > 0) return stop_at_bad(run, error);
    if (run->training->verifier && !verifier_after(run->training->verifier, epoch, step, error)) return false;
    char when[64];
    snprintf(when, sizeof when, "after epoch %lld step %lld", (long long)epoch, (long long)step);
    if (run->options->check_replicas && !replicas_check(run, when, error)) return false;
    if (checkpoint_is_due(run, &next) && !training_checkpoint(run, error)) return false;
    if (run->training->stop.checkpoint && !checkpoint_asked(run, error)) return false;
    return run->training->stop.signal || !evaluation_is_due(run, &next) || evaluate(run, error);
}

/* When a signal has ended the training: saves what was done, and prints the command that goes on from there. Collective. */
static bool end_early(Run *run, Error *error) {
    const Position *at = &run->position;
    if (!executor_settle(run->executor, error)) return run->agreed = false;
    if (saves_checkpoints(run) && run->training->saved_step != at->global_step && !training_checkpoint(run, error)) return false;
    if (!save(run, error)) return false;
    log_pause(run);
    if (run->comm->process != 0) return true;
    Text text = {0};
    text_printf(&text, "prun: %s: training ends after epoch %lld step %lld", stop_signal_name(run->training->stop.signal),
                (long long)at->epoch, (long long)at->step);
    if (saves_checkpoints(run)) {
        text_printf(&text, ", with a checkpoint; it goes on with\n   ");
        stop_command(&text, run->comm, run->training->argc, run->training->argv);
        text_printf(&text, "\n");
    } else {
        text_printf(&text,
                    "; the plan takes no checkpoints (`checkpoint every epoch;` in the train block), so nothing can go on from there\n");
    }
    fputs(text.at, stderr);
    text_finish(&text);
    return true;
}

/* When all steps are done: evaluates, restores and saves as asked. */
static bool end_whole(Run *run, Error *error) {
    return (!evaluates_last(run) || evaluate(run, error)) && best_restore(run, error) && save(run, error);
}

/* Gathers a state of one number, by its name; *number is unchanged where the plan has none. Collective. */
static bool gather_number(Run *run, const char *name, double *number, Error *error) {
    const Graph *graph = &run->plan.graph;
    for (int i = 0; i < graph->states.n; i++) {
        double *whole;
        if (strcmp(graph->states.at[i].name, name) != 0) continue;
        if (!executor_gather_state(run->executor, i, &run->arena, &whole, error)) return run->agreed = false;
        *number = whole[0];
    }
    return true;
}

/* precision = f16: each skipped step halves the scale of the loss; warns if the scale shows that all steps were skipped. */
static bool warn_of_skipped(Run *run, double before, Error *error) {
    double after = before;
    if (run->plan.graph.settings.precision != F16 || run->nsteps == 0) return true;
    if (!gather_number(run, "optimizer.loss_scale", &after, error)) return false;
    if ((after == 0 || after == ldexp(before, -(int)(run->nsteps < 1000 ? run->nsteps : 1000))) && run->comm->process == 0)
        fprintf(stderr,
                "prun: warning: no parameter has changed: in each of the %lld steps a gradient was not finite (precision = f16; the scale "
                "of the loss is %g now)\n",
                (long long)run->nsteps, after);
    return true;
}

static bool goes_on(const Run *run) {
    return !run->training->stop.signal && !run->training->enough;
}

static bool train(Run *run, Error *error) {
    const Settings *settings = &run->plan.graph.settings;
    if (run->options->verbose && !report_ranks(run, error)) return false;
    if (!log_open(run, error)) return false;
    if (run->options->check_replicas && !replicas_check(run, "before the first step", error)) return false;
    if (!evaluates_last(run) && evaluates_again(run) && !evaluate(run, error)) return false;
    if (!best_find(run, error)) return false;
    int64_t epoch = run->position.epoch, step = run->position.step + 1, steps = executor_steps(run->executor);
    if (step > steps) epoch++, step = 1;
    if (epoch <= settings->epochs && step <= steps && !executor_begin(run->executor, epoch, step, error)) return false;
    double scale = 0; /* of the loss */
    if (run->plan.graph.settings.precision == F16 && !gather_number(run, "optimizer.loss_scale", &scale, error)) return false;
    run->training->began = run->seen_step = run->position.global_step;
    stop_open(&run->training->stop, run->training->began);
    for (; goes_on(run) && epoch <= settings->epochs; epoch++, step = 1)
        for (; goes_on(run) && step <= steps; step++)
            if (!train_step(run, epoch, step, error)) return false;
    if (run->training->stop.signal ? !end_early(run, error) : !end_whole(run, error)) return false;
    stop_close(&run->training->stop);
    log_pause(run);
    if (!warn_of_skipped(run, scale, error)) return false;
    Text text = {0};
    report_time(run, &text);
    executor_lengths(run->executor, &text);
    const char *note = executor_capture_note(run->executor);
    if (run->options->verbose && *note) text_printf(&text, "%s\n", note);
    bool ok = report_bytes(run, &text, error) && (!run->options->verbose || report_read(run, &text, error));
    if (ok && run->training->verifier) verifier_report(run->training->verifier, &text);
    if (ok && run->options->check_replicas)
        text_printf(&text, "replicas: %lld comparisons of parts of states, all equal bit for bit\n", (long long)run->replicas_compared);
    if (ok && run->options->profile && run->comm->process == 0)
        ok = profile_report(run->training->profile, &text, error) || (run->agreed = false); /* the others go on, so the job is aborted */
    if (ok && run->options->trace) ok = profile_write(run->training->profile, run->comm, run->options->trace, error);
    ok = ok && page_write(run, error) && report_parameters(run, &text, error);
    if (ok && run->comm->process == 0) say(run, &text);
    text_finish(&text);
    return ok;
}

/* --eval, --predict: one evaluation of the states that were loaded. */
static bool evaluate_only(Run *run, Error *error) {
    if (run->options->verbose && !report_ranks(run, error)) return false;
    if (run->comm->process == 0 && !run->options->load && !run->options->resume && run->plan.graph.states.n > 0)
        fputs("prun: note: neither --load nor --resume: these are the parameters that the net begins with\n", stderr);
    if (!log_open(run, error) || !evaluate(run, error)) return false;
    const char *path = run->options->predict;
    if (!save(run, error)) return false;
    Text text = {0};
    if (path)
        text_printf(&text, "predictions: %s, %lld rows of %s\n", path, (long long)executor_rows(evaluation_executor(run->evaluation)),
                    evaluation_row_type(run->evaluation, &run->arena));
    bool ok = report_parameters(run, &text, error);
    if (ok && run->comm->process == 0) say(run, &text);
    text_finish(&text);
    return ok;
}

/* --generate: text, of the states that were loaded. */
static bool generate_only(Run *run, Error *error) {
    if (run->options->verbose && !report_ranks(run, error)) return false;
    if (run->comm->process == 0 && !run->options->load && !run->options->resume && run->plan.graph.states.n > 0)
        fputs("prun: note: neither --load nor --resume: these are the parameters that the net begins with\n", stderr);
    return generator_run(run->generator, run, error);
}

/* --import: the states that training would begin with. */
static bool import_only(Run *run, Error *error) {
    Text text = {0};
    if (!training_checkpoint(run, error)) return false;
    text_printf(&text, "%s: %s\n", checkpoint_path(&run->arena, run->training->checkpoints, 0), run->options->load);
    if (run->comm->process == 0) say(run, &text);
    text_finish(&text);
    return true;
}

static bool run_prepared(Run *run, Error *error) {
    if (run->options->import) return import_only(run, error);
    return generates_only(run) ? generate_only(run, error) : evaluates_only(run) ? evaluate_only(run, error) : train(run, error);
}

/* Whether a restart would fail too: all ranks agree that something is missing or wrong, before the first step. */
static bool fails_for_good(const Run *run, int code) {
    return code == EXIT_ENVIRONMENT && run->options->launch.nproc > 0 && run->comm && run->agreed && !run->comm->place->broken &&
           run->nsteps == 0;
}

int run(const RunOptions *options, int *argc, char ***argv) {
    Training training = {.lock = -1, .saved_step = -1, .argc = *argc, .argv = *argv};
    Run run = {.options = options, .training = &training, .agreed = true};
    Error error = {0};
    arena_init(&run.arena);
    plan_init(&run.plan, &run.arena);
    signal(SIGPIPE, SIG_IGN); /* say reports it */
    bool ok = prepare(&run, argc, argv, &error) && run_prepared(&run, &error);
    int code = !ok ? error.code : training.stop.signal ? 128 + training.stop.signal : run.unheard ? EXIT_ENVIRONMENT : EXIT_DONE;
    stop_close(&training.stop); /* a rank that fails together with others waits for the launcher to end it */
    /* The others may be waiting for this rank in a communication. */
    if (!ok && run.comm && run.comm->nprocesses > 1 && (!run.agreed || run.comm->place->broken))
        run.comm->table->abort(run.comm, code, error.text);
    if (!ok) comm_say(&error);
    if (!ok && fails_for_good(&run, code)) code = EXIT_FOR_GOOD;
    if (training.lock >= 0) close(training.lock);
    log_close(&run);
    profile_destroy(training.profile);
    page_close(&run);
    verifier_destroy(training.verifier);
    evaluation_destroy(run.evaluation);
    generator_destroy(run.generator);
    executor_destroy(run.executor);
    if (run.comm) run.comm->table->destroy(run.comm);
    device_close(&run.device);
    arena_finish(&run.arena);
    return code;
}
