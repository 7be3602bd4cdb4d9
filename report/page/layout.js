/* Layout: who has which part of the chosen value, before and after a conversion or around an operator, and who sends what to whom. */

/* Of pictures: least and most pixels across; most and least down as shares of what they are across; of a card behind another. */
const PICTURE = { narrow: 140, wide: 310, most: 0.75, least: 0.28, card: 4, cards: 4 }, MATRIX_MOST = 16, RANKS_DRAWN = 4096, BOXES_MOST = 256;

function layoutSection(app) {
    const view = { app, tab: null };
    app.layout = view;
    view.rank = el("input", { type: "range", min: 0, max: app.plan.ranks - 1, value: 0, id: "rank", "aria-label": "rank", oninput: () => app.setRank(Number(view.rank.value)) });
    view.rankText = el("output", { for: "rank" });
    view.tabs = el("div", { class: "tabs", role: "tablist" });
    view.title = el("span", { class: "what" });
    view.figures = el("div", { class: "figures" });
    const step = (by) => el("button", { onclick: () => app.setRank(app.rank + by), title: by < 0 ? "the rank before: [" : "the next rank: ]" }, by < 0 ? "[" : "]");
    return el("section", { id: "layout" },
              el("h2", {}, "Layout ", el("small", {}, "who has which part of the chosen value, and who sends what to whom")),
              el("div", { class: "controls fixed" }, view.title, app.plan.ranks > 1 && el("span", { class: "push group" }, step(-1), el("label", { class: "rank" }, "rank ", view.rankText, view.rank), step(1))),
              view.tabs, el("div", { class: "scroll resize layout" }, view.figures));
}

/* The values shown: {kind: "operator", node} or {kind: "move", comm or local step}. */
function layoutTabs(app, node) {
    const { role, values } = app.program, tabs = [];
    if (node.kernel >= 0) tabs.push({ kind: "operator", node, key: `operator ${node.id}` });
    for (const v of node.outs)
        for (const i of values[v].instances) {
            const maker = role.instances[i].maker >= 0 ? role.steps[role.instances[i].maker] : null;
            if (maker && (maker.kind === 1 || maker.kind === 2)) tabs.push({ kind: "move", step: maker, value: values[v], from: role.instances[maker.ins[0]], to: role.instances[i], key: `step ${maker.id}` });
        }
    if (tabs.length === 0 && node.outs.length > 0 && values[node.outs[0]].instances.length > 0) tabs.push({ kind: "lies", node, instance: role.instances[values[node.outs[0]].instances[0]], key: "lies" });
    return tabs;
}

function layoutDraw(view) {
    const { app } = view, node = app.program.nodes[nodeOfThing(app, app.chosen)];
    const tabs = layoutTabs(app, node), value = app.program.values[node.outs[0]];
    const wanted = app.chosen.kind === "comm" ? `step ${app.program.role.comms[app.chosen.id].step}` : view.wanted;
    view.tab = tabs.find((t) => t.key === wanted) || tabs[0] || null;
    replace(view.title, el("b", {}, value ? value.name : node.name), " ", el("span", { class: "dim" }, value ? value.type.text : ""), " ", el("span", { class: "dim" }, `made by ${node.op}`));
    view.rank.value = app.rank;
    replace(view.rankText, el("b", {}, String(app.rank)), rankText(app.plan, app.rank) ? el("span", { class: "dim" }, ` ${rankText(app.plan, app.rank)} `) : " ");
    replace(view.tabs, tabs.map((tab) => el("button", { role: "tab", "aria-selected": String(tab === view.tab), onclick: () => layoutChoose(view, tab) }, tabLabel(app, tab))));
    layoutFigures(view);
}

function tabLabel(app, tab) {
    if (tab.kind === "lies") return "as it lies";
    if (tab.kind === "operator") return `operator ${tab.node.op}`;
    return [`${tab.step.what} `, arrowChips(app.plan, tab.from.layout, tab.to.layout, tab.value.type)];
}

