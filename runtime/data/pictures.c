/* pictures: see pictures.h. CIFAR-10: a byte with the label, then 32 x 32 bytes of red, of green, of blue (cs.toronto.edu/~kriz/cifar.html). Folders: as in torchvision's
 * ImageFolder, classes are the folders sorted by name, and rows are the files, sorted likewise. */
#include "runtime/data/pictures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/map.h"
#include "runtime/data/data.h"
#include "runtime/data/pixels.h"
#include "runtime/data/sampler.h"

enum {
    CIFAR_SIDE = 32,
    CIFAR_LABELS = 10,
    CIFAR_BYTES = 1 + PIXEL_CHANNELS * CIFAR_SIDE * CIFAR_SIDE,
    MOST_PICTURE_BYTES = 1 << 28,
    MOST_DEPTH = 16
};

/* A file: one picture of a folder, or many of CIFAR-10. */
typedef struct Part {
    const char *path;
    int64_t begin; /* number of its first row */
    int label;     /* of a folder */
} Part;

struct Pictures {
    RowFile file;
    Arena arena;
    VEC(Part) parts;
    VEC(const char *) classes;
    int64_t count, others; /* others: files whose names are not those of pictures */
    int64_t channels, height, width;
    int fd, open;                   /* open: which part is open, of CIFAR-10 */
    Pixels read, step[2];           /* the picture of the file, and results of changes */
    unsigned char *ready;           /* as the input has it */
    int64_t ready_row, ready_epoch; /* -1: none */
    unsigned char *bytes;           /* of a file */
    size_t room;
    int64_t bytes_read;
};

static bool fails(const char *path, Error *error) {
    return error_set(error, EXIT_ENVIRONMENT, "%s: %s", path, strerror(errno));
}

/* ---------------------------------------------------------------- folders */

static bool is_picture(const char *name) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef VEC(const char *) Names;

/* The sorted names of the files, or folders, in a folder. */
static bool names_in(Pictures *pictures, const char *path, bool folders, Names *names, Error *error) {
    DIR *directory = opendir(path);
    if (!directory) return fails(path, error);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct stat status;
        if (entry->d_name[0] == '.') continue;
        const char *whole = arena_printf(&pictures->arena, "%s/%s", path, entry->d_name);
        const bool there = stat(whole, &status) == 0;
        if (!there && !folders && is_picture(entry->d_name)) return fails(whole, error), closedir(directory), false;
        if (!there || (folders ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode))) continue;
        vec_push(&pictures->arena, names, arena_copy(&pictures->arena, entry->d_name, strlen(entry->d_name)));
    }
    closedir(directory);
    if (names->n > 0) qsort(names->at, (size_t)names->n, sizeof *names->at, by_name);
    return true;
}

/* Adds the pictures of a class, in its folder and its subfolders. */
static bool add_folder(Pictures *pictures, const char *path, int label, int depth, Error *error) {
    Names files = {0}, folders = {0};
    if (depth == MOST_DEPTH) return error_set(error, EXIT_ENVIRONMENT, "%s: folders within folders, more than %d", path, MOST_DEPTH);
    if (!names_in(pictures, path, false, &files, error) || !names_in(pictures, path, true, &folders, error)) return false;
    for (int i = 0; i < files.n; i++) {
        const Part part = {arena_printf(&pictures->arena, "%s/%s", path, files.at[i]), pictures->count, label};
        if (!is_picture(files.at[i])) {
            pictures->others++;
            continue;
        }
        vec_push(&pictures->arena, &pictures->parts, part);
        pictures->count++;
    }
    for (int i = 0; i < folders.n; i++)
        if (!add_folder(pictures, arena_printf(&pictures->arena, "%s/%s", path, folders.at[i]), label, depth + 1, error)) return false;
    return true;
}

/* The names of the net's classes, or those of the folders. */
static bool list_classes(Pictures *pictures, const Names *folders, Error *error) {
    const char *at = pictures->file.classes, *path = pictures->file.path;
    for (; at && *at; at += *at == '\n') {
        const size_t n = strcspn(at, "\n");
        vec_push(&pictures->arena, &pictures->classes, arena_copy(&pictures->arena, at, n));
        at += n;
    }
    for (int f = 0; f < folders->n; f++) {
        bool known = !pictures->file.classes;
        for (int c = 0; !known && c < pictures->classes.n; c++)
            known = strcmp(pictures->classes.at[c], folders->at[f]) == 0;
        if (!known) return error_set(error, EXIT_ENVIRONMENT, "%s/%s: the folder's name is none of the classes", path, folders->at[f]);
        if (!pictures->file.classes) vec_push(&pictures->arena, &pictures->classes, folders->at[f]);
    }
    return true;
}

