/* slices: checkpoints of `checkpoint .. per_rank`: each rank writes what it holds to a file of its own.
 *
 *   DIRECTORY/step-000000120.safetensors             the index, written when all other files are on the disk: where training stood, and for each state "pcc.tensor.NAME": its shape, "24 32".
 *                                                    "pcc.ranks": how many wrote; "pcc.set": a number unique to this save. It holds no elements
 *   DIRECTORY/device/K/step-000000120.safetensors    of rank K: each state's slice, with "pcc.box.NAME": "0:12 16:32", its part of the whole; "pcc.set", and checksums as in every checkpoint
 *
 * To readers (tensors_read), an index that was opened with its set is a file of whole tensors: any ranks go on from it. Slices that several ranks hold are read from the first of them. */
#pragma once
#include "runtime/checksum.h"
#include "runtime/tensors.h"

/* ---- names, in arenas */
const char *slices_path(Arena *arena, const char *index, int rank); /* of rank K's file; rank -1: the folder "DIRECTORY/device" */
/* ---- writing: metadata of the index in place of tensors; metadata of a rank's file in addition to its tensors, whose shapes are those of the boxes */
void slices_describe(TensorFile *index, Arena *arena, int nranks, uint64_t set);
void slices_describe_rank(TensorFile *file, Arena *arena, uint64_t set);
void slices_describe_box(TensorFile *file, Arena *arena, const char *name, const Box *box);
/* ---- reading */
/* Opens the files of an index's set, adds its tensors to file, and checks that their slices make up the whole and are of one save; nothing where the file is no index. EXIT_ENVIRONMENT. */
bool slices_open(TensorFile *file, Arena *arena, Error *error);
void slices_close(TensorFile *file);
bool slices_of_rank(const TensorFile *file); /* whether it is a rank's file, with slices of tensors */
bool slices_read(const TensorFile *file, int tensor, const Box *box, DType dtype, void *to, Error *error);
/* As checksums_compare and checksums_say: *damaged is the number of a slice. */
bool slices_compare(const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error);
bool slices_say(const TensorFile *file, int64_t damaged, Error *error);
