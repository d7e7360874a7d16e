"""Layout of the entry's records: byte offsets, shared by the code that reads them and the code that writes.

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
    "PyUnicode_Compare", "PyDict_Next", "PyDict_Copy", "PyDict_SetItem", "PyTuple_New", "PyTuple_SetItem", "PyList_New",
    "PyList_SetItem", "PyObject_CallOneArg", "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow",
    "PyComplex_RealAsDouble", "PyComplex_ImagAsDouble", "PyEval_SaveThread", "PyEval_RestoreThread", "PyCapsule_New",
    "PyCapsule_GetPointer", "PyCapsule_IsValid", "PyMem_RawMalloc", "PyMem_RawFree", "PyObject_GetAttr",
    "PyObject_VectorcallMethod", "PyObject_GetBuffer", "PyBuffer_Release", "PyObject_CallNoArgs", "PyLong_FromVoidPtr",
    "PyType_GenericAlloc", "PyDict_GetItem", "PyDict_GetItemWithError", "qsort",
    "PyArray_Empty", "PyArray_NewFromDescr", "PyArray_SetBaseObject",
    "dyn_block_alloc", "dyn_block_free", "dyn_copy_dense",
    "PyArray_Type", "PyUnicode_Type", "PyLong_Type", "PyFloat_Type", "PyComplex_Type", "PyBool_Type", "Py_None",
    "Py_True", "Py_False", "trace_variable", "config_variable",
    "str_requires_grad", "str_aval", "str_dtype", "str_weak_type", "str_delete",
    "str___array__", "str_shape",
)  # fmt: skip


class PyObjects:
    """Offsets in CPython's and NumPy's objects that the entry reads itself. ``dyn.hosts.cpython`` checks each first."""

    HEAD = 16
    REFERENCES, TYPE = 0, 8
    #: The number of items of a tuple, a list or a dict.
    SIZE = 16
    #: A tuple's items lie here: after its hash, since CPython 3.14.
    TUPLE_ITEMS = tuple.__basicsize__
    #: Of a list, a pointer to its items.
    LIST_ITEMS = 24
    #: Of a dict where ``dyn.hosts.cpython.has_dict_tags``: a number that no dict has had before its last change.
    DICT_TAG = 24
    BYTES = 32
    ARRAY_DATA, ARRAY_NDIM, ARRAY_DIMS, ARRAY_STRIDES, ARRAY_BASE, ARRAY_DESCR, ARRAY_FLAGS = 16, 24, 32, 40, 48, 56, 64
    DESCR_BYTEORDER, DESCR_TYPE_NUMBER = 26, 28


#: NumPy's flags C_CONTIGUOUS and ALIGNED: what an argument that is read where it lies has to have.
DENSE = 0x101
#: C_CONTIGUOUS, ALIGNED and WRITEABLE: what a result over our own memory has.
FRESH = 0x501
#: OWNDATA, and WRITEABLE.
OWNDATA, WRITEABLE = 0x4, 0x400


class EntryTable:
    """A call table. ``STATE`` is null, or a callable whose answer has to equal a plan's ``STATE``."""

    PLANS, SLOW, HITS, STATE, BYTES = 0, 8, 16, 24, 32


class EntryPlan:
    """A form of call. ``RECORDS`` are the addresses of the leaves' node records, ``FOREIGN`` how many of the leaves are
    read by functions of other libraries, ``ROOM`` the words that the leaves' dims and strides take. From ``INPUTS`` on
    it says how large a frame is: the most that any version needs. ``SPANS`` and ``DONATED`` are 0 where no version
    donates."""

    NEXT, ARGUMENTS, KEYWORDS, KEYWORD_NAMES, CONFIG = 0, 8, 16, 24, 32
    STATICS, STATIC_COUNT, CODE, LEAVES, ITEM_SIZES, VERSIONS = 40, 48, 56, 64, 72, 80
    RECORDS, FOREIGN, ROOM, STATE = 88, 96, 104, 112
    INPUTS, OUTPUTS, OUTPUT_DIMS, STACK, SPANS, DONATED = 120, 128, 136, 144, 152, 160
    BYTES = 168


