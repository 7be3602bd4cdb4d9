/* Files of rows: reads data sources such as csv(x = csv("d.csv", column = 3), ..). */
#include "frontend/lower.h"

#include <math.h>
#include <string.h>

#include "ir/lookup.h"

/* The path with the source's directory before it, unless it is absolute. */
static const char *joined(const Lower *lower, const char *path) {
    return path[0] == '/' ? path : arena_printf(lower->arena, "%s%s", lower->directory, path);
}

static bool input_has_rows(Lower *lower, const Expr *expr, const Input *input) {
    if (input->type.shape.ndim > (input->type.hidden ? 1 : 0)) return true;
    diag_error(lower->diags, lower_span(lower, expr->loc), "input %s is a single number: it has no rows", input->name);
    diag_note(lower->diags, input->span, "%s is declared here", input->name);
    return false;
}

/* column = 3, column = -1 or column = "price". */
static bool eval_column(Lower *lower, const Expr *value, DataFile *file) {
    if (value->kind != EXPR_STRING) return integer_eval(lower, value, "column", -INT32_MAX, INT32_MAX, &file->column);
    if (value->text[0] == '\0')
        return diag_error(lower->diags, lower_span(lower, value->loc), "a column without a name is counted: column = 2, or -1, the last"),
               false;
    file->heading = value->text;
    return true;
}

/* separator = ";", or "\t": one character that no number contains, and no quote. */
static bool eval_separator(Lower *lower, const Expr *value, DataFile *file) {
    const char *text = value->kind == EXPR_STRING ? value->text : "";
    file->separator = text[0];
    bool one = strlen(text) == 1 && (text[0] == '\t' || (text[0] > ' ' && text[0] <= '~'));
    if (one && !strchr("\"+-.", file->separator) && !(text[0] >= '0' && text[0] <= '9') &&
        !((text[0] | 32) >= 'a' && (text[0] | 32) <= 'z'))
        return true;
    diag_error(lower->diags, lower_span(lower, value->loc), "a separator is the character between columns: \",\", \";\", \"|\" or \"\\t\"");
    return false;
}

/* missing = drop, error, mean, or a number. */
static bool eval_missing(Lower *lower, const Expr *value, DataFile *file) {
    if (value->kind == EXPR_NAME && !is_number(lower, value)) {
        const int missing = choice(lower, "missing", value, missing_name, MISSING_FILL);
        if (missing < 0) return diag_hint(lower->diags, "or a number that stands for it: missing = 0.0"), false;
        file->missing = (Missing)missing;
        return true;
    }
    file->missing = MISSING_FILL;
    return real_eval(lower, value, "missing", -1e300, 1e300, &file->fill);
}

/* classes = ["neg", "pos"], or found: labels by name. */
static bool eval_classes(Lower *lower, const Expr *value, DataFile *file) {
    const char *names = "";
    file->find_classes = value->kind == EXPR_NAME && strcmp(value->text, "found") == 0;
    if (file->find_classes) return true;
    bool ok = value->kind == EXPR_LIST && value->nitems > 0;
    for (const Expr *item = ok ? value->items : NULL; item; item = item->next) {
        ok &= item->kind == EXPR_STRING && item->text[0] != '\0' && strlen(item->text) < MAX_CLASS_BYTES;
        if (ok) names = arena_printf(lower->arena, "%s%s%s", names, names[0] ? "\n" : "", item->text);
        for (const Expr *before = value->items; ok && before != item; before = before->next) {
            if (strcmp(before->text, item->text) != 0) continue;
            diag_error(lower->diags, lower_span(lower, item->loc), "the class \"%s\" stands in the list twice", item->text);
            return false;
        }
    }
    file->classes = names;
    if (!ok)
        diag_error(lower->diags, lower_span(lower, value->loc),
                   "classes are the labels' names in a list, classes = [\"no\", \"yes\"], or found");
    return ok;
}

/* standardize = true; or false. */
static bool eval_truth(Lower *lower, const char *what, const Expr *value, bool *is) {
    static const char *const truths[] = {"false", "true"};
    const int truth = choice(lower, what, value, truths, 2);
    *is = truth == 1;
    return truth >= 0;
}

