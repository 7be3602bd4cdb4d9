#include "report/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- tables */

int table_text(Tables *tables, const char *text) {
    if (text == NULL) return -1;
    const uint64_t hash = hash_bytes(text, strlen(text));
    map_each(&tables->text_map, hash, number) if (strcmp(tables->texts.at[number], text) == 0) return number;
    map_add(tables->arena, &tables->text_map, hash, tables->texts.n);
    vec_push(tables->arena, &tables->texts, arena_copy(tables->arena, text, strlen(text)));
    return tables->texts.n - 1;
}

int table_type(Tables *tables, const TensorType *type) {
    uint64_t hash = hash_mix(hash_mix(0, (uint64_t)type->dtype), (uint64_t)type->hidden);
    for (int d = 0; d < type->shape.ndim; d++)
        hash = hash_mix(hash, (uint64_t)type->shape.dim[d]);
    map_each(&tables->type_map, hash, number) if (type_equal(&tables->types.at[number], type)) return number;
    map_add(tables->arena, &tables->type_map, hash, tables->types.n);
    vec_push(tables->arena, &tables->types, *type);
    return tables->types.n - 1;
}

int table_layout(Tables *tables, const Layout *layout) {
    if (layout == NULL) return -1;
    const uint64_t hash = layout_hash(layout);
    map_each(&tables->layout_map, hash,
             number) if (tables->layouts.at[number] == layout || layout_equal(tables->layouts.at[number], layout)) return number;
    map_add(tables->arena, &tables->layout_map, hash, tables->layouts.n);
    vec_push(tables->arena, &tables->layouts, layout);
    return tables->layouts.n - 1;
}

static void write_digits(Json *json, const Layout *layout, int list) {
    json_list(json, NULL);
    for (int i = 0; i < layout_count(layout, list); i++) {
        json_int(json, NULL, layout_list(layout, list)[i].size);
        json_int(json, NULL, layout_list(layout, list)[i].stride);
    }
    json_end(json);
}

static void write_layout(Json *json, const Layout *layout) {
    json_list(json, NULL);
    json_list(json, NULL);
    for (int d = 0; d < layout->ndim; d++)
        write_digits(json, layout, d);
    json_end(json);
    json_list(json, NULL);
    for (int r = 0; r < NREDUCTIONS; r++)
        write_digits(json, layout, layout->ndim + r);
    json_end(json);
    json_list(json, NULL);
    for (int d = 0; d < layout->ndim; d++) {
        const Halo *halo = layout_halo(layout, d);
        if (halo == NULL) continue;
        json_list(json, NULL);
        json_int(json, NULL, d);
        json_int(json, NULL, (int)halo->kind - 1);
        json_int(json, NULL, halo->of);
        json_int(json, NULL, halo->stride);
        json_int(json, NULL, halo->low);
        json_int(json, NULL, halo->high);
        json_end(json);
    }
    json_end(json);
    if (layout_is_pinned(layout)) {
        json_list(json, NULL);
        json_int(json, NULL, layout->pin.digit.size);
        json_int(json, NULL, layout->pin.digit.stride);
        json_int(json, NULL, layout->pin.value);
        json_end(json);
    }
    json_end(json);
}

static void write_tables(Json *json, const Tables *tables) {
    json_array(json, "types");
    for (int i = 0; i < tables->types.n; i++) {
        const TensorType *type = &tables->types.at[i];
        json_list(json, NULL);
        json_text(json, NULL, dtype_name[type->dtype]);
        json_int(json, NULL, type->hidden);
        json_list(json, NULL);
        for (int d = 0; d < type->shape.ndim; d++)
            json_int(json, NULL, type->shape.dim[d]);
        json_end(json);
        json_end(json);
    }
    json_end(json);
    json_array(json, "layouts");
    for (int i = 0; i < tables->layouts.n; i++)
        write_layout(json, tables->layouts.at[i]);
    json_end(json);
    json_array(json, "strings");
    for (int i = 0; i < tables->texts.n; i++)
        json_text(json, NULL, tables->texts.at[i]);
    json_end(json);
}

/* ---------------------------------------------------------------- fields */

void data_place(PlanData *data, Span span) {
    const int field[] = {span.file, span.line, span.column, span.length};
    for (int i = 0; i < 4; i++)
        json_int(&data->json, NULL, span.line > 0 ? field[i] : -(i == 0));
}

void columns_place(ColumnTable *columns, Span span) {
    const int field[] = {span.file, span.line, span.column, span.length};
    for (int i = 0; i < 4; i++)
        columns_int(columns, span.line > 0 ? field[i] : -(i == 0));
}

