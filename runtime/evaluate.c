/* evaluate: see evaluate.h. The program gives sums over a batch's rows, one number each (in mode data_parallel: one per replica). The first of the ranks that
 * hold the same number adds it up over the steps; at the end all processes add up theirs. */
#include "runtime/evaluate.h"
#include "runtime/element.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint.h"
#include "runtime/data/data.h"
#include "runtime/needed.h"

/* The sums: metrics by their number, then these. */
enum { SUM_LOSS = NMETRICS, SUM_ROWS, SUM_LABELS, SUM_LOSS_LABELS, NSUMS };

/* The scores of the rows of one class. */
typedef struct Scores {
    double *at; /* on the heap */
    int64_t n, cap;
} Scores;

struct Evaluation {
    Plan part; /* the plan as eval sees it */
    Arena arena;
    Executor *executor;
    Comm *comm;
    int report[NSUMS];                     /* number of the report in the graph, -1: there is none, as for the loss */
    int64_t begin[NSUMS + 1], each[NSUMS]; /* where its sums begin in `sums`, and how many they are */
    double *sums;
    Scores scores[2]; /* by class, of an auc */
    int prediction;
};

EvalWhen evaluation_when(const Plan *plan, int64_t *steps) {
    int program = plan_find(plan, "eval");
    const Graph *graph = program < 0 ? NULL : plan->programs.at[program].graph;
    *steps = graph && graph->settings.eval_steps > 0 ? graph->settings.eval_steps : 1;
    return graph ? graph->settings.eval : EVAL_NEVER;
}

static Input *find_input(Graph *graph, const char *name, size_t n) {
    for (int i = 0; i < graph->inputs.n; i++) {
        Input *input = &graph->inputs.at[i];
        if (input->kind == INPUT_DATA && input->micro == 0 && strncmp(input->name, name, n) == 0 && input->name[n] == '\0') return input;
    }
    return NULL;
}

/* "x, label" */
static const char *input_names(const Graph *graph, Arena *arena) {
    const char *names = "";
    for (int i = 0; i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == INPUT_DATA && graph->inputs.at[i].micro == 0)
            names = arena_printf(arena, "%s%s%s", names, *names ? ", " : "", graph->inputs.at[i].name);
    return names;
}

/* Puts the files of --data in place of the plan's. For predictions the labels of other rows are of no use: an input that they do not depend on then has no file. */
static bool other_data(Evaluation *evaluation, const RunOptions *options, Error *error) {
    Graph *graph = &evaluation->part.graph;
    const Graph planned = *graph;
    memset(&graph->inputs, 0, sizeof graph->inputs);
    for (int i = 0; i < planned.inputs.n; i++)
        vec_push(&evaluation->arena, &graph->inputs, planned.inputs.at[i]);
    if (graph->settings.data != DATA_FILES)
        return error_set(error, EXIT_USAGE, "--data %s: the data of the eval block are no files", options->data[0]);
    const bool *needed =
        options->predict && evaluation->prediction >= 0 ? report_inputs(graph, evaluation->prediction, &evaluation->arena) : NULL;
    for (int i = 0; needed && i < graph->inputs.n; i++)
        if (!needed[i]) graph->inputs.at[i].file.format = FILE_NONE;
    for (int k = 0; k < options->ndata; k++) {
        const char *word = options->data[k], *is = strchr(word, '=');
        Input *input = is ? find_input(graph, word, (size_t)(is - word)) : NULL;
        if (!is || !is[1])
            return error_set(error, EXIT_USAGE, "--data %s: it says INPUT=FILE, an input of the net and the file of its rows", word);
        if (!input)
            return error_set(error, EXIT_USAGE, "--data %s: the net has no such input; it has %s", word,
                             input_names(graph, &evaluation->arena));
        const DataFile *planned_file = &planned.inputs.at[input - graph->inputs.at].file;
        if (planned_file->format == FILE_NONE || file_is_drawn(planned_file->format))
            return error_set(error, EXIT_USAGE, "--data %s: the eval block does not say how a file of it is read", word);
        input->file = *planned_file;
        input->file.path = is + 1;
        input->file.first = input->file.rows = 0;
        graph->settings.split = (RowSplit){0}; /* all rows of the other file */
    }
    return true;
}