/* A UTF-8 character that occurs a second time in the alphabet, of *bytes bytes; NULL: none does. */
static const char *character_twice(const char *alphabet, int *bytes) {
    for (const char *at = alphabet; *at; at += *bytes) {
        *bytes = 1;
        while (((unsigned char)at[*bytes] & 0xc0) == 0x80)
            ++*bytes;
        for (const char *before = alphabet; before < at; before++)
            if (strncmp(before, at, (size_t)*bytes) == 0) return at;
    }
    return NULL;
}

/* tokens = bytes, or characters("abc "). */
static bool eval_letters(Lower *lower, const Expr *value, DataFile *file) {
    static const char *const parameters[] = {"alphabet"};
    const Expr *argument[1] = {NULL};
    file->tokens = TOKENS_IDS;
    file->tokenizer = value->kind == EXPR_CALL ? TOKENIZER_CHARACTERS : TOKENIZER_BYTES;
    if (file->tokenizer == TOKENIZER_BYTES) return true;
    if (!call_arguments(lower, value, parameters, 1, 1, argument)) return false;
    file->vocabulary = argument[0]->kind == EXPR_STRING ? argument[0]->text : "";
    int bytes = 0;
    const char *twice = character_twice(file->vocabulary, &bytes);
    if (twice) {
        diag_error(lower->diags, lower_span(lower, argument[0]->loc), "the alphabet has '%.*s' twice", bytes, twice);
        return false;
    }
    if (file->vocabulary[0]) return true;
    diag_error(lower->diags, lower_span(lower, argument[0]->loc), "an alphabet is a text with the characters of token 0, 1, ..: \"abc \"");
    return false;
}

/* tokens = wordpiece("vocab.txt", lowercase = false), or others. */
static bool eval_tokens(Lower *lower, const Expr *value, DataFile *file) {
    static const char *const parameters[] = {"vocabulary", "lowercase"};
    const Expr *argument[2] = {NULL};
    if ((value->kind == EXPR_NAME && strcmp(value->text, "bytes") == 0) ||
        (value->kind == EXPR_CALL && strcmp(value->text, "characters") == 0))
        return eval_letters(lower, value, file);
    if (value->kind != EXPR_CALL || strcmp(value->text, "wordpiece") != 0) {
        diag_error(lower->diags, lower_span(lower, value->loc),
                   "tokens are made by wordpiece(\"vocab.txt\", lowercase = false), characters(\"abc \"), or are bytes");
        return false;
    }
    if (!call_arguments(lower, value, parameters, 2, 1, argument)) return false;
    if (argument[0]->kind != EXPR_STRING || argument[0]->text[0] == '\0') {
        diag_error(lower->diags, lower_span(lower, argument[0]->loc), "a vocabulary is the path of a text, a token a line: \"vocab.txt\"");
        return false;
    }
    file->vocabulary = joined(lower, argument[0]->text);
    file->tokens = TOKENS_IDS;
    return !argument[1] || eval_truth(lower, "lowercase", argument[1], &file->lowercase);
}

/* A number, or several in brackets, to an array with room for `most`; *n: how many. */
static bool eval_list(Lower *lower, const char *what, const Expr *value, double least, double *numbers, int *n, int most) {
    *n = 0;
    if (value->kind != EXPR_LIST) return *n = 1, real_eval(lower, value, what, least, 1e300, numbers);
    if (value->nitems < 1 || value->nitems > most)
        return diag_error(lower->diags, lower_span(lower, value->loc), "%s is a number, or 1 to %d of them: %s = [..]", what, most, what),
               false;
    for (const Expr *item = value->items; item; item = item->next)
        if (!real_eval(lower, item, what, least, 1e300, &numbers[(*n)++])) return false;
    return true;
}

