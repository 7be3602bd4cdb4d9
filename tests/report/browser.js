/* Checks of a page from within, run by browser.py: appended to the page behind its own scripts, they use every control and write what failed.
 * `expected` is put before: {stats: --stats=json or null, other: the data of another plan or null, ready: ms or null}. */

const checks = { failed: [], done: [], kinds: [], times: {} };

function check(holds, what) {
    checks.done.push(what);
    if (!holds) checks.failed.push(what);
}

function near(a, b, what) {
    check(Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b)) + 1e-6, `${what}: ${a}, not ${b}`);
}

const key = (name, target = document.body, more = {}) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const clickText = (selector, text) => all(selector).find((e) => e.textContent.trim().startsWith(text)).click();

/* How long an interaction takes, layout and style included. */
function timed(name, act) {
    const begin = performance.now();
    act();
    document.body.getBoundingClientRect();
    checks.times[name] = Math.max(checks.times[name] || 0, performance.now() - begin);
}

/* ---------------------------------------------------------------- figures */

function checkFigures(stats) {
    const { role } = page.program, figures = page.tree.root.figures;
    const again = all(".cards .text").find((e) => e.textContent.startsWith("computed again"));
    check(stats && stats.recompute ? again && again.textContent.includes(`: ${plural(stats.recompute.kernels, "kernel")}`) : !stats || !again, "kernels that are computed again are on the card of memory");
    near(figures.comms, role.comms.length, "every communication stands under one line");
    near(figures.received, sum(role.comms, (c) => c.received.total), "bytes of the tree's lines are those of the communications");
    if (role.predicted) check(Math.abs(figures.ns - role.predicted.kernels) <= role.events.length + 1, `seconds of the lines ${figures.ns} are those of the kernels ${role.predicted.kernels}`);
    if (role.predicted) check(Math.abs(figures.waited - role.predicted.exposed) <= role.comms.length + 1, `waits of the lines ${figures.waited} are what is exposed ${role.predicted.exposed}`);
    near(figures.flops, sum(role.events, (e) => e.flops), "FLOPs of the lines are those of the kernels");
    check(page.alive.total[page.alive.peak] <= role.arena, "the peak fits the arena");
    if (role.fullest) near(page.alive.total[page.alive.peak], role.fullest.bytes, "the peak is what pcc says of the fullest step");
    if (!stats) return;
    near(role.memory.rank, stats.memory.rank, "memory as --stats=json");
    check(Math.abs(role.predicted.step - 1e9 * stats.predicted.step) <= 2, "the step as --stats=json");
    if (stats.stages) return; /* the page is of one stage */
    near(role.totals.received.total, stats.totals.received.total, "received as --stats=json");
    near(sum(role.comms, (c) => c.sent.total), stats.totals.sent.total, "sent as --stats=json");
    near(role.comms.length, stats.totals.communications, "communications as --stats=json");
    near(sum(role.comms, (c) => c.received.total), stats.totals.received.total, "the sum over communications as --stats=json");
}

/* Bytes of each kind of conversion, computed in the page, are pcc's. */
function checkPieces() {
    const { plan, program } = page, { role } = program, seen = new Set(), kinds = new Set();
    for (const comm of plan.ranks <= 64 ? role.comms : []) {
        const type = program.values[comm.value].type, what = `${comm.kind} ${comm.layouts[0].text} -> ${comm.layouts[1].text} of ${type.text}`;
        if (seen.has(what)) continue;
        seen.add(what);
        kinds.add(comm.kind);
        const move = moveMake(comm.kind, comm.layouts[0], comm.layouts[1], type.shape, plan.ranks), ranks = [...Array(plan.ranks).keys()];
        const here = comm.layouts.map((layout) => ranks.some((r) => r >= role.ranks[0] && r <= role.ranks[1] && holdsAny(layout, r))); /* what a stage has no part in it does not count */
        const received = ranks.map((r) => elementBytes(type) * sum(piecesReceived(move, r).filter((p) => p.from !== r), (p) => p.elements));
        const sent = ranks.map((r) => elementBytes(type) * sum(piecesSent(move, r), (p) => p.elements));
        near(here[1] ? sum(received) : 0, comm.received.total, `received in ${what}`);
        near(here[1] ? Math.max(...received) : 0, comm.received.max, `received by the busiest in ${what}`);
        near(here[0] || comm.layouts[0].partial.length > 0 ? sum(sent) : 0, comm.sent.total, `sent in ${what}`);
        near(here[0] || comm.layouts[0].partial.length > 0 ? Math.max(...sent) : 0, comm.sent.max, `sent by the busiest in ${what}`);
        if (comm.layouts[1].halos.some((h) => h)) kinds.add("halo");
        if (type.shape.some((n, d) => n % parts(comm.layouts[0].dims[d]) !== 0)) kinds.add("uneven");
    }
    for (const instance of role.instances) near(largestElements(instance.layout, valueOf(page, instance).type.shape) * elementBytes(valueOf(page, instance).type), instance.bytes, `bytes of ${valueOf(page, instance).name}`);
    checks.kinds = [...kinds];
}