void data_text(PlanData *data, const char *text) {
    json_int(&data->json, NULL, table_text(&data->tables, text));
}

int64_t nanoseconds(double seconds) {
    return (int64_t)llround(seconds * 1e9);
}

const Graph *program_graph(const Plan *plan, int program) {
    return plan->programs.at[program].graph != NULL ? plan->programs.at[program].graph : &plan->graph;
}

static int64_t largest_bytes(const Layout *layout, const TensorType *type) {
    return layout == NULL ? 0 : layout_max_bytes(layout, type); /* NULL: the plan has no program */
}

/* ---------------------------------------------------------------- head */

static void write_settings(Json *json, const Graph *graph) {
    const Settings *settings = &graph->settings;
    json_row(json, "settings");
    json_text(json, "mode", mode_name[settings->mode]);
    json_text(json, "search", settings->search);
    json_text(json, "dataset", dataset_name[settings->dataset]);
    json_text(json, "optimizer", optimizer_name[settings->optimizer]);
    json_text(json, "data", data_name[settings->data]);
    json_real(json, "lr", settings->lr);
    json_int(json, "epochs", settings->epochs);
    json_int(json, "steps", settings->steps);
    json_int(json, "accumulate", settings_batches(settings));
    json_int(json, "batch", graph_batch_rows(graph));
    json_end(json);
}

static void write_axes(PlanData *data) {
    Json *json = &data->json;
    const Settings *settings = &data->plan->graph.settings;
    json_int(json, "mesh_axes", settings->mesh.n);
    json_array(json, "mesh");
    for (int i = 0; i < settings_naxes(settings); i++) {
        const Axis *axis = settings_axis(settings, i);
        json_list(json, NULL);
        data_text(data, axis->name);
        json_int(json, NULL, axis->size);
        json_int(json, NULL, axis->digit.stride);
        json_end(json);
    }
    json_end(json);
}

static void write_dims(PlanData *data) {
    const Graph *graph = &data->plan->graph;
    json_array(&data->json, "dims");
    for (int i = 0; i < graph->dims.n; i++) {
        json_list(&data->json, NULL);
        data_text(data, graph->dims.at[i].name);
        json_int(&data->json, NULL, graph->dims.at[i].size);
        json_end(&data->json);
    }
    json_end(&data->json);
}

typedef enum { KIND_PARAMETER, KIND_SLOT, KIND_CONST, KIND_WRITTEN, KIND_CACHE } StateKind;

static StateKind state_kind(const State *state, int number) {
    if (state->cache) return KIND_CACHE;
    if (state->trainable) return KIND_PARAMETER;
    if (state->parameter != number) return KIND_SLOT;
    return state->written ? KIND_WRITTEN : KIND_CONST;
}

static void write_states(PlanData *data, const Graph *graph, int first) {
    Json *json = &data->json;
    json_array(json, "states");
    for (int s = first; s < graph->states.n; s++) {
        const State *state = &graph->states.at[s];
        json_list(json, NULL);
        data_text(data, state->name);
        json_int(json, NULL, table_type(&data->tables, &state->type));
        json_int(json, NULL, table_layout(&data->tables, state->layout));
        json_int(json, NULL, state_kind(state, s));
        json_int(json, NULL, state->parameter);
        json_int(json, NULL, largest_bytes(state->layout, &state->type));
        json_int(json, NULL, shape_elements(&state->type.shape) * dtype_bytes[state->type.dtype]);
        data_place(data, state->span);
        json_end(json);
    }
    json_end(json);
}

/* ---------------------------------------------------------------- programs */

typedef enum { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE } Phase;

static Phase phase_of(const Graph *graph, int node) {
    const OpCode op = graph->nodes.at[node].op;
    if (op_table[op].op_class == OP_CLASS_UPDATE || op == OP_write) return PHASE_UPDATE;
    if (graph->nforward == 0 || graph_is_forward(graph, node)) return PHASE_FORWARD;
    return op == OP_read ? PHASE_UPDATE : PHASE_BACKWARD;
}

static void write_inputs(PlanData *data, const Graph *graph) {
    Json *json = &data->json;
    json_array(json, "inputs");
    for (int i = 0; i < graph->inputs.n; i++) {
        const Input *input = &graph->inputs.at[i];
        json_list(json, NULL);
        data_text(data, input->name);
        json_int(json, NULL, table_type(&data->tables, &input->type));
        json_int(json, NULL, table_layout(&data->tables, input->layout));
        data_text(data, input_kind_name[input->kind]);
        json_int(json, NULL, largest_bytes(input->layout, &input->type));
        data_place(data, input->span);
        json_end(json);
    }
    json_end(json);
}

