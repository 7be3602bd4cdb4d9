/* Stages of a pipeline: what each does when, batch after batch, predicted and measured; a click goes to a stage. The rest of the page is of one stage. */

const STAGE = { left: 104, axis: 18, lane: 20, right: 12 };

/* What stands under Summary; null: all ranks run the same steps. */
function stagesBlock(app) {
    const { stages } = app.program;
    if (stages.length < 2) return null;
    const view = { app, lanes: stageLanes(app), canvas: null }, axes = new Set(view.lanes.map((l) => !!l.measured)).size;
    view.canvas = el("canvas", { style: { height: `${axes * STAGE.axis + view.lanes.length * (STAGE.lane + 2) + 6}px` }, "aria-label": "all stages over a step", onclick: (e) => stageClick(view, e) });
    app.stages = view;
    new ResizeObserver(() => stagesDraw(view)).observe(view.canvas);
    return [
        el("h3", {}, `${stages.length} stages`, el("small", {}, ` forward (f) and backward (b) of each batch, then the update (u). The rest of the page is of stage ${app.program.stage}`, el("span", { class: "screen" }, ": a click shows another one"))),
        view.lanes.length > 0 && el("div", { class: "card lanes" }, view.canvas),
        el("div", { class: "legend" }, legendKey("computes", "forward"), legendKey("alive3", "backward"), legendKey("alive5", "update"), legendKey("waits", "waits for another stage, or for data")),
        stagesTable(app),
    ];
}

function stagesTable(app) {
    const { stages } = app.program, known = stages.every((s) => s.predicted && s.memory && s.totals);
    const columns = [
        { head: "stage", cell: (s) => [el("b", {}, String(s.number)), s.number === app.program.stage ? el("span", { class: "dim" }, " shown") : null], sort: (s) => s.number },
        { head: "ranks", cell: (s) => (s.ranks[0] === s.ranks[1] ? String(s.ranks[0]) : `${s.ranks[0]}–${s.ranks[1]}`), sort: (s) => s.ranks[0] },
    ];
    if (app.run) columns.push({ head: "measured", class: "num", title: "computing, mean over ranks and steps", cell: (s) => time(app.run.stages[s.number]), sort: (s) => app.run.stages[s.number] });
    if (known)
        columns.push({ head: "computes", class: "num", cell: (s) => time(s.predicted.kernels), sort: (s) => s.predicted.kernels },
                     { head: "of a step", class: "num", cell: (s) => percent(s.predicted.kernels / s.predicted.step), sort: (s) => s.predicted.kernels },
                     { head: "", class: "share", cell: (s) => el("span", { class: "bar" }, el("b", { class: "computes", style: { width: `${(100 * s.predicted.kernels) / s.predicted.step}%` } })) },
                     { head: "waits", class: "num", title: "for other stages, and for data", cell: (s) => time(s.predicted.exposed), sort: (s) => s.predicted.exposed },
                     { head: "received", title: "by the busiest rank", class: "num", cell: (s) => bytes(s.totals.received.max), sort: (s) => s.totals.received.max },
                     { head: "memory", title: "of a rank", class: "num", cell: (s) => bytes(s.memory.rank), sort: (s) => s.memory.rank },
                     { head: "states", class: "num", cell: (s) => bytes(s.memory.states), sort: (s) => s.memory.states });
    columns.push({ head: "arena", class: "num", cell: (s) => bytes(s.arena), sort: (s) => s.arena });
    return el("div", { class: "scroll" }, sortableTable(columns, stages, { sorted: 0, up: true, class: "compact", row: (s) => ({ ...pressable(() => app.toStage(s.number)), class: s.number === app.program.stage ? "chosen" : null }) }));
}

/* Lanes {name, stage, events}: predicted, then of each stage one measured rank. An event is a run of kernels of one batch and phase, or a wait. */
function stageLanes(app) {
    const { stages } = app.program, measured = app.run ? app.run.raw.lanes : [], batches = batchesOfNodes(app.program);
    const lanes = stages.filter((s) => s.raw.events).map((s) => ({ name: `stage ${s.number}`, stage: s.number, events: stageEvents(app, s, columnsOf(s.raw.events), batches) }));
    for (const s of stages) {
        const lane = measured.find((l) => l.role === s.number);
        if (lane) lanes.push({ name: `rank ${lane.rank} measured`, stage: s.number, measured: true, events: stageEvents(app, s, columnsOf(lane.events), batches) });
    }
    return lanes;
}

