"""The site's pages and links, and that it is built strictly; tests/browser looks at it whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from mkdocs.config import load_config

from website.__main__ import build_site
from website.hooks import nav
from website.reference import TOPICS
from website.repository import ROOT, linked_pages, relinked, site_path


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("# Fine\n\n[itself](index.md#fine)\n", ""),
        ("# Broken\n\n[nowhere](gone.md)\n", "'gone.md'"),
        ("# Broken\n\n[nothing](index.md#gone)\n", "#gone"),
        ("# Broken\n\n[a host's root](/gone)\n", "absolute"),
    ],
)
def test_a_broken_link_fails(
    page: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(page, "utf-8")
    config = load_config(
        str(ROOT / "website" / "mkdocs.yml"),
        strict=True,
        docs_dir=str(docs),
        site_dir=str(tmp_path / "site"),
        hooks=[],
        plugins=[],
    )
    assert build_site(config) == bool(said)
    assert said in caplog.text


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    text = "[a](../evidence/claims.md#b) [c](program.md) ![d](images/report-light.png)\n"
    text += "[e](../examples) [f](https://x.org/../README.md) [g](gone.md)\n"
    assert relinked(text, "docs/verdicts.md") == (
        "[a](evidence/claims.md#b) [c](program.md) ![d](images/report-light.png)\n"
        "[e](source/examples.md) [f](https://x.org/../README.md) [g](gone.md)\n"
    )
    assert relinked("[a](docs/program.md)", "README.md") == "[a](program.md)"
    assert relinked("[a](../docs/program.md)", "evidence/x.md") == "[a](../program.md)"
    code = "```\n[a](../evidence/claims.md)\n```\n"
    assert relinked(code, "docs/verdicts.md") == code


def test_linked_sources_become_pages() -> None:
    pages = linked_pages([f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")])
    assert {"README.md", "CONTRIBUTING.md", "evidence/claims.md"} <= set(pages)
    assert "Fact(" in pages["src/pipeloom/machine/gfx950.py"]
    assert all(Path(site_path(path)).suffix == ".md" for path in pages)


def test_the_navigation_takes_pages_that_are_not_there_yet() -> None:
    pages = ["index.md", "concepts.md", "zebra.md", "source/x.md", "tutorial/1-a.md"]
    pages += [topic.page for topic in TOPICS]
    tabs = {title: found for tab in nav(pages) for title, found in tab.items()}
    assert tabs["Guides"] == ["concepts.md", "zebra.md"]
    assert tabs["Tutorial"] == ["tutorial/1-a.md"]
    assert list(tabs) == ["Home", "Tutorial", "Guides", "Reference"]
