/* export: --export, the parameters of a checkpoint as one safetensors file. */
#pragma once
#include "runtime/options.h"

/* Exports options->resume, or the newest checkpoint of the plan, whole or in slices, and compares its checksums. Needs no ranks and no data. options->export appears only when it is complete. Returns the
 * exit code, after printing on stderr what went wrong. */
int export_run(const RunOptions *options);
