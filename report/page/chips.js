/* How a layout is shown in a line: a cell for each dimension, coloured by mesh axis, and the axis as text. */

function axisCell(plan, digits, prefix, kind) {
    const names = digits.flatMap((d) => digitNamed(plan, d));
    const colours = names.map((n) => `var(--axis${n.colour % 8})`), each = 100 / names.length;
    const background = names.length > 1 ? `linear-gradient(100deg, ${colours.map((c, i) => `${c} ${i * each}% ${(i + 1) * each}%`).join(", ")})` : colours[0];
    return el("i", { class: kind, style: kind === "part" ? { background } : null }, prefix + names.map((n) => n.name).join("·"));
}

/* A name that may go on in the next line behind its dots. */
function breakable(name) {
    return name.split(".").map((word, i) => (i > 0 ? [".", el("wbr"), word] : word));
}

/* The chip of a layout of a tensor of this type. */
function chip(plan, layout, type) {
    const cells = layout.dims.map((digits, dim) => {
        const cell = digits.length === 0 ? el("i", { class: "whole" }, "–") : axisCell(plan, digits, "", "part");
        if (layout.halos[dim]) cell.append("+");
        return type && type.hidden && dim === 0 ? [cell, el("i", { class: "bar" }, "|")] : cell;
    });
    if (layout.dims.length === 0) cells.push(el("i", { class: "whole" }, "·"));
    if (layout.pin && layout.stage < 0) cells.unshift(el("i", { class: "pin" }, `@${layout.pin.value * layout.pin.stride}`));
    for (const p of layout.partial) cells.push(axisCell(plan, p.digits, p.kind === "sum" ? "Σ" : p.kind + " ", "term"));
    return el("span", { class: "chip", title: layoutWords(plan, layout, type).join("\n") + "\n" + layout.text }, cells);
}

function arrowChips(plan, from, to, type) {
    const apart = from.stage !== to.stage, side = (layout) => [apart && el("span", { class: "stage" }, `${layout.held || "all"} `), chip(plan, layout, type)];
    return el("span", { class: "nowrap" }, side(from), " → ", side(to));
}

/* A layout as plain text, for CSV and comparison; each layout of a plan is written once. */
function layoutName(plan, layout) {
    if (!plan.layoutNames.has(layout)) plan.layoutNames.set(layout, layoutNameMake(plan, layout));
    return plan.layoutNames.get(layout);
}

function layoutNameMake(plan, layout) {
    const of = (digits) => digits.flatMap((d) => digitNamed(plan, d)).map((n) => n.name).join(".");
    const terms = layout.partial.map((p) => ` +${p.kind}(${of(p.digits)})`).join("");
    return `[${layout.dims.map((d, i) => (d.length ? of(d) : "-") + (layout.halos[i] ? "+" : "")).join(" ")}]${terms}${layout.held ? ` ${layout.held}` : ""}`;
}

/* A layout in sentences, one a dimension that is divided. */
function layoutWords(plan, layout, type) {
    const words = layout.pin ? [layout.stage >= 0 ? `on the ranks of ${layout.held} alone` : `on ${layout.held} alone`] : [];
    const named = (digits) => digits.flatMap((d) => digitNamed(plan, d)).map((n) => n.name).join("·");
    const called = (digits) => (plan.mesh.some((m) => m.own) ? ` over ${named(digits)}` : "");
    layout.dims.forEach((digits, dim) => {
        const hidden = type && type.hidden, size = type ? ` of ${type.shape[dim]}` : "", name = hidden && dim === 0 ? "the replicas" : `dimension ${hidden ? dim - 1 : dim}${size}`;
        if (digits.length > 0) words.push(`${name}: in ${parts(digits)} parts${called(digits)}`);
        if (layout.halos[dim]) words.push(`${name}: parts with halos, what windows of its neighbours see too`);
    });
    for (const p of layout.partial) words.push(`every rank has one of ${parts(p.digits)} terms of a ${p.kind === "sum" ? "sum" : p.kind + "imum"}${called(p.digits)}`);
    const used = parts([...splitDigits(layout), ...partialDigits(layout)]), ranks = plan.ranks / parts(pinDigits(layout));
    if (used === 1) words.push(ranks === 1 ? "whole" : `whole on every of ${ranks} ranks`);
    else if (used < ranks) words.push(`${ranks / used} copies of each part`);
    return words;
}

/* Of values that are kept in several layouts: as it is made, then what it becomes. */
function chipsOfNode(app, node) {
    const { plan, program } = app, value = program.values[node.outs[0]];
    if (!value) return [];
    const instances = value.instances.map((i) => program.role.instances[i]);
    if (instances.length === 0) return [];
    const here = instances.filter((i) => i.place !== 6);
    if (here.length < instances.length) instances.splice(0, instances.length, ...here, ...instances.filter((i) => i.place === 6)); /* first what these ranks have */
    const made = chip(plan, instances[0].layout, value.type);
    if (instances.length === 1) return [made];
    return [made, " → ", chip(plan, instances[1].layout, value.type), instances.length > 2 ? ` +${instances.length - 2}` : ""];
}

function legendOfAxes(plan) {
    const axes = plan.axes.slice(0, 8).map((axis) =>
        el("span", { class: "key" }, el("span", { class: "chip" }, axisCell(plan, [axis], "", "part")), axis.own ? ` axis of ${axis.size}` : ` in ${axis.size} parts (${axis.size}@${axis.stride})`));
    return el("span", { class: "legend" }, axes,
              el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "whole" }, "–")), " whole"),
              plan.layouts.some((l) => l.partial.length > 0) && el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "term" }, "Σ")), " a term of a sum"),
              plan.layouts.some((l) => l.pin && l.stage < 0) && el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "pin" }, "@0")), " on rank 0 alone"),
              plan.layouts.some((l) => l.dims.length === 0) && el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "whole" }, "·")), " a single number"),
              plan.types.some((t) => t.hidden) && el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "bar" }, "|")), " before it the replicas"),
              plan.layouts.some((l) => l.halos.some((h) => h)) && el("span", { class: "key" }, el("span", { class: "chip" }, el("i", { class: "whole" }, "+")), " with halos"));
}
