/* parallel: the parallel block, and the flags that override it. */
#include "frontend/lower.h"

#include <string.h>

enum { NSEARCHES = 4 };
static const char *const search_name[NSEARCHES] = {"sharding_propagation", "dynamic_programming", "recursive_programming", "auto"};

/* Reports where the value given for `what` is one of the n names of the setting `other`: mode and search are easily confused. Both have an `auto`. */
static bool confused(Lower *lower, const char *what, const Expr *value, const char *other, const char *const *names, int n) {
    const char *text = word_of(lower, value), *word = text && strcmp(text, "auto") != 0 ? foreign_word(other, text) : NULL;
    for (int i = 0; word && i < n; i++) {
        if (strcmp(names[i], word) != 0) continue;
        diag_error(lower->diags, lower_span(lower, value->loc), "unknown %s '%s'", what,
                   value->kind == EXPR_PATH ? value->last->text : value->text);
        diag_hint(lower->diags, "it is a %s: %s = %s;", other, other, word);
        return true;
    }
    return false;
}

static bool eval_mode(Lower *lower, const Expr *value) {
    if (confused(lower, "mode", value, "search", search_name, NSEARCHES)) return false;
    int mode = choice(lower, "mode", value, mode_name, NMODES);
    if (mode < 0) return false;
    lower->graph->settings.mode = (Mode)mode;
    int nranks = lower->graph->nranks;
    if (mode == MODE_STAND_ALONE && nranks > 1) {
        diag_error(lower->diags, lower_span(lower, value->loc), "mode stand_alone is for one rank, and this run has %d", nranks);
        diag_hint(lower->diags, "--ranks 1, or another mode: data_parallel, semi_auto, auto, manual");
        return false;
    }
    return true;
}

static bool eval_search(Lower *lower, const Expr *value) {
    lower->graph->settings.search_span = lower_span(lower, value->loc);
    if (confused(lower, "search", value, "mode", mode_name, NMODES)) return false;
    const int search = choice(lower, "search", value, search_name, NSEARCHES);
    if (search >= 0) lower->graph->settings.search = search_name[search];
    return search >= 0;
}

static bool eval_dataset(Lower *lower, const Expr *value) {
    static const char *const names[] = {
        [DATASET_AUTO] = "auto", [DATASET_DATA_PARALLEL] = "data_parallel", [DATASET_FULL_BATCH] = "full_batch"};
    Settings *settings = &lower->graph->settings;
    settings->dataset_span = lower_span(lower, value->loc);
    if (value->kind == EXPR_TUPLE || value->kind == EXPR_LIST) {
        settings->dataset = DATASET_EXPLICIT;
        lower->dataset = value;
        lower->dataset_file = lower->file;
        return true;
    }
    int dataset = choice(lower, "dataset", value, names, 3);
    if (dataset < 0) {
        diag_hint(lower->diags, "or a strategy: one tuple an input, ((8, 1), (8, 1))");
        return false;
    }
    settings->dataset = (Dataset)dataset;
    return true;
}

static bool eval_gradients(Lower *lower, const Expr *value) {
    static const char *const names[] = {"sum", "mean"};
    int gradients = choice(lower, "gradients", value, names, 2);
    lower->graph->settings.gradients_mean = gradients == 1;
    return gradients >= 0;
}

static bool eval_batch_norm(Lower *lower, const Expr *value) {
    static const char *const names[] = {"local", "global"};
    Settings *settings = &lower->graph->settings;
    const int which = choice(lower, "batch_norm", value, names, 2);
    settings->batch_norm_global = which == 1;
    /* In other modes there is no choice: statistics are global over a whole batch, or, in mode manual, local to a rank. */
    const bool fits = settings->mode == MODE_DATA_PARALLEL || settings->batch_norm_global == (settings->mode != MODE_MANUAL);
    if (which < 0 || fits || lower->overrides->mode) return which >= 0;
    diag_error(lower->diags, lower_span(lower, value->loc), "batch_norm = %s is for mode data_parallel, and this is mode %s", names[which],
               mode_name[settings->mode]);
    diag_hint(lower->diags, "here its statistics are %s", which ? "each rank's own" : "those of the whole batch, however it is split");
    return false;
}

