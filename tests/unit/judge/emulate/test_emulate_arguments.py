"""Arguments by their place in the kernarg segment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeloom.judge.emulate import LaunchError, PlacedArg, load_code_object, run_kernel

STORE = """
  s_load_dwordx2 s[4:5], s[0:1], 0x10
  s_load_dword s6, s[0:1], 0x24
  s_load_dwordx2 s[8:9], s[0:1], 0x28
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  global_load_dword v2, v1, s[8:9]
  s_waitcnt vmcnt(0)
  v_add_u32 v2, s6, v2
  global_store_dword v1, v2, s[4:5]
  s_endpgm"""


def without_arguments(bench: Any) -> Any:
    """A kernel whose metadata lists no arguments, only the segment's size."""
    text = bench.text(STORE, pointers=6)
    listed = text[text.index("    .args:") : text.index("...")]
    return load_code_object(bench.assemble(text.replace(listed, ""), "gfx950"))


def test_arguments_need_no_metadata(bench: Any) -> None:
    code = without_arguments(bench)
    assert not code.kernel().arguments
    out, given = np.zeros(64, np.uint32), np.arange(64, dtype=np.uint32)
    args = [PlacedArg(16, 8, out), PlacedArg(36, 4, 5), PlacedArg(40, 8, given, "given")]
    result = run_kernel(code, grid=(1,), block=(64,), args=args, check_wait_states=False)
    assert result.ok
    np.testing.assert_array_equal(out, given + 5)


def test_one_array_is_one_buffer(bench: Any) -> None:
    both = np.arange(64, dtype=np.uint32)
    args = [PlacedArg(16, 8, both), PlacedArg(36, 4, 7), PlacedArg(40, 8, both)]
    code = without_arguments(bench)
    for _ in range(2):  # the second run adds to what the first one stored
        assert run_kernel(code, grid=(1,), block=(64,), args=args, check_wait_states=False).ok
    np.testing.assert_array_equal(both, np.arange(64) + 14)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([PlacedArg(0, 8, 1), PlacedArg(4, 4, 1)], "inside the one before it"),
        ([PlacedArg(44, 8, 1)], "end at byte 52"),
        ([PlacedArg(0, 8, 1), 3], "some have not"),
    ],
)
def test_places_are_checked(bench: Any, args: list[Any], words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        run_kernel(without_arguments(bench), grid=(1,), block=(64,), args=args)
