/* Compare: this plan (A) and another one (B), embedded by pcc --diff --report, or a report's file chosen in the page. */

function compareSection(app) {
    const section = el("section", { id: "compare", hidden: true });
    app.compare = { app, section, other: null };
    return section;
}

/* A report's file as text -> {plan, run} as data; throws what to say. */
function reportParse(text) {
    const element = (id) => {
        const found = text.match(new RegExp(`<script type="application/json" id="${id}">([^<]*)<`));
        return found ? JSON.parse(found[1]) : null;
    };
    const plan = element("plan");
    if (!plan) throw new Error("it is no report of pcc or prun");
    if (plan.format !== PAGE_FORMAT) throw new Error(`it has format ${plan.format}, and this page reads format ${PAGE_FORMAT}: make it anew with this pcc`);
    return { plan, run: element("run") };
}

/* An input that asks for a file; its other name in the bar is Compare… */
function compareChooser(app) {
    const input = el("input", { type: "file", accept: ".html,.htm", hidden: true, "aria-label": "another report" });
    input.addEventListener("change", async () => {
        const file = input.files[0];
        input.value = "";
        if (!file) return;
        try {
            const data = reportParse(await file.text());
            app.say(`Reading ${file.name} …`);
            for (const _ of comparePieces(app, data.plan, data.run, file.name)) await new Promise((done) => setTimeout(done)); /* clicks in between are answered */
            app.say("");
            goTo(app, "compare");
        } catch (error) {
            app.say(`${file.name} cannot be compared: ${error.message}`);
        }
    });
    return input;
}

function compareWith(app, rawPlan, rawRun, name) {
    finished(comparePieces(app, rawPlan, rawRun, name));
}

function* comparePieces(app, rawPlan, rawRun, name) {
    yield;
    const plan = planRead(rawPlan), number = programNumber(plan, app.program.name);
    const program = yield* programPieces(plan, number, plan.programs[number].roles === app.program.stages.length ? app.program.stage : undefined);
    yield;
    const other = { plan, program, run: rawRun && rawRun.checksum === rawPlan.checksum && rawRun.measured > 0 ? runRead(rawRun, program) : null, name };
    other.begins = stepTimes(program.role);
    yield;
    const communications = compareComms(app, other);
    yield;
    const layouts = compareLayouts(app, other);
    yield;
    Object.assign(app.compare, { other, communications, layouts });
    compareDraw(app.compare);
    yield;
    app.compare.section.hidden = false;
    compareLanes(app.compare);
    app.drawBar();
}

/* Which plan it is: its file, where --diff was given one, and how it was made. */
const planTitle = (raw) => [raw.file, raw.command || raw.options].filter((x) => x).join(": ");

function compareDraw(view) {
    const { app, other, section, communications: differ, layouts } = view, figures = compareFigures(app, other);
    const same = figures.every((f) => f.a === f.b) && differ.length === 0 && layouts.length === 0;
    const commands = el("p", { class: "dim" }, el("b", {}, "A"), ` ${planTitle(app.plan.raw)}`, el("br"), el("b", {}, "B"), ` ${planTitle(other.plan.raw)}${other.name ? ` (${other.name})` : ""}`);
    view.canvas = el("canvas", { style: { height: "106px" }, "aria-label": "both steps on one scale" });
    replace(section, el("h2", {}, "Compare ", el("small", {}, "this plan, A, and another one, B")), commands,
            app.plan.raw.hash !== other.plan.raw.hash && el("p", { class: "bad" }, "The nets are not the same: names may mean different things."),
            same ? el("p", { class: "good" }, "✓ No difference: figures, communications and layouts are equal.") : el("p", {}, compareVerdict(figures), compareMost(differ)),
            el("div", { class: "beside" }, compareTable(figures), el("div", { class: "card lanes" }, view.canvas)),
            el("h3", {}, `Communications that differ: ${differ.length}`), compareCommTable(app, other, differ),
            el("h3", {}, `Layouts and strategies that differ: ${layouts.length}`), compareLayoutTable(app, other, layouts),
            el("h3", {}, "Time by operator"), compareOperators(app, other));
    new ResizeObserver(() => compareLanes(view)).observe(view.canvas);
}

/* ---------------------------------------------------------------- figures */

function compareFigures(app, other) {
    const of = (pick) => ({ a: pick(app), b: pick(other) });
    const list = [
        { name: "step, predicted", print: time, ...of((x) => (x.program.role.predicted || {}).step) },
        { name: "of it waiting", print: time, ...of((x) => (x.program.role.predicted || {}).exposed) },
        { name: "computing", print: time, ...of((x) => (x.program.role.predicted || {}).kernels) },
        { name: "step, measured", print: time, ...of((x) => (x.run ? x.run.raw.step.median : undefined)) },
        { name: "received, busiest rank", print: bytes, ...of((x) => x.program.role.totals && x.program.role.totals.received.max) },
        { name: "received, all ranks", print: bytes, ...of((x) => x.program.role.totals && x.program.role.totals.received.total) },
        { name: "communications", print: String, ...of((x) => x.program.role.comms.length) },
        { name: "memory of a rank", print: bytes, ...of((x) => x.program.role.memory && x.program.role.memory.rank) },
        { name: "arena", print: bytes, ...of((x) => x.program.role.arena) },
        { name: "states", print: bytes, ...of((x) => x.program.role.memory && x.program.role.memory.states) },
        { name: "FLOPs, busiest rank", print: si, ...of((x) => x.program.role.flops && x.program.role.flops.rank) },
        { name: "ranks", print: String, ...of((x) => x.plan.ranks) },
        { name: "steps of the program", print: String, ...of((x) => x.program.role.steps.length) },
    ];
    return list.filter((f) => typeof f.a === "number" || typeof f.b === "number");
}

