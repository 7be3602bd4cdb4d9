/* The net as a tree: the source as it is called. A row is a call of a cell, an operator, or equal iterations of a loop folded into one.
 *
 * A row: {id, kind: "net" | "call" | "node" | "loop", name, call or node (the first of its members), count (iterations in it), nodes (the
 * forward nodes of a leaf, of all iterations), children, signature, figures}. Children of a folded row are merged place by place, so that
 * what is said of a row is said of all iterations at every depth. */

/* peak: the step at which memory is fullest. */
function treeMake(plan, program, peak) {
    const tree = { plan, program, rows: [], own: figuresOfNodes(program, peak) };
    const root = { kind: "net", name: plan.net, path: "", children: [], byKey: new Map(), nodes: [], count: 1 };
    const callsOf = plan.calls.length > 0 ? callsOfNode(plan) : callsByName(program);
    const whole = { kind: "call", name: "the step as a whole", path: "", call: null, children: [], nodes: [], count: 1 };
    for (const node of program.nodes) {
        if (node.home !== node.id || isScalarConstant(program, node)) continue;
        const leaf = { kind: "node", name: node.name, path: node.name, node, nodes: [node.id], children: [], count: 1 };
        if (node.phase !== 0) {
            whole.children.push(leaf);
        } else {
            let row = root;
            for (const call of callsOf(node)) row = childCall(row, call);
            row.children.push(leaf);
        }
    }
    if (whole.children.length > 0) root.children.push(whole);
    const signs = signsMake(program);
    tree.root = fold(root, signs);
    number(tree, tree.root, null, 0);
    tree.rowOf = new Int32Array(program.nodes.length).fill(-1);
    for (const row of tree.rows) if (row.kind === "node") for (const n of row.nodes) tree.rowOf[n] = row.id;
    for (const node of program.nodes) if (node.home !== node.id) tree.rowOf[node.id] = tree.rowOf[node.home];
    return tree;
}

function isScalarConstant(program, node) {
    return node.op === "constant" && program.values[node.outs[0]].type.shape.length === 0;
}

/* What a call returns is named after it, and belongs into it. */
function callsOfNode(plan) {
    const byPath = new Map(plan.calls.map((c) => [plan.raw.calls[c.id][1], c])), chains = new Array(plan.calls.length); /* by the number of the text */
    const chain = (c) => {
        if (c < 0) return NONE;
        if (!chains[c]) chains[c] = [...chain(plan.calls[c].outer), { key: c, path: plan.calls[c].path, cell: plan.calls[c].cell, call: plan.calls[c] }];
        return chains[c];
    };
    return (node) => {
        const returned = byPath.get(node.columns.name[node.id]);
        return chain(returned && returned.outer === node.call ? returned.id : node.call);
    };
}

/* Of a page that prun wrote from the plan alone: from names, "h.0.attended.y" lies in h.0.attended and that in h.0. */
function callsByName(program) {
    const prefixes = (name) => {
        const made = [];
        let path = "";
        for (const word of name.split(".")) {
            path = path ? `${path}.${word}` : word;
            if (/^\d+$/.test(word) && made.length > 0) made[made.length - 1] = path;
            else made.push(path);
        }
        return made;
    };
    const inner = new Set();
    for (const node of program.nodes) if (node.home === node.id) for (const path of prefixes(node.name).slice(0, -1)) inner.add(path);
    return (node) => prefixes(node.name).filter((path) => inner.has(path)).map((path) => ({ key: path, path, cell: "", call: null }));
}

function childCall(row, call) {
    if (!row.byKey) row.byKey = new Map();
    let child = row.byKey.get(call.key);
    if (!child) {
        child = { kind: "call", name: call.path, path: call.path, cell: call.cell, call: call.call, children: [], nodes: [], count: 1 };
        row.byKey.set(call.key, child);
        row.children.push(child);
    }
    return child;
}

/* ---------------------------------------------------------------- equal iterations */

