// @ts-check
// Everything on the page that is text: figures, schedule, details, stalls, knobs.

/** The colour of a verdict; none of anything else. @param {string} text */
function statusClass(text) {
  return ["PROVED", "TIMING", "RACE"].includes(text) ? text.toLowerCase() : "";
}

function fillHead() {
  const m = page.meta;
  const what = m.shape ? `${m.program}, ${m.shape}` : m.program;
  const on = m.machine ? ` on ${m.machine}` : "";
  byId("title").textContent = variants.length > 1 ? variants.map((v) => v.meta.variant).join(" vs ") : what + on;
  const parts = variants.length > 1 ? [what + on] : [];
  if (m.tile !== m.shape) parts.push(m.tile);
  if (m.strategy) parts.push(`${m.strategy} order`);
  if (m.stream) parts.push(`the instructions of the emitted kernel ${m.stream}`);
  if (m.sync) parts.push(m.sync);
  if (m.waves)
    parts.push(
      `${m.waves} wave${m.waves === 1 ? "" : "s"}`,
      `simulated for ${m.iterations} trips${m.per_trip && ` of ${m.per_trip}`}: ${num(m.cycles)} cycles, of them ${num(m.prologue)} prologue and ${num(m.epilogue)} epilogue`,
    );
  byId("subtitle").textContent = parts.join(" · ");
  for (const [value, name, why] of page.headline) {
    const status = statusClass(value);
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
  const names = [...new Set(variants.flatMap((v) => v.compared.map(([name]) => name)))];
  const shown = (/** @type {number} */ n) => (n === shownVariant ? " shown" : "");
  const rows = names.map((name) =>
    el(
      "tr",
      "",
      el("td", "quiet", name),
      ...variants.map((v, n) => {
        const found = v.compared.find(([other]) => other === name);
        const why = `${v.meta.variant} has no ${name}`;
        if (!found) return el("td", { className: `quiet${shown(n)}`, title: why }, "–");
        return el("td", `${statusClass(found[1])}${shown(n)}`, found[1]);
      }),
    ),
  );
  const heads = variants.map((v, n) =>
    el("th", shown(n), n === shownVariant ? v.meta.variant : el("a", { href: `?variant=${n}` }, v.meta.variant)),
  );
  const head = el("thead", "", el("tr", "", el("th", "", ""), ...heads));
  byId("variants").append(
    el("div", "head", el("h2", "", "Side by side"), el("p", "quiet", "Choose a column for its steps, dependences and verdict; the timeline has all of them.")),
    el("div", "sideways", el("table", "compared", head, el("tbody", "", ...rows))),
  );
  byId("variants").hidden = false;
  byId("figures").hidden = true;
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
  const withSource = page.entries.some((e) => e[E.source]);
  const columns = withSource ? 4 : 3;
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
      rows.push(el("tr", "phase", el("td", { colSpan: columns }, title)));
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
      withSource && el("td", "quiet source", e[E.source]),
      el("td", "num quiet", withStalls && e[E.stall] >= 1 ? num(e[E.stall]) : ""),
    );
    row.dataset.entry = String(i);
    row.addEventListener("click", () => onSelect({ entry: i, op: e[E.op], segment: -1 }));
    rows.push(row);
    entryRows.push(row);
  });
  const host = byId("schedule");
  const source = withSource ? ["source"] : [];
  const [slot, step] = page.meta.steps ? [">at", "instruction"] : [">slot", "step"];
  host.append(table([slot, step, ...source, withStalls ? ">stall" : ">"], rows));
  let chosen = -1;
  host.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = clamp(chosen + by, 0, page.entries.length - 1);
    onSelect({ entry: next, op: page.entries[next][E.op], segment: -1 });
  });
  return {
    /** @param {Choice} now */
    select(now) {
      chosen = now.entry;
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
  const line = now.line === undefined || !page.assembly ? -1 : now.line;
  if (now.entry < 0 && now.segment < 0 && now.op < 0 && line < 0) {
    host.append(
      el("h3", "", "Nothing selected"),
      el(
        "p",
        "quiet",
        timeline
          ? "Click a bar of the timeline, a step, a line of the assembly, or an op of the dependence graph. They stay together."
          : "Click a row of the schedule or an op of the dependence graph.",
      ),
    );
    return;
  }
  /** @type {Array<[string, string|Node]>} */
  const facts = now.segment >= 0 ? timeline.factsOf(now.segment) : [];
  const entry = now.entry >= 0 ? page.entries[now.entry] : null;
  if (line >= 0 && page.assembly) {
    const [number, text] = page.assembly.lines[line];
    const times = now.segment >= 0 ? timeline.timesOf(now.segment, line) : null;
    if (times) facts.unshift(["this line", `issued ${num(times[0])} to ${num(times[1])}`]);
    if (!entry && now.segment < 0) facts.unshift(["step", "none: addresses, loop counter, start and end"]);
    facts.unshift(["line", `${number} of ${page.assembly.name}`]);
    host.append(el("p", "mono", text));
  }
  if (entry && entry[E.node] >= 0) facts.push(["declared", page.nodes[entry[E.node]][1]]);
  if (entry && entry[E.source]) facts.push(["source", entry[E.source]]);
  const title =
    line >= 0 && !entry && now.segment < 0
      ? "Not of a step"
      : now.segment >= 0
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
  const link = (entry, text) => {
    if (entry < 0) return el("span", "", text);
    const name = el("button", { className: "link", type: "button" }, text);
    name.addEventListener("click", () => onSelect({ entry, op: page.entries[entry][E.op], segment: -1 }));
    return name;
  };
  if (page.beside.length) {
    const cells = page.beside.map(([entry, where, label, ...cycles]) =>
      el("tr", "", el("td", "where", link(entry, `${where} ${label}`)), ...cycles.map((c) => el("td", "num", num(c)))),
    );
    const heads = ["where", ">stall measured", ">simulated", ">issue measured", ">simulated", ">idle measured", ">more than simulated"];
    host.append(el("div", "", el("h3", "", "Measured beside simulated, the largest differences first"), table(heads, cells)));
  }
  const inside = (loop) => page.stalls.filter((s) => s[T.loop] === loop && s[T.mean] >= 1);
  const rows = (list) =>
    list.slice(0, 12).map((s) =>
      el(
        "tr",
        "",
        el("td", "where", link(s[T.entry], `${s[T.where]} ${s[T.label]}`)),
        el("td", "num", num(s[T.mean])),
        el("td", "num", num(s[T.worst])),
        el("td", "quiet", s[T.cause] + (s[T.waitedFor] ? `: ${s[T.waitedFor]}` : "")),
      ),
    );
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
        ` at ${num(e.clock * 1000)} MHz, ${num(e.microseconds)} µs, bound by the ${e.bound}; ${num(e.workgroups)} workgroups in ${e.rounds} rounds`,
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