function compareVerdict(figures) {
    const step = figures.find((f) => f.name === "step, measured" && f.a && f.b) || figures.find((f) => f.name === "step, predicted"), memory = figures.find((f) => f.name === "memory of a rank");
    const words = (f, less, more) => (!f || !f.a || f.a === f.b ? `as ${less} ` : `${percent(Math.abs(f.b - f.a) / f.a)} ${f.b < f.a ? less : more}`);
    if (!step || !step.a) return "";
    const speed = step.a === step.b ? "takes as long" : `is ${words(step, "faster", "slower")}`, room = memory && memory.a ? (memory.a === memory.b ? "needs as much memory" : `needs ${words(memory, "less", "more")} memory`) : "";
    return [el("b", {}, `B ${speed}${room ? `, and ${room}` : ""}`), ` (${step.name}: ${time(step.a)} and ${time(step.b)}).`];
}

/* Where waiting differs most, more and less. */
function compareMost(differ) {
    const said = (r) => `${r.name} ${r.phase} ${r.waited > 0 ? "+" : "−"}${time(Math.abs(r.waited))}`;
    const most = [differ.reduce((a, b) => (b.waited > a.waited ? b : a), { waited: 0 }), differ.reduce((a, b) => (b.waited < a.waited ? b : a), { waited: 0 })].filter((r) => r.waited !== 0).sort((a, b) => Math.abs(b.waited) - Math.abs(a.waited));
    return most.length > 0 ? ` Waiting differs most at ${most.map(said).join(", and at ")}.` : "";
}

function difference(a, b, print) {
    if (typeof a !== "number" || typeof b !== "number") return el("span", { class: "dim" }, "–");
    if (a === b) return el("span", { class: "dim" }, "=");
    const by = b - a, sign = by > 0 ? "+" : "−", share = a !== 0 ? `, ${sign}${percent(Math.abs(by / a))}` : "";
    const small = a !== 0 && Math.abs(by / a) < 0.005;
    return el("span", { class: small ? "dim" : by < 0 ? "good" : "bad" }, `${by < 0 ? "▼" : "▲"} ${sign}${print(Math.abs(by))}${share}`);
}

function compareTable(figures) {
    const cell = (f, n) => (typeof n === "number" ? f.print(n) : "–");
    return el("table", { class: "grid compact" }, el("thead", {}, el("tr", {}, ["", "A", "B", "B − A"].map((h, i) => el("th", { class: i ? "num" : null }, h)))),
              el("tbody", {}, figures.map((f) => el("tr", {}, el("td", {}, f.name), el("td", { class: "num" }, cell(f, f.a)), el("td", { class: "num" }, cell(f, f.b)), el("td", { class: "num" }, difference(f.a, f.b, f.print))))));
}

function compareLanes(view) {
    const { app, other, canvas } = view, { context, width } = canvasFit(canvas, 106), colours = canvasColours(), ends = [app, other].map((x) => x.begins[x.begins.length - 1]);
    const span = spanMake(0, Math.max(...ends), 24, Math.floor(width - 30));
    axisDraw(context, colours, span, 9);
    [app, other].forEach((x, i) => {
        const y = 20 + i * 43, events = x.program.role.events;
        context.fillStyle = colours.text;
        context.fillText(i ? "B" : "A", 8, y + 11);
        laneDraw(context, colours, span, laneMake(events.filter((e) => e.lane === 0)), y, 20, (e) => (e.wait ? "waits" : "computes"), (e) => eventLabel(x, e));
        laneDraw(context, colours, span, laneMake(events.filter((e) => e.lane === 1)), y + 22, 14, () => "communicates", (e) => eventLabel(x, e));
    });
}

/* ---------------------------------------------------------------- what differs */

/* Groups by value's pattern and phase, that are not equal: {name, phase, a, b: groups, waited, received}. */
function compareComms(app, other) {
    const keyed = (x) => groupBy(commGroups(x), (g) => `${g.phase} ${pattern(g.name)}`), a = keyed(app), b = keyed(other), rows = [];
    const print = (x, groups) => (groups || []).map((g) => `${g.kind} ${layoutName(x.plan, g.layouts[0])} ${layoutName(x.plan, g.layouts[1])} ${g.list.length} ${g.received}`).sort().join("|");
    for (const key of new Set([...a.keys(), ...b.keys()])) {
        const ga = a.get(key) || [], gb = b.get(key) || [];
        if (print(app, ga) === print(other, gb)) continue;
        const of = (groups, what) => sum(groups, (g) => g[what]);
        rows.push({ name: (ga[0] || gb[0]).name, phase: (ga[0] || gb[0]).phase, a: ga, b: gb, waited: of(gb, "waited") - of(ga, "waited"), received: of(gb, "received") - of(ga, "received"), wasWaited: of(ga, "waited"), wasReceived: of(ga, "received") });
    }
    return rows;
}

