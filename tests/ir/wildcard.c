#include "ir/wildcard.h"

#include <criterion/criterion.h>
#include <string.h>

/* The path that `to` makes of a path that `from` matches; "" where it does not match. */
static void expect_path(const char *from, const char *to, const char *path, const char *expected) {
    Arena arena;
    Wilds wilds;
    arena_init(&arena);
    const char *made = pattern_matches(from, path, &wilds) ? pattern_path(to, &wilds, &arena) : "";
    cr_expect_str_eq(made, expected, "%s to %s of %s: %s", from, to, path, made);
    arena_finish(&arena);
}

Test(wildcard, matches_whole_paths) {
    cr_expect(pattern_matches("layer.*.fc1", "layer.0.fc1", NULL));
    cr_expect(pattern_matches("**.fc*", "fc1", NULL));
    cr_expect(pattern_matches("a.**", "a", NULL));
    cr_expect(pattern_matches("**.a.**.b", "a.a.x.a.b", NULL));
    cr_expect_not(pattern_matches("a.*", "a.b.c", NULL));
    cr_expect_not(pattern_matches("a", "a.b", NULL));
    cr_expect_not(pattern_matches("a.b", "a", NULL));
}

Test(wildcard, covers_what_lies_within) {
    cr_expect(pattern_covers("layer.*", "layer.0"));
    cr_expect(pattern_covers("layer.*", "layer.0.fc1.weight"));
    cr_expect(pattern_covers("**.fc1", "layer.0.fc1.weight"));
    cr_expect(pattern_covers("w", "w.grad"));
    cr_expect_not(pattern_covers("layer.*", "layer"));
    cr_expect_not(pattern_covers("w", "w2.grad"));
    cr_expect_not(pattern_covers("fc1", "layer.0.fc1"));
}

Test(wildcard, makes_a_path_of_what_its_wilds_stand_for) {
    expect_path("w", "0.weight", "w", "0.weight");
    expect_path("encoder.*", "bert.encoder.*", "encoder.weight", "bert.encoder.weight");
    expect_path("encoder.*", "bert.encoder.*", "encoder.0.weight", "");
    expect_path("encoder.**", "bert.encoder.**", "encoder.0.fc1.weight", "bert.encoder.0.fc1.weight");
    expect_path("**.gain", "**.weight", "layer.3.norm1.gain", "layer.3.norm1.weight");
    expect_path("**.gain", "**.weight", "gain", "weight");
    expect_path("**", "model.**", "a.b", "model.a.b");
    expect_path("a.**", "b.**", "a", "b");
    expect_path("layer.*.fc*.**", "blocks.*.lin*.**", "layer.12.fc2.weight", "blocks.12.lin2.weight");
    expect_path("*a*b", "*-*", "xaayb", "x-ay");
    expect_path("**.b.*.c", "**.*", "b.b.x.b.y.c", "b.b.x.y");
    expect_path("**.**.w", "**.x.**", "a.b.w", "x.a.b");
}

Test(wildcard, says_which_wilds_it_has) {
    Arena arena;
    arena_init(&arena);
    cr_expect_str_eq(pattern_wilds("a.b", &arena), "");
    cr_expect_str_eq(pattern_wilds("**.fc*.*", &arena), "n11");
    cr_expect_str_eq(pattern_wilds("a**.**", &arena), "11n");
    cr_expect_str_eq(path_without_numbers("layer.12.fc1.0", &arena), "layer.*.fc1.*");
    arena_finish(&arena);
}