function checkLanes(events, what) {
    const sorted = [...events].sort((a, b) => a.begin - b.begin);
    check(sorted.every((e, i) => e.begin <= e.end && (i === 0 || sorted[i - 1].end <= e.begin + 1)), `${what}: events follow each other`);
}

/* ---------------------------------------------------------------- choosing */

const WORDS_OF_MISTAKES = /\[object|undefined|NaN|Infinity|null/;

function checkText(element, what) {
    const text = element.textContent, wrong = text.match(new RegExp(`.{0,30}(${WORDS_OF_MISTAKES.source}).{0,30}`));
    check(text.trim().length > 20 && !wrong, `${what} says something${wrong ? `, not "${wrong[0]}"` : ""}`);
}

function checkChoosing() {
    const things = [...spaced(page.program.nodes, 150).map((n) => ({ kind: "node", id: n.id })), ...spaced(page.program.role.comms, 60).map((c) => ({ kind: "comm", id: c.id })), ...spaced(page.tree.rows, 60).filter((r) => r.kind !== "node").map((r) => ({ kind: "row", id: r.id }))];
    window.scrollTo(0, 500);
    const scroll = window.scrollY, tall = document.getElementById("main").scrollHeight;
    for (const thing of things) {
        timed("choose", () => page.choose(thing));
        checkText(page.paneElement, `the pane of ${thing.kind} ${thing.id}`);
        check(!WORDS_OF_MISTAKES.test(page.layout.figures.textContent), `the layout of ${thing.kind} ${thing.id} has no "undefined"`);
    }
    check(window.scrollY === scroll, "choosing scrolls nothing");
    check(document.getElementById("main").scrollHeight === tall, `choosing moves nothing: ${tall} and ${document.getElementById("main").scrollHeight}`);
    check(page.paneElement.scrollWidth <= page.paneElement.clientWidth, "the pane is not wider than it is");
    const before = page.chosen;
    page.choose({ kind: "node", id: 0 });
    let address = "";
    history.replaceState = (state, title, to) => (address = to); /* the browser itself takes no more than 200 in ten seconds */
    key("b");
    delete history.replaceState;
    check(page.chosen.kind === before.kind && page.chosen.id === before.id, "b goes back to what was chosen before");
    check(address === "#" + encodeURIComponent(nameOfThing(page, before)), "the address names what b goes back to");
    check(thingInAddress(page, "#100%") === null && thingInAddress(page, "#" + encodeURIComponent(page.program.values[0].name)) !== null, "an address that names nothing does no harm");
}

function spaced(list, most) {
    const step = Math.max(1, Math.floor(list.length / most));
    return list.filter((_, i) => i % step === 0);
}

/* ---------------------------------------------------------------- controls */

function checkKeys() {
    const find = document.getElementById("find"), name = page.program.nodes[page.program.nodes.length >> 1].name;
    key("/");
    check(document.activeElement === find, "/ goes to the search");
    timed("search", () => {
        find.value = name;
        find.dispatchEvent(new Event("input"));
    });
    check(all(".found li").length > 0 && all(".found li")[0].textContent.includes(name), `the search finds ${name} first`);
    key("ArrowDown", find);
    check(all(".found li[aria-selected=true]").length === 1, "an arrow goes to another hit");
    key("ArrowUp", find);
    timed("show", () => key("Enter", find));
    check(nameOfThing(page, page.chosen) === name, `Enter chooses ${name}`);
    if (page.tree.rowOf[nodeOfThing(page, page.chosen)] >= 0) check(page.net.body.querySelector(".chosen") !== null, "what is found is marked in the net");
    key("Escape");
    const ranks = page.plan.ranks;
    page.setRank(0);
    timed("rank", () => key("]"));
    check(page.rank === 1 % ranks, "] is the next rank");
    key("[");
    key("[");
    check(page.rank === (ranks - 1) % ranks, "[ is the rank before");
    page.layout.rank.value = 0;
    page.layout.rank.dispatchEvent(new Event("input"));
    check(page.rank === 0, "the slider chooses a rank");
    const theme = getComputedStyle(document.body).backgroundColor;
    timed("theme", () => key("t"));
    check(getComputedStyle(document.body).backgroundColor !== theme, "t turns light and dark");
    key("t");
}

function checkNet() {
    const rows = all(".rows .row:not(.head)");
    check(rows.length > 0 && rows.every((r) => (r.querySelector(":scope > button") || r).tabIndex === 0), "every row can be reached by Tab");
    timed("open all", () => clickText("#net button", "Open all"));
    const open = page.net.visible.length;
    timed("close all", () => clickText("#net button", "Close all"));
    check(page.net.visible.length <= open, "Close all closes");
    for (const to of [page.net.visible.at(-1), page.net.visible[0]]) {
        netReveal(page.net, to);
        check(page.net.elements.has(to.id), "a row that is far away is drawn when it is looked for");
    }
    const row = page.net.visible.find((r) => r.children.length > 0 && page.net.elements.has(r.id));
    if (row) {
        const at = () => page.net.elements.get(row.id), count = page.net.visible.length;
        at().focus();
        timed("open a row", () => key("ArrowRight", at()));
        check(page.net.visible.length > count, "ArrowRight opens a row");
        key("ArrowDown", at());
        check(document.activeElement !== at() && document.activeElement.dataset.row !== undefined, "ArrowDown goes down");
        key("ArrowLeft", at());
        check(page.net.visible.length === count, "ArrowLeft closes a row");
    }
    for (const [where, rows] of [["more", page.net.visible.length - page.net.first - page.net.limit], ["before", page.net.first]]) {
        if (rows <= 0) continue;
        const drawn = page.net.elements.size;
        all("#net .row > button").find((button) => button.textContent.endsWith(where)).click();
        check(page.net.elements.size > drawn, `more rows are drawn by "${rows} rows ${where}"`);
    }
    const first = page.net.elements.get(page.net.visible[0].id);
    key("Enter", first);
    check(first.classList.contains("chosen"), "Enter chooses a row");
    timed("nodes and edges", () => clickText("#net button", "Nodes and edges"));
    check(all("svg.nodes .node").length > 0 && !WORDS_OF_MISTAKES.test(all("svg.nodes")[0].textContent), "nodes and edges are drawn");
    clickText("#net button", "Lines");
    const last = page.tree.rows.findLast((r) => r.kind === "node");
    start(page.plan, page.runData, page.number, page.program.stage, thingOfRow(last)); /* as a link does */
    check(page.net.elements.has(last.id) && page.chosen.id === last.node.id, "what a page opens with is in sight");
    clickText("#net button", "Open all");
    check(!WORDS_OF_MISTAKES.test(page.net.body.textContent), "no row says undefined");
    clickText("#net button", "Close all");
}

function coloursOf(canvas) {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return colours.size;
}

function pointer(type, x, y) {
    const box = page.step.canvas.getBoundingClientRect();
    page.step.canvas.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, button: 0, bubbles: true }));
}

