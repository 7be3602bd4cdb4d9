/* wildcard: patterns of paths. A path is names joined by '.', encoder.layer.0.weight. In a pattern '*' stands for one name or a piece of one, '**' for any number of
 * names, including none. A pattern matches whole paths. */
#pragma once
#include "ir/base.h"

enum { MAX_WILDS = 16 };

/* What each '*' and '**' of a pattern stands for, in their order. */
typedef struct Wilds {
    int n;
    struct {
        const char *at;
        size_t n;
    } of[MAX_WILDS];
} Wilds;

/* wilds: filled in where the pattern matches and has at most MAX_WILDS; or NULL. */
bool pattern_matches(const char *pattern, const char *path, Wilds *wilds);
/* Whether a pattern matches a path or one that encloses it: layer.* covers layer.0.fc1.weight. */
bool pattern_covers(const char *pattern, const char *path);
/* The '*' and '**' of a pattern as letters '1' and 'n': equal for patterns whose wilds correspond. In the arena. */
const char *pattern_wilds(const char *pattern, Arena *arena);
/* Fills a pattern with what another pattern's wilds stand for, which has the same pattern_wilds. In the arena. */
const char *pattern_path(const char *pattern, const Wilds *wilds, Arena *arena);
/* A copy of a path with '*' for each name that is a number (of a loop). */
const char *path_without_numbers(const char *path, Arena *arena);
