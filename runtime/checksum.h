/* checksum: checks that a checkpoint holds the bytes that were written. A tensor is written in boxes, each by one rank, and the file has the XXH64 (xxHash, seed 0)
 * of each box's bytes, run after run, and of its header. The checksums are the file's last tensor, "pcc:checksums" (i64, a name that no state has): element 0 is
 * the header's, then come those of every other tensor in the order of the header, box after box. The metadata has "pcc.checksums": "xxh64" and the boxes
 * in which tensor T was written, "pcc.boxes.T": "[2@2 2@1]": a layout by which rank n has box n. A reader, on any ranks, checks these boxes and then reads its own.
 * Files of an earlier prun have none of this and are not checked. */
#pragma once
#include "ir/layout.h"
#include "runtime/tensors.h"

/* Where the checksums are. Arrays by number of the tensor, for all but the one that holds them. */
typedef struct Checksums {
    int tensor;     /* the one that holds them; -1: the file has none */
    Layout *boxes;  /* tensor t was written as by rank n of this layout, n = 0 .. its boxes - 1 */
    int64_t *first; /* element of the first box's checksum */
} Checksums;

/* For a file to be written whose tensors are described: adds the tensor of checksums and the metadata. layouts: those in which ranks write each tensor. */
void checksums_describe(Checksums *sums, TensorFile *file, Arena *arena, const Layout *layouts);
/* Write to the file the checksum of what a rank wrote, and (one process) that of the header. */
bool checksums_write(const Checksums *sums, const TensorFile *file, int tensor, const Layout *layout, int rank, uint64_t checksum,
                     Error *error);
bool checksums_write_header(const Checksums *sums, const TensorFile *file, const Text *header, Error *error);
/* Finds the checksums of an opened file and checks its header. False and *error (EXIT_ENVIRONMENT): damaged, or checksums of an unknown kind. */
bool checksums_open(Checksums *sums, const TensorFile *file, Arena *arena, Error *error);
/* Reads and compares part number `part` of `parts` of a tensor's boxes. *damaged: the first whose bytes differ, as the element that has its checksum; -1:
 * none. False and *error: the file cannot be read. */
bool checksums_compare(const Checksums *sums, const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error);
/* Says which box that is; EXIT_ENVIRONMENT. Returns false. */
bool checksums_say(const Checksums *sums, const TensorFile *file, int64_t damaged, Error *error);
