/* Tensors: element types, shapes, layouts on the ranks, and what moves when a layout changes. */
#pragma once
#include "ir/base.h"

/* ---------------------------------------------------------------- type.c */

typedef enum { F32, F64, I32, I64, BOOL, F16, BF16, NDTYPES } DType; /* BOOL: a byte, 0 or 1. F16, BF16: half.h */
enum { MAX_NDIM = 9 };                                               /* 8 of the user's, and the hidden leading one */
extern const char *const dtype_name[NDTYPES];                        /* "f32" */
extern const char *const dtype_title[NDTYPES];                       /* "Float32" */
extern const int dtype_bytes[NDTYPES];
bool dtype_parse(const char *name, DType *dtype);

typedef struct Shape {
    int ndim;
    int64_t dim[MAX_NDIM];
} Shape;

/* A tensor's global type. hidden: dimension 0 is the hidden one of mode data_parallel (docs/architecture.md): operators act on
 * each of its slices alone. shape.ndim counts it. */
typedef struct TensorType {
    DType dtype;
    bool hidden;
    Shape shape;
} TensorType;

bool mul_checked(int64_t a, int64_t b, int64_t *product); /* false on overflow */
bool shape_count(const Shape *shape, int64_t *elements);  /* false on overflow */
int64_t shape_elements(const Shape *shape);               /* for a shape known not to overflow */
bool shape_equal(const Shape *a, const Shape *b);
bool type_equal(const TensorType *a, const TensorType *b);
void shape_print(Text *text, const Shape *shape);    /* "[16, 32]" */
void type_print(Text *text, const TensorType *type); /* "f32[16, 32]", hidden: "f32[8 | 16, 32]" */
int64_t gcd64(int64_t a, int64_t b);
/* Whether it is a real type, which can have gradients. */
static inline bool dtype_is_float(DType dtype) {
    return dtype == F32 || dtype == F64 || dtype == F16 || dtype == BF16;
}
/* Whether it is a 16-bit type: tensors are stored in it, arithmetic is in f32. */
static inline bool dtype_is_half(DType dtype) {
    return dtype == F16 || dtype == BF16;
}
/* The type for numbers computed from elements of dtype: f32 for the 16-bit types. */
static inline DType dtype_widened(DType dtype) {
    return dtype_is_half(dtype) ? F32 : dtype;
}

/* ---------------------------------------------------------------- layout.c  (docs/architecture.md) */

/* s@t: the digit (r / t) mod s of rank r. */
typedef struct Digit {
    int32_t size, stride;
} Digit;

static inline int digit_of(Digit d, int rank) {
    return (rank / d.stride) % d.size;
}

typedef enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, NREDUCTIONS } Reduction;
extern const char *const reduction_name[NREDUCTIONS];

/* A device order: the ranks by position. In a layout that has one, digits are those of a rank's position, not of its number. */
typedef struct Order {
    const char *name; /* "order1", as layout_print shows it */
    int nranks;
    const int *rank;     /* rank[position] */
    const int *position; /* position[rank], the inverse */
} Order;
/* The order with rank[i] at position i (every rank once), in the arena. NULL for the natural order, which layouts have by default. */
const Order *order_make(Arena *arena, const char *name, const int *rank, int nranks);
bool order_equal(const Order *a, const Order *b); /* the same order, whatever its name */
static inline int order_position(const Order *order, int rank) {
    return order ? order->position[rank] : rank;
}
static inline int order_rank(const Order *order, int position) {
    return order ? order->rank[position] : position;
}

/* What a rank needs of a dimension that windows (such as a convolution's) lie over: not a part of it, but the range that follows from a part of another dimension. Window
 * o sees the elements o * stride - low to o * stride + high of its dimension, both included, as far as they exist. Ranks hold overlapping ranges: a part and its halos. For
 * slices, padding and joining, a window is one element, shifted by -low: ranges do not overlap, and are the parts of another tensor. */
