"""Task `pet_sentence_prediction`: fairseq's sentence_prediction in batches of similar lengths."""

import numpy as np
from fairseq.data import BaseWrapperDataset, FairseqDataset
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from pet_fairseq.all_sentences import AllSentences

MIXING_SEED = 1


class SortedByLength(BaseWrapperDataset):
    """A data set whose sentences are put into batches by length.

    Sentences of one length stay in the order of the wrapped data set, which may be a random one.

    Args:
        mixed: whether short and long batches come mixed, always in the same order. fairseq itself
            shuffles the batches of a training in every epoch, but not those of a validation, of
            which --max-valid-steps may take the first ones only.
    """

    def __init__(self, dataset: FairseqDataset, mixed: bool):
        super().__init__(dataset)
        self.mixed = mixed

    def ordered_indices(self) -> np.ndarray:
        """The numbers of the sentences, in the order in which batches are filled."""
        order = self.dataset.ordered_indices()
        lengths = [self.dataset.num_tokens(index) for index in order]
        return order[np.argsort(lengths, kind="stable")]

    def batch_by_size(self, indices: np.ndarray, **sizes) -> list[np.ndarray]:
        """As fairseq's, for its options of sizes."""
        batches = super().batch_by_size(indices, **sizes)
        if not self.mixed:
            return batches
        return [batches[i] for i in np.random.RandomState(MIXING_SEED).permutation(len(batches))]


@register_task("pet_sentence_prediction", dataclass=SentencePredictionConfig)
class PetSentencePredictionTask(AllSentences, SentencePredictionTask):
    """fairseq's sentence_prediction with less padding: batches have sentences of similar lengths.

    fairseq's own fills its batches at random, so that of --max-tokens most may be padding.
    """

    def load_dataset(self, split, combine=False, **kwargs):
        """As fairseq's; `--no-shuffle` keeps the order of the file in its batches."""
        super().load_dataset(split, combine, **kwargs)
        if not self.cfg.no_shuffle:
            self.datasets[split] = SortedByLength(self.datasets[split], mixed=split != "train")
        return self.datasets[split]
