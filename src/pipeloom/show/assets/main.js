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
  fillDetails(next, timeline, select);
}

const timeline = page.timeline ? makeTimeline(byId("timeline"), select) : null;
const graph = makeGraph(byId("graph"), select);
const schedule = makeSchedule(select);

byId("graph-note").textContent =
  `${page.ops.length} steps of the loop left to right in issue order, ${page.edges.length} dependences. Solid: flow, dashed: anti; faint: from an iteration before.${page.critical.length ? " Amber outline: critical path." : ""} Click an op: red leads to what it needs, blue to what needs it.`;
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
Object.assign(window, { pipeloom: { page, timeline, select, selection: () => current } });