typedef enum {
    HALO_NONE,
    HALO_SEES,   /* parts are of the windows: the elements that they see */
    HALO_SEEN,   /* parts are of the elements: the windows that see some of them */
    HALO_AROUND, /* parts are of the elements: all that is seen by windows that see some of them */
    NHALOS
} HaloKind;
extern const char *const halo_name[NHALOS]; /* "sees" */
typedef struct Halo {
    HaloKind kind;
    int64_t of; /* what the digits divide: windows, or elements */
    int64_t stride, low, high;
} Halo;
enum { HALO_DIMS = MAX_NDIM - 1 }; /* the dimensions that may have halos: all but the hidden one */
bool halo_equal(const Halo *a, const Halo *b);
/* Turns the part [*begin, *end) into the range that the halo gives, in a dimension of this size; may be empty. */
void halo_range(const Halo *halo, int64_t size, int64_t *begin, int64_t *end);

/* The ranks that hold a tensor at all: those whose digit has this value. digit.size 0: all ranks. */
typedef struct Pin {
    Digit digit;
    int32_t value;
} Pin;
static inline bool pin_equal(const Pin *a, const Pin *b) {
    return a->digit.size == b->digit.size && (a->digit.size == 0 || (a->digit.stride == b->digit.stride && a->value == b->value));
}

enum { MAX_RANKS = 1 << 16 }; /* limit of a job's ranks, and of replicas, in pcc and in plans */
enum { MAX_DIGITS = 40 };
/* How one tensor lies on the ranks. List i of digits, major first: i < ndim divides dimension i; i = ndim + reduction
 * are the digits over which the value is partial (descending strides). Digits in no list: whole. No digit twice. Only operands of operators, and
 * conversions to them, have layouts with halos; nothing is computed or stored in one. */
typedef struct Layout {
    int ndim;
    Halo halo[HALO_DIMS]; /* of dimension ndim - HALO_DIMS + i; HALO_NONE: the digits divide the dimension itself */
    Pin pin;              /* all other ranks hold nothing: a stage's tensors */
    const Order *order;   /* NULL: natural. Graphs and plans hold natural ones only; `pcc redistribute` plans with others */
    uint8_t start[MAX_NDIM + NREDUCTIONS + 1]; /* list i is digit[start[i]] .. digit[start[i + 1] - 1] */
    Digit digit[MAX_DIGITS];
} Layout;

void layout_init(Layout *layout, int ndim);                /* whole everywhere */
bool layout_append(Layout *layout, int list, Digit digit); /* as the minor digit of the list; false: no room. Size 1 is dropped */
static inline int layout_count(const Layout *l, int list) {
    return l->start[list + 1] - l->start[list];
}
static inline const Digit *layout_list(const Layout *l, int list) {
    return l->digit + l->start[list];
}
static inline bool digit_equal(Digit a, Digit b) {
    return a.size == b.size && a.stride == b.stride;
}
/* Whether a list has this digit. For two layouts refined by layout_refine it tells which digits they share. */
static inline bool layout_has(const Layout *l, int list, Digit digit) {
    for (int i = 0; i < layout_count(l, list); i++)
        if (digit_equal(layout_list(l, list)[i], digit)) return true;
    return false;
}
/* The halo of a dimension, NULL: none. */
static inline const Halo *layout_halo(const Layout *layout, int dim) {
    const int i = dim - (layout->ndim - HALO_DIMS);
    return i >= 0 && i < HALO_DIMS && layout->halo[i].kind != HALO_NONE ? &layout->halo[i] : NULL;
}
static inline bool layout_is_pinned(const Layout *layout) {
    return layout->pin.digit.size > 0;
}
/* Whether a rank holds anything, as the pin says; for a layout in the natural order. */
static inline bool layout_has_rank(const Layout *layout, int rank) {
    return !layout_is_pinned(layout) || digit_of(layout->pin.digit, rank) == layout->pin.value;
}
/* The first rank that holds anything: all its digits are 0 but the pin's. */
static inline int layout_first_rank(const Layout *layout) {
    return layout_is_pinned(layout) ? layout->pin.value * layout->pin.digit.stride : 0;
}
bool layout_has_ranks(const Layout *layout, int first, int last); /* any of these */
bool layout_has_halo(const Layout *layout);
void layout_without_halos(const Layout *from, Layout *to); /* the digits divide the dimensions themselves (to may be from) */
int64_t layout_split(const Layout *layout, int list);      /* product of the sizes in a list */
bool layout_is_partial(const Layout *layout);
bool layout_is_whole(const Layout *layout);
/* Whether both have the same device order, *order (a layout without digits agrees with any). */
bool layout_orders_agree(const Layout *a, const Layout *b, const Order **order);
void layout_complete(const Layout *from, Layout *to); /* from without its partial digits (to may be from) */
/* Whether digits are >= 2, s*t divides nranks, no two overlap, products fit. False with the reason. */
bool layout_valid(const Layout *layout, int nranks, const char **why);
bool digits_compatible(Digit a, Digit b); /* can stand in one layout */
/* Merges neighbours where no box changes, and sorts partial digits: then equal layouts compare equal with layout_equal. */
void layout_canonical(Layout *layout, const Shape *shape);
bool layout_equal(const Layout *a, const Layout *b);                                /* digit by digit */
bool layout_same(const Layout *a, const Layout *b, const Shape *shape, int nranks); /* equal, or the same boxes and terms on every rank */
uint64_t layout_hash(const Layout *layout);
/* "[2@4.2@1 -] +sum(2@8)"; with halos "[- - 4@1~sees(32,2,1,1) -]", whose numbers are of, stride, low, high; pinned "[2@1 -] only(2@4=1)"; hidden: "[8@1 | - -]";
 * with a device order "[2@4 -] %order1". */
