/* What prun and a module must have alike: whatever kernels would read otherwise makes another number. */
#include <criterion/criterion.h>

#include "runtime/abi.h"

static const char *const rows[] = {"add: .ins = \"a, b\"", "relu: .ins = \"x\"", "clamp: .ins = \"x\", .attrs = {{\"low\"}, {\"high\"}}"};
static const AbiMember members[] = {{"Operand.data", 0}, {"Operand.dtype", 8}};
static const size_t sizes[] = {16, 3};

static uint64_t with(const char *const *other_rows, const AbiMember *other_members, const size_t *other_sizes) {
    return abi_of(other_rows ? other_rows : rows, 3, other_members ? other_members : members, 2, other_sizes ? other_sizes : sizes, 2);
}

Test(abi, another_table_or_structure_is_another_build) {
    const uint64_t own = with(NULL, NULL, NULL);
    const char *const swapped[] = {rows[1], rows[0], rows[2]}, *const renamed[] = {rows[0], "silu: .ins = \"x\"", rows[2]},
                      *const turned[] = {rows[0], rows[1], "clamp: .ins = \"x\", .attrs = {{\"high\"}, {\"low\"}}"};
    const AbiMember moved[] = {{"Operand.data", 0}, {"Operand.dtype", 4}}, other[] = {{"Operand.data", 0}, {"Operand.box", 8}};
    const size_t larger[] = {24, 3};
    cr_assert_eq(with(NULL, NULL, NULL), own);
    const uint64_t others[] = {
        with(swapped, NULL, NULL), with(renamed, NULL, NULL), with(turned, NULL, NULL), abi_of(rows, 2, members, 2, sizes, 2),
        with(NULL, moved, NULL),   with(NULL, other, NULL),   with(NULL, NULL, larger)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert_neq(others[i], own, "change %zu goes unseen", i);
    cr_assert_eq(device_abi(), device_abi());
}
