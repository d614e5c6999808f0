// @ts-check
// Puts the parts together: one selection, shown in the timeline, the graph and the schedule.

fillHead();
fillVariants();
/** @type {Choice} */
const nothing = { entry: -1, op: -1, segment: -1 };
let current = nothing;

/** @param {Choice} next */
function select(next) {
  current = next;
  schedule.select(next);
  graph.select(next);
  if (timeline) timeline.select(next);
  if (assembly) assembly.show(next.line === undefined ? -1 : next.line, linesOfChoice(next));
  fillDetails(next, timeline, select);
}

/** The lines of what is selected, those of a bar where it is known which they are. @param {Choice} now */
function linesOfChoice(now) {
  const own = timeline && now.segment >= 0 ? timeline.linesAt(now.segment) : [];
  if (own.length || now.entry < 0) return own;
  const run = page.timeline;
  const line = now.line === undefined ? -1 : now.line;
  const group = run && now.segment >= 0 ? run.waves[run.segments[now.segment][S.wave]][1] : line >= 0 ? groupOfLine(line) : -1;
  return linesOf(now.entry, group);
}

/** A line of the assembly with its step and its place in time. @param {number} line @returns {Choice} */
function choiceOfLine(line) {
  openTab("assembly");
  const entry = /** @type {Assembly} */ (page.assembly).lines[line][A.entry];
  const segment = timeline ? timeline.nearest(entry, line, groupOfLine(line)) : -1;
  return { entry, op: entry < 0 ? -1 : page.entries[entry][E.op], segment, line };
}

/** Steps or assembly. @param {string} name */
function openTab(name) {
  for (const tab of ["schedule", "assembly"]) {
    byId(tab).hidden = tab !== name;
    byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    byId(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
  if (assembly && name === "assembly") assembly.draw();
}

const timeline = page.timeline ? makeTimeline(byId("timeline"), select) : null;
const graph = makeGraph(byId("graph"), select);
const schedule = makeSchedule(select);
const assembly = page.assembly ? makeAssembly(byId("assembly"), (line) => select(choiceOfLine(line))) : null;
makeSearch(select);
byId("tab-schedule").textContent = page.meta.steps || "Steps";
if (page.assembly) byId("tab-assembly").textContent = `Assembly, ${num(page.assembly.lines.length)} lines`;
else byId("assembly").append(el("p", "quiet none", page.unwritten));
byId("tab-assembly").hidden = !page.assembly && !page.unwritten;
for (const tab of ["schedule", "assembly"]) {
  byId(`tab-${tab}`).addEventListener("click", () => openTab(tab));
  byId(`tab-${tab}`).addEventListener("keydown", (event) => {
    if ((event.key !== "ArrowLeft" && event.key !== "ArrowRight") || byId("tab-assembly").hidden) return;
    const other = tab === "schedule" ? "assembly" : "schedule";
    openTab(other);
    byId(`tab-${other}`).focus();
  });
}
openTab("schedule");

const legend = `Solid: flow, dashed: anti; faint: from an iteration before.${page.critical.length ? " Amber outline: critical path." : ""}`;
byId("graph-note").textContent = graph.isGrouped()
  ? `${num(page.ops.length)} steps, ${num(page.edges.length)} dependences, in groups: click one to open it, a step for what it needs (red) and what needs it (blue). ${legend}`
  : `${page.ops.length} steps of the loop left to right in issue order, ${page.edges.length} dependences. ${legend} Click an op: red leads to what it needs, blue to what needs it.`;
if (timeline) {
  const m = page.meta;
  const iterations = /** @type {Timeline} */ (page.timeline).iterations;
  byId("run-note").textContent =
    iterations < m.iterations
      ? `${iterations} trips and all around them of a shorter run of the same programs; figures and stalls are from ${m.iterations} trips`
      : "the whole run";
  for (const [name, from, to] of timeline.ranges) {
    const button = el("button", { type: "button" }, name);
    button.addEventListener("click", () => timeline.show(from, to));
    byId("ranges").append(button);
  }
  for (const [name, label, factor] of /** @type {Array<[string, string, number]>} */ ([
    ["+", "Zoom in", 0.5],
    ["−", "Zoom out", 2],
  ])) {
    const button = el("button", { type: "button", title: label, ariaLabel: label }, name);
    button.addEventListener("click", () => timeline.zoom(factor));
    byId("ranges").append(button);
  }
  const ruler = el("button", { type: "button", id: "ruler", title: "Drag over the timeline to measure cycles" }, "Measure");
  ruler.setAttribute("aria-pressed", "false");
  ruler.addEventListener("click", () => {
    const on = ruler.getAttribute("aria-pressed") !== "true";
    ruler.setAttribute("aria-pressed", String(on));
    timeline.rule(on);
    if (!on) timeline.measure(null);
  });
  byId("ranges").append(ruler);
  if (timeline.views.length > 1) {
    const why = "Move the others so that their trips begin together; else all begin at cycle 0";
    const align = el("button", { type: "button", id: "align", title: why }, "Align loops");
    align.setAttribute("aria-pressed", "true");
    align.addEventListener("click", () => {
      const on = align.getAttribute("aria-pressed") !== "true";
      align.setAttribute("aria-pressed", String(on));
      timeline.align(on);
    });
    byId("ranges").append(align);
  }
  const used = new Set(timeline.views.flatMap((v) => v.run.segments.map((s) => s[S.colour])));
  KIND_NAMES.forEach((name, i) => {
    if (!used.has(i)) return;
    const key = el("i");
    key.style.background = `var(${KIND_VARIABLES[i]})`;
    byId("legend").append(el("span", "", key, name));
  });
  const pale = el("i");
  pale.style.cssText = "background: var(--scalar); opacity: .35";
  byId("legend").append(el("span", "", pale, "pale: standing"));
} else {
  const run = /** @type {HTMLElement} */ (document.querySelector(".run"));
  run.classList.add("bare");
  byId("run-note").textContent = page.unsimulated;
  /** @type {HTMLElement} */ (document.querySelector("#run h2")).textContent = "Schedule";
}
fillDetails(nothing, timeline, select);
if (page.verdict)
  fillVerdict(
    timeline &&
      ((example, zoom) => {
        if (zoom) byId("run").scrollIntoView();
        timeline.mark(example, zoom);
      }),
  );
fillStalls((next) => {
  byId("run").scrollIntoView();
  select(next);
});
fillKnobs();
if (!page.knobs.length) {
  byId("knobs-title").textContent = "Notes";
  byId("knobs-note").hidden = true;
  /** @type {HTMLElement} */ (document.querySelector(`nav [href="#knobs"]`)).textContent = "Notes";
}
if (page.meta.knobs) {
  byId("knobs-title").textContent = page.meta.knobs;
  byId("knobs-note").textContent = "Bold: the one above, where most of the matrix work is.";
  /** @type {HTMLElement} */ (document.querySelector(`nav [href="#knobs"]`)).textContent = page.meta.knobs;
}
for (const part of ["dependences", "verdict", "knobs"])
  if (part === "dependences" ? !page.ops.length : !byId(`${part}-body`).hasChildNodes()) {
    byId(part).hidden = true;
    /** @type {HTMLElement} */ (document.querySelector(`nav [href="#${part}"]`)).hidden = true;
  }

document.addEventListener("pointerdown", () => showTip());
document.addEventListener("scroll", () => showTip());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (timeline) timeline.recolour();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  select(nothing);
  if (timeline) timeline.measure(null);
  byId("timeline").blur();
});

// For tests and for the curious in the console.
Object.assign(window, { pipeloom: { page, timeline, graph, select, openTab, selection: () => current } });
