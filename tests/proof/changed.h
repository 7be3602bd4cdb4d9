/* A plan that a test changes in one way: what a proof, and a reader of its text, say of it then. */
#pragma once
#include <string.h>

#include "tests/proof/plans.h"

typedef struct Fixture {
    Arena arena;
    Plan plan;
    Role *role;
    int first; /* of a fused step: its first step */
} Fixture;

static inline bool proved(const Plan *plan, Error *error) {
    Proof proof;
    *error = (Error){0};
    return proof_check(plan, &(ProofOptions){0}, &proof, error);
}

/* The plan through its text: what a reader refuses is no plan to prove. */
static inline bool reads(Arena *arena, const Plan *plan, Error *error) {
    Plan again;
    Text text = {0}, twice = {0};
    *error = (Error){0};
    plan_print(&text, plan);
    const bool ok = plan_read(&again, arena, "plan", text.at, text.n, 0, error);
    if (ok) plan_print(&twice, &again);
    if (ok) cr_assert_str_eq(twice.at, text.at);
    text_finish(&text);
    text_finish(&twice);
    return ok;
}

/* The plan of a net, which is proved and read. */
static inline void fixture_of(Fixture *f, const char *net, int nranks) {
    Error error;
    arena_init(&f->arena);
    plan_of(net, nranks, &f->arena, &f->plan);
    f->role = plan_role(&f->plan);
    cr_assert(proved(&f->plan, &error), "%s", error.text);
    cr_assert(reads(&f->arena, &f->plan, &error), "%s", error.text);
}

/* Both end the fixture. */
static inline void refused(Fixture *f, const char *text) {
    Error error;
    cr_expect_not(proved(&f->plan, &error), "accepted");
    cr_expect(strstr(error.text, text) != NULL, "%s", error.text);
    arena_finish(&f->arena);
}
static inline void unread(Fixture *f, const char *text) {
    Error error;
    cr_expect_not(reads(&f->arena, &f->plan, &error), "read");
    cr_expect(strstr(error.text, text) != NULL, "%s", error.text);
    refused(f, "");
}
