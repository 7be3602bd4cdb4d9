/* Step: compute and communication over a step, memory under it, and the measured lanes; what is alive at the cursor; the table by operator. */

const STEP = { left: 104, axis: 18, phase: 14, compute: 26, comm: 20, memory: 130, rank: 34, right: 12 };

function stepSection(app) {
    const { role } = app.program, run = app.run;
    const view = { app, begins: app.begins, alive: app.alive, end: app.begins[app.begins.length - 1] || 1, window: [0, 1], drag: null };
    app.step = view;
    view.window = [0, view.end];
    view.compute = laneMake(role.events.filter((e) => e.lane === 0));
    view.comm = laneMake(role.events.filter((e) => e.lane === 1));
    view.lanes = run ? run.lanes : [];
    view.canvas = el("canvas", {
        tabindex: 0, "aria-label": "a step over time", style: { height: `${stepHeight(view)}px` },
        onwheel: (e) => stepWheel(view, e), onpointerdown: (e) => stepDown(view, e), onpointermove: (e) => stepMove(view, e), onpointerup: (e) => stepUp(view, e), onpointerleave: () => stepTip(view, null), onkeydown: (e) => stepKey(view, e),
    });
    view.tip = el("p", { class: "tip", "aria-live": "off" });
    view.aliveHead = el("h3", {});
    view.aliveBox = el("div", { class: "scroll resize alive" });
    const button = (text, title, act) => el("button", { title, onclick: act }, text);
    const controls = el("div", { class: "controls" },
                        button("+", "nearer: +", () => stepZoom(view, 0.5)), button("−", "farther: -", () => stepZoom(view, 2)), button("All", "the whole step: 0", () => stepAll(view)),
                        button("Next wait", "the next wait that nothing hides: n", () => stepNextWait(view)), button("Peak of memory", "where memory is fullest: p", () => stepPeak(view)),
                        el("span", { class: "legend" }, legendKey("computes", "computes"), legendKey("communicates", "communicates"), legendKey("waits", "waits"), role.events.some((e) => e.lane === 1) && role.events.every((e) => e.lane === 0 || e.end === e.begin) && el("span", { class: "dim" }, "predicted: nothing moves but while it is waited for")));
    const section = el("section", { id: "step" },
                       el("h2", {}, "Step ", el("small", {}, role.events.length > 0 ? "a rank over a step, predicted" : "the plan alone has no times: steps are drawn equally long", view.lanes.length > 0 ? "; under it the ranks as measured" : "", el("span", { class: "screen" }, ". A click chooses; drag moves; after a click, or with Ctrl, the wheel zooms"))),
                       controls, el("div", { class: "card lanes" }, view.canvas, view.tip),
                       view.aliveHead, el("div", { class: "legend" }, ALIVE_KINDS.map((name, i) => legendKey(`alive${i}`, name))), view.aliveBox,
                       el("h3", {}, "By operator"), operatorTable(app));
    new ResizeObserver(() => stepDraw(view)).observe(view.canvas);
    app.cursor = app.alive.peak;
    stepAlive(view);
    stepTip(view, null);
    return section;
}

function legendKey(colour, text) {
    return el("span", { class: "key" }, el("span", { class: "swatch", style: { background: `var(--${colour})` } }), text);
}

function stepHeight(view) {
    return STEP.axis + STEP.phase + STEP.compute + STEP.comm + 14 + STEP.memory + 10 + (view.lanes.length > 0 ? STEP.axis + 6 + STEP.rank * view.lanes.length : 0);
}

/* Where each strip begins, from above. */
function stepPlaces() {
    const phase = STEP.axis, compute = phase + STEP.phase, comm = compute + STEP.compute + 3, memory = comm + STEP.comm + 12, measured = memory + STEP.memory + 12;
    return { phase, compute, comm, memory, measured };
}

