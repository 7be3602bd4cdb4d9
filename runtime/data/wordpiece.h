/* wordpiece: BERT's tokenizer (Devlin et al. 2018; as Hugging Face's BertTokenizerFast): encodes a text as numbers of a vocabulary. */
#pragma once
#include "ir/base.h"

typedef struct Wordpiece Wordpiece;
/* vocabulary: a text file with one token a line; a token's number is its line's, from 0. NULL and *error (EXIT_ENVIRONMENT): it cannot be read, or lacks [PAD], [UNK],
 * [CLS] or [SEP]. lowercase: letters are lowercased and lose their accents. */
Wordpiece *wordpiece_open(const char *vocabulary, bool lowercase, Error *error);
void wordpiece_close(Wordpiece *wordpiece); /* takes NULL */
/* Returned where a text is not UTF-8. */
enum { WORDPIECE_BROKEN = -1 };
/* Writes [CLS], the tokens of the first n bytes of text as far as there is room, [SEP], and [PAD] up to `length` >= 2 numbers. Returns how many are not [PAD], or
 * WORDPIECE_BROKEN, with *bad: the byte where text is not UTF-8. Threads may encode at the same time. */
int64_t wordpiece_encode(const Wordpiece *wordpiece, const char *text, size_t n, int64_t length, int32_t *ids, size_t *bad);
bool text_is_utf8(const char *text, size_t n);
