/* safetensors files: what is accepted has all its elements, and written again it says the same. */
#include "runtime/tensors.h"

#include <string.h>
#include <unistd.h>

#include "tests/fuzz/file.h"

static void read_elements(const TensorFile *file, int tensor) {
    const Shape *shape = &file->tensors.at[tensor].shape;
    double elements[256]; /* room for any type */
    Box box = {.ndim = shape->ndim};
    Error error = {0};
    for (int d = 0; d < shape->ndim; d++)
        box.end[d] = shape->dim[d] < 4 ? shape->dim[d] : d == 0 ? 4 : 1 + (shape->dim[d] - 1) % 3;
    if (box_elements(&box) > (int64_t)(sizeof elements / sizeof *elements)) return;
    if (!tensors_read(file, tensor, &box, file->tensors.at[tensor].dtype, elements, &error)) require_error(&error, file->path);
}

/* Written with the same tensors and metadata it has the same header. */
static void write_again(const TensorFile *file, Arena *arena) {
    char path[FUZZ_PATH];
    Error error = {0};
    Text header = {0};
    TensorFile again = *file, third;
    again.tensors.at = arena_alloc(arena, (size_t)file->tensors.n * sizeof *file->tensors.at);
    if (file->tensors.n > 0) memcpy(again.tensors.at, file->tensors.at, (size_t)file->tensors.n * sizeof *file->tensors.at);
    again.fd = -1;
    tensors_layout(&again, &header);
    if (again.bytes < 1 << 20) {
        file_put(path, NULL, 0, false);
        again.path = path;
        require(tensors_create(&again, &header, &error) && tensors_commit(&again, &error), "what was read cannot be written");
        bool opened = tensors_open(&third, arena, path, &error);
        if (!opened) fprintf(stderr, "%s\n", error.text);
        require(opened, "what was written again does not read back");
        require(third.tensors.n == file->tensors.n && third.metadata.n == file->metadata.n, "what was written again has other entries");
        for (int t = 0; t < third.tensors.n; t++)
            require(strcmp(third.tensors.at[t].name, file->tensors.at[t].name) == 0 &&
                        third.tensors.at[t].dtype == file->tensors.at[t].dtype &&
                        shape_equal(&third.tensors.at[t].shape, &file->tensors.at[t].shape) &&
                        third.tensors.at[t].begin == again.tensors.at[t].begin,
                    "what was written again has other tensors");
        for (int m = 0; m < third.metadata.n; m++)
            require(strcmp(third.metadata.at[m].key, file->metadata.at[m].key) == 0 &&
                        strcmp(third.metadata.at[m].value, file->metadata.at[m].value) == 0,
                    "what was written again has other metadata");
        tensors_close(&third);
        unlink(path);
    }
    text_finish(&header);
}

Verdict try_bytes(const unsigned char *bytes, size_t n) {
    char path[FUZZ_PATH];
    Arena arena;
    TensorFile file;
    Error error = {0};
    arena_init(&arena);
    file_put(path, bytes, n, false);
    bool ok = tensors_open(&file, &arena, path, &error);
    if (!ok) require_error(&error, path);
    for (int t = 0; ok && t < file.tensors.n; t++)
        read_elements(&file, t);
    if (ok) write_again(&file, &arena);
    tensors_close(&file);
    unlink(path);
    arena_finish(&arena);
    return ok ? ACCEPTED : REFUSED;
}