/* crop = 32, or [32, 48]: height and width. */
static bool eval_size(Lower *lower, const char *what, const Expr *value, int64_t size[2], bool square) {
    const Expr *height = value->kind == EXPR_LIST ? value->items : value, *width = value->kind == EXPR_LIST && height ? height->next : NULL;
    if (value->kind == EXPR_LIST && value->nitems != 2)
        return diag_error(lower->diags, lower_span(lower, value->loc), "%s is a number, or a height and a width: %s = [32, 48]", what,
                          what),
               false;
    if (!integer_eval(lower, height, what, 1, MAX_PICTURE_SIDE, &size[0])) return false;
    if (!width && square) size[1] = size[0];
    return !width || integer_eval(lower, width, what, 1, MAX_PICTURE_SIDE, &size[1]);
}

/* The arguments of any format. */
typedef enum {
    ARG_PATH,
    ARG_FIRST,
    ARG_ROWS,
    ARG_COLUMN,
    ARG_SEPARATOR,
    ARG_MISSING,
    ARG_CLASSES,
    ARG_TOKENS,
    ARG_GIVE,
    ARG_TYPE,
    ARG_OFFSET,
    ARG_RESIZE,
    ARG_PAD,
    ARG_CROP,
    ARG_FLIP,
    ARG_SCALE,
    ARG_MEAN,
    ARG_DEVIATION,
    ARG_STANDARDIZE,
    ARG_ONE_HOT,
    ARG_LENGTH,
    ARG_SEED,
    NARGUMENTS
} Argument;
static const char *const argument_name[NARGUMENTS] = {
    "path",   "first", "rows", "column", "separator", "missing", "classes",   "tokens",      "give",    "type",   "offset",
    "resize", "pad",   "crop", "flip",   "scale",     "mean",    "deviation", "standardize", "one_hot", "length", "seed"};
/* The arguments of each format, in the order in which they may be given without names. */
static const Argument arguments_of[NFILE_FORMATS][NARGUMENTS + 1] = {
    [FILE_NPY] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_SCALE, ARG_MEAN, ARG_DEVIATION, ARG_STANDARDIZE, ARG_ONE_HOT, NARGUMENTS},
    [FILE_IDX] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_SCALE, ARG_MEAN, ARG_DEVIATION, ARG_STANDARDIZE, ARG_ONE_HOT, NARGUMENTS},
    [FILE_CSV] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_COLUMN, ARG_SEPARATOR, ARG_MISSING, ARG_CLASSES, ARG_TOKENS, ARG_GIVE, ARG_SCALE,
                  ARG_MEAN, ARG_DEVIATION, ARG_STANDARDIZE, ARG_ONE_HOT, ARG_LENGTH, NARGUMENTS},
    [FILE_RAW] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_TYPE, ARG_OFFSET, ARG_SCALE, ARG_MEAN, ARG_DEVIATION, ARG_STANDARDIZE, ARG_ONE_HOT,
                  NARGUMENTS},
    [FILE_CIFAR10] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_RESIZE, ARG_PAD, ARG_CROP, ARG_FLIP, ARG_SCALE, ARG_MEAN, ARG_DEVIATION,
                      ARG_ONE_HOT, NARGUMENTS},
    [FILE_PICTURES] = {ARG_PATH, ARG_FIRST, ARG_ROWS, ARG_CLASSES, ARG_RESIZE, ARG_PAD, ARG_CROP, ARG_FLIP, ARG_SCALE, ARG_MEAN,
                       ARG_DEVIATION, ARG_ONE_HOT, NARGUMENTS},
    [FILE_NORMAL] = {ARG_SEED, NARGUMENTS},
    [FILE_UNIFORM] = {ARG_SEED, NARGUMENTS},
};