function layoutChoose(view, tab) {
    view.wanted = tab.key;
    if (tab.kind === "move" && tab.step.comm >= 0) view.app.choose({ kind: "comm", id: tab.step.comm });
    else if (tab.kind === "operator" && view.app.chosen.kind !== "node") view.app.choose({ kind: "node", id: tab.node.id });
    else layoutDraw(view);
}

function layoutFigures(view) {
    const { app, tab } = view;
    if (!tab) {
        replace(view.figures, el("p", { class: "dim" }, "This has no value that lies on ranks. Choose a line of the net, or a communication."));
        return;
    }
    if (tab.kind === "move") replace(view.figures, moveFigures(app, tab));
    else if (tab.kind === "operator") replace(view.figures, operatorFigures(app, tab.node));
    else replace(view.figures, meshFigure(app).figure, tensorFigure(app, "as it lies", tab.instance.layout, valueOf(app, tab.instance).type, null, PICTURE.wide),
                 el("div", { class: "words" }, layoutWords(app.plan, tab.instance.layout, valueOf(app, tab.instance).type).map((w) => el("p", {}, w))));
}

/* So many pictures stand beside each other, with what else is in their row. */
function pictureWidth(app, count, besides) {
    const room = app.layout.figures.clientWidth - besides - 24;
    return Math.round(Math.max(PICTURE.narrow, Math.min(PICTURE.wide, room / count - 16 - PICTURE_FRAME)));
}
const PICTURE_FRAME = 40;

const valueOf = (app, instance) => app.program.values[instance.value];
const elementBytes = (type) => ({ f64: 8, i64: 8, f16: 2, bf16: 2, bool: 1 })[type.dtype] || 4;

/* ---------------------------------------------------------------- the mesh */

/* Ranks as a grid: the last axis along the rows. Above 64 ranks those around the chosen one. */
function meshFigure(app) {
    const { plan } = app, own = plan.mesh.filter((m) => m.own && m.size > 1);
    const last = own.length > 0 ? own[own.length - 1] : { size: plan.ranks <= 4 ? plan.ranks : plan.ranks <= 64 ? 4 : 8, stride: 1 };
    const across = Math.min(last.size, 16), rows = Math.ceil(plan.ranks / across), around = Math.floor(app.rank / across);
    const first = Math.max(0, Math.min(around - 4, rows - 8)), shown = Math.min(rows - first, 8);
    const cells = [];
    for (let r = first * across; r < Math.min(plan.ranks, (first + shown) * across); r++) cells.push(rankCell(app, r));
    const figure = el("figure", { class: "mesh" }, el("figcaption", {}, own.length > 0 ? `mesh ${own.map((m) => m.name).join(" × ")}` : "ranks"),
              el("div", { class: "ranks", style: { "--across": across } }, cells),
              shown < rows && el("p", { class: "dim" }, `rows ${first} to ${first + shown - 1} of ${rows}`));
    return { figure, across: Math.max(100, across * (app.layout.figures.clientWidth > 1500 ? 36 : 30)) };
}

function rankCell(app, rank) {
    const words = rankText(app.plan, rank);
    return el("button", { class: "rank" + (rank === app.rank ? " chosen" : ""), style: { "--rank": rankColour(rank) }, title: `rank ${rank}${words ? ": " + words : ""}`, onclick: () => app.setRank(rank) }, String(rank));
}

function rankColour(rank) {
    return rank < 8 ? `var(--rank${rank})` : `hsl(${(rank * 47 + 200) % 360} 45% 52%)`;
}

/* ---------------------------------------------------------------- a tensor as boxes */

/* The dimensions drawn, at most two: those that are divided, then the largest; down, across. */
function dimsDrawn(layoutsOf, shape) {
    const split = (dim) => layoutsOf.reduce((n, l) => Math.max(n, parts(l.dims[dim])), 1);
    const order = shape.map((_, dim) => dim).sort((a, b) => (split(b) > 1) - (split(a) > 1) || (split(a) > 1 ? a - b : shape[b] - shape[a]));
    const dims = order.slice(0, 2).sort((a, b) => a - b);
    return dims.length === 2 ? dims : [null, dims.length === 1 ? dims[0] : null];
}

