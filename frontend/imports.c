/* import "nn.dsl"; -- an imported file is read before what follows, and only once, however many files import it. It is searched for
 * beside the file that imports it, then in the folders of -I in their order, then in the library that pcc was installed with. */
#include "frontend/lower.h"
#include "ir/file.h"

#include <string.h>
#include <sys/stat.h>

enum { MAX_FILES = 1000, MAX_IMPORT_DEPTH = 64 };

/* A file that has been read, or is being read. */
typedef struct SourceRead {
    const char *name;
    dev_t device;
    ino_t inode;
    bool known; /* it is a file of the system; texts of tests are not */
    bool open;  /* it is being read */
} SourceRead;

typedef struct Reading {
    Source *source;
    const Overrides *overrides;
    Arena *arena;
    Diags *diags;
    VEC(SourceRead) read;
    int depth;
    size_t bytes;
    bool stopped;      /* a limit was reached and reported: nothing more is read */
    const Block **end; /* where the next block belongs */
} Reading;

static bool source_read(Reading *reading, const char *name, const char *text, size_t n);

static const char *directory_of(Arena *arena, const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? arena_copy(arena, name, (size_t)(slash - name) + 1) : "";
}

/* Whether path is a regular file: nothing else is a source, and reading some other things never ends. */
static bool is_file(const char *path, struct stat *at) {
    return stat(path, at) == 0 && S_ISREG(at->st_mode);
}

/* The path under which an import is found, NULL: nowhere. */
static const char *find(Reading *reading, const Block *block, struct stat *at) {
    const Overrides *flags = reading->overrides;
    Arena *arena = reading->arena;
    const char *path = block->name[0] == '/' ? block->name : arena_printf(arena, "%s%s", block->directory, block->name);
    if (is_file(path, at)) return path;
    for (int i = 0; i < flags->nfolders && block->name[0] != '/'; i++) {
        path = arena_printf(arena, "%s/%s", flags->folder[i], block->name);
        if (is_file(path, at)) return path;
    }
    return NULL;
}

static bool not_found(Reading *reading, const Block *block, Span span) {
    const Overrides *flags = reading->overrides;
    Diags *diags = reading->diags;
    const char *list = block->directory[0] ? block->directory : "the current folder";
    for (int i = 0; i < flags->nfolders; i++)
        list = arena_printf(reading->arena, "%s, %s", list, flags->folder[i]);
    const char *kind = file_kind(block->name[0] == '/' ? block->name : arena_printf(diags->arena, "%s%s", block->directory, block->name));
    if (kind)
        diag_error(diags, span, "'%.200s' is %s; an import names an ordinary file", block->name, kind);
    else
        diag_error(diags, span, "there is no file '%.200s'", block->name);
    struct stat at;
    Block full = *block;
    full.name = arena_printf(reading->arena, "%s.dsl", block->name);
    if (!kind && find(reading, &full, &at))
        diag_hint(diags, "did you mean import \"%s\";?", full.name);
    else if (!kind && block->name[0] != '/')
        diag_hint(diags, "looked for in: %s; -I FOLDER adds a folder", list);
    return false;
}

/* a.dsl imports b.dsl imports a.dsl. */
static bool cycle(Reading *reading, int first, Span span) {
    const char *chain = "";
    for (int i = first; i < reading->read.n; i++)
        if (reading->read.at[i].open) chain = arena_printf(reading->arena, "%s%s imports ", chain, reading->read.at[i].name);
    diag_error(reading->diags, span, "files import each other: %s%s", chain, reading->read.at[first].name);
    diag_hint(reading->diags, "what both need belongs in a file of its own");
    return false;
}

static bool import_read(Reading *reading, const Block *block) {
    Span span = span_of(block->file, block->name_loc);
    struct stat at;
    Error error = {0};
    char *text;
    size_t n;
    const char *path = find(reading, block, &at);
    if (!path) return not_found(reading, block, span);
    for (int i = 0; i < reading->read.n; i++) {
        const SourceRead *read = &reading->read.at[i];
        if (read->known && read->device == at.st_dev && read->inode == at.st_ino) return !read->open || cycle(reading, i, span);
    }
    if (reading->depth >= MAX_IMPORT_DEPTH || reading->read.n > MAX_FILES) {
        if (reading->read.n > MAX_FILES)
            diag_error(reading->diags, span, "more than %d files are imported", (int)MAX_FILES);
        else
            diag_error(reading->diags, span, "imports nest more than %d deep", (int)MAX_IMPORT_DEPTH);
        reading->stopped = true;
        return false;
    }
    if (!file_read(reading->arena, path, MAX_SOURCE_BYTES - reading->bytes, &text, &n, &error)) {
        diag_error(reading->diags, span, "%s", error.text);
        return false;
    }
    return source_read(reading, path, text, n);
}

