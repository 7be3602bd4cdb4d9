/* What each step and communication of a role costs, and the sums that --stats has. */
#include "compiler/held.h"
#include "compiler/report.h"

static void write_communications(PlanData *data, const Facts *facts, const Timeline *timeline) {
    ColumnTable columns;
    columns_init(&columns, "step value from to kind bucket sent sent_max received received_max least least_max ns waited");
    for (int i = 0; i < facts->communications.n; i++) {
        const Communication *made = &facts->communications.at[i];
        if (made->kind == COMM_STRIDED_SLICE) continue;
        const Traffic traffic[] = {made->sent, made->received, made->bound};
        columns_int(&columns, made->step);
        columns_int(&columns, made->value);
        columns_int(&columns, made->from);
        columns_int(&columns, made->to);
        columns_int(&columns, table_text(&data->tables, comm_name[made->kind]));
        columns_int(&columns, made->bucket);
        for (int k = 0; k < 3; k++) {
            columns_int(&columns, traffic[k].total);
            columns_int(&columns, traffic[k].max);
        }
        columns_int(&columns, nanoseconds(timeline->alone_s[i]));
        columns_int(&columns, nanoseconds(timeline->exposed_by[i]));
    }
    columns_write(&data->json, "comms", &columns);
}

/* Rounds both ends of each event, so that lengths add up to the step. */
static void write_events(PlanData *data, const Timeline *timeline) {
    ColumnTable columns;
    columns_init(&columns, "step steps lane begin length flops bytes");
    for (int i = 0; i < timeline->events.n; i++) {
        const TimelineEvent *event = &timeline->events.at[i];
        const int64_t begin = nanoseconds(event->begin_s);
        columns_int(&columns, event->step);
        columns_int(&columns, event->nsteps);
        columns_int(&columns, event->communication);
        columns_int(&columns, begin);
        columns_int(&columns, nanoseconds(event->end_s) - begin);
        columns_int(&columns, (int64_t)event->flops);
        columns_int(&columns, (int64_t)event->bytes);
    }
    columns_write(&data->json, "events", &columns);
}

static void write_traffic(Json *json, const char *key, Traffic bytes) {
    json_row(json, key);
    json_int(json, "total", bytes.total);
    json_int(json, "max", bytes.max);
    json_end(json);
}

static void write_sums(PlanData *data, const Facts *facts, const Timeline *timeline, const Machine *machine) {
    Json *json = &data->json;
    json_row(json, "totals");
    json_int(json, "count", facts->all.count);
    write_traffic(json, "sent", facts->sent);
    write_traffic(json, "received", facts->received);
    write_traffic(json, "bound", facts->bound);
    json_int(json, "sent_rank", facts->all.sent);
    json_end(json);
    json_figures(json, facts, facts->rank_flops, json_row);
    json_row(json, "predicted");
    json_text(json, "machine", machine != NULL ? machine->name : machine_cpu.name);
    json_int(json, "step", nanoseconds(timeline->step_s));
    json_int(json, "kernels", nanoseconds(timeline->kernel_s));
    json_int(json, "communications", nanoseconds(timeline->communication_s));
    json_int(json, "exposed", nanoseconds(timeline->exposed_s));
    json_end(json);
}

static void write_fullest(PlanData *data, const Facts *facts) {
    Held held;
    held_find(&held, facts, data->tables.arena);
    json_row(&data->json, "fullest");
    json_int(&data->json, "step", held.step);
    json_int(&data->json, "bytes", held.bytes);
    json_end(&data->json);
}

void report_cost(PlanData *data, const Facts *facts, const Timeline *timeline, const Machine *machine) {
    write_communications(data, facts, timeline);
    write_events(data, timeline);
    write_sums(data, facts, timeline, machine);
    write_fullest(data, facts);
}
