// @ts-check
// The dependence graph: ops or groups of them left to right in issue order, one row per kind of op.

const NODE_HEIGHT = 30;
const ROW_GAP = 54;
const CHIP_HEIGHT = 16;
/** Boxes of values in one row; more stand on two levels, so that lines between them can be told apart. */
const IN_A_ROW = 8;
const LEFT_OF_GRAPH = 100;

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Spot  its middle
 * @typedef {Bunch & {spot: Spot, chips: Map<number, Spot>}} Drawn
 */

/**
 * @param {string} tag
 * @param {Record<string, string|number>} attributes
 * @param {...(Node|string)} children
 */
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** What is left of labels without what all begin with. @param {string[]} labels */
function withoutPrefix(labels) {
  let length = 0;
  const least = Math.min(...labels.map((label) => label.length)) - 1;
  while (length < least && labels.every((label) => label[length] === labels[0][length])) length += 1;
  // Words and numbers stay whole.
  const kind = (/** @type {string} */ text) => (/[a-z]/i.test(text) ? 1 : /\d/.test(text) ? 2 : 0);
  const cut = (/** @type {string} */ label) => kind(label[length - 1]) && kind(label[length - 1]) === kind(label[length]);
  while (length > 0 && labels.some(cut)) length -= 1;
  return labels.map((label) => label.slice(length));
}

/**
 * @param {HTMLElement} host
 * @param {(choice: Choice) => void} onSelect
 */
