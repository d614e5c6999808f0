// @ts-check
// How each kind of row of the timeline is drawn on its canvas. What is out of sight is left out.

const LANE = 22;
const TOP = 20;
const FONT = `10px ${FONT_FAMILY}`;

/**
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {Box & {kind: string, i: number, view: View}} Hit  something that can be pointed at, as it was drawn
 * @typedef {{kind: string, i: number, text?: string, to?: number, times?: [number, number]}} Mark  on top of segment i
 *
 * @typedef {object} View  what the renderer looks at; the timeline changes it
 * @property {Page} of  the variant, one of those in the file
 * @property {number} shift  cycles by which it is moved on the axis, which is that of the first view
 * @property {boolean} axis  whether the axis is below it
 * @property {Timeline} run
 * @property {any} lanes
 * @property {Array<[number, number, string]>} frames  from, to, name of each part of the run
 * @property {any} c  the palette
 * @property {Mark[]} overlay  what is marked on top
 * @property {CanvasRenderingContext2D} ctx
 * @property {Box} area  the plot
 * @property {[number, number]} range  the cycles in sight
 * @property {Hit[]} hits
 * @property {Array<{x: number, y: number}>} pins  where the numbers of a counterexample were put
 * @property {[number, number]|null} measured  cycles between which a length was asked for
 *
 * @param {View} view
 * @returns {() => void}  draws everything
 */
