/* source: a plan's text about the data of an input: its kind, and the file that holds its rows. */
#include "ir/lookup.h"
#include "ir/text.h"

#include <math.h>
#include <string.h>

/* "index=(0, 10)". */
bool scan_index(Scan *scan, DType dtype, IndexRange *index) {
    const int64_t least = dtype == I32 ? INT32_MIN : -INDEX_MOST, most = dtype == I32 ? INT32_MAX : INDEX_MOST;
    if (!scan_is_key(scan, "index")) return true;
    if (dtype != I32 && dtype != I64) return scan_fail(scan, "an index of %s", dtype_name[dtype]);
    return scan_char(scan, '(') && scan_integer(scan, "the first index", least, most, &index->begin) && scan_char(scan, ',') &&
           scan_integer(scan, "the end of the indices", index->begin + 1, most + 1, &index->end) && scan_char(scan, ')');
}

bool scan_split(Scan *scan, RowSplit *split) {
    static const char *const kinds[] = {"shares", "test"};
    int test;
    double sum = 0;
    *split = (RowSplit){0};
    if (!scan_choice(scan, "way of splitting rows", kinds, 2, &test)) return false;
    for (; scan_is_key(scan, "share"); sum += split->share[split->nshares++])
        if (split->nshares == MAX_SHARES || !scan_double(scan, "a share", &split->share[split->nshares]) ||
            !(split->share[split->nshares] > 0))
            return scan_fail(scan, "a split has 2 to %d shares above 0", MAX_SHARES);
    if (split->nshares < 2 || fabs(sum - 1) > 1e-9 || (test && split->nshares != 2))
        return scan_fail(scan, "the shares of a split, two or more, sum to 1; those of a test are two");
    split->test = test == 1;
    return scan_key(scan, "seed") && scan_integer(scan, "a seed", 0, UINT32_MAX, &split->seed) && scan_key(scan, "part") &&
           scan_int(scan, "a part", 0, split->nshares - 1, &split->part);
}

/* Reads how the fields of a CSV are interpreted. */
static bool read_fields(Scan *scan, DataFile *file) {
    int missing = MISSING_ERROR, tokens = TOKENS_NONE, tokenizer = TOKENIZER_WORDPIECE, lowercase = 0;
    if (scan_is_key(scan, "missing") && !scan_choice(scan, "what stands for a missing field", missing_name, NMISSINGS, &missing))
        return false;
    if (missing == MISSING_FILL && (!scan_key(scan, "fill") || !scan_double(scan, "a number", &file->fill))) return false;
    if (scan_is_key(scan, "classes") && !scan_word(scan, &file->classes)) return false;
    file->find_classes = scan_is_keyword(scan, "find_classes");
    file->missing = (Missing)missing;
    if (!scan_is_key(scan, "tokens")) return true;
    if (!scan_choice(scan, "part of tokens", token_part_name, NTOKEN_PARTS, &tokens) ||
        (scan_is_key(scan, "tokenizer") && !scan_choice(scan, "tokenizer", tokenizer_name, NTOKENIZERS, &tokenizer)) ||
        (tokenizer != TOKENIZER_BYTES && (!scan_key(scan, "vocabulary") || !scan_word(scan, &file->vocabulary))) ||
        (tokenizer == TOKENIZER_WORDPIECE && (!scan_key(scan, "lowercase") || !scan_int(scan, "lowercase", 0, 1, &lowercase))))
        return false;
    file->tokens = (TokenPart)tokens;
    file->tokenizer = (Tokenizer)tokenizer;
    file->lowercase = lowercase == 1;
    return tokens != TOKENS_NONE || scan_fail(scan, "tokens of which nothing is read");
}

static bool read_change(Scan *scan, RowChange *change) {
    change->one_hot = scan_is_keyword(scan, "one_hot");
    change->standardize = scan_is_keyword(scan, "standardize");
    if (scan_is_key(scan, "scale") && !scan_double(scan, "a scale", &change->scale)) return false;
    for (; scan_is_key(scan, "mean"); change->nmeans++) {
        const int i = change->nmeans;
        if (i == MAX_CHANNELS) return scan_fail(scan, "more than %d means", MAX_CHANNELS);
        if (!scan_double(scan, "a mean", &change->mean[i]) || !scan_key(scan, "deviation") ||
            !scan_double(scan, "a deviation", &change->deviation[i]))
            return false;
        if (!(change->deviation[i] > 0)) return scan_fail(scan, "a deviation is above 0");
    }
    return true;
}

/* "resize=256 crop=224 crop=224" */
static bool read_sizes(Scan *scan, const char *key, int64_t size[2]) {
    for (int i = 0; i < 2 && scan_is_key(scan, key); i++)
        if (!scan_integer(scan, key, 1, MAX_PICTURE_SIDE, &size[i])) return false;
    return true;
}

static bool read_picture(Scan *scan, PictureChange *picture) {
    picture->label = scan_is_keyword(scan, "label");
    if (!read_sizes(scan, "resize", picture->resize) ||
        (scan_is_key(scan, "pad") && !scan_integer(scan, "pad", 1, MAX_PICTURE_SIDE, &picture->pad)) ||
        !read_sizes(scan, "crop", picture->crop))
        return false;
    picture->flip = scan_is_keyword(scan, "flip");
    picture->random = scan_is_keyword(scan, "random");
    return (picture->crop[0] > 0) == (picture->crop[1] > 0) || scan_fail(scan, "a crop has a height and a width");
}

/* Reads the kind of an input, and the file that holds its rows. */
bool scan_source(Scan *scan, Input *input) {
    int kind = INPUT_DATA, format = FILE_NONE, element;
    if (scan_is_key(scan, "kind") && !scan_choice(scan, "kind of input", input_kind_name, NINPUT_KINDS, &kind)) return false;
    input->kind = (InputKind)kind;
    if (!scan_index(scan, input->type.dtype, &input->index)) return false;
    if (!scan_is_key(scan, "file")) return true;
    if (!scan_choice(scan, "format of file", file_format_name, NFILE_FORMATS, &format)) return false;
    input->file.format = (FileFormat)format;
    input->file.offset = -1;
    if (file_is_drawn(input->file.format)) return scan_key(scan, "seed") && scan_integer(scan, "a seed", 0, INT64_MAX, &input->file.seed);
    if (!scan_word(scan, &input->file.path) ||
        (scan_is_key(scan, "first") && !scan_integer(scan, "first", 0, INT64_MAX / 16, &input->file.first)) ||
        (scan_is_key(scan, "rows") && !scan_integer(scan, "rows", 0, INT64_MAX / 16, &input->file.rows)) || !scan_key(scan, "column") ||
        !scan_integer(scan, "column", INT32_MIN, INT32_MAX, &input->file.column) ||
        (scan_is_key(scan, "heading") && !scan_word(scan, &input->file.heading)) ||
        (scan_is_key(scan, "separator") && !scan_int(scan, "a separator", 1, 127, &input->file.separator)) ||
        !read_fields(scan, &input->file) || !read_change(scan, &input->file.change))
        return false;
    if (file_has_pictures(input->file.format) && !read_picture(scan, &input->file.picture)) return false;
    if (format == FILE_NONE) return scan_fail(scan, "a file of no format");
    if (scan_is_key(scan, "offset") && !scan_integer(scan, "offset", 0, INT64_MAX / 16, &input->file.offset)) return false;
    if (!scan_is_key(scan, "stored")) return true;
    if (!scan_choice(scan, "type of the file's elements", file_element_name, NFILE_ELEMENTS, &element)) return false;
    input->file.stored = file_element_name[element];
    return true;
}