static bool open_folder(Pictures *pictures, Error *error) {
    const char *path = pictures->file.path;
    Names folders = {0};
    struct stat status;
    if (stat(path, &status) != 0) return fails(path, error);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, EXIT_ENVIRONMENT, "%s: is no folder: pictures lie in a folder for each class", path);
    if (!names_in(pictures, path, true, &folders, error) || !list_classes(pictures, &folders, error)) return false;
    if (folders.n == 0)
        return error_set(error, EXIT_ENVIRONMENT, "%s: holds no folders: pictures lie in a folder for each class, which gives it its name",
                         path);
    for (int c = 0; c < pictures->classes.n; c++) {
        const char *folder = arena_printf(&pictures->arena, "%s/%s", path, pictures->classes.at[c]);
        const int64_t before = pictures->count;
        if (stat(folder, &status) != 0) continue; /* a class of the net that these rows do not have */
        if (!add_folder(pictures, folder, c, 0, error)) return false;
        if (pictures->count == before)
            return error_set(error, EXIT_ENVIRONMENT, "%s: holds no picture: no name ends in .png, .jpg or .jpeg", folder);
    }
    return true;
}

/* ---------------------------------------------------------------- CIFAR-10 */

static bool add_cifar(Pictures *pictures, const char *path, Error *error) {
    struct stat status;
    if (stat(path, &status) != 0) return fails(path, error);
    if (!S_ISREG(status.st_mode)) return error_set(error, EXIT_ENVIRONMENT, "%s: is no ordinary file", path);
    if (status.st_size == 0 || status.st_size % CIFAR_BYTES != 0)
        return error_set(error, EXIT_ENVIRONMENT, "%s: %lld bytes are no whole number of CIFAR-10's rows of %d bytes", path,
                         (long long)status.st_size, CIFAR_BYTES);
    vec_push(&pictures->arena, &pictures->parts, (Part){.path = path, .begin = pictures->count});
    pictures->count += status.st_size / CIFAR_BYTES;
    return true;
}

static bool open_cifar(Pictures *pictures, Error *error) {
    const char *path = pictures->file.path;
    if (!strchr(path, '*')) return add_cifar(pictures, path, error);
    glob_t found = {0};
    bool ok = glob(path, 0, NULL, &found) == 0 || error_set(error, EXIT_ENVIRONMENT, "%s: there is no such file", path);
    for (size_t i = 0; ok && i < found.gl_pathc; i++)
        ok = add_cifar(pictures, arena_copy(&pictures->arena, found.gl_pathv[i], strlen(found.gl_pathv[i])), error);
    globfree(&found);
    return ok;
}

/* ---------------------------------------------------------------- opening */

Pictures *pictures_open(const RowFile *file, Error *error) {
    Pictures *pictures = calloc(1, sizeof *pictures);
    const Shape *row = &file->row;
    if (!pictures) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", file->path), NULL;
    arena_init(&pictures->arena);
    pictures->file = *file;
    pictures->fd = pictures->open = -1;
    pictures->ready_row = -1;
    pictures->channels = row->ndim == 3 ? row->dim[0] : 1;
    pictures->height = row->ndim >= 2 ? row->dim[row->ndim - 2] : 1;
    pictures->width = row->ndim >= 2 ? row->dim[row->ndim - 1] : 1;
    const bool fits =
        file->picture.label || ((row->ndim == 2 || row->ndim == 3) && (pictures->channels == 1 || pictures->channels == PIXEL_CHANNELS) &&
                                pictures->height <= MAX_PICTURE_SIDE && pictures->width <= MAX_PICTURE_SIDE);
    bool ok = fits || error_set(error, EXIT_ENVIRONMENT, "%s: the input's rows are no pictures", file->path);
    ok = ok && (file->format == FILE_CIFAR10 ? open_cifar(pictures, error) : open_folder(pictures, error));
    pictures->ready = ok && !file->picture.label ? malloc((size_t)(pictures->channels * pictures->height * pictures->width) + 1) : NULL;
    if (ok && !file->picture.label && !pictures->ready)
        ok = error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for a picture", file->path);
    if (ok) return pictures;
    pictures_close(pictures);
    return NULL;
}

