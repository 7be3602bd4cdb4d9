/* metrics: see metrics.h. */
#include "runtime/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/print.h"

typedef enum { FORM_JSON, FORM_CSV, FORM_EVENTS } Form;

struct MetricsFile {
    Form form;
    FILE *file;
    char path[4096];
    int ncolumns;                      /* of a table, after those of `places` */
    const char *columns[MAX_MEASURED]; /* their names */
};

/* ---------------------------------------------------------------- JSON lines */

static void put_json(Text *text, const Record *record) {
    const Position *at = record->at;
    text_printf(text, "{%s\"epoch\": %" PRId64 ", \"step\": %" PRId64 ", \"global_step\": %" PRId64, record->eval ? "\"eval\": true, " : "",
                at->epoch, at->step, at->global_step);
    for (int i = 0; i < record->n; i++) {
        char number[NUMBER_MAX];
        number_print(number, record->measured[i].value);
        text_printf(text, ", \"%s\": %s", record->measured[i].name, isfinite(record->measured[i].value) ? number : "null");
    }
    if (record->eval) text_printf(text, ", \"rows\": %" PRId64, record->rows);
    text_printf(text, "}\n");
}

/* ---------------------------------------------------------------- a table */

static const char places[] = "epoch,step,global_step,eval,rows"; /* of each line */

static void add_column(MetricsFile *file, const char *name) {
    for (int i = 0; i < file->ncolumns; i++)
        if (strcmp(file->columns[i], name) == 0) return; /* both steps and evaluations have it */
    file->columns[file->ncolumns++] = name;
}

static void choose_columns(MetricsFile *file, const Graph *graph, const Evaluation *evaluation) {
    static const char *const always[] = {"loss", "lr", "seconds", "samples_per_s"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        add_column(file, always[i]);
    if (graph_find_report(graph, "penalty") >= 0) add_column(file, "penalty");
    if (graph_find_report(graph, "grad_norm") >= 0) add_column(file, "grad_norm");
    if (graph_find_report(graph, "replica_norm2") >= 0) add_column(file, "noise_scale");
    for (Metric metric = 0; evaluation && metric < NMETRICS; metric++)
        if (evaluation_has(evaluation, metric_name[metric])) add_column(file, metric_name[metric]);
}

static void put_heading(Text *text, const MetricsFile *file) {
    text_printf(text, "%s", places);
    for (int i = 0; i < file->ncolumns; i++)
        text_printf(text, ",%s", file->columns[i]);
    text_printf(text, "\n");
}

static void put_row(Text *text, const MetricsFile *file, const Record *record) {
    const Position *at = record->at;
    text_printf(text, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,", at->epoch, at->step, at->global_step, record->eval);
    if (record->eval) text_printf(text, "%" PRId64, record->rows);
    for (int i = 0; i < file->ncolumns; i++) {
        text_printf(text, ",");
        for (int k = 0; k < record->n; k++) {
            char number[NUMBER_MAX];
            if (strcmp(record->measured[k].name, file->columns[i]) != 0) continue;
            number_print(number, record->measured[k].value);
            text_printf(text, "%s", number);
        }
    }
    text_printf(text, "\n");
}

/* ---------------------------------------------------------------- event files: records of TFRecord, each a message Event of Protocol Buffers */

static uint32_t crc32c(const char *data, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78 & (0 - (crc & 1)));
    }
    return ~crc;
}

static void put_bytes(Text *text, const void *data, size_t n) {
    text_append(text, data, n);
}

/* Masked as in a TFRecord: rotated, so that a checksum over data with checksums is not a trivial one. */
static void put_checksum(Text *text, const char *data, size_t n) {
    const uint32_t crc = crc32c(data, n), masked = (crc >> 15 | crc << 17) + 0xa282ead8;
    put_bytes(text, &masked, sizeof masked);
}

static void put_record(Text *text, const Text *event) {
    const uint64_t n = event->n;
    put_bytes(text, &n, sizeof n);
    put_checksum(text, (const char *)&n, sizeof n);
    put_bytes(text, event->at, event->n);
    put_checksum(text, event->at, event->n);
}

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

