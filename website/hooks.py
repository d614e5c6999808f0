"""What MkDocs calls: pages that no file in docs/ holds, links, and the navigation."""

from __future__ import annotations

import logging
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import pipeloom
from website.coverage import unexplained
from website.reference import TOPICS, reference_pages
from website.repository import ROOT, linked_pages, relinked, site_path

LOG = logging.getLogger("mkdocs.hooks.website")
REPORT = "report.md"
REPORT_PAGE = """\
---
hide: [navigation, toc]
---

# A report, live

This is the page that `pipeloom report ping_pong` writes: one file with the timeline of eight waves,
the schedule, the verdict with its counterexamples, and where the time goes. Click a bar, zoom with
Ctrl and the wheel, or [open it on its own](ping_pong.html). [Looking at a schedule](looking.md)
explains what it shows.

<iframe class="report" src="ping_pong.html" title="The report page of ping_pong"></iframe>
"""
GUIDES = (
    "concepts.md",
    "writing-schedules.md",
    "verdicts.md",
    "checking.md",
    "launches.md",
    "scanning.md",
    "gate.md",
    "on-your-gpu.md",
    "looking.md",
    "measuring.md",
    "deriving.md",
    "tuning.md",
    "emitting.md",
    "addresses.md",
    "attention.md",
    "decode.md",
    "tables.md",
    "csp.md",
    "modulo.md",
    "modulo-solver.md",
    "coming-from-modular.md",
    "differences.md",
)
IN_DEPTH = (
    "program.md",
    "memory-model.md",
    "performance-model.md",
    "executor.md",
    "emulator.md",
    "threat-model.md",
)
PROJECT = ("glossary.md", "design.md", "contributing.md", "security.md", "changelog.md")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the README, evidence, linked sources, the reference, the report; then lay out the nav."""
    docs = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    made: dict[str, str] = {site_path(path): text for path, text in linked_pages(docs).items()}
    made |= reference_pages()
    made[REPORT] = REPORT_PAGE
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    page = pipeloom.report("ping_pong")
    files.append(File.generated(config, "ping_pong.html", content=page))
    for asset in ("style.css", "iframe-worker.js"):
        text = (ROOT / "website" / asset).read_text("utf-8")
        files.append(File.generated(config, asset, content=text))
    config.nav = nav([file.src_uri for file in files.documentation_pages()])
    for path in unexplained():
        LOG.warning("%s is public and not explained", path)
    return files


def nav(pages: list[str]) -> list[dict[str, Any]]:
    """Tabs, and the pages of each; a page that nobody has placed is a guide."""
    left = dict.fromkeys(pages)

    def take(*wanted: str) -> list[str]:
        return [page for page in wanted if page in left and left.pop(page, "") is None]

    def within(folder: str) -> list[str]:
        return take(*sorted(page for page in left if page.startswith(folder)))

    for page in within("source/"):
        left.pop(page, None)
    tabs = {
        "Home": take("index.md", REPORT),
        "Tutorial": within("tutorial/"),
        "In depth": take(*IN_DEPTH),
        "Reference": take("reference/index.md", *(topic.page for topic in TOPICS)),
        "Evidence": [*take("evidence/README.md"), *within("evidence/")],
        "Project": take(*PROJECT),
    }
    guides = [*take(*GUIDES), *take(*sorted(left))]
    tabs = {"Home": tabs.pop("Home"), "Tutorial": tabs.pop("Tutorial"), "Guides": guides, **tabs}
    return [{title: found} for title, found in tabs.items() if found]


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links of pages in docs/ that lead out of it; sources and evidence stay out of the search."""
    if page.file.src_uri.startswith(("source/", "evidence/")):
        page.meta["search"] = {"exclude": True}
    if page.file.generated_by is None:
        return relinked(markdown, f"docs/{page.file.src_uri}")
    return markdown