void pictures_close(Pictures *pictures) {
    if (!pictures) return;
    if (pictures->fd >= 0) close(pictures->fd);
    pixels_finish(&pictures->read);
    pixels_finish(&pictures->step[0]);
    pixels_finish(&pictures->step[1]);
    free(pictures->ready);
    free(pictures->bytes);
    arena_finish(&pictures->arena);
    free(pictures);
}

/* Whether the input may hold the label. */
static bool label_fits(const Pictures *pictures, int64_t row, int64_t label, Error *error) {
    char why[160];
    Text where = {0};
    if (rows_value_fits(&pictures->file, (double)label, why, sizeof why)) return true;
    pictures_where(pictures, row, &where);
    error_set(error, EXIT_ENVIRONMENT, "%s: its label is %s", where.at, why);
    text_finish(&where);
    return false;
}

bool pictures_look(Pictures *pictures, Error *error) {
    static const double BUDGET_S = 0.7;
    const double began = now_seconds();
    const RowFile *file = &pictures->file;
    const int64_t end = file->rows > 0 && file->rows < pictures->count - file->first ? file->first + file->rows : pictures->count;
    for (int64_t row = file->first; row < end && now_seconds() - began < BUDGET_S; row++) {
        int64_t label;
        if (file->picture.label ? !pictures_label(pictures, row, NULL, &label, error) || !label_fits(pictures, row, label, error)
                                : !pictures_read(pictures, row, 0, error))
            return false;
    }
    return true;
}

int64_t pictures_count(const Pictures *pictures) {
    return pictures->count;
}

int64_t pictures_bytes_read(const Pictures *pictures) {
    return pictures->bytes_read;
}

void pictures_describe(const Pictures *pictures, Text *text) {
    uint64_t hash = 0;
    for (int i = 0; pictures->file.format == FILE_PICTURES && i < pictures->parts.n; i++)
        hash = hash * UINT64_C(0x100000001B3) + hash_bytes(pictures->parts.at[i].path, strlen(pictures->parts.at[i].path)) +
               (uint64_t)pictures->parts.at[i].label;
    text_printf(text, "%lld pictures", (long long)pictures->count);
    if (pictures->file.format == FILE_PICTURES)
        text_printf(text, " of %d classes, names %016llx", pictures->classes.n, (unsigned long long)hash);
}

char *pictures_classes(const Pictures *pictures) {
    size_t n = 1;
    for (int c = 0; c < pictures->classes.n; c++)
        n += strlen(pictures->classes.at[c]) + 1;
    char *all = malloc(n);
    if (!all) return NULL;
    all[0] = '\0';
    for (int c = 0; c < pictures->classes.n; c++) {
        if (c > 0) strcat(all, "\n");
        strcat(all, pictures->classes.at[c]);
    }
    return all;
}

/* A class's position among names, one a line; -1: it is none of them. names NULL: its own number. */
static int class_number(const Pictures *pictures, int label, const char *classes) {
    const char *name = pictures->classes.at[label];
    int number = 0;
    for (const char *at = classes; at && *at; number++) {
        const size_t n = strcspn(at, "\n");
        if (strlen(name) == n && memcmp(at, name, n) == 0) return number;
        at += n + (at[n] == '\n');
    }
    return classes ? -1 : label;
}

bool pictures_know(const Pictures *pictures, const char *classes, Error *error) {
    for (int c = 0; c < pictures->classes.n; c++)
        if (class_number(pictures, c, classes) < 0)
            return error_set(error, EXIT_ENVIRONMENT, "%s/%s: the folder's name is none of the classes of training", pictures->file.path,
                             pictures->classes.at[c]);
    return true;
}

void pictures_note(const Pictures *pictures, const char *classes, Text *text) {
    enum { NAMED = 20 };
    if (pictures->file.format != FILE_PICTURES) return;
    const char *path = pictures->file.path;
    text_printf(text, "%s: %lld picture%s of %d class%s:", path, (long long)pictures->count, pictures->count == 1 ? "" : "s",
                pictures->classes.n, pictures->classes.n == 1 ? "" : "es");
    for (int c = 0; c < pictures->classes.n && c < NAMED; c++) {
        text_printf(text, "%s ", c ? "," : "");
        if (!classes || *classes) text_printf(text, "%d ", class_number(pictures, c, classes));
        text_printf(text, "%s", pictures->classes.at[c]);
    }
    text_printf(text, "%s\n", pictures->classes.n > NAMED ? ", .." : "");
    if (pictures->others > 0)
        text_printf(text, "%s: %lld file%s left out: no name of .png, .jpg or .jpeg\n", path, (long long)pictures->others,
                    pictures->others == 1 ? " is" : "s are");
}

