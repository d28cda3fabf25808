"""A second device for tests that need no GPU: strict about its tensors, and it counts waits.

A `StrictTensor` holds a CPU tensor and computes with it, but says that it is on the device
`strict`. It refuses to meet a CPU tensor where CUDA refuses, and notes each operation for which
the host would wait until the GPU has caught up:

    with strict_device() as waits:
        model.to(DEVICE)                    # tied parameters stay tied
        loss = model(**move(net_input))
        loss.backward()
    assert [wait for wait in waits if wait.package == "pet_fairseq"] == []
    assert_close(to_cpu(loss), expected)    # looks at the result without being counted

torch learns of the device at the first `strict_device()` of a process and cannot forget it.
Nothing else picks it by itself: `torch.accelerator.is_available()` stays False, so that data
loaders do not pin memory for it, and `torch.cuda.is_available()` is not touched.

What it cannot show: dtypes and kernels that CUDA lacks, streams, and pinned memory. A boolean mask
assigned one value of the device (`x[mask] = y[0]`) counts as no wait, though on CUDA it is one:
only `x[mask] = 1.0` is none there. Indices assigned one (`x[i] = y[0]`) count as a wait, though on
CUDA only a number of Python's is one: here both look alike.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

NAME = "strict"
DEVICE = f"{NAME}:0"
SETUP = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)

aten = torch.ops.aten


# --- waits ----------------------------------------------------------------------------------------

PACKAGES = ("pet_fairseq", "fairseq", "tests")
TORCH_FOLDER = str(Path(torch.__file__).parent)


class Wait(NamedTuple):
    """An operation for which the host waits, and the line of code that asked for it."""

    operation: str
    package: str  # one of PACKAGES, or "" for other code
    file: str  # from the package's folder on
    line: int


watched: list[list[Wait]] = []  # those of every strict_device() block that is open


def note_wait(operation: str) -> None:
    if not watched:
        return
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith((TORCH_FOLDER, __file__)):
        frame = frame.f_back
    wait = Wait(operation, *package_and_file(frame.f_code.co_filename), frame.f_lineno)
    for waits in watched:
        waits.append(wait)


def package_and_file(path: str) -> tuple[str, str]:
    """The innermost folder of a path that is one of PACKAGES, and the path from there on."""
    parts = Path(path).parts
    for i in reversed(range(len(parts))):
        if parts[i] in PACKAGES:
            return parts[i], "/".join(parts[i:])
    return "", path


WAITING = {
    aten._local_scalar_dense.default: "item",  # also float(), int(), bool() and `if tensor:`
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten.equal.default: "equal",
    aten._unique2.default: "unique",
    aten.unique_dim.default: "unique",
    aten.unique_consecutive.default: "unique_consecutive",
    aten.bincount.default: "bincount",  # its length is the highest value
}
TO_COPY = aten._to_copy.default
INDEXING = (aten.index.Tensor,)
INDEX_ASSIGNMENT = (
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
)


def waiting_operation(func, args: tuple, kwargs: dict) -> str:
    """What the host would wait for in a call of the device's; empty if it would not."""
    if func in WAITING:
        return WAITING[func]
    if func is TO_COPY:
        if on_device(args[0]) == on_device(kwargs.get("device") or args[0]):
            return ""
        return copying(kwargs.get("non_blocking", False), to_device=not on_device(args[0]))
    if func is aten.copy_.default:
        target, source = args[:2]
        if on_device(target) == on_device(source) or (source.dim() == 0 and on_device(target)):
            return ""
        return copying(len(args) > 2 and args[2], to_device=on_device(target))
    if func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None:
        return "repeat_interleave"
    if func in INDEXING and any(is_mask(index) for index in args[1]):
        return "boolean index"
    if func in INDEX_ASSIGNMENT:
        return assigning(args[1], args[2])
    return ""


def assigning(indices, values: Tensor) -> str:
    """`x[indices] = values`: CUDA copies one number to the device, unless a mask says where."""
    if any(map(is_mask, indices)):
        return "" if values.numel() == 1 else "boolean index"
    return "" if values.dim() else "number to the device"


def copying(non_blocking: bool, to_device: bool) -> str:
    """A copy between the devices; one to the device that may be late does not hold up the host."""
    if to_device:
        return "" if non_blocking else "copy to the device"
    return "copy to the CPU"


def is_mask(index) -> bool:
    return isinstance(index, StrictTensor) and index.dtype in (torch.bool, torch.uint8)


# --- tensors --------------------------------------------------------------------------------------


class StrictTensor(torch.Tensor):
    """A tensor whose data, `inner`, is on the CPU while it says that it is on DEVICE."""

    @staticmethod
    def __new__(cls, inner: Tensor):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=DEVICE,
        )

    def __init__(self, inner: Tensor):
        self.inner = inner

    # what torch asks of a tensor that holds another
    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, context, outer_size, outer_stride):
        return StrictTensor(tensors["inner"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})

    is_cuda = property(lambda self: True)  # so that code for CUDA is the code that runs

    def tolist(self):
        note_wait("tolist")
        return self.inner.tolist()

    def __repr__(self, **_):
        note_wait("repr")
        return f"StrictTensor({self.inner})"

    def numpy(self, **_):
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu()")

    def __array__(self, *_):
        return self.numpy()


def on_device(x) -> bool:
    """Whether a tensor, or a name of a device, is of this device."""
    if isinstance(x, Tensor):
        return isinstance(x, StrictTensor)
    return x is not None and torch.device(x).type == NAME


