/* The pane at the right: what is chosen, explained. It is never empty. */

function paneDraw(app) {
    const thing = app.chosen, pane = app.paneElement;
    const drawn = thing.kind === "comm" ? paneComm(app, app.program.role.comms[thing.id]) : thing.kind === "row" ? paneRow(app, app.tree.rows[thing.id]) : paneNode(app, app.program.nodes[thing.id]);
    replace(pane, el("div", { class: "paneBar" }, el("button", { disabled: app.trail.length === 0, onclick: () => app.back(), title: "what was chosen before: b" }, "‹ back"), el("span", { class: "dim" }, "chosen")), drawn);
    pane.scrollTop = 0;
}

const paneTitle = (text, under) => [el("h2", {}, text), el("p", { class: "dim" }, under)];

function nodeLink(app, id, text) {
    return el("button", { class: "link", onclick: () => app.choose({ kind: "node", id }) }, text || app.program.nodes[id].name);
}

function joined(list, most) {
    const shown = list.slice(0, most || 12);
    return [shown.map((each, i) => [i > 0 ? ", " : "", each]), list.length > shown.length ? ` and ${list.length - shown.length} more` : ""];
}

function facts(pairs) {
    return el("dl", {}, pairs.filter((p) => p && p[1] !== null && p[1] !== "").map(([name, ...what]) => [el("dt", {}, name), el("dd", {}, what)]));
}

/* ---------------------------------------------------------------- an operator */

function paneNode(app, node) {
    const { program } = app, value = node.outs.length > 0 ? program.values[node.outs[0]] : null, origin = node.home !== node.id ? program.nodes[node.home] : null;
    return [
        paneTitle(value ? value.name : node.name, [node.op, value ? `, ${value.type.text}` : "", `, ${PHASES[node.phase]}`, origin ? [" of ", nodeLink(app, origin.id)] : ""]),
        alike(app, node), sourceBlock(app, node), paneLayouts(app, node), paneWhy(app, node), paneComms(app, node), paneTime(app, node), paneEdges(app, node),
        node.why && explainCommand(app.plan, "") && el("section", {}, el("h3", {}, "Ask pcc"), commandLine(explainCommand(app.plan, program.nodes[node.home].name))),
    ];
}

/* The same operator of other iterations. */
function alike(app, node) {
    const row = app.tree.rows[app.tree.rowOf[node.id]];
    if (!row || row.nodes.length < 2) return null;
    const numberOfName = (name) => (name.match(/\.(\d+)(?=\.|$)/) || [null, name])[1];
    const links = row.nodes.slice(0, 24).map((id) => (id === node.home ? el("b", {}, numberOfName(app.program.nodes[id].name)) : nodeLink(app, id, numberOfName(app.program.nodes[id].name))));
    return el("p", {}, `one of ${row.nodes.length} alike: `, joined(links, 24));
}

function sourceBlock(app, node) {
    const { plan } = app, lines = chainOf(plan, node);
    if (lines.length === 0) return null;
    return el("div", { class: "source" }, lines.map((place, i) => {
        const text = sourceLine(plan, place), last = i === lines.length - 1;
        return el("div", {}, el("span", { class: "place" }, placeText(plan, place)), " ", text === null ? "" : marked(text, last ? place : null));
    }));
}

/* A line with the part at a place marked. */
function marked(text, place) {
    const shift = text.length - text.trimStart().length;
    if (!place || place.column < 1 || place.length < 1) return el("code", {}, text.trim());
    const at = place.column - 1;
    return el("code", {}, text.slice(shift, Math.max(shift, at)), el("mark", {}, text.slice(at, at + place.length)), text.slice(at + place.length));
}