function tensorFigure(app, caption, layout, type, dims, wide) {
    const shape = type.shape, drawn = dims || dimsDrawn([layout], shape), [down, across] = drawn;
    const holder = holdsAny(layout, app.rank) ? app.rank : layout.pin.value * layout.pin.stride, mine = boxOf(layout, shape, holder), others = shape.map((_, d) => d).filter((d) => !drawn.includes(d));
    const groups = boxGroups(app, layout, shape, drawn, others, holder);
    const height = Math.round(down === null ? PICTURE.least * wide : Math.min(PICTURE.most * wide, Math.max((PICTURE.least + 0.1) * wide, (wide * shape[down]) / Math.max(1, shape[across]))));
    const deep = Math.max(0, ...groups.map((g) => Math.min(g.ranks.length, PICTURE.cards) - 1)) * PICTURE.card;
    const halos = layout.halos.some((h) => h), left = 20, top = 18;
    const drawing = svg("svg", { class: "tensor", width: wide + left + deep + 6, height: height + top + deep + 6, role: "img", "aria-label": `${caption}: ${layoutName(app.plan, layout)}` });
    const scale = (range, dim, pixels) => (dim === null ? [0, pixels] : [(range[0] / shape[dim]) * pixels, (range[1] / shape[dim]) * pixels]);
    drawing.append(svg("rect", { class: "whole", x: left, y: top, width: wide, height }));
    const place = (g) => {
        const [x1, x2] = scale(g.across, across, wide), [y1, y2] = scale(g.down, down, height);
        return { x: left + x1, y: top + y1, width: Math.max(2, x2 - x1), height: Math.max(2, y2 - y1) };
    };
    append(drawing, groups.length > BOXES_MOST ? boxesDrawn(app, groups, place, layout) : groups.map((g) => groupDrawn(app, g, place(g), layout.partial.length > 0, halos)));
    append(drawing, groups.filter((g) => g.ranks.includes(app.rank)).map((g) => {
        const at = place(g);
        return svg("rect", { class: "mine", x: at.x + 1, y: at.y + 1, width: Math.max(1, at.width - 2), height: Math.max(1, at.height - 2) });
    }));
    if (across !== null) drawing.append(svg("text", { x: left + wide / 2, y: 12, "text-anchor": "middle" }, `dimension ${across}: ${shape[across]}`));
    if (down !== null) drawing.append(svg("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${top + height / 2}) rotate(-90)` }, height > 100 ? `dimension ${down}: ${shape[down]}` : `${down}: ${shape[down]}`, svg("title", {}, `dimension ${down}: ${shape[down]}`)));
    return el("figure", { style: { "--wide": `${Math.max(160, wide + left + deep)}px` } }, el("figcaption", {}, caption, " ", chip(app.plan, layout, type)), drawing, otherDims(layout, shape, others, mine), halos && el("p", { class: "dim" }, "halos: boxes overlap where a window sees a neighbour's elements"));
}

/* Ranks by their box in the drawn dimensions, of those that hold what `holder` holds in the others. Ranks of equal digits have equal boxes, so that each box is found once. */
function boxGroups(app, layout, shape, [down, across], others, holder) {
    const byPart = new Map(), byBox = new Map(), hidden = others.flatMap((d) => layout.dims[d]), terms = partialDigits(layout), same = indexOf(hidden, holder);
    const drawn = [down, across].flatMap((d) => (d === null ? [] : layout.dims[d]));
    const groupAt = (rank) => {
        const y = down === null ? [0, 1] : dimRange(layout, down, shape[down], rank), x = across === null ? [0, 1] : dimRange(layout, across, shape[across], rank), key = `${y} ${x}`;
        if (y[0] >= y[1] || x[0] >= x[1]) return null;
        if (!byBox.has(key)) byBox.set(key, { down: y, across: x, ranks: [], terms: new Set() });
        return byBox.get(key);
    };
    for (let rank = 0; rank < Math.min(app.plan.ranks, RANKS_DRAWN); rank++) {
        if (!holdsAny(layout, rank) || indexOf(hidden, rank) !== same) continue;
        const part = indexOf(drawn, rank);
        if (!byPart.has(part)) byPart.set(part, groupAt(rank));
        const group = byPart.get(part);
        if (!group) continue;
        group.ranks.push(rank);
        group.terms.add(indexOf(terms, rank));
    }
    return [...byBox.values()];
}

/* Of very many boxes their edges, and the chosen rank's; a click chooses a rank of the box under it. */
function boxesDrawn(app, groups, place, layout) {
    const cuts = (of) => [...new Set(groups.flatMap((g) => { const at = place(g); return [at[of], at[of] + at[of === "x" ? "width" : "height"]]; }))];
    const all = groups.map(place), x = cuts("x"), y = cuts("y"), [left, right, top, bottom] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
    const lines = [...x.map((at) => `M${at} ${top}V${bottom}`), ...y.map((at) => `M${left} ${at}H${right}`)].join("");
    const choose = (event) => {
        const box = event.currentTarget.ownerSVGElement.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
        const i = all.findIndex((at) => px >= at.x && px < at.x + at.width && py >= at.y && py < at.y + at.height);
        if (i >= 0) app.setRank(nextOf(groups[i].ranks, app.rank));
    };
    return [svg("g", { class: "box", onclick: choose }, svg("rect", { class: "card many", x: left, y: top, width: right - left, height: bottom - top }), svg("path", { class: "cuts", d: lines }), svg("title", {}, `${groups.length.toLocaleString("en")} boxes; a click chooses a rank`)),
            groups.filter((g) => g.ranks.includes(app.rank)).map((g) => groupDrawn(app, g, place(g), layout.partial.length > 0, false))];
}

function hatchPattern() {
    return svg("defs", {}, svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: 2.4, height: 6, class: "hatched" })));
}

