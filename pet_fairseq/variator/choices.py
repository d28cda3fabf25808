"""The values that Variator's options may have; a module that imports nothing."""

SITES = ("ffn", "attention", "attention-kv")  # --compression-site
COMPRESSIONS = ("weighted", "mean")
DECOMPRESSIONS = ("adapter", "copy")
ACTIVATIONS = ("tanh", "none")  # --adapter-activation
