// @ts-check
// The dependence graph: ops left to right in issue order, one row per kind of op.

/** @type {Array<[string, string[]]>} */
const GRAPH_ROWS = [
  ["global load", ["load"]],
  ["LDS write", ["lds_write"]],
  ["LDS read", ["lds_read"]],
  ["matrix", ["matrix"]],
  ["vector", ["vector"]],
  ["other", ["move", "store"]],
];

const NODE_HEIGHT = 30;
const ROW_HEIGHT = 84;

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

/**
 * @param {HTMLElement} host
 * @param {(choice: Choice) => void} onSelect
 */
function makeGraph(host, onSelect) {
  const rows = GRAPH_ROWS.filter(([, roles]) => page.ops.some((op) => roles.includes(op[O.role])));
  const height = rows.length * ROW_HEIGHT + 14;
  const longest = Math.max(0, ...page.ops.map((op) => Math.max(shortened(op[O.label]).length, op[O.offset].length)));
  const timed = page.ops.some((op) => op[O.latency] > 0);
  let chosen = -1;

  /** @param {number} row  its middle */
  const middle = (row) => 7 + (row + 0.5) * ROW_HEIGHT;

  /** Where each op is, and how wide all are. @param {number} width */
  function layout(width) {
    const step = (width - 130) / (page.ops.length + 1);
    const places = page.ops.map((op, i) => ({
      x: 100 + (i + 1) * step,
      y: middle(rows.findIndex(([, roles]) => roles.includes(op[O.role]))),
    }));
    return { places, half: clamp(step - 3, 36, 86) / 2 };
  }

  /** @param {Row} op @param {number} i @param {{x: number, y: number}} at @param {number} half */
  function node(op, i, at, half) {
    const near =
      chosen < 0 ||
      i === chosen ||
      page.edges.some(
        (e) =>
          (e[D.consumer] === chosen && e[D.producer] === i) ||
          (e[D.producer] === chosen && e[D.consumer] === i),
      );
    const lines = [shortened(op[O.label]), op[O.offset]].filter(Boolean);
    const outlined = i === chosen ? " chosen" : page.critical.includes(i) ? " critical" : "";
    const shape = svg(
      "g",
      { class: `op${near ? "" : " far"}${outlined}`, transform: `translate(${at.x} ${at.y})`, "data-op": i },
      svg("rect", { x: -half, y: -NODE_HEIGHT / 2, width: 2 * half, height: NODE_HEIGHT, rx: 6 }),
      ...lines.map((/** @type {string} */ text, /** @type {number} */ n) =>
        svg("text", { y: 12 * (n - (lines.length - 1) / 2) + 4 }, text),
      ),
    );
    shape.style.color = roleColour(op[O.role]);
    shape.addEventListener("click", () => {
      const entry = entryOf(i, -1);
      onSelect({ entry, op: i, segment: -1 });
    });
    return hovered(shape, () =>
      tipText(
        opName(i),
        timed
          ? [
              ["latency", op[O.latency]],
              ["earliest start", op[O.asap]],
              ["slack", op[O.slack]],
            ]
          : [],
      ),
    );
  }

  /** @param {Row} e @param {Array<{x: number, y: number}>} places @param {number} half */
  function edge(e, places, half) {
    const [needs, feeds] = [e[D.consumer] === chosen, e[D.producer] === chosen];
    const carried = e[D.distance] > 0;
    const [p, q] = [places[e[D.producer]], places[e[D.consumer]]];
    const flat = p.y === q.y;
    const bend = flat ? (q.x > p.x ? 0.2 : -0.14) : carried ? 0.12 : 0.04;
    const bow = { x: (p.x + q.x) / 2 + (q.y - p.y) * bend, y: (p.y + q.y) / 2 - (q.x - p.x) * bend };
    /** Where the line from an op's centre to the bow leaves its box. @param {{x: number, y: number}} at */
    const border = (at) => {
      const [dx, dy] = [bow.x - at.x, bow.y - at.y];
      const out = Math.max(Math.abs(dx) / (half + 1), Math.abs(dy) / (NODE_HEIGHT / 2 + 1), 1);
      return { x: at.x + dx / out, y: at.y + dy / out };
    };
    const [a, b] = [border(p), border(q)];
    const angle = (Math.atan2(b.y - bow.y, b.x - bow.x) * 180) / Math.PI;
    const d = `M${a.x} ${a.y} Q${bow.x} ${bow.y} ${b.x} ${b.y}`;
    const group = svg(
      "g",
      {
        class: `edge${needs ? " needs" : feeds ? " feeds" : ""}${e[D.kind] === 0 ? "" : " anti"}`,
        opacity: chosen < 0 ? (carried ? 0.22 : 0.75) : needs || feeds ? 1 : 0.05,
      },
      svg("path", { class: "wide", d }),
      svg("path", { d }),
      svg("path", {
        class: "arrow",
        d: "M0 0 L-7 -3 V3 Z",
        transform: `translate(${b.x} ${b.y}) rotate(${angle})`,
      }),
    );
    const name = (/** @type {number} */ op) => opName(op);
    const when = carried ? `, from ${e[D.distance]} iteration${e[D.distance] > 1 ? "s" : ""} before` : "";
    const text = `${name(e[D.consumer])} must follow ${name(e[D.producer])} (${DEP_KINDS[e[D.kind]]}${when})`;
    return hovered(group, () => el("div", "", text));
  }

  /** @template {Element} T @param {T} shape @param {() => Node} text @returns {T} */
  function hovered(shape, text) {
    shape.addEventListener("pointermove", (event) => showTip(/** @type {PointerEvent} */ (event), text()));
    shape.addEventListener("pointerleave", () => showTip());
    return shape;
  }

  function draw() {
    // On a narrow screen the graph keeps its size and scrolls.
    const width = Math.max(host.clientWidth, 130 + clamp(6.2 * longest + 6, 39, 90) * page.ops.length);
    const { places, half } = layout(width);
    host.replaceChildren(
      svg(
        "svg",
        { width, height },
        ...rows.map(([name], row) => svg("text", { class: "row", x: 92, y: middle(row) + 4 }, name)),
        ...page.edges.map((e) => edge(e, places, half)),
        ...page.ops.map((op, i) => node(op, i, places[i], half)),
      ),
    );
  }

  draw();
  new ResizeObserver(draw).observe(host);
  return {
    /** @param {Choice} now */
    select(now) {
      chosen = now.op;
      draw();
    },
  };
}
