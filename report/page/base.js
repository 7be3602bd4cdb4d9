/* Elements, numbers as people read them, sorting: what every section uses. */

/* An element. Attributes: "class", "title", ..; "onclick" and the like are listeners; "style" an object; null and false are left out.
 * Children are elements, texts (never read as HTML), arrays of these, or null. */
function el(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
        else if (key === "style") for (const [name, to] of Object.entries(value)) made.style.setProperty(name, to);
        else made.setAttribute(key, value === true ? "" : value);
    }
    append(made, children);
    return made;
}

function append(parent, children) {
    for (const child of children) {
        if (child === null || child === undefined || child === false) continue;
        if (Array.isArray(child)) append(parent, child);
        else parent.append(child);
    }
}

function replace(parent, ...children) {
    parent.textContent = "";
    append(parent, children);
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false) continue;
        if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
        else made.setAttribute(key, value);
    }
    append(made, children);
    return made;
}

/* ---------------------------------------------------------------- numbers */

function digits3(x) {
    const size = Math.abs(x);
    if (size >= 99.95) return x.toFixed(0);
    return size >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

/* Seconds are kept in ns everywhere. */
function time(ns) {
    const size = Math.abs(ns);
    if (size === 0) return "0";
    if (size < 999.5) return digits3(ns) + " ns";
    if (size < 999.5e3) return digits3(ns / 1e3) + " µs";
    return size < 999.5e6 ? digits3(ns / 1e6) + " ms" : digits3(ns / 1e9) + " s";
}

function bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (Math.abs(n) >= 1023.95 && unit < units.length - 1) {
        n /= 1024;
        unit++;
    }
    return (unit === 0 ? String(Math.round(n)) : Math.abs(n) >= 99.95 ? n.toFixed(0) : n.toFixed(1)) + " " + units[unit];
}

/* 1.21 G; below 1,000 a whole number. */
function si(n) {
    const units = ["", " k", " M", " G", " T", " P", " E"];
    let unit = 0;
    while (Math.abs(n) >= 999.5 && unit < units.length - 1) {
        n /= 1000;
        unit++;
    }
    return (unit === 0 ? String(Math.round(n)) : digits3(n)) + units[unit];
}

const flopsText = (n) => si(n) + (n < 999.5 ? " FLOPs" : "FLOPs");

function percent(share) {
    const of = 100 * share;
    return (Math.abs(of) >= 9.95 ? of.toFixed(0) : of.toFixed(1)) + " %";
}

function plural(n, one, many) {
    return `${String(n).replace(/\B(?=(\d{3})+$)/g, ",")} ${n === 1 ? one : many || one + "s"}`;
}

/* A figure, or nothing where it is 0: tables stay readable. */
function orBlank(n, print) {
    return n ? print(n) : "";
}

/* ---------------------------------------------------------------- lists */

function sum(list, of) {
    let total = 0;
    for (const each of list) total += of ? of(each) : each;
    return total;
}

/* The least index whose item is not below; list ascending by `key`. */
function lowerBound(list, wanted, key) {
    let low = 0, high = list.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (key(list[middle]) < wanted) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Long work is a generator that yields between pieces of it. This runs what is left of it at once. */
function finished(work) {
    for (;;) {
        const { done, value } = work.next();
        if (done) return value;
    }
}

/* A map from key(item) to the list of items, in order of first appearance. */
function groupBy(list, key) {
    const groups = new Map();
    for (const each of list) {
        const k = key(each);
        const group = groups.get(k);
        if (group) group.push(each);
        else groups.set(k, [each]);
    }
    return groups;
}

/* "layer.11.up" -> "layer.*.up": equal layers have one pattern. */
const patterns = new Map();
function pattern(name) {
    let made = patterns.get(name);
    if (made === undefined) {
        made = name.replace(/\.\d+(?=[._]|$)/g, ".*").replace(/^(generate\.[a-z]+)_\d+$/, "$1_*");
        patterns.set(name, made);
    }
    return made;
}

/* ---------------------------------------------------------------- tables */

const ROWS_AT_FIRST = 60;

/* A table whose head sorts. columns: {head, class, title, cell(row) -> child, sort(row) -> number or text (none: not sortable)}.
 * options: sorted (index of the column), up (whether ascending), row(row) -> attributes of its tr, below(row) -> rows behind it. */
function sortableTable(columns, rows, options) {
    const state = { column: options.sorted ?? -1, up: options.up || false, limit: ROWS_AT_FIRST };
    const table = el("table", { class: "grid " + (options.class || "") });
    const draw = () => {
        const column = columns[state.column];
        const ordered = column ? sortedBy(rows, column.sort, state.up) : rows;
        const head = el("tr", {}, columns.map((c, i) => headCell(c, i, state, draw)));
        const body = el("tbody", {});
        for (const row of ordered.slice(0, state.limit)) append(body, [tableRow(columns, row, options)]);
        const rest = ordered.length - state.limit;
        const more = () => {
            state.limit *= 4;
            draw();
        };
        replace(table, el("thead", {}, head), body,
                rest > 0 && el("tfoot", {}, el("tr", {}, el("td", { colspan: columns.length }, el("button", { onclick: more }, `${plural(rest, "row")} more`)))));
    };
    draw();
    table.showRows = (limit) => { /* returns how many it showed before */
        const before = state.limit;
        if (rows.length > Math.min(limit, before)) {
            state.limit = limit;
            draw();
        }
        return before;
    };
    return table;
}

function sortedBy(rows, key, up) {
    const keyed = rows.map((row) => [key(row), row]);
    keyed.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (up ? 1 : -1));
    return keyed.map((pair) => pair[1]);
}

function headCell(column, index, state, draw) {
    if (!column.sort) return el("th", { class: column.class, title: column.title }, column.head);
    const on = state.column === index;
    const click = () => {
        state.up = on ? !state.up : column.class !== "num";
        state.column = index;
        draw();
    };
    return el("th", { class: column.class, title: column.title, "aria-sort": on ? (state.up ? "ascending" : "descending") : "none" },
              el("button", { class: "sort", onclick: click }, column.head, on ? (state.up ? " ▲" : " ▼") : ""));
}

function tableRow(columns, row, options) {
    const attributes = options.row ? options.row(row) : {};
    return [el("tr", attributes, columns.map((c) => el("td", { class: c.class }, c.cell(row)))), options.below ? options.below(row) : null];
}

/* A click, Enter or space do the same: rows are reached by Tab. */
function pressable(act) {
    return {
        tabindex: 0,
        onclick: act,
        onkeydown: (event) => {
            if (event.target === event.currentTarget && (event.key === "Enter" || event.key === " ")) {
                event.preventDefault();
                act(event);
            }
        },
    };
}