/* ---------------------------------------------------------------- reading */

static const Part *part_of(const Pictures *pictures, int64_t row) {
    int low = 0, high = pictures->parts.n;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (pictures->parts.at[middle].begin <= row)
            low = middle;
        else
            high = middle;
    }
    return &pictures->parts.at[low];
}

void pictures_where(const Pictures *pictures, int64_t row, Text *text) {
    const Part *part = part_of(pictures, row);
    text_printf(text, "%s", part->path);
    if (pictures->file.format == FILE_CIFAR10) text_printf(text, ", row %lld (from 0)", (long long)(row - part->begin));
}

static bool has_room(Pictures *pictures, const char *path, size_t bytes, Error *error) {
    if (bytes <= pictures->room) return true;
    unsigned char *at = realloc(pictures->bytes, bytes);
    if (!at) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory for %zu bytes", path, bytes);
    pictures->bytes = at;
    pictures->room = bytes;
    return true;
}

/* Reads bytes of an open file into pictures->bytes. */
static bool take_bytes(Pictures *pictures, const char *path, int fd, int64_t offset, size_t n, Error *error) {
    if (!has_room(pictures, path, n, error)) return false;
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(fd, pictures->bytes + done, n - done, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fails(path, error);
        if (got == 0) return error_set(error, EXIT_ENVIRONMENT, "%s: has become shorter", path);
        done += (size_t)got;
    }
    pictures->bytes_read += (int64_t)n;
    return true;
}

/* Reads bytes of a row of CIFAR-10 into pictures->bytes. */
static bool take_cifar(Pictures *pictures, const Part *part, int64_t row, size_t n, Error *error) {
    const int number = (int)(part - pictures->parts.at);
    if (pictures->open != number) {
        if (pictures->fd >= 0) close(pictures->fd);
        pictures->open = number;
        pictures->fd = open(part->path, O_RDONLY);
        if (pictures->fd < 0) return pictures->open = -1, fails(part->path, error);
    }
    return take_bytes(pictures, part->path, pictures->fd, (row - part->begin) * CIFAR_BYTES, n, error);
}

bool pictures_label(Pictures *pictures, int64_t row, const char *classes, int64_t *label, Error *error) {
    const Part *part = part_of(pictures, row);
    if (pictures->file.format != FILE_CIFAR10) {
        *label = class_number(pictures, part->label, classes);
        return true;
    }
    if (!take_cifar(pictures, part, row, 1, error)) return false;
    *label = pictures->bytes[0];
    return *label < CIFAR_LABELS || error_set(error, EXIT_ENVIRONMENT, "%s: row %lld has label %lld, and CIFAR-10's are 0 .. 9", part->path,
                                              (long long)(row - part->begin), (long long)*label);
}

/* Reads the picture of the file into pictures->read. */
static bool take_picture(Pictures *pictures, int64_t row, Error *error) {
    const Part *part = part_of(pictures, row);
    Pixels *read = &pictures->read;
    if (pictures->file.format == FILE_CIFAR10) {
        enum { PLANE = CIFAR_SIDE * CIFAR_SIDE };
        if (!take_cifar(pictures, part, row, CIFAR_BYTES, error)) return false;
        if (!pixels_size(read, CIFAR_SIDE, CIFAR_SIDE)) return error_set(error, EXIT_ENVIRONMENT, "%s: out of memory", part->path);
        for (int i = 0; i < PLANE; i++)
            for (int c = 0; c < PIXEL_CHANNELS; c++)
                read->at[i * PIXEL_CHANNELS + c] = pictures->bytes[1 + c * PLANE + i];
        return true;
    }
    struct stat status;
    const int fd = open(part->path, O_RDONLY);
    if (fd < 0) return fails(part->path, error);
    bool ok = fstat(fd, &status) == 0 || fails(part->path, error);
    if (ok && status.st_size > MOST_PICTURE_BYTES) ok = error_set(error, EXIT_ENVIRONMENT, "%s: too large for a picture", part->path);
    ok = ok && take_bytes(pictures, part->path, fd, 0, (size_t)status.st_size, error);
    close(fd);
    return ok && pixels_decode(read, part->path, pictures->bytes, (size_t)status.st_size, error);
}

/* The middle, as torchvision's CenterCrop has it: Python's round((whole - part) / 2). */
static int64_t middle_of(int64_t whole, int64_t part) {
    return (int64_t)rint((double)(whole - part) / 2);
}