function checkStep() {
    const view = page.step, canvas = view.canvas, at = stepPlaces();
    timed("draw the step", () => stepDraw(view));
    check(coloursOf(canvas) > 4, "the step is drawn");
    const whole = view.window[1] - view.window[0];
    timed("zoom", () => key("+"));
    check(view.window[1] - view.window[0] < whole, "+ zooms");
    key("-");
    key("0");
    check(view.window[0] === 0 && view.window[1] === view.end, "0 shows the whole step");
    const scroll = window.scrollY;
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -100, clientX: canvas.getBoundingClientRect().left + 400, clientY: 0, bubbles: true, cancelable: true }));
    check(view.window[1] - view.window[0] === view.end, "the wheel alone zooms nothing: the page scrolls");
    canvas.focus({ preventScroll: true });
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -100, clientX: canvas.getBoundingClientRect().left + 400, clientY: 0, bubbles: true, cancelable: true }));
    check(view.window[1] - view.window[0] < view.end, "the wheel zooms where the canvas has the focus");
    key("+");
    const begin = view.window[0];
    pointer("pointerdown", 500, at.compute + 5);
    pointer("pointermove", 420, at.compute + 5);
    pointer("pointerup", 420, at.compute + 5);
    check(view.window[0] !== begin, "dragging moves");
    key("ArrowLeft", canvas);
    key("ArrowRight", canvas);
    key("0");
    const longest = view.compute.reduce((a, b) => (b.end - b.begin > a.end - a.begin ? b : a), view.compute[0]);
    if (longest) {
        const x = view.span.at((longest.begin + longest.end) / 2);
        pointer("pointermove", x, at.compute + 5);
        check(view.tip.textContent.includes(eventLabel(page, longest)), "what is under the pointer is named");
        pointer("pointerdown", x, at.compute + 5);
        pointer("pointerup", x, at.compute + 5);
        const thing = thingOfEvent(page, longest);
        check(page.chosen.kind === thing.kind && page.chosen.id === thing.id, "a click chooses the event");
        check(page.cursor === longest.step, "a click moves the cursor");
    }
    timed("alive at the cursor", () => key("p"));
    check(view.aliveHead.textContent.includes("the peak"), "p goes to the peak");
    timed("next wait", () => key("n"));
    if (view.compute.some((e) => e.wait && e.end > e.begin)) check(page.chosen.kind === "comm", "n chooses a wait");
    key("0");
    check(window.scrollY === scroll, "keys of the step scroll nothing");
    if (page.run) {
        check(view.lanes.length > 0 && view.measuredSpan, "measured lanes are drawn");
        pointer("pointermove", view.span.x + view.span.width / 2, at.measured + STEP.axis + 10);
        for (const lane of view.lanes) checkLanes(lane.compute, `rank ${lane.rank}`);
        check(sum(page.program.nodes, (n) => n.measured) > 0, "kernels have measured times");
    }
}

