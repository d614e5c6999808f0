// @ts-check
// The verdict: its findings, and the counterexample of one of them as a diagram with a column per wave.

const FINDINGS_SHOWN = 6;

/**
 * @typedef {{title: string, trips: number|null, waves: number[], steps: Array<[number, string, Row|null]>}} Example
 *
 * @param {((example: Example, zoom: boolean) => void)|null} onExample  null where there is no timeline
 */
function fillVerdict(onExample) {
  const v = /** @type {Record<string, any>} */ (page.verdict);
  const host = byId("verdict-body");
  const story = el("div", { id: "story" });
  byId("verdict-note").textContent = v.coverage;
  host.append(el("p", "", el("b", v.status.toLowerCase().replace(" ", "-"), v.status), " ", v.meaning));
  const rows = v.findings.map((f, n) => findingRow(f, n));
  const columns = ["finding", "where and why", "first should be over before second begins", ">margin, cycles"];
  if (rows.length) host.append(el("div", "findings spaced", table(columns, rows.slice(0, FINDINGS_SHOWN))));
  if (rows.length > FINDINGS_SHOWN) {
    const more = el("summary", "", `${rows.length - FINDINGS_SHOWN} more`);
    host.append(el("details", "", more, el("div", "findings", table(columns, rows.slice(FINDINGS_SHOWN)))));
  }
  host.append(story);
  if (v.dead.length) {
    const title = el("summary", "", `Work whose result nothing reads: ${v.dead.length} entries`);
    host.append(el("details", "spaced", title, el("ul", "", ...v.dead.map((d) => el("li", "", d)))));
  }
  if (v.shortest >= 0) tell(v.shortest);

  /** @param {Row} f @param {number} n */
  function findingRow(f, n) {
    const first = f[F.first] ? el("div", "", f[F.first][P.text]) : null;
    const row = el(
      "tr",
      "",
      el("td", f[F.status].toLowerCase(), `${f[F.status]} ${f[F.kind]}`),
      el("td", "", el("b", "", f[F.where]), el("div", "quiet", f[F.why])),
      el("td", "", first, el("div", "", f[F.second][P.text])),
      el("td", "num", f[F.margin] === null ? "" : num(f[F.margin])),
    );
    if (!v.examples[n]) return row;
    row.classList.add("entry");
    row.title = "Show how it happens";
    row.tabIndex = 0;
    row.addEventListener("click", () => tell(n));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") tell(n);
    });
    return row;
  }

  /** Show the counterexample of one finding. @param {number} n */
  function tell(n) {
    /** @type {Example} */
    const example = v.examples[n];
    rows.forEach((row, i) => row.classList.toggle("chosen", i === n));
    const trips = example.trips === null ? "" : `, ${example.trips} trip${example.trips === 1 ? "" : "s"} of the loop`;
    const name = n === v.shortest ? "Shortest counterexample" : "Counterexample";
    const head = el("div", "spaced", el("h2", "", `${name}: ${example.title}${trips}`));
    if (onExample) {
      const button = el("button", { type: "button", id: "show-example" }, "Go to it on the timeline");
      button.addEventListener("click", () => {
        onExample(example, true);
        fillExampleDetails(example);
      });
      head.append(button);
      onExample(example, false);
    }
    const steps = example.steps.map(([wave, text], step) =>
      el(
        "tr",
        step === example.steps.length - 1 ? "bad" : "",
        el("td", "", el("span", "pin", step + 1)),
        ...example.waves.map((w) => el("td", "", w === wave ? text : "")),
      ),
    );
    const meaning =
      "Read from the top: an order of events that the schedule permits and that gives a wrong number.";
    const marked = " The simulated run above is another order; the numbers there mark the same entries.";
    story.replaceChildren(
      head,
      el("div", "diagram", table(["", ...example.waves.map((w) => `wave ${w}`)], steps)),
      el("p", "quiet hint", meaning + (onExample ? marked : "")),
    );
  }
}

/** The steps of the counterexample beside the timeline that marks them. @param {Example} example */
function fillExampleDetails(example) {
  byId("details").replaceChildren(
    el("h3", "", `Counterexample: ${example.title}`),
    ...example.steps.map(([wave, text], n) =>
      el("div", "step", el("span", "pin", n + 1), el("span", "", `wave ${wave} `, text)),
    ),
  );
}
