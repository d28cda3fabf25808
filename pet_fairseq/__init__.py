"""fairseq plugin for small and fast sequence-to-sequence models: `--user-dir pet_fairseq`."""

from . import checkpoints, errors

checkpoints.allow_fairseq_types()
errors.install_excepthook()

from . import distillation  # noqa: E402,F401  registers the criterion pet_distillation
from .pet import simplified_task  # noqa: E402,F401  registers the criterion pet_simplified_task
from .pet import transformer  # noqa: E402,F401  registers the model pet_transformer
from .baselines import can  # noqa: E402,F401  registers the model can_transformer