/* Ranks with the same box: a stack of cards; hatched where they are terms of a sum. */
function groupDrawn(app, group, at, partial, halos) {
    const cards = Math.min(group.ranks.length, PICTURE.cards), made = svg("g", { class: "box", onclick: () => app.setRank(nextOf(group.ranks, app.rank)) });
    const chosen = group.ranks.includes(app.rank), front = chosen ? app.rank : group.ranks[0];
    const shown = [front, ...group.ranks.filter((r) => r !== front)].slice(0, cards);
    for (let i = cards - 1; i >= 0; i--)
        made.append(svg("rect", { x: at.x + i * PICTURE.card, y: at.y + i * PICTURE.card, width: at.width, height: at.height, style: `fill: ${rankColour(shown[i])}`, class: halos ? "card halo" : "card" }));
    if (partial) made.append(svg("rect", { x: at.x, y: at.y, width: at.width, height: at.height, fill: "url(#hatch)" }));
    made.append(svg("title", {}, groupWords(group, partial)));
    const label = groupLabel(group, partial, at.width);
    if (label && at.height >= 12) made.append(svg("text", { x: at.x + at.width / 2, y: at.y + at.height / 2 + 4, "text-anchor": "middle", class: "label" }, label));
    return made;
}

function groupWords(group, partial) {
    const copies = group.ranks.length / group.terms.size;
    const terms = partial ? `${group.terms.size} terms of it, ` : "";
    return `${terms}${copies > 1 ? `${copies} copies${partial ? " of each" : ""}, ` : ""}on rank${group.ranks.length > 1 ? "s" : ""} ${ranksText(group.ranks)}`;
}

function groupLabel(group, partial, width) {
    const sign = partial ? "Σ " : "", room = Math.floor((width - 6) / 6.5);
    const full = sign + group.ranks.join(" "), short = `${sign}${group.ranks[0]} … ${group.ranks[group.ranks.length - 1]}`;
    return full.length <= room ? full : short.length <= room ? short : String(group.ranks[0]).length <= room ? String(group.ranks[0]) : "";
}

