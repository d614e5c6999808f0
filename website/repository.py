"""Files of the repository as pages of the site, and links between them.

Pages link to each other, to evidence/ and to sources with paths that work on a git host. In the
site a linked file outside docs/ becomes a page of its own, and links are rewritten to it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\(|\]:\s+|(?:src|href)=\")([^)\s\"#]+)(#[^)\s\"]*)?")
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".yml": "yaml", ".s": "gas"}
LONGEST = 200_000
"""Characters of a source that a page shows; beyond, it is cut."""


def site_path(path: str) -> str:
    """Where a file or folder of the repository stands in the site's sources."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    if path.endswith(".md"):
        folder, name = posixpath.split(path)
        return posixpath.join(folder, name if folder else name.lower())
    if Path(path).suffix in (".png", ".svg", ".jpg"):
        return path
    return f"source/{path or 'repository'}.md"


def targets(text: str, path: str) -> set[str]:
    """The files and folders of the repository that a page at ``path`` links to."""
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    rewritten(text, path, note)
    return set(found)


def relinked(text: str, path: str) -> str:
    """The page at ``path`` with links as the site needs them; those to nothing stay."""
    here = posixpath.dirname(site_path(path))
    return rewritten(text, path, lambda target: posixpath.relpath(site_path(target), here or "."))


def rewritten(text: str, path: str, to: Callable[[str], str]) -> str:
    """``text`` with each link to a file that exists replaced, outside of code blocks."""

    def link(match: re.Match[str]) -> str:
        before, target, anchor = match.groups()
        if re.match(r"[a-z]+:|/", target):
            return match.group()
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if found.startswith("..") or not (ROOT / found).exists():
            return match.group()
        return f"{before}{to(found)}{anchor or ''}"

    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[at : fence.start()]), fence.group()]
        at = fence.end()
    return "".join([*parts, LINK.sub(link, text[at:])])


def linked_pages(docs: list[str]) -> dict[str, str]:
    """The files outside docs/ that become pages, by path: those linked to, and so on from there.

    Begins with ``docs`` (paths in the repository), the README and the evidence.
    """
    left = ["README.md", *docs, *(f"evidence/{p.name}" for p in _pages_in(ROOT / "evidence"))]
    pages: dict[str, str] = {}
    seen: set[str] = set()
    while left:
        path = left.pop()
        if path in seen or Path(path).suffix == ".png":
            continue
        seen.add(path)
        if path.endswith(".md"):
            text = (ROOT / path).read_text("utf-8")
            left += sorted(targets(text, path))
            text = relinked(text, path)
        else:
            text = source_page(path)
            if (ROOT / path).is_dir():
                left += [f"{path}/{one.name}" for one in _shown_in(ROOT / path)]
        if not path.startswith("docs/"):
            pages[path] = text
    return pages


def _pages_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.md"))


def _shown_in(folder: Path) -> list[Path]:
    """What the page of a folder lists."""
    skipped = ("__pycache__", "__init__.py")
    found = (p for p in sorted(folder.iterdir()) if p.name not in skipped)
    return [p for p in found if p.is_file() and p.suffix in LANGUAGES]


def source_page(path: str) -> str:
    """A source or folder of the repository as a page."""
    place = ROOT / path
    if place.is_dir():
        here = posixpath.dirname(site_path(path))
        rows = [
            f"- [{p.name}]({posixpath.relpath(site_path(f'{path}/{p.name}'), here)})"
            for p in _shown_in(place)
        ]
        return "\n".join([f"# {path}", "", *rows, ""])
    text = place.read_text("utf-8")
    if len(text) > LONGEST:
        text = text[:LONGEST] + "\n... (cut)\n"
    language = LANGUAGES.get(place.suffix, "text")
    return f"# {path}\n\n``````{language}\n{text.rstrip()}\n``````\n"
