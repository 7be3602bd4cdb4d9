/* generate: see generate.h. */
#include "runtime/generate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/file.h"
#include "report/json.h"
#include "runtime/data/sampler.h"
#include "runtime/element.h"
#include "runtime/prompts.h"

enum { MAX_PROMPTS_BYTES = 1 << 28 };
enum { WORTHWHILE = 8 }; /* a step of prompt pays if at least one in so many of its places is needed */

struct Generator {
    Plan part, several;          /* the plan as generate sees it, and as prompt does */
    Executor *executor, *prompt; /* prompt owns the states, which executor shares; NULL: places of a prompt are read one by one */
    int64_t places, chunk;       /* of the net; of a step of prompt */
    int64_t ntokens;             /* number of logits of a place */
    int64_t nsteps;              /* steps done by prompt */
    Arena arena;
    Alphabet alphabet;
    Prompts prompts;
    double temperature;
    int64_t top_k, seed, nasked;
    double *logits; /* of one place */
};

/* Counts and times over all prompts. */
typedef struct Tally {
    int64_t nread, ndrawn; /* tokens of prompts; generated tokens */
    double read_s, drawn_s;
} Tally;

/* ---------------------------------------------------------------- drawing */

static int descending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The smallest logit that is among the k largest. */
static double kth_largest(const double *logits, int64_t n, int64_t k) {
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) return -INFINITY;
    memcpy(sorted, logits, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    const double found = sorted[k - 1];
    free(sorted);
    return found;
}

int64_t token_draw(const double *logits, int64_t n, double temperature, int64_t top_k, double uniform) {
    int64_t most = -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i])) return -1;
        if (most < 0 || logits[i] > logits[most]) most = i;
    }
    if (most < 0 || !isfinite(logits[most])) return -1;
    if (temperature == 0) return most;
    const double least = top_k > 0 && top_k < n ? kth_largest(logits, n, top_k) : -INFINITY;
    double sum = 0;
    int64_t left = top_k > 0 ? top_k : n; /* of those that tie for the last place, the first are taken */
    for (int pass = 0; pass < 2; pass++) {
        double before = 0;
        int64_t last = most, above = 0;
        for (int64_t i = 0; i < n; i++)
            above += logits[i] > least;
        for (int64_t i = 0, ties = left - above; i < n; i++) {
            if (logits[i] < least || (logits[i] == least && ties-- <= 0)) continue;
            before += exp((logits[i] - logits[most]) / temperature);
            last = i;
            if (pass == 1 && before > uniform * sum) return i;
        }
        if (pass == 1) return last; /* uniform is near 1, and the sum rounds */
        sum = before;
    }
    return most;
}

/* ---------------------------------------------------------------- the programs */

static const Input *input_of(const Graph *graph, InputKind kind) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == kind) return &graph->inputs.at[i];
    return NULL;
}

static const TensorType *logits_type(const Generator *g) {
    return &g->part.graph.values.at[g->part.graph.reports.at[0].value].type;
}

/* Whether the program generate has what prun needs: a place as an index of all places, a token, logits. */
static bool program_fits(Generator *g, Error *error) {
    const Graph *graph = &g->part.graph;
    const Input *token = input_of(graph, INPUT_TOKEN), *place = input_of(graph, INPUT_PLACE);
    const bool fits = token && place && shape_elements(&token->type.shape) == 1 && shape_elements(&place->type.shape) == 1 &&
                      place->index.end > 0 && place->index.end <= INT32_MAX && graph->reports.n == 1 && graph->reports.at[0].whole &&
                      dtype_is_float(logits_type(g)->dtype);
    if (!fits) return error_set(error, EXIT_REJECTED, "the program generate has no text, or no logits");
    g->places = place->index.end;
    g->ntokens = shape_elements(&logits_type(g)->shape);
    g->logits = arena_alloc(&g->arena, (size_t)g->ntokens * sizeof *g->logits);
    const bool limits = token->index.end > token->index.begin && token->index.end < g->ntokens;
    alphabet_init(&g->alphabet, graph->settings.alphabet, limits ? token->index.end : g->ntokens, &g->arena);
    return true;
}

