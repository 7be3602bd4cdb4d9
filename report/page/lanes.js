/* Drawing of what runs over time on a canvas. Lists are sorted by time: the window is found by bisection, and what is narrower than two pixels is
 * added up for each column of pixels and drawn as shares, so that waits stay visible however far one zooms out. */

/* Colours as the style sheet has them, read once a redraw: a canvas knows no variables. */
function canvasColours() {
    const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
    return {
        computes: of("--computes"), communicates: of("--communicates"), waits: of("--waits"), text: of("--text"), dim: of("--dim"), line: of("--line"), back: of("--card"), on: of("--on-colour"),
        alive: [0, 1, 2, 3, 4, 5].map((i) => of(`--alive${i}`)), mark: of("--mark"),
    };
}

/* A canvas sharp on every screen: its pixels follow its size. Returns the context, width and height in CSS pixels. */
function canvasFit(canvas, height) {
    const width = Math.max(200, canvas.clientWidth), ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    return { context, width, height };
}

/* A window of time on a strip of pixels. */
function spanMake(begin, end, x, width) {
    return { begin, end, x, width, scale: width / Math.max(end - begin, 1e-9), at: (ns) => x + ((ns - begin) * width) / Math.max(end - begin, 1e-9), time: (px) => begin + ((px - x) * (end - begin)) / width };
}

/* Sorted by begin; where events overlap, reach is the latest end so far, by which a window is found. */
function laneMake(events) {
    const lane = [...events].sort((a, b) => a.begin - b.begin);
    let reach = 0;
    for (const e of lane) e.reach = reach = Math.max(reach, e.end);
    return lane;
}

/* Events of a lane (laneMake) in [y, y + height): kind(event) -> "computes", "communicates", "waits"; label(event) -> text. */
function laneDraw(context, colours, span, events, y, height, kind, label) {
    const kinds = ["computes", "communicates", "waits"], shares = kinds.map(() => new Float64Array(span.width + 1)), right = span.x + span.width;
    const wide = [];
    for (let i = lowerBound(events, span.begin, (e) => e.reach); i < events.length && events[i].begin < span.end; i++) {
        const e = events[i], x1 = Math.max(span.x, span.at(e.begin)), x2 = Math.min(right, span.at(e.end));
        if (x2 - x1 >= 2) wide.push([e, x1, x2]);
        else spread(shares[kinds.indexOf(kind(e))], x1 - span.x, x2 - span.x);
    }
    for (let column = 0; column < span.width; column++) {
        let bottom = y + height;
        kinds.forEach((name, k) => {
            const share = Math.min(1, shares[k][column]);
            if (share <= 0.01) return;
            context.fillStyle = colours[name];
            context.fillRect(span.x + column, bottom - height * share, 1, height * share);
            bottom -= height * share;
        });
    }
    wide.sort((a, b) => b[2] - b[1] - (a[2] - a[1])); /* short ones in front of those that are open for long */
    for (const [e, x1, x2] of wide) eventDraw(context, colours, e, x1, x2, y, height, kind(e), label);
}

function spread(shares, x1, x2) {
    for (let column = Math.floor(x1); column <= x2 && column < shares.length; column++) {
        const part = Math.min(column + 1, x2) - Math.max(column, x1);
        if (part > 0) shares[column] += part;
    }
}

function eventDraw(context, colours, e, x1, x2, y, height, kind, label) {
    context.fillStyle = colours[kind];
    context.fillRect(x1, y, Math.max(1, x2 - x1 - (x2 - x1 > 8 ? 0.6 : 0)), height);
    if (x2 - x1 < 26 || height < 13) return;
    context.fillStyle = colours.on;
    context.fillText(textWithin(context, label(e), x2 - x1 - 6), x1 + 4, y + height / 2 + 0.5);
}

/* As much of a text as has room; nothing where that would say nothing. */
function textWithin(context, text, width) {
    const wide = context.measureText(text).width;
    if (wide <= width) return text;
    const room = Math.floor((text.length * width) / wide) - 1;
    return room > 2 ? text.slice(0, room) + "…" : "";
}

/* Marks at round times, or at what else `label` says. */
function axisDraw(context, colours, span, y, label = axisLabel) {
    const about = ((span.end - span.begin) * 110) / span.width, power = 10 ** Math.floor(Math.log10(about));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= about);
    context.fillStyle = colours.dim;
    for (let t = Math.ceil(span.begin / step) * step; t <= span.end; t += step) {
        const x = span.at(t), text = label(t, step), width = context.measureText(text).width;
        if (x + width + 3 > span.x + span.width) break; /* a mark without its time says nothing */
        context.fillText(text, x + 3, y);
        context.fillRect(x, y - 5, 1, 10);
    }
}

/* As many places as marks need to differ. */
function axisLabel(t, step) {
    if (Math.abs(t) < step / 2) return "0";
    const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find((u) => t >= u[0]) || [1, "ns"];
    return `${(t / unit).toFixed(Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)))} ${name}`;
}

/* Bytes of the arena by kind, stacked; each column shows the step in it with the most. The top is `most`. */
function memoryDraw(context, colours, span, alive, begins, most, y, height) {
    const n = begins.length - 1;
    let step = stepAtTime(begins, span.begin);
    for (let column = 0; column < span.width; column++) {
        const until = span.time(span.x + column + 1);
        let fullest = step;
        while (step + 1 < n && begins[step + 1] < until) {
            step++;
            if (alive.total[step] > alive.total[fullest]) fullest = step;
        }
        if (begins[n] < span.time(span.x + column)) break;
        let bottom = y + height;
        MEMORY_ORDER.forEach((kind) => {
            const tall = (alive.kinds[kind][fullest] / most) * height;
            if (tall <= 0) return;
            context.fillStyle = colours.alive[kind];
            context.fillRect(span.x + column, bottom - tall, 1, tall);
            bottom -= tall;
        });
    }
}

/* What is kept longest lies below. */
const MEMORY_ORDER = [1, 2, 3, 0, 4, 5];

/* The event of a lane at a time, the shortest of several; else the closest that is nearer than `near`. */
function eventAt(events, ns, near) {
    const candidates = [];
    for (let i = lowerBound(events, ns - near, (e) => e.reach); i < events.length && events[i].begin - near <= ns; i++) if (ns <= events[i].end + near) candidates.push(events[i]);
    return candidates.sort((a, b) => distance(a, ns) - distance(b, ns) || a.end - a.begin - (b.end - b.begin))[0] || null;
}

const distance = (e, ns) => Math.max(e.begin - ns, ns - e.end, 0);
