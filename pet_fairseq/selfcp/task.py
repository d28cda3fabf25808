"""Task `selfcp`: a response to a query about a prompt."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.file_io import PathManager
from fairseq.models import BaseFairseqModel
from fairseq.tasks import register_task
from omegaconf import II, open_dict
from torch import Tensor

from pet_fairseq.all_sentences import AllSentences
from pet_fairseq.byte_pieces import SPACE
from pet_fairseq.checkpoints.dictionaries import load_dictionary
from pet_fairseq.checkpoints.loading import build_from_state, even_steps
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.selfcp.dataset import PromptDataset, split_at
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.prompts import Record
from pet_fairseq.selfcp.reader import PromptReader
from pet_fairseq.selfcp.segments import (
    AT_ANY_RATIO,
    SEGMENTS_FROM,
    WITHOUT_MEMORY,
    memory_length,
)
from pet_fairseq.selfcp.template import read_template
from pet_fairseq.selfcp.vocabulary import CUE

logger = logging.getLogger(__name__)

READ_AT_ONCE = 8  # prompts, before a training
BLANKS = (SPACE, "\u0120")  # a space alone, in pieces of SentencePiece and of bytes


class Draws(NamedTuple):
    """For each prompt of a batch; lists, so that fairseq neither moves nor rounds them."""

    ratios: list[float]  # prompt tokens for one memory token
    latter: list[bool]  # whether `auto` compresses the latter part


def draw(numbers: Sequence[int], low: float, high: float, seed: int, epoch: int) -> Draws:
    """Draw a ratio (SelfCP, section 5.1) and a side (SelfCP, section 3.1.1) for each record.

    They are drawn anew in each epoch and depend on nothing else: not on the batch that a record is
    in, on workers that load data, or on where training was resumed.

    Args:
        numbers: of the records in their data set.
    """
    ratios, latter = [], []
    for number in numbers:
        with data_utils.numpy_seed(seed, epoch, number):
            ratios.append(float(np.random.uniform(low, high)))
            latter.append(bool(np.random.rand() < 0.5))
    return Draws(ratios, latter)


@dataclass
class SelfCpTaskConfig(FairseqDataclass):
    data: str = field(default="", metadata={"help": "folder made by pet-fairseq prompts"})
    memory_ratio_range: str = field(
        default="2,16",
        metadata={
            "help": "LOW,HIGH: in training each prompt gets a random ratio from this range, and "
            "auto compresses its former or its latter part at random; empty: all get "
            "--memory-ratio, and auto compresses the former part"
        },
    )
    segments_from: ChoiceEnum(SEGMENTS_FROM) = field(
        default="own",
        metadata={
            "help": "what is compressed as a prompt's segments: they themselves (own), or, as a "
            "control, as many tokens of another prompt of the same subset (other)"
        },
    )
    prompt_symbol: str = field(
        default="<prompt>",
        metadata={"help": "symbol between query and prompt in lines for fairseq-interactive"},
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")
    save_dir: str = II("checkpoint.save_dir")
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")


def read_range(text: str) -> Optional[tuple[float, float]]:
    """Read a range of ratios, None for an empty text.

    Raises:
        UserError: not LOW,HIGH with 1 <= LOW <= HIGH.
    """
    if not text:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 0.0, 0.0
    if not 1 <= low <= high < float("inf"):
        raise UserError(f"--memory-ratio-range {text}: give LOW,HIGH with 1 <= LOW <= HIGH")
    return low, high


def read_cue(path: Path, dictionary: Dictionary) -> Optional[Tensor]:
    """The tokens in a folder's file of the cue, None if it has no such file.

    Raises:
        UserError: it is empty, or has pieces that the dictionary lacks.
    """
    if not path.is_file():
        return None
    words = read_text(path, "the cue").split()
    unknown = [word for word in words if word not in dictionary]
    if unknown or not words:
        reason = f"the dictionary lacks {unknown[0]}" if unknown else "is empty"
        raise UserError(f"{path}: {reason}; make the folder again, or remove the file")
    return torch.tensor([dictionary.index(word) for word in words])


@register_task("selfcp", dataclass=SelfCpTaskConfig)
class SelfCpTask(AllSentences):
    """Responses to a query about a prompt, all in one dictionary."""

    generates_text = True  # so `pet_fairseq.from_pretrained` takes its models

    def __init__(self, cfg: SelfCpTaskConfig, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.ratios = read_range(cfg.memory_ratio_range)
        self.cue = read_cue(Path(cfg.data, CUE), dictionary)
        self.template = read_template(Path(cfg.data))
        self.template_tokens: list[int] = []  # of the text in front of a query, once encoded
        self.epoch = 1

    @classmethod
    def setup_task(cls, cfg: SelfCpTaskConfig, **_) -> "SelfCpTask":
        path = Path(cfg.data, "dict.txt")
        if not path.is_file():
            raise UserError(f"{path}: no such file; give a folder made by pet-fairseq prompts")
        return cls(cfg, load_dictionary(path, "data"))

    def load_dataset(self, split: str, task_cfg: Optional[FairseqDataclass] = None, **_) -> None:
        """Load a subset.

        Args:
            task_cfg: the options of the task that a model was trained in, if one is used.
        Raises:
            FileNotFoundError: as fairseq's tasks do.
        """
        paths = {part: os.path.join(self.cfg.data, f"{split}.{part}") for part in Record._fields}
        parts = {
            part: data_utils.load_indexed_dataset(path, self.dictionary, "mmap")
            for part, path in paths.items()
        }
        if parts["query"] is None or parts["prompt"] is None:
            raise FileNotFoundError(f"Dataset not found: {split} ({self.cfg.data})")
        # checkpoints that are older than this option do not have it
        segments_from = getattr(task_cfg or self.cfg, "segments_from", "own")
        self.datasets[split] = PromptDataset(
            **parts,
            dictionary=self.dictionary,
            seed=self.cfg.seed,
            of_others=segments_from == "other",
            cue=self.cue,
        )

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> BaseFairseqModel:
        """Build a model; one that nothing is loaded into starts as --standardise-on says.

        Raises:
            UserError: what the model raises, or too few --memory-tags for a training.
        """
        model = super().build_model(cfg, from_checkpoint)
        if not from_checkpoint:
            self._check_tags(cfg)
        number = getattr(cfg, "standardise_on", 0)  # checkpoints of before do not have it
        if number and not from_checkpoint and not self._is_loaded():
            self.load_dataset("train")
            model.encoder.standardise(self._first_batches(number))
        return model

    def _is_loaded(self) -> bool:
        """Whether fairseq will load a checkpoint into the model that it has this task build."""
        if self.cfg.finetune_from_model:
            return True
        default = CheckpointConfig.restore_file  # which alone is looked for in --save-dir
        name = self.cfg.restore_file
        path = os.path.join(self.cfg.save_dir, name) if name == default else name
        return PathManager.exists(path)

    def _check_tags(self, cfg: FairseqDataclass) -> None:
        """Raise UserError if the longest segment becomes more memory tokens than there are tags."""
        if cfg.memory_tags == 1 or cfg.prompt_strategy in WITHOUT_MEMORY:  # all share one
            return
        longest = cfg.segment_tokens or cfg.window
        ratio = min([cfg.memory_ratio, *(self.ratios or ())])  # validation has the first
        needed = memory_length(longest, ratio)
        if cfg.memory_tags < needed:
            raise UserError(
                f"--memory-tags {cfg.memory_tags}: a segment of {longest} tokens becomes {needed} "
                f"memory tokens at ratio {ratio:g}; give as many tags, larger ratios in "
                "--memory-ratio and --memory-ratio-range, or a smaller window"
            )

    def _first_batches(self, number: int) -> Iterator[dict]:
        """Prompts from all over the training set, drawn for as in an epoch before the first one."""
        dataset = self.dataset("train")
        indices = even_steps(len(dataset), number)
        for i in range(0, len(indices), READ_AT_ONCE):
            sample = dataset.collater([dataset[j] for j in indices[i : i + READ_AT_ONCE]])
            batch = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
            yield {**batch, **self._draws(sample, epoch=0)}

    def _draws(self, sample: dict, epoch: int) -> dict:
        if self.ratios is None:
            return {}
        return draw(sample["id"].tolist(), *self.ratios, self.cfg.seed, epoch)._asdict()

    def begin_epoch(self, epoch: int, model: BaseFairseqModel) -> None:
        """Remember the epoch, for which training draws; before the first, check what will be read.

        Raises:
            UserError: the training set or a validation set has a record that is too long for the
                model.
        """
        super().begin_epoch(epoch, model)
        self.epoch = epoch
        if epoch > 1:
            return
        reader = model.encoder
        self._check_lengths("--train-subset", self.cfg.train_subset, reader, self._ratio(reader))
        for split in self.cfg.valid_subset.split(","):
            self._check_lengths("--valid-subset", split, reader, reader.cfg.memory_ratio)

    def _ratio(self, reader: PromptReader) -> Optional[float]:
        """The lowest ratio in training; None where it is raised for a prompt that would not fit."""
        if self.ratios is None:
            return reader.cfg.memory_ratio
        return self.ratios[0] if reader.cfg.prompt_strategy in WITHOUT_MEMORY else None

    def _check_lengths(
        self, option: str, split: str, reader: PromptReader, ratio: Optional[float]
    ) -> None:
        """Raise UserError if a record of a subset that is loaded does not fit into the model.

        Args:
            ratio: as for `positions_needed`.
        """
        if split not in self.datasets:  # not loaded, as with --disable-validation
            return
        positions = reader.inner.max_positions()
        for lengths in self._lengths_left(split, reader, ratio):
            needed = reader.positions_needed(*lengths, ratio)
            if needed > positions:
                at, remedy = self._remedy(option, reader, ratio)
                raise UserError(
                    f"{option} {split}: a query, its prompt and response come to {needed} tokens"
                    f"{at}, but the backbone has {positions} positions; give {remedy}"
                )

    def _remedy(self, option: str, reader: PromptReader, ratio: Optional[float]) -> tuple[str, str]:
        """At which ratio a record does not fit, and what to give in place of what was given."""
        strategy = reader.cfg.prompt_strategy
        if strategy == "full":
            return "", "a --prompt-strategy that reads less or shorter records"
        remedy = "a smaller --window or shorter records"
        if strategy in AT_ANY_RATIO:
            return "", remedy
        if ratio is None:
            return " at any memory ratio", remedy
        of_range = option == "--train-subset" and self.ratios is not None
        given = "the least of --memory-ratio-range," if of_range else "--memory-ratio"
        return f" at {given} {ratio:g}", f"a larger ratio, {remedy}"

    def _lengths_left(
        self, split: str, reader: PromptReader, ratio: Optional[float]
    ) -> Iterator[tuple[int, int, int]]:
        """The data set's `lengths`, of prompts that are thinned out those that are left.

        How much is left, only the backbone tells, which reads those that do not fit whole.
        """
        dataset = self.dataset(split)
        positions, device = reader.inner.max_positions(), reader.memory_tag.device
        end = torch.tensor([self.dictionary.eos()])
        lengths = list(dataset.lengths())
        long = {i for i, of_one in enumerate(lengths) if sum(of_one) > positions}
        if reader.thins_out and long:
            logger.info(
                f"reading {len(long):,} long records of {split}, to see how much of them is left"
            )
        for i, (query, prompt, after) in enumerate(lengths):
            if reader.thins_out and i in long:
                record = dataset[i]
                head = torch.cat([end, record["query"].long()]).to(device)
                text = record["prompt"].long().to(device)
                assert ratio is not None, "these strategies have no memory, and no raised ratios"
                prompt = len(reader.thin_out(head, text, ratio))
            yield query, prompt, after

    def train_step(self, sample: dict, *others, **options):
        """Draw for each prompt, in this process: copies in workers do not see that epochs begin."""
        draws = self._draws(sample, self.epoch)
        sample = {**sample, "net_input": {**sample["net_input"], **draws}}
        return super().train_step(sample, *others, **options)

    def complete_line(self, line: str) -> str:
        """A line QUERY <prompt> PROMPT, or only a prompt, with the template's text in front.

        Raises:
            UserError: that text has the symbol, at which the line would be divided.
        """
        before, symbol = self.template.before, self.cfg.prompt_symbol
        if symbol in before:
            raise UserError(
                f"--prompt-symbol {symbol}: stands in the text in front of each query, too; give "
                "a word of the dictionary that does not"
            )
        if before and symbol not in line:
            return f"{before}{symbol}{self.template.between}{line}"
        return before + line

    def encode_template(self, encode_fn: Callable[[str], str]) -> None:
        """Note the tokens of the text in front of each query."""
        before = encode_fn(self.template.before)
        tokens = self.dictionary.encode_line(before, add_if_not_exist=False, append_eos=False)
        self.template_tokens = tokens.tolist()

    def get_interactive_tokens_and_lengths(
        self, lines: list[str], encode_fn: Callable[[str], str]
    ) -> tuple[list[Tensor], list[int]]:
        """As fairseq's, of completed lines: a query is tokenized with the text in front of it."""
        self.encode_template(encode_fn)
        completed = list(map(self.complete_line, lines))
        return super().get_interactive_tokens_and_lengths(completed, encode_fn)

    def build_dataset_for_inference(
        self, src_tokens: list[Tensor], src_lengths: list[int], **_
    ) -> PromptDataset:
        """A data set of completed lines: QUERY <prompt> PROMPT, or only a prompt.

        Raises:
            UserError: the dictionary lacks --prompt-symbol.
        """
        symbol = self.dictionary.index(self.cfg.prompt_symbol)
        if symbol == self.dictionary.unk():
            raise UserError(
                f"--prompt-symbol {self.cfg.prompt_symbol}: not in the dictionary; give a word of "
                "it that no text has, such as <|endoftext|> where the tokenizer has that"
            )
        # what "query <prompt> text" has before the symbol
        blanks = {self.dictionary.index(name) for name in BLANKS} - {self.dictionary.unk()}
        pairs = []
        for tokens in src_tokens:
            if len(tokens) and tokens[-1] == self.dictionary.eos():  # a chat's text may hold more
                tokens = tokens[:-1]
            if not tokens.eq(symbol).any():
                tokens = torch.cat([tokens.new_tensor([symbol]), tokens])  # all is prompt
            query, prompt = split_at(tokens, symbol)
            ends_in_blank = len(query) > 0 and int(query[-1]) in blanks
            if ends_in_blank and query.tolist() != self.template_tokens:
                query = query[:-1]
            pairs.append((query, prompt))
        queries, prompts = (Texts(list(side)) for side in zip(*pairs))
        return PromptDataset(queries, prompts, None, self.dictionary, cue=self.cue)

    def inference_step(self, generator, models, sample: dict, *others, **options):
        """As fairseq's; fairseq-interactive makes its samples of tokens alone, without the cue.

        Raises:
            UserError: they do not tell where a query ends.
        """
        net_input = sample["net_input"]
        if "query_lengths" not in net_input:
            ends = self._query_lengths(net_input["src_tokens"])
            net_input = {**net_input, "query_lengths": ends}
            sample = {**sample, "net_input": net_input}
        if self.cue is not None and "cue" not in net_input:
            cue = self.cue.to(net_input["src_tokens"].device)
            sample = {**sample, "net_input": {**net_input, "cue": cue}}
        return super().inference_step(generator, models, sample, *others, **options)

    def _query_lengths(self, src_tokens: Tensor) -> Tensor:
        """Where each query ends, B: at the first <s> behind those of the template.

        Raises:
            UserError: a line has more of them.
        """
        starts = src_tokens.eq(self.dictionary.bos()).int()
        ending = self.template_tokens.count(self.dictionary.bos()) + 1
        if starts.sum(dim=1).max() > ending:
            raise UserError(
                "input: a line has <s> in its text, and fairseq-interactive does not say where the "
                "query ends; use pet_fairseq.from_pretrained, or leave it out"
            )
        return starts.cumsum(dim=1).eq(ending).int().argmax(dim=1)

    def max_positions(self) -> tuple[int, int]:
        return sys.maxsize, sys.maxsize

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary


class Texts:
    """Texts in memory, as PromptDataset reads them."""

    def __init__(self, texts: list[Tensor]):
        self.texts = texts
        self.sizes = np.array([len(text) for text in texts])

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Tensor:
        return self.texts[index]


def load_selfcp(
    path: str, data: str, segments_from: Optional[str] = None, **overrides
) -> tuple[SelfCpModel, SelfCpTask]:
    """Load a model in eval mode and its task, with `data` in place of the checkpoint's folder.

    Args:
        segments_from: one of SEGMENTS_FROM, in place of the checkpoint's.
        overrides: options of the model in place of the stored ones, such as prompt_strategy.
    Raises:
        UserError: another kind of checkpoint, wrong options, or no such data.
    """
    state = load_checkpoint(path, "CHECKPOINT")
    if getattr(state["cfg"].model, "_name", "") != "selfcp":
        raise UserError(f"CHECKPOINT {path}: give a file of --arch selfcp")
    if segments_from is not None:
        with open_dict(state["cfg"].task) as cfg:
            cfg.segments_from = segments_from
    return build_from_state(state, [path], "CHECKPOINT", data, **overrides)
