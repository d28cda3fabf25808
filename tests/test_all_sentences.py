"""Which multiple of sentences batches have to be, by task."""

import pytest
from fairseq import options

TASKS = {
    "pet_translation": (1, ()),
    "pet_sentence_prediction": (1, ("--num-classes", "2")),
    "selfcp": (1, ()),
    "translation": (8, ()),
}
COMMANDS = {
    "generate": (options.get_generation_parser, ("--path", "model.pt")),
    "validate": (options.get_validation_parser, ("--path", "model.pt")),
    "train": (options.get_training_parser, ("--arch", "transformer_tiny")),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("task", TASKS)
def test_ours_have_one_unless_another_is_given(task, command):
    default, needed = TASKS[task]
    make_parser, more = COMMANDS[command]
    words = ["BIN", "--task", task, *needed, *more]
    for given, multiple in ([], default), (["--required-batch-size-multiple", "4"], 4):
        args = options.parse_args_and_arch(make_parser(), [*words, *given])
        assert args.required_batch_size_multiple == multiple
