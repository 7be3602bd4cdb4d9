/* prompts: converts the beginnings of texts (--prompt, --prompts, --prompt-tokens) to tokens of a net, and tokens to text. */
#pragma once
#include "runtime/options.h"

/* What tokens stand for. */
typedef struct Alphabet {
    int64_t ntokens;     /* how many there are, at most those with an embedding and logits */
    const char *of;      /* Settings.alphabet; NULL: tokens are numbers; "": bytes */
    const char **letter; /* the characters of each token; NULL: bytes, or numbers */
} Alphabet;

/* ntokens: how many have an embedding and logits; an alphabet may have fewer characters. */
void alphabet_init(Alphabet *alphabet, const char *of, int64_t ntokens, Arena *arena);
/* Appends a token as text; numbers with a space before each but the first of a text. */
void token_print(Text *text, const Alphabet *alphabet, int64_t token, bool first);

typedef struct Prompt {
    int64_t *token; /* with room for all places of the net and one more, 0 behind the prompt */
    int64_t n;
} Prompt;
typedef VEC(Prompt) Prompts;

/* The prompts of the command line, for a net of so many places; `asked` tokens are to be generated after each. file: the text of --prompts, n bytes, or NULL. EXIT_USAGE: a prompt is
 * empty, too long, or contains something that is no token; *error says which of several. */
bool prompts_read(Prompts *prompts, const RunOptions *options, const Alphabet *alphabet, int64_t places, int64_t asked, const char *file,
                  size_t n, Arena *arena, Error *error);
