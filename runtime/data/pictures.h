/* pictures: rows that are pictures: CIFAR-10's binary files, folders of PNG and JPEG. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Pictures Pictures;
/* file->path: for CIFAR-10 a file, or several by one * in the file name; else a folder with a folder for each class. NULL and *error (EXIT_ENVIRONMENT, with a path). */
Pictures *pictures_open(const RowFile *file, Error *error);
void pictures_close(Pictures *pictures); /* takes NULL */
/* Reads the rows that are used, for a second or less, so that a picture that cannot be read is reported before training. */
bool pictures_look(Pictures *pictures, Error *error);
int64_t pictures_count(const Pictures *pictures);
/* What must be the same on all processes; and what is reported of a folder: its classes, and the files left out. */
void pictures_describe(const Pictures *pictures, Text *text);
void pictures_note(const Pictures *pictures, const char *classes, Text *text);
/* The names of a folder's classes, one a line, in the order of their numbers; the caller's to free. NULL: no memory. */
char *pictures_classes(const Pictures *pictures);
/* Whether all of the folder's classes are among these names; else *error says which is not. */
bool pictures_know(const Pictures *pictures, const char *classes, Error *error);
/* classes: class names, whose positions are the labels; NULL: the folder's own. */
bool pictures_label(Pictures *pictures, int64_t row, const char *classes, int64_t *label, Error *error);
/* The picture as the input has it, [channels, height, width] of bytes 0 .. 255, valid until the next call. Random changes depend only on the seed, the row and the epoch. */
const unsigned char *pictures_read(Pictures *pictures, int64_t row, int64_t epoch, Error *error);
int64_t pictures_bytes_read(const Pictures *pictures);
void pictures_where(const Pictures *pictures, int64_t row, Text *text); /* "photos/cat/1.png", or "data_batch_1.bin, row 15 (from 0)" */