/* The first input of rows of files that the predictions do not depend on and for which there is no file here; -1: none. */
static int input_without_data(Evaluation *evaluation, const char *plan_directory) {
    const Graph *graph = &evaluation->part.graph;
    const bool *needed = report_inputs(graph, evaluation->prediction, &evaluation->arena);
    for (int i = 0; graph->settings.data == DATA_FILES && i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->kind != INPUT_DATA || input->micro > 0 || needed[i] || file_is_drawn(input->file.format)) continue;
        if (input->file.format == FILE_NONE || !file_is_readable(file_find(input->file.path, plan_directory, &evaluation->arena))) return i;
    }
    return -1;
}

/* Leaves out the loss where, on any process, an input that only it needs has no data. */
static bool predict_alone(Evaluation *evaluation, const char *plan_directory, Error *error) {
    Comm *comm = evaluation->comm;
    const int own = input_without_data(evaluation, plan_directory);
    uint64_t *words = arena_alloc(&evaluation->arena, (size_t)comm->nprocesses * sizeof *words);
    int lacks = -1;
    if (!comm->table->all_gather_words(comm, (uint64_t)(own + 1), words, error)) return false;
    for (int p = 0; lacks < 0 && p < comm->nprocesses; p++)
        lacks = (int)words[p] - 1;
    if (lacks < 0) return true;
    const Input *input = &evaluation->part.graph.inputs.at[lacks];
    if (comm->process == 0 && input->file.format == FILE_NONE)
        fprintf(stderr, "prun: note: there is no data for input %s: predictions without a loss\n", input->name);
    else if (comm->process == 0)
        fprintf(stderr, "prun: note: %s, the data of input %s, cannot be read: predictions without a loss\n", input->file.path,
                input->name);
    report_alone(&evaluation->part, evaluation->prediction, &evaluation->arena);
    for (int k = 0; k < NSUMS; k++)
        evaluation->report[k] = -1;
    evaluation->prediction = 0;
    return true;
}

/* Whether all inputs have files: an eval block may leave out those that only the loss needs. */
static bool check_data(const Graph *graph, Error *error) {
    for (int i = 0; graph->settings.data == DATA_FILES && i < graph->inputs.n; i++)
        if (graph->inputs.at[i].kind == INPUT_DATA && graph->inputs.at[i].micro == 0 && graph->inputs.at[i].file.format == FILE_NONE)
            return error_set(error, EXIT_USAGE, "the eval block gives no data for input %s: --predict can do without, a loss cannot",
                             graph->inputs.at[i].name);
    return true;
}

/* Places the sums of the loss and of each report: one, or one per class and more. */
static void place_sums(Evaluation *evaluation) {
    const Graph *graph = &evaluation->part.graph;
    for (int k = 0; k < NSUMS; k++) {
        const int report = evaluation->report[k];
        const TensorType *type = report < 0 ? NULL : &graph->values.at[graph->reports.at[report].value].type;
        const bool scores = k < NMETRICS && metric_scores((Metric)k);
        evaluation->each[k] = scores ? 0 : type && type->shape.ndim > type->hidden ? type->shape.dim[type->hidden] : 1;
        evaluation->begin[k + 1] = evaluation->begin[k] + evaluation->each[k];
    }
    evaluation->sums = arena_alloc(&evaluation->arena, (size_t)evaluation->begin[NSUMS] * sizeof *evaluation->sums);
}