function stepDraw(view) {
    const { context, width } = canvasFit(view.canvas, stepHeight(view)), colours = canvasColours(), at = stepPlaces();
    const span = spanMake(view.window[0], view.window[1], STEP.left, Math.floor(width - STEP.left - STEP.right));
    view.span = span;
    context.fillStyle = colours.dim;
    const name = (text, y) => {
        context.fillStyle = colours.dim;
        context.textAlign = "right";
        context.fillText(text, STEP.left - 8, y);
        context.textAlign = "left";
    };
    name(view.app.program.role.events.length > 0 ? "predicted" : "steps", STEP.axis / 2);
    axisDraw(context, colours, span, STEP.axis / 2, view.app.program.role.events.length > 0 ? axisLabel : (t, by) => (by < 1 ? "" : String(t)));
    phasesDraw(view, context, colours, span, at.phase);
    name("compute", at.compute + STEP.compute / 2);
    laneDraw(context, colours, span, view.compute, at.compute, STEP.compute, (e) => (e.wait ? "waits" : "computes"), (e) => eventLabel(view.app, e));
    name("communication", at.comm + STEP.comm / 2);
    laneDraw(context, colours, span, view.comm, at.comm, STEP.comm, () => "communicates", (e) => eventLabel(view.app, e));
    const most = Math.max(view.app.program.role.arena, 1);
    name("memory", at.memory + 8);
    name(`arena ${bytes(view.app.program.role.arena)}`, at.memory + 22);
    name(`peak ${bytes(view.alive.total[view.alive.peak])}`, at.memory + 36);
    memoryDraw(context, colours, span, view.alive, view.begins, most, at.memory, STEP.memory);
    context.strokeStyle = colours.dim;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(span.x, at.memory + 0.5);
    context.lineTo(span.x + span.width, at.memory + 0.5);
    context.stroke();
    context.setLineDash([]);
    cursorDraw(view, context, colours, span, at);
    if (view.lanes.length > 0) measuredDraw(view, context, colours, at.measured, name);
    chosenDraw(view, context, colours, span, at);
}

function eventLabel(app, event) {
    const step = app.program.role.steps[event.step];
    const more = event.n > 1 ? ` +${event.n - 1}` : "";
    if (step.kind === 3) return `wait ${nameOfStep(app, step)}${more}`;
    return `${step.what || "write"} ${nameOfStep(app, step)}${more}`;
}

/* The value that a step makes or moves. */
function nameOfStep(app, step) {
    const instance = step.outs.length > 0 ? step.outs[0] : step.ins[0];
    return instance === undefined ? "" : valueOf(app, app.program.role.instances[instance]).name;
}

/* forward, backward, update: from the first step of each to the first of the next. */
function phasesDraw(view, context, colours, span, y) {
    const starts = view.app.phases;
    starts.forEach((phase, i) => {
        const x1 = Math.max(span.x, span.at(view.begins[phase.step])), x2 = Math.min(span.x + span.width, span.at(i + 1 < starts.length ? view.begins[starts[i + 1].step] : view.end));
        if (x2 <= x1) return;
        context.fillStyle = colours.line;
        context.fillRect(x1, y, x2 - x1 - 1, STEP.phase - 2);
        context.fillStyle = colours.dim;
        if (x2 - x1 > 56) context.fillText(PHASES[phase.phase], x1 + 4, y + STEP.phase / 2 - 1);
    });
}

function cursorDraw(view, context, colours, span, at) {
    const x = span.at(view.begins[view.app.cursor]);
    if (x < span.x - 1 || x > span.x + span.width) return;
    context.fillStyle = colours.text;
    context.fillRect(Math.round(x), at.phase, 1.5, at.memory + STEP.memory - at.phase);
}

/* A frame around what is chosen, in the predicted lanes. */
function chosenDraw(view, context, colours, span, at) {
    context.strokeStyle = colours.mark;
    context.lineWidth = 2;
    for (const e of eventsOfThing(view.app, view.app.chosen).slice(0, 200)) {
        const x1 = Math.max(span.x, span.at(e.begin)), x2 = Math.min(span.x + span.width, span.at(e.end));
        if (x2 < x1 || e.end < span.begin || e.begin > span.end) continue;
        const y = e.lane === 0 ? at.compute : at.comm, height = e.lane === 0 ? STEP.compute : STEP.comm, wide = Math.max(3, x2 - x1);
        context.strokeRect(x1 - (wide - (x2 - x1)) / 2, y - 1, wide, height + 2);
    }
    context.lineWidth = 1;
}

/* ---------------------------------------------------------------- measured lanes */

/* The window of the measured clock that shows the steps of the predicted window. */
function measuredWindow(view) {
    const { run } = view.app, whole = view.window[0] <= 0 && view.window[1] >= view.end;
    const end = Math.max(...run.lanes.map((lane) => lane.end), 1);
    if (whole) return [0, end];
    const lane = run.lanes[0], first = stepAtTime(view.begins, view.window[0]), last = stepAtTime(view.begins, view.window[1]);
    const begin = lane.compute[Math.max(0, lowerBound(lane.compute, first, (e) => e.step) - 0)], behind = lane.compute[Math.min(lane.compute.length - 1, lowerBound(lane.compute, last + 1, (e) => e.step))];
    if (!begin || !behind || behind.begin <= begin.begin) return begin ? [begin.begin, Math.max(begin.end, begin.begin + 1)] : [0, end];
    return [begin.begin, behind.step > last ? behind.begin : behind.end];
}

