/* convert: conversions between layouts, each planned once. */
#pragma once
#include "compiler/build.h"

/* The conversion of a value of this type. Asserts that there is one: a target is never partial where its source is complete. */
const Conversion *conversion_plan(Build *b, const Layout *from, const Layout *to, const TensorType *type, RedistributePolicy policy);
/* The digits along which the ranks of a collective differ, major first: those that source and target treat differently. Returns how many. */
int convert_digits(CommKind kind, const Layout *from, const Layout *to, Digit *digits, int *dim);
