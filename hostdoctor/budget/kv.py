"""KV-cache arithmetic: what a token and a sequence cost on each tensor-parallel rank, in bytes.

The formulas are those of vLLM's cache specifications (checked against 0.33): docs/plan.md lists them.
"""

from hostdoctor.errors import LayoutError, UsageError
from hostdoctor.facts import Fact

BLOCK_TOKENS, LATENT_BLOCK_TOKENS = 16, 64  # FlashMLA's blocks are 64
KERNEL_ALIGN_TOKENS = 16  # a hybrid model's enlarged block stays a multiple of this
CONCURRENT_BATCHES = 2  # asynchronous scheduling keeps two batches in flight
BATCHED_TOKENS = 8192
_LATENT, _ROPE = 512, 64  # the only MLA shape that the packed formats describe
_PACKED_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
ALIASES = {
    "bfloat16": "bf16", "float16": "bf16", "fp16": "bf16", "half": "bf16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "int8": "int8_per_token_head", "int4": "int4_per_token_head",
}  # fmt: skip
KV_DTYPES = (
    "bf16", "fp8", "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head", "nvfp4", *_PACKED_BYTES,
)  # fmt: skip


class AttentionLayers(Fact, frozen=True, kw_only=True):
    """Layers with keys and values for ``kv_heads`` heads; ``window_tokens`` where they see only the last ones."""

    layers: int
    kv_heads: int
    head_dim: int
    window_tokens: int | None = None


class LatentLayers(Fact, frozen=True, kw_only=True):
    """Layers with one compressed latent for all heads (MLA), and ``indexer_bytes`` for a sparse-attention indexer."""

    layers: int
    latent_dim: int
    rope_dim: int
    indexer_bytes: int = 0


class StateLayers(Fact, frozen=True, kw_only=True):
    """Layers whose memory of a sequence does not grow: a convolution's last inputs and a recurrent state.

    ``channels`` pass the convolution, besides ``groups`` of ``group_channels`` that are repeated where they do not
    divide among the ranks. ``heads`` hold ``head_elements`` of ``state_bytes`` each.
    """

    layers: int
    channels: int
    heads: int
    head_elements: int
    kernel: int
    state_bytes: int
    groups: int = 0
    group_channels: int = 0


class KvLayout(Fact, frozen=True, kw_only=True):
    """What a model keeps of every sequence. ``heads`` are its attention heads, ``draft_layers`` its own MTP layers."""

    attention: tuple[AttentionLayers, ...] = ()
    latent: LatentLayers | None = None
    state: StateLayers | None = None
    heads: int
    max_tokens: int | None = None
    draft_layers: int = 0


class KvOptions(Fact, frozen=True, kw_only=True):
    """How an engine would hold it. ``block_tokens`` None is the engine's own choice."""

    tp: int = 1
    kv_dtype: str = "bf16"
    block_tokens: int | None = None
    batched_tokens: int = BATCHED_TOKENS
    speculative_tokens: int = 0
    hybrid_manager: bool = True
    prefix_caching: bool = False


class WindowCost(Fact, frozen=True, kw_only=True):
    """Sliding layers of one window: bytes a token on a rank while they grow, and the blocks at which they stop."""

    bytes_per_token: int
    most_blocks: int


