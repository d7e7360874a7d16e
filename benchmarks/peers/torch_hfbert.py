"""BERT of Hugging Face's transformers in eager PyTorch, from a configuration, with random weights of one seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor


def make_bert(config: dict[str, Any]) -> Any:
    """The model of a configuration: the same weights in each process."""
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**config)).eval()


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:  # may be set once in a process
            torch.set_num_interop_threads(1)
        self.model = make_bert(config)
        self.run: Any = self.model

    @torch.no_grad()
    def __call__(self, *arrays: np.ndarray) -> Tensor:
        ids, mask = [torch.from_numpy(array) for array in arrays]
        return self.run(input_ids=ids, attention_mask=mask).last_hidden_state

    def compiled(self) -> tuple[int, float]:
        return 0, 0.0

    def captured(self) -> float:
        """Seconds of compiles in which the model's Python was run, and not compiled."""
        return 0.0

    def versions(self) -> str:
        return f"torch {torch.__version__}, transformers {transformers.__version__}"
