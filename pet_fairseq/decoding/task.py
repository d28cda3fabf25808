"""Task `pet_translation`: fairseq's translation with fast beam search."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from pet_fairseq.all_sentences import AllSentences
from pet_fairseq.decoding.generator import FastGenerator
from pet_fairseq.decoding.transformer import why_not_plain

logger = logging.getLogger(__name__)


@dataclass
class PetTranslationConfig(TranslationConfig):
    decoding: ChoiceEnum(["fast", "fairseq"]) = field(
        default="fast",
        metadata={
            "help": "fast: pet_fairseq's beam search, which finds the same translations sooner; "
            "fairseq: fairseq's own"
        },
    )


@register_task("pet_translation", dataclass=PetTranslationConfig)
class PetTranslationTask(AllSentences, TranslationTask):
    """fairseq's translation, with a beam search that finds the same translations sooner.

    Where an option needs fairseq's own search, that one is used, and a warning names the option.
    A model that has to compute its steps of decoding itself is named, too. Each is said once.
    """

    def __init__(self, cfg, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        self.warned: set[str] = set()

    @classmethod
    def like(cls, task: TranslationTask, options: Mapping[Any, Any]) -> "PetTranslationTask":
        """A task with another one's dictionaries, which does not translate while it validates.

        Args:
            options: of a trained task; those that this one does not have are left out.
        """
        known = PetTranslationConfig.__dataclass_fields__
        given = {name: value for name, value in options.items() if name in known}
        config = PetTranslationConfig(**{**given, "eval_bleu": False})
        return cls(config, task.source_dictionary, task.target_dictionary)

    def build_generator(
        self,
        models,
        args,
        seq_gen_cls=None,
        extra_gen_cls_kwargs=None,
        prefix_allowed_tokens_fn=None,
    ):
        """fairseq's hook for generate, interactive and --eval-bleu."""
        if seq_gen_cls is None and self.cfg.decoding == "fast":
            option = unsupported_option(args, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
            if option is None:
                seq_gen_cls = FastGenerator
                self.warn_of_slow_models(models)
            else:
                self.warn(f"{option}: decoding with fairseq's generator, not the fast one")
        return super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )

    def warn_of_slow_models(self, models: Iterable[nn.Module]) -> None:
        """Say which models the fast generator runs through fairseq's steps, and why."""
        for model in models:
            reason = why_not_plain(model)
            if reason is not None:
                self.warn(
                    f"{model_name(model)}: decoding through fairseq's own steps, not the fast "
                    f"ones: {reason}"
                )

    def warn(self, message: str) -> None:
        """Log a warning, once: fairseq builds a generator for each call from Python."""
        if message not in self.warned:
            self.warned.add(message)
            logger.warning(message)


def model_name(model: nn.Module) -> str:
    """The name under which a model's class is registered, else that of the class."""
    kind = type(model)
    return next((name for name, known in MODEL_REGISTRY.items() if known is kind), kind.__name__)


def unsupported_option(args, extra=None, prefix_allowed_tokens_fn=None) -> Optional[str]:
    """An option in use that the fast generator lacks, None if it has all of them."""

    def given(name: str, unset=False) -> bool:
        return getattr(args, name, unset) not in (unset, None)

    unsupported = {
        "--sampling": given("sampling"),
        "--diverse-beam-groups": getattr(args, "diverse_beam_groups", -1) > 0,
        "--diversity-rate": getattr(args, "diversity_rate", -1) > -1,
        "--constraints": given("constraints"),
        "--print-alignment": given("print_alignment"),
        "--lm-path": (extra or {}).get("lm_model") is not None,
        "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn is not None
        or given("prefix_allowed_tokens_fn", None),
    }
    return next((name for name, is_given in unsupported.items() if is_given), None)
