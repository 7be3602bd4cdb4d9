/* wildcard: see wildcard.h. */
#include "ir/wildcard.h"

#include <string.h>

enum { MAX_COVERED = 2048 }; /* bytes of an enclosing path; paths are shorter */

static void wild_set(Wilds *wilds, int number, const char *at, size_t n) {
    if (!wilds || number >= MAX_WILDS) return;
    wilds->of[number].at = at;
    wilds->of[number].n = n;
    wilds->n = number + 1;
}

/* Whether a name matches one name of a pattern. *number: of the next wild; advances past those of this name. */
static bool name_matches(const char *pattern, size_t np, const char *name, size_t n, Wilds *wilds, int *number) {
    size_t p = 0, i = 0, star = SIZE_MAX, begin = 0, mark = 0;
    int next = *number;
    while (i < n) {
        if (p < np && pattern[p] == '*') {
            star = p++;
            begin = mark = i;
            wild_set(wilds, next++, name + begin, 0);
        } else if (p < np && pattern[p] == name[i]) {
            p++;
            i++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            i = ++mark;
            wild_set(wilds, next - 1, name + begin, mark - begin);
        } else {
            return false;
        }
    }
    for (; p < np && pattern[p] == '*'; p++)
        wild_set(wilds, next++, name + n, 0);
    *number = next;
    return p == np;
}

/* Whether only '**' remain of a pattern, after a name that it has matched. */
static bool matches_nothing_more(const char *pattern, Wilds *wilds, int number) {
    while (!strncmp(pattern, ".**", 3) && (pattern[3] == '.' || !pattern[3])) {
        wild_set(wilds, number++, pattern, 0);
        pattern += 3;
    }
    return !pattern[0];
}

/* Compares name by name, and backtracks to the last '**' on a mismatch. */
bool pattern_matches(const char *pattern, const char *path, Wilds *wilds) {
    const char *again = NULL, *begin = NULL, *mark = NULL;
    int number = 0, again_number = 0;
    if (wilds) wilds->n = 0;
    for (;;) {
        size_t np = strcspn(pattern, "."), n = strcspn(path, ".");
        if (np == 2 && pattern[0] == '*' && pattern[1] == '*') {
            wild_set(wilds, number++, path, pattern[np] ? 0 : strlen(path));
            if (!pattern[np]) return true;
            again = pattern += np + 1;
            again_number = number;
            begin = mark = path;
            continue;
        }
        bool same = name_matches(pattern, np, path, n, wilds, &number), path_ends = !path[n];
        if (same && path_ends && matches_nothing_more(pattern + np, wilds, number)) return true;
        if (same && pattern[np] && !path_ends) {
            pattern += np + 1;
            path += n + 1;
            continue;
        }
        size_t skip = again ? strcspn(mark, ".") : 0;
        if (!again || !mark[skip]) return false;
        wild_set(wilds, again_number - 1, begin, (size_t)(mark - begin) + skip);
        number = again_number;
        pattern = again;
        path = mark += skip + 1;
    }
}

/* The length of the wild at `at`: 2 for a "**" that is a whole name; 1 for any other '*'; 0: none. */
static size_t wild_length(const char *pattern, const char *at) {
    if (*at != '*') return 0;
    bool alone = (at == pattern || at[-1] == '.') && at[1] == '*' && (at[2] == '.' || !at[2]);
    return alone ? 2 : 1;
}

bool pattern_covers(const char *pattern, const char *path) {
    char around[MAX_COVERED];
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t n = (size_t)(dot - path);
        if (n >= sizeof around) break;
        memcpy(around, path, n);
        around[n] = '\0';
        if (pattern_matches(pattern, around, NULL)) return true;
    }
    return pattern_matches(pattern, path, NULL);
}

const char *pattern_wilds(const char *pattern, Arena *arena) {
    char *wilds = arena_alloc(arena, strlen(pattern) + 1), *to = wilds;
    for (const char *at = pattern; *at;) {
        size_t n = wild_length(pattern, at);
        if (n > 0) *to++ = n == 2 ? 'n' : '1';
        at += n > 0 ? n : 1;
    }
    *to = '\0';
    return wilds;
}

const char *pattern_path(const char *pattern, const Wilds *wilds, Arena *arena) {
    Text text = {0};
    int number = 0;
    for (const char *at = pattern; *at;) {
        size_t n = wild_length(pattern, at);
        if (n > 0 && number < wilds->n) text_append(&text, wilds->of[number].at, wilds->of[number].n);
        if (n == 0) text_append(&text, at, 1);
        bool none = n == 2 && number < wilds->n && wilds->of[number].n == 0;
        number += n > 0;
        at += n > 0 ? n : 1;
        if (none && *at == '.') at++; /* no names, so no dot after them */
    }
    if (text.n > 0 && text.at[text.n - 1] == '.') text.n--;
    const char *path = arena_copy(arena, text.at ? text.at : "", text.n);
    text_finish(&text);
    return path;
}

const char *path_without_numbers(const char *path, Arena *arena) {
    char *copy = arena_copy(arena, path, strlen(path)), *to = copy;
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "."), digits = strspn(at, "-0123456789");
        if (digits == n && n > 0)
            *to++ = '*';
        else
            to = (char *)memcpy(to, at, n) + n;
        at += n;
        if (*at) *to++ = *at++;
    }
    *to = '\0';
    return copy;
}
