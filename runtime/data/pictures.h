/* pictures: rows that are pictures: CIFAR-10's binary files, folders of PNG and JPEG. */
#pragma once
#include "runtime/data/rows.h"

typedef struct Pictures Pictures;
/* file->path: of CIFAR-10 a file, or several by one * in the last name; else a folder with a folder for each class. NULL and *error (EXIT_ENVIRONMENT, with a path). */
Pictures *pictures_open(const RowFile *file, Error *error);
void pictures_close(Pictures *pictures); /* takes NULL */
/* Reads the rows that are used, as far as that goes in a second or less, so that a picture that cannot be read is said before training. */
bool pictures_look(Pictures *pictures, Error *error);
int64_t pictures_count(const Pictures *pictures);
/* What all processes must have alike; and what is reported of a folder: its classes, and what is left out. */
void pictures_describe(const Pictures *pictures, Text *text);
void pictures_note(const Pictures *pictures, const char *classes, Text *text);
/* The names of a folder's classes, one a line, in the order of their numbers; the caller's to free. NULL: no memory. */
char *pictures_classes(const Pictures *pictures);
/* Whether all of them are among these names, else *error says which is not. */
bool pictures_know(const Pictures *pictures, const char *classes, Error *error);
/* classes: such names, whose places are the labels then; NULL: the folder's own. */
bool pictures_label(Pictures *pictures, int64_t row, const char *classes, int64_t *label, Error *error);
/* The picture as the input has it, [channels, height, width] of bytes 0 .. 255, until the next call. What is by chance depends on the seed, the row and the epoch alone. */
const unsigned char *pictures_read(Pictures *pictures, int64_t row, int64_t epoch, Error *error);
int64_t pictures_bytes_read(const Pictures *pictures);
void pictures_where(const Pictures *pictures, int64_t row, Text *text); /* "photos/cat/1.png", or "data_batch_1.bin, row 15 (from 0)" */
