/* Puts the page together: reads the data, draws the sections, and knows what is chosen. */

const PAGE_FORMAT = 4; /* of the data that this page reads */

const SECTIONS = [["compare", "Compare"], ["summary", "Summary"], ["net", "Net"], ["layout", "Layout"], ["step", "Step"], ["communication", "Communication"], ["training", "Training"]];

function dataOf(id) {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
}

/* What follows from a plan's program. */
function* appDerive(app) {
    const { program } = app, { role } = program;
    linksMake(program);
    yield;
    app.alive = aliveMake(role);
    yield;
    app.begins = stepTimes(role);
    app.commInto = new Map(role.comms.map((c) => [c.to, c]));
    yield;
    app.under = inverseOf(program.nodes.map((n) => n.home), program.nodes.length); /* nodes under one's line */
    app.commsUnder = inverseOf(role.comms.map((c) => program.nodes[program.values[c.value].node].home), program.nodes.length);
    yield;
    app.eventOfStep = new Array(role.steps.length).fill(null);
    for (const e of role.events) for (let i = 0; i < e.n; i++) app.eventOfStep[e.step + i] = e;
    app.phases = phasesOf(program);
}

/* Where forward, backward and update begin. Updates may stand among gradients: those behind the last gradient are the phase. */
function phasesOf(program) {
    const { steps } = program.role, is = (phase) => (step) => step.kind === 0 && step.node >= 0 && program.nodes[step.node].phase === phase;
    const first = steps.findIndex(is(1)), last = steps.findLastIndex(is(1)), starts = [{ phase: 0, step: 0 }];
    if (first >= 0) starts.push({ phase: 1, step: first });
    if (steps.some((step) => step.id > last && is(2)(step))) starts.push({ phase: 2, step: last + 1 });
    return starts;
}

/* What was read of a program, of a stage, is kept: going back to it is quick. stage undefined: any. */
function appKept(plan, number, stage) {
    return plan.apps.find((app) => app.number === number && (stage === undefined || app.program.stage === stage));
}

function appOf(plan, run, number, stage) {
    const kept = appKept(plan, number, stage);
    if (kept) return kept;
    plan.apps.push(finished(appBegun(plan, run, number, stage)));
    plan.begun.delete(`${number} ${stage}`);
    return plan.apps[plan.apps.length - 1];
}

/* The work that reads it, as far as it has come. */
function appBegun(plan, run, number, stage) {
    const key = `${number} ${stage}`;
    if (!plan.begun.has(key)) plan.begun.set(key, appPieces(plan, run, number, stage));
    return plan.begun.get(key);
}

/* Reads a piece more of it. */
function appFurther(plan, run, number, stage) {
    const { done, value } = appBegun(plan, run, number, stage).next();
    if (!done) return;
    plan.apps.push(value);
    plan.begun.delete(`${number} ${stage}`);
}

/* Of programs that are not shown, and of other stages, a piece more is read: the first choice of one is quick then. Returns whether anything is left. */
function prepareOthers(plan, run) {
    const wanted = [...plan.programs.map((_, number) => [number]), ...[...Array(plan.programs[0].roles).keys()].map((stage) => [0, stage])];
    const next = wanted.find(([number, stage]) => !appKept(plan, number, stage));
    if (!next || plan.apps.length >= PREPARED_MOST) return false;
    appFurther(plan, run, ...next);
    return true;
}
const PREPARED_MOST = 6; /* of 30,000 steps each takes some 100 MB */

function prepareWhenIdle(plan, run) {
    whenIdle(() => prepareOthers(plan, run) && prepareWhenIdle(plan, run));
}

function whenIdle(act) {
    if (window.requestIdleCallback) requestIdleCallback(act);
    else setTimeout(act, 50);
}

function* appPieces(plan, run, number, stage) {
    const program = yield* programPieces(plan, number, stage);
    const app = { plan, program, run: null, ended: null, number, chosen: null, rank: program.role.ranks[0], cursor: 0, trail: [] };
    if (run && number === 0 && run.checksum === plan.raw.checksum) app.ended = run; /* with what it has printed; `run`: with what it has measured, too */
    if (app.ended && app.ended.measured > 0) app.run = runRead(run, program);
    yield* appDerive(app);
    yield;
    app.tree = treeMake(plan, program, app.alive.peak);
    if (app.run) for (const comm of program.role.comms) measuredAdd(app.tree, program.nodes[program.values[comm.value].node].home, comm.measuredWait);
    yield;
    app.findings = findingsMake(app);
    return app;
}

