#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "compiler/commands.h"
#include "ir/base.h"

enum { MAX_ARGS = 24, OUTPUT_BYTES = 8192 };

/* Runs `pcc redistribute` with the words of a line ('_' inside a word stands for a space); what it says on both streams is in out. */
static int run(const char *line, char out[OUTPUT_BYTES]) {
    char words[1024], *argv[MAX_ARGS] = {"redistribute"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word && argc < MAX_ARGS; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            if (*c == '_') *c = ' ';
        argv[argc++] = word;
    }
    cr_redirect_stdout();
    cr_redirect_stderr();
    int code = redistribute_command(argc, argv);
    fflush(stdout);
    fflush(stderr);
    size_t n = fread(out, 1, OUTPUT_BYTES / 2, cr_get_redirected_stdout());
    n += fread(out + n, 1, OUTPUT_BYTES / 2 - 1, cr_get_redirected_stderr());
    out[n] = '\0';
    return code;
}

static void expect_failure(const char *line, int code, const char *message) {
    char out[OUTPUT_BYTES];
    int got = run(line, out);
    cr_expect_eq(got, code, "%s: exit code %d, expected %d\n%s", line, got, code, out);
    cr_expect(strstr(out, message) != NULL, "%s: no '%s' in\n%s", line, message, out);
}

static double number(const cJSON *json, const char *name, const char *part) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    if (part) item = cJSON_GetObjectItemCaseSensitive(item, part);
    cr_assert(cJSON_IsNumber(item), "no number %s %s", name, part ? part : "");
    return item->valuedouble;
}

#define TENSOR "--mesh x=4,y=2,z=4 --shape 16x8x8 "

Test(redistribute_command, json_has_the_figures_in_elements) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run(TENSOR "--from [-_y.x_-] --to [x_-_y] --json", out), EXIT_DONE, "%s", out);
    cJSON *json = cJSON_Parse(out);
    cr_assert_not_null(json, "%s", out);
    /* 32 ranks need 4 x 8 x 4 = 128 elements each; they hold 16 x 1 x 8. Of what a rank needs it holds 4 x 1 x 4. */
    cr_expect_eq(number(json, "received", "total"), 32 * (128 - 16));
    cr_expect_eq(number(json, "received", "max"), 112);
    cr_expect_eq(number(json, "sent", "total"), 32 * 112);
    cr_expect_eq(number(json, "sent", "max"), 112);
    cr_expect_eq(number(json, "bound", "total"), 32 * 112);
    cr_expect_eq(number(json, "bound", "max"), 112);
    cr_expect_eq(number(json, "rounds", NULL), 1);
    cr_expect_eq(number(json, "peak", NULL), 128 + 128 + 112);
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(json, "steps");
    cr_assert_eq(cJSON_GetArraySize(steps), 1);
    cr_expect_str_eq(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(steps, 0), "kind")->valuestring, "exchange");
    cJSON_Delete(json);
}

Test(redistribute_command, json_tells_what_is_received_from_the_bound) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=4 --shape 8x8 --from [x_-] --to [-_x] --redistribution=canonical --json", out), EXIT_DONE, "%s", out);
    cJSON *json = cJSON_Parse(out);
    cr_assert_not_null(json, "%s", out);
    /* An AllGather of what the others hold, then a slice; an exchange would bring each rank 3 of its 4 quarters. */
    cr_expect_eq(number(json, "received", "total"), 4 * 48);
    cr_expect_eq(number(json, "received", "max"), 48);
    cr_expect_eq(number(json, "bound", "total"), 4 * 12);
    cr_expect_eq(number(json, "bound", "max"), 12);
    cJSON_Delete(json);
}