static bool eval_bucket(Lower *lower, const Expr *value) {
    lower->graph->settings.bucket_given = true;
    return bytes_eval(lower, value, "bucket", 0, &lower->graph->settings.bucket_bytes);
}

static bool eval_memory(Lower *lower, const Expr *value) {
    lower->graph->settings.memory_span = lower_span(lower, value->loc);
    return bytes_eval(lower, value, "memory", 1, &lower->graph->settings.memory_bytes);
}

static bool eval_tolerance(Lower *lower, const Expr *value) {
    return real_eval(lower, value, "tolerance", 0, 1, &lower->graph->settings.tolerance);
}

static bool eval_shard_states(Lower *lower, const Expr *value) {
    const int level = choice(lower, "shard_states", value, shard_states_name, NSHARDS);
    lower->graph->settings.shard_states_given = true;
    if (level >= 0) lower->graph->settings.shard_states = (ShardStates)level;
    return level >= 0;
}

static bool eval_shard_from(Lower *lower, const Expr *value) {
    lower->graph->settings.shard_from_given = true;
    return bytes_eval(lower, value, "shard_from", 0, &lower->graph->settings.shard_bytes);
}

static bool eval_regather(Lower *lower, const Expr *value) {
    const int which = choice(lower, "regather", value, regather_name, NREGATHERS);
    lower->graph->settings.regather_given = true;
    if (which >= 0) lower->graph->settings.regather = (Regather)which;
    return which >= 0;
}

static bool eval_recompute(Lower *lower, const Expr *value) {
    static const char *const names[] = {"none", "auto"};
    const int which = choice(lower, "recompute", value, names, 2);
    lower->graph->settings.recompute_none = which == 0;
    return which >= 0;
}

static bool eval_regather_share(Lower *lower, const Expr *value) {
    if (!real_eval(lower, value, "regather_share", 0, 1, &lower->graph->settings.regather_share)) return false;
    if (lower->graph->settings.regather == REGATHER_NONE)
        diag_warning(lower->diags, WARN_NO_EFFECT, lower_span(lower, value->loc),
                     "regather_share has no effect: nothing is gathered again");
    return true;
}

/* ---- settings that a search has found: lines of a `hints found` block, which give way to what the user says */

/* Whether an expression is a setting's value, and no strategy, layout or stage. */
static bool is_value(const Expr *value) {
    return value && value->kind != EXPR_TUPLE && value->kind != EXPR_LIST && value->kind != EXPR_CALL;
}

bool found_is_setting(const Pattern *line) {
    static const char *const names[] = {"shard_states", "shard_from", "regather", "regather_share", "bucket", "chunks", "micro_batches"};
    if (!line->shard || !is_value(line->shard->in)) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], line->path)) return true;
    return false;
}

bool found_is_strategy(Lower *lower, const Block *block, const Pattern *line) {
    if (!line->shard || line->shard->stage || line->shard->recompute) return true;
    if (line->shard->regather) {
        diag_error(lower->diags, span_of(block->file, line->loc), "regather of a path is nothing that a search finds");
        diag_hint(lower->diags, "hints { %s = regather; }, in a block of its own", line->path);
        return false;
    }
    if (!is_value(line->shard->in)) return true;
    diag_error(lower->diags, span_of(block->file, line->loc), "%s is no setting that a search finds", line->path);
    diag_hint(lower->diags,
              "shard_states, shard_from, regather, regather_share, bucket, micro_batches and chunks are; others go into a parallel block");
    return false;
}

