"""What this package registers with fairseq; importing the module does it."""

from pet_fairseq import checkpoints, errors

checkpoints.allow_fairseq_types()
errors.install_excepthook()

from pet_fairseq import distillation  # noqa: E402,F401  the criterion pet_distillation
from pet_fairseq.baselines import (  # noqa: E402,F401
    can,
    deep_shallow,
    narrow_ffn,
    patient_kd,
    token_pruning,
)
from pet_fairseq.decoding import task  # noqa: E402,F401  pet_translation
from pet_fairseq.pet import simplified_task, transformer  # noqa: E402,F401
from pet_fairseq.selfcp import registered  # noqa: E402,F401  task, model and criterion of SelfCP
from pet_fairseq.variator import criterion, model  # noqa: E402,F401  variator and its criterion
