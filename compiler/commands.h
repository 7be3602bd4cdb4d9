/* The subcommands of pcc. Each takes the arguments after its own name (argv[0] is the name) and returns an exit code. */
#pragma once

/* pcc redistribute --mesh .. --shape .. --from .. --to ..: plans one conversion and prints it (PLAN.md 2). */
int redistribute_command(int argc, char **argv);
/* pcc check net.plan [--update]: reads a plan and proves it (PROOF.md 1). --update renews the checksum after an edit by hand and drops the
 * certificate. */
int check_command(int argc, char **argv);
/* pcc --diff [--json] a.plan b.plan: what they do differently. Exit code 0: the same, 1: not. */
int diff_command(int argc, char **argv);
/* pcc fuzz-net --seed N [-o FILE]: writes a random net (fuzz_net.h). */
int fuzz_net_command(int argc, char **argv);