Evaluation *evaluation_create(const Plan *plan, const RunOptions *options, Executor *states_of, const Device *device, Comm *comm,
                              const char *plan_directory, int nthreads, Error *error) {
    int program = plan_find(plan, "eval");
    if (program < 0) {
        error_set(error, EXIT_USAGE, "the net has no eval block: it says which data it is evaluated on");
        comm_first_says(comm, error);
        return NULL;
    }
    Evaluation *evaluation = calloc(1, sizeof *evaluation);
    if (!evaluation) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    arena_init(&evaluation->arena);
    evaluation->part = plan_part(plan, program);
    evaluation->part.programs.n += plan_shorter(plan, program);
    evaluation->comm = comm;
    const Graph *graph = &evaluation->part.graph;
    evaluation->report[SUM_LOSS] = -1;
    evaluation->report[SUM_ROWS] = graph_find_report(graph, "rows");
    evaluation->report[SUM_LABELS] = graph_find_report(graph, "labels");
    evaluation->report[SUM_LOSS_LABELS] = graph_find_report(graph, "loss_labels");
    for (int k = 0; k < NMETRICS; k++)
        evaluation->report[k] = graph_find_report(graph, metric_name[k]);
    evaluation->prediction = graph_find_report(graph, "prediction");
    bool complete = graph->loss >= 0 && evaluation->report[SUM_ROWS] >= 0;
    if (!complete) error_set(error, EXIT_REJECTED, "the program eval reports no loss or no number of rows");
    const bool predict = options && options->predict && evaluation->prediction >= 0;
    complete = complete && (!options || options->ndata == 0 || other_data(evaluation, options, error)) &&
               (predict ? predict_alone(evaluation, plan_directory, error) : check_data(graph, error));
    if (complete)
        evaluation->executor = executor_create_over(&evaluation->part, "eval", states_of, device, comm, plan_directory, nthreads, error);
    if (evaluation->executor) {
        place_sums(evaluation);
        return evaluation;
    }
    evaluation_destroy(evaluation);
    return NULL;
}

void evaluation_destroy(Evaluation *evaluation) {
    if (!evaluation) return;
    executor_destroy(evaluation->executor);
    for (int kind = 0; kind < 2; kind++)
        free(evaluation->scores[kind].at);
    arena_finish(&evaluation->arena);
    free(evaluation);
}

Executor *evaluation_executor(Evaluation *evaluation) {
    return evaluation->executor;
}

bool evaluation_has(const Evaluation *evaluation, const char *reported) {
    const Metric metric = metric_of(reported);
    return metric == NMETRICS ? evaluation->part.graph.loss >= 0 : evaluation->report[metric] >= 0;
}

void evaluation_memory(const Plan *plan, int rank, bool alone, ExecutorMemory *memory) {
    int program = plan_find(plan, "eval");
    *memory = (ExecutorMemory){0};
    if (program < 0) return;
    Plan part = plan_part(plan, program);
    part.programs.n += plan_shorter(plan, program);
    ExecutorMemory train;
    executor_memory(&part, "eval", rank, memory);
    if (alone) return;
    executor_memory(plan, "train", rank, &train);
    memory->state_bytes = 0;
    if (memory->arena_bytes <= train.arena_bytes) memory->arena_bytes = 0; /* shared */
}

/* ---------------------------------------------------------------- sums */

/* ---------------------------------------------------------------- scores of rows */

static bool push_score(Scores *scores, double score, Error *error) {
    if (scores->n == scores->cap) {
        const int64_t cap = 2 * scores->cap + 64;
        double *at = realloc(scores->at, (size_t)cap * sizeof *at);
        if (!at) return error_set(error, EXIT_ENVIRONMENT, "out of memory for the scores of %lld rows", (long long)cap);
        scores->at = at;
        scores->cap = cap;
    }
    scores->at[scores->n++] = score;
    return true;
}

/* Adds the scores that driven ranks have of a step's rows: [.., 3] numbers. In global modes every process has all of them, from its first rank; a replica's rows come from the first rank that holds it. */
static bool add_scores(Evaluation *evaluation, int report, Error *error) {
    bool ok = true;
    for (int driven = 0; ok && driven < evaluation->comm->ndriven; driven++) {
        ReportPart part;
        if (!executor_report(evaluation->executor, driven, report, &part, error)) return false;
        const bool takes = part.type->hidden ? part.first : driven == 0;
        for (int64_t i = 0, n = box_elements(&part.box); ok && takes && i < n; i += 3)
            if (element_at(part.data, part.type->dtype, i + 2) > 0)
                ok = push_score(&evaluation->scores[element_at(part.data, part.type->dtype, i + 1) > 0.5],
                                element_at(part.data, part.type->dtype, i), error);
        executor_report_finish(evaluation->executor, &part);
    }
    return ok;
}

