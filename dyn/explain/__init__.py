"""Explanations of a compilation. Calls need ``log`` and ``versions`` alone, which import little."""
