"""`pet-fairseq params`: widths of models with shared embeddings, and what is refused."""

import re

import pytest

from pet_fairseq.cli import main
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.params import find_widths, option_model, reference_model


@pytest.mark.parametrize("heads", [("4", "4"), ("2", "3")])
def test_widths_of_shared_embeddings_are_equal(heads):
    options = ["--arch", "pet_transformer_tiny", "--share-all-embeddings"]
    options += ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-pairs", "none"]
    options += ["--decoder-pairs", "none"]
    options += ["--encoder-attention-heads", heads[0], "--decoder-attention-heads", heads[1]]
    reference = count_parameters(reference_model("transformer_iwslt_de_en"))
    settings = find_widths(options, 0.3, reference)
    assert len(settings) == 3
    for widths in settings:
        assert widths.encoder == widths.decoder
        assert all(widths.encoder % int(number) == 0 for number in heads)


@pytest.mark.parametrize("words", ["--arch=pet_transformer_tiny", "-a pet_transformer_tiny"])
def test_forms_of_arch(words):
    given, named = option_model(words.split()), option_model(["--arch", "pet_transformer_tiny"])
    assert count_parameters(given) == count_parameters(named)


def test_bart_is_counted_with_its_shared_embeddings_once(capsys):
    width, ffn, positions = 48, 80, 34  # two positions are fairseq's, for padding
    options = f"--encoder-embed-dim {width} --encoder-ffn-embed-dim {ffn} --max-source-positions 32"
    options += f" --decoder-embed-dim {width} --decoder-ffn-embed-dim {ffn}"
    options += " --max-target-positions 32 --encoder-layers 2 --decoder-layers 1"
    assert main(["params", "--arch", "bart_base", *options.split(), "--length", "5"]) == 0
    lines = re.findall(r"^(\D+?) +([\d,]+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    counts = {name: int(number.replace(",", "")) for name, number in lines}
    norm, attention = 2 * width, 4 * (width * width + width)
    feed_forward = 2 * width * ffn + width + ffn
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    layers = 2 * encoder + decoder
    assert counts["layer parameters, stored"] == layers
    embeddings = 4 * width + 2 * positions * width + 2 * norm
    assert counts["all parameters, stored"] == layers + embeddings
    products = 4 * width * width + 2 * 5 * width  # for each word, of an attention to 5 words
    encoder, decoder = products + 2 * width * ffn, 2 * products + 2 * width * ffn
    assert counts["multiply-adds of the layers"] == 5 * (2 * encoder + decoder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--arch transformer --encoder-attention-heads 3",
            "--arch transformer: the model cannot be built to count it (embed_dim must be divis",
        ),
        (
            "--arch transformer --share-all-embeddings --decoder-embed-dim 8",
            "--arch transformer: the model cannot be built to count it (--share-all-embeddings ",
        ),
        (
            "--arch can_transformer --adaptive-softmax-cutoff 100,200",
            "--arch can_transformer: the model cannot be built to count it (cannot specify cutoff",
        ),
        ("--arch transformer_tiny --encoder-embed-dim 0", "--arch transformer_tiny: the model "),
        ("--arch transformer --rate 5 --encoder-attention-heads 0", "--arch transformer: "),
        ("--arch pet_transformer_tiny --rate inf", "--rate inf: give a percentage"),
        ("--arch pet_transformer_tiny --rate nan", "--rate nan: give a percentage"),
        ("--arch pet_transformer_tiny --rate 5 --length 0", "--length 0: give 1 or more"),
    ],
)
def test_what_is_refused_in_one_line(options, message, capsys):
    assert main(["params", *options.split()]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"pet-fairseq params: error: {message}")
    assert shown.err.count("\n") == 1 and not shown.out
