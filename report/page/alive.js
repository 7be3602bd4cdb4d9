/* What lies in memory at each step, and when each step runs. */

/* Bytes of the arena alive by kind at each step: kinds[kind][step], total[step]; 50,000 steps take ms. */
function aliveMake(role) {
    const n = role.steps.length;
    const kinds = ALIVE_KINDS.map(() => new Float64Array(n + 1));
    overwrittenFind(role);
    for (const instance of inArena(role)) {
        const kind = kinds[instance.kind];
        let left = instance.bytes;
        kind[instance.first] += left;
        for (const [step, lost] of instance.lost) {
            kind[step] -= lost;
            left -= lost;
        }
        kind[instance.last + 1] -= left;
    }
    const total = new Float64Array(n + 1);
    for (const kind of kinds) {
        for (let s = 1; s <= n; s++) kind[s] += kind[s - 1];
        for (let s = 0; s <= n; s++) total[s] += kind[s];
    }
    let peak = 0;
    for (let s = 1; s < n; s++) if (total[s] > total[peak]) peak = s;
    return { kinds, total, peak };
}

function inArena(role) {
    if (!role.inArena) role.inArena = role.instances.filter((i) => i.place === 0 && i.first >= 0);
    return role.inArena;
}

/* A result may lie where an operand lies whose last reader makes it: from then on these bytes are the result's. Of each instance, lost:
 * [[step, bytes], ..]. Only what ends within the same fused step can be overwritten. */
function overwrittenFind(role) {
    const { fused } = role.columns.steps, arena = inArena(role), ends = inverseOf(arena.map((i) => i.last), role.steps.length), order = (i) => i.first * role.instances.length + i.id;
    for (const instance of arena) instance.lost = NONE;
    for (const result of arena) {
        const { first, at, bytes } = result;
        let until = first + 1;
        while (fused[first] > 0 && fused[until] === fused[first]) until++;
        for (let k = ends.start[first]; k < ends.start[until]; k++) {
            const old = arena[ends.members[k]], both = Math.min(old.at + old.bytes, at + bytes) - Math.max(old.at, at);
            if (both <= 0 || order(old) >= order(result)) continue;
            if (old.lost === NONE) old.lost = [];
            old.lost.push([first, both]);
        }
    }
    for (const { lost, bytes } of inArena(role)) {
        let left = bytes;
        if (lost === NONE) continue;
        lost.sort((a, b) => a[0] - b[0]);
        for (const each of lost) left -= each[1] = Math.min(each[1], left);
    }
}

/* Of an instance, the bytes that are its own at a step. */
function bytesAt(instance, step) {
    return instance.bytes - sum(instance.lost, ([from, lost]) => (from <= step ? lost : 0));
}

/* The instances in the arena at a step, the largest first. */
function aliveAt(role, step) {
    return inArena(role).filter((i) => i.first <= step && step <= i.last && bytesAt(i, step) > 0).sort((a, b) => b.bytes - a.bytes);
}

/* Equal values of equal layers are one row: {name, count, each, bytes, kind, layout, instances}. */
function aliveGroups(program, step) {
    const { role, values } = program;
    const groups = groupBy(aliveAt(role, step), (i) => `${pattern(values[i.value].name)} ${i.kind} ${i.layout.text} ${i.bytes}`);
    return [...groups.values()].map((list) => ({
        name: list.length > 1 ? pattern(values[list[0].value].name) : values[list[0].value].name,
        count: list.length, each: list[0].bytes, bytes: sum(list, (i) => bytesAt(i, step)), kind: list[0].kind, layout: list[0].layout, instances: list,
    })).sort((a, b) => b.bytes - a.bytes);
}

/* When each step begins on the predicted clock; the last entry is the end. Without events (a page of prun's alone) steps are equally long. */
function stepTimes(role) {
    const n = role.steps.length, begins = new Float64Array(n + 1).fill(-1);
    if (role.events.length === 0) return begins.map((_, i) => i);
    let end = 0;
    for (const event of role.events) {
        if (event.lane !== 0) continue;
        for (let i = 0; i < event.n; i++) begins[event.step + i] = event.begin + ((event.end - event.begin) * i) / event.n;
        end = Math.max(end, event.end);
    }
    begins[n] = end;
    for (let s = n - 1; s >= 0; s--) if (begins[s] < 0) begins[s] = begins[s + 1];
    return begins;
}

function stepAtTime(begins, ns) {
    let low = 0, high = begins.length - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (begins[middle] <= ns) low = middle;
        else high = middle - 1;
    }
    return Math.min(low, begins.length - 2);
}
