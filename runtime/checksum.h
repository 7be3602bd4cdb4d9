/* checksum: whether a checkpoint holds the bytes that were written. A tensor is written in boxes, one by one rank each, and the file has the XXH64 (xxHash, seed 0)
 * of each box's bytes, run after run, and of its header. They are themselves the file's last tensor, "pcc:checksums" (i64, a name that no state has): element 0 is
 * the header's, behind it come those of every other tensor in the order of the header, box after box. The metadata says "pcc.checksums": "xxh64" and in what
 * boxes tensor T was written, "pcc.boxes.T": "[2@2 2@1]": a layout by which rank n has box n. Whoever reads, on any ranks, checks these boxes and then reads its own.
 * Files of an earlier prun have none of this, and nothing is checked. */
#pragma once
#include "ir/layout.h"
#include "runtime/tensors.h"

/* Where they are. Arrays by number of the tensor, of all but the one that holds them. */
typedef struct Checksums {
    int tensor;     /* that holds them; -1: the file has none */
    Layout *boxes;  /* tensor t was written as by rank n of this layout, n = 0 .. its boxes - 1 */
    int64_t *first; /* element of the first of its boxes */
} Checksums;

/* For a file that is to be written, with its tensors described: adds the tensor and the metadata. layouts: in which the ranks write each tensor. */
void checksums_describe(Checksums *sums, TensorFile *file, Arena *arena, const Layout *layouts);
/* What a rank wrote, and the header (of one process): into the file, at their places. */
bool checksums_write(const Checksums *sums, const TensorFile *file, int tensor, const Layout *layout, int rank, uint64_t checksum,
                     Error *error);
bool checksums_write_header(const Checksums *sums, const TensorFile *file, const Text *header, Error *error);
/* Of a file that was opened; whether the header is what was written. False and *error (EXIT_ENVIRONMENT): damaged, or of a kind unknown here. */
bool checksums_open(Checksums *sums, const TensorFile *file, Arena *arena, Error *error);
/* Reads and compares part number `part` in `parts` of a tensor's boxes. *damaged: the first whose bytes are others, as the element that has its checksum; -1:
 * none. False and *error: the file cannot be read. */
bool checksums_compare(const Checksums *sums, const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error);
/* Says which box that is; EXIT_ENVIRONMENT. Returns false. */
bool checksums_say(const Checksums *sums, const TensorFile *file, int64_t damaged, Error *error);
