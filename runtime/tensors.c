/* tensors: safetensors files. */
#include "runtime/tensors.h"
#include "ir/file.h"
#include "runtime/element.h"
#include "runtime/slices.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 8, MOST_HEADER_BYTES = 64 << 20 };
static const char *const type_name[NDTYPES] = {
    [F32] = "F32", [F64] = "F64", [I32] = "I32", [I64] = "I64", [BOOL] = "BOOL", [F16] = "F16", [BF16] = "BF16"};

static bool fail(const TensorFile *file, Error *error, const char *words) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", file->path, words);
}

static bool fail_errno(const TensorFile *file, Error *error, const char *what) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s: %s", file->path, what, strerror(errno));
}

/* ---------------------------------------------------------------- bytes */

static bool read_bytes(const TensorFile *file, void *to, int64_t n, int64_t at, Error *error) {
    for (int64_t done = 0; done < n;) {
        ssize_t got = pread(file->fd, (char *)to + done, (size_t)(n - done), (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(file, error, "cannot read");
        if (got == 0) return fail(file, error, "the file ends early");
        done += got;
    }
    return true;
}

static bool write_bytes(const TensorFile *file, const void *from, int64_t n, int64_t at, Error *error) {
    for (int64_t done = 0; done < n;) {
        ssize_t put = pwrite(file->fd, (const char *)from + done, (size_t)(n - done), (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return fail_errno(file, error, "cannot write");
        done += put;
    }
    return true;
}

static bool host_is_little_endian(void) {
    const uint16_t one = 1;
    unsigned char low;
    memcpy(&low, &one, 1);
    return low == 1;
}

/* Copies one element of `size` bytes between memory and file. */
static void in_order(unsigned char *to, const unsigned char *from, int size) {
    const bool little = host_is_little_endian();
    for (int b = 0; b < size; b++)
        to[b] = from[little ? b : size - 1 - b];
}

/* Convert elements in memory from or to their bytes in the file, which are little-endian on any machine. */
static void from_little_endian(const unsigned char *bytes, DType stored, DType dtype, int64_t n, void *to) {
    int size = dtype_bytes[stored];
    if (host_is_little_endian() && stored == dtype && stored != BOOL) { /* any BOOL byte but 0 is true */
        memcpy(to, bytes, (size_t)(n * size));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        unsigned char element[8];
        in_order(element, bytes + i * size, size);
        if (stored == dtype && stored != BOOL)
            memcpy((char *)to + i * size, element, (size_t)size);
        else
            element_put(to, dtype, i, element_at(element, stored, 0));
    }
}

static void to_little_endian(const void *from, DType dtype, int64_t n, unsigned char *bytes) {
    int size = dtype_bytes[dtype];
    if (host_is_little_endian())
        memcpy(bytes, from, (size_t)(n * size));
    else
        for (int64_t i = 0; i < n; i++)
            in_order(bytes + i * size, (const unsigned char *)from + i * size, size);
}

/* ---------------------------------------------------------------- reading the header */

static bool exact_integer(const cJSON *item, int64_t *value) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53) || item->valuedouble != floor(item->valuedouble))
        return false;
    *value = (int64_t)item->valuedouble;
    return true;
}

static bool read_shape(const cJSON *item, Shape *shape) {
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) >= MAX_NDIM) return false;
    const cJSON *size;
    cJSON_ArrayForEach(size, item) if (!exact_integer(size, &shape->dim[shape->ndim++])) return false;
    return true;
}

