// @ts-check
// The ops of the graph in groups: by the value that they are declared for, then by iteration, then one by one.

/** @type {Array<[string, string[]]>} */
const GRAPH_ROWS = [
  ["global load", ["load"]],
  ["LDS write", ["lds_write"]],
  ["LDS read", ["lds_read"]],
  ["matrix", ["matrix"]],
  ["vector", ["vector"]],
  ["other", ["move", "store"]],
];

/** Ops that are shown one by one; more are grouped. */
const SINGLY = 32;

/**
 * @typedef {object} Bunch  a group of ops, or one op
 * @property {string} key
 * @property {string} name  the value, and below it the iteration
 * @property {string} offset  the iteration, where all are for one
 * @property {string} role
 * @property {number} level  0: all of a value, 1: of one iteration, 2: an op
 * @property {number[]} ops
 * @property {Bunch[]} parts
 * @property {number} at  where it stands from left to right: 0 to 1
 */

/** The entry of each op: the step of a loop that it is. @type {number[]} */
const opEntries = [];
page.entries.forEach((e, i) => {
  if (e[E.op] >= 0 && opEntries[e[E.op]] === undefined && page.sections[e[E.section]][N.loop]) opEntries[e[E.op]] = i;
});

/** @param {number} op  @returns {number}  its section, or -1 */
function sectionOf(op) {
  return opEntries[op] === undefined ? -1 : page.entries[opEntries[op]][E.section];
}

/** @param {number} op  @returns {string}  the value that it is declared for */
function valueOf(op) {
  const node = opEntries[op] === undefined ? -1 : page.entries[opEntries[op]][E.node];
  return node >= 0 ? page.nodes[node][0] : page.ops[op][O.label];
}

/** Loops of the same waves, of which one at a time is drawn; [] where there is one. */
function loopChoices() {
  const loops = [...new Set(page.ops.map((_, op) => sectionOf(op)))].filter((s) => s >= 0);
  const tracks = loops.map((s) => page.sections[s][N.track]);
  return loops.filter((s, i) => tracks.some((t, j) => j !== i && t === tracks[i]));
}

/** The loop in which the run spends most instructions. @param {number[]} loops */
function mainLoop(loops) {
  const counts = new Map(loops.map((s) => [s, 0]));
  for (const s of page.timeline ? page.timeline.segments : []) {
    const section = s[S.entry] >= 0 ? page.entries[s[S.entry]][E.section] : -1;
    if (counts.has(section)) counts.set(section, (counts.get(section) || 0) + 1);
  }
  return loops.reduce((a, b) => ((counts.get(b) || 0) > (counts.get(a) || 0) ? b : a), loops[0]);
}

/** The ops in groups, as far as their sections are drawn. @param {(section: number) => boolean} drawn @returns {Bunch[]} */
function bunches(drawn) {
  const ops = page.ops.map((_, op) => op).filter((op) => drawn(sectionOf(op)));
  /** @type {Map<number, number[]>} */
  const bySection = new Map();
  for (const op of ops) bySection.set(sectionOf(op), [...(bySection.get(sectionOf(op)) || []), op]);
  const place = new Map();
  for (const members of bySection.values()) members.forEach((op, i) => place.set(op, (i + 0.5) / members.length));
  const mean = (/** @type {number[]} */ of) => of.reduce((sum, op) => sum + place.get(op), 0) / of.length;
  const single = (/** @type {number} */ op) => ({
    ...{ key: `op ${op}`, name: page.ops[op][O.label], offset: page.ops[op][O.offset], role: page.ops[op][O.role] },
    ...{ level: 2, ops: [op], parts: [], at: place.get(op) },
  });
  if (ops.length <= SINGLY) return ops.map(single);

  /** @param {number[]} of @param {(op: number) => string} by */
  const split = (of, by) => {
    /** @type {Map<string, number[]>} */
    const found = new Map();
    for (const op of of) {
      const members = found.get(by(op));
      if (members) members.push(op);
      else found.set(by(op), [op]);
    }
    return [...found];
  };
  const several = bySection.size > 1;
  /** @param {string} key @param {number[]} of @param {number} level @returns {Bunch} */
  const bunch = (key, of, level) => {
    const role = page.ops[of[0]][O.role];
    const waves = several ? page.sections[sectionOf(of[0])][N.waves] : "";
    const name = `${valueOf(of[0])}${waves ? ` of ${waves}` : ""}`;
    const offsets = split(of, (op) => page.ops[op][O.offset]);
    const offset = offsets.length === 1 ? offsets[0][0] : "";
    const rest = { key, name, offset, role, ops: of, at: mean(of) };
    if (level === 0 && offsets.length > 1)
      return { ...rest, level, parts: offsets.map(([text, some]) => bunch(`${key} | ${text}`, some, 1)) };
    return { ...rest, level: 1, parts: of.length > 1 ? of.map(single) : [] };
  };
  const whole = split(ops, (op) => `${sectionOf(op)} ${page.ops[op][O.role]} ${valueOf(op)}`);
  const found = whole.map(([key, of]) => bunch(key, of, 0));
  // All iterations of a value are spread over the loop: those stand in the order of the declaration.
  const rank = (/** @type {Bunch} */ one) =>
    page.entries[opEntries[one.ops[0]]][E.node] * GRAPH_ROWS.length + GRAPH_ROWS.findIndex(([, roles]) => roles.includes(one.role));
  const order = [...found].sort((a, b) => rank(a) - rank(b));
  for (const one of found) if (one.level === 0) one.at = (order.indexOf(one) + 0.5) / order.length;
  return found;
}

/**
 * What is drawn: groups that are closed, groups of open ones, and of those of one iteration all ops at once.
 * @param {Bunch[]} all @param {(key: string) => boolean} isOpen @returns {Bunch[]}
 */
function unfolded(all, isOpen) {
  return all.flatMap((one) => (one.level === 0 && isOpen(one.key) ? unfolded(one.parts, isOpen) : [one]));
}
