"""`pet-fairseq pack` and `unpack`: a translation model into a packed file, and out of it again."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf
from torch import Tensor, nn

from pet_fairseq.checkpoints.dictionaries import dictionaries_by_language
from pet_fairseq.checkpoints.loading import KEPT_OPTIONS, load_task, load_transformer
from pet_fairseq.checkpoints.safe_loading import EMBEDDING_FILES, load_options
from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.checkpoints.text_files import check_languages, copy_files
from pet_fairseq.errors import UserError
from pet_fairseq.files import (
    atomic_folder,
    atomic_write,
    check_folder_of,
    check_new_folder,
    write_text,
)
from pet_fairseq.nn.architectures import architecture_name, command_line_options, model_class
from pet_fairseq.quantisation.packed_file import Packed, read_packed, write_packed
from pet_fairseq.quantisation.rounding import check_bits, fake_quantise

MODEL = "model.pt"
TASK = "translation"
# options that name where training took weights from: the packed file holds these weights
SOURCES = (
    *EMBEDDING_FILES,
    *("encoder_layers_to_keep", "decoder_layers_to_keep"),
)
BOOKKEEPING = ("version", "_float_tensor")  # buffers of fairseq's modules that say nothing
TASK_OPTIONS = ("source_lang", "target_lang", *KEPT_OPTIONS)


class Sizes(NamedTuple):
    """The size of a packed file, and how much rounding changed the values.

    Attributes:
        file: its bytes. parts: the bytes of its parts.
        change: the largest change of a value by rounding, as a share of the largest in its row
            (of a bias or norm: in the tensor); 0 if all values are those of the checkpoint.
    """

    file: int
    parts: dict[str, int]
    change: float


def pack_model(checkpoint: str, data: str, bits: int, out: Path) -> Sizes:
    """Write the packed file of a checkpoint.

    Args:
        checkpoint: an encoder-decoder Transformer, PET students among them.
        data: the folder with its dictionaries.
    Raises:
        UserError: names the option or file and the reason.
    """
    check_bits(bits, "--bits")
    if out.exists():
        raise UserError(f"--out {out}: is there already; give another name, or remove it")
    check_folder_of(out, "--out")
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    parameters = {name: tensor.float() for name, tensor in packed_tensors(model).items()}
    about = {
        "options": building_options(load_options(checkpoint, "CHECKPOINT").model),
        "task": {name: getattr(task.cfg, name) for name in TASK_OPTIONS},
        "dictionaries": {
            lang: own_words(words) for lang, words in dictionaries_by_language(task).items()
        },
    }
    parts: dict[str, int] = {}
    packed = Packed(bits, parameters, about)
    atomic_write(out, lambda file: parts.update(write_packed(file, packed)))
    return Sizes(out.stat().st_size, parts, largest_change(parameters, bits))


def packed_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What a packed file holds of a model: its parameters, and buffers that are no bookkeeping."""
    stored = model.state_dict()
    buffers = {
        name: buffer
        for name, buffer in model.named_buffers()
        if name in stored and name.rpartition(".")[2] not in BOOKKEEPING
    }
    named = dict(model.named_parameters()) | buffers
    return {name: tensor.detach() for name, tensor in named.items()}


def building_options(options: Any) -> dict[str, Any]:
    """The options in a checkpoint's `cfg.model` that build its model."""
    names = {action.dest for action in command_line_options(model_class(options))}
    chosen = {name: getattr(options, name) for name in sorted(names) if hasattr(options, name)}
    return {**chosen, **dict.fromkeys(SOURCES), "arch": architecture_name(options)}


def own_words(dictionary: Dictionary) -> list[str]:
    """The words of a dictionary without fairseq's special ones and without their counts."""
    return dictionary.symbols[dictionary.nspecial :]


def largest_change(parameters: dict[str, Tensor], bits: int) -> float:
    """How far rounding moves a value at most, as a share of the largest in its row."""
    change = 0.0
    for tensor in parameters.values():
        rows = tensor if tensor.dim() == 2 else tensor.view(1, -1)
        moved = (fake_quantise(tensor, bits).view_as(rows) - rows).abs().amax(dim=1)
        largest = rows.abs().amax(dim=1)
        change = max(change, (moved / largest.masked_fill(largest == 0, 1)).max().item())
    return change


def unpack_model(file: str, out: Path, beside: Optional[Mapping[str, Path]] = None) -> None:
    """Write a folder with a packed file's model, in float32 for fairseq, and its dictionaries.

    Args:
        beside: files to copy into the folder, by the names that they get, such as `spm.model`.
    Raises:
        UserError: names the file or option and the reason.
    """
    packed = read_packed(file)
    check_new_folder(out, "--out")
    check_languages(packed.about["dictionaries"], f"FILE {file}")
    with atomic_folder(out) as folder:
        for language, words in packed.about["dictionaries"].items():
            lines = "".join(f"{word} 1\n" for word in words)  # fairseq wants a count
            write_text(folder / f"dict.{language}.txt", lines)
        task = load_task(OmegaConf.create(packed.about["task"]), str(folder))
        # fairseq's BART asks its options for the task
        options = Namespace(**packed.about["options"], task=TASK)
        if not issubclass(model_class(options), TransformerModelBase):
            raise UserError(f"FILE {file}: its model, {options.arch}, is not a known Transformer")
        model = task.build_model(options)
        fill(model, packed.parameters, file)
        save_state(fairseq_state(model, options, task), folder / MODEL)
        copy_files(beside or {}, folder)


def fill(model: nn.Module, values: dict[str, Tensor], file: str) -> None:
    """Give a model the values of a packed file: its parameters, and buffers such as Marian's bias.

    Raises:
        UserError: the model has other parameters, or other shapes.
    """
    parameters = packed_tensors(model)
    shapes = {name: parameter.shape for name, parameter in parameters.items()}
    if shapes != {name: value.shape for name, value in values.items()}:
        raise UserError(
            f"FILE {file}: its parameters are not those of its architecture in this version; "
            "unpack it with the version that packed it"
        )
    for name, parameter in parameters.items():
        parameter.copy_(values[name])


def fairseq_state(model: nn.Module, options: Namespace, task: TranslationTask) -> dict[str, Any]:
    """A checkpoint with a model in it, as fairseq writes it."""
    defaults = OmegaConf.structured(FairseqConfig)
    task_options = {name: getattr(task.cfg, name) for name in TASK_OPTIONS}
    cfg = {
        **OmegaConf.to_container(defaults, resolve=True, enum_to_str=True),
        "model": options,
        "task": {"_name": TASK, "data": ".", **task_options},
        "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1},
    }
    history = {
        "criterion_name": "LabelSmoothedCrossEntropyCriterion",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    return new_state(cfg, model.state_dict(), [history], {"train_iterator": {"epoch": 1}})