/* With replicas every process gets all scores: one of each process at a time. */
static bool gather_scores(Comm *comm, Scores *scores, Error *error) {
    Scores all = {0};
    uint64_t *counts = calloc((size_t)comm->nprocesses, sizeof *counts), *words = calloc((size_t)comm->nprocesses, sizeof *words), most = 0;
    bool ok = (counts && words) || error_set(error, EXIT_ENVIRONMENT, "out of memory");
    ok = comm_agree(comm, ok, error) && comm->table->all_gather_words(comm, (uint64_t)scores->n, counts, error);
    for (int p = 0; ok && p < comm->nprocesses; p++)
        if (counts[p] > most) most = counts[p];
    for (uint64_t i = 0; ok && i < most; i++) {
        uint64_t own = 0;
        if (i < (uint64_t)scores->n) memcpy(&own, &scores->at[i], sizeof own);
        ok = comm->table->all_gather_words(comm, own, words, error);
        for (int p = 0; ok && p < comm->nprocesses; p++) {
            double score;
            memcpy(&score, &words[p], sizeof score);
            ok = i >= counts[p] || push_score(&all, score, error);
        }
    }
    free(counts);
    free(words);
    free(scores->at);
    *scores = all;
    return ok;
}

/* The area under the curve of all rows, the same on every process. */
static bool area(Evaluation *evaluation, double *metric, Error *error) {
    const Graph *graph = &evaluation->part.graph;
    Scores *scores = evaluation->scores;
    const bool hidden = graph->values.at[graph->reports.at[evaluation->report[METRIC_AUC]].value].type.hidden;
    for (int kind = 0; hidden && evaluation->comm->nprocesses > 1 && kind < 2; kind++)
        if (!gather_scores(evaluation->comm, &scores[kind], error)) return false;
    *metric = metric_area(scores[1].at, scores[1].n, scores[0].at, scores[0].n);
    return true;
}

/* Adds what the driven ranks have to the sums after a step. */
static bool add_sums(Evaluation *evaluation, Error *error) {
    for (int k = 0; k < NSUMS; k++) {
        if (k == SUM_LOSS ? evaluation->part.programs.at[0].loss < 0 : evaluation->report[k] < 0) continue;
        if (k < NMETRICS && metric_scores((Metric)k)) {
            if (!add_scores(evaluation, evaluation->report[k], error)) return false;
            continue;
        }
        double *sums = evaluation->sums + evaluation->begin[k];
        for (int driven = 0; driven < evaluation->comm->ndriven; driven++) {
            ReportPart part;
            if (!executor_report(evaluation->executor, driven, evaluation->report[k], &part, error)) return false;
            for (int64_t i = 0; part.first && i < box_elements(&part.box); i++)
                sums[i % evaluation->each[k]] += element_at(part.data, part.type->dtype, i);
            executor_report_finish(evaluation->executor, &part);
        }
    }
    return true;
}

/* Adds up the sums of all processes, in the processes' order. */
static bool gather_sums(Evaluation *evaluation, Error *error) {
    Comm *comm = evaluation->comm;
    uint64_t *words = calloc((size_t)comm->nprocesses, sizeof *words), own;
    if (!words) return error_set(error, EXIT_ENVIRONMENT, "out of memory");
    bool ok = true;
    for (int64_t k = 0; ok && k < evaluation->begin[NSUMS]; k++) {
        double *sum = &evaluation->sums[k], part;
        memcpy(&own, sum, sizeof own);
        ok = comm->table->all_gather_words(comm, own, words, error);
        *sum = 0;
        for (int p = 0; ok && p < comm->nprocesses; p++) {
            memcpy(&part, &words[p], sizeof part);
            *sum += part;
        }
    }
    free(words);
    return ok;
}

/* ---------------------------------------------------------------- predictions */

/* The file being written; its rows are in the order of the data. */
typedef struct Prediction {
    const char *path;
    char temporary[TEMPORARY_NAME]; /* "": none yet */
    int fd;                         /* -1: closed */
    int64_t header_bytes, row_elements;
} Prediction;