/* Reads one entry of the header; *known false: its type is unknown, and it is left out. */
static bool read_tensor(const TensorFile *file, const cJSON *item, int64_t data, StoredTensor *tensor, bool *known, Error *error) {
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "dtype"), *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t begin, end, count, bytes;
    char words[200];
    snprintf(words, sizeof words, "its entry for '%.100s' is damaged", item->string);
    text_printable(words); /* one line, whatever the file says */
    if (!cJSON_IsObject(item) || !cJSON_IsString(type) || !read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), &tensor->shape) ||
        cJSON_GetArraySize(offsets) != 2 || !exact_integer(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !exact_integer(cJSON_GetArrayItem(offsets, 1), &end) || begin > end || end > file->bytes - data)
        return fail(file, error, words);
    int dtype = 0;
    while (dtype < NDTYPES && strcmp(type_name[dtype], type->valuestring) != 0)
        dtype++;
    *known = dtype < NDTYPES;
    if (!*known) return true;
    tensor->dtype = (DType)dtype;
    tensor->begin = data + begin;
    if (!shape_count(&tensor->shape, &count) || !mul_checked(count, dtype_bytes[tensor->dtype], &bytes) || bytes != end - begin)
        return fail(file, error, words);
    return true;
}

static bool read_header(TensorFile *file, Arena *arena, const char *text, int64_t n, Error *error) {
    cJSON *json = cJSON_ParseWithLength(text, (size_t)n);
    bool ok = cJSON_IsObject(json) || fail(file, error, "no safetensors file: its header is no JSON object");
    for (const cJSON *item = ok ? json->child : NULL; ok && item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0) {
            for (const cJSON *pair = item->child; pair; pair = pair->next)
                if (cJSON_IsString(pair)) {
                    Metadata metadata = {arena_copy(arena, pair->string, strlen(pair->string)),
                                         arena_copy(arena, pair->valuestring, strlen(pair->valuestring))};
                    vec_push(arena, &file->metadata, metadata);
                }
            continue;
        }
        StoredTensor tensor = {.name = arena_copy(arena, item->string, strlen(item->string))};
        bool known = false;
        ok = read_tensor(file, item, LENGTH_BYTES + n, &tensor, &known, error);
        if (ok && known) vec_push(arena, &file->tensors, tensor);
        if (ok && !known) vec_push(arena, &file->unread, tensor.name);
    }
    cJSON_Delete(json);
    return ok;
}

/* ---------------------------------------------------------------- an index of several files */

static const char index_ending[] = ".index.json";

static bool is_index(const char *path) {
    const size_t n = strlen(path), ending = sizeof index_ending - 1;
    return n > ending && strcmp(path + n - ending, index_ending) == 0;
}

/* The file of this name in the folder of the index, opened once; NULL with *error. */
static TensorFile *volume_open(TensorFile *index, Arena *arena, const char *name, Error *error) {
    const char *slash = strrchr(index->path, '/');
    const char *path = arena_printf(arena, "%.*s%s", slash ? (int)(slash + 1 - index->path) : 0, index->path, name);
    for (int i = 0; i < index->volumes.n; i++)
        if (strcmp(index->volumes.at[i]->path, path) == 0) return index->volumes.at[i];
    TensorFile *volume = arena_alloc(arena, sizeof *volume);
    if (!tensors_open(volume, arena, path, error)) return NULL;
    vec_push(arena, &index->volumes, volume);
    for (int i = 0; i < volume->unread.n; i++)
        vec_push(arena, &index->unread, volume->unread.at[i]);
    return volume;
}

static bool read_entry(TensorFile *index, Arena *arena, const cJSON *item, Error *error) {
    char words[200];
    snprintf(words, sizeof words, "its entry for '%.100s' names no file beside it", item->string);
    text_printable(words);
    const char *name = cJSON_GetStringValue(item);
    if (!name || !*name || strchr(name, '/') || is_index(name)) return fail(index, error, words);
    const TensorFile *volume = volume_open(index, arena, name, error);
    if (!volume) return false;
    const int number = tensors_find(volume, item->string);
    for (int i = 0; number < 0 && i < volume->unread.n; i++)
        if (strcmp(volume->unread.at[i], item->string) == 0) return true;
    if (number < 0) {
        snprintf(words, sizeof words, "it has no '%.100s', which the index says it has", item->string);
        text_printable(words);
        return fail(volume, error, words);
    }
    StoredTensor tensor = volume->tensors.at[number];
    tensor.in = volume;
    tensor.number = number;
    vec_push(arena, &index->tensors, tensor);
    return true;
}