/* Every table sorts by every column that says so: both ways, by what its cells say. */
function checkSorting() {
    const count = all("button.sort").length;
    for (let i = 0; i < count; i++) {
        timed("sort", () => all("button.sort")[i].click());
        const th = all("button.sort")[i].closest("th");
        check(th.getAttribute("aria-sort") !== "none", `column ${th.textContent} sorts`);
        const index = [...th.parentNode.children].indexOf(th), rows = () => all("tbody > tr:not(.cause):not(.single)", th.closest("table")).map((tr) => tr.children[index].textContent);
        const once = rows();
        all("button.sort")[i].click();
        const twice = all("tbody > tr:not(.cause):not(.single)", all("button.sort")[i].closest("table")).map((tr) => tr.children[index].textContent);
        const rest = all("tfoot", all("button.sort")[i].closest("table")).length > 0;
        check(rest || once[0] === twice[twice.length - 1], `column ${th.textContent} sorts both ways: ${once[0]}, ${twice[twice.length - 1]}`);
    }
}

function checkCommunication() {
    const view = page.communication, rows = () => all("tbody tr.alike", view.box).length, before = rows();
    if (view.groups.length === 0) return;
    view.filterInput.value = view.groups[0].name;
    timed("filter", () => view.filterInput.dispatchEvent(new Event("input")));
    check(rows() >= 1 && rows() <= before, "the filter keeps what matches");
    view.filterInput.value = "no such thing";
    view.filterInput.dispatchEvent(new Event("input"));
    check(rows() === 0 && view.box.textContent.includes("Nothing"), "a filter that nothing matches says so");
    view.filterInput.value = "";
    view.filterInput.dispatchEvent(new Event("input"));
    const several = view.groups.find((g) => g.list.length > 1), open = all("tr.alike button.twist", view.box)[0];
    if (several) {
        open.click();
        check(all("tr.single", view.box).length > 1, "a group opens into single communications");
        all("tr.alike button.twist", view.box)[0].click();
    }
    all("tbody tr.alike", view.box)[0].click();
    check(page.chosen.kind === "comm", "a click on a row chooses the communication");
    const csv = csvRead(communicationCsv(page));
    check(csv.length === page.program.role.comms.length + 1 && csv.every((row) => row.length === csv[0].length), "the CSV has a line for each, and as many fields in each");
    check(page.program.role.comms.every((c, i) => csv[i + 1][0] === c.name && csv[i + 1][13] === causeText(page, c)), "names and causes come back from the CSV");
    for (const [text, cell] of [["=1+2", "'=1+2"], ["@a", "'@a"], ["-x", "'-x"], ["+x", "'+x"], ["a,b", '"a,b"'], ['say "x"', '"say ""x"""'], ["two\nlines", '"two\nlines"'], ["one\rtwo", '"one\rtwo"'], [-1, "-1"], ["[- 4]", "[- 4]"]])
        check(csvCell(text) === cell, `${JSON.stringify(text)} is ${csvCell(text)} in the CSV`);
    check(!WORDS_OF_MISTAKES.test(view.box.textContent), "no communication says undefined");
}

