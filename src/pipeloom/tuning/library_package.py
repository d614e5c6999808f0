"""The Python package of a library: our own launcher under another name, ops of PyTorch, its build.

    pipeloom_gemm/                 binding and device, as they are here
    pipeloom_gemm/ops.py           importing it defines torch.ops.pipeloom_gemm.gemm
    pyproject.toml                 pip install FOLDER: the package, its table and its kernels

PyTorch is no requirement of it: what a package index has under that name is no build for ROCm.
"""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files

import pipeloom
from pipeloom.errors import ConfigError
from pipeloom.tuning.binding import DISPATCH, INSTALLED

USUAL_NAME = "pipeloom_gemm"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_TAKEN = ("numpy", "pipeloom", "torch")

_INIT = '''"""Matrix products from the library that this package lies in; see ``Library``."""

from .tuning.binding import Library, LibraryError

__all__ = ["Library", "LibraryError"]
'''
_OPS = '''"""Importing this defines ``torch.ops.{name}.gemm``, opaque to ``torch.compile``."""

from .tuning.binding import Library

gemm = Library().torch_op("gemm", "{name}")
'''
_PROJECT = """[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "{dashed}"
version = "{version}"
description = "Matrix products for AMD GPUs, written by pipeloom."
requires-python = ">=3.11"

[tool.setuptools]
packages = ["{name}", "{name}.device", "{name}.tuning", "{name}.{installed}"]
package-dir = {{ "{name}.{installed}" = "." }}

[tool.setuptools.package-data]
"{name}.{installed}" = ["{table}", "kernels/*"]
"""


def python_package(name: str = USUAL_NAME, *, ops: bool = False) -> dict[str, str]:
    """Its files by their paths in the library; with ``ops`` also what defines PyTorch's."""
    check_package_name(name)
    here = files("pipeloom")
    device = sorted(one.name for one in (here / "device").iterdir() if one.name.endswith(".py"))
    copied = ["errors.py", "tuning/binding.py", *(f"device/{name}" for name in device)]
    found = {file: (here / file).read_text(encoding="utf-8") for file in copied}
    found["tuning/__init__.py"] = '"""What calls the kernels."""\n'
    found["__init__.py"] = _INIT
    if ops:
        found["ops.py"] = _OPS.format(name=name)
    project = _PROJECT.format(
        name=name,
        dashed=name.replace("_", "-"),
        version=pipeloom.__version__,
        installed=INSTALLED,
        table=DISPATCH,
    )
    return {f"{name}/{file}": text for file, text in found.items()} | {"pyproject.toml": project}


def check_package_name(name: str) -> None:
    """Refuse what Python cannot import, or would import instead of something else."""
    taken = name in _TAKEN or name in sys.stdlib_module_names or keyword.iskeyword(name)
    if taken or not _NAME.fullmatch(name):
        raise ConfigError(
            f"a package cannot be called {name[:60]!r}",
            hint="small letters, digits and _, as my_gemms; no name that Python or PyTorch has",
            field="name",
        )
