/* checksum: see checksum.h. */
#include "runtime/checksum.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static const char holder[] = "pcc:checksums", kind_key[] = "pcc.checksums", kind[] = "xxh64", boxes_key[] = "pcc.boxes.";

/* The number of boxes of a layout; 0: more than there can be ranks. */
static int count_boxes(const Layout *boxes) {
    enum { MOST = 1 << 16 }; /* pcc's --ranks */
    int64_t count = 1;
    for (int i = 0; i < boxes->start[boxes->ndim] && count <= MOST; i++)
        count *= boxes->digit[i].size;
    return count <= MOST ? (int)count : 0;
}

/* The layout that divides as this one does, on as many ranks as there are boxes, one each. */
static void boxes_of(const Layout *layout, Layout *boxes) {
    int32_t stride = count_boxes(layout);
    layout_init(boxes, layout->ndim);
    for (int d = 0; d < layout->ndim; d++)
        for (int i = 0; i < layout_count(layout, d); i++) {
            const int32_t size = layout_list(layout, d)[i].size;
            stride /= size;
            layout_append(boxes, d, (Digit){size, stride});
        }
}

/* The number of a rank's box among those of boxes_of. */
static int box_number(const Layout *layout, int rank) {
    const int position = order_position(layout->order, rank);
    int number = 0;
    for (int i = 0; i < layout->start[layout->ndim]; i++)
        number = number * layout->digit[i].size + digit_of(layout->digit[i], position);
    return number;
}

static void make_room(Checksums *sums, Arena *arena, int ntensors) {
    sums->boxes = arena_alloc(arena, ((size_t)ntensors + 1) * sizeof *sums->boxes);
    sums->first = arena_alloc(arena, ((size_t)ntensors + 1) * sizeof *sums->first);
}

/* ---------------------------------------------------------------- writing */

void checksums_describe(Checksums *sums, TensorFile *file, Arena *arena, const Layout *layouts) {
    int64_t next = 1;
    *sums = (Checksums){.tensor = file->tensors.n};
    make_room(sums, arena, file->tensors.n);
    vec_push(arena, &file->metadata, (Metadata){kind_key, kind});
    for (int t = 0; t < file->tensors.n; t++) {
        Text text = {0};
        boxes_of(&layouts[t], &sums->boxes[t]);
        layout_print(&text, &sums->boxes[t], false);
        vec_push(arena, &file->metadata,
                 (Metadata){arena_printf(arena, "%s%s", boxes_key, file->tensors.at[t].name), arena_copy(arena, text.at, text.n)});
        text_finish(&text);
        sums->first[t] = next;
        next += count_boxes(&sums->boxes[t]);
    }
    vec_push(arena, &file->tensors, (StoredTensor){.name = holder, .dtype = I64, .shape = {1, {next}}});
}

static bool write_one(const Checksums *sums, const TensorFile *file, int64_t element, uint64_t checksum, Error *error) {
    const Box box = {.ndim = 1, .begin = {element}, .end = {element + 1}};
    return tensors_write(file, sums->tensor, &box, &checksum, NULL, error);
}

bool checksums_write(const Checksums *sums, const TensorFile *file, int tensor, const Layout *layout, int rank, uint64_t checksum,
                     Error *error) {
    return write_one(sums, file, sums->first[tensor] + box_number(layout, rank), checksum, error);
}

bool checksums_write_header(const Checksums *sums, const TensorFile *file, const Text *header, Error *error) {
    return write_one(sums, file, 0, XXH64(header->at, header->n, 0), error);
}

/* ---------------------------------------------------------------- reading */

static bool read_one(const Checksums *sums, const TensorFile *file, int64_t element, uint64_t *checksum, Error *error) {
    const Box box = {.ndim = 1, .begin = {element}, .end = {element + 1}};
    return tensors_read(file, sums->tensor, &box, I64, checksum, error);
}

