// @ts-check
// The timeline: one lane per wave and unit, then the LDS buffers, over one axis of cycles.

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
  const region = run.regions.map(
    (name) => names.push(name.replace(/, stage (\d+), half (\d+)/, " stage $1 half $2")) - 1,
  );
  return { names, wave, matrix, barrier, lds, loads, region, groupEnds };
}

/**
 * @param {HTMLElement} host
 * @param {(choice: Choice) => void} onSelect
 */
function makeTimeline(host, onSelect) {
  const run = /** @type {Timeline} */ (page.timeline);
  const lanes = lanesOf(run);
  const height = lanes.names.length * LANE;
  const plot = { left: 118, right: 10, top: 20, height };
  host.style.height = `${height + plot.top + 56}px`;
  const chart = echarts.init(host, null, { renderer: "canvas" });
  /** @type {Choice} */
  let selected = { entry: -1, op: -1, segment: -1 };
  /** @type {any} */
  let example = null;
  const marks = run.marks[0];
  /** @type {Array<[number, number, string]>} */
  const frames = [[0, marks[0], "prologue"]];
  for (let i = 0; i < run.iterations; i += 1) frames.push([marks[i], marks[i + 1], `iteration ${i}`]);
  frames.push([marks[run.iterations], run.total, "epilogue"]);
  /** @type {View} */
  const view = { run, lanes, frames, c: palette(), overlay: [] };
  const draw = makeRenderers(view);

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
    const phase = page.entries[s[S.entry]][E.phase];
    for (const edge of page.edges) {
      if (edge[D.consumer] !== page.entries[s[S.entry]][E.op]) continue;
      const options = page.entries
        .map((e, i) => i)
        .filter(
          (i) =>
            page.entries[i][E.op] === edge[D.producer] &&
            (page.entries[i][E.phase] === phase || edge[D.distance] > 0),
        );
      const before = run.segments
        .map((other, i) => i)
        .filter(
          (i) =>
            run.segments[i][S.wave] === s[S.wave] &&
            options.includes(run.segments[i][S.entry]) &&
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

  function overlayRows() {
    /** @type {any[][]} */
    const rows = [];
    const add = (i, ...more) =>
      rows.push([
        run.segments[i][S.ready],
        run.segments[i][S.free],
        lanes.wave[run.segments[i][S.wave]],
        i,
        ...more,
      ]);
    if (selected.entry >= 0)
      run.segments.forEach((s, i) => {
        if (s[S.entry] === selected.entry && i !== selected.segment) add(i, "same");
      });
    if (selected.segment >= 0) {
      add(selected.segment, "chosen");
      for (const [i, name] of dependences(selected.segment)) {
        add(i, "same");
        const [a, b] = [run.segments[i], run.segments[selected.segment]];
        rows.push([a[S.start], b[S.start], 0, i, "link", selected.segment, name]);
      }
    }
    if (example) {
      example.steps.forEach((step, n) => {
        const i = placeSegment(step[2]);
        if (i >= 0) add(i, "pin", String(n + 1));
      });
    }
    return rows;
  }

  /** @param {string} title @param {Array<[string, string]>} facts */
  function tip(title, facts) {
    return el(
      "div",
      "tip",
      el("b", "", title),
      el("dl", "", ...facts.flatMap(([k, v]) => [el("dt", "", k), el("dd", "", v)])),
    );
  }

  function describe(params) {
    const i = params.value[3];
    if (params.seriesId === "issue") return tip(titleOf(i), factsOf(i));
    if (params.seriesId === "matrix") {
      const row = run.matrix[i];
      return tip(titleOf(row[M.segment]), [
        [
          "matrix unit",
          `busy ${num(row[M.from])} to ${num(row[M.to])}, ${num(row[M.to] - row[M.from])} cycles without a gap`,
        ],
      ]);
    }
    if (params.seriesId === "barriers") {
      const row = run.barriers[i];
      return tip(`barrier ${i}`, [
        ["first wave", `arrives at ${num(row[R.from])}`],
        ["released", `${num(row[R.to])}, ${num(row[R.to] - row[R.from])} cycles later`],
        ["last wave", `wave ${row[R.last]}`],
      ]);
    }
    if (params.seriesId === "buffers") {
      const row = run.buffers[i];
      return tip(`LDS ${run.regions[row[U.region]]}`, [
        [row[U.use] ? "read" : "written", `K tile ${row[U.tile]}`],
        ["cycles", `${num(row[U.from])} to ${num(row[U.to])}`],
        ["by", row[U.use] ? "fragment loads, first to last" : "global loads, issue to landing"],
      ]);
    }
    const values = i === 0 ? run.depth.lds : run.depth.loads;
    return tip(i === 0 ? "LDS operations in flight" : "global loads in flight", [
      ["most", i === 0 ? `${Math.max(...values)} operations` : `${Math.max(...values)} KiB`],
      ["scale", "height of the lane is the most seen"],
    ]);
  }

  /** @param {number} i */
  function titleOf(i) {
    const s = run.segments[i];
    return s[S.label] + (s[S.tile] >= 0 ? `, K tile ${s[S.tile]}` : "");
  }

  /** @param {number} i @returns {Array<[string, string]>} */
  function factsOf(i) {
    const s = run.segments[i];
    const where =
      s[S.iteration] < 0
        ? "prologue"
        : s[S.iteration] >= run.iterations
          ? "epilogue"
          : `iteration ${s[S.iteration]}`;
    const count = s[S.pulses].length / 2;
    /** @type {Array<[string, string]>} */
    const facts = [["wave", `${s[S.wave]}, ${where}${s[S.entry] >= 0 ? `, ${entryName(s[S.entry])}` : ""}`]];
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
    if (s[S.retires].length) facts.push(["waits for", s[S.retires].map((n) => titleOf(n)).join("; ")]);
    return facts;
  }

  /** Series data: from, to, lane, row. */
  const rows = (list, from, to, lane) => list.map((row, i) => [row[from], row[to], lane(row), i]);

  function option(range) {
    const c = view.c;
    const series = (id, renderItem, data, extra = {}) => ({
      id,
      type: "custom",
      renderItem,
      data,
      encode: { x: [0, 1], y: 2 },
      clip: true,
      animation: false,
      progressive: 0,
      ...extra,
    });
    return {
      animation: false,
      textStyle: { fontFamily: FONT_FAMILY },
      grid: plot,
      tooltip: { trigger: "item", formatter: describe, ...tooltipStyle(c) },
      xAxis: {
        type: "value",
        min: 0,
        max: run.total,
        axisLabel: { color: c.quiet, fontSize: 11, formatter: (v) => num(v), hideOverlap: true },
        splitLine: { lineStyle: { color: c.line, opacity: 0.6 } },
        axisLine: { lineStyle: { color: c.line } },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: lanes.names,
        axisTick: { show: false },
        axisLine: { show: false },
        splitArea: { show: true, areaStyle: { color: [c.card, c.band] } },
        axisLabel: { color: c.ink, fontSize: 11, interval: 0 },
      },
      dataZoom: [
        {
          type: "inside",
          id: "wheel",
          filterMode: "weakFilter",
          startValue: range[0],
          endValue: range[1],
          minValueSpan: 60,
          zoomOnMouseWheel: true,
          moveOnMouseMove: true,
        },
        {
          type: "slider",
          id: "slider",
          filterMode: "weakFilter",
          startValue: range[0],
          endValue: range[1],
          minValueSpan: 60,
          height: 20,
          bottom: 6,
          left: plot.left,
          right: plot.right,
          showDataShadow: false,
          brushSelect: false,
          borderColor: c.line,
          fillerColor: fade(c.accent, 0.18),
          backgroundColor: c.band,
          handleStyle: { color: c.accent, borderColor: c.accent },
          moveHandleStyle: { color: c.accent },
          emphasis: { moveHandleStyle: { color: c.accent } },
          textStyle: { color: c.quiet, fontSize: 11 },
          labelFormatter: (v) => num(v),
        },
      ],
      series: [
        series(
          "frames",
          draw.drawFrame,
          frames.map(([a, b], i) => [a, b, 0, i]),
          { silent: true, clip: false, z: 1 },
        ),
        series(
          "groups",
          draw.drawGroup,
          lanes.groupEnds.slice(0, -1).map((end) => [0, run.total, end - 1, 0]),
          { silent: true, clip: false, z: 1 },
        ),
        series("depth", draw.drawDepth, [
          [0, run.total, lanes.lds, 0],
          [0, run.total, lanes.loads, 1],
        ]),
        series(
          "issue",
          draw.drawSegment,
          rows(run.segments, S.ready, S.free, (s) => lanes.wave[s[S.wave]]),
        ),
        series(
          "matrix",
          draw.drawMatrix,
          rows(run.matrix, M.from, M.to, (m) => lanes.matrix[m[M.simd]]),
        ),
        series(
          "barriers",
          draw.drawBarrier,
          rows(run.barriers, R.from, R.to, () => lanes.barrier),
        ),
        series(
          "buffers",
          draw.drawBuffer,
          rows(run.buffers, U.from, U.to, (u) => lanes.region[u[U.region]]),
        ),
        series("overlay", draw.drawOverlay, view.overlay, { silent: true, clip: false, z: 10 }),
      ],
    };
  }

  function visible() {
    const zoom = /** @type {any} */ (chart.getOption()).dataZoom[0];
    return /** @type {[number, number]} */ ([zoom.startValue, zoom.endValue]);
  }

  /** @param {number} from @param {number} to */
  function show(from, to) {
    chart.dispatchAction({
      type: "dataZoom",
      startValue: Math.max(0, from),
      endValue: Math.min(run.total, to),
    });
  }

  function refresh() {
    view.overlay = overlayRows();
    chart.setOption({ series: [{ id: "overlay", data: view.overlay }] });
  }

  const last = run.iterations;
  const first = Math.max(0, last - 1);
  chart.setOption(option(last > 0 ? [marks[first], marks[last]] : [0, run.total]));
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
    /** Mark a selection; scroll the time axis to it if it is out of sight. @param {Choice} now */
    select(now) {
      selected = now;
      refresh();
      if (now.segment < 0) return;
      const s = run.segments[now.segment];
      const [a, b] = visible();
      if (s[S.free] < a || s[S.ready] > b) show(s[S.ready] - (b - a) / 2, s[S.ready] + (b - a) / 2);
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
      show(from - margin, to + margin);
    },
    ranges: /** @type {Array<[string, number, number]>} */ ([
      ["All", 0, run.total],
      ["Prologue", 0, frames[0][1]],
      ...(last > 0 ? [["1 iteration", marks[first], marks[last]]] : []),
      ...(last > 1 ? [["2 iterations", marks[last - 2], marks[last]]] : []),
      ["Epilogue", marks[last], run.total],
    ]),
    recolour() {
      view.c = palette();
      chart.setOption(option(visible()));
      refresh();
    },
  };
}