class StaticRecord:
    """A static argument: where it stands, what it has to be, or, if it is of that type, what it has to equal."""

    ARGUMENT, OBJECT, EQUAL, BYTES = 0, 8, 16, 24


class PlanNode(IntEnum):
    """Opcodes of a plan: the kind of item that is expected next in the container that is being walked."""

    END = 0
    LEAVE = auto()
    #: A static argument, compared already.
    SKIP = auto()
    #: A part of a container that is static: the object ``VALUE``, or an equal string, int or float.
    SAME = auto()
    ARRAY = auto()
    #: An array that a function of another library describes.
    FOREIGN = auto()
    FLOAT = auto()
    INT = auto()
    COMPLEX = auto()
    BOOL = auto()
    #: An int that is no less than 0, as an array of that size and of 0.
    SIZE = auto()
    NONE = auto()
    TUPLE = auto()
    LIST = auto()
    DICT = auto()


class NodeRecord:
    """``COUNT`` is an array's rank, or a container's length.

    ``VALUE`` is a container's type, or what tells an array's dtype: NumPy's number of it, DLPack's word, or the address
    of the dtype object. Of arrays moreover: ``HOST``, how they are read (null: they are NumPy's), ``ROOM``, the first
    of the frame's words for dims, ``UNIT``, the bytes of a number (half an element where that is complex), ``SIZES``,
    null or for each axis the size that it has to have (ANY, NOT_ZERO), and ``WEAK``:
    0, 1, or ANY; NumPy's arrays have this machine's byte order unless it is ANY. With ``ROWS`` a foreign array has to
    lie row by row. A Python number with ``UNIT`` 4 becomes one of 32 bits. An int lies between ``VALUE`` and ``COUNT``.
    """

    KIND, VALUE, COUNT, LEAF, KEY, HOST, ROOM, UNIT, SIZES, WEAK, ROWS = 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80
    BYTES = 88


#: In ``NodeRecord.SIZES``: every size will do, or every size but 0. ``ANY`` in ``WEAK`` too.
ANY, NOT_ZERO = -1, -2


class ArrayReader(IntEnum):
    """Ways to read an array's memory, shape and dtype."""

    #: The entry knows where NumPy's arrays keep what they have. No record says so.
    NUMPY = 0
    #: An object that holds an ndarray at an offset.
    HOLDER = auto()
    #: A function ``int (PyObject*, DLTensor*)``, as DLPack's exchange interface has it.
    DLPACK = auto()
    #: CPython's buffers. The dtype is the one that JAX's ``aval`` has.
    BUFFER = auto()
    #: The buffer of what ``__array__()`` returns, for dtypes that JAX gives no buffer of.
    ARRAY = auto()
    #: An object that holds an array on a device at an offset.
    DEVICE_HOLDER = auto()


class HostRecord:
    """Record of an array type: the type, a Reader, and the offset of its ndarray or the reading function's address.

    An array that requires a gradient is read where the callable ``GRADIENTS`` says that none are computed. PyTorch's
    have at ``IMPL`` the address of what they stand for, which has at ``KEYS`` its dispatch keys: none of ``ODD_KEYS``.
    At ``STORAGE`` that has the address of a storage, which has at ``DATA`` that of its memory. ``STORAGE`` is 0 where
    it is not known that a change of a tensor shows in these words. ``DEVICE`` is null, or the record of the device that
    arrays are on. By DLPack it is ``PLACE``, its kind and in the upper half its number, and ``CURRENT`` is a callable
    that gives the library's current stream there.
    """

    TYPE, READER, WHERE, GRADIENTS, IMPL, KEYS, ODD_KEYS, STORAGE, DATA = 0, 8, 16, 24, 32, 40, 48, 56, 64
    DEVICE, PLACE, CURRENT, BYTES = 72, 80, 88, 96