/* The same for prompt: it takes no more places in a step than there are, and has the states of generate. */
static bool prompt_fits(Generator *g, Error *error) {
    const Graph *graph = &g->several.graph;
    const Input *token = input_of(graph, INPUT_TOKEN), *place = input_of(graph, INPUT_PLACE);
    g->chunk = place ? shape_elements(&place->type.shape) : 0;
    return (token && g->chunk > 0 && g->chunk <= g->places && shape_elements(&token->type.shape) == g->chunk &&
            graph->states.n == g->part.graph.states.n) ||
           error_set(error, EXIT_REJECTED, "the program prompt is of another text than generate");
}

/* Process 0 reads the file of --prompts and sends it to all. */
static bool share_prompts(Run *run, const char **text, size_t *n, Error *error) {
    const char *path = run->options->prompts_file;
    if (!path) return true;
    char *own = NULL;
    const bool ok = run->comm->process != 0 || file_read(&run->arena, path, MAX_PROMPTS_BYTES, &own, n, error);
    int64_t head[2] = {ok ? 0 : error->code, (int64_t)*n};
    if (!run->comm->table->broadcast(run->comm, head, sizeof head, error)) return run->agreed = false;
    if (head[0] != 0) return run->comm->process == 0 ? false : error_reported(error, (int)head[0]);
    *text = own;
    return share_file(run, text, n, head[1], error) || (run->agreed = false);
}

static bool read_options(Generator *g, Run *run, Error *error) {
    const RunOptions *options = run->options;
    const Settings *settings = &g->part.graph.settings;
    const char *text = NULL;
    size_t n = 0;
    g->temperature = options->temperature >= 0 ? options->temperature : settings->temperature;
    g->top_k = options->top_k >= 0 ? options->top_k : settings->top_k;
    g->seed = options->draw_seed >= 0 ? options->draw_seed : settings->draw_seed;
    g->nasked = options->ngenerate;
    return share_prompts(run, &text, &n, error) &&
           prompts_read(&g->prompts, options, &g->alphabet, g->places, g->nasked, text, n, &g->arena, error);
}

static bool open_programs(Generator *g, Run *run, int program, int prompt, Error *error) {
    g->part = plan_part(&run->plan, program);
    if (prompt >= 0) g->several = plan_part(&run->plan, prompt);
    if (!program_fits(g, error) || (prompt >= 0 && !prompt_fits(g, error)) || !read_options(g, run, error)) return false;
    if (prompt >= 0) g->prompt = executor_create(&g->several, "prompt", &run->device, run->comm, run->directory, run->nthreads, error);
    if (prompt >= 0 && !g->prompt) return false;
    g->executor = executor_create_over(&g->part, "generate", g->prompt, &run->device, run->comm, run->directory, run->nthreads, error);
    return g->executor != NULL;
}

Generator *generator_create(Run *run, Error *error) {
    const int program = plan_find(&run->plan, "generate");
    if (program < 0) {
        error_set(error, EXIT_USAGE, "the net has no generate block: it says which input is text, and which value says what comes next%s",
                  run->plan.graph.settings.mode == MODE_MANUAL ? "; and in mode manual none is compiled" : "");
        comm_first_says(run->comm, error);
        return NULL;
    }
    Generator *g = calloc(1, sizeof *g);
    if (!g) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    arena_init(&g->arena);
    if (open_programs(g, run, program, plan_find(&run->plan, "prompt"), error)) return g;
    generator_destroy(g);
    return NULL;
}

void generator_destroy(Generator *g) {
    if (!g) return;
    executor_destroy(g->executor);
    executor_destroy(g->prompt);
    arena_finish(&g->arena);
    free(g);
}

Executor *generator_executor(Generator *g) {
    return g->executor;
}

void generator_capture(Generator *g, const char *against) {
    executor_capture(g->executor, against);
    if (g->prompt) executor_capture(g->prompt, against);
}

