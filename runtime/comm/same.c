/* same: whether all processes agree on what they must have in common, over any communicator; and what differs where they do not. */
#include "runtime/comm/comm.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SAID_BYTES = 200 };

static uint64_t said_hash(const char *said) {
    return said ? XXH64(said, strlen(said), 1) : 0;
}

/* "ranks 0 to 2, 5": those with this word. */
static void put_ranks(Text *text, const uint64_t *words, int n, uint64_t word) {
    int count = 0, parts = 0;
    for (int p = 0; p < n; p++)
        count += words[p] == word;
    text_printf(text, count == 1 ? "rank" : "ranks");
    for (int p = 0; p < n; p++) {
        int first = p;
        if (words[p] != word) continue;
        while (p + 1 < n && words[p + 1] == word)
            p++;
        text_printf(text, parts++ ? ", %d" : " %d", first);
        if (p > first) text_printf(text, p == first + 1 ? ", %d" : " to %d", p);
    }
}

/* On process 0: the first few values, and which ranks have them. */
static void describe(Text *text, const Common *common, const uint64_t *words, const char *texts, int n) {
    enum { FEW = 4 };
    text_printf(text, "%s is not the same on all ranks:", common->what);
    for (int p = 0, groups = 0; p < n && text->n < 800; p++) {
        bool seen = false;
        for (int before = 0; before < p && !seen; before++)
            seen = words[before] == words[p];
        if (seen) continue;
        if (groups == FEW) {
            text_printf(text, ", others on others");
            return;
        }
        text_printf(text, "%s%s on ", groups++ ? ", " : " ", words[p] == 0 ? "not given" : texts + (size_t)p * SAID_BYTES);
        put_ranks(text, words, n, words[p]);
    }
}

static bool same_one(Comm *comm, const Common *common, int code, uint64_t *words, Error *error) {
    char said[SAID_BYTES] = "";
    if (!comm->table->all_gather_words(comm, said_hash(common->said), words, error)) return false;
    bool same = true;
    for (int p = 1; p < comm->nprocesses; p++)
        same = same && words[p] == words[0];
    if (same) return true;
    char *texts = comm->process == 0 ? calloc((size_t)comm->nprocesses, SAID_BYTES) : NULL;
    snprintf(said, sizeof said, "%s", common->said ? common->said : "");
    text_printable(said);
    Error failure;
    Text text = {0};
    bool known = comm_agree(comm, texts || comm->process != 0 || error_set(&failure, EXIT_ENVIRONMENT, "out of memory"), &failure);
    known = known && comm->table->gather_text(comm, said, SAID_BYTES, texts, &failure);
    if (known && comm->process == 0) describe(&text, common, words, texts, comm->nprocesses);
    if (!known)
        *error = failure;
    else if (text.n > 0)
        error_set(error, code, "%.1000s", text.at);
    else
        error_reported(error, code);
    text_finish(&text);
    free(texts);
    return false;
}

bool comm_same(Comm *comm, const Common *common, int code, Error *error) {
    if (comm->nprocesses == 1 || !common) return true;
    uint64_t all = 0, *words = calloc((size_t)comm->nprocesses, sizeof *words);
    if (!comm_agree(comm, words || error_set(error, EXIT_ENVIRONMENT, "out of memory"), error)) {
        free(words);
        return false;
    }
    int n = 0;
    for (; common[n].what; n++) /* with its index: equal values of two things are not the same */
        all = XXH64(&(uint64_t[]){said_hash(common[n].said), (uint64_t)n}, 2 * sizeof(uint64_t), all);
    char number[32];
    snprintf(number, sizeof number, "%d", n);
    /* The number is compared first: lists of different lengths cannot be. */
    bool ok = comm->table->all_gather_words(comm, all, words, error), same = true;
    for (int p = 1; ok && p < comm->nprocesses; p++)
        same = same && words[p] == words[0];
    if (ok && !same)
        ok = same_one(comm, &(Common){"the number of prun's options (are there different versions?)", number}, code, words, error);
    for (int i = 0; ok && !same && i < n; i++)
        ok = same_one(comm, &common[i], code, words, error);
    free(words);
    return ok;
}