function paneLayouts(app, node) {
    const { role, values } = app.program, items = node.outs.flatMap((v) => values[v].instances.map((i) => role.instances[i]));
    if (items.length === 0) return null;
    return el("section", {}, el("h3", {}, "Layout"), items.slice(0, 8).map((instance) => {
        const type = valueOf(app, instance).type;
        const where = instance.place === 4 ? "nowhere: only its fused step reads it" : instance.place === 5 ? "a view, no memory of its own" : PLACES[instance.place] + (instance.first >= 0 ? `, steps ${instance.first + 1}–${instance.last + 1}` : "");
        return el("div", { class: "lies" }, el("span", { class: "amount" }, bytes(instance.bytes)), el("div", {}, chip(app.plan, instance.layout, type), el("span", { class: "dim" }, ` ${where}`), el("p", { class: "dim" }, layoutWords(app.plan, instance.layout, type).join("; "))));
    }));
}

/* ---------------------------------------------------------------- why */

function paneWhy(app, node) {
    const { plan, program } = app, why = node.why;
    if (!why || (why.from === FROM.none && !why.strategy)) return null;
    const origin = node.origin >= 0 && node.origin !== node.id ? program.nodes[node.origin] : null;
    const decision = decisionOf(program, node), way = wayFromHint(program, node);
    return el("section", {}, el("h3", {}, "Why"), facts([
        why.strategy ? ["strategy", el("code", {}, why.strategy)] : null,
        ["because", becauseText(app, node, origin, way)],
        decision && decision.by > 0 ? ["decided by", DECIDED[decision.by]] : null,
        why.asked >= 0 ? ["asked for", "-> asks for ", chip(plan, plan.layouts[why.asked], program.values[node.outs[0]].type)] : null,
    ]), way.length > 1 && wayBlock(app, way), decision && decision.alternatives.length > 0 && alternatives(decision), weighedBlock(program, node));
}

function decisionOf(program, node) {
    const of = node.why && node.why.decision >= 0 ? node : node.origin >= 0 ? program.nodes[node.origin] : node;
    return of.why ? decisionAt(program, of.why.decision) : null;
}

function becauseText(app, node, origin, way) {
    const { plan, program } = app, why = node.why;
    if (why.from === FROM.hint && why.hint >= 0) return `of its hint at ${placeText(plan, plan.hints[why.hint].place)}`;
    if (why.from === FROM.origin && origin) return ["it goes with its operator, ", nodeLink(app, origin.id, `${origin.op} ${origin.name}`)];
    if (why.from === FROM.propagated && way.length > 1) return ["of the hint on ", nodeLink(app, way[0].id, `${way[0].op} ${way[0].name}`), ` in ${plural(way.length - 1, "step")}`];
    return { [FROM.propagated]: "of what the operators around it do", [FROM.batch]: "no hint leads to it: its batch is split", [FROM.whole]: "it is not divided", [FROM.train]: "it has the strategy that it has in training", [FROM.search]: "the search over the whole net took it", [FROM.state]: "it goes with how its state is stored" }[why.from] || reasonText(plan, program, node);
}

/* The nodes from one with a hint to this one. */
function wayFromHint(program, node) {
    const way = [node], seen = new Set([node.id]);
    for (let at = node; at.why && at.why.decision >= 0;) {
        const from = program.decisions.from[at.why.decision];
        if (from < 0 || seen.has(from)) break;
        seen.add(from);
        at = program.nodes[from];
        way.unshift(at);
    }
    return way;
}

function wayBlock(app, way) {
    return el("details", {}, el("summary", {}, `the way: ${plural(way.length, "operator")}`), el("ol", {}, way.map((n) => el("li", {}, nodeLink(app, n.id, `${n.op} ${n.name}`), " ", el("code", {}, n.why ? n.why.strategy : "")))));
}

/* What a step would take more with other strategies, as far as the model of the search knows. */
function weighedBlock(program, node) {
    const weighed = weighedFor(program, node.home);
    if (!weighed) return null;
    const rows = weighed.alternatives.map((a, i) => el("tr", {}, el("td", {}, el("code", {}, (i === 0 ? "→ " : "") + a.strategy)), el("td", { class: "num" }, i === 0 ? "taken" : `${a.ns < 0 ? "−" : "+"}${time(Math.abs(a.ns))}`)));
    return el("table", { class: "grid compact" }, el("thead", {}, el("tr", {}, el("th", {}, `${node.home === node.id ? "" : "its operator: "}best of ${weighed.strategies} weighed`), el("th", { class: "num", title: "in the model of the search, where all other operators stay as they are" }, "step takes"))), el("tbody", {}, rows));
}

