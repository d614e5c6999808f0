"""Build the site into build/site; any warning fails."""

from __future__ import annotations

import logging
import sys
import time

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort

from website.repository import ROOT


def build_site(config: MkDocsConfig) -> int:
    """0, or 1 where anything was warned about, which logging then says."""
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    except Abort as error:
        print(error.message, file=sys.stderr)
        return 1
    finally:
        config.plugins.on_shutdown()
    return 0


def main(site: str | None = None) -> int:
    """Build the site, into another folder if one is given."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    begun = time.monotonic()
    options = {} if site is None else {"site_dir": site}
    config = load_config(str(ROOT / "website" / "mkdocs.yml"), strict=True, **options)
    if build_site(config):
        return 1
    print(f"{config.site_dir}/index.html, in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
