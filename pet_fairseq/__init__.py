"""fairseq plugin for small and fast sequence-to-sequence models: `--user-dir pet_fairseq`."""

from . import checkpoints, errors

checkpoints.allow_fairseq_types()
errors.install_excepthook()

from . import distillation  # noqa: E402,F401  registers the criterion pet_distillation
from .baselines import can, deep_shallow, patient_kd  # noqa: E402,F401
from .decoding import task  # noqa: E402,F401  registers pet_translation
from .hub import from_pretrained  # noqa: E402,F401
from .pet import simplified_task, transformer  # noqa: E402,F401  a criterion and pet_transformer
from .selfcp import registered  # noqa: E402,F401  task, model and criterion of SelfCP
from .variator import criterion, model  # noqa: E402,F401  registers variator and its criterion
from .variator.competitors import narrow_ffn, token_pruning  # noqa: E402,F401
