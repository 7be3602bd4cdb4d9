/* slices: see slices.h. */
#include "runtime/slices.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ranks_key[] = "pcc.ranks", set_key[] = "pcc.set", tensor_key[] = "pcc.tensor.", box_key[] = "pcc.box.";

/* A part of a tensor of the index, in the file of a rank. */
typedef struct Slice {
    int rank, stored; /* stored: number of its tensor in the rank's file */
    Box box;
} Slice;

typedef struct SliceSet {
    int nranks;
    TensorFile *file; /* of each rank; all but one are closed, so that any number of ranks can be read */
    Checksums *sums;
    int open;          /* the rank whose file is open, -1: none */
    VEC(Slice) slices; /* those of tensor t begin at first[t] */
    VEC(int) first;
} SliceSet;

const char *slices_path(Arena *arena, const char *index, int rank) {
    const char *slash = strrchr(index, '/'), *name = slash ? slash + 1 : index, *folder = slash ? index : ".";
    const int n = slash ? (int)(slash - index) : 1;
    return rank < 0 ? arena_printf(arena, "%.*s/device", n, folder) : arena_printf(arena, "%.*s/device/%d/%s", n, folder, rank, name);
}

/* ---------------------------------------------------------------- writing */

static void describe(TensorFile *file, Arena *arena, const char *key, const char *name, const Text *value) {
    const Metadata metadata = {arena_printf(arena, "%s%s", key, name), arena_copy(arena, value->at ? value->at : "", value->n)};
    vec_push(arena, &file->metadata, metadata);
}

void slices_describe_rank(TensorFile *file, Arena *arena, uint64_t set) {
    vec_push(arena, &file->metadata, (Metadata){set_key, arena_printf(arena, "%016" PRIx64, set)});
}

void slices_describe(TensorFile *index, Arena *arena, int nranks, uint64_t set) {
    slices_describe_rank(index, arena, set);
    vec_push(arena, &index->metadata, (Metadata){ranks_key, arena_printf(arena, "%d", nranks)});
    for (int t = 0; t < index->tensors.n; t++) {
        Text text = {0};
        const Shape *shape = &index->tensors.at[t].shape;
        for (int d = 0; d < shape->ndim; d++)
            text_printf(&text, "%s%" PRId64, d ? " " : "", shape->dim[d]);
        describe(index, arena, tensor_key, index->tensors.at[t].name, &text);
        text_finish(&text);
    }
    index->tensors.n = 0;
}

void slices_describe_box(TensorFile *file, Arena *arena, const char *name, const Box *box) {
    Text text = {0};
    for (int d = 0; d < box->ndim; d++)
        text_printf(&text, "%s%" PRId64 ":%" PRId64, d ? " " : "", box->begin[d], box->end[d]);
    describe(file, arena, box_key, name, &text);
    text_finish(&text);
}

/* ---------------------------------------------------------------- reading what they say */

bool slices_of_rank(const TensorFile *file) {
    return tensors_metadata(file, set_key) && !tensors_metadata(file, ranks_key);
}

static bool damaged(const char *path, const char *what, Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: damaged: %s", path, what);
}

/* Reads a number that is not negative and advances *at behind it. */
static bool read_number(const char **at, int64_t *value) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    *value = strtoll(*at, &end, 10);
    *at = end;
    return errno == 0;
}

static bool read_shape(const char *text, Shape *shape) {
    int64_t elements;
    *shape = (Shape){0};
    for (; *text; text += *text == ' ')
        if (shape->ndim == MAX_NDIM || !read_number(&text, &shape->dim[shape->ndim++]) || (*text && *text != ' ')) return false;
    return shape_count(shape, &elements);
}

/* Reads a box; false where it is none that lies in the shape. */
static bool read_box(const char *text, const Shape *shape, Box *box) {
    *box = (Box){0};
    for (; *text; text += *text == ' ') {
        const int d = box->ndim++;
        if (d >= shape->ndim || !read_number(&text, &box->begin[d]) || *text++ != ':' || !read_number(&text, &box->end[d]) ||
            (*text && *text != ' ') || box->begin[d] > box->end[d] || box->end[d] > shape->dim[d])
            return false;
    }
    return box->ndim == shape->ndim;
}