function stageEvents(app, stage, e, batches) {
    const { nodes } = app.program, { kind, node } = columnsOf(stage.raw.steps), list = [], order = [...e.step.keys()].filter((i) => e.lane[i] === 0).sort((a, b) => e.begin[a] - e.begin[b]);
    for (const i of order) {
        const step = e.step[i], of = kind[step] === 0 ? nodes[node[step]] : null, last = list[list.length - 1];
        if (e.length[i] === 0 || (kind[step] !== 0 && kind[step] !== 3)) continue;
        const phase = of ? of.phase : -1, batch = of ? batches[of.id] : -1;
        if (last && last.phase === phase && last.batch === batch && e.begin[i] - last.end < 0.2 * (last.end - last.begin) + 1) last.end = e.begin[i] + e.length[i];
        else list.push({ phase, batch, begin: e.begin[i], end: e.begin[i] + e.length[i], step });
    }
    return list;
}

/* Per node the batch of a step to which it belongs: of a gradient, or a sum of several, the last of what it reads. */
function batchesOfNodes({ nodes, values }) {
    const batches = new Int32Array(nodes.length);
    for (const node of nodes) batches[node.id] = node.batch > 0 ? node.batch : node.ins.reduce((most, v) => (values[v].node < node.id ? Math.max(most, batches[values[v].node]) : most), 0);
    return batches;
}

function stagesDraw(view) {
    const { app, lanes, canvas } = view, { context, width } = canvasFit(canvas, parseFloat(canvas.style.height)), colours = canvasColours();
    const ends = [false, true].map((measured) => Math.max(1, ...lanes.filter((l) => !!l.measured === measured).flatMap((l) => l.events.map((e) => e.end))));
    const spans = ends.map((end) => spanMake(0, end, STAGE.left, Math.floor(width - STAGE.left - STAGE.right)));
    const fill = { 0: colours.computes, 1: colours.alive[3], 2: colours.alive[5], "-1": colours.waits };
    lanes.forEach((lane, i) => {
        const y = laneTop(lanes, i), span = spans[lane.measured ? 1 : 0];
        if (i === 0 || lanes[i - 1].measured !== lane.measured) axisDraw(context, colours, span, y - STAGE.axis / 2);
        context.fillStyle = lane.stage === app.program.stage ? colours.text : colours.dim;
        context.textAlign = "right";
        context.fillText(lane.name, STAGE.left - 8, y + STAGE.lane / 2);
        context.textAlign = "left";
        for (const e of lane.events) {
            const x = span.at(e.begin), wide = Math.max(0.5, span.at(e.end) - x - 0.5), text = e.phase < 0 ? "" : `${"fbu"[e.phase]}${e.phase < 2 ? e.batch : ""}`;
            context.globalAlpha = e.phase < 0 ? 0.35 : 1;
            context.fillStyle = fill[e.phase];
            context.fillRect(x, e.phase < 0 ? y + 6 : y, wide, e.phase < 0 ? STAGE.lane - 12 : STAGE.lane);
            context.globalAlpha = 1;
            context.fillStyle = colours.on;
            if (wide > 7 + 5.6 * text.length) context.fillText(text, x + 3, y + STAGE.lane / 2 + 0.5);
        }
    });
}

function laneTop(lanes, i) {
    return (lanes[i].measured ? 2 : 1) * STAGE.axis + i * (STAGE.lane + 2);
}

function stageClick(view, event) {
    const y = event.clientY - view.canvas.getBoundingClientRect().top, lane = view.lanes.find((_, i) => y >= laneTop(view.lanes, i) && y < laneTop(view.lanes, i) + STAGE.lane);
    if (lane) view.app.toStage(lane.stage);
}

/* Of a row whose result other stages have: which run it; null: it is here. */
function stagesOfRow(app, row) {
    const { program } = app;
    if (program.stages.length < 2) return null;
    const nodes = nodesBelow(row).map((n) => program.nodes[n]).filter((n) => n.stage >= 0), run = nodes.map((n) => n.stage), first = Math.min(...run), last = Math.max(...run);
    if (nodes.length === 0 || resultOf(row).stage === program.stage) return null;
    const text = first === last ? `stage ${first}` : `stages ${first}–${last}`, to = nodes.find((n) => n.stage === first);
    if (run.includes(program.stage)) return el("span", { class: "dim" }, text);
    return el("button", { class: "link", title: `shows stage ${first}`, onclick: (e) => (e.stopPropagation(), app.toStage(first, { kind: "node", id: to.id })) }, text);
}
