/* The data of a plan (docs/report.md) as objects that know each other. Numbers of rows stay what they are in the data: node 5 is
 * program.nodes[5]. Seconds are ns. */

const PHASES = ["forward", "backward", "update"];
const PLACES = ["arena", "state", "input", "constant", "inner", "view", "on ranks of another stage"];
const ALIVE_KINDS = ["of the forward pass", "kept for the backward pass", "converted", "gradient of a parameter", "of the backward pass", "of the update"];
const STEP_KINDS = ["kernel", "local", "start", "wait", "write"];
const STATE_KINDS = ["parameter", "slot of the optimizer", "const", "written by the net", "cache"];
const FROM = { none: 0, hint: 1, propagated: 2, batch: 3, origin: 4, whole: 5, train: 6, search: 7, state: 8 };
const DECIDED = ["nothing", "it is the only candidate", "fewest bytes", "fewest FLOPs", "fits its operands better", "splits more of the batch", "the first in order"];

function planRead(raw) {
    const plan = { raw, net: raw.net, ranks: raw.ranks, strings: raw.strings, layoutNames: new Map(), apps: [], begun: new Map() };
    const text = (i) => (i < 0 || i === undefined ? "" : raw.strings[i]);
    plan.text = text;
    plan.files = raw.files.map((f) => ({ name: text(f[0]), lines: f[1] === null || f[1] === undefined ? null : f[1].split("\n") }));
    plan.mesh = raw.mesh.map((m, i) => ({ name: text(m[0]), size: m[1], stride: m[2], own: i < raw.mesh_axes }));
    plan.types = raw.types.map((t) => ({ dtype: t[0], hidden: !!t[1], shape: t[2], text: typeText(t) }));
    const staged = raw.programs.some((p) => p.roles.length > 1);
    plan.layouts = raw.layouts.map((row) => layoutOfRow(row, staged));
    plan.calls = (raw.calls || []).map((c, id) => ({ id, cell: text(c[0]), path: text(c[1]), place: placeAt(c, 2), outer: c[6] }));
    for (const call of plan.calls) if (call.outer >= 0 && /^\.\d/.test(call.path.slice(plan.calls[call.outer].path.length))) call.outer = plan.calls[call.outer].outer; /* h.0 of a loop stands beside the call that h was before */
    plan.hints = (raw.hints || []).map((h, id) => ({ id, place: placeAt(h, 0), to: placeAt(h, 4), node: h[8], name: text(h[9]) }));
    plan.warnings = (raw.warnings || []).map((w) => ({ flag: text(w[0]), place: placeAt(w, 1), message: text(w[5]), nodes: w[6], notes: w[7].map((n) => ({ place: placeAt(n, 0), text: text(n[4]) })), hints: w[8].map(text) }));
    plan.demands = (raw.demands || []).map((d) => ({ text: text(d[0]), measured: d[1], limit: d[2], unit: text(d[3]), place: placeAt(d, 4) }));
    plan.measures = (raw.measures || []).map((m) => ({ name: text(m[0]), share: m[1], saved: m[2], ns: m[3] }));
    plan.states = raw.states.map((s, id) => stateOfRow(plan, s, id));
    plan.programs = raw.programs.map((p) => ({ name: p.name, roles: p.roles.length }));
    plan.axes = axesOf(plan);
    return plan;
}

/* The program of this name, else the first one. */
function programNumber(plan, name) {
    return Math.max(0, plan.programs.findIndex((p) => p.name === name));
}

const placeAt = (row, i) => ({ file: row[i], line: row[i + 1], column: row[i + 2], length: row[i + 3] });
const typeText = (t) => `${t[0]}[${t[1] ? [t[2][0] + " |", t[2].slice(1).join(", ")].join(" ") : t[2].join(", ")}]`;

