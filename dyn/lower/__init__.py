"""DHLO to kernel IR to text, and the host program. Pure: needs no compiler and no device."""