static bool fail_file(const Prediction *prediction, const char *what, Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s: %s", prediction->path, what, strerror(errno));
}

static bool write_at(const Prediction *prediction, const unsigned char *bytes, size_t n, int64_t at, Error *error) {
    for (size_t done = 0; done < n;) {
        ssize_t now = pwrite(prediction->fd, bytes + done, n - done, (off_t)(at + (int64_t)done));
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) return fail_file(prediction, "cannot be written", error);
        done += (size_t)now;
    }
    return true;
}

static const char *npy_type(DType dtype) {
    static const char *const types[NDTYPES] = {[F32] = "<f4", [F64] = "<f8", [I32] = "<i4", [I64] = "<i8", [BOOL] = "|b1", [F16] = "<f2"};
    return types[dtype];
}

/* numpy/lib/format.py, version 1.0: the header ends where the elements begin, at a multiple of 64 bytes. */
static void npy_header(Text *text, const TensorType *type, int64_t rows) {
    Text dict = {0};
    text_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,", npy_type(type->dtype), (long long)rows);
    for (int d = type->hidden + 1; d < type->shape.ndim; d++)
        text_printf(&dict, "%s%lld", d > type->hidden + 1 ? ", " : " ", (long long)type->shape.dim[d]);
    text_printf(&dict, "), }");
    while ((10 + dict.n + 1) % 64 != 0)
        text_append(&dict, " ", 1);
    text_append(&dict, "\n", 1);
    const unsigned char length[2] = {(unsigned char)(dict.n & 255), (unsigned char)(dict.n >> 8)};
    text_append(text, "\x93NUMPY\x01\x00", 8);
    text_append(text, (const char *)length, 2);
    text_append(text, dict.at, dict.n);
    text_finish(&dict);
}

static const TensorType *prediction_type(const Evaluation *evaluation) {
    const Graph *graph = &evaluation->part.graph;
    return &graph->values.at[graph->reports.at[evaluation->prediction].value].type;
}

const char *evaluation_row_type(const Evaluation *evaluation, Arena *arena) {
    if (evaluation->prediction < 0) return NULL;
    TensorType row = *prediction_type(evaluation);
    Text text = {0};
    int first = row.hidden + 1;
    row.hidden = false;
    row.shape.ndim -= first;
    memmove(row.shape.dim, row.shape.dim + first, sizeof *row.shape.dim * (size_t)row.shape.ndim);
    type_print(&text, &row);
    const char *copy = arena_copy(arena, text.at, text.n);
    text_finish(&text);
    return copy;
}

