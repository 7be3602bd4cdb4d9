/* What to look at: warnings, then findings by seconds, each with what to do. A finding: {ns or bytes, text, todo, thing (what its button chooses),
 * command (what to type), stage, section (where its button goes, where there is no thing: to the stage, where another one is shown), kind}. Only what the data say is said: of conversions that were asked for, nothing is advised. */

const FINDINGS_MOST = 9;

function findingsMake(app) {
    const step = stepLength(app), latency = latencyFindings(app), found = [...stageFindings(app), ...waitFindings(app, latency.length > 0), ...latency, ...computeFindings(app), ...memoryFindings(app), ...measuredFindings(app)];
    return found.filter((f) => f.ns === undefined || f.ns > 0.005 * step).sort((a, b) => (b.ns ?? -1) - (a.ns ?? -1) || (b.bytes ?? 0) - (a.bytes ?? 0)).slice(0, FINDINGS_MOST);
}

/* Of the step: as measured where it was, else as predicted. */
function stepLength(app) {
    const predicted = app.program.role.predicted;
    if (app.run && app.run.raw.step) return app.run.raw.step.median;
    return predicted ? predicted.step : app.begins[app.begins.length - 1];
}

/* All that was measured of a step: what operators and waits take on average, and what is left of the mean of all steps. */
function measuredWhole(app) {
    return Math.max(app.run.raw.step.mean, sum(app.program.nodes, (n) => n.measured) + app.run.waiting);
}

/* ---------------------------------------------------------------- communications */

/* Communications of equal layers: one group {name, kind, list, layouts, waited, received, ns, phase}, by what they wait. */
function commGroups(app) {
    if (!app.commGroups) app.commGroups = commGroupsMake(app);
    return app.commGroups;
}

function commGroupsMake(app) {
    const groups = groupBy(app.program.role.comms, (c) => `${pattern(c.name)} ${c.kind} ${c.layouts[0].text} ${c.layouts[1].text}`);
    return [...groups.values()].map((list) => commGroup(app, list)).sort((a, b) => waitOf(app, b) - waitOf(app, a) || b.waited - a.waited || b.received - a.received);
}

function commGroup(app, list) {
    const { nodes, values } = app.program;
    return {
        name: list.length > 1 ? pattern(list[0].name) : list[0].name, kind: list[0].kind, list, layouts: list[0].layouts, first: list[0], type: values[list[0].value].type,
        waited: sum(list, (c) => c.waited), ns: sum(list, (c) => c.ns), received: sum(list, (c) => Math.max(c.received.total, sendsOnly(c) ? c.sent.total : 0)), busiest: sum(list, (c) => (sendsOnly(c) ? c.sent.max : c.received.max)), least: sum(list, (c) => c.least.total),
        others: sum(list, othersWait), measured: sum(list, (c) => c.measuredWait), late: sum(list, (c) => c.late), phase: PHASES[nodes[values[list[0].value].node].phase],
    };
}

/* Between stages of a pipeline: what is waited for longer than the communication takes, until the other stage has come to it. */
function othersWait(comm) {
    return comm.layouts[0].stage === comm.layouts[1].stage ? 0 : Math.max(0, comm.waited - comm.ns);
}

/* How long a group, or the sum of some communications, is waited for: measured where a run was, less what is a later rank's. */
function waitOf(app, group) {
    return app.run ? Math.max(0, group.measured - group.late) : group.waited - group.others;
}

/* The same of one. */
const waitOfOne = (app, comm) => waitOf(app, { waited: comm.waited, others: othersWait(comm), measured: comm.measuredWait, late: comm.late });

/* Of communications the one that is waited for longest; of equal ones that which moves most. */
function longestWait(app, comms) {
    return comms.reduce((a, b) => (waitOfOne(app, b) - waitOfOne(app, a) || b.received.total - a.received.total) > 0 ? b : a);
}

/* Of groups that a finding of latency covers, only those that something better is known of. */
function waitFindings(app, latencySaid) {
    const groups = commGroups(app).slice(0, 12).filter((g) => !latencySaid || !g.list.every((c) => isShort(app.plan.raw.machine, c)) || adviceFor(app, g.first).better);
    return groups.map((group) => {
        const advice = adviceFor(app, group.first);
        return {
            kind: "waits", ns: waitOf(app, group), thing: { kind: "comm", id: longestWait(app, group.list).id }, command: advice.command,
            text: `computing waits for the ${group.kind} of ${group.name}${group.list.length > 1 ? ` × ${group.list.length}` : ""}: ${bytes(group.received)} between all ranks, ${group.phase}`,
            todo: [`${causeText(app, group.first)}.`, !advice.unknown && advice.text].filter((x) => x).join(" "),
        };
    });
}