function measuredDraw(view, context, colours, y, name) {
    const [begin, end] = measuredWindow(view), span = spanMake(begin, end, STEP.left, view.span.width);
    view.measuredSpan = span;
    name("measured", y + STEP.axis / 2);
    axisDraw(context, colours, span, y + STEP.axis / 2);
    view.lanes.forEach((lane, i) => {
        const top = y + STEP.axis + 4 + i * STEP.rank;
        name(`rank ${lane.rank}`, top + 14);
        laneDraw(context, colours, span, lane.compute, top, 16, (e) => (e.wait ? "waits" : "computes"), (e) => eventLabel(view.app, e));
        laneDraw(context, colours, span, lane.comm, top + 17, 11, () => "communicates", (e) => eventLabel(view.app, e));
    });
}

/* ---------------------------------------------------------------- moving about */

function stepWindow(view, begin, end) {
    const length = Math.min(Math.max(end - begin, view.end / 1e5), view.end), first = Math.max(0, Math.min(begin, view.end - length));
    view.window = [first, first + length];
    stepDraw(view);
}

function stepAll(view) {
    stepWindow(view, 0, view.end);
}

function stepZoom(view, by, around) {
    const [begin, end] = view.window, cursor = view.begins[view.app.cursor];
    const at = around !== undefined ? around : cursor >= begin && cursor <= end ? cursor : (begin + end) / 2;
    stepWindow(view, at - (at - begin) * by, at + (end - at) * by);
}

function stepWheel(view, event) {
    if (!event.ctrlKey && document.activeElement !== view.canvas) return; /* the page scrolls */
    event.preventDefault();
    const px = event.clientX - view.canvas.getBoundingClientRect().left;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) stepPan(view, ((event.deltaX || event.deltaY) / view.span.width) * (view.window[1] - view.window[0]));
    else stepZoom(view, event.deltaY > 0 ? 1.25 : 0.8, view.span.time(px));
}

function stepPan(view, by) {
    stepWindow(view, view.window[0] + by, view.window[1] + by);
}

function stepDown(view, event) {
    if (event.button !== 0) return;
    view.drag = { x: event.clientX, window: view.window, moved: false };
    if (event.isTrusted) view.canvas.setPointerCapture(event.pointerId);
}

function stepMove(view, event) {
    if (!view.drag) return stepTip(view, stepHit(view, event));
    const by = event.clientX - view.drag.x;
    if (Math.abs(by) > 3) view.drag.moved = true;
    if (view.drag.moved) stepWindow(view, view.drag.window[0] - by / view.span.scale, view.drag.window[1] - by / view.span.scale);
}

function stepUp(view, event) {
    const drag = view.drag;
    view.drag = null;
    if (!drag || drag.moved) return;
    const hit = stepHit(view, event);
    if (hit.step !== null) stepCursor(view, hit.step);
    if (hit.event) view.app.choose(thingOfEvent(view.app, hit.event));
    else stepDraw(view);
}

/* {step, event, y}: what lies under the pointer. */
function stepHit(view, event) {
    const box = view.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, at = stepPlaces();
    if (y >= at.measured && view.lanes.length > 0) return measuredHit(view, x, y - at.measured - STEP.axis - 4);
    const ns = view.span.time(Math.max(view.span.x, Math.min(x, view.span.x + view.span.width))), near = 3 / view.span.scale;
    const list = y < at.comm - 1 ? (y >= at.compute ? view.compute : []) : y < at.memory - 4 ? view.comm : [];
    const found = eventAt(list, ns, near);
    return { step: found ? found.step : stepAtTime(view.begins, ns), event: found, memory: y >= at.memory - 4 };
}

function measuredHit(view, x, y) {
    const lane = view.lanes[Math.floor(y / STEP.rank)];
    if (!lane || !view.measuredSpan) return { step: null, event: null };
    const found = eventAt(y % STEP.rank < 17 ? lane.compute : lane.comm, view.measuredSpan.time(x), 3 / view.measuredSpan.scale);
    return { step: found ? found.step : null, event: found, rank: lane.rank };
}

/* A line of fixed height under the canvas: what is under the pointer. */
function stepTip(view, hit) {
    const { role } = view.app.program;
    if (!hit || hit.step === null) return replace(view.tip, el("span", { class: "dim" }, "Point at a lane: its name, length and bytes are said here. Keys: + − 0 zoom, n next wait, p peak, arrows move"));
    const e = hit.event, memory = `step ${hit.step + 1} of ${role.steps.length}; ${bytes(view.alive.total[hit.step])} alive in the arena`;
    if (!e) return replace(view.tip, memory);
    replace(view.tip, hit.rank !== undefined ? `rank ${hit.rank}, measured: ` : "", el("b", {}, eventLabel(view.app, e)), ` ${time(e.end - e.begin)}`, e.flops ? `, ${flopsText(e.flops)}` : "", e.bytes ? `, ${bytes(e.bytes)}` : "", `; ${memory}`);
}

