/* generate: see generate.h. */
#include "runtime/generate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/sampler.h"
#include "runtime/element.h"

struct Generator {
    Plan part; /* the plan as the program sees it */
    Executor *executor;
    Arena arena;
    int64_t places, ntokens; /* tokens that there are: those of the alphabet that have logits and an embedding */
    const char **letter;     /* per token its characters in the alphabet; NULL: tokens are bytes, or numbers */
    double temperature;
    int64_t top_k, seed;
    int64_t *token; /* of each place: the prompt's, then what was drawn */
    int64_t nprompt, nasked;
    double *logits; /* of one place */
};

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
    int64_t left = top_k > 0 ? top_k : n; /* of those that tie for the last place the first are taken */
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

/* ---------------------------------------------------------------- tokens and text */

static int utf8_length(const char *at) {
    const unsigned char c = (unsigned char)*at;
    int n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (int i = 1; i < n; i++)
        if (((unsigned char)at[i] & 0xc0) != 0x80) return i; /* no UTF-8: as many bytes as there are */
    return n;
}

/* The characters of an alphabet, each as a text. */
static void read_alphabet(Generator *g, const char *alphabet) {
    int64_t n = 0;
    g->letter = arena_alloc(&g->arena, (strlen(alphabet) + 1) * sizeof *g->letter);
    for (const char *at = alphabet; *at; at += utf8_length(at))
        g->letter[n++] = arena_copy(&g->arena, at, (size_t)utf8_length(at));
    if (n < g->ntokens) g->ntokens = n;
}

static const char *alphabet_of(const Generator *g) {
    return g->part.graph.settings.alphabet;
}

static bool room_for(const Generator *g, int64_t n, Error *error) {
    return n < g->places || error_set(error, EXIT_USAGE, "the prompt is longer than the %lld places of the net", (long long)g->places);
}

/* The letter at a place of the prompt; -1: it is none. */
static int64_t token_of(const Generator *g, const char *at, int length) {
    if (!g->letter) return (unsigned char)*at < g->ntokens ? (unsigned char)*at : -1;
    for (int64_t i = 0; i < g->ntokens; i++)
        if (strncmp(g->letter[i], at, (size_t)length) == 0 && g->letter[i][length] == '\0') return i;
    return -1;
}

static bool read_prompt(Generator *g, const char *prompt, Error *error) {
    if (!alphabet_of(g))
        return error_set(
            error, EXIT_USAGE,
            "--prompt: the plan does not say which characters the tokens are: say --prompt-tokens 1,2,3, or `alphabet` in the generate block");
    for (const char *at = prompt; *at;) {
        const int length = g->letter ? utf8_length(at) : 1;
        const int64_t token = token_of(g, at, length);
        if (token < 0 && !g->letter)
            return error_set(error, EXIT_USAGE, "--prompt: the byte 0x%02x behind %d others is no token of the net, which has %lld",
                             (unsigned char)*at, (int)(at - prompt), (long long)g->ntokens);
        if (token < 0) return error_set(error, EXIT_USAGE, "--prompt: '%.*s' is not in the net's alphabet", length, at);
        if (!room_for(g, g->nprompt, error)) return false;
        g->token[g->nprompt++] = token;
        at += length;
    }
    return true;
}

/* "1,2,3" */
static bool read_tokens(Generator *g, const char *text, Error *error) {
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        const long long token = strtoll(at, &end, 10);
        if (end == at || errno || (*end && *end != ',') || (*end == ',' && !end[1]))
            return error_set(error, EXIT_USAGE, "--prompt-tokens takes numbers, 1,2,3, not '%s'", text);
        if (token < 0 || token >= g->ntokens)
            return error_set(error, EXIT_USAGE, "--prompt-tokens: the net has tokens 0 to %lld, and no %lld", (long long)g->ntokens - 1,
                             token);
        if (!room_for(g, g->nprompt, error)) return false;
        g->token[g->nprompt++] = token;
        at = end + (*end == ',');
    }
    return true;
}