Test(redistribute_command, text_shows_steps_groups_and_figures) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=2,y=4 --shape 16x16 --from=[x_-]_+sum(y) --to=[x_y] --redistribution=canonical", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "f32[16, 16] on 8 ranks: [2@4 -] +sum(4@1) -> [2@4 4@1]") != NULL, "%s", out);
    cr_expect(strstr(out, "1. all_reduce") != NULL, "%s", out);
    cr_expect(strstr(out, "groups 0-1-2-3, 4-5-6-7") != NULL, "%s", out);
    cr_expect(strstr(out, "2. strided_slice") != NULL, "%s", out);
    cr_expect(strstr(out, "rounds    2") != NULL, "%s", out);
}

Test(redistribute_command, meshes_of_the_two_sides_may_differ) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=2,y=3 --to-mesh a=3,b=2 --shape 7x5 --from [x_y] --to [a_b] --dtype f64", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "attained in all") != NULL, "%s", out);
}

Test(redistribute_command, equal_layouts_need_nothing) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=2,y=4 --to-mesh a=8 --shape 16 --from [x.y] --to [a]", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "nothing to do") != NULL, "%s", out);
}

Test(redistribute_command, missing_and_unknown_arguments_are_usage_errors) {
    expect_failure("--mesh x=2", EXIT_USAGE, "--shape is missing");
}
Test(redistribute_command, unknown_arguments_name_the_nearest) {
    expect_failure("--mehs x=2", EXIT_USAGE, "did you mean --mesh?");
}
Test(redistribute_command, a_value_must_follow) {
    expect_failure("--mesh", EXIT_USAGE, "--mesh needs a value");
}
Test(redistribute_command, unknown_dtype) {
    expect_failure(TENSOR "--from [-_-_-] --to [-_-_-] --dtype f8", EXIT_USAGE, "f32, f64, i32, i64, bool, f16 or bf16");
}
Test(redistribute_command, unknown_policy) {
    expect_failure(TENSOR "--from [-_-_-] --to [-_-_-] --redistribution=best", EXIT_USAGE, "auto, bound or canonical");
}
Test(redistribute_command, unknown_axis) {
    expect_failure(TENSOR "--from [-_yy.x_-] --to [-_-_-]", EXIT_REJECTED, "the mesh has no axis yy");
}
Test(redistribute_command, axis_used_twice) {
    expect_failure(TENSOR "--from [x_y.x_-] --to [-_-_-]", EXIT_REJECTED, "used already");
}
Test(redistribute_command, unclosed_bracket) {
    expect_failure(TENSOR "--from [-_-_- --to [-_-_-]", EXIT_USAGE, "expected ']'");
}
Test(redistribute_command, too_few_dimensions) {
    expect_failure(TENSOR "--from [-_-] --to [-_-_-]", EXIT_REJECTED, "fewer dimensions than the shape");
}
Test(redistribute_command, too_many_dimensions) {
    expect_failure(TENSOR "--from [-_-_-_x] --to [-_-_-]", EXIT_REJECTED, "more dimensions than the shape");
}
Test(redistribute_command, a_sum_that_the_source_does_not_owe) {
    expect_failure(TENSOR "--from [-_-_-] --to [-_-_-]_+sum(x)", EXIT_REJECTED, "a sum cannot be taken apart");
}
Test(redistribute_command, an_unknown_reduction) {
    expect_failure(TENSOR "--from [-_-_-]_+mean(x) --to [-_-_-]", EXIT_USAGE, "expected sum(axes)");
}
Test(redistribute_command, meshes_of_other_ranks) {
    expect_failure("--mesh x=4 --to-mesh a=2 --shape 8 --from [x] --to [a]", EXIT_REJECTED, "they must be the same ranks");
}
Test(redistribute_command, absurd_meshes) {
    expect_failure("--mesh x=99999,y=99999 --shape 8 --from [x] --to [x]", EXIT_REJECTED, "at most 65536 ranks");
}
Test(redistribute_command, absurd_shapes) {
    expect_failure("--mesh x=4 --shape 4000000000x4000000000 --from [x_-] --to [x_-]", EXIT_REJECTED, "the tensor is too large");
}
Test(redistribute_command, malformed_shapes) {
    expect_failure("--mesh x=4 --shape 8x --from [x] --to [x]", EXIT_USAGE, "expected sizes of at least 1");
}

