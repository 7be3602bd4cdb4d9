/* Training: each column of the curve over the steps, the loss smoothed too; evaluations as dots. */

const CHART = { width: 460, height: 170, left: 58, bottom: 20, top: 8, right: 10 };

function trainingSection(app) {
    const run = app.ended, curve = run && run.curve, evaluations = run && run.evaluations;
    if (!curve || curve.rows.length === 0) return null;
    const x = Math.max(0, curve.columns.indexOf("step")), charts = [];
    curve.columns.forEach((name, i) => {
        if (i === x) return;
        const points = curve.rows.filter((r) => typeof r[i] === "number" && isFinite(r[i])).map((r) => [r[x], r[i]]);
        if (points.length < 1) return;
        if (name === "seconds") {
            if (points.length > 2) charts.push(chart("time of a step", stepLengths(points), points.length > 20, []));
            return;
        }
        const dots = evaluations ? evaluationDots(evaluations, name) : [];
        charts.push(chart(name, points, name === "loss" && points.length > 20, dots));
    });
    const extra = evaluations && evaluations.rows.length > 0 ? evaluations.columns.filter((name, i) => i > 0 && !curve.columns.includes(name) && name !== "step" && name !== "epoch") : [];
    for (const name of extra) {
        const points = evaluationDots(evaluations, name);
        if (points.length > 0) charts.push(chart(`evaluation: ${name}`, [], false, points));
    }
    return el("section", { id: "training" }, el("h2", {}, "Training ", el("small", {}, `${plural(run.steps, "step")}; evaluations are dots`)), el("div", { class: "charts" }, charts));
}

/* Seconds since the start -> nanoseconds of a step, from one printed step to the next. */
function stepLengths(points) {
    return points.slice(1).map(([step, seconds], i) => [step, (1e9 * (seconds - points[i][1])) / Math.max(1, step - points[i][0])]);
}

/* Where the scale of lengths ends: a step that was disturbed, or the first ones, leave the others no height. What is longer is drawn at the end. */
function lengthsEnd(points) {
    const sorted = points.map((p) => p[1]).sort((a, b) => a - b);
    return Math.min(sorted[sorted.length - 1], 4 * sorted[(sorted.length - 1) >> 1]);
}

function evaluationDots(evaluations, name) {
    const x = Math.max(0, evaluations.columns.indexOf("step")), y = evaluations.columns.indexOf(name);
    return y < 0 ? [] : evaluations.rows.filter((r) => typeof r[y] === "number").map((r) => [r[x], r[y]]);
}

/* Mean of the last points, weighed down by their age: half after a fiftieth of all. */
function smoothed(points) {
    const keep = 0.5 ** (50 / points.length);
    let mean = points[0][1];
    return points.map(([x, y]) => [x, (mean = keep * mean + (1 - keep) * y)]);
}

function chart(name, points, smooth, dots) {
    const lengths = name === "time of a step", end = lengths ? lengthsEnd(points) : Infinity, above = points.filter((p) => p[1] > end).length;
    const all = [...points, ...dots], xs = all.map((p) => p[0]), ys = all.map((p) => Math.min(p[1], end));
    const x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1), flat = Math.min(...ys) === Math.max(...ys), y0 = lengths ? 0 : flat ? Math.min(0, ...ys) : Math.min(...ys), y1 = Math.max(...ys, y0 + (flat ? 1e-12 : 0));
    const px = (x) => CHART.left + ((x - x0) / (x1 - x0)) * (CHART.width - CHART.left - CHART.right), py = (y) => CHART.top + (1 - (Math.min(y, end) - y0) / (y1 - y0 || 1)) * (CHART.height - CHART.top - CHART.bottom);
    const line = (list, kind) => list.length > 0 && svg("path", { class: kind, d: list.map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("") });
    const short = (v) => (lengths ? time(v) : Math.abs(v) >= 1000 ? si(v) : String(Number(v.toPrecision(4))));
    const readout = el("output", {}, `last ${short((points.length > 0 ? points : dots).slice(-1)[0][1])}${above > 0 ? `; ${above} longer, at most ${short(Math.max(...points.map((p) => p[1])))}` : ""}`);
    const drawn = svg("svg", { class: "chart", viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": `${name} over steps` },
                      svg("path", { class: "axis", d: `M${CHART.left} ${CHART.top}V${CHART.height - CHART.bottom}H${CHART.width - CHART.right}` }),
                      [y0, y1].map((v) => svg("text", { x: CHART.left - 5, y: py(v) + 4, "text-anchor": "end" }, short(v))),
                      [x0, x1].map((v, i) => svg("text", { x: px(v), y: CHART.height - 5, "text-anchor": i ? "end" : "start" }, i ? `step ${v}` : String(v))),
                      line(points, smooth ? "raw" : "curve"), smooth && line(smoothed(points), "curve"), dots.map(([x, y]) => svg("circle", { class: "dot", cx: px(x), cy: py(y), r: 3.5 }, svg("title", {}, `evaluation at ${x}: ${short(y)}`))));
    drawn.addEventListener("pointermove", (e) => {
        const box = drawn.getBoundingClientRect(), at = x0 + (((e.clientX - box.left) / box.width) * CHART.width - CHART.left) / (CHART.width - CHART.left - CHART.right) * (x1 - x0);
        const list = points.length > 0 ? points : dots, near = list.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
        readout.textContent = `step ${near[0]}: ${short(near[1])}`;
    });
    return el("figure", { class: "card" }, el("figcaption", {}, el("b", {}, name === "lr" ? "learning rate" : name === "samples_per_s" ? "samples a second" : name), " ", readout), drawn);
}