def compute(func, args: tuple, kwargs: dict):
    """Do on the CPU what was asked of the device, after refusing and noting what is to be."""
    if func is aten._fused_sdp_choice.default:
        return 0  # attention written out in plain operations
    if torch.is_inference_mode_enabled():  # without autograd nobody has taken it apart yet
        out = func.decompose(*args, **kwargs)
        if out is not NotImplemented:
            return out
    flat, _ = tree_flatten((args, kwargs))
    tensors = [x for x in flat if isinstance(x, Tensor)]
    refuse_mixture(func, args, tensors)
    if operation := waiting_operation(func, args, kwargs):
        note_wait(operation)
    out = func(*tree_map(inner_of, args), **tree_map(inner_of, kwargs))
    if func is aten.copy_.default:
        return args[0]
    stays = on_device(kwargs["device"]) if kwargs.get("device") else any(map(on_device, tensors))
    if not stays:
        return out
    return return_and_correct_aliasing(func, args, kwargs, tree_map(wrap, out))


def inner_of(x):
    if isinstance(x, StrictTensor):
        return x.inner
    return torch.device("cpu") if isinstance(x, torch.device) and x.type == NAME else x


def wrap(x):
    if not isinstance(x, Tensor) or on_device(x):
        return x
    with torch.inference_mode(x.is_inference()):  # a view of a parameter is none even in that mode
        return StrictTensor(x)


# --- refusing -------------------------------------------------------------------------------------

COPIES = {TO_COPY, aten.copy_.default}
# beside the element-wise operations
TAKES_CPU_SCALARS = {
    *INDEX_ASSIGNMENT,
    aten.fill_.Tensor,
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
}


def refuse_mixture(func, args: tuple, tensors: list[Tensor]) -> None:
    """Raise RuntimeError, as CUDA does, where tensors of both devices meet in an operation.

    CUDA takes 0-dimensional CPU tensors in element-wise operations and CPU tensors as indices.
    """
    if func in COPIES or all(map(on_device, tensors)) or not any(map(on_device, tensors)):
        return
    if func in (*INDEXING, *INDEX_ASSIGNMENT) and on_device(args[0]):
        tensors = [args[0], *args[2:3]]
    scalars = torch.Tag.pointwise in func.tags or func in TAKES_CPU_SCALARS
    strangers = [t for t in tensors if not on_device(t) and not (scalars and t.dim() == 0)]
    if strangers:
        shapes = ", ".join(str(tuple(t.shape)) for t in strangers)
        raise RuntimeError(
            f"{func}: expected all tensors to be on the same device, but found {DEVICE} and cpu "
            f"(shapes on the CPU: {shapes})"
        )


# --- the device -----------------------------------------------------------------------------------


def register() -> None:
    """Make torch know the device; it is unknown only before the first call in a process."""
    if torch._C._get_privateuse1_backend_name() == NAME:
        return

    class Module(backend_registration._DummyBackendModule):
        def is_available(self) -> bool:
            return False  # nothing takes the device unless it is named

        def get_rng_state(self, device=0) -> Tensor:
            return torch.get_rng_state()

        def set_rng_state(self, state: Tensor, device=0) -> None:
            torch.set_rng_state(state)

    SETUP(NAME, backend_module=Module())
    # all other functions that make tensors begin with the first two, torch.tensor with the third
    for name, function in (
        ("arange", made_on_cpu(torch.arange)),  # torch resizes an empty tensor, and we must not
        ("arange.start", made_on_cpu(torch.arange)),
        ("arange.start_step", made_on_cpu(torch.arange)),
        ("triu_indices", made_on_cpu(torch.triu_indices)),
        ("empty.memory_format", made_on_cpu(torch.empty)),
        ("empty_strided", made_on_cpu(torch.empty_strided)),
        ("_copy_from", copy_from),
    ):
        kernels.impl(name, function, "PrivateUse1")


kernels = torch.library.Library("aten", "IMPL")  # when it is dropped, they are


def made_on_cpu(function):
    def make(*args, device=None, pin_memory=None, **options):
        options = {name: value for name, value in options.items() if value is not None}
        return StrictTensor(function(*args, **options))

    return make


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    return compute(aten.copy_.default, (target, source, non_blocking), {})


@contextmanager
def strict_device() -> Iterator[list[Wait]]:
    """Inside, DEVICE can be used; gives the list of waits, which grows.

    Skips the test where torch has no device whose backend is written in Python (before 2.9).
    """
    if SETUP is None:
        pytest.skip(f"torch {torch.__version__} has no private device with a Python backend")
    register()
    waits: list[Wait] = []
    watched.append(waits)
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    # a module that moves keeps its parameters as objects: what is tied stays tied
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        # backward in the thread that calls it: torch's threads may be older than the device
        with torch.autograd.set_multithreading_enabled(False):
            yield waits
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swaps)
        watched.pop()


def move(x):
    """Batches and other nested tensors on the device, copied as fairseq copies them to CUDA."""
    return tree_map(lambda t: t.to(DEVICE, non_blocking=True) if isinstance(t, Tensor) else t, x)


def to_cpu(x):
    """The CPU tensors in nested tensors of the device, without a wait being counted."""
    return tree_map(lambda t: t.inner.detach() if isinstance(t, StrictTensor) else t, x)


def waits_of(waits: list[Wait], package: str = "pet_fairseq") -> list[str]:
    """`file:line operation` of the waits that a package's own lines ask for."""
    return [f"{w.file}:{w.line} {w.operation}" for w in waits if w.package == package]