/* "matmul h leaves a sum (its hint at 7:22); sub loss.diff takes it so (search)" */
function causeText(app, comm) {
    const { program, plan } = app, value = program.values[comm.value], maker = program.nodes[value.node];
    const takers = takersOf(app, comm), partial = comm.layouts[0].partial.length > 0;
    const reason = (node) => {
        const text = reasonText(plan, program, node);
        return text === "" ? "" : ` (${text})`;
    };
    const made = maker.op === "read" ? `${value.name} is stored one way` : maker.op === "input" ? `${value.name} is delivered one way` : `${maker.op} ${value.name} ${partial ? "leaves a sum" : "makes it one way"}`;
    return made + reason(maker) + (takers.length === 0 ? "" : `; ${takers[0].op} ${takers[0].name} takes it ${partial ? "added up" : "another way"}${reason(takers[0])}`);
}

function takersOf(app, comm) {
    const { role, nodes } = app.program;
    return role.instances[comm.to].takers.map((s) => role.steps[s]).filter((s) => s.node >= 0).map((s) => nodes[s.node]);
}

/* Why a node has its strategy, in a few words. */
function reasonText(plan, program, node) {
    const why = node.why;
    if (!why || why.from === FROM.none) return "";
    const origin = node.origin >= 0 && node.origin !== node.id ? program.nodes[node.origin] : null;
    if (why.from === FROM.hint) return why.hint >= 0 ? `its hint at ${placeText(plan, plan.hints[why.hint].place)}` : "its hint";
    if (why.from === FROM.origin) return origin ? `as ${origin.op} ${origin.name}` : "as its operator";
    return { [FROM.propagated]: "propagated", [FROM.batch]: "its batch is split", [FROM.whole]: "whole", [FROM.train]: "as in training", [FROM.search]: "found by the search", [FROM.state]: "as its state lies" }[why.from];
}

/* Of a page of a plan alone. */
const REASONS_ELSEWHERE = "A plan alone has no reasons: the page of pcc --report says why it is so, and what to try.";

/* What can be done about a communication: {text, command, better: something is known that costs less, unknown: nothing is known}. */
function adviceFor(app, comm) {
    const { program, plan } = app, value = program.values[comm.value], maker = program.nodes[value.node], why = maker.why;
    const takers = takersOf(app, comm), asked = [maker, ...takers].find((n) => n.why && n.why.asked >= 0);
    if (asked) return { text: `The -> behind the hint${asked.why.hint >= 0 ? " at " + placeText(plan, plan.hints[asked.why.hint].place) : ""} asks for this conversion.` };
    if (comm.layouts[0].stage !== comm.layouts[1].stage) return { text: "It is what one stage hands to another: bytes follow from where the net is cut, which another number of stages changes; waiting for it is mostly waiting for the other stage." };
    if (maker.phase === 2) return { text: "Each rank updates a part of the parameter, and the parts are gathered again: with the sum of its gradient that is the traffic of one all_reduce, at a fraction of the optimizer's memory and time." };
    const gradient = comm.layouts[0].partial.length > 0 && (program.role.instances[comm.from].kind === 3 || takers.some((n) => n.phase === 2));
    if (gradient) return { text: "It adds up a parameter's gradient over the ranks that share it: fewer, larger steps (accumulate) or dividing the parameter make it cheaper." };
    const forward = maker.origin >= 0 ? program.nodes[maker.origin] : maker, better = fewerBytes(program, forward);
    if (better) return { text: `With ${forward.name} = ${better.strategy} ${bytes(better.less)} fewer would be moved around it, by its own decision. Try:`, command: whatIf(plan, forward.name, better.strategy), better: true };
    if (maker.op === "read") return { text: "The parameter is gathered for each use: it costs memory instead to keep it whole." };
    const explain = explainCommand(plan, forward.name);
    if (!explain) return { text: REASONS_ELSEWHERE, unknown: true };
    if (!why || why.from !== FROM.search) return { text: "Why, and what else was considered:", command: explain };
    const weighed = weighedFor(program, forward.id), quicker = weighed && weighed.alternatives.slice(1).reduce((a, b) => (b.ns < a.ns ? b : a), { ns: 0 });
    if (!quicker || quicker.ns === 0) return { text: `The search found it${weighed ? ": by its model no other strategy of this operator is quicker" : ""}. The alternatives:`, command: explain };
    return { text: `By the search's model ${quicker.strategy} is ${time(-quicker.ns)} quicker, with all other operators as they are. What the step takes then, compiled:`, command: whatIf(plan, forward.name, quicker.strategy.split(" on ")[0]) };
}

