/* The machine that pcc plans for: two levels of links, each with a latency and a bandwidth, a rank's speeds of arithmetic and memory, and its memory's size; and the file that
 * describes it (docs/machine.md). */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/file.h"
#include "strategies/strategies.h"

/* A node of 8 cores that share memory, with gigabit-class messages between nodes: prun's own measurements on common servers are of this
 * order. A rank has one core; f16 and bf16 are computed as f32. */
const Machine machine_cpu = {.name = "cpu",
                             .ranks_per_node = 8,
                             .rank = {.latency_s = 2e-6, .bytes_per_s = 8e9},
                             .node = {.latency_s = 3e-5, .bytes_per_s = 1e9},
                             .flops = {[PEAK_F32] = 8e10, [PEAK_F64] = 4e10, [PEAK_F16] = 8e10, [PEAK_BF16] = 8e10, [PEAK_VECTOR] = 1e10},
                             .memory_bytes_per_s = 1e10,
                             .memory_bytes = INT64_C(8) << 30,
                             .cache = {{4e10, 1 << 20}},
                             .ncaches = 1,
                             .kernel_s = 1e-6,
                             .overlap = 0};

/* 8 H200 a node joined by NVLink 4 (18 links of 20.6 GB/s, ring algorithms at 92 %), a 400 Gbit/s adapter for each; latencies are those of
 * NCCL's tuning model (src/graph/tuning.cc): the base of a ring, and with the steps of a network link. Products: 80 % of the data sheet's 67 TFLOP/s (f32
 * without tf32, f64) and 989 (f16, bf16). docs/machine.md has the sources. */
const Machine machine_gpu8 = {
    .name = "gpu8",
    .ranks_per_node = 8,
    .rank = {.latency_s = 7e-6, .bytes_per_s = 3.4e11},
    .node = {.latency_s = 1.4e-5, .bytes_per_s = 4.5e10},
    .flops = {[PEAK_F32] = 5.4e13, [PEAK_F64] = 5.4e13, [PEAK_F16] = 7.9e14, [PEAK_BF16] = 7.9e14, [PEAK_VECTOR] = 3.3e13},
    .memory_bytes_per_s = 4.3e12,
    .memory_bytes = INT64_C(141000000000),
    .cache = {{4.3e12, 50000000}},
    .ncaches = 1,
    .kernel_s = 2e-6,
    .overlap = 0.8,
    .cuda = true};

const char *const peak_name[NPEAKS] = {
    [PEAK_F32] = "f32", [PEAK_F64] = "f64", [PEAK_F16] = "f16", [PEAK_BF16] = "bf16", [PEAK_VECTOR] = "vector"};

const Machine *machine_named(const char *name) {
    static const Machine *const machines[] = {&machine_cpu, &machine_gpu8};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (strcmp(machines[i]->name, name) == 0) return machines[i];
    return NULL;
}

bool machine_within_node(const Machine *machine, const Digit *digits, int n, int nranks) {
    if (nranks <= machine->ranks_per_node) return true;
    for (int i = 0; i < n; i++) {
        int64_t top = (int64_t)digits[i].size * digits[i].stride;
        if (top > machine->ranks_per_node || machine->ranks_per_node % top != 0) return false;
    }
    return true;
}

int64_t log2_ceil(int64_t n) {
    int64_t rounds = 0;
    for (int64_t reach = 1; reach < n; reach *= 2)
        rounds++;
    return rounds;
}

static void print_level(Text *text, const char *key, const MachineLevel *level) {
    text_printf(text, "%s %.4g s %.4g B/s\n", key, level->latency_s, level->bytes_per_s);
}

void machine_print(Text *text, const Machine *machine) {
    text_printf(text, "pcc-machine 1\nname %s\nranks_per_node %d\n", machine->name, machine->ranks_per_node);
    print_level(text, "rank", &machine->rank);
    print_level(text, "node", &machine->node);
    for (int p = 0; p < NPEAKS; p++)
        text_printf(text, "%s %.4g FLOP/s\n", peak_name[p], machine->flops[p]);
    if (machine->rank_cached_bytes_per_s > 0) text_printf(text, "rank_cached %.4g B/s\n", machine->rank_cached_bytes_per_s);
    if (machine->product.bytes_per_s > 0) print_level(text, "product", &machine->product);
    if (machine->convolution_flops > 0) text_printf(text, "convolution %.4g FLOP/s\n", machine->convolution_flops);
    text_printf(text, "memory %.4g B/s %.4g B\n", machine->memory_bytes_per_s, (double)machine->memory_bytes);
    if (machine->update_bytes_per_s > 0) text_printf(text, "update %.4g B/s\n", machine->update_bytes_per_s);
    for (int c = 0; c < machine->ncaches; c++)
        text_printf(text, "cache %.4g B/s %.4g B\n", machine->cache[c].bytes_per_s, (double)machine->cache[c].bytes);
    text_printf(text, "kernel %.4g s\noverlap %.4g\n", machine->kernel_s, machine->overlap);
    if (machine->cuda) text_printf(text, "device cuda\n");
}

