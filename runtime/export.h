/* export: --export, the parameters of a checkpoint as one safetensors file. */
#pragma once
#include "runtime/options.h"

/* Of options->resume, or the newest checkpoint of the plan: whole or in slices, its checksums compared. No ranks, no data. options->export is there when it is whole. Returns the exit code, after saying
 * on stderr what went wrong. */
int export_run(const RunOptions *options);
