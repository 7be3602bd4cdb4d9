/* Summary: the figures on cards, the proof in a line, and what to look at. */

function summarySection(app) {
    const { plan } = app, command = plan.raw.command || plan.raw.options || "";
    return el("section", { id: "summary" },
              el("h2", {}, "Summary ", el("small", {}, command)),
              el("div", { class: "cards" }, (app.program.role.predicted || !app.ended) && stepCard(app), app.run ? measuredCard(app) : app.ended && firstStepCard(app), memoryCard(app), plan.ranks > 1 && bytesCard(app), ranksCard(app)),
              stagesBlock(app),
              proofLine(app), el("h3", {}, "What to look at"), findingsList(app));
}

function card(title, figure, bar, text, ...more) {
    return el("div", { class: "card figure" }, el("div", { class: "title" }, title), el("div", { class: "big" }, figure), bar, el("div", { class: "text" }, text), more);
}

/* Shares of a whole, side by side: [[class or colour, amount, what]]. */
function shares(list) {
    const all = sum(list, (each) => each[1]) || 1;
    return el("div", { class: "shares" }, list.map(([colour, amount, what]) => amount > 0 && el("b", { style: { width: `${(100 * amount) / all}%`, background: `var(--${colour})` }, title: what })));
}

function stepCard(app) {
    const p = app.program.role.predicted;
    if (!p) return card("Step", plural(app.program.role.steps.length, "step"), null, "A page of prun alone has no predicted times.");
    if (p.communications === 0) return card(`Step, predicted for ${p.machine || "cpu"}`, time(p.step), shares([["computes", p.kernels, "computing"]]), "computing; there is no communication");
    if (app.program.stages.length > 1) return stageCard(app, p);
    const hidden = p.communications > 0 ? Math.max(0, 1 - p.exposed / p.communications) : 1;
    return card(`Step, predicted for ${p.machine || "cpu"}`, time(p.step), shares([["computes", p.kernels, "computing"], ["waits", p.exposed, "waiting"]]),
                `computing ${percent(p.kernels / p.step)}, waiting for communication ${percent(p.exposed / p.step)}; of ${time(p.communications)} of communication ${percent(hidden)} is hidden`);
}

/* Of a pipeline: the step of all, and what this stage does in it. */
function stageCard(app, p) {
    const rest = Math.max(0, p.step - p.kernels - p.exposed);
    return card(`Step, predicted for ${p.machine || "cpu"}`, time(p.step), shares([["computes", p.kernels, "computing"], ["waits", p.exposed, "waiting"], ["line", rest, "done"]]),
                `stage ${app.program.stage}: computing ${percent(p.kernels / p.step)}, waiting for other stages and for data ${percent(p.exposed / p.step)}, done before the others ${percent(rest / p.step)}`);
}

/* Of a run that ended before a step was measured. */
function firstStepCard(app) {
    const { step, steps, ranks, device, transport } = app.ended;
    return card(`Step, measured: ${plural(steps, "step")} on ${plural(ranks, "rank")}`, step ? time(step.median) : "–", null, `The first step warms up: where its time goes was not measured; a run of two steps or more says it. ${device}, ${transport}`);
}

function measuredCard(app) {
    const run = app.run.raw, { late, waiting } = app.run, { mean, median } = run.step;
    const computing = sum(app.program.nodes, (n) => n.measured), moving = Math.max(0, waiting - late), rest = Math.max(0, mean - computing - waiting), predicted = app.program.role.predicted;
    const whole = measuredWhole(app), parts = waiting > 0 ? `, waiting for a later rank ${percent(late / whole)}, moving data ${percent(moving / whole)}` : ""; /* the steps that are measured may be longer than the mean of all */
    return card(`Step, measured: ${plural(run.measured, "step")} on ${plural(run.ranks, "rank")}`, time(median), shares([["computes", computing, "computing"], ["waits", late, "waiting for a later rank"], ["communicates", moving, "moving data"], ["line", rest, "between kernels"]]),
                `${run.measured > 1 ? `the median; from ${time(run.step.least)} to ${time(run.step.most)}, ${run.measured < 3 ? "mean" : "without the longest a mean of"} ${time(mean)}: ` : ""}computing ${percent(computing / whole)}${parts}, between kernels ${percent(rest / whole)}`,
                predicted && el("div", { class: "text" }, `${digits3(median / predicted.step)} × predicted; ${run.device}, ${run.transport}`));
}

const ofStage = (app, title) => (app.program.stages.length > 1 ? `${title}, stage ${app.program.stage}` : title);

function memoryCard(app) {
    const m = app.program.role.memory, { arena } = app.program.role;
    if (!m) return card("Arena of a rank", bytes(arena), null, "");
    const rest = m.rank - m.states - m.arena, again = app.program.nodes.filter((n) => n.copyOf >= 0 && n.kernel >= 0);
    return card(ofStage(app, "Memory of a rank"), bytes(m.rank), shares([["alive3", m.states, "states"], ["alive1", m.arena, "arena"], ["alive5", rest, `inputs, constants, inner values${m.workspace ? ", workspace" : ""}`]]),
                `states ${bytes(m.states)} of ${bytes(m.states_whole)} undivided, arena ${bytes(m.arena)}, the rest ${bytes(rest)}`,
                again.length > 0 && el("div", { class: "text" }, `computed again for the backward pass: ${plural(again.length, "kernel")}${app.program.role.predicted ? `, ${time(sum(again, (n) => n.ns))}` : ""}`),
                app.plan.measures.length > 0 && el("div", { class: "text" }, `to fit: ${app.plan.measures.map((x) => x.name).join(", ")}`));
}