class DeviceSlots:
    """Types of objects for memory of devices, and where they have their slots: a DeviceArray's, and a Block's."""

    ARRAY_TYPE, ADDRESS, CONTEXT, DTYPE, OWNER, SHAPE, STREAM, IS_SHARED = 0, 8, 16, 24, 32, 40, 48, 56
    BLOCK_TYPE, BLOCK_ADDRESS, BLOCK_CONTEXT, BLOCK_STREAM, BYTES = 64, 72, 80, 88, 96


class DeviceRecord:
    """A device: its Context, the driver's functions that tell and set a thread's current device, and the number that
    they know it by; a word that is 0 in a process that was forked since; the words of a ``DeviceState`` that are the
    same for all calls; the DeviceSlots; the ring of pinned memory (``dyn.runtime.staging``), and what copies through
    it."""

    CONTEXT, GET_CURRENT, SET_CURRENT, HANDLE, ALIVE, STATE, SLOTS, STAGING, COPY, BYTES = range(0, 80, 8)


#: How deep containers may nest in a plan.
DEPTH = 24
#: Arrays of more axes are not read in another order than row by row.
MOST_ORDERED = 8


class EntryVersion:
    """A compiled program."""

    NEXT, GUARDS, RUN, CONTEXT, RUNTIME = 0, 8, 16, 24, 32
    CAPTURED, CAPTURED_COUNT, CAPTURED_BYTES = 40, 48, 56
    OUTPUTS, OUTPUT_COUNT, CODE, EPILOGUE, WRAPS = 64, 72, 80, 88, 96
    #: How many of the leaves, from the first on, are arguments of the program; captured arrays come after them.
    ARGUMENTS = 104
    #: Null, or a test of sizes.
    TEST = 112
    #: Results that may lie in an argument's memory; arguments that a call uses up; the memory of captured arrays.
    REUSES, REUSE_COUNT, DONATED, DONATED_COUNT, CAPTURED_SPANS, CAPTURED_SPAN_COUNT = 120, 128, 136, 144, 152, 160
    #: A callable of two addresses: of a frame from its SITE on, and of the inputs. It raises what the failure of a call
    #: is that may have written to arguments, or that a device's driver told, or returns None where it has not.
    FAILED = 168
    #: What the program relies on beside its arguments: dicts, tensors, and lists, below.
    DICTS, DICT_COUNT, TENSORS, TENSOR_COUNT = 176, 184, 192, 200
    #: The rank of the arrays whose axes may be permuted, all arguments' and results' alike, or 0.
    SYMMETRIC = 208
    #: Null, or the record of the device that the program runs on; the stream of its captured arrays, or -1.
    DEVICE, STREAM = 216, 224
    #: Of a program on a device: the arguments that are in this machine's memory.
    STAGED, STAGED_COUNT = 232, 240
    LISTS, LIST_COUNT = 248, 256
    #: The memory that arrays of dyn's which it captures stood for.
    NAMES, NAME_COUNT = 264, 272
    BYTES = 280


class StagedRecord:
    """An argument that each call copies to the device, and the bytes of its elements."""

    LEAF, ITEM_SIZE, BYTES = 0, 8, 16


class DictRecord:
    """The dict ``DICT`` has ``COUNT`` ``ENTRIES``, and with ``WHOLE`` no more, and in their order.

    With ``TAGGED`` it had them when its tag was ``TAG``.
    """

    DICT, ENTRIES, COUNT, WHOLE, TAGGED, TAG, BYTES = 0, 8, 16, 24, 32, 40, 48


class EntryRecord:
    """A key, and the object under it."""

    KEY, VALUE, BYTES = 0, 8, 16


class ListRecord:
    """The list ``LIST`` has ``COUNT`` items, which are the objects at ``ENTRIES``."""

    LIST, ENTRIES, COUNT, BYTES = 0, 8, 16, 24


