"""TensorFlow's front end is tested where the extra ``tensorflow`` is installed, and in a process of its own.

TensorFlow takes two seconds to import, and its logs are silenced before that.
"""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

#: Without TensorFlow nothing here is collected, apart from what is checked of its absence.
collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") is not None else ["test_tf_*.py"]
