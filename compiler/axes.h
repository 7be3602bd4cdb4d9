/* What `pcc redistribute` reads: meshes, device orders, shapes and layouts as users write them, each from the text of an option. Everything
 * here reports its own errors on stderr, with a mark under the place at fault, and returns an exit code. */
#pragma once
#include "ir/layout.h"

enum { MAX_AXES = 16 };

typedef struct NamedMesh {
    int naxes, nranks;
    char name[MAX_AXES][32];
    int32_t size[MAX_AXES];
    Digit digit[MAX_AXES];
} NamedMesh;

/* An axis, or part of one, where a layout uses it. */
typedef struct AxisUse {
    Digit digit;
    int list;       /* of the layout */
    int at, length; /* in the option's text, in bytes */
} AxisUse;

typedef struct WrittenLayout {
    const char *option, *text; /* "--from" and its value */
    Layout layout;             /* canonical */
    int nuses;
    AxisUse use[MAX_DIGITS];
} WrittenLayout;

/* A message with the text of an option and a mark under length bytes at `at`; hint may be NULL. Returns code. */
int fail_at(int code, const char *option, const char *text, const char *at, int length, const char *hint, const char *format, ...)
    PRINTF_LIKE(7, 8);
/* "x=4,y=2": the last axis varies fastest. */
int mesh_read(const char *option, const char *text, NamedMesh *mesh);
/* "3,2,1,0": the rank at each position. *order is in the arena, NULL for the natural one. */
int order_read(const char *option, const char *text, int nranks, const char *name, Arena *arena, const Order **order);
/* "16x8x8" */
int sizes_read(const char *text, int nranks, Shape *shape);
/* "[- y.x:(1)2 -] +sum(z)": per dimension '-' or axes, major first; x:(m)k is the part of size k of axis x after its m major parts. */
int layout_parse(const char *option, const char *text, const NamedMesh *mesh, const Order *order, const Shape *shape,
                 WrittenLayout *written);
/* Whether a value in layout `from` can be converted into `to`: EXIT_DONE, or a message about the axis at fault. */
int layouts_convertible(const WrittenLayout *from, const WrittenLayout *to);
