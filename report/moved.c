/* moved: the communications of a role as far as the plan alone tells: what is converted into what, and the bytes moved. */
#include "report/plan.h"

/* With more ranks, pieces are not counted: there may be as many as pairs of ranks. */
enum { COUNTED_RANKS = 1024 };

/* What one conversion moves, in elements; counted once for all steps that do it. */
typedef struct Counted {
    CommKind kind;
    const Layout *from, *to;
    Shape shape;
    Traffic received, sent;
} Counted;

typedef struct Moved {
    int nranks;
    Arena *arena;
    VEC(Counted) counted;
    Map map;
} Moved;

static const Counted *counted_of(Moved *m, CommKind kind, const Layout *from, const Layout *to, const Shape *shape) {
    uint64_t hash = hash_mix(hash_mix(hash_mix(0, (uint64_t)kind), layout_hash(from)), layout_hash(to));
    for (int d = 0; d < shape->ndim; d++)
        hash = hash_mix(hash, (uint64_t)shape->dim[d]);
    map_each(&m->map, hash, number) {
        const Counted *at = &m->counted.at[number];
        if (at->kind == kind && layout_equal(at->from, from) && layout_equal(at->to, to) && shape_equal(&at->shape, shape)) return at;
    }
    Counted made = {.kind = kind, .from = from, .to = to, .shape = *shape};
    Layout source = *from, target = *to;
    comm_layouts(kind, m->nranks, &source, &target);
    pieces_count(&source, &target, shape, m->nranks, &made.received, &made.sent);
    map_add(m->arena, &m->map, hash, m->counted.n);
    vec_push(m->arena, &m->counted, made);
    return &m->counted.at[m->counted.n - 1];
}

static void add_traffic(ColumnTable *columns, bool counts, Traffic elements, const TensorType *type) {
    const int64_t bytes = counts ? dtype_bytes[type->dtype] : 0;
    columns_int(columns, elements.total * bytes);
    columns_int(columns, elements.max * bytes);
}

void write_moved(PlanData *data, const Graph *graph, const Role *role) {
    Moved m = {.nranks = graph->nranks, .arena = data->tables.arena};
    const bool counts = m.nranks <= COUNTED_RANKS;
    ColumnTable columns;
    columns_init(&columns,
                 counts ? "step value from to kind bucket sent sent_max received received_max" : "step value from to kind bucket");
    for (int s = 0; s < role->steps.n; s++) {
        const Step *step = &role->steps.at[s];
        if ((step->kind != STEP_START && step->kind != STEP_LOCAL) || step->comm == COMM_STRIDED_SLICE) continue;
        const Layout *from = role->instances.at[step->in[0]].layout, *to = role->instances.at[step->out[0]].layout;
        const int value = role->instances.at[step->in[0]].value;
        const TensorType *type = &graph->values.at[value].type;
        columns_int(&columns, s);
        columns_int(&columns, value);
        columns_int(&columns, step->in[0]);
        columns_int(&columns, step->out[0]);
        columns_int(&columns, table_text(&data->tables, comm_name[step->comm]));
        columns_int(&columns, step->bucket);
        if (!counts) continue;
        const Counted *counted = counted_of(&m, step->comm, from, to, &type->shape);
        const bool has = layout_has_ranks(from, role->first_rank, role->last_rank),
                   gets = layout_has_ranks(to, role->first_rank, role->last_rank);
        add_traffic(&columns, has || layout_is_partial(from), counted->sent, type); /* ranks that add terms up send the sums on */
        add_traffic(&columns, gets, counted->received, type);
    }
    columns_write(&data->json, "comms", &columns);
}
