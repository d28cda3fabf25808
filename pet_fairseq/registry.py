"""What this package registers with fairseq; importing the module does it."""

from pet_fairseq import errors
from pet_fairseq.checkpoints import safe_loading

safe_loading.allow_fairseq_types()
errors.install_excepthook()

from pet_fairseq.baselines import can, deep_shallow, patient_kd  # noqa: E402,F401
from pet_fairseq.decoding import task  # noqa: E402,F401  pet_translation
from pet_fairseq.distillation import criterion as distillation  # noqa: E402,F401
from pet_fairseq.pet import simplified_task, transformer  # noqa: E402,F401
from pet_fairseq.selfcp import registered  # noqa: E402,F401  task, model and criterion of SelfCP
from pet_fairseq.variator import criterion, model  # noqa: E402,F401  variator and its criterion
from pet_fairseq.variator.competitors import narrow_ffn, token_pruning  # noqa: E402,F401