/* staged: of a pipeline, where ranks of one stage hold what is pinned; else a single rank does. */
function layoutOfRow(row, staged) {
    const pairs = (flat) => {
        const made = [];
        for (let i = 0; i < flat.length; i += 2) made.push({ size: flat[i], stride: flat[i + 1] });
        return made;
    };
    const layout = { dims: row[0].map(pairs), halos: row[0].map(() => null), partial: [] };
    ["sum", "max", "min"].forEach((kind, i) => row[1][i] && row[1][i].length > 0 && layout.partial.push({ kind, digits: pairs(row[1][i]) }));
    for (const h of row[2] || []) layout.halos[h[0]] = { kind: ["sees", "seen", "around"][h[1]], of: h[2], stride: h[3], low: h[4], high: h[5] };
    layout.pin = row[3] ? { size: row[3][0], stride: row[3][1], value: row[3][2] } : null;
    layout.stage = staged && layout.pin ? layout.pin.value : -1;
    layout.held = !layout.pin ? "" : staged ? `stage ${layout.pin.value}` : `rank ${layout.pin.value * layout.pin.stride}`;
    layout.text = layoutText(layout);
    return layout;
}

const digitsText = (digits) => (digits.length ? digits.map((d) => `${d.size}@${d.stride}`).join(".") : "-");

function layoutText(layout) {
    const halo = (h) => (h ? `~${h.kind}(${h.of},${h.stride},${h.low},${h.high})` : "");
    return `[${layout.dims.map((d, i) => digitsText(d) + halo(layout.halos[i])).join(" ")}]` + layout.partial.map((p) => ` +${p.kind}(${digitsText(p.digits)})`).join("") + (layout.pin ? ` only(${layout.pin.size}@${layout.pin.stride}=${layout.pin.value})` : "");
}

function stateOfRow(plan, s, id) {
    return { id, name: plan.text(s[0]), type: plan.types[s[1]], layout: plan.layouts[s[2]], kind: s[3], parameter: s[4], bytes: s[5], whole: s[6], place: placeAt(s, 7) };
}

/* ---------------------------------------------------------------- a program */

/* Program number `number` as the ranks of one role see it; role undefined: of the role whose ranks need most memory, as --stats. */
function* programPieces(plan, number, role) {
    const text = plan.text, p = plan.raw.programs[number], program = { plan, name: p.name, loss: p.loss };
    const memory = (r) => (r.memory ? r.memory.rank : r.arena), at = role ?? p.roles.reduce((most, r, i) => (memory(r) > memory(p.roles[most]) ? i : most), 0);
    program.states = [...plan.states, ...(p.states || []).map((s, i) => stateOfRow(plan, s, plan.states.length + i))];
    program.inputs = p.inputs.map((s) => ({ name: text(s[0]), type: plan.types[s[1]], layout: plan.layouts[s[2]], kind: text(s[3]), bytes: s[4], place: placeAt(s, 5) }));
    program.columns = { values: { ...columnsOf(p.values) }, nodes: { ...columnsOf(p.nodes), why: p.why ? columnsOf(p.why) : null } }; /* and what is computed of them for this role */
    program.values = rowsOf(ValueRow, program.columns.values, plan);
    yield;
    program.nodes = rowsOf(NodeRow, program.columns.nodes, plan);
    yield;
    program.decisions = p.decisions ? columnsOf(p.decisions) : null;
    program.weighed = p.weighed ? columnsOf(p.weighed) : null;
    program.stages = p.roles.map((r, i) => ({ number: i, ranks: r.ranks, arena: r.arena, memory: r.memory, totals: r.totals || null, predicted: r.predicted || null, raw: r }));
    program.stage = at;
    program.role = yield* rolePieces(plan, program, p.roles[at]);
    program.columns.values.instances = inverseOf(program.role.columns.instances.value, program.values.length);
    program.reads = new Map(); /* state -> the node that reads it */
    for (const node of program.nodes) if (node.op === "read" && !program.reads.has(node.state)) program.reads.set(node.state, node.id);
    yield;
    for (const node of program.nodes) node.home = homeOf(program, node);
    yield;
    attribute(program);
    return program;
}

/* {by, hint, from, candidates, alternatives: [{strategy, bytes, messages, flops}, ..]}; null: -1. */
function decisionAt(program, number) {
    const d = program.decisions;
    if (!d || number < 0) return null;
    const bytes = listAt(d.bytes, number), messages = listAt(d.messages, number), flops = listAt(d.flops, number);
    const alternatives = listAt(d.strategies, number).map((s, i) => ({ strategy: program.plan.text(s), bytes: bytes[i], messages: messages[i], flops: flops[i] }));
    return { by: d.by[number], hint: d.hint[number], from: d.from[number], candidates: d.candidates[number], alternatives };
}

