"""Streams for the measured attention loops, none of which is published as instructions.

A record gives counts and words, its source explains more. A stream is made of them by these rules,
the same for every kernel; each writer below says only where its source differs. One iteration is
two KV tiles of four clusters each, with a barrier behind every cluster: read K, QK, read V, PV. Two
wave groups run one cluster apart.

1. *What is computed.* A lane has 32 scores of a tile. Its maximum is 15 ``v_max3``, its sum a run
   of adds; then a swap with the other half wave (move, two wait states, swap) and the last max
   or add. 32 subtractions, 32 ``v_exp`` and 16 conversions of pairs complete the tile. With the
   tests for the rescale these are the records' totals, cluster by cluster.
2. *Where.* The maximum, the test, subtractions and the first exps under PV; the other exps, the sum
   and the conversions under QK. The split of the exps is the source's.
3. *Dependences.* A reduction is a chain, each step of which needs the one before (Triton and FlyDSL
   both reduce in order), and so is what hangs on its result: swap, test, factor. Everything else
   has operands older than an MFMA and is taken as independent. GT's stalls of VALU, beyond the
   cycles in which an MFMA reads its operands, are these chains to within 10 cycles per cluster.
4. *Order.* Program order, except where the source says how VALU is dealt to MFMAs: ``_evenly`` puts
   as many behind each MFMA, classes mixed where no dependence forbids it; ``_windows`` fills groups
   of one MFMA and so many VALU or exps, one after the other, as ``sched_group_barrier`` does.
5. *Memory clusters.* The reads of the operand (16 of K, 32 transposing ones of V), two loads, each
   behind a write of m0, one wait that drains the reads and leaves two tiles of loads in flight.
   FlyDSL loads first and reads then, Gluon the other way round; the two VALU that stand in memory
   clusters compute addresses.
6. *Branches.* A rescale that is not needed is jumped over: in PV by FlyDSL, in the memory cluster
   before QK by Gluon. The loop ends in four scalar instructions and its branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MFMAS = 16  # per cluster
_SWAP = ["V[max]", "N(1)", "V[max]"]
_SKIP = "S branch"


def attention_stream(record: Mapping[str, Any]) -> str:
    """One iteration of the loop a record describes, in the letters of ``simulate_stream``."""
    name: str = record["id"]
    if name.startswith("flydsl"):
        return _flydsl(
            paced="no_nop" not in name, raised="no_setprio" not in name, eager="eager" in name
        )
    if name == "fa_mfma_only":
        return _gluon(["M"] * _MFMAS, ["M"] * _MFMAS)
    if name == "fa_fav3_stock":
        return _stock()
    # Lazy rescale. A tile has 33 exps: 20 with the subtractions of 5/8 of the scores under PV.
    maximum = [*["V[max]"] * 15, *_SWAP, *["V[max]"] * 8]
    under_pv = mixed(["V"] * 20, ["X"] * 20)
    under_qk = (["V"] * 12, ["X"] * 13, ["V[sum]"] * 33, ["V"] * 17)
    if name == "fa_fav4_no_sched":
        qk = _clumped([item for part in under_qk for item in part])
        return _gluon(qk, _clumped([*maximum, *["V"] * 20, *["X"] * 20]), lazy=_SKIP)
    if name == "fa_fav4_sgb":
        late = mixed(under_qk[2], under_qk[3])
        qk = _windows([(under_qk[0], 6), (under_qk[1], 3), (late, 6)])
        return _gluon(qk, _windows([(maximum, 6), (under_pv, 4)]), lazy=_SKIP)
    head = "N(7) N(7)" if "s_nop_issue_cycles" in record["measured"] else ""
    qk = _evenly(mixed(*under_qk))
    return _gluon(qk, _evenly([*maximum, *under_pv]), lazy=_SKIP, head=head)


def _flydsl(*, paced: bool, raised: bool, eager: bool) -> str:
    """FlyDSL's dualwave loop: 6 groups of 3 exps and 10 of 5 VALU under QK, 4 and 6 of 6 VALU and
    6 of 3 exps under PV (its source, and the record's words); its rescale, skipped if lazy, stands
    between the first and the second K step of PV and scales O, P and the sum."""
    total = ["V"] * 16 + ["V[sum]"] * 15 + ["V[sum]", "N(1)", "V[sum]", "V[sum]", "V[sum]"]
    qk = _windows([(["X"] * 16, 3), (total + ["V"] * 16, 5)])
    maximum = ["V[max]"] * 15 + _SWAP + ["V[max]"] * 4
    first = _windows([(maximum, 6)], mfmas=4)
    if eager:
        # The maximum becomes a factor; then 64 accumulators, and the 32 values of P, which are
        # unpacked, scaled and packed again, before the K steps that use them.
        scale_p = ["V"] * (32 + 32 + 16)
        rest = _windows([(scale_p, 8), (["V"] * 32, 6), (["X"] * 16, 3)], mfmas=12)
        pv = [*first, "V[max]", "X[max]", "V[max]", *["V"] * 64, *rest]
    else:
        skip = ["S", "S", "branch"]
        pv = [*first, *skip, *_windows([(["V"] * 32, 6), (["X"] * 16, 3)], mfmas=12)]
    if raised:
        pv = ["prio(1)", *pv, "prio(0)"]
    head = "N(7)" if paced else ""
    loads = f"{head} S N G S N G"
    return (
        f"({loads} R16 wv4+wl0 B {' '.join(qk)} B {loads} T32 V wv4+wl0 B {' '.join(pv)} B)x2"
        " S4 branch"
    )


def _gluon(qk: list[str], pv: list[str], *, lazy: str = "", head: str = "") -> str:
    return (
        f"({head} R16 S G S G {lazy} wv4+wl0 B {' '.join(qk)} B"
        f" {head} T32 S G S G{' V' if lazy else ''} wv4+wl0 B {' '.join(pv)} B)x2 S4 branch"
    )


def _stock() -> str:
    """LLVM's own order of the eager kernel: packed math between the MFMAs, PV's reads waited for
    inside PV, 19 VALU left over behind PV's last MFMA (GT mfma_coissue_scheduling and note)."""
    total = " ".join(_evenly([*["V[sum]"] * 27, *["V"] * 11], 4))
    qk = f"(M V6 P4)x5 {total} M V5 M6"
    maximum = [*["V[max]"] * 15, *_SWAP, *["V[max]"] * 3]
    pv = _evenly([*maximum, *["V"] * 32, *["X"] * 14])
    for place, count in enumerate((14, 11, 8, 3, 2, 1, 0)):
        at = [i for i, item in enumerate(pv) if item == "M"][place]
        pv.insert(at, f"wl{count}")
    memory = f"R16 S G S G wv4+wl0 B {qk} B T32 S G S G wv4 B"
    return f"({memory} {' '.join(pv)} X19 B)x2 S4 branch"


def _evenly(items: list[str], mfmas: int = _MFMAS) -> list[str]:
    """The items in their order, as many behind each MFMA."""
    out: list[str] = []
    for number in range(mfmas):
        share = items[number * len(items) // mfmas : (number + 1) * len(items) // mfmas]
        out += ["M", *share]
    return out


def _windows(groups: list[tuple[list[str], int]], mfmas: int = _MFMAS) -> list[str]:
    """Groups of one MFMA and so many items; what is left over follows, MFMAs or items."""
    out: list[str] = []
    used = 0
    for items, size in groups:
        for start in range(0, len(items), size):
            if used < mfmas:
                out.append("M")
                used += 1
            out += items[start : start + size]
    return out + ["M"] * (mfmas - used)


def _clumped(items: list[str]) -> list[str]:
    """As LLVM leaves it: of 16 MFMAs 5 bare, 8 with more than they can hide (GT note, 3.24.2)."""
    many = -(-4 * len(items) // 5)
    return _evenly(items[:many], 8) + _evenly(items[many:], 3) + ["M"] * (_MFMAS - 11)


def mixed(*lists: list[str]) -> list[str]:
    """One list in which each of the given lists is spread evenly; earlier lists win ties."""
    keyed = [
        ((2 * j + 1) / (2 * len(items)), number, item)
        for number, items in enumerate(lists)
        for j, item in enumerate(items)
    ]
    return [item for _, _, item in sorted(keyed, key=lambda entry: entry[:2])]
