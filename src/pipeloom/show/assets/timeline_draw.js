// @ts-check
// How each kind of row of the timeline becomes shapes. ECharts calls these for the rows in sight.

const LANE = 22;
const FONT = `10px ${FONT_FAMILY}`;

/**
 * @typedef {object} View  what the renderers look at when they draw; the timeline changes it
 * @property {Timeline} run
 * @property {any} lanes
 * @property {Array<[number, number, string]>} frames  from, to, name of each part of the run
 * @property {any} c  the palette
 * @property {any[][]} overlay  what is marked on top
 *
 * @param {View} view
 */
function makeRenderers(view) {
  const { run, lanes, frames } = view;

  /** Visible part of [from, to] in a lane, in pixels; null if outside. */
  function box(params, api, from, to, lane, inset) {
    const a = api.coord([from, lane]);
    const b = api.coord([to, lane]);
    const area = params.coordSys;
    const left = Math.max(a[0], area.x);
    const right = Math.min(b[0], area.x + area.width);
    if (right < area.x || left > area.x + area.width) return null;
    return {
      x: left,
      y: a[1] - LANE / 2 + inset,
      width: Math.max(right - left, 0.6),
      height: LANE - 2 * inset,
      scale: (b[0] - a[0]) / Math.max(to - from, 1),
      origin: a[0],
    };
  }

  /** The first of the texts that fits a box, or nothing. */
  function caption(b, texts, fill) {
    const text = texts.find((t) => t.length * 5.4 + 4 <= b.width);
    if (!text) return null;
    return {
      type: "text",
      silent: true,
      style: {
        text,
        x: b.x + b.width / 2,
        y: b.y + b.height / 2,
        align: "center",
        verticalAlign: "middle",
        fill,
        font: FONT,
      },
    };
  }

  const rect = (b, style) => ({
    type: "rect",
    shape: { x: b.x, y: b.y, width: b.width, height: b.height },
    style,
  });

  function drawSegment(params, api) {
    const s = run.segments[api.value(3)];
    const lane = api.value(2);
    const b = box(params, api, s[S.ready], s[S.free], lane, 2);
    if (!b) return null;
    const colour = view.c.kinds[s[S.colour]];
    /** @type {any[]} */
    const children = [rect(b, { fill: fade(colour, 0.22) })];
    const area = params.coordSys;
    const single = s[S.pulses].length === 2;
    // The share of its own time that it issues; a lone MFMA stream issues half of the time.
    const inside = s[S.stall] - (s[S.start] - s[S.ready]);
    const duty = (s[S.colour] === 0 ? 2 : 1) * (1 - inside / Math.max(s[S.free] - s[S.start], 1));
    const striped = !single && (b.scale * (s[S.free] - s[S.start])) / s[S.pulses].length >= 3;
    const solid = box(params, api, s[S.start], s[S.free], lane, 2);
    if (!striped) {
      const strength = single ? 1 : Math.min(1, Math.max(0.45, duty));
      if (solid) children.push(rect(solid, { fill: fade(colour, strength) }));
    } else {
      let at = s[S.ready];
      for (let i = 0; i < s[S.pulses].length; i += 2) {
        const from = at + s[S.pulses][i];
        at = from + s[S.pulses][i + 1];
        const left = Math.max(b.origin + (from - s[S.ready]) * b.scale, area.x);
        const right = Math.min(b.origin + (at - s[S.ready]) * b.scale, area.x + area.width);
        if (right > left)
          children.push(
            rect(
              { x: left, y: b.y, width: Math.max(right - left - 0.5, 0.6), height: b.height },
              { fill: colour },
            ),
          );
      }
    }
    const short = s[S.label].replace(/^(mma|frag|load) /, "");
    const onFill = !single && !striped && duty > 0.6;
    const place = single || striped ? b : solid;
    const text = place && caption(place, [s[S.label], short], onFill ? view.c["on-fill"] : view.c.ink);
    if (text && striped) Object.assign(text.style, { stroke: view.c.card, lineWidth: 3 });
    if (text) children.push(text);
    return { type: "group", children };
  }

  function drawMatrix(params, api) {
    const row = run.matrix[api.value(3)];
    const b = box(params, api, row[M.from], row[M.to], api.value(2), 3);
    if (!b) return null;
    const wave = run.segments[row[M.segment]][S.wave];
    const group = run.waves[wave][1];
    /** @type {any[]} */
    const children = [rect(b, { fill: fade(view.c.mma, group ? 0.55 : 0.9) })];
    const text = caption(b, [`wave ${wave}`, String(wave)], group ? view.c.ink : view.c["on-fill"]);
    if (text) children.push(text);
    return { type: "group", children };
  }

  function drawBarrier(params, api) {
    const row = run.barriers[api.value(3)];
    const b = box(params, api, row[R.from], row[R.to], lanes.barrier, 7);
    if (!b) return null;
    const end = api.coord([row[R.to], lanes.barrier])[0];
    /** @type {any[]} */
    const children = [rect(b, { fill: fade(view.c.kinds[4], 0.3) })];
    if (end <= params.coordSys.x + params.coordSys.width)
      children.push(rect({ x: end - 2, y: b.y - 4, width: 2, height: LANE - 6 }, { fill: view.c.kinds[4] }));
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
    const colour = isLds ? view.c.lds : view.c.global;
    return {
      type: "polygon",
      shape: { points },
      style: { fill: fade(colour, 0.45), stroke: colour, lineWidth: 0.7 },
    };
  }

  function drawBuffer(params, api) {
    const row = run.buffers[api.value(3)];
    const b = box(params, api, row[U.from], row[U.to], api.value(2), 1);
    if (!b) return null;
    const half = { ...b, height: b.height / 2 - 0.5, y: row[U.use] ? b.y + b.height / 2 + 0.5 : b.y };
    const colour = row[U.use] ? view.c.lds : view.c.global;
    /** @type {any[]} */
    const children = [rect(half, { fill: fade(colour, 0.8) })];
    const text = caption(
      half,
      [`${row[U.use] ? "read" : "write"} K${row[U.tile]}`, `K${row[U.tile]}`],
      view.c["on-fill"],
    );
    if (text) {
      text.style.font = FONT.replace("10px", "9px");
      children.push(text);
    }
    return { type: "group", children };
  }

  /** Vertical lines where iterations begin, and the name of each part above. */
  function drawFrame(params, api) {
    const [from, to] = [api.value(0), api.value(1)];
    const area = params.coordSys;
    const x = api.coord([from, 0])[0];
    const end = api.coord([to, 0])[0];
    /** @type {any[]} */
    const children = [];
    if (x >= area.x && x <= area.x + area.width)
      children.push({
        type: "line",
        shape: { x1: x, y1: area.y - 14, x2: x, y2: area.y + area.height },
        style: { stroke: view.c.quiet, lineWidth: 1, lineDash: [3, 3], opacity: 0.6 },
      });
    const left = Math.max(x, area.x);
    const right = Math.min(end, area.x + area.width);
    const name = frames[params.dataIndex][2];
    if (right - left > name.length * 6)
      children.push({
        type: "text",
        style: {
          text: name,
          x: left + 4,
          y: area.y - 13,
          fill: view.c.quiet,
          font: FONT.replace("10px", "11px"),
        },
      });
    return children.length ? { type: "group", silent: true, children } : null;
  }

  /** The line under a group of lanes. */
  function drawGroup(params, api) {
    const area = params.coordSys;
    const y = api.coord([0, api.value(2)])[1] + LANE / 2;
    return {
      type: "line",
      silent: true,
      shape: { x1: area.x - 110, y1: y, x2: area.x + area.width, y2: y },
      style: { stroke: view.c.quiet, lineWidth: 1, opacity: 0.45 },
    };
  }

  /** Where a pin goes: at its segment, or beside an earlier pin of the same wave that is there. */
  function pinPlace(params, api) {
    const [left, apart] = [params.coordSys.x, 17];
    const lane = view.overlay[params.dataIndex][2];
    /** @type {number[]} */
    const placed = [];
    for (const row of view.overlay.slice(0, params.dataIndex + 1)) {
      if (row[4] !== "pin" || row[2] !== lane) continue;
      let x = Math.max(api.coord([run.segments[row[3]][S.start], 0])[0], left) + 8;
      for (const other of placed.sort((a, b) => a - b)) if (Math.abs(x - other) < apart) x = other + apart;
      placed.push(x);
    }
    return placed[placed.length - 1];
  }

  function drawOverlay(params, api) {
    const kind = view.overlay[params.dataIndex][4];
    const i = api.value(3);
    if (kind === "link")
      return drawLink(params, api, i, view.overlay[params.dataIndex][5], view.overlay[params.dataIndex][6]);
    const s = run.segments[i];
    const b = box(params, api, s[S.ready], s[S.free], lanes.wave[s[S.wave]], 1);
    if (!b) return null;
    if (kind === "pin") {
      const number = view.overlay[params.dataIndex][5];
      const x = pinPlace(params, api);
      const y = b.y - 1;
      return {
        type: "group",
        silent: true,
        children: [
          rect(b, { fill: "none", stroke: view.c.race, lineWidth: 2 }),
          {
            type: "circle",
            shape: { cx: x, cy: y, r: 8 },
            style: { fill: view.c.race, stroke: view.c.card, lineWidth: 1 },
          },
          {
            type: "text",
            style: {
              text: number,
              x,
              y,
              align: "center",
              verticalAlign: "middle",
              fill: view.c.card,
              font: `bold ${FONT}`,
            },
          },
        ],
      };
    }
    const width = kind === "chosen" ? 2.5 : 1.2;
    return {
      silent: true,
      ...rect(b, { fill: "none", stroke: kind === "chosen" ? view.c.ink : view.c.accent, lineWidth: width }),
    };
  }

  function drawLink(params, api, from, to, name) {
    const [a, b] = [run.segments[from], run.segments[to]];
    const p = api.coord([a[S.start], lanes.wave[a[S.wave]]]);
    const q = api.coord([b[S.start], lanes.wave[b[S.wave]]]);
    const area = params.coordSys;
    const clampX = (x) => Math.min(Math.max(x, area.x), area.x + area.width);
    if (Math.max(p[0], q[0]) < area.x || Math.min(p[0], q[0]) > area.x + area.width) return null;
    const bend = p[1] === q[1] ? -LANE : 0;
    return {
      type: "bezierCurve",
      silent: true,
      shape: {
        x1: clampX(p[0]),
        y1: p[1],
        x2: clampX(q[0]),
        y2: q[1],
        cpx1: clampX((p[0] + q[0]) / 2),
        cpy1: (p[1] + q[1]) / 2 + bend,
      },
      style: {
        stroke: name === "needs" ? view.c.needs : view.c.ink,
        fill: "none",
        lineWidth: 1.6,
        lineDash: name === "needs" ? [] : [4, 3],
      },
    };
  }

  return { drawSegment, drawMatrix, drawBarrier, drawDepth, drawBuffer, drawFrame, drawGroup, drawOverlay };
}