static bool eval_argument(Lower *lower, Argument argument, const Expr *value, DataFile *file) {
    RowChange *change = &file->change;
    PictureChange *picture = &file->picture;
    const char *name = argument_name[argument];
    int index;
    switch (argument) {
    case ARG_FIRST:
        return integer_eval(lower, value, name, 0, INT64_MAX / 16, &file->first);
    case ARG_ROWS:
        return integer_eval(lower, value, name, 1, INT64_MAX / 16, &file->rows);
    case ARG_COLUMN:
        return eval_column(lower, value, file);
    case ARG_SEPARATOR:
        return eval_separator(lower, value, file);
    case ARG_MISSING:
        return eval_missing(lower, value, file);
    case ARG_CLASSES:
        return eval_classes(lower, value, file);
    case ARG_TOKENS:
        return eval_tokens(lower, value, file);
    case ARG_GIVE:
        index = choice(lower, name, value, token_part_name + 1, NTOKEN_PARTS - 1);
        if (index >= 0 && file->tokens != TOKENS_NONE) file->tokens = (TokenPart)(index + 1);
        return index >= 0;
    case ARG_TYPE:
        index = choice(lower, name, value, file_element_name, NFILE_ELEMENTS);
        if (index >= 0) file->stored = file_element_name[index];
        return index >= 0;
    case ARG_OFFSET:
        return integer_eval(lower, value, name, 0, INT32_MAX, &file->offset);
    case ARG_RESIZE:
        return eval_size(lower, name, value, picture->resize, false);
    case ARG_PAD:
        return integer_eval(lower, value, name, 0, MAX_PICTURE_SIDE, &picture->pad);
    case ARG_CROP:
        return eval_size(lower, name, value, picture->crop, true);
    case ARG_FLIP:
        return eval_truth(lower, name, value, &picture->flip);
    case ARG_SCALE:
        return real_eval(lower, value, name, -1e300, 1e300, &change->scale);
    case ARG_MEAN:
        return eval_list(lower, name, value, -1e300, change->mean, &change->nmeans, MAX_CHANNELS);
    case ARG_DEVIATION:
        return eval_list(lower, name, value, 1e-300, change->deviation, &index, MAX_CHANNELS);
    case ARG_STANDARDIZE:
        return eval_truth(lower, name, value, &change->standardize);
    case ARG_ONE_HOT:
        return eval_truth(lower, name, value, &change->one_hot);
    case ARG_SEED:
        return integer_eval(lower, value, name, 0, INT64_MAX, &file->seed);
    case ARG_PATH:
    case ARG_LENGTH: /* lengths_fit checks it against the input's places */
    case NARGUMENTS:
        break;
    }
    return true;
}

/* What is wrong with a combination of arguments that are valid alone, at *at; NULL: nothing. */
static const char *arguments_clash(Lower *lower, const Expr *const *argument, const Input *input, const DataFile *file, const Expr **at) {
    const RowChange *change = &file->change;
    const bool tokens = file->tokens != TOKENS_NONE, mean = argument[ARG_MEAN] || argument[ARG_DEVIATION];
    const int hidden = input->type.hidden, ndim = input->type.shape.ndim - hidden - 1;
    static const Argument changes[] = {ARG_SCALE, ARG_MEAN, ARG_DEVIATION, ARG_STANDARDIZE, ARG_ONE_HOT};
    if (argument[ARG_GIVE] && !tokens) return *at = argument[ARG_GIVE], "give is for a column of texts, which has tokens = wordpiece(..)";
    if (tokens && (file->classes || file->find_classes))
        return *at = argument[ARG_CLASSES], "a column holds texts or the names of classes, not both";
    if (tokens && file->missing > MISSING_DROP) return *at = argument[ARG_MISSING], "a number stands for no text: missing = drop or error";
    for (size_t i = 0; tokens && i < sizeof changes / sizeof *changes; i++)
        if ((*at = argument[changes[i]]))
            return arena_printf(lower->arena, "%s is for numbers, and tokens are none", argument_name[changes[i]]);
    if (change->one_hot && (ndim < 1 || argument[ARG_SCALE] || mean || change->standardize || file->missing >= MISSING_MEAN))
        return *at = argument[ARG_ONE_HOT],
               ndim < 1 ? "of one number a row nothing is one_hot: its last dimension is the number of classes"
                        : "what is one_hot is 0 or 1: it has no other scale, mean or deviation, and no field is missing";
    if (change->standardize && mean)
        return *at = argument[ARG_STANDARDIZE], "standardize finds mean and deviation in the rows of training: they are not given";
    if (file->missing == MISSING_MEAN && (file->classes || file->find_classes)) return *at = argument[ARG_MISSING], "labels have no mean";
    const bool found = change->standardize || file->missing == MISSING_MEAN;
    if (dtype_is_float(input->type.dtype) || file->picture.label) return NULL;
    *at = change->standardize   ? argument[ARG_STANDARDIZE]
          : found               ? argument[ARG_MISSING]
          : argument[ARG_SCALE] ? argument[ARG_SCALE]
                                : argument[ARG_MEAN];
    if (found || change->scale != 0 || change->nmeans > 0)
        return arena_printf(lower->arena, "input %s is %s: integers and truth values stay as they are", input->name,
                            dtype_name[input->type.dtype]);
    return NULL;
}

