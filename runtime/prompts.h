/* prompts: what texts begin with (--prompt, --prompts, --prompt-tokens), as tokens of a net; and tokens as text. */
#pragma once
#include "runtime/options.h"

/* What tokens stand for. */
typedef struct Alphabet {
    int64_t ntokens;     /* those that there are, of what has an embedding and logits */
    const char *of;      /* Settings.alphabet: NULL: they are numbers; "": bytes */
    const char **letter; /* per token its characters; NULL: bytes, or numbers */
} Alphabet;

/* ntokens: that have an embedding and logits; an alphabet may have fewer characters. */
void alphabet_init(Alphabet *alphabet, const char *of, int64_t ntokens, Arena *arena);
/* Appends a token as people read it; numbers with a space before all but the first of a text. */
void token_print(Text *text, const Alphabet *alphabet, int64_t token, bool first);

typedef struct Prompt {
    int64_t *token; /* with room for all places of the net and one more, 0 behind the prompt */
    int64_t n;
} Prompt;
typedef VEC(Prompt) Prompts;

/* The prompts of the command line, of a net of so many places behind which `asked` tokens are to be generated. file: the text of --prompts, n bytes, or NULL. EXIT_USAGE and *error, which
 * says which of several it is: one is empty, too long, or has what is no token. */
bool prompts_read(Prompts *prompts, const RunOptions *options, const Alphabet *alphabet, int64_t places, int64_t asked, const char *file,
                  size_t n, Arena *arena, Error *error);
