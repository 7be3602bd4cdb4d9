#include "runtime/page.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"
#include "report/page.h"
#include "report/plan.h"
#include "runtime/training.h"

enum { MAX_PAGE_BYTES = 1 << 30 };

/* ---------------------------------------------------------------- the file */

static bool cannot_be_read(const char *path, Error *error) {
    return error_set(error, EXIT_USAGE, "--report %s: its data cannot be read: make it anew with pcc --report", path);
}

/* Whether the plan's data in a page are complete, and of the format that prun writes. */
static bool check_data(const Text *plan, const char *path, Error *error) {
    cJSON *json = cJSON_ParseWithLength(plan->at, plan->n);
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(json, "format");
    const bool known = cJSON_IsNumber(format);
    const double number = known ? format->valuedouble : 0;
    cJSON_Delete(json);
    if (!known) return cannot_be_read(path, error);
    return number == PAGE_FORMAT ||
           error_set(error, EXIT_USAGE,
                     "--report %s: its data have format %.15g, and prun %s adds to format %d: make it anew with pcc --report", path, number,
                     PCC_VERSION, PAGE_FORMAT);
}

/* Reads the existing page; *there false: there is none. */
static bool read_page(Run *run, Arena *arena, Page *page, bool *there, Error *error) {
    const char *path = run->options->report;
    char *text, own[17], its[17];
    size_t n;
    *page = (Page){0};
    *there = access(path, F_OK) == 0;
    if (!*there) return true;
    if (!file_read(arena, path, MAX_PAGE_BYTES, &text, &n, error)) return false;
    if (n == 0) return *there = false, true;
    if (!page_read(page, text, n))
        return error_set(error, EXIT_USAGE, "--report %s: this file is there and is no report: name another one", path);
    page_checksum(page, its);
    snprintf(own, sizeof own, "%016" PRIx64, run->plan.checksum);
    if (strcmp(own, its) == 0)
        return check_data(&page->element[ELEMENT_PLAN], path, error) || (page_finish(page), *page = (Page){0}, false);
    page_finish(page);
    *page = (Page){0};
    if (its[0] == '\0') return cannot_be_read(path, error);
    return error_set(
        error, EXIT_USAGE,
        "--report %s: it is the report of another plan (checksum %s, of %s %s): name another file, or make it anew with pcc --report", path,
        its, run->path, own);
}

static bool can_write(const char *path, Error *error) {
    char temporary[4096];
    const int file = file_temporary(path, temporary, sizeof temporary);
    if (file < 0) return error_set(error, EXIT_ENVIRONMENT, "--report %s: it cannot be written: %s", path, strerror(errno));
    close(file);
    unlink(temporary);
    return true;
}

static bool check_page(Run *run, Error *error) {
    Arena arena;
    Page page;
    bool there;
    arena_init(&arena);
    const bool ok = read_page(run, &arena, &page, &there, error) && can_write(run->options->report, error);
    page_finish(&page);
    arena_finish(&arena);
    return ok;
}

bool page_open(Run *run, Error *error) {
    Training *training = run->training;
    if (!run->options->report) return true;
    if (run->path != run->options->plan && strcmp(run->path, run->options->plan) != 0) { /* fewer.h */
        if (run->comm->process == 0)
            fprintf(stderr, "prun: note: --report is of %s, and this run of %s: it is not written\n", run->options->plan, run->path);
        return true;
    }
    training->lanes = lanes_create(run->executor, error);
    training->curve = training->lanes ? curve_create(error) : NULL;
    return training->curve && (run->comm->process != 0 || check_page(run, error));
}

void page_close(Run *run) {
    lanes_destroy(run->training->lanes);
    curve_destroy(run->training->curve);
}

/* ---------------------------------------------------------------- the element `run` */

/* Prints the times of all steps but the first. */
static void print_steps(Json *json, const Run *run, Arena *arena) {
    const int64_t kept = run->nsteps < MAX_TIMED ? run->nsteps : MAX_TIMED, first = kept > 1 ? 1 : 0, n = kept - first;
    double *seconds = arena_alloc(arena, (size_t)(n + 1) * sizeof *seconds), sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += seconds[k] = run->step_seconds[first + k];
    json_int(json, "steps", run->nsteps);
    if (n == 0) {
        json_text(json, "step", NULL);
        return;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, compare_seconds);
    json_row(json, "step");
    json_int(json, "mean", nanoseconds(lanes_mean(sum, seconds[n - 1], n)));
    json_int(json, "least", nanoseconds(seconds[0]));
    json_int(json, "most", nanoseconds(seconds[n - 1]));
    json_int(json, "median", nanoseconds((seconds[(n - 1) / 2] + seconds[n / 2]) / 2));
    json_end(json);
}

