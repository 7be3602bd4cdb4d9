/* side: long literals of a plan, in a file beside it (docs/plan.md).
 *
 * The file holds doubles, little endian, nothing else: the literals in the order in which the plan's text names them, without
 * gaps. So a reader's memory is bounded by the size of the two files, however often the text says `side`. */
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "ir/file.h"
#include "ir/text.h"

enum { SIDE_BYTES = 4096 }; /* longer literals go to the side file */

bool side_takes(int64_t n) {
    return n > SIDE_BYTES / (int64_t)sizeof(double);
}

static void put_little_endian(Text *side, const double *at, int64_t n) {
    unsigned char bytes[512 * sizeof(double)];
    for (int64_t done = 0; done < n;) {
        int64_t now = n - done < 512 ? n - done : 512;
        for (int64_t i = 0; i < now; i++) {
            uint64_t word;
            memcpy(&word, &at[done + i], sizeof word);
            for (int b = 0; b < 8; b++)
                bytes[8 * i + b] = (unsigned char)(word >> 8 * b);
        }
        text_append(side, (const char *)bytes, (size_t)now * sizeof(double));
        done += now;
    }
}

static void collect_states(Text *side, const Graph *graph) {
    for (int s = 0; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        int64_t n = shape_elements(&state->type.shape);
        if (state->init.kind == INIT_LITERAL && side_takes(n)) put_little_endian(side, state->init.data, n);
    }
}

static void collect(Text *side, const Graph *graph) {
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        int64_t n = shape_elements(&input->type.shape);
        if (input->per_rank && input->micro == 0 && side_takes(n)) put_little_endian(side, input->per_rank, n);
    }
    for (int i = 0; i < graph->nodes.n; i++) {
        const Node *node = &graph->nodes.at[i];
        if (node->op != OP_constant || !node->data) continue;
        int64_t n = shape_elements(&graph->values.at[node->out[0]].type.shape);
        if (side_takes(n)) put_little_endian(side, node->data, n);
    }
}

void side_print(Printing *printing, const Plan *plan, Text *side, const char *file) {
    printing->side_at = -1;
    if (!side || !file) return;
    size_t begin = side->n;
    collect_states(side, printing->graph); /* in the order of print_sections */
    collect(side, printing->graph);
    for (int p = 0; p < plan->programs.n; p++)
        if (plan->programs.at[p].graph) collect(side, plan->programs.at[p].graph);
    if (side->n == begin) return;
    printing->side_at = 0;
    put(printing->text, "side ");
    put_quoted(printing->text, file);
    text_printf(printing->text, " bytes=%zu checksum=%016" PRIx64 "\n", side->n - begin, XXH64(side->at + begin, side->n - begin, 0));
}

/* ---------------------------------------------------------------- reading */

/* Reads the line of the side file; its name must not lead to another folder. */
static bool side_line(Scan *scan, SideLine *line) {
    int64_t bytes;
    if (!scan_word(scan, &line->file) || !scan_key(scan, "bytes") || !scan_integer(scan, "the size", 8, INT64_MAX, &bytes) ||
        !scan_key(scan, "checksum") || !scan_unsigned(scan, "a checksum", 16, &line->checksum) || !scan_end(scan))
        return false;
    line->bytes = (uint64_t)bytes;
    if (bytes % 8) return scan_fail(scan, "the side file has %" PRId64 " bytes, which is no number of doubles", bytes);
    if (line->file[0] == '\0' || strchr(line->file, '/') || strcmp(line->file, ".") == 0 || strcmp(line->file, "..") == 0)
        return scan_fail(scan, "the side file '%.60s' is no name of a file beside the plan", line->file);
    return true;
}