function alternatives(decision) {
    const rows = decision.alternatives.map((a, i) => el("tr", {}, el("td", {}, el("code", {}, (i === 0 ? "→ " : "") + a.strategy)), el("td", { class: "num" }, bytes(a.bytes)), el("td", { class: "num" }, String(a.messages)), el("td", { class: "num" }, si(a.flops))));
    return el("table", { class: "grid compact" }, el("thead", {}, el("tr", {}, el("th", {}, `best of ${decision.candidates}`), el("th", { class: "num", title: "received by all ranks in converting its operands and results, and their gradients" }, "moved"), el("th", { class: "num" }, "messages"), el("th", { class: "num" }, "FLOPs"))), el("tbody", {}, rows));
}

/* ---------------------------------------------------------------- communications, time, edges */

function commItem(app, comm) {
    const takers = takersOf(app, comm), type = app.program.values[comm.value].type;
    return el("div", { class: "comm" }, el("p", {}, el("button", { class: "link", onclick: () => app.choose({ kind: "comm", id: comm.id }) }, `${comm.kind} of ${comm.name}`)), el("p", {}, arrowChips(app.plan, comm.layouts[0], comm.layouts[1], type)),
              el("p", { class: "dim" }, [travelText(app, comm), predictedText(app, comm), app.run && `measured wait ${time(comm.measuredWait)}`].filter((x) => x).join("; "), takers.length > 0 ? [", for ", joined(takers.map((n) => nodeLink(app, n.id, `${n.op} ${n.name}`)), 3)] : ""));
}

/* "34.8 µs, waited for 34.8 µs"; "": nothing is predicted. */
function predictedText(app, comm) {
    return app.program.role.predicted ? `${time(comm.ns)}, ${comm.waited > 0 ? `waited for ${time(comm.waited)}` : "hidden behind computing"}` : "";
}

/* To another stage of a pipeline: these ranks receive nothing. */
const sendsOnly = (comm) => comm.received.total === 0 && comm.sent.total > 0;
function travelText(app, comm) {
    if (!app.program.role.counted) return "";
    const of = sendsOnly(comm) ? comm.sent : comm.received;
    return `${bytes(of.total)} by all, ${bytes(of.max)} by the busiest${sendsOnly(comm) ? ", to another stage" : ""}`;
}

/* Conversions of the node's values, and of what it takes. */
function paneComms(app, node) {
    const { role } = app.program, own = node.comms.map((c) => role.comms[c]);
    const into = node.kernel < 0 ? [] : role.steps[node.kernel].ins.map((i) => app.commInto.get(i)).filter((c) => c);
    const all = [...new Set([...own, ...into])];
    if (all.length === 0) return null;
    return el("section", {}, el("h3", {}, "Communication"), all.slice(0, 8).map((c) => commItem(app, c)));
}

function paneTime(app, node) {
    const all = listAt(app.under, node.home).map((id) => app.program.nodes[id]), rows = all.filter((n) => n.ns > 0 || n.measured > 0);
    if (rows.length === 0) return null;
    const measured = app.run !== null;
    return el("section", {}, el("h3", {}, "Time"), el("table", { class: "grid compact" }, el("thead", {}, el("tr", {}, el("th", {}, "operator"), el("th", { class: "num" }, "predicted"), measured && el("th", { class: "num" }, "measured"), el("th", { class: "num" }, "FLOPs"), el("th", { class: "num" }, "bytes"))),
        el("tbody", {}, rows.slice(0, 12).map((n) => el("tr", { class: n === node ? "chosen" : null }, el("td", {}, nodeLink(app, n.id, n.op), el("span", { class: "dim" }, ` ${PHASES[n.phase]}`), fusedText(app, n)), el("td", { class: "num" }, time(n.ns)), measured && el("td", { class: "num" }, time(n.measured)), el("td", { class: "num" }, orBlank(n.flops, si)), el("td", { class: "num" }, orBlank(n.bytes, bytes)))))),
        rows.some((n) => fusedWith(app, n).length > 0) && el("p", { class: "dim" }, "A fused step's time is shared among its members by the bytes that they make."));
}

