/* Net: the tree of the source as it is called, with the graph in its margin; or nodes and edges of the same open rows. */

const ROW_PIXELS = 25, LANE_PIXELS = 7, LANES_MOST = 14, ROWS_AT_ONCE = 100;

function netSection(app) {
    const view = { app, tree: app.tree, graph: false, first: 0, limit: ROWS_AT_ONCE, elements: new Map(), visible: [] };
    app.net = view;
    view.body = el("div", { class: !app.program.role.predicted ? "rows alone" : app.run ? "rows measured" : "rows", role: "treegrid", "aria-label": "Net", onkeydown: (event) => netKey(view, event) });
    view.box = el("div", { class: "scroll net" }, view.body);
    view.nodes = el("div", { class: "scroll net", hidden: true });
    const switchTo = (graph) => {
        view.graph = graph;
        view.box.hidden = graph;
        view.nodes.hidden = !graph;
        lines.setAttribute("aria-pressed", String(!graph));
        boxes.setAttribute("aria-pressed", String(graph));
        netDraw(view);
    };
    const lines = el("button", { "aria-pressed": "true", onclick: () => switchTo(false), title: "the source, line by line" }, "Lines");
    const boxes = el("button", { "aria-pressed": "false", onclick: () => switchTo(true), title: "the same open rows as nodes and edges" }, "Nodes and edges");
    const all = (open) => {
        for (const row of view.tree.rows) row.open = open || row.depth < 1;
        netDraw(view);
    };
    const controls = el("div", { class: "controls" }, el("span", { class: "group" }, lines, boxes), el("button", { onclick: () => all(true) }, "Open all"),
                        el("button", { onclick: () => all(false) }, "Close all"), legendOfAxes(app.plan));
    const section = el("section", { id: "net" },
                       el("h2", {}, "Net ", el("small", {}, `the source as it is called; equal iterations are one row. Figures are sums of forward, backward and update, ${app.program.role.predicted ? "predicted for" : "of"} one rank`)),
                       controls, view.box, view.nodes);
    openLongest(view.tree);
    netDraw(view);
    return section;
}

/* A net of few lines is shown whole; of a larger one what takes longest is opened, as far as a screen goes. */
function openLongest(tree) {
    const seconds = (row) => row.figures.ns + row.figures.waited, small = tree.rows.length <= ROWS_OPENED, closed = (row) => row.children.filter((child) => child.children.length > 0);
    const shut = closed(tree.root);
    let shown = tree.root.children.length;
    for (const row of tree.rows) row.open = small || row.depth < 1;
    while (shut.length > 0 && shown < ROWS_OPENED) {
        const row = shut.reduce((a, b) => (seconds(b) > seconds(a) ? b : a));
        shut.splice(shut.indexOf(row), 1);
        if (shown + row.children.length > ROWS_OPENED || seconds(row) < 0.03 * seconds(tree.root)) continue;
        row.open = true;
        shown += row.children.length;
        shut.push(...closed(row));
    }
}
const ROWS_OPENED = 36;

function visibleRows(tree) {
    const list = [];
    const walk = (row) => {
        for (const child of row.children) {
            list.push(child);
            if (child.open && child.children.length > 0) walk(child);
        }
    };
    walk(tree.root);
    return list;
}

/* Of a long net so many rows are drawn as `limit` says, from `first` on: those around `wanted` where one is to be seen. */
function netWindow(view, wanted) {
    const index = view.visible.indexOf(wanted), most = Math.max(0, view.visible.length - ROWS_AT_ONCE);
    view.first = Math.min(view.first, most);
    if (index < 0 || (index >= view.first && index < view.first + view.limit)) return;
    view.first = Math.max(0, Math.min(most, index - ROWS_AT_ONCE / 2));
    view.limit = ROWS_AT_ONCE;
}