static bool index_open(TensorFile *index, Arena *arena, Error *error) {
    char *text;
    size_t n;
    if (!file_read(arena, index->path, MOST_HEADER_BYTES, &text, &n, error)) return false;
    cJSON *json = cJSON_ParseWithLength(text, n);
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(json, "weight_map");
    bool ok = cJSON_IsObject(map) || fail(index, error, "no index of safetensors files: it has no weight_map");
    for (const cJSON *item = ok ? map->child : NULL; ok && item; item = item->next)
        ok = read_entry(index, arena, item, error);
    cJSON_Delete(json);
    if (!ok) tensors_close(index);
    return ok;
}

bool tensors_open(TensorFile *file, Arena *arena, const char *path, Error *error) {
    *file = (TensorFile){.path = path, .fd = -1};
    if (is_index(path)) return index_open(file, arena, error);
    struct stat status;
    file->fd = open(path, O_RDONLY | O_NONBLOCK); /* does not block on a pipe: what is no file is refused below */
    if (file->fd < 0 || fstat(file->fd, &status) != 0) return fail_errno(file, error, "cannot be opened");
    file->bytes = status.st_size;
    unsigned char length[LENGTH_BYTES];
    uint64_t n = 0;
    bool ok = S_ISREG(status.st_mode) || fail(file, error, "is no file");
    ok = ok && (file->bytes >= LENGTH_BYTES || fail(file, error, "no safetensors file: it is too short"));
    ok = ok && read_bytes(file, length, LENGTH_BYTES, 0, error);
    for (int b = LENGTH_BYTES - 1; b >= 0 && ok; b--)
        n = n << 8 | length[b];
    ok = ok && ((n <= MOST_HEADER_BYTES && n <= (uint64_t)(file->bytes - LENGTH_BYTES)) ||
                fail(file, error, "no safetensors file, or it is cut off"));
    char *text = ok ? malloc((size_t)n + 1) : NULL;
    ok = ok && (text || fail(file, error, "out of memory")) && read_bytes(file, text, (int64_t)n, LENGTH_BYTES, error) &&
         read_header(file, arena, text, (int64_t)n, error);
    if (ok) file->header_checksum = XXH64(text, (size_t)n, 0);
    free(text);
    if (!ok) tensors_close(file);
    return ok;
}

int tensors_find(const TensorFile *file, const char *name) {
    for (int i = 0; i < file->tensors.n; i++)
        if (strcmp(file->tensors.at[i].name, name) == 0) return i;
    return -1;
}

const char *tensors_metadata(const TensorFile *file, const char *key) {
    for (int i = 0; i < file->metadata.n; i++)
        if (strcmp(file->metadata.at[i].key, key) == 0) return file->metadata.at[i].value;
    return NULL;
}

/* ---------------------------------------------------------------- making a file */

static void json_string(Text *text, const char *word) {
    text_append(text, "\"", 1);
    for (; *word; word++)
        if (*word == '"' || *word == '\\' || (unsigned char)*word < 0x20)
            text_printf(text, "\\u%04x", (unsigned)(unsigned char)*word);
        else
            text_append(text, word, 1);
    text_append(text, "\"", 1);
}