function fusedWith(app, node) {
    const { role, nodes } = app.program, step = node.kernel >= 0 ? role.steps[node.kernel] : null;
    if (!step || step.fused === 0) return [];
    let begin = step.id, end = step.id; /* the members are steps one behind another */
    while (begin > 0 && role.steps[begin - 1].fused === step.fused) begin--;
    while (end < role.steps.length && role.steps[end].fused === step.fused) end++;
    return role.steps.slice(begin, end).filter((s) => s.node >= 0 && s.node !== node.id).map((s) => nodes[s.node]);
}

function fusedText(app, node) {
    const others = fusedWith(app, node);
    return others.length > 0 ? el("div", { class: "dim" }, `one step with ${others.slice(0, 3).map((n) => n.op).join(", ")}${others.length > 3 ? " …" : ""}`) : null;
}

function paneEdges(app, node) {
    const { values, nodes } = app.program;
    const takes = [...new Set(node.ins.map((v) => values[v].node))], users = [...new Set(node.outs.flatMap((v) => values[v].users))];
    if (takes.length + users.length === 0) return null;
    const list = (ids) => (ids.length > 0 ? joined(ids.map((id) => nodeLink(app, id, nodes[id].name)), 10) : "nothing");
    return el("section", {}, el("h3", {}, "From and to"), facts([["takes", list(takes)], ["taken by", list(users)]]));
}

/* ---------------------------------------------------------------- a communication */

function paneComm(app, comm) {
    const { program, plan } = app, value = program.values[comm.value], node = program.nodes[value.node], advice = adviceFor(app, comm), takers = takersOf(app, comm);
    const together = comm.bucket > 0 ? program.role.comms.filter((c) => c.bucket === comm.bucket).length - 1 : 0;
    return [
        paneTitle(`${comm.kind} of ${value.name}`, [`${value.type.text}, ${PHASES[node.phase]}`]),
        el("p", {}, arrowChips(plan, comm.layouts[0], comm.layouts[1], value.type)),
        el("p", {}, KIND_WORDS[comm.kind] || ""),
        facts([
            program.role.predicted && ["takes", `${time(comm.ns)} alone; ${comm.waited > 0 ? `computing waits ${time(comm.waited)} for it${othersWait(comm) > 0.05 * comm.waited ? `, ${time(othersWait(comm))} of it until the other stage has come to it` : comm.waited > 1.05 * comm.ns ? ", with what goes before it or in its bucket" : ""}` : "hidden behind computing"}`],
            app.run ? ["measured", `waited for ${time(comm.measuredWait)}${comm.late > 0 ? `, ${time(comm.late)} of it for a rank that came later` : ""}`] : null,
            [sendsOnly(comm) ? "sent" : "received", travelText(app, comm)],
            program.role.totals && ["the least", `${bytes(comm.least.total)}${comm.least.total > 0 ? `: ${digits3(comm.received.total / comm.least.total)} ×` : ""}`],
            together > 0 ? ["together with", `${plural(together, "other")} in bucket ${comm.bucket}; its time stands at the first`] : null,
        ]),
        el("section", {}, el("h3", {}, "Why"), el("p", {}, `${causeText(app, comm)}.`), el("p", { class: "todo" }, `→ ${advice.text}`), advice.command && commandLine(advice.command), weighedBlock(program, node)),
        el("section", {}, el("h3", {}, "Made by"), el("p", {}, nodeLink(app, node.id, `${node.op} ${node.name}`)), sourceBlock(app, program.nodes[node.home])),
        takers.length > 0 && el("section", {}, el("h3", {}, "Taken by"), el("p", {}, joined(takers.map((n) => nodeLink(app, n.id, `${n.op} ${n.name}`)), 6)), sourceBlock(app, program.nodes[takers[0].home])),
    ];
}