/* Resizes, pads, crops and flips the picture as asked; *done: the result. */
static bool change_picture(Pictures *pictures, int64_t row, int64_t epoch, const Pixels **done, Error *error) {
    const PictureChange *change = &pictures->file.picture;
    const Pixels *now = &pictures->read;
    int next = 0;
    double chance[4] = {0.5, 0.5, 0.5, 0.5};
    Text where = {0};
    bool ok = true;
    if (change->random) {
        const uint64_t key = random_key(pictures->file.seed, "pictures"),
                       pair = 2 * ((uint64_t)epoch * (uint64_t)pictures->count + (uint64_t)row);
        random_uniform_pair(key, pair, 0, 1, chance);
        random_uniform_pair(key, pair + 1, 0, 1, chance + 2);
    }
    if (change->resize[0] > 0) {
        int64_t height = change->resize[0], width = change->resize[1];
        if (width == 0) { /* the shorter side, as torchvision's Resize */
            const int64_t side = height;
            height = now->height <= now->width ? side : side * now->height / now->width;
            width = now->height <= now->width ? side * now->width / now->height : side;
        }
        ok = height > 0 && width > 0 && height <= MAX_PICTURE_SIDE && width <= MAX_PICTURE_SIDE &&
             pixels_resize(now, height, width, &pictures->step[next]);
        now = &pictures->step[next];
        next = 1 - next;
    }
    if (ok && (change->pad > 0 || change->crop[0] > 0 || change->flip)) {
        const int64_t padded[2] = {now->height + 2 * change->pad, now->width + 2 * change->pad};
        const int64_t part[2] = {change->crop[0] > 0 ? change->crop[0] : padded[0], change->crop[1] > 0 ? change->crop[1] : padded[1]};
        int64_t begin[2];
        if (part[0] > padded[0] || part[1] > padded[1]) {
            pictures_where(pictures, row, &where);
            error_set(error, EXIT_ENVIRONMENT, "%s: the picture is %lld x %lld, and a part of %lld x %lld is cut out: resize or pad it",
                      where.at, (long long)padded[0], (long long)padded[1], (long long)part[0], (long long)part[1]);
            text_finish(&where);
            return false;
        }
        for (int d = 0; d < 2; d++)
            begin[d] = change->random ? (int64_t)(chance[d] * (double)(padded[d] - part[d] + 1)) : middle_of(padded[d], part[d]);
        ok = pixels_cut(now, begin[0] - change->pad, begin[1] - change->pad, part[0], part[1],
                        change->random && change->flip && chance[2] < 0.5, &pictures->step[next]);
        now = &pictures->step[next];
        next = 1 - next;
    }
    if (ok && (now->height != pictures->height || now->width != pictures->width)) {
        ok = pixels_resize(now, pictures->height, pictures->width, &pictures->step[next]);
        now = &pictures->step[next];
    }
    *done = now;
    if (ok) return true;
    pictures_where(pictures, row, &where);
    error_set(error, EXIT_ENVIRONMENT, "%s: a picture of %lld x %lld cannot be brought to another size: too large, or out of memory",
              where.at, (long long)pictures->read.height, (long long)pictures->read.width);
    text_finish(&where);
    return false;
}

const unsigned char *pictures_read(Pictures *pictures, int64_t row, int64_t epoch, Error *error) {
    const int64_t plane = pictures->height * pictures->width;
    const Pixels *done;
    if (!pictures->file.picture.random) epoch = 0;
    if (pictures->ready_row == row && pictures->ready_epoch == epoch) return pictures->ready;
    pictures->ready_row = -1;
    if (!take_picture(pictures, row, error) || !change_picture(pictures, row, epoch, &done, error)) return NULL;
    for (int64_t i = 0; i < plane; i++) {
        const unsigned char *at = done->at + i * PIXEL_CHANNELS;
        for (int64_t c = 0; pictures->channels == PIXEL_CHANNELS && c < PIXEL_CHANNELS; c++)
            pictures->ready[c * plane + i] = at[c];
        /* ITU-R 601-2 luma, as Pillow's convert("L") rounds it. */
        if (pictures->channels == 1) pictures->ready[i] = (unsigned char)((at[0] * 19595 + at[1] * 38470 + at[2] * 7471 + 0x8000) >> 16);
    }
    pictures->ready_row = row;
    pictures->ready_epoch = epoch;
    return pictures->ready;
}