static void put_varint(Text *text, uint64_t value) {
    for (; value >= 128; value >>= 7)
        put_bytes(text, &(unsigned char){(unsigned char)(value | 128)}, 1);
    put_bytes(text, &(unsigned char){(unsigned char)value}, 1);
}

static void put_field(Text *text, unsigned field, unsigned kind) {
    put_varint(text, field << 3 | kind);
}

static void put_field_bytes(Text *text, unsigned field, const void *data, size_t n) {
    put_field(text, field, BYTES);
    put_varint(text, n);
    put_bytes(text, data, n);
}

/* Event: wall_time 1, step 2. */
static void begin_event(Text *event, int64_t step) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    put_field(event, 1, FIXED64);
    put_bytes(event, &seconds, sizeof seconds);
    put_field(event, 2, VARINT);
    put_varint(event, (uint64_t)step);
}

/* The first two events: file_version 3, and session_log 7 of status START, from whose step on earlier files of the directory no longer count. */
static void put_events_begin(Text *text, int64_t step) {
    static const char version[] = "brain.Event:2", start[] = {1 << 3 | VARINT, 1};
    Text first = {0}, second = {0};
    begin_event(&first, 0);
    put_field_bytes(&first, 3, version, sizeof version - 1);
    put_record(text, &first);
    begin_event(&second, step);
    put_field_bytes(&second, 7, start, sizeof start);
    put_record(text, &second);
    text_finish(&first);
    text_finish(&second);
}

/* summary 5: a value 1 for each number, with tag 1 and simple_value 2. */
static void put_event(Text *text, const Record *record) {
    Text event = {0}, summary = {0};
    for (int i = 0; i < record->n; i++) {
        Text value = {0};
        char tag[64];
        const float number = (float)record->measured[i].value;
        const int n = snprintf(tag, sizeof tag, "%s/%s", record->eval ? "eval" : "train", record->measured[i].name);
        if (strcmp(record->measured[i].name, "seconds") == 0) continue; /* an event has its own time */
        put_field_bytes(&value, 1, tag, (size_t)n);
        put_field(&value, 2, FIXED32);
        put_bytes(&value, &number, sizeof number);
        put_field_bytes(&summary, 1, value.at, value.n);
        text_finish(&value);
    }
    begin_event(&event, record->at->global_step);
    put_field_bytes(&event, 5, summary.at, summary.n);
    put_record(text, &event);
    text_finish(&summary);
    text_finish(&event);
}

static bool name_events(MetricsFile *file, const char *directory, Error *error) {
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be made: %s", directory, strerror(errno));
    const int n = snprintf(file->path, sizeof file->path, "%s%sevents.out.tfevents.%lld.%s.%ld", directory,
                           directory[strlen(directory) - 1] == '/' ? "" : "/", (long long)time(NULL), host, (long)getpid());
    return (n > 0 && (size_t)n < sizeof file->path) || error_set(error, EXIT_ENVIRONMENT, "%s: this name is too long", directory);
}

/* ---------------------------------------------------------------- files */

