// @ts-check
// The timeline: one lane per wave and unit, then the LDS buffers, over one axis of cycles.

const LANE = 22;
const FONT = "10px system-ui, 'Liberation Sans', sans-serif";

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
      names.push(`wave ${number}`);
    });
    matrix[simd] = names.length;
    names.push(`SIMD ${simd} MFMA`);
    groupEnds.push(names.length);
  }
  const barrier = names.push("barriers") - 1;
  const lds = names.push("LDS in flight") - 1;
  const loads = names.push("loads in flight") - 1;
  groupEnds.push(names.length);
  const region = run.regions.map((name) => names.push(name.replace(/, stage (\d+), half (\d+)/, " stage $1 half $2")) - 1);
  return { names, wave, matrix, barrier, lds, loads, region, groupEnds };
}

/**
 * @param {HTMLElement} host
 * @param {(selection: Selection) => void} onSelect
 */
function makeTimeline(host, onSelect) {
  const run = /** @type {Timeline} */ (page.timeline);
  const lanes = lanesOf(run);
  const height = lanes.names.length * LANE;
  const plot = { left: 118, right: 10, top: 20, height };
  host.style.height = `${height + plot.top + 56}px`;
  const chart = echarts.init(host, null, { renderer: "canvas" });
  /** @type {Selection} */
  let selected = { entry: -1, op: -1, segment: -1 };
  const pins = Boolean(page.verdict.example);
  let c = palette();

  /** Visible part of [from, to] in a lane, in pixels; null if outside. */
  function box(params, api, from, to, lane, inset) {
    const a = api.coord([from, lane]);
    const b = api.coord([to, lane]);
    const area = params.coordSys;
    const left = Math.max(a[0], area.x);
    const right = Math.min(b[0], area.x + area.width);
    if (right < area.x || left > area.x + area.width) return null;
    return { x: left, y: a[1] - LANE / 2 + inset, width: Math.max(right - left, 0.6), height: LANE - 2 * inset, scale: (b[0] - a[0]) / Math.max(to - from, 1), origin: a[0] };
  }

  /** The first of the texts that fits a box, or nothing. */
  function caption(b, texts, fill) {
    const text = texts.find((t) => t.length * 5.4 + 4 <= b.width);
    if (!text) return null;
    return { type: "text", silent: true, style: { text, x: b.x + b.width / 2, y: b.y + b.height / 2, align: "center", verticalAlign: "middle", fill, font: FONT } };
  }

  const rect = (b, style) => ({ type: "rect", shape: { x: b.x, y: b.y, width: b.width, height: b.height }, style });

  function drawSegment(params, api) {
    const s = run.segments[api.value(3)];
    const lane = api.value(2);
    const b = box(params, api, s[S.ready], s[S.free], lane, 2);
    if (!b) return null;
    const colour = c.kinds[s[S.colour]];
    const children = [rect(b, { fill: fade(colour, 0.22) })];
    const area = params.coordSys;
    const single = s[S.pulses].length === 2;
    const duty = 1 - s[S.stall] / Math.max(s[S.free] - s[S.ready], 1);
    const striped = !single && b.scale * (s[S.free] - s[S.ready]) / s[S.pulses].length >= 3;
    if (!striped) {
      const solid = box(params, api, s[S.start], s[S.free], lane, 2);
      const strength = single || s[S.colour] === 0 ? 1 : Math.max(0.45, duty);
      if (solid) children.push(rect(solid, { fill: fade(colour, strength) }));
    } else {
      let at = s[S.ready];
      for (let i = 0; i < s[S.pulses].length; i += 2) {
        const from = at + s[S.pulses][i];
        at = from + s[S.pulses][i + 1];
        const left = Math.max(b.origin + (from - s[S.ready]) * b.scale, area.x);
        const right = Math.min(b.origin + (at - s[S.ready]) * b.scale, area.x + area.width);
        if (right > left) children.push(rect({ x: left, y: b.y, width: Math.max(right - left - 0.5, 0.6), height: b.height }, { fill: colour }));
      }
    }
    const short = s[S.label].replace(/^(mma|frag|load) /, "");
    const onFill = !single && (s[S.colour] === 0 || duty > 0.6);
    const text = caption(b, [s[S.label], short], onFill && !striped ? c["on-fill"] : c.ink);
    if (text && striped) Object.assign(text.style, { stroke: c.card, lineWidth: 3 });
    if (text) children.push(text);
    return { type: "group", children };
  }

  function drawMatrix(params, api) {
    const row = run.matrix[api.value(3)];
    const b = box(params, api, row[M.from], row[M.to], api.value(2), 3);
    if (!b) return null;
    const wave = run.segments[row[M.segment]][S.wave];
    const group = run.waves[wave][1];
    const children = [rect(b, { fill: fade(c.mma, group ? 0.55 : 0.9) })];
    const text = caption(b, [`wave ${wave}`, String(wave)], group ? c.ink : c["on-fill"]);
    if (text) children.push(text);
    return { type: "group", children };
  }

  function drawBarrier(params, api) {
    const row = run.barriers[api.value(3)];
    const b = box(params, api, row[R.from], row[R.to], lanes.barrier, 7);
    if (!b) return null;
    const end = api.coord([row[R.to], lanes.barrier])[0];
    const children = [rect(b, { fill: fade(c.kinds[4], 0.3) })];
    if (end <= params.coordSys.x + params.coordSys.width) children.push(rect({ x: end - 2, y: b.y - 4, width: 2, height: LANE - 6 }, { fill: c.kinds[4] }));
    return { type: "group", children };
  }

  function drawDepth(params, api) {
    const isLds = api.value(3) === 0;
    const values = isLds ? run.depth.lds : run.depth.loads;
    const lane = isLds ? lanes.lds : lanes.loads;
    const area = params.coordSys;
    const base = api.coord([0, lane])[1] + LANE / 2 - 2;
    const top = Math.max(...values) || 1;
    /** @type {number[][]} */
    const points = [];
    values.forEach((value, i) => {
      const x0 = api.coord([i * run.depth.step, lane])[0];
      const x1 = api.coord([(i + 1) * run.depth.step, lane])[0];
      if (x1 < area.x || x0 > area.x + area.width) return;
      const y = base - (value / top) * (LANE - 4);
      points.push([Math.max(x0, area.x), y], [Math.min(x1, area.x + area.width), y]);
    });
    if (!points.length) return null;
    points.push([points[points.length - 1][0], base], [points[0][0], base]);
    const colour = isLds ? c.lds : c.global;
    return { type: "polygon", shape: { points }, style: { fill: fade(colour, 0.45), stroke: colour, lineWidth: 0.7 } };
  }

  function drawBuffer(params, api) {
    const row = run.buffers[api.value(3)];
    const b = box(params, api, row[U.from], row[U.to], api.value(2), 1);
    if (!b) return null;
    const half = { ...b, height: b.height / 2 - 0.5, y: row[U.use] ? b.y + b.height / 2 + 0.5 : b.y };
    const colour = row[U.use] ? c.lds : c.global;
    const children = [rect(half, { fill: fade(colour, 0.8) })];
    const text = caption(half, [`${row[U.use] ? "read" : "write"} K${row[U.tile]}`, `K${row[U.tile]}`], c["on-fill"]);
    if (text) { text.style.font = FONT.replace("10px", "9px"); children.push(text); }
    return { type: "group", children };
  }

  /** Vertical lines where iterations begin, and the name of each part above. */
  function drawFrame(params, api) {
    const [from, to] = [api.value(0), api.value(1)];
    const area = params.coordSys;
    const x = api.coord([from, 0])[0];
    const end = api.coord([to, 0])[0];
    const children = [];
    if (x >= area.x && x <= area.x + area.width) children.push({ type: "line", shape: { x1: x, y1: area.y - 14, x2: x, y2: area.y + area.height }, style: { stroke: c.quiet, lineWidth: 1, lineDash: [3, 3], opacity: 0.6 } });
    const left = Math.max(x, area.x);
    const right = Math.min(end, area.x + area.width);
    const name = frames[params.dataIndex][2];
    if (right - left > name.length * 6) children.push({ type: "text", style: { text: name, x: left + 4, y: area.y - 13, fill: c.quiet, font: FONT.replace("10px", "11px") } });
    return children.length ? { type: "group", silent: true, children } : null;
  }

  /** The line under a group of lanes. */
  function drawGroup(params, api) {
    const area = params.coordSys;
    const y = api.coord([0, api.value(2)])[1] + LANE / 2;
    return { type: "line", silent: true, shape: { x1: area.x - 110, y1: y, x2: area.x + area.width, y2: y }, style: { stroke: c.quiet, lineWidth: 1, opacity: 0.45 } };
  }

  const marks = run.marks[0];
  /** @type {Array<[number, number, string]>} */
  const frames = [[0, marks[0], "prologue"]];
  for (let i = 0; i < run.iterations; i += 1) frames.push([marks[i], marks[i + 1], `iteration ${i}`]);
  frames.push([marks[run.iterations], run.total, "epilogue"]);

  /** The segment of the same wave and entry nearest in iteration to `iteration`. */
  function instance(wave, entry, iteration) {
    let best = -1;
    run.segments.forEach((s, i) => {
      if (s[S.wave] !== wave || s[S.entry] !== entry) return;
      if (best < 0 || Math.abs(s[S.iteration] - iteration) < Math.abs(run.segments[best][S.iteration] - iteration)) best = i;
    });
    return best;
  }

  /** The segment a step of the counterexample stands for, or -1. */
  function placeSegment(place) {
    return place && place[P.entry] >= 0 ? instance(place[P.wave], place[P.entry], place[P.iteration] === null ? -1 : place[P.iteration]) : -1;
  }

  /** What the selected segment depends on in this run: [segment, "needs"|"waited"]. */
  function dependences(index) {
    const s = run.segments[index];
    /** @type {Array<[number, string]>} */
    const found = s[S.retires].map((i) => [i, "waited"]);
    if (s[S.source] >= 0 && s[S.source] !== index && !s[S.retires].includes(s[S.source])) found.push([s[S.source], "waited"]);
    if (s[S.entry] < 0 || page.entries[s[S.entry]][E.op] < 0) return found;
    const phase = page.entries[s[S.entry]][E.phase];
    for (const edge of page.edges) {
      if (edge[D.consumer] !== page.entries[s[S.entry]][E.op]) continue;
      const options = page.entries.map((e, i) => i).filter((i) => page.entries[i][E.op] === edge[D.producer] && (page.entries[i][E.phase] === phase || edge[D.distance] > 0));
      const before = run.segments.map((other, i) => i).filter((i) => run.segments[i][S.wave] === s[S.wave] && options.includes(run.segments[i][S.entry]) && run.segments[i][S.start] < s[S.start]);
      if (before.length) found.push([before.reduce((a, b) => (run.segments[a][S.start] > run.segments[b][S.start] ? a : b)), "needs"]);
    }
    return found;
  }

  function drawOverlay(params, api) {
    const kind = overlay[params.dataIndex][4];
    const i = api.value(3);
    if (kind === "link") return drawLink(params, api, i, overlay[params.dataIndex][5], overlay[params.dataIndex][6]);
    const s = run.segments[i];
    const b = box(params, api, s[S.ready], s[S.free], lanes.wave[s[S.wave]], 1);
    if (!b) return null;
    if (kind === "pin") {
      const number = overlay[params.dataIndex][5];
      const x = Math.max(api.coord([s[S.start], 0])[0], params.coordSys.x) + 8 + 15 * overlay[params.dataIndex][6];
      const y = b.y - 1;
      return { type: "group", silent: true, children: [
        rect(b, { fill: "none", stroke: c.race, lineWidth: 2 }),
        { type: "circle", shape: { cx: x, cy: y, r: 8 }, style: { fill: c.race, stroke: c.card, lineWidth: 1 } },
        { type: "text", style: { text: number, x, y, align: "center", verticalAlign: "middle", fill: c.card, font: `bold ${FONT}` } }] };
    }
    const width = kind === "chosen" ? 2.5 : 1.2;
    return { silent: true, ...rect(b, { fill: "none", stroke: kind === "chosen" ? c.ink : c.accent, lineWidth: width }) };
  }

  function drawLink(params, api, from, to, name) {
    const [a, b] = [run.segments[from], run.segments[to]];
    const p = api.coord([a[S.start], lanes.wave[a[S.wave]]]);
    const q = api.coord([b[S.start], lanes.wave[b[S.wave]]]);
    const area = params.coordSys;
    const clampX = (x) => Math.min(Math.max(x, area.x), area.x + area.width);
    if (Math.max(p[0], q[0]) < area.x || Math.min(p[0], q[0]) > area.x + area.width) return null;
    const bend = p[1] === q[1] ? -LANE : 0;
    return { type: "bezierCurve", silent: true, shape: { x1: clampX(p[0]), y1: p[1], x2: clampX(q[0]), y2: q[1], cpx1: clampX((p[0] + q[0]) / 2), cpy1: (p[1] + q[1]) / 2 + bend },
      style: { stroke: name === "needs" ? c.needs : c.ink, fill: "none", lineWidth: 1.6, lineDash: name === "needs" ? [] : [4, 3] } };
  }

  /** @type {any[][]} */
  let overlay = [];
  function overlayRows() {
    /** @type {any[][]} */
    const rows = [];
    const add = (i, ...more) => rows.push([run.segments[i][S.ready], run.segments[i][S.free], lanes.wave[run.segments[i][S.wave]], i, ...more]);
    if (selected.entry >= 0) run.segments.forEach((s, i) => { if (s[S.entry] === selected.entry && i !== selected.segment) add(i, "same"); });
    if (selected.segment >= 0) {
      add(selected.segment, "chosen");
      for (const [i, name] of dependences(selected.segment)) {
        add(i, "same");
        const [a, b] = [run.segments[i], run.segments[selected.segment]];
        rows.push([a[S.start], b[S.start], 0, i, "link", selected.segment, name]);
      }
    }
    if (pins && page.verdict.example) {
      /** @type {Record<number, number>} */
      const seen = {};
      page.verdict.example.steps.forEach((step, n) => {
        const i = placeSegment(step[2]);
        if (i < 0) return;
        seen[i] = (seen[i] ?? -1) + 1;
        add(i, "pin", String(n + 1), seen[i]);
      });
    }
    return rows;
  }

  /** @param {string} title @param {Array<[string, string]>} facts */
  function tip(title, facts) {
    return el("div", "tip", el("b", "", title), el("dl", "", ...facts.flatMap(([k, v]) => [el("dt", "", k), el("dd", "", v)])));
  }

  function describe(params) {
    const i = params.value[3];
    if (params.seriesId === "issue") return tip(titleOf(i), factsOf(i));
    if (params.seriesId === "matrix") {
      const row = run.matrix[i];
      return tip(titleOf(row[M.segment]), [["matrix unit", `busy ${num(row[M.from])} to ${num(row[M.to])}, ${num(row[M.to] - row[M.from])} cycles without a gap`]]);
    }
    if (params.seriesId === "barriers") {
      const row = run.barriers[i];
      return tip(`barrier ${i}`, [["first wave", `arrives at ${num(row[R.from])}`], ["released", `${num(row[R.to])}, ${num(row[R.to] - row[R.from])} cycles later`], ["last wave", `wave ${row[R.last]}`]]);
    }
    if (params.seriesId === "buffers") {
      const row = run.buffers[i];
      return tip(`LDS ${run.regions[row[U.region]]}`, [[row[U.use] ? "read" : "written", `K tile ${row[U.tile]}`], ["cycles", `${num(row[U.from])} to ${num(row[U.to])}`], ["by", row[U.use] ? "fragment loads, first to last" : "global loads, issue to landing"]]);
    }
    const values = i === 0 ? run.depth.lds : run.depth.loads;
    return tip(i === 0 ? "LDS operations in flight" : "global loads in flight", [["most", i === 0 ? `${Math.max(...values)} operations` : `${Math.max(...values)} KiB`], ["scale", "height of the lane is the most seen"]]);
  }

  /** @param {number} i */
  function titleOf(i) {
    const s = run.segments[i];
    return s[S.label] + (s[S.tile] >= 0 ? `, K tile ${s[S.tile]}` : "");
  }

  /** @param {number} i @returns {Array<[string, string]>} */
  function factsOf(i) {
    const s = run.segments[i];
    const where = s[S.iteration] < 0 ? "prologue" : s[S.iteration] >= run.iterations ? "epilogue" : `iteration ${s[S.iteration]}`;
    const count = s[S.pulses].length / 2;
    /** @type {Array<[string, string]>} */
    const facts = [["wave", `${s[S.wave]}, ${where}${s[S.entry] >= 0 ? `, ${entryName(s[S.entry])}` : ""}`]];
    facts.push(["issued", `${num(s[S.start])} to ${num(s[S.free])}${count > 1 ? `, ${count} instructions` : ""}`]);
    if (s[S.colour] < 3) facts.push([s[S.colour] === 2 ? "landed" : "done", num(s[S.done])]);
    if (s[S.stall] > 0) {
      const source = s[S.source] >= 0 ? run.segments[s[S.source]] : null;
      const on = source && s[S.source] !== i ? ` (${source[S.label]}, wave ${source[S.wave]})` : "";
      facts.push(["stood", `${num(s[S.stall])} cycles: ${run.causes[s[S.cause]]}${on}`]);
    } else facts.push(["stood", "not at all"]);
    if (s[S.retires].length) facts.push(["waits for", s[S.retires].map((n) => titleOf(n)).join("; ")]);
    return facts;
  }

  /** Series data: from, to, lane, row. */
  const rows = (list, from, to, lane) => list.map((row, i) => [row[from], row[to], lane(row), i]);

  function option(range) {
    const series = (id, renderItem, data, extra = {}) => ({ id, type: "custom", renderItem, data, encode: { x: [0, 1], y: 2 }, clip: true, animation: false, progressive: 0, ...extra });
    return {
      animation: false,
      grid: plot,
      tooltip: { trigger: "item", formatter: describe, ...tooltipStyle(c) },
      xAxis: { type: "value", min: 0, max: run.total, axisLabel: { color: c.quiet, fontSize: 11, formatter: (v) => num(v), hideOverlap: true }, splitLine: { lineStyle: { color: c.line, opacity: 0.6 } }, axisLine: { lineStyle: { color: c.line } } },
      yAxis: { type: "category", inverse: true, data: lanes.names, axisTick: { show: false }, axisLine: { show: false }, splitArea: { show: true, areaStyle: { color: [c.card, c.band] } },
        axisLabel: { color: c.ink, fontSize: 11, interval: 0 } },
      dataZoom: [
        { type: "inside", id: "wheel", filterMode: "weakFilter", startValue: range[0], endValue: range[1], minValueSpan: 60, zoomOnMouseWheel: true, moveOnMouseMove: true },
        { type: "slider", id: "slider", filterMode: "weakFilter", startValue: range[0], endValue: range[1], minValueSpan: 60, height: 20, bottom: 6, left: plot.left, right: plot.right, showDataShadow: false, brushSelect: false,
          borderColor: c.line, fillerColor: fade(c.accent, 0.18), backgroundColor: c.band, handleStyle: { color: c.accent, borderColor: c.accent }, moveHandleStyle: { color: c.accent }, emphasis: { moveHandleStyle: { color: c.accent } }, textStyle: { color: c.quiet, fontSize: 11 }, labelFormatter: (v) => num(v) },
      ],
      series: [
        series("frames", drawFrame, frames.map(([a, b], i) => [a, b, 0, i]), { silent: true, clip: false, z: 1 }),
        series("groups", drawGroup, lanes.groupEnds.slice(0, -1).map((end) => [0, run.total, end - 1, 0]), { silent: true, clip: false, z: 1 }),
        series("depth", drawDepth, [[0, run.total, lanes.lds, 0], [0, run.total, lanes.loads, 1]]),
        series("issue", drawSegment, rows(run.segments, S.ready, S.free, (s) => lanes.wave[s[S.wave]])),
        series("matrix", drawMatrix, rows(run.matrix, M.from, M.to, (m) => lanes.matrix[m[M.simd]])),
        series("barriers", drawBarrier, rows(run.barriers, R.from, R.to, () => lanes.barrier)),
        series("buffers", drawBuffer, rows(run.buffers, U.from, U.to, (u) => lanes.region[u[U.region]])),
        series("overlay", drawOverlay, overlay, { silent: true, clip: false, z: 10 }),
      ],
    };
  }

  function visible() {
    const zoom = /** @type {any} */ (chart.getOption()).dataZoom[0];
    return /** @type {[number, number]} */ ([zoom.startValue, zoom.endValue]);
  }

  /** @param {number} from @param {number} to */
  function show(from, to) {
    chart.dispatchAction({ type: "dataZoom", startValue: Math.max(0, from), endValue: Math.min(run.total, to) });
  }

  function refresh() {
    overlay = overlayRows();
    chart.setOption({ series: [{ id: "overlay", data: overlay }] });
  }

  const last = run.iterations;
  const first = Math.max(0, last - 1);
  chart.setOption(option([marks[first], marks[last]]));
  refresh();
  chart.on("click", (params) => {
    const i = /** @type {any} */ (params).value[3];
    let segment = -1;
    if (params.seriesId === "issue") segment = i;
    else if (params.seriesId === "matrix") segment = run.matrix[i][M.segment];
    else if (params.seriesId === "buffers") segment = run.buffers[i][U.segment];
    if (segment < 0) return;
    const entry = run.segments[segment][S.entry];
    onSelect({ entry, op: entry < 0 ? -1 : page.entries[entry][E.op], segment });
  });
  new ResizeObserver(() => chart.resize()).observe(host);

  return {
    chart,
    visible,
    show,
    titleOf,
    factsOf,
    dependences,
    placeSegment,
    laneOf: (wave) => lanes.wave[wave],
    /** Mark a selection; scroll the time axis to it if it is out of sight. @param {Selection} now */
    select(now) {
      selected = now;
      refresh();
      if (now.segment < 0) return;
      const s = run.segments[now.segment];
      const [a, b] = visible();
      if (s[S.free] < a || s[S.ready] > b) show(s[S.ready] - (b - a) / 2, s[S.ready] + (b - a) / 2);
    },
    /** Draw the counterexample's steps where they stand in this run, and zoom there. */
    showExample() {
      const found = page.verdict.example.steps.map((step) => placeSegment(step[2])).filter((i) => i >= 0);
      if (!found.length) return;
      const from = Math.min(...found.map((i) => run.segments[i][S.ready]));
      const to = Math.max(...found.map((i) => run.segments[i][S.free]));
      const margin = Math.max(200, (to - from) * 0.4);
      show(from - margin, to + margin);
    },
    ranges: [
      ["All", 0, run.total],
      ["Prologue", 0, frames[0][1]],
      ["1 iteration", marks[first], marks[last]],
      ...(last > 1 ? [["2 iterations", marks[last - 2], marks[last]]] : []),
      ["Epilogue", marks[last], run.total],
    ],
    recolour() {
      c = palette();
      chart.setOption(option(visible()));
      refresh();
    },
  };
}
