/* source: what source.c and means.c share. */
#pragma once
#include <pthread.h>

#include "runtime/data/data.h"
#include "runtime/data/rows.h"
#include "runtime/data/sampler.h"
#include "ir/pool.h"

/* A part of an input that every step reads: the box of a rank that this process runs. */
typedef struct Take {
    int group, input;
    Box box;
    void *ready; /* its elements, prepared ahead; NULL: none */
} Take;

typedef enum { AHEAD_NONE, AHEAD_ASKED, AHEAD_BUSY, AHEAD_READY, AHEAD_FAILED } Ahead;

struct DataSource {
    const Graph *graph;
    Arena arena;
    const double **drawn;  /* numpy_rand: per input `rows` rows, without the hidden dimension */
    int64_t *rows;         /* per input */
    Rows **file;           /* per input, NULL: none */
    int *texts;            /* per input: the input whose file reads its texts too; else itself */
    Figures *figures;      /* per input: of its rows, where it needs some and this source has found them */
    const Figures **known; /* per input: those that are used, maybe another source's */
    int64_t *part;         /* of a split: the row of the files that is row i of the data; NULL: row i */
    int64_t whole;         /* rows of the files, all parts together */
    Sampler sampler;
    int64_t batch, steps;
    VEC(Take) takes;
    int64_t held_epoch; /* the epoch whose rows are held; -1: none */
    bool says;          /* whether progress is printed when reading a file takes long */

    int threads;
    Pool *pool; /* for drawn numbers; NULL: none yet */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stop;
    Ahead ahead; /* of ahead_epoch, ahead_step, ahead_group */
    int64_t ahead_epoch, ahead_step;
    int ahead_group;
    Error ahead_error;
    int taken;                   /* takes of this step that were filled */
    const unsigned char *groups; /* per step of groups_epoch, the group that reads; NULL: the first */
    int64_t groups_epoch;
    DataFilter *filter;
    void *filter_context;
};

/* ---------------------------------------------------------------- numbers.c */

/* Describes the numbers of an input in one batch, counted over all epochs. */
void numbers_begin(const DataSource *data, int input, int64_t batch, Numbers *numbers);
/* Writes the elements of a take. */
void numbers_fill(DataSource *data, const Take *take, int64_t batch, void *to);
