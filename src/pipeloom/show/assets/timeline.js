// @ts-check
// The timeline: one lane per wave and unit, then the LDS buffers, over one axis of cycles. Of several
// variants the one that the page is about comes first, the others below it, all over the same axis.

/**
 * What is drawn as a curve: its name, unit and values in equal steps.
 * @param {Timeline} run
 */
function curvesOf(run) {
  return [
    { name: "LDS operations in flight", unit: "operations", values: run.depth.lds },
    { name: "global loads in flight", unit: "KiB", values: run.depth.loads },
    { name: "vector registers live in wave 0", unit: "registers", values: run.depth.live },
  ];
}

/**
 * Lanes from the top: per SIMD its waves and its matrix unit, then the shared units, then LDS.
 * @param {Timeline} run
 */
function lanesOf(run) {
  /** @type {string[]} */
  const names = [];
  /** @type {number[]} */
  const wave = [];
  /** @type {Record<number, number>} */
  const matrix = {};
  const simds = [...new Set(run.waves.map((w) => w[0]))].sort((a, b) => a - b);
  /** @type {number[]} */
  const groupEnds = [];
  for (const simd of simds) {
    run.waves.forEach(([at], number) => {
      if (at !== simd) return;
      wave[number] = names.length;
      names.push(run.names[number] || `wave ${number}`);
    });
    matrix[simd] = names.length;
    names.push(`SIMD ${simd} MFMA`);
    groupEnds.push(names.length);
  }
  const barrier = names.push("barriers") - 1;
  const lds = names.push("LDS in flight") - 1;
  const loads = names.push("loads in flight") - 1;
  const live = run.depth.live.length ? names.push("registers live") - 1 : -1;
  groupEnds.push(names.length);
  const region = run.regions.map((name) => names.push(name) - 1);
  return { names, wave, matrix, barrier, lds, loads, live, region, groupEnds };
}

/**
 * @param {HTMLElement} host
 * @param {(choice: Choice) => void} onSelect
 */
