/* page: --report, the measurements of a run in the page of its plan (docs/report.md). */
#pragma once
#include "runtime/curve.h"
#include "runtime/lanes.h"
#include "runtime/run.h"

/* Before training: what is measured, and whether the file can be written. Where there is one it must be the page of this plan; process 0 looks. */
bool page_open(Run *run, Error *error);
void page_close(Run *run);
/* Behind the last step. Collective. */
bool page_write(Run *run, Error *error);