bool found_setting(Lower *lower, const char *name, bool (*eval)(Lower *lower, const Expr *value), bool *found) {
    const Block *in = NULL;
    const Pattern *first = NULL;
    for (const Block *block = lower->blocks; block; block = block->next)
        for (const Pattern *line = block->kind == BLOCK_HINTS && block->name ? block->patterns : NULL; line; line = line->next) {
            if (strcmp(line->path, name) != 0 || !found_is_setting(line)) continue;
            if (in == block) {
                diag_error(lower->diags, span_of(block->file, line->loc), "%s is set twice", name);
                diag_note(lower->diags, span_of(block->file, first->loc), "the first time is here");
                return false;
            }
            in = block, first = line;
        }
    *found = first != NULL;
    if (!first) return true;
    SourcePlace place = lower_enter(lower, in->file, in->directory);
    const bool ok = eval(lower, first->shard->in);
    lower_leave(lower, place);
    return ok;
}

static bool says(const Block *block, const char *name) {
    for (const Entry *entry = block ? block->entries : NULL; entry; entry = entry->next)
        if (!strcmp(entry->name, name)) return true;
    return false;
}

/* Reads the settings for states that were found to save memory. They are no request of the user, so they count as not given. */
static bool found_states(Lower *lower) {
    Settings *settings = &lower->graph->settings;
    const bool states = settings->shard_states_given, regather = settings->regather_given, from = settings->shard_from_given,
               bucket = settings->bucket_given;
    bool found = false, ok = states || found_setting(lower, "shard_states", eval_shard_states, &found);
    ok = (from || found_setting(lower, "shard_from", eval_shard_from, &found)) && ok;
    ok = (bucket || found_setting(lower, "bucket", eval_bucket, &found)) && ok;
    ok = (regather || (found_setting(lower, "regather", eval_regather, &found) &&
                       found_setting(lower, "regather_share", eval_regather_share, &found))) &&
         ok;
    settings->shard_states_given = states;
    settings->regather_given = regather;
    settings->shard_from_given = from;
    settings->bucket_given = bucket;
    return ok;
}

/* From here on, ranks are those of one stage: strategies divide these, and meshes name them. */
static void divide_ranks(Graph *graph, int64_t stages) {
    if (graph->nranks == 1) stages = 1; /* the same text also runs on one rank */
    graph->settings.stages = stages;
    graph->nranks /= (int)stages;
}

/* The number of stages that `hints found` blocks name; 0: there is no such block. */
static int64_t stages_found(const Lower *lower) {
    int64_t n = 0;
    for (const Block *block = lower->blocks; block; block = block->next) {
        if (block->kind != BLOCK_HINTS || !block->name) continue;
        if (n == 0) n = 1;
        for (const Pattern *pattern = block->patterns; pattern; pattern = pattern->next) {
            const Expr *stage = pattern->shard ? pattern->shard->stage : NULL;
            if (stage && stage->kind == EXPR_INT && stage->integer >= n && stage->integer < MAX_RANKS) n = stage->integer + 1;
        }
    }
    return n;
}

/* `auto`: as many stages as the compiler has found to be best (compiler/stage_count.c); its search begins with one. */
static bool stages_auto(Lower *lower) {
    Graph *graph = lower->graph;
    const int64_t parts = stages_found(lower), chunks = graph->settings.chunks;
    const int64_t found = parts > 1 && chunks > 1 ? parts / chunks : parts;
    graph->settings.stages_auto = found == 0;
    if (found == 0 || graph->nranks == 1 || graph->settings.stages != 0) return true;
    if (graph->nranks % found != 0) {
        diag_error(lower->diags, graph->settings.stages_span, "the hints name %lld stages, which do not divide %d ranks", (long long)found,
                   graph->nranks);
        diag_hint(lower->diags, "where a stage has several of them, a line of the hints says how many: chunks = 2;");
        return false;
    }
    divide_ranks(graph, found);
    return true;
}