/* What the search weighed for a node: {strategies, alternatives: [{strategy, ns}, ..]}, the one taken first; undefined: nothing. */
function weighedFor(program, id) {
    const w = program.weighed;
    if (!program.weighedAt) program.weighedAt = new Map(w ? w.node.map((node, i) => [node, i]) : []);
    const at = program.weighedAt.get(id);
    return at === undefined ? undefined : { strategies: w.strategies[at], alternatives: listAt(w.alternatives, at).map((s, i) => ({ strategy: program.plan.text(s), ns: listAt(w.ns, at)[i] })) };
}

function* rolePieces(plan, program, r) {
    const role = { ranks: r.ranks, arena: r.arena, fullest: r.fullest, memory: r.memory, totals: r.totals || null, flops: r.flops || null, predicted: r.predicted || null };
    role.columns = { instances: columnsOf(r.instances), steps: columnsOf(r.steps) };
    yield;
    role.instances = rowsOf(InstanceRow, role.columns.instances, plan);
    yield;
    role.steps = rowsOf(StepRow, role.columns.steps, plan);
    yield;
    role.comms = commsRead(plan, program, role, columnsOf(r.comms));
    yield;
    role.events = r.events ? rowsOf(EventRow, columnsOf(r.events), plan) : [];
    yield;
    return role;
}

/* A page that prun wrote from a plan alone knows neither the least that must move nor what takes how long; nor, of very many ranks, bytes. */
function commsRead(plan, program, role, c) {
    const of = (name, id) => (c[name] ? c[name][id] : 0);
    role.counted = c.received !== undefined;
    return c.step.map((step, id) => {
        role.steps[step].comm = id;
        return {
            id, step, value: c.value[id], from: c.from[id], to: c.to[id], kind: plan.text(c.kind[id]), bucket: c.bucket[id],
            sent: { total: of("sent", id), max: of("sent_max", id) }, received: { total: of("received", id), max: of("received_max", id) }, least: { total: of("least", id), max: of("least_max", id) },
            ns: of("ns", id), waited: of("waited", id), measured: 0, measuredWait: 0, late: 0,
            name: program.values[c.value[id]].name, layouts: [role.instances[c.from[id]].layout, role.instances[c.to[id]].layout],
        };
    });
}

/* The node under whose line in the source the work of this one is counted: of a gradient its operator, of an update its parameter, of a later batch
 * of the step the first one's. */
function homeOf(program, node) {
    if (node.phase === 0 && node.copyOf < 0 && !(node.batch > 0 && node.origin >= 0 && node.origin < node.id)) return node.id;
    for (const next of [node.copyOf, node.origin]) if (next >= 0 && next < node.id) return program.nodes[next].home;
    if (node.phase === 2 || node.op === "write") {
        const state = node.state >= 0 ? program.states[node.state] : null;
        if (state && program.reads.has(state.parameter)) return program.reads.get(state.parameter);
        for (const v of node.ins) {
            const maker = program.nodes[program.values[v].node];
            if (maker.op === "read") return maker.id;
        }
    }
    return node.id;
}

/* Seconds, FLOPs, bytes and communications of nodes. A fused step's are shared among its members by the bytes that they make. */
function attribute(program) {
    const { role, nodes } = program, { bytes } = role.columns.instances, { outs } = role.columns.steps, waits = new Map();
    const weight = (s) => {
        let made = 1;
        for (let k = outs.start[s]; k < outs.start[s + 1]; k++) made += bytes[outs.members[k]];
        return made;
    };
    for (const comm of role.comms) waits.set(role.steps[comm.step].request, comm);
    role.steps.forEach((step) => {
        if (step.kind === 3 && waits.has(step.request)) step.comm = waits.get(step.request).id;
        if (step.kind === 0 && step.node >= 0) nodes[step.node].kernel = step.id;
        if (step.kind === 1 && step.node < 0) step.node = program.values[role.instances[step.outs[0]].value].node;
    });
    for (const event of role.events) {
        if (event.lane !== 0) continue;
        event.wait = role.steps[event.step].kind === 3;
        if (event.wait) continue;
        let all = 0;
        for (let s = event.step; s < event.step + event.n; s++) all += weight(s);
        for (let s = event.step; s < event.step + event.n; s++) {
            const step = role.steps[s], node = nodes[step.node >= 0 ? step.node : nodeOfWrite(program, step)], share = weight(s) / all;
            node.ns += (event.end - event.begin) * share;
            node.flops += event.flops * share;
            node.bytes += event.bytes * share;
        }
    }
}