function bytesCard(app) {
    const t = app.program.role.totals, { comms, counted } = app.program.role;
    if (!t && !counted) return card("Communication", String(comms.length), null, "");
    if (!t) return card(ofStage(app, "Received by the busiest rank"), bytes(sum(comms, (c) => c.received.max)), null, `${plural(comms.length, "communication")}, ${bytes(sum(comms, (c) => c.received.total))} by all ranks`);
    if (t.count === 0) return card("Communication", "none", null, "no rank sends anything");
    const ratio = t.bound.total > 0 ? t.received.total / t.bound.total : 1;
    return card(ofStage(app, "Received by the busiest rank"), bytes(t.received.max), shares([["communicates", Math.min(t.bound.total, t.received.total), "the least"], ["waits", Math.max(0, t.received.total - t.bound.total), "above the least"]]),
                `${plural(t.count, "communication")}, ${bytes(t.received.total)} by all ranks: ${digits3(ratio)} × the least for these layouts`);
}

function ranksCard(app) {
    const { plan } = app, f = app.program.role.flops, over = f && f.net > 0 ? (f.rank * plan.ranks) / f.net : 0;
    const drawn = plan.ranks <= 16 ? [...Array(plan.ranks).keys()] : [], [from, to] = app.program.role.ranks;
    const last = plan.mesh.filter((m) => m.own && m.size > 1).pop();
    return card("Ranks", [String(plan.ranks), el("small", {}, ` ${meshText(plan)}`)],
                drawn.length > 0 && el("div", { class: "ranks small", style: { "--across": last ? Math.min(last.size, 8) : Math.min(plan.ranks, 8) } }, drawn.map((r) => el("span", { class: r >= from && r <= to ? "rank" : "rank other", style: { "--rank": rankColour(r) } }, String(r)))),
                f ? plan.ranks === 1 ? flopsText(f.rank) : `${flopsText(f.rank)} on the busiest, ${digits3(over)} × an even share` : "");
}

function proofLine(app) {
    const text = app.plan.raw.proof;
    if (!text) return el("p", { class: "proof bad" }, "✗ not proved: this plan has no certificate");
    return el("details", { class: "proof" }, el("summary", {}, el("b", { class: "good" }, "✓ proved "), el("span", { class: "dim" }, cut(text, 110))), el("p", { class: "dim" }, text), el("p", { class: "dim" }, "The plan was read again and compared with the net without ranks; docs/proof.md says what that covers."));
}

/* ---------------------------------------------------------------- what to look at */

function findingsList(app) {
    const items = [...app.plan.warnings.map((w) => warningItem(app, w)), ...app.plan.demands.map((d) => demandItem(app, d)), ...app.findings.map((f) => findingItem(app, f))].filter((x) => x);
    if (items.length > 0) return [el("ul", { class: "findings" }, items), !commandBase(app.plan) && el("p", { class: "dim" }, REASONS_ELSEWHERE)];
    return el("p", { class: "findings dim" }, "Nothing stands out: no warning, and nothing waits for long. The lines of the net below say where the time goes.");
}

function warningItem(app, w) {
    const node = w.nodes.find((n) => n >= 0 && n < app.program.nodes.length);
    const notes = w.notes.map((n) => el("p", { class: "dim" }, `${placeText(app.plan, n.place)} ${n.text}`));
    return el("li", {}, el("span", { class: "amount bad" }, "warning"),
              el("div", {}, el("p", {}, w.message, el("span", { class: "dim" }, ` ${placeText(app.plan, w.place)} -W${w.flag}`)), notes, w.hints.map((h) => el("p", { class: "todo" }, `→ ${h}`))),
              node !== undefined ? el("button", { onclick: () => app.show({ kind: "node", id: node }) }, "Show") : el("span", {}));
}

function demandItem(app, d) {
    const print = d.unit === "bytes" ? bytes : d.unit === "ns" ? time : (n) => String(n), kept = d.measured < 0 || d.limit < 0 || d.measured <= d.limit;
    return el("li", {}, el("span", { class: `amount ${kept ? "good" : "bad"}` }, kept ? "kept" : "broken"), el("div", {}, el("p", {}, `demand: ${d.text}`, el("span", { class: "dim" }, d.measured >= 0 ? ` is ${print(d.measured)}${d.limit >= 0 ? ` of ${print(d.limit)}` : ""}` : "", ` ${placeText(app.plan, d.place)}`))), el("span", {}));
}

function findingItem(app, f) {
    return el("li", {}, el("span", { class: `amount ${f.kind}` }, f.ns !== undefined ? time(f.ns) : bytes(f.bytes)),
              el("div", {}, el("p", {}, f.text), el("p", { class: "todo" }, `→ ${f.todo}`), f.command && commandLine(f.command)),
              f.thing ? el("button", { onclick: () => app.show(f.thing), title: "chooses it, and shows where it is" }, "Show")
                  : f.stage !== undefined && f.stage !== app.program.stage ? el("button", { onclick: () => app.toStage(f.stage), title: "shows this stage" }, "Show")
                  : el("button", { onclick: () => goTo(app, f.section), title: "goes there" }, "Show"));
}

/* A command to type, with a button that copies it. */
function commandLine(command) {
    const copied = el("button", { class: "copy", title: "copy this command", onclick: () => copyText(command, copied) }, "Copy");
    return el("p", { class: "command" }, el("code", {}, command), copied);
}

/* By the old way too: pages from a disk have no clipboard in some browsers. */
function copyText(text, button) {
    const area = el("textarea", { style: { position: "fixed", opacity: "0", top: "0" } });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done && navigator.clipboard) navigator.clipboard.writeText(text).catch(() => {});
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1200);
}