static bool source_read(Reading *reading, const char *name, const char *text, size_t n) {
    int self = reading->read.n;
    struct stat at;
    SourceRead read = {.name = name, .open = true, .known = is_file(name, &at)};
    if (read.known) {
        read.device = at.st_dev;
        read.inode = at.st_ino;
    }
    vec_push(reading->arena, &reading->read, read);
    reading->bytes += n < MAX_SOURCE_BYTES - reading->bytes ? n : MAX_SOURCE_BYTES - reading->bytes;
    Source *source = reading->source;
    int file = diags_add_file(reading->diags, name, text, n);
    for (int i = source->files.n; i <= file; i++)
        vec_push(reading->arena, &source->files, NULL);
    if (file > 0) source->files.at[file] = name;
    if (self == 0) source->file = file;
    Parse *parse = arena_alloc(reading->arena, sizeof *parse);
    bool ok = parse_run(parse, reading->arena, reading->diags, file, false);
    const char *directory = directory_of(reading->arena, name);
    reading->depth++;
    for (Block *block = parse->blocks, *next; block; block = next) {
        next = block->next;
        block->next = NULL;
        block->directory = directory;
        if (block->kind == BLOCK_IMPORT) {
            ok = import_read(reading, block) && ok;
            if (reading->stopped || reading->diags->nerrors >= DIAG_MAX_ERRORS) break;
            continue;
        }
        *reading->end = block;
        reading->end = (const Block **)&block->next;
    }
    reading->depth--;
    reading->read.at[self].open = false;
    return ok;
}

/* Reads a file of --hints as if the net imported it. */
static bool hint_file_read(Reading *reading, const char *path) {
    char *text;
    size_t n;
    Error error = {0};
    struct stat at;
    if (file_read(reading->arena, path, MAX_SOURCE_BYTES - reading->bytes, &text, &n, &error)) {
        bool known = is_file(path, &at);
        for (int i = 0; i < reading->read.n; i++)
            if (known && reading->read.at[i].known && reading->read.at[i].device == at.st_dev && reading->read.at[i].inode == at.st_ino)
                return true;
        return source_read(reading, path, text, n);
    }
    diag_error(reading->diags, (Span){0}, "--hints: %s", error.text);
    return false;
}

bool frontend_read(Source *source, const char *name, const char *text, size_t n, const Overrides *overrides, Arena *arena, Diags *diags) {
    *source = (Source){.name = name, .text = text};
    Reading reading = {.source = source, .overrides = overrides, .arena = arena, .diags = diags, .end = &source->blocks};
    const int nerrors = diags->nerrors;
    bool ok = source_read(&reading, name, text, n);
    for (int i = 0; i < overrides->nhint_files && !reading.stopped; i++)
        ok = hint_file_read(&reading, overrides->hint_file[i]) && ok;
    return ok && diags->nerrors == nerrors;
}

const Block *library_blocks(Lower *lower) {
    static const char name[] = "nn.dsl";
    const Overrides *flags = lower->overrides;
    struct stat at;
    Error error;
    char *text;
    size_t n;
    for (int i = 0; i < flags->nfolders; i++) {
        const char *path = arena_printf(lower->arena, "%s/%s", flags->folder[i], name);
        if (!is_file(path, &at) || !file_read(lower->arena, path, MAX_SOURCE_BYTES, &text, &n, &error)) continue;
        Diags unheard;
        Parse *parse = arena_alloc(lower->arena, sizeof *parse);
        diags_init(&unheard, lower->arena);
        parse_run(parse, lower->arena, &unheard, diags_add_file(&unheard, path, text, n), false);
        return parse->blocks;
    }
    return NULL;
}
