/* The data of a plan (docs/report.md) as objects that know each other. Numbers of rows stay what they are in the data: node 5 is
 * program.nodes[5]. Seconds are ns. */

const PHASES = ["forward", "backward", "update"];
const PLACES = ["arena", "state", "input", "constant", "inner", "view"];
const ALIVE_KINDS = ["of the forward pass", "kept for the backward pass", "converted", "gradient of a parameter", "of the backward pass", "of the update"];
const STEP_KINDS = ["kernel", "local", "start", "wait", "write"];
const STATE_KINDS = ["parameter", "slot of the optimizer", "const", "written by the net", "cache"];
const FROM = { none: 0, hint: 1, propagated: 2, batch: 3, origin: 4, whole: 5, train: 6, search: 7, state: 8 };
const DECIDED = ["nothing", "it is the only candidate", "fewest bytes", "fewest FLOPs", "fits its operands better", "splits more of the batch", "the first in order"];

/* only: the name of the one program to read, where the plan has it; without it all are read. */
function planRead(raw, only) {
    const plan = { raw, net: raw.net, ranks: raw.ranks, strings: raw.strings, seen: new Map(), layoutNames: new Map() };
    const text = (i) => (i < 0 || i === undefined ? "" : raw.strings[i]);
    plan.text = text;
    plan.files = raw.files.map((f) => ({ name: text(f[0]), lines: f[1] === null || f[1] === undefined ? null : f[1].split("\n") }));
    plan.mesh = raw.mesh.map((m, i) => ({ name: text(m[0]), size: m[1], stride: m[2], own: i < raw.mesh_axes }));
    plan.types = raw.types.map((t) => ({ dtype: t[0], hidden: !!t[1], shape: t[2], text: typeText(t) }));
    plan.layouts = raw.layouts.map(layoutOfRow);
    plan.calls = (raw.calls || []).map((c, id) => ({ id, cell: text(c[0]), path: text(c[1]), place: placeAt(c, 2), outer: c[6] }));
    for (const call of plan.calls) if (call.outer >= 0 && /^\.\d/.test(call.path.slice(plan.calls[call.outer].path.length))) call.outer = plan.calls[call.outer].outer; /* h.0 of a loop stands beside the call that h was before */
    plan.hints = (raw.hints || []).map((h, id) => ({ id, place: placeAt(h, 0), to: placeAt(h, 4), node: h[8], name: text(h[9]) }));
    plan.warnings = (raw.warnings || []).map((w) => ({ flag: text(w[0]), place: placeAt(w, 1), message: text(w[5]), nodes: w[6], notes: w[7].map((n) => ({ place: placeAt(n, 0), text: text(n[4]) })), hints: w[8].map(text) }));
    plan.demands = (raw.demands || []).map((d) => ({ text: text(d[0]), measured: d[1], limit: d[2], unit: text(d[3]), place: placeAt(d, 4) }));
    plan.measures = (raw.measures || []).map((m) => ({ name: text(m[0]), share: m[1], saved: m[2], ns: m[3] }));
    plan.states = raw.states.map((s, id) => stateOfRow(plan, s, id));
    const wanted = raw.programs.filter((p) => p.name === only);
    plan.programs = (!only ? raw.programs : wanted.length > 0 ? wanted : raw.programs.slice(0, 1)).map((p) => programRead(plan, p));
    plan.axes = axesOf(plan);
    return plan;
}

const placeAt = (row, i) => ({ file: row[i], line: row[i + 1], column: row[i + 2], length: row[i + 3] });
const typeText = (t) => `${t[0]}[${t[1] ? [t[2][0] + " |", t[2].slice(1).join(", ")].join(" ") : t[2].join(", ")}]`;

function layoutOfRow(row) {
    const pairs = (flat) => {
        const made = [];
        for (let i = 0; i < flat.length; i += 2) made.push({ size: flat[i], stride: flat[i + 1] });
        return made;
    };
    const layout = { dims: row[0].map(pairs), halos: row[0].map(() => null), partial: [] };
    ["sum", "max", "min"].forEach((kind, i) => row[1][i] && row[1][i].length > 0 && layout.partial.push({ kind, digits: pairs(row[1][i]) }));
    for (const h of row[2] || []) layout.halos[h[0]] = { kind: ["sees", "seen", "around"][h[1]], of: h[2], stride: h[3], low: h[4], high: h[5] };
    layout.text = layoutText(layout);
    return layout;
}

const digitsText = (digits) => (digits.length ? digits.map((d) => `${d.size}@${d.stride}`).join(".") : "-");

function layoutText(layout) {
    const halo = (h) => (h ? `~${h.kind}(${h.of},${h.stride},${h.low},${h.high})` : "");
    return `[${layout.dims.map((d, i) => digitsText(d) + halo(layout.halos[i])).join(" ")}]` + layout.partial.map((p) => ` +${p.kind}(${digitsText(p.digits)})`).join("");
}

function stateOfRow(plan, s, id) {
    return { id, name: plan.text(s[0]), type: plan.types[s[1]], layout: plan.layouts[s[2]], kind: s[3], parameter: s[4], bytes: s[5], whole: s[6], place: placeAt(s, 7) };
}