function compareCommTable(app, other, rows) {
    if (rows.length === 0) return el("p", { class: "dim" }, "All conversions are the same.");
    const lines = (x, groups) => (groups.length === 0 ? el("span", { class: "dim" }, "none") : groups.map((g) => el("div", {}, `${g.kind} `, arrowChips(x.plan, g.layouts[0], g.layouts[1], g.type), g.list.length > 1 && el("span", { class: "count" }, `× ${g.list.length}`))));
    return el("div", { class: "scroll" }, sortableTable([
        { head: "value", class: "name", cell: (r) => el("span", { title: r.name }, el("b", {}, breakable(r.name)), el("span", { class: "dim" }, ` ${r.phase}`)), sort: (r) => r.name },
        { head: "waiting", class: "num", cell: (r) => difference(r.wasWaited, r.wasWaited + r.waited, time), sort: (r) => Math.abs(r.waited) },
        { head: "received by all", class: "num", cell: (r) => difference(r.wasReceived, r.wasReceived + r.received, bytes), sort: (r) => Math.abs(r.received) },
        { head: "A", cell: (r) => lines(app, r.a) }, { head: "B", cell: (r) => lines(other, r.b) },
    ], rows.sort((x, y) => Math.abs(y.waited) - Math.abs(x.waited) || Math.abs(y.received) - Math.abs(x.received)), { sorted: 1, row: (r) => (r.a.length > 0 ? pressable(() => app.choose({ kind: "comm", id: r.a[0].first.id })) : {}) }));
}

/* Forward nodes by name whose strategy, or first layout, is another; equal layers are one row. */
function compareLayouts(app, other) {
    const named = new Map(), rows = new Map();
    for (const node of other.program.nodes) if (node.home === node.id) named.set(node.name, node);
    const facts = (x, node) => {
        const value = node.outs.length > 0 ? x.program.values[node.outs[0]] : null, instance = value && value.instances.length > 0 ? x.program.role.instances[value.instances[0]] : null;
        return { strategy: node.why ? node.why.strategy : "", layout: instance ? instance.layout : null, type: value ? value.type : null, text: instance ? layoutName(x.plan, instance.layout) : "" };
    };
    for (const node of app.program.nodes) {
        const twin = node.home === node.id ? named.get(node.name) : undefined;
        if (!twin) continue;
        const a = facts(app, node), b = facts(other, twin);
        if (a.strategy === b.strategy && a.text === b.text) continue;
        const key = `${pattern(node.name)} ${a.strategy} ${a.text} ${b.strategy} ${b.text}`, row = rows.get(key);
        if (row) row.nodes.push(node);
        else rows.set(key, { name: pattern(node.name), nodes: [node], a, b });
    }
    return [...rows.values()];
}

function compareLayoutTable(app, other, rows) {
    if (rows.length === 0) return el("p", { class: "dim" }, "All operators of both nets have equal strategies and layouts.");
    const side = (x, f) => [f.layout && chip(x.plan, f.layout, f.type), " ", el("code", {}, f.strategy)];
    return el("div", { class: "scroll" }, sortableTable([
        { head: "operator", cell: (r) => [el("b", {}, breakable(r.nodes.length > 1 ? r.name : r.nodes[0].name)), r.nodes.length > 1 && el("span", { class: "count" }, `× ${r.nodes.length}`), el("span", { class: "dim" }, ` ${r.nodes[0].op}`)], sort: (r) => r.name },
        { head: "A", cell: (r) => side(app, r.a) }, { head: "B", cell: (r) => side(other, r.b) },
    ], rows, { row: (r) => pressable(() => app.choose({ kind: "node", id: r.nodes[0].id })) }));
}

function compareOperators(app, other) {
    const a = new Map(operatorRows(app).map((r) => [r.op, r])), b = new Map(operatorRows(other).map((r) => [r.op, r])), measured = app.run && other.run, of = (r) => (r ? (measured ? r.measured : r.ns) : 0);
    const rows = [...new Set([...a.keys(), ...b.keys()])].map((op) => ({ op, a: of(a.get(op)), b: of(b.get(op)) })).filter((r) => r.a > 0 || r.b > 0);
    if (rows.length === 0) return el("p", { class: "dim" }, "There are no times to compare.");
    return el("div", { class: "scroll" }, sortableTable([
        { head: "operator", cell: (r) => r.op, sort: (r) => r.op }, { head: "A", class: "num", cell: (r) => time(r.a), sort: (r) => r.a }, { head: "B", class: "num", cell: (r) => time(r.b), sort: (r) => r.b },
        { head: "B − A", class: "num", cell: (r) => difference(r.a, r.b, time), sort: (r) => Math.abs(r.b - r.a) },
    ], rows, { sorted: 3, class: "compact" }));
}
