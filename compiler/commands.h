/* The subcommands of pcc. Each takes the arguments after its own name (argv[0] is the name) and returns an exit code. */
#pragma once
#include "proof/proof.h"
#include "strategies/strategies.h"

/* Threads that share long work. */
enum { MOST_THREADS = 8 };

/* pcc redistribute --mesh .. --shape .. --from .. --to ..: plans one conversion and prints it (docs/redistribution.md). */
int redistribute_command(int argc, char **argv);
/* pcc check net.plan [--update] [--prove=HOW] [--proof-budget T]: reads a plan, proves it (docs/proof.md), and counts again what its header says.
 * --update renews the checksum after an edit by hand and drops the certificate. */
int check_command(int argc, char **argv);
/* What --prove and --proof-budget take: "full", "compositional" or nothing (NULL); "0.2s", "500ms", "0.2" (seconds). False: something else. */
bool read_proof_level(const char *value, ProofOptions *proof);
bool read_proof_budget(const char *value, ProofOptions *proof);
/* pcc --diff [--json] [--report FILE [--machine FILE]] a.plan b.plan: how they differ. Exit code 0: not at all, 1: they do. */
int diff_command(int argc, char **argv);
/* diff_report.c: writes the page of two plans to path, predicted for a machine (NULL: the default). */
bool diff_report(const char *path, const char *const plan_path[2], const Plan *const plan[2], const Machine *machine, Arena *arena,
                 Error *error);
/* pcc fmt [--check] FILE..: files in their standard form. */
int fmt_command(int argc, char **argv);
/* pcc fuzz-net --seed N [-o FILE]: writes a random net. Runs pcc-fuzz-net, which is built with the tests (tests/nets). */
int fuzz_net_command(int argc, char **argv);
