/* Rows of the data's tables. A plan has tens of thousands of them: a row holds what is computed of it, and reads the rest from its columns when asked. */

/* A table of the data: a column is one number for all rows, an array, or {repeats}, without what comes again, or {differences} from row to row of one of these; one of lists has lengths and members. It is decoded once, in its place:
 * to an array, of lists to {start, members}: those of row i are members[start[i]] .. members[start[i + 1] - 1]. */
function columnsOf(table) {
    if (decodedTables.has(table)) return table;
    decodedTables.add(table);
    for (const key in table) {
        if (key === "rows") continue;
        const column = table[key];
        table[key] = column.lengths === undefined ? columnDecoded(column, table.rows) : listsDecoded(column, table.rows);
    }
    return table;
}
const decodedTables = new WeakSet();

function columnDecoded(column, n) {
    if (typeof column === "number") return new Array(n).fill(column);
    if (column.repeats) return repeatsDecoded(column.repeats, n);
    if (!column.differences) return column;
    const numbers = columnDecoded(column.differences, n);
    for (let i = 1; i < numbers.length; i++) numbers[i] += numbers[i - 1];
    return numbers;
}

/* How many stand here, these, how far back what comes next has been, how many of that, .. */
function repeatsDecoded(packed, n) {
    const numbers = new Array(n).fill(0);
    for (let at = 0, k = 0; at < n;) {
        for (let end = at + packed[k++]; at < end;) numbers[at++] = packed[k++];
        if (at === n) break;
        for (let back = packed[k++], end = at + packed[k++]; at < end; at++) numbers[at] = numbers[at - back];
    }
    return numbers;
}

function listsDecoded(column, n) {
    const lengths = columnDecoded(column.lengths, n), start = new Int32Array(n + 1);
    for (let i = 0; i < n; i++) start[i + 1] = start[i] + lengths[i];
    return { start, members: columnDecoded(column.members, start[n]) };
}

const listAt = (lists, i) => (lists.start[i] === lists.start[i + 1] ? NONE : lists.members.slice(lists.start[i], lists.start[i + 1]));

const NONE = Object.freeze([]); /* each list that is empty */

/* The inverse of lists, or of a column of one number a row: of each of n items the rows that name it, ascending. A number below 0 names none. */
function inverseOf(column, n) {
    const lists = column.start ? column : null, named = lists ? lists.members : column, start = new Int32Array(n + 1);
    for (const item of named) if (item >= 0) start[item + 1]++;
    for (let i = 0; i < n; i++) start[i + 1] += start[i];
    const members = new Array(start[n]).fill(0), at = start.slice(0, n);
    for (let k = 0, row = 0; k < named.length; k++) {
        if (lists) while (k >= lists.start[row + 1]) row++;
        else row = k;
        if (named[k] >= 0) members[at[named[k]]++] = row;
    }
    return { start, members };
}

/* All rows of a table. */
function rowsOf(Row, columns, plan) {
    const rows = new Array(columns.rows);
    for (let id = 0; id < columns.rows; id++) rows[id] = new Row(columns, id, plan);
    return rows;
}

class Row {
    constructor(columns, id, plan) {
        this.columns = columns;
        this.id = id;
        this.plan = plan;
    }
}

/* instances (of the role), users (nodes): columns of the program. */
class ValueRow extends Row {
    get name() { return this.plan.text(this.columns.name[this.id]); }
    get type() { return this.plan.types[this.columns.type[this.id]]; }
    get node() { return this.columns.node[this.id]; }
    get instances() { return listAt(this.columns.instances, this.id); }
    get users() { return listAt(this.columns.users, this.id); }
}

/* comms (of the role): a column of the program. */
class NodeRow extends Row {
    constructor(columns, id, plan) {
        super(columns, id, plan);
        this.kernel = -1; /* step */
        this.ns = 0;
        this.measured = 0;
        this.flops = 0;
        this.bytes = 0;
        this.home = -1; /* homeOf */
        this.stage = -1; /* stagesOfNodes */
    }
    get op() { return this.plan.text(this.columns.op[this.id]); }
    get name() { return this.plan.text(this.columns.name[this.id]); }
    get ins() { return listAt(this.columns.ins, this.id); }
    get outs() { return listAt(this.columns.outs, this.id); }
    get place() { return { file: this.columns.file[this.id], line: this.columns.line[this.id], column: this.columns.column[this.id], length: this.columns.length[this.id] }; }
    get origin() { return this.columns.origin[this.id]; }
    get phase() { return this.columns.phase[this.id]; }
    get batch() { return this.columns.batch[this.id]; }
    get copyOf() { return this.columns.copy_of[this.id]; }
    get state() { return this.columns.state[this.id]; }
    get attributes() { return this.plan.text(this.columns.attributes[this.id]); }
    get comms() { return listAt(this.columns.comms, this.id); }
    get call() { return this.columns.why ? this.columns.why.call[this.id] : -1; }
    get why() {
        const why = this.columns.why, id = this.id;
        return why ? { strategy: this.plan.text(why.strategy[id]), from: why.from[id], hint: why.hint[id], asked: why.asked[id], decision: why.decision[id] } : null;
    }
}

/* takers (steps), maker (a step, -1): columns of linksMake. */
class InstanceRow extends Row {
    constructor(columns, id, plan) {
        super(columns, id, plan);
        this.lost = NONE; /* overwrittenFind */
    }
    get value() { return this.columns.value[this.id]; }
    get layout() { return this.plan.layouts[this.columns.layout[this.id]]; }
    get place() { return this.columns.place[this.id]; }
    get at() { return this.columns.at[this.id]; }
    get bytes() { return this.columns.bytes[this.id]; }
    get first() { return this.columns.first[this.id]; }
    get last() { return this.columns.last[this.id]; }
    get kind() { return this.columns.kind[this.id]; }
    get takers() { return listAt(this.columns.takers, this.id); }
    get maker() { return this.columns.maker[this.id]; }
}

class StepRow extends Row {
    constructor(columns, id, plan) {
        super(columns, id, plan);
        this.node = columns.node[id];
        this.comm = -1;
    }
    get kind() { return this.columns.kind[this.id]; }
    get what() { return this.plan.text(this.columns.what[this.id]); }
    get ins() { return listAt(this.columns.ins, this.id); }
    get outs() { return listAt(this.columns.outs, this.id); }
    get request() { return this.columns.request[this.id]; }
    get bucket() { return this.columns.bucket[this.id]; }
    get fused() { return this.columns.fused[this.id]; }
    get state() { return this.columns.state[this.id]; }
}

class EventRow extends Row {
    constructor(columns, id, plan) {
        super(columns, id, plan);
        this.wait = false;
        this.reach = 0; /* laneMake */
    }
    get step() { return this.columns.step[this.id]; }
    get n() { return this.columns.steps[this.id]; }
    get lane() { return this.columns.lane[this.id]; }
    get begin() { return this.columns.begin[this.id]; }
    get end() { return this.columns.begin[this.id] + this.columns.length[this.id]; }
    get flops() { return this.columns.flops ? this.columns.flops[this.id] : 0; }
    get bytes() { return this.columns.bytes ? this.columns.bytes[this.id] : 0; }
}