/* Rank 0's process makes the file, the others open it. Collective. */
static bool prediction_open(Evaluation *evaluation, Prediction *prediction, int64_t rows, Error *error) {
    Comm *comm = evaluation->comm;
    const TensorType *type = prediction_type(evaluation);
    Text header = {0};
    npy_header(&header, type, rows);
    prediction->header_bytes = (int64_t)header.n;
    prediction->row_elements = 1;
    for (int d = type->hidden + 1; d < type->shape.ndim; d++)
        prediction->row_elements *= type->shape.dim[d];
    bool ok = comm_agree(comm, comm->process != 0 || checkpoint_can_save(prediction->path, error), error) &&
              temporary_claim(comm, prediction->path, prediction->temporary, error);
    if (!ok) {
        text_finish(&header);
        return false;
    }
    if (comm->process == 0) {
        int64_t bytes = prediction->header_bytes + rows * prediction->row_elements * dtype_bytes[type->dtype];
        prediction->fd = open(prediction->temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        ok = prediction->fd >= 0 || fail_file(prediction, "cannot be made", error);
        ok = ok && (ftruncate(prediction->fd, (off_t)bytes) == 0 || fail_file(prediction, "cannot be given its size", error));
        ok = ok && write_at(prediction, (const unsigned char *)header.at, header.n, 0, error);
    }
    text_finish(&header);
    ok = comm_agree(comm, ok, error);
    if (ok && comm->process != 0) {
        prediction->fd = open(prediction->temporary, O_WRONLY);
        ok = prediction->fd >= 0 || fail_file(prediction, "cannot be opened (is it on a disk that all nodes share?)", error);
    }
    return comm_agree(comm, ok, error);
}

/* Writes elements that are contiguous here and in the file. */
static bool write_elements(const Prediction *prediction, DType dtype, const char *from, int64_t n, int64_t at, Error *error) {
    unsigned char bytes[8192];
    int size = dtype_bytes[dtype];
    int64_t room = (int64_t)sizeof bytes / size;
    for (int64_t done = 0; done < n;) {
        int64_t now = n - done < room ? n - done : room;
        for (int64_t i = 0; i < now; i++) {
            uint64_t word = 0;
            if (size == 8)
                memcpy(&word, from + (done + i) * size, 8);
            else if (size == 4) {
                uint32_t half;
                memcpy(&half, from + (done + i) * size, 4);
                word = half;
            } else {
                word = *(const unsigned char *)(from + (done + i) * size);
            }
            for (int b = 0; b < size; b++)
                bytes[i * size + b] = (unsigned char)(word >> 8 * b);
        }
        if (!write_at(prediction, bytes, (size_t)(now * size), prediction->header_bytes + (at + done) * size, error)) return false;
        done += now;
    }
    return true;
}

/* Writes a row of the box, or several consecutive ones, as runs of neighbouring elements. data: the row's first element in the box. */
static bool write_row(const Prediction *prediction, const ReportPart *part, const char *data, int64_t row, Error *error) {
    const TensorType *type = part->type;
    const Box *box = &part->box;
    int first = type->hidden + 1, inner = box->ndim;
    int64_t length = 1, outer = 1;
    while (inner > first) {
        inner--;
        length *= box->end[inner] - box->begin[inner];
        if (box->end[inner] - box->begin[inner] != type->shape.dim[inner]) break;
    }
    for (int d = first; d < inner; d++)
        outer *= box->end[d] - box->begin[d];
    for (int64_t i = 0; i < outer; i++) {
        int64_t index[MAX_NDIM] = {0}, left = i, at = 0;
        for (int d = inner - 1; d >= first; d--) {
            int64_t size = box->end[d] - box->begin[d];
            index[d] = box->begin[d] + left % size;
            left /= size;
        }
        for (int d = first; d < box->ndim; d++)
            at = at * type->shape.dim[d] + (d < inner ? index[d] : box->begin[d]);
        if (!write_elements(prediction, type->dtype, data + i * length * dtype_bytes[type->dtype], length,
                            row * prediction->row_elements + at, error))
            return false;
    }
    return true;
}

/* Writes the batch's predictions on driven ranks to the places of their rows, each box by the first rank that holds it; not those of filler. */
static bool prediction_step(Evaluation *evaluation, const Prediction *prediction, int64_t step, Error *error) {
    bool ok = true;
    for (int driven = 0; ok && driven < evaluation->comm->ndriven; driven++) {
        ReportPart part;
        if (!executor_report(evaluation->executor, driven, evaluation->prediction, &part, error)) return false;
        int hidden = part.type->hidden;
        int64_t replicas = hidden ? part.box.end[0] - part.box.begin[0] : 1, rows = part.box.end[hidden] - part.box.begin[hidden];
        int64_t each = box_elements(&part.box) / (replicas * rows > 0 ? replicas * rows : 1) * dtype_bytes[part.type->dtype];
        for (int64_t k = 0; ok && part.first && each > 0 && k < replicas * rows; k++) {
            int64_t place = (hidden ? part.box.begin[0] + k / rows : 0) * part.type->shape.dim[hidden] + part.box.begin[hidden] + k % rows;
            bool filler;
            int64_t row = executor_row(evaluation->executor, step, place, &filler);
            if (!filler) ok = write_row(prediction, &part, (const char *)part.data + k * each, row, error);
        }
        executor_report_finish(evaluation->executor, &part);
    }
    return ok;
}

/* Flushes, closes, renames. Collective. */
static bool prediction_close(const Comm *comm, Prediction *prediction, bool ok, Error *error) {
    if (ok) ok = fsync(prediction->fd) == 0 || fail_file(prediction, "cannot be flushed to the disk", error);
    if (prediction->fd >= 0 && close(prediction->fd) != 0 && ok) ok = fail_file(prediction, "cannot be closed", error);
    ok = comm_agree((Comm *)comm, ok, error);
    if (comm->process == 0 && prediction->temporary[0]) {
        if (ok) ok = rename(prediction->temporary, prediction->path) == 0 || fail_file(prediction, "cannot be renamed", error);
        if (!ok) remove(prediction->temporary);
    }
    return comm_agree((Comm *)comm, ok, error);
}

/* Closes and removes the file when the others do not come to prediction_close any more. */
static void prediction_drop(const Comm *comm, Prediction *prediction) {
    if (prediction->fd >= 0) close(prediction->fd);
    if (comm->process == 0 && prediction->temporary[0]) remove(prediction->temporary);
}

/* ---------------------------------------------------------------- all rows */

/* What a sum is divided by: the labels that count, or, where the program does not report them, the rows. */
static double number_of(const Evaluation *evaluation, int sum, int64_t rows) {
    return evaluation->report[sum] >= 0 ? evaluation->sums[evaluation->begin[sum]] : (double)rows;
}

bool evaluation_run(Evaluation *evaluation, const char *path, EvalResult *result, bool *own_failure, Error *error) {
    Comm *comm = evaluation->comm;
    Executor *executor = evaluation->executor;
    Prediction prediction = {.path = path, .fd = -1};
    const double begin = now_seconds();
    int64_t rows = executor_rows(executor);
    *own_failure = false;
    if (path && evaluation->prediction < 0)
        return error_set(error, EXIT_USAGE,
                         "--predict: the net has no value that could be its answer: say `predict = y;` in the eval block");
    if (path && !prediction_open(evaluation, &prediction, rows, error)) return prediction_close(comm, &prediction, false, error);
    bool written = true;
    Error failure = {0}; /* of writing: reported after the last step, as the others wait for this rank in every step */
    evaluation->scores[0].n = evaluation->scores[1].n = 0;
    memset(evaluation->sums, 0, (size_t)evaluation->begin[NSUMS] * sizeof *evaluation->sums);
    if (!executor_begin(executor, 1, 1, error)) return path ? prediction_close(comm, &prediction, false, error) : false;
    for (int64_t step = 1; step <= executor_steps(executor); step++) {
        if (!executor_step(executor, 1, step, error) || !add_sums(evaluation, error)) {
            *own_failure = true;
            prediction_drop(comm, &prediction);
            return false;
        }
        if (path && written) written = prediction_step(evaluation, &prediction, step, &failure);
    }
    if (!written) *error = failure;
    if (path && !prediction_close(comm, &prediction, written, error)) return false;
    if (!gather_sums(evaluation, error)) {
        *own_failure = true;
        return false;
    }
    const bool has_loss = evaluation->part.programs.at[0].loss >= 0;
    const double counted = evaluation->sums[evaluation->begin[SUM_ROWS]];
    if (has_loss && !(fabs(counted - (double)rows) < 0.5)) /* the weights may have been moved: disturb.h */
        return error_set(error, EXIT_INTERNAL, "the evaluation counted %.15g rows, and the data has %lld", counted, (long long)rows);
    *result = (EvalResult){.rows = rows, .has_loss = has_loss, .seconds = now_seconds() - begin};
    result->loss = evaluation->sums[evaluation->begin[SUM_LOSS]] / number_of(evaluation, SUM_LOSS_LABELS, rows);
    for (Metric metric = 0; metric < NMETRICS; metric++) {
        result->has[metric] = evaluation->report[metric] >= 0;
        if (result->has[metric] && metric_scores(metric)) {
            if (!area(evaluation, &result->metric[metric], error)) return *own_failure = true, false;
        } else if (result->has[metric])
            result->metric[metric] = metric_value(metric, evaluation->sums + evaluation->begin[metric], evaluation->each[metric],
                                                  number_of(evaluation,
                                                            metric == METRIC_PERPLEXITY ? SUM_LOSS_LABELS
                                                            : metric == METRIC_PENALTY  ? SUM_ROWS
                                                                                        : SUM_LABELS,
                                                            rows));
    }
    return true;
}