static bool eval_stages(Lower *lower, const Expr *value) {
    Graph *graph = lower->graph;
    Settings *settings = &graph->settings;
    int64_t stages;
    settings->stages_span = lower_span(lower, value->loc);
    const char *word = value->kind == EXPR_NAME ? word_of(lower, value) : NULL;
    if (word && !strcmp(word, "auto")) return stages_auto(lower);
    if (word && !names_look(lower, value->text)) {
        diag_error(lower->diags, settings->stages_span, "stages is a number, or auto: as many as are best");
        return false;
    }
    if (!integer_eval(lower, value, "stages", 1, MAX_RANKS, &stages)) return false;
    lower->nstages = stages;
    if (graph->nranks > 1 && graph->nranks % stages != 0) {
        diag_error(lower->diags, settings->stages_span, "%lld stages do not divide %d ranks", (long long)stages, graph->nranks);
        diag_hint(lower->diags, "each stage has as many ranks: --ranks is a multiple of the stages");
        return false;
    }
    divide_ranks(graph, stages);
    return true;
}

/* Whether the stage of `stage 2` exists in this compilation. */
static bool stage_exists(Lower *lower, int64_t stage, Span span) {
    const Settings *settings = &lower->graph->settings;
    const int64_t stages = lower->nstages > 0 ? lower->nstages : lower->overrides->auto_stages;
    const int64_t n = stages > 1 && settings->chunks > 1 ? stages * settings->chunks : stages;
    if (n == 0 || stage < n) return true;
    if (n > stages)
        diag_error(lower->diags, span, "there is no stage %lld: %lld stages with %lld chunks are %lld parts of the net, which hints count",
                   (long long)stage, (long long)stages, (long long)settings->chunks, (long long)n);
    else
        diag_error(lower->diags, span, "there is no stage %lld: the net has %lld stage%s", (long long)stage, (long long)n,
                   n == 1 ? "" : "s");
    if (settings->stages_span.line) diag_note(lower->diags, settings->stages_span, "they are said here");
    if (n == 1)
        diag_hint(lower->diags, "the first stage is stage 0; parallel { stages = 2; } makes a second one");
    else
        diag_hint(lower->diags, "the first one is stage 0, the last one stage %lld", (long long)n - 1);
    return false;
}

static void warn_stage(Lower *lower, Span span) {
    const Settings *settings = &lower->graph->settings;
    if (lower->warned_stage) return;
    lower->warned_stage = true;
    if (settings->mode != MODE_AUTO && settings->mode != MODE_SEMI_AUTO) {
        diag_warning(lower->diags, WARN_NO_EFFECT, span, "stage has no effect in mode %s: only semi_auto and auto have stages",
                     mode_name[settings->mode]);
        return;
    }
    const int64_t named = stages_found(lower), stages = named > 2 ? named : 2;
    diag_warning(lower->diags, WARN_NO_EFFECT, span, "stage has no effect: the net has no stages");
    diag_hint(lower->diags, "parallel { stages = %lld; } or --stages %lld", (long long)stages, (long long)stages);
}

bool stage_eval(Lower *lower, const Expr *number, const StageHint **hint) {
    const Settings *settings = &lower->graph->settings;
    const Span span = lower_span(lower, number->loc);
    int64_t stage;
    *hint = NULL;
    if (!integer_eval(lower, number, "a stage", 0, MAX_RANKS - 1, &stage)) return false;
    if ((settings->mode != MODE_AUTO && settings->mode != MODE_SEMI_AUTO) ||
        (settings->stages_span.line == 0 && lower->overrides->auto_stages == 0)) {
        warn_stage(lower, span);
        return true;
    }
    if (!stage_exists(lower, stage, span)) return false;
    if (settings_stages(settings) < 2) return true;
    StageHint *made = arena_alloc(lower->arena, sizeof *made);
    *made = (StageHint){.stage = (int)stage, .span = span, .call = lower->frame ? lower->frame->call : NULL};
    *hint = made;
    return true;
}

