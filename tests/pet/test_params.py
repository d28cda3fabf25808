"""`pet-fairseq params`: widths of models with shared embeddings, and what is refused."""

import pytest

from pet_fairseq.cli import main
from pet_fairseq.parameters import count_parameters
from pet_fairseq.pet.params import find_widths, option_counts, reference_model


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
    assert option_counts(words.split()) == option_counts(["--arch", "pet_transformer_tiny"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--arch bart_base", "--arch bart_base: the model cannot be built to count it ("),
        ("--arch transformer_tiny --reference bart_large", "--reference bart_large: the model "),
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
        ("--arch transformer --target-rate 5 --encoder-attention-heads 0", "--arch transformer: "),
        ("--arch pet_transformer_tiny --target-rate inf", "--target-rate inf: give a percentage"),
        ("--arch pet_transformer_tiny --target-rate nan", "--target-rate nan: give a percentage"),
        ("--arch pet_transformer_tiny --target-rate 5 --length 0", "--length 0: give 1 or more"),
    ],
)
def test_what_is_refused_in_one_line(options, message, capsys):
    assert main(["params", *options.split()]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"pet-fairseq params: error: {message}")
    assert shown.err.count("\n") == 1 and not shown.out