static Box inner_box(const Box *box, const Box *within) {
    Box inner = {.ndim = box->ndim};
    for (int d = 0; d < box->ndim; d++) {
        inner.begin[d] = box->begin[d] - within->begin[d];
        inner.end[d] = box->end[d] - within->begin[d];
    }
    return inner;
}

static Shape box_shape(const Box *box) {
    Shape shape = {.ndim = box->ndim};
    for (int d = 0; d < box->ndim; d++)
        shape.dim[d] = box->end[d] - box->begin[d];
    return shape;
}

static bool box_same(const Box *a, const Box *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->begin[d] != b->begin[d] || a->end[d] != b->end[d]) return false;
    return true;
}

/* ---------------------------------------------------------------- the set */

static void close_one(SliceSet *set) {
    if (set->open >= 0) tensors_close(&set->file[set->open]);
    set->open = -1;
}

static bool open_one(SliceSet *set, int rank, Error *error) {
    TensorFile *file = &set->file[rank];
    if (set->open == rank) return true;
    close_one(set);
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0) return error_set(error, EXIT_ENVIRONMENT, "%s: cannot be opened: %s", file->path, strerror(errno));
    set->open = rank;
    return true;
}

static bool open_ranks(SliceSet *set, const TensorFile *index, Arena *arena, Error *error) {
    const char *of = tensors_metadata(index, set_key);
    bool ok = of || damaged(index->path, "it does not say which files are its own", error);
    for (int k = 0; ok && k < set->nranks; k++) {
        TensorFile *file = &set->file[k];
        ok = tensors_open(file, arena, slices_path(arena, index->path, k), error);
        if (!ok) break;
        set->open = k;
        const char *own = tensors_metadata(file, set_key);
        ok = (own && strcmp(own, of) == 0) || damaged(file->path, "it was not saved together with the others", error);
        ok = ok && checksums_open(&set->sums[k], file, arena, error);
        close_one(set);
    }
    return ok;
}

/* Finds the slices of a tensor, each once; true where together they are the whole. Boxes of one layout are equal or disjoint. */
static bool find_slices(SliceSet *set, TensorFile *index, Arena *arena, const char *name, const char *words) {
    StoredTensor tensor = {.name = name, .begin = -1};
    const int first = set->slices.n;
    int64_t elements = 0;
    if (!read_shape(words, &tensor.shape)) return false;
    for (int k = 0; k < set->nranks; k++) {
        const TensorFile *file = &set->file[k];
        Slice slice = {.rank = k, .stored = tensors_find(file, name)};
        if (slice.stored < 0 || slice.stored == set->sums[k].tensor) continue; /* this rank has no part of it */
        const char *said = tensors_metadata(file, arena_printf(arena, "%s%s", box_key, name));
        const StoredTensor *stored = &file->tensors.at[slice.stored];
        if (!said || !read_box(said, &tensor.shape, &slice.box)) return false;
        const Shape shape = box_shape(&slice.box);
        if (!shape_equal(&shape, &stored->shape) || (elements > 0 && stored->dtype != tensor.dtype)) return false;
        bool there = false;
        for (int i = first; i < set->slices.n && !there; i++)
            there = box_same(&set->slices.at[i].box, &slice.box);
        if (there) continue;
        tensor.dtype = stored->dtype;
        elements += box_elements(&slice.box);
        vec_push(arena, &set->slices, slice);
    }
    vec_push(arena, &index->tensors, tensor);
    vec_push(arena, &set->first, set->slices.n);
    return elements == shape_elements(&tensor.shape);
}