/* The quickest alternative of a decision, if it moves at least a tenth less and its messages do not take longer than that saves. */
function fewerBytes(program, node) {
    const decision = node.why ? decisionAt(program, node.why.decision) : null, { plan } = program, machine = plan.raw.machine;
    if (!decision || decision.alternatives.length < 2) return null;
    const cost = (a) => (machine && machine.rank ? a.bytes / plan.ranks / machine.rank[1] + a.messages * machine.rank[0] : a.bytes);
    const [taken, ...others] = decision.alternatives, best = others.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    return best.bytes < 0.9 * taken.bytes && cost(best) < 0.9 * cost(taken) && best.flops <= 1.05 * taken.flops ? { strategy: best.strategy, less: taken.bytes - best.bytes } : null;
}

/* The command that made the plan, less what it writes. Pages of plans alone do not know it: null. */
function commandBase(plan) {
    return plan.raw.command ? withoutOutputs(plan.raw.command) : null;
}

/* Options that write or print something: how many words each takes behind it. */
const OUTPUTS = { "-o": 1, "--report": 1, "--timeline": 1, "--write-hints": 1, "--dump-ranks": 1, "--explain": 1, "--what-if": 1, "--report-without-source": 0, "--dump-ir": 0, "--stats": 0 };

/* Words are quoted as pcc writes them: 'a b', \' */
function withoutOutputs(command) {
    const words = command.match(/('[^']*'|\\.|[^\s'\\])+/g), kept = [];
    for (let i = 0; i < words.length; i++) {
        const option = words[i].split("=")[0];
        if (!(option in OUTPUTS)) kept.push(words[i]);
        else if (!words[i].includes("=")) i += OUTPUTS[option];
    }
    return kept.join(" ");
}

function whatIf(plan, name, strategy) {
    return commandBase(plan) && `${commandBase(plan)} --what-if '${name}=${strategy}'`;
}

function explainCommand(plan, name) {
    return commandBase(plan) && `${commandBase(plan)} --explain ${name}`;
}

const isShort = (machine, comm) => comm.received.max / machine.rank[1] < machine.rank[0];

/* Communications that take the time of their messages, not of their bytes. */
function latencyFindings(app) {
    const machine = app.plan.raw.machine;
    if (!machine || !machine.rank) return [];
    const short = app.program.role.comms.filter((c) => c.waited > 0 && c.layouts[0].stage === c.layouts[1].stage && isShort(machine, c));
    if (short.length < 3) return [];
    const ns = waitOf(app, { waited: sum(short, (c) => c.waited), others: 0, measured: sum(short, (c) => c.measuredWait), late: sum(short, (c) => c.late) });
    return [{ kind: "waits", ns, thing: { kind: "comm", id: longestWait(app, short).id }, text: `${plural(short.length, "communication")} are so short that their messages' latency takes longer than their bytes (${bytes(sum(short, (c) => c.received.total))} in all)`,
              todo: "Fewer conversions help, not smaller ones: keep rows whole between -> layouts, split the batch rather than places or heads, or use fewer ranks." }];
}

/* ---------------------------------------------------------------- stages of a pipeline */

