/* arena: memory of one phase in growing blocks, freed all at once. Large allocations have blocks of their own, which arena_release can free. */
#include "ir/base.h"

#include <assert.h>
#include <limits.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

typedef struct ArenaBlock {
    struct ArenaBlock *next; /* older */
    size_t used, cap;        /* bytes of data */
    bool zero;               /* the whole block was allocated zeroed */
    alignas(max_align_t) unsigned char data[];
} ArenaBlock;

enum { BLOCK_FIRST_BYTES = 16 << 10, BLOCK_MAX_BYTES = 4 << 20 };

static _Noreturn void out_of_memory(size_t bytes) {
    fprintf(stderr, "error: out of memory: %zu more bytes were needed; use a smaller network or a machine with more memory\n", bytes);
    exit(EXIT_ENVIRONMENT);
}

void arena_init(Arena *arena) {
    *arena = (Arena){0};
}

void arena_finish(Arena *arena) {
    for (ArenaBlock *block = arena->block; block;) {
        ArenaBlock *next = block->next;
        free(block);
        block = next;
    }
    *arena = (Arena){0};
}

/* *zero: whether the memory is already zeroed. */
static void *take(Arena *arena, size_t bytes, bool *zero) {
    const size_t align = alignof(max_align_t);
    if (bytes > SIZE_MAX / 4) out_of_memory(bytes);
    bytes = (bytes + align - 1) / align * align;
    ArenaBlock *block = arena->block;
    if (!block || block->cap - block->used < bytes) {
        /* Blocks double, so that a small phase stays small and a large one makes few calls. */
        size_t cap = block ? block->cap * 2 : BLOCK_FIRST_BYTES;
        if (cap > BLOCK_MAX_BYTES) cap = BLOCK_MAX_BYTES;
        const bool whole = cap < bytes;
        if (whole) cap = bytes;
        /* A block for one allocation comes from calloc: its pages that are never used take no memory. */
        ArenaBlock *fresh = whole ? calloc(1, sizeof *fresh + cap) : malloc(sizeof *fresh + cap);
        if (!fresh) out_of_memory(bytes);
        *fresh = (ArenaBlock){.next = block, .cap = cap, .zero = whole};
        arena->block = block = fresh;
    }
    void *result = block->data + block->used;
    block->used += bytes;
    arena->used_bytes += bytes;
    *zero = block->zero;
    return result;
}

void *arena_alloc(Arena *arena, size_t bytes) {
    bool zero;
    void *result = take(arena, bytes, &zero);
    return zero ? result : memset(result, 0, bytes);
}

void arena_release(Arena *arena, const void *at) {
    for (ArenaBlock **link = &arena->block; *link; link = &(*link)->next) {
        ArenaBlock *block = *link;
        if (at != block->data || block->cap <= BLOCK_MAX_BYTES) continue;
        arena->used_bytes -= block->used;
        *link = block->next;
        free(block);
        return;
    }
}

char *arena_copy(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

char *arena_vprintf(Arena *arena, const char *format, va_list args) {
    char brief[128]; /* most texts fit, and are formatted only once */
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(brief, sizeof brief, format, again);
    va_end(again);
    assert(n >= 0);
    char *text = arena_alloc(arena, (size_t)n + 1);
    if ((size_t)n < sizeof brief)
        memcpy(text, brief, (size_t)n);
    else
        vsnprintf(text, (size_t)n + 1, format, args);
    return text;
}

char *arena_printf(Arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void *vec_room(Arena *arena, const void *at, int *cap, int n, int room, size_t item_bytes) {
    bool zero; /* not needed: items are written before they are read */
    if (item_bytes > SIZE_MAX / 4 / (size_t)room) out_of_memory(SIZE_MAX);
    void *result = take(arena, (size_t)room * item_bytes, &zero);
    if (n) memcpy(result, at, (size_t)n * item_bytes);
    *cap = room;
    return result;
}

void *vec_grow(Arena *arena, const void *at, int *cap, int n, size_t item_bytes) {
    if (*cap > INT_MAX / 2) out_of_memory(SIZE_MAX);
    return vec_room(arena, at, cap, n, *cap ? *cap * 2 : 8, item_bytes);
}

/* Room for n more bytes and the NUL. */
static void text_reserve(Text *text, size_t n) {
    if (n >= SIZE_MAX / 4 - text->n) out_of_memory(n);
    size_t need = text->n + n + 1;
    if (need <= text->cap) return;
    size_t cap = text->cap ? text->cap : 256;
    while (cap < need)
        cap *= 2;
    char *grown = realloc(text->at, cap);
    if (!grown) out_of_memory(cap);
    text->at = grown;
    text->cap = cap;
}

void text_printf(Text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    text_reserve(text, 64);
    int n = vsnprintf(text->at + text->n, text->cap - text->n, format, args);
    va_end(args);
    assert(n >= 0);
    if ((size_t)n >= text->cap - text->n) {
        text_reserve(text, (size_t)n);
        vsnprintf(text->at + text->n, text->cap - text->n, format, again);
    }
    va_end(again);
    text->n += (size_t)n;
}

void text_append(Text *text, const char *bytes, size_t n) {
    text_reserve(text, n);
    if (n) memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void text_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
}

void text_finish(Text *text) {
    free(text->at);
    *text = (Text){0};
}

bool error_set(Error *error, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
    error->rank = -1;
    error->reported = false;
    return false;
}

bool error_of_rank(Error *error, int rank, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    error->code = code;
    error->rank = rank;
    error->reported = false;
    return false;
}

bool error_prefix(Error *error, const char *format, ...) {
    if (error->reported) return false;
    char text[sizeof error->text];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text) snprintf(text + n, sizeof text - (size_t)n, "%s", error->text);
    memcpy(error->text, text, sizeof text);
    return false;
}

bool error_reported(Error *error, int code) {
    error_set(error, code, "%s", "");
    error->reported = true;
    return false;
}
