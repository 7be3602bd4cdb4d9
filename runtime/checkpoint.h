/* checkpoint: saves states to files and loads them. One safetensors file holds whole tensors under their names, whatever the strategy was: each rank writes the
 * boxes that it is the first to hold and reads the boxes that it needs, so any number of ranks can go on from it. */
#pragma once
#include "runtime/checksum.h"
#include "runtime/executor.h"
#include "runtime/index.h"
#include "runtime/match.h"

/* Rank 0's process makes a file in the folder of path that no other run writes; all get its name, which ends in ".tmp". Collective. */
enum { TEMPORARY_NAME = 4352 };
bool temporary_claim(Comm *comm, const char *path, char name[TEMPORARY_NAME], Error *error);

/* Writes a file under a temporary name, flushes it to the disk and renames it: a half-written file is never seen under path. SAVED_ALL: optimizer slots
 * too, and position; SAVED_SLICES: the same, each rank's in a file of its own (slices.h); SAVED_AVERAGES: under the names of parameters their averages, where they have any. finite: a state with an element that is nan or infinite is an error, EXIT_MISMATCH. Collective over comm; every process returns the same, with the text
 * on one of them; on an error a file under path stays as it was. */
typedef enum { SAVED_PARAMETERS, SAVED_AVERAGES, SAVED_ALL, SAVED_SLICES } Saved;
bool checkpoint_save(Executor *executor, Comm *comm, const Plan *plan, const char *path, Saved saved, bool finite, const Position *position,
                     Error *error);
/* Whether a file can be written at path, as far as that can be told before writing; anything that is not a regular file is never replaced. */
bool checkpoint_can_save(const char *path, Error *error);
/* Loads the parameters of a file into the executor by the rules (match.h). Missing, misshapen and, by checksum.h, damaged ones are errors, and then no state
 * is changed. Collective. */
bool checkpoint_load(Executor *executor, Comm *comm, const Plan *plan, const char *path, const LoadRules *rules, Error *error);
/* Loads all states of *path, and position and order of the file (position_convert). *path "latest": loads the newest complete checkpoint in the directory that is not
 * damaged, the same on every process, and *path becomes its path, in the arena; a note names damaged ones, and why. A note names states that the plan does not have.
 * Collective. */
bool checkpoint_resume(Executor *executor, Comm *comm, const Plan *plan, const char *directory, Arena *arena, const char **path,
                       Position *position, DataOrder *order, Error *error);
int checkpoint_list(const char *directory, Arena *arena,
                    const char *const **paths); /* the complete ones, damaged or not, the newest first; how many */
const char *checkpoint_newest(const char *directory,
                              Arena *arena); /* the newest complete one of a directory, damaged or not; NULL: there is none */
/* Opens a file of tensors, whole or in slices (slices.h), with its checksums; also one that is no checkpoint. Everything but the file lives in the arena. checkpoint_close also takes
 * one that could not be opened. EXIT_ENVIRONMENT. */
bool checkpoint_open(TensorFile *file, Checksums *sums, Arena *arena, const char *path, Error *error);
void checkpoint_close(TensorFile *file);
/* checksums_compare and checksums_say, for files of both kinds. */
bool checkpoint_compare(const Checksums *sums, const TensorFile *file, int tensor, int part, int parts, int64_t *damaged, Error *error);
bool checkpoint_say(const Checksums *sums, const TensorFile *file, int64_t damaged, Error *error);
/* The path of a step's checkpoint: "DIRECTORY/step-000000120.safetensors", in the arena. */
const char *checkpoint_path(Arena *arena, const char *directory, int64_t global_step);
/* Makes the directory where it is missing and claims it for this run, until *lock is closed or the process ends in any way: two runs in one directory would
 * remove and overwrite each other's files. Removes what killed runs have left unfinished. Checkpoints of an earlier run that are newer than where this one begins (global_step `begin`) are an error, unless this run
 * goes back to one of them (`from`, or NULL), or *replace: it stays true then, with a note, and becomes false otherwise. Only process 0 calls it. */
bool checkpoint_claim(const char *directory, const char *from, int64_t begin, bool *replace, int *lock, Error *error);
/* After a save at global_step `now`: removes all but the newest `keep` checkpoints of a directory (0: all stay), always keeping that of step `best` (0: none) as one of them,
 * and checkpoints of later steps, which this run went back behind. replace: removes all others, an earlier run's. */
void checkpoint_prune(const char *directory, bool replace, int64_t keep, int64_t best, int64_t now);
