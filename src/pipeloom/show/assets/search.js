// @ts-check
// The search box: declared values, steps, instructions and labels by parts of their text.

const FOUND_SHOWN = 40;

/**
 * @typedef {{kind: string, text: string, beside: string, go: () => void}} Findable
 *
 * @param {(choice: Choice) => void} onSelect
 */
function makeSearch(onSelect) {
  const box = /** @type {HTMLInputElement} */ (byId("search"));
  const list = byId("found");
  /** @type {Findable[]|null} */
  let all = null;
  /** @type {Findable[]} */
  let shown = [];
  let active = -1;

  /** @returns {Findable[]} */
  function collect() {
    const instructions = Boolean(page.meta.steps);
    const choose = (/** @type {number} */ entry) => () => onSelect({ entry, op: page.entries[entry][E.op], segment: -1 });
    /** @type {Findable[]} */
    const found = [];
    page.nodes.forEach(([, text], node) => {
      const first = page.entries.findIndex((e) => e[E.node] === node && page.sections[e[E.section]][N.loop]);
      const entry = first >= 0 ? first : page.entries.findIndex((e) => e[E.node] === node);
      if (entry >= 0) found.push({ kind: "value", text, beside: entryName(entry), go: choose(entry) });
    });
    page.entries.forEach((e, entry) => {
      const beside = e[E.source] ? `${entryName(entry)} ${e[E.source]}` : entryName(entry);
      found.push({ kind: instructions ? "instruction" : "step", text: e[E.label], beside, go: choose(entry) });
    });
    if (page.assembly)
      page.assembly.lines.forEach((line, n) => {
        const text = line[A.text];
        if (text.startsWith("//")) return;
        const entry = line[A.entry];
        const beside = `line ${line[A.number]}${entry >= 0 ? `, ${entryName(entry)}` : ""}`;
        found.push({ kind: isLabel(text) ? "label" : "instruction", text, beside, go: () => onSelect(choiceOfLine(n)) });
      });
    return found;
  }

  function look() {
    all ||= collect();
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length
      ? all.filter(({ text, beside, kind }) => {
          const whole = `${text} ${beside} ${kind}`.toLowerCase();
          return words.every((word) => whole.includes(word));
        })
      : [];
    // What has the words one after the other comes first.
    const phrase = words.join(" ");
    hits.sort((a, b) => Number(b.text.toLowerCase().includes(phrase)) - Number(a.text.toLowerCase().includes(phrase)));
    /** The same number of each kind, so that thousands of instructions hide no step. @type {Map<string, Findable[]>} */
    const kinds = new Map();
    for (const hit of hits) kinds.set(hit.kind, [...(kinds.get(hit.kind) || []).slice(0, FOUND_SHOWN), hit]);
    const each = Math.max(Math.floor(FOUND_SHOWN / Math.max(kinds.size, 1)), 5);
    shown = [...kinds.values()].flatMap((some) => some.slice(0, each));
    active = shown.length ? 0 : -1;
    const rows = shown.map(({ kind, text, beside }, n) => {
      const row = el("div", { className: "hit", id: `hit-${n}` }, el("span", "kind", kind), el("span", "text", text), el("span", "quiet", beside));
      row.setAttribute("role", "option");
      row.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(n);
      });
      return row;
    });
    const count = hits.length > shown.length ? `${num(hits.length)} found, ${shown.length} shown` : `${num(hits.length)} found`;
    list.replaceChildren(...rows, el("p", "quiet", count));
    open(words.length > 0);
    mark();
  }

  /** @param {boolean} on */
  function open(on) {
    list.hidden = !on;
    box.setAttribute("aria-expanded", String(on));
  }

  function mark() {
    [...list.querySelectorAll(".hit")].forEach((row, n) => {
      row.classList.toggle("chosen", n === active);
      row.setAttribute("aria-selected", String(n === active));
      if (n === active) row.scrollIntoView({ block: "nearest" });
    });
    if (active >= 0) box.setAttribute("aria-activedescendant", `hit-${active}`);
    else box.removeAttribute("aria-activedescendant");
  }

  /** @param {number} n */
  function take(n) {
    if (!shown[n]) return;
    active = n;
    mark();
    open(false);
    byId("run").scrollIntoView();
    shown[n].go();
  }

  box.addEventListener("input", look);
  box.addEventListener("focus", () => {
    if (box.value) look();
  });
  box.addEventListener("blur", () => open(false));
  box.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && shown.length) {
      event.preventDefault();
      if (list.hidden) open(true);
      active = (active + step + shown.length) % shown.length;
      mark();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (list.hidden && shown.length) active = (active + 1) % shown.length;
      take(active);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      open(false);
      if (!box.value) box.blur();
      box.value = "";
    }
  });
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement;
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
}
