"""Prints, as JSON, which of the peers this Python has, and their versions; imports none of them."""
import importlib.metadata
import json

found = {}
for name in ("jax", "torch"):
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
