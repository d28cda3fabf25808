"""Puts the modules of a site into the layers of an existing model, and leaves its parameters."""

from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator import site_modules
from pet_fairseq.variator.grouping import Grouping
from pet_fairseq.variator.sites import SITES


def attach(layers: nn.ModuleList, site: str, grouping: Grouping) -> list[site_modules.SiteModule]:
    """Put a site's module into each layer, and return the modules in the order of the layers.

    Args:
        layers: fairseq's layers (or any with the parts that the site needs); site: a key of SITES.
    Raises:
        UserError: the layers have no such part.
    """
    module = getattr(site_modules, SITES[site].module)
    modules = []
    for i in range(len(layers)):  # by index: LayerDrop leaves some out of an iteration
        layer = layers[i]
        for name in module.needs:
            if not isinstance(getattr(layer, name, None), nn.Module):
                raise UserError(
                    f"--compression-site {site}: {type(layer).__name__} of the backbone has no "
                    f"{name}; give another site or a backbone of fairseq's Transformer layers"
                )
        modules.append(module.put_into(layer, grouping))
    return modules