/* Checks the number of means and deviations: one, or one per channel. */
static bool channels_fit(Lower *lower, const Expr *const *argument, const Input *input, DataFile *file) {
    RowChange *change = &file->change;
    const Expr *mean = argument[ARG_MEAN], *deviation = argument[ARG_DEVIATION];
    const int first = input->type.hidden + 1;
    const int64_t channels = input->type.shape.ndim > first ? input->type.shape.dim[first] : 1;
    if (!mean && !deviation) return true;
    const int nmeans = !mean                     ? 1
                       : mean->kind == EXPR_LIST ? mean->nitems
                                                 : 1,
              ndeviations = !deviation                     ? 1
                            : deviation->kind == EXPR_LIST ? deviation->nitems
                                                           : 1;
    change->nmeans = nmeans > ndeviations ? nmeans : ndeviations;
    if ((nmeans > 1 && nmeans != channels) || (ndeviations > 1 && ndeviations != channels)) {
        const Expr *wrong = nmeans > 1 && nmeans != channels ? mean : deviation;
        diag_error(lower->diags, lower_span(lower, wrong->loc), "%d numbers, and a row of input %s has %lld channel%s, its first dimension",
                   wrong->nitems, input->name, (long long)channels, channels == 1 ? "" : "s");
        diag_note(lower->diags, input->span, "%s is declared %s here", input->name, type_text(lower, &input->type));
        return false;
    }
    for (int i = 0; i < change->nmeans; i++) {
        if (!mean || i >= nmeans) change->mean[i] = mean ? change->mean[0] : 0;
        if (!deviation || i >= ndeviations) change->deviation[i] = deviation ? change->deviation[0] : 1;
    }
    return true;
}

/* The number of the net's head that is the size of an input's last dimension; NULL: there is none. */
static const char *places_number(const Lower *lower, const Input *input) {
    for (const Statement *statement = lower->net->statements; statement; statement = statement->next) {
        if (statement->kind != STATEMENT_INPUT || strcmp(statement->name, input->name) != 0 || !statement->type || !statement->type->dims)
            continue;
        const Expr *last = statement->type->dims->items;
        while (last && last->next)
            last = last->next;
        for (const Entry *entry = last && last->kind == EXPR_NAME ? lower->net->entries : NULL; entry; entry = entry->next)
            if (strcmp(entry->name, last->text) == 0) return entry->name;
    }
    return NULL;
}

/* length = 128, or [32, 64, 128]: ascending; the last is the input's own length. */
static bool read_lengths(Lower *lower, const Expr *value, TextLengths *lengths) {
    const Expr *item = value->kind == EXPR_LIST ? value->items : value;
    lengths->span = lower_span(lower, value->loc);
    for (; item; item = item == value ? NULL : item->next) {
        if (lengths->n == MAX_LENGTHS) return diag_error(lower->diags, lengths->span, "a text has at most %d lengths", MAX_LENGTHS), false;
        if (!integer_eval(lower, item, "length", 1, INT32_MAX, &lengths->at[lengths->n++])) return false;
        if (lengths->n < 2 || lengths->at[lengths->n - 1] > lengths->at[lengths->n - 2]) continue;
        diag_error(lower->diags, lower_span(lower, item->loc), "lengths of texts ascend: length = [32, 64, 128]");
        return false;
    }
    return lengths->n > 0 || (diag_error(lower->diags, lengths->span, "a text has a length: length = [32, 64, 128]"), false);
}