const KIND_WORDS = {
    all_reduce: "Every rank has a term of a sum; all get the sum.", all_gather: "Every rank has a part; all get the parts of the others too.", reduce_scatter: "Every rank has a term of a sum; each gets one part of the sum.",
    all_to_all: "Every rank has a part along one dimension, and gets one along another.", exchange: "Ranks send each other what the new layout asks for, piece by piece.", strided_slice: "Every rank takes a part of what it has; nothing moves.",
};

/* ---------------------------------------------------------------- a call, or a loop */

function paneRow(app, row) {
    const nodes = nodesBelow(row), { figures } = row, { program } = app;
    const names = row.kind === "loop" ? `iterations ${iterationsText(row.iterations)}` : row.iterations && row.iterations.length > 1 ? `${row.name.replace(/\.\d+(?=\.|$)/, "")} × ${row.iterations.length}` : row.name;
    const comms = nodes.flatMap((n) => listAt(app.commsUnder, n).map((id) => app.program.role.comms[id])).sort((a, b) => b.waited - a.waited || b.received.total - a.received.total);
    const hottest = [...nodes].sort((a, b) => app.tree.own[b].ns - app.tree.own[a].ns).filter((n) => app.tree.own[n].ns > 0);
    return [
        paneTitle(names, row.kind === "loop" ? `${plural(row.iterations.length, "equal iteration")} of a loop` : `${row.cell ? `call of ${row.cell}` : "lines"}${row.count > 1 ? `, ${row.count} alike` : ""}, ${plural(nodes.length, "line")}`),
        row.call && el("div", { class: "source" }, callChain(app.plan, row.call).map((place) => el("div", {}, el("span", { class: "place" }, placeText(app.plan, place)), " ", sourceLine(app.plan, place) === null ? "" : marked(sourceLine(app.plan, place), null)))),
        el("section", {}, el("h3", {}, "In all"), facts([["predicted", time(figures.ns + figures.waited)], ["of it waiting", time(figures.waited)], app.run ? ["measured", time(figures.measured)] : null, ["received", `${bytes(figures.received)} by all ranks, ${plural(figures.comms, "communication")}`], ["at the peak", bytes(figures.peak)], ["FLOPs", `${si(figures.flops)} of the busiest rank`]])),
        hottest.length > 0 && el("section", {}, el("h3", {}, "Computes longest"), el("table", { class: "grid compact" }, el("tbody", {}, topPatterns(app, hottest).map((g) => el("tr", {}, el("td", {}, nodeLink(app, g.id, g.name), g.count > 1 && el("span", { class: "count" }, `× ${g.count}`)), el("td", { class: "num" }, time(g.ns))))))),
        comms.length > 0 && el("section", {}, el("h3", {}, "Waits and moves most"), comms.slice(0, 4).map((c) => commItem(app, c))),
        el("section", {}, el("h3", {}, "Result"), el("p", {}, nodeLink(app, resultOf(row).id), " ", chipsOfNode(app, resultOf(row)))),
        program && null,
    ];
}

function callChain(plan, call) {
    const places = [];
    for (let at = call; at; at = at.outer >= 0 ? plan.calls[at.outer] : null) places.unshift(at.place);
    return places.filter((p) => p.line > 0);
}

function topPatterns(app, ids) {
    const groups = groupBy(ids, (id) => pattern(app.program.nodes[id].name));
    return [...groups.values()].map((list) => ({ id: list[0], name: list.length > 1 ? pattern(app.program.nodes[list[0]].name) : app.program.nodes[list[0]].name, count: list.length, ns: sum(list, (id) => app.tree.own[id].ns) })).sort((a, b) => b.ns - a.ns).slice(0, 6);
}