/* Who makes and who takes: what the shown program needs, and one that is only compared does not. */
function linksMake(program) {
    if (program.linked) return;
    program.linked = true;
    const { role } = program, { values, nodes } = program.columns, { instances, steps } = role.columns;
    values.users = inverseOf(nodes.ins, values.rows);
    instances.takers = inverseOf(steps.ins, instances.rows);
    instances.maker = new Int32Array(instances.rows).fill(-1);
    for (let s = 0; s < steps.rows; s++) if (steps.kind[s] !== 3) for (let k = steps.outs.start[s]; k < steps.outs.start[s + 1]; k++) instances.maker[steps.outs.members[k]] = s;
    nodes.comms = inverseOf(role.comms.map((comm) => values.node[comm.value]), nodes.rows);
    stagesOfNodes(program);
}

/* Of a pipeline: which stage runs a node, this one where it does. */
function stagesOfNodes(program) {
    if (program.stages.length < 2) return;
    for (const stage of [...program.stages].sort((a, b) => (b.number === program.stage) - (a.number === program.stage))) {
        const { kind, node } = columnsOf(stage.raw.steps);
        kind.forEach((k, i) => {
            if (k === 0 && program.nodes[node[i]].stage < 0) program.nodes[node[i]].stage = stage.number;
        });
    }
}

function nodeOfWrite(program, step) {
    return program.values[program.role.instances[step.ins[0]].value].node;
}

/* ---------------------------------------------------------------- axes */

/* The digits that have a name and a colour: the mesh's axes, or, without a mesh, digits by first use. */
function axesOf(plan) {
    const own = plan.mesh.filter((axis) => axis.size > 1);
    const axes = [];
    for (const axis of own) if (!axes.some((a) => a.size === axis.size && a.stride === axis.stride)) axes.push({ ...axis, colour: axes.length });
    if (axes.length > 0) return axes;
    const used = new Map();
    for (const layout of plan.layouts) for (const d of [...splitDigits(layout), ...partialDigits(layout)]) used.set(`${d.size}@${d.stride}`, d);
    const sorted = [...used.values()].sort((a, b) => b.stride - a.stride || a.size - b.size);
    return sorted.map((d, i) => ({ name: String(d.size), size: d.size, stride: d.stride, own: false, colour: i }));
}

/* A digit in the words of the mesh: [{name, colour}], several where it is a product of axes, "tp/2" where it is a part of one. */
function digitNamed(plan, d) {
    const exact = plan.axes.find((a) => a.size === d.size && a.stride === d.stride);
    if (exact) return [exact];
    const inside = plan.axes.filter((a) => a.own && digitWithin(a, d)).sort((a, b) => b.stride - a.stride);
    if (inside.length > 1 && parts(inside) === d.size) return inside;
    const around = plan.axes.find((a) => a.own && digitWithin(d, a));
    return [{ name: around ? `${around.name}:${d.size}` : String(d.size), colour: around ? around.colour : (d.stride * 3 + d.size) % 8 }];
}

/* dp 2 × tp 4 */
function meshText(plan) {
    const own = plan.mesh.filter((axis) => axis.own);
    return own.length > 0 ? own.map((axis) => `${axis.name} ${axis.size}`).join(" × ") : "no mesh named";
}

/* Of a rank: "dp 0, tp 2". */
function rankText(plan, rank) {
    const own = plan.mesh.filter((axis) => axis.own);
    return own.map((axis) => `${axis.name} ${digitOf(axis, rank)}`).join(", ");
}

function placeText(plan, place) {
    if (!place || place.line === 0) return "";
    const file = plan.files[place.file];
    return `${file ? file.name : "line "}${file ? ":" : ""}${place.line}:${place.column}`;
}

/* The text of a line of the source, null where the report has none. */
function sourceLine(plan, place) {
    const file = place && place.line > 0 ? plan.files[place.file] : null;
    return file && file.lines ? file.lines[place.line - 1] || "" : null;
}

/* The places that lead to a node, the outermost call first. */
function chainOf(plan, node) {
    const places = [node.place];
    for (let call = node.call; call >= 0; call = plan.calls[call].outer) places.unshift(plan.calls[call].place);
    return places.filter((p, i) => p.line > 0 && (i === 0 || p.line !== places[i - 1].line || p.file !== places[i - 1].file));
}
