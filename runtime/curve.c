#include "runtime/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INTERVALS = 2000, MAX_COLUMNS = MAX_MEASURED };

typedef struct Point {
    int64_t step;
    double value[MAX_COLUMNS];
} Point;

/* The points with the least and the most loss of n consecutive records; of one record both are the same. */
typedef struct Interval {
    int64_t n;
    Point least, most;
} Interval;

typedef struct Series {
    int ncolumns;
    const char *name[MAX_COLUMNS]; /* the first is the loss */
    int64_t width;                 /* records of an interval */
    int n;
    Interval at[MAX_INTERVALS];
} Series;

struct Curve {
    Series steps, evaluations;
};

Curve *curve_create(Error *error) {
    Curve *curve = calloc(1, sizeof *curve);
    if (!curve) {
        error_set(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    curve->steps.width = curve->evaluations.width = 1;
    return curve;
}

void curve_destroy(Curve *curve) {
    free(curve);
}

/* A loss that is nan counts as the largest, so that it stays. */
static double height(const Point *point) {
    return isnan(point->value[0]) ? INFINITY : point->value[0];
}

static void join(Interval *interval, const Interval *other) {
    if (height(&other->least) < height(&interval->least)) interval->least = other->least;
    if (height(&other->most) > height(&interval->most)) interval->most = other->most;
    interval->n += other->n;
}

static void series_add(Series *series, const Record *record) {
    Interval one = {.n = 1, .least = {.step = record->at->global_step}};
    for (int i = 0; series->n == 0 && i < record->n; i++)
        series->name[series->ncolumns++] = record->measured[i].name;
    for (int c = 0; c < series->ncolumns; c++) {
        one.least.value[c] = NAN;
        for (int i = 0; i < record->n; i++)
            if (strcmp(record->measured[i].name, series->name[c]) == 0) one.least.value[c] = record->measured[i].value;
    }
    one.most = one.least;
    if (series->n > 0 && series->at[series->n - 1].n < series->width) {
        join(&series->at[series->n - 1], &one);
        return;
    }
    if (series->n == MAX_INTERVALS) {
        for (int k = 0; k < MAX_INTERVALS / 2; k++) {
            series->at[k] = series->at[2 * k];
            join(&series->at[k], &series->at[2 * k + 1]);
        }
        series->n = MAX_INTERVALS / 2;
        series->width *= 2;
    }
    series->at[series->n++] = one;
}

void curve_add(Curve *curve, const Record *record) {
    series_add(record->eval ? &curve->evaluations : &curve->steps, record);
}

static void print_point(Json *json, const Series *series, const Point *point) {
    json_list(json, NULL);
    json_int(json, NULL, point->step);
    for (int c = 0; c < series->ncolumns; c++)
        json_real(json, NULL, point->value[c]);
    json_end(json);
}

static void print_series(Json *json, const char *key, const Series *series) {
    json_object(json, key);
    json_list(json, "columns");
    json_text(json, NULL, "step");
    for (int c = 0; c < series->ncolumns; c++)
        json_text(json, NULL, series->name[c]);
    json_end(json);
    json_array(json, "rows");
    for (int k = 0; k < series->n; k++) {
        const Point *least = &series->at[k].least, *most = &series->at[k].most;
        const bool falls = most->step < least->step;
        print_point(json, series, falls ? most : least);
        if (most->step != least->step) print_point(json, series, falls ? least : most);
    }
    json_end(json);
    json_end(json);
}

void curve_print(Json *json, const Curve *curve) {
    print_series(json, "curve", &curve->steps);
    print_series(json, "evaluations", &curve->evaluations);
}