function stepKey(view, event) {
    const span = view.window[1] - view.window[0], acts = { ArrowLeft: () => stepPan(view, -span / 8), ArrowRight: () => stepPan(view, span / 8), ArrowUp: () => stepZoom(view, 0.7), ArrowDown: () => stepZoom(view, 1.4) };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
}

/* The next wait behind the cursor that is longer than most: those that make up nine tenths of all waiting. */
function stepNextWait(view) {
    const waits = view.compute.filter((e) => e.wait && e.end > e.begin), ordered = [...waits].sort((a, b) => b.end - b.begin - (a.end - a.begin));
    const all = sum(waits, (e) => e.end - e.begin);
    let left = 0.9 * all, least = Infinity;
    for (const e of ordered) {
        if (left <= 0) break;
        least = e.end - e.begin;
        left -= least;
    }
    const long = waits.filter((e) => e.end - e.begin >= least), next = long.find((e) => e.step > view.app.cursor) || long[0];
    if (!next) return stepTip(view, null);
    stepCursor(view, next.step);
    const length = Math.max((next.end - next.begin) * 12, view.end / 200);
    stepWindow(view, (next.begin + next.end - length) / 2, (next.begin + next.end + length) / 2);
    view.app.choose(thingOfEvent(view.app, next));
}

function stepPeak(view) {
    stepCursor(view, view.alive.peak);
    const at = view.begins[view.alive.peak];
    if (at < view.window[0] || at > view.window[1]) stepAll(view);
    stepDraw(view);
}

function stepCursor(view, step) {
    view.app.cursor = step;
    stepAlive(view);
}

/* ---------------------------------------------------------------- alive at the cursor */

function stepAlive(view) {
    const { app } = view, { role } = app.program, step = app.cursor, groups = aliveGroups(app.program, step);
    const values = sum(groups, (g) => g.count), most = Math.max(1, ...groups.map((g) => g.bytes)), peak = step === view.alive.peak;
    const memory = role.memory, rest = memory ? `; with states, inputs and constants ${bytes(view.alive.total[step] + memory.states + memory.inputs + memory.constants)}` : "";
    replace(view.aliveHead, `Alive at step ${step + 1} of ${role.steps.length}${peak ? ", the peak" : ""}: ${bytes(view.alive.total[step])} in ${plural(values, "value")}${rest}`);
    const named = (i) => (i < 0 || i >= role.steps.length ? "" : role.steps[i].what || STEP_KINDS[role.steps[i].kind]);
    const columns = [
        { head: "alive", class: "name", cell: (g) => [g.name, g.count > 1 && el("span", { class: "count" }, `× ${g.count}`)], sort: (g) => g.name },
        { head: "as", class: "dim", cell: (g) => [el("span", { class: "swatch", style: { background: `var(--alive${g.kind})` } }), ALIVE_KINDS[g.kind]], sort: (g) => g.kind },
        { head: "lies as", cell: (g) => chip(app.plan, g.layout, valueOf(app, g.instances[0]).type) },
        { head: "each", class: "num", cell: (g) => bytes(g.each), sort: (g) => g.each },
        { head: "together", class: "num", cell: (g) => bytes(g.bytes), sort: (g) => g.bytes },
        { head: "", class: "share short", cell: (g) => el("span", { class: "bar" }, el("b", { style: { width: `${(100 * g.bytes) / most}%`, background: `var(--alive${g.kind})` } })) },
        { head: "from … to", class: "dim", cell: (g) => `${named(g.instances[0].first)} … ${named(g.instances[0].last)}` },
    ];
    const row = (g) => pressable(() => app.choose({ kind: "node", id: valueOf(app, g.instances[0]).node }));
    replace(view.aliveBox, groups.length > 0 ? sortableTable(columns, groups, { sorted: 4, row }) : el("p", { class: "dim" }, "Nothing lies in the arena at this step."));
}

/* ---------------------------------------------------------------- by operator */

