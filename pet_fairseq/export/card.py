"""The model card of an exported folder: README.md, which the Hugging Face Hub shows."""

from pathlib import Path

from torch import Tensor

from pet_fairseq.export.forms import Form
from pet_fairseq.files import read_text
from pet_fairseq.huggingface.fsmt import BPE_TOKENIZER, SENTENCE_TOKENIZER
from pet_fairseq.huggingface.tokenizer_file import JSON_TOKENIZERS
from pet_fairseq.multilingual.language_tokens import split
from pet_fairseq.nn.architectures import architecture_name
from pet_fairseq.nn.layers import STACKS

CARD = "README.md"
REPORT = "report.md"  # of pet-fairseq compress, in the folder above the student's
NOTES = {
    BPE_TOKENIZER: (
        "Text is tokenised as by Moses and divided by BPE codes (`pip install sacremoses`). The "
        "tokenizer turns some punctuation, such as “ ” and …, into its ASCII form first, which "
        "fairseq does not do unless the data were prepared so."
    ),
    SENTENCE_TOKENIZER: "Text is divided by SentencePiece (`pip install sentencepiece`).",
    JSON_TOKENIZERS[0]: "Text is divided by `tokenizer.json`.",
}
HEAD = """---
language:
- "{0}"
- "{1}"
pipeline_tag: translation
library_name: transformers
tags:
- translation
---

# Translation from {0} to {1}"""
USE = """## Use

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
inputs = tokenizer(["..."], padding=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```"""


def write_card(
    folder: Path,
    state: dict,
    checkpoint: Path,
    form: Form,
    tokenizer: str,
    languages: tuple[str, str],
) -> None:
    """Write what is known of a model, and the table of `pet-fairseq compress` if it made it.

    Args:
        state: of the checkpoint. tokenizer: the name of its class. languages: of source and target.
    """
    parts = [HEAD.format(*languages), describe(state, form), USE, NOTES[tokenizer]]
    language_token = getattr(state["cfg"]["model"], "source_prefix", None)
    if language_token:
        parts.append(f"Every text has to begin with `{' '.join(split(language_token))}`.")
    text = "\n\n".join([*parts, *compressed(checkpoint)]) + "\n"
    (folder / CARD).write_text(text, encoding="utf-8")


def describe(state: dict, form: Form) -> str:
    """The kind of the model and its size, in a sentence or two."""
    arch, config = architecture_name(state["cfg"]["model"]), form.config
    parameters = sum(tensor.numel() for tensor in unique(form.tensors))
    layers = " and ".join(str(config[f"{stack}_layers"]) for stack in STACKS)
    return (
        f"A Transformer trained with fairseq as `--arch {arch}`, in the form of "
        f"{config['architectures'][0]}: {layers} layers in encoder and decoder, width "
        f"{config['d_model']}, {parameters:,} parameters. It reads up to {form.lengths[0]:,} "
        "tokens."
    )


def unique(tensors: dict[str, Tensor]) -> list[Tensor]:
    """Tensors without those that stand for another one of them."""
    return list({tensor.data_ptr(): tensor for tensor in tensors.values()}.values())


def compressed(checkpoint: Path) -> list[str]:
    """The section on how the model was compressed; nothing if there is no report of that."""
    report = checkpoint.parent.parent / REPORT
    blocks = read_text(report, "report").split("\n\n") if report.is_file() else []
    tables = [block for block in blocks if block.startswith("|")]
    return ["## Compared with its teacher", blocks[0], tables[0]] if tables else []