bool slices_open(TensorFile *file, Arena *arena, Error *error) {
    enum { MOST = 1 << 16 }; /* pcc's --ranks */
    const char *text = tensors_metadata(file, ranks_key);
    int64_t nranks = 0;
    if (!text) return true;
    if (!read_number(&text, &nranks) || *text || nranks < 1 || nranks > MOST)
        return damaged(file->path, "it does not say how many ranks have written it", error);
    SliceSet *set = arena_alloc(arena, sizeof *set);
    *set = (SliceSet){.nranks = (int)nranks, .open = -1};
    set->file = arena_alloc(arena, (size_t)nranks * sizeof *set->file);
    set->sums = arena_alloc(arena, (size_t)nranks * sizeof *set->sums);
    if (!open_ranks(set, file, arena, error)) {
        close_one(set);
        return false;
    }
    file->slices = set;
    for (int t = 0; t <= file->tensors.n; t++) /* the index's own hold checksums, and no slices */
        vec_push(arena, &set->first, 0);
    for (int i = 0; i < file->metadata.n; i++) {
        const Metadata *metadata = &file->metadata.at[i];
        const char *name = metadata->key + sizeof tensor_key - 1;
        if (strncmp(metadata->key, tensor_key, sizeof tensor_key - 1) != 0) continue;
        if (find_slices(set, file, arena, name, metadata->value)) continue;
        char words[200];
        snprintf(words, sizeof words, "the ranks' slices of '%.100s' do not make up the whole", name);
        text_printable(words);
        return damaged(file->path, words, error);
    }
    return true;
}

void slices_close(TensorFile *file) {
    if (file->slices) close_one(file->slices);
    file->slices = NULL;
}

/* ---------------------------------------------------------------- elements */

/* Reads the part of a box that a slice has to its place among the box's elements. */
static bool read_part(SliceSet *set, const Slice *slice, const Box *box, DType dtype, void *to, Error *error) {
    Box part;
    if (!box_intersect(&slice->box, box, &part)) return true;
    const int64_t size = dtype_bytes[dtype];
    const Box stored = inner_box(&part, &slice->box), place = inner_box(&part, box);
    const bool all = box_same(&part, box);
    char *copy = all ? to : malloc((size_t)(box_elements(&part) * size) + 1);
    bool ok = (copy || error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for a slice", set->file[slice->rank].path)) &&
              open_one(set, slice->rank, error) && tensors_read(&set->file[slice->rank], slice->stored, &stored, dtype, copy, error);
    const Shape whole = box_shape(box);
    BoxRuns runs = box_runs(&whole, &place);
    const char *from = copy;
    for (int64_t first; ok && !all && box_next_run(&runs, &first); from += runs.length * size)
        memcpy((char *)to + first * size, from, (size_t)(runs.length * size));
    if (!all) free(copy);
    return ok;
}

bool slices_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error) {
    SliceSet *set = file->slices;
    bool ok = true;
    for (int i = set->first.at[tensor]; ok && i < set->first.at[tensor + 1]; i++)
        ok = read_part(set, &set->slices.at[i], box, dtype, to, error);
    return ok;
}

bool slices_compare(const TensorFile *file, int tensor, int part, int parts, int64_t *found, Error *error) {
    SliceSet *set = file->slices;
    *found = -1;
    for (int i = set->first.at[tensor]; *found < 0 && i < set->first.at[tensor + 1]; i++) {
        const Slice *slice = &set->slices.at[i];
        int64_t element;
        if (i % parts != part) continue;
        if (!open_one(set, slice->rank, error) ||
            !checksums_compare(&set->sums[slice->rank], &set->file[slice->rank], slice->stored, 0, 1, &element, error))
            return false;
        if (element >= 0) *found = i;
    }
    return true;
}

bool slices_say(const TensorFile *file, int64_t number, Error *error) {
    const Slice *slice = &file->slices->slices.at[number];
    const Checksums *sums = &file->slices->sums[slice->rank];
    return checksums_say(sums, &file->slices->file[slice->rank], sums->first[slice->stored], error);
}