/* 0 1 2 3; 0–7; 0 2 4 … 14 */
function ranksText(ranks) {
    const n = ranks.length;
    if (n > 2 && ranks[n - 1] - ranks[0] === n - 1) return `${ranks[0]}–${ranks[n - 1]}`;
    return n <= 8 ? ranks.join(", ") : `${ranks.slice(0, 6).join(", ")} … ${ranks[n - 1]}`;
}

function nextOf(ranks, rank) {
    return ranks[(ranks.indexOf(rank) + 1) % ranks.length];
}

/* What the picture does not show. */
function otherDims(layout, shape, others, mine) {
    return others.map((d) => {
        const count = parts(layout.dims[d]), range = `${mine[d][0]}:${mine[d][1]}`;
        return el("p", { class: "dim" }, count > 1 ? `dimension ${d}: ${shape[d]}, in ${count} parts too; drawn is [${range}], of the chosen rank` : `not drawn: dimension ${d}: ${shape[d]}, whole`);
    });
}

/* ---------------------------------------------------------------- a conversion */

function moveFigures(app, tab) {
    const { plan } = app, type = tab.value.type, shape = type.shape, unit = elementBytes(type);
    const dims = dimsDrawn([tab.from.layout, tab.to.layout], shape);
    const move = moveMake(tab.step.what, tab.from.layout, tab.to.layout, shape, plan.ranks);
    const received = piecesReceived(move, app.rank), sent = piecesSent(move, app.rank);
    const comm = tab.step.comm >= 0 ? app.program.role.comms[tab.step.comm] : null, matrix = matrixFigure(app, move, received, sent, unit);
    const mesh = meshFigure(app), wide = pictureWidth(app, 2, mesh.across + matrix.across + 32);
    return [
        mesh.figure, tensorFigure(app, "before", tab.from.layout, type, dims, wide), matrix.figure,
        tensorFigure(app, "after", tab.to.layout, type, dims, wide),
        el("div", { class: "words" }, moveWords(app, tab, received, sent, unit),
           comm && app.program.role.counted && el("p", { class: "dim" }, `${comm.kind}: ${bytes(Math.max(comm.received.total, comm.sent.total))} ${sendsOnly(comm) ? "sent to another stage" : "received by all ranks"}`, app.program.role.totals && `, at least ${bytes(comm.least.total)} must be; ${predictedText(app, comm)}`)),
    ];
}

function matrixFigure(app, move, received, sent, unit) {
    const { plan } = app;
    const all = plan.ranks <= MATRIX_MOST;
    const near = [...new Set([app.rank, ...received.map((p) => p.from), ...sent.map((p) => p.to)])].slice(0, MATRIX_MOST).sort((a, b) => a - b);
    const ranks = all ? [...Array(plan.ranks).keys()] : near, cells = moveMatrix(move, ranks);
    const most = Math.max(1, ...cells.values()), size = Math.round((ranks.length <= 4 ? 40 : ranks.length <= 8 ? 24 : 16) * (app.layout.figures.clientWidth > 1500 ? 1.5 : 1)), left = 26, top = 20;
    const drawing = svg("svg", { class: "matrix", width: left + size * ranks.length + 4, height: top + size * ranks.length + 4, role: "img", "aria-label": "who sends how much to whom" });
    ranks.forEach((r, i) => {
        const on = r === app.rank ? "chosen" : null;
        drawing.append(svg("text", { x: left + (i + 0.5) * size, y: 14, "text-anchor": "middle", class: on }, String(r)));
        drawing.append(svg("text", { x: left - 5, y: top + (i + 0.5) * size + 4, "text-anchor": "end", class: on }, String(r)));
    });
    ranks.forEach((from, i) => ranks.forEach((to, k) => {
        const n = (cells.get(from * plan.ranks + to) || 0) * unit;
        drawing.append(svg("rect", { x: left + k * size + 1, y: top + i * size + 1, width: size - 2, height: size - 2, class: n > 0 ? "sends" : "none", "fill-opacity": n > 0 ? (0.25 + (0.75 * n) / (most * unit)).toFixed(2) : null, onclick: () => app.setRank(to) },
                           svg("title", {}, from === to ? `rank ${from}: what it keeps moves nothing` : `rank ${from} sends ${bytes(n)} to rank ${to}`)));
        if (n > 0 && size >= 24) drawing.append(svg("text", { x: left + (k + 0.5) * size, y: top + (i + 0.5) * size + 3, "text-anchor": "middle", class: size < 30 && tiny(n).length > 3 ? "amount long" : "amount" }, tiny(n)));
    }));
    const at = ranks.indexOf(app.rank);
    drawing.append(svg("rect", { class: "line", x: left, y: top + at * size, width: size * ranks.length, height: size }), svg("rect", { class: "line", x: left + at * size, y: top, width: size, height: size * ranks.length }));
    const figure = el("figure", {}, el("figcaption", {}, "row sends to column"), drawing,
                      el("p", { class: "dim" }, cells.size === 0 ? "nothing is sent" : `at most ${bytes(most * unit)} from one to another`, !all && `; of ${plan.ranks} ranks those that exchange with rank ${app.rank}`));
    return { figure, across: Math.max(240, left + size * ranks.length) }; /* its words are as wide as that */
}