void layout_print(Text *text, const Layout *layout, bool hidden);
/* Reads what layout_print writes for layouts in the natural order from *at, and advances it. A device order is not read: '%' is left at *at,
 * which is an error to every caller that expects a separator or the end there. */
bool layout_read(const char **at, Layout *layout, bool *hidden);
/* The digits of a mesh with these sizes, last axis fastest, over product(sizes) * inner ranks. */
void mesh_digits(const int32_t *sizes, int naxes, int32_t inner, Digit *digits);
/* Splits all digits of both layouts at each other's boundaries, so that any two digits are equal or disjoint. False when they
 * belong to meshes that cannot be refined together (2x3 against 3x2). Use it for rank arithmetic only: where a split is uneven,
 * refining changes the boxes (6 by 4@1: 2 2 1 1; by 2@2.2@1: 2 1 2 1). */
bool layout_refine(Layout *a, Layout *b);
bool digit_within(Digit part, Digit whole); /* whether whole can be cut into digits of which part is one */
/* Completes the digits a and b (b may be NULL) to one mixed radix of nranks, major first: every given digit is a run of neighbours in
 * chain. nranks 0: only up to the highest digit. Returns the number of digits, -1 when they do not fit together. chain: MAX_DIGITS. */
int digits_chain(const Digit *a, int na, const Digit *b, int nb, int nranks, Digit *chain);
/* The digits whose terms are added up when a value is converted from `from` to `to`: from's partial digits less to's, descending. Returns
 * their number, and in *kind how they are joined; -1 when a partial digit of `to` is none of `from`, or two kinds would have to be
 * joined at once. digits: MAX_DIGITS. */
int layout_summed(const Layout *from, const Layout *to, Digit *digits, Reduction *kind);

/* ---------------------------------------------------------------- box.c  (docs/redistribution.md) */

/* Half-open index ranges of a global tensor; empty where any begin == end, or where `nothing` is set: a scalar can be empty too. */
typedef struct Box {
    int ndim;
    int64_t begin[MAX_NDIM], end[MAX_NDIM];
    bool nothing;
} Box;
int64_t box_elements(const Box *box);
bool box_intersect(const Box *a, const Box *b, Box *result); /* false: empty */
/* A box as runs of neighbouring elements of the whole tensor, in row-major order: `count` of them, each of `length`. */
typedef struct BoxRuns {
    const Shape *shape;
    const Box *box;
    int inner; /* the dimensions from this one on form one run */
    int64_t length, count, next;
} BoxRuns;
BoxRuns box_runs(const Shape *shape, const Box *box);
bool box_next_run(BoxRuns *runs, int64_t *first); /* *first: the run's first element in the whole tensor; false: there is no further one */
/* The box of rank under layout, empty where it is pinned to other ranks. Each dimension is divided by its digits in turn into balanced parts, the first ones one larger;
 * a halo then turns the rank's part into the range that it needs. */
