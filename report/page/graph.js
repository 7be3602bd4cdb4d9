/* Nodes and edges: the open rows of the net as boxes, layer by layer (the longest way from the inputs), edges as curves. Layers that find no room
 * below go on at the right. */

const GRAPH = { width: 190, height: 44, gapX: 22, gapY: 30, most: 400 };

function graphDraw(view) {
    const rows = view.visible.filter((row) => !(row.open && row.children.length > 0));
    const shown = rows.slice(0, GRAPH.most);
    const edges = edgesOfRows(view, shown);
    const boxes = graphLayers(shown, edges, Math.max(420, 0.74 * window.innerHeight));
    const width = Math.max(...boxes.map((b) => b.x + GRAPH.width)) + 12, height = Math.max(...boxes.map((b) => b.y + GRAPH.height)) + 12;
    const drawn = svg("svg", { width, height, class: "nodes", role: "group", "aria-label": "nodes and edges" });
    const most = Math.max(1, ...edges.map((e) => e.moved));
    for (const e of edges) drawn.append(edgeDrawn(boxes[e.from], boxes[e.to], e, most));
    boxes.forEach((b) => drawn.append(nodeDrawn(view, b)));
    replace(view.nodes, rows.length > shown.length && el("p", { class: "dim" }, `The first ${GRAPH.most} of ${rows.length} open rows; close some to see others.`), drawn);
    graphMark(view);
}

/* Boxes with x, y: the layer of a row is one below the lowest of those it reads; in a layer near what it reads. */
function graphLayers(rows, edges, tall) {
    const into = rows.map(() => []), boxes = rows.map((row, id) => ({ row, id, layer: 0, at: 0 }));
    for (const e of edges) into[e.to].push(e.from);
    const readers = rows.map(() => []);
    for (const e of edges) readers[e.from].push(e.to);
    rows.forEach((_, i) => {
        for (const from of into[i]) boxes[i].layer = Math.max(boxes[i].layer, boxes[from].layer + 1);
    });
    rows.forEach((_, i) => { /* parameters stand just above their first reader */
        if (into[i].length === 0 && readers[i].length > 0) boxes[i].layer = Math.max(0, Math.min(...readers[i].map((r) => boxes[r].layer)) - 1);
    });
    for (const layer of [...groupBy(boxes, (b) => b.layer).entries()].sort((a, b) => a[0] - b[0]).map((e) => e[1])) {
        for (const b of layer) {
            const froms = into[b.id].map((f) => boxes[f].at);
            b.wanted = froms.length > 0 ? sum(froms) / froms.length : layer.length / 2;
        }
        layer.sort((a, b) => a.wanted - b.wanted).forEach((b, i) => (b.at = i));
    }
    graphColumns(boxes, Math.max(1, Math.floor((tall - 24) / (GRAPH.height + GRAPH.gapY))));
    return boxes;
}

/* So many layers below each other, the next ones in a column of their own. */
function graphColumns(boxes, layers) {
    let left = 12;
    for (const [column, list] of [...groupBy(boxes, (b) => Math.floor(b.layer / layers)).entries()].sort((a, b) => a[0] - b[0])) {
        for (const b of list) {
            b.column = column;
            b.x = left + b.at * (GRAPH.width + GRAPH.gapX);
            b.y = 12 + (b.layer % layers) * (GRAPH.height + GRAPH.gapY);
        }
        left = Math.max(...list.map((b) => b.x)) + GRAPH.width + 2 * GRAPH.gapX;
    }
}

function edgeDrawn(from, to, edge, most) {
    const x1 = from.x + GRAPH.width / 2, y1 = from.y + GRAPH.height, x2 = to.x + GRAPH.width / 2, y2 = to.y, bend = Math.max(20, (y2 - y1) / 2);
    const wide = edge.moved > 0 ? 1.5 + 3 * Math.sqrt(edge.moved / most) : 1;
    const right = from.x + GRAPH.width, middle = GRAPH.height / 2, reach = Math.max(30, (to.x - right) / 2);
    const down = `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, across = `M${right} ${from.y + middle} C${right + reach} ${from.y + middle} ${to.x - reach} ${to.y + middle} ${to.x} ${to.y + middle}`;
    const path = svg("path", { d: from.column === to.column ? down : across, class: edge.moved > 0 ? "edge moves" : "edge", "stroke-width": wide.toFixed(1) });
    if (edge.moved === 0) return path;
    path.append(svg("title", {}, `${bytes(edge.moved)} received by all ranks`));
    return svg("g", {}, path, svg("text", { x: (x1 + x2) / 2 + 4, y: (y1 + y2) / 2, class: "moves" }, bytes(edge.moved)));
}

function nodeDrawn(view, b) {
    const { app } = view, row = b.row, act = () => app.choose(thingOfRow(row));
    const name = (row.kind === "loop" ? `iterations ${iterationsText(row.iterations)}` : shortName(row)) + (row.count > 1 ? ` × ${row.count}` : "");
    const node = resultOf(row), value = app.program.values[node.outs[0]], instance = value && value.instances.length > 0 ? app.program.role.instances[value.instances[0]] : null;
    const figures = row.figures.ns + row.figures.waited;
    const made = svg("g", { class: "node", tabindex: 0, "data-row": row.id, transform: `translate(${b.x} ${b.y})`, onclick: act, ondblclick: () => row.children.length > 0 && netToggle(view, row),
                            onkeydown: (e) => (e.key === "Enter" ? act() : e.key === "ArrowRight" && row.children.length > 0 ? netToggle(view, row) : null) },
                     svg("rect", { width: GRAPH.width, height: GRAPH.height, rx: 5 }),
                     svg("text", { x: 8, y: 17, class: "title" }, cut(name, figures ? 18 : 26)),
                     svg("text", { x: 8, y: 34 }, cut([row.kind === "node" ? row.node.op : row.cell || "", instance ? layoutName(app.plan, instance.layout) : ""].join("  "), 24)),
                     svg("text", { x: GRAPH.width - 8, y: 17, "text-anchor": "end", class: "dim" }, figures ? time(figures) : ""),
                     svg("title", {}, name + (row.children.length > 0 ? "\ndouble click opens it" : "")));
    return made;
}

function cut(text, most) {
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function graphMark(view) {
    for (const marked of view.nodes.querySelectorAll(".chosen")) marked.classList.remove("chosen");
    const thing = view.app.chosen;
    if (!thing) return;
    const row = thing.kind === "row" ? shownSelf(view.tree, view.tree.rows[thing.id]) : shownRow(view.tree, nodeOfThing(view.app, thing));
    const made = row && view.nodes.querySelector(`[data-row="${row.id}"]`);
    if (made) made.classList.add("chosen");
}