/* Waits as measured count where the predicted ones do. */
function measuredAdd(tree, node, ns) {
    for (let row = tree.rows[tree.rowOf[node]]; row; row = tree.rows[row.parent]) row.figures.measured += ns;
}

/* ---------------------------------------------------------------- things that are chosen */

/* {kind: "node" | "comm" | "row", id}: the node that it is about. */
function nodeOfThing(app, thing) {
    if (thing.kind === "comm") return app.program.values[app.program.role.comms[thing.id].value].node;
    return thing.kind === "row" ? resultOf(app.tree.rows[thing.id]).id : thing.id;
}

function thingOfEvent(app, event) {
    const step = app.program.role.steps[event.step];
    if (step.comm >= 0) return { kind: "comm", id: step.comm };
    return { kind: "node", id: step.node >= 0 ? step.node : nodeOfWrite(app.program, step) };
}

function eventsOfThing(app, thing) {
    if (!thing) return [];
    const { role, nodes } = app.program;
    const ofNode = (id) => (nodes[id].kernel >= 0 ? [app.eventOfStep[nodes[id].kernel]] : []);
    if (thing.kind === "comm") return role.steps.length > 0 ? [app.eventOfStep[role.comms[thing.id].step], app.eventOfStep[app.waitOf.get(thing.id)]].filter((e) => e) : [];
    const ids = thing.kind === "row" ? nodesBelow(app.tree.rows[thing.id]) : [thing.id];
    return ids.flatMap(ofNode).filter((e) => e);
}

/* What a page opens with: the communication that is waited for longest; without one the longest operator. */
function firstThing(app) {
    const { comms } = app.program.role;
    if (comms.length > 0) return { kind: "comm", id: longestWait(app, comms).id };
    return { kind: "node", id: longestNode(app) };
}

/* ---------------------------------------------------------------- the page */

function pageBuild(plan, run, number, stage, shown) {
    const app = appOf(plan, run, number, stage);
    const main = document.getElementById("main");
    app.paneElement = document.getElementById("pane");
    app.waitOf = new Map();
    for (const step of app.program.role.steps) if (step.kind === 3 && step.comm >= 0) app.waitOf.set(step.comm, step.id);
    app.choose = (thing, keep) => choose(app, thing, keep);
    app.show = (thing) => show(app, thing);
    app.back = () => {
        if (app.trail.length === 0) return;
        choose(app, app.trail.pop(), true);
        addressName(app);
    };
    app.setRank = (rank) => {
        app.rank = ((rank % plan.ranks) + plan.ranks) % plan.ranks;
        layoutDraw(app.layout);
    };
    app.say = (text) => {
        app.message.textContent = text;
        app.message.hidden = text === "";
    };
    app.toStage = (stage, thing) => {
        if (stage !== app.program.stage) startSoon(plan, run, number, stage, thing);
    };
    app.drawBar = () => barDraw(app);
    app.message = el("p", { class: "message", role: "alert", hidden: true, onclick: () => app.say("") });
    replace(main, app.message, compareSection(app), summarySection(app), netSection(app), layoutSection(app), stepSection(app), communicationSection(app), trainingSection(app),
            el("footer", { class: "dim" }, `Written by pcc ${plan.raw.pcc || ""}. Keys: / find, [ ] rank, + − 0 zoom, n next wait, p peak of memory, b back, t light or dark, arrows in the net.`));
    barDraw(app);
    const linked = shown || app.chosen || thingInAddress(app, location.hash);
    choose(app, linked || firstThing(app), true);
    if (linked) netRevealThing(app.net, linked);
    if (app.stages) stagesDraw(app.stages);
    return app;
}

