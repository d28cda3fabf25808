"""fairseq's beam search with small models, and its scores against those of one full pass."""

import torch
from fairseq.search import LengthConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from torch.testing import assert_close

from tests.helpers import dictionary


def generate(model, net_input, beam, strategy=None):
    generator = SequenceGenerator(
        [model], dictionary(), beam_size=beam, max_len_b=9, search_strategy=strategy
    )
    return generator.generate([model], {"net_input": net_input})


def check_generation(model, net_input, beam, tolerance):
    """While beams move and sentences leave: scores of hypotheses = those of one full pass.

    Args:
        net_input: a batch as of `helpers.batch`. tolerance: rtol and atol.
    """
    # each sentence ends and leaves when it is as long as its source
    strategy = LengthConstrainedBeamSearch(dictionary(), 1, -1, 1, 0)
    hypotheses = generate(model, net_input, beam, strategy)
    for i, sentence in enumerate(hypotheses):
        for hypothesis in sentence:
            tokens = hypothesis["tokens"][None]
            target = torch.cat([torch.tensor([[dictionary().eos()]]), tokens[:, :-1]], dim=1)
            length = net_input["src_lengths"][i : i + 1]
            source = net_input["src_tokens"][i : i + 1, -length:]
            scores = model(source, length, target)[0].log_softmax(-1)
            expected = scores.gather(2, tokens[..., None])[0, :, 0]
            # the strategy sets the score of the last token
            assert_close(hypothesis["positional_scores"][:-1], expected[:-1], **tolerance)
    last_steps = {max(len(h["tokens"]) for h in sentence) for sentence in hypotheses}
    assert len(last_steps) > 1, "no sentence left before the others"
