/* pull: what communicators share: walks over pieces of tensors, and what one rank receives in a request. Only for communicators. */
#pragma once
#include "runtime/comm/comm.h"

/* ---------------------------------------------------------------- piece.c */

/* A part of a tensor walked in row-major order as runs that are contiguous in every memory that takes part: `nouter` loops around a
 * run of `unit` elements; the walk begins `skip` elements into the run at `index` and is `count` elements long. */
typedef struct PieceRuns {
    int nouter;
    int64_t extent[MAX_NDIM], index[MAX_NDIM];
    int64_t unit, skip, count;
} PieceRuns;

/* Where a walk lies in one memory: the element offset of the run at PieceRuns.index (which may lie up to `skip` elements before the memory of a
 * message, where nothing is touched), and of each loop's step. */
typedef struct PieceView {
    int64_t start;
    int64_t step[MAX_NDIM];
} PieceView;

/* The walk over a piece in memories that hold the given boxes (each contains piece->box). Fills one view per box. A NULL box is a message:
 * the piece's elements, packed. */
void walk_init(PieceRuns *walk, const Piece *piece, const Box *const *boxes, int nboxes, PieceView *views);
/* target = source. */
void walk_copy(const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_view, const void *source,
               int element_bytes);
/* target = source[0] + source[1] + ... (max, min) in this order, or with `add` target = target + source[0] + ... */
void walk_reduce(const PieceRuns *walk, const PieceView *target_view, void *target, const PieceView *source_views,
                 const void *const *source, int nsources, DType dtype, Reduction reduction, bool add);
/* Copies between a rank's buffer in a layout and a packed message: elements [first, first + count) of the row-major order of piece->box. */
void piece_pack(const Piece *piece, const Box *source_box, const void *source, int element_bytes, void *packed);
void piece_unpack(const Piece *piece, const Box *target_box, void *target, int element_bytes, const void *packed);
/* target += packed (or max, min) over the piece. */
void piece_reduce(const Piece *piece, const Box *target_box, void *target, DType dtype, Reduction reduction, const void *packed);

/* ---------------------------------------------------------------- pull.c */

/* One term of a pull. */
typedef struct PullSource {
    int from;              /* rank */
    int peer;              /* index into Pulls.peers, -1: this rank itself */
    int64_t message_bytes; /* where its elements begin in the message of this peer and round, in bytes */
} PullSource;

/* Elements of the target that are computed from one or several sources: a copy, or a sum in the order of its terms. */
typedef struct Pull {
    int transfer, round;
    bool add; /* to what earlier pulls have put there */
    int nsources;
    PullSource *source;
    Piece piece; /* from, term: of the first source */
    PieceRuns walk;
    PieceView target;
    PieceView *source_view; /* per source */
} Pull;

/* A rank from which this one receives in a round. */
typedef struct PullPeer {
    int rank, round;
    int64_t bytes;       /* of its message, each transfer's part beginning at a multiple of 8 */
    int64_t moved_bytes; /* received in the round under way */
} PullPeer;

/* All that one rank receives in a request. */
typedef struct Pulls {
    int rank, nrounds; /* 1, or 2 where any transfer gathers sums */
    int ntransfers;
    const Transfer *transfer;
    VEC(Pull) pulls; /* by round; per element in the order of terms */
    VEC(PullPeer) peers;
    Reduction *reduction;                 /* per transfer */
    int64_t *source_bytes, *target_bytes; /* per transfer: this rank's local buffers */
} Pulls;

/* Builds the pulls of `rank`. packed(context, from): the elements of rank `from` come in packed messages; NULL: none do. */
bool pulls_init(Pulls *pulls, Arena *arena, const Transfer *transfers, int n, int nranks, int rank, bool (*packed)(void *context, int from),
                void *context, Error *error);
/* Executes one round: base(context, transfer, source, round) is the memory of a term, target[i] the target of transfer i. Adds the bytes
 * that came from other ranks to peers[].moved_bytes. */
typedef const void *PullBaseFn(void *context, int transfer, const PullSource *source, int round);
void pulls_execute(Pulls *pulls, int round, PullBaseFn *base, void *context, void *const *target);
/* Whether a request is started and waited for in turn. started: it was started and not waited for yet. False: *error, EXIT_INTERNAL. */
bool request_may_start(bool started, int rank, Error *error);
bool request_may_wait(bool started, int rank, Error *error);
/* A copy of the transfers and all that they point to, in the arena; its layouts are what comm_layouts makes of them. */
Transfer *transfers_copy(Arena *arena, const Transfer *transfers, int n, int nranks);
static inline int64_t align_bytes(int64_t bytes, int64_t to) {
    return (bytes + to - 1) / to * to;
}