function barDraw(app) {
    const { plan } = app, sections = SECTIONS.filter(([id]) => document.getElementById(id) && !document.getElementById(id).hidden);
    if (!app.chooser) {
        app.chooser = compareChooser(app);
        app.searchElement = searchBox(app);
    }
    const programs = plan.programs.length > 1 && el("select", { "aria-label": "program", onchange: (e) => startSoon(plan, app.runData, Number(e.target.value)) }, plan.programs.map((p, i) => el("option", { value: i, selected: i === app.number }, `program ${p.name}`)));
    const stages = app.program.stages.length > 1 && el("select", { "aria-label": "stage", onchange: (e) => app.toStage(Number(e.target.value)) }, app.program.stages.map((s) => el("option", { value: s.number, selected: s.number === app.program.stage }, `stage ${s.number}`)));
    replace(document.getElementById("bar"), el("b", { class: "net" }, plan.net), el("span", { class: "dim mesh" }, `${plural(plan.ranks, "rank")}${plan.mesh.some((m) => m.own) ? ` = ${meshText(plan)}` : ""}`), programs,
            stages, el("nav", {}, sections.map(([id, name]) => el("button", { "data-to": id, onclick: () => goTo(app, id) }, name))), app.searchElement,
            el("button", { onclick: () => app.chooser.click(), title: "another report, from your disk: what differs" }, "Compare…"), app.chooser, el("button", { onclick: themeTurn, title: "light or dark: t", "aria-label": "light or dark" }, "◐"));
    requestAnimationFrame(markSection); /* where the sections are is known then without laying the page out twice */
}

const BAR = 52; /* a section that is gone to begins here, under the bar */

function goTo(app, id) {
    const section = document.getElementById(id);
    if (!section) return;
    window.scrollTo({ top: section.offsetTop - BAR });
    goneTo = { id, y: window.scrollY };
    markSection();
}
let goneTo = null;

/* The section in sight is marked in the bar: the one that was gone to, which cannot come to the top near the end of the page; after scrolling what is at the top, at the end of the page the last. */
function markSection() {
    const sections = SECTIONS.map(([id]) => document.getElementById(id)).filter((section) => section && !section.hidden);
    const end = window.scrollY > 0 && window.scrollY + window.innerHeight >= document.documentElement.scrollHeight - 2;
    if (goneTo && goneTo.y !== window.scrollY) goneTo = null;
    const at = goneTo ? goneTo.id : (end ? sections.at(-1) : sections.findLast((section, i) => i === 0 || section.getBoundingClientRect().top < BAR + 60)).id;
    for (const button of document.querySelectorAll("#bar nav button")) button.setAttribute("aria-current", String(button.dataset.to === at));
}

/* Chooses: explained in the pane, drawn under Layout, marked everywhere. Nothing moves. */
function choose(app, thing, keep) {
    if (app.chosen && !keep && (app.chosen.kind !== thing.kind || app.chosen.id !== thing.id)) app.trail.push(app.chosen);
    app.chosen = thing;
    const name = nameOfThing(app, thing);
    document.title = `${name} · ${app.plan.net}`;
    if (!keep) addressName(app);
    paneDraw(app);
    layoutDraw(app.layout);
    netMark(app.net);
    if (app.net.graph) graphMark(app.net);
    stepDraw(app.step);
    communicationMark(app.communication);
}

/* The address names what is chosen: a link to it opens with it. */
function addressName(app) {
    history.replaceState(null, "", "#" + encodeURIComponent(nameOfThing(app, app.chosen)));
}

/* Chooses, and goes where it is seen: a communication under Layout, a line in the net. */
function show(app, thing) {
    choose(app, thing);
    netRevealThing(app.net, thing);
    if (app.net.graph) graphDraw(app.net);
    goTo(app, thing.kind === "comm" ? "layout" : "net");
}

function nameOfThing(app, thing) {
    if (thing.kind === "row") return app.tree.rows[thing.id].path || app.tree.rows[thing.id].name || "net";
    const node = app.program.nodes[nodeOfThing(app, thing)], name = node.outs.length > 0 ? app.program.values[node.outs[0]].name : node.name;
    return thing.kind === "comm" ? `${app.program.role.comms[thing.id].kind} ${app.program.role.comms[thing.id].name}` : name;
}

/* What a link to the page names: a value, or "all_reduce w.grad". */
function thingNamed(app, name) {
    if (!name) return null;
    const comm = app.program.role.comms.find((c) => `${c.kind} ${c.name}` === name);
    if (comm) return { kind: "comm", id: comm.id };
    const value = app.program.values.find((v) => v.name === name);
    return value ? { kind: "node", id: value.node } : null;
}