/* Equal sequences of items have equal numbers: that of a sequence follows from the number of what is before its last item, and that item. 0: the empty one. */
function signsMake(program) {
    const longer = pairsMake(), texts = new Map(), signs = {};
    signs.text = (text) => texts.get(text) ?? (texts.set(text, texts.size), texts.size - 1);
    signs.and = (sign, tag, item) => longer(sign, item * 8 + tag);
    signs.all = (sign, tag, items) => items.reduce((made, item) => signs.and(made, tag, item), sign);
    signs.ofNodes = signsOfNodes(program, signs);
    return signs;
}
/* Numbers pairs of numbers from 1 on, each pair once; a Map of keys beyond 2^31 takes several times as long. */
function pairsMake() {
    let bits = 10, slots = new Int32Array(1 << bits), n = 0;
    const pairs = [0, 0]; /* of number k: pairs[2 k], pairs[2 k + 1] */
    const slotOf = (a, b) => {
        let at = Math.imul(Math.imul(a, 0x9e3779b1) ^ b, 0x85ebca6b) >>> (32 - bits);
        while (slots[at] !== 0 && (pairs[2 * slots[at]] !== a || pairs[2 * slots[at] + 1] !== b)) at = (at + 1) & (slots.length - 1);
        return at;
    };
    return (a, b) => {
        let at = slotOf(a, b);
        if (slots[at] !== 0) return slots[at];
        pairs.push(a, b);
        slots[at] = ++n;
        if (2 * n > slots.length) {
            slots = new Int32Array(1 << ++bits);
            for (let k = 1; k <= n; k++) slots[slotOf(pairs[2 * k], pairs[2 * k + 1])] = k;
        }
        return n;
    };
}

const SIGN = { op: 0, type: 1, layout: 2, comm: 3, target: 4, call: 5, iteration: 6, loop: 7 };

/* Per node: what must be equal for two iterations to be one row: operator, types, layouts, conversions, also of its gradients and updates. */
function signsOfNodes(program, signs) {
    const { role } = program, { nodes, values } = program.columns, { layout } = role.columns.instances, made = new Array(program.nodes.length).fill(0);
    for (const { id, home } of program.nodes) {
        let sign = signs.and(made[home], SIGN.op, nodes.op[id]); /* numbers of texts, types, layouts: each is one of the plan's */
        for (let k = nodes.outs.start[id]; k < nodes.outs.start[id + 1]; k++) {
            const v = nodes.outs.members[k];
            sign = signs.and(sign, SIGN.type, values.type[v]);
            for (let i = values.instances.start[v]; i < values.instances.start[v + 1]; i++) sign = signs.and(sign, SIGN.layout, layout[values.instances.members[i]]);
        }
        for (let c = nodes.comms.start[id]; c < nodes.comms.start[id + 1]; c++) {
            const comm = role.comms[nodes.comms.members[c]];
            sign = signs.and(signs.and(sign, SIGN.comm, signs.text(comm.kind)), SIGN.target, layout[comm.to]);
        }
        made[home] = sign;
    }
    return made;
}

function fold(row, signs) {
    row.byKey = undefined;
    if (row.kind === "node") {
        row.signature = signs.ofNodes[row.node.id];
        return row;
    }
    for (const child of row.children) {
        if (row.path && child.path === row.path) child.name = "returned";
        else child.name = row.path && child.path.startsWith(row.path + ".") ? child.path.slice(row.path.length + 1) : child.path || child.name;
        fold(child, signs);
    }
    row.children = foldSiblings(row.children, signs);
    row.signature = signs.all(signs.and(0, SIGN.call, signs.text(row.cell || "")), SIGN.call, row.children.map((c) => c.signature));
    return row;
}

/* The number of the iteration from which a row is, null: it is in no loop. What pcc adds for each attention of a program that generates is generate.seen, generate.seen_2, .. */
function iterationOf(row) {
    const m = row.name.match(/^(?:[^.]*\.)?(\d+)(?=\.|$)/), added = m ? null : row.name.match(/^generate\.[a-z]+(?:_(\d+))?$/);
    return m ? Number(m[1]) : added ? Number(added[1] || 1) : null;
}

function foldSiblings(rows, signs) {
    const out = [];
    for (let i = 0; i < rows.length;) {
        const loop = [];
        let last = -1;
        for (; i < rows.length; i++) {
            const n = iterationOf(rows[i]);
            if (n === null || n < last) break;
            if (n !== last) loop.push({ n, rows: [] });
            loop[loop.length - 1].rows.push(rows[i]);
            last = n;
        }
        if (loop.length > 1) out.push(...foldLoop(loop, signs));
        else if (loop.length === 1) out.push(...loop[0].rows);
        else out.push(rows[i++]);
    }
    return out;
}