function makeRenderer(view) {
  const { run, lanes, frames, ctx, area } = view;

  /** @param {number} cycle */
  const x = (cycle) => onAxis(cycle + view.shift);
  /** @param {number} at  on the axis */
  const onAxis = (at) => area.x + ((at - view.range[0]) / (view.range[1] - view.range[0])) * area.width;
  /** @param {number} lane  its middle */
  const y = (lane) => area.y + (lane + 0.5) * LANE;
  const end = () => area.x + area.width;
  /** @param {number} pixel */
  const inside = (pixel) => clamp(pixel, area.x, end());

  /**
   * Visible part of [from, to] in a lane; null if outside.
   * @param {number} from @param {number} to @param {number} lane @param {number} inset
   * @returns {Box|null}
   */
  function box(from, to, lane, inset) {
    const [a, b] = [x(from), x(to)];
    if (b < area.x || a > end()) return null;
    const left = Math.max(a, area.x);
    const width = Math.max(Math.min(b, end()) - left, 0.6);
    return { x: left, y: y(lane) - LANE / 2 + inset, width, height: LANE - 2 * inset };
  }

  /** @param {Box} b @param {string} colour */
  function fill(b, colour) {
    ctx.fillStyle = colour;
    ctx.fillRect(b.x, b.y, b.width, b.height);
  }

  /** @param {Box} b @param {string} colour @param {number} width */
  function outline(b, colour, width) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.strokeRect(b.x, b.y, b.width, b.height);
  }

  /** @param {string} colour @param {number[]} points  x1, y1, x2, y2 @param {number[]} [dash] */
  function line(colour, [x1, y1, x2, y2], dash = []) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /**
   * @param {string} text @param {number} left @param {number} middle @param {string} colour
   * @param {CanvasTextAlign} [align] @param {string} [font]
   */
  function write(text, left, middle, colour, align = "center", font = FONT) {
    ctx.font = font;
    ctx.textAlign = align;
    ctx.fillStyle = colour;
    ctx.fillText(text, left, middle);
  }

  /**
   * The first of the texts that fits a box, if any.
   * @param {Box} b @param {string[]} texts @param {string} colour
   * @param {{halo?: string, font?: string}} [style]
   */
  function caption(b, texts, colour, { halo, font = FONT } = {}) {
    const text = texts.find((t) => t.length * 5.4 + 4 <= b.width);
    if (!text) return;
    const [middle, centre] = [b.x + b.width / 2, b.y + b.height / 2 + 0.5];
    if (halo) {
      ctx.font = font;
      ctx.textAlign = "center";
      ctx.strokeStyle = halo;
      ctx.lineWidth = 3;
      ctx.strokeText(text, middle, centre);
    }
    write(text, middle, centre, colour, "center", font);
  }

  /** What this is called, where there are several, and how far it was moved. */
  function drawTitle() {
    if (variants.length < 2) return;
    const moved = view.shift ? `, moved by ${view.shift > 0 ? "+" : "−"}${num(Math.abs(view.shift))} cycles` : "";
    write(view.of.meta.variant + moved, 0, area.y - TOP - 4, view.c.ink, "left", `bold ${FONT.replace("10px", "11px")}`);
  }

  /** Lanes with their names, and the axis of cycles. */
  function drawGrid() {
    const { c, range } = view;
    lanes.names.forEach((/** @type {string} */ name, /** @type {number} */ lane) => {
      if (lane % 2) fill({ ...area, y: area.y + lane * LANE, height: LANE }, c.band);
      write(name, area.x - 8, y(lane), c.ink, "right", FONT.replace("10px", "11px"));
    });
    const bottom = area.y + area.height;
    line(c.line, [area.x, bottom, end(), bottom]);
    // Labels about 90 pixels apart, at a round number of cycles: 1, 2 or 5 times a power of ten.
    const wanted = Math.max(((range[1] - range[0]) * 90) / area.width, 1);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = power * ([1, 2, 5].find((m) => m * power >= wanted) || 10);
    for (let at = Math.ceil(range[0] / step) * step; at <= range[1]; at += step) {
      line(fade(c.line, 0.6), [onAxis(at), area.y, onAxis(at), bottom]);
      if (!view.axis) continue;
      line(c.line, [onAxis(at), bottom, onAxis(at), bottom + 5]);
      write(num(at), onAxis(at), bottom + 14, c.quiet, "center", FONT.replace("10px", "11px"));
    }
  }

  /** Vertical lines where iterations begin, and the name of each part above. */
  function drawFrames() {
    for (const [from, to, name] of frames) {
      const at = x(from);
      const colour = fade(view.c.quiet, 0.6);
      if (at >= area.x && at <= end()) line(colour, [at, area.y - 14, at, area.y + area.height], [3, 3]);
      const left = inside(at);
      if (inside(x(to)) - left > name.length * 6)
        write(name, left + 4, area.y - 8, view.c.quiet, "left", FONT.replace("10px", "11px"));
    }
    for (const last of lanes.groupEnds.slice(0, -1)) {
      const bottom = area.y + last * LANE;
      line(fade(view.c.quiet, 0.45), [0, bottom, end(), bottom]);
    }
  }

  /** @param {Row} s @param {number} i */
  function drawSegment(s, i) {
    const lane = lanes.wave[s[S.wave]];
    const b = box(s[S.ready], s[S.free], lane, 2);
    if (!b) return;
    const colour = view.c.kinds[s[S.colour]];
    fill(b, fade(colour, 0.22));
    const single = s[S.pulses].length === 2;
    // The share of its own time that it issues; a lone MFMA stream issues half of the time.
    const stood = s[S.stall] - (s[S.start] - s[S.ready]);
    const duty = (s[S.colour] === 0 ? 2 : 1) * (1 - stood / Math.max(s[S.free] - s[S.start], 1));
    const striped = !single && (x(s[S.free]) - x(s[S.start])) / s[S.pulses].length >= 3;
    const solid = box(s[S.start], s[S.free], lane, 2);
    if (!striped) {
      if (solid) fill(solid, fade(colour, single ? 1 : clamp(duty, 0.45, 1)));
    } else {
      let at = s[S.ready];
      for (let n = 0; n < s[S.pulses].length; n += 2) {
        const from = at + s[S.pulses][n];
        at = from + s[S.pulses][n + 1];
        const [left, right] = [inside(x(from)), inside(x(at))];
        if (right > left) fill({ ...b, x: left, width: Math.max(right - left - 0.5, 0.6) }, colour);
      }
    }
    const onFill = !single && !striped && duty > 0.6;
    const place = single || striped ? b : solid;
    const texts = [s[S.label], shortened(s[S.label])];
    if (place)
      caption(place, texts, view.c[onFill ? "on-fill" : "ink"], { halo: striped ? view.c.card : "" });
    view.hits.push({ ...b, kind: "issue", i, view });
  }

  /** @param {Row} row @param {number} i */
  function drawMatrix(row, i) {
    const b = box(row[M.from], row[M.to], lanes.matrix[row[M.simd]], 3);
    if (!b) return;
    const wave = run.segments[row[M.segment]][S.wave];
    const group = run.waves[wave][1];
    fill(b, fade(view.c.mma, group ? 0.55 : 0.9));
    caption(b, [`wave ${wave}`, String(wave)], view.c[group ? "ink" : "on-fill"]);
    view.hits.push({ ...b, kind: "matrix", i, view });
  }

  /** @param {Row} row @param {number} i */
  function drawBarrier(row, i) {
    const b = box(row[R.from], row[R.to], lanes.barrier, 7);
    if (!b) return;
    fill(b, fade(view.c.kinds[4], 0.3));
    const release = x(row[R.to]);
    if (release <= end()) fill({ x: release - 2, y: b.y - 4, width: 2, height: LANE - 6 }, view.c.kinds[4]);
    view.hits.push({ ...b, y: b.y - 5, height: LANE - 4, kind: "barriers", i, view });
  }

  /** @param {number[]} values @param {number} lane @param {string} colour @param {number} i */
  function drawDepth(values, lane, colour, i) {
    const base = y(lane) + LANE / 2 - 2;
    const top = Math.max(...values) || 1;
    ctx.beginPath();
    ctx.moveTo(area.x, base);
    let last = area.x;
    values.forEach((value, n) => {
      const [from, to] = [x(n * run.depth.step), x((n + 1) * run.depth.step)];
      if (to < area.x || from > end()) return;
      const height = base - (value / top) * (LANE - 4);
      last = inside(to);
      ctx.lineTo(inside(from), height);
      ctx.lineTo(last, height);
    });
    ctx.lineTo(last, base);
    ctx.closePath();
    ctx.fillStyle = fade(colour, 0.45);
    ctx.fill();
    ctx.strokeStyle = colour;
    ctx.lineWidth = 0.7;
    ctx.stroke();
    view.hits.push({ ...area, y: y(lane) - LANE / 2, height: LANE, kind: "depth", i, view });
  }

  /** What the height of a curve's lane stands for. @param {number} lane @param {number} i */
  function drawScale(lane, i) {
    const { unit, values } = curvesOf(run)[i];
    const text = `${Math.max(0, ...values)} ${unit}`;
    const top = y(lane) - LANE / 2 + 2;
    line(view.c.quiet, [area.x, top, area.x + 6, top]);
    line(view.c.quiet, [area.x, top, area.x, top + LANE - 4]);
    ctx.font = FONT.replace("10px", "9px");
    fill({ x: area.x + 8, y: top, width: ctx.measureText(text).width + 4, height: 10 }, fade(view.c.card, 0.8));
    write(text, area.x + 10, top + 5, view.c.ink, "left", FONT.replace("10px", "9px"));
  }

  /** The range that was measured, and its length. */
  function drawMeasured() {
    if (!view.measured) return;
    const [from, to] = view.measured;
    const [left, right] = [inside(onAxis(from)), inside(onAxis(to))];
    fill({ ...area, x: left, width: Math.max(right - left, 1) }, fade(view.c.accent, 0.14));
    for (const at of [from, to])
      if (onAxis(at) >= area.x && onAxis(at) <= end())
        line(view.c.accent, [onAxis(at), area.y, onAxis(at), area.y + area.height]);
    const text = `${num(to - from)} cycles`;
    ctx.font = `bold ${FONT.replace("10px", "11px")}`;
    const width = ctx.measureText(text).width + 8;
    const middle = clamp((left + right) / 2, area.x + width / 2, end() - width / 2);
    fill({ x: middle - width / 2, y: area.y - 16, width, height: 15 }, view.c.accent);
    write(text, middle, area.y - 8, view.c["on-fill"], "center", `bold ${FONT.replace("10px", "11px")}`);
  }

  /** @param {Row} row @param {number} i */
  function drawBuffer(row, i) {
    const b = box(row[U.from], row[U.to], lanes.region[row[U.region]], 1);
    if (!b) return;
    const half = { ...b, height: b.height / 2 - 0.5, y: row[U.use] ? b.y + b.height / 2 + 0.5 : b.y };
    fill(half, fade(row[U.use] ? view.c.lds : view.c.global, 0.8));
    const texts = [`${row[U.use] ? "read" : "write"} K${row[U.tile]}`, `K${row[U.tile]}`];
    caption(half, texts, view.c["on-fill"], { font: FONT.replace("10px", "9px") });
    view.hits.push({ ...half, kind: "buffers", i, view });
  }

  /** A numbered pin at a segment, or beside an earlier one of the same wave. @param {Box} b @param {Mark} mark */
  function drawPin(b, mark) {
    const [apart, radius] = [17, 8];
    const at = { x: inside(x(run.segments[mark.i][S.start])) + radius, y: b.y - 1 };
    const beside = view.pins.filter((pin) => pin.y === at.y).sort((p, q) => p.x - q.x);
    for (const pin of beside) if (Math.abs(at.x - pin.x) < apart) at.x = pin.x + apart;
    view.pins.push(at);
    outline(b, view.c.race, 2);
    ctx.beginPath();
    ctx.arc(at.x, at.y, radius, 0, 2 * Math.PI);
    ctx.fillStyle = view.c.race;
    ctx.fill();
    ctx.strokeStyle = view.c.card;
    ctx.lineWidth = 1;
    ctx.stroke();
    write(mark.text || "", at.x, at.y + 0.5, view.c.card, "center", `bold ${FONT}`);
  }

  /** A curve from what a segment needs or waited for. @param {Mark} mark */
  function drawLink(mark) {
    const [a, b] = [mark.i, mark.to || 0].map((i) => run.segments[i]);
    const [p, q] = [x(a[S.start]), x(b[S.start])];
    if (Math.max(p, q) < area.x || Math.min(p, q) > end()) return;
    const [from, to] = [y(lanes.wave[a[S.wave]]), y(lanes.wave[b[S.wave]])];
    const needs = mark.text === "needs";
    ctx.beginPath();
    ctx.moveTo(inside(p), from);
    ctx.quadraticCurveTo(inside((p + q) / 2), (from + to) / 2 - (from === to ? LANE : 0), inside(q), to);
    ctx.strokeStyle = needs ? view.c.needs : view.c.ink;
    ctx.lineWidth = 1.6;
    ctx.setLineDash(needs ? [] : [4, 3]);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** @param {Mark} mark */
  function drawMark(mark) {
    if (mark.kind === "link") return drawLink(mark);
    const s = run.segments[mark.i];
    const b = box(...(mark.times || [s[S.ready], s[S.free]]), lanes.wave[s[S.wave]], 1);
    if (!b) return;
    if (mark.kind === "line") return fill({ ...b, y: b.y + b.height - 4, height: 4, width: Math.max(b.width, 3) }, view.c.ink);
    if (mark.kind === "pin") drawPin(b, mark);
    else if (mark.kind === "chosen") outline(b, view.c.ink, 2.5);
    else outline(b, view.c.accent, 1.2);
  }

  return () => {
    view.hits = [];
    view.pins = [];
    ctx.textBaseline = "middle";
    ctx.lineJoin = "round";
    drawTitle();
    drawGrid();
    drawFrames();
    drawDepth(run.depth.lds, lanes.lds, view.c.lds, 0);
    drawDepth(run.depth.loads, lanes.loads, view.c.global, 1);
    if (lanes.live >= 0) drawDepth(run.depth.live, lanes.live, view.c.kinds[6], 2);
    [lanes.lds, lanes.loads, lanes.live].forEach((lane, i) => lane >= 0 && drawScale(lane, i));
    run.segments.forEach(drawSegment);
    run.matrix.forEach(drawMatrix);
    run.barriers.forEach(drawBarrier);
    run.buffers.forEach(drawBuffer);
    view.overlay.forEach(drawMark);
    drawMeasured();
  };
}
