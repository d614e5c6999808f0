"""CSP inside compile_schedule: what the reference lost is refused, or fitted on request."""

from __future__ import annotations

import pytest

from pipeloom import CspStrategy, StructureError, compile_schedule, load_spec

CROWDED = {
    "schedule": "ping_pong",
    "target": {"block_sizing": {"heavy": 4, "light": 3, "max_globals": 2}},
}


def test_an_order_that_overfills_a_block_is_refused_with_the_remedy() -> None:
    with pytest.raises(StructureError, match="has room for 2") as caught:
        compile_schedule(load_spec(CROWDED))
    assert "CspStrategy(fit_blocks=True)" in (caught.value.hint or "")


def test_the_remedy_works_and_costs_nothing() -> None:
    compiled = compile_schedule(load_spec(CROWDED), strategy=CspStrategy(fit_blocks=True))
    assert compiled.program is not None
    assert all(len(b.loads) <= 2 and len(b.fragments) <= 2 for b in compiled.program.blocks)
    assert compiled.certificate.proved
    assert compiled.certificate.makespan == compiled.certificate.lower_bound


@pytest.mark.parametrize("max_globals", [0, 1])
@pytest.mark.parametrize(("penalty", "makespan"), [(8, 444), (20, 500), (40, 800)])
def test_contended_ping_pong_is_proved(penalty: int, makespan: int, max_globals: int) -> None:
    spec = {
        "schedule": "ping_pong",
        "schedule_config": {"lds_contention_penalty": penalty},
        "target": {"max_globals": max_globals},
    }
    certificate = compile_schedule(load_spec(spec)).certificate
    assert (certificate.makespan, certificate.proved) == (makespan, True)
