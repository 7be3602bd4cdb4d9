/* tokens: encodes a text as numbers: of BERT's vocabulary, of its bytes, or of its characters in an alphabet. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Tokens Tokens;
/* Opens the tokenizer of a file's texts; length: places of a row. NULL and *error (EXIT_ENVIRONMENT): the vocabulary cannot be read, or the places are too few. */
Tokens *tokens_open(const RowFile *file, int64_t length, Error *error);
void tokens_close(Tokens *tokens); /* takes NULL */
/* Encodes a text, as far as there is room, and pads to `length`: with [PAD], with 0 (bytes), or with the number after the last (characters). Returns how many are tokens; -1: the text
 * is invalid at byte *bad, and why says how. */
int64_t tokens_encode(const Tokens *tokens, const char *text, size_t n, int32_t *ids, size_t *bad, char *why, size_t room);