/* Reads in what boxes a tensor was written; *next becomes the element after its last checksum. */
static bool read_boxes(Checksums *sums, const TensorFile *file, Arena *arena, int tensor, int64_t *next) {
    const StoredTensor *stored = &file->tensors.at[tensor];
    const char *words = tensors_metadata(file, arena_printf(arena, "%s%s", boxes_key, stored->name));
    Layout *boxes = &sums->boxes[tensor];
    bool hidden = false;
    if (!words || !layout_read(&words, boxes, &hidden) || *words != '\0' || hidden || boxes->ndim != stored->shape.ndim ||
        layout_is_partial(boxes))
        return false;
    const int count = count_boxes(boxes);
    sums->first[tensor] = *next;
    *next += count;
    return count > 0 && layout_valid(boxes, count, NULL) && *next <= file->tensors.at[sums->tensor].shape.dim[0];
}

bool checksums_open(Checksums *sums, const TensorFile *file, Arena *arena, Error *error) {
    const char *of = tensors_metadata(file, kind_key);
    int64_t next = 1;
    uint64_t header;
    *sums = (Checksums){.tensor = tensors_find(file, holder)};
    if (sums->tensor < 0 && !of) return true;
    if (of && strcmp(of, kind) != 0)
        return error_set(error, EXIT_ENVIRONMENT,
                         "%s: its checksums are of a kind that this prun does not know: a newer one may have written it", file->path);
    const StoredTensor *held = sums->tensor < 0 ? NULL : &file->tensors.at[sums->tensor];
    if (!of || !held || held->dtype != I64 || held->shape.ndim != 1 || held->shape.dim[0] < 1)
        return error_set(error, EXIT_ENVIRONMENT, "%s: damaged: its checksums are not where they were written", file->path);
    if (!read_one(sums, file, 0, &header, error)) return false;
    if (header != file->header_checksum)
        return error_set(error, EXIT_ENVIRONMENT, "%s: damaged: its header is not what was written", file->path);
    make_room(sums, arena, file->tensors.n);
    for (int t = 0; t < file->tensors.n; t++)
        if (t != sums->tensor && !read_boxes(sums, file, arena, t, &next))
            return error_set(error, EXIT_ENVIRONMENT, "%s: damaged: it does not say in what boxes a tensor was written", file->path);
    return true;
}

bool checksums_compare(const Checksums *sums, const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error) {
    *damaged = -1;
    if (sums->tensor < 0) return true;
    assert(tensor != sums->tensor);
    const int count = count_boxes(&sums->boxes[tensor]);
    for (int b = 0; b < count && *damaged < 0; b++) {
        const int64_t element = sums->first[tensor] + b;
        uint64_t written, found;
        Box box;
        if (element % parts != part) continue; /* counted over all tensors, so that tensors of one box are divided too */
        layout_box(&sums->boxes[tensor], &file->tensors.at[tensor].shape, b, &box);
        if (!read_one(sums, file, element, &written, error) || !tensors_checksum(file, tensor, &box, &found, error)) return false;
        if (found != written) *damaged = element;
    }
    return true;
}

bool checksums_say(const Checksums *sums, const TensorFile *file, int64_t damaged, Error *error) {
    Text text = {0};
    Box box;
    int t = 0;
    while (t == sums->tensor || damaged < sums->first[t] || damaged >= sums->first[t] + count_boxes(&sums->boxes[t]))
        t++;
    layout_box(&sums->boxes[t], &file->tensors.at[t].shape, (int)(damaged - sums->first[t]), &box);
    text_printf(&text, "'%.100s'", file->tensors.at[t].name);
    for (int d = 0; d < box.ndim; d++)
        text_printf(&text, "%s%" PRId64 ":%" PRId64 "%s", d > 0 ? ", " : " [", box.begin[d], box.end[d], d == box.ndim - 1 ? "]" : "");
    text_printable(text.at); /* one line, whatever the file says */
    error_set(error, EXIT_ENVIRONMENT, "%s: damaged: %s is not what was written there", file->path, text.at);
    text_finish(&text);
    return false;
}
