"""The CUDA driver through ctypes: what copies between host and GPU need, and nothing else (libcuda.so.1, no toolkit).

Names carry the suffixes that ``cuda.h`` gives them since CUDA 4. Sizes are bytes, addresses plain integers.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from hostdoctor.errors import MeasureError
from hostdoctor.measure.cuda_version import version_words

LIBRARY = "libcuda.so.1"
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: does not wait for the default stream
_SUCCESS = 0
_INVALID_DEVICE = 101
_FIRST_VERSION = 1000  # CUDA 1.0
_NAME_BYTES = 128

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetByPCIBusId": (POINTER(c_int), c_char_p),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemHostRegister_v2": (c_void_p, c_size_t, c_uint),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
}


class CudaError(MeasureError):
    """A call of the driver failed; ``code`` is its CUresult. The text has the driver's own words."""

    def __init__(self, call: str, code: int, words: str) -> None:
        self.call = call
        self.code = code
        super().__init__(f"{call}: {words}")


class Cuda:
    """The driver, initialised. Every method raises CudaError with the driver's own words when a call fails.

    Raises MeasureError where the library cannot be loaded or lacks a function.
    """

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise MeasureError(f"no CUDA driver: {error}") from None
        for name, arguments in _SIGNATURES.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise MeasureError(f"{LIBRARY} has no {name}: the driver is too old") from None
            function.argtypes, function.restype = arguments, c_int
        self.call("cuInit", 0)

    def function(self, name: str) -> Any:
        """Return a function of the driver for calls in a tight loop; it returns a CUresult, see :meth:`check`."""
        return getattr(self._library, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        self.check(name, getattr(self._library, name)(*arguments))

    def check(self, name: str, code: int) -> None:
        """Raise CudaError for any CUresult but success."""
        if code != _SUCCESS:
            raise CudaError(name, code, self.words(code))

    def _given(self, name: str, value: int | None) -> int:
        if not value:
            raise MeasureError(f"{name}: says that it succeeded, and gives nothing")
        return value

    def words(self, code: int) -> str:
        """Return a CUresult as ``CUDA_ERROR_OUT_OF_MEMORY (2): out of memory``."""
        name, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        self._library.cuGetErrorString(code, ctypes.byref(text))
        named = (name.value or b"unknown error").decode("ascii", "replace")
        told = (text.value or b"").decode("ascii", "replace")
        return f"{named} ({code})" + (f": {told}" if told else "")

    def driver_version(self) -> str | None:
        """Return the newest CUDA version that the driver speaks, ``12.8``, None where it tells nonsense."""
        version = c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return version_words(version.value) if version.value >= _FIRST_VERSION else None

    def device_at(self, bdf: str) -> int:
        """Return the CUDA ordinal of the GPU at a PCI address: CUDA's order is not the driver's, nor PCI's."""
        ordinal = c_int()
        code = self._library.cuDeviceGetByPCIBusId(ctypes.byref(ordinal), bdf.encode("ascii", "replace"))
        if code == _INVALID_DEVICE:
            hint = f"{self.words(code)}; CUDA shows no GPU at {bdf} (CUDA_VISIBLE_DEVICES may leave it out)"
            raise CudaError("cuDeviceGetByPCIBusId", code, hint)
        self.check("cuDeviceGetByPCIBusId", code)
        return ordinal.value

    def device_name(self, ordinal: int) -> str:
        """Return a GPU's product name."""
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", name, _NAME_BYTES, ordinal)
        return name.value.decode("utf-8", "replace")

    def enter(self, ordinal: int) -> int:
        """Make a GPU's primary context the calling thread's, and return it for :meth:`share`."""
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self.call("cuCtxSetCurrent", context)
        return self._given("cuDevicePrimaryCtxRetain", context.value)

    def share(self, context: int) -> None:
        """Make a context the calling thread's as well."""
        self.call("cuCtxSetCurrent", context)

    def leave(self, ordinal: int) -> None:
        """Give the primary context back."""
        self.call("cuDevicePrimaryCtxRelease_v2", ordinal)

    def stream(self) -> int:
        """Return a new stream that waits for no other."""
        stream = c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream.value or 0

    def device_memory(self, size_bytes: int) -> int:
        """Return the address of new memory on the GPU."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size_bytes)
        return self._given("cuMemAlloc_v2", address.value)

    def host_memory(self, size_bytes: int) -> int:
        """Return the address of new pinned memory; it comes from where the calling thread's memory policy says."""
        address = c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), size_bytes, 0)
        return self._given("cuMemHostAlloc", address.value)

    def pin(self, address: int, size_bytes: int) -> None:
        """Pin memory that is there already; some platforms refuse it (integrated GPUs)."""
        self.call("cuMemHostRegister_v2", address, size_bytes, 0)