/* Ends are rounded, not lengths, so that they meet. */
static void add_event(ColumnTable *columns, int step, int nsteps, int lane, double begin, double end, double late) {
    const int64_t from = nanoseconds(begin);
    columns_int(columns, step);
    columns_int(columns, nsteps);
    columns_int(columns, lane);
    columns_int(columns, from);
    columns_int(columns, nanoseconds(end) - from);
    columns_int(columns, nanoseconds(late));
}

/* A communication lasts from its start to the end of the wait for it, unless its own stream has its times. */
static void print_lane(Json *json, const Lane *lane, int node, int64_t shown, const Program *program, Arena *arena) {
    const Role *role = &program->roles.at[lane->role];
    int *wait = arena_alloc(arena, (size_t)(program_requests(program) + 1) * sizeof *wait); /* per request */
    ColumnTable columns;
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_WAIT) wait[role->steps.at[s].request] = s;
    columns_init(&columns, "step steps lane begin length late");
    for (int s = 0; s < role->steps.n; s++) {
        const LaneItem *item = &lane->item[s];
        const Step *step = &role->steps.at[s];
        if (item->nsteps == 0 || item->begin < 0) continue;
        add_event(&columns, s, (int)item->nsteps, 0, lane->offset + item->begin, lane->offset + item->end, lane->late[s]);
        if (step->kind != STEP_START) continue;
        const bool own = item->comm_begin >= 0;
        const LaneItem *ends = &lane->item[wait[step->request]];
        if (!own && ends->nsteps == 0) continue; /* in a bucket the first step has the times */
        add_event(&columns, s, (int)item->nsteps, 1, lane->offset + (own ? item->comm_begin : item->begin),
                  lane->offset + (own ? item->comm_end : ends->end), 0);
    }
    json_object(json, NULL);
    json_int(json, "rank", lane->rank);
    json_int(json, "role", lane->role);
    json_int(json, "node", node);
    json_int(json, "step", shown);
    columns_write(json, "events", &columns);
    json_end(json);
}

static void print_figures(Json *json, const Gathered *gathered, const Program *program) {
    ColumnTable columns;
    columns_init(&columns, "role step steps mean least most late");
    for (int r = 0; gathered->nlanes > 0 && r < program->roles.n; r++)
        for (int s = 0; s < program->roles.at[r].steps.n; s++) {
            const LaneFigure *figure = &gathered->figure[r][s];
            if (figure->n == 0) continue;
            columns_int(&columns, r);
            columns_int(&columns, s);
            columns_int(&columns, figure->nsteps);
            columns_int(&columns, nanoseconds(figure->mean));
            columns_int(&columns, nanoseconds(figure->least));
            columns_int(&columns, nanoseconds(figure->most));
            columns_int(&columns, nanoseconds(figure->late));
        }
    columns_write(json, "figures", &columns);
}

enum { MEMORY_TENSORS, MEMORY_USED, MEMORY_DEVICE, NMEMORY };

/* Memory of each rank in bytes: its tensors; in use on its device; all of its device. -1: not known. */
static bool gather_memory(Run *run, int64_t (*memory)[NMEMORY], Error *error) {
    Comm *comm = run->comm;
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *words);
    int64_t taken, available = 0, total = -1;
    const DeviceQueue *queue = run->device.backend->queue;
    if (queue && !queue->memory(run->device.context, &taken, &available, &total, error)) return run->agreed = false;
    for (int r = 0; r < comm->nranks; r++) {
        ExecutorMemory own;
        executor_memory(&run->plan, "train", r, &own);
        memory[r][MEMORY_TENSORS] = own.arena_bytes + own.state_bytes + own.input_bytes;
    }
    const int64_t own[] = {total < 0 ? -1 : total - available, total};
    for (int k = 0; k < 2; k++) {
        if (!comm->table->all_gather_words(comm, (uint64_t)own[k], words, error)) return run->agreed = false;
        for (int r = 0; r < comm->nranks; r++)
            memory[r][MEMORY_USED + k] = (int64_t)words[comm->nprocesses == 1 ? 0 : r];
    }
    return true;
}