function netDraw(view, wanted) {
    view.visible = visibleRows(view.tree);
    if (view.graph) {
        graphDraw(view);
        return;
    }
    netWindow(view, wanted);
    const rows = view.visible.slice(view.first, view.first + view.limit), rest = view.visible.length - view.first - rows.length;
    const margin = marginMake(view, rows, view.first > 0 ? 2 : 1);
    const most = Math.max(...view.tree.root.children.map((row) => row.figures.ns + row.figures.waited), 1);
    view.elements.clear();
    view.body.style.setProperty("--margin", `${margin.width}px`);
    const columns = netColumns(view.app);
    const head = el("div", { class: "row head" }, el("span", { class: "line" }, "line"), columns.map((c) => el("span", { class: c.class, title: c.title }, c.head)));
    const others = (count, where, first) => count > 0 && el("div", { class: "row" }, el("button", { onclick: () => netFurther(view, first) }, `${plural(count, "row")} ${where}`));
    replace(view.body, head, margin.drawn, others(view.first, "before", Math.max(0, view.first - ROWS_AT_ONCE)), rows.map((row) => netRow(view, row, columns, most)), others(rest, "more", view.first));
    netMark(view);
}

/* Draws more rows, before or behind those that are drawn; what is in sight stays there. */
function netFurther(view, first) {
    const added = view.first - first, before = view.first > 0 ? 1 : 0, top = view.box.scrollTop;
    view.limit += ROWS_AT_ONCE;
    view.first = first;
    netDraw(view);
    view.box.scrollTop = top + (added > 0 ? added + (first > 0 ? 1 : 0) - before : 0) * ROW_PIXELS;
}

function netColumns(app) {
    const columns = [{ head: "result lies as", class: "chips", title: "the layout in which a line's result is made, and what it is converted into", cell: (row) => (row.kind === "loop" ? "" : stagesOfRow(app, row) || chipsOfNode(app, resultOf(row))) }];
    if (app.program.role.predicted)
        columns.push({ head: "predicted", class: "num", title: "seconds of computing, and of waiting for communications that nothing hides", cell: (row) => orBlank(row.figures.ns + row.figures.waited, time) },
                     { head: "", class: "share", cell: (row, most) => shareBar(row.figures, most) },
                     { head: "waiting", class: "num", title: "of it: waiting for communications that nothing hides", cell: (row) => orBlank(row.figures.waited, time) });
    if (app.run) columns.push({ head: "measured", class: "num", title: "mean over ranks and steps, computing and waiting", cell: (row) => orBlank(row.figures.measured, time) });
    if (app.program.role.counted) columns.push({ head: "received", class: "num", title: "by all ranks together, in a step", cell: (row) => orBlank(row.figures.received, bytes) });
    columns.push({ head: "at peak", class: "num", title: "bytes of a rank alive when its memory is fullest", cell: (row) => orBlank(row.figures.peak, bytes) });
    if (app.program.role.predicted) columns.push({ head: "FLOPs", class: "num dim", title: "of the busiest rank", cell: (row) => orBlank(row.figures.flops, si) });
    return columns;
}

function shareBar(figures, most) {
    if (figures.ns + figures.waited === 0) return "";
    return el("span", { class: "bar" }, figures.ns > 0 && el("b", { class: "computes", style: { width: `${(100 * figures.ns) / most}%` } }), figures.waited > 0 && el("b", { class: "waits", style: { width: `${(100 * figures.waited) / most}%` } }));
}

function netRow(view, row, columns, most) {
    const twist = row.children.length > 0 ? el("button", { class: "twist", tabindex: -1, title: row.open ? "close" : "open", onclick: (e) => (e.stopPropagation(), netToggle(view, row)) }, row.open ? "▾" : "▸") : el("span", { class: "twist" });
    const made = el("div", {
        class: `row ${row.kind}`, role: "row", tabindex: 0, "data-row": row.id, "aria-level": row.depth, "aria-expanded": row.children.length > 0 ? String(row.open) : null,
        onclick: () => view.app.choose(thingOfRow(row)), ondblclick: () => row.children.length > 0 && netToggle(view, row),
    }, el("span", { class: "line", style: { "--depth": row.depth - 1 } }, twist, rowLabel(view.app, row)), columns.map((c) => el("span", { class: c.class }, c.cell(row, most))));
    view.elements.set(row.id, made);
    return made;
}

/* What a choice of a row chooses: an operator, or all that lies below. */
function thingOfRow(row) {
    return row.kind === "node" ? { kind: "node", id: row.node.id } : { kind: "row", id: row.id };
}

