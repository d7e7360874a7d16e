"""The same BERT in dyn, which closes over weights that nothing can change."""

from __future__ import annotations

from typing import Any

import dyn
from benchmarks.peers import dyn_bert


class Peer(dyn_bert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, dyn.tree.map(dyn.asarray, params), threads)