static void print_memory(Json *json, int64_t (*memory)[NMEMORY], int nranks) {
    json_array(json, "memory");
    for (int r = 0; r < nranks; r++) {
        json_list(json, NULL);
        json_int(json, NULL, r);
        for (int k = 0; k < NMEMORY; k++)
            json_int(json, NULL, memory[r][k]);
        json_end(json);
    }
    json_end(json);
}

/* node: per process the lowest rank of its node. */
static bool gather_nodes(Run *run, int *node, Error *error) {
    Comm *comm = run->comm;
    uint64_t *words = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *words);
    if (!comm->table->all_gather_words(comm, (uint64_t)comm->node_first, words, error)) return run->agreed = false;
    for (int p = 0, n = -1; p < comm->nprocesses; p++) {
        n += p == 0 || words[p] == (uint64_t)p;
        node[p] = n;
        for (int q = 0; q < p; q++)
            if (words[q] == words[p]) node[p] = node[q];
    }
    return true;
}

typedef struct RunData {
    Gathered gathered;
    int64_t (*memory)[NMEMORY];
    int *node;
} RunData;

static void print_run(Json *json, Run *run, const RunData *data) {
    const Program *program = &run->plan.programs.at[plan_find(&run->plan, "train")];
    const Comm *comm = run->comm;
    char device[320] = "CPU";
    double flops, bytes;
    if (run->device.backend->queue) run->device.backend->queue->describe(run->device.context, device, sizeof device);
    json_object(json, NULL);
    json_int(json, "format", PAGE_FORMAT);
    json_text(json, "checksum", arena_printf(&run->arena, "%016" PRIx64, run->plan.checksum));
    json_text(json, "prun", PCC_VERSION);
    json_text(json, "device", device);
    json_text(json, "transport", comm->transport);
    json_int(json, "ranks", comm->nranks);
    json_int(json, "nodes", data->node[comm->nprocesses - 1] + 1);
    json_int(json, "threads", run->nthreads);
    print_steps(json, run, &run->arena);
    json_int(json, "measured", data->gathered.measured);
    json_array(json, "lanes");
    for (int l = 0; l < data->gathered.nlanes; l++)
        print_lane(json, &data->gathered.lane[l], data->node[data->gathered.lane[l].process], data->gathered.shown, program, &run->arena);
    json_end(json);
    print_figures(json, &data->gathered, program);
    print_memory(json, data->memory, comm->nranks);
    if (profile_peaks(run->training->profile, &flops, &bytes)) {
        json_row(json, "peaks");
        json_real(json, "flops", flops);
        json_real(json, "bytes", bytes);
        json_end(json);
    } else {
        json_text(json, "peaks", NULL);
    }
    curve_print(json, run->training->curve);
    json_end(json);
}

/* Writes the measurements into the page that is there now, or into one of the plan alone. */
static bool write_file(Run *run, const Text *json, Error *error) {
    Page page;
    bool there;
    Text text = {0};
    if (!read_page(run, &run->arena, &page, &there, error)) return false;
    if (!there) plan_data(&page.element[ELEMENT_PLAN], &run->plan, NULL);
    text_finish(&page.element[ELEMENT_RUN]);
    page.element[ELEMENT_RUN] = (Text){0};
    text_append(&page.element[ELEMENT_RUN], json->at, json->n);
    page_print(&text, &page);
    const bool ok = file_write(run->options->report, text.at, text.n, error);
    text_finish(&text);
    page_finish(&page);
    return ok;
}

bool page_write(Run *run, Error *error) {
    Comm *comm = run->comm;
    RunData data = {.memory = arena_alloc(&run->arena, (size_t)comm->nranks * sizeof *data.memory),
                    .node = arena_alloc(&run->arena, (size_t)comm->nprocesses * sizeof *data.node)};
    if (!run->training->lanes) return true;
    if (!lanes_gather(run->training->lanes, comm, &run->arena, &data.gathered, error)) return run->agreed = false;
    if (!gather_memory(run, data.memory, error) || !gather_nodes(run, data.node, error)) return false;
    bool ok = true;
    if (comm->process == 0) {
        Text text = {0};
        Json json = {.text = &text, .in_page = true};
        print_run(&json, run, &data);
        ok = write_file(run, &text, error);
        text_finish(&text);
    }
    return comm_agree(comm, ok, error);
}