/* ---- parts of axes, device orders, several meshes */

static double received_total(const char *line) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run(line, out), EXIT_DONE, "%s: %s", line, out);
    cJSON *json = cJSON_Parse(out);
    cr_assert_not_null(json, "%s", out);
    double total = number(json, "received", "total");
    cr_expect_eq(total, number(json, "bound", "total"), "%s", line);
    cJSON_Delete(json);
    return total;
}

Test(redistribute_command, parts_of_an_axis_are_digits) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=8 --shape 16x16 --from [x_-] --to [x:(1)2_x:(2)4]", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "on 8 ranks: [8@1 -] -> [2@4 4@1]") != NULL, "%s", out);
}
Test(redistribute_command, parts_that_make_up_an_axis_are_the_axis) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=8,y=2 --shape 16 --from [x] --to [x:(1)2.x:(2)4]", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "nothing to do") != NULL, "%s", out);
}
Test(redistribute_command, parts_of_axes_stand_on_both_sides_and_in_sums) {
    /* 4 terms of 64 cells, each on 2 ranks; 2 of them remain partial: per kept pair 2 - 1 receptions and 3 more ranks to tell. */
    cr_expect_eq(received_total("--mesh x=8 --shape 8x8 --from [-_-]_+sum(x:(1)4) --to [-_-]_+sum(x:(1)2) --json"), 2 * 64 * (1 + 3));
}
Test(redistribute_command, a_part_must_divide_its_axis) {
    expect_failure("--mesh x=8 --shape 16x16 --from [x:(3)2_-] --to [-_-]", EXIT_REJECTED, "the axis has size 8");
}
Test(redistribute_command, a_part_has_a_form) {
    expect_failure("--mesh x=8 --shape 16x16 --from [x:2_-] --to [-_-]", EXIT_USAGE, "expected a part of the axis, as in x:(1)2");
}
Test(redistribute_command, parts_that_overlap_are_refused) {
    expect_failure("--mesh x=8 --shape 16x16 --from [x:(1)4_x:(2)2] --to [-_-]", EXIT_REJECTED, "x:(1)4 stands before it");
}
Test(redistribute_command, the_place_at_fault_is_underlined) {
    expect_failure("--mesh x=8 --shape 16x16 --from [x_x] --to [-_-]", EXIT_REJECTED,
                   "--from: error: this axis, or a part of it, is used already\n    [x x]\n       ^\nhint: x stands before it");
}

Test(redistribute_command, one_device_order_is_the_natural_one_relabelled) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=4,y=2 --ids 7,6,5,4,3,2,1,0 --shape 16x16 --from [x_-]_+sum(y) --to [x_y]", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "[4@2 -] +sum(2@1) %order1 -> [4@2 2@1] %order1") != NULL, "%s", out);
    cr_expect(strstr(out, "%order1: the ranks by position are 7-6-5-4-3-2-1-0") != NULL, "%s", out);
    cr_expect(strstr(out, "1. reduce_scatter") != NULL, "%s", out);
    cr_expect(strstr(out, "groups 0-1, 2-3, 4-5, 6-7") != NULL, "%s", out);
}
Test(redistribute_command, groups_of_a_device_order_are_of_ranks) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=2,y=2 --ids 0,2,1,3 --shape 16x16 --from [x_-]_+sum(y) --to [x_-]", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "groups 0-2, 1-3") != NULL, "%s", out);
}
Test(redistribute_command, a_reversed_order_moves_everything) {
    cr_expect_eq(received_total("--mesh x=4 --to-ids 3,2,1,0 --shape 16 --from [x] --to [x] --json"), 16);
}
Test(redistribute_command, two_device_orders_meet_in_an_exchange_at_the_bound) {
    /* Two of four stay. */
    cr_expect_eq(received_total("--mesh x=4 --ids 0,1,2,3 --to-ids 0,1,3,2 --shape 16 --from [x] --to [x] --json"), 8);
}
Test(redistribute_command, sums_go_between_device_orders) {
    /* Two terms of 8 cells per half; each half's two needers are one rank of either half: one holds a term. */
    cr_expect_eq(received_total("--mesh x=2,y=2 --to-ids 0,2,1,3 --shape 16 --from [x]_+sum(y) --to [x] --json"), 16 * (1 + 1));
}
Test(redistribute_command, a_device_order_names_every_rank_once) {
    expect_failure("--mesh x=4 --ids 0,1,1,3 --shape 8 --from [x] --to [x]", EXIT_REJECTED, "--ids: error: rank 1 is named twice");
}
Test(redistribute_command, a_device_order_names_all_ranks) {
    expect_failure("--mesh x=4 --to-ids 0,1,2 --shape 8 --from [x] --to [x]", EXIT_REJECTED, "the mesh has 4 ranks, only 3 are named");
}
Test(redistribute_command, a_device_order_names_no_others) {
    expect_failure("--mesh x=4 --ids 0,1,2,4 --shape 8 --from [x] --to [x]", EXIT_REJECTED, "the mesh has no such rank");
}
Test(redistribute_command, a_device_order_is_of_numbers) {
    expect_failure("--mesh x=4 --ids 0,1,,2 --shape 8 --from [x] --to [x]", EXIT_USAGE, "expected the number of a rank");
}