function makeGraph(host, onSelect) {
  const loops = loopChoices();
  let loop = loops.length ? mainLoop(loops) : -1;
  let all = bunches(isDrawn);
  const timed = page.ops.some((op) => op[O.latency] > 0);
  /** Groups that were opened by hand. @type {Set<string>} */
  const opened = new Set();
  let chosen = -1;
  /** The width that the drawing was made for. */
  let drawnFor = 0;

  /** @param {number} section */
  function isDrawn(section) {
    return loop < 0 || section === loop || !loops.includes(section) || page.sections[section][N.track] !== page.sections[loop][N.track];
  }

  const grouped = () => all.some((one) => one.ops.length > 1);
  /** @param {Bunch} one */
  const holds = (one) => chosen >= 0 && one.ops.includes(chosen);
  /** Open by hand, or because what is chosen is inside. @param {Bunch} one */
  const isOpen = (one) => one.parts.length > 0 && (opened.has(one.key) || holds(one));

  /** Open all groups down to a level, as far as that many can be seen. @param {number} level */
  function openTo(level) {
    opened.clear();
    for (const one of all) {
      if (level > 0) opened.add(one.key);
      for (const part of one.parts) if (level > 1) opened.add(part.key);
    }
    draw();
  }

  if (grouped() && all.reduce((sum, one) => sum + Math.max(one.level ? 1 : one.parts.length, 1), 0) <= SINGLY)
    for (const one of all) if (one.level === 0) opened.add(one.key);

  /** What is written on a box. @param {Bunch} one */
  function lines(one) {
    if (one.level === 2) return [shortened(one.name), one.offset].filter(Boolean);
    const steps = `${one.ops.length} step${one.ops.length > 1 ? "s" : ""}`;
    return [[one.name, one.offset].filter(Boolean).join(" "), steps];
  }

  /** Sizes of what is drawn, with the places of single ops in open groups from its middle. @param {Bunch} one @returns {Drawn} */
  function sized(one) {
    const longest = Math.max(...lines(one).map((text) => text.length));
    const spot = { x: 0, y: 0, width: clamp(6.2 * longest + 8, 40, 220), height: NODE_HEIGHT };
    const chips = new Map();
    if (one.level < 2 && isOpen(one)) {
      const labels = withoutPrefix(one.ops.map((op) => page.ops[op][O.label]));
      const wide = clamp(5.6 * Math.max(...labels.map((label) => label.length)) + 8, 24, 90);
      const columns = Math.max(Math.ceil(Math.sqrt((one.ops.length * CHIP_HEIGHT * 2) / wide)), 1);
      const rows = Math.ceil(one.ops.length / columns);
      spot.width = Math.max(columns * wide + 8, spot.width);
      spot.height = rows * CHIP_HEIGHT + 24;
      one.ops.forEach((op, i) =>
        chips.set(op, {
          x: 4 + wide * ((i % columns) + 0.5) - spot.width / 2,
          y: 20 + CHIP_HEIGHT * (Math.floor(i / columns) + 0.5) - spot.height / 2,
          width: wide - 2,
          height: CHIP_HEIGHT - 2,
        }),
      );
    }
    return { ...one, spot, chips };
  }

  /** Everything that is drawn at its place, and the rows. @param {number} width */
  function layout(width) {
    const open = new Set([...all, ...all.flatMap((one) => one.parts)].filter(isOpen).map((one) => one.key));
    const drawn = unfolded(all, (key) => open.has(key)).map(sized);
    drawn.sort((a, b) => a.at - b.at);
    const rows = GRAPH_ROWS.filter(([, roles]) => drawn.some((one) => roles.includes(one.role)));
    const row = (/** @type {Bunch} */ one) => rows.findIndex(([, roles]) => roles.includes(one.role));
    let below = 7;
    const levels = rows.map((_, r) => (drawn.filter((one) => row(one) === r && one.level === 0).length > IN_A_ROW ? 2 : 1));
    const talls = rows.map((_, r) => Math.max(...drawn.filter((one) => row(one) === r).map((one) => one.spot.height)));
    const middles = rows.map((_, r) => {
      const whole = (talls[r] + ROW_GAP) * levels[r];
      below += whole;
      return below - whole / 2;
    });
    /** Boxes one after the other, at least `step` apart; gives where they end. @param {number} step */
    const place = (step) => {
      const ends = rows.map((_, r) => Array.from({ length: levels[r] }, () => LEFT_OF_GRAPH));
      let last = LEFT_OF_GRAPH - step;
      for (const one of drawn) {
        const r = row(one);
        const level = ends[r].indexOf(Math.min(...ends[r]));
        const left = Math.max(last + step, ends[r][level] + 6);
        one.spot.x = left + one.spot.width / 2;
        one.spot.y = middles[r] + (level - (levels[r] - 1) / 2) * (talls[r] + ROW_GAP);
        ends[r][level] = left + one.spot.width;
        last = left;
      }
      return Math.max(...ends.flat(), 0);
    };
    let [low, high] = [4, 160];
    for (let turn = 0; turn < 12; turn += 1) {
      const middle = (low + high) / 2;
      if (place(middle) <= width - 12) low = middle;
      else high = middle;
    }
    return { drawn, rows, middles, width: Math.max(width, place(low) + 12), height: below + 14 };
  }

  /** Which steps a chosen one needs and which need it. */
  function around() {
    const found = new Set();
    if (chosen < 0) return found;
    for (const e of page.edges) {
      if (e[D.consumer] === chosen) found.add(e[D.producer]);
      if (e[D.producer] === chosen) found.add(e[D.consumer]);
    }
    return found;
  }

  /** Something that can be clicked, by mouse or keys. @param {SVGElement} shape @param {string} key @param {string} name @param {() => void} act */
  function active(shape, key, name, act) {
    const press = (/** @type {Event} */ event) => {
      event.stopPropagation();
      event.preventDefault();
      act();
    };
    for (const [attribute, value] of Object.entries({ tabindex: "0", role: "button", "aria-label": name, "data-key": key }))
      shape.setAttribute(attribute, value);
    shape.addEventListener("click", press);
    shape.addEventListener("keydown", (event) => {
      const { key: pressed } = /** @type {KeyboardEvent} */ (event);
      if (pressed === "Enter" || pressed === " ") press(event);
    });
    return shape;
  }

  /** @param {number} op */
  const choose = (op) => onSelect({ entry: entryOf(op, -1), op, segment: -1 });
  /** @param {number} op */
  const opTip = (op) => {
    const o = page.ops[op];
    /** @type {Array<[string, string]>} */
    const facts = timed ? [["latency", o[O.latency]], ["earliest start", o[O.asap]], ["slack", o[O.slack]]] : [];
    return tipText(opName(op), facts);
  };

  /** @param {Drawn} one @param {Set<number>} near */
  function box(one, near) {
    const { x, y, width, height } = one.spot;
    const op = one.level === 2 || one.ops.length === 1 ? one.ops[0] : -1;
    const far = chosen >= 0 && !holds(one) && !one.ops.some((other) => near.has(other));
    const critical = one.ops.some((other) => page.critical.includes(other));
    const outlined = op >= 0 && op === chosen ? " chosen" : critical ? " critical" : "";
    const texts = one.chips.size ? [lines(one).join(" · ")] : lines(one);
    const top = one.chips.size ? 12 - height / 2 : 4;
    const shape = svg(
      "g",
      { class: `${op >= 0 ? "op" : "bunch"}${one.chips.size ? " open" : ""}${far ? " far" : ""}${outlined}`, transform: `translate(${x} ${y})` },
      ...(op < 0 && !one.chips.size ? [svg("rect", { class: "behind", x: 3 - width / 2, y: 3 - height / 2, width, height, rx: 6 })] : []),
      svg("rect", { x: -width / 2, y: -height / 2, width, height, rx: 6 }),
      ...texts.map((text, n) => svg("text", { y: top + 12 * (n - (texts.length - 1) / 2) }, text)),
    );
    shape.style.color = roleColour(one.role);
    if (op >= 0) {
      shape.setAttribute("data-op", String(op));
      active(shape, one.key, opName(op), () => choose(op));
      return hovered(shape, () => opTip(op));
    }
    const name = `${texts.join(", ")}, ${isOpen(one) ? "close" : "open"}`;
    active(shape, one.key, name, () => toggle(one));
    hovered(shape, () => el("div", "", `${texts.join(", ")}: click to ${isOpen(one) ? "close" : "open"}`));
    const labels = withoutPrefix(one.ops.map((other) => page.ops[other][O.label]));
    for (const [other, at] of one.chips) shape.append(chip(other, at, labels[one.ops.indexOf(other)], near));
    return shape;
  }

  /** @param {number} op @param {Spot} at @param {string} label @param {Set<number>} near */
  function chip(op, at, label, near) {
    const state = op === chosen ? " chosen" : near.has(op) ? " near" : page.critical.includes(op) ? " critical" : "";
    const shape = svg(
      "g",
      { class: `op chip${state}`, transform: `translate(${at.x} ${at.y})`, "data-op": op },
      svg("rect", { x: -at.width / 2, y: -at.height / 2, width: at.width, height: at.height, rx: 3 }),
      svg("text", { y: 3.5 }, label),
    );
    active(shape, `op ${op}`, opName(op), () => choose(op));
    return hovered(shape, () => opTip(op));
  }

  /** @param {Bunch} one */
  function toggle(one) {
    if (isOpen(one)) {
      opened.delete(one.key);
      if (holds(one)) chosen = -1;
    } else opened.add(one.key);
    draw();
  }

  /** Dependences between what is drawn: those of the chosen step from it, the others from box to box. @param {Drawn[]} drawn */
  function edges(drawn) {
    /** @type {Map<number, Drawn>} */
    const boxOf = new Map();
    for (const one of drawn) for (const op of one.ops) boxOf.set(op, one);
    /** @type {Map<string, {from: Spot, to: Spot, count: number, e: Row, mine: string}>} */
    const found = new Map();
    for (const e of page.edges) {
      const [a, b] = [boxOf.get(e[D.producer]), boxOf.get(e[D.consumer])];
      const mine = e[D.consumer] === chosen ? "needs" : e[D.producer] === chosen ? "feeds" : "";
      if (!a || !b || (a === b && !mine)) continue;
      const spot = (/** @type {Drawn} */ one, /** @type {number} */ op) => {
        const at = mine ? one.chips.get(op) : undefined;
        return at ? { ...at, x: one.spot.x + at.x, y: one.spot.y + at.y } : one.spot;
      };
      const [from, to] = [spot(a, e[D.producer]), spot(b, e[D.consumer])];
      const key = [from.x, from.y, to.x, to.y, e[D.kind], e[D.distance], mine].join(" ");
      const same = found.get(key);
      if (same) same.count += 1;
      else found.set(key, { from, to, count: 1, e, mine });
    }
    const parts = [...found.values()];
    return { below: parts.filter((one) => !one.mine).map(edge), above: parts.filter((one) => one.mine).map(edge) };
  }

  /** @param {{from: Spot, to: Spot, count: number, e: Row, mine: string}} one */
  function edge({ from: p, to: q, count, e, mine }) {
    const carried = e[D.distance] > 0;
    const flat = p.y === q.y;
    const bend = flat ? (q.x > p.x ? 0.2 : -0.14) : carried ? 0.12 : 0.04;
    const bow = { x: (p.x + q.x) / 2 + (q.y - p.y) * bend, y: (p.y + q.y) / 2 - (q.x - p.x) * bend };
    /** Where the line from a box's centre to the bow leaves it. @param {Spot} at */
    const border = (at) => {
      const [dx, dy] = [bow.x - at.x, bow.y - at.y];
      const out = Math.max(Math.abs(dx) / (at.width / 2 + 1), Math.abs(dy) / (at.height / 2 + 1), 1);
      return { x: at.x + dx / out, y: at.y + dy / out };
    };
    const [a, b] = [border(p), border(q)];
    const angle = (Math.atan2(b.y - bow.y, b.x - bow.x) * 180) / Math.PI;
    const d = `M${a.x} ${a.y} Q${bow.x} ${bow.y} ${b.x} ${b.y}`;
    const group = svg(
      "g",
      {
        class: `edge${mine && ` ${mine}`}${e[D.kind] === 0 ? "" : " anti"}`,
        opacity: chosen < 0 ? (carried ? 0.22 : 0.75) : mine ? 1 : 0.05,
      },
      svg("path", { class: "wide", d }),
      svg("path", { d, "stroke-width": mine ? 2 : 1 + Math.log2(count) / 4 }),
      svg("path", { class: "arrow", d: "M0 0 L-7 -3 V3 Z", transform: `translate(${b.x} ${b.y}) rotate(${angle})` }),
    );
    const when = carried ? `, from ${e[D.distance]} iteration${e[D.distance] > 1 ? "s" : ""} before` : "";
    const more = count > 1 ? `; ${count} dependences like this` : "";
    const text = `${opName(e[D.consumer])} must follow ${opName(e[D.producer])} (${DEP_KINDS[e[D.kind]]}${when})${more}`;
    return hovered(group, () => el("div", "", text));
  }

  /** @template {Element} T @param {T} shape @param {() => Node} text @returns {T} */
  function hovered(shape, text) {
    shape.addEventListener("pointermove", (event) => {
      event.stopPropagation();
      showTip(/** @type {PointerEvent} */ (event), text());
    });
    shape.addEventListener("pointerleave", () => showTip());
    return shape;
  }

  /** Buttons above the graph: how far it is open, which loop, and what is open by hand. */
  function fillTools() {
    const tools = byId("graph-tools");
    tools.hidden = !grouped() && !loops.length;
    const button = (/** @type {string} */ name, /** @type {string} */ title, /** @type {() => void} */ act, /** @type {boolean} */ pressed) => {
      const made = el("button", { type: "button", title }, name);
      made.setAttribute("aria-pressed", String(pressed));
      made.addEventListener("click", act);
      return made;
    };
    const parts = [];
    if (loops.length)
      for (const section of loops)
        parts.push(button(page.sections[section][N.name], "Draw the steps of this loop", () => turnTo(section), section === loop));
    if (grouped()) {
      const keys = (/** @type {Bunch[]} */ of) => of.filter((one) => one.parts.length).every((one) => opened.has(one.key));
      const [first, second] = [keys(all.filter((one) => one.level === 0)), keys(all.flatMap((one) => (one.level ? [one] : one.parts)))];
      parts.push(
        button("By value", "One box for all steps of a declared value", () => openTo(0), opened.size === 0),
        button("By iteration", "One box for the steps of a value and an iteration", () => openTo(1), first && !second && opened.size > 0),
        button("Every step", "Open all groups", () => openTo(2), first && second),
      );
    }
    tools.replaceChildren(...parts);
  }

  /** @param {number} section */
  function turnTo(section) {
    loop = section;
    all = bunches(isDrawn);
    opened.clear();
    draw();
  }

  function draw() {
    const held = host.contains(document.activeElement) && document.activeElement?.getAttribute("data-key");
    drawnFor = host.clientWidth;
    const { drawn, rows, middles, width, height } = layout(drawnFor);
    const near = around();
    const { below, above } = edges(drawn);
    host.replaceChildren(
      svg(
        "svg",
        { width, height },
        ...rows.map(([name], row) => svg("text", { class: "row", x: 92, y: middles[row] + 4 }, name)),
        ...below,
        ...drawn.map((one) => box(one, near)),
        ...above,
      ),
    );
    fillTools();
    const again = held && host.querySelector(`[data-key="${CSS.escape(held)}"]`);
    if (again instanceof SVGElement) again.focus({ preventScroll: true });
  }

  /** Scroll the graph, not the page, to what is chosen. */
  function reveal() {
    const shape = host.querySelector(".op.chosen");
    if (!shape) return;
    const [outer, inner] = [host.getBoundingClientRect(), shape.getBoundingClientRect()];
    if (inner.left < outer.left || inner.right > outer.right) host.scrollLeft += inner.left - outer.left - outer.width / 2;
  }

  draw();
  // A drawing of another height resizes the host, too: what is under a pointer must stay.
  new ResizeObserver(() => host.clientWidth !== drawnFor && draw()).observe(host);
  return {
    /** @param {Choice} now */
    select(now) {
      chosen = now.op;
      if (chosen >= 0 && !isDrawn(sectionOf(chosen))) turnTo(sectionOf(chosen));
      else draw();
      reveal();
    },
    openTo,
    isGrouped: grouped,
  };
}