function foldLoop(loop, signs) {
    for (const iteration of loop) iteration.sign = signs.all(0, SIGN.iteration, iteration.rows.map((r) => r.signature));
    let groups = [];
    for (const iteration of loop) {
        const group = groups[groups.length - 1];
        if (group && group[0].sign === iteration.sign) group.push(iteration);
        else groups.push([iteration]);
    }
    if (groups.length > 6) groups = [...groupBy(loop, (iteration) => iteration.sign).values()]; /* layers that alternate */
    return groups.map((group) => loopRow(group, signs));
}

function loopRow(group, signs) {
    const merged = group[0].rows.map((_, place) => mergeRows(group.map((iteration) => iteration.rows[place])));
    const numbers = group.map((iteration) => iteration.n);
    if (merged.length === 1 && merged[0].kind !== "loop") {
        merged[0].iterations = numbers;
        return merged[0];
    }
    for (const row of merged) row.name = row.name.replace(/\.\d+(?=\.|$)|(?<=^generate\.[a-z]+)_\d+$/, "");
    return { kind: "loop", name: "", path: "", iterations: numbers, children: merged, nodes: [], count: group.length, signature: signs.all(signs.and(0, SIGN.loop, group.length), SIGN.loop, merged.map((r) => r.signature)) };
}

/* Rows of equal signature as one. */
function mergeRows(rows) {
    if (rows.length === 1) return rows[0];
    return {
        ...rows[0],
        nodes: rows.flatMap((r) => r.nodes),
        count: rows.reduce((n, r) => n + r.count, 0),
        children: rows[0].children.map((_, place) => mergeRows(rows.map((r) => r.children[place]))),
    };
}

/* "0 … 10", "0, 2, 4 … 10" */
function iterationsText(numbers) {
    const n = numbers.length;
    if (n === 1) return String(numbers[0]);
    if (numbers[n - 1] - numbers[0] === n - 1) return n === 2 ? `${numbers[0]}, ${numbers[1]}` : `${numbers[0]} … ${numbers[n - 1]}`;
    return n <= 4 ? numbers.join(", ") : `${numbers.slice(0, 3).join(", ")} … ${numbers[n - 1]}`;
}

/* ---------------------------------------------------------------- figures */

function figuresNone() {
    return { ns: 0, waited: 0, received: 0, flops: 0, peak: 0, measured: 0, comms: 0 };
}

function figuresAdd(to, from) {
    for (const key in to) to[key] += from[key];
}

/* Of each node with what is counted under its line: gradients, updates, conversions of its values. */
function figuresOfNodes(program, peak) {
    const { role } = program, own = program.nodes.map((node) => (node.home === node.id ? figuresNone() : null));
    for (const node of program.nodes) {
        const at = own[node.home];
        at.ns += node.ns;
        at.flops += node.flops;
        at.measured += node.measured;
    }
    for (const comm of role.comms) {
        const at = own[program.nodes[program.values[comm.value].node].home];
        at.waited += comm.waited;
        at.received += comm.received.total;
        at.comms++;
    }
    for (const i of aliveAt(role, peak)) own[program.nodes[program.values[i.value].node].home].peak += bytesAt(i, peak);
    return own;
}

function number(tree, row, parent, depth) {
    row.id = tree.rows.length;
    row.parent = parent ? parent.id : -1;
    row.depth = depth;
    row.open = depth < 1;
    tree.rows.push(row);
    for (const child of row.children) number(tree, child, row, depth + 1);
    row.figures = figuresNone();
    for (const n of row.nodes) figuresAdd(row.figures, tree.own[n]);
    for (const child of row.children) figuresAdd(row.figures, child.figures);
}

/* All forward nodes below a row. */
function nodesBelow(row) {
    return row.kind === "node" ? row.nodes : row.children.flatMap(nodesBelow);
}

/* The node whose result a row's is: the last one made in it (of the first iteration). */
function resultOf(row) {
    const computes = (r) => r.kind !== "node" || r.node.ins.length > 0;
    while (row.kind !== "node") row = [...row.children].reverse().find(computes) || row.children[row.children.length - 1];
    return row.node;
}