function rowLabel(app, row) {
    const count = row.count > 1 && row.iterations ? el("span", { class: "count" }, `× ${row.iterations.length}`) : null;
    if (row.kind === "loop") return [el("b", {}, `iteration${row.iterations.length > 1 ? "s" : ""} ${iterationsText(row.iterations)}`), count, el("code", {}, row.children.map((c) => c.name).join(", "))];
    const name = row.iterations ? row.name.replace(/\.\d+(?=\.|$)/, row.iterations.length > 1 ? `.${iterationsText(row.iterations)}` : `.${row.iterations[0]}`) : shortName(row);
    if (row.kind === "call") return [el("b", {}, name), count, el("code", {}, callText(app.plan, row))];
    return [el("span", { class: "name" }, name), count, el("code", {}, nodeText(app, row.node))];
}

/* Within its call a value's name needs no path. */
function shortName(row) {
    return row.name.startsWith("new_") ? row.name : row.name || row.path;
}

function callText(plan, row) {
    const line = row.call ? sourceLine(plan, row.call.place) : null;
    if (line !== null) return line.substr(row.call.place.column - 1, row.call.place.length).replace(/\s+/g, " ");
    return row.cell ? `${row.cell}(..)` : "";
}

/* An operator: what kind of leaf it is, or its name and operands. */
function nodeText(app, node) {
    const { program } = app;
    if (node.op === "read") {
        const state = program.states[node.state];
        return `${state ? STATE_KINDS[state.kind] : "state"} ${state ? state.type.text : ""}`;
    }
    if (node.op === "input") return `input ${program.values[node.outs[0]].type.text}`;
    if (node.ins.length === 0) return `${node.op} ${program.values[node.outs[0]].type.text}`;
    const names = node.ins.map((v) => program.values[v].name).map((name) => lastName(name));
    return `${node.op}(${names.join(", ")})`;
}

function lastName(name) {
    const words = name.split(".");
    while (words.length > 1 && /^\d+$/.test(words[words.length - 1])) words.pop();
    return words[words.length - 1];
}

function netToggle(view, row) {
    row.open = !row.open;
    netDraw(view, row);
    const made = view.elements.get(row.id);
    if (made) made.focus({ preventScroll: true });
}

/* Arrows go up and down, open and close; Enter chooses. */
function netKey(view, event) {
    const at = event.target.closest("[data-row]");
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = view.tree.rows[Number(at.dataset.row)], index = view.visible.indexOf(row);
    const go = (to) => {
        if (to && !view.elements.has(to.id)) netDraw(view, to);
        if (to && view.elements.has(to.id)) view.elements.get(to.id).focus();
    };
    const acts = {
        ArrowDown: () => go(view.visible[index + 1]),
        ArrowUp: () => go(view.visible[index - 1]),
        ArrowRight: () => (row.children.length > 0 && !row.open ? netToggle(view, row) : go(view.visible[index + 1])),
        ArrowLeft: () => (row.children.length > 0 && row.open ? netToggle(view, row) : go(view.tree.rows[row.parent])),
        Enter: () => view.app.choose(thingOfRow(row)),
        " ": () => view.app.choose(thingOfRow(row)),
    };
    if (!acts[event.key] || event.target !== at) return;
    event.preventDefault();
    acts[event.key]();
}

/* The row that stands for a node now: its own, or the closed one that hides it. */
function shownRow(tree, nodeId) {
    let row = tree.rows[tree.rowOf[nodeId]];
    if (!row) return null;
    let shown = row;
    for (; row.parent >= 0; row = tree.rows[row.parent]) if (!tree.rows[row.parent].open) shown = tree.rows[row.parent];
    return shown;
}

/* Marks what is chosen; nothing moves. */
function netMark(view) {
    for (const marked of view.body.querySelectorAll(".chosen")) marked.classList.remove("chosen");
    const thing = view.app.chosen;
    if (!thing) return;
    const row = thing.kind === "row" ? shownSelf(view.tree, view.tree.rows[thing.id]) : shownRow(view.tree, nodeOfThing(view.app, thing));
    const made = row && view.elements.get(row.id);
    if (made) made.classList.add("chosen");
}

function shownSelf(tree, row) {
    let shown = row;
    for (; row.parent >= 0; row = tree.rows[row.parent]) if (!tree.rows[row.parent].open) shown = tree.rows[row.parent];
    return shown;
}

