"""One page over many kernels: a table that can be searched, and every finding under its kernel."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from pipeloom.reports.fail_rules import GateResult
from pipeloom.reports.kernel_report import KernelReport, ReportedFinding

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; }
input { font: inherit; width: 100%; padding: .4rem; box-sizing: border-box; }
table { border-collapse: collapse; width: 100%; margin-top: 1rem; }
td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
code { font-size: .9em; }
.RACE { color: #d22; } .TIMING { color: #b70; } .PROVED, .CLEAN { color: #282; }
.fails { font-weight: 600; }
"""
_SCRIPT = """
const box = document.querySelector('input'), rows = [...document.querySelectorAll('tbody tr')];
const count = document.querySelector('output');
function show() {
  const words = box.value.toLowerCase().split(/\\s+/);
  let seen = 0;
  for (const row of rows) {
    const hit = words.every(word => row.textContent.toLowerCase().includes(word));
    row.hidden = !hit; seen += hit;
  }
  count.textContent = `${seen} of ${rows.length} kernels`;
}
box.addEventListener('input', show); show();
"""


def kernel_index(reports: Iterable[KernelReport], result: GateResult) -> str:
    """The page, self-contained; kernels that fail come first."""
    failing = {(id(report), finding.fingerprint) for report, finding in result.failing}
    excuses = {(id(r), finding.fingerprint): why for r, finding, why in result.ignored}
    bad = {mark for mark, _ in failing} | {id(report) for report in result.not_judged}
    listed = sorted(reports, key=lambda one: id(one) not in bad)
    rows = "\n".join(_row(one, failing, excuses) for one in listed)
    said = f"{len(listed)} kernels, {len(result.failing)} findings that fail"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>pipeloom: {escape(said)}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>
<h1>Kernels</h1><p>{escape(said)}, {len(result.ignored)} ignored or known,
{len(result.not_judged)} not judged.</p>
<label>Search <input type="search" placeholder="kernel, file, class, instruction"></label>
<output></output>
<table><thead><tr><th>kernel</th><th>verdict</th><th>findings</th></tr></thead>
<tbody>
{rows}
</tbody></table><script>{_SCRIPT}</script></html>
"""


def _row(
    report: KernelReport,
    failing: set[tuple[int, str]],
    excuses: dict[tuple[int, str], str],
) -> str:
    found = ""
    for one in report.findings:
        mark = id(report), one.fingerprint
        found += _finding(one, mark in failing, excuses.get(mark))
    more = f"<details><summary>{len(report.findings)}</summary><ul>{found}</ul></details>"
    style = report.status.split(" ")[0]
    return (
        f"<tr><td><b>{escape(report.kernel or '-')}</b><br><small>{escape(report.file)}, "
        f"{escape(report.arch)}, {escape(report.tool)}</small></td>"
        f'<td class="{escape(style)}">{escape(report.summary)}</td>'
        f"<td>{more if report.findings else '0'}</td></tr>"
    )


def _finding(one: ReportedFinding, fails: bool, excuse: str | None) -> str:
    first = f"<br><code>{escape(str(one.first))}</code>" if one.first is not None else ""
    pairs = f" ({one.pairs} pairs)" if one.pairs > 1 else ""
    why = f"<br><i>does not fail: {escape(excuse)}</i>" if excuse else ""
    shown = f"<br>{escape(one.shown)}" if one.shown else ""
    return (
        f'<li class="{"fails" if fails else ""}">{escape(one.severity.value)} {escape(one.kind)}'
        f"{pairs}: {escape(one.message)}{first}<br><code>{escape(str(one.second))}</code>"
        f"{shown}{why} <small>{one.fingerprint}</small></li>"
    )
