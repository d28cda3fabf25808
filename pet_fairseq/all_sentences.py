"""Tasks that read every sentence of a data set, where fairseq's leave some out."""

from argparse import ArgumentParser

from fairseq.tasks import FairseqTask


class AllSentences(FairseqTask):
    """Put before a task's base: --required-batch-size-multiple is 1 unless it is given.

    With fairseq's default of 8 batches are smaller than --max-tokens allows, and the last sentences
    are left out if they do not fill a batch of 8: up to 7, of a test set, too.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        parser.set_defaults(required_batch_size_multiple=1)