/* Null where it names nothing: an address may have been typed, or cut. */
function thingInAddress(app, hash) {
    try {
        return thingNamed(app, decodeURIComponent(hash.slice(1)));
    } catch (error) {
        if (!(error instanceof URIError)) throw error; /* a % without two digits */
        return null;
    }
}

/* ---------------------------------------------------------------- keys, theme */

function themeTurn() {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redrawCanvases();
}

function redrawCanvases() {
    stepDraw(page.step);
    if (page.stages) stagesDraw(page.stages);
    if (page.compare.other) compareLanes(page.compare);
}

function pageKey(event) {
    const typing = event.target.matches("input[type=search], select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
        page.say("");
        return event.target.blur && event.target.blur();
    }
    if (typing) return;
    const acts = {
        "/": () => document.getElementById("find").focus(), "[": () => page.setRank(page.rank - 1), "]": () => page.setRank(page.rank + 1), "+": () => stepZoom(page.step, 0.5), "=": () => stepZoom(page.step, 0.5), "-": () => stepZoom(page.step, 2), "0": () => stepAll(page.step),
        n: () => stepNextWait(page.step), p: () => stepPeak(page.step), t: themeTurn, b: () => page.back(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
}

/* On paper: light colours, what is folded open, tables with all of their rows, and a net of few rows too. */
const PRINTED_ROWS = 1000, PRINTED_NET = 150;
let printed = null;

function beforePrint() {
    const root = document.documentElement, closed = [...document.querySelectorAll("details:not([open])")];
    if (printed) return;
    printed = { theme: root.dataset.theme, closed, rows: page.tree.rows.map((row) => row.open), tables: [] };
    root.dataset.theme = "light";
    for (const details of closed) details.open = true;
    for (const table of document.querySelectorAll("table.grid")) if (table.showRows) printed.tables.push([table, table.showRows(PRINTED_ROWS)]);
    if (page.tree.rows.length <= PRINTED_NET) for (const row of page.tree.rows) row.open = true;
    netDraw(page.net);
    redrawCanvases();
}

function afterPrint() {
    if (!printed) return;
    if (printed.theme) document.documentElement.dataset.theme = printed.theme;
    else delete document.documentElement.dataset.theme;
    for (const details of printed.closed) details.open = false;
    for (const [table, rows] of printed.tables) table.showRows(rows);
    page.tree.rows.forEach((row, i) => (row.open = printed.rows[i]));
    printed = null;
    netDraw(page.net);
    redrawCanvases();
}

let page = null;

/* Another program, another stage: what is not read yet is read in pieces, so that the page answers meanwhile, and says what it does. A later choice takes its place. */
function startSoon(plan, run, number, stage, shown, later = setTimeout) {
    const choice = (plan.choice = {});
    const further = () => {
        if (plan.choice !== choice) return;
        if (appKept(plan, number, stage)) return start(plan, run, number, stage, shown);
        appFurther(plan, run, number, stage);
        later(further);
    };
    if (appKept(plan, number, stage)) return further();
    page.say(`Reading ${stage === undefined ? `program ${plan.programs[number].name}` : `stage ${stage}`} …`);
    later(further);
}

/* stage, shown: undefined where it is to be the usual one. */
function start(plan, run, number, stage, shown) {
    page = pageBuild(plan, run, number, stage, shown);
    page.runData = run;
    const other = dataOf("other");
    if (other) compareWith(page, other, null, "");
}

document.body.append(svg("svg", { width: 0, height: 0, class: "defs", "aria-hidden": "true" }, hatchPattern()));
document.addEventListener("keydown", pageKey);
window.addEventListener("scroll", markSection, { passive: true });
window.addEventListener("beforeprint", beforePrint);
window.addEventListener("afterprint", afterPrint);
window.addEventListener("hashchange", () => {
    const thing = thingInAddress(page, location.hash);
    if (thing) page.show(thing);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCanvases);
const planData = dataOf("plan");
if (planData.format === PAGE_FORMAT) {
    start(planRead(planData), dataOf("run"), 0);
    prepareWhenIdle(page.plan, page.runData);
} else {
    document.getElementById("main").append(`This page reads format ${PAGE_FORMAT} of reports; the data in it are of format ${planData.format}.`);
}
