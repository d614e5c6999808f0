// @ts-check
// Everything on the page that is text: figures, schedule, details, stalls, knobs.

function fillHead() {
  const m = page.meta;
  byId("title").textContent = m.machine ? `${m.program} on ${m.machine}` : m.program;
  const parts = [m.tile];
  if (m.strategy) parts.push(`${m.strategy} order`);
  if (m.stream) parts.push(`the instructions of the emitted kernel ${m.stream}`);
  if (m.sync) parts.push(m.sync);
  if (m.waves)
    parts.push(
      `${m.waves} waves`,
      `simulated for ${m.iterations} trips of ${m.per_trip}: ${num(m.cycles)} cycles, of them ${num(m.prologue)} prologue and ${num(m.epilogue)} epilogue`,
    );
  byId("subtitle").textContent = parts.join(" · ");
  for (const [value, name, why] of page.headline) {
    const status = ["PROVED", "TIMING", "RACE"].includes(value) ? value.toLowerCase() : "";
    byId("figures").append(
      el(
        "div",
        { className: "figure", title: why },
        el("b", value.length > 12 ? `long ${status}` : status, value),
        el("span", "", name),
      ),
    );
  }
}

/** Two pages or more in one file: their figures side by side, and a way from one to the other. */
function fillVariants() {
  if (variants.length < 2) return;
  const names = [...new Set(variants.flatMap((v) => v.headline.map(([, name]) => name)))];
  const rows = names.map((name) =>
    el(
      "tr",
      "",
      el("td", "", name),
      ...variants.map((v) => {
        const card = v.headline.find(([, other]) => other === name);
        return el("td", "num", card ? card[0] : "");
      }),
    ),
  );
  const links = variants.map((v, n) =>
    n === shownVariant
      ? el("b", "", v.meta.variant)
      : el("a", { href: `?variant=${n}` }, v.meta.variant),
  );
  const parts = links.flatMap((link, n) => (n ? [" · ", link] : [link]));
  byId("variants").append(
    el("p", "", "Below: ", ...parts),
    el("div", "sideways", table(["", ...variants.map((v) => `>${v.meta.variant}`)], rows)),
  );
  byId("variants").hidden = false;
}

/** @param {(choice: Choice) => void} onSelect */
function makeSchedule(onSelect) {
  const findings = page.verdict ? page.verdict.findings : [];
  const suspects = new Set(
    findings
      .flatMap((f) => [f[F.first], f[F.second]])
      .filter(Boolean)
      .map((p) => p[P.entry]),
  );
  const withStalls = page.timeline !== null;
  /** @type {HTMLElement[]} */
  const rows = [];
  /** @type {HTMLElement[]} */
  const entryRows = [];
  let section = -1;
  page.entries.forEach((e, i) => {
    if (e[E.section] !== section) {
      section = e[E.section];
      const count = page.entries.filter((other) => other[E.section] === section).length;
      const [name, , waves] = page.sections[section];
      const title = `${waves ? `${waves}: ` : ""}${name}, ${count} steps`;
      rows.push(el("tr", "phase", el("td", { colSpan: 3 }, title)));
    }
    const next = page.entries[i + 1];
    const ends = e[E.role] === "matrix" || (rows.length && e[E.role] === "barrier");
    const closes =
      ends && next && next[E.section] === section && !["barrier", "fence", "matrix"].includes(next[E.role]);
    const dot = el("i", "dot");
    dot.style.background = roleColour(e[E.role]);
    const mark = suspects.has(i)
      ? el("span", { className: "flag", title: "part of a finding of the verdict" }, "!")
      : null;
    const row = el(
      "tr",
      `entry${closes ? " blockend" : ""}`,
      el("td", "num quiet", e[E.slot]),
      el("td", "", dot, e[E.label], e[E.waves] && el("span", "quiet", ` ${e[E.waves]} only`), mark),
      el("td", "num quiet", withStalls && e[E.stall] >= 1 ? num(e[E.stall]) : ""),
    );
    row.dataset.entry = String(i);
    row.addEventListener("click", () => onSelect({ entry: i, op: e[E.op], segment: -1 }));
    rows.push(row);
    entryRows.push(row);
  });
  const host = byId("schedule");
  host.append(table([">slot", "step", withStalls ? ">stall" : ">"], rows));
  return {
    /** @param {Choice} now */
    select(now) {
      const needs = new Set();
      const feeds = new Set();
      for (const e of page.edges) {
        if (now.op >= 0 && e[D.consumer] === now.op) needs.add(e[D.producer]);
        if (now.op >= 0 && e[D.producer] === now.op) feeds.add(e[D.consumer]);
      }
      entryRows.forEach((row, i) => {
        const e = page.entries[i];
        row.classList.toggle("chosen", i === now.entry);
        row.classList.toggle("needs", isNear(i, now.entry) && needs.has(e[E.op]));
        row.classList.toggle("feeds", isNear(i, now.entry) && feeds.has(e[E.op]));
      });
      const row = entryRows[now.entry];
      if (row) host.scrollTop = row.offsetTop - host.clientHeight / 2;
    },
  };
}

/**
 * The panel beside the timeline: what is selected, and where one can go from there.
 * @param {Choice} now
 * @param {any} timeline
 * @param {(choice: Choice) => void} onSelect
 */
