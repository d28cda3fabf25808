"""`pet-fairseq export --to huggingface`: a folder that the library transformers opens by itself."""

from pathlib import Path
from typing import Any, Optional

from torch import Tensor

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.export.card import write_card
from pet_fairseq.export.forms import Form, make_form
from pet_fairseq.export.tokenizers import find_segmentation_file, write_tokenizer
from pet_fairseq.files import write_json
from pet_fairseq.huggingface.source import CONFIG, WEIGHTS
from pet_fairseq.huggingface.tokenizer_file import EXTRA
from pet_fairseq.predict.batches import MAX_LENGTH
from pet_fairseq.predict.shared_options import BEAM_SEARCH

GENERATION = "generation_config.json"
MIN_LENGTH = 1  # words of a translation, as fairseq-generate's --min-len


def write_huggingface(
    checkpoint: str, data: str, folder: Path, segmentation: Optional[str] = None
) -> None:
    """Write what AutoModelForSeq2SeqLM and AutoTokenizer of transformers open.

    Args:
        checkpoint: a translation model. data: fairseq-preprocess's folder.
        segmentation: the subword model; None for the one that `translate` would find.
    Raises:
        UserError: names the option or file and the reason.
    """
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    form = make_form(state, checkpoint, model, task)
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    words = task.source_dictionary
    file = find_segmentation_file(segmentation, checkpoint, state["cfg"], data, words)
    write_json(folder / CONFIG, form.config)
    write_json(folder / GENERATION, generation(form))
    tokenizer = write_tokenizer(form, file, languages, folder)
    write_tensors(form.tensors, folder / WEIGHTS[0])
    write_card(folder, state, Path(checkpoint), form, tokenizer, languages)


def generation(form: Form) -> dict[str, Any]:
    """The content of generation_config.json, with which beam search is that of fairseq.

    It ends when as many hypotheses as beams have ended, never gives the padding word, and no empty
    sentence. Lengths count the word from which the decoder starts, and `</s>`.
    """
    names = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
    words = {name: form.config[name] for name in names}
    return {
        **words,
        "bad_words_ids": [[words["pad_token_id"]]],
        "forced_eos_token_id": words["eos_token_id"],
        "min_length": MIN_LENGTH + 1,
        "max_length": min(MAX_LENGTH, form.lengths[1] - 1) + 2,
        "num_beams": BEAM_SEARCH.beam,
        "length_penalty": float(BEAM_SEARCH.lenpen),
        "early_stopping": True,
        "do_sample": False,
    }


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors in float32; raises UserError if the library safetensors is missing."""
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise UserError(f"--to huggingface: needs a package; run {EXTRA}") from error
    stored: dict[str, Tensor] = {}
    storages = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().float().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        # the format has no room for memory that tensors share
        stored[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    save_file(stored, path, metadata={"format": "pt"})
    path.chmod(path.with_name(CONFIG).stat().st_mode)  # else it would be its owner's alone