/* ---- reading */

enum { MAX_WORDS = 6, MAX_RANKS_PER_NODE = 1 << 16 };

typedef struct Word {
    Span span;
    const char *text; /* NUL-terminated copy */
} Word;

enum {
    KEY_NAME,
    KEY_RANKS_PER_NODE,
    KEY_RANK,
    KEY_NODE,
    KEY_PEAK,
    KEY_MEMORY = KEY_PEAK + NPEAKS,
    KEY_CACHE,
    KEY_KERNEL,
    KEY_OVERLAP,
    KEY_PRODUCT, /* from here on: may be left out */
    KEY_CONVOLUTION,
    KEY_UPDATE,
    KEY_RANK_CACHED,
    KEY_DEVICE,
    NKEYS
};
static const struct {
    const char *word, *form;
    int nwords;
} keys[NKEYS] = {
    [KEY_NAME] = {"name", "name cpu", 2},
    [KEY_RANKS_PER_NODE] = {"ranks_per_node", "ranks_per_node 8", 2},
    [KEY_RANK] = {"rank", "rank 2e-06 s 8e+09 B/s", 5},
    [KEY_NODE] = {"node", "node 3e-05 s 1e+09 B/s", 5},
    [KEY_PEAK + PEAK_F32] = {"f32", "f32 8e+10 FLOP/s", 3},
    [KEY_PEAK + PEAK_F64] = {"f64", "f64 4e+10 FLOP/s", 3},
    [KEY_PEAK + PEAK_F16] = {"f16", "f16 8e+10 FLOP/s", 3},
    [KEY_PEAK + PEAK_BF16] = {"bf16", "bf16 8e+10 FLOP/s", 3},
    [KEY_PEAK + PEAK_VECTOR] = {"vector", "vector 1e+10 FLOP/s", 3},
    [KEY_MEMORY] = {"memory", "memory 1e+10 B/s 8e+09 B", 5},
    [KEY_CACHE] = {"cache", "cache 4e+10 B/s 1e+06 B", 5},
    [KEY_KERNEL] = {"kernel", "kernel 1e-06 s", 3},
    [KEY_OVERLAP] = {"overlap", "overlap 0.5", 2},
    [KEY_PRODUCT] = {"product", "product 2e-06 s 1.4e+10 B/s", 5},
    [KEY_CONVOLUTION] = {"convolution", "convolution 6e+10 FLOP/s", 3},
    [KEY_UPDATE] = {"update", "update 1.5e+10 B/s", 3},
    [KEY_RANK_CACHED] = {"rank_cached", "rank_cached 1.5e+10 B/s", 3},
    [KEY_DEVICE] = {"device", "device cuda", 2},
};
typedef struct Reader {
    Arena *arena;
    Diags *diags;
    Machine *machine;
    int file, ncaches; /* caches read so far */
    int nwords;
    Word word[MAX_WORDS + 1];
    Span given[NKEYS]; /* where each key was given; line 0: not yet */
} Reader;

/* Splits the line text[0 .. n) into words; '#' begins a comment. */
static void read_words(Reader *reader, const char *text, size_t n, int line) {
    reader->nwords = 0;
    for (size_t at = 0; at < n && text[at] != '#';) {
        if (isspace((unsigned char)text[at])) {
            at++;
            continue;
        }
        size_t end = at;
        while (end < n && !isspace((unsigned char)text[end]) && text[end] != '#')
            end++;
        if (reader->nwords <= MAX_WORDS)
            reader->word[reader->nwords++] =
                (Word){{reader->file, line, (int)at + 1, (int)(end - at)}, arena_copy(reader->arena, text + at, end - at)};
        at = end;
    }
}

/* Figures within these ranges have finite sums and products, and give finite times. */
static const struct {
    const char *unit;
    double least, most;
} ranges[] = {{"s", 1e-12, 1e3}, {"B", 1, 1e18}, {"B/s", 1, 1e18}, {"FLOP/s", 1, 1e21}};

