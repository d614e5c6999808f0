// @ts-check
// The columns of the rows that show/page_data.py and show/page_timeline.py write, and what rows are called.

/** Segment columns: what one wave issued for one step; `iteration` is the trip, `tile` what it is for. */
const S = {
  wave: 0,
  entry: 1,
  label: 2,
  colour: 3,
  iteration: 4,
  ready: 5,
  start: 6,
  free: 7,
  done: 8,
  stall: 9,
  cause: 10,
  source: 11,
  tile: 12,
  pulses: 13,
  retires: 14,
};
/** Matrix unit: a run of MFMAs without a gap. */
const M = { simd: 0, from: 1, to: 2, segment: 3 };
/** Barrier: first arrival to release. */
const R = { from: 0, to: 1, last: 2 };
/** LDS buffer: a span in which a region is written (0) or read (1). */
const U = { region: 0, use: 1, tile: 2, from: 3, to: 4, segment: 5 };
/** Section of a track: of groups of waves that do the same work. */
const N = { name: 0, track: 1, waves: 2, loop: 3 };
/** Schedule entry: a step of a section. */
const E = { section: 0, slot: 1, label: 2, role: 3, op: 4, stall: 5, waves: 6, node: 7, source: 8 };
/** Line of the assembly: its number in the text, and the entry that it serves or -1. */
const A = { number: 0, text: 1, entry: 2 };
/** Op of the graph: a step of a loop. */
const O = { label: 0, offset: 1, role: 2, latency: 3, asap: 4, slack: 5 };
/** Dependence. */
const D = { producer: 0, consumer: 1, kind: 2, distance: 3 };
/** Finding. */
const F = { status: 0, kind: 1, where: 2, why: 3, margin: 4, trips: 5, instances: 6, first: 7, second: 8 };
/** Place of a step. */
const P = { wave: 0, entry: 1, iteration: 2, text: 3 };
/** Stall row. */
const T = { entry: 0, where: 1, label: 2, mean: 3, worst: 4, cause: 5, waitedFor: 6, loop: 7 };

const DEP_KINDS = ["flow", "anti", "output"];

/**
 * @typedef {Array<any>} Row
 * @typedef {object} Timeline
 * @property {number} iterations
 * @property {number} total
 * @property {number[][]} marks  per wave: when it was ready for each iteration
 * @property {Array<[number, number, string]>} frames  from, to, name of each part of the run
 * @property {Array<[number, number]>} waves  SIMD and group
 * @property {string[]} names  of the waves, where they are not just numbered
 * @property {string[]} causes
 * @property {string[]} labels  of the segments, which have their numbers until the page is read
 * @property {Row[]} segments
 * @property {Row[]} matrix
 * @property {Row[]} barriers
 * @property {{step: number, lds: number[], loads: number[], live: number[]}} depth  live is empty where it is not known
 * @property {string[]} regions
 * @property {Row[]} buffers
 * @property {Array<number|number[]>} lines  of each segment, its lines in the assembly: the first where they follow, else all; [] where they are not known
 *
 * @typedef {object} Assembly
 * @property {string} name
 * @property {number[]} text
 * @property {string[]} texts
 * @property {Array<[number, number]>} entry  runs of lines that serve the same entry
 * @property {Array<[number, number]>} number  runs of lines that follow each other
 * @property {number[]} groups  where the code of each group begins
 * @property {Row[]} lines  all of that, line by line, once the page is read
 *
 * @typedef {object} Page
 * @property {Record<string, any>} meta
 * @property {Array<[string, string, string]>} headline
 * @property {Array<[string, string]>} compared  the same as rows of a comparison
 * @property {string} unsimulated
 * @property {Row[]} sections
 * @property {Row[]} entries
 * @property {Array<[string, string]>} nodes  declared values: name, and how they are declared
 * @property {Assembly|null} assembly
 * @property {string} unwritten  why there is no assembly
 * @property {Row[]} ops
 * @property {Row[]} edges
 * @property {number[]} critical
 * @property {Timeline|null} timeline
 * @property {Record<string, any>|null} verdict
 * @property {Row[]} stalls
 * @property {Array<[string, number]>} utilisation
 * @property {Record<string, any>|null} estimate
 * @property {Array<[string, Row[]]>} knobs
 * @property {string[]} notes
 *
 * What is selected: an entry of the schedule, perhaps one segment of it, perhaps one line of its assembly. -1 is none.
 * @typedef {{entry: number, op: number, segment: number, line?: number}} Choice
 */

const read = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "");
/** One or more pages in this file; the address says which of them is shown. @type {Page[]} */
const variants = read.variants || [read];
const shownVariant = Math.min(
  Number(new URLSearchParams(location.search).get("variant")) || 0,
  variants.length - 1,
);
const page = variants[shownVariant];
for (const { timeline: run } of variants) if (run) unpack(run);
if (page.assembly) unpackLines(page.assembly);

/** Segments as their columns say, from the space-saving form of show/page.py. @param {Timeline} run */
function unpack(run) {
  const free = run.waves.map(() => 0);
  for (const s of run.segments) {
    s[S.label] = run.labels[s[S.label]];
    s[S.pulses] = s[S.pulses] || [s[S.start], s[S.free]];
    s[S.ready] += free[s[S.wave]];
    s[S.start] += s[S.ready];
    s[S.free] += s[S.start];
    s[S.done] += s[S.free];
    free[s[S.wave]] = s[S.free];
  }
}

/** @param {Assembly} assembly */
function unpackLines(assembly) {
  const runs = (/** @type {Array<[number, number]>} */ of, /** @type {number} */ step) =>
    of.flatMap(([first, count]) => Array.from({ length: count }, (_, n) => first + n * step));
  const [entries, numbers] = [runs(assembly.entry, 0), runs(assembly.number, 1)];
  assembly.lines = assembly.text.map((text, n) => [numbers[n], assembly.texts[text], entries[n]]);
}

/**
 * ``loop[12]``, or ``loop[12] of waves 0-3`` where others do other work.
 * @param {number} entry @param {Page} [of]
 */
function entryName(entry, of = page) {
  const e = of.entries[entry];
  const section = of.sections[e[E.section]];
  return `${section[N.name]}[${e[E.slot]}]${section[N.waves] ? ` of ${section[N.waves]}` : ""}`;
}

/** @param {number} op */
function opName(op) {
  return `${page.ops[op][O.label]} ${page.ops[op][O.offset]}`.trim();
}

/** Without the verb that its colour or row says already. @param {string} label */
function shortened(label) {
  return label.replace(/^(load|read|frag|mma|store|valu) /, "");
}

/**
 * Whether an entry is near another: of its section, or of a loop of other waves; of any loop, if that is -1.
 * @param {number} entry @param {number} other
 */
function isNear(entry, other) {
  const section = page.entries[entry][E.section];
  if (other < 0) return page.sections[section][N.loop];
  const mine = page.entries[other][E.section];
  const elsewhere = page.sections[section][N.track] !== page.sections[mine][N.track];
  return section === mine || (elsewhere && page.sections[section][N.loop]);
}

/** The entry of an op that is near another entry, or -1. @param {number} op @param {number} other */
function entryOf(op, other) {
  return page.entries.findIndex((e, i) => e[E.op] === op && isNear(i, other));
}
