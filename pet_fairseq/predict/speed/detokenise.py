"""Turning a model's tokens into text, and a test set in fairseq's binary format into text files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from fairseq.data import encoders
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig

from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.checkpoints.text_files import (
    TOKENIZER,
    find_file,
    find_segmentation,
    is_byte_level,
)
from pet_fairseq.errors import UserError
from pet_fairseq.files import (
    atomic_folder,
    check_new_folder,
    read_lines,
    read_text,
    write_json,
    write_lines,
)
from pet_fairseq.predict.text import bpe_options, build_text_of, join_pieces

LOST = "⁇"  # one word for BLEU's tokeniser, and none of a translation, which may have <unk>


@dataclass(frozen=True)
class TextStyle:
    """How tokens become text.

    Attributes:
        remove_bpe: the value of --remove-bpe; None where words are whole.
        tokenizer: the name of one of fairseq's tokenizers; None where words are text already.
    """

    source_lang: str
    target_lang: str
    remove_bpe: Optional[str] = None
    tokenizer: Optional[str] = None

    @property
    def languages(self) -> tuple[str, str]:
        return self.source_lang, self.target_lang

    @property
    def options(self) -> tuple[str, ...]:
        """How tokens become text, as options of fairseq-generate and of pet-fairseq's commands."""
        bpe = ("--remove-bpe", self.remove_bpe) if self.remove_bpe else ()
        return (*bpe, *(("--tokenizer", self.tokenizer) if self.tokenizer else ()))

    def decoder(self):
        """A function from a line of tokens to text, as fairseq-generate has it.

        Raises:
            UserError: fairseq has no such tokenizer or kind of subwords, or cannot load it.
        """
        try:
            join_pieces("", self.remove_bpe)
        except NotImplementedError as error:
            raise UserError(
                f"--remove-bpe {self.remove_bpe}: give subword_nmt, sentencepiece or none"
            ) from error
        tokenizer = self._build_tokenizer() if self.tokenizer else None

        def decode(tokens: str) -> str:
            text = join_pieces(tokens, self.remove_bpe)
            return text if tokenizer is None else tokenizer.decode(text)

        return decode

    def _build_tokenizer(self):
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        options = {"_name": self.tokenizer, **(languages if self.tokenizer == "moses" else {})}
        try:
            return encoders.build_tokenizer(DictConfig(options))
        except (KeyError, ImportError) as error:
            raise UserError(f"--tokenizer {self.tokenizer}: {error}") from error


@dataclass(frozen=True)
class ByteLevelStyle(TextStyle):
    """Byte-level pieces, which only the tokenizer that made them joins to text."""

    file: Path = Path(TOKENIZER)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--bpe", "tokenizer_json", "--tokenizer-file", str(self.file))

    def decoder(self):
        text = build_text_of(None, bpe_options(str(self.file)))
        return lambda tokens: text.decode(tokens).strip()


def find_style(
    trained: DictConfig,
    task: TranslationTask,
    remove_bpe: Optional[str] = None,
    tokenizer: Optional[str] = None,
    folders: Sequence[Path] = (),
) -> TextStyle:
    """The style of a model's text: as the user says, else as the model or its words show.

    Args:
        trained: the checkpoint's configuration.
        remove_bpe, tokenizer: the user's options; "none" if nothing is to be done.
        folders: where the tokenizer.json of byte-level pieces is looked for.
    Raises:
        UserError: there is none.
    """
    if remove_bpe is None and is_byte_level(task.target_dictionary):
        file = find_file([TOKENIZER], folders)
        if not file:
            raise UserError(
                f"{TOKENIZER}: missing in {', '.join(map(str, folders))}; put the file there that "
                "segmented the training text"
            )
        return ByteLevelStyle(task.cfg.source_lang, task.cfg.target_lang, file=Path(file))
    if remove_bpe is None:
        remove_bpe = find_segmentation(task.target_dictionary)
    if tokenizer is None:
        chosen = trained.get("tokenizer")
        tokenizer = chosen.get("_name") if isinstance(chosen, DictConfig) else chosen
        tokenizer = tokenizer or getattr(trained["task"], "eval_bleu_detok", None)
        if tokenizer in (None, "space"):  # the default of --eval-bleu-detok says nothing
            tokenizer = "moses" if remove_bpe == "subword_nmt" else None
    return TextStyle(
        task.cfg.source_lang,
        task.cfg.target_lang,
        None if remove_bpe == "none" else remove_bpe,
        None if tokenizer in ("none", "space") else tokenizer,
    )


def write_set(data: Path, subset: str, style: TextStyle, folder: Path) -> None:
    """Write a subset as source.tokens, source.txt and, if it has a target side, reference.txt.

    Words that the dictionary lacks are lost in the data: they are <unk> in the source and LOST in
    the target; about.json has their number in the target.

    Raises:
        UserError: no such data or subset, a style that fairseq does not know, or `folder` exists.
    """
    check_new_folder(folder, "--out")
    languages = {"source_lang": style.source_lang, "target_lang": style.target_lang}
    task = load_task(DictConfig(languages), str(data))
    dataset = load_subset(task, subset)
    decode = style.decoder()
    sources = [task.source_dictionary.string(tokens) for tokens in dataset.src]
    unknown = 0
    with atomic_folder(folder) as out:
        write_lines(out / "source.tokens", sources)
        write_lines(out / "source.txt", map(decode, sources))
        if dataset.tgt is not None:
            words = task.target_dictionary
            unknown = sum(int((tokens == words.unk()).sum()) for tokens in dataset.tgt)
            targets = (words.string(tokens, unk_string=LOST) for tokens in dataset.tgt)
            write_lines(out / "reference.txt", map(decode, targets))
        about = {"sentences": len(sources), "unknown_reference_words": unknown}
        write_json(out / "about.json", about)


@dataclass(frozen=True)
class TextSet:
    """What `write_set` wrote.

    Attributes:
        unknown_words: how many words of the references are lost.
    """

    sources: list[str]
    references: list[str]
    unknown_words: int


def read_set(
    folder: Path, reference: Optional[Path] = None, source: Optional[Path] = None
) -> TextSet:
    """Read a folder of `write_set`; `reference`, `source`: raw text in place of the set's own.

    Raises:
        UserError: a file that cannot be read.
    """
    sources = read_lines(source or folder / "source.txt", "test set")
    if reference is not None:
        return TextSet(sources, read_lines(reference, "--reference"), 0)
    references = read_lines(folder / "reference.txt", "test set")
    about = folder / "about.json"
    try:
        lost = json.loads(read_text(about, "test set"))["unknown_reference_words"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{about}: cannot be read; remove {folder} and make it again") from error
    return TextSet(sources, references, lost)