static void say_token(const Generator *g, Run *run, int64_t place) {
    const int64_t token = g->token[place];
    Text text = {0};
    if (g->letter) {
        text_printf(&text, "%s", g->letter[token]);
    } else if (alphabet_of(g)) {
        const char byte = (char)token;
        text_append(&text, &byte, 1);
    } else {
        text_printf(&text, place > 0 ? " %lld" : "%lld", (long long)token);
    }
    say(run, &text);
    text_finish(&text);
}

/* ---------------------------------------------------------------- the program */

static const Input *input_of(const Graph *graph, InputKind kind) {
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == kind) return &graph->inputs.at[i];
    return NULL;
}

/* What prun reads of the program: a place as an index of all places, a token, logits. */
static bool program_fits(Generator *g, Error *error) {
    const Graph *graph = &g->part.graph;
    const Input *token = input_of(graph, INPUT_TOKEN), *place = input_of(graph, INPUT_PLACE);
    const bool fits = token && place && place->index.end > 0 && place->index.end <= INT32_MAX && graph->reports.n == 1 &&
                      graph->reports.at[0].whole && dtype_is_float(graph->values.at[graph->reports.at[0].value].type.dtype);
    if (!fits) return error_set(error, EXIT_REJECTED, "the program generate has no text, or no logits");
    g->places = place->index.end;
    g->ntokens = shape_elements(&graph->values.at[graph->reports.at[0].value].type.shape);
    g->logits = arena_alloc(&g->arena, (size_t)g->ntokens * sizeof *g->logits);
    if (token->index.end > token->index.begin && token->index.end < g->ntokens) g->ntokens = token->index.end;
    if (alphabet_of(g) && alphabet_of(g)[0] == '\0' && g->ntokens > 256) g->ntokens = 256;
    if (alphabet_of(g) && alphabet_of(g)[0] != '\0') read_alphabet(g, alphabet_of(g));
    g->token = arena_alloc(&g->arena, (size_t)(g->places + 1) * sizeof *g->token);
    return true;
}

static bool read_options(Generator *g, const RunOptions *options, Error *error) {
    const Settings *settings = &g->part.graph.settings;
    g->temperature = options->temperature >= 0 ? options->temperature : settings->temperature;
    g->top_k = options->top_k >= 0 ? options->top_k : settings->top_k;
    g->seed = options->draw_seed >= 0 ? options->draw_seed : settings->draw_seed;
    g->nasked = options->ngenerate;
    if (!(options->prompt ? read_prompt(g, options->prompt, error) : read_tokens(g, options->prompt_tokens, error))) return false;
    if (g->nprompt == 0) return error_set(error, EXIT_USAGE, "the prompt is empty: the first token is given, what follows is generated");
    const int64_t most = g->places - g->nprompt + 1; /* the last one is not read again */
    if (g->nasked <= most) return true;
    return error_set(error, EXIT_USAGE, "--generate %lld: the net has %lld places, and a prompt of %lld leaves %lld", (long long)g->nasked,
                     (long long)g->places, (long long)g->nprompt, (long long)most);
}

Generator *generator_create(Run *run, Error *error) {
    const int program = plan_find(&run->plan, "generate");
    if (program < 0) {
        error_set(error, EXIT_USAGE, "the net has no generate block: it says which input is text, and which value says what comes next%s",
                  run->plan.graph.settings.mode == MODE_MANUAL ? "; and in mode manual none is compiled" : "");
        return NULL;
    }
    Generator *g = calloc(1, sizeof *g);
    if (!g) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    arena_init(&g->arena);
    g->part = plan_part(&run->plan, program);
    if (program_fits(g, error) && read_options(g, run->options, error))
        g->executor = executor_create(&g->part, "generate", &run->device, run->comm, run->directory, run->nthreads, error);
    if (g->executor) return g;
    generator_destroy(g);
    return NULL;
}

void generator_destroy(Generator *g) {
    if (!g) return;
    executor_destroy(g->executor);
    arena_finish(&g->arena);
    free(g);
}

Executor *generator_executor(Generator *g) {
    return g->executor;
}