Test(redistribute_command, sums_go_between_meshes_that_do_not_fit_together) {
    /* 2 terms of 5 x 7 cells in thirds to boxes of the other mesh: what is received is what the bound says. */
    received_total("--mesh a=2,b=3 --to-mesh c=3,d=2 --shape 5x7 --from [b_-]_+sum(a) --to [c_d] --json");
}
Test(redistribute_command, maxima_go_between_meshes_that_do_not_fit_together) {
    received_total("--mesh a=2,b=3 --to-mesh c=3,d=2 --shape 5x7 --from [-_a]_+max(b) --to [d_-] --json");
}
Test(redistribute_command, a_sum_of_another_mesh_is_no_part_of_the_source) {
    expect_failure("--mesh a=2,b=3 --to-mesh c=3,d=2 --shape 6 --from [-]_+sum(a) --to [-]_+sum(c)", EXIT_REJECTED,
                   "--to: error: the target is partial over c, over which the source is not (+sum)\n    [-] +sum(c)\n             ^");
}
Test(redistribute_command, a_sum_of_a_part_that_is_not_owed) {
    expect_failure("--mesh x=8 --shape 6 --from [-]_+sum(x:(1)2) --to [-]_+sum(x:(1)4)", EXIT_REJECTED,
                   "the target is partial over x:(1)4");
}
Test(redistribute_command, two_reductions_at_once) {
    expect_failure("--mesh x=2,y=2 --shape 6 --from [-]_+sum(x)_+max(y) --to [-]", EXIT_REJECTED, "two reductions cannot be completed");
}
Test(redistribute_command, one_of_two_reductions_may_stay) {
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=2,y=2 --shape 6 --from [-]_+sum(x)_+max(y) --to [-]_+max(y)", out), EXIT_DONE, "%s", out);
}

/* ---- machines */

Test(redistribute_command, a_machine_weighs_messages_against_bytes) {
    /* 64 small messages, or two gathers of equal traffic. */
    char out[OUTPUT_BYTES];
    cr_assert_eq(run("--mesh x=8,y=8 --shape 64x64 --from [x_y] --to [-_-] --machine gpu8", out), EXIT_DONE, "%s", out);
    cr_expect(strstr(out, "2. all_gather") != NULL, "%s", out);
}
Test(redistribute_command, an_unknown_machine_is_no_file) {
    expect_failure("--mesh x=4 --shape 8 --from [x] --to [x] --machine abacus", EXIT_ENVIRONMENT,
                   "--machine takes cpu, gpu8 or a machine file");
}
