/* What the parts of the generator share.
 *
 *   make.c      random numbers; statements; the whole
 *   operands.c  values that there are, new leaves, operands that fit an operator's row
 *   attrs.c     attributes
 *   options.c   the blocks and the command line */
#pragma once
#include "tests/nets/net.h"

enum { FUZZ_MOST_ELEMENTS = 1500, FUZZ_MOST_NDIM = 5, FUZZ_BIG_BYTES = 256 << 10 /* parameters from here on are updated in parts */ };

typedef struct Make {
    FuzzNet *net;
    Arena *arena;
    uint64_t *random;
    DType dtype; /* f32 or f64: of all that nothing else says */
    const int64_t *sizes;
    int nsizes;
    bool big; /* some parameters are large */
} Make;

static inline int below(Make *make, int n) {
    return fuzz_below(make->random, n);
}
static inline bool chance(Make *make, int percent) {
    return fuzz_chance(make->random, percent);
}
static inline const Shape *shape_of(Make *make, int value) {
    return &fuzz_type(make->net, value)->shape;
}
static inline DType dtype_of(Make *make, int value) {
    return fuzz_type(make->net, value)->dtype;
}

/* ---------------------------------------------------------------- operands.c */

int64_t draw_size(Make *make);
int64_t draw_divisor(Make *make, int64_t n); /* one of the numbers that divide n */
/* At most ndim dimensions: as many as leave it small. */
Shape draw_shape(Make *make, int ndim);

int add_item(Make *make, FuzzItem item); /* its first value */
int add_leaf(Make *make, FuzzKind kind, DType dtype, const Shape *shape);
int add_number(Make *make, DType dtype, double number);
/* A constant of integers or bools has no elements until its first user says what they mean: draws them, below range; 0: any small ones. */
void draw_elements(Make *make, FuzzItem *item, int64_t range);
bool has_elements(const FuzzItem *item); /* false: no other than its first user may take it */

typedef bool Accepts(const Shape *shape, const Shape *with);
Accepts any_small, equal_shapes;
/* A random value of an accepted shape and one of the element types, a recent one half of the time; -1: there is none. */
int find_value(Make *make, unsigned dtypes, Accepts *accepts, const Shape *with);
/* Operand 0 of an operator: a value that there is, or, where only integers or bools fit, a new leaf; -1: there is none. */
int draw_first(Make *make, OpCode op);
/* The operands after in[0], once attributes are known; the number of all, 0: not this time. */
int draw_operands(Make *make, OpCode op, const Attr *attr, int in[MAX_IN]);

/* ---------------------------------------------------------------- make.c */

/* A statement of this operator; its value, -1: not this time. */
int add_statement(Make *make, OpCode op);

/* ---------------------------------------------------------------- attrs.c */

void draw_attrs(Make *make, OpCode op, const Shape *shape, Attr *attr); /* shape: of operand 0 */

/* ---------------------------------------------------------------- options.c */

void draw_options(Make *make);
/* How inputs arrive, and whether rows repeat: once all inputs are known. */
void draw_dataset(Make *make);
