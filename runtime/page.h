/* page: --report, writes the measurements of a run into the page of its plan (docs/report.md). */
#pragma once
#include "runtime/curve.h"
#include "runtime/lanes.h"
#include "runtime/run.h"

/* Before training: prepares what is measured, and checks that the file can be written. An existing file must be the page of this plan; process 0 looks. */
bool page_open(Run *run, Error *error);
void page_close(Run *run);
/* After the last step. Collective. */
bool page_write(Run *run, Error *error);