/* Checks the lengths of an input's texts against its last dimension, and against the lengths of other inputs. */
static bool lengths_fit(Lower *lower, const Expr *value, const Input *input, DataFile *file) {
    TextLengths *all = &lower->graph->settings.lengths, own = {0};
    const int ndim = input->type.shape.ndim;
    const int64_t places = ndim > input->type.hidden + 1 ? input->type.shape.dim[ndim - 1] : 0, shorter = lower->overrides->length;
    if (!value) return true;
    if (file->tokens == TOKENS_NONE)
        return diag_error(lower->diags, lower_span(lower, value->loc), "a length is that of texts, which have tokens = wordpiece(..)"),
               false;
    if (!read_lengths(lower, value, &own)) return false;
    if (places != (shorter > 0 ? shorter : own.at[own.n - 1])) {
        diag_error(lower->diags, own.span, "the longest of these texts %s %lld places, and input %s is %s", own.n == 1 ? "has" : "have",
                   (long long)own.at[own.n - 1], input->name, type_text(lower, &input->type));
        diag_note(lower->diags, input->span, "%s is declared here", input->name);
        return false;
    }
    if (own.n == 1) return true;
    own.number = places_number(lower, input);
    if (!own.number) {
        diag_error(lower->diags, own.span, "the places of input %s are no number of the net's head, so that they cannot be others",
                   input->name);
        diag_hint(lower->diags, "net %s(places = %lld, ..) { input %s : i32[batch, places]; .. }", lower->net->name, (long long)places,
                  input->name);
        return false;
    }
    file->lengths = true;
    if (all->n > 0 && (all->n != own.n || memcmp(all->at, own.at, sizeof own.at) != 0 || strcmp(all->number, own.number) != 0)) {
        diag_error(lower->diags, own.span, "texts of one net have the same lengths");
        diag_note(lower->diags, all->span, "these are others");
        return false;
    }
    if (all->n == 0) *all = own;
    return true;
}

/* A real input takes the picture, [3, height, width], [1, height, width] or [height, width]; an input of integers, or one_hot, takes its class. */
static bool picture_fits(Lower *lower, const Expr *value, const Input *input, DataFile *file) {
    const int first = input->type.hidden + 1, ndim = input->type.shape.ndim - first;
    const int64_t channels = ndim == 3 ? input->type.shape.dim[first] : 1;
    if (!file_has_pictures(file->format)) return true;
    file->picture.label = !dtype_is_float(input->type.dtype) || file->change.one_hot;
    file->picture.random = !lower->eval && !file->picture.label;
    if (file->picture.label) {
        file->picture = (PictureChange){.label = true};
        file->change = (RowChange){.one_hot = file->change.one_hot};
        return true;
    }
    file->picture.random = file->picture.random && (file->picture.crop[0] > 0 || file->picture.flip);
    file->picture.flip = file->picture.flip && file->picture.random;
    if ((ndim == 2 || ndim == 3) && (channels == 1 || channels == 3) && input->type.shape.dim[first + ndim - 1] <= MAX_PICTURE_SIDE &&
        input->type.shape.dim[first + ndim - 2] <= MAX_PICTURE_SIDE)
        return true;
    diag_error(lower->diags, lower_span(lower, value->loc),
               "a picture is [batch, 3, height, width], or without colours [batch, height, width], and input %s is %s", input->name,
               type_text(lower, &input->type));
    diag_note(lower->diags, input->span, "%s is declared here", input->name);
    return false;
}

/* Adds a hint with the arguments of a format. */
static void hint_arguments(Lower *lower, FileFormat format) {
    const char *list = "";
    for (const Argument *a = arguments_of[format]; *a < NARGUMENTS; a++)
        list = arena_printf(lower->arena, "%s%s%s", list, *list ? ", " : "", argument_name[*a]);
    diag_hint(lower->diags, "%s takes %s", file_format_name[format], list);
}

static bool format_has(FileFormat format, Argument argument) {
    const Argument *a = arguments_of[format];
    while (*a < NARGUMENTS && *a != argument)
        a++;
    return *a == argument;
}