static bool stages_check(const Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    if ((settings->stages < 2 && !settings->stages_auto) || settings->mode == MODE_AUTO || settings->mode == MODE_SEMI_AUTO) return true;
    diag_error(lower->diags, settings->stages_span, "stages are for modes auto and semi_auto, and this is mode %s",
               mode_name[settings->mode]);
    return false;
}

static const char *const pipeline_name[NPIPELINES] = {
    [PIPELINE_1F1B] = "1f1b", [PIPELINE_GPIPE] = "gpipe", [PIPELINE_INTERLEAVED] = "interleaved"};

static bool eval_pipeline(Lower *lower, const Expr *value) {
    const int order = choice(lower, "pipeline_scheduler", value, pipeline_name, NPIPELINES);
    lower->graph->settings.pipeline_span = lower_span(lower, value->loc);
    if (order >= 0) lower->graph->settings.pipeline = (Pipeline)order;
    return order >= 0;
}

static bool eval_chunks(Lower *lower, const Expr *value) {
    Settings *settings = &lower->graph->settings;
    settings->chunks_span = lower_span(lower, value->loc);
    return integer_eval(lower, value, "chunks", 1, MAX_RANKS, &settings->chunks);
}

/* Checks that stages have several chunks where the schedule is interleaved, and only there. */
static bool chunks_check(Lower *lower) {
    Settings *settings = &lower->graph->settings;
    const bool several = settings->chunks > 1, said = settings->pipeline_span.line > 0;
    if (several && said && settings->pipeline != PIPELINE_INTERLEAVED) {
        diag_error(lower->diags, settings->chunks_span, "chunks are for pipeline_scheduler = interleaved, and this is %s",
                   pipeline_name[settings->pipeline]);
        diag_note(lower->diags, settings->pipeline_span, "it is said here");
        return false;
    }
    if (!several && settings->pipeline == PIPELINE_INTERLEAVED) {
        diag_error(lower->diags, settings->pipeline_span,
                   "interleaved is of stages that have several parts of the net each: chunks says how many");
        diag_hint(lower->diags, "chunks = 2; or --chunks 2");
        return false;
    }
    if (several) settings->pipeline = PIPELINE_INTERLEAVED;
    if ((several || said) && settings->stages_span.line == 0 && lower->overrides->auto_stages == 0) {
        diag_warning(lower->diags, WARN_NO_EFFECT, several ? settings->chunks_span : settings->pipeline_span,
                     "%s has no effect: the net has no stages", several ? "chunks" : "pipeline_scheduler");
        diag_hint(lower->diags, "parallel { stages = 2; } or --stages 2");
    }
    return true;
}

bool batches_check(Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    const int stages = settings_stages(settings);
    const int64_t batches = settings_batches(settings);
    const int64_t others = batches / (settings->micro_batches > 1 ? settings->micro_batches : 1);
    if (settings_parts(settings) == stages || batches % stages == 0 || lower->overrides->micro_batches > 0)
        return true; /* where batches fit, parts of them fit too */
    diag_error(
        lower->diags, settings->chunks_span,
        "a step has %lld batch%s, which is no multiple of %d stages: interleaved takes as many batches as there are stages at a time",
        (long long)batches, batches == 1 ? "" : "es", stages);
    if (settings->micro_span.line > 0) diag_note(lower->diags, settings->micro_span, "micro_batches is said here");
    int64_t least = 1; /* the least number of parts that fits; its multiples do too */
    while (others * least % stages != 0)
        least++;
    const Symbol *rows = lower->batch ? names_find(&lower->names, lower->batch) : NULL;
    const int64_t batch = rows && rows->kind == SYMBOL_NUMBER ? rows->number.i * lower->micro : least;
    if (batch % least == 0)
        diag_hint(lower->diags, "train { micro_batches = %lld; }", (long long)least);
    else
        diag_hint(lower->diags, "train { micro_batches = %lld; } with a %s that %lld divides: it is %lld", (long long)least, lower->batch,
                  (long long)least, (long long)batch);
    return false;
}

