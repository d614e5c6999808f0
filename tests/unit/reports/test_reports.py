"""Reports of findings: fingerprints, what fails a run, and the files that CI reads."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from rich.console import Console

from pipeloom.cli.main import main
from pipeloom.drive.checking import check
from pipeloom.drive.checking_many import (
    CheckJob,
    check_file,
    check_many,
    kernel_files,
    launch_beside,
)
from pipeloom.drive.judging import judge
from pipeloom.drive.sources import Source
from pipeloom.drive.store import Store
from pipeloom.errors import ConfigError, SpecError
from pipeloom.judge.scan import KernelScan, ScanFinding, ScanKind, ScanPlace
from pipeloom.reports.annotations import MOST, workflow_commands
from pipeloom.reports.fail_rules import (
    FailRules,
    FindingGate,
    Ignored,
    baseline_text,
    read_baseline,
    read_ignores,
)
from pipeloom.reports.from_judges import of_check, of_scan, of_verify
from pipeloom.reports.junit import junit
from pipeloom.reports.kernel_index import kernel_index
from pipeloom.reports.kernel_report import (
    KernelReport,
    ReportedFinding,
    ReportedPlace,
    Severity,
    fingerprinted,
)
from pipeloom.reports.sarif import sarif
from pipeloom.show.verdict_text import render_verdict

EXAMPLES = Path("examples").resolve()
RACE = ReportedFinding(
    "raw",
    Severity.RACE,
    "a read comes too early, 100 %\nof runs",
    ReportedPlace("ds_read_b32 v4, v7", 0x40, "k.s:22"),
    ReportedPlace("ds_write_b32 v1, v2", 0x30, "k.s:19"),
    -5,
    3,
    story=("wave 0: writes", "wave 1: reads"),
)
LATE = replace(RACE, kind="war", severity=Severity.TIMING, margin=300)
NOTE = replace(RACE, kind="needless-wait", severity=Severity.NOTE, first=None, margin=None)


def report(*findings: ReportedFinding, kernel: str = "k", reason: str = "") -> KernelReport:
    status = "NOT JUDGED" if reason else "RACE"
    found = fingerprinted(kernel, findings)
    return KernelReport("check", "src/k.s", kernel, "gfx950", status, "said", found, reason)


def test_a_fingerprint_survives_other_addresses_and_tells_equal_texts_apart() -> None:
    moved = replace(
        RACE,
        second=replace(RACE.second, pc=0x400, line="k.s:99"),
        first=None if RACE.first is None else replace(RACE.first, pc=0x300),
    )
    (one,), (other,) = report(RACE).findings, report(moved).findings
    assert one.fingerprint == other.fingerprint
    both = {finding.fingerprint for finding in report(moved, RACE).findings}
    assert len(both) == 2
    assert one.fingerprint in both
    assert report(RACE, kernel="l").findings[0].fingerprint not in both
    assert report(LATE).findings[0].fingerprint not in both


def test_a_branch_is_known_wherever_it_leads() -> None:
    jumps = [replace(NOTE, second=ReportedPlace(f"s_cbranch_scc1 {to}")) for to in ("0x10", "0x40")]
    assert len({report(one).findings[0].fingerprint for one in jumps}) == 1


def test_reassembly_keeps_the_fingerprints_of_a_kernel() -> None:
    """A few instructions more at the start move everything."""
    text = (EXAMPLES / "exchange.s").read_text()
    x = np.arange(128, dtype=np.int32)
    marks = []
    for source in (text, text.replace("exchange:\n", "exchange:\n  s_nop 0\n  s_nop 1\n")):
        path = Path("k.s")
        verdict = check(_written(path, source), (1,), (128,), [x, x * 0], shown=0).verdict
        marks.append([one.fingerprint for one in of_check(verdict, "k.s").findings])
    assert marks[0] == marks[1] != []


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELOOM_STORE", str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("rules", "kinds", "code"),
    [
        ("race", ["raw"], 4),
        ("timing", ["war"], 3),
        ("war", ["war"], 3),
        ("margin<0", ["raw"], 4),
        ("margin<301", ["raw", "war"], 4),
        ("note", ["needless-wait"], 3),
        ("none", [], 0),
        ("not-judged", [], 6),
        ("race, timing ,not-judged", ["raw", "war"], 4),
    ],
)
def test_rules_say_what_fails(rules: str, kinds: list[str], code: int) -> None:
    gate = FindingGate(FailRules.read(rules))
    result = gate.judge([report(RACE, LATE, NOTE), report(reason="too long")])
    assert [finding.kind for _, finding in result.failing] == kinds
    assert result.exit_code == code


@pytest.mark.parametrize("bad", ["", "race,,war", "margin<x", "Race!", "margin>3"])
def test_a_rule_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(SpecError, match="fail-on"):
        FailRules.read(bad)


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        ("raw:k=known = safe", ["war"]),
        ("*:src/*=generated", []),
        ("timing:ds_write*=never read", ["raw"]),
        ("war:other*=no", ["raw", "war"]),
    ],
)
def test_what_is_ignored_has_a_reason(ignore: str, left: list[str]) -> None:
    gate = FindingGate(ignored=read_ignores(f"# of last year\n\n{ignore}\n"))
    result = gate.judge([report(RACE, LATE)])
    assert [finding.kind for _, finding in result.failing] == left
    assert {why for *_, why in result.ignored} <= {ignore.partition("=")[2]}


@pytest.mark.parametrize("bad", ["war", "war:k", "war:k=", ":k=why", "war:=why", "war:k= "])
def test_an_ignore_without_a_reason_is_refused(bad: str) -> None:
    with pytest.raises(SpecError, match="CLASS:PATTERN=REASON"):
        Ignored.read(bad)


def test_only_what_is_new_fails_with_a_baseline() -> None:
    known = read_baseline(baseline_text([report(RACE, NOTE)]), "b.json")
    assert len(known) == 2
    result = FindingGate(known=known).judge([report(RACE, LATE)])
    assert [finding.kind for _, finding in result.failing] == ["war"]
    assert [why for *_, why in result.ignored] == ["in the baseline"]
    strict = FindingGate(FailRules.read("note"), known=known)
    assert not strict.judge([report(RACE, NOTE)]).failing


@pytest.mark.parametrize("bad", ["{", "[]", "{}", '{"format": "x", "findings": {}}'])
def test_a_file_that_is_no_baseline_is_refused(bad: str) -> None:
    with pytest.raises(SpecError, match=r"b\.json is no baseline"):
        read_baseline(bad, "b.json")


def test_sarif_has_what_code_scanning_requires() -> None:
    given = [report(RACE, LATE, NOTE), report(reason="too long", kernel="l")]
    data = json.loads(sarif(given, "1.0"))
    (run,) = data["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert all(r["shortDescription"]["text"] and r["help"]["text"] for r in rules.values())
    assert {one["ruleId"] for one in run["results"]} == set(rules)
    levels = {one["ruleId"]: one["level"] for one in run["results"]}
    notes = {"needless-wait": "note", "not-judged": "note"}
    assert levels == {"raw": "error", "war": "warning", **notes}
    first = run["results"][0]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/k.s"
    assert place["region"]["startLine"] == 22
    mark = given[0].findings[0].fingerprint
    assert first["partialFingerprints"] == {"primaryLocationLineHash": mark}
    steps = first["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps] == list(RACE.story)
    assert '""' not in sarif(given, "1.0")


def test_junit_counts_what_it_lists() -> None:
    given = [report(RACE), report(kernel="good"), report(reason="too\x00 long", kernel="l")]
    for rules, counts in (("race", (1, 0, 1)), ("not-judged", (0, 1, 0))):
        result = FindingGate(FailRules.read(rules)).judge(given)
        (suite,) = Xml.fromstring(junit(given, result))
        assert tuple(int(suite.attrib[n]) for n in ("failures", "errors", "skipped")) == counts
        tags = [child.tag for case in suite for child in case]
        assert (tags.count("failure"), tags.count("error"), tags.count("skipped")) == counts
        assert [case.attrib["name"] for case in suite] == ["k", "good", "l"]


def test_annotations_are_one_line_each() -> None:
    given = [report(RACE, LATE, NOTE), report(reason="too long")]
    lines = workflow_commands(given, FindingGate(FailRules.read("race")).judge(given))
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning", "::notice"]
    assert lines[0].startswith("::error file=src/k.s,line=22,title=RACE raw::")
    assert "100 %25%0Aof runs" in lines[0]
    many = [report(*[RACE] * (MOST + 5))]
    assert len(workflow_commands(many, FindingGate().judge(many))) == MOST + 1


def test_the_page_shows_failing_kernels_first_and_escapes() -> None:
    given = [report(kernel="good<>"), report(RACE)]
    page = kernel_index(given, FindingGate(ignored=[Ignored("war", "*", "x")]).judge(given))
    assert "good&lt;&gt;" in page
    assert page.index("<b>k</b>") < page.index("good&lt;")
    assert "<script" in page
    assert "http" not in page


def test_every_judge_has_the_same_form() -> None:
    found = judge(Source("four_wave", dtype="fp8"))
    verified = of_verify(found.verdict, "four_wave", "gfx950")
    assert len(verified.findings) == len(found.verdict.defects())
    assert sum(one.pairs for one in verified.findings) == len(found.verdict.findings)
    margins = [one.margin for one in verified.findings if one.margin is not None]
    assert len(margins) == len(verified.findings)
    assert margins == sorted(margins)
    # No pair is left out of what the terminal shows.
    shown = io.StringIO()
    Console(file=shown, width=400).print(render_verdict(found.verdict))
    for one in found.verdict.findings:
        assert one.apart is not None
        assert shown.getvalue().count(one.apart) >= 1
    assert KernelReport.from_dict(json.loads(json.dumps(verified.to_dict()))) == verified
    place = ScanPlace(0x10, "v_add_u32 v1, v2, v3")
    scanned = KernelScan(
        "k.co",
        "k",
        "gfx950",
        findings=(
            ScanFinding(ScanKind.REGISTER, True, place, place, others=(place,)),
            ScanFinding(ScanKind.LDS, False, place),
            ScanFinding(ScanKind.NEEDLESS, True, place),
        ),
    )
    severities = [one.severity for one in of_scan(scanned).findings]
    assert severities == [Severity.RACE, Severity.TIMING, Severity.NOTE]
    assert of_scan(scanned).findings[0].pairs == 2
    assert of_scan(replace(scanned, findings=())).status == "NOTHING FOUND"
    assert of_scan(KernelScan("k.co", "", "", reason="no ELF")).reason == "no ELF"


# --- many kernels ---------------------------------------------------------------------------------


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    (folder / "more").mkdir(parents=True)
    for place in (folder / "a.s", folder / "more" / "b.s"):
        place.write_text((EXAMPLES / "exchange.s").read_text())
        launch = (EXAMPLES / "exchange.json").read_text()
        place.with_name(place.stem + ".launch.json").write_text(launch)
    (folder / "c.s").write_text("no launch beside it")
    return folder


def test_a_folder_is_checked_alike_by_one_and_by_two_processes(
    kernels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["check", str(kernels), "--json", "--no-store", "--seeds", "0"]
    assert main(command) == 3
    one = capsys.readouterr().out
    assert main([*command, "--jobs", "2"]) == 3
    assert capsys.readouterr().out == one
    assert [Path(k["file"]).name for k in json.loads(one)["kernels"]] == ["a.s", "b.s"]


def test_a_run_goes_on_where_it_was(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(kernels.parent / "store")
    jobs = [CheckJob(one, launch_beside(one)) for one in kernel_files([kernels])]
    first = check_many(jobs[:1], store=store)
    monkeypatch.setattr("pipeloom.drive.checking_many.check_start", None)
    assert check_many(jobs[:1], store=store) == first
    with pytest.raises(TypeError):
        check_file(jobs[1], store)


def test_what_has_no_launch_or_no_kernel_says_so(
    kernels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = check_file(CheckJob(str(kernels / "c.s"), str(kernels / "c.launch.json")))
    assert "c.launch.json" in report.reason
    (kernels / "empty").mkdir()
    assert main(["check", str(kernels / "empty")]) == 1
    assert "pipeloom scan needs no launch" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", str(kernels), "--fix", "x.s"])
    assert "--fix is for one file" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="jobs"):
        check_many([], workers=0)


def test_the_gate_of_a_command(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Baseline, rules and files by the options that check, scan and verify share."""
    one = ["check", str(kernels / "a.s"), "--seeds", "0", "--simulate", "0"]
    assert main([*one, "--fail-on", "race"]) == 0
    assert main([*one, "--fail-on", "margin<109"]) == 3
    assert main([*one, "--ignore", "war:exchange=one buffer"]) == 0
    assert main([*one, "--write-baseline", "b.json"]) == 0
    Path("ignored").write_text("war:exchange=one buffer\n")
    assert main([*one, "--ignore-file", "ignored"]) == 0
    files = ["--sarif", "a.sarif", "--junit", "a.xml", "--html", "a.html", "--github"]
    assert main([*one, *files]) == 3
    assert "::error file=" in capsys.readouterr().out
    assert all(Path(name).stat().st_size for name in ("a.sarif", "a.xml", "a.html"))
    assert main([*one, "--baseline", "b.json"]) == 0
    assert main([*one, "--baseline", "a.xml"]) == 1
    assert main([*one, "--baseline", "none.json"]) == 1
    assert main([*one, "--fail-on", "margin"]) == 0
    assert main(["verify", "four_wave", "--fail-on", "race"]) == 0
    assert main(["scan", str(kernels / "a.s"), "--sarif", "s.sarif"]) == 4
    assert json.loads(Path("s.sarif").read_text())["version"] == "2.1.0"
