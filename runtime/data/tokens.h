/* tokens: a text as numbers: of BERT's vocabulary, of its bytes, or of its characters in an alphabet. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Tokens Tokens;
/* What a file's texts are cut into; length: places of a row. NULL and *error (EXIT_ENVIRONMENT): the vocabulary cannot be read, or the places are too few. */
Tokens *tokens_open(const RowFile *file, int64_t length, Error *error);
void tokens_close(Tokens *tokens); /* takes NULL */
/* The numbers of a text as far as there is room, filled up to `length`: with [PAD], zeros of bytes, of characters the number behind the last. How many are tokens; -1: text is none,
 * and the words in why say so of the byte *bad. */
int64_t tokens_encode(const Tokens *tokens, const char *text, size_t n, int32_t *ids, size_t *bad, char *why, size_t room);