/* In the order in which they are read: the check of the mesh depends on the mode and on the ranks of a stage. */
enum {
    MODE,
    CHUNKS,
    STAGES,
    PIPELINE,
    SEARCH,
    GRADIENTS,
    BATCH_NORM,
    MESH,
    DATASET,
    BUCKET,
    MEMORY,
    TOLERANCE,
    SHARD_STATES,
    SHARD_FROM,
    REGATHER,
    RECOMPUTE,
    ASSERT,
    FORBID,
    GROUP,
    NPARALLEL
};
const Setting parallel_settings[] = {[MODE] = {"mode", eval_mode},
                                     [CHUNKS] = {"chunks", eval_chunks},
                                     [STAGES] = {"stages", eval_stages},
                                     [PIPELINE] = {"pipeline_scheduler", eval_pipeline},
                                     [SEARCH] = {"search", eval_search},
                                     [GRADIENTS] = {"gradients", eval_gradients},
                                     [BATCH_NORM] = {"batch_norm", eval_batch_norm},
                                     [MESH] = {"mesh", mesh_eval},
                                     [DATASET] = {"dataset", eval_dataset},
                                     [BUCKET] = {"bucket", eval_bucket},
                                     [MEMORY] = {"memory", eval_memory},
                                     [TOLERANCE] = {"tolerance", eval_tolerance},
                                     [SHARD_STATES] = {"shard_states", eval_shard_states},
                                     [SHARD_FROM] = {"shard_from", eval_shard_from},
                                     [REGATHER] = {"regather", eval_regather},
                                     [RECOMPUTE] = {"recompute", eval_recompute},
                                     [ASSERT] = {"assert", eval_assert, .many = true},
                                     [FORBID] = {"forbid", eval_forbid, .many = true},
                                     [GROUP] = {"group", group_eval, .many = true}};
const int nparallel_settings = NPARALLEL;

static const Setting *setting_find(const Setting *settings, int n, const char *name) {
    const char *word = foreign_word("setting", name);
    for (int i = 0; i < n; i++)
        if (!strcmp(settings[i].name, name) || !strcmp(settings[i].name, word)) return &settings[i];
    return NULL;
}

static bool unknown_setting(Lower *lower, const Entry *entry, const char *what, const Setting *settings, int n, const Setting *elsewhere,
                            int nelsewhere, const char *other) {
    Span span = lower_span(lower, entry->name_loc);
    if (setting_find(elsewhere, nelsewhere, entry->name)) {
        diag_error(lower->diags, span, "%s belongs into the %s block, not into %s", entry->name, other, what);
        diag_hint(lower->diags, "%s { %s = ...; }", other, entry->name);
        return false;
    }
    const char *names[64], *list = "";
    int nnames = n;
    for (int i = 0; i < n; i++) {
        names[i] = settings[i].name;
        if (settings[i].eval) list = arena_printf(lower->arena, "%s%s%s", list, i ? ", " : "", names[i]);
    }
    for (const Entry *number = lower->eval && strcmp(what, "parallel") != 0 ? lower->net->entries : NULL; number && nnames < 64;
         number = number->next)
        names[nnames++] = number->name;
    if (nnames > n) list = arena_printf(lower->arena, "%s, and the numbers of net %s", list, lower->net->name);
    const char *known = foreign_hint(lower->arena, "setting", entry->name), *nearest = name_nearest(entry->name, names, nnames);
    diag_error(lower->diags, span, "%s has no setting '%s'", what, entry->name);
    if (known)
        diag_hint(lower->diags, "%s", known);
    else if (nearest)
        diag_hint(lower->diags, "did you mean %s? There are: %s", nearest, list);
    else
        diag_hint(lower->diags, "there are: %s", list);
    return false;
}

