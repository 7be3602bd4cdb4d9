/* Search: values, operators, states, lines of the source, communications by name; / goes there, arrows and Enter choose. */

const FOUND_MOST = 14;

function searchBox(app) {
    const view = { found: [], at: 0 };
    const list = el("ul", { class: "found", role: "listbox", id: "found", hidden: true });
    const input = el("input", { type: "search", id: "find", placeholder: "Find value, operator, line  ( / )", "aria-label": "find", role: "combobox", "aria-controls": "found", "aria-expanded": "false", autocomplete: "off" });
    const draw = () => {
        list.hidden = view.found.length === 0 && input.value === "";
        input.setAttribute("aria-expanded", String(!list.hidden));
        replace(list, view.found.length > 0 ? view.found.map((f, i) => el("li", { role: "option", "aria-selected": String(i === view.at), onpointerdown: (e) => (e.preventDefault(), take(i)) }, el("b", {}, f.name), el("span", { class: "dim" }, ` ${f.about}`))) : el("li", { class: "dim" }, "nothing has this name"));
    };
    const take = (i) => {
        if (!view.found[i]) return;
        app.show(view.found[i].thing);
        input.value = "";
        view.found = [];
        draw();
        input.blur();
    };
    input.addEventListener("input", () => {
        view.found = input.value.trim() === "" ? [] : searchFor(app, input.value.trim().toLowerCase());
        view.at = 0;
        draw();
    });
    input.addEventListener("blur", () => (list.hidden = true));
    input.addEventListener("focus", () => input.value !== "" && draw());
    input.addEventListener("keydown", (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") view.at = Math.max(0, Math.min(view.found.length - 1, view.at + (event.key === "ArrowDown" ? 1 : -1)));
        else if (event.key === "Enter") return take(view.at);
        else return;
        event.preventDefault();
        draw();
    });
    return el("div", { class: "search" }, input, list);
}

/* What is searched, made at the first search: {name, lower, about, thing}. */
function searchIndex(app) {
    if (app.index) return app.index;
    const { program, plan } = app, list = [];
    for (const node of program.nodes) {
        const value = node.outs.length > 0 ? program.values[node.outs[0]] : null;
        list.push({ name: value ? value.name : node.name, about: `${node.op} ${value ? value.type.text : ""} ${PHASES[node.phase]}`, thing: { kind: "node", id: node.id } });
    }
    for (const row of app.tree.rows) if (row.kind === "call" && row.path) list.push({ name: row.path, about: `call of ${row.cell || "a cell"}`, thing: { kind: "row", id: row.id } });
    for (const item of list) item.lower = `${item.name} ${item.about}`.toLowerCase();
    const lines = new Map();
    for (const node of program.nodes) if (node.phase === 0 && node.place.line > 0) lines.set(`${node.place.file} ${node.place.line}`, node.id);
    for (const [key, id] of lines) {
        const place = program.nodes[id].place, text = sourceLine(plan, place);
        list.push({ name: placeText(plan, place), about: text === null ? "" : text.trim(), lower: `${placeText(plan, place)} ${text || ""}`.toLowerCase(), thing: { kind: "node", id } });
    }
    app.index = list;
    return list;
}

/* The exact name first, then names that begin so, names that have it in them, the rest; shorter ones before. */
function searchFor(app, wanted) {
    const words = wanted.split(/\s+/), hits = [];
    for (const item of searchIndex(app)) {
        if (!words.every((w) => item.lower.includes(w))) continue;
        const name = item.name.toLowerCase(), last = name.slice(name.lastIndexOf(".") + 1);
        hits.push([name === wanted ? 0 : last === wanted ? 1 : name.startsWith(wanted) ? 2 : name.includes(wanted) ? 3 : 4, name.length, item]);
    }
    hits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return hits.slice(0, FOUND_MOST).map((h) => h[2]);
}
