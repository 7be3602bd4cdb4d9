/* How a tensor lies on the ranks, and what moves between two layouts: the arithmetic of ir/box.c, on the digits of rank numbers.
 *
 * A layout: {text, dims: [[digit, ..], ..], halos: [halo or null, ..], partial: [{kind, digits}, ..], pin: {size, stride, value} or null}; a digit: {size,
 * stride}, of rank r (r / stride) mod size. A pin: only ranks with this value of the digit hold anything. A box: [[begin, end], ..]. */

const splitDigits = (layout) => layout.dims.flat();
const partialDigits = (layout) => layout.partial.flatMap((p) => p.digits);
const pinDigits = (layout) => (layout.pin ? [layout.pin] : []);
const holdsAny = (layout, rank) => !layout.pin || digitOf(layout.pin, rank) === layout.pin.value;
const parts = (digits) => digits.reduce((n, d) => n * d.size, 1);
const digitOf = (d, rank) => Math.floor(rank / d.stride) % d.size;
const digitWithin = (part, whole) => part.stride >= whole.stride && part.stride * part.size <= whole.stride * whole.size;
/* A rank's number with all digits but these set to 0. */
const only = (digits, rank) => digits.reduce((n, d) => n + digitOf(d, rank) * d.stride, 0);
const indexOf = (digits, rank) => digits.reduce((n, d) => n * d.size + digitOf(d, rank), 0);
/* The number whose given digits, major first, spell index. */
function numberOf(digits, index) {
    let number = 0;
    for (let i = digits.length - 1; i >= 0; i--) {
        number += (index % digits[i].size) * digits[i].stride;
        index = Math.floor(index / digits[i].size);
    }
    return number;
}

/* The mixed radix of nranks in which each digit is a run of neighbours, major first; null: they do not fit together (2 x 3, 3 x 2). */
function digitsChain(digits, nranks) {
    const ends = [...new Set([1, nranks, ...digits.flatMap((d) => [d.stride, d.stride * d.size])])].sort((a, b) => a - b);
    const chain = [];
    for (let i = 1; i < ends.length; i++) {
        if (ends[i] % ends[i - 1] !== 0) return null;
        chain.unshift({ size: ends[i] / ends[i - 1], stride: ends[i - 1] });
    }
    return chain;
}

/* The digits of a chain that none of these contain: ranks that agree in these differ only there. */
function digitsLeft(digits, nranks) {
    return (digitsChain(digits, nranks) || []).filter((d) => !digits.some((of) => digitWithin(d, of)));
}

/* ---------------------------------------------------------------- boxes */

/* Part number `part` of [begin, end) in balanced parts, the first ones one longer. */
function divide(range, count, part) {
    const size = range[1] - range[0], each = Math.floor(size / count), rest = size % count;
    const begin = range[0] + part * each + Math.min(part, rest);
    return [begin, begin + each + (part < rest ? 1 : 0)];
}

function haloRange(halo, size, range) {
    if (range[0] >= range[1]) return [0, 0];
    let first = range[0], last = range[1] - 1;
    if (halo.kind !== "sees") {
        first = Math.max(0, Math.floor((first - halo.high + halo.stride - 1) / halo.stride));
        last = Math.floor((last + halo.low) / halo.stride);
    }
    if (first <= last && halo.kind !== "seen") {
        first = first * halo.stride - halo.low;
        last = last * halo.stride + halo.high;
    }
    first = Math.max(first, 0);
    last = Math.min(last, size - 1);
    return first <= last ? [first, last + 1] : [0, 0];
}

function dimRange(layout, dim, size, rank) {
    const halo = layout.halos[dim];
    let range = [0, halo ? halo.of : size];
    for (const d of layout.dims[dim]) range = divide(range, d.size, digitOf(d, rank));
    return halo ? haloRange(halo, size, range) : range;
}

function boxOf(layout, shape, rank) {
    return shape.map((size, dim) => (holdsAny(layout, rank) ? dimRange(layout, dim, size, rank) : [0, 0]));
}

function boxElements(box) {
    return box.reduce((n, [begin, end]) => n * Math.max(0, end - begin), 1);
}

function boxMeet(a, b) {
    return a.map(([begin, end], i) => [Math.max(begin, b[i][0]), Math.min(end, b[i][1])]);
}

const boxText = (box, shape) => box.some(([begin, end]) => begin >= end) ? "nothing" : box.length === 0 ? "the number" : "[" + box.map(([begin, end], i) => (begin === 0 && end === shape[i] ? ":" : `${begin}:${end}`)).join(", ") + "]";

/* Of the largest box of any rank. */
function largestElements(layout, shape) {
    return shape.reduce((n, size, dim) => {
        const digits = layout.dims[dim], count = layout.halos[dim] ? parts(digits) : 1;
        let longest = 0;
        for (let i = 0; i < count; i++) {
            const range = dimRange(layout, dim, size, numberOf(digits, i));
            longest = Math.max(longest, range[1] - range[0]);
        }
        return n * longest;
    }, 1);
}

/* ---------------------------------------------------------------- what moves */

/* A conversion, prepared: keys of ranks by what they need and what they hold. kind: of the communication (all_reduce, ..). */
function moveMake(kind, from, to, shape, nranks) {
    const source = [...pinDigits(from), ...splitDigits(from)], target = [...pinDigits(to), ...splitDigits(to)], kept = partialDigits(to);
    const summed = partialDigits(from).filter((d) => !kept.some((k) => k.size === d.size && k.stride === d.stride)).sort((a, b) => b.stride - a.stride);
    const alone = kind === "all_reduce" || kind === "reduce_scatter" ? digitsLeft([...source, ...partialDigits(from), ...target, ...kept], nranks) : [];
    const apart = [...kept, ...alone]; /* in which ranks that work together agree */
    const move = { from, to, shape, nranks, source, summed, apart, target: [...target, ...apart], terms: parts(summed), needers: null, owners: null };
    if (move.terms > 1) groupRanks(move);
    return move;
}