/* Rows of fields, as RFC 4180 says. */
function csvRead(text) {
    const rows = [[""]];
    let quoted = false;
    for (let i = 0; i < text.length; i++) {
        const row = rows[rows.length - 1], c = text[i];
        if (quoted && c === '"' && text[i + 1] === '"') row[row.length - 1] += text[i++];
        else if (c === '"') quoted = !quoted;
        else if (!quoted && c === ",") row.push("");
        else if (!quoted && c === "\n") rows.push([""]);
        else row[row.length - 1] += c;
    }
    return rows.slice(0, -1);
}

function checkLayout() {
    if (page.program.role.comms.length === 0) return;
    page.choose({ kind: "comm", id: 0 });
    check(all("svg.tensor", page.layout.figures).length === 2 && all("svg.matrix", page.layout.figures).length === 1, "a conversion is drawn before, between and after");
    all("svg.tensor .box", page.layout.figures)[0].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const rank = all(".ranks button", page.layout.figures).pop();
    rank.click();
    check(page.rank === Number(rank.textContent), "a click in the mesh chooses a rank");
    all("#layout .tabs button")[0].click();
    check(page.layout.tab !== null, "a tab shows another picture");
    page.setRank(0);
}

function checkFindings() {
    for (const button of all(".findings button:not(.copy)")) {
        timed("show a finding", () => button.click());
        checkText(page.paneElement, "what a finding shows");
    }
    checkAdvice();
    const { kernels, step } = page.program.role.predicted || {};
    if (!page.run && kernels > 0.9 * step && page.program.stages.length === 1) check(page.findings.some((f) => f.kind === "computes"), "of a step that is computing a finding says what");
    check(page.findings.length <= all(".findings li button:not(.copy)").length, "each finding has a button");
    for (const item of all(".findings li")) check(!/\b(10[1-9]|1[1-9]\d|[2-9]\d\d|\d{4,}) %/.test(item.textContent), `no share is more than the whole: ${item.textContent.slice(0, 90)}`);
    for (const item of all(".findings li")) check(!WORDS_OF_MISTAKES.test(item.textContent), `a finding says ${item.textContent.slice(0, 60)}`);
    check(all(".findings").length === 1 && all(".findings")[0].textContent.length > 20, "what to look at is never empty");
    window.scrollTo(0, 0);
}