class NameRecord:
    """The object ``OBJECT`` has the object ``VALUE`` in the slot at ``WHERE``."""

    OBJECT, WHERE, VALUE, BYTES = 0, 8, 16, 24


class HeldTensorRecord:
    """The tensor ``OBJECT``, read as ``HOST`` says, is of the dtype ``TYPE`` (DLPack's word), has ``RANK`` axes of
    ``SIZES``, and lies row by row at ``ADDRESS`` (null: anywhere).

    ``WORDS``, where it is not null, are what its impl had when it was so, and the address of its storage's memory.
    """

    OBJECT, HOST, TYPE, RANK, SIZES, ADDRESS, WORDS, BYTES = 0, 8, 16, 24, 32, 40, 48, 56
    #: The words of an impl that are compared: the first, and how many. Before them are its type and reference counts.
    FIRST_WORD, WORD_COUNT = 2, 22
    #: Sizes and strides of more axes lie elsewhere.
    MOST_AXES = 5


class ReuseRecord:
    """The result ``OUTPUT`` may lie where the leaf does: it is the argument's array itself, or a view of it in another
    shape. ``DONATED`` is the number of the leaf's DonatedRecord, or -1."""

    OUTPUT, LEAF, DONATED, BYTES = 0, 8, 16, 24


class DonatedRecord:
    """An argument that a call uses up. With ``LABEL`` it is a holder, whose array is taken out, and whose slot at
    ``SLOT`` gets the label; without, its method ``delete`` is called."""

    LEAF, LABEL, SLOT, BYTES = 0, 8, 16, 24


class Span:
    """Memory of an array: its first byte, the one after its last, and the number of the leaf or -1."""

    START, END, LEAF, BYTES = 0, 8, 16, 24


class SizeOp(IntEnum):
    """Instructions of a test of sizes (``conditions``)."""

    END = 0
    NUMBER = auto()
    SIZE = auto()
    #: Takes a number, and answers no where it is 0.
    CHECK = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    #: Rounded down; and the remainder, which has the divisor's sign.
    DIVIDE = auto()
    REMAINDER = auto()
    MAX = auto()
    MIN = auto()
    EQ = auto()
    NE = auto()
    GE = auto()


class TestRecord:
    """An instruction: ``VALUE`` is a number, or a leaf, of which ``AXIS`` is meant."""

    OP, VALUE, AXIS, BYTES = 0, 8, 16, 24


#: How many numbers a test may have on its stack.
TEST_DEPTH = 32


class OutputRecord:
    """A result: its NumPy dtype, bytes an element, rank.

    With ``MAKE``, the address of DLPack's ``int (DLManagedTensorVersioned*, PyObject**)``, it is made by that, of dtype
    ``TYPE`` (DLPack's word). With ``WRAP`` it is what that callable makes of the ndarray; with ``HOLDER``, the record
    of a type that is read by a HOLDER, a new object of that type which holds it. ``EntryVersion.WRAPS`` says that there
    are such. ``PUT`` says how to do what ``WRAP`` would, where that has met the shape.
    """

    DESCR, ITEM_SIZE, RANK, MAKE, TYPE, WRAP, HOLDER, PUT, BYTES = 0, 8, 16, 24, 32, 40, 48, 56, 64


class PutRecord:
    """Record of JAX's constructor of arrays: ``FUNCTION(AVALS[array.shape], SHARDING, [array], DEVICES, False)``."""

    FUNCTION, AVALS, SHARDING, DEVICES, BYTES = 0, 8, 16, 24, 32


class Build(IntEnum):
    """Steps that put the results' tree together, on a stack of objects."""

    END = 0
    RESULT = auto()
    #: The object that an array came in, and an object that is always the same.
    ARGUMENT = auto()
    OBJECT = auto()
    TUPLE = auto()
    LIST = auto()
    DICT = auto()