bool side_read(Reading *reading, const PlanFiles *files, int flags) {
    Scan *scan = &reading->scan;
    SideLine *line = &reading->side;
    Error *error = scan->error;
    if (!scan_is_keyword(scan, "side")) return true;
    if (!side_line(scan, line)) return false;
    if (!files->side)
        return error_set(error, EXIT_REJECTED, "%s: the long literals of this plan are in %s, which is not at hand", scan->name,
                         line->file);
    if (files->nside != line->bytes)
        return error_set(error, EXIT_REJECTED,
                         "%s: %s, the file of its long literals, has %zu bytes where the plan says %" PRIu64
                         ": it is damaged or of another plan; compile the net again or copy both files again",
                         scan->name, line->file, files->nside, line->bytes);
    uint64_t actual = XXH64(files->side, files->nside, 0);
    if (actual != line->checksum && !(flags & PLAN_IGNORE_CHECKSUM))
        return error_set(error, EXIT_REJECTED,
                         "%s: %s, the file of its long literals, has checksum %016" PRIx64 " where the plan says %016" PRIx64
                         ": it is damaged or of another plan; compile the net again or copy both files again",
                         scan->name, line->file, actual, line->checksum);
    size_t n = files->nside / sizeof(double);
    double *data = arena_alloc(scan->arena, files->nside);
    for (size_t i = 0; i < n; i++) {
        uint64_t word = 0;
        for (int b = 0; b < 8; b++)
            word |= (uint64_t)(unsigned char)files->side[8 * i + (size_t)b] << 8 * b;
        memcpy(&data[i], &word, sizeof word);
    }
    line->data = data;
    return true;
}

bool side_literal(Reading *reading, const char *what, int64_t n, const double **data) {
    Scan *scan = &reading->scan;
    SideLine *line = &reading->side;
    int64_t offset;
    if (!scan_integer(scan, "an offset", 0, INT64_MAX, &offset)) return false;
    if (!line->data) return scan_fail(scan, "%s is in a side file, but the plan names none", what);
    if (!side_takes(n)) return scan_fail(scan, "%s is short and stands in the text", what);
    if ((uint64_t)offset != line->used)
        return scan_fail(scan, "%s begins at offset %" PRId64 " of the side file where %" PRIu64 " is next", what, offset, line->used);
    if ((uint64_t)n > (line->bytes - line->used) / sizeof(double))
        return scan_fail(scan, "%s has %" PRId64 " numbers, of which the side file does not have all", what, n);
    *data = line->data + line->used / sizeof(double);
    line->used += (uint64_t)n * sizeof(double);
    return true;
}

bool side_end(Reading *reading) {
    const SideLine *line = &reading->side;
    if (line->used == line->bytes) return true;
    return scan_fail(&reading->scan, "the side file has %" PRIu64 " bytes that no literal names", line->bytes - line->used);
}

/* ---------------------------------------------------------------- the two files */

/* Reads the first lines as plan_read does. A damaged text names no file here, and is refused there. */
static const char *side_file(Arena *arena, const char *text, size_t n) {
    for (size_t at = 0, lines = 0; at < n && lines < 16; lines++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (!end) return NULL;
        size_t length = (size_t)(end - (text + at)) + 1;
        if (length > 5 && memcmp(text + at, "side ", 5) == 0) {
            Error ignored;
            SideLine line = {0};
            const char *copy = arena_copy(arena, text + at, length);
            Scan scan = {arena, "", copy + 5, copy + length, 1, &ignored};
            return side_line(&scan, &line) ? line.file : NULL;
        }
        at += length;
    }
    return NULL;
}

bool plan_files_read(PlanFiles *files, Arena *arena, const char *path, size_t max_bytes, Error *error) {
    char *text, *side;
    *files = (PlanFiles){0};
    if (!file_read(arena, path, max_bytes, &text, &files->n, error)) return false;
    files->text = text;
    const char *file = side_file(arena, text, files->n);
    if (!file) return true;
    const char *slash = strrchr(path, '/');
    const char *beside = arena_printf(arena, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, file);
    Error why = {0};
    if (!file_read(arena, beside, max_bytes, &side, &files->nside, &why))
        return error_set(error, EXIT_ENVIRONMENT, "%.700s; it holds the long literals of %.200s: keep both in one folder", why.text, path);
    files->side = side;
    return true;
}