/* Commands to type, and that no strategy is advised whose messages take longer than its bytes save. */
function checkAdvice() {
    const without = (command, what) => check(withoutOutputs(command) === what, `${command} less what it writes is ${withoutOutputs(command)}`);
    without("pcc net.dsl --ranks 8 -o net.plan --report net.html --machine gpu8", "pcc net.dsl --ranks 8 --machine gpu8");
    without("pcc 'my nets/it'\\''s.dsl' -o 'my nets/a.plan' --report='my nets/a.html' --report-without-source --ranks 2", "pcc 'my nets/it'\\''s.dsl' --ranks 2");
    without("pcc --dump-ir net.dsl --stats=json --ranks 2", "pcc net.dsl --ranks 2");
    const choice = (messages) => {
        const program = { plan: { ranks: 8, text: (t) => t, raw: { machine: { rank: [2e-6, 8e9] } } }, decisions: columnsOf({ rows: 1, by: 0, hint: -1, from: -1, candidates: 2, strategies: { lengths: 2, members: ["taken", "other"] }, bytes: { lengths: 2, members: { differences: [1 << 20, -(1 << 19)] } }, messages: { lengths: 2, members: [2, messages] }, flops: { lengths: 2, members: 1 } }) };
        return fewerBytes(program, { why: { decision: 0 } });
    };
    check(choice(2)?.strategy === "other" && choice(2).less === 1 << 19, "half the bytes in as many messages are advised");
    check(choice(60) === null, "fewer bytes in many more messages are not advised");
    for (const comm of page.program.role.comms) {
        const maker = page.program.nodes[page.program.values[comm.value].node], forward = maker.origin >= 0 ? maker.origin : maker.id, weighed = weighedFor(page.program, forward), { text, command } = adviceFor(page, comm);
        if (!weighed || !text.match(/The search|By the search/)) continue;
        const least = Math.min(...weighed.alternatives.map((a) => a.ns));
        check(text.startsWith("By the search's model ") === least < 0 && command.includes(least < 0 ? " --what-if " : " --explain "), `what the search weighed is said as it is: ${text}`);
    }
    const uneven = page.findings.find((f) => f.text.startsWith("the busiest rank computes"));
    if (uneven) {
        const node = page.program.nodes[uneven.thing.id], { why } = page.program.nodes[node.origin >= 0 ? node.origin : node.id];
        check(uneven.todo.includes("by the search's model") === Boolean(why && why.from === FROM.search), "what a search left to several ranks is not advised against");
    }
    check(boxText([], []) === "the number" && boxText([[0, 2], [1, 3]], [2, 4]) === "[:, 1:3]", "a part of a tensor of no dimension is the number");
    const lengths = chart("time of a step", [100, 120, 90, 9000, 110].map((us, i) => [i + 2, 1e3 * us]), false, []), labels = all("text", lengths).map((t) => t.textContent);
    check(labels.includes("440 µs") && lengths.textContent.includes("last 110 µs; 1 longer, at most 9.00 ms"), `one long step leaves the others their height: ${lengths.textContent}`);
    check(flopsText(289) === "289 FLOPs" && flopsText(79.2) === "79 FLOPs" && flopsText(8190) === "8.19 kFLOPs", "FLOPs are whole and have a space");
    const { events, predicted } = page.program.role, stated = page.step.canvas.closest("section").textContent.includes("nothing moves but while it is waited for");
    if (predicted) check(stated === (predicted.communications > 0 && !events.some((e) => e.lane === 1 && e.end > e.begin)), "where the lane of communications is empty it is said why");
    if (page.run && page.program.role.predicted) {
        const text = all(".cards .card")[1].textContent;
        const { mean } = page.run.raw.step, rest = mean - sum(page.program.nodes, (n) => n.measured) - page.run.waiting;
        near(page.run.waiting, sum(page.program.role.comms, (c) => c.measuredWait), "waits of communications are what is waited for");
        check((rest > 0.25 * mean) === page.findings.some((f) => f.text.startsWith("between kernels")), "a step that passes between kernels is a finding");
        const first = firstThing(page), { comms } = page.program.role;
        if (first.kind === "comm") check(comms.every((c) => waitOfOne(page, c) <= waitOfOne(page, comms[first.id])), "a page of a run opens with what was waited for longest");
        check(text.includes(time(page.run.raw.step.median)) && text.includes("between kernels"), `the card of the run shows the median, and what is left: ${text}`);
    }
}

/* What is measured is shown, whole, also where the plan alone has no rows of communications. */
function checkMeasured() {
    if (!page.run) return;
    const f = columnsOf(page.run.raw.figures), all = sum([...f.mean.keys()].filter((i) => f.role[i] === page.program.stage), (i) => f.mean[i]);
    near(page.run.waiting + sum(page.program.nodes, (n) => n.measured), all, "computing and waiting are all that was measured");
    check(page.run.waiting - page.run.late < 0.2 * page.run.raw.step.mean || page.findings.some((f) => f.text.startsWith("computing waits") || f.text.includes("latency")), "a finding says what is waited for");
    near(sum(operatorRows(page), (r) => r.measured), all, "operators and waits in the table are all that was measured");
}

function checkCompare() {
    if (page.compare.other && !page.compare.section.hidden) check(all(".scroll", page.compare.section).every((e) => e.scrollWidth <= e.clientWidth), "both plans are seen without scrolling sideways");
    const pieces = comparePieces(page, dataOf("plan"), dataOf("run"), "itself");
    for (let done = false; !done;) timed("a piece of a comparison", () => ({ done } = pieces.next()));
    check(page.compare.section.textContent.includes("No difference"), "a report compared with itself shows no difference");
    check(all("#bar nav button").some((b) => b.textContent === "Compare"), "the comparison stands in the bar");
    if (!expected.other) return;
    compareWith(page, { ...expected.other, file: "second.plan" }, null, "another");
    check(page.compare.section.textContent.includes("second.plan"), "the comparison names the plan");
    check(!page.compare.section.textContent.includes("No difference") && all("#compare tbody tr").length > 8, "another plan shows its differences");
    checkText(page.compare.section, "the comparison");
    check(coloursOf(page.compare.canvas) > 3, "both steps are drawn");
    let refused = "";
    try {
        reportParse("<html>no report</html>");
    } catch (error) {
        refused = error.message;
    }
    check(refused.includes("no report"), "a file that is no report is refused");
}