/* As measured where a run was. */
function stageFindings(app) {
    const { stages } = app.program, { predicted } = stages[0];
    if (stages.length < 2 || (!app.run && !predicted)) return [];
    const step = stepLength(app), busy = app.run ? app.run.stages : stages.map((s) => s.predicted.kernels), mean = sum(busy) / stages.length, most = Math.max(...busy), slowest = stages[busy.indexOf(most)], found = [];
    const batches = 1 + app.program.nodes.reduce((most, n) => Math.max(most, n.batch), 0), chunks = app.plan.raw.chunks;
    const idle = (batches, chunks) => percent((stages.length - 1) / (chunks * batches + stages.length - 1));
    if (step - mean > 0.02 * step)
        found.push({ kind: "waits", ns: step - mean, section: "step", text: `of a step a stage computes nothing, on average of ${stages.length}: ${percent(1 - mean / step)}${app.run && predicted ? ` as measured, predicted ${percent(1 - sum(stages, (s) => s.predicted.kernels) / stages.length / predicted.step)}` : ""}${chunks ? `; with ${plural(batches, "batch", "batches")} in equal stages${chunks > 1 ? ` of ${chunks} chunks` : ""} it would be ${idle(batches, chunks)}` : ""}`,
                     todo: batches < 4 * stages.length ? `More micro_batches (or accumulate) keep stages busy: of ${stages.length} stages with ${4 * stages.length} batches ${idle(4 * stages.length, chunks || 1)} are idle${chunks === 1 && batches % stages.length === 0 ? `. So does --chunks 2, interleaved: ${idle(batches, 2)} with as many batches as there are` : ""}.` : "Batches are many enough: what is left is stages that are not equal, and what they send each other." });
    if (most > 1.1 * mean) found.push({ kind: "computes", ns: most - mean, stage: slowest.number, section: "step", text: `stage ${slowest.number} computes ${digits3(most / mean)} times the mean of all${app.run ? ", as measured" : ""}: the others wait for it`, todo: "Each batch waits for the slowest stage. Another number of stages cuts the net elsewhere; a strategy that divides what this one computes makes it faster." });
    return found;
}

/* ---------------------------------------------------------------- computing */

function computeFindings(app) {
    const { role } = app.program, machine = app.plan.raw.machine, found = [];
    const kernels = role.events.filter((e) => e.lane === 0 && !e.wait);
    if (machine && machine.kernel_s > 0) {
        const ns = Math.min(1e9 * machine.kernel_s * kernels.length, sum(kernels, (e) => e.end - e.begin));
        if (!app.run && ns > 0.25 * stepLength(app)) found.push({ kind: "computes", ns, thing: { kind: "node", id: longestNode(app) }, text: `${plural(kernels.length, "kernel")} cost ${time(1e9 * machine.kernel_s)} each to start, whatever they compute`, todo: app.plan.ranks > 1 ? "The tensors are small for these ranks: a larger batch, or fewer ranks, make better use of them." : "The tensors are small: a larger batch makes better use of each kernel." });
    }
    if (role.flops && role.flops.net > 0) {
        const even = role.flops.net / app.plan.ranks, over = role.flops.rank / even;
        if (over > 1.1) {
            const id = mostRepeated(app), { nodes } = app.program, { why } = nodes[nodes[id].origin >= 0 ? nodes[id].origin : id], searched = why && why.from === FROM.search;
            found.push({ kind: "computes", ns: (1 - 1 / over) * (app.run ? sum(app.program.nodes, (n) => n.measured) : sum(kernels, (e) => e.end - e.begin)), thing: { kind: "node", id }, text: `the busiest rank computes ${digits3(over)} times an even share of the FLOPs`,
                         todo: searched ? "Several ranks do the same, or parts are uneven, and by the search's model that is quicker than to communicate. Fewer ranks do as well; with a larger batch dividing may pay." : "Some operators are done by several ranks alike, or split unevenly; give them a strategy that divides them further. pcc warns with names where it is more than 10 %." });
        }
    }
    return found.length > 0 ? found : operatorFindings(app);
}

/* The operator that most of the step goes to, where nothing else is wrong with computing. */
function operatorFindings(app) {
    const of = (r) => (app.run ? r.measured : r.ns), step = app.run ? measuredWhole(app) : stepLength(app), peak = peakOf(app);
    const most = operatorRows(app).filter((r) => !r.wait).reduce((a, b) => (a && of(a) >= of(b) ? a : b), null);
    if (!most || of(most) < 0.3 * step) return [];
    const share = peak ? Math.min(1, shareOfPeak(most, of(most), peak)) : 0;
    const todo = share > 0.5 ? "It does what the machine can: less to compute, a narrower type, or more ranks make it shorter."
        : share > 0 ? "Its kernels are far from the peak: larger parts (a larger batch, a dimension that is divided less) come closer." : "The table By operator tells how the step is shared.";
    return [{ kind: "computes", ns: of(most), thing: { kind: "node", id: most.node }, text: `computing ${most.op} takes ${percent(of(most) / step)} of the step, in ${plural(most.calls, "operator")}${share > 0 ? `, ${app.run ? "" : "predicted "}at ${percent(share)} of the peak of ${app.run && app.run.raw.peaks ? "this machine" : app.plan.raw.machine.name}` : ""}`, todo }];
}

