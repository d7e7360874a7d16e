"""What the entry reads: the byte offsets of its records, shared by the code that reads them and the code that writes.

A *call table* belongs to a jitted function. It leads to a list of *plans*, one for each form that calls have had: which
arguments there are, how their trees look, what each leaf is. A plan leads to the *versions* that were compiled for that
form. All of it is plain memory, written by ``dyn.call`` and never changed once it is linked in, but for links, counts
and sizes, each of which is one aligned word.
"""

from __future__ import annotations

from enum import IntEnum, auto

#: Everything outside that the entry touches, in the order of its table of addresses.
API = (
    "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyContextVar_Get", "PyObject_Vectorcall", "PyObject_RichCompareBool",
    "PyUnicode_Compare", "PyDict_Next", "PyDict_New", "PyDict_SetItem", "PyTuple_New", "PyTuple_SetItem", "PyList_New",
    "PyList_SetItem", "PyObject_CallOneArg", "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow",
    "PyComplex_RealAsDouble", "PyComplex_ImagAsDouble", "PyEval_SaveThread", "PyEval_RestoreThread", "PyCapsule_New",
    "PyCapsule_GetPointer", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyArray_Empty", "PyArray_NewFromDescr", "PyArray_SetBaseObject",
    "dyn_block_alloc", "dyn_block_free",
    "PyArray_Type", "PyUnicode_Type", "PyLong_Type", "PyFloat_Type", "PyComplex_Type", "PyBool_Type", "Py_None",
    "Py_True", "trace_variable", "config_variable",
)  # fmt: skip


class PyObjects:
    """Where CPython and NumPy keep what the entry reads itself. ``dyn.hosts.cpython`` checks each at the start."""

    HEAD = 16
    TYPE = 8
    #: The number of items of a tuple, a list or a dict.
    SIZE = 16
    #: A tuple's items lie here; of a list this is a pointer to them.
    ITEMS = 24
    BYTES = 32
    ARRAY_DATA, ARRAY_NDIM, ARRAY_DIMS, ARRAY_DESCR, ARRAY_FLAGS = 16, 24, 32, 56, 64
    DESCR_BYTEORDER, DESCR_TYPE_NUMBER = 26, 28


#: NumPy's flags C_CONTIGUOUS and ALIGNED: what an argument has to have.
DENSE = 0x101
#: C_CONTIGUOUS, ALIGNED and WRITEABLE: what a result over our own memory has.
FRESH = 0x501


class Table:
    """A call table."""

    PLANS, SLOW, HITS, BYTES = 0, 8, 16, 24


class Plan:
    """A form of call. The last five say how large a frame is: the most that any version needs."""

    NEXT, ARGUMENTS, KEYWORDS, KEYWORD_NAMES, CONFIG = 0, 8, 16, 24, 32
    STATICS, STATIC_COUNT, CODE, LEAVES, ITEM_SIZES, VERSIONS = 40, 48, 56, 64, 72, 80
    INPUTS, OUTPUTS, OUTPUT_DIMS, STACK = 88, 96, 104, 112
    BYTES = 120


class StaticRecord:
    """A static argument: where it stands, what it has to be, or, if it is of that type, what it has to equal."""

    ARGUMENT, OBJECT, EQUAL, BYTES = 0, 8, 16, 24


class Node(IntEnum):
    """What a record of a plan's code expects next in the container that is being walked."""

    END = 0
    LEAVE = auto()
    #: A static argument, compared already.
    SKIP = auto()
    ARRAY = auto()
    FLOAT = auto()
    INT = auto()
    COMPLEX = auto()
    BOOL = auto()
    NONE = auto()
    TUPLE = auto()
    LIST = auto()
    DICT = auto()


class NodeRecord:
    """``VALUE`` is an array's type number, or a container's type; ``COUNT`` its rank, or its length."""

    KIND, VALUE, COUNT, LEAF, KEY, BYTES = 0, 8, 16, 24, 32, 40


#: How deep containers may nest in a plan.
DEPTH = 24


class Version:
    """A compiled program."""

    NEXT, GUARDS, RUN, CONTEXT, RUNTIME = 0, 8, 16, 24, 32
    CAPTURED, CAPTURED_COUNT, CAPTURED_BYTES = 40, 48, 56
    OUTPUTS, OUTPUT_COUNT, CODE, EPILOGUE = 64, 72, 80, 88
    BYTES = 96


class OutputRecord:
    """A result: its NumPy dtype, bytes an element, rank."""

    DESCR, ITEM_SIZE, RANK, BYTES = 0, 8, 16, 24


class Build(IntEnum):
    """Steps that put the results' tree together, on a stack of objects."""

    END = 0
    RESULT = auto()
    NONE = auto()
    TUPLE = auto()
    LIST = auto()
    DICT = auto()


class BuildRecord:
    """``COUNT`` is a result's number, or how many items a container takes; ``KEYS`` a dict's keys."""

    KIND, COUNT, KEYS, BYTES = 0, 8, 16, 24


class Frame:
    """A call in progress: after these words come the runtime table, then the arrays that the plan sizes."""

    PLAN, VERSION, WORK, THREAD, RESULTS, OBJECTS, INPUTS, ALLOC = 0, 8, 16, 24, 32, 40, 48, 56
    #: How many results have no memory yet. A program that measures a dim asks for some of them later than for others.
    PENDING = 64
    BYTES = 80


#: A frame of more bytes than this is not put on the stack.
STACK_BYTES = 16384
#: Results of fewer bytes are NumPy's own memory, which it keeps a cache of.
SMALL_BYTES = 2048
#: Calls that touch fewer bytes keep the GIL: to let go of it takes 35 ns, and to get it back from a thread that
#: computes in Python takes as long as that thread's turn, 5 ms. See ``python -m benchmarks dispatch``.
RELEASE_BYTES = 1 << 17