static int attributes_text(PlanData *data, const Node *node) {
    Text text = {0};
    attr_print(&text, node->op, node);
    const int number = text.n > 0 ? table_text(&data->tables, text.at) : -1;
    text_finish(&text);
    return number;
}

static void write_nodes(PlanData *data, const Graph *graph) {
    Tables *tables = &data->tables;
    ColumnTable nodes, values;
    columns_init(&nodes, "op name ins* outs* file line column length origin phase batch copy_of state attributes");
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        columns_int(&nodes, table_text(tables, op_table[node->op].name));
        columns_int(&nodes, table_text(tables, node->name));
        columns_ints(&nodes, node->in, node->nin);
        columns_ints(&nodes, node->out, node->nout);
        columns_place(&nodes, node->span);
        columns_int(&nodes, node->origin);
        columns_int(&nodes, phase_of(graph, n));
        columns_int(&nodes, node->micro);
        columns_int(&nodes, node->copy_of > 0 ? node->copy_of : -1);
        columns_int(&nodes, node->state);
        columns_int(&nodes, attributes_text(data, node));
    }
    columns_write(&data->json, "nodes", &nodes);
    columns_init(&values, "name type node index");
    for (int v = 0; v < graph->values.n; v++) {
        const Value *value = &graph->values.at[v];
        columns_int(&values, table_text(tables, value->name));
        columns_int(&values, table_type(tables, &value->type));
        columns_int(&values, value->node);
        columns_int(&values, value->index);
    }
    columns_write(&data->json, "values", &values);
}

/* ---------------------------------------------------------------- roles */

typedef enum { HELD_FORWARD, HELD_KEPT, HELD_CONVERTED, HELD_GRADIENT, HELD_BACKWARD, HELD_UPDATE } HeldAs;

/* Per step: the phase of its node; for a step without one, that of the step before. */
static Phase *step_phases(const Graph *graph, const Role *role, Arena *arena) {
    Phase *phases = arena_alloc(arena, sizeof *phases * (size_t)(role->steps.n + 1)), phase = PHASE_FORWARD;
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if (step->kind == STEP_KERNEL || step->kind == STEP_WRITE) phase = phase_of(graph, step->node);
        phases[s] = phase;
    }
    return phases;
}

/* Per value: whether it is the gradient operand of an update. */
static bool *parameter_gradients(const Graph *graph, Arena *arena) {
    bool *is = arena_alloc(arena, (size_t)graph->values.n + 1);
    for (int n = 0; n < graph->nodes.n; n++) {
        const Node *node = &graph->nodes.at[n];
        const int g = op_table[node->op].op_class == OP_CLASS_UPDATE ? op_in(node->op, "g") : -1;
        if (g >= 0 && g < node->nin) is[node->in[g]] = true;
    }
    return is;
}

static void write_instances(PlanData *data, const Graph *graph, const Program *program, const Role *role) {
    ColumnTable columns;
    Arena *arena = data->tables.arena;
    const size_t n = (size_t)role->instances.n + 1;
    int *first = arena_alloc(arena, sizeof *first * n), *last = arena_alloc(arena, sizeof *last * n);
    bool *converted = arena_alloc(arena, n);
    const bool *gradient = parameter_gradients(graph, arena);
    const Phase *phase = step_phases(graph, role, arena);
    lives_find(program, role, first, last);
    for (int s = 0; s < role->steps.n; s++)
        if (role->steps.at[s].kind == STEP_START || role->steps.at[s].kind == STEP_LOCAL) converted[role->steps.at[s].out[0]] = true;
    columns_init(&columns, "value layout place at bytes first last kind");
    for (int i = 0; i < role->instances.n; i++) {
        const Instance *at = &role->instances.at[i];
        const Phase made = phase_of(graph, graph->values.at[at->value].node);
        HeldAs as = made == PHASE_UPDATE ? HELD_UPDATE : made == PHASE_BACKWARD ? HELD_BACKWARD : HELD_FORWARD;
        if (as == HELD_FORWARD && last[i] >= 0 && phase[last[i]] != PHASE_FORWARD) as = HELD_KEPT;
        if (converted[i]) as = HELD_CONVERTED;
        if (gradient[at->value]) as = HELD_GRADIENT;
        columns_int(&columns, at->value);
        columns_int(&columns, table_layout(&data->tables, at->layout));
        columns_int(&columns, at->place);
        columns_int(&columns, at->at);
        columns_int(&columns, instance_bytes(graph, at));
        columns_int(&columns, first[i]);
        columns_int(&columns, last[i]);
        columns_int(&columns, as);
    }
    columns_write(&data->json, "instances", &columns);
}

