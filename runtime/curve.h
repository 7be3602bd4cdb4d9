/* curve: losses and evaluations of a training, for --report, in a bounded number of points: if there are more, those with the least and the most loss of each interval stay. */
#pragma once
#include "report/json.h"
#include "runtime/metrics.h"

typedef struct Curve Curve;
Curve *curve_create(Error *error); /* NULL: out of memory */
void curve_destroy(Curve *curve);  /* takes NULL */
void curve_add(Curve *curve, const Record *record);
/* Members `curve` and `evaluations`. */
void curve_print(Json *json, const Curve *curve);