/* 3M, 192: what fits a small cell. */
function tiny(n) {
    const text = bytes(n).replace(/\.0 | /, " ").split(" "), amount = text[0].length > 3 ? String(Math.round(Number(text[0]))) : text[0];
    return amount + { B: "", KiB: "K", MiB: "M", GiB: "G", TiB: "T", PiB: "P" }[text[text.length - 1]];
}

/* What a rank has, wants, receives and sends. */
function moveWords(app, tab, received, sent, unit) {
    const shape = tab.value.type.shape, rank = app.rank, has = boxOf(tab.from.layout, shape, rank), wants = boxOf(tab.to.layout, shape, rank);
    const partial = tab.from.layout.partial.length > 0, still = tab.to.layout.partial.length > 0;
    const others = received.filter((p) => p.from !== rank), kept = sum(received.filter((p) => p.from === rank), (p) => p.elements);
    const list = (pieces, word, who) => {
        const groups = [...groupBy(pieces, (p) => `${p.elements} ${p.round} ${p.box}`).values()];
        const line = (g) => el("li", {}, `${word} rank${g.length > 1 ? "s" : ""} ${ranksText(g.map((p) => p[who]))}: ${bytes(g[0].elements * unit)}${g.length > 1 ? " each" : ""}, `, el("span", { class: "dim" }, g[0].round === 1 ? "added up, of " : !partial ? "" : word === "to" ? "a term of " : g.length > 1 ? "their terms of " : "its term of ", boxText(g[0].box, shape)));
        return groups.length > 0 && el("ul", {}, groups.slice(0, 12).map(line), groups.length > 12 && el("li", { class: "dim" }, `and ${groups.length - 12} more`));
    };
    return [
        el("p", {}, el("b", {}, `Rank ${rank}`), ` has ${partial ? "its term of " : ""}`, el("code", {}, boxText(has, shape)), `, and wants ${still ? "a term of " : partial ? "the sum of " : ""}`, el("code", {}, boxText(wants, shape)), "."),
        el("p", {}, `It receives ${bytes(sum(others, (p) => p.elements) * unit)}`, kept > 0 ? `, ${bytes(kept * unit)} are its own already` : "", others.length > 0 ? ":" : "."), list(others, "from", "from"),
        el("p", {}, `It sends ${bytes(sum(sent, (p) => p.elements) * unit)}`, sent.length > 0 ? ":" : "."), list(sent, "to", "to"),
    ];
}

/* ---------------------------------------------------------------- an operator */