class KvCost(Fact, frozen=True, kw_only=True):
    """What sequences cost. All bytes are on one rank, but ``bytes_per_token_total`` on all ranks together.

    ``offload_bytes_per_token`` is what an offloaded token takes in host memory: a latent that every rank holds is kept
    once there; None where a model's states are offloaded too. ``fixed_bytes`` are the state layers of one sequence.
    """

    bytes_per_token_per_rank: int
    bytes_per_token_total: int
    offload_bytes_per_token: int | None
    block_tokens: int
    windows: tuple[WindowCost, ...] = ()
    fixed_bytes: int = 0

    def session_bytes(self, tokens: int) -> int:
        """Return what one sequence of ``tokens`` takes on each rank, whole blocks, in bytes."""
        blocks = -(-max(1, tokens) // self.block_tokens)
        window = sum(cost.bytes_per_token * min(blocks, cost.most_blocks) for cost in self.windows)
        return self.fixed_bytes + (self.bytes_per_token_per_rank * blocks + window) * self.block_tokens

    @property
    def state_bytes_per_sequence(self) -> int:
        """What a long sequence takes on each rank beside its growing part: full windows and states, in bytes."""
        window = sum(cost.bytes_per_token * cost.most_blocks for cost in self.windows)
        return self.fixed_bytes + window * self.block_tokens

    def sessions(self, pool_bytes: int, tokens: int) -> int:
        """Return how many sequences of ``tokens`` a pool on each rank holds at once."""
        return max(0, pool_bytes) // max(1, self.session_bytes(tokens))


class OffloadChunks(Fact, frozen=True, kw_only=True):
    """What a host-memory KV pool holds: whole chunks of one block on every rank."""

    bytes_per_chunk: int
    chunks: int
    tokens: int


def offload_chunks(size_bytes: int, offload_bytes_per_token: int, block_tokens: int) -> OffloadChunks:
    """Return how many blocks a pool of ``size_bytes`` (over all ranks of one engine) holds.

    ``offload_bytes_per_token`` is :attr:`KvCost.offload_bytes_per_token`. Raises UsageError for what is not positive.
    """
    if size_bytes < 0 or offload_bytes_per_token < 1 or block_tokens < 1:
        raise UsageError("KV offload: a size from 0, and at least one byte a token and one token a block")
    each = offload_bytes_per_token * block_tokens
    return OffloadChunks(bytes_per_chunk=each, chunks=size_bytes // each, tokens=size_bytes // each * block_tokens)


def kv_dtype_named(name: str) -> str:
    """Return the canonical name of a KV precision; raise UsageError for one that is not known."""
    found = ALIASES.get(name.lower(), name.lower())
    if found not in KV_DTYPES:
        raise UsageError(f"--kv-dtype: not known: {name[:40]!r} (known: {', '.join((*KV_DTYPES, *ALIASES))})")
    return found


def stated_cost(bytes_per_token: int, tp: int, block_tokens: int | None = None) -> KvCost:
    """Return the cost for a stated number of bytes a token on each rank, where nothing grows otherwise."""
    return KvCost(
        bytes_per_token_per_rank=bytes_per_token,
        bytes_per_token_total=bytes_per_token * tp,
        offload_bytes_per_token=bytes_per_token * tp,
        block_tokens=block_tokens or BLOCK_TOKENS,
    )


def kv_cost(layout: KvLayout, options: KvOptions) -> KvCost:
    """Return what sequences of this model cost under these options.

    Raises UsageError where the model's heads do not divide among the ranks, LayoutError for a precision that is not
    defined for this layout.
    """
    _check_ranks(layout, options.tp)
    draft = layout.draft_layers if options.speculative_tokens else 0
    latent = _latent_bytes(layout.latent, options, draft) if layout.latent else 0
    growing, sliding = _attention_bytes(layout, options, 0 if layout.latent else draft)
    block, page_bytes = _block(layout, options)
    windows = tuple(
        WindowCost(bytes_per_token=each, most_blocks=_most_blocks(window, layout, options, block))
        for window, each in sorted(sliding.items())
    )
    pages = 1 + options.speculative_tokens + (1 if options.prefix_caching else 0)
    per_rank = growing + latent
    own = per_rank + sum(sliding.values())  # offloading keeps every block, also those that slid out
    return KvCost(
        bytes_per_token_per_rank=per_rank,
        bytes_per_token_total=per_rank * options.tp,
        offload_bytes_per_token=None if layout.state else (own - latent) * options.tp + latent,
        block_tokens=block,
        windows=windows,
        fixed_bytes=layout.state.layers * page_bytes * pages if layout.state else 0,
    )


def _check_ranks(layout: KvLayout, tp: int) -> None:
    if tp > layout.heads:
        raise UsageError(f"--tp {tp}: more ranks than the model's {layout.heads} attention heads")
    if layout.heads % tp:
        raise UsageError(f"--tp {tp}: does not divide the model's {layout.heads} attention heads")
    for group in layout.attention:
        if group.kv_heads % tp and tp % group.kv_heads:
            raise UsageError(f"--tp {tp}: the model's {group.kv_heads} KV heads do not divide among {tp} ranks")


def _attention_bytes(layout: KvLayout, options: KvOptions, draft: int) -> tuple[int, dict[int, int]]:
    """Return bytes a token on a rank: of layers that grow without end, and of sliding ones by their window."""
    growing = 0
    sliding: dict[int, int] = {}
    for group in layout.attention:
        each = _layer_bytes(group, options)
        if not options.hybrid_manager or not _slides(group, layout.max_tokens):
            growing += each * group.layers
        else:
            window = group.window_tokens or 0
            sliding[window] = sliding.get(window, 0) + each * group.layers
    if draft and layout.attention:
        growing += draft * _layer_bytes(layout.attention[0], options)
    return growing, sliding


def _slides(group: AttentionLayers, max_tokens: int | None) -> bool:
    """Tell whether a context can outgrow the window; one that it cannot outgrow is full attention."""
    return group.window_tokens is not None and (max_tokens is None or group.window_tokens < max_tokens)


def _layer_bytes(group: AttentionLayers, options: KvOptions) -> int:
    heads = max(1, group.kv_heads // options.tp)
    return heads * 2 * _side_bytes(options.kv_dtype, group.head_dim)


def _side_bytes(kv_dtype: str, dim: int) -> int:
    """Return the bytes of one head's key, or value, of one token, with its scales."""
    if kv_dtype in _PACKED_BYTES:
        raise LayoutError(f"{kv_dtype} is a format of MLA models alone")
    if (kv_dtype == "nvfp4" and dim % 16) or (kv_dtype == "int4_per_token_head" and dim % 2):
        raise LayoutError(f"{kv_dtype} is not defined for heads of {dim} elements")
    sizes = {
        "bf16": 2 * dim,
        "fp8": dim,
        "fp8_per_token_head": dim + 4,
        "int8_per_token_head": dim + 4,
        "int4_per_token_head": dim // 2 + 4,
        "nvfp4": dim // 2 + dim // 16,
    }
    return sizes[kv_dtype]


def _latent_bytes(latent: LatentLayers, options: KvOptions, draft: int) -> int:
    kv_dtype = options.kv_dtype
    if kv_dtype == "fp8" and latent.indexer_bytes:
        kv_dtype = "fp8_ds_mla"  # sparse attention reads 8-bit latents in no other format
    dim = latent.latent_dim + latent.rope_dim
    if kv_dtype in _PACKED_BYTES:
        if (latent.latent_dim, latent.rope_dim) != (_LATENT, _ROPE):
            raise LayoutError(f"{kv_dtype} is not defined for a latent of {latent.latent_dim}+{latent.rope_dim}")
        size = _PACKED_BYTES[kv_dtype]
    elif kv_dtype in ("bf16", "fp8"):
        size = 2 * dim if kv_dtype == "bf16" else dim
    else:
        raise LayoutError(f"{kv_dtype} is not defined for MLA models")
    return (size + latent.indexer_bytes) * (latent.layers + draft)


def _block(layout: KvLayout, options: KvOptions) -> tuple[int, int]:
    """Return the tokens of a block, and the bytes of a page that holds one state layer (0 where there is none).

    Attention blocks of hybrid models grow until a page of them holds a state; states are padded to that page.
    """
    block = options.block_tokens or (LATENT_BLOCK_TOKENS if layout.latent else BLOCK_TOKENS)
    if layout.state is None:
        return block, 0
    token_bytes = _layer_bytes(layout.attention[0], options)
    state_bytes = _state_bytes(layout.state, options)
    needed = -(-state_bytes // (token_bytes * KERNEL_ALIGN_TOKENS)) * KERNEL_ALIGN_TOKENS
    block = max(block, needed)
    return block, block * token_bytes


def _state_bytes(state: StateLayers, options: KvOptions) -> int:
    tp = options.tp
    groups = state.groups if state.groups % tp == 0 else tp
    channels = state.channels + groups * state.group_channels
    if state.groups > groups or channels % tp or state.heads % tp:
        raise UsageError(f"--tp {tp}: the model's {state.heads} state heads do not divide among {tp} ranks")
    inputs = channels // tp * (state.kernel - 1 + options.speculative_tokens)
    return inputs * 2 + state.heads // tp * state.head_elements * state.state_bytes


def _most_blocks(window: int, layout: KvLayout, options: KvOptions, block: int) -> int:
    tokens = window - 1 + CONCURRENT_BATCHES * options.batched_tokens
    if layout.max_tokens is not None:
        tokens = min(tokens, layout.max_tokens)
    return -(-tokens // block) + 1
