// @ts-check
// The dependence graph: ops left to right in issue order, one row per kind of op.

/** @type {Array<[string, string[]]>} */
const GRAPH_ROWS = [
  ["global load", ["global_load"]],
  ["LDS store", ["shared_store"]],
  ["fragment load", ["fragment_load"]],
  ["MMA", ["compute", "valu_compute"]],
  ["other", ["sync", "barrier", "fence", "none"]],
];

/**
 * @param {HTMLElement} host
 * @param {(choice: Choice) => void} onSelect
 */
function makeGraph(host, onSelect) {
  const rows = GRAPH_ROWS.filter(([, roles]) => page.ops.some((op) => roles.includes(op[O.role])));
  const chart = echarts.init(host);
  let chosen = -1;
  let c = palette();

  /** Row of an op, by its role. */
  const rowOf = (op) => rows.findIndex(([, roles]) => roles.includes(op[O.role]));
  const colourOf = (op) => cssColour(ROLE_VARIABLES[op[O.role]] || "--scalar");

  function nodes() {
    const near = new Set([chosen]);
    for (const e of page.edges) {
      if (e[D.consumer] === chosen) near.add(e[D.producer]);
      if (e[D.producer] === chosen) near.add(e[D.consumer]);
    }
    const width = Math.min(76, Math.max(36, (host.clientWidth - 130) / (page.ops.length + 1) - 3));
    return page.ops.map((op, i) => ({
      value: [op[O.place], rowOf(op)],
      name: String(i),
      symbol: "roundRect",
      symbolSize: [width, 30],
      itemStyle: {
        color: fade(colourOf(op), chosen < 0 || near.has(i) ? 0.92 : 0.25),
        borderColor: i === chosen ? c.ink : page.critical.includes(i) ? c.kinds[3] : "transparent",
        borderWidth: i === chosen || page.critical.includes(i) ? 2 : 0,
      },
      label: {
        show: true,
        formatter: op[O.label].replace(/^(load|frag|mma|store|valu) /, "").replace(" k", "\nk"),
        color: chosen < 0 || near.has(i) ? c["on-fill"] : c.ink,
        fontSize: 10.5,
        lineHeight: 12,
      },
    }));
  }

  function links() {
    return page.edges.map((e) => {
      const needs = e[D.consumer] === chosen;
      const feeds = e[D.producer] === chosen;
      const carried = e[D.distance] > 0;
      const opacity = chosen < 0 ? (carried ? 0.22 : 0.75) : needs || feeds ? 1 : 0.05;
      const span = page.ops[e[D.consumer]][O.place] - page.ops[e[D.producer]][O.place];
      const flat = rowOf(page.ops[e[D.consumer]]) === rowOf(page.ops[e[D.producer]]);
      return {
        source: String(e[D.producer]),
        target: String(e[D.consumer]),
        lineStyle: {
          color: needs ? c.needs : feeds ? c.feeds : c.quiet,
          width: needs || feeds ? 2 : 1,
          opacity,
          type: e[D.kind] === 0 ? "solid" : "dashed",
          curveness: flat ? (span > 0 ? 0.2 : -0.2) : carried ? 0.12 : 0.04,
        },
      };
    });
  }

  function describe(params) {
    if (params.dataType === "edge") {
      const e = page.edges[params.dataIndex];
      const when = e[D.distance]
        ? `, from ${e[D.distance]} iteration${e[D.distance] > 1 ? "s" : ""} before`
        : "";
      return el(
        "div",
        "tip",
        `${page.ops[e[D.consumer]][O.label]} must follow ${page.ops[e[D.producer]][O.label]} (${DEP_KINDS[e[D.kind]]}${when})`,
      );
    }
    const op = page.ops[params.dataIndex];
    return el(
      "div",
      "tip",
      el("b", "", op[O.label]),
      el(
        "dl",
        "",
        el("dt", "", "latency"),
        el("dd", "", op[O.latency]),
        el("dt", "", "earliest start"),
        el("dd", "", op[O.asap]),
        el("dt", "", "slack"),
        el("dd", "", op[O.slack]),
      ),
    );
  }

  function draw() {
    host.style.height = `${rows.length * 84 + 30}px`;
    chart.setOption({
      animation: false,
      textStyle: { fontFamily: FONT_FAMILY },
      grid: { left: 100, right: 30, top: 8, bottom: 8 },
      tooltip: { trigger: "item", formatter: describe, ...tooltipStyle(c) },
      xAxis: { type: "value", min: -1, max: page.ops.length, show: false },
      yAxis: {
        type: "category",
        inverse: true,
        data: rows.map(([name]) => name),
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: { color: c.quiet, fontSize: 12 },
        splitLine: { show: false },
      },
      series: [
        {
          id: "graph",
          type: "graph",
          layout: "none",
          coordinateSystem: "cartesian2d",
          data: nodes(),
          links: links(),
          edgeSymbol: ["none", "arrow"],
          edgeSymbolSize: 7,
          roam: false,
          emphasis: { disabled: true },
        },
      ],
    });
  }

  draw();
  chart.on("click", (params) => {
    if (params.dataType !== "node") return;
    const op = /** @type {number} */ (params.dataIndex);
    const entry = page.entries.findIndex((e) => e[E.op] === op && e[E.phase] === 1);
    onSelect({ entry, op, segment: -1 });
  });
  new ResizeObserver(() => {
    chart.resize();
    draw();
  }).observe(host);
  return {
    chart,
    /** @param {Choice} now */
    select(now) {
      chosen = now.op;
      draw();
    },
    recolour() {
      c = palette();
      draw();
    },
  };
}