static bool in_range(Reader *reader, const Word *number, const char *unit, double value) {
    size_t i = 0;
    while (strcmp(ranges[i].unit, unit) != 0)
        i++;
    if (ranges[i].least <= value && value <= ranges[i].most) return true;
    diag_error(reader->diags, number->span, "%s %s: expected from %g to %g %s", number->text, unit, ranges[i].least, ranges[i].most, unit);
    return false;
}

/* Reads a positive real and its unit: words i and i + 1. */
static bool read_quantity(Reader *reader, int i, const char *unit, double *value) {
    const Word *number = &reader->word[i], *its_unit = &reader->word[i + 1];
    char *end;
    *value = strtod(number->text, &end);
    bool decimal = number->text[strspn(number->text, "+-.0123456789eE")] == '\0';
    if (!decimal || end == number->text || *end != '\0' || !isfinite(*value) || *value <= 0) {
        diag_error(reader->diags, number->span, "expected a positive number, as in 2e-06");
        return false;
    }
    if (strcmp(its_unit->text, unit) == 0) return in_range(reader, number, unit, *value);
    diag_error(reader->diags, its_unit->span, "expected the unit '%s', not '%s'", unit, its_unit->text);
    return false;
}

static bool read_level(Reader *reader, MachineLevel *level) {
    return read_quantity(reader, 1, "s", &level->latency_s) && read_quantity(reader, 3, "B/s", &level->bytes_per_s);
}

static bool read_memory(Reader *reader, double *bytes_per_s, int64_t *size) {
    double bytes;
    if (!read_quantity(reader, 1, "B/s", bytes_per_s) || !read_quantity(reader, 3, "B", &bytes)) return false;
    *size = (int64_t)bytes;
    return true;
}

/* The nearest cache comes first. */
static bool read_cache(Reader *reader) {
    Machine *machine = reader->machine;
    Cache cache;
    if (!read_memory(reader, &cache.bytes_per_s, &cache.bytes)) return false;
    const Cache *before = reader->ncaches > 0 ? &machine->cache[reader->ncaches - 1] : NULL;
    if (before != NULL && (cache.bytes <= before->bytes || cache.bytes_per_s > before->bytes_per_s)) {
        diag_error(reader->diags, reader->word[cache.bytes <= before->bytes ? 3 : 1].span,
                   "expected a cache that is larger than the one before it, and not faster");
        return false;
    }
    machine->cache[reader->ncaches++] = cache;
    machine->ncaches = reader->ncaches;
    return true;
}

static bool read_overlap(Reader *reader) {
    const Word *word = &reader->word[1];
    char *end;
    double *share = &reader->machine->overlap;
    *share = strtod(word->text, &end);
    if (word->text[strspn(word->text, ".0123456789eE-")] == '\0' && *end == '\0' && *share >= 0 && *share <= 1) return true;
    diag_error(reader->diags, word->span, "expected the share of a communication that runs while kernels do, from 0 to 1");
    return false;
}

static bool read_device(Reader *reader) {
    const Word *word = &reader->word[1];
    reader->machine->cuda = strcmp(word->text, "cuda") == 0;
    if (reader->machine->cuda || strcmp(word->text, "cpu") == 0) return true;
    diag_error(reader->diags, word->span, "expected cpu or cuda");
    return false;
}

static bool read_ranks_per_node(Reader *reader) {
    const Word *word = &reader->word[1];
    char *end;
    errno = 0;
    long n = strtol(word->text, &end, 10);
    if (errno != 0 || !isdigit((unsigned char)word->text[0]) || *end != '\0' || n < 1 || n > MAX_RANKS_PER_NODE) {
        diag_error(reader->diags, word->span, "expected the number of ranks of a node, from 1 to %d", MAX_RANKS_PER_NODE);
        return false;
    }
    reader->machine->ranks_per_node = (int)n;
    return true;
}

/* The name appears in the plan's line of options. */
static bool read_name(Reader *reader) {
    const Word *word = &reader->word[1];
    for (const char *c = word->text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-.", *c)) {
            diag_error(reader->diags, word->span, "a name has letters, digits, '_', '-' and '.' only");
            return false;
        }
    reader->machine->name = word->text;
    return true;
}