void tensors_layout(TensorFile *file, Text *header) {
    int64_t at = 0;
    text_printf(header, "{\"__metadata__\":{");
    for (int i = 0; i < file->metadata.n; i++) {
        if (i > 0) text_printf(header, ",");
        json_string(header, file->metadata.at[i].key);
        text_printf(header, ":");
        json_string(header, file->metadata.at[i].value);
    }
    text_printf(header, "}");
    for (int i = 0; i < file->tensors.n; i++) {
        StoredTensor *tensor = &file->tensors.at[i];
        text_printf(header, ",");
        json_string(header, tensor->name);
        text_printf(header, ":{\"dtype\":\"%s\",\"shape\":[", type_name[tensor->dtype]);
        for (int d = 0; d < tensor->shape.ndim; d++)
            text_printf(header, "%s%lld", d ? "," : "", (long long)tensor->shape.dim[d]);
        int64_t bytes = shape_elements(&tensor->shape) * dtype_bytes[tensor->dtype];
        text_printf(header, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
        tensor->begin = at;
        at += bytes;
    }
    text_printf(header, "}");
    while (header->n % ALIGNMENT != 0)
        text_append(header, " ", 1);
    for (int i = 0; i < file->tensors.n; i++)
        file->tensors.at[i].begin += LENGTH_BYTES + (int64_t)header->n;
    file->bytes = LENGTH_BYTES + (int64_t)header->n + at;
}

bool tensors_create(TensorFile *file, const Text *header, Error *error) {
    unsigned char length[LENGTH_BYTES];
    for (int b = 0; b < LENGTH_BYTES; b++)
        length[b] = (unsigned char)((uint64_t)header->n >> 8 * b);
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file->fd < 0) return fail_errno(file, error, "cannot be made");
    if (ftruncate(file->fd, (off_t)file->bytes) != 0) return fail_errno(file, error, "cannot be given its size");
    return write_bytes(file, length, LENGTH_BYTES, 0, error) && write_bytes(file, header->at, (int64_t)header->n, LENGTH_BYTES, error);
}

bool tensors_join(TensorFile *file, Error *error) {
    file->fd = open(file->path, O_WRONLY);
    return file->fd >= 0 || fail_errno(file, error, "cannot be opened (is it on a disk that all nodes share?)");
}

bool tensors_commit(TensorFile *file, Error *error) {
    bool ok = fsync(file->fd) == 0 || fail_errno(file, error, "cannot be flushed to the disk");
    if (close(file->fd) != 0 && ok) ok = fail_errno(file, error, "cannot be closed");
    file->fd = -1;
    return ok;
}

void tensors_close(TensorFile *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
    for (int i = 0; i < file->volumes.n; i++)
        tensors_close(file->volumes.at[i]);
    file->volumes.n = 0;
}

/* ---------------------------------------------------------------- boxes */

enum { CHUNK_ELEMENTS = 8192 };

/* hash: NULL, or is updated with the bytes. */
static bool write_run(const TensorFile *file, const StoredTensor *tensor, int64_t first, int64_t n, const char *from, XXH64_state_t *hash,
                      Error *error) {
    unsigned char bytes[CHUNK_ELEMENTS * 8];
    int size = dtype_bytes[tensor->dtype];
    for (int64_t done = 0; done < n; done += CHUNK_ELEMENTS) {
        int64_t count = n - done < CHUNK_ELEMENTS ? n - done : CHUNK_ELEMENTS;
        to_little_endian(from + done * size, tensor->dtype, count, bytes);
        if (hash) XXH64_update(hash, bytes, (size_t)(count * size));
        if (!write_bytes(file, bytes, count * size, tensor->begin + (first + done) * size, error)) return false;
    }
    return true;
}

/* Small runs, as columns of a matrix, are taken from one larger read: far fewer calls, for some more bytes. */
bool tensors_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error) {
    const StoredTensor *stored = &file->tensors.at[tensor];
    if (stored->dtype != dtype && !(dtype_is_float(stored->dtype) && dtype_is_float(dtype)))
        return error_set(error, EXIT_ENVIRONMENT, "%s: '%s' holds %s, and %s is needed", file->path, stored->name,
                         dtype_name[stored->dtype], dtype_name[dtype]);
    if (stored->in) return tensors_read(stored->in, stored->number, box, dtype, to, error);
    if (file->slices && stored->begin < 0) return slices_read(file, tensor, box, dtype, to, error);
    unsigned char bytes[CHUNK_ELEMENTS * 8];
    int size = dtype_bytes[stored->dtype];
    int64_t all = shape_elements(&stored->shape), begin = 0, end = 0; /* elements that `bytes` holds */
    BoxRuns runs = box_runs(&stored->shape, box);
    char *at = to;
    for (int64_t first; box_next_run(&runs, &first);)
        for (int64_t next = first, last = first + runs.length; next < last;) {
            if (next >= end) {
                bool scattered = runs.count > 1 && runs.length < CHUNK_ELEMENTS / 2;
                int64_t most = scattered ? all - next : last - next;
                begin = next;
                end = next + (most < CHUNK_ELEMENTS ? most : CHUNK_ELEMENTS);
                if (!read_bytes(file, bytes, (end - begin) * size, stored->begin + begin * size, error)) return false;
            }
            int64_t n = (last < end ? last : end) - next;
            from_little_endian(bytes + (next - begin) * size, stored->dtype, dtype, n, at);
            at += n * dtype_bytes[dtype];
            next += n;
        }
    return true;
}

