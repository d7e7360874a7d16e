"""Numbers that the native runtime's text and those who call it agree on; free of what writes the text."""

#: How many threads a process's pool may have, the caller's among them.
MOST_THREADS = 1024
#: The data of a tensor whose memory was asked for and not given.
UNANSWERED = -1
#: What a capsule is called that a result over a block of the pool stands on.
BLOCK_NAME = "dyn.block"
