"""A kernel as an op of PyTorch: ``torch.ops.pipeloom.NAME``, opaque to ``torch.compile``.

    op = pl.torch_op("k.hsaco", "gemm_nt")       # what emit or gemm wrote, with its record
    c = op(a, b)                                 # new outputs, on the current stream of the device

Inputs are the arrays of the record in its order, then its numbers; outputs and workspaces are
PyTorch's memory, so graph capture and its allocator know of them. Tensors of the host are copied to
the device and back.

The op is defined by a fragment of a library, as vLLM and AITER do: about 10 us of a call, where
``torch.library.custom_op`` takes 29 (PyTorch 2.13, on a CPU).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

from .hip_errors import DeviceError
from .host_arrays import launch_copied
from .laid_arrays import output_shapes
from .prepared_kernel import PreparedKernel
from .sequence import operand_rules, scalar_defaults, scalar_names
from .tensors import TORCH_TYPES

NAMESPACE = "pipeloom"
KernelFor = Callable[[int, Mapping[str, Any]], PreparedKernel]
"""The kernel that computes tensors, by name, on a device, by number: loaded once, then kept."""


def pytorch() -> Any:
    """PyTorch, where it is installed; ``DeviceError`` where not."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise DeviceError(
            "PyTorch is not installed",
            hint="install its ROCm build; pl.launch takes NumPy arrays without it",
            field="torch",
        ) from error