/* The step of a line, -1: the line does not have this form. *eval: it is of an evaluation. */
static int64_t step_of(const MetricsFile *file, const char *line, bool *eval) {
    static const char key[] = "\"global_step\": ";
    int64_t epoch, step, global_step;
    int is_eval;
    if (file->form == FORM_CSV) {
        if (strncmp(line, places, sizeof places - 1) == 0) return 0;
        if (sscanf(line, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%d,", &epoch, &step, &global_step, &is_eval) != 4) return -1;
        *eval = is_eval != 0;
        return global_step;
    }
    const char *at = strstr(line, key);
    *eval = strstr(line, "\"eval\": true") != NULL;
    return line[0] == '{' && at ? strtoll(at + sizeof key - 1, NULL, 10) : -1;
}

/* Whether the heading that is there has this run's columns, as added rows need. */
static bool same_columns(const MetricsFile *metrics, const char *heading) {
    Text own = {0};
    put_heading(&own, metrics);
    const bool same = strcmp(heading, own.at) == 0;
    text_finish(&own);
    return same;
}

/* Cuts off what metrics_open says. Anything but a regular file, a pipe say, holds nothing. */
static bool cut(const MetricsFile *metrics, int64_t global_step, bool evaluated, Error *error) {
    struct stat about;
    if (stat(metrics->path, &about) == 0 && !S_ISREG(about.st_mode)) return true;
    FILE *file = fopen(metrics->path, "r");
    char *line = NULL;
    size_t room = 0;
    off_t kept = 0;
    bool ok = true, behind = false;
    if (!file) return errno == ENOENT || error_set(error, EXIT_ENVIRONMENT, "%s: cannot be read: %s", metrics->path, strerror(errno));
    for (ssize_t n; ok && !behind && (n = getline(&line, &room, file)) > 0;) {
        bool eval = false;
        if (line[n - 1] != '\n') break;
        const int64_t step = step_of(metrics, line, &eval);
        ok = step >= 0 && (kept > 0 || metrics->form != FORM_CSV || same_columns(metrics, line));
        behind = step > global_step || (step == global_step && !evaluated && eval);
        if (!behind) kept += n;
    }
    free(line);
    fclose(file);
    if (!ok)
        return error_set(
            error, EXIT_ENVIRONMENT,
            "%s: holds something else than the metrics of the run that is resumed, or other columns: --metrics names another file",
            metrics->path);
    return truncate(metrics->path, kept) == 0 ||
           error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: %s", metrics->path, strerror(errno));
}

static bool put_out(MetricsFile *file, const Text *text, Error *error) {
    return (fwrite(text->at, 1, text->n, file->file) == text->n && fflush(file->file) == 0) ||
           error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: is the disk full?", file->path);
}

static Form form_of(const char *path) {
    struct stat about;
    const size_t n = strlen(path);
    const bool directory = (n > 0 && path[n - 1] == '/') || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
    return directory ? FORM_EVENTS : n > 4 && strcmp(path + n - 4, ".csv") == 0 ? FORM_CSV : FORM_JSON;
}

static bool open_file(MetricsFile *file, const char *path, bool resumed, const Position *at, bool evaluated, Error *error) {
    Text begin = {0};
    if (file->form == FORM_EVENTS) {
        if (!name_events(file, path, error)) return false;
    } else {
        snprintf(file->path, sizeof file->path, "%s", path);
        if (resumed && at && !cut(file, at->global_step, evaluated, error)) return false;
    }
    file->file = fopen(file->path, resumed ? "a" : "w");
    if (!file->file) return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be written: %s", file->path, strerror(errno));
    struct stat about;
    const bool fresh = !resumed || (fstat(fileno(file->file), &about) == 0 && about.st_size == 0);
    if (file->form == FORM_EVENTS) put_events_begin(&begin, resumed && at ? at->global_step + 1 : 0);
    if (file->form == FORM_CSV && fresh) put_heading(&begin, file);
    const bool ok = begin.n == 0 || put_out(file, &begin, error);
    text_finish(&begin);
    return ok;
}

MetricsFile *metrics_open(const char *path, const Graph *graph, const Evaluation *evaluation, bool resumed, const Position *at,
                          bool evaluated, Error *error) {
    MetricsFile *file = calloc(1, sizeof *file);
    if (!file) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    file->form = form_of(path);
    choose_columns(file, graph, evaluation);
    if (open_file(file, path, resumed, at, evaluated, error)) return file;
    metrics_close(file);
    return NULL;
}

bool metrics_write(MetricsFile *file, const Record *record, Error *error) {
    Text text = {0};
    if (file->form == FORM_JSON) put_json(&text, record);
    if (file->form == FORM_CSV) put_row(&text, file, record);
    if (file->form == FORM_EVENTS) put_event(&text, record);
    const bool ok = put_out(file, &text, error);
    text_finish(&text);
    return ok;
}

void metrics_close(MetricsFile *file) {
    if (file && file->file) fclose(file->file);
    free(file);
}