function fillDetails(now, timeline, onSelect) {
  const host = byId("details");
  host.replaceChildren();
  if (now.entry < 0 && now.segment < 0 && now.op < 0) {
    host.append(
      el("h3", "", "Nothing selected"),
      el(
        "p",
        "quiet",
        timeline
          ? "Click an instruction in the timeline, a row of the schedule, or an op of the dependence graph. The three stay together."
          : "Click a row of the schedule or an op of the dependence graph.",
      ),
    );
    return;
  }
  /** @type {Array<[string, string|Node]>} */
  const facts = now.segment >= 0 ? timeline.factsOf(now.segment) : [];
  const title =
    now.segment >= 0
      ? timeline.titleOf(now.segment)
      : now.entry >= 0
        ? page.entries[now.entry][E.label]
        : opName(now.op);
  if (now.segment < 0 && now.entry >= 0) {
    facts.push(["step", entryName(now.entry)]);
    if (page.entries[now.entry][E.stall] >= 1)
      facts.push(["stood", `${num(page.entries[now.entry][E.stall])} cycles, mean of the waves`]);
  }
  host.append(
    el("h3", "", title),
    el("dl", "", ...facts.flatMap(([k, v]) => [el("dt", "", k), el("dd", "", v)])),
  );
  const go = (text, target) => {
    const button = el("button", { className: "link", type: "button" }, text);
    button.addEventListener("click", () => onSelect(target));
    return button;
  };
  const list = (name, items) => {
    if (items.length) host.append(el("h3", "", name), ...items.map((item) => el("div", "", item)));
  };
  const edges = (from, to) =>
    page.edges
      .filter((e) => e[to] === now.op)
      .map((e) =>
        go(
          `${opName(e[from])}${e[D.distance] ? ` (${e[D.distance]} iteration ${from === D.producer ? "before" : "later"})` : ""}${e[D.kind] ? `, ${DEP_KINDS[e[D.kind]]}` : ""}`,
          { entry: entryOf(e[from], now.entry), op: e[from], segment: -1 },
        ),
      );
  if (now.segment >= 0) {
    const rows = /** @type {Timeline} */ (page.timeline).segments;
    const waited = timeline
      .dependences(now.segment)
      .filter(([, why]) => why === "waited")
      .map(([i]) => {
        const entry = rows[i][S.entry];
        const op = entry < 0 ? -1 : page.entries[entry][E.op];
        return go(`${timeline.titleOf(i)}, wave ${rows[i][S.wave]}`, { entry, op, segment: i });
      });
    list("Waited for, in this run", waited);
  }
  if (now.op >= 0) {
    list("Depends on", edges(D.producer, D.consumer));
    list("Needed by", edges(D.consumer, D.producer));
  }
}

/** @param {(choice: Choice) => void} onSelect */
function fillStalls(onSelect) {
  const host = byId("stalls-body");
  if (!page.timeline) {
    byId("stalls-note").textContent = page.unsimulated;
    return;
  }
  byId("stalls-note").textContent =
    "cycles a wave was ready but could not issue, per steady trip in the loop, in all elsewhere. Standing behind a busy matrix unit is work and not listed.";
  const inside = (loop) => page.stalls.filter((s) => s[T.loop] === loop && s[T.mean] >= 1);
  const rows = (list) =>
    list.slice(0, 12).map((s) => {
      const name =
        s[T.entry] < 0
          ? el("span", "", `${s[T.where]} ${s[T.label]}`)
          : el("button", { className: "link", type: "button" }, `${s[T.where]} ${s[T.label]}`);
      if (s[T.entry] >= 0)
        name.addEventListener("click", () =>
          onSelect({ entry: s[T.entry], op: page.entries[s[T.entry]][E.op], segment: -1 }),
        );
      return el(
        "tr",
        "",
        el("td", "where", name),
        el("td", "num", num(s[T.mean])),
        el("td", "num", num(s[T.worst])),
        el("td", "quiet", s[T.cause] + (s[T.waitedFor] ? `: ${s[T.waitedFor]}` : "")),
      );
    });
  const columns = ["where", ">mean", ">worst", "on what"];
  for (const [title, loop] of /** @type {Array<[string, boolean]>} */ ([
    ["Loop, per trip", true],
    ["Before and after it", false],
  ])) {
    const found = rows(inside(loop));
    host.append(el("div", "", el("h3", "", title), found.length ? table(columns, found) : el("p", "quiet", "nowhere")));
  }
  const shares = page.utilisation.map(([unit, share]) => {
    const fill = el("i");
    fill.style.width = `${Math.min(100, share * 100)}%`;
    return el(
      "tr",
      "",
      el("td", "", unit),
      el("td", "", el("span", "meter", fill)),
      el("td", "num", `${(share * 100).toFixed(1)} %`),
    );
  });
  const side = el(
    "div",
    "",
    el("h3", "", "Units, share of the steady loop busy"),
    table(["unit", "", ">busy"], shares),
  );
  if (page.estimate) {
    const e = page.estimate;
    side.append(
      el("h3", "", "Whole GPU, a model"),
      el(
        "p",
        "",
        el("b", "", `${num(e.tflops)} TFLOPS`),
        ` at ${e.clock} GHz, ${num(e.microseconds)} µs, bound by the ${e.bound}; ${num(e.workgroups)} workgroups in ${e.rounds} rounds`,
      ),
      el("ul", "quiet", ...e.assumptions.map((a) => el("li", "", a))),
    );
  }
  host.append(side);
}

function fillKnobs() {
  const host = byId("knobs-body");
  if (page.notes.length)
    host.append(el("div", "notes", ...page.notes.map((note) => el("p", "note", note))));
  for (const [title, knobs] of page.knobs) {
    host.append(
      el(
        "div",
        "",
        el("h3", "", title),
        table(
          ["name", "value"],
          knobs.map(([name, value, changed]) =>
            el(
              "tr",
              "",
              el("td", "mono", changed ? el("b", "", name) : name),
              el("td", "mono", changed ? el("b", "", value) : value),
            ),
          ),
        ),
      ),
    );
  }
}