class TorchOp:
    """One op, defined when it is made and until the process ends.

    Args:
        name: Its name behind ``torch.ops.pipeloom``; a name can be taken once.
        record: How to launch it: which tensors and numbers it takes, and what it returns.
        kernel_for: Which kernel computes given tensors on a device.
        namespace: What stands in the place of ``pipeloom``.
    """

    def __init__(
        self,
        name: str,
        record: Mapping[str, Any],
        kernel_for: KernelFor,
        namespace: str = NAMESPACE,
    ) -> None:
        torch = self._torch = pytorch()
        self.name, self.namespace = name, namespace
        self._rules = operand_rules(record)
        self._inputs = [r for r in self._rules.values() if not r.output]
        self._outputs = [r for r in self._rules.values() if r.output]
        self._scalars = scalar_names(record)
        self._usual = scalar_defaults(record)
        self._batched = bool(record.get("batched"))
        self._kernel_for = kernel_for
        self._refuse_others(record)
        qualified = f"{namespace}::{name}"
        # The definition lives as long as this object: ops of a library that is gone are gone.
        library = self._library = torch.library.Library(namespace, "FRAGMENT")
        try:
            library.define(self.schema, tags=(torch.Tag.pt2_compliant_tag,))
        except RuntimeError as error:
            raise DeviceError(
                f"PyTorch does not take the op {self.schema!r}: {error}",
                hint="give it a name of its own: letters, digits and _, not yet taken",
                field="name",
            ) from error
        library.impl(name, self._launch, "CUDA")
        library.impl(name, self._launch_copied, "CPU")
        torch.library.register_fake(qualified, self._fake, lib=library)
        # "product": alpha times the sum of A times B, and nothing more.
        plain = record.get("product")
        backward = self._product_backward if plain else self._no_backward
        torch.library.register_autograd(qualified, backward, setup_context=self._keep, lib=library)
        self.overload = getattr(getattr(torch.ops, namespace), name).default
        """What ``torch.library.opcheck`` takes."""

    @property
    def schema(self) -> str:
        """As PyTorch reads it."""
        numbers = [
            f"float {s}" + (f"={float(self._usual[s])}" if self._usual.get(s) is not None else "")
            for s in sorted(self._scalars, key=lambda s: self._usual.get(s) is not None)
        ]
        given = ", ".join([*(f"Tensor {rule.name}" for rule in self._inputs), *numbers])
        results = ", ".join(["Tensor"] * len(self._outputs))
        return f"{self.name}({given}) -> {results if len(self._outputs) == 1 else f'({results})'}"

    def __call__(self, *given: Any, **named: Any) -> Any:
        """The outputs: a tensor, or a tuple of them in the record's order.

        Args:
            *given: The inputs in the record's order, then its numbers.
            **named: The same by name.
        """
        return self.overload(*given, **named)

    def __repr__(self) -> str:
        return f"<TorchOp {self.namespace}::{self.schema}>"

    def _refuse_others(self, record: Mapping[str, Any]) -> None:
        adding = [a["name"] for a in record["arguments"] if a.get("adds")]
        if adding:
            raise DeviceError(
                f"{record['kernel']} adds to {adding[0]}, and an op makes its outputs itself",
                hint="launch it with pl.launch, on an array that holds what is added to",
                field=adding[0],
            )
        unknown = [r for r in self._outputs if r.dtype not in TORCH_TYPES]
        if unknown or not self._outputs or not all(r.dims for r in self._rules.values()):
            raise DeviceError(
                f"the record of {record['kernel']} does not say the shape of its outputs",
                hint="an op needs a kernel that pipeloom wrote; launch others with pl.launch",
                field="kernel",
            )

    def _names(self) -> list[str]:
        scalars = sorted(self._scalars, key=lambda s: self._usual.get(s) is not None)
        return [*(rule.name for rule in self._inputs), *scalars]

    def _named(self, given: Sequence[Any]) -> dict[str, Any]:
        """Arguments by name; rows of inputs are contiguous."""
        found = dict(zip(self._names(), given, strict=False))
        for rule in self._inputs:
            tensor = found[rule.name]
            if tensor.ndim and tensor.stride(-1) != 1:
                found[rule.name] = tensor.contiguous()
        return found

    def _new(self, inputs: Mapping[str, Any]) -> list[Any]:
        shapes = {rule.name: tuple(inputs[rule.name].shape) for rule in self._inputs}
        first = inputs[self._inputs[0].name]
        found = output_shapes(self._rules, shapes, self._batched)
        types = {rule.name: getattr(self._torch, TORCH_TYPES[rule.dtype]) for rule in self._outputs}
        return [first.new_empty(found[name], dtype=kind) for name, kind in types.items()]

    def _fake(self, *given: Any) -> Any:
        return self._result(self._new(dict(zip(self._names(), given, strict=False))))

    def _result(self, outputs: list[Any]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _launch(self, *given: Any) -> Any:
        named = self._named(given)
        outputs = self._new(named)
        first = outputs[0]
        named |= {rule.name: out for rule, out in zip(self._outputs, outputs, strict=True)}
        kernel = self._kernel_for(int(first.device.index or 0), named)
        size = kernel.workspace_bytes(**named)
        between = first.new_empty(size, dtype=self._torch.uint8) if size else None
        kernel(**named, workspace=between)
        return self._result(outputs)

    def _launch_copied(self, *given: Any) -> Any:
        named = self._named(given)
        outputs = self._new(named)
        named |= {rule.name: out for rule, out in zip(self._outputs, outputs, strict=True)}
        launch_copied(self._kernel_for(0, named), named)
        return self._result(outputs)

    def _keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = len(self._inputs)
        ctx.save_for_backward(*inputs[:tensors])
        ctx.numbers = inputs[tensors:]

    def _product_backward(self, ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """Of a sum over one dimension: the same sum of the gradient with the other operand."""
        operands = dict(zip((rule.name for rule in self._inputs), ctx.saved_tensors, strict=True))
        coded = [name for name, tensor in operands.items() if not tensor.is_floating_point()]
        if coded:
            raise DeviceError(
                f"{self.name} has no derivative where {coded[0]} is given as codes",
                hint="pass a tensor of the type itself",
                field=coded[0],
            )
        numbers = dict(zip(self._names()[len(operands) :], ctx.numbers, strict=True))
        dims = dict.fromkeys(dim for rule in self._rules.values() for dim in rule.dims)
        letter = dict(zip(dims, ascii_letters, strict=False))
        letters = {r.name: "".join(letter[d] for d in r.dims) for r in self._rules.values()}
        (out,) = (letters[rule.name] for rule in self._outputs)
        found: list[Any] = []
        for index, (name, tensor) in enumerate(operands.items()):
            if not ctx.needs_input_grad[index]:
                found.append(None)
                continue
            (other,) = (one for one in operands if one != name)
            spec = f"...{out},...{letters[other]}->...{letters[name]}"
            product = self._torch.einsum(spec, gradient, operands[other].to(gradient.dtype))
            found.append((product * numbers.get("alpha", 1.0)).to(tensor.dtype))
        return (*found, *(None for _ in numbers))

    def _no_backward(self, ctx: Any, *gradients: Any) -> Any:
        raise DeviceError(
            f"{self.name} has no derivative: only plain products have one",
            hint="call it inside a torch.autograd.Function of your own, or on x.detach()",
            field="kernel",
        )