void layout_box(const Layout *layout, const Shape *shape, int rank, Box *box);
void layout_local_shape(const Layout *layout, const Shape *shape, int rank, Shape *local);
/* Whether the halo of a dimension of this size leaves every part as it is, and so has no effect. */
bool halo_is_idle(const Layout *layout, int dim, int64_t size);
int64_t layout_max_elements(const Layout *layout, const Shape *shape); /* of the largest box of any rank, which is rank 0's without halos */
static inline int64_t layout_max_bytes(const Layout *layout, const TensorType *type) {
    return layout_max_elements(layout, &type->shape) * dtype_bytes[type->dtype];
}
/* Bytes of the whole tensor. */
static inline int64_t type_bytes(const TensorType *type) {
    return shape_elements(&type->shape) * dtype_bytes[type->dtype];
}
/* Whether this rank is the first of those that hold the same box: the digits that the layout does not divide by are all 0. */
bool layout_holds_first(const Layout *layout, int nranks, int rank);
/* Members of the group of rank along the given digits: ranks that differ from it only there; in the order of the digits' mixed radix
 * (major first). In a device order rank and members are positions. members has room for the product of the sizes. Returns their number;
 * *position is rank's own. */
int group_members(const Digit *digits, int n, int rank, int *members, int *position);
int group_leader(const Digit *digits, int n, int rank); /* the member with all digits 0 */

typedef enum { COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL, COMM_EXCHANGE, COMM_STRIDED_SLICE, NCOMMS } CommKind;
extern const char *const comm_name[NCOMMS];  /* "all_reduce" */
extern const char *const comm_title[NCOMMS]; /* "AllReduce", as MindSpore's dumps write it */

/* One piece that rank `to` receives: the elements [first, first + count) in row-major order of box, from rank `from`'s source buffer
 * (round 0) or from the sums that `from` has computed (round 1). term: which of the partial terms, 0 when not partial. from == to: a
 * local copy, which moves nothing. */
typedef struct Piece {
    int from, to, round, term;
    Box box;
    int64_t first, count;
} Piece;
typedef bool PieceFn(void *context, const Piece *piece); /* false stops the enumeration */

/* Everything that `rank` receives (and copies locally) when a tensor of this shape is converted from layout `from` to `to`, in a fixed order:
 * round 0 before round 1, per element terms ascending. Not partial: one round; the holder of a piece has the source digits of that piece
 * and agrees with rank in every other digit. Partial: owners divide each piece, add its terms, the other needers gather (round 1).
 * Layouts may have device orders, also different ones: then "agrees with rank" is about positions in from's order, and a value that stays
 * partial keeps the numbers of its terms (the rank at position 3 of to's order has the term that position 3 of from's order had).
 * The partial digits of `to` must be among those of `from`, which has no halos. Returns false when fn stopped it. */
bool pieces_received(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context);
/* Everything that `rank` sends (from == rank, to != rank), by enumerating the receivers. */
bool pieces_sent(const Layout *from, const Layout *to, const Shape *shape, int nranks, int rank, PieceFn *fn, void *context);
/* What all ranks together, and the busiest one, receive or send: elements, or bytes where stated. */
typedef struct Traffic {
    int64_t total, max;
} Traffic;
/* Counts the pieces of all ranks one by one: at worst as many as there are pairs of ranks. */
void pieces_count(const Layout *from, const Layout *to, const Shape *shape, int nranks, Traffic *received, Traffic *sent);
/* Changes the layouts of a communication of this kind so that pieces_received and pieces_sent enumerate its pieces. In an all_reduce or
 * reduce_scatter, as in libraries, each group of ranks along the summed digits works alone: digits that neither layout has become partial in
 * both, which keeps the groups apart. Layouts of other kinds stay as they are. Boxes do not change. */
void comm_layouts(CommKind kind, int nranks, Layout *from, Layout *to);