/* What is chosen before it is read is read in pieces; the page says so, and shows it behind them. */
function checkChosenEarly(number, stage) {
    const fresh = planRead(planData), pieces = [];
    start(fresh, dataOf("run"), 0);
    timed("a choice that is not read yet", () => startSoon(fresh, page.runData, number, stage, undefined, (act) => pieces.push(act)));
    check(page.message.textContent.startsWith("Reading") && !page.message.hidden && page.number === 0, "the page says that it reads");
    startSoon(fresh, page.runData, 0, undefined, undefined, () => check(false, "what is shown already is not read"));
    timed("a piece of a choice", pieces.pop());
    check(pieces.length === 0 && page.number === 0, "a later choice takes the place of one that is read");
    startSoon(fresh, page.runData, number, stage, undefined, (act) => pieces.push(act));
    for (let n = 0; pieces.length > 0 && n < 1000; n++) timed("a piece of a choice", pieces.pop());
    check(page.number === number && (stage === undefined || page.program.stage === stage) && page.message.hidden, "what was chosen is shown once it is read");
}

/* Programs that are not shown are read when the browser is idle, in pieces that are short. */
function checkPrepared() {
    const { plan } = page, stages = plan.programs[0].roles;
    let left = true;
    for (let pieces = 0; left && pieces < 1000; pieces++) timed("a piece read when idle", () => (left = prepareOthers(plan, page.runData)));
    check(!left && plan.begun.size === 0 && plan.apps.length >= Math.min(PREPARED_MOST, plan.programs.length + stages - 1), "all that is prepared is ready");
    for (let stage = 0; stages < PREPARED_MOST - 1 && stage < stages; stage++) check(appKept(plan, 0, stage) === appOf(plan, page.runData, 0, stage), `stage ${stage} is ready before it is chosen`);
    const choices = [...[...plan.programs.keys()].slice(1).map((number) => [number]), ...[...Array(stages).keys()].filter((stage) => stages > 1 && stage !== page.program.stage).map((stage) => [0, stage])];
    for (const [number, stage] of choices.slice(0, 3)) checkChosenEarly(number, stage);
    start(plan, page.runData, 0);
    for (const number of plan.programs.keys()) {
        const ready = plan.apps.find((app) => app.number === number);
        check(ready && appOf(plan, page.runData, number) === ready && ready.tree.rows.length > 1, `program ${number} is ready before it is chosen`);
        check(ready.tree.root.children.every((row) => !/^generate\.[a-z]+_\d+$/.test(row.name)), `what generating adds for each attention is one row of program ${number}`);
    }
}