function makeTimeline(host, onSelect) {
  const run = /** @type {Timeline} */ (page.timeline);
  const canvas = /** @type {HTMLCanvasElement} */ (el("canvas"));
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  /** @type {Choice} */
  let selected = { entry: -1, op: -1, segment: -1 };
  /** @type {any} */
  let example = null;
  const last = run.iterations;
  const first = Math.max(0, last - 1);
  const marks = run.marks[0];
  const title = variants.length > 1 ? 18 : 0;
  let bottom = 0;
  const views = [page, ...variants.filter((other) => other !== page && other.timeline)].map((of) => {
    const drawn = /** @type {Timeline} */ (of.timeline);
    const lanes = lanesOf(drawn);
    /** @type {Box} */
    const area = { x: 1, y: bottom + title + TOP, width: 1, height: lanes.names.length * LANE };
    bottom = area.y + area.height;
    return /** @type {View} */ ({
      of,
      shift: 0,
      axis: false,
      run: drawn,
      lanes,
      frames: drawn.frames,
      c: palette(),
      overlay: [],
      ctx,
      area,
      range: [0, drawn.total],
      hits: [],
      pins: [],
      measured: null,
    });
  });
  const view = views[0];
  const { area, lanes } = view;
  views[views.length - 1].axis = true;
  ctx.font = FONT.replace("10px", "11px");
  const names = Math.max(...views.flatMap((v) => v.lanes.names.map((name) => ctx.measureText(name).width)));
  for (const v of views) v.area.x = Math.ceil(names) + 16;
  const painters = views.map(makeRenderer);
  const total = Math.max(...views.map((v) => v.run.total));
  const range = makeRange(host, canvas, area, total, redraw, measure);

  /** Move the others so that their last iterations begin where this one's does. @param {boolean} on */
  function align(on) {
    for (const v of views.slice(1))
      v.shift = on ? marks[first] - v.run.marks[0][Math.max(0, v.run.iterations - 1)] : 0;
    redraw();
  }

  /** Mark a range and say how long it is. @param {[number, number]|null} span */
  function measure(span) {
    for (const v of views) v.measured = span;
    redraw();
  }

  /** The segment of the same wave and entry nearest in iteration to `iteration`. */
  function instance(wave, entry, iteration) {
    let best = -1;
    run.segments.forEach((s, i) => {
      if (s[S.wave] !== wave || s[S.entry] !== entry) return;
      if (
        best < 0 ||
        Math.abs(s[S.iteration] - iteration) < Math.abs(run.segments[best][S.iteration] - iteration)
      )
        best = i;
    });
    return best;
  }

  /** The segment a step of the counterexample stands for, or -1. */
  function placeSegment(place) {
    return place && place[P.entry] >= 0
      ? instance(place[P.wave], place[P.entry], place[P.iteration] === null ? -1 : place[P.iteration])
      : -1;
  }

  /** What the selected segment depends on in this run: [segment, "needs"|"waited"]. */
  function dependences(index) {
    const s = run.segments[index];
    /** @type {Array<[number, string]>} */
    const found = s[S.retires].map((i) => [i, "waited"]);
    if (s[S.source] >= 0 && s[S.source] !== index && !s[S.retires].includes(s[S.source]))
      found.push([s[S.source], "waited"]);
    if (s[S.entry] < 0 || page.entries[s[S.entry]][E.op] < 0) return found;
    const track = (/** @type {number} */ entry) => page.sections[page.entries[entry][E.section]][N.track];
    for (const edge of page.edges) {
      if (edge[D.consumer] !== page.entries[s[S.entry]][E.op]) continue;
      const options = page.entries
        .map((e, i) => i)
        .filter(
          (i) =>
            page.entries[i][E.op] === edge[D.producer] && (isNear(i, s[S.entry]) || edge[D.distance] > 0),
        );
      const before = run.segments
        .map((other, i) => i)
        .filter(
          (i) =>
            options.includes(run.segments[i][S.entry]) &&
            (run.segments[i][S.wave] === s[S.wave] || track(run.segments[i][S.entry]) !== track(s[S.entry])) &&
            run.segments[i][S.start] < s[S.start],
        );
      if (before.length)
        found.push([
          before.reduce((a, b) => (run.segments[a][S.start] > run.segments[b][S.start] ? a : b)),
          "needs",
        ]);
    }
    return found;
  }

  /** Lines of the assembly of a segment, instruction by instruction; [] where they are not known. @param {number} i */
  function linesAt(i) {
    const lines = run.lines[i];
    if (lines === undefined) return [];
    return Array.isArray(lines) ? lines : run.segments[i][S.pulses].slice(0, run.segments[i][S.pulses].length / 2).map((_, n) => lines + n);
  }

  /** When the instruction on a line was issued as part of a segment. @param {number} i @param {number} line @returns {[number, number]|null} */
  function timesOf(i, line) {
    const n = linesAt(i).indexOf(line);
    if (n < 0) return null;
    const pulses = run.segments[i][S.pulses];
    let at = run.segments[i][S.ready];
    for (let p = 0; p < 2 * n; p += 1) at += pulses[p];
    return [at + pulses[2 * n], at + pulses[2 * n] + pulses[2 * n + 1]];
  }

  /** The line whose instruction a wave issues at a cycle, or waits to; -1 where that is not known. @param {number} i @param {number} cycle */
  function lineAt(i, cycle) {
    const lines = linesAt(i);
    const pulses = run.segments[i][S.pulses];
    let at = run.segments[i][S.ready];
    for (let n = 0; n < lines.length; n += 1) {
      at += pulses[2 * n] + pulses[2 * n + 1];
      if (cycle < at || n === lines.length - 1) return lines[n];
    }
    return -1;
  }

  /** Where in time a line is shown: the segment nearest to the middle of what is in sight, or -1. @param {number} entry @param {number} line @param {number} group */
  function nearest(entry, line, group) {
    const [a, b] = range.visible();
    const wave = selected.segment >= 0 ? run.segments[selected.segment][S.wave] : -1;
    let [best, least] = [-1, Infinity];
    run.segments.forEach((s, i) => {
      const fits = run.lines.length ? linesAt(i).includes(line) : entry >= 0 && s[S.entry] === entry && run.waves[s[S.wave]][1] === group;
      if (!fits) return;
      const outside = s[S.free] < a || s[S.ready] > b ? 1e9 : 0;
      const other = wave >= 0 && s[S.wave] !== wave ? 1e6 : 0;
      const away = Math.abs(s[S.start] - (a + b) / 2) + outside + other;
      if (away < least) [best, least] = [i, away];
    });
    return best;
  }

  /** The next instruction of the wave of what is selected, or the nearest of another wave. @param {number} by @param {boolean} waves */
  function beside(by, waves) {
    if (selected.segment < 0) {
      const [a] = range.visible();
      return run.segments.findIndex((s) => s[S.start] >= a);
    }
    const s = run.segments[selected.segment];
    if (!waves) {
      const next = run.segments[selected.segment + by];
      return next && next[S.wave] === s[S.wave] ? selected.segment + by : selected.segment;
    }
    const order = [...run.waves.keys()].sort((p, q) => lanes.wave[p] - lanes.wave[q]);
    const wave = order[order.indexOf(s[S.wave]) + by];
    let [best, least] = [selected.segment, Infinity];
    run.segments.forEach((other, i) => {
      const away = Math.abs(other[S.start] - s[S.start]);
      if (other[S.wave] === wave && away < least) [best, least] = [i, away];
    });
    return best;
  }

  function marksOnTop() {
    /** @type {Mark[]} */
    const found = [];
    if (selected.entry >= 0)
      run.segments.forEach((s, i) => {
        if (s[S.entry] === selected.entry && i !== selected.segment) found.push({ kind: "same", i });
      });
    if (selected.segment >= 0) {
      found.push({ kind: "chosen", i: selected.segment });
      const times = selected.line === undefined ? null : timesOf(selected.segment, selected.line);
      if (times) found.push({ kind: "line", i: selected.segment, times });
      for (const [i, text] of dependences(selected.segment))
        found.push({ kind: "same", i }, { kind: "link", i, to: selected.segment, text });
    }
    if (example)
      example.steps.forEach((step, n) => {
        const i = placeSegment(step[2]);
        if (i >= 0) found.push({ kind: "pin", i, text: String(n + 1) });
      });
    return found;
  }

  /** @param {Hit} hit */
  function describe({ kind, i, view: { of, run } }) {
    if (kind === "issue") return tipText(titleOf(i, of), factsOf(i, of));
    if (kind === "matrix") {
      const row = run.matrix[i];
      return tipText(titleOf(row[M.segment], of), [
        [
          "matrix unit",
          `busy ${num(row[M.from])} to ${num(row[M.to])}, ${num(row[M.to] - row[M.from])} cycles without a gap`,
        ],
      ]);
    }
    if (kind === "barriers") {
      const row = run.barriers[i];
      return tipText(`barrier ${i}`, [
        ["first wave", `arrives at ${num(row[R.from])}`],
        ["released", `${num(row[R.to])}, ${num(row[R.to] - row[R.from])} cycles later`],
        ["last wave", `wave ${row[R.last]}`],
      ]);
    }
    if (kind === "buffers") {
      const row = run.buffers[i];
      return tipText(`LDS ${run.regions[row[U.region]]}`, [
        [row[U.use] ? "read" : "written", `${of.meta.over} ${row[U.tile]}`],
        ["cycles", `${num(row[U.from])} to ${num(row[U.to])}`],
        ["by", row[U.use] ? "reads, first to last" : "loads and writes, issue to landing"],
      ]);
    }
    const { name, unit, values } = curvesOf(run)[i];
    return tipText(name, [
      ["most", `${Math.max(...values)} ${unit}`],
      ["scale", "the lane is as high as the most seen, which stands at its left; its foot is 0"],
    ]);
  }

  /** @param {number} i @param {Page} [of] */
  function titleOf(i, of = page) {
    const s = /** @type {Timeline} */ (of.timeline).segments[i];
    return s[S.label] + (s[S.tile] >= 0 ? `, ${of.meta.over} ${s[S.tile]}` : "");
  }

  /** @param {number} i @param {Page} [of] @returns {Array<[string, string]>} */
  function factsOf(i, of = page) {
    const run = /** @type {Timeline} */ (of.timeline);
    const s = run.segments[i];
    const [before, after] = [s[S.iteration] < 0, s[S.iteration] >= run.iterations];
    const part = before ? "prologue" : after ? "epilogue" : `trip ${s[S.iteration]}`;
    const named = s[S.entry] >= 0 ? entryName(s[S.entry], of) : "";
    const where = named && (before || after) ? named : [part, named].filter(Boolean).join(", ");
    const count = s[S.pulses].length / 2;
    /** @type {Array<[string, string]>} */
    const facts = [["wave", `${run.names[s[S.wave]] || s[S.wave]}, ${where}`]];
    facts.push([
      "issued",
      `${num(s[S.start])} to ${num(s[S.free])}${count > 1 ? `, ${count} instructions` : ""}`,
    ]);
    if (s[S.colour] < 3) facts.push([s[S.colour] === 2 ? "landed" : "done", num(s[S.done])]);
    if (s[S.stall] > 0) {
      const source = s[S.source] >= 0 ? run.segments[s[S.source]] : null;
      const on = source && s[S.source] !== i ? ` (${source[S.label]}, wave ${source[S.wave]})` : "";
      facts.push(["stood", `${num(s[S.stall])} cycles: ${run.causes[s[S.cause]]}${on}`]);
    } else facts.push(["stood", "not at all"]);
    if (s[S.retires].length) facts.push(["waits for", s[S.retires].map((n) => titleOf(n, of)).join("; ")]);
    return facts;
  }

  let waiting = false;
  /** Draw with the next frame, however many changes there are until then. */
  function redraw() {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  }

  function paint() {
    waiting = false;
    const [width, tall, density] = [host.clientWidth, bottom + 24, devicePixelRatio];
    Object.assign(canvas, { width: width * density, height: tall * density });
    Object.assign(canvas.style, { width: `${width}px`, height: `${tall}px` });
    ctx.scale(density, density);
    for (const v of views) {
      v.area.width = Math.max(width - area.x - 10, 1);
      v.range = range.visible();
    }
    for (const draw of painters) draw();
  }

  function refresh() {
    view.overlay = marksOnTop();
    redraw();
  }

  /** What is under the mouse: what was drawn last is on top. @param {MouseEvent} event */
  function hitAt(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    return views
      .flatMap((v) => v.hits)
      .findLast((b) => x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height);
  }

  /** The segment of this page that a hit stands for, or -1. @param {Hit|undefined} hit */
  function segmentOf(hit) {
    if (hit && hit.view !== view) return -1;
    if (hit && hit.kind === "issue") return hit.i;
    if (hit && hit.kind === "matrix") return run.matrix[hit.i][M.segment];
    if (hit && hit.kind === "buffers") return run.buffers[hit.i][U.segment];
    return -1;
  }

  /** @param {MouseEvent} event */
  function hover(event) {
    const hit = event.buttons ? undefined : hitAt(event);
    canvas.style.cursor = segmentOf(hit) >= 0 ? "pointer" : event.buttons ? "grabbing" : "grab";
    const { top } = canvas.getBoundingClientRect();
    const { area: over, lanes: there } = hit ? hit.view : view;
    const waves = { top: top + over.y, bottom: top + over.y + there.barrier * LANE };
    const near = { top: event.clientY - 2.5 * LANE, bottom: event.clientY + 2.5 * LANE };
    showTip(event, hit && describe(hit), event.offsetY < over.y + there.barrier * LANE ? [waves, near] : []);
  }

  host.append(canvas, range.track);
  range.track.style.margin = `0 10px 0 ${area.x}px`;
  align(true);
  if (last > 0) range.show(marks[first], marks[last]);
  else range.show(0, run.total);
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", () => showTip());
  canvas.addEventListener("click", (event) => {
    const segment = range.dragged() ? -1 : segmentOf(hitAt(event));
    hover(event);
    if (segment < 0) return;
    const [a, b] = range.visible();
    choose(segment, lineAt(segment, a + ((event.offsetX - area.x) / area.width) * (b - a)));
  });
  host.addEventListener("keydown", (event) => {
    /** @type {Record<string, [number, boolean]>} */
    const keys = { ArrowUp: [-1, true], ArrowDown: [1, true] };
    if (event.shiftKey) Object.assign(keys, { ArrowLeft: [-1, false], ArrowRight: [1, false] });
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const segment = beside(...keys[event.key]);
    if (segment >= 0) choose(segment, linesAt(segment)[0]);
  });

  /** @param {number} segment @param {number} [line] */
  function choose(segment, line = -1) {
    const entry = run.segments[segment][S.entry];
    onSelect({ entry, op: entry < 0 ? -1 : page.entries[entry][E.op], segment, line });
  }
  new ResizeObserver(redraw).observe(host);

  return {
    visible: range.visible,
    show: range.show,
    zoom: range.zoom,
    titleOf,
    factsOf,
    linesAt,
    timesOf,
    nearest,
    dependences,
    placeSegment,
    /** Where a cycle of a wave is on the canvas. @param {number} cycle @param {number} wave */
    pixel(cycle, wave) {
      const [a, b] = range.visible();
      const lane = lanes.wave[wave];
      return [area.x + ((cycle - a) / (b - a)) * area.width, area.y + (lane + 0.5) * LANE];
    },
    pins: () => view.pins,
    views,
    align,
    measure,
    measured: () => view.measured,
    rule: range.rule,
    lanes: lanes.names,
    /** Mark a selection; scroll the time axis to it if it is out of sight. @param {Choice} now */
    select(now) {
      selected = now;
      refresh();
      if (now.segment < 0) return;
      const s = run.segments[now.segment];
      const [a, b] = range.visible();
      if (s[S.free] < a || s[S.ready] > b) range.show(s[S.ready] - (b - a) / 2, s[S.ready] + (b - a) / 2);
    },
    /** Draw a counterexample's steps where they stand in this run, and perhaps zoom there. */
    mark(now, zoom) {
      example = now;
      refresh();
      if (!zoom) return;
      const found = example.steps.map((step) => placeSegment(step[2])).filter((i) => i >= 0);
      if (!found.length) return;
      const from = Math.min(...found.map((i) => run.segments[i][S.ready]));
      const to = Math.max(...found.map((i) => run.segments[i][S.free]));
      const margin = Math.max(200, (to - from) * 0.4);
      range.show(from - margin, to + margin);
    },
    ranges: /** @type {Array<[string, number, number]>} */ ([
      ["All", 0, total],
      ["Prologue", 0, marks[0]],
      ...(last > 0 ? [["1 trip", marks[first], marks[last]]] : []),
      ...(last > 1 ? [["2 trips", marks[last - 2], marks[last]]] : []),
      ["Epilogue", marks[last], run.total],
    ]),
    recolour() {
      for (const v of views) v.c = palette();
      redraw();
    },
  };
}
