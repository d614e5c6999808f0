"""Build the site into build/site; any warning fails."""

from __future__ import annotations

import logging
import sys
import time

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from website.repository import ROOT


def main(site: str | None = None) -> int:
    """Build; 0, or 1 with what is wrong on stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    begun = time.monotonic()
    options = {} if site is None else {"site_dir": site}
    config = load_config(str(ROOT / "website" / "mkdocs.yml"), strict=True, **options)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    except Abort as error:
        print(error.message, file=sys.stderr)
        return 1
    finally:
        config.plugins.on_shutdown()
    print(f"{config.site_dir}/index.html, in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