function checkPage() {
    const root = document.documentElement;
    check(root.scrollWidth <= window.innerWidth, `nothing is wider than the window: ${root.scrollWidth} of ${window.innerWidth}`);
    check(all("[src], link[href], a[href], iframe, img").length === 0 && performance.getEntriesByType("resource").length === 0, "nothing outside is named or read");
    check(document.querySelector("meta[http-equiv=Content-Security-Policy]").content.startsWith("default-src 'none'"), "the policy forbids the network");
    check(all("#bar nav button").length >= 5 && all("#bar nav button").length === all("#main > section:not([hidden])").length, "the bar has each section");
    const marked = () => all("#bar nav button[aria-current=true]").map((button) => button.dataset.to).join(), first = all("#bar nav button")[0], last = all("#bar nav button").at(-1);
    for (const button of all("#bar nav button")) {
        button.click();
        markSection();
        check(marked() === button.dataset.to, `the bar marks ${button.dataset.to}, which was chosen, not ${marked()}`);
    }
    const scrolled = (y, to) => {
        window.scrollTo(0, y);
        markSection();
        check(marked() === to, `the bar marks ${to} at ${y}, not ${marked()}`);
    };
    scrolled(0, first.dataset.to);
    scrolled(1, first.dataset.to);
    scrolled(root.scrollHeight, last.dataset.to);
    for (const input of all("#main input[type=search]")) {
        const shown = input.placeholder;
        input.value = shown;
        check(input.scrollWidth <= input.clientWidth, `what the field "${shown}" asks for is not cut`);
        input.value = "";
    }
    for (const amount of all(".matrix .amount")) {
        const cell = amount.previousElementSibling.getBBox(), box = amount.getBBox();
        check(box.x >= cell.x && box.x + box.width <= cell.x + cell.width, `${amount.textContent} stays in its cell: ${box.width} of ${cell.width}`);
    }
    for (const row of all("tbody tr")) if (row.onclick !== null) check(row.tabIndex === 0, "a row that can be clicked can be reached by Tab");
    for (const section of all("#main > section:not([hidden])")) checkText(section, `section ${section.id}`);
    const theme = document.documentElement.dataset.theme;
    window.dispatchEvent(new Event("beforeprint"));
    check(all("details").every((d) => d.open), "paper shows what is folded");
    check(all("tfoot").length === 0 || all("tbody").some((body) => body.children.length >= PRINTED_ROWS), "paper shows tables whole");
    check(document.documentElement.dataset.theme === "light", "paper is light");
    if (page.tree.rows.length <= PRINTED_NET) check(page.net.visible.length === page.tree.rows.length - 1, "paper shows each row of a small net");
    window.dispatchEvent(new Event("afterprint"));
    check(document.documentElement.dataset.theme === theme && printed === null, "after printing it is as before");
    for (const name of ["program", "stage"])
        for (const value of all(`#bar select[aria-label=${name}] option`).map((o) => o.value)) {
            const select = all(`#bar select[aria-label=${name}]`)[0];
            select.value = value;
            timed(`another ${name}`, () => select.dispatchEvent(new Event("change")));
            check(Number(value) === (name === "program" ? page.number : page.program.stage), `another ${name} is shown`);
            for (const section of all("#main > section:not([hidden])")) checkText(section, `section ${section.id} of ${name} ${value}`);
        }
    if (all("#bar select").length > 0) start(planRead(planData), dataOf("run"), 0);
    if (page.program.stages.length > 1) {
        const other = page.program.stage === 0 ? 1 : 0, lane = page.stages.lanes.findIndex((l) => l.stage === other), box = page.stages.canvas.getBoundingClientRect();
        check(coloursOf(page.stages.canvas) > 4, "all stages are drawn");
        appOf(page.plan, page.runData, 0, other); /* what is not read yet is shown later: checkChosenEarly */
        page.stages.canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + 300, clientY: box.top + laneTop(page.stages.lanes, lane) + 5, bubbles: true }));
        check(page.program.stage === other && page.rank === page.program.role.ranks[0], "a click on a stage shows it");
        check(page.stages.lanes.every((l) => l.events.every((e, i) => i === 0 || e.begin >= l.events[i - 1].end - 1)), "what a stage does follows each other");
        const batches = new Set(page.stages.lanes[0].events.filter((e) => e.phase === 1).map((e) => e.batch));
        const finding = page.findings.find((f) => f.text.includes("a stage computes nothing")), mean = page.run ? sum(page.run.stages) / page.run.stages.length : 0;
        if (page.run) near(page.run.stages[other], sum(page.program.nodes, (n) => n.measured), "what a stage is measured to compute is what its operators are");
        if (page.run && finding) near(finding.ns, page.run.raw.step.median - mean, "what a stage does not compute is measured where a run was");
        check(batches.size === new Set(page.program.nodes.map((n) => n.batch)).size, "the backward pass of each batch is there");
        start(planRead(planData), dataOf("run"), 0);
    }
}

function runChecks() {
    for (const act of [() => checkFigures(expected.stats), checkPieces, checkMeasured, checkLanesOfPlan, checkFindings, checkChoosing, checkKeys, checkNet, checkLayout, checkStep, checkCommunication, checkSorting, checkPrepared, checkPage, checkCompare]) {
        try {
            act();
        } catch (error) {
            checks.failed.push(`${act.name}: ${error.stack}`);
        }
    }
    checks.failed.unshift(...window.problems);
    checks.done = checks.done.length;
    checks.heap = performance.memory ? performance.memory.usedJSHeapSize : 0;
    checks.elements = document.getElementsByTagName("*").length;
    document.body.append(el("pre", { id: "checks" }, JSON.stringify(checks)));
}

function checkLanesOfPlan() {
    checkLanes(page.step.compute, "computing");
    checkLanes(page.step.comm, "communication");
}

checks.times.ready = performance.now();
if (expected.now) runChecks(); /* with the real clock the page is read when it has loaded */
else setTimeout(runChecks, 50);
