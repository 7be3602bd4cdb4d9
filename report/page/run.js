/* What a run measured, beside the plan: figures of nodes and communications, and the lanes of ranks. */

function runRead(raw, program) {
    const { role } = program;
    for (const f of raw.figures) {
        const [first, n, lane, mean, , , late] = f, steps = role.steps.slice(first, first + n);
        if (lane === 1 || steps.length === 0) {
            if (steps.length > 0 && steps[0].comm >= 0) role.comms[steps[0].comm].measured = mean;
        } else if (steps[0].kind === 2 || steps[0].kind === 3) { /* starting a message takes time too */
            if (steps[0].comm < 0) continue;
            role.comms[steps[0].comm].measuredWait += mean;
            role.comms[steps[0].comm].late += Math.min(late || 0, mean);
        } else {
            const weights = steps.map((s) => 1 + sum(s.outs, (i) => role.instances[i].bytes)), all = sum(weights);
            steps.forEach((step, i) => (program.nodes[step.node >= 0 ? step.node : nodeOfWrite(program, step)].measured += (mean * weights[i]) / all));
        }
    }
    const lanes = raw.lanes.map((lane) => {
        const events = lane.events.map((e, id) => ({ id, step: e[0], n: e[1], lane: e[2], begin: e[3], end: e[3] + e[4], flops: 0, bytes: 0, wait: e[2] === 0 && role.steps[e[0]].kind === 3 }));
        const compute = laneMake(events.filter((e) => e.lane === 0)), comm = laneMake(events.filter((e) => e.lane === 1));
        return { rank: lane.rank, compute, comm, end: events.reduce((most, e) => Math.max(most, e.end), 0) };
    });
    return { raw, lanes };
}
