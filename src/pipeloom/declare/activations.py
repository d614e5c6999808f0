"""What a sum may go through when the loop has ended: relu, silu and gelu, by name; and gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sqrt
from types import MappingProxyType

from pipeloom.checks import check_known
from pipeloom.declare.composed import LOG2_E
from pipeloom.declare.functions import clamp, exp2, maximum, minimum, rcp
from pipeloom.declare.tensor import Tensor
from pipeloom.errors import ConfigError


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return maximum(x, 0.0)


def silu(x: Tensor) -> Tensor:
    """x / (1 + exp(-x))."""
    return x * rcp(exp2(x * -LOG2_E) + 1.0)


def gelu(x: Tensor) -> Tensor:
    """x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is x / (1 + e^-2u).

    This form takes one exponential, and neither overflows nor cancels for any x.
    """
    cubed = (x * x * 0.044715 + 1.0) * x
    return x * rcp(exp2(cubed * (-2.0 * LOG2_E * sqrt(2.0 / pi))) + 1.0)


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}
)
"""What a sum may go through, by name."""


def activation_for(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name."""
    check_known(name, ACTIVATIONS, f"activation is {name!r}", "activation")
    return ACTIVATIONS[name]


SWIGLU_ALPHA = 1.702
"""The factor in the sigmoid of the clamped form (gpt-oss)."""


def gated(gate: Tensor, up: Tensor, activation: str, limit: float) -> Tensor:
    """activation(gate) * up; with a limit L, the clamped SwiGLU of gpt-oss, (u + 1) * g *
    sigmoid(1.702 g) with g = min(gate, L) and u = up between -L and L."""
    if not limit:
        return activation_for(activation)(gate) * up
    if activation != "silu" or limit < 0:
        raise ConfigError(
            f"the gate goes through {activation!r}, clamped at {limit}",
            hint="the clamped form is of silu, with a limit above 0, 7.0 as a rule",
            field="limit",
        )
    g, u = minimum(gate, limit), clamp(up, -limit, limit)
    return (u + 1.0) * (g * rcp(exp2(g * (-SWIGLU_ALPHA * LOG2_E)) + 1.0))
