"""What a compilation found out and decided, told. Calls need ``log`` and ``versions`` alone, which import little."""
