/* Random pairs of layouts of 3 dimensions, partial sums included. */
#pragma once
#include "tests/ir/random.h"

/* Some of the digits become partial in `layout`; the others are dealt to dimensions or to none. */
static inline void random_source(uint64_t *seed, int nranks, int list, Layout *layout) {
    Digit digits[MAX_DIGITS];
    int n = random_mesh(seed, nranks, digits);
    layout_init(layout, 3);
    for (int i = 0; list >= 0 && i < n;) {
        if (random_below(seed, 2)) {
            layout_append(layout, list, digits[i]);
            digits[i] = digits[--n];
        } else {
            i++;
        }
    }
    random_assign(seed, digits, n, layout, 3);
}

/* A target that may go on owing part of what the source owes: whole digits, or their major or minor half. */
static inline void random_target(uint64_t *seed, int nranks, int list, const Layout *from, Layout *to) {
    Digit digits[MAX_DIGITS];
    int n = random_mesh(seed, nranks, digits), usable = 0;
    layout_init(to, 3);
    bool keep = list >= 0 && random_below(seed, 2);
    for (int i = 0; keep && i < layout_count(from, list); i++) {
        Digit d = layout_list(from, list)[i];
        int how = random_below(seed, 4);
        if (how == 0) continue;
        if (how < 3 && d.size % 2 == 0 && d.size > 2) d = how == 1 ? (Digit){d.size / 2, d.stride * 2} : (Digit){2, d.stride};
        layout_append(to, list, d);
    }
    for (int i = 0; i < n; i++) {
        bool fits = true;
        for (int k = 0; k < to->start[3 + NREDUCTIONS]; k++)
            fits = fits && digits_compatible(digits[i], to->digit[k]);
        if (fits) digits[usable++] = digits[i];
    }
    random_assign(seed, digits, usable, to, 3);
}