void generator_memory(const Plan *plan, int rank, ExecutorMemory *memory) {
    const int program = plan_find(plan, "generate");
    *memory = (ExecutorMemory){0};
    if (program < 0) return;
    const Plan part = plan_part(plan, program);
    executor_memory(&part, "generate", rank, memory);
}

/* Runs the step of a place: its logits. */
static bool run_place(Generator *g, int64_t place, Error *error) {
    ReportPart part;
    executor_set_place(g->executor, g->token[place], place);
    if (!executor_step(g->executor, 1, place + 1, error) || !executor_report(g->executor, 0, 0, &part, error)) return false;
    const int64_t n = box_elements(&part.box);
    for (int64_t i = 0; i < n; i++)
        g->logits[i] = element_at(part.data, part.type->dtype, i);
    executor_report_finish(g->executor, &part);
    return true;
}

/* What stands behind a place, as process 0 draws it. */
static bool draw_next(Generator *g, const Run *run, int64_t place, Error *error) {
    double pair[2];
    Comm *comm = run->comm;
    random_uniform_pair(random_key((uint64_t)g->seed, "generate"), (uint64_t)place / 2, 0, 1, pair);
    int64_t token = comm->process == 0 ? token_draw(g->logits, g->ntokens, g->temperature, g->top_k, pair[place % 2]) : 0;
    if (!comm->table->broadcast(comm, &token, sizeof token, error)) return false;
    if (token < 0) return error_set(error, EXIT_MISMATCH, "the logits behind place %lld are not finite numbers", (long long)place);
    g->token[place + 1] = token;
    return true;
}

/* --logits: a row for each place that was computed. */
static void write_logits(const Generator *g, FILE *file, int64_t *rows) {
    const Graph *graph = &g->part.graph;
    const int64_t n = shape_elements(&graph->values.at[graph->reports.at[0].value].type.shape);
    for (int64_t i = 0; i < n; i++)
        fprintf(file, i + 1 < n ? "%.9g," : "%.9g\n", g->logits[i]);
    ++*rows;
}

/* The file of --logits, of process 0; NULL: there is none. */
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

static void report_speed(const Generator *g, int64_t nmade, double prompt_s, double made_s) {
    fprintf(stderr, "prun: %lld token%s of the prompt in %.3g s; %lld generated in %.3g s", (long long)g->nprompt,
            g->nprompt == 1 ? "" : "s", prompt_s, (long long)nmade, made_s);
    if (nmade > 1) fprintf(stderr, ", %.4g tokens/s", (double)(nmade - 1) / made_s); /* the first one comes of the prompt */
    fputs("\n", stderr);
}

static bool run_places(Generator *g, Run *run, FILE *logits, Error *error) {
    const int64_t end = g->part.graph.settings.end;
    const bool speaks = run->comm->process == 0;
    double begin = now_seconds(), prompt_s = 0;
    int64_t nmade = 0, rows = 0;
    for (int64_t i = 0; speaks && i < g->nprompt; i++)
        say_token(g, run, i);
    for (int64_t place = 0; place < g->nprompt || nmade < g->nasked; place++) {
        if (!run_place(g, place, error)) return run->agreed = false;
        if (logits) write_logits(g, logits, &rows);
        if (place + 1 == g->nprompt) prompt_s = now_seconds() - begin;
        if (place + 1 < g->nprompt || g->nasked == 0) continue;
        if (!draw_next(g, run, place, error)) return error->code == EXIT_MISMATCH || (run->agreed = false);
        nmade++;
        if (g->token[place + 1] == end) break;
        if (speaks) say_token(g, run, place + 1);
    }
    if (speaks) {
        Text line = {0};
        text_printf(&line, "\n");
        say(run, &line);
        text_finish(&line);
        report_speed(g, nmade, prompt_s, now_seconds() - begin - prompt_s);
    }
    return true;
}

bool generator_run(Generator *g, Run *run, Error *error) {
    FILE *logits;
    if (!open_logits(run, &logits, error)) return false;
    const bool ran = run_places(g, run, logits, error) && error->code == 0;
    Error failure = {0};
    const bool closed = close_logits(run, logits, &failure);
    if (ran && !closed) *error = failure;
    return ran && closed;
}