/* By what they need, and by that and what they hold: the ranks, ascending. */
function groupRanks(move) {
    move.needers = new Map();
    move.owners = new Map();
    for (let rank = 0; rank < move.nranks; rank++) {
        const needs = only(move.target, rank), both = needs * move.nranks + only(move.source, rank);
        if (!move.needers.has(needs)) move.needers.set(needs, []);
        if (!move.owners.has(both)) move.owners.set(both, []);
        move.needers.get(needs).push(rank);
        move.owners.get(both).push(rank);
    }
}

/* The ranks that add up the terms of a part for all that need what rank needs. */
function ownersOf(move, rank, part) {
    const needs = only(move.target, rank);
    return move.owners.get(needs * move.nranks + part) || move.needers.get(needs);
}

/* The first of so many parts, which follow each other, that ends behind a place. */
function firstPart(count, rangeAt, place) {
    let low = 0, high = count;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (rangeAt(middle)[1] <= place) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Of ranks, ascending, the place of one; -1: it is not among them. */
function placeOf(ranks, rank) {
    const at = lowerBound(ranks, rank, (r) => r);
    return ranks[at] === rank ? at : -1;
}

/* The parts of the source that a box meets: fn(part as a rank's number, the piece's box). */
function eachPart(move, box, fn) {
    const walk = (dim, part, piece) => {
        if (dim === box.length) return fn(part, piece);
        const digits = move.from.dims[dim], count = parts(digits), rangeAt = (i) => dimRange(move.from, dim, move.shape[dim], numberOf(digits, i));
        for (let i = move.from.halos[dim] ? 0 : firstPart(count, rangeAt, box[dim][0]); i < count; i++) {
            const range = rangeAt(i), meet = [Math.max(range[0], box[dim][0]), Math.min(range[1], box[dim][1])];
            if (meet[0] < meet[1]) walk(dim + 1, part + numberOf(digits, i), [...piece, meet]);
            else if (range[0] >= box[dim][1] && !move.from.halos[dim]) break;
        }
    };
    walk(0, move.from.pin ? move.from.pin.value * move.from.pin.stride : 0, []);
}

/* Where nothing is added up a rank has at most one piece for another: of its own part. */
function pieceFrom(move, rank, sender) {
    if (!holdsAny(move.from, sender) || rank - only(move.source, rank) + only(move.source, sender) !== sender) return [];
    const box = boxMeet(boxOf(move.from, move.shape, sender), boxOf(move.to, move.shape, rank)), elements = boxElements(box);
    return elements > 0 ? [{ from: sender, to: rank, round: 0, box, elements }] : [];
}

/* What rank receives, copies from itself included: {from, to, round, box, elements}. Round 0: parts or terms; 1: shares that others added up.
 * sender: only what comes from this rank. */
function piecesReceived(move, rank, sender) {
    const pieces = [], wanted = (from) => sender === undefined || from === sender;
    if (!holdsAny(move.to, rank)) return pieces;
    if (move.terms === 1 && sender !== undefined) return pieceFrom(move, rank, sender);
    eachPart(move, boxOf(move.to, move.shape, rank), (part, box) => {
        const elements = boxElements(box);
        const base = rank - only(move.source, rank) + part;
        if (move.terms === 1) {
            if (wanted(base)) pieces.push({ from: base, to: rank, round: 0, box, elements });
            return;
        }
        const owners = ownersOf(move, rank, part), givers = sender === undefined ? owners : [...new Set([sender, rank])].filter((r) => placeOf(owners, r) >= 0);
        const terms = sender === undefined ? [...Array(move.terms).keys()] : [indexOf(move.summed, sender)];
        for (const owner of givers) {
            const range = divide([0, elements], owners.length, placeOf(owners, owner)), count = range[1] - range[0];
            if (count === 0) continue;
            if (owner !== rank) pieces.push({ from: owner, to: rank, round: 1, box, elements: count });
            for (const term of owner === rank ? terms : []) {
                const holder = base - only(move.summed, base) + numberOf(move.summed, term);
                if (wanted(holder)) pieces.push({ from: holder, to: rank, round: 0, box, elements: count });
            }
        }
    });
    return pieces;
}

/* What rank sends to others, by asking those that may receive from it. */
function piecesSent(move, rank) {
    const differ = [...move.source, ...move.summed], leader = rank - only(differ, rank), asked = new Set();
    for (let i = 0; i < parts(differ); i++) asked.add(leader + numberOf(differ, i));
    if (move.terms > 1) for (const other of move.needers.get(only(move.target, rank))) asked.add(other);
    asked.delete(rank);
    return [...asked].flatMap((other) => piecesReceived(move, other, rank));
}

/* Bytes that each rank receives from each other: a Map "from,to" -> elements, and totals. */
function moveMatrix(move, ranks) {
    const cells = new Map();
    for (const rank of ranks)
        for (const piece of piecesReceived(move, rank))
            if (piece.from !== rank) cells.set(piece.from * move.nranks + rank, (cells.get(piece.from * move.nranks + rank) || 0) + piece.elements);
    return cells;
}
