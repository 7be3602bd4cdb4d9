/* What a run measured, beside the plan: figures of nodes and communications, and the lanes of ranks. */

function runRead(raw, program) {
    const { role } = program, f = columnsOf(raw.figures), run = { raw, waiting: 0, late: 0 };
    for (let i = 0; i < f.rows; i++) {
        if (f.role[i] !== program.stage) continue;
        const steps = role.steps.slice(f.step[i], f.step[i] + f.steps[i]), mean = f.mean[i];
        if (steps.length === 0) continue;
        if (steps[0].kind === 2 || steps[0].kind === 3) { /* starting a message takes time too */
            const late = Math.min(f.late[i], mean), comm = role.comms[steps[0].comm];
            comm.measuredWait += mean;
            comm.late += late;
            run.waiting += mean;
            run.late += late;
        } else {
            const weights = steps.map((s) => 1 + sum(s.outs, (i) => role.instances[i].bytes)), all = sum(weights);
            steps.forEach((step, k) => (program.nodes[step.node >= 0 ? step.node : nodeOfWrite(program, step)].measured += (mean * weights[k]) / all));
        }
    }
    const lanes = raw.lanes.filter((lane) => lane.role === program.stage).map((lane) => {
        const events = rowsOf(EventRow, columnsOf(lane.events), program.plan);
        for (const e of events) e.wait = e.lane === 0 && role.steps[e.step].kind === 3;
        const compute = laneMake(events.filter((e) => e.lane === 0)), comm = laneMake(events.filter((e) => e.lane === 1));
        return { rank: lane.rank, compute, comm, end: events.reduce((most, e) => Math.max(most, e.end), 0) };
    });
    return { ...run, lanes, stages: stagesMeasured(raw, program) };
}

/* How long a rank of each stage computes in a step. */
function stagesMeasured(raw, program) {
    const f = columnsOf(raw.figures), computing = program.stages.map(() => 0), kinds = program.stages.map((s) => columnsOf(s.raw.steps).kind);
    for (let i = 0; i < f.rows; i++) if (STEP_KINDS[kinds[f.role[i]][f.step[i]]] !== "start" && STEP_KINDS[kinds[f.role[i]][f.step[i]]] !== "wait") computing[f.role[i]] += f.mean[i];
    return computing;
}
