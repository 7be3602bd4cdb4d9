/* Communication: every conversion that moves bytes, those of equal layers together; sortable, filtered, opened into single ones; as CSV. */

function communicationSection(app) {
    const view = { app, open: new Set(), filter: "" };
    app.communication = view;
    view.groups = commGroups(app);
    view.box = el("div", { class: "scroll resize comms" });
    const filter = el("input", { type: "search", placeholder: "filter: value, kind, cause", size: 26, "aria-label": "filter communications", oninput: () => {
        view.filter = filter.value.toLowerCase();
        communicationDraw(view);
    } });
    const csv = el("button", { title: "all communications as comma-separated values, to the clipboard", onclick: () => copyText(communicationCsv(app), csv) }, "Copy as CSV");
    view.count = el("span", { class: "dim" });
    view.filterInput = filter;
    const section = el("section", { id: "communication" }, el("h2", {}, "Communication ", el("small", {}, "conversions of a step; equal layers are one row")),
                       el("div", { class: "controls" }, filter, csv, view.count), view.box);
    communicationDraw(view);
    return section;
}

function communicationDraw(view) {
    const { app } = view;
    const shown = view.groups.filter((g) => view.filter === "" || [g.name, g.kind, g.phase, causeText(app, g.first)].some((t) => t.toLowerCase().includes(view.filter)));
    replace(view.count, `${plural(shown.length, "row")}, ${plural(sum(shown, (g) => g.list.length), "communication")}, ${app.program.role.counted ? `${bytes(sum(shown, (g) => g.received))} by all ranks, ` : ""}${app.run ? `measured: waited for ${time(sum(shown, (g) => g.measured))}` : `waited for ${time(sum(shown, (g) => g.waited))}`}`);
    if (shown.length === 0) {
        replace(view.box, el("p", { class: "dim" }, view.groups.length === 0 ? "No communication: nothing moves between ranks in a step." : "Nothing matches the filter."));
        return;
    }
    const columns = communicationColumns(view);
    const row = (g) => ({ ...pressable(() => app.choose({ kind: "comm", id: g.first.id })), class: "alike", "data-comm": g.list.map((c) => c.id).join(" ") });
    const single = (c) => el("tr", { class: "single", "data-comm": c.id, ...pressable(() => app.choose({ kind: "comm", id: c.id })) }, columns.map((column) => el("td", { class: column.class }, column.cell(commGroup(app, [c])))));
    const below = (g) => [el("tr", { class: "cause" }, el("td", { colspan: columns.length }, causeText(app, g.first))), view.open.has(g) && g.list.slice(0, SINGLE_MOST).map(single)];
    view.table = sortableTable(columns, shown, { sorted: columns.findIndex((c) => c.head === (app.run ? "measured" : "waited for")), row, below });
    replace(view.box, view.table);
    communicationMark(view);
}
const SINGLE_MOST = 400;

/* Of a page without predictions, or without counted bytes, those that it knows. */
function communicationColumns(view) {
    const { app } = view, { role } = app.program, of = (g) => (app.run ? g.measured : g.waited), most = Math.max(1, ...view.groups.map(of));
    const columns = [
        { head: "value", class: "name", cell: (g) => el("span", { title: g.name }, opener(view, g), g.list.length > 1 || view.groups.includes(g) ? el("b", {}, g.name) : g.name, g.list.length > 1 ? el("span", { class: "count" }, `× ${g.list.length}`) : g.first.bucket > 0 && el("span", { class: "dim" }, ` bucket ${g.first.bucket}`), el("span", { class: "dim" }, ` ${g.phase}`)), sort: (g) => g.name },
        { head: "conversion", cell: (g) => [el("span", { class: "kind" }, g.kind), arrowChips(app.plan, g.layouts[0], g.layouts[1], g.type)], sort: (g) => [g.kind, ...g.layouts.map((l) => layoutName(app.plan, l))].join(" ") },
    ];
    if (role.counted)
        columns.push({ head: "by all", class: "num", title: "received by all ranks", cell: (g) => bytes(g.received), sort: (g) => g.received },
                     { head: "busiest", class: "num", title: "received by the busiest rank", cell: (g) => bytes(g.busiest), sort: (g) => g.busiest });
    if (role.totals) columns.push({ head: "× least", class: "num", title: "against the least that must be received", cell: (g) => (g.least > 0 ? digits3(g.received / g.least) : "–"), sort: (g) => (g.least > 0 ? g.received / g.least : 0) });
    if (role.predicted)
        columns.push({ head: "takes", class: "num", cell: (g) => time(g.ns), sort: (g) => g.ns },
                     { head: "waited for", class: "num", cell: (g) => (g.waited > 0 ? time(g.waited) : el("span", { class: "dim" }, "hidden")), sort: (g) => g.waited });
    if (app.run) columns.push({ head: "measured", class: "num", title: "waiting, mean over ranks and steps", cell: (g) => time(g.measured), sort: (g) => g.measured });
    columns.push({ head: "", class: "share", cell: (g) => el("span", { class: "bar" }, el("b", { class: "waits", style: { width: `${(100 * of(g)) / most}%` } })) });
    return columns;
}

function opener(view, group) {
    if (group.list.length < 2) return el("span", { class: "twist" });
    const open = view.open.has(group);
    return el("button", { class: "twist", title: open ? "close" : "open into single ones", onclick: (e) => {
        e.stopPropagation();
        open ? view.open.delete(group) : view.open.add(group);
        communicationDraw(view);
    } }, open ? "▾" : "▸");
}

function communicationMark(view) {
    const thing = view.app.chosen;
    for (const marked of view.box.querySelectorAll(".chosen")) marked.classList.remove("chosen");
    if (!thing || thing.kind !== "comm") return;
    for (const row of view.box.querySelectorAll("[data-comm]")) if (row.dataset.comm.split(" ").includes(String(thing.id))) row.classList.add("chosen");
}

function communicationCsv(app) {
    const { role } = app.program, known = (is, n) => (is ? n : "");
    const rows = [["value", "kind", "from", "to", "bucket", "sent_all", "sent_busiest", "received_all", "received_busiest", "least_all", "seconds", "waited_s", "measured_s", "cause"]];
    for (const c of role.comms)
        rows.push([c.name, c.kind, layoutName(app.plan, c.layouts[0]), layoutName(app.plan, c.layouts[1]), c.bucket, ...[c.sent.total, c.sent.max, c.received.total, c.received.max].map((n) => known(role.counted, n)),
                   known(role.totals, c.least.total), known(role.predicted, c.ns / 1e9), known(role.predicted, c.waited / 1e9), known(app.run, c.measuredWait / 1e9), causeText(app, c)]);
    return rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
}

/* As RFC 4180 quotes. A text that a spreadsheet would take for a formula begins with an apostrophe: names come from others' plans. */
function csvCell(x) {
    const text = typeof x === "string" && /^[=+\-@\t\r]/.test(x) ? `'${x}` : String(x);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
