"""Criterion `selfcp_lm`: the language model's loss on the response only (SelfCP, eq. 3)."""

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion, CrossEntropyCriterionConfig
from fairseq.logging import metrics


@register_criterion("selfcp_lm", dataclass=CrossEntropyCriterionConfig)
class SelfCpCriterion(CrossEntropyCriterion):
    """Cross-entropy of the response; also logs how many tokens were read, of how many."""

    def forward(self, model, sample, reduce=True):
        """The loss (nats, summed over the response's tokens), its denominator, and what to log."""
        output = model(**sample["net_input"])
        loss, _ = self.compute_loss(model, output, sample, reduce=reduce)
        target = sample["target"]
        real = target.ne(self.padding_idx)
        right = (output[0].argmax(dim=-1).eq(target) & real).sum()
        sample_size = len(target) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(target),
            "sample_size": sample_size,
            "right": right,
            "prompt": sample["net_input"]["src_lengths"].sum() - len(target),  # without <s>
            "read": output[1]["read"].sum(),
        }
        return loss, sample_size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Log what fairseq does (bits), and the accuracy of tokens in percent.

        Also log the mean number of tokens of query and prompt, and of those that were read in their
        place, memory tokens included.
        """
        super().reduce_metrics(logging_outputs)

        def total(key: str) -> float:
            return sum(float(log[key]) for log in logging_outputs)

        tokens, sentences = total("ntokens"), total("nsentences")
        metrics.log_scalar("accuracy", 100 * total("right") / tokens, tokens, round=2)
        for key in ("prompt", "read"):
            metrics.log_scalar(key, total(key) / sentences, sentences, round=1)