bool tensors_read_transposed(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error) {
    enum { TILE = 32 }; /* rows and columns that stay in the cache */
    const Box stored = {.ndim = 2, .begin = {box->begin[1], box->begin[0]}, .end = {box->end[1], box->end[0]}};
    const int64_t rows = box->end[0] - box->begin[0], columns = box->end[1] - box->begin[1];
    const size_t size = (size_t)dtype_bytes[dtype];
    char *copy = malloc((size_t)(rows * columns) * size + 1);
    bool ok =
        (copy || fail(file, error, "out of memory for a transposed tensor")) && tensors_read(file, tensor, &stored, dtype, copy, error);
    for (int64_t i = 0; ok && i < rows; i += TILE)
        for (int64_t j = 0; j < columns; j += TILE)
            for (int64_t r = i; r < i + TILE && r < rows; r++)
                for (int64_t c = j; c < j + TILE && c < columns; c++)
                    memcpy((char *)to + (size_t)(r * columns + c) * size, copy + (size_t)(c * rows + r) * size, size);
    free(copy);
    return ok;
}

static XXH64_state_t *hash_begin(const TensorFile *file, Error *error) {
    XXH64_state_t *hash = XXH64_createState();
    if (hash)
        XXH64_reset(hash, 0);
    else
        fail(file, error, "out of memory for a checksum");
    return hash;
}

bool tensors_write(const TensorFile *file, int tensor, const Box *box, const void *from, uint64_t *checksum, Error *error) {
    const StoredTensor *stored = &file->tensors.at[tensor];
    XXH64_state_t *hash = checksum ? hash_begin(file, error) : NULL;
    BoxRuns runs = box_runs(&stored->shape, box);
    const char *at = from;
    bool ok = hash || !checksum;
    for (int64_t first; ok && box_next_run(&runs, &first); at += runs.length * dtype_bytes[stored->dtype])
        ok = write_run(file, stored, first, runs.length, at, hash, error);
    if (ok && checksum) *checksum = XXH64_digest(hash);
    XXH64_freeState(hash);
    return ok;
}

bool tensors_checksum(const TensorFile *file, int tensor, const Box *box, uint64_t *checksum, Error *error) {
    const StoredTensor *stored = &file->tensors.at[tensor];
    unsigned char bytes[CHUNK_ELEMENTS * 8];
    XXH64_state_t *hash = hash_begin(file, error);
    BoxRuns runs = box_runs(&stored->shape, box);
    const int64_t size = dtype_bytes[stored->dtype], length = runs.length * size;
    bool ok = hash != NULL;
    for (int64_t first; ok && box_next_run(&runs, &first);)
        for (int64_t done = 0; ok && done < length; done += sizeof bytes) {
            int64_t n = length - done < (int64_t)sizeof bytes ? length - done : (int64_t)sizeof bytes;
            ok = read_bytes(file, bytes, n, stored->begin + first * size + done, error);
            if (ok) XXH64_update(hash, bytes, (size_t)n);
        }
    if (ok) *checksum = XXH64_digest(hash);
    XXH64_freeState(hash);
    return ok;
}
