/* Random nets (tests/nets/net.h): checked, counted, shrunk.
 *
 *   nets.c         the program: many seeds in child processes, the table of what occurred
 *   nets_check.c   one net: compiled at several levels, proved, run beside one rank
 *   nets_shrink.c  a net that fails made small while it fails in the same manner */
#pragma once
#include "compiler/compiler.h"
#include "tests/nets/net.h"

/* In what manner a net fails. */
typedef enum {
    NET_HOLDS,
    NET_REJECTED,     /* with a diagnostic: no failure by itself, the generator knows little of what is legal */
    NET_CRASHES,      /* a signal, or an exit of its process */
    NET_HANGS,        /* beyond the time limit */
    NET_NOT_COMPILED, /* pcc failed without a diagnostic */
    NET_NOT_PROVED,
    NET_REFUSED,       /* its plan cannot be read, loaded or run */
    NET_BEGINS_ELSE,   /* initial values */
    NET_DIFFERS,       /* from one rank, after a step */
    NET_COPIES_DIFFER, /* ranks that hold the same part of a state */
    NET_SENDS_MORE,    /* than its plan says */
    NOUTCOMES
} NetOutcome;
extern const char *const net_outcome_name[NOUTCOMES];

/* What a test of this test breaks in every plan before it is run. */
typedef enum { FAULT_NONE, FAULT_NO_REDUCTION /* the first all-reduce does not take place */, FAULT_CRASH /* on a tanh */ } NetFault;

/* What came out of one net; sent through a pipe as it is. */
typedef struct NetReport {
    uint64_t seed;
    NetOutcome outcome;
    int level;         /* -O at which it failed */
    char text[1024];   /* the message of a failure */
    bool communicates; /* at every level */
    bool effect;       /* taking its hints away changes the plan */
    bool finite;       /* its losses */
    bool doubtful;     /* differed from one rank, but not with other data: a value within rounding of a kink, such as relu's 0 */
    bool uneven;       /* a tensor was split into parts of different sizes */
    bool named, output, shared, explicit_dataset, bucket /* of several gradients */, machine, searched, recomputes, regathers;
    bool stages, stage_hints, at; /* of several stages; that hints say of some operators; a parameter lies on one rank */
    bool limited, chosen_again;   /* measures were taken for memory; values to be computed again were chosen for it */
    Mode mode;
    int nranks;
    DType dtype;
    OptimizerKind optimizer;
    ScheduleKind schedule;
    bool warmup, decay, clip, accumulate, ema, scaled; /* scaled: a parameter has a learning rate, or weight decay, of its own */
    DataKind data;
    RedistributePolicy redistribution;
    bool in_graph[NOPS], on_parts[NOPS]; /* operators; those that ran on a part of a tensor */
    int comms[NCOMMS];                   /* steps */
} NetReport;

/* Whether it is one of those that the run must have so many of. */
bool net_counts(const NetReport *report);

/* Checks the net in this process: compiles it for one rank and at the levels given by bits (1 << level), proves, runs, compares. directory: where its plans are
 * written. */
enum { NET_LEVELS = 1 << 0 | 1 << 2, NET_ALL_LEVELS = NET_LEVELS | 1 << 1 };
void net_check(const FuzzNet *net, int levels, NetFault fault, const char *directory, NetReport *report);
/* The same in a child process, with a time limit: crashes and endless loops become outcomes. seconds: at most. */
void net_check_apart(const FuzzNet *net, int levels, NetFault fault, const char *directory, int seconds, NetReport *report);

/* Makes a net that fails at its own -O level smaller while its outcome stays what *report says; *report becomes that of the smallest. Ends after so many seconds. Returns
 * the number of nets tried. */
int net_shrink(FuzzNet *net, Arena *arena, NetFault fault, const char *directory, int seconds, NetReport *report);