/* Applies the arguments given for all files, where a file does not give its own. */
static bool take_common(Lower *lower, FileFormat format, const Expr *const *common, const Expr **argument) {
    for (int i = 0; i < NARGUMENTS; i++) {
        if (!common[i] || file_is_drawn(format)) continue;
        if (!format_has(format, (Argument)i)) {
            diag_error(lower->diags, lower_span(lower, common[i]->loc), "%s has no argument '%s', which is said of all files",
                       file_format_name[format], argument_name[i]);
            hint_arguments(lower, format);
            return false;
        }
        if (!argument[i]) argument[i] = common[i];
    }
    return true;
}

/* "x.npy", or one of the formats' calls: idx("labels.gz"), csv("d.csv", column = 3), raw("x.bin", type = u8). */
static bool eval_file(Lower *lower, const Expr *value, FileFormat format, const Expr *const *common, const Input *input, DataFile *file) {
    const Expr *argument[NARGUMENTS] = {NULL}, *path = value;
    if (value->kind == EXPR_CALL) {
        const char *names[NARGUMENTS] = {NULL};
        const Expr *own[NARGUMENTS] = {NULL};
        int named = FILE_NONE + 1, n = 0;
        while (named < NFILE_FORMATS && strcmp(file_format_name[named], value->text) != 0)
            named++;
        if (named == NFILE_FORMATS || (format != FILE_NONE && named != (int)format)) {
            diag_error(lower->diags, lower_span(lower, value->loc),
                       "a file of rows is npy(..), idx(..), csv(..), raw(..), cifar10(..) or pictures(..), not %s(..)", value->text);
            if (named < NFILE_FORMATS) diag_hint(lower->diags, "several kinds stand in files(x = npy(\"x.npy\"), z = normal(seed = 1))");
            return false;
        }
        format = (FileFormat)named;
        for (; arguments_of[format][n] < NARGUMENTS; n++)
            names[n] = argument_name[arguments_of[format][n]];
        if (!call_arguments(lower, value, names, n, 1, own)) {
            hint_arguments(lower, format);
            return false;
        }
        for (int i = 0; i < n; i++)
            argument[arguments_of[format][i]] = own[i];
        path = argument[ARG_PATH];
        if (file_is_drawn(format)) {
            *file = (DataFile){.format = format, .offset = -1};
            return eval_argument(lower, ARG_SEED, argument[ARG_SEED], file) && input_can_be_drawn(lower, value, input);
        }
    }
    if (path->kind != EXPR_STRING || path->text[0] == '\0') {
        diag_error(lower->diags, lower_span(lower, path->loc), "the path of a file is a text: \"x.npy\"");
        return false;
    }
    if (format == FILE_NONE) {
        diag_error(lower->diags, lower_span(lower, value->loc),
                   "files(..) needs the format of each: npy(\"x.npy\"), idx(..), csv(..), raw(..), cifar10(..), pictures(..)");
        return false;
    }
    if (!take_common(lower, format, common, argument)) return false;
    *file = (DataFile){.format = format, .path = joined(lower, path->text), .offset = -1};
    for (int i = 0; i < NARGUMENTS; i++)
        if (argument[i] && !eval_argument(lower, (Argument)i, argument[i], file)) return false;
    if (!picture_fits(lower, value, input, file)) return false;
    const Expr *at = NULL;
    const char *clash = arguments_clash(lower, argument, input, file, &at);
    if (clash) return diag_error(lower->diags, lower_span(lower, at ? at->loc : value->loc), "%s", clash), false;
    return (file->picture.label || channels_fit(lower, argument, input, file)) && lengths_fit(lower, argument[ARG_LENGTH], input, file);
}

/* Columns of the file that an input takes: one per number; one_hot numbers count once, and a text is one column. */
static int64_t file_columns(const Input *input) {
    int64_t elements = 1;
    const int ndim = input->type.shape.ndim - input->file.change.one_hot;
    for (int d = input->type.hidden + 1; d < ndim; d++)
        elements *= input->type.shape.dim[d];
    return input->file.tokens == TOKENS_NONE ? elements : 1;
}