function netRevealThing(view, thing) {
    const { app, tree } = view, row = tree.rows[thing.kind === "row" ? thing.id : tree.rowOf[nodeOfThing(app, thing)]];
    if (row) netReveal(view, row);
}

/* Opens what hides a row, and brings it into the box. */
function netReveal(view, row) {
    for (let up = row; up.parent >= 0; up = view.tree.rows[up.parent]) view.tree.rows[up.parent].open = true;
    netDraw(view, row);
    const made = view.elements.get(row.id);
    if (!made) return;
    view.box.scrollTop = made.offsetTop - view.box.clientHeight / 3;
}

/* ---------------------------------------------------------------- the graph in the margin */

/* Edges between visible rows: from the row that makes a value to those that take it; bytes where it is converted on the way. */
function edgesOfRows(view, rows) {
    const { tree, app } = view, { program } = app, place = new Map();
    rows.forEach((row, i) => {
        const covered = row.open && row.children.length > 0 ? [] : nodesBelow(row);
        for (const n of covered) place.set(n, i);
    });
    const edges = new Map();
    for (const [n, to] of place) {
        const node = program.nodes[n];
        for (const v of node.ins) {
            const from = place.get(program.values[v].node);
            if (from === undefined || from >= to) continue;
            const key = from * rows.length + to;
            const edge = edges.get(key) || { from, to, moved: 0 };
            edge.moved += movedBetween(app, v, node);
            edges.set(key, edge);
        }
    }
    return [...edges.values()];
}

/* Bytes that all ranks receive in the conversion through which a node takes a value. */
function movedBetween(app, v, node) {
    const { role } = app.program;
    if (node.kernel < 0) return 0;
    const instance = role.steps[node.kernel].ins.find((i) => role.instances[i].value === v);
    const comm = instance === undefined ? null : app.commInto.get(instance);
    return comm ? comm.received.total : 0;
}

/* A line of its own for each row that others read, as short as it can be; far readers lie outside. above: lines above the rows. */
function marginMake(view, rows, above) {
    const from = groupBy(edgesOfRows(view, rows), (edge) => edge.from);
    const spans = [...from.entries()].map(([row, edges]) => ({ row, edges, end: Math.max(...edges.map((e) => e.to)), moved: Math.max(...edges.map((e) => e.moved)) }));
    spans.sort((a, b) => a.end - a.row - (b.end - b.row));
    const lanes = [];
    for (const span of spans) {
        span.lane = lanes.findIndex((lane) => lane.every((other) => other.end <= span.row || other.row >= span.end));
        if (span.lane < 0) span.lane = lanes.length < LANES_MOST ? lanes.push([]) - 1 : LANES_MOST - 1;
        lanes[span.lane].push(span);
    }
    const width = Math.max(2, Math.min(lanes.length, LANES_MOST)) * LANE_PIXELS + 12;
    const most = Math.max(1, ...spans.map((s) => s.moved));
    const y = (i) => (i + above + 0.5) * ROW_PIXELS;
    const drawn = svg("svg", { class: "margin", width, height: (rows.length + above) * ROW_PIXELS, "aria-hidden": "true" });
    for (const span of spans) append(drawn, spanDrawn(span, width, y, most));
    rows.forEach((row, i) => {
        if (!(row.open && row.children.length > 0)) drawn.append(svg("circle", { cx: width - 4, cy: y(i), r: 2.4, class: "dot" }));
    });
    return { width, drawn };
}

function spanDrawn(span, width, y, most) {
    const x = width - 9 - span.lane * LANE_PIXELS, right = width - 4, drawn = [];
    const thick = (moved) => (moved > 0 ? 1.5 + 2.5 * Math.sqrt(moved / most) : 1);
    const kind = (moved) => (moved > 0 ? "edge moves" : "edge");
    for (const e of [...span.edges].sort((a, b) => a.moved - b.moved)) {
        const d = `M${right} ${y(span.row)} H${x + 3} Q${x} ${y(span.row)} ${x} ${y(span.row) + 3} V${y(e.to) - 3} Q${x} ${y(e.to)} ${x + 3} ${y(e.to)} H${right}`;
        drawn.push(svg("path", { d, class: kind(e.moved), "stroke-width": thick(e.moved).toFixed(1) }, e.moved > 0 ? svg("title", {}, `${bytes(e.moved)} received by all ranks`) : null));
    }
    return drawn;
}