/* ---------------------------------------------------------------- a program */

function programRead(plan, p) {
    const text = plan.text, program = { plan, name: p.name, loss: p.loss };
    program.states = [...plan.states, ...(p.states || []).map((s, i) => stateOfRow(plan, s, plan.states.length + i))];
    program.inputs = p.inputs.map((s) => ({ name: text(s[0]), type: plan.types[s[1]], layout: plan.layouts[s[2]], kind: text(s[3]), bytes: s[4], place: placeAt(s, 5) }));
    program.values = p.values.map((v, id) => ({ id, name: text(v[0]), type: plan.types[v[1]], node: v[2], instances: NONE, users: NONE }));
    program.nodes = p.nodes.map((n, id) => nodeOfRow(plan, p, n, id));
    program.decisions = p.decisions || [];
    program.roles = p.roles.map((r) => roleRead(plan, program, r));
    program.role = program.roles[0];
    for (const instance of program.role.instances) listAdd(program.values[instance.value], "instances", instance.id);
    program.reads = new Map(); /* state -> the node that reads it */
    for (const node of program.nodes) if (node.op === "read" && !program.reads.has(node.state)) program.reads.set(node.state, node.id);
    for (const node of program.nodes) node.home = homeOf(program, node);
    attribute(program);
    return program;
}

/* Most lists of a row have one item or none: NONE stands for each that is empty, and the first item makes a list of its own. */
const NONE = Object.freeze([]);
function listAdd(row, name, item) {
    if (row[name] === NONE) row[name] = [item];
    else row[name].push(item);
}

function nodeOfRow(plan, p, n, id) {
    const text = plan.text, why = p.why && p.why[id];
    return {
        id, op: text(n[0]), name: text(n[1]), ins: n[2], outs: n[3], place: placeAt(n, 4), origin: n[8], phase: n[9], batch: n[10], copyOf: n[11], state: n[12], attributes: text(n[13]),
        why: why ? { strategy: text(why[0]), from: why[1], hint: why[2], asked: why[3], decision: why[4] } : null,
        call: why ? why[5] : -1,
        kernel: -1, ns: 0, measured: 0, flops: 0, bytes: 0, comms: NONE, home: id,
    };
}

function roleRead(plan, program, r) {
    const text = plan.text, role = { ranks: r.ranks, arena: r.arena, fullest: r.fullest, memory: r.memory, totals: r.totals || null, flops: r.flops || null, predicted: r.predicted || null };
    role.instances = r.instances.map((i, id) => ({ id, value: i[0], layout: plan.layouts[i[1]], place: i[2], at: i[3], bytes: i[4], first: i[5], last: i[6], kind: i[7], takers: NONE, maker: -1 }));
    role.steps = r.steps.map((s, id) => ({ id, kind: s[0], what: text(s[1]), node: s[2], ins: s[3], outs: s[4], request: s[5], bucket: s[6], fused: s[7], state: s[8], comm: -1, ns: 0 }));
    role.comms = (r.comms || []).map((c, id) => commOfRow(plan, program, role, c, id));
    role.events = (r.events || []).map((e, id) => ({ id, step: e[0], n: e[1], lane: e[2], begin: e[3], end: e[3] + e[4], flops: e[5], bytes: e[6] }));
    return role;
}

function commOfRow(plan, program, role, c, id) {
    const comm = {
        id, step: c[0], value: c[1], from: c[2], to: c[3], kind: plan.text(c[4]), bucket: c[5],
        sent: { total: c[6], max: c[7] }, received: { total: c[8], max: c[9] }, least: { total: c[10], max: c[11] }, ns: c[12], waited: c[13], measured: 0, measuredWait: 0, late: 0,
    };
    comm.name = program.values[comm.value].name;
    comm.layouts = [role.instances[comm.from].layout, role.instances[comm.to].layout];
    role.steps[comm.step].comm = id;
    return comm;
}

/* The node under whose line in the source the work of this one is counted: of a gradient its operator, of an update its parameter. */
function homeOf(program, node) {
    if (node.phase === 0 && node.copyOf < 0) return node.id;
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
    const { role, nodes } = program;
    const waits = new Map(), weight = (step) => 1 + sum(step.outs, (i) => role.instances[i].bytes);
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
        for (let s = event.step; s < event.step + event.n; s++) all += weight(role.steps[s]);
        for (let s = event.step; s < event.step + event.n; s++) {
            const step = role.steps[s], node = nodes[step.node >= 0 ? step.node : nodeOfWrite(program, step)], share = weight(step) / all;
            step.ns += (event.end - event.begin) * share;
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
    for (const node of program.nodes) for (const v of node.ins) listAdd(program.values[v], "users", node.id);
    for (const role of program.roles) {
        for (const step of role.steps) {
            for (const i of step.ins) listAdd(role.instances[i], "takers", step.id);
            if (step.kind !== 3) for (const i of step.outs) role.instances[i].maker = step.id;
        }
    }
    for (const comm of program.role.comms) listAdd(program.nodes[program.values[comm.value].node], "comms", comm.id);
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