function operatorFigures(app, node) {
    const { role } = app.program, step = role.steps[node.kernel];
    const taken = step.ins.map((i) => role.instances[i]), made = step.outs.map((i) => role.instances[i]);
    const count = Math.min(taken.length, 4) + Math.min(made.length, 2), mesh = meshFigure(app), wide = pictureWidth(app, Math.max(count, 2), mesh.across + 96);
    const figure = (instance) => tensorFigure(app, lastName(valueOf(app, instance).name), instance.layout, valueOf(app, instance).type, null, wide);
    return [mesh.figure, taken.slice(0, 4).map(figure), el("div", { class: "becomes", title: node.op }, node.op, el("br"), "→"), made.slice(0, 2).map(figure), el("div", { class: "words" }, operatorWords(app, node, taken, made))];
}

function operatorWords(app, node, taken, made) {
    const { plan } = app, rank = app.rank;
    const part = (instance) => [el("code", {}, lastName(valueOf(app, instance).name) + boxText(boxOf(instance.layout, valueOf(app, instance).type.shape, rank), valueOf(app, instance).type.shape))];
    const listed = (list) => list.slice(0, 4).flatMap((instance, i) => [i > 0 ? ", " : "", part(instance)]);
    const term = made.length > 0 && made[0].layout.partial.length > 0;
    return [
        el("p", {}, el("b", {}, `Rank ${rank}`), taken.length > 0 ? [" takes ", listed(taken), " and makes "] : " makes ", term ? "its term of " : "", listed(made), "."),
        node.why && node.why.strategy && strategyWords(app, node, taken),
        made.length > 0 && sumWords(app, taken, made[0]),
        made.length > 0 && el("p", { class: "dim" }, `${lastName(valueOf(app, made[0]).name)}: ${layoutWords(plan, made[0].layout, valueOf(app, made[0]).type).join("; ")}.`),
    ];
}

/* A strategy's tuples, one an operand: "(2, 4) divides x: dimension 0 into 2 parts, dimension 1 into 4." */
function strategyWords(app, node, taken) {
    const tuples = tuplesRead(node.why.strategy);
    if (tuples === null) return el("p", {}, "Strategy ", el("code", {}, node.why.strategy), ".");
    const lines = tuples.map((tuple, i) => {
        const named = taken[i] ? lastName(valueOf(app, taken[i]).name) : `operand ${i}`;
        const split = tuple.map((n, d) => (n > 1 ? `dimension ${d} into ${n} parts` : null)).filter((w) => w);
        return el("li", {}, el("code", {}, `(${tuple.join(", ")})`), ` ${named}: `, split.length > 0 ? split.join(", ") : "whole");
    });
    return [el("p", {}, "The strategy ", el("code", {}, node.why.strategy), " has a tuple for each operand, and in it a number of parts for each dimension:"), el("ul", {}, lines)];
}

/* "((2, 4), (4, 1))" -> [[2, 4], [4, 1]]; null: it is no such text. */
function tuplesRead(text) {
    const inside = text.match(/^\((\(.*\)),?\)$/);
    if (!inside || /[^\d\s,()]/.test(text)) return null;
    return [...inside[1].matchAll(/\(([\d\s,]*)\)/g)].map((m) => m[1].split(",").map((n) => n.trim()).filter((n) => n !== "").map(Number));
}

/* Why a result is a sum: which dimensions of the operands are divided by the digits that are partial. */
function sumWords(app, taken, result) {
    const digits = partialDigits(result.layout);
    if (digits.length === 0) return null;
    const along = taken.flatMap((instance) => instance.layout.dims.map((d, dim) => (d.some((x) => digits.some((y) => digitWithin(x, y) || digitWithin(y, x))) ? `dimension ${dim} of ${lastName(valueOf(app, instance).name)}` : null)).filter((w) => w));
    const where = along.length > 0 ? `${along.join(" and ")} ${along.length > 1 ? "are" : "is"} summed over, and divided: e` : "E";
    return el("p", {}, `${where}ach of ${parts(digits)} ranks has only its part of the sum, a term (hatched, Σ). The terms are added up when the value is converted.`);
}
