"""fairseq plugin for small and fast sequence-to-sequence models: `--user-dir pet_fairseq`."""

from . import errors
from .checkpoints import safe_loading

safe_loading.allow_fairseq_types()
errors.install_excepthook()

from .baselines import can, deep_shallow, narrow_ffn, patient_kd, token_pruning  # noqa: E402,F401
from .decoding import task  # noqa: E402,F401  registers pet_translation
from .distillation.criterion import PetDistillationCriterion  # noqa: E402,F401  registers it
from .hub import from_pretrained  # noqa: E402,F401
from .pet import simplified_task, transformer  # noqa: E402,F401  a criterion and pet_transformer
from .selfcp import registered  # noqa: E402,F401  task, model and criterion of SelfCP
from .variator import criterion, model  # noqa: E402,F401  registers variator and its criterion