static bool read_line(Reader *reader) {
    const Word *first = &reader->word[0];
    int key = 0;
    while (key < NKEYS && strcmp(keys[key].word, first->text) != 0)
        key++;
    if (key == NKEYS) {
        const char *names[NKEYS];
        for (int i = 0; i < NKEYS; i++)
            names[i] = keys[i].word;
        const char *nearest = name_nearest(first->text, names, NKEYS);
        diag_error(reader->diags, first->span, "unknown key '%s'", first->text);
        if (nearest) diag_hint(reader->diags, "did you mean '%s'?", nearest);
        return false;
    }
    if (key == KEY_CACHE && reader->ncaches == MAX_CACHES) {
        diag_error(reader->diags, first->span, "at most %d caches", MAX_CACHES);
        return false;
    }
    if (reader->given[key].line > 0 && key != KEY_CACHE) {
        diag_error(reader->diags, first->span, "'%s' is given twice", first->text);
        diag_note(reader->diags, reader->given[key], "the first time here");
        return false;
    }
    reader->given[key] = first->span;
    if (reader->nwords != keys[key].nwords) {
        diag_error(reader->diags, reader->word[reader->nwords > keys[key].nwords ? keys[key].nwords : reader->nwords - 1].span,
                   "expected a line such as '%s'", keys[key].form);
        return false;
    }
    switch (key) {
    case KEY_NAME:
        return read_name(reader);
    case KEY_RANKS_PER_NODE:
        return read_ranks_per_node(reader);
    case KEY_RANK:
        return read_level(reader, &reader->machine->rank);
    case KEY_NODE:
        return read_level(reader, &reader->machine->node);
    case KEY_MEMORY:
        return read_memory(reader, &reader->machine->memory_bytes_per_s, &reader->machine->memory_bytes);
    case KEY_CACHE:
        return read_cache(reader);
    case KEY_OVERLAP:
        return read_overlap(reader);
    case KEY_PRODUCT:
        return read_level(reader, &reader->machine->product);
    case KEY_CONVOLUTION:
        return read_quantity(reader, 1, "FLOP/s", &reader->machine->convolution_flops);
    case KEY_UPDATE:
        return read_quantity(reader, 1, "B/s", &reader->machine->update_bytes_per_s);
    case KEY_RANK_CACHED:
        return read_quantity(reader, 1, "B/s", &reader->machine->rank_cached_bytes_per_s);
    case KEY_DEVICE:
        return read_device(reader);
    case KEY_KERNEL:
        return read_quantity(reader, 1, "s", &reader->machine->kernel_s);
    default:
        return read_quantity(reader, 1, "FLOP/s", &reader->machine->flops[key - KEY_PEAK]);
    }
}

bool machine_read(Machine *machine, Arena *arena, Diags *diags, const char *name, const char *text, size_t n) {
    *machine = machine_cpu;
    Reader reader = {.arena = arena, .diags = diags, .machine = machine, .file = diags_add_file(diags, name, text, n)};
    bool good = true;
    int line = 0;
    for (size_t at = 0; at < n || line == 0;) {
        size_t end = at;
        while (end < n && text[end] != '\n')
            end++;
        read_words(&reader, text + at, end - at, ++line);
        at = end + 1;
        if (line == 1) {
            if (reader.nwords == 2 && strcmp(reader.word[0].text, "pcc-machine") == 0 && strcmp(reader.word[1].text, "1") == 0) continue;
            diag_error(diags, reader.nwords ? reader.word[0].span : (Span){reader.file, 1, 1, 1},
                       "a machine file begins with the line 'pcc-machine 1'");
            diag_hint(diags, "prun --calibrate FILE writes one");
            return false;
        }
        if (reader.nwords > 0 && !read_line(&reader)) good = false;
    }
    for (int key = 0; good && key < KEY_PRODUCT; key++)
        if (reader.given[key].line == 0 && key >= KEY_PEAK) {
            machine->assumed = true;
        } else if (reader.given[key].line == 0) {
            diag_error(diags, (Span){reader.file, line, 1, 1}, "there is no line '%s'", keys[key].form);
            good = false;
        }
    return good;
}

bool machine_find(const char *what, Arena *arena, Diags *diags, Machine *machine, Error *error) {
    const Machine *named = machine_named(what);
    if (named) {
        *machine = *named;
        return true;
    }
    enum { MAX_BYTES = 1 << 16 };
    char *text;
    size_t n;
    if (!file_read(arena, what, MAX_BYTES, &text, &n, error)) return error_prefix(error, "--machine takes cpu, gpu8 or a machine file: ");
    return machine_read(machine, arena, diags, what, text, n) || error_reported(error, EXIT_REJECTED);
}