bool settings_lower(Lower *lower, const Block *block, const char *what, const Setting *settings, int n, const Setting *elsewhere,
                    int nelsewhere, const char *other, bool *given) {
    const Entry *entries[32] = {0};
    bool ok = true;
    for (const Entry *entry = block->entries; entry; entry = entry->next) {
        const Setting *setting = setting_find(settings, n, entry->name);
        if (!setting) {
            ok = unknown_setting(lower, entry, what, settings, n, elsewhere, nelsewhere, other);
            continue;
        }
        const Entry **place = &entries[setting - settings];
        if (setting->many) {
            ok &= setting->eval(lower, entry->value);
        } else if (*place) {
            diag_error(lower->diags, lower_span(lower, entry->name_loc), "%s is set twice", entry->name);
            diag_note(lower->diags, lower_span(lower, (*place)->name_loc), "the first time is here");
            ok = false;
        } else {
            *place = entry;
        }
    }
    for (int i = 0; i < n; i++) {
        if (!entries[i] || given[i]) continue;
        given[i] = true;
        if (settings[i].eval) {
            ok &= settings[i].eval(lower, entries[i]->value);
            continue;
        }
        diag_error(lower->diags, lower_span(lower, entries[i]->name_loc), "%s is not built yet", settings[i].name);
        ok = false;
    }
    return ok;
}

/* A flag's text is a value of the language; its diagnostics name the flag as their file. */
static bool flag_lower(Lower *lower, const char *flag, const char *text, bool (*eval)(Lower *lower, const Expr *value)) {
    if (!text) return true;
    Parse parse;
    int source = lower->file;
    lower->file = diags_add_file(lower->diags, flag, text, strlen(text));
    bool ok = parse_run(&parse, lower->arena, lower->diags, lower->file, true) && eval(lower, parse.value);
    lower->file = source;
    return ok;
}

/* The hidden size in modes data_parallel and manual: --replicas, else one per rank. In data_parallel all ranks generate one text together, without replicas. */
static bool replicas_lower(Lower *lower) {
    Graph *graph = lower->graph;
    int replicas = lower->overrides->replicas, nranks = graph->nranks;
    const bool together = lower->of == BLOCK_GENERATE && graph->settings.mode == MODE_DATA_PARALLEL;
    lower->hidden = mode_hides(graph->settings.mode) && !together;
    lower->manual = graph->settings.mode == MODE_MANUAL;
    if (lower->manual) graph->settings.gradients_mean = false; /* a value given to all ranks gets the sum of their gradients */
    if (!lower->hidden) {
        if (replicas <= 0 || together) return true;
        diag_error(lower->diags, (Span){0}, "--replicas %d is for modes data_parallel and manual, and this is mode %s", replicas,
                   mode_name[graph->settings.mode]);
        return false;
    }
    graph->replicas = replicas > 0 ? replicas : nranks;
    if (graph->replicas >= nranks) return true;
    diag_error(lower->diags, (Span){0}, "%d replica%s on %d ranks: some ranks would have none", replicas, replicas == 1 ? "" : "s", nranks);
    diag_hint(lower->diags, "--replicas is at least the number of ranks; a rank may have several");
    return false;
}

/* Warns of a search without effect. Not where --mode is given: it replaces the text's mode, and what goes with it. */
static void warn_search(Lower *lower) {
    const Settings *settings = &lower->graph->settings;
    if (settings->mode == MODE_AUTO || settings->search_span.line == 0 || lower->overrides->mode != NULL) return;
    diag_warning(lower->diags, WARN_NO_EFFECT, settings->search_span, "search has no effect in mode %s: only auto looks for strategies",
                 mode_name[settings->mode]);
}

