"""Export to CTranslate2: from a model's plain form, or from a form there that the model has itself.

The class of a model with a form of its own says so by `ctranslate2_form(options)`, which returns
the name of the activation and whether the decoder starts from the padding word.
"""

import json
import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NoReturn, Optional

import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks.translation import TranslationTask
from torch import nn

from pet_fairseq.checkpoints.loading import load_task, load_transformer
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.checkpoints.text_files import both_sides
from pet_fairseq.errors import UserError, first_given, option_of
from pet_fairseq.export.fairseq import MODEL, write_fairseq
from pet_fairseq.export.shortlist import write_shortlist
from pet_fairseq.files import read_text, write_json, write_text
from pet_fairseq.multilingual.language_tokens import END, LanguageTokens
from pet_fairseq.multilingual.models import Bilingual
from pet_fairseq.multilingual.subword_restriction import read_sentencepiece
from pet_fairseq.nn.architectures import model_class
from pet_fairseq.nn.output_bias import ABSENT
from pet_fairseq.predict.batches import MAX_LENGTH, source_room
from pet_fairseq.predict.ctranslate2 import MISSING, has_ctranslate2
from pet_fairseq.predict.shared_options import BEAM_SEARCH
from pet_fairseq.predict.text import bpe_options

# CTranslate2's types of weights, which it calls quantizations
QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
SHORT = {"auto": "float32", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# what CTranslate2's converter knows, and the options for which its models have no room
ACTIVATIONS = ("relu", "gelu", "gelu_accurate", "gelu_fast")
NO_ROOM = (
    "no_token_positional_embeddings",
    "no_cross_attention",
    "cross_self_attention",
    "adaptive_softmax_cutoff",
    "quant_noise_pq",
    "base_layers",
)
START = "<blank>"  # CTranslate2's name of <pad>
SCRIPT = "translate.py"
SCRIPT_TEXT = """# python translate.py < TEXT; needs ctranslate2 and {library}
import sys
from pathlib import Path

import ctranslate2
import {library}

folder = Path(__file__).parent
{opened}
translator = ctranslate2.Translator(str(folder))
sys.stdin.reconfigure(encoding="utf-8", errors="replace")
lines = [{sentence} for line in sys.stdin]
found = translator.translate_batch(lines, {options})
for best in found:
    print({joined}.strip())
"""


def float32_or_int8(precision: str, to: str) -> str:
    """The precision of a form that has these two. Raises UserError for others; `to` names it."""
    name = SHORT.get(precision, precision)
    if name not in ("float32", "int8"):
        raise UserError(f"--precision {precision}: for {to} give fp32 or int8")
    return name


def write_ctranslate2(
    checkpoint: str,
    data: str,
    folder: Path,
    precision: str = "fp32",
    shortlist: Optional[int] = None,
) -> None:
    """Write a model into a folder that CTranslate2's Translator opens.

    Args:
        precision: of the weights, one of QUANTIZATIONS or SHORT. shortlist: how many target pieces
            each source piece allows, None for all.
    Raises:
        UserError: CTranslate2 is not installed, or cannot represent this model.
    """
    quantization = check_precision(precision)
    trained = load_options(checkpoint, "CHECKPOINT")
    tokens = language_tokens(trained.model)
    if has_ctranslate2_form(trained.model):
        convert_ctranslate2_form(checkpoint, trained.model, data, folder, quantization)
    else:
        plain, converted = folder / "plain", folder / "converted"
        plain.mkdir()
        cfg = write_fairseq(checkpoint, data, plain, without_tokens=tokens is not None)
        convert_plain_form(plain, cfg, converted, quantization)
        for file in converted.iterdir():
            file.rename(folder / file.name)
        converted.rmdir()
        shutil.rmtree(plain)
    if tokens is not None:
        add_language_tokens(folder, tokens)
    if shortlist:
        write_shortlist(folder, training_sets(load_task(trained.task, data)), shortlist)


def training_sets(task: TranslationTask) -> list[LanguagePairDataset]:
    """Those of all data folders: each epoch of fairseq-train reads that of the next one."""
    epochs = range(1, len(task.cfg.data.split(os.pathsep)) + 1)
    return [load_subset(task, "train", epoch=i, combine=True) for i in epochs]  # train1, too


def check_precision(precision: str) -> str:
    """CTranslate2's name of a precision. Raises UserError if there is no such one."""
    quantization = SHORT.get(precision, precision)
    if quantization not in QUANTIZATIONS:
        names = ", ".join([*SHORT, *QUANTIZATIONS[3:]])
        raise UserError(f"--precision {precision}: give one of {names}")
    return quantization


def convert_plain_form(plain: Path, cfg: dict, out: Path, quantization: str) -> None:
    """Convert an exported fairseq folder for CTranslate2.

    Args:
        plain: the folder; cfg: the options in its model.pt; out: the folder to write.
    Raises:
        UserError: CTranslate2 is not installed, or cannot represent this model.
    """
    try:
        from ctranslate2.converters import FairseqConverter
    except ModuleNotFoundError as error:
        raise UserError(MISSING) from error
    check_for_ctranslate2(cfg["model"])
    languages = (cfg["task"]["source_lang"], cfg["task"]["target_lang"])
    try:
        FairseqConverter(str(plain / MODEL), str(plain), *languages).convert(
            str(out), quantization=quantization
        )
    except ValueError as error:  # the converter refuses the model
        raise UserError(f"--to ctranslate2: {error}".replace("\n", " ")) from error


def convert_ctranslate2_form(
    checkpoint: str, options: Any, data: str, out: Path, quantization: str
) -> None:
    """Write a model that has a form of its own in CTranslate2.

    Args:
        options: of the model in the checkpoint.
    Raises:
        UserError: CTranslate2 is not installed, or the model has options that it cannot represent.
    """
    if not has_ctranslate2():
        raise UserError(MISSING)
    check_for_ctranslate2(options)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    write_ctranslate2_form(model, options, task, out, quantization)


def has_ctranslate2_form(options: Any) -> bool:
    """Whether the model with these options has a form in CTranslate2 of its own."""
    return hasattr(model_class(options), "ctranslate2_form")


@torch.no_grad()
def write_ctranslate2_form(
    model: nn.Module, options: Any, task: TranslationTask, folder: Path, quantization: str
) -> None:
    """Write a model in its own form for CTranslate2's Translator.

    fairseq never generates the padding word; CTranslate2 may, so here the word is made impossible.
    A model with an output bias is needed for that.
    """
    from ctranslate2.converters.fairseq import set_transformer_decoder, set_transformer_encoder
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    activation, starts_from_padding = model_class(options).ctranslate2_form(options)
    spec = TransformerSpec.from_config(
        (options.encoder_layers, options.decoder_layers),
        options.encoder_attention_heads,
        pre_norm=options.encoder_normalize_before,
        activation=getattr(Activation, activation),
    )
    set_transformer_encoder(spec.encoder, model.encoder)
    set_transformer_decoder(spec.decoder, model.decoder)
    bias = model.decoder.output_projection.bias.clone()
    bias[task.target_dictionary.pad()] = ABSENT
    spec.decoder.projection.bias = bias.numpy()
    spec.register_source_vocabulary(words_of(task.source_dictionary))
    spec.register_target_vocabulary(words_of(task.target_dictionary))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = START if starts_from_padding else spec.config.eos_token
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def words_of(dictionary: Dictionary) -> list[str]:
    return [START if word == dictionary.pad_word else word for word in dictionary.symbols]


def language_tokens(options: Any) -> Optional[LanguageTokens]:
    """The words that a model puts around sentences; None for all models but bilingual ones."""
    is_bilingual = issubclass(model_class(options), Bilingual)
    return LanguageTokens.of_options(options) if is_bilingual else None


def add_language_tokens(folder: Path, tokens: LanguageTokens) -> None:
    """Let a folder in CTranslate2 say which words its sentences need.

    What stands behind a sentence is given by who translates, and the end that CTranslate2 would add
    is not added.
    """
    file = folder / "config.json"
    config = json.loads(read_text(file, "--to ctranslate2"))
    config["add_source_eos"] = False
    if tokens.decoder_start[0] != END:  # which Marian's has replaced already
        config["decoder_start_token"] = tokens.decoder_start[0]
    write_json(file, config)
    tokens.write(folder)


def write_script(folder: Path, file: str, options: Any) -> None:
    """Write a script that translates with a folder and needs CTranslate2 and a tokenizer only.

    Args:
        folder: of the model. file: the subword model, "" for none; a copy is there.
        options: of the model in the checkpoint.
    """
    if not file or bpe_options(file)["_name"] == "subword_nmt":
        reason = "the model's words are divided by neither SentencePiece nor a tokenizer.json"
        if not file:
            reason = "no subword model, such as spm.model, lies beside the data or the checkpoint"
        print(f"no {SCRIPT}: {reason}", file=sys.stderr)
        return
    tokens = language_tokens(options) or LanguageTokens(source_end=())
    before, behind, forced = tokens.source_prefix, tokens.source_end, tokens.decoder_start[1:]
    room = source_room(options.max_source_positions, tokens.around)
    of_text = json_segmentation if file.endswith(".json") else sentencepiece_segmentation
    library, opened, encoded, joined = of_text(file)
    sentence = f"{encoded}[:{room}]"
    if before or behind:
        sentence = f"[*{list(before)}, *{sentence}, *{list(behind)}] if line.strip() else []"
    longest = min(MAX_LENGTH, options.max_target_positions - max(1, len(forced))) + len(forced)
    given = {"beam_size": BEAM_SEARCH.beam, "max_decoding_length": longest}
    given |= {"max_batch_size": 2000, "batch_type": "tokens"}
    if (folder / "vmap.txt").is_file():
        given["use_vmap"] = True
    words = [f"{name}={value!r}" for name, value in given.items()]
    if forced:
        words.insert(0, f"[{list(forced)}] * len(lines)")
    translation = f"best.hypotheses[0][{len(forced)}:]" if forced else "best.hypotheses[0]"
    text = SCRIPT_TEXT.format(
        library=library,
        opened=opened,
        sentence=sentence,
        options=", ".join(words),
        joined=joined.format(translation),
    )
    write_text(folder / SCRIPT, text)


def sentencepiece_segmentation(file: str) -> tuple[str, str, str, str]:
    """How a script segments text by a SentencePiece model.

    Returns:
        the library; what opens the model; a line of text as pieces; {} as a line of text again
    """

    def opened(name: str, path: str) -> str:
        model = f'model_file=str(folder / "{Path(path).name}")'
        return f"{name} = sentencepiece.SentencePieceProcessor({model})"

    pieces, encoded = opened("pieces", file), "pieces.encode(line, out_type=str)"
    of_target = both_sides(file)[1]
    if read_sentencepiece(Path(of_target)).trainer_spec.byte_fallback:  # the library joins bytes
        pieces = f"{pieces}\n{opened('target', of_target)}"
        return "sentencepiece", pieces, encoded, '" ".join(target.decode({}).splitlines())'
    return "sentencepiece", pieces, encoded, '"".join({}).replace("\\u2581", " ")'


def json_segmentation(file: str) -> tuple[str, str, str, str]:
    """The same by a tokenizer.json."""
    opened = (
        f'pieces = tokenizers.Tokenizer.from_file(str(folder / "{Path(file).name}"))\n'
        "pieces.no_truncation()\n"
        "pieces.no_padding()\n"
        "numbers = pieces.get_vocab()"
    )
    joined = (
        '" ".join(pieces.decode([numbers[p] for p in {} if p in numbers], '
        "skip_special_tokens=False).splitlines())"
    )
    encoded = 'pieces.encode(line.rstrip("\\n"), add_special_tokens=False).tokens'
    return "tokenizers", opened, encoded, joined


def check_for_ctranslate2(args: Namespace) -> None:
    """Raise UserError for a model that CTranslate2's converter would change or crash on."""
    for option in ("attention_heads", "normalize_before"):
        encoder, decoder = (getattr(args, f"{stack}_{option}") for stack in ("encoder", "decoder"))
        if encoder != decoder:
            both = f"--*-{option.replace('_', '-')}"
            raise UserError(
                f"--to ctranslate2: it needs the same {both} in both stacks, not {encoder} and "
                f"{decoder}; use --to fairseq"
            )
    for option in ("decoder_input_dim", "decoder_output_dim"):
        if getattr(args, option, None) not in (None, args.decoder_embed_dim):
            raise UserError(
                f"--to ctranslate2: no room for {option_of(option)} {getattr(args, option)} beside "
                f"--decoder-embed-dim {args.decoder_embed_dim}; use --to fairseq"
            )
    if unsupported := first_given(args, NO_ROOM):
        _refuse(unsupported)
    if args.decoder_normalize_before and getattr(args, "no_decoder_final_norm", False):
        _refuse("--no-decoder-final-norm")
    activation = getattr(args, "activation_fn", "relu")
    if activation not in ACTIVATIONS:
        _refuse(f"--activation-fn {activation}")


def _refuse(option: str) -> NoReturn:
    raise UserError(f"--to ctranslate2: its models have no room for {option}; use --to fairseq")
