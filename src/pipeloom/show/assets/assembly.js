// @ts-check
// The kernel's lines beside the timeline. There are thousands, so only those in sight are in the document.

const LINE_HEIGHT = 18;

/**
 * @param {HTMLElement} host  scrolls
 * @param {(line: number) => void} onSelect
 */
function makeAssembly(host, onSelect) {
  const lines = /** @type {Assembly} */ (page.assembly).lines;
  const longest = Math.max(...lines.map((line) => line[A.text].length));
  const inner = el("div", "lines");
  inner.style.height = `${lines.length * LINE_HEIGHT}px`;
  inner.style.minWidth = `calc(${longest + 8}ch + 20px)`;
  host.append(inner);
  let chosen = -1;
  /** All lines of the step that is chosen. @type {Set<number>} */
  let same = new Set();

  /** @param {number} n */
  function line(n) {
    const [number, text, entry] = lines[n];
    const kind = isLabel(text) ? " label" : text.startsWith("//") ? " remark" : "";
    const state = n === chosen ? " chosen" : same.has(n) ? " same" : "";
    const dot = el("i", "dot");
    if (entry >= 0) dot.style.background = roleColour(page.entries[entry][E.role]);
    const begins = entry >= 0 && (n === 0 || lines[n - 1][A.entry] !== entry);
    const row = el(
      "div",
      { className: `line${kind}${state}`, id: `line-${n}` },
      el("span", "number", number),
      dot,
      el("span", "", text),
      begins && el("span", "step", `${entryName(entry)} ${page.entries[entry][E.label]}`),
    );
    row.style.top = `${n * LINE_HEIGHT}px`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(n === chosen));
    return row;
  }

  function draw() {
    const first = Math.max(0, Math.floor(host.scrollTop / LINE_HEIGHT) - 8);
    const last = Math.min(lines.length, Math.ceil((host.scrollTop + host.clientHeight) / LINE_HEIGHT) + 8);
    const rows = [];
    for (let n = first; n < last; n += 1) rows.push(line(n));
    inner.replaceChildren(...rows);
    if (chosen >= first && chosen < last) host.setAttribute("aria-activedescendant", `line-${chosen}`);
    else host.removeAttribute("aria-activedescendant");
  }

  /** The next line that is an instruction or a label. @param {number} from @param {number} by */
  function beside(from, by) {
    let n = clamp(from + by, 0, lines.length - 1);
    while (lines[n] && lines[n][A.text].startsWith("//")) n += Math.sign(by);
    return lines[n] ? n : from;
  }

  inner.addEventListener("click", (event) => {
    const row = /** @type {Element} */ (event.target).closest(".line");
    if (row) onSelect(Number(row.id.replace("line-", "")));
  });
  host.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(host);
  host.addEventListener("keydown", (event) => {
    const page_ = Math.max(Math.floor(host.clientHeight / LINE_HEIGHT) - 1, 1);
    const start = chosen < 0 ? Math.floor(host.scrollTop / LINE_HEIGHT) - 1 : chosen;
    /** @type {Record<string, () => number>} */
    const keys = {
      ArrowDown: () => beside(start, 1),
      ArrowUp: () => beside(start, -1),
      PageDown: () => beside(start, page_),
      PageUp: () => beside(start, -page_),
      Home: () => beside(-1, 1),
      End: () => beside(lines.length, -1),
    };
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onSelect(keys[event.key]());
  });
  draw();

  return {
    /**
     * Mark a line, or all of a step, and scroll there.
     * @param {number} now  -1 is none @param {number[]} others  of the same step
     */
    show(now, others) {
      chosen = now;
      same = new Set(others);
      const first = now >= 0 ? now : others.length ? Math.min(...others) : -1;
      const top = first * LINE_HEIGHT;
      const inside = top >= host.scrollTop + LINE_HEIGHT && top + 3 * LINE_HEIGHT <= host.scrollTop + host.clientHeight;
      if (first >= 0 && !inside) host.scrollTop = Math.max(top - host.clientHeight / 3, 0);
      draw();
    },
    draw,
  };
}

/** @param {string} text */
function isLabel(text) {
  return text.endsWith(":") && !text.startsWith("//");
}

/** The lines of a step, of the code of one group where that is known. @param {number} entry @param {number} group */
function linesOf(entry, group) {
  const { lines, groups } = /** @type {Assembly} */ (page.assembly);
  const found = lines.map((_, n) => n).filter((n) => lines[n][A.entry] === entry);
  const [from, to] = [groups[group] || 0, group >= 0 && group + 1 < groups.length ? groups[group + 1] : lines.length];
  const own = found.filter((n) => n >= from && n < to);
  return own.length ? own : found;
}

/** The group whose code a line stands in. @param {number} line */
function groupOfLine(line) {
  const { groups } = /** @type {Assembly} */ (page.assembly);
  return Math.max(groups.findLastIndex((first) => first <= line), 0);
}