/* Warns of settings without effect in mode manual, where the net adds gradients up, and each rank has its own states. */
static void warn_manual(Lower *lower, const Block *block) {
    static const char *const without_effect[][2] = {{"gradients", "the net itself adds them up"},
                                                    {"shard_states", "each rank has states of its own"}};
    if (lower->graph->settings.mode != MODE_MANUAL || lower->overrides->mode != NULL) return;
    for (const Entry *entry = block->entries; entry; entry = entry->next)
        for (int i = 0; i < 2; i++)
            if (!strcmp(entry->name, without_effect[i][0]))
                diag_warning(lower->diags, WARN_NO_EFFECT, lower_span(lower, entry->name_loc), "%s has no effect in mode manual: %s",
                             without_effect[i][0], without_effect[i][1]);
}

bool parallel_lower(Lower *lower, const Block *block) {
    const Overrides *flags = lower->overrides;
    Settings *settings = &lower->graph->settings;
    settings->mode = MODE_AUTO;
    settings->search = "auto";
    settings->dataset = DATASET_AUTO;
    settings->gradients_mean = true;
    settings->bucket_bytes = BUCKET_BYTES;
    settings->shard_states = SHARD_OPTIMIZER;
    settings->shard_bytes = SHARD_BYTES;
    settings->tolerance = -1; /* not given */
    settings->strict_divide = flags->strict_divide;
    bool given[NPARALLEL] = {[MODE] = flags->mode,         [SEARCH] = flags->search,
                             [DATASET] = flags->dataset,   [GRADIENTS] = flags->gradients,
                             [MEMORY] = flags->memory,     [SHARD_STATES] = flags->shard_states,
                             [REGATHER] = flags->regather, [STAGES] = flags->stages,
                             [CHUNKS] = flags->chunks,     [BATCH_NORM] = flags->batch_norm};
    if (flags->auto_stages > 0) divide_ranks(lower->graph, flags->auto_stages);
    settings->chunks = flags->auto_chunks;
    bool ok = flag_lower(lower, "--mode", flags->mode, eval_mode);
    ok &= flag_lower(lower, "--chunks", flags->chunks, eval_chunks);
    if (!flags->chunks && !says(block, "chunks")) ok &= found_setting(lower, "chunks", eval_chunks, &settings->chunks_found);
    ok &= flag_lower(lower, "--stages", flags->stages, eval_stages);
    ok &= flag_lower(lower, "--search", flags->search, eval_search);
    ok &= flag_lower(lower, "--gradients", flags->gradients, eval_gradients);
    ok &= flag_lower(lower, "--memory", flags->memory, eval_memory);
    ok &= flag_lower(lower, "--shard-states", flags->shard_states, eval_shard_states);
    ok &= flag_lower(lower, "--regather", flags->regather, eval_regather);
    if (block)
        ok &= settings_lower(lower, block, "parallel", parallel_settings, nparallel_settings, train_settings, ntrain_settings, "train",
                             given);
    ok &= flag_lower(lower, "--dataset", flags->dataset, eval_dataset);
    ok &= flag_lower(lower, "--batch-norm", flags->batch_norm, eval_batch_norm);
    if (settings->shard_states == SHARD_PARAMETERS && !settings->regather_given) settings->regather = REGATHER_PARAMETERS;
    if (settings->tolerance < 0) settings->tolerance = settings->memory_bytes > 0 ? 0 : TOLERANCE_USUAL;
    ok &= found_states(lower);
    if (ok) warn_search(lower);
    if (ok && block) warn_manual(lower, block);
    ok = ok && stages_check(lower) && chunks_check(lower);
    return replicas_lower(lower) && ok && groups_check(lower);
}

bool dataset_lower(Lower *lower) {
    Settings *settings = &lower->graph->settings;
    if (!lower->dataset) return true;
    if (settings->mode == MODE_STAND_ALONE || mode_hides(settings->mode)) {
        settings->dataset = DATASET_AUTO; /* each rank has its own data, whole */
        return true;
    }
    int source = lower->file;
    lower->file = lower->dataset_file;
    settings->dataset_hint = hint_of_dataset(lower, lower->dataset);
    lower->file = source;
    return settings->dataset_hint != NULL;
}