/* csv("d.csv"): the inputs take the columns in turn, from the first one named on. Pictures: each input takes the picture or the class, by its type. */
static bool inputs_in_turn(Lower *lower, const Expr *value, FileFormat format) {
    Graph *graph = lower->graph;
    const Expr *const common[NARGUMENTS] = {NULL};
    int64_t column = 0;
    for (int i = 0; i < graph_declared(graph); i++) {
        Input *input = &graph->inputs.at[i];
        if (!input_has_rows(lower, value, input) || !eval_file(lower, value, format, common, input, &input->file)) return false;
        if (format != FILE_CSV) continue;
        if (input->file.column < 0 && input->file.column + column >= 0) {
            diag_error(lower->diags, lower_span(lower, value->loc), "input %s would be behind the last column", input->name);
            return false;
        }
        input->file.column += column;
        column += file_columns(input);
    }
    return true;
}

/* The arguments of npy(x = "x.npy", first = 100), files(.., rows = 50) that are not inputs apply to all its files. */
static bool common_arguments(Lower *lower, const Expr *value, FileFormat format, const Expr **common) {
    for (const Expr *item = value->items; item; item = item->next) {
        if (item->kind != EXPR_KEYWORD || input_find(lower->graph, item->text)) continue;
        int a = ARG_FIRST;
        while (a < NARGUMENTS && (strcmp(argument_name[a], item->text) != 0 || (format != FILE_NONE && !format_has(format, (Argument)a))))
            a++;
        if (a == NARGUMENTS) {
            const char *nearest = name_nearest(item->text, argument_name + ARG_FIRST, NARGUMENTS - ARG_FIRST);
            unknown_input(lower, item);
            if (nearest) diag_hint(lower->diags, "did you mean %s, of all files?", nearest);
            if (format != FILE_NONE) hint_arguments(lower, format);
            return false;
        }
        if (common[a]) return diag_error(lower->diags, lower_span(lower, item->loc), "%s is given twice", item->text), false;
        common[a] = item->items;
    }
    return true;
}

bool eval_files(Lower *lower, const Expr *value) {
    Graph *graph = lower->graph;
    FileFormat format = FILE_NONE;
    bool ok = true;
    for (int f = FILE_NONE + 1; f < NFILE_FORMATS; f++)
        if (strcmp(file_format_name[f], value->text) == 0) format = (FileFormat)f;
    graph->settings.data = DATA_FILES;
    if ((format == FILE_CSV || file_has_pictures(format)) && value->items && value->items->kind != EXPR_KEYWORD)
        return inputs_in_turn(lower, value, format);
    const Expr *common[NARGUMENTS] = {NULL};
    if (!common_arguments(lower, value, format, common)) return false;
    for (const Expr *item = value->items; item; item = item->next) {
        Span span = lower_span(lower, item->loc);
        if (item->kind != EXPR_KEYWORD) {
            const char *name = format == FILE_NONE ? "npy" : value->text;
            diag_error(lower->diags, span, "files belong to inputs by name: %s(x = \"x.%s\", ...)", name, name);
            return false;
        }
        Input *input = input_find(graph, item->text);
        if (!input) continue; /* an argument for all files */
        if (input->file.format != FILE_NONE) {
            diag_error(lower->diags, span, "input %s is given twice", input->name);
            ok = false;
        } else {
            ok &= input_has_rows(lower, item, input) && eval_file(lower, item->items, format, common, input, &input->file);
        }
    }
    for (int i = 0; ok && i < graph_declared(graph); i++) {
        const Input *input = &graph->inputs.at[i];
        if (input->file.format != FILE_NONE || lower->eval) continue; /* an eval may do without some: eval_lower decides */
        diag_error(lower->diags, lower_span(lower, value->loc), "%s does not give input %s", value->text, input->name);
        diag_note(lower->diags, input->span, "%s is declared here", input->name);
        ok = false;
    }
    bool any = false;
    for (int i = 0; i < graph_declared(graph); i++)
        any = any || (graph->inputs.at[i].file.format != FILE_NONE && !file_is_drawn(graph->inputs.at[i].file.format));
    if (!ok || any || !value->items) return ok;
    diag_error(lower->diags, lower_span(lower, value->loc), "no input is of a file, which would say how many rows there are");
    diag_hint(lower->diags, "data = normal(seed = 1); draws all inputs, without an end");
    return false;
}
