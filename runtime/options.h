/* options: what the command line asks for, and the functions that main.c calls with it. */
#pragma once
#include "runtime/comm/wire.h"
#include "runtime/comm/comm.h"
#include "runtime/match.h"

/* --nproc and what goes with it: ranks that prun starts itself, without MPI. */
typedef struct LaunchOptions {
    int nproc; /* processes of this node; 0: prun starts none */
    int nnodes, node_rank;
    const char *master_address; /* of node 0; NULL: there is this node alone */
    int master_port;            /* 0: any */
    int max_restarts;
    const char *job;        /* what the job is called; NULL: nothing */
    double start_timeout_s; /* until all ranks are there; negative: not given */
    int min_ranks;          /* how few are enough to go on with if not all are there by then; 0: all are needed */
    Launcher self;          /* this prun, for the ranks that it starts */
    int listening;          /* for rank 0: the socket where the others connect; -1: another node has it */
} LaunchOptions;

typedef struct RunOptions {
    LaunchOptions launch;
    const char *plan;         /* path */
    const char *const *fewer; /* with --min-ranks: paths of plans for fewer ranks, nfewer */
    int nfewer;
    const int *fewer_ranks; /* in the process that starts rank 0: their numbers of ranks, in the same, falling order (fewer.h) */
    int nranks;             /* --ranks; 0: as the launcher says */
    const char *verify;     /* --verify, or NULL */
    int nprints;
    const char *const *prints; /* --print: names of parameters, "w" or "w:full" */
    bool eval;                 /* --eval: no training, one evaluation */
    const char *predict;       /* --predict: file for the net's predictions, likewise without training; or NULL */
    int ndata;
    const char **data; /* --data: "INPUT=FILE", for evaluations only */
    int64_t ngenerate; /* --generate: tokens; -1: none are generated */
    int nprompts;
    const char *const *prompts; /* --prompt: text, or --prompt-tokens: "1,2,3" */
    bool prompt_tokens;         /* prompts are tokens */
    const char *prompts_file;   /* --prompts: file with a prompt per line; or NULL */
    bool json;                  /* --json: a line for each text */
    double temperature;         /* --temperature; -1: as the plan says; likewise the next two */
    int64_t top_k, draw_seed;   /* --top-k, --seed */
    const char *logits;         /* --logits: file; or NULL */
    bool averages;              /* --averages: --save writes these in place of the parameters */
    const char *load, *save;    /* --load, --save: parameters, safetensors; or NULL */
    bool import;                /* --import: load is written as a checkpoint, without training */
    const char *export;         /* --export: file of the parameters of a checkpoint; or NULL */
    LoadRules rules;
    const char *resume;             /* --resume: "latest", or a checkpoint; or NULL */
    const char *checkpoint;         /* --checkpoint-dir; NULL: beside the plan */
    bool overwrite;                 /* --overwrite: checkpoints of an earlier run there are no error */
    const char *metrics;            /* --metrics: file of JSON lines; or NULL */
    const char *log_directory;      /* --log-dir: a file per rank; or NULL */
    bool check_replicas;            /* --check-replicas */
    const char *device;             /* --device: cpu or cuda; NULL: a GPU where there is one */
    const char *comm;               /* --comm: how ranks on GPUs talk; NULL: the best that works */
    bool no_graph;                  /* --no-graph: no captured steps */
    bool deterministic, tf32, wait; /* see DeviceOptions */
    bool profile;                   /* --profile */
    const char *trace;              /* --trace: file; or NULL */
    const char *report;             /* --report: file; or NULL */
    const char *on_nan;             /* --on-nan: stop or go; NULL: as the plan says */
    bool all_ranks, verbose;
    const Common *common; /* what all ranks must have in common */
} RunOptions;
/* Number of processes of the job by MPI's launcher, 0 without one. */
int launched_processes(void);
/* The same for srun; *alone: this is a job of Slurm, but no srun has started this prun. */
int slurm_processes(bool *alone);
/* Which variables are missing, where RANK and WORLD_SIZE are set, for ranks to meet: "MASTER_ADDR and MASTER_PORT", one of them, or NULL. */
const char *launch_lacks(void);
/* The communicator of a launcher's ranks, or else of --ranks (or one) in this process; main.c has refused --ranks under a launcher. NULL and *error, also where processes
 * were given different options. */
Comm *comm_of_launch(const RunOptions *options, int *argc, char ***argv, Error *error);
/* Measures what messages cost, prints it and writes the machine file to path; returns the exit code after printing on stderr what went wrong.
 * Collective; about 10 s. It uses the options that say which ranks there are. It does not replace a file that is not empty and no machine file. */
int calibrate(const char *path, const RunOptions *options, int *argc, char ***argv);
/* Does the whole run; returns the exit code after printing on stderr what went wrong. */
int run(const RunOptions *options, int *argc, char ***argv);
