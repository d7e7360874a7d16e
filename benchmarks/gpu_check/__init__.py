"""The first minutes with a GPU: what dyn does there, from a bare checkout, most telling first.

``scripts/gpu-check.sh`` finds a Python and runs ``python -m benchmarks.gpu_check``. Nothing needs to be installed: what
the machine lacks travels in a folder of wheels (``make gpu-wheels``). Each part is a process of its own with a limit of
time; what it found is written down check by check, and told as JSON and as a page after each part.
"""
