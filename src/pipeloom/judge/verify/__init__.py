"""Verdicts on programs: proved for every trip count, or a counterexample."""

from pipeloom.judge.verify.findings import (
    Counterexample,
    CounterexampleStep,
    Coverage,
    DeadWork,
    Finding,
    FindingKind,
    Replay,
    Status,
    StepPlace,
    Verdict,
)
from pipeloom.judge.verify.prove import proves, verify

__all__ = [
    "Counterexample",
    "CounterexampleStep",
    "Coverage",
    "DeadWork",
    "Finding",
    "FindingKind",
    "Replay",
    "Status",
    "StepPlace",
    "Verdict",
    "proves",
    "verify",
]
