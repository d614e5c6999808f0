// @ts-check
// The cycles in sight: moved by the wheel, by dragging, by two fingers, by keys and by the slider.

const LEAST_CYCLES = 60;

/** @param {number} value @param {number} low @param {number} high */
function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/**
 * @param {HTMLElement} host  while it has the focus, that is once it was clicked, the wheel zooms
 * @param {HTMLCanvasElement} canvas
 * @param {{x: number, width: number}} area  where the plot is on the canvas, kept up to date
 * @param {number} total
 * @param {() => void} onChange
 * @param {(span: [number, number]|null) => void} onMeasure  cycles between which the mouse was dragged with Shift
 */
function makeRange(host, canvas, area, total, onChange, onMeasure) {
  let [from, to] = [0, total];
  const least = Math.min(LEAST_CYCLES, total);
  const [left, right] = [el("i", "grip"), el("i", "grip right")];
  const filler = el("div", "filler", left, right);
  const track = el("div", "slider", filler);

  /** What is asked for, moved inside the run. @param {number} a @param {number} b */
  function show(a, b) {
    const span = clamp(b - a, least, total);
    from = clamp(a, 0, total - span);
    to = from + span;
    filler.style.left = `${(100 * from) / total}%`;
    filler.style.width = `${(100 * span) / total}%`;
    [left.dataset.cycle, right.dataset.cycle] = [num(from), num(to)];
    onChange();
  }

  /** @param {number} factor  below 1 is closer @param {number} [at]  the cycle that stays in place */
  function zoom(factor, at = (from + to) / 2) {
    const scale = clamp((to - from) * factor, least, total) / (to - from);
    show(at - (at - from) * scale, at + (to - at) * scale);
  }

  /** @param {number} cycles */
  const move = (cycles) => show(from + cycles, to + cycles);
  /** @param {number} x  on the canvas */
  const cycleAt = (x) => from + ((x - area.x) / area.width) * (to - from);

  canvas.addEventListener(
    "wheel",
    (event) => {
      const chord = event.ctrlKey || event.metaKey;
      if (!chord && !host.contains(document.activeElement)) return;
      event.preventDefault();
      const unit = event.deltaMode ? 33 : 1;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
        move(((event.deltaX * unit) / area.width) * (to - from));
      // A pinch on a touchpad arrives as many small turns with Ctrl.
      else zoom(2 ** clamp(event.deltaY * unit * (chord ? 0.02 : 0.005), -0.5, 0.5), cycleAt(event.offsetX));
    },
    { passive: false },
  );

  /** Fingers, or the mouse: the cycle under each stays under it. @type {Map<number, {cycle: number, x: number}>} */
  const held = new Map();
  let pressedAt = 0;
  let dragged = false;
  let ruler = false;
  /** Where a measurement began, while it goes on. @type {number|null} */
  let anchor = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!held.size) [pressedAt, dragged] = [event.offsetX, false];
    if (event.shiftKey || ruler) {
      anchor = clamp(cycleAt(event.offsetX), 0, total);
      onMeasure(null);
      canvas.setPointerCapture(event.pointerId);
      return;
    }
    held.set(event.pointerId, { cycle: cycleAt(event.offsetX), x: event.offsetX });
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (anchor !== null) {
      const at = clamp(cycleAt(event.offsetX), 0, total);
      dragged ||= Math.abs(event.offsetX - pressedAt) > 4;
      if (dragged) onMeasure([Math.round(Math.min(anchor, at)), Math.round(Math.max(anchor, at))]);
      return;
    }
    const finger = held.get(event.pointerId);
    if (!finger) return;
    finger.x = event.offsetX;
    dragged ||= Math.abs(event.offsetX - pressedAt) > 4;
    if (!dragged) return;
    const [p, q] = held.values();
    const pinched = q ? Math.abs((q.cycle - p.cycle) / (q.x - p.x)) : 0;
    const perPixel = pinched > 0 && Number.isFinite(pinched) ? pinched : (to - from) / area.width;
    const start = p.cycle - (p.x - area.x) * perPixel;
    show(start, start + area.width * perPixel);
  });
  for (const name of /** @type {const} */ (["pointerup", "pointercancel"]))
    canvas.addEventListener(name, (event) => {
      anchor = null;
      held.delete(event.pointerId);
      for (const finger of held.values()) finger.cycle = cycleAt(finger.x);
    });

  host.addEventListener("keydown", (event) => {
    const step = (to - from) / 10;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => move(-step),
      ArrowRight: () => move(step),
      "+": () => zoom(0.5),
      "-": () => zoom(2),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey !== (event.key === "+") || !(event.key in keys))
      return;
    event.preventDefault();
    keys[event.key]();
  });

  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const box = track.getBoundingClientRect();
    /** @param {PointerEvent} e */
    const cycles = (e) => ((e.clientX - box.left) / box.width) * total;
    const [grip, begin] = [event.target, cycles(event)];
    if (grip === track) move(begin - (from + to) / 2);
    const [a, b] = [from, to];
    track.onpointermove = (e) => {
      const by = cycles(e) - begin;
      if (grip === left) show(clamp(a + by, 0, b - least), b);
      else if (grip === right) show(a, clamp(b + by, a + least, total));
      else show(a + by, b + by);
    };
    track.setPointerCapture(event.pointerId);
  });
  track.onpointerup = track.onpointercancel = () => {
    track.onpointermove = null;
  };

  return {
    track,
    show,
    zoom,
    /** Whether dragging measures, Shift or not. @param {boolean} on */
    rule(on) {
      ruler = on;
    },
    visible: () => /** @type {[number, number]} */ ([from, to]),
    /** Whether the mouse has moved since it went down: then its release is no click. */
    dragged: () => dragged,
  };
}