/* Rows {op, calls, ns, measured, flops, bytes, wait}: kernels by operator, waits by communication. */
function operatorRows(app) {
    const { role, nodes } = app.program, rows = new Map();
    const at = (op, wait) => {
        if (!rows.has(op)) rows.set(op, { op, wait, calls: 0, ns: 0, measured: 0, late: 0, flops: 0, bytes: 0, node: -1, comm: -1 });
        return rows.get(op);
    };
    for (const node of nodes) {
        if (node.ns === 0 && node.measured === 0 && node.kernel < 0) continue;
        const row = at(node.op, false);
        row.calls++;
        row.ns += node.ns;
        row.measured += node.measured;
        row.flops += node.flops;
        row.bytes += node.bytes;
        if (row.node < 0 || nodes[row.node].ns < node.ns) row.node = node.id;
    }
    for (const comm of role.comms) {
        const row = at(`${comm.kind} (waiting)`, true);
        row.calls++;
        row.ns += comm.waited;
        row.measured += comm.measuredWait;
        row.late += comm.late;
        row.bytes += comm.received.max;
        if (row.comm < 0 || role.comms[row.comm].waited < comm.waited) row.comm = comm.id;
    }
    return [...rows.values()];
}

function operatorTable(app) {
    const rows = operatorRows(app).filter((r) => r.ns > 0 || r.measured > 0), measured = app.run !== null, of = (r) => (measured ? r.measured : r.ns);
    if (rows.length === 0) return el("p", { class: "dim" }, "This report was written from the plan alone, which has no times. pcc --report has them.");
    const all = Math.max(1, sum(rows, of)), most = Math.max(...rows.map(of)), peak = peakOf(app);
    const columns = [
        { head: "operator", cell: (r) => r.op, sort: (r) => r.op },
        { head: "calls", class: "num", cell: (r) => r.calls, sort: (r) => r.calls },
        { head: "predicted", class: "num", cell: (r) => time(r.ns), sort: (r) => r.ns },
    ];
    if (measured)
        columns.push({ head: "measured", class: "num", title: "mean over ranks and steps", cell: (r) => time(r.measured), sort: (r) => r.measured },
                     { head: "× predicted", class: "num", cell: (r) => (r.ns > 0 ? el("span", { class: r.measured > 3 * r.ns && of(r) > 0.01 * all ? "bad" : null }, digits3(r.measured / r.ns)) : "–"), sort: (r) => (r.ns > 0 ? r.measured / r.ns : 0) },
                     { head: "late", class: "num", title: "of it: waiting for a rank that had not started yet", cell: (r) => orBlank(r.late, time), sort: (r) => r.late });
    columns.push(
        { head: "share", class: "num", cell: (r) => percent(of(r) / all), sort: of },
        { head: "", class: "share", cell: (r) => el("span", { class: "bar" }, el("b", { class: r.wait ? "waits" : "computes", style: { width: `${(100 * of(r)) / most}%` } })) },
        { head: "FLOPs", class: "num", cell: (r) => orBlank(r.flops, si), sort: (r) => r.flops },
        { head: "FLOP/s", class: "num dim", cell: (r) => (r.flops > 0 && of(r) > 0 ? si((1e9 * r.flops) / of(r)) : ""), sort: (r) => (of(r) > 0 ? r.flops / of(r) : 0) },
        { head: "B/s", class: "num dim", cell: (r) => (!r.wait && r.bytes > 0 && of(r) > 0 ? bytes((1e9 * r.bytes) / of(r)) : ""), sort: (r) => (of(r) > 0 ? r.bytes / of(r) : 0) });
    if (peak) columns.push({ head: "of peak", class: "num", title: "the larger of FLOPs against the peak of products, bytes against that of memory", cell: (r) => (r.wait || of(r) <= 0 ? "" : orBlank(shareOfPeak(r, of(r), peak), percent)), sort: (r) => (r.wait || of(r) <= 0 ? 0 : shareOfPeak(r, of(r), peak)) });
    const row = (r) => pressable(() => app.choose(r.comm >= 0 ? { kind: "comm", id: r.comm } : { kind: "node", id: r.node }));
    return el("div", { class: "scroll resize operators" }, sortableTable(columns, rows, { sorted: measured ? 3 : 2, row }));
}

/* {flops, bytes} a second of a rank: as the run measured them, else of the machine that the plan was made for. */
function peakOf(app) {
    if (app.run && app.run.raw.peaks) return app.run.raw.peaks;
    const machine = app.plan.raw.machine;
    return machine && machine.flops ? { flops: machine.flops.f32, bytes: machine.memory_bytes_per_s } : null;
}

function shareOfPeak(row, ns, peak) {
    return Math.max(peak.flops > 0 ? (1e9 * row.flops) / ns / peak.flops : 0, peak.bytes > 0 ? (1e9 * row.bytes) / ns / peak.bytes : 0);
}