static void write_steps(PlanData *data, const Role *role) {
    ColumnTable columns;
    columns_init(&columns, "kind what node ins* outs* request bucket fused state");
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        const bool computes = step->kind == STEP_KERNEL || step->kind == STEP_WRITE,
                   moves = step->kind == STEP_START || step->kind == STEP_WAIT;
        const char *what = step->kind == STEP_WRITE ? "write" : computes ? op_table[step->op].name : comm_name[step->comm];
        columns_int(&columns, step->kind);
        columns_int(&columns, table_text(&data->tables, what));
        columns_int(&columns, computes ? step->node : -1);
        columns_ints(&columns, step->in, step->nin);
        columns_ints(&columns, step->out, step->nout);
        columns_int(&columns, moves ? step->request : -1);
        columns_int(&columns, step->bucket);
        columns_int(&columns, step->fused);
        columns_int(&columns, step->kind == STEP_WRITE ? step->state : -1);
    }
    columns_write(&data->json, "steps", &columns);
}

static void write_role(PlanData *data, const PlanMore *more, int program, int number) {
    Json *json = &data->json;
    const Program *of = &data->plan->programs.at[program];
    const Role *role = &of->roles.at[number];
    json_object(json, NULL);
    json_list(json, "ranks");
    json_int(json, NULL, role->first_rank);
    json_int(json, NULL, role->last_rank);
    json_end(json);
    json_int(json, "arena", role->arena_bytes);
    write_instances(data, program_graph(data->plan, program), of, role);
    write_steps(data, role);
    if (more != NULL && more->role != NULL)
        more->role(more->context, data, program, number);
    else
        write_moved(data, program_graph(data->plan, program), role);
    json_end(json);
}

static void write_program(PlanData *data, const PlanMore *more, int number) {
    Json *json = &data->json;
    const Program *program = &data->plan->programs.at[number];
    const Graph *graph = program_graph(data->plan, number);
    json_object(json, NULL);
    json_text(json, "name", program->name);
    write_states(data, graph, data->plan->graph.states.n);
    write_inputs(data, graph);
    write_nodes(data, graph);
    json_int(json, "loss", program->loss);
    json_array(json, "reports");
    for (int r = 0; r < program->reports.n; r++) {
        json_list(json, NULL);
        data_text(data, graph->reports.at[r].name);
        json_int(json, NULL, program->reports.at[r]);
        json_end(json);
    }
    json_end(json);
    if (more != NULL && more->program != NULL) more->program(more->context, data, number);
    json_array(json, "roles");
    for (int r = 0; r < program->roles.n; r++)
        write_role(data, more, number, r);
    json_end(json);
    json_end(json);
}

/* ---------------------------------------------------------------- all of it */

void data_files(PlanData *data) {
    const Graph *graph = &data->plan->graph;
    json_array(&data->json, "files");
    for (int f = 0; f < graph->files.n; f++) {
        json_list(&data->json, NULL);
        data_text(data, graph->files.at[f] != NULL ? graph->files.at[f] : f == 0 ? graph->file : NULL);
        json_text(&data->json, NULL, NULL);
        json_end(&data->json);
    }
    json_end(&data->json);
}

void plan_data(Text *text, const Plan *plan, const PlanMore *more) {
    Arena arena;
    arena_init(&arena);
    PlanData data = {.json = {.text = text, .in_page = true}, .tables = {.arena = &arena}, .plan = plan};
    Json *json = &data.json;
    json_object(json, NULL);
    json_int(json, "format", PAGE_FORMAT);
    json_text(json, "pcc", PCC_VERSION);
    json_text(json, "net", plan->graph.name);
    json_text(json, "hash", arena_printf(&arena, "%016" PRIx64, plan->net_hash));
    json_text(json, "checksum", arena_printf(&arena, "%016" PRIx64, plan->checksum));
    json_text(json, "options", plan->options);
    json_int(json, "ranks", plan->graph.nranks);
    json_int(json, "replicas", plan->graph.replicas);
    json_text(json, "proof", plan->certificate);
    write_settings(json, &plan->graph);
    write_dims(&data);
    write_axes(&data);
    if (more != NULL && more->path != NULL) json_text(&data.json, "file", more->path);
    if (more != NULL)
        more->plan(more->context, &data);
    else
        data_files(&data);
    write_states(&data, &plan->graph, 0);
    json_array(json, "programs");
    for (int p = 0; p < plan->programs.n; p++)
        write_program(&data, more, p);
    json_end(json);
    write_tables(json, &data.tables);
    json_end(json);
    arena_finish(&arena);
}
