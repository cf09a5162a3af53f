"""Vector to set, and the FSPool auto-encoder."""

from torchsets.decoders.auto_encoder import FSPoolAutoEncoder

__all__ = ["FSPoolAutoEncoder"]