void generator_memory(const Plan *plan, int rank, ExecutorMemory *memory) {
    const int program = plan_find(plan, "generate"), prompt = plan_find(plan, "prompt");
    *memory = (ExecutorMemory){0};
    if (program < 0) return;
    const Plan part = plan_part(plan, program);
    executor_memory(&part, "generate", rank, memory);
    if (prompt < 0) return;
    const Plan several = plan_part(plan, prompt);
    ExecutorMemory more;
    executor_memory(&several, "prompt", rank, &more);
    memory->input_bytes += more.input_bytes;
    if (memory->arena_bytes <= more.arena_bytes) memory->arena_bytes = 0; /* it uses prompt's */
    memory->arena_bytes += more.arena_bytes;
    memory->odd_rows = memory->odd_rows || more.odd_rows;
}

/* ---------------------------------------------------------------- places */

/* Runs the step of a place, which gives its logits. */
static bool run_place(Generator *g, const int64_t *token, int64_t place, Error *error) {
    ReportPart part;
    executor_set_places(g->executor, &token[place], place);
    if (!executor_step(g->executor, 1, place + 1, error) || !executor_report(g->executor, 0, 0, &part, error)) return false;
    const int64_t n = box_elements(&part.box);
    for (int64_t i = 0; i < n; i++)
        g->logits[i] = element_at(part.data, part.type->dtype, i);
    executor_report_finish(g->executor, &part);
    return true;
}

/* Fills the caches for the places before the last of a prompt, as many at once as a step of prompt takes. Where it takes more than there are, the caches of the others are overwritten
 * before anything reads them; near the end of the net's places it begins with places that were done already. *place: the first that is left to do. */
static bool read_places(Generator *g, const Prompt *prompt, int64_t *place, Error *error) {
    const int64_t last = prompt->n - 1;
    while (g->prompt && last - *place >= g->chunk / WORTHWHILE && last - *place > 1) {
        const int64_t begin = *place < g->places - g->chunk ? *place : g->places - g->chunk;
        executor_set_places(g->prompt, &prompt->token[begin], begin);
        if (!executor_step(g->prompt, 1, ++g->nsteps, error)) return false;
        *place = begin + g->chunk < last ? begin + g->chunk : last;
    }
    return true;
}

/* *next: the token after a place, as process 0 draws it. */
static bool draw_next(Generator *g, const Run *run, int64_t place, int64_t *next, Error *error) {
    double pair[2];
    Comm *comm = run->comm;
    random_uniform_pair(random_key((uint64_t)g->seed, "generate"), (uint64_t)place / 2, 0, 1, pair);
    int64_t token = comm->process == 0 ? token_draw(g->logits, g->alphabet.ntokens, g->temperature, g->top_k, pair[place % 2]) : 0;
    if (!comm->table->broadcast(comm, &token, sizeof token, error)) return false;
    if (token < 0) return error_set(error, EXIT_MISMATCH, "the logits behind place %lld are not finite numbers", (long long)place);
    *next = token;
    return true;
}

/* ---------------------------------------------------------------- what is said */

/* --logits: writes a row for a place. */
static void write_logits(const Generator *g, FILE *file) {
    for (int64_t i = 0; i < g->ntokens; i++)
        fprintf(file, i + 1 < g->ntokens ? "%.9g," : "%.9g\n", g->logits[i]);
}

/* Opens the file of --logits on process 0; *file NULL: there is none. */
static bool open_logits(const Run *run, FILE **file, Error *error) {
    const char *path = run->options->logits;
    *file = NULL;
    if (!path || run->comm->process != 0) return comm_agree(run->comm, true, error);
    *file = fopen(path, "w");
    return comm_agree(run->comm, *file != NULL || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", path, strerror(errno)),
                      error);
}

static bool close_logits(const Run *run, FILE *file, Error *error) {
    if (!file) return true;
    const bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed) return true;
    return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: %s", run->options->logits, strerror(errno));
}

/* Prints the tokens of places begin .. end - 1 as text at once; not with --json. */
static void say_tokens(const Generator *g, Run *run, const int64_t *token, int64_t begin, int64_t end) {
    Text text = {0};
    if (run->comm->process != 0 || run->options->json) return;
    for (int64_t i = begin; i < end; i++)
        token_print(&text, &g->alphabet, token[i], i == 0);
    if (end > begin) say(run, &text);
    text_finish(&text);
}