function longestNode(app) {
    return app.program.nodes.reduce((a, b) => (b.ns > a.ns ? b : a)).id;
}

/* The node with most FLOPs of those whose result lies in copies. */
function mostRepeated(app) {
    const { role, nodes, values } = app.program;
    const copied = nodes.filter((n) => n.kernel >= 0 && n.outs.length > 0 && values[n.outs[0]].instances.length > 0 && parts([...splitDigits(role.instances[values[n.outs[0]].instances[0]].layout), ...partialDigits(role.instances[values[n.outs[0]].instances[0]].layout)]) < app.plan.ranks);
    return copied.length > 0 ? copied.reduce((a, b) => (b.flops > a.flops ? b : a)).id : longestNode(app);
}

/* ---------------------------------------------------------------- memory */

function memoryFindings(app) {
    const { role } = app.program, groups = aliveGroups(app.program, app.alive.peak), peak = app.alive.total[app.alive.peak], whole = role.memory ? role.memory.rank : peak;
    if (groups.length === 0 || peak < 1 << 20 || peak < whole / 3) return [];
    const g = groups[0];
    if (g.bytes < 0.12 * peak) return [];
    const todo = g.kind === 1 ? "Split it further, or let it be computed again in the backward pass: recompute behind the call that makes it."
        : g.kind === 2 ? "It is held because it was converted: a strategy of its users that takes it as it is made needs no second copy."
        : g.kind === 3 ? "Gradients of parameters: dividing the parameters, or their updates, divides them too." : "It is large for a moment only; splitting it further helps most.";
    return [{ kind: "memory", bytes: g.bytes, thing: { kind: "node", id: valueOf(app, g.instances[0]).node }, text: `${g.name}${g.count > 1 ? ` × ${g.count}` : ""} holds ${percent(g.bytes / peak)} of the arena when it is fullest, ${ALIVE_KINDS[g.kind]}`, todo }];
}

/* ---------------------------------------------------------------- measured */

function measuredFindings(app) {
    if (!app.run) return [];
    const rows = operatorRows(app).filter((r) => !r.wait), found = [];
    const predicted = sum(rows, (r) => r.ns), measured = sum(rows, (r) => r.measured), usual = predicted > 0 ? measured / predicted : 1;
    for (const r of rows) {
        const over = r.measured - usual * r.ns;
        if (r.ns > 0 && r.measured > 3 * usual * r.ns && over > 0.01 * app.run.raw.step.mean)
            found.push({ kind: "computes", ns: over, thing: { kind: "node", id: r.node }, text: `${r.op} takes ${time(r.measured)}, ${digits3(r.measured / r.ns)} times what was predicted; all kernels together ${digits3(usual)} times`, todo: "The kernel is slower than its bytes and FLOPs say. prun --profile names its peak; prun --calibrate tells pcc what this machine does." });
    }
    const { late } = app.run, worst = app.program.role.comms.reduce((a, b) => (b.late > (a ? a.late : 0) ? b : a), null);
    const { mean } = app.run.raw.step, rest = mean - sum(app.program.nodes, (n) => n.measured) - app.run.waiting;
    if (rest > 0.25 * mean)
        found.push({ kind: "waits", ns: rest, section: "step", text: `between kernels nothing is computed and nothing received: ${percent(rest / mean)} of the mean step${app.program.stages.length > 1 ? ` on ranks of stage ${app.program.stage}` : ""}`,
                     todo: app.run.raw.ranks > 1 ? "Ranks that share cores take turns: fewer of them, or a core for each. Otherwise it is data that are read, lines that are printed, and what each kernel takes to start: a larger batch." : "It is data that are read, lines that are printed, and what each kernel takes to start: a larger batch makes it less." });
    if (late > 0) found.push({ kind: "waits", ns: late, thing: worst && { kind: "comm", id: worst.id }, section: "step", text: `ranks wait ${time(late)} of a step for ranks that come later`, todo: "It is no cost of moving bytes: ranks have unequal work, share cores, or one is slower. Compare their lanes under Step." });
    return found;
}