class BuildRecord:
    """``COUNT`` is the number of a result or a leaf, or a container's length; ``VALUE`` an object, or the address of a
    dict with a dict's keys and of these."""

    KIND, COUNT, VALUE, BYTES = 0, 8, 16, 24


class Tag:
    """Bits of ``Tensor.TAG``: the elements do not lie row by row, or not aligned; their bytes are swapped; the memory
    is to be taken for a result."""

    ODD, SWAPPED, GIVEN = 1, 2, 4
    COPIED = ODD | SWAPPED


class DLTensor:
    """DLPack's ``DLTensor``, and the words before it in a ``DLManagedTensorVersioned``."""

    DATA, DEVICE, RANK, TYPE, DIMS, STRIDES, OFFSET, BYTES = 0, 8, 16, 20, 24, 32, 40, 48
    VERSION, CONTEXT, DELETER, FLAGS, HEAD = 0, 8, 16, 24, 32
    #: The version whose structures these are: major, and minor in the upper half.
    NUMBER = 1 | 3 << 32
    CPU = 1  # the kind; its number is 0


class PyBuffer:
    """CPython's ``Py_buffer``. ``SIMPLE_DIMS`` asks for sizes and for elements row by row (``PyBUF_ND``)."""

    DATA, OBJECT, LENGTH, ITEM_SIZE, RANK, DIMS, BYTES = 0, 8, 16, 24, 36, 48, 80
    SIMPLE_DIMS = 8


class EntryFrame:
    """A call in progress: after these words come the runtime table, then the arrays that the plan sizes."""

    PLAN, VERSION, WORK, THREAD, RESULTS, OBJECTS, INPUTS, ALLOC = 0, 8, 16, 24, 32, 40, 48, 56
    #: How many results have no memory yet. A program that measures a dim asks for some of them later than for others.
    PENDING = 64
    #: Whether the leaves are held; how many inputs have a tag; the words for dims; a buffer for each foreign leaf; for
    #: each leaf a block with its elements row by row.
    HELD, TAGGED, ROOM, BUFFERS, BLOCKS = 72, 80, 88, 96, 104
    #: Memory that small results share: where the next one goes, how many bytes are left, and the capsule that owns it.
    SHARED, SHARED_LEFT, SHARED_CAPSULE = 112, 120, 128
    #: How many arguments' memory is given to results; where spans and the arrays taken out of holders are kept; for
    #: each leaf the object that its array was found in.
    GIVEN, SPANS, TAKEN_OUT, HOLDERS = 136, 144, 152, 160
    #: Where the program has failed, how many values it told, and these, in memory of their own, or null.
    SITE, VALUE_COUNT, VALUES = 168, 176, 184
    #: Null, or the axes of arguments and results from the outermost in memory to the innermost.
    ORDER = 192
    #: Of a call on a device: its stream, or -1 as long as it is not known, whether a library was asked for that, what
    #: the thread's current device was, the state of the runtime table, and memory there that arguments were copied to.
    STREAM, ASKED, BEFORE, STATE, STAGED = 200, 208, 216, 224, 232
    BYTES = 240


#: The number of no stream, and of the one that a device has without being asked.
NO_STREAM, DEFAULT_STREAM = -1, 0
#: A frame of more bytes than this is not put on the stack.
STACK_BYTES = 16384
#: Copies of fewer bytes are made with the GIL held.
COPY_BYTES = 1 << 17
#: Results of fewer bytes are NumPy's own memory, which it keeps a cache of.
SMALL_BYTES = 2048
#: Results of at most so many bytes share blocks, in calls that have at least so many results: the memory that NumPy
#: keeps for small arrays is for a few at a time. One that stays keeps its block.
SHARED_BYTES, SHARED_COUNT, SHARED_BLOCK = 256, 16, 4032
#: Calls that touch fewer bytes keep the GIL: to let go of it takes 35 ns, and to get it back from a thread that
#: computes in Python takes as long as that thread's turn, 5 ms. See ``python -m benchmarks dispatch``.
RELEASE_BYTES = 1 << 17