static void json_tokens(Json *json, const Generator *g, const char *key, const int64_t *token, int64_t n) {
    Text text = {0};
    for (int64_t i = 0; i < n; i++)
        token_print(&text, &g->alphabet, token[i], i == 0);
    json_text(json, key, text.at ? text.at : "");
    text_finish(&text);
}

/* Prints the end of a text that has n tokens, nprompt of them given; ended: by the net's end token. */
static void say_end(const Generator *g, Run *run, const int64_t *token, int64_t nprompt, int64_t n, bool ended) {
    Text text = {0};
    if (run->comm->process != 0) return;
    if (run->options->json) {
        Json json = {.text = &text, .in_page = true};
        json_row(&json, NULL);
        json_tokens(&json, g, "prompt", token, nprompt);
        json_tokens(&json, g, "text", token + nprompt, n - nprompt);
        json_list(&json, "tokens");
        for (int64_t i = nprompt; i < n; i++)
            json_int(&json, NULL, token[i]);
        json_end(&json);
        json_bool(&json, "ended", ended);
        json_end(&json);
    } else {
        text_printf(&text, "\n");
    }
    say(run, &text);
    text_finish(&text);
}

static void report_speed(const Generator *g, const Tally *tally) {
    const int n = g->prompts.n;
    fprintf(stderr, "prun: %lld token%s of %s", (long long)tally->nread, tally->nread == 1 ? "" : "s", n == 1 ? "the prompt" : "");
    if (n > 1) fprintf(stderr, "%d prompts", n);
    fprintf(stderr, " in %.3g s; %lld generated in %.3g s", tally->read_s, (long long)tally->ndrawn, tally->drawn_s);
    if (tally->ndrawn > n)
        fprintf(stderr, ", %.4g tokens/s", (double)(tally->ndrawn - n) / tally->drawn_s); /* the first ones come from the prompts' steps */
    fputs("\n", stderr);
}

/* ---------------------------------------------------------------- texts */

/* Draws what follows the prompt, whose last place is done. */
static bool go_on(Generator *g, Run *run, const Prompt *prompt, FILE *logits, Tally *tally, Error *error) {
    int64_t *token = prompt->token, n = prompt->n;
    bool ended = false;
    for (int64_t made = 0; made < g->nasked; made++) {
        if (made > 0 && !run_place(g, token, n - 1, error)) return run->agreed = false;
        if (logits) write_logits(g, logits);
        if (!draw_next(g, run, n - 1, &token[n], error)) return error->code == EXIT_MISMATCH || (run->agreed = false);
        tally->ndrawn++;
        ended = token[n] == g->part.graph.settings.end;
        if (ended) break;
        say_tokens(g, run, token, n, n + 1);
        n++;
    }
    say_end(g, run, token, prompt->n, n, ended);
    return true;
}

static bool run_prompt(Generator *g, Run *run, const Prompt *prompt, FILE *logits, Tally *tally, Error *error) {
    const bool all = run->options->logits && g->nasked == 0; /* the logits of each place */
    const double begin = now_seconds();
    int64_t place = 0;
    say_tokens(g, run, prompt->token, 0, prompt->n);
    if (!all && !read_places(g, prompt, &place, error)) return run->agreed = false;
    for (; place < prompt->n; place++) {
        if (!run_place(g, prompt->token, place, error)) return run->agreed = false;
        if (all && logits) write_logits(g, logits);
    }
    const double read = now_seconds();
    tally->nread += prompt->n;
    tally->read_s += read - begin;
    const bool ok = go_on(g, run, prompt, logits, tally, error);
    tally->drawn_s += now_seconds() - read;
    return ok;
}

bool generator_run(Generator *g, Run *run, Error *error) {
    FILE *logits;
    Tally tally = {0};
    if (!open_logits(run, &logits, error)) return false;
    bool ran = true;
    for (int i = 0; ran && i < g->prompts.n; i++)
        ran = run_prompt(g, run, &g->prompts.at[i], logits, &tally, error) && error->code == 0;
    if (ran && run->comm->process == 0) report_speed(g, &tally);
    Error failure = {0};
    const bool closed = close_logits(run, logits, &failure);
    if (ran && !closed) *error = failure;
    return ran && closed;
}
